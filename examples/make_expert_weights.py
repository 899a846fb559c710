"""make_expert_weights.py - writes expert_weights.safetensors, the weights of `./dev demo`.

Why a script: the file is checked in, so that the demo needs no download; this says what is in it. 2 experts of 128 by 256
in bf16, nearly normal, each expert with another spread, as trained weights have.

Usage: make_expert_weights.py FILE

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import random
import struct
import sys

EXPERTS, N, K = 2, 128, 256
generator = random.Random(1)


def bf16(value):
    """The upper half of the fp32, rounded to nearest even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


weights = []
for expert in range(EXPERTS):
    for _ in range(N * K):
        # random() is the one generator that Python promises to keep; the sum of four is nearly normal.
        normal = sum(generator.random() for _ in range(4)) - 2
        weights.append(bf16(normal * 0.02 * (1 + expert)))

if len(sys.argv) != 2:
    sys.exit("Usage: make_expert_weights.py FILE")
header = json.dumps(
    {"w": {"dtype": "BF16", "shape": [EXPERTS, N, K], "data_offsets": [0, 2 * len(weights)]}},
    separators=(",", ":"),
).encode()
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    file.write(struct.pack(f"<{len(weights)}H", *weights))
