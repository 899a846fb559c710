"""Prints a function that quantizes so many matrices of K columns: many_launches.py COUNT ROWS K.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

count, rows, k = int(sys.argv[1]), *sys.argv[2:]
x, q, scales = f"tensor<{rows}x{k}xbf16>", f"tensor<{rows}x{k}xf8E4M3FN>", f"tensor<{rows}x{k if k == '?' else int(k) // 32}xf8E8M0FNU>"
types = ", ".join([q, scales] * count)
print(f"func.func @f({', '.join(f'%x{i}: {x}' for i in range(count))}) -> ({types}) {{")
for i in range(count):
    print(f'  %q{i}, %s{i} = "mx_quantize.quantize"(%x{i}) {{axis = 1 : i64, block = 32 : i64, mode = "rceil"}} : ({x}) -> ({q}, {scales})')
print(f"  return {', '.join(f'%q{i}, %s{i}' for i in range(count))} : {types}\n}}")
