"""Prints a function that quantizes so many matrices of K columns: many_launches.py COUNT ROWS K [product]. With a product behind them, whose kernel has
tensors of its own.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

count, rows, k = int(sys.argv[1]), *sys.argv[2:4]
x, q, scales = f"tensor<{rows}x{k}xbf16>", f"tensor<{rows}x{k}xf8E4M3FN>", f"tensor<{rows}x{k if k == '?' else int(k) // 32}xf8E8M0FNU>"
arguments, results, types = [f"%x{i}: {x}" for i in range(count)], [f"%q{i}, %s{i}" for i in range(count)], [q, scales] * count
ops = [f'  %q{i}, %s{i} = "mx_quantize.quantize"(%x{i}) {{axis = 1 : i64, block = 32 : i64, mode = "rceil"}} : ({x}) -> ({q}, {scales})' for i in range(count)]
if sys.argv[4:] == ["product"]:
    a, b, offs, out = "tensor<64x32xbf16, affine_map<(m, k) -> (k, m)>>", "tensor<32x256xbf16>", "tensor<2xi32>", "tensor<2x64x256xbf16>"
    arguments += [f"%a: {a}", f"%b: {b}", f"%offs: {offs}"]
    ops.append(f'  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : ({a}, {b}, {offs}) -> {out}')
    results.append("%out")
    types.append(out)
print(f"func.func @f({', '.join(arguments)}) -> ({', '.join(types)}) {{", *ops, f"  return {', '.join(results)} : {', '.join(types)}\n}}", sep="\n")
