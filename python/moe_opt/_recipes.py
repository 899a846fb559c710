"""The recipes of products of bf16 tensors.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

# What K and N are multiples of, by recipe.
MULTIPLES = {"fp8_rowwise": 16, "fp8_tensorwise": 16, "fp8_blockwise": 16, "mxfp8": 32}
RECIPES = tuple(MULTIPLES)
# Those that round to bf16: what is saved of an operand for its gradient is one tensor, without scales.
ROUNDED = ("mxfp8",)


def check(recipe: str) -> None:
    """ValueError for a recipe that is none."""
    if recipe not in MULTIPLES:
        raise ValueError(f"recipe is {recipe!r}; it must be one of {', '.join(RECIPES)}")


def check_weights(shape: tuple, recipe: str) -> None:
    """ValueError for a recipe that is none, or weights (E, K, N) that it does not take."""
    check(recipe)
    multiple = MULTIPLES[recipe]
    if shape[1] % multiple or shape[2] % multiple:
        raise ValueError(f"b is {tuple(shape)}; K and N must be multiples of {multiple} for {recipe}")
