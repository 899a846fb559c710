"""Says whether each bundle that bench/search_schedules.py has drawn is that of its schedule, and none is that of another one: drawn.py VARIANT FOLDER.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from search_schedules import code_of
from variants import variants

name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
schedules, codes = json.loads((folder / "schedules.json").read_text())["schedules"], set()
for number, schedule in enumerate(schedules):
    with tempfile.TemporaryDirectory() as again:
        source = variants()[name].source(schedule if number else None)
        subprocess.run(["moe-opt", "-", "--emit=bundle", "-o", again], input=source, text=True, check=True)
        codes.add(code_of(folder / str(number)))
        if code_of(folder / str(number)) != code_of(pathlib.Path(again)):
            sys.exit(f"bundle {number} is not that of {schedule}")
print(f"{len(codes)} of {len(schedules)} bundles differ, each is that of its schedule")
