"""Prints a quantization with f32 scales as a function of x, of y in a pair, and offs where there are groups.

  source.py OP GRANULARITY RANK AXIS X Q POW2 SANITIZE [SCHEDULE [SIZES [GROUPS]]]

OP: quantize, quantize-aligned with `align`, or scale for the first of two passes alone. GRANULARITY dual and AXIS both: the dual op, dual-1x128 and
dual-128x128 with these; GRANULARITY pair: that; 1x128-side: 1x128, with the scales of the last axis column-major, as they are in
dual-1x128. SCHEDULE: the text of the attribute without braces, or none. SIZES, as 96x64, and GROUPS: static ones; sizes are dynamic
without. In a pair a third size is that of y's columns.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

op, granularity, rank, axis, x, q, pow2, sanitize, *more = sys.argv[1:]
aligned, op = op.endswith("-aligned"), op.removesuffix("-aligned")
dual, pair = granularity.startswith("dual"), granularity == "pair"
slices_of_dual = granularity.removeprefix("dual").removeprefix("-") or "row"
side = granularity in ("1x128-side", "dual-1x128")
granularity = granularity.removesuffix("-side")
schedule, sizes, groups = more + ["none", "x".join("?" * (int(rank) + pair)), "?"][len(more) :]
rank, size = int(rank), sizes.split("x")
column_major = {2: "affine_map<(m, k) -> (k, m)>", 3: "affine_map<(e, n, k) -> (e, k, n)>"}[rank]


def tensor(dims, element, order=None):
    return f"tensor<{'x'.join([*dims, element])}{', ' + order if order else ''}>"


def blocks(dim):
    return dim if dim == "?" else str(-(-int(dim) // 128))


def scale_dims(granularity, axis, size):
    if granularity == "row":
        return ([groups] if axis == 0 else []) + [dim for d, dim in enumerate(size) if d != axis]
    if granularity in ("1x128", "128x128"):
        cut = [axis] if granularity == "1x128" else [rank - 2, rank - 1]
        dims = [blocks(dim) if d in cut else dim for d, dim in enumerate(size)]
        if granularity == "1x128" and axis == 0 and dims[0] != "?":
            dims[0] = str(int(dims[0]) + int(groups))
        return dims
    return [{"tensor": "1", "expert": size[0], "group": groups}[granularity]]


# Suffixes of the results, and the tensor, the granularity and the axis that they are of.
shapes = {"x": size[:2], "y": [size[0], size[2]]} if pair else {"x": size}
directions = [("", "x", granularity, int(axis))] if not dual and not pair else []
directions += [("", "x", slices_of_dual, rank - 1), ("t", "x", slices_of_dual, rank - 2)] if dual else []
directions += [("", "x", "row", 0), ("y", "y", "row", 0)] if pair else []
grouped = granularity == "group" or any(g in ("row", "1x128") and a == 0 for _, _, g, a in directions)
operands = {name: tensor(shape, x) for name, shape in shapes.items()} | ({"offs": tensor([groups], "i32")} if grouped else {})
results, returned = {}, []
for suffix, name, slices, along in directions:
    dims = scale_dims(slices, along, shapes[name])
    if op == "scale":
        results |= {"s" + suffix: tensor(dims, "f32"), "f" + suffix: tensor(dims, "f32"), "state" + suffix: tensor(["2", *dims], "i32")}
        returned += ["s" + suffix, "f" + suffix]
    else:
        shape = shapes[name]
        if grouped and rank == 2 and along == 0 and shape[0] != "?":
            shape = [str((-(-int(shape[0]) // 128) + (int(groups) if aligned else 0)) * 128), *shape[1:]]
        order = column_major if side and along == rank - 1 else None
        results |= {"q" + suffix: tensor(shape, q, column_major if along == rank - 2 else None), "s" + suffix: tensor(dims, "f32", order)}
        returned += ["q" + suffix, "s" + suffix]
attributes = [f'granularity = "{slices_of_dual}"'] if dual and slices_of_dual != "row" else [] if dual or pair else [f'granularity = "{granularity}"', f"axis = {axis} : i64"]
attributes += [f"pow2 = {pow2}", f"sanitize = {sanitize}"] + ([f'element = "{q}"'] if op == "scale" else [])
attributes += ["align = 128 : i64"] if aligned else []
attributes += [f"schedule = {{{schedule}}}"] if schedule != "none" else []
arguments = ", ".join(f"%{name}: {kind}" for name, kind in operands.items())
types = ", ".join(results[name] for name in returned)
print(f"""func.func @{op}({arguments}) -> ({types}) {{
  {", ".join("%" + name for name in results)} = "mx_quantize.{op}_fp8{"_dual" if dual else "_pair" if pair else ""}"({", ".join("%" + name for name in operands)})
      {{{", ".join(attributes)}}}
      : ({", ".join(operands.values())}) -> ({", ".join(results.values())})
  return {", ".join("%" + name for name in returned)} : {types}
}}""")
