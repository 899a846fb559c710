"""The numbers behind moe-run's random data, from docs/moe-run.md.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import math
import struct

MASK = (1 << 64) - 1


def fp32(x):
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:  # what struct says of a finite number that is rounded to Inf
        return math.copysign(math.inf, x)


def bf16(x):
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def draw(key, i):
    return mix(key + (i + 1) * 0x9E3779B97F4A7C15 & MASK)


def normal(bits):
    total = sum(bits >> 15 * i & 0x7FFF for i in range(4)) - 65534
    return fp32(total * fp32(1 / fp32(18918.61)))
