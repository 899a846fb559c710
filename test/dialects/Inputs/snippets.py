"""Prints the MLIR snippets of a Markdown page, as pieces for --split-input-file.

  snippets.py PAGE [--with-kernel]      with --with-kernel, those that begin with the line "// Has a kernel."

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import sys

with open(sys.argv[1]) as file:
    snippets = re.findall(r"^```mlir\n(.*?)^```$", file.read(), re.M | re.S)
if "--with-kernel" in sys.argv:
    snippets = [snippet for snippet in snippets if snippet.startswith("// Has a kernel.\n")]
print("\n// -----\n\n".join(snippets), end="")
