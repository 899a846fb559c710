"""What scaled_grouped_mm.mixed_mm asks of weights, and which of the package's products suits which sizes.

The package is built before sizes are known. So it has some products of each form, each with the schedule that the compiler gives one of
certain sizes, which stands for those of others.

python/make_bundles.py reads this file alone: it imports nothing of the package.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

from collections.abc import Mapping

GROUP_SIZES = (32, 64, 128)  # weights along K that share a scale; of MX blocks 32
GREATEST_ZERO_POINT = 15  # mixed_mm_zeros reads four bits
GREATEST_SCALES = {"f8E4M3FN": 37, "f4E2M1FN": 31}  # powers of two; E8M0 scales beyond them may count as NaN (docs/numerics.md)

FEW_ROWS, SOME_ROWS, MANY_ROWS = 3584, 8192, 28672  # of weights
# (tokens, rows) that the products of a layer are compiled for. All have so many columns.
LAYER_SIZES = (
    *((tokens, rows) for tokens in (8, 16) for rows in (5120, SOME_ROWS, MANY_ROWS)),  # what suits FEW_ROWS must know the columns
    *((tokens, rows) for tokens in (32, 64, 128) for rows in (FEW_ROWS, SOME_ROWS, MANY_ROWS)),
    (256, SOME_ROWS), (256, MANY_ROWS), (1024, SOME_ROWS), (4096, MANY_ROWS),
)  # fmt: skip
LAYER_COLUMNS = 8192
# Tokens of each expert, on average, that the products of experts are compiled for: (E, N, K), or as many experts as there may be.
EXPERT_TOKENS = (2, 12, 24, 36, 64, 96, 384)
EXPERT_TOKENS_OF_FP8 = (*EXPERT_TOKENS, 1024)
EXPERT_SIZES = (256, 4096, 2048)
MOST_EXPERTS = 1024

_FEW_TOKENS_OF_EXPERT = 6  # up to which an expert has the product for 2
_FEW_TOKENS = 64  # of a layer: reading the weights takes the time
_MULTIPROCESSORS = 132
# Up to so many rows there are multiprocessors for tiles of 128 whose columns four CTAs divide; from so many columns on that pays for all of them,
# with fewer for half.
_MOST_FEW_ROWS, _COLUMNS_FOR_FOUR = _MULTIPROCESSORS // 4 * 128, 8192
_MOST_SOME_ROWS = 16384  # as lib/Kernels/mixed_mm/Candidates.c has it

# Microseconds of an H200, fitted to 195 products of 65 to 3000 tokens, int4, MXFP4 and MXFP8 (docs/performance/mixed_python.md).
_US_OF_TOKEN = 3.7e-5  # of each column of 128 rows
_TOKENS_OF_WEIGHTS = 32  # whose products take as long as turning the weights of a tile into numbers
_US_OF_TILE = 2  # its begin and end
_US_OF_CTA = 1  # more for each of those that divide a tile's columns
_US_OF_DIVIDED_TOKEN = 1 / 12  # of the last tiles, whose sums CTAs hand on
_US_OF_F16 = 3  # until tokens are f16,
_ELEMENTS_PER_US = 7e5  # and for these

Tile = Mapping[str, int]  # what index.json says of a product, as python/make_bundles.py describes it


def _size_of_few(tiles: Mapping[tuple[int, int], Tile], tokens: int, rows: int, columns: int) -> tuple[int, int]:
    """Which of LAYER_SIZES is used for up to _FEW_TOKENS."""
    most = next(size[0] for size in LAYER_SIZES if tokens <= size[0])
    few, some, many = (size for size in LAYER_SIZES if size[0] == most)
    pays = columns >= _COLUMNS_FOR_FOUR or tiles[few]["ctas"] < 4
    if rows <= (_MOST_FEW_ROWS if pays else _MOST_FEW_ROWS // 2):
        return few
    return many if rows > _MOST_SOME_ROWS and tiles[many]["columns"] <= columns else some


def _microseconds(tile: Tile, tokens: int, rows: int, columns: int) -> float:
    """About how long an H200 takes for a product with such tiles."""
    count = -(-rows // tile["rows"]) * -(-tokens // tile["tokens"])
    products = _US_OF_TOKEN * (tile["tokens"] + _TOKENS_OF_WEIGHTS) * columns * tile["rows"] / 128
    each = products / tile["ctas"] + _US_OF_TILE + (_US_OF_CTA * tile["ctas"] if tile["ctas"] > 1 else 0)
    first = _US_OF_F16 + tokens * columns / _ELEMENTS_PER_US if tile["f16"] else 0
    if tile["divided"]:
        return first + count / _MULTIPROCESSORS * each + _US_OF_DIVIDED_TOKEN * tile["tokens"]
    return first + -(-count * tile["ctas"] // _MULTIPROCESSORS) * each


def layer_size(tiles: Mapping[tuple[int, int], Tile], tokens: int, rows: int, columns: int) -> tuple[int, int]:
    """Which of LAYER_SIZES is used for a product of a layer. tiles: what index.json says of each."""
    if tokens <= _FEW_TOKENS:
        return _size_of_few(tiles, tokens, rows, columns)

    def cost(size: tuple[int, int]) -> tuple[float, float]:
        return _microseconds(tiles[size], tokens, rows, columns), max(size[0] / tokens, tokens / size[0])

    return min((size for size, tile in tiles.items() if size[0] >= _FEW_TOKENS and tile["columns"] <= columns), key=cost)


def expert_tokens(tokens: int, experts: int, form: str) -> int:
    """Which of EXPERT_TOKENS, or of EXPERT_TOKENS_OF_FP8, is used for so many tokens of all experts."""
    known = EXPERT_TOKENS_OF_FP8 if form == "f8E4M3FN" else EXPERT_TOKENS
    if tokens <= _FEW_TOKENS_OF_EXPERT * experts:
        return known[0]
    return next((most for most in known[1:] if tokens <= most * experts), known[-1])
