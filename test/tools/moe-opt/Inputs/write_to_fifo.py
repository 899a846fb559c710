"""write_to_fifo.py FIFO COMMAND...: makes the named pipe, runs the command, prints what came through the pipe.

Fails where the command does, or where it has put something else in the place of the pipe.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import stat
import subprocess
import sys

path = sys.argv[1]
os.mkfifo(path)
reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # open first, so that the writer does not wait
code = subprocess.run(sys.argv[2:]).returncode  # a writer that waits forever is ended by lit
sys.stdout.write(os.read(reader, 1 << 16).decode())
if not stat.S_ISFIFO(os.stat(path).st_mode):
    sys.exit("write_to_fifo.py: the pipe has been replaced")
sys.exit(code)
