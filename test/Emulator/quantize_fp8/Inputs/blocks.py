"""Prints the op mx_quantize.quantize_fp8 in blocks as a function of any shape: blocks.py GRANULARITY RANK X Q POW2 SANITIZE [SCHEDULE].

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

granularity, rank, x, q, pow2, sanitize = sys.argv[1], int(sys.argv[2]), *sys.argv[3:7]
schedule = f", schedule = {{{sys.argv[7]}}}" if len(sys.argv) > 7 else ""
sizes = "x".join("?" * rank)
print(f"""func.func @quantize_fp8(%x: tensor<{sizes}x{x}> {{moe.name = "x"}})
    -> (tensor<{sizes}x{q}> {{moe.name = "q"}}, tensor<{sizes}xf32> {{moe.name = "s"}}) {{
  %q, %s = "mx_quantize.quantize_fp8"(%x)
      {{granularity = "{granularity}", axis = {rank - 1} : i64, pow2 = {pow2}, sanitize = {sanitize}{schedule}}}
      : (tensor<{sizes}x{x}>) -> (tensor<{sizes}x{q}>, tensor<{sizes}xf32>)
  return %q, %s : tensor<{sizes}x{q}>, tensor<{sizes}xf32>
}}""")
