"""Copies documents to an installation: install_documents.py SOURCE TARGET FILE ...

The files keep their places, so that their links hold. A link to what is not installed, a source file say, becomes plain text.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import re
import shutil
import sys
from pathlib import Path

source, target, files = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]


def unlink(folder, match):
    """The link, or its text where it leads to nothing that is installed."""
    path = match[2].split("#")[0]
    named = os.path.normpath(os.path.join(folder, path))
    return match[0] if not path or re.match("[a-z]+:", path) or named in files else match[1]


for name in files:
    to = target / name
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / name, to)
    to.chmod(0o644)
    if name.endswith(".md"):
        folder = os.path.dirname(name)
        to.write_text(re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", lambda match: unlink(folder, match), to.read_text()))
