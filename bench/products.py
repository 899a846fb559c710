"""The grouped products that bench/gpu compiles, checks and times, and that test/Emulator/scaled_mm runs: see variants.py.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
# (M, N, K, E): M are tokens of all groups; of a batched product of all experts, which then have the same number of them.
CHECK = [(2048, 1024, 512, 8), (2048, 528, 1040, 12), (700, 256, 64, 24), (4096, 512, 256, 256), (512, 256, 128, 1), (144, 16, 16, 3)]
SANITIZE = [(700, 272, 208, 11), (144, 16, 16, 3)]
# All compute-bound.
BENCH = [
    (16384, 8192, 5120, 4), (16384, 8192, 5120, 8), (32768, 4096, 7168, 4), (32768, 4096, 7168, 8),
    (32768, 7168, 2048, 4), (32768, 7168, 2048, 8), (98304, 2816, 2048, 8), (98304, 2048, 1408, 8),
]  # fmt: skip
# Few tokens: what is read is the weights.
SMALL = [(1024, 4096, 7168, 32), (512, 4096, 7168, 8), (4096, 2048, 2048, 64)]

# Data and groups of moe-run's calls. Sums are exact in all but one, which is judged by the bound.
DATA = {
    "check": ["--exact --nan-groups --groups edge", "--groups ragged", "--one-hot --nan-groups --groups ragged",
              "--exact --groups equal", "--exact --nan-groups --groups one", "--exact --groups none"],
    "sanitize": ["--nan-groups --groups edge"],
    "bench": ["--groups equal", "--groups ragged"],
}  # fmt: skip
BATCHED_DATA = {
    "check": ["--exact --nan-groups", "", "--one-hot"],
    "sanitize": ["--nan-groups"],
    "bench": [""],
}  # fmt: skip
REPEAT = (2048, 528, 1040, 12)
REPEATED_RUNS = 1000

MAPS = {"forward": "(e, k, n) -> (e, n, k)", "gradient": "(m, k) -> (k, m)", "batched": "(e, k, n) -> (e, n, k)"}


class Product:
    """scaled_mm of one case, forward, gradient or batched, with these element types; `sizes` (M, N, K, E) where it is static."""

    grouped = True

    def __init__(self, case, accumulate, a="f8E4M3FN", b="f8E4M3FN", out="bf16", shared_scales=False, bias=False, sizes=None):
        self.case, self.accumulate, self.sizes = case, accumulate, sizes
        self.elements = {"qa": a, "qb": b, "sa": "f32", "sb": "f32"}
        if case != "batched":
            self.elements["offs"] = "i32"
        if bias:
            self.elements["bias"] = out
        self.out, self.shared_scales = out, shared_scales
        self.is_usual = (a, b, out, shared_scales, bias) == ("f8E4M3FN", "f8E4M3FN", "bf16", False, False)

    def shapes(self, m, n, k, e):
        """The shapes of all tensors for this many tokens, rows, columns and experts."""
        if self.case == "forward":
            shapes = {"qa": (m, k), "qb": (e, k, n), "sa": (m,), "sb": (e, n), "out": (m, n)}
        elif self.case == "gradient":
            shapes = {"qa": (n, m), "qb": (m, k), "sa": (e, n), "sb": (e, k), "out": (e, n, k)}
        else:
            each = m if isinstance(m, str) else m // e
            shapes = {"qa": (e, each, k), "qb": (e, k, n), "sa": (e, each), "sb": (e, n), "out": (e, each, n)}
        if self.shared_scales:
            shapes |= {"sa": (1,) if self.case == "forward" else (e,), "sb": (e,)}
        return shapes | {"offs": (e,), "bias": (e, n)}

    def source(self, schedule=None):
        shapes = self.shapes(*(self.sizes or "????"))

        def tensor(name, element):
            order = f", affine_map<{MAPS[self.case]}>" if name == "qb" else ""
            return f"tensor<{'x'.join(map(str, shapes[name]))}x{element}{order}>"

        types = [tensor(name, element) for name, element in self.elements.items()]
        names = [f"%{name}" for name in self.elements]
        out = tensor("out", self.out)
        arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types))
        attributes = f'accumulate = "{self.accumulate}"'
        if "bias" in self.elements:  # which of the optional operands there are
            attributes += f", operandSegmentSizes = array<i32: 1, 1, 1, 1, {int('offs' in self.elements)}, 1>"
        attributes += f", schedule = {{{schedule}}}" if schedule else ""
        return (
            f"func.func @product({arguments}) -> {out} {{\n"
            f'  %out = "scaled_grouped_mm.scaled_mm"({", ".join(names)}) {{{attributes}}}\n'
            f"      : ({', '.join(types)}) -> {out}\n"
            f"  return %out : {out}\n}}\n"
        )

    def arguments(self, what):
        """Lists of arguments, a call each."""
        if what == "bench" and not self.is_usual:
            return []
        data = (BATCHED_DATA if self.case == "batched" else DATA)[what]
        cases = {"check": CHECK, "sanitize": SANITIZE, "bench": BENCH}[what]
        if self.sizes:  # too large for the C reference to be asked often, or for a sanitizer
            cases, data = [self.sizes], {"check": data[:2], "sanitize": [], "bench": data}[what]
        # Dimensions of tensor maps, and of rows of a result, are multiples of 16 bytes; tokens are one only in the gradient.
        cases = [(-(-m // 16) * 16, *rest) if self.case == "gradient" else (m, *rest) for m, *rest in cases]
        action = "--bench" if what == "bench" else "--check"
        lines = [f"{action} {self.shape_arguments(cases)} {words}" for words in data]
        if what == "check" and self.is_usual and not self.sizes:
            lines.append(f"--check --runs {REPEATED_RUNS} {self.shape_arguments([REPEAT])} {data[0]}")
        return lines

    def shape_arguments(self, cases):
        lists = {name: ",".join("x".join(map(str, self.shapes(*case)[name])) for case in cases) for name in self.elements}
        return " ".join(f"--shape {name}={shapes}" for name, shapes in lists.items())


def products():
    table = {}
    for case in ("forward", "gradient"):
        for accumulate in ("fast", "promoted"):
            table[f"product-{case}-{accumulate}"] = Product(case, accumulate)
            for a, b in (("E5M2", "E4M3FN"), ("E4M3FN", "E5M2"), ("E5M2", "E5M2")):
                table[f"product-{case}-{accumulate}-{a}-{b}"] = Product(case, accumulate, f"f8{a}", f"f8{b}")
    for sizes in SMALL:
        table[f"product-small-{'x'.join(map(str, sizes))}"] = Product("forward", "fast", sizes=sizes)
    return table
