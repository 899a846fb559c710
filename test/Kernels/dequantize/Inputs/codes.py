"""Writes q (256, 256), of which every row has every code, and s (256, 8), whose row r is the scale r: codes.py FILE F8_E4M3|F8_E5M2.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import struct
import sys

tensors = {
    "q": (sys.argv[2], [256, 256], bytes(range(256)) * 256),
    "s": ("F8_E8M0", [256, 8], bytes(row for row in range(256) for _ in range(8))),
}
header, data = {}, b""
for name, (dtype, shape, content) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
    data += content
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
