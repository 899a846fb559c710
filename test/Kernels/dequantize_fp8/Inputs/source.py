"""Prints the op mx_quantize.dequantize_fp8 as a function of any shape: source.py GRANULARITY RANK AXIS Q X [SCHEDULE].

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

granularity, rank, axis, q, x = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6]
schedule = f", schedule = {{{sys.argv[6]}}}" if len(sys.argv) > 6 else ""
grouped = granularity == "group" or (granularity == "row" and rank == 2 and axis == 0)
scale_rank = {"tensor": 1, "expert": 1, "group": 1, "1x128": 2, "128x128": rank, "row": 2 if grouped else rank - 1}
sizes = "x".join("?" * rank)
scale_sizes = "1" if granularity == "tensor" else "x".join("?" * scale_rank[granularity])
order = "" if axis == rank - 1 else ", #col_major"
tensors = [("q", f"tensor<{sizes}x{q}{order}>"), ("s", f"tensor<{scale_sizes}xf32>"), ("offs", "tensor<?xi32>")]
tensors = tensors[: 3 if grouped else 2]
print(f"""#col_major = affine_map<{"(m, k) -> (k, m)" if rank == 2 else "(e, n, k) -> (e, k, n)"}>
func.func @dequantize_fp8({", ".join(f'%{name}: {type} {{moe.name = "{name}"}}' for name, type in tensors)})
    -> (tensor<{sizes}x{x}> {{moe.name = "x"}}) {{
  %x = "mx_quantize.dequantize_fp8"({", ".join(f"%{name}" for name, _ in tensors)})
      {{granularity = "{granularity}", axis = {axis} : i64{schedule}}}
      : ({", ".join(type for _, type in tensors)}) -> tensor<{sizes}x{x}>
  return %x : tensor<{sizes}x{x}>
}}""")
