"""Quantizes in exact arithmetic and compares with what moe-run wrote: quantize.py IN OUT.

IN has one bf16 tensor (E, N, K); OUT its q in E4M3, column-major, and scales in blocks of 32 along N, RCEIL. Written from
the formulas, without a line of the C reference, and slowly: for small tensors.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import bisect
import math
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
import safetensors

BLOCK = 32
NAN = 0x7F
# The finite values of E4M3, by code.
E4M3 = [(m / 8) * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7) for e in range(16) for m in range(8)][:127]


def fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def scale_of(amax):
    """E8M0, the exponent of amax / 448 rounded up; 255 for NaN and Inf."""
    if math.isnan(amax) or math.isinf(amax):
        return 255
    if amax == 0:
        return 0
    d = fp32(amax * fp32(1 / 448))
    if d == 0:
        return 0
    mantissa, exponent = math.frexp(d)  # d = mantissa * 2^exponent, mantissa in [0.5, 1)
    return max(0, (exponent - 1 if mantissa == 0.5 else exponent) + 127)


def e4m3(x):
    sign = 0x80 if math.copysign(1, x) < 0 else 0
    x = abs(x)
    if x >= E4M3[-1]:
        return sign | 126
    above = bisect.bisect_left(E4M3, x)
    if E4M3[above] == x:
        return sign | above
    below = above - 1
    middle = (E4M3[below] + E4M3[above]) / 2
    if x == middle:
        return sign | (below if below % 2 == 0 else above)
    return sign | (below if x < middle else above)


def main(in_path, out_path):
    ((dtype, (experts, rows, columns), data),) = safetensors.read(in_path)[0].values()
    assert dtype == "BF16"
    out, _ = safetensors.read(out_path)
    assert out["q"][:2] == ("F8_E4M3", [experts, columns, rows]), out["q"][:2]
    assert out["scales"][:2] == ("F8_E8M0", [experts, rows // BLOCK, columns]), out["scales"][:2]
    x = [struct.unpack("<f", b"\0\0" + data[2 * i : 2 * i + 2])[0] for i in range(len(data) // 2)]
    q, scales = out["q"][2], out["scales"][2]
    for e in range(experts):
        for b in range(rows // BLOCK):
            for k in range(columns):
                block = [x[(e * rows + b * BLOCK + i) * columns + k] for i in range(BLOCK)]
                amax = math.nan if any(math.isnan(v) for v in block) else max(abs(v) for v in block)
                scale = scale_of(amax)
                got = scales[(e * rows // BLOCK + b) * columns + k]
                assert got == scale, f"scales[{e},{b},{k}] is {got}, not {scale}"
                for i, v in enumerate(block):
                    got = q[(e * columns + k) * rows + b * BLOCK + i]
                    if scale == 255:
                        assert got & 0x7F == NAN, f"q[{e},{b * BLOCK + i},{k}] is {got:#x}, not NaN"
                        continue
                    want = e4m3(v * 2.0 ** (127 - scale))
                    assert got == want, f"q[{e},{b * BLOCK + i},{k}] is {got:#x}, not {want:#x}"
    print(f"{len(q)} elements and {len(scales)} scales are right")


main(*sys.argv[1:])
