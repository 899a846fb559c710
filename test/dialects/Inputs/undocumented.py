"""Prints the ops of dialects that their references do not name: undocumented.py SOURCE-DIR DIALECT...

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import sys
from pathlib import Path

source = Path(sys.argv[1])
for dialect in sys.argv[2:]:
    reference = (source / "docs/dialects" / f"{dialect}.md").read_text()
    ops = re.findall(r"irdl\.operation @(\w+)", (source / "dialects" / f"{dialect}.mlir").read_text())
    assert ops
    for op in ops:
        if not re.search(rf"^## {dialect}\.{op}$|`{op}`", reference, re.MULTILINE):
            print(f"{dialect}.{op}")
