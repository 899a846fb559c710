"""Prints elements of a tensor by logical index, whatever its memory order: values.py FILE TENSOR E,N,K ...

Of bf16 and f32 tensors it prints the value, of others the byte.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
import safetensors

path, name, *indices = sys.argv[1:]
tensors, metadata = safetensors.read(path)
dtype, shape, data = tensors[name]
order = json.loads(metadata.get(f"{name}.order", "[0,1,2]"))
for text in indices:
    index = [int(i) for i in text.split(",")]
    position = 0
    for size, dim in zip(shape, order):
        position = position * size + index[dim]
    size = safetensors.SIZES[dtype]
    element = data[position * size : (position + 1) * size]
    print(struct.unpack("<f", element.rjust(4, b"\0"))[0] if size > 1 else element[0], end=" ")
print()
