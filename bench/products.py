"""The grouped products that bench/gpu compiles, checks and times, and that test/Kernels/scaled_mm runs: see variants.py.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
# (M, N, K, E): M are tokens of all groups; of a batched product of all experts, which then have the same number of them.
CHECK = [
    (2048, 1024, 512, 8), (2048, 528, 1040, 12), (700, 256, 64, 24), (4096, 512, 256, 256), (512, 256, 128, 1), (144, 16, 16, 3),
]  # fmt: skip
# Of variants that differ from others only in types, scales or a bias.
CHECK_FEW = [(2048, 528, 1040, 12), (700, 256, 64, 24), (144, 16, 16, 3)]
SANITIZE = [(704, 272, 208, 11), (144, 16, 16, 3)]
# All compute-bound.
BENCH = [
    (16384, 8192, 5120, 4), (16384, 8192, 5120, 8), (32768, 4096, 7168, 4), (32768, 4096, 7168, 8),
    (32768, 7168, 2048, 4), (32768, 7168, 2048, 8), (98304, 2816, 2048, 8), (98304, 2048, 1408, 8),
]  # fmt: skip
# Sums of products forward and of gradients of weights.
SUMS = ("fast", "promoted")
# Tokens of groups, again and again, where groups are of kind "edge".
EDGE_SIZES = [0, 1, 15, 16, 31, 63, 64, 65, 127, 128, 129, 0]
# A layer of many small experts: its product forward, and its gradient of tokens.
SWEEP = [(65536, 1408, 2048, 16), (65536, 2048, 1408, 16)]
# With one that candidates are checked with.
TUNE = [(2048, 1024, 1024, 4), *BENCH]
# Few tokens: what is read is the weights.
SMALL = [(1024, 4096, 7168, 32), (512, 4096, 7168, 8), (4096, 2048, 2048, 64)]

# Data and groups of moe-run's calls. Sums are exact in all but one, which is judged by the bound.
DATA = {
    "check": ["--exact --nan-groups --groups edge", "--groups ragged", "--one-hot --nan-groups --groups ragged",
              "--exact --groups equal", "--exact --nan-groups --groups one", "--exact --groups none"],
    "sanitize": ["--nan-groups --groups edge"],
    "bench": ["--groups equal", "--groups ragged"],
    "tune": ["--groups equal", "--groups ragged"],
}  # fmt: skip
BATCHED_DATA = {
    "check": ["--exact --nan-groups", "", "--one-hot"],
    "sanitize": ["--nan-groups"],
    "bench": [""],
    "tune": [""],
}  # fmt: skip
REPEAT = (2048, 528, 1040, 12)
REPEATED_RUNS = 1000

MAPS = {"forward": "(e, k, n) -> (e, n, k)", "gradient": "(m, k) -> (k, m)", "batched": "(e, k, n) -> (e, n, k)"}
# Of the scales of 1x128 blocks.
TOKEN_MAPS = {"forward": "(m, k) -> (k, m)", "batched": "(e, m, k) -> (e, k, m)"}


def blocks_of(size, block=128):
    return size if isinstance(size, str) else -(-size // block)


class Product:
    """The product of one case, forward, gradient or batched, with these element types. Of the scales `shared` there is one for each
    expert, or for all tokens of a forward product; `sizes` (M, N, K, E) where they are static. blocks: scales are of 1x128 and
    128x128 blocks, the latter "checkpoint" as with weights (E, N, K), or "row-major"; of a gradient, "tokens", of 1x128 blocks of
    tokens on both sides; "mx" and "mx-row-major": of MX blocks, in the two orders; of a gradient "mx", of tokens on both sides.
    aligned: of a gradient, groups begin at multiples of 128 tokens; M is still the number of tokens before they are moved there.
    With scales of MX blocks and fast sums it is a chain: both operands are dequantized first."""

    grouped = True

    def __init__(self, case, accumulate, a="f8E4M3FN", b="f8E4M3FN", out="bf16", shared=(), bias=False, sizes=None, blocks=None, aligned=False):
        self.case, self.accumulate, self.sizes, self.blocks, self.aligned = case, accumulate, sizes, blocks, aligned
        self.is_mx = bool(blocks) and blocks.startswith("mx")
        scales = "f8E8M0FNU" if self.is_mx else "f32"
        self.elements = {"qa": a, "qb": b, "sa": scales, "sb": scales}
        if case != "batched":
            self.elements["offs"] = "i32"
        if bias:
            self.elements["bias"] = out
        self.out, self.shared, self.op = out, shared, "scaled_mm_bias" if bias else "scaled_mm"
        self.is_usual = (a, b, out, tuple(shared), bias) == ("f8E4M3FN", "f8E4M3FN", "bf16", (), False) and blocks not in ("row-major", "mx-row-major")
        self.is_usual &= not (self.is_mx and accumulate == "fast")

    def shapes(self, m, n, k, e):
        """The shapes of all tensors for this many tokens, rows, columns and experts."""
        if self.case == "forward":
            shapes = {"qa": (m, k), "qb": (e, k, n), "sa": (m,), "sb": (e, n), "out": (m, n)}
        elif self.case == "gradient":
            shapes = {"qa": (n, m), "qb": (m, k), "sa": (e, n), "sb": (e, k), "out": (e, n, k)}
        else:
            each = m if isinstance(m, str) else m // e
            shapes = {"qa": (e, each, k), "qb": (e, k, n), "sa": (e, each), "sb": (e, n), "out": (e, each, n)}
        if self.is_mx and self.case == "gradient":
            blocks = "?" if isinstance(m, str) else blocks_of(m, 32) + e
            shapes |= {"sa": (blocks, n), "sb": (blocks, k)}
        elif self.is_mx:
            tokens = shapes["qa"][:-1]
            shapes |= {"sa": (*tokens, blocks_of(k, 32)), "sb": (e, blocks_of(k, 32), n)}
        elif self.blocks == "tokens":
            blocks = "?" if isinstance(m, str) else blocks_of(m) + e
            shapes |= {"sa": (blocks, n), "sb": (blocks, k)}
        elif self.blocks:
            tokens = shapes["qa"][:-1]
            shapes |= {"sa": (*tokens, blocks_of(k)), "sb": (e, blocks_of(k), blocks_of(n))}
        if self.aligned and not isinstance(m, str):
            padded = 128 * (blocks_of(m) + e)
            shapes |= {"qa": (n, padded), "qb": (padded, k)}
            if self.is_mx:
                shapes |= {"sa": (padded // 32, n), "sb": (padded // 32, k)}
        one = {"sa": (1,) if self.case == "forward" else (e,), "sb": (e,)}
        return shapes | {name: one[name] for name in self.shared} | {"offs": (e,), "bias": (e, n)}

    def source(self, schedule=None):
        shapes = self.shapes(*(self.sizes or "????"))

        def tensor(name, element):
            order = MAPS[self.case] if name == "qb" or (name == "sb" and self.case != "gradient" and self.blocks in ("checkpoint", "mx")) else None
            order = TOKEN_MAPS.get(self.case) if name == "sa" and self.blocks and not self.is_mx else order
            return f"tensor<{'x'.join(map(str, shapes[name]))}x{element}{f', affine_map<{order}>' if order else ''}>"

        types = [tensor(name, element) for name, element in self.elements.items()]
        names = [f"%{name}" for name in self.elements]
        out = tensor("out", self.out)
        arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types))
        attributes = f'accumulate = "{self.accumulate}"' + (', granularity = "1x128"' if self.blocks == "tokens" else "")
        attributes += (", align = 128" if self.aligned else "") + (f", schedule = {{{schedule}}}" if schedule else "")
        return (
            f"func.func @product({arguments}) -> {out} {{\n"
            f'  %out = "scaled_grouped_mm.{self.op}"({", ".join(names)}) {{{attributes}}}\n'
            f"      : ({', '.join(types)}) -> {out}\n"
            f"  return %out : {out}\n}}\n"
        )

    def arguments(self, what):
        """Lists of arguments, a call each."""
        if what in ("bench", "tune") and not self.is_usual:
            return []
        data = (BATCHED_DATA if self.case == "batched" else DATA)[what]
        cases = {"check": CHECK, "sanitize": SANITIZE, "bench": BENCH, "tune": TUNE}[what]
        if what == "check" and not self.is_usual:
            cases, data = CHECK_FEW, data[:2]
        if self.sizes:  # too large for the C reference to be asked often, or for a sanitizer
            cases, data = [self.sizes], {"check": data[:1], "sanitize": []}.get(what, data)
        if self.tokens_lie_side_by_side:  # then they are a dimension of a tensor map, whose rows are multiples of 16 bytes
            of_expert = [16 * (e if self.case == "batched" else 1) for _, _, _, e in cases]
            cases = [(-(-m // unit) * unit, *rest) for unit, (m, *rest) in zip(of_expert, cases)]
        cases, repeat = self.with_whole_blocks(cases), self.with_whole_blocks([REPEAT])
        action = {"bench": "--bench", "tune": "--tune"}.get(what, "--check")
        lines = [f"{action} {self.shape_arguments(cases)} {words}" for words in data]
        if what == "check" and self.is_usual and not self.sizes:
            groups = "" if self.case == "batched" else " --groups ragged"
            lines.append(f"--check --runs {REPEATED_RUNS} {self.shape_arguments(repeat)} --exact{groups}")
        return lines

    @property
    def tokens_lie_side_by_side(self):
        return self.case == "gradient"

    def with_whole_blocks(self, cases):
        """K of MX is a multiple of 32, where it is what is summed."""
        return [(m, n, -(-k // 32) * 32, e) for m, n, k, e in cases] if self.is_mx and self.case != "gradient" else cases

    def shape_arguments(self, cases):
        arguments = []
        for name in self.elements:
            shapes = ["x".join(map(str, self.shapes(*case)[name])) for case in cases]
            # A single shape serves all calls.
            arguments.append(f"--shape {name}={shapes[0] if len(set(shapes)) == 1 else ','.join(shapes)}")
        return " ".join(arguments)


class Halves(Product):
    """A product of operands of 16 bits, which have no scales. Of the operands named in `columns` the last two dimensions are swapped in
    memory: weights (E, N, K) are a "b" of a product forward, tokens (M, N) an "a" of a gradient."""

    def __init__(self, case, columns="", element="bf16", out="bf16", aligned=False, bias=False, sizes=None):
        super().__init__(case, "fast", out=out, aligned=aligned, sizes=sizes)
        self.columns, self.op = columns, "mm_bias" if bias else "mm"
        self.elements = {"a": element, "b": element} | ({} if case == "batched" else {"offs": "i32"}) | ({"bias": out} if bias else {})
        self.is_usual = element == out == "bf16" and not aligned and case != "batched" and not bias

    @property
    def tokens_lie_side_by_side(self):
        return super().tokens_lie_side_by_side or "a" in self.columns

    def shapes(self, m, n, k, e):
        shapes = super().shapes(m, n, k, e)
        return {"a": shapes["qa"], "b": shapes["qb"], "offs": shapes["offs"], "bias": shapes["bias"], "out": shapes["out"]}

    def source(self, schedule=None):
        shapes = self.shapes(*(self.sizes or "????"))
        maps = {2: "(m, k) -> (k, m)", 3: "(e, k, n) -> (e, n, k)"}

        def tensor(name, element):
            order = f", affine_map<{maps[len(shapes[name])]}>" if name in self.columns else ""
            return f"tensor<{'x'.join(map(str, shapes[name]))}x{element}{order}>"

        types = {name: tensor(name, element) for name, element in self.elements.items()}
        attributes = [*(["align = 128"] if self.aligned else []), *([f"schedule = {{{schedule}}}"] if schedule else [])]
        out = tensor("out", self.out)
        return (
            f"func.func @product({', '.join(f'%{name}: {kind}' for name, kind in types.items())}) -> {out} {{\n"
            f'  %out = "scaled_grouped_mm.{self.op}"({", ".join("%" + name for name in types)}) {{{", ".join(attributes)}}}\n'
            f"      : ({', '.join(types.values())}) -> {out}\n"
            f"  return %out : {out}\n}}\n"
        )


def small_name(sizes):
    return f"product-small-{'x'.join(map(str, sizes))}"


def products():
    table = {}

    def add(case, accumulate, a="E4M3FN", b="E4M3FN", out="bf16", shared=(), bias=False):
        words = [] if a == b == "E4M3FN" else [a, b]
        words += [out] if out != "bf16" else []
        words += ["shared-" + "-".join(shared)] if shared else []
        words += ["bias"] if bias else []
        table["-".join(["product", case, accumulate, *words])] = Product(case, accumulate, f"f8{a}", f"f8{b}", out, shared, bias)

    for case in ("forward", "gradient", "batched"):
        for accumulate in ("fast", "promoted"):
            add(case, accumulate)
            add(case, accumulate, out="f16")
            add(case, accumulate, out="f32")
            add(case, accumulate, "E5M2", "E5M2")
            add(case, accumulate, shared=("sa", "sb"))
        add(case, "fast", "E5M2", "E4M3FN")
        add(case, "fast", "E4M3FN", "E5M2")
        add(case, "fast", out="f32", shared=("sa",))
        add(case, "promoted", out="f16", shared=("sb",))
    for case in ("forward", "batched"):
        add(case, "fast", bias=True)
        add(case, "promoted", out="f32", bias=True)
        add(case, "fast", "E5M2", "E4M3FN", out="f16", shared=("sa", "sb"), bias=True)
    for case in ("forward", "batched"):
        for name, form in {
            "": {}, "-e5m2-f16": {"a": "f8E5M2", "b": "f8E5M2", "out": "f16"}, "-bias-f32": {"out": "f32", "bias": True},
            "-row-major": {"blocks": "row-major"},
        }.items():  # fmt: skip
            table[f"product-{case}-blocks{name}"] = Product(case, "promoted", **{"blocks": "checkpoint", **form})
        for name, form in {
            "": {}, "-e5m2-f16": {"a": "f8E5M2", "b": "f8E5M2", "out": "f16"}, "-e4m3-e5m2": {"b": "f8E5M2"},
            "-bias-f32": {"out": "f32", "bias": True}, "-row-major": {"blocks": "mx-row-major"},
        }.items():  # fmt: skip
            table[f"product-{case}-mx{name}"] = Product(case, "promoted", **{"blocks": "mx", **form})
            table[f"chain-product-{case}-mx{name}"] = Product(case, "fast", **{"blocks": "mx", **form})
    for name, form in {"": {}, "-f32": {"out": "f32"}, "-e5m2-f16": {"a": "f8E5M2", "b": "f8E5M2", "out": "f16"}}.items():
        table[f"product-gradient-mx{name}"] = Product("gradient", "promoted", **{"blocks": "mx", **form})
        table[f"chain-product-gradient-mx{name}"] = Product("gradient", "fast", **{"blocks": "mx", **form})
        table[f"product-gradient-blocks{name}"] = Product("gradient", "promoted", **{"blocks": "tokens", **form})
    for accumulate in ("fast", "promoted"):
        for name, form in {
            "": {}, "-e5m2-f16": {"a": "f8E5M2", "b": "f8E5M2", "out": "f16"}, "-shared-f32": {"shared": ("sa", "sb"), "out": "f32"},
        }.items():  # fmt: skip
            table[f"product-aligned-{accumulate}{name}"] = Product("gradient", accumulate, aligned=True, **form)
    for kind, blocks in {"blocks": "tokens", "mx": "mx"}.items():
        for name, form in {"": {}, "-f32": {"out": "f32"}, "-e5m2-f16": {"a": "f8E5M2", "b": "f8E5M2", "out": "f16"}}.items():
            table[f"product-aligned-{kind}{name}"] = Product("gradient", "promoted", blocks=blocks, aligned=True, **form)
            if kind == "mx":
                table[f"chain-product-aligned-mx{name}"] = Product("gradient", "fast", blocks=blocks, aligned=True, **form)
    for name, form in {
        "forward": {"case": "forward", "columns": "b"}, "forward-row-major": {"case": "forward"},
        "forward-f16": {"case": "forward", "columns": "b", "element": "f16", "out": "f16"},
        "forward-bias": {"case": "forward", "columns": "b", "out": "f32", "bias": True},
        "batched-bias": {"case": "batched", "columns": "b", "bias": True},
        "gradient": {"case": "gradient", "columns": "a"}, "gradient-f32": {"case": "gradient", "columns": "a", "out": "f32"},
        "gradient-f16": {"case": "gradient", "columns": "a", "element": "f16", "out": "f32"},
        "aligned": {"case": "gradient", "columns": "b", "aligned": True},
        "aligned-row-major": {"case": "gradient", "columns": "a", "aligned": True},
        "batched": {"case": "batched", "columns": "b"}, "batched-row-major": {"case": "batched", "out": "f32"},
        "batched-swapped": {"case": "batched", "columns": "a"}, "batched-columns": {"case": "batched", "columns": "ab"},
    }.items():  # fmt: skip
        table[f"product-halves-{name}"] = Halves(**form)
    for sizes in SMALL:
        table[small_name(sizes)] = Product("forward", "fast", sizes=sizes)
        table[small_name(sizes).replace("small", "blocks-small")] = Product("forward", "promoted", sizes=sizes, blocks="checkpoint")
        table[small_name(sizes).replace("small", "mx-small")] = Product("forward", "promoted", sizes=sizes, blocks="mx")
    return table
