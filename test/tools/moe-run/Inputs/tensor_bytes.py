"""Writes the bytes of tensors of a safetensors file to stdout: tensor_bytes.py FILE NAME ...

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import struct
import sys

data = open(sys.argv[1], "rb").read()
(size,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8 : 8 + size])
for name in sys.argv[2:]:
    begin, end = header[name]["data_offsets"]
    sys.stdout.buffer.write(data[8 + size + begin : 8 + size + end])
