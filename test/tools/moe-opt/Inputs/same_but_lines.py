"""Compares PTX with the same PTX that has line information: same_but_lines.py PLAIN LINES SOURCE.

Passes where only line information was added, and each line that is named exists in SOURCE.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import sys

plain, lines, source = (open(name).read() for name in sys.argv[1:4])
count = source.count("\n")
named = [int(line) for line in re.findall(r"^\s*\.loc\s+1\s+(\d+)", lines, re.M)]
if not named or not all(0 <= line <= count for line in named):
    sys.exit(f"lines {sorted(set(named))[-3:]} of {count}")


def instructions(text):
    """The lines of the kernels without labels for debuggers, comments and line numbers."""
    text = text.split(".section")[0]
    kept = [re.sub(r"\s+", " ", re.sub(r"//.*", "", line)).strip() for line in text.splitlines()]
    return [line for line in kept if line and not re.match(r"\.loc|\.file|\$L__(func|tmp|info|sec)|\$L__\w+:$", line)]


if instructions(plain) != instructions(lines):
    sys.exit("the instructions differ")
