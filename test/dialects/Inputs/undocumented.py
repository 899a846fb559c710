"""Prints the ops of dialects that their references do not name, and the attributes of ops that their sections do not: undocumented.py SOURCE-DIR DIALECT...

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import sys
from pathlib import Path


def operations(text):
    """The names of attributes, by the name of the op."""
    found = {}
    for name, body in re.findall(r"irdl\.operation @(\w+) \{(.*?)^  \}", text, re.MULTILINE | re.DOTALL):
        attributes = re.search(r"irdl\.attributes \{(.*?)\}", body, re.DOTALL)
        found[name] = re.findall(r'"(\w+)" =', attributes[1]) if attributes else []
    return found


source = Path(sys.argv[1])
for dialect in sys.argv[2:]:
    reference = (source / "docs/dialects" / f"{dialect}.md").read_text()
    sections = dict(re.findall(rf"^## {dialect}\.(\w+)\n(.*?)(?=^## |\Z)", reference, re.MULTILINE | re.DOTALL))
    ops = operations((source / "dialects" / f"{dialect}.mlir").read_text())
    assert len(ops) > 5 and any(ops.values())
    for op, attributes in ops.items():
        if op not in sections and f"`{op}`" not in reference:
            print(f"{dialect}.{op}")
        for attribute in attributes:
            # An op without a section is described in that of another one.
            if not re.search(rf"`{attribute}`|\b{attribute} =", sections.get(op, reference)):
                print(f"{dialect}.{op}: attribute {attribute}")
