"""expect.py CODE COMMAND...: runs the command and fails unless it ends with this exit code.

lit knows only zero and not zero; the exit codes of moe-opt are part of its interface.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import subprocess
import sys

code = subprocess.run(sys.argv[2:]).returncode
if code != int(sys.argv[1]):
    sys.exit(f"expect.py: exit code {code} instead of {sys.argv[1]}: {' '.join(sys.argv[2:])}")
