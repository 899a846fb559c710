"""Writes a safetensors file of a product of integers, scales of bf16 and f16 tokens: small_scales.py FILE POWER PLACE.

Group PLACE of 32 columns has the greatest scale of each row, 1, and tokens of 0; the other scales are 1.0078125 times 2^POWER. So a result is the sum of numbers
that are small beside the greatest: nothing hides what they lose. w (2,8,512), scales (16,32) as they lie in memory, x (8,512).

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools/moe-run/Inputs"))
import safetensors  # noqa: E402

ROWS, COLUMNS, TOKENS, GROUP = 32, 512, 8, 32
path, power, place = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
groups = COLUMNS // GROUP
small = struct.pack("<f", 1.0078125 * 2.0**power)[2:]
ONE_BF16, ZERO_F16, ONE_F16 = b"\x80\x3f", b"\x00\x00", b"\x00\x3c"
tensors = {
    "w": ("U8", [ROWS // 16, COLUMNS // 64, 512], random.Random(1).randbytes(ROWS * COLUMNS // 2)),
    "scales": ("BF16", [groups, ROWS], b"".join((ONE_BF16 if j == place else small) * ROWS for j in range(groups))),
    "x": ("F16", [TOKENS, COLUMNS], b"".join((ZERO_F16 if j == place else ONE_F16) * GROUP for j in range(groups)) * TOKENS),
}
header, data = {}, b""
for name, (dtype, shape, content) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
    data += content
safetensors.write(path, header, data)
