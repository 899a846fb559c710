"""Runs a command that may write files of so many bytes only: limited.py BYTES COMMAND ...

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import resource
import signal
import sys

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
os.execvp(sys.argv[2], sys.argv[2:])
