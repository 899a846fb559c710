"""Runs a command and fails unless it ends with this exit code: exits.py CODE COMMAND ...

lit knows only zero and not zero; the exit codes of the tools are part of their interface.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import subprocess
import sys

code = subprocess.run(sys.argv[2:]).returncode
if code != int(sys.argv[1]):
    sys.exit(f"exits.py: exit code {code} instead of {sys.argv[1]}: {' '.join(sys.argv[2:])}")
