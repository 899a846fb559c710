"""Prints scaled_grouped_mm.grouped_mm as a function of any shape: source.py CASE RECIPE OUT [ACCUMULATE].

CASE is forward, dgrad, wgrad, batched or batched_swapped: as the tensors of a network lie.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

case, recipe, out, *accumulate = sys.argv[1:]
A, B, OUT, A_ORDER, B_ORDER = {
    "forward": ("?x?", "?x?x?", "?x?", "", ", #ekn"),
    "dgrad": ("?x?", "?x?x?", "?x?", "", ""),
    "wgrad": ("?x?", "?x?", "?x?x?", ", #nm", ""),
    "batched": ("?x?x?", "?x?x?", "?x?x?", "", ", #ekn"),
    "batched_swapped": ("?x?x?", "?x?x?", "?x?x?", ", #ekn", ""),
}[case]
tensors = [("a", f"tensor<{A}xbf16{A_ORDER}>"), ("b", f"tensor<{B}xbf16{B_ORDER}>"), ("offs", "tensor<?xi32>")]
tensors = tensors[: 2 if case.startswith("batched") else 3]
sums = f', accumulate = "{accumulate[0]}"' if accumulate else ""
print(f"""#ekn = affine_map<(e, k, n) -> (e, n, k)>
#nm = affine_map<(n, m) -> (m, n)>
func.func @{case}({", ".join(f"%{name}: {type}" for name, type in tensors)}) -> tensor<{OUT}x{out}> {{
  %out = "scaled_grouped_mm.grouped_mm"({", ".join(f"%{name}" for name, _ in tensors)}) {{recipe = "{recipe}"{sums}}}
      : ({", ".join(type for _, type in tensors)}) -> tensor<{OUT}x{out}>
  return %out : tensor<{OUT}x{out}>
}}""")
