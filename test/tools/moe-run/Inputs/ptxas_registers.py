#!/usr/bin/env python3
"""Stands in for ptxas: writes a cubin whose .nv.info says that its kernel has 104 registers.

Called `symbols`, it writes one that names the last symbol that a number can name.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import re
import struct
import sys

if sys.argv[1] == "--version":
    print("Cuda compilation tools, release 13.3, V13.3.73")
    sys.exit()
name = os.path.basename(sys.argv[0])
output = sys.argv[sys.argv.index("-o") + 1]
source = next(a for a in sys.argv[1:] if a.startswith("/proc") and a != output)
kernel = re.search(r"\.entry (\w+)", open(source).read())[1].encode()
names = b"\0.shstrtab\0.text." + kernel + b"\0.symtab\0.nv.info\0"
# An attribute of another format comes first; symbol 1 is the kernel.
parts = [names, bytes(48), bytes(24) + struct.pack("<IBBHQQ", 1, 18, 0, 2, 0, 48)]
parts.append(struct.pack("<BBH", 1, 4, 0) + struct.pack("<BBHII", 4, 0x2F, 8, 2**32 - 1 if name == "symbols" else 1, 104))
kinds = [(b".shstrtab", 3), (b".text." + kernel, 1), (b".symtab", 2), (b".nv.info", 1)]
offsets = [64 + sum(map(len, parts[:i])) for i in range(len(parts))]
end = 64 + sum(map(len, parts))
header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 190, 1, 0, 0, end, 0, 64, 0, 0, 64, len(parts) + 1, 1)
with open(output, "wb") as cubin:
    cubin.write(header + b"".join(parts) + bytes(64))
    for (name, kind), offset, part in zip(kinds, offsets, parts):
        cubin.write(struct.pack("<IIQQQQIIQQ", names.index(name), kind, 0, 0, offset, len(part), 0, 0, 1, 0))
