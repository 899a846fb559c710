"""Data of a training step, and whether two ways to compute it give the same bits:

  training.py data FILE M N K OFFSETS...       x (M, K), w (E, N, K), dy (M, N) in bf16, weights, which is w seen as (E, K, N), and
                                               offs, which may leave rows in no group
  training.py same FILE OTHER ROWS NAME=OTHER_NAME[:rows]...   tensors of the two files; with :rows the first ROWS rows, which
                                               are those in groups

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../tools/moe-run/Inputs"))
import safetensors


def data(path, m, n, k, *offsets):
    m, n, k = int(m), int(n), int(k)
    generator = random.Random(1)
    tensors = {"x": (m, k), "w": (len(offsets), n, k), "dy": (m, n)}
    header, blob = {}, b""
    for name, shape in tensors.items():
        values = (generator.gauss(0, 1) * 2.0 ** generator.randrange(-3, 3) for _ in range(math.prod(shape)))
        content = b"".join(struct.pack("<f", value)[2:] for value in values)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [len(blob), len(blob) + len(content)]}
        blob += content
    blob_of_w = blob[slice(*header["w"]["data_offsets"])]
    header["weights"] = {**header["w"], "data_offsets": [len(blob), len(blob) + len(blob_of_w)]}
    blob += blob_of_w
    header["__metadata__"] = {"weights.order": "[0,2,1]"}
    content = b"".join(struct.pack("<i", int(end)) for end in offsets)
    blob += b"\0" * (-len(blob) % 4)
    header["offs"] = {"dtype": "I32", "shape": [len(offsets)], "data_offsets": [len(blob), len(blob) + len(content)]}
    safetensors.write(path, header, blob + content)


def same(path, other, rows, *pairs):
    ours, theirs = safetensors.read(path)[0], safetensors.read(other)[0]
    for pair in pairs:
        name, other_name = pair.removesuffix(":rows").split("=")
        (dtype, shape, content), (other_dtype, other_shape, other_content) = ours[name], theirs[other_name]
        assert (dtype, shape) == (other_dtype, other_shape), (name, dtype, shape, other_dtype, other_shape)
        length = len(content) // shape[0] * int(rows) if pair.endswith(":rows") else len(content)
        assert length and any(content[:length]), f"{name} is all zeros"
        assert content[:length] == other_content[:length], f"{name} is another than {other_name}"
    print(f"{len(pairs)} tensors are the same")


{"data": data, "same": same}[sys.argv[1]](*sys.argv[2:])
