"""The random arguments and the result of a grouped product, from their descriptions in docs/: products.py make|check ...

  products.py make FILE SEED M K N E GROUPS [exact [bias]]   what moe-run makes for function `forward` of products.bundle, or for
                                                             `forward_bias`, which has a scale for all tokens and one for each expert
  products.py check FILE OUT                          OUT holds the product of FILE's tensors, zeros in rows of no group

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import bisect
import math
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
import safetensors
from random_numbers import bf16, draw, fp32, mix, normal

EDGE_SIZES = [0, 1, 15, 16, 31, 63, 64, 65, 127, 128, 129]


def e4m3_value(byte):
    exponent, mantissa = byte >> 3 & 15, byte & 7
    value = mantissa / 512 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -value if byte & 0x80 else value


MAGNITUDES = [e4m3_value(code) for code in range(0x7F)]


def e4m3(x):
    above = min(bisect.bisect_left(MAGNITUDES, abs(x)), 0x7E)
    distances = [(abs(MAGNITUDES[code] - abs(x)), code % 2, code) for code in (max(above - 1, 0), above)]
    return min(distances)[2] | (0x80 if x < 0 else 0)


def offsets(key, groups, tokens, kind):
    if kind == "equal":
        return [tokens * (g + 1) // groups for g in range(groups)]
    if kind == "ragged":
        return sorted([draw(key, g) % (tokens + 1) for g in range(groups - 1)] + [tokens])
    first, ends, end = draw(key, 0) % len(EDGE_SIZES), [], 0
    for g in range(groups):
        end += EDGE_SIZES[(first + g) % len(EDGE_SIZES)]
        ends.append(min(end, tokens))
    return ends


def make(path, seed, m, k, n, groups, kind, exact="", bias=""):
    m, k, n, groups = int(m), int(k), int(n), int(groups)
    keys = [mix(mix(int(seed)) + 2 * argument) for argument in range(6)]
    scale_shapes = ([1], [groups]) if bias else ([m], [groups, n])

    def operand(bits):
        return bytes([e4m3(float(bits % 5 - 2) if exact else normal(bits))])

    def scale(bits):
        power = 2.0 ** (bits % 5 - 2) if exact else 2.0 ** ((bits >> 32) % 9 - 4)
        return struct.pack("<f", power if exact else power * (1 + (bits & 0x7FFFFF) / 2**23))

    # Numbered by the logical index, stored in memory order: b is column-major.
    b = [operand(draw(keys[1], (g * k + i) * n + j)) for g in range(groups) for j in range(n) for i in range(k)]
    tensors = {
        "qa": ("F8_E4M3", [m, k], b"".join(operand(draw(keys[0], i)) for i in range(m * k))),
        "qb": ("F8_E4M3", [groups, n, k], b"".join(b)),
        "sa": ("F32", scale_shapes[0], b"".join(scale(draw(keys[2], i)) for i in range(math.prod(scale_shapes[0])))),
        "sb": ("F32", scale_shapes[1], b"".join(scale(draw(keys[3], i)) for i in range(math.prod(scale_shapes[1])))),
        "offs": ("I32", [groups], struct.pack(f"<{groups}i", *offsets(keys[4], groups, m, kind))),
    }
    if bias:  # small integers
        data = b"".join(struct.pack("<H", bf16(float(draw(keys[5], i) % 5 - 2))) for i in range(groups * n))
        tensors["bias"] = ("BF16", [groups, n], data)
    header, data = {"__metadata__": {"qb.order": "[0,2,1]"}}, b""
    for name, (dtype, shape, bytes_) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    safetensors.write(path, header, data)


def check(path, out_path):
    tensors, _ = safetensors.read(path)
    (m, k), (groups, n, _) = tensors["qa"][1], tensors["qb"][1]
    value = [e4m3_value(byte) for byte in range(256)]
    a, b = tensors["qa"][2], tensors["qb"][2]
    sa, sb = (struct.unpack(f"<{math.prod(tensors[name][1])}f", tensors[name][2]) for name in ("sa", "sb"))
    sa, sb = sa * (m // len(sa)), [scale for scale in sb for _ in range(groups * n // len(sb))]
    bias = struct.unpack(f"<{groups * n}H", tensors["bias"][2]) if "bias" in tensors else [0] * (groups * n)
    bias = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in bias]
    offs = struct.unpack(f"<{groups}i", tensors["offs"][2])
    out = struct.unpack(f"<{m * n}H", safetensors.read(out_path)[0]["out"][2])
    for row in range(m):
        group = sum(row >= end for end in offs)
        for column in range(n):
            expected = 0
            if group < groups:
                at = (group * n + column) * k
                # Sums of E4M3 products are exact as Python's floats.
                total = sum(value[x] * value[y] for x, y in zip(a[row * k : (row + 1) * k], b[at : at + k]))
                scaled = fp32(sb[group * n + column] * fp32(sa[row] * fp32(total)))
                expected = bf16(fp32(scaled + bias[group * n + column]) if "bias" in tensors else scaled)
            found = out[row * n + column]
            assert found == expected, f"out[{row},{column}] is {found:#06x}, not {expected:#06x}"


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
