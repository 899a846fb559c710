"""Checks a bundle whose argument x is one slice, on each kind of edge blocks in turn: every_kind.py BUNDLE SHAPE. A slice has one kind, by
the seed; the kinds are those of docs/moe-run.md.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import subprocess
import sys

bundle, shape = sys.argv[1:]
KINDS = 22
right = 0
for seed in range(KINDS):
    command = ["moe-run", bundle, "--device", "emu", "--check", "--random", str(seed), "--edge-blocks", "--shape", f"x={shape}", "--step-limit", "10000000"]
    done = subprocess.run(command, capture_output=True, text=True)
    right += done.returncode == 0 and "equal the C reference in every bit" in done.stdout
    if done.returncode:
        print(seed, done.stderr)
print(f"{right} of {KINDS} kinds are right")
