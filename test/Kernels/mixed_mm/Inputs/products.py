"""Prints a module of products of weights of four or eight bits: one for each class that lib/Kernels/mixed_mm/Candidates.c tells apart, and more.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from itertools import product

from source import source

FORMS = [
    {}, {"group": "32"}, {"group": "128"}, {"group": "-1"}, {"bias": "1"}, {"out": "f32"},
    {"scales": "f32", "group": "32"},
    {"format": "ui4", "zeros": "1"}, {"format": "ui4", "zeros": "1", "group": "32", "scales": "f32"}, {"format": "ui4", "zeros": "1", "group": "32", "bias": "1"},
    {"format": "uint4b8", "group": "128", "x": "f16", "scales": "f16", "out": "f16"},
    {"group": "32", "x": "f16", "scaled": "1"}, {"format": "uint4b8", "group": "128", "x": "f16", "bias": "1"},
    {"format": "f4E2M1FN", "group": "32", "scales": "f8E8M0FNU"},
    {"format": "f4E2M1FN", "group": "32", "scales": "f8E8M0FNU", "x": "f16", "out": "f16"},
    {"scaled": "1"}, {"format": "f4E2M1FN", "group": "32", "scales": "f8E8M0FNU", "scaled": "1"},
    {"format": "f8E4M3FN"}, {"format": "f8E4M3FN", "order": "rows"}, {"format": "f8E4M3FN", "out": "f32"},
]  # fmt: skip
ROWS = (3584, 8192, 17408, 28672, 33792)
COLUMNS = (512, 8192)
TOKENS = ("?", 1, 8, 16, 32, 40, 48, 64, 128, 512, 4096)
EXPERTS = (8, 256)
TOKENS_OF_EXPERT = (1, 8, 20, 32, 64, 90, 300, 1000)
FEW_TOKENS = (4, 6, 8, 9, 13, 33, 100)  # of 256 experts: 0.5, 0.7, 1, 1.1, 1.5, 4 and 10 rounds of tiles


def sizes():
    yield from ({"n": n, "k": k, "m": m} for n, k, m in product(ROWS, COLUMNS, TOKENS))
    yield from ({"n": 4096, "k": k, "m": e * m, "experts": e} for e, m, k in product(EXPERTS, TOKENS_OF_EXPERT, (2048, 7168)))
    yield from ({"n": 4096, "k": 2048, "m": m, "experts": 256} for m in FEW_TOKENS)


for number, (form, size) in enumerate(product(FORMS, sizes())):
    print(source(f"mixed_mm_{number}", **form, **{key: str(value) for key, value in size.items()}))
