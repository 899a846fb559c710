"""The products of weights of four or eight bits, and pack_weights, that bench/gpu compiles, checks and times: see variants.py.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from products import SMALL

# (M, N, K), with experts (M, N, K, E), where M are tokens of all experts. K is rounded up to whole groups.
CHECK = {False: [(1, 3584, 1024), (70, 272, 416), (300, 1040, 2048), (3, 16, 32)],
         True: [(700, 256, 416, 24), (64, 1024, 512, 256), (1500, 528, 1024, 12), (20, 16, 32, 3)]}  # fmt: skip
SANITIZE = {False: [(70, 272, 416), (3, 16, 32)], True: [(200, 272, 416, 11), (20, 16, 32, 3)]}
REPEAT = {False: (70, 528, 1024), True: (700, 528, 1024, 12)}
REPEATED_RUNS = 1000

# Rows, columns and tokens of the tables of docs/performance/mixed_product.md: where they are static, the schedule is chosen by them.
TOKENS = {(rows, 8192): tuple(2**i for i in range(13)) for rows in (3584, 8192, 28672)}
MANY_TOKENS = 128  # from which on MXFP4 is timed without experts, too
MXFP8_TOKENS = (1, 8, 16, 64, 512, 4096)
CHAIN_TOKENS = (1, 8, 16, 32, 64, 128)
EXPERTS_OF_TOKEN = 8
EXPERT_SIZES = ((4096, 2048, 256), (2048, 4096, 256), (4096, 7168, 384))  # N, K, E
EXPERT_TOKENS = (1, 4, 16, 64, 256, 1024, 4096)
CHECKED_TOKENS = 64  # of more the C reference takes long at these sizes
# moe-select-schedule knows the same candidates for most rows and columns, in another order: some of each say what there is to assemble.
USUAL = {(3584, 8192): (1, 16, 32, 64, 128, 256, 1024, 2048, 4096), (8192, 8192): (1,), (28672, 8192): (1, 16), (4096, 2048): (1, 64, 256, 1024, 4096), (4096, 7168): (1024, 4096)}


def times_mxfp4(tokens):
    """Whether MXFP4 is timed without experts with so many tokens: many, and those of chains."""
    return tokens >= MANY_TOKENS or tokens in CHAIN_TOKENS


WEIGHTS, CONSTANT = ("w", "scales", "zeros"), " {moe.constant}"

# What mixed_rows.py calls weights, by their format.
FORMS = {"i4": "i4", "f4E2M1FN": "mxfp4", "f8E4M3FN": "mxfp8"}

# Data and groups of moe-run's calls, dense and with experts.
DATA = {
    "check": {False: ["--exact", "", "--one-hot"],
              True: ["--exact --nan-groups --groups edge", "--groups ragged", "--one-hot --nan-groups --groups ragged", "--exact --groups one",
                     "--exact --groups none"]},
    "sanitize": {False: [""], True: ["--nan-groups --groups edge"]},
    "bench": {False: [""], True: ["--groups equal", "--groups ragged"]},
}  # fmt: skip


def shape_arguments(shapes):
    """shapes: by name, a list."""
    return " ".join(f"--shape {name}={','.join('x'.join(map(str, shape)) for shape in found)}" for name, found in shapes.items())


def layout_of(form):
    """Of packed weights of this format."""
    return {"f4E2M1FN": "16x64_e2m1", "f8E4M3FN": "1x16"}.get(form, "16x64")


class MixedProduct:
    """The product of weights of one format with a scale for each `group` of columns (-1: for the row) and these element types; zeros:
    with zero points. scaled: with a scale for each token. sizes: where they are static, as in CHECK; it is timed then. schedule: the usual one of this variant."""

    def __init__(self, weights="i4", group=64, scales="bf16", zeros=False, x="bf16", out="bf16", bias=False, scaled=False, experts=False, sizes=None, schedule=None):
        self.format, self.group, self.grouped, self.sizes, self.schedule = weights, group, experts, sizes, schedule
        self.is_fp8 = weights == "f8E4M3FN"
        self.elements = {"w": "f8E4M3FN" if self.is_fp8 else "ui8", "scales": scales} | ({"zeros": "ui8"} if zeros else {}) | {"x": x} | ({"scales_x": "f32"} if scaled else {}) | ({"offs": "i32"} if experts else {}) | ({"bias": out} if bias else {})
        self.op, self.out = "mixed_mm" + "_scaled" * scaled + "_zeros" * zeros + "_bias" * bias, out

    def has_candidates_of_another(self):
        """Whether another variant's candidates are the same."""
        if not self.sizes:
            return False
        tokens, rows, columns, *_ = self.sizes
        usual = USUAL.get((rows, columns), ())
        return tokens // (EXPERTS_OF_TOKEN if self.grouped else 1) not in usual

    def shapes(self, m, n, k, e=None):
        """The shapes of all tensors; of dynamic ones all are "?"."""
        if m == "?":
            panels, chunks, groups = "???"
        else:
            panels, chunks, groups = n // 16, -(-k // 64), k // self.group
        numbers = (n, 1 if self.group < 0 else groups)
        experts = (e,) if self.grouped else ()
        shapes = {"w": (*experts, n, k) if self.is_fp8 else (*experts, panels, chunks, 512), "scales": (*experts, *numbers), "zeros": (*experts, *numbers), "x": (m, k), "scales_x": (m,), "offs": (e,), "bias": (*experts, n)}
        return {name: shapes[name] for name in self.elements} | {"out": (m, n)}

    def source(self, schedule=None):
        shapes = self.shapes(*(self.sizes or "????"[: 4 if self.grouped else 3]))
        order = "affine_map<(e, n, j) -> (e, j, n)>" if self.grouped else "affine_map<(n, j) -> (j, n)>"

        def tensor(name, element):
            return f"tensor<{'x'.join(map(str, shapes[name]))}x{element}{f', {order}' if name in ('scales', 'zeros') else ''}>"

        types = [tensor(name, element) for name, element in self.elements.items()]
        names = [f"%{name}" for name in self.elements]
        out, schedule = tensor("out", self.out), schedule or self.schedule
        return (
            f"func.func @{self.op}({', '.join(f'{name}: {kind}{CONSTANT * (name[1:] in WEIGHTS)}' for name, kind in zip(names, types))}) -> {out} {{\n"
            f'  %out = "scaled_grouped_mm.{self.op}"({", ".join(names)}) {{format = "{self.format}", group_size = {self.group} : i64, layout = "{layout_of(self.format)}"'
            f"{f', schedule = {{{schedule}}}' if schedule else ''}}}\n"
            f"      : ({', '.join(types)}) -> {out}\n"
            f"  return %out : {out}\n}}\n"
        )

    def arguments(self, what):
        """Lists of arguments, a call each."""
        if what == "tune":
            return [line.replace("--bench", "--tune") for line in self.arguments("bench")] if self.is_checked() else []
        if self.sizes:
            cases = [self.sizes] if what == "bench" or (what == "check" and self.is_checked()) else []
            data = DATA[what][self.grouped][:1] if what == "check" else DATA[what][self.grouped]
        else:
            cases, data = {"check": CHECK, "sanitize": SANITIZE, "bench": {True: [], False: []}}[what][self.grouped], DATA[what][self.grouped]
        action = "--bench" if what == "bench" else "--check"
        lines = [f"{action} {self.of_cases(cases)} {words}".strip() for words in data if cases]
        if what == "check" and not self.sizes and (self.format, self.out) == ("i4", "bf16"):  # data whose sums depend on the order
            lines.append(f"--check --runs {REPEATED_RUNS} {self.of_cases([REPEAT[self.grouped]])}" + (" --groups ragged" if self.grouped else ""))
        return lines

    def is_checked(self):
        return not self.sizes or (not self.grouped and self.sizes[0] <= CHECKED_TOKENS)

    def of_cases(self, cases):
        whole = max(self.group, 32)
        found = [self.shapes(m, n, -(-k // whole) * whole, *e) for m, n, k, *e in cases]
        return shape_arguments({name: [shapes[name] for shapes in found] for name in self.elements})


def form_of(variant):
    """What mixed_rows.py calls a product of static sizes; None of other variants and of products whose results it does not know."""
    if not isinstance(variant, MixedProduct) or not variant.sizes or variant.group < 0:
        return None
    types = {name: kind for name, kind in variant.elements.items() if name not in ("w", "offs")} | {"out": variant.out}
    scales = "bf16" if variant.format == "i4" else "f8E8M0FNU"
    return FORMS.get(variant.format) if types == {"scales": scales, "x": "bf16", "out": "bf16"} else None


def packer_of(form):
    """The variant that packs weights for mixed_rows.py, which packs those of eight bits itself."""
    return None if form in (None, "mxfp8") else "pack-weights-e2m1" if form == "mxfp4" else "pack-weights"


class PackWeights:
    """pack_weights of a matrix, or of experts."""

    CHECK = {False: ["48x80", "16x16", "256x128", "3584x4096"], True: ["3x32x48", "8x512x1024"]}
    SANITIZE = {False: ["48x80", "16x16"], True: ["3x32x48"]}
    BENCH = {False: ["3584x4096", "8192x4096", "28672x4096"], True: ["256x4096x1024"]}

    def __init__(self, experts, layout="16x64"):
        self.experts, self.layout, self.grouped = experts, layout, False

    def source(self, schedule=None):
        experts = "?x" if self.experts else ""
        w, packed = f"tensor<{experts}?x?xui8>", f"tensor<{experts}?x?x512xui8>"
        return (
            f"func.func @pack_weights(%w: {w}) -> {packed} {{\n"
            f'  %packed = "scaled_grouped_mm.pack_weights"(%w) {{layout = "{self.layout}"{f", schedule = {{{schedule}}}" if schedule else ""}}} : ({w}) -> {packed}\n'
            f"  return %packed : {packed}\n}}\n"
        )

    def arguments(self, what):
        shapes = {"check": self.CHECK, "sanitize": self.SANITIZE}.get(what, self.BENCH)[self.experts]
        action = {"bench": "--bench", "tune": "--tune"}.get(what, "--check")
        return [f"{action} --shape w={','.join(shapes)}"]


MXFP4 = {"weights": "f4E2M1FN", "group": 32, "scales": "f8E8M0FNU"}
MXFP8 = MXFP4 | {"weights": "f8E4M3FN"}
ZEROS = {"weights": "ui4", "zeros": True}
SCALED = {"group": 32, "x": "f16", "scaled": True}
SCALED_PANELS = "in_flight = 1, scaled_weights = 1, long_sums = 1"


def forms():
    """Of any size, by name."""
    yield from ((f"i4-{group}", {"group": group}) for group in (32, 64, 128))
    yield "i4-row", {"group": -1}
    yield "i4-64-f16-f32", {"x": "f16", "scales": "f16", "out": "f32"}
    yield "i4-128-scales-f32-f16", {"group": 128, "x": "f16", "scales": "f32", "out": "f16"}
    yield "uint4b8-128-f16", {"weights": "uint4b8", "group": 128, "x": "f16", "scales": "f16", "out": "f16"}
    yield "zeros-64", ZEROS
    yield "zeros-32-f32", ZEROS | {"group": 32, "out": "f32"}
    yield "zeros-row-f16", ZEROS | {"group": -1, "x": "f16", "scales": "f16", "out": "f16"}
    yield "mxfp4", MXFP4
    yield "mxfp4-f16-f32", MXFP4 | {"x": "f16", "out": "f32"}
    yield "e2m1-64-f32", {"weights": "f4E2M1FN", "out": "f32"}
    # One CTA, CTAs that divide columns, CTAs that share tokens, two pieces in flight, tokens in parts.
    yield "i4-64-narrow", {"schedule": "tile_n = 8, warpgroups = 4, depth = 256, stages = 4"}
    yield "i4-64-split", {"schedule": "tile_n = 16, depth = 256, stages = 7, split = 4"}
    yield "i4-64-share", {"schedule": "tile_n = 80, share = 2, stages = 6"}
    yield "i4-64-in-flight", {"schedule": "tile_n = 64, in_flight = 2, split = 2, stages = 6"}
    # Warps that load their weights, several tiles of a CTA.
    yield "i4-64-direct", {"schedule": "tile_n = 8, panels = 4, slices = 4, direct = 1, depth = 1024, stages = 6"}
    yield "experts-i4-32-direct", {"group": 32, "experts": True, "schedule": "tile_n = 8, panels = 8, slices = 2, direct = 1, depth = 512, stages = 8"}
    yield "i4-64-two-panels", {"schedule": "tile_n = 8, panels = 2, slices = 4, depth = 1024, stages = 4, subnormal = 1"}
    yield "zeros-64-slices", ZEROS | {"schedule": "tile_n = 16, panels = 14, slices = 2, depth = 256, stages = 3, subnormal = 1"}
    # Panels whose weights are multiplied by their scales.
    yield "mxfp4-panels-scaled", MXFP4 | {"schedule": f"tile_n = 8, panels = 4, slices = 4, depth = 1024, stages = 3, {SCALED_PANELS}"}
    yield "mxfp4-panels-scaled-16", MXFP4 | {"schedule": f"tile_n = 16, panels = 14, slices = 2, depth = 256, stages = 4, {SCALED_PANELS}"}
    yield "experts-mxfp4-panels-scaled", MXFP4 | {"experts": True, "schedule": f"tile_n = 16, panels = 16, depth = 256, stages = 4, spread = 1, {SCALED_PANELS}"}
    yield "experts-mxfp4-panels-direct", MXFP4 | {"experts": True, "schedule": f"tile_n = 8, panels = 8, direct = 1, depth = 256, stages = 5, {SCALED_PANELS}"}
    # Few tokens of experts, by rounds of tiles: small tiles, of which a multiprocessor has two to four, and large ones; where the last tiles are divided, and where weights are multiplied by
    # their scales.
    four, eight, large = ("tile_n = 8, panels = 4, ctas_per_sm = 3, depth = 256, stages = 3", "tile_n = 8, panels = 8, ctas_per_sm = 2", "tile_n = 8, panels = 16, depth = 256, spread = 1")
    yield "experts-i4-64-small", {"experts": True, "schedule": f"{four}, subnormal = 1"}
    yield "experts-zeros-32-bias-at-once", ZEROS | {"group": 32, "bias": True, "experts": True, "schedule": "tile_n = 8, panels = 4, ctas_per_sm = 4, depth = 128, stages = 4, subnormal = 1"}
    yield "experts-zeros-128-eight", ZEROS | {"group": 128, "experts": True, "schedule": f"{eight}, depth = 128, stages = 4, subnormal = 1"}
    yield "experts-i4-128-large", {"group": 128, "experts": True, "schedule": f"{large}, stages = 3, subnormal = 1"}
    yield "experts-mxfp4-eight", MXFP4 | {"experts": True, "schedule": f"{eight}, depth = 128, stages = 4, {SCALED_PANELS}"}
    yield "experts-mxfp4-bias-divided", MXFP4 | {"bias": True, "experts": True, "schedule": f"{eight}, depth = 256, stages = 3, spread = 1, {SCALED_PANELS}"}
    yield "experts-mxfp4-large", MXFP4 | {"experts": True, "schedule": f"{large}, stages = 4, {SCALED_PANELS}"}
    # Integers times scales in f16, with a scale for each token.
    yield "i4-32-scaled", SCALED | {"schedule": "tile_n = 256, scaled_weights = 1, long_sums = 1, in_flight = 1, depth = 128, stages = 3"}
    yield "i4-64-scaled-parts", SCALED | {"group": 64, "schedule": "tile_n = 256, scaled_weights = 1, long_sums = 1, in_flight = 1, depth = 128, stages = 3, spread = 1, split = 1"}
    yield "experts-i4-32-scaled", SCALED | {"experts": True, "schedule": "tile_n = 128, warpgroups = 3, scaled_weights = 1, long_sums = 1, in_flight = 1, depth = 128, stages = 3, staged = 1"}
    yield "experts-i4-32-scaled-behind", SCALED | {"experts": True, "schedule": "tile_n = 112, warpgroups = 4, behind = 1, scaled_weights = 1, long_sums = 1, in_flight = 1, depth = 128, stages = 4"}
    yield "bias", {"bias": True}
    yield "zeros-bias-f32", ZEROS | {"bias": True, "out": "f32"}
    yield "i4-64-parts", {"schedule": "tile_n = 128, token_parts = 2, share = 2, stages = 4, band = 2, in_flight = 1"}
    yield "i4-64-parts-split", {"schedule": "tile_n = 64, token_parts = 4, split = 2, stages = 4, in_flight = 1"}
    yield "i4-64-thirds", {"schedule": "tile_n = 192, token_parts = 3, unroll = 4, stages = 3, in_flight = 1"}
    yield "i4-64-widest", {"schedule": "tile_n = 256, token_parts = 4, stages = 3, in_flight = 1"}
    yield "mxfp4-long-sums-share", MXFP4 | {"schedule": "tile_n = 256, in_flight = 1, scaled_weights = 1, long_sums = 1, share = 2, stages = 3"}
    yield "experts-mxfp4-long-sums", MXFP4 | {"experts": True, "schedule": "tile_n = 96, warpgroups = 3, in_flight = 1, scaled_weights = 1, long_sums = 1, depth = 256, stages = 2"}
    yield "experts-i4-32", {"group": 32, "experts": True}
    yield "experts-i4-row-f32", {"group": -1, "out": "f32", "experts": True}
    yield "experts-zeros-64", ZEROS | {"experts": True}
    yield "experts-mxfp4", MXFP4 | {"experts": True}
    yield "mxfp4-scaled-split", MXFP4 | {"out": "f32", "schedule": "tile_n = 32, in_flight = 1, scaled_weights = 1, split = 2, stages = 6"}
    yield "experts-mxfp4-scaled", MXFP4 | {"experts": True, "schedule": "tile_n = 96, in_flight = 1, scaled_weights = 1, depth = 256, stages = 3"}
    yield "experts-mxfp4-bias", MXFP4 | {"bias": True, "experts": True}
    yield "experts-mxfp4-f16", MXFP4 | {"x": "f16", "out": "f16", "experts": True}
    yield "experts-i4-64-split", {"experts": True, "schedule": "tile_n = 16, depth = 256, stages = 7, split = 4"}
    yield "mxfp8", MXFP8
    yield "mxfp8-f32", MXFP8 | {"out": "f32", "schedule": "tile_n = 16, warpgroups = 2, in_flight = 1, scaled_weights = 1, stages = 4, split = 2"}
    yield "mxfp8-wide", MXFP8 | {"schedule": "tile_n = 208, warpgroups = 2, in_flight = 1, scaled_weights = 1, long_sums = 1, split = 1, stages = 3, share = 2"}
    yield "experts-mxfp8", MXFP8 | {"experts": True}
    yield "experts-mxfp8-bias", MXFP8 | {"experts": True, "bias": True, "schedule": "tile_n = 112, warpgroups = 3, in_flight = 1, scaled_weights = 1, long_sums = 1, stages = 4, behind = 0, widths = 1"}
    yield "experts-i4-64-share", {"experts": True, "schedule": "tile_n = 80, share = 2, stages = 6"}


def timed():
    """Those of docs/performance/mixed_product.md, by name."""
    for (n, k), counts in TOKENS.items():
        for tokens in counts:
            yield f"at-{n}x{k}-{tokens}", {"sizes": (tokens, n, k)}
            if times_mxfp4(tokens):
                yield f"at-{n}x{k}-{tokens}-mxfp4", {"sizes": (tokens, n, k)} | MXFP4
            if tokens in MXFP8_TOKENS:
                yield f"at-{n}x{k}-{tokens}-mxfp8", {"sizes": (tokens, n, k)} | MXFP8
    for n, k in ((3584, 8192), (28672, 8192)):
        at = {"sizes": (16, n, k)}
        for name, form in {"i4-32": {"group": 32}, "i4-128": {"group": 128}, "zeros-64": ZEROS, "f32": {"out": "f32"}}.items():
            yield f"at-{n}x{k}-16-{name}", at | form
    for n, k, experts in EXPERT_SIZES:
        for tokens in EXPERT_TOKENS:
            at = {"sizes": (tokens * EXPERTS_OF_TOKEN, n, k, experts), "experts": True}
            yield f"experts-at-{n}x{k}-{tokens}-i4-32", at | {"group": 32}
            yield f"experts-at-{n}x{k}-{tokens}-mxfp4", at | MXFP4
    for m, n, k, experts in SMALL:
        yield f"small-{m}x{n}x{k}x{experts}-mxfp8", {"sizes": (m, n, k, experts), "experts": True} | MXFP8


def mixed_products():
    table = {f"mixed-{name}": MixedProduct(**form) for name, form in (*forms(), *timed())}
    return table | {"pack-weights": PackWeights(False), "pack-weights-experts": PackWeights(True), "pack-weights-e2m1": PackWeights(False, "16x64_e2m1")}
