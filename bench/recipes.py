"""The products of bf16 tensors by a recipe that bench/gpu compiles, checks and times, and that test/Kernels/grouped_mm runs: see
variants.py.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from products import BENCH

# (M, N, K, E), as in products.py. Normal data: on other data a right sum may exceed the bound.
CHECK = [(2048, 528, 1040, 12), (704, 256, 64, 24), (144, 16, 16, 3)]
SANITIZE = [(704, 272, 208, 11), (144, 16, 16, 3)]
DATA = {
    "check": ["--normal --groups ragged", "--normal --groups edge", "--exact --groups one", "--exact --groups none"],
    "sanitize": ["--groups edge"],
    "bench": ["--normal --groups equal", "--normal --groups ragged"],
}  # fmt: skip
BATCHED_DATA = {"check": ["--normal", "", "--exact"], "sanitize": [""], "bench": ["--normal"]}

# How operands lie as a network has them: which of a, b have their last two dimensions swapped in memory.
CASES = {"forward": "b", "dgrad": "", "wgrad": "a", "batched": "b", "batched-swapped": "a"}


class Recipe:
    """One case, with this type of result and these sums."""

    def __init__(self, case, recipe, out, accumulate):
        self.case, self.recipe, self.out, self.accumulate = case, recipe, out, accumulate
        self.grouped = not case.startswith("batched")

    def shapes(self, m, n, k, e):
        """The shapes of all tensors; the gradient of tokens sums over N."""
        if self.case == "wgrad":
            return {"a": (n, m), "b": (m, k), "offs": (e,), "out": (e, n, k)}
        if self.grouped:
            summed, other = (n, k) if self.case == "dgrad" else (k, n)
            return {"a": (m, summed), "b": (e, summed, other), "offs": (e,), "out": (m, other)}
        # Of a column-major operand M is a multiple of 16.
        each = m if isinstance(m, str) else -(-m // e // 16) * 16
        return {"a": (e, each, k), "b": (e, k, n), "out": (e, each, n)}

    def source(self, schedule=None):
        if schedule:
            raise ValueError("several kernels have no schedule in common")
        shapes = self.shapes(*"????")
        maps = {2: "(n, m) -> (m, n)", 3: "(e, k, n) -> (e, n, k)"}

        def tensor(name, element):
            order = f", affine_map<{maps[len(shapes[name])]}>" if name in CASES[self.case] else ""
            return f"tensor<{'x'.join(shapes[name])}x{element}{order}>"

        types = {"a": tensor("a", "bf16"), "b": tensor("b", "bf16")} | ({"offs": tensor("offs", "i32")} if self.grouped else {})
        out = tensor("out", self.out)
        return (
            f"func.func @grouped_mm({', '.join(f'%{name}: {kind}' for name, kind in types.items())}) -> {out} {{\n"
            f"  %out = \"scaled_grouped_mm.grouped_mm\"({', '.join('%' + name for name in types)})"
            f' {{recipe = "{self.recipe}", accumulate = "{self.accumulate}"}}\n'
            f"      : ({', '.join(types.values())}) -> {out}\n"
            f"  return %out : {out}\n}}\n"
        )

    def arguments(self, what):
        """Lists of arguments, a call each. None to tune: the candidates are those of the ops that a recipe becomes."""
        if what == "tune":
            return []
        cases = {"check": CHECK, "sanitize": SANITIZE, "bench": BENCH}[what]
        if what == "bench" and (self.out != "bf16" or self.accumulate != ("fast" if self.recipe in ("fp8_rowwise", "fp8_tensorwise") else "promoted")):
            return []
        if self.recipe == "mxfp8" and self.case != "wgrad":
            cases = [(m, -(-n // 32) * 32, -(-k // 32) * 32, e) for m, n, k, e in cases]
        lists = {
            name: ",".join("x".join(map(str, self.shapes(*case)[name])) for case in cases)
            for name in (("a", "b", "offs") if self.grouped else ("a", "b"))
        }
        shapes = " ".join(f"--shape {name}={sizes}" for name, sizes in lists.items())
        action = "--bench" if what == "bench" else "--check"
        return [f"{action} {shapes} {words}" for words in (DATA if self.grouped else BATCHED_DATA)[what]]


def recipes():
    rest = {
        ("forward", "fp8_rowwise"): ("bf16", "fast"),
        ("forward", "fp8_tensorwise"): ("f32", "promoted"),
        ("dgrad", "fp8_rowwise"): ("bf16", "fast"),
        ("dgrad", "fp8_tensorwise"): ("bf16", "promoted"),
        ("wgrad", "fp8_rowwise"): ("bf16", "fast"),
        ("wgrad", "fp8_tensorwise"): ("f32", "promoted"),
        ("batched", "fp8_rowwise"): ("f16", "fast"),
        ("batched", "fp8_tensorwise"): ("bf16", "fast"),
        ("batched-swapped", "fp8_rowwise"): ("bf16", "promoted"),
        ("batched-swapped", "fp8_tensorwise"): ("f32", "fast"),
        ("forward", "fp8_blockwise"): ("bf16", "promoted"),
        ("dgrad", "fp8_blockwise"): ("bf16", "promoted"),
        ("wgrad", "fp8_blockwise"): ("bf16", "promoted"),
        ("batched", "fp8_blockwise"): ("f32", "promoted"),
        ("batched-swapped", "fp8_blockwise"): ("f16", "promoted"),
        ("forward", "mxfp8"): ("bf16", "promoted"),
        ("dgrad", "mxfp8"): ("bf16", "promoted"),
        ("wgrad", "mxfp8"): ("bf16", "promoted"),
        ("batched", "mxfp8"): ("f32", "promoted"),
        ("batched-swapped", "mxfp8"): ("bf16", "promoted"),
    }
    return {f"recipe-{case}-{recipe.removeprefix('fp8_')}": Recipe(case, recipe, *words) for (case, recipe), words in rest.items()}
