"""The random arguments and the result of a grouped product, from their descriptions in docs/: products.py make|check ...

  products.py make FILE SEED M K N E GROUPS WORD...   what moe-run makes for function `forward` of products.bundle. WORD: exact, one-hot,
                                                      nan; bias for `forward_bias`, with a scale for all tokens and one for each expert
  products.py nan OUT E...                            all elements of these experts are NaN, none of the others
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
    if kind in ("one", "none"):
        return [tokens if kind == "one" and g >= groups // 2 else 0 for g in range(groups)]
    first, ends, end = draw(key, 0) % len(EDGE_SIZES), [], 0
    for g in range(groups):
        end += EDGE_SIZES[(first + g) % len(EDGE_SIZES)]
        ends.append(min(end, tokens))
    return ends


def make(path, seed, m, k, n, groups, kind, *words):
    m, k, n, groups = int(m), int(k), int(n), int(groups)
    keys = [mix(mix(int(seed)) + 2 * argument) for argument in range(6)]
    exact, one_hot, bias = "exact" in words or "one-hot" in words, "one-hot" in words, "bias" in words
    scale_shapes = ([1], [groups]) if bias else ([m], [groups, n])
    ends = offsets(keys[4], groups, m, kind)
    is_nan = [False] * m
    if "nan" in words:  # groups of the tokens; those of none have the number of groups
        of_token = [sum(token >= end for end in ends) for token in range(m)]
        is_nan = [group == groups or group % 3 == int(seed) % 3 for group in of_token]

    def operand(bits):
        return bytes([e4m3(float(bits % 5 - 2) if exact else normal(bits))])

    def element_a(i):
        if is_nan[i // k]:
            return b"\x7F"
        if one_hot:
            return bytes([e4m3(float(draw(mix(mix(int(seed)) + 1), i // k) % k == i % k))])
        return operand(draw(keys[0], i))

    def element_b(bits):
        return bytes([bits % 0x7F | bits >> 63 << 7]) if one_hot else operand(bits)

    def exact_scale(i, count, bits):
        if count >= 61 and i % 61 in (20, 40):
            return struct.pack("<f", 2.0**-140 if i % 61 == 20 else 2.0**100)
        odd = (2 * (bits % 8) + 1) * 2.0 ** ((bits >> 32) % 5 - 6)
        (number,) = struct.unpack("<I", struct.pack("<f", odd))
        return struct.pack("<I", number + (1 if bits >> 63 else -1))

    def scale(i, count, bits):
        if exact:
            return exact_scale(i, count, bits)
        return struct.pack("<f", 2.0 ** ((bits >> 32) % 9 - 4) * (1 + (bits & 0x7FFFFF) / 2**23))

    def scales(key, shape, is_nan):
        count = math.prod(shape)
        return b"".join(nan if is_nan[i] else scale(i, count, draw(key, i)) for i in range(count))

    nan = struct.pack("<I", 0x7FC00000)
    # Numbered by the logical index, stored in memory order: b is column-major.
    b = [element_b(draw(keys[1], (g * k + i) * n + j)) for g in range(groups) for j in range(n) for i in range(k)]
    tensors = {
        "qa": ("F8_E4M3", [m, k], b"".join(map(element_a, range(m * k)))),
        "qb": ("F8_E4M3", [groups, n, k], b"".join(b)),
        "sa": ("F32", scale_shapes[0], scales(keys[2], scale_shapes[0], [False] if bias else is_nan)),
        "sb": ("F32", scale_shapes[1], scales(keys[3], scale_shapes[1], [False] * math.prod(scale_shapes[1]))),
        "offs": ("I32", [groups], struct.pack(f"<{groups}i", *ends)),
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
    value = [math.nan if byte & 0x7F == 0x7F else e4m3_value(byte) for byte in range(256)]
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
                scaled = fp32(scaled + bias[group * n + column]) if "bias" in tensors else scaled
                expected = 0x7FFF if math.isnan(scaled) else bf16(scaled)
            found = out[row * n + column]
            assert found == expected, f"out[{row},{column}] is {found:#06x}, not {expected:#06x}"


def find_nan(path, *experts):
    dtype, (count, *_), data = safetensors.read(path)[0]["out"]
    size, word, sign, infinity = {"BF16": (2, "H", 0x8000, 0x7F80), "F32": (4, "I", 0x80000000, 0x7F800000)}[dtype]
    bits = struct.unpack(f"<{len(data) // size}{word}", data)
    length = len(bits) // count
    for e in range(count):
        is_nan = {x & (sign - 1) > infinity for x in bits[e * length : (e + 1) * length]}
        assert is_nan == {str(e) in experts}, f"expert {e}: {is_nan}"


if __name__ == "__main__":
    {"make": make, "nan": find_nan, "check": check}[sys.argv[1]](*sys.argv[2:])
