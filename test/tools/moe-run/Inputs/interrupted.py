"""Ends a command as soon as it begins to write: interrupted.py DIRECTORY MOE_RUN ...

Adds --out DIRECTORY/out. Passes when the signal ended the command.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import signal
import subprocess
import sys

directory = sys.argv[1]
run = subprocess.Popen(sys.argv[2:] + ["--out", os.path.join(directory, "out")])
while not os.listdir(directory) and run.poll() is None:
    pass
run.send_signal(signal.SIGTERM)
if run.wait() != -signal.SIGTERM:
    sys.exit(f"ended with {run.returncode}, not by the signal")
