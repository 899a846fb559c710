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

# Tokens and rows of weights of the products of a layer, with so many columns, and tokens of each expert on average of those of experts: E, N, K.
LAYER_SIZES = (
    *((tokens, rows) for tokens in (8, 16, 32, 64, 128) for rows in (3584, 8192, 28672)),
    (256, 8192), (256, 28672), (1024, 8192), (4096, 28672),
)  # fmt: skip
LAYER_COLUMNS = 8192
EXPERT_TOKENS = (2, 12, 24, 36, 64, 96, 384)
EXPERT_TOKENS_OF_FP8 = (*EXPERT_TOKENS, 1024)
EXPERT_SIZES = (256, 4096, 2048)
MOST_EXPERTS = 1024

_MULTIPROCESSORS = 132
_FEW_TOKENS = 64  # of a layer: reading the weights takes the time
_FEWEST_TOKENS_OF_EXPERT = 6  # up to which the first of EXPERT_TOKENS is meant
_FEW_ROWS, _SOME_ROWS = 4224, 16384  # four CTAs may divide the columns of the former, tiles of 128 rows, two of the latter
_COLUMNS_TO_DIVIDE = 8192  # among four, of more than half of the few rows
_COLUMNS_IN_COMMON = 256  # which products of many rows ask for


def _size_of_few(tiles: Mapping[tuple[int, int], Mapping[str, int]], tokens: int, rows: int, columns: int) -> tuple[int, int]:
    """That of LAYER_SIZES which stands for a product of up to _FEW_TOKENS."""
    most = next(size[0] for size in LAYER_SIZES if tokens <= size[0])
    pays = columns >= _COLUMNS_TO_DIVIDE or tiles[most, 3584]["ctas"] == 1
    if rows <= (_FEW_ROWS if pays else _FEW_ROWS // 2):
        return most, 3584
    return most, 8192 if rows <= _SOME_ROWS or columns < _COLUMNS_IN_COMMON else 28672


def _microseconds(tile: Mapping[str, int], tokens: int, rows: int, columns: int) -> float:
    """About how long an H200 takes for a product with such tiles, by a model of four numbers that were fitted to 195 products of 65 to 3000 tokens
    (docs/performance/mixed_python.md)."""
    tiles = -(-rows // tile["rows"]) * -(-tokens // tile["tokens"])
    of_tile = tile["tokens"] + 32  # turning the weights into numbers takes as long as the products of so many tokens
    busy = 3.7e-5 * of_tile * columns * tile["rows"] / 128 / tile["ctas"] + (2 if tile["ctas"] == 1 else 2 + tile["ctas"])
    if tile["divided"]:
        return tiles / _MULTIPROCESSORS * busy + tile["tokens"] / 12
    return -(-tiles * tile["ctas"] // _MULTIPROCESSORS) * busy


def layer_size(tiles: Mapping[tuple[int, int], Mapping[str, int]], tokens: int, rows: int, columns: int) -> tuple[int, int]:
    """That of LAYER_SIZES which stands for a product of a layer. tiles: those of the products that there are, by their sizes: tokens and rows, the
    CTAs that divide their columns, and whether all CTAs divide the last of them."""
    if tokens <= _FEW_TOKENS:
        return _size_of_few(tiles, tokens, rows, columns)

    def cost(size: tuple[int, int]) -> tuple[float, float]:
        return _microseconds(tiles[size], tokens, rows, columns), max(size[0] / tokens, tokens / size[0])

    return min((size for size in tiles if size[0] >= _FEW_TOKENS and (size != (_FEW_TOKENS, 28672) or columns >= _COLUMNS_IN_COMMON)), key=cost)


def expert_tokens(tokens: int, experts: int, form: str) -> int:
    """That of EXPERT_TOKENS, or of EXPERT_TOKENS_OF_FP8, which stands for a product of so many tokens of all experts."""
    known = EXPERT_TOKENS_OF_FP8 if form == "f8E4M3FN" else EXPERT_TOKENS
    if tokens <= _FEWEST_TOKENS_OF_EXPERT * experts:
        return known[0]
    return next((most for most in known[1:] if tokens <= most * experts), known[-1])
