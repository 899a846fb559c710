"""Writes x and offs for groups of every size from 0 to 129 tokens, and NaN in the tokens that are in none.

  any_groups.py FILE COLUMNS

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools/moe-run/Inputs"))
import safetensors  # noqa: E402

path, columns = sys.argv[1], int(sys.argv[2])
NOBODYS = 40
generator = random.Random(1)
sizes = list(range(130))
generator.shuffle(sizes)
ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
rows = ends[-1] + NOBODYS
x = b"".join(safetensors.element(generator, "BF16") for _ in range(ends[-1] * columns)) + b"\xc0\x7f" * (NOBODYS * columns)
offs = struct.pack(f"<{len(ends)}i", *ends)
header = {"x": {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [0, len(x)]},
          "offs": {"dtype": "I32", "shape": [len(ends)], "data_offsets": [len(x), len(x) + len(offs)]}}
safetensors.write(path, header, x + offs)
