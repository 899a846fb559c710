"""Prints a cast by given factors as a function of any shape: cast.py GRANULARITY RANK AXIS X Q SANITIZE, or with `both both`
for GRANULARITY and AXIS cast_fp8_dual.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

granularity, rank, axis, x, q, sanitize = sys.argv[1:]
rank = int(rank)
columns = {2: "affine_map<(m, k) -> (k, m)>", 3: "affine_map<(e, n, k) -> (e, k, n)>"}[rank]


def tensor(rank, element, order=None):
    return f"tensor<{'?x' * rank}{element}{', ' + order if order else ''}>"


if granularity == "both":
    op, attributes = "cast_fp8_dual", ""
    operands = {"x": tensor(rank, x), "f": tensor(rank - 1, "f32"), "ft": tensor(2, "f32")}
    results = {"q": tensor(rank, q), "q_t": tensor(rank, q, columns)}
    grouped = rank == 2
else:
    axis = int(axis)
    op, attributes = "cast_fp8", f'axis = {axis} : i64, granularity = "{granularity}", '
    grouped = granularity == "group" or (granularity == "row" and axis == 0)
    ranks = {"row": rank if grouped else rank - 1, "expert": 1, "group": 1}
    factors = "tensor<1xf32>" if granularity == "tensor" else tensor(ranks[granularity], "f32")
    operands = {"x": tensor(rank, x), "f": factors}
    results = {"q": tensor(rank, q, columns if axis == rank - 2 else None)}
if grouped:
    operands["offs"] = "tensor<?xi32>"
arguments = ", ".join(f"%{name}: {kind}" for name, kind in operands.items())
uses, names = (", ".join("%" + name for name in those) for those in (operands, results))
types = ", ".join(results.values())
print(f"""func.func @cast({arguments}) -> ({types}) {{
  {names} = "mx_quantize.{op}"({uses}) {{{attributes}sanitize = {sanitize}}}
      : ({", ".join(operands.values())}) -> ({types})
  return {names} : {types}
}}""")
