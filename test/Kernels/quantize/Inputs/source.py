"""Prints an MX quantizer as a function of any shape: source.py MODE X Q [rows|columns|both] [RANK] [SCHEDULE].

SCHEDULE is the text of the attribute, without braces.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

mode, x, q = sys.argv[1:4]
direction = sys.argv[4] if len(sys.argv) > 4 else "columns"
rank = int(sys.argv[5]) if len(sys.argv) > 5 else 3
schedule = f", schedule = {{{sys.argv[6]}}}" if len(sys.argv) > 6 else ""
dims = "?x" * rank
order = {2: "affine_map<(m, k) -> (k, m)>", 3: "affine_map<(e, n, k) -> (e, k, n)>"}[rank]
rows, columns, scales = f"tensor<{dims}{q}>", f"tensor<{dims}{q}, {order}>", f"tensor<{dims}f8E8M0FNU>"
if direction == "both":
    op, axis, results = "quantize_dual", "", {"q": rows, "scales": scales, "q_t": columns, "scales_t": scales}
else:
    op, axis = "quantize", f"axis = {rank - 1 if direction == 'rows' else rank - 2} : i64, "
    results = {"q": rows if direction == "rows" else columns, "scales": scales}
names, types = ", ".join("%" + name for name in results), ", ".join(results.values())
print(f"""func.func @quantize(%w: tensor<{dims}{x}>) -> ({types}) {{
  {names} = "mx_quantize.{op}"(%w) {{{axis}block = 32 : i64, mode = "{mode}"{schedule}}} : (tensor<{dims}{x}>) -> ({types})
  return {names} : {types}
}}""")
