"""Prints a function of so many products by a recipe: many_products.py COUNT.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

count, matrix, weights, offs = int(sys.argv[1]), "tensor<64x64xbf16>", "tensor<2x64x64xbf16>", "tensor<2xi32>"
arguments = ", ".join(f"%a{i}: {matrix}, %b{i}: {weights}" for i in range(count))
types = ", ".join([matrix] * count)
print(f"func.func @f({arguments}, %offs: {offs}) -> ({types}) {{")
for i in range(count):
    print(f'  %out{i} = "scaled_grouped_mm.grouped_mm"(%a{i}, %b{i}, %offs) {{recipe = "fp8_rowwise"}} : ({matrix}, {weights}, {offs}) -> {matrix}')
print(f"  return {', '.join(f'%out{i}' for i in range(count))} : {types}\n}}")
