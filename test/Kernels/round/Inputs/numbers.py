"""Writes x (rows, 32) of bf16: every magnitude up to that of the first element of its MX block, with both signs: numbers.py FILE
EXPONENT MANTISSA ... The largest magnitudes are 2^(EXPONENT - 127) * (1 + MANTISSA / 128).

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import struct
import sys

numbers = []
for exponent, mantissa in zip(map(int, sys.argv[2::2]), map(int, sys.argv[3::2])):
    largest = exponent << 7 | mantissa
    others = [sign | bits for bits in range(largest + 1) for sign in (0, 0x8000)]
    for first in range(0, len(others), 31):
        block = [largest, *others[first : first + 31]]
        numbers += block + [0] * (32 - len(block))
data = struct.pack(f"<{len(numbers)}H", *numbers)
header = json.dumps({"x": {"dtype": "BF16", "shape": [len(numbers) // 32, 32], "data_offsets": [0, len(data)]}}).encode()
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + data)
