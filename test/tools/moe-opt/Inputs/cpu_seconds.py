"""Runs a command that may take so many seconds of processor time, however busy the machine is: cpu_seconds.py SECONDS COMMAND ...

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import resource
import sys

resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]),) * 2)
os.execvp(sys.argv[2], sys.argv[2:])
