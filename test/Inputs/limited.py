"""Runs a command that may write files of so many bytes only, as `ulimit -f` does: limited.py BYTES COMMAND ...

Python ignores the signal of the limit, and so would the command; in a shell it would be killed.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import resource
import signal
import sys

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
os.execvp(sys.argv[2], sys.argv[2:])
