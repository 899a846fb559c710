"""Ends a command as soon as it begins to write into a folder: interrupted.py FOLDER COMMAND ...

Passes when the signal ended the command.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import signal
import subprocess
import sys

folder = sys.argv[1]
before = os.listdir(folder)
run = subprocess.Popen(sys.argv[2:])
while os.listdir(folder) == before and run.poll() is None:
    pass
run.send_signal(signal.SIGTERM)
if run.wait() != -signal.SIGTERM:
    sys.exit(f"ended with {run.returncode}, not by the signal")
