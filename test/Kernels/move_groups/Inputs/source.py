"""Prints the op mx_quantize.pad_groups or unpad_groups as a function of any shape: source.py pad|unpad TYPE ALIGN [SCHEDULE].

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

op, element, align = sys.argv[1:4]
schedule = f", schedule = {{{sys.argv[4]}}}" if len(sys.argv) > 4 else ""
rows, offs = f"tensor<?x?x{element}>", "tensor<?xi32>"
operands = {"pad": [("x", rows), ("offs", offs)], "unpad": [("padded", rows), ("offs", offs), ("padded_offs", offs)]}[op]
results = {"pad": [("padded", rows), ("padded_offs", offs)], "unpad": [("x", rows)]}[op]
types = ", ".join(type for _, type in results)
print(f"""func.func @{op}_groups({", ".join(f'%{name}: {type} {{moe.name = "{name}"}}' for name, type in operands)})
    -> ({", ".join(f'{type} {{moe.name = "{name}"}}' for name, type in results)}) {{
  %results:{len(results)} = "mx_quantize.{op}_groups"({", ".join(f"%{name}" for name, _ in operands)}) {{align = {align} : i64{schedule}}}
      : ({", ".join(type for _, type in operands)}) -> ({types})
  return {", ".join(f"%results#{i}" for i in range(len(results)))} : {types}
}}""")
