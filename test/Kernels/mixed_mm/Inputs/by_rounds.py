"""The schedules of few tokens of experts, by the compiler and as python/moe_opt/_mixed.py chooses among the package's products: by_rounds.py MOE-OPT says where they differ.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import subprocess
import sys
from itertools import product

from package import mixed
from source import source

WEIGHTS = [("i4", 32), ("i4", 64), ("i4", 128), ("ui4", 32), ("ui4", 64), ("ui4", 128), ("f4E2M1FN", 32)]
FORMS = [(form, group, dtype) for form, group in WEIGHTS for dtype in ("bf16", "f16")]
# Panels of a tile, columns of a stage, whether all CTAs divide the last tiles, and whether weights are multiplied by their scales.
INTEGERS = {mixed.HALF_A_ROUND: (4, 256, 0, 0), mixed.MOST_OF_A_ROUND: (4, 128, 0, 0), mixed.ONE_ROUND: (8, 128, 0, 0), mixed.MANY_ROUNDS: (16, 256, 1, 0)}
MXFP4 = INTEGERS | {mixed.ONE_ROUND: (8, 128, 0, 1), mixed.FEW_ROUNDS: (8, 256, 1, 1), mixed.MANY_ROUNDS: (16, 256, 1, 1)}
MXFP4_OF_F16 = INTEGERS | {mixed.ONE_ROUND: (8, 256, 0, 0), mixed.FEW_ROUNDS: (8, 256, 1, 0)}


def schedules(form, dtype):
    return INTEGERS if form != "f4E2M1FN" else MXFP4 if dtype == "bf16" else MXFP4_OF_F16


LAYERS = [(256, 4096, 2176), (384, 7168, 2176), (128, 2880, 2944), (8, 14336, 4096), (60, 1408, 7168), (16, 16384, 5120), (2, 128, 4096)]
TOKENS = (1, 2, 4, 8, 11, 16, 24, 33, 70, 150, 400)

cases = []
for form, group, dtype in FORMS:
    sizes = mixed.expert_sizes(form, group, dtype, False)
    for tiles in (size[1] for size in sizes if size[0] == sizes[0][0]):
        tokens, rows, columns = mixed.EXPERTS_BY_TILES[tiles]
        cases.append((form, group, dtype, tokens, mixed.EXPERT_SIZES[0], rows, columns, tiles))
    cases += [(form, group, dtype, tokens, experts, rows, columns, mixed.expert_tiles(tokens, experts, rows, form, dtype))
              for (experts, rows, columns), tokens in product(LAYERS, TOKENS) if tokens <= 6 * experts]  # fmt: skip

text = ""
for number, (form, group, dtype, tokens, experts, rows, columns, _) in enumerate(cases):
    keys = {"format": form, "group": group, "x": dtype, "out": dtype, "m": tokens, "experts": experts, "n": rows, "k": columns, "zeros": int(form == "ui4"), "scales": "f8E8M0FNU" if form == "f4E2M1FN" else dtype}
    text += source(f"f{number}", **{key: str(value) for key, value in keys.items()})
chosen = subprocess.run([sys.argv[1], "-", "--moe-select-schedule"], input=text, capture_output=True, text=True, check=True).stdout
found = [dict(re.findall(r"(\w+) = (\d+) :", schedule)) for schedule in re.findall(r"schedule = {([^}]*)}", chosen)]
wrong = 0
for case, fields in zip(cases, found, strict=True):
    schedule = tuple(int(fields[name]) for name in ("panels", "depth", "spread", "scaled_weights"))
    if schedule != schedules(case[0], case[2])[case[-1]]:
        wrong += 1
        print(*case, "has", schedule)
print(f"{len(cases)} products, {wrong} differ; {len({case[-1] for case in cases})} kinds")
