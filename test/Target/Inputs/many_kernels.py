"""Prints so many functions with a kernel each, one with shared memory behind each that has none: many_kernels.py COUNT.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

for i in range(int(sys.argv[1])):
    x, q = "tensor<64x64xbf16>", "tensor<64x64xf8E4M3FN" + (", affine_map<(m, k) -> (k, m)>>" if i % 2 else ">")
    scales = "tensor<2x64xf8E8M0FNU>" if i % 2 else "tensor<64x2xf8E8M0FNU>"
    print(f"""func.func @f{i}(%x: {x}) -> ({q}, {scales}) {{
  %q, %scales = "mx_quantize.quantize"(%x) {{axis = {1 - i % 2} : i64, block = 32 : i64, mode = "rceil"}} : ({x}) -> ({q}, {scales})
  return %q, %scales : {q}, {scales}
}}""")
