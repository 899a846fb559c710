"""The tiles of few tokens of experts, by the tiles of 128 rows that all experts with tokens have, of which there are 264 at once: by_rounds.py MOE-OPT prints for some forms of weights from how many
of these on a tile has how many panels, then the columns of a stage, stages, CTAs of a multiprocessor, and d where all CTAs divide the last tiles.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import subprocess
import sys

from source import source

TILES = [count + more for count in (1, 132, 198, 264, 396, 528, 1056, 4224) for more in (0, 1)]
F16, MXFP4 = {"x": "f16", "out": "f16"}, {"format": "f4E2M1FN", "group": 32, "scales": "f8E8M0FNU"}
FORMS = {"i4, 32": {"group": 32}, "ui4, 128, f16": {"format": "ui4", "zeros": 1, "group": 128, "scales": "f16"} | F16, "MXFP4": MXFP4, "MXFP4, f16": MXFP4 | F16}

for form, keys in FORMS.items():
    # One token has one expert.
    text = "".join(source(f"f{tiles}", **{name: str(value) for name, value in (keys | {"m": 1, "experts": 2, "n": 128 * tiles, "k": 2048}).items()}) for tiles in TILES)
    chosen = subprocess.run([sys.argv[1], "-", "--moe-select-schedule"], input=text, capture_output=True, text=True, check=True).stdout
    found = [dict(re.findall(r"(\w+) = (\d+) :", function)) for function in chosen.split("func.func")[1:]]
    schedules = [f"{f['panels']}, {f['depth']} x {f['stages']}, {f['ctas_per_sm']}" + ", d" * int(f["spread"]) for f in found]
    print(f"{form}: " + "; ".join(f"{tiles}: {schedule}" for tiles, schedule, before in zip(TILES, schedules, [None, *schedules]) if schedule != before))
