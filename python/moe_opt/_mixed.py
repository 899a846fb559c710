"""What scaled_grouped_mm.mixed_mm asks of weights, and which of the package's products suits which sizes.

The package is built before sizes are known. So it has some products of each form, each with the schedule that the compiler gives one of
certain sizes, which stands for those of others.

python/make_bundles.py reads this file alone: it imports nothing of the package.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Optional

GROUP_SIZES = (32, 64, 128)  # weights along K that share a scale; of MX blocks 32
GREATEST_ZERO_POINT = 15  # mixed_mm_zeros reads four bits
GREATEST_SCALES = {"f8E4M3FN": 37, "f4E2M1FN": 31}  # powers of two; E8M0 scales beyond them may count as NaN (docs/numerics.md)
OTHER_FP8 = "MXFP8 has E8M0 scales (N, K/32); FP8 weights with fp32 scales of 128 x 128 are for scaled_grouped_mm as they are (docs/pytorch.md)"

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
# Products of few tokens of each expert and four-bit weights: by the tiles of 128 rows that all experts with tokens have, about. (tokens of all experts, N, K)
# that each is compiled for, with as many experts as above: tiles are smaller where that keeps more of an H200 busy (docs/performance/mixed_experts.md).
HALF_A_ROUND, MOST_OF_A_ROUND, FEW_ROUNDS, MANY_ROUNDS = 128, 160, 360, 7072
EXPERTS_BY_TILES = {
    HALF_A_ROUND: (8, 2048, 4096), MOST_OF_A_ROUND: (8, 2560, 4096), FEW_ROUNDS: (8, 5760, 4096), MANY_ROUNDS: (512, 4096, 2048),
}  # fmt: skip

# The products of experts else, by how many tokens of each, on average, they are compiled for. Tokens become f16 first from some number on, where the weights
# of an expert have rows and columns enough; some more products, compiled for SMALL_ROWS, leave them as they are.
_GROUP_SUMS, _IN_F16, _IN_F16_OF_32 = (12, 24, 40, 96, 384), (12, 24, 40, 96, 120, 384), (12, 24, 40, 120, 384)
SMALL_ROWS = 768
_MXFP4, _MXFP8 = (12, 24, 40, 120, 384), (2, 12, 64, 384, 1024)
FEW_EACH = 2  # tokens of each expert, in products by tiles
# Of EXPERTS_BY_TILES, those that there are.
_INTEGERS_BY_TILES = (HALF_A_ROUND, MOST_OF_A_ROUND, MANY_ROUNDS)
_MXFP4_BY_TILES = (*_INTEGERS_BY_TILES, FEW_ROUNDS)
_MXFP4_OF_F16_BY_TILES = (HALF_A_ROUND, FEW_ROUNDS, MANY_ROUNDS)
# Products of few experts, whose tiles of 256 rows would leave multiprocessors idle: for about how many tokens of each expert, by how many CTAs divide the
# columns of a tile, and how many warpgroups it has, of 64 rows each (docs/performance/mixed_sizes.md, "Few experts"). (tokens of each expert, E, N, K) that
# each is compiled for: there the compiler chooses it for all forms of weights that have it.
FEW_EXPERTS = {
    (16, 4, 2): (16, 1, 2048, 4096), (40, 4, 2): (48, 1, 2560, 4096), (90, 4, 2): (150, 1, 1024, 8192),
    (16, 2, 2): (16, 2, 2560, 4096), (40, 2, 2): (48, 1, 5632, 4096), (64, 2, 2): (150, 1, 3072, 4096), (90, 2, 2): (100, 1, 5632, 4096),
    (8, 1, 2): (10, 2, 5632, 4096), (16, 1, 2): (20, 4, 3072, 4096), (36, 1, 2): (36, 4, 3072, 4096), (76, 1, 2): (140, 1, 5632, 4096),
    (120, 1, 2): (120, 12, 2048, 4096), (16, 1, 3): (12, 12, 3584, 4096), (36, 1, 3): (36, 8, 5632, 4096), (60, 1, 3): (64, 12, 3584, 4096),
    (76, 1, 3): (76, 12, 3584, 4096), (120, 1, 3): (120, 3, 7168, 4096),
}  # fmt: skip
_FEW_SUMS = ((16, 2, 2), (40, 2, 2), (64, 2, 2), (8, 1, 2), (16, 1, 2), (36, 1, 2))
_FEW_IN_F16 = (*_FEW_SUMS, (90, 2, 2), (76, 1, 2), (120, 1, 2), (60, 1, 3), (120, 1, 3))
_FEW_SCALED = (  # of weights that are multiplied by their scales
    (16, 4, 2), (40, 4, 2), (90, 4, 2), (16, 2, 2), (40, 2, 2), (64, 2, 2), (90, 2, 2), (16, 1, 2), (36, 1, 2), (76, 1, 2), (120, 1, 2),
    (16, 1, 3), (60, 1, 3), (120, 1, 3),
)  # fmt: skip
_FEW_FP8 = ((16, 2, 2), (40, 2, 2), (64, 2, 2), (36, 1, 2), (76, 1, 2), (36, 1, 3), (76, 1, 3))
# Products of experts whose tokens and weights are MX blocks, up to MX_MOST tokens of each: one that multiplies by blocks, and those whose tokens become f16
# first, and whose weights do in the product: tokens of each that a tile is for, CTAs that divide its columns, its warpgroups.
MX_BY_BLOCKS = (64,)
MX_SIZES = (MX_BY_BLOCKS, (16, 2, 2), (40, 2, 2), (64, 2, 2), (36, 1, 2), (36, 1, 3), (76, 1, 3), (36, 1, 4), (384, 1, 4))
MX_MOST = 384
# Groups of tokens differ by so much of the mean, as experts are not alike, beside what drawing tokens makes.
_SKEW = 0.15
# A product of experts may have from a part to a multiple of the tokens of each that it is compiled for, but the first and the last, which are for any.
_FEWEST, _MOST = 0.15, 3
_MANY_TILES, _MANY_ROUNDS = 64, 8  # beyond which a tile or a round more is not counted for itself
_COLUMNS_OF_CTA = 256  # at least, where CTAs divide them
_FEW_TOKENS = 64  # of a layer, up to which a product for as many or more is used
# How many clusters of so many CTAs an H200 has room for at once, by cuOccupancyMaxActiveClusters. Other chips may have room for others.
ROOM = {1: 132, 2: 66, 4: 30, 8: 15}
_US_OF_F16, _ELEMENTS_PER_US = 3, 7e5  # until tokens are f16

Tile = Mapping[str, Any]  # what index.json says of a product, as python/make_bundles.py describes it


def known_group(size: int) -> int:
    """The largest of GROUP_SIZES that groups of this size are several of; 0 where there is none."""
    return next((known for known in reversed(GROUP_SIZES) if size % known == 0), 0)


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


def _becomes_f16(form: str, dtype: str, biased: bool) -> bool:
    return form == "i4" and dtype == "bf16" and not biased


def expert_sizes(form: str, group: int, dtype: str, biased: bool) -> list[tuple[int, ...]]:
    """What the products of experts are compiled for: (tokens of each,), (few tokens of each, one of EXPERTS_BY_TILES), (more tokens of each,
    SMALL_ROWS), and of few experts (tokens of each, CTAs that divide the columns of a tile, its warpgroups). form, group: of the weights; dtype: of the
    tokens; biased: results have a bias."""
    small: tuple[int, ...] = ()
    few: tuple[tuple[int, ...], ...]
    if form == "f8E4M3FN":
        tiles, known, few = (), _MXFP8, _FEW_FP8
    elif form == "f4E2M1FN":
        tiles, known, few = (_MXFP4_BY_TILES, _MXFP4, _FEW_SCALED) if dtype == "bf16" else (_MXFP4_OF_F16_BY_TILES, _GROUP_SUMS, _FEW_SUMS)
    elif _becomes_f16(form, dtype, biased):
        tiles, known, few = _INTEGERS_BY_TILES, _IN_F16_OF_32 if group == 32 else _IN_F16, _FEW_IN_F16
        small = (40, 96, 384) if group == 32 else (96, 384)
    else:
        tiles, known, few = _INTEGERS_BY_TILES, _GROUP_SUMS, _FEW_SUMS
    return [
        *((FEW_EACH, count) for count in sorted(tiles)), *((tokens,) for tokens in known), *((tokens, SMALL_ROWS) for tokens in small),
        *few,
    ]  # fmt: skip


def names_of(size: tuple[int, ...]) -> tuple[str, ...]:
    """What index.json calls the numbers of one of expert_sizes."""
    if len(size) == 3:
        return "tokens", "ctas", "warpgroups"
    return ("tokens", "rows" if size[1:] == (SMALL_ROWS,) else "tiles")[: len(size)]


def attributes_of(size: tuple[int, ...]) -> tuple[tuple[str, Optional[int]], ...]:
    """The attributes by which index.json tells the product of one of expert_sizes from others, with None for what it has not."""
    found = dict(zip(names_of(size), size))
    return tuple((name, found.get(name)) for name in ("tokens", "tiles", "rows", "ctas", "warpgroups"))


def compiled_for(size: tuple[int, ...], experts: Optional[int] = None) -> tuple[int, int, int, int]:
    """Tokens of all experts, experts, N and K that the product of one of expert_sizes is compiled for; or as many experts as are given."""
    each, (usual, rows, columns), names = size[0], EXPERT_SIZES, names_of(size)
    if "ctas" in names:
        each, usual, rows, columns = FEW_EXPERTS[size]
    experts = usual if experts is None else experts
    if "tiles" in names:
        tokens, rows, columns = EXPERTS_BY_TILES[size[1]]
        return tokens, experts, rows, columns
    return each * experts, experts, SMALL_ROWS if "rows" in names else rows, columns


def _above(limit: float, mean: float, deviation: float) -> float:
    """How probable it is that a normal number is above a limit."""
    return 0.5 * math.erfc((limit - mean) / (deviation * math.sqrt(2)))


def _tiles(mean: float, deviation: float, tokens: int) -> tuple[float, float]:
    """Tiles of so many tokens that a group has, of which one is the least, and their variance: means, where the size of a group is normal."""
    if mean > _MANY_TILES * tokens:
        return mean / tokens + 0.5, deviation / tokens / math.sqrt(math.pi)  # the integral of what is added below
    tiles, variance, limit = 1.0, 0.0, tokens + 0.5
    while (more := _above(limit, mean, deviation)) > 1e-3:
        tiles, variance, limit = tiles + more, variance + more * (1 - more), limit + tokens
    return tiles, variance


def _rounds(mean: float, deviation: float, room: float) -> float:
    """How often, on average, as many tiles as there is room for are worked off: one time at least. The number of tiles is normal."""
    mean, deviation = mean / room, max(deviation / room, 1e-3)
    if deviation > _MANY_ROUNDS:
        return mean + 0.5
    first = max(1, math.floor(mean - 3 * deviation))
    return first + sum(_above(limit + 0.5 / room, mean, deviation) for limit in range(first, math.ceil(mean + 3 * deviation) + 1))


def expert_terms(tile: Tile, tokens: int, experts: int, rows: int, columns: int) -> tuple[float, ...]:
    """The same as `terms` of a product of experts, with five numbers: of a begin, a round, 1000 columns of a round, what more of these a full round
    takes, and the tokens that tiles have, since those of several widths take the less the fewer there are. Tokens choose experts at random, and sizes of
    groups are thought to be normal."""
    mean, chosen = tokens / experts, 1 - (1 - 1 / experts) ** tokens  # chosen: how probable it is that an expert has tokens
    deviation = math.sqrt(mean + (_SKEW * mean) ** 2) if experts > 1 else 1e-3
    of_group, variance = _tiles(mean, deviation, tile["tokens"])
    room, of_rows = ROOM[tile["ctas"]] * tile["at_once"], -(-rows // tile["rows"])
    tiles = experts * chosen * of_group * of_rows
    taken = tiles / room
    work, of_tile = columns / 1000, min(tile["tokens"], mean / chosen / of_group) / 100
    if tile["divided"]:
        return 1, max(1, 1 / taken), taken * work, taken, taken * work * of_tile
    often = _rounds(tiles, math.sqrt(experts * (variance + chosen * (1 - chosen))) * of_rows, room)
    return 1, often, often * work, taken * work, often * work * of_tile


def expert_candidates(sizes: Iterable[tuple[int, ...]], tokens: int, experts: int) -> list[tuple[int, ...]]:
    """Those of expert_sizes that a product of so many tokens of all experts may have."""
    sizes, each = list(sizes), tokens / experts
    least, most = min(size[0] for size in sizes), max(size[0] for size in sizes)
    return [size for size in sizes if (each >= _FEWEST * size[0] or size[0] == least) and (each <= _MOST * size[0] or size[0] == most)]


def _fastest(tiles: Mapping[tuple[int, ...], Tile], sizes: Iterable[tuple[int, ...]], tokens: int, experts: int, rows: int, columns: int) -> tuple[int, ...]:
    """That of the sizes whose product takes the least time."""

    def cost(size: tuple[int, ...]) -> float:
        tile = tiles[size]
        found = expert_terms(tile, tokens, experts, rows, columns)
        if (tile["divided"] and found[3] < 1) or (tile["ctas"] > 1 and columns < tile["ctas"] * _COLUMNS_OF_CTA):  # too little to divide
            return math.inf
        return sum(number * term for number, term in zip(tile["us"], found)) + us_of_f16(tile, tokens, columns)

    return min((size for size in sizes if tiles[size]["columns"] <= columns), key=cost)


def expert_size(tiles: Mapping[tuple[int, ...], Tile], tokens: int, experts: int, rows: int, columns: int) -> tuple[int, ...]:
    """Which of expert_sizes is used for so many tokens of all experts, of which there are some, as rows: that which takes the least time. tiles: what
    index.json says of each."""
    return _fastest(tiles, expert_candidates(tiles, tokens, experts), tokens, experts, rows, columns)


def mx_size(tiles: Mapping[tuple[int, ...], Tile], tokens: int, experts: int, rows: int, columns: int) -> tuple[int, ...]:
    """The same of MX_SIZES."""
    if columns < min(tile["columns"] for tile in tiles.values()):  # no product is for so few, which the one that is called says
        return MX_BY_BLOCKS
    return _fastest(tiles, tiles, tokens, experts, rows, columns)


def mx_attributes(size: tuple[int, ...]) -> dict[str, Any]:
    """The attributes in index.json of the product of one of MX_SIZES."""
    return {"accumulate": "fast"} | ({"tokens": "few"} if size == MX_BY_BLOCKS else dict(zip(names_of(size), size)))
