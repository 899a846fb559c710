#!/usr/bin/env python3
"""Compiles the bundles that the wheel ships: each op and each recipe with dynamic shapes, a folder each, and index.json.

    python/make_bundles.py FOLDER [--moe-opt PATH] [--jobs N] [--only REGEX | --tested] [--list]

index.json holds `bundles`, a list of

    bundle      name of the folder
    op          the op, such as "mx_quantize.quantize_fp8" or "scaled_grouped_mm.grouped_mm"
    attributes  of the op: granularity, axis, mode, recipe ...; of products with weights of four or eight bits also the sizes that the schedule is for,
                "tokens" and "rows" of weights of a layer, or "tokens" of each expert and, where they are few, "tiles" of all, or "rows" where these are few,
                or "ctas" and "warpgroups" of a tile where experts are (moe_opt/_mixed.py); of products forward with scales of
                FP8 blocks "fewest", "few", "some" or "many" tokens of each expert, of fast products with scales of
                MX blocks "few" (by blocks; forward in bf16 chosen by its times), "most" or "many" tokens of each expert, or "tokens", "ctas" and
                "warpgroups" of a tile that is chosen by its times
    operands    in order: name, dtype, rank and order (order[i]: the dimension at memory position i, outermost first)
    results     the same
    tile        of products with weights of four or eight bits, and of MX blocks that are chosen by time: the tile's tokens and rows, the CTAs that
                divide its columns, how many CTAs a multiprocessor has at once, whether (1) all CTAs divide the last tiles, whether tokens become f16 first, the fewest columns that the product takes,
                and `us`, four numbers, or of experts five, of which moe_opt/_mixed.py tells how long the product takes (mixed_times.json, by
                bench/mixed_sizes.py); a product that has not been timed has none, and the package refuses a form with such a product
    functions   of the bundle, by what they are: {"call": NAME}, or {"forward": NAME, "backward": NAME}; with "_X" behind both kinds where
                only operand X has a gradient

The names of arguments and results join forward and backward: an argument of the backward function is an argument or a result of the
forward function of that name, or grad_X, the gradient of its result X. Results are named grad_X after the argument X.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

FLOATS = ("bf16", "f32")
FP8 = ("f8E4M3FN", "f8E5M2")
MODES = ("rceil", "floor", "ceil", "even")
RECIPES = ("fp8_rowwise", "fp8_tensorwise", "fp8_blockwise", "mxfp8")
OUTPUTS = ("bf16", "f16", "f32")


class Refused(RuntimeError):
    """moe-opt does not take a source, and says why."""

    def __init__(self, name, command, source, reason):
        super().__init__(f"{name}: {' '.join(command)} failed:\n{reason}\n{source}")
        self.reason = reason.partition("\n")[0]


def compiled(command, name, source):
    """What moe-opt prints of the source of this bundle."""
    run = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if run.returncode == 1:
        raise Refused(name, command, source, run.stderr)
    if run.returncode:
        raise RuntimeError(f"{name}: {' '.join(command)} ended with {run.returncode}:\n{run.stderr}\n{source}")
    return run.stdout


class Tensor:
    """A tensor of dynamic sizes; `swapped`: its last two dimensions are swapped in memory."""

    def __init__(self, dtype, rank, swapped=False, shape=None):
        self.dtype, self.rank, self.swapped = dtype, rank, swapped
        self.shape = shape or ["?"] * rank

    def order(self):
        order = list(range(self.rank))
        return order[:-2] + order[:-3:-1] if self.swapped else order

    def __str__(self):
        dimensions = [f"d{i}" for i in range(self.rank)]
        encoding = f", affine_map<({', '.join(dimensions)}) -> ({', '.join(f'd{i}' for i in self.order())})>" if self.swapped else ""
        return f"tensor<{'x'.join([*map(str, self.shape), self.dtype])}{encoding}>"

    def describe(self, name):
        return {"name": name, "dtype": self.dtype, "rank": self.rank, "order": self.order()}


OFFS = Tensor("i32", 1)
ALIGN = {"align": 128}  # groups that begin at multiples of so many tokens


def text(attributes):
    """The dictionary of attributes as MLIR."""
    def value(v):
        return str(v).lower() if isinstance(v, bool) else f"{v} : i64" if isinstance(v, int) else f'"{v}"'
    return "{" + ", ".join(f"{name} = {value(v)}" for name, v in attributes.items()) + "}"


def call(op, attributes, operands, results):
    """`%results = "op"(%operands) attributes : types`; operands and results are dictionaries from names to tensors."""
    return (f"  {', '.join('%' + name for name in results)} = \"{op}\"({', '.join('%' + name for name in operands)}) {text(attributes)}"
            f" : ({', '.join(map(str, operands.values()))}) -> ({', '.join(map(str, results.values()))})\n")


def function(name, arguments, body, results, said=None):
    """said: of some arguments, their attribute."""
    types = ", ".join(map(str, results.values()))
    given = [f"%{n}: {t}{f' {{{said[n]}}}' if said and n in said else ''}" for n, t in arguments.items()]
    return (f"func.func @{name}({', '.join(given)}) -> ({types}) {{\n{body}"
            f"  return {', '.join('%' + n for n in results)} : {types}\n}}\n")


class Bundle:
    """A function that is one op."""

    def __init__(self, name, op, attributes, operands, results):
        self.name, self.op, self.attributes, self.operands, self.results = name, op, attributes, operands, results

    def title(self):
        return self.op.split(".")[1]

    def functions(self):
        return {"call": self.title()}

    def source(self):
        return function(self.title(), self.operands, call(self.op, self.attributes, self.operands, self.results), self.results)

    def sources(self, moe_opt):  # pylint: disable=unused-argument
        """The sources, of which the first that compiles is taken. moe_opt: the compiler, which may know a schedule."""
        yield self.source()

    def passes(self):
        """What is done to the source before it is compiled: flags of moe-opt."""
        return []

    def entry(self, source, manifest):  # pylint: disable=unused-argument
        """That of the index. source: what was compiled, into a bundle with this manifest."""
        return {"bundle": self.name, "op": self.op, "attributes": self.attributes,
                "operands": [t.describe(n) for n, t in self.operands.items()],
                "results": [t.describe(n) for n, t in self.results.items()], "functions": self.functions()}


class Differentiated(Bundle):
    """The same with its gradient; `wanted`: the one operand that has one, or "" for both."""

    def __init__(self, *arguments, wanted=""):
        super().__init__(*arguments)
        self.wanted = wanted

    def functions(self):
        suffix = f"_{self.wanted}" if self.wanted else ""
        return {kind + suffix: f"{self.title()}_{kind}" for kind in ("forward", "backward")}

    def source(self):
        said = {name: "moe.differentiable = false" for name in "ab" if self.wanted and name != self.wanted}
        return function(self.title(), self.operands, call(self.op, self.attributes, self.operands, self.results), self.results, said)

    def passes(self):
        return ["--moe-differentiate"]


def along(rank, axis):
    return "row" if axis == rank - 1 else "col"


def mx():
    """MX casts along the last two dimensions, or both from one read; along tokens also by groups."""
    for x in FLOATS:
        for q in FP8:
            for mode in MODES:
                for rank in (2, 3):
                    operands, scales = {"x": Tensor(x, rank)}, Tensor("f8E8M0FNU", rank)
                    common = {"block": 32, "mode": mode}
                    suffix = f"{rank}d-{mode}-{x}-{q}"
                    for axis in (rank - 1, rank - 2):
                        results = {"q": Tensor(q, rank, axis == rank - 2), "scales": scales}
                        yield Bundle(f"quantize-{along(rank, axis)}-{suffix}", "mx_quantize.quantize", {"axis": axis} | common, operands, results)
                        if (rank, axis) == (2, 0):
                            yield Bundle(f"quantize-groups-{suffix}", "mx_quantize.quantize", {"axis": axis} | common, operands | {"offs": OFFS}, results)
                            if mode == "rceil":
                                yield Bundle(f"quantize-aligned-{suffix}", "mx_quantize.quantize", {"axis": axis} | common | ALIGN, operands | {"offs": OFFS}, results)
                    results = {"q": Tensor(q, rank), "scales": scales, "q_t": Tensor(q, rank, True), "scales_t": scales}
                    yield Bundle(f"quantize_dual-{suffix}", "mx_quantize.quantize_dual", common, operands, results)


# Granularity, rank of x, axis, groups, rank of the scales.
GRANULARITIES = (
    ("row", 2, 1, False, 1), ("row", 2, 0, True, 2), ("row", 3, 2, False, 2), ("row", 3, 1, False, 2),
    ("tensor", 2, 1, False, 0), ("tensor", 2, 0, False, 0), ("tensor", 3, 2, False, 0), ("tensor", 3, 1, False, 0),
    ("expert", 3, 2, False, 1), ("expert", 3, 1, False, 1), ("group", 2, 1, True, 1), ("group", 2, 0, True, 1),
    ("1x128", 2, 1, False, 2), ("128x128", 2, 1, False, 2), ("128x128", 3, 2, False, 3),
)


def fp8():
    """FP8 with fp32 scales."""
    for x in FLOATS:
        for q in FP8:
            for pow2, sanitize in ((True, False), (False, False), (True, True)):
                flags = {"pow2": pow2, "sanitize": sanitize}
                suffix = f"{x}-{q}" + ("-pow2" if pow2 else "") + ("-sanitize" if sanitize else "")
                for granularity, rank, axis, grouped, scales_rank in GRANULARITIES:
                    # Of 1x128 blocks those of the rows lie side by side, as the product reads them.
                    scales = Tensor("f32", scales_rank, granularity == "1x128") if scales_rank else Tensor("f32", 1, shape=[1])
                    for align in ({}, ALIGN) if (granularity, rank, axis) == ("row", 2, 0) else ({},):
                        yield Bundle(f"quantize_fp8-{granularity}-{along(rank, axis)}{'-aligned' if align else ''}-{rank}d-{suffix}", "mx_quantize.quantize_fp8",
                                     {"granularity": granularity, "axis": axis} | flags | align, {"x": Tensor(x, rank)} | ({"offs": OFFS} if grouped else {}),
                                     {"q": Tensor(q, rank, axis == rank - 2), "scales": scales})
                for rank, align in ((2, {}), (2, ALIGN), (3, {})):
                    yield Bundle(f"quantize_fp8_dual{'-aligned' if align else ''}-{rank}d-{suffix}", "mx_quantize.quantize_fp8_dual", flags | align,
                                 {"x": Tensor(x, rank)} | ({"offs": OFFS} if rank == 2 else {}),
                                 {"q": Tensor(q, rank), "scales": Tensor("f32", rank - 1), "q_t": Tensor(q, rank, True), "scales_t": Tensor("f32", 2)})


def products():
    """Products of operands that are quantized already: forward, gradient of the weights, batched."""
    cases = {
        "forward": (Tensor("f8E4M3FN", 2), Tensor("f8E4M3FN", 3, True), True),
        "gradient": (Tensor("f8E4M3FN", 2), Tensor("f8E4M3FN", 2, True), True),
        "batched": (Tensor("f8E4M3FN", 3), Tensor("f8E4M3FN", 3, True), False),
    }
    for case, (qa, qb, grouped) in cases.items():
        for shared in (False, True):
            if not shared:
                sa, sb = Tensor("f32", 1 if case == "forward" else 2), Tensor("f32", 2)
            else:
                sa, sb = Tensor("f32", 1, shape=[1] if case == "forward" else None), Tensor("f32", 1)
            for accumulate in ("fast", "promoted"):
                for out in OUTPUTS:
                    operands = {"qa": qa, "qb": qb, "sa": sa, "sb": sb} | ({"offs": OFFS} if grouped else {})
                    yield Bundle(f"scaled_mm-{case}-{'shared' if shared else 'rows'}-{accumulate}-{out}", "scaled_grouped_mm.scaled_mm",
                                 {"accumulate": accumulate}, operands, {"out": Tensor(out, 2 if case == "forward" else 3)})


# The schedules of products with scales of FP8 blocks, by how many tokens experts have: what the compiler gives them with 16, 32 and 256 of each.
BLOCKS = {
    "fewest": "swap_operands = 1, tile_n = 64, pieces = 4, stages = 8, warpgroups = 2, direct = 0, band = 8",
    "few": "swap_operands = 1, tile_n = 96, pieces = 3, stages = 6, warpgroups = 2, direct = 0, band = 8",
    "some": "tile_n = 192, tma_store = 3, stages = 4, warpgroups = 2, direct = 0, band = 8",
    "many": "",
}


def block_products():
    """Products forward of tokens with scales of 1x128 and weights with scales of 128x128."""
    q = "f8E4M3FN"
    operands = {"qa": Tensor(q, 2), "qb": Tensor(q, 3, True), "sa": Tensor("f32", 2, True), "sb": Tensor("f32", 3, True), "offs": OFFS}
    for out in OUTPUTS:
        for tokens, schedule in BLOCKS.items():
            name = f"scaled_mm-forward-blocks-{tokens}-{out}"
            yield Chosen(name, "scaled_grouped_mm.scaled_mm", {"accumulate": "promoted"}, operands, {"out": Tensor(out, 2)}, schedule, {"tokens": tokens})


# The schedule of few tokens with scales of MX blocks that are multiplied by blocks.
FEW_TOKENS_MX = "swap_operands = 1, tile_n = 96, pieces = 3, stages = 5"
# Those whose weights become f16 in the product, of MX_SIZES of moe_opt/_mixed.py. Where the scales of a row of weights lie side by side there is less room
# for stages: two tiles of four warpgroups have others there.
MIXED_MX = {
    (16, 2, 2): "tile_n = 32, split = 2, reuse = 1, stages = 5", (40, 2, 2): "tile_n = 64, split = 2, reuse = 1, stages = 4",
    (64, 2, 2): "tile_n = 96, split = 2, reuse = 1, stages = 4", (36, 1, 2): "tile_n = 64, widths = 4, stages = 5",
    (36, 1, 3): "tile_n = 64, widths = 4, stages = 4", (76, 1, 3): "tile_n = 128, widths = 4, stages = 3",
    (36, 1, 4): "tile_n = 64, widths = 4, stages = 4", (384, 1, 4): "tile_n = 128, widths = 4, behind = 1, stages = 3",
}  # fmt: skip
MIXED_MX_OF_ROWS = MIXED_MX | {(36, 1, 4): "tile_n = 64, widths = 4, stages = 3", (384, 1, 4): "tile_n = 112, widths = 7, behind = 1, stages = 3"}
NARROW, WIDE = 112, 128  # tokens of the tile that has more where sizes are known, which leaves more room for stages
MOST_MX = "tile_n = 208, warpgroups = 2, share = 2, stages = 3"  # of most tokens, whose weights become bf16


def mx_products():
    """Products of operands in MX blocks: fast ones of bf16, which have others for fewer tokens beside them, and promoted ones. The scales of
    weights lie beside the weights, or with the rows side by side, as they are written beside weights whose other dimension is summed."""
    op, q, s = "scaled_grouped_mm.scaled_mm", "f8E4M3FN", "f8E8M0FNU"
    cases = {
        "forward": (Tensor(q, 2), Tensor(q, 3, True), Tensor(s, 2), (Tensor(s, 3, True), Tensor(s, 3)), {"offs": OFFS}),
        "gradient": (Tensor(q, 2), Tensor(q, 2, True), Tensor(s, 2), (Tensor(s, 2),), {"offs": OFFS}),
        "batched": (Tensor(q, 3), Tensor(q, 3, True), Tensor(s, 3), (Tensor(s, 3, True), Tensor(s, 3)), {}),
    }
    for case, (qa, qb, sa, sbs, offs) in cases.items():
        for sb in sbs:
            for out in OUTPUTS:
                name = f"scaled_mm-{case}-mx{'' if sb is sbs[0] else '-row_major'}"
                operands, results = {"qa": qa, "qb": qb, "sa": sa, "sb": sb} | offs, {"out": Tensor(out, 2 if case == "forward" else 3)}
                few = "" if case == "gradient" else FEW_TOKENS_MX
                yield Chosen(f"{name}-fast-{out}", op, {"accumulate": "fast"}, operands, results, "", {"tokens": "many"})
                yield Bundle(f"{name}-promoted-{out}", op, {"accumulate": "promoted"}, operands, results)
                is_mixed, choice = (case, out) == ("forward", "bf16"), {"accumulate": "fast", "tokens": "few"}
                by_blocks = SIZES.MX_BY_BLOCKS if is_mixed else None
                yield Chosen(f"{name}-few-{out}", op, {"accumulate": "promoted"}, operands, results, few, choice, by_blocks)
                if is_mixed:
                    yield Mixed(f"{name}-most-{out}", op, {"accumulate": "fast", "tokens": "most"}, operands, results, "bf16", MOST_MX)
                for size, schedule in (MIXED_MX_OF_ROWS if sb is sbs[0] else MIXED_MX).items() if is_mixed else ():
                    schedule = f"{schedule}, warpgroups = {size[2]}"
                    yield Mixed(f"{name}-{name_of(size)}-{out}", op, SIZES.mx_attributes(size), operands, results, "f16", schedule, size)


def trained():
    """Products of bf16 tensors, alone, which quantizes along one axis only, and with gradients; those of groups also with one gradient."""
    forward = {"a": Tensor("bf16", 2), "b": Tensor("bf16", 3, True), "offs": OFFS}
    row_major = forward | {"b": Tensor("bf16", 3)}
    batched = {"a": Tensor("bf16", 3), "b": Tensor("bf16", 3, True)}
    for recipe in RECIPES:
        for name, operands in (
            (f"grouped_mm-{recipe}", forward), (f"grouped_mm-row_major-{recipe}", row_major), (f"grouped_mm-batched-{recipe}", batched),
        ):
            description = ("scaled_grouped_mm.grouped_mm", {"recipe": recipe}, operands, {"out": Tensor("bf16", operands["a"].rank)})
            yield Differentiated(name, *description)
            yield Bundle(f"{name}-inference", *description)
            for wanted in "ab" if "offs" in operands else "":  # frozen experts; a first layer
                yield Differentiated(f"{name}-grad_{wanted}", *description, wanted=wanted)


class Chosen(Bundle):
    """The same, one of several, with a schedule or "" for the default: attributes of the index have what chooses among these, which the op
    has not, or has otherwise."""

    def __init__(self, name, op, attributes, operands, results, schedule, choice, size=None):
        super().__init__(name, op, attributes, operands, results)
        self.schedule, self.choice, self.size = schedule, choice, size

    def source(self):
        scheduled = f", schedule = {{{self.schedule}}}" if self.schedule else ""
        return super().source().replace("} : (", f"{scheduled}}} : (", 1)

    def entry(self, source, manifest):
        entry = super().entry(source, manifest) | {"attributes": self.attributes | self.choice}
        return entry | (described(self, tile_of(self.schedule, self.BLOCK_ROWS), "qa", manifest) if self.size else {})

    BLOCK_ROWS = 128  # of a tile of swap_operands


class Mixed(Bundle):
    """A product forward in MX blocks whose tokens become numbers of this type first, and whose weights do in the product, with this schedule. size:
    one of MX_SIZES of moe_opt/_mixed.py, of a product that is chosen by its times."""

    def __init__(self, name, op, attributes, operands, results, element, schedule, size=None):
        super().__init__(name, op, attributes, operands, results)
        self.element, self.size = element, size
        self.schedule = f"{schedule}, depth = 128, scaled_weights = 1, long_sums = 1, staged = 1"

    def source(self):
        qb, sb = self.operands["qb"], self.operands["sb"]
        w, scales = (Tensor(tensor.dtype, 3, not tensor.swapped) for tensor in (qb, sb))
        body = "".join(f"  %c{i} = arith.constant {i} : index\n" for i in range(3))
        for name, view, of, tensor in (("w", w, "qb", qb), ("scales", scales, "sb", sb)):
            body += "".join(f"  %{name}{i} = tensor.dim %{of}, %c{i} : {tensor}\n" for i in range(3))
            body += f"  %{name}_space = tensor.empty(%{name}0, %{name}2, %{name}1) : {view}\n"
            body += f"  %{name} = linalg.transpose ins(%{of} : {tensor}) outs(%{name}_space : {view}) permutation = [0, 2, 1]\n"
        tokens, order = {n: self.operands[n] for n in ("qa", "sa")}, {"order": "evens_first"}
        x, name = {"x": Tensor(self.element, 2)}, "scaled_grouped_mm.mixed_mm"
        if self.element == "f16":
            x, name = x | {"scales_x": Tensor("f32", 1)}, f"{name}_scaled"
            body += call("mx_quantize.dequantize_f16", order, tokens, x)
        else:
            body += call("mx_quantize.dequantize", {"axis": 1, "block": 32} | order, tokens, x)
        product = call(name, {"format": "f8E4M3FN", "group_size": 32, "layout": "evens_first"}, {"w": w, "scales": scales} | x | {"offs": OFFS}, self.results)
        body += product.replace("} : (", f", schedule = {{{self.schedule}}}}} : (", 1)
        return function(self.title(), self.operands, body, self.results)

    def entry(self, source, manifest):
        entry = super().entry(source, manifest)
        return entry | (described(self, tile_of(self.schedule, f16=True), "qa", manifest) if self.size else {})


def load_sizes():
    """moe_opt/_mixed.py, without the package: that loads libraries which may not be built yet."""
    spec = importlib.util.spec_from_file_location("_mixed", pathlib.Path(__file__).resolve().parent / "moe_opt/_mixed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIZES = load_sizes()


TIMES = json.loads((pathlib.Path(__file__).resolve().parent / "mixed_times.json").read_text(encoding="utf-8"))


def kind_of(name):
    """What products of a layer, or of experts, have in common that take as long as one another, of the name of one: i4-64-bf16, say, or
    i4-64-bf16-experts; mx-experts where tokens and weights are MX blocks. A bias takes no time, but tokens of i4-64-bf16-biased do not become f16. Where
    another product with a bias has another tile, it has the times of the one without all the same."""
    if of_blocks := re.match("scaled_mm-forward-(mx(?:-row_major)?)-", name):
        return f"{of_blocks[1]}-experts"
    biased, weights, experts = re.fullmatch(r"mixed_mm(?:_zeros)?(_bias)?-(.*?)(-experts)?-[\dx]+", name).groups()
    return weights + ("-biased" if biased and re.fullmatch(r"i4-\d+-bf16", weights) else "") + (experts or "")


def has_own_times(name):
    """Whether a product of this name is timed: most with a bias have the times of those without."""
    return "_bias" not in name or "-biased" in kind_of(name)


def name_of(size):
    return "x".join(map(str, size))


def known_tokens(kind, tokens):
    """How many tokens the tile of a product that is timed with so many has where sizes are known."""
    return WIDE if kind == "mx-experts" and tokens == NARROW else tokens


def tile_of(schedule, rows=None, f16=False):
    """What the times of a product with this schedule depend on. rows: of a tile, where the schedule does not say it."""
    fields = {"panels": 0, "common": 0, "split": 1, "ctas_per_sm": 1, "spread": 0} | {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", schedule)}
    if fields["split"] not in SIZES.ROOM:
        raise RuntimeError(f"clusters of {fields['split']} CTAs: moe_opt/_mixed.py does not say how many there are at once")
    return {
        "tokens": fields["tile_n"], "rows": rows or 16 * fields["panels"] or 64 * fields["warpgroups"] - 32 * fields["common"], "ctas": fields["split"],
        "at_once": fields["ctas_per_sm"], "divided": fields["spread"], "f16": int(f16),
    }  # fmt: skip


def timed(bundle):
    """What mixed_times.json says of a product that is chosen by its times: the tile that was timed, and its numbers; None where it was not."""
    return TIMES.get(kind_of(bundle.name), {}).get(name_of(bundle.size))


def described(bundle, tile, tokens, manifest):
    """What the index says of such a product, with this tile. tokens: the name of the operand."""
    known = timed(bundle)
    if known and known["tile"] != tile:
        print(f"{bundle.name}: its tile is {tile}; its times are of {known['tile']}", file=sys.stderr)
    sizes = {size["name"]: size for size in manifest["functions"][0]["symbols"]}
    return {"tile": tile | {"columns": sizes[f"{tokens}.1"]["min"]} | ({"us": known["us"]} if known else {})}


def schedule_of(source):
    """The attribute of its product of weights."""
    return re.search(r'"scaled_grouped_mm\.mixed_mm\w*"\([^\n]*?(schedule = {[^}]*})', source)[1]


CHOOSING = ("-", "--moe-expand-recipes", "--moe-select-schedule")  # arguments of moe-opt, which then writes the schedules of what it reads


class Sized(Bundle):
    """A product of weights of four or eight bits, of any sizes, with the schedule that the compiler gives one of these: (tokens, rows) of a
    layer, or one of moe_opt/_mixed.py's expert_sizes."""

    def __init__(self, name, op, attributes, operands, results, sizes):
        super().__init__(f"{name}-{name_of(sizes)}", op, attributes, operands, results)
        self.size = sizes

    def entry(self, source, manifest):
        names = SIZES.names_of(self.size) if self.is_grouped() else ("tokens", "rows")
        entry = super().entry(source, manifest) | {"attributes": self.attributes | dict(zip(names, self.size))}
        return entry | described(self, self.tile(source), "x", manifest)

    def tile(self, source):
        """What its times depend on, of the source with its schedule."""
        return tile_of(schedule_of(source), f16="quantize_f16" in source)

    def shapes(self, sizes, experts=None):
        """Of all tensors with these sizes, by name. experts: so many, and not those that the product is for."""
        if not self.is_grouped():
            leading, m, n, k = [], *sizes, SIZES.LAYER_COLUMNS
        else:
            m, *leading, n, k = SIZES.compiled_for(sizes, experts)
        numbers = [*leading, n, k // self.attributes["group_size"]]
        weights = [n, k] if self.attributes["format"] == "f8E4M3FN" else [n // 16, k // 64, 512]
        return {"w": [*leading, *weights], "scales": numbers, "zeros": numbers, "x": [m, k], "offs": leading, "bias": [*leading, n], "out": [m, n]}

    def is_grouped(self):
        return "offs" in self.operands

    def known(self, name, shapes):
        """A function of this name, with the product of such shapes."""
        operands, results = (
            {name: Tensor(tensor.dtype, tensor.rank, tensor.swapped, shapes[name]) for name, tensor in tensors.items()} for tensors in (self.operands, self.results)
        )
        return function(name, operands, call(self.op, self.attributes, operands, results), results)

    def like(self, moe_opt, shapes):
        """The source, with the ops and the schedule that the compiler gives this product with such shapes."""
        chosen = compiled([moe_opt, *CHOOSING], self.name, self.known(self.title(), shapes))
        body = call(self.op, self.attributes, self.operands, self.results)
        if "quantize_f16" in chosen:  # of tokens, which have scales then
            of_tokens = {"q": Tensor("f16", 2), "scales_x": Tensor("f32", 1)}
            body = call("mx_quantize.quantize_f16", {}, {"x": self.operands["x"]}, of_tokens)
            names = ("w", "scales", "q", "scales_x", *(["offs"] if self.is_grouped() else []))
            body += call("scaled_grouped_mm.mixed_mm_scaled", self.attributes, {name: (self.operands | of_tokens)[name] for name in names}, self.results)
        before, after = body.rsplit("} : (", 1)
        said = {name: "moe.constant" for name in ("w", "scales", "zeros")}
        return function(self.title(), self.operands, f"{before}, {schedule_of(chosen)}}} : ({after}", self.results, said)

    def sources(self, moe_opt):
        # Where sizes are not known a kernel may need more registers or room than there is: then that of as many experts as there may be, of fewer
        # rows, or of more tokens.
        others = sizes_of(self.attributes, self.operands)
        fewer_rows = [sizes for sizes in others[::-1] if sizes[0] == self.size[0] and sizes < self.size]
        more_tokens = [sizes for sizes in others if sizes[0] > self.size[0]]
        most_experts = [self.shapes(self.size, SIZES.MOST_EXPERTS)] if self.is_grouped() else []
        for shapes in (self.shapes(self.size), *most_experts, *map(self.shapes, fewer_rows + more_tokens)):
            yield self.like(moe_opt, shapes)


def sizes_of(attributes, operands):
    """Those of moe_opt/_mixed.py that such a product is made for."""
    if "offs" not in operands:
        return SIZES.LAYER_SIZES
    return SIZES.expert_sizes(attributes["format"], attributes["group_size"], operands["x"].dtype, "bias" in operands)


def sized(name, op, attributes, operands, results):
    """Products of all these sizes."""
    for sizes in sizes_of(attributes, operands):
        yield Sized(name, f"scaled_grouped_mm.{op}", attributes, operands, results, sizes)


def mixed_fp8():
    """Products of bf16 tokens with MXFP8 weights."""
    for experts in (False, True):
        for bias in (False, True):
            rank = 3 if experts else 2
            operands = {"w": Tensor("f8E4M3FN", rank), "scales": Tensor("f8E8M0FNU", rank, True), "x": Tensor("bf16", 2)}
            operands |= ({"offs": OFFS} if experts else {}) | ({"bias": Tensor("bf16", rank - 1)} if bias else {})
            op, attributes = "mixed_mm" + "_bias" * bias, {"format": "f8E4M3FN", "group_size": 32, "layout": "1x16"}
            yield from sized("-".join([op, "f8E4M3FN", *["experts"] * experts]), op, attributes, operands, {"out": Tensor("bf16", 2)})


def mixed():
    """Products of tokens with four-bit weights, and what packs these; scales have the tokens' type, or are powers of two."""
    for rank in (2, 3):
        for layout in ("16x64", "16x64_e2m1"):
            yield Bundle(f"pack_weights-{rank}d-{layout}", "scaled_grouped_mm.pack_weights", {"layout": layout}, {"w": Tensor("ui8", rank)},
                         {"packed": Tensor("ui8", rank + 1, shape=["?"] * rank + [512])})
    forms = [(form, group) for form in ("i4", "ui4") for group in (32, 64, 128)] + [("f4E2M1FN", 32)]
    for form, group in forms:
        for x in ("bf16", "f16"):
            for experts in (False, True):
                for bias in (False, True):
                    rank = 3 if experts else 2
                    scales = Tensor("f8E8M0FNU" if form == "f4E2M1FN" else x, rank, True)
                    operands = {"w": Tensor("ui8", rank + 1, shape=["?"] * rank + [512]), "scales": scales}
                    operands |= {"zeros": Tensor("ui8", rank, True)} if form == "ui4" else {}
                    operands |= {"x": Tensor(x, 2)} | ({"offs": OFFS} if experts else {}) | ({"bias": Tensor(x, rank - 1)} if bias else {})
                    op = "mixed_mm" + "_zeros" * (form == "ui4") + "_bias" * bias
                    attributes = {"format": form, "group_size": group, "layout": "16x64_e2m1" if form == "f4E2M1FN" else "16x64"}
                    name = "-".join([op, form, str(group), x, *["experts"] * experts])
                    yield from sized(name, op, attributes, operands, {"out": Tensor(x, 2)})


# What the tests in test/python call, those of frameworks included.
TESTED = (
    "^grouped_mm|^scaled_mm-(forward|batched)-rows-fast-(bf16|f32)|forward-blocks-.*bf16|fp8-1.*-row-.*bf16-f8E4M3FN-pow2$|-mx.*(fast|few|most|x[234])-bf16|forward-mx.*-promoted-bf16"
    "|fp8-row-.*bf16-f8E4M3FN-pow2$|dual-.*bf16-f8E4M3FN-pow2$|rceil-(bf16|f32)-f8E4M3FN"
    "|^mixed_mm(_bias)?-(i4-32-bf16|f4E2M1FN-32-f16|f8E4M3FN)|^mixed_mm-f4E2M1FN-32-bf16|^mixed_mm_zeros-ui4-64-f16|^pack_weights"
)


def bundles():
    return [*trained(), *products(), *block_products(), *mx_products(), *mixed(), *mixed_fp8(), *fp8(), *mx()]


def build(bundle, moe_opt, folder):
    """Compiles one bundle; what is there already is replaced."""
    target = folder / bundle.name
    shutil.rmtree(target, ignore_errors=True)
    command = [moe_opt, "-", *bundle.passes(), "--emit=bundle", "-o", str(target)]
    refused = None
    for place, source in enumerate(bundle.sources(moe_opt)):
        try:
            compiled(command, bundle.name, source)
        except Refused as error:
            refused = refused or error
            continue
        if place > 0:
            print(f"{bundle.name}: has another schedule, since {refused.reason}", file=sys.stderr)
        return bundle.entry(source, json.loads((target / "manifest.json").read_text(encoding="utf-8")))
    raise refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    default = pathlib.Path(__file__).resolve().parent.parent / "build/bin/moe-opt"
    parser.add_argument("--moe-opt", default=str(default), help="the compiler (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="bundles that are compiled at a time (default: all processors)")
    parser.add_argument("--only", default="", help="bundles with such a name; index.json then has these and no others")
    parser.add_argument("--tested", dest="only", action="store_const", const=TESTED, help="those that test/python calls")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    try:
        chosen = [bundle for bundle in bundles() if re.search(arguments.only, bundle.name)]
    except re.error as error:
        parser.error(f"--only {arguments.only!r}: {error}")
    if not chosen:
        parser.error(f"--only {arguments.only!r}: no bundle has such a name; --list prints all")
    if arguments.list:
        print("\n".join(bundle.name for bundle in chosen))
        return
    if not arguments.folder:
        parser.error("name a folder")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    index = arguments.folder / "index.json"
    index.unlink(missing_ok=True)  # it stands for what is complete
    entries = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(build, bundle, arguments.moe_opt, arguments.folder) for bundle in chosen]
        try:
            for future in futures:
                entries.append(future.result())
                if sys.stderr.isatty():
                    print(f"\r{len(entries)} of {len(futures)}", end="\n" * (len(entries) == len(futures)), file=sys.stderr)
        except (RuntimeError, OSError) as error:
            pool.shutdown(cancel_futures=True)
            sys.exit(str(error))
    index.write_text(json.dumps({"version": 1, "bundles": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
