"""Whether the pictures in docs/performance are what bench/plot.py draws: pictures.py SOURCE.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

source = Path(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    copy = Path(folder)
    shutil.copytree(source / "docs", copy / "docs")
    (copy / "bench").mkdir()
    shutil.copy(source / "bench" / "plot.py", copy / "bench")
    subprocess.run([sys.executable, copy / "bench" / "plot.py", "all"], check=True)
    for picture in (source / "docs" / "performance").glob("*.svg"):
        if picture.read_bytes() != (copy / "docs" / "performance" / picture.name).read_bytes():
            sys.exit(f"{picture.name} is not what its page says: run bench/plot.py all")
