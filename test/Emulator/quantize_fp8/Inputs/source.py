"""Prints a quantization with f32 scales as a function of x, and offs where there are groups.

  source.py OP GRANULARITY RANK AXIS X Q POW2 SANITIZE [SCHEDULE [SIZES [GROUPS]]]

OP: quantize, or scale for the first of two passes alone. GRANULARITY dual and AXIS both: the dual op. SCHEDULE: the text of the
attribute without braces, or none. SIZES, as 96x64, and GROUPS: static ones; sizes are dynamic without.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

op, granularity, rank, axis, x, q, pow2, sanitize, *more = sys.argv[1:]
schedule, sizes, groups = more + ["none", "x".join("?" * int(rank)), "?"][len(more) :]
rank, size, dual = int(rank), sizes.split("x"), granularity == "dual"
column_major = {2: "affine_map<(m, k) -> (k, m)>", 3: "affine_map<(e, n, k) -> (e, k, n)>"}[rank]


def tensor(dims, element, order=None):
    return f"tensor<{'x'.join([*dims, element])}{', ' + order if order else ''}>"


def blocks(dim):
    return dim if dim == "?" else str(-(-int(dim) // 128))


def scale_dims(granularity, axis):
    if granularity == "row":
        return ([groups] if axis == 0 else []) + [dim for d, dim in enumerate(size) if d != axis]
    if granularity in ("1x128", "128x128"):
        first = rank - (1 if granularity == "1x128" else 2)
        return [blocks(dim) if d >= first else dim for d, dim in enumerate(size)]
    return [{"tensor": "1", "expert": size[0], "group": groups}[granularity]]


# Suffixes of the results, and the granularity and the axis that they are of.
directions = [("", "row", rank - 1), ("t", "row", rank - 2)] if dual else [("", granularity, int(axis))]
grouped = granularity == "group" or any(g == "row" and a == 0 for _, g, a in directions)
operands = {"x": tensor(size, x)} | ({"offs": tensor([groups], "i32")} if grouped else {})
results, returned = {}, []
for suffix, slices, along in directions:
    dims = scale_dims(slices, along)
    if op == "scale":
        results |= {"s" + suffix: tensor(dims, "f32"), "f" + suffix: tensor(dims, "f32"), "state" + suffix: tensor(["2", *dims], "i32")}
        returned += ["s" + suffix, "f" + suffix]
    else:
        results |= {"q" + suffix: tensor(size, q, column_major if along == rank - 2 else None), "s" + suffix: tensor(dims, "f32")}
        returned += ["q" + suffix, "s" + suffix]
attributes = [] if dual else [f'granularity = "{granularity}"', f"axis = {axis} : i64"]
attributes += [f"pow2 = {pow2}", f"sanitize = {sanitize}"] + ([f'element = "{q}"'] if op == "scale" else [])
attributes += [f"schedule = {{{schedule}}}"] if schedule != "none" else []
arguments = ", ".join(f"%{name}: {kind}" for name, kind in operands.items())
types = ", ".join(results[name] for name in returned)
print(f"""func.func @{op}({arguments}) -> ({types}) {{
  {", ".join("%" + name for name in results)} = "mx_quantize.{op}_fp8{"_dual" if dual else ""}"({", ".join("%" + name for name in operands)})
      {{{", ".join(attributes)}}}
      : ({", ".join(operands.values())}) -> ({", ".join(results.values())})
  return {", ".join("%" + name for name in returned)} : {types}
}}""")
