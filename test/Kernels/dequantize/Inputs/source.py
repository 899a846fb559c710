"""Prints the op mx_quantize.dequantize as a function of any shape: source.py RANK AXIS Q X [SCHEDULE [ORDER]].

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

rank, axis, q, x = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5]
schedule = f", schedule = {{{sys.argv[5]}}}" if len(sys.argv) > 5 and sys.argv[5] else ""
schedule += f', order = "{sys.argv[6]}"' if len(sys.argv) > 6 else ""
sizes = "x".join("?" * rank)
order = "" if axis == rank - 1 else ", #col_major"
print(f"""#col_major = affine_map<{"(m, k) -> (k, m)" if rank == 2 else "(e, n, k) -> (e, k, n)"}>
func.func @dequantize(%q: tensor<{sizes}x{q}{order}> {{moe.name = "q"}}, %s: tensor<{sizes}xf8E8M0FNU> {{moe.name = "s"}})
    -> (tensor<{sizes}x{x}> {{moe.name = "x"}}) {{
  %x = "mx_quantize.dequantize"(%q, %s) {{axis = {axis} : i64, block = 32 : i64{schedule}}}
      : (tensor<{sizes}x{q}{order}>, tensor<{sizes}xf8E8M0FNU>) -> tensor<{sizes}x{x}>
  return %x : tensor<{sizes}x{x}>
}}""")
