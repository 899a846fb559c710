"""Damages a good safetensors file in many ways and runs moe-run on each: fuzz.py MOE_RUN BUNDLE DIRECTORY COUNT.

Whatever the damage, moe-run either writes a whole file and exits 0, or prints one line, exits 1 and writes nothing.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import random
import resource
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import safetensors

TOKENS = [b"-1", b"0", b"18446744073709551615", b"9223372036854775807", b"1e400", b"null", b"[]", b"{}", b'"', b"\\u0000",
          b"\xff", b"F64", b"BOOL", b'"w"', b"__metadata__", b",", b"]", b"}"]


def damage(generator, header, data):
    """Header, data and header length of a damaged file."""
    header, length = bytearray(header), None
    kind = generator.randrange(7)
    if kind == 0:  # other bytes
        for _ in range(generator.randrange(1, 4)):
            header[generator.randrange(len(header))] = generator.randrange(256)
    elif kind == 1:  # a token in the place of some bytes
        at = generator.randrange(len(header))
        header[at : at + generator.randrange(6)] = generator.choice(TOKENS)
    elif kind == 2:  # another length
        length = generator.choice([0, 1, len(header) - 1, len(header) + 1, 1 << 31, 1 << 62, (1 << 64) - 1])
    elif kind == 3:  # less data, or more
        data = data[: generator.randrange(len(data))] if generator.randrange(2) else data + b"x"
    elif kind == 4:  # a piece of the header twice
        begin = generator.randrange(len(header))
        header[begin:begin] = header[begin : begin + generator.randrange(40)]
    elif kind == 5:  # another digit
        digits = [i for i, c in enumerate(header) if chr(c).isdigit()]
        header[generator.choice(digits)] = ord("0") + generator.randrange(10)
    else:  # the file ends within the header
        header = header[: generator.randrange(len(header))]
        data, length = b"", len(header) + 8
    return bytes(header), data, length


def main(moe_run, bundle, directory, count):
    resource.setrlimit(resource.RLIMIT_CPU, (300, 300))  # of each run, however busy the machine is; what waits forever is ended by lit
    os.makedirs(directory, exist_ok=True)
    good, bad, out = (os.path.join(directory, name) for name in ("good", "bad", "out"))
    safetensors.make(good, ["other:F32:3", "w:BF16:1x32x16", "more:U8:5"])
    with open(good, "rb") as file:
        blob = file.read()
    (length,) = struct.unpack("<Q", blob[:8])
    generator = random.Random(1)
    refused = 0
    for i in range(int(count)):
        safetensors.write_raw(bad, *damage(generator, blob[8 : 8 + length], blob[8 + length :]))
        if os.path.exists(out):
            os.unlink(out)
        run = subprocess.run(
            [moe_run, bundle, "--function=quantize", f"--in=w={bad}", f"--out={out}", "--device=reference"],
            capture_output=True,
        )
        lines = run.stderr.splitlines()
        if run.returncode == 0:
            assert os.path.exists(out) and not lines, f"{i}: {lines}"
        else:
            assert run.returncode == 1, f"{i}: exit code {run.returncode}: {lines}"
            assert len(lines) == 1 and lines[0].startswith(b"moe-run: " + bad.encode()), f"{i}: {lines}"
            refused += 1
        assert sorted(os.listdir(directory)) == sorted(["bad", "good"] + ["out"] * (not lines)), f"{i}: left a file"
    assert refused > int(count) // 2, "the damage is too mild to tell"
    print(f"{count} files: none crashed")


main(*sys.argv[1:])
