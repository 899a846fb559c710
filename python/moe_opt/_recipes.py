"""The recipes of products of bf16 tensors.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

from typing import Optional

# What K and N are multiples of, by recipe.
MULTIPLES = {"fp8_rowwise": 16, "fp8_tensorwise": 16, "fp8_blockwise": 16, "mxfp8": 32}
RECIPES = tuple(MULTIPLES)
# Those that round to bf16: what is saved of an operand for its gradient is one tensor, without scales.
ROUNDED = ("mxfp8",)


def check(recipe: str) -> None:
    """ValueError for a recipe that is none."""
    if recipe not in RECIPES:
        raise ValueError(f"recipe is {recipe!r}; it must be one of {', '.join(RECIPES)}")


def check_weights(shape: tuple, recipe: str) -> None:
    """ValueError for a recipe that is none, or weights (E, K, N) that it does not take."""
    check(recipe)
    multiple = MULTIPLES[recipe]
    if shape[1] % multiple or shape[2] % multiple:
        raise ValueError(f"b is {tuple(shape)}; K and N must be multiples of {multiple} for {recipe}")


# So many tokens of an expert on average, or fewer, take as long as reading its weights.
FEW_TOKENS = 64


def tokens_of_mx(qa: tuple, qb: tuple, offs: Optional[tuple]) -> str:
    """Of a product with scales of MX blocks, which has bundles for both: whether experts have "few" tokens or "many". By the shapes of qa,
    qb and offs; None where there are no groups. Ranks that no bundle has count as few."""
    if min(len(qa), len(qb)) < 2 or offs == ():
        return "few"
    rows, experts = (qa[1], 1) if offs is None else (qa[len(qb) == 2], offs[0])
    return "few" if rows <= FEW_TOKENS * experts else "many"
