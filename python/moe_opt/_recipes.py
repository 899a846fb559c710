"""The recipes of products of bf16 tensors.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import functools
from typing import Any, Optional

from moe_opt import _bundles, _mixed

# What K and N are multiples of, by recipe.
MULTIPLES = {"fp8_rowwise": 16, "fp8_tensorwise": 16, "fp8_blockwise": 16, "mxfp8": 32}
RECIPES = tuple(MULTIPLES)
# Those that round to bf16: what is saved of an operand for its gradient is one tensor, without scales.
ROUNDED = ("mxfp8",)


def check(recipe: str) -> None:
    """ValueError for a recipe that is none."""
    if recipe not in RECIPES:
        raise ValueError(f"recipe is {recipe!r}; it must be one of {', '.join(RECIPES)}")


def check_weights(shape: tuple[int, ...], recipe: str) -> None:
    """ValueError for a recipe that is none, or weights (E, K, N) that it does not take."""
    check(recipe)
    multiple = MULTIPLES[recipe]
    if shape[1] % multiple or shape[2] % multiple:
        raise ValueError(f"b is {tuple(shape)}; K and N must be multiples of {multiple} for {recipe}")


# Tokens of an expert on average.
FEWEST_TOKENS = 16  # up to which a product with scales of FP8 blocks has the tiles for fewest
FEW_TOKENS = 64  # up to which a product takes as long as reading the weights
BLOCKS_TOKENS = 256  # up to which sums of blocks are faster than weights in bf16
MIXED_TOKENS = 1152  # up to which the product makes weights of 16 bits in registers
SOME_TOKENS = 512  # from which on a product with scales of FP8 blocks has the tiles for many

Shape = tuple[int, ...]


def fp32_choice(accumulate: str, qa: Optional[Shape], ranks: tuple[int, int], offs: Optional[Shape]) -> dict[str, str]:
    """Attributes in the index of the bundle of a product with fp32 scales: by the shapes of qa, None where it is not known, and offs, None where
    there are no groups; and by the ranks of sa and sb. Those of FP8 blocks have several forward, by how many tokens experts have, whose sums are
    always promoted."""
    if not has_blocks(ranks, offs):
        return {"accumulate": accumulate}
    # Of ranks that no bundle has, and of unknown sizes: many.
    size = blocks_size(qa[0], offs[0]) if qa and offs else "many"
    return {"accumulate": "promoted" if accumulate == "fast" else accumulate, "tokens": size}


def blocks_size(tokens: int, experts: int) -> str:
    """Which of the products with scales of FP8 blocks is used for so many tokens."""
    if tokens <= FEWEST_TOKENS * experts:
        return "fewest"
    if tokens <= FEW_TOKENS * experts:
        return "few"
    return "some" if tokens < SOME_TOKENS * experts else "many"


def has_blocks(ranks: tuple[int, int], offs: Optional[Shape]) -> bool:
    """Whether fp32 scales sa and sb of these ranks are those of FP8 blocks: 1x128 of tokens, 128x128 of the weights of experts."""
    return ranks == (2, 3) and offs is not None


def mx_choice(accumulate: str, qa: Shape, qb: Shape, offs: Optional[Shape], rows_of_scales: bool, out: str) -> dict[str, Any]:
    """Attributes in the index of the bundle of a product with scales of MX blocks: by the shapes of qa, qb and offs, None where there are no
    groups; by whether the scales of weights (E, K/32, N) lie as (E, N, K/32); and by the element type of the result. passes/ExpandMx.c chooses
    for sizes that are known when it compiles. Ranks that no bundle has count as few tokens."""
    if accumulate != "fast" or min(len(qa), len(qb)) < 2 or offs == ():
        return {"accumulate": accumulate} | ({"tokens": "few"} if accumulate == "fast" else {})
    rows, experts = (qa[1], 1) if offs is None else (qa[len(qb) == 2], offs[0])
    of_experts = len(qb) == 3 and offs is not None and qb[2] % 16 == 0
    is_mixed = of_experts and experts and out == "bf16" and not (rows_of_scales and qb[1] % 512) and rows <= MIXED_TOKENS * experts
    if is_mixed and 0 < rows <= _mixed.MX_MOST * experts:
        return _mixed.mx_attributes(_fastest(rows_of_scales, rows, experts, qb[2], qb[1]))
    if rows <= FEW_TOKENS * experts:
        return {"accumulate": "fast", "tokens": "few"}
    if is_mixed:
        return {"accumulate": "fast", "tokens": "most"}
    if of_experts and rows <= BLOCKS_TOKENS * experts:
        return {"accumulate": "promoted"}
    return {"accumulate": "fast", "tokens": "many"}


@functools.lru_cache(maxsize=4096)
def _fastest(rows_of_scales: bool, tokens: int, experts: int, rows: int, columns: int) -> tuple[int, ...]:
    return _mixed.mx_size(_bundles.mx_tiles(_order(rows_of_scales)), tokens, experts, rows, columns)


def mx_choice_of_any(accumulate: str) -> dict[str, str]:
    """The same where sizes are not known yet: the bundle for any number of tokens."""
    return {"accumulate": accumulate} | ({"tokens": "many"} if accumulate == "fast" else {})


def mx_orders(rank: int, rows_of_scales: bool) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Memory orders of such a product's operands, by name, that tell its bundles apart: of scales sb of this rank."""
    return (("sb", _order(rows_of_scales)),) if rank == 3 else ()


def _order(rows_of_scales: bool) -> tuple[int, ...]:
    return (0, 2, 1) if rows_of_scales else (0, 1, 2)
