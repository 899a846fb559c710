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


def check_weights(shape: tuple[int, ...], recipe: str) -> None:
    """ValueError for a recipe that is none, or weights (E, K, N) that it does not take."""
    check(recipe)
    multiple = MULTIPLES[recipe]
    if shape[1] % multiple or shape[2] % multiple:
        raise ValueError(f"b is {tuple(shape)}; K and N must be multiples of {multiple} for {recipe}")


# Tokens of an expert on average.
FEW_TOKENS = 64  # up to which a product takes as long as reading the weights
BLOCKS_TOKENS = 256  # up to which sums of blocks are faster than weights in bf16
MIXED_TOKENS = 1152  # up to which the product makes weights of 16 bits in registers, and the limits of the first two of its three schedules
SOME_TOKENS, MORE_TOKENS = 96, 384
BLOCKS_TOKENS_OF_ROWS = 32  # up to which sums of blocks are as fast as that, where the scales of a row lie side by side
# Few tokens are multiplied so, too, where tiles of so many rows of weights are enough for nearly all multiprocessors of an H200.
TILE_ROWS, MULTIPROCESSORS = 256, 132


Shape = tuple[int, ...]


def mx_choice(accumulate: str, qa: Shape, qb: Shape, offs: Optional[Shape], rows_of_scales: bool, out: str) -> dict[str, str]:
    """Attributes in the index of the bundle of a product with scales of MX blocks: by the shapes of qa, qb and offs, None where there are no
    groups; by whether the scales of weights (E, K/32, N) lie as (E, N, K/32); and by the element type of the result. passes/ExpandMx.c chooses
    so for sizes that are known when it compiles. Ranks that no bundle has count as few tokens."""
    if accumulate != "fast" or min(len(qa), len(qb)) < 2 or offs == ():
        return {"accumulate": accumulate} | ({"tokens": "few"} if accumulate == "fast" else {})
    rows, experts = (qa[1], 1) if offs is None else (qa[len(qb) == 2], offs[0])
    of_experts = len(qb) == 3 and offs is not None and qb[2] % 16 == 0
    is_mixed = of_experts and experts and out == "bf16" and not (rows_of_scales and qb[1] % 512) and rows <= MIXED_TOKENS * experts
    if rows <= FEW_TOKENS * experts:
        by_blocks = rows_of_scales and rows <= BLOCKS_TOKENS_OF_ROWS * experts
        if not is_mixed or by_blocks or not _fills_rounds(min(rows, experts) * -(-qb[2] // TILE_ROWS)):
            return {"accumulate": "fast", "tokens": "few"}
    if is_mixed:
        tokens = "some" if rows <= SOME_TOKENS * experts else "more" if rows <= MORE_TOKENS * experts else "most"
        return {"accumulate": "fast", "tokens": tokens}
    if of_experts and rows <= BLOCKS_TOKENS * experts:
        return {"accumulate": "promoted"}
    return {"accumulate": "fast", "tokens": "many"}


def _fills_rounds(tiles: int) -> bool:
    """Whether so many tiles leave a tenth of the multiprocessors idle, or less."""
    return 10 * tiles >= 9 * -(-tiles // MULTIPROCESSORS) * MULTIPROCESSORS


def mx_choice_of_any(accumulate: str) -> dict[str, str]:
    """The same where sizes are not known yet: the bundle for any number of tokens."""
    return {"accumulate": accumulate} | ({"tokens": "many"} if accumulate == "fast" else {})


def mx_orders(rank: int, rows_of_scales: bool) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Memory orders of such a product's operands, by name, that tell its bundles apart: of scales sb of this rank."""
    return (("sb", (0, 2, 1) if rows_of_scales else (0, 1, 2)),) if rank == 3 else ()
