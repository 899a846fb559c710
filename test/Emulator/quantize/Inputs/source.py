"""Prints the op mx_quantize.quantize as a function of any shape: source.py MODE X Q.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

mode, x, q = sys.argv[1:]
print(f"""#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @quantize(%w: tensor<?x?x?x{x}>) -> (tensor<?x?x?x{q}, #col_major>, tensor<?x?x?xf8E8M0FNU>) {{
  %q, %scales = "mx_quantize.quantize"(%w) {{axis = 1 : i64, block = 32 : i64, mode = "{mode}"}}
      : (tensor<?x?x?x{x}>) -> (tensor<?x?x?x{q}, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return %q, %scales : tensor<?x?x?x{q}, #col_major>, tensor<?x?x?xf8E8M0FNU>
}}""")
