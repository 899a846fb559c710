#!/usr/bin/env python3
"""The quantizers that bench/gpu compiles, checks and times: one line of the table each; and the products of products.py,
recipes.py and mixed_products.py.

    bench/variants.py list                        their names
    bench/variants.py source NAME [SCHEDULE]      MLIR; SCHEDULE is the text of the attribute, without braces
    bench/variants.py arguments NAME check|sanitize|bench|tune  arguments of moe-run, one call a line

All tensors have dynamic shapes, so that one compiled kernel does for every shape.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

from mixed_products import mixed_products
from products import products
from recipes import recipes

# Shapes of x. Rank 3: expert weights (E,N,K); rank 2: tokens (M,K).
CHECK = {
    3: ["2x1024x5120", "3x96x416", "5x160x1408", "2x32x32", "64x256x512"],
    2: ["1024x7168", "256x16384", "96x416", "160x1408", "32x32"],
}
# Checked too where the types are the usual ones.
CHECK_LARGE = {3: ["1x8192x5120", "32x2048x7168"], 2: ["16384x5120", "65536x7168"]}
SANITIZE = {3: ["3x96x416", "2x32x32"], 2: ["96x416", "32x32"]}
BENCH = {
    3: ["1x8192x5120", "2x8192x5120", "4x8192x5120", "8x8192x5120", "16x8192x5120", "8x2048x7168"],
    2: ["131072x7168", "16384x5120", "32768x2048", "16384x16384"],
}
GROUPED_CHECK = [("8192x5120", 8), ("4096x1408", 64), ("1024x416", 17), ("160x96", 3), ("2048x256", 256), ("16x16", 1)]
GROUPED_SANITIZE = [("1024x416", 17), ("160x96", 3)]
GROUPED_BENCH = [("65536x5120", e) for e in (1, 2, 4, 8, 16, 32, 64)] + [("131072x7168", 8)]


def tensor(rank, element, column_major=False):
    order = {2: "affine_map<(m, k) -> (k, m)>", 3: "affine_map<(e, n, k) -> (e, k, n)>"}
    return f"tensor<{'?x' * rank}{element}{', ' + order[rank] if column_major else ''}>"


class Variant:
    """An op with its operand types, result types and attributes; the results that a function returns."""

    def __init__(self, op, operands, results, attributes, returned=None, shapes=None):
        """shapes: for operands besides the first one and offs, their shape from that of the first and the groups; for the
        first, its own from that of the table."""
        self.op, self.operands, self.results, self.attributes = op, operands, results, attributes
        self.shapes = shapes or {}
        self.returned = returned or list(results)
        self.grouped = "offs" in operands

    def source(self, schedule=None):
        attributes = ", ".join(filter(None, (self.attributes, f"schedule = {{{schedule}}}" if schedule else "")))
        arguments = ", ".join(f"%{name}: {kind}" for name, kind in self.operands.items())
        returned = ", ".join(self.results[name] for name in self.returned)
        return (
            f"func.func @{self.op}({arguments}) -> ({returned}) {{\n"
            f"  {', '.join('%' + name for name in self.results)} = \"mx_quantize.{self.op}\""
            f"({', '.join('%' + name for name in self.operands)}) {{{attributes}}}\n"
            f"      : ({', '.join(self.operands.values())}) -> ({', '.join(self.results.values())})\n"
            f"  return {', '.join('%' + name for name in self.returned)} : {returned}\n}}\n"
        )

    def rank(self):
        return self.operands[next(iter(self.operands))].count("?")

    def is_usual(self):
        types = [*self.operands.values(), *self.results.values()]
        return any("bf16" in t for t in types) and any("E4M3" in t for t in types) and '"floor"' not in self.attributes

    def is_timed(self):
        """Other element types of the result and other modes cost the same."""
        types = [*self.operands.values(), *self.results.values()]
        other_mode = 'mode = "' in self.attributes and '"rceil"' not in self.attributes
        return not any("f8E5M2" in t for t in (*types, self.attributes)) and not other_mode

    def arguments(self, what):
        """Lists of arguments, a call each."""
        if what == "tune":
            return [line.replace("--bench", "--tune") for line in self.arguments("bench")]
        if what == "bench" and not self.is_timed():
            return []
        action = "--bench" if what == "bench" else "--check --edge-blocks"
        if self.grouped:
            cases = {"check": GROUPED_CHECK, "sanitize": GROUPED_SANITIZE, "bench": GROUPED_BENCH}[what]
            kinds = {"check": ["ragged", "equal", "edge"], "sanitize": ["edge"], "bench": ["equal", "ragged"]}[what]
        else:
            shapes = {"check": CHECK, "sanitize": SANITIZE, "bench": BENCH}[what][self.rank()]
            if what == "check" and self.is_usual():
                shapes = shapes + CHECK_LARGE[self.rank()]
            cases, kinds = [(shape, 0) for shape in shapes], [None]
        lists = " ".join(f"--shape {name}={','.join(self.shape(name, *case) for case in cases)}"
                         for name in self.operands if "?" in self.operands[name])
        return [f"{action} {lists}" + (f" --groups {kind}" if kind else "") for kind in kinds]

    def shape(self, name, x, groups):
        if name == "offs":
            return str(groups)
        first = name == next(iter(self.operands))
        if first and name not in self.shapes:
            return x
        return "x".join(map(str, self.shapes[name]([int(size) for size in x.split("x")], groups)))


def mx(rank, direction, element, q, mode):
    x = tensor(rank, element)
    row_q, col_q, scales = tensor(rank, q), tensor(rank, q, True), tensor(rank, "f8E8M0FNU")
    common = f'block = 32 : i64, mode = "{mode}"'
    if direction == "dual":
        return Variant("quantize_dual", {"x": x}, {"q": row_q, "s": scales, "qt": col_q, "st": scales}, common)
    axis = rank - 1 if direction == "row" else rank - 2
    return Variant("quantize", {"x": x}, {"q": row_q if direction == "row" else col_q, "s": scales},
                   f"axis = {axis} : i64, {common}")


def mx_groups(element, q, mode="rceil"):
    """MX blocks along tokens, counted from the start of each group."""
    return Variant("quantize", {"x": tensor(2, element), "offs": "tensor<?xi32>"}, {"q": tensor(2, q, True), "s": tensor(2, "f8E8M0FNU")},
                   f'axis = 0 : i64, block = 32 : i64, mode = "{mode}"')


def rounding(rank, direction, element, mode):
    """Numbers of MX blocks, as bf16: along the last dimension, the one before it, or both; tokens along the latter in groups."""
    x = tensor(rank, "bf16")
    operands = {"x": x} | ({"offs": "tensor<?xi32>"} if rank == 2 and direction != "row" else {})
    common = f'block = 32 : i64, mode = "{mode}", element = "{element}"'
    if direction == "dual":
        whole = {"x": lambda x, groups: [x[0], -(-x[1] // 32) * 32]} if rank == 2 else {}  # rows are whole MX blocks
        return Variant("round_dual", operands, {"r": x, "rt": x}, common, shapes=whole)
    return Variant("round", operands, {"r": x}, f"axis = {rank - 1 if direction == 'row' else rank - 2} : i64, {common}")


def aligned(variant):
    """The same with groups of what is quantized along tokens at multiples of 128 tokens."""
    return Variant(variant.op, variant.operands, variant.results, f"{variant.attributes}, align = 128 : i64", variant.returned, variant.shapes)


def flags(pow2, sanitize):
    return f"pow2 = {str(pow2).lower()}, sanitize = {str(sanitize).lower()}"


# Dimensions of the scales of quantize_fp8, by granularity, rank of x and axis.
SCALES = {
    ("row", 2, 1): 1, ("row", 2, 0): 2, ("row", 3, 2): 2, ("row", 3, 1): 2, ("expert", 3, 2): 1, ("expert", 3, 1): 1,
    ("group", 2, 1): 1, ("group", 2, 0): 1, ("1x128", 2, 1): 2, ("128x128", 2, 1): 2, ("128x128", 3, 2): 3,
}


# FP8 blocks besides: by granularity, rank of x and axis.
BLOCKS = [("1x128", 2, 1), ("1x128", 3, 2), ("1x128", 2, 0), ("1x128", 3, 1), ("128x128", 2, 0), ("128x128", 3, 1)]


def fp8(granularity, rank, axis, element, q, pow2=True, sanitize=False):
    operands = {"x": tensor(rank, element)}
    if granularity == "group" or (granularity == "row" and axis == 0):
        operands["offs"] = "tensor<?xi32>"
    scales = "tensor<1xf32>" if granularity == "tensor" else tensor(SCALES[granularity, rank, axis], "f32")
    return Variant("quantize_fp8", operands, {"q": tensor(rank, q, axis == rank - 2), "s": scales},
                   f'axis = {axis} : i64, granularity = "{granularity}", {flags(pow2, sanitize)}')


def fp8_blocks(granularity, rank, axis, element, q, pow2=False, sanitize=False):
    """quantize_fp8 in FP8 blocks along the dimension before the last; or of 1x128 along the last one, with the rows of scales side by
    side, as products read them."""
    operands = {"x": tensor(rank, element)} | ({"offs": "tensor<?xi32>"} if axis == 0 and granularity == "1x128" else {})
    return Variant("quantize_fp8", operands, {"q": tensor(rank, q, axis == rank - 2), "s": tensor(rank, "f32", axis == rank - 1)},
                   f'axis = {axis} : i64, granularity = "{granularity}", {flags(pow2, sanitize)}')


def fp8_blocks_dual(granularity, rank, element, q, pow2=False, sanitize=False):
    operands = {"x": tensor(rank, element)} | ({"offs": "tensor<?xi32>"} if rank == 2 else {})
    results = {"q": tensor(rank, q), "s": tensor(rank, "f32", granularity == "1x128"), "qt": tensor(rank, q, True),
               "st": tensor(rank, "f32")}
    return Variant("quantize_fp8_dual", operands, results, f'granularity = "{granularity}", {flags(pow2, sanitize)}')


def fp8_dual(rank, element, q, pow2=True, sanitize=False):
    operands = {"x": tensor(rank, element)}
    if rank == 2:
        operands["offs"] = "tensor<?xi32>"
    results = {"q": tensor(rank, q), "s": tensor(rank - 1, "f32"), "qt": tensor(rank, q, True), "st": tensor(2, "f32")}
    return Variant("quantize_fp8_dual", operands, results, flags(pow2, sanitize))


def pair_operands(element):
    """x and y with other columns than x."""
    return {"x": tensor(2, element), "y": tensor(2, element)}


def y_shape(x, _):
    return [x[0], -(-x[1] // 32) * 16]


def fp8_pair(element, q, pow2=True, sanitize=False):
    results = {"q": tensor(2, q, True), "s": tensor(2, "f32"), "qy": tensor(2, q, True), "sy": tensor(2, "f32")}
    return Variant("quantize_fp8_pair", pair_operands(element) | {"offs": "tensor<?xi32>"}, results, flags(pow2, sanitize),
                   shapes={"y": y_shape})


def scale(granularity, rank, axis, element, q):
    """The first of the two passes of quantize_fp8 alone."""
    operands = {"x": tensor(rank, element)}
    if granularity == "group" or (granularity == "row" and axis == 0):
        operands["offs"] = "tensor<?xi32>"
    shape = "1x" if granularity == "tensor" else "?x" * SCALES[granularity, rank, axis]
    results = {"s": f"tensor<{shape}xf32>", "f": f"tensor<{shape}xf32>", "state": f"tensor<2x{shape}xi32>"}
    results = {name: kind.replace("xx", "x") for name, kind in results.items()}
    return Variant("scale_fp8", operands, results,
                   f'axis = {axis} : i64, granularity = "{granularity}", element = "{q}", {flags(True, False)}', ["s", "f"])


def scale_dual(rank, element, q):
    operands = {"x": tensor(rank, element)}
    if rank == 2:
        operands["offs"] = "tensor<?xi32>"
    results = {}
    for suffix, dims in (("", "?x" * (rank - 1)), ("t", "?x?x")):
        results |= {f"s{suffix}": f"tensor<{dims}f32>", f"f{suffix}": f"tensor<{dims}f32>", f"state{suffix}": f"tensor<2x{dims}i32>"}
    return Variant("scale_fp8_dual", operands, results, f'element = "{q}", {flags(True, False)}', ["s", "f", "st", "ft"])


def scale_pair(element, q):
    results = {}
    for suffix in ("", "y"):
        results |= {f"s{suffix}": tensor(2, "f32"), f"f{suffix}": tensor(2, "f32"), f"state{suffix}": "tensor<2x?x?xi32>"}
    return Variant("scale_fp8_pair", pair_operands(element) | {"offs": "tensor<?xi32>"}, results,
                   f'element = "{q}", {flags(True, False)}', ["s", "f", "sy", "fy"], shapes={"y": y_shape})


def cast(granularity, rank, axis, element, q):
    """The second pass alone."""
    operands = {"x": tensor(rank, element)}
    operands["f"] = "tensor<1xf32>" if granularity == "tensor" else tensor(SCALES[granularity, rank, axis], "f32")
    if granularity == "group" or (granularity == "row" and axis == 0):
        operands["offs"] = "tensor<?xi32>"
    return Variant("cast_fp8", operands, {"q": tensor(rank, q, axis == rank - 2)},
                   f'axis = {axis} : i64, granularity = "{granularity}", sanitize = false',
                   shapes={"f": lambda x, groups: scale_shape(granularity, axis, x, groups)})


def cast_dual(rank, element, q):
    operands = {"x": tensor(rank, element), "f": tensor(rank - 1, "f32"), "ft": tensor(2, "f32")}
    if rank == 2:
        operands["offs"] = "tensor<?xi32>"
    return Variant("cast_fp8_dual", operands, {"q": tensor(rank, q), "qt": tensor(rank, q, True)}, "sanitize = false",
                   shapes={"f": lambda x, _: x[:-1], "ft": lambda x, groups: scale_shape("row", rank - 2, x, groups)})


def cast_pair(element, q):
    operands = pair_operands(element) | {"f": tensor(2, "f32"), "fy": tensor(2, "f32"), "offs": "tensor<?xi32>"}
    return Variant("cast_fp8_pair", operands, {"q": tensor(2, q, True), "qy": tensor(2, q, True)}, "sanitize = false",
                   shapes={"y": y_shape, "f": lambda x, groups: scale_shape("row", 0, x, groups),
                           "fy": lambda x, groups: scale_shape("row", 0, y_shape(x, groups), groups)})


def dequantize(rank, axis, element, q):
    return Variant("dequantize", {"q": tensor(rank, q, axis == rank - 2), "s": tensor(rank, "f8E8M0FNU")},
                   {"x": tensor(rank, element)}, f"axis = {axis} : i64, block = 32 : i64",
                   shapes={"s": lambda x, _: [size // 32 if d == axis else size for d, size in enumerate(x)]})


def dequantize_groups(element, q, align, side_by_side=False):
    """MX blocks along tokens, counted from the start of each group; with align groups begin at multiples of so many tokens, which may lie
    side by side in the result too."""
    def rows(x, groups):
        return align * (-(-x[0] // align) + groups) if align else x[0]

    shapes = {"q": lambda x, groups: [rows(x, groups), x[1]],
              "s": lambda x, groups: [rows(x, groups) // 32 if align else -(-x[0] // 32) + groups, x[1]]}
    return Variant("dequantize", {"q": tensor(2, q, True), "s": tensor(2, "f8E8M0FNU"), "offs": "tensor<?xi32>"}, {"x": tensor(2, element, side_by_side)},
                   "axis = 0 : i64, block = 32 : i64" + (f", align = {align} : i64" if align else ""), shapes=shapes)


def scale_shape(granularity, axis, x, groups):
    if granularity == "row":
        return ([groups] if axis == 0 else []) + [size for d, size in enumerate(x) if d != axis]
    if granularity in ("1x128", "128x128"):
        last = 1 if granularity == "1x128" else 2
        return [-(-size // 128) if d >= len(x) - last else size for d, size in enumerate(x)]
    return [groups if granularity == "group" else x[0]]


def dequantize_fp8(granularity, rank, axis, element, q):
    operands = {"q": tensor(rank, q, axis == rank - 2)}
    operands["s"] = "tensor<1xf32>" if granularity == "tensor" else tensor(SCALES[granularity, rank, axis], "f32")
    if granularity == "group" or (granularity == "row" and axis == 0):
        operands["offs"] = "tensor<?xi32>"
    return Variant("dequantize_fp8", operands, {"x": tensor(rank, element)},
                   f'axis = {axis} : i64, granularity = "{granularity}"',
                   shapes={"s": lambda x, groups: scale_shape(granularity, axis, x, groups)})


def pack_scales(grouped):
    operands = {"s": tensor(2, "f8E8M0FNU")} | ({"offs": "tensor<?xi32>"} if grouped else {})
    return Variant("pack_scales", operands, {"packed": tensor(2, "f8E8M0FNU")}, 'layout = "128x4"')


def pad_groups(element, align):
    x, offs = tensor(2, element), "tensor<?xi32>"
    return Variant("pad_groups", {"x": x, "offs": offs}, {"padded": x, "padded_offs": offs}, f"align = {align} : i64")


def unpad_groups(element, align):
    x, offs = tensor(2, element), "tensor<?xi32>"
    return Variant("unpad_groups", {"padded": x, "offs": offs, "padded_offs": offs}, {"x": x}, f"align = {align} : i64",
                   shapes={"padded": lambda x, groups: [x[0] + align * groups, x[1]], "padded_offs": lambda _, groups: [groups]})


class Chain(Variant):
    """Seven launches one behind the other, each of which reads what the one before it has written."""

    def source(self, schedule=None):
        x, q, qt = tensor(2, "bf16"), tensor(2, "f8E4M3FN"), tensor(2, "f8E4M3FN", True)
        tensorwise = f'axis = 0 : i64, granularity = "tensor", {flags(True, False)}'
        return f"""func.func @chain(%x: {x}) -> ({qt}, tensor<1xf32>, {q}, tensor<?x?xf8E8M0FNU>) {{
  %q0, %s0 = "mx_quantize.quantize_fp8"(%x) {{axis = 1 : i64, granularity = "row", {flags(True, False)}}} : ({x}) -> ({q}, tensor<?xf32>)
  %x1 = "mx_quantize.dequantize_fp8"(%q0, %s0) {{axis = 1 : i64, granularity = "row"}} : ({q}, tensor<?xf32>) -> {x}
  %q1, %s1 = "mx_quantize.quantize_fp8"(%x1) {{{tensorwise}}} : ({x}) -> ({qt}, tensor<1xf32>)
  %x2 = "mx_quantize.dequantize_fp8"(%q1, %s1) {{axis = 0 : i64, granularity = "tensor"}} : ({qt}, tensor<1xf32>) -> {x}
  %q, %s = "mx_quantize.quantize"(%x2) {{axis = 1 : i64, block = 32 : i64, mode = "rceil"}} : ({x}) -> ({q}, tensor<?x?xf8E8M0FNU>)
  %p = "mx_quantize.pack_scales"(%s) {{layout = "128x4"}} : (tensor<?x?xf8E8M0FNU>) -> tensor<?x?xf8E8M0FNU>
  return %q1, %s1, %q, %p : {qt}, tensor<1xf32>, {q}, tensor<?x?xf8E8M0FNU>
}}
"""


def quantizers():
    table = {}
    types = [("bf16", "f8E4M3FN"), ("f32", "f8E4M3FN"), ("bf16", "f8E5M2"), ("f32", "f8E5M2")]
    for element, q in types:
        suffix = f"{element}-{q}"
        for rank, name in ((3, "weights"), (2, "tokens")):
            for direction in ("col", "row", "dual"):
                for mode in ("rceil", "floor", "ceil", "even"):
                    table[f"mx-{name}-{direction}-{mode}-{suffix}"] = mx(rank, direction, element, q, mode)
        table[f"mx-groups-{suffix}"] = mx_groups(element, q, "rceil" if q == "f8E4M3FN" else "even")
        for granularity, rank, axis in [*SCALES, ("tensor", 2, 1), ("tensor", 2, 0), ("tensor", 3, 2), ("tensor", 3, 1)]:
            # Both choices of each flag are met, in turn.
            odd = q == "f8E5M2"
            name = "weights" if rank == 3 else "tokens"
            along = "row" if axis == rank - 1 else "col"
            table[f"fp8-{granularity}-{name}-{along}-{suffix}"] = fp8(
                granularity, rank, axis, element, q, pow2=not odd, sanitize=odd)
        for rank, name in ((3, "weights"), (2, "tokens")):
            table[f"fp8-dual-{name}-{suffix}"] = fp8_dual(rank, element, q, pow2=q == "f8E4M3FN", sanitize=q == "f8E5M2")
        table[f"fp8-pair-tokens-{suffix}"] = fp8_pair(element, q, pow2=q == "f8E4M3FN", sanitize=q == "f8E5M2")
        for granularity, rank, axis in BLOCKS:
            name, along = "weights" if rank == 3 else "tokens", "side" if axis == rank - 1 else "col"
            table[f"fp8-{granularity}-{name}-{along}-{suffix}"] = fp8_blocks(
                granularity, rank, axis, element, q, pow2=q == "f8E5M2", sanitize=q == "f8E5M2")
        for granularity, rank in (("1x128", 2), ("1x128", 3), ("128x128", 3)):
            name = "weights" if rank == 3 else "tokens"
            table[f"fp8-dual-{granularity}-{name}-{suffix}"] = fp8_blocks_dual(
                granularity, rank, element, q, pow2=q == "f8E5M2", sanitize=q == "f8E5M2")
    for element, q in types:
        suffix = f"{element}-{q}"
        for rank, name in ((3, "weights"), (2, "tokens")):
            for axis, along in ((rank - 1, "row"), (rank - 2, "col")):
                table[f"dequantize-mx-{name}-{along}-{suffix}"] = dequantize(rank, axis, element, q)
        for name, align in (("groups", 0), ("aligned", 128), ("side", 128)):
            table[f"dequantize-mx-{name}-{suffix}"] = dequantize_groups(element, q, align, name == "side")
        for granularity, rank, axis in [*SCALES, ("tensor", 2, 1), ("tensor", 3, 1)]:
            name, along = "weights" if rank == 3 else "tokens", "row" if axis == rank - 1 else "col"
            table[f"dequantize-{granularity}-{name}-{along}-{suffix}"] = dequantize_fp8(granularity, rank, axis, element, q)
    blocks = {"q": tensor(2, "f8E4M3FN"), "scales": tensor(2, "f8E8M0FNU")}
    rows = {"x": tensor(2, "f16"), "scales_x": tensor(1, "f32")}
    shapes = {"q": lambda x, groups: [x[0], -(-x[1] // 32) * 32], "scales": lambda x, groups: [x[0], -(-x[1] // 32)]}
    table["dequantize-f16"] = Variant("dequantize_f16", blocks, rows, "", shapes=shapes)
    table["dequantize-f16-evens-first"] = Variant("dequantize_f16", blocks, rows, 'order = "evens_first"', shapes=shapes)
    table["quantize-f16"] = Variant("quantize_f16", {"x": tensor(2, "bf16")}, {"q": tensor(2, "f16"), "scales": tensor(1, "f32")}, "")
    for rank, name in ((3, "weights"), (2, "tokens")):
        for direction in ("row", "col", "dual"):
            table[f"round-{name}-{direction}"] = rounding(rank, direction, "f8E4M3FN", "rceil")
            table[f"round-{name}-{direction}-e5m2-even"] = rounding(rank, direction, "f8E5M2", "even")
    table["chain"] = Chain("chain", {"x": tensor(2, "bf16")}, {"q": tensor(2, "f8E4M3FN")}, "")
    table["pack-scales"] = pack_scales(False)
    table["pack-scales-grouped"] = pack_scales(True)
    for element, align in (("bf16", 128), ("f8E4M3FN", 16), ("f32", 32)):
        table[f"pad-groups-{element}"] = pad_groups(element, align)
        table[f"unpad-groups-{element}"] = unpad_groups(element, align)
    for element, q in types:
        for name in ("mx-groups", "fp8-row-tokens-col", "fp8-group-tokens-col", "fp8-dual-tokens", "fp8-pair-tokens", "fp8-1x128-tokens-col",
                     "fp8-dual-1x128-tokens"):
            table[f"aligned-{name}-{element}-{q}"] = aligned(table[f"{name}-{element}-{q}"])
    for element in ("bf16", "f32"):
        for granularity, rank, axis in (("row", 3, 1), ("row", 2, 0), ("expert", 3, 1), ("group", 2, 0), ("tensor", 2, 1)):
            name = "weights" if rank == 3 else "tokens"
            table[f"scale-{granularity}-{name}-{element}"] = scale(granularity, rank, axis, element, "f8E4M3FN")
            table[f"cast-{granularity}-{name}-{element}"] = cast(granularity, rank, axis, element, "f8E4M3FN")
        for rank, name in ((3, "weights"), (2, "tokens")):
            table[f"scale-dual-{name}-{element}"] = scale_dual(rank, element, "f8E4M3FN")
            table[f"cast-dual-{name}-{element}"] = cast_dual(rank, element, "f8E4M3FN")
        table[f"scale-pair-tokens-{element}"] = scale_pair(element, "f8E4M3FN")
        table[f"cast-pair-tokens-{element}"] = cast_pair(element, "f8E4M3FN")
    return table


def variants():
    return quantizers() | products() | recipes() | mixed_products()


def find(table, name):
    return table.get(name) or sys.exit(f"bench/variants.py: there is no {name}; `bench/variants.py list` prints the names")


def main():
    table = variants()
    if sys.argv[1:] == ["list"]:
        print("\n".join(table))
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "source":
        sys.stdout.write(find(table, sys.argv[2]).source(*sys.argv[3:]))
    elif len(sys.argv) == 4 and sys.argv[1] == "arguments":
        print("\n".join(find(table, sys.argv[2]).arguments(sys.argv[3])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
