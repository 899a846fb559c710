"""What scaled_grouped_mm.mixed_mm asks of weights, and which of the package's products suits which sizes.

The package is built before sizes are known. So it has some products of each form, each with the schedule that the compiler gives one of
certain sizes, which stands for those of others.

python/make_bundles.py reads this file alone: it imports nothing of the package.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

GROUP_SIZES = (32, 64, 128)  # weights along K that share a scale; of MX blocks 32
GREATEST_ZERO_POINT = 15  # mixed_mm_zeros reads four bits
GREATEST_SCALES = {"f8E4M3FN": 37, "f4E2M1FN": 31}  # powers of two; E8M0 scales beyond them may count as NaN (docs/numerics.md)

# (tokens, rows) that the products of a layer are compiled for: of few tokens by how many panels a CTA has, then by how many CTAs divide a tile's columns,
# and of more by tiles of most forms that the compiler knows. All have so many columns.
LAYER_SIZES = (
    *((tokens, rows) for tokens in (8, 16) for rows in (1024, 3584, 5120, 8192, 12288, 18432, 28672)),
    *((tokens, rows) for tokens in (32, 64) for rows in (1536, 3584, 8192, 14336, 28672)),
    *((96, rows) for rows in (3584, 8192, 14336, 28672)),
    *((128, rows) for rows in (3584, 8192, 28672)),
    (80, 16896), (192, 3584), (192, 8192), (256, 8448), (256, 28672), (320, 8448), (384, 8192), (1024, 8192), (2048, 3584), (4096, 28672),
)  # fmt: skip
LAYER_COLUMNS = 8192
EXPERT_SIZES = (256, 4096, 2048)  # E, N, K that products of experts are compiled for, or as many experts as there may be
MOST_EXPERTS = 1024
# Products of few tokens of each expert and four-bit weights: by the tiles of 128 rows that all experts with tokens have, about, of which an
# H200 works off TILES at once. (tokens of all experts, N, K) that each is compiled for, with as many experts as above: tiles are smaller where that
# keeps more of an H200 busy (docs/performance/mixed_experts.md).
TILES, TILE_ROWS = 264, 128
HALF_A_ROUND, MOST_OF_A_ROUND, ONE_ROUND, FEW_ROUNDS, MANY_ROUNDS = 128, 160, 256, 360, 7072
EXPERTS_BY_TILES = {
    HALF_A_ROUND: (8, 2048, 4096), MOST_OF_A_ROUND: (8, 2560, 4096), ONE_ROUND: (8, 4096, 2048), FEW_ROUNDS: (8, 5760, 4096), MANY_ROUNDS: (512, 4096, 2048),
}  # fmt: skip

# The products of experts, by the tokens of each, on average: how many a product is compiled for, and up to how many it is used where experts are drawn
# for tokens at random; the last for any number (docs/performance/mixed_python.md).
_FEW = ((2, 6), (12, 14))
_GROUP_SUMS = (*_FEW, (24, 28), (40, 56), (96, 106), (384, math.inf))
_GROUP_SUMS_OF_32 = (*_FEW, (24, 26), (40, 44), (96, 106), (384, math.inf))
# Tokens become f16 first from some number on, where the weights of an expert have rows and columns enough; others have products of their own for as many
# tokens of each, compiled for SMALL_ROWS.
_IN_F16 = (*_FEW, (24, 28), (40, 52), (96, 104), (120, 136), (384, math.inf))
_IN_F16_OF_32 = (*_FEW, (24, 26), (40, 104), (120, 136), (384, math.inf))
SMALL_ROWS = 768
_MXFP4 = ((2, 6), (12, 12), (24, 36), (40, 104), (120, 150), (384, math.inf))
_MXFP8 = ((2, 5), (12, 36), (64, 120), (384, 384), (1024, math.inf))
# Which of EXPERTS_BY_TILES is used up to how many rounds, as lib/Kernels/mixed_mm/Candidates.c has it. A product is named by what it is compiled for and
# serves other rounds, too.
_INTEGERS_BY_ROUNDS = (
    (0.5, HALF_A_ROUND), (0.75, MOST_OF_A_ROUND), (1, ONE_ROUND), (1.5, HALF_A_ROUND), (2, MOST_OF_A_ROUND), (16, HALF_A_ROUND), (math.inf, MANY_ROUNDS),
)  # fmt: skip
_MXFP4_BY_ROUNDS = ((0.5, HALF_A_ROUND), (0.75, MOST_OF_A_ROUND), (1, ONE_ROUND), (4, FEW_ROUNDS), (math.inf, MANY_ROUNDS))
_MXFP4_OF_F16_BY_ROUNDS = ((0.75, HALF_A_ROUND), (1, ONE_ROUND), (4, FEW_ROUNDS), (math.inf, MANY_ROUNDS))
_FEW_TOKENS = 64  # of a layer, up to which a product for as many or more is used
# How many clusters of so many CTAs an H200 has room for at once, by cuOccupancyMaxActiveClusters. Other chips may have room for others.
ROOM = {1: 132, 2: 66, 4: 30, 8: 15}
_US_OF_F16, _ELEMENTS_PER_US = 3, 7e5  # until tokens are f16

Tile = Mapping[str, Any]  # what index.json says of a product, as python/make_bundles.py describes it


def rounds(tile: Tile, tokens: int, rows: int) -> tuple[float, float]:
    """How often an H200 works off as many tiles as it has room for, and the part of that room which is taken; where CTAs divide the last tiles all
    is, and rounds are no integer."""
    count = -(-rows // tile["rows"]) * -(-tokens // tile["tokens"])
    if tile["divided"]:
        return count / ROOM[1], 1
    room = ROOM[tile["ctas"]]
    whole = -(-count // room)
    return whole, count / room / whole


def us_of_f16(tile: Tile, tokens: int, columns: int) -> float:
    """Microseconds until tokens are f16, where they become so first."""
    return _US_OF_F16 + tokens * columns / _ELEMENTS_PER_US if tile["f16"] else 0


def terms(tile: Tile, tokens: int, rows: int, columns: int) -> tuple[float, float, float, float]:
    """What the four numbers of a product, tile["us"], are multiplied by: their sum is the microseconds that it takes on an H200.

    1. a begin: 1
    2. a round: the rounds; or, where CTAs divide the last tiles, how many CTAs' sums meet in one tile, if there are fewer tiles than CTAs
    3. 1000 columns of a round: rounds and columns
    4. what more of these a full round takes; or, where CTAs divide the last tiles, a round
    """
    often, taken = rounds(tile, tokens, rows)
    work = often * columns / 1000
    return 1, max(1, 1 / often) if tile["divided"] else often, work, often if tile["divided"] else work * taken


def candidates(sizes: Iterable[tuple[int, int]], tokens: int) -> list[tuple[int, int]]:
    """Those of LAYER_SIZES that a product of so many tokens may have: for few the next number of tokens that is as large, for many all that are for
    many."""
    if tokens > _FEW_TOKENS:
        return [size for size in sizes if size[0] >= _FEW_TOKENS]
    most = min(size[0] for size in sizes if tokens <= size[0])
    return [size for size in sizes if size[0] == most]


def layer_size(tiles: Mapping[tuple[int, int], Tile], tokens: int, rows: int, columns: int) -> tuple[int, int]:
    """Which of LAYER_SIZES is used for a product of a layer, of one token and one row at least: that which takes the least time. tiles: what index.json
    says of each."""

    def cost(size: tuple[int, int]) -> tuple[float, float]:
        tile = tiles[size]
        us = sum(number * term for number, term in zip(tile["us"], terms(tile, tokens, rows, columns))) + us_of_f16(tile, tokens, columns)
        return us, max(size[0] / tokens, tokens / size[0])

    return min((size for size in candidates(tiles, tokens) if tiles[size]["columns"] <= columns), key=cost)


def _by_rounds(form: str, dtype: str) -> tuple[tuple[float, int], ...]:
    if form != "f4E2M1FN":
        return _INTEGERS_BY_ROUNDS
    return _MXFP4_BY_ROUNDS if dtype == "bf16" else _MXFP4_OF_F16_BY_ROUNDS


def _becomes_f16(form: str, dtype: str, biased: bool) -> bool:
    return form == "i4" and dtype == "bf16" and not biased


def _is_small(rows: int, columns: int, group: int) -> bool:
    """Whether tokens stay bf16, however many (passes/ExpandRecipes.c)."""
    return rows < 1024 if group == 32 else rows < 2048 or columns < 1536


def _small_products(group: int) -> tuple[int, ...]:
    """Of _GROUP_SUMS, those whose tokens would become f16 if rows and columns were enough."""
    return (40, 96, 384) if group == 32 else (96, 384)


def _expert_limits(form: str, group: int, dtype: str, in_f16: bool) -> tuple[tuple[int, float], ...]:
    """The products of experts of such weights (group), tokens (dtype) and results."""
    if form == "f8E4M3FN":
        return _MXFP8
    if form == "f4E2M1FN" and dtype == "bf16":
        return _MXFP4
    if in_f16:
        return _IN_F16_OF_32 if group == 32 else _IN_F16
    return _GROUP_SUMS_OF_32 if group == 32 else _GROUP_SUMS


def expert_sizes(form: str, group: int, dtype: str, biased: bool) -> list[tuple[int, ...]]:
    """What the products of experts are compiled for, the fewest tokens first: (tokens of each,), (few tokens of each, one of EXPERTS_BY_TILES), or
    (more tokens of each, SMALL_ROWS). form, group: of the weights; dtype: of the tokens; biased: results have a bias."""
    in_f16 = _becomes_f16(form, dtype, biased)
    few, *more = (tokens for tokens, _ in _expert_limits(form, group, dtype, in_f16))
    by_tiles: list[tuple[int, ...]] = [(few,)]
    if form != "f8E4M3FN":
        by_tiles = [(few, tiles) for tiles in sorted({tiles for _, tiles in _by_rounds(form, dtype)})]
    small = _small_products(group) if in_f16 else ()
    return [*by_tiles, *((tokens,) for tokens in more), *((tokens, SMALL_ROWS) for tokens in small)]


def names_of(size: tuple[int, ...]) -> tuple[str, ...]:
    """What index.json calls the numbers of one of expert_sizes."""
    return ("tokens", "rows" if size[1:] == (SMALL_ROWS,) else "tiles")[: len(size)]


def compiled_for(size: tuple[int, ...], experts: int = EXPERT_SIZES[0]) -> tuple[int, int, int]:
    """Tokens of all experts, N and K that the product of one of expert_sizes is compiled for."""
    _, rows, columns = EXPERT_SIZES
    names = names_of(size)
    if "tiles" in names:
        return EXPERTS_BY_TILES[size[1]]
    return size[0] * experts, SMALL_ROWS if "rows" in names else rows, columns


def expert_tiles(tokens: int, experts: int, rows: int, form: str, dtype: str) -> int:
    """Which of EXPERTS_BY_TILES is used for so many tokens (dtype) of all experts, a few of each, that are drawn at random. form: of the weights, of
    which each expert has so many rows."""
    touched = experts * (1 - (1 - 1 / experts) ** tokens)
    rounds = touched * -(-rows // TILE_ROWS) / TILES
    return next(tiles for most, tiles in _by_rounds(form, dtype) if rounds <= most)


def expert_size(tokens: int, experts: int, rows: int, columns: int, form: str, group: int, dtype: str, biased: bool) -> tuple[int, ...]:
    """Which of expert_sizes is used for so many tokens of all experts. form, group: of the weights, (rows, columns) for each expert; dtype: of the
    tokens; biased: results have a bias."""
    in_f16 = _becomes_f16(form, dtype, biased)
    small = in_f16 and _is_small(rows, columns, group)
    limits = _expert_limits(form, group, dtype, in_f16 and not small)
    found = next((known for known, limit in limits[:-1] if tokens <= limit * experts), limits[-1][0])
    if found == limits[0][0] and form != "f8E4M3FN":
        return found, expert_tiles(tokens, experts, rows, form, dtype)
    return (found, SMALL_ROWS) if small and found in _small_products(group) else (found,)
