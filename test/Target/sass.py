"""Counts the instructions of a cubin that matter: asynchronous copies, matrix products, local memory, loops over the lanes of a warp (BRA.U.ANY).

Why: whether a kernel uses the hardware as intended shows in its machine code and nowhere else. No disassembler is needed:
a cubin is an ELF file, its code lies in sections named .text.<kernel>, and every instruction of sm_90 has 16 bytes, whose
lowest 12 bits are the opcode.

  sass.py x.cubin          prints, per kernel, each known opcode and how often it stands in the code

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import collections
import struct
import sys

OPCODES = {
    0x5B4: "UTMALDG",  # copy by tensor map, global to shared memory
    0x3B4: "UTMALDG (multicast)",  # the same, into several blocks
    0x3B5: "UTMASTG",  # shared to global memory
    0x387: "STL",  # store to local memory
    0x983: "LDL",  # load from local memory
    0x844: "STSM",  # store of 8 x 8 matrices to shared memory
    0x9C8: "USETMAXREG",
    0x9F0: "HGMMA",
    0xDF0: "HGMMA (A in registers)",
    0x9F3: "QGMMA",
    0xDF3: "QGMMA (A in registers)",
    0x23E: "F2FP",  # packs two floats
}
BRANCH, OVER_LANES = 0x947, 1 << 20  # BRA, and the bit of its third word that makes it BRA.U.ANY: a loop over lanes around what takes uniform registers
INSTRUCTION = 16
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")


class NotACubin(Exception):
    """The file is not a 64-bit little-endian ELF file with sections."""


def sections(data):
    """Yields (name, bytes) of every section that has bytes in the file."""
    if len(data) < HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        raise NotACubin("no 64-bit little-endian ELF header")
    fields = HEADER.unpack_from(data)
    table, entry_size, count, names_index = fields[6], fields[11], fields[12], fields[13]
    if entry_size != SECTION.size or table + count * entry_size > len(data) or names_index >= count:
        raise NotACubin("the section table is damaged")
    headers = [SECTION.unpack_from(data, table + i * entry_size) for i in range(count)]
    names = headers[names_index][4]
    for name, kind, _, _, offset, size, *_ in headers:
        if kind == 8:  # SHT_NOBITS
            continue
        if offset + size > len(data):
            raise NotACubin("a section ends behind the file")
        end = data.index(b"\0", names + name)
        yield data[names + name : end].decode(), data[offset : offset + size]


def census(data):
    """{kernel: Counter of opcode names, "total" included} of a cubin's bytes."""
    result = {}
    for name, code in sections(data):
        if not name.startswith(".text."):
            continue
        counts = collections.Counter()
        for at in range(0, len(code), INSTRUCTION):
            first, _, third, _ = struct.unpack_from("<IIII", code, at)
            opcode = first & 0xFFF
            counts["total"] += 1
            if opcode in OPCODES:
                counts[OPCODES[opcode]] += 1
            if opcode == BRANCH and third & OVER_LANES:
                counts["BRA.U.ANY"] += 1
        result[name[len(".text.") :]] = counts
    return result


if __name__ == "__main__":
    try:
        with open(sys.argv[1], "rb") as file:
            for kernel, counts in census(file.read()).items():
                print(kernel, " ".join(f"{name}={count}" for name, count in sorted(counts.items())))
    except (OSError, NotACubin) as problem:
        sys.exit(f"sass.py: error: {sys.argv[1]}: {problem}")
