"""Runs a command with {} replaced by each of several words; all must exit with 1 and print a text: each_fails.py TEXT WORD ... -- COMMAND ...

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import subprocess
import sys

text, *words = sys.argv[1 : sys.argv.index("--")]
command = sys.argv[sys.argv.index("--") + 1 :]
for word in words:
    result = subprocess.run([part.replace("{}", word) for part in command], capture_output=True, text=True)
    if result.returncode != 1 or text not in result.stderr:
        sys.exit(f"{word}: exit code {result.returncode}, printed:\n{result.stdout}{result.stderr}")
