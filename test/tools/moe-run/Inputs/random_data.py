"""The generator of --random, from its description in docs/moe-run.md: random_data.py FILE SEED SHAPE [edge].

Writes the bf16 tensor w that moe-run makes for the first argument of a function that quantizes along axis 1.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
import safetensors
from random_numbers import bf16, draw, mix, normal

BLOCK = 32
KINDS = 22


def fp32_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def threshold(kind, block, at, seed, x):
    field = [8, 9, 15, 16, 135, 254][kind - 16]
    if at > 0:
        return bf16(x * 2.0 ** (field - 130))
    turn = block // 61 + seed + seed // (2 * KINDS)
    mantissa = [0, 0x600000, 0x700000, 0x780000][turn % 4]
    return bf16(fp32_of(field << 23 | mantissa)) + turn // 4 % 4 - 1


def edge(kind, block, at, seed, bits):
    odd = at % 2 == 1
    sign = 0x8000 if odd else 0
    x = normal(bits)
    tie = 256.0 if at == 0 else 1 + (2 * (at % 8) + 1) / 16 if at % 16 < 8 else 1 + (2 * (at % 4) + 1) / 8
    if kind >= 16:
        return threshold(kind, block, at, seed, x)
    return [
        0,
        0x8000,
        0x7FC0 if at == 7 else bf16(x),
        0x7FC0 | sign,
        0x7F80 if at == 0 else bf16(x),
        0xFF80 if at == BLOCK - 1 else bf16(x),
        1 + bits % 127 | sign,
        1 | sign,
        0x0080,
        0x7F7F | sign,
        0xFF7F if at == 3 else 0,
        bf16(448.0 if at == 5 else x),
        bf16(450.0 if at == 5 else x),
        bf16(-480.0 if at == 9 else x),
        bf16(tie),
        bf16(1e-12) + bits % 3 - 1 if at == 0 else bf16(x * 2.0**-44),
    ][kind]


def small(bits):
    return normal(bits) * 2.0 ** {12: -4, 13: -7, 14: -10, 15: -16}.get(bits >> 60, 0)


def of_outliers(chosen, at, exponent, bits):
    if chosen % BLOCK != at:
        return bf16(small(bits) * 2.0 ** (exponent - 4))
    outlier = 1 + bits % 2**23 / 2**23
    return bf16((-outlier if bits >> 63 else outlier) * 2.0**exponent)


def main(path, seed, shape, edges=""):
    experts, rows, columns = (int(d) for d in shape.split("x"))
    element_key, block_key = mix(mix(int(seed))), mix(mix(int(seed)) + 1)
    data = bytearray()
    for e in range(experts):
        for n in range(rows):
            for k in range(columns):
                bits = draw(element_key, (e * rows + n) * columns + k)
                block = (e * rows // BLOCK + n // BLOCK) * columns + k
                if edges and block % 61 < KINDS:
                    data += struct.pack("<H", edge(block % 61, block, n % BLOCK, int(seed), bits))
                    continue
                of_block = draw(block_key, block)
                exponent = of_block % 33 - 20
                if edges and of_block >> 62:
                    data += struct.pack("<H", of_outliers(of_block >> 8, n % BLOCK, exponent, bits))
                    continue
                data += struct.pack("<H", bf16(small(bits) * 2.0**exponent))
    header = {"w": {"dtype": "BF16", "shape": [experts, rows, columns], "data_offsets": [0, len(data)]}}
    safetensors.write(path, header, bytes(data))


main(*sys.argv[1:])
