"""Compiles kernels of random static sizes with their default schedules, and looks for those that ptxas has no registers for.

Why: LLVM knows more of a kernel whose sizes are static. It unrolls loops and computes ahead, and where registers are few it leaves too few for
ptxas, at sizes that nobody can name beforehand. The gate compiles kernels of dynamic sizes. moe-opt refuses code that spills or has a stack.

  static_shapes.py MOE_OPT PTXAS [--seed S] [--count N] [--only quantizers|scaled_mm|mm|mixed_mm]

Prints each source that does not compile, and how many of each kind there were; exit code 1 where one does not. The same seed gives the same sources,
count of each kind.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path += [os.path.join(TEST, "..", "bench"), os.path.join(TEST, "Kernels", "mixed_mm", "Inputs")]
from products import Halves, Product  # noqa: E402
from source import source as mixed_source  # noqa: E402
from variants import Variant, variants  # noqa: E402

# What the compiler says of a tensor whose other sizes follow from those that are given.
MISSING = re.compile(r"(operand|result) '\w+' has dimension (\d+) of size (\?|\d+); it must be (\?|\d+)")
TOKENS_OF_AN_EXPERT = [(1, 16), (17, 32), (33, 64), (65, 128), (100, 600), (500, 8000)]


class Refused(Exception):
    """The compiler takes no such sizes."""


class Compiler:
    def __init__(self, moe_opt, ptxas):
        self.command = [moe_opt, "-", f"--ptxas={ptxas}", f"--reproducer={os.devnull}", "-o", os.devnull]

    def errors(self, text, emit="cubin"):
        return subprocess.run([*self.command, f"--emit={emit}"], input=text, capture_output=True, text=True).stderr


def from_ranges(rnd, ranges):
    return rnd.randint(*rnd.choice(ranges))


def sizes_of(kind):
    """The sizes in a tensor type, and the type of its elements behind them."""
    return kind.removeprefix("tensor<").split("x")


def with_size(kind, dimension, size):
    """The tensor type with another size."""
    sizes = sizes_of(kind)
    sizes[dimension] = str(size)
    return f"tensor<{'x'.join(sizes)}"


def quantizer(rnd, compiler):
    """A variant of variants.py whose first operand and groups have static sizes, and the other tensors those that the compiler asks for."""
    name, variant = rnd.choice([(name, variant) for name, variant in QUANTIZERS.items()])
    first, *others = variant.operands
    rank = variant.operands[first].count("?")
    rows = from_ranges(rnd, [(1, 4), (1, 100), (100, 1000)])
    columns = from_ranges(rnd, [(1, 8), (1, 64), (64, 500)]) if rnd.random() < 0.5 else 2 ** rnd.randint(0, 8)
    sizes = [rnd.choice([1, 2, 8, 64, rnd.randint(1, 256)])][: rank - 2] + [128 * rows, 128 * columns if rnd.random() < 0.5 else 32 * columns]
    tensors = {**variant.operands, **variant.results}
    for dimension, size in enumerate(sizes):
        tensors[first] = with_size(tensors[first], dimension, size)
    if "offs" in others:
        tensors["offs"] = with_size(tensors["offs"], 0, rnd.choice([1, 2, 8, 64, rnd.randint(1, 1024)]))
    while True:
        static = Variant(variant.op, {name: tensors[name] for name in variant.operands}, {name: tensors[name] for name in variant.results}, variant.attributes,
                         variant.returned)
        error = compiler.errors(static.source(), "scheduled")
        missing = MISSING.search(error)
        if not missing:
            break
        which, dimension, size, wanted = missing.groups()
        # What must be `?` follows from a tensor that is not static yet, most often the result.
        of = [*variant.results, *variant.operands] if wanted == "?" else variant.results if which == "result" else variant.operands
        tensor = next((name for name in of if sizes_of(tensors[name])[int(dimension):][:1] == ["?"]), None)
        if not tensor:
            break
        tensors[tensor] = with_size(tensors[tensor], int(dimension), wanted if size == "?" else size)
    if error:
        raise Refused(f"{name} of {sizes}: {error}")
    return f"{name} of {sizes}", static.source()


def scaled_mm(rnd, _):
    case = rnd.choice(["forward", "forward", "gradient", "batched"])
    blocks = rnd.choice([None, None, None, "blocks", "mx"])
    by_case = {None: (None,), "blocks": ("checkpoint", "row-major"), "mx": ("mx", "mx-row-major")}
    of_gradient = {None: None, "blocks": "tokens", "mx": "mx"}
    form = {
        "a": rnd.choice(["f8E4M3FN", "f8E4M3FN", "f8E5M2"]),
        "b": rnd.choice(["f8E4M3FN", "f8E4M3FN", "f8E5M2"]),
        "out": rnd.choice(["bf16", "f16", "f32"]),
        "blocks": of_gradient[blocks] if case == "gradient" else rnd.choice(by_case[blocks]),
        "shared": () if blocks else rnd.choice([(), (), ("sa",), ("sb",), ("sa", "sb")]),
        "bias": case != "gradient" and rnd.random() < 0.3,
        "aligned": case == "gradient" and rnd.random() < 0.4,
    }
    accumulate = "promoted" if blocks else rnd.choice(["fast", "promoted"])
    experts = rnd.choice([1, 2, 4, 8, 16, 32, 33, 64, 128, 256, 512, 1024, rnd.randint(1, 1024)])
    n, k = (16 * rnd.choice([1, 2, 3, 88, 128, 320, 448, 512, from_ranges(rnd, [(1, 8), (8, 64), (60, 512)])]) for _ in range(2))
    tokens = experts * from_ranges(rnd, TOKENS_OF_AN_EXPERT)
    if case == "gradient":
        tokens = -(-tokens // 16) * 16
    elif blocks == "mx":
        k = max(32, k // 32 * 32)
    sizes = (tokens, n, k, experts)
    return f"{case} {accumulate} {form} of {sizes}", Product(case, accumulate, sizes=sizes, **form).source()


def mm(rnd, _):
    case = rnd.choice(["forward", "gradient", "gradient", "batched"])
    element, aligned = rnd.choice(["bf16", "f16"]), case == "gradient" and rnd.random() < 0.3
    form = {
        "element": element,
        "out": rnd.choice([element, "f32"]),
        "columns": "a" if case == "gradient" and not aligned else rnd.choice(["", "a" if aligned else "b"]),
        "bias": case != "gradient" and rnd.random() < 0.3,
        "aligned": aligned,
    }
    experts = rnd.choice([1, 1, 2, 8, 64, 1024, rnd.randint(1, 1024)])
    n, k = (16 * rnd.choice([1, 88, 128, 448, from_ranges(rnd, [(1, 8), (8, 64), (60, 512)])]) for _ in range(2))
    tokens = experts * from_ranges(rnd, TOKENS_OF_AN_EXPERT)
    if case == "gradient":
        tokens = -(-tokens // 16) * 16
    sizes = (tokens, n, k, experts)
    return f"{case} {form} of {sizes}", Halves(case, sizes=sizes, **form).source()


def mixed_mm(rnd, _):
    kind = rnd.choice(["i4", "i4", "i4", "uint4b8", "ui4", "f4E2M1FN", "f8E4M3FN"])
    group = 32 if kind == "f8E4M3FN" else rnd.choice([32, 64, 128, -1])
    form = {"format": kind, "out": rnd.choice(["bf16", "bf16", "f16", "f32"]), "bias": int(rnd.random() < 0.3)}
    if kind == "f8E4M3FN":
        form["layout"] = rnd.choice(["1x16", "evens_first"])
    elif kind == "f4E2M1FN" and rnd.random() < 0.7:
        group = 32
        form["scales"] = "f8E8M0FNU"
    else:
        form["scales"] = rnd.choice(["bf16", "bf16", "f16", "f32"])
    if kind != "f8E4M3FN":
        form["x"] = rnd.choice(["bf16", "bf16", "f16"])
    if kind == "ui4":
        form["zeros"] = int(rnd.random() < 0.6)
    unit = max(group, 32)
    k = unit * max(1, rnd.choice([64, 128, 256, 512, 1024, 1280, 2048, 4096, 7168, 8192, 14336, 28672, rnd.randint(1, 20000)]) // unit)
    if kind == "f8E4M3FN" and rnd.random() < 0.4:
        form["order"], k = "rows", max(512, k // 512 * 512)
    n = 16 * rnd.choice([1, 2, 256, 320, 512, 1025, 1792, 1848, 1849, from_ranges(rnd, [(1, 8), (8, 200), (100, 1000), (1000, 8000)])])
    experts = rnd.choice([0, 0, 0, 2, 4, 8, 16, 64, 128, 256, 512, 1024, rnd.randint(2, 1024)])
    tokens = max(experts, 1) * rnd.choice([8, 16, 32, 64, 128, 256, 512, 1024, 4096, from_ranges(rnd, TOKENS_OF_AN_EXPERT)])
    sizes = {"n": n, "m": tokens, "k": k, "experts": experts}
    for size in ("n", "m", "k"):  # some are dynamic
        if rnd.random() < 0.06:
            sizes[size] = "?"
    given = {name: str(value) for name, value in {**form, "group": group, **sizes}.items()}
    return " ".join(f"{name}={value}" for name, value in given.items()), mixed_source(**given)


QUANTIZERS = {name: variant for name, variant in variants().items() if isinstance(variant, Variant) and variant.op != "chain"}
KINDS = {"quantizers": quantizer, "scaled_mm": scaled_mm, "mm": mm, "mixed_mm": mixed_mm}


def check(kind, number, compiler, seed):
    """The name of the source, and the error of the compiler; (None, why) where it takes no such sizes."""
    try:
        name, text = KINDS[kind](random.Random(f"{kind} {seed} {number}"), compiler)
    except Refused as refused:
        return None, str(refused)
    return name, compiler.errors(text)


def parser_of(description):
    """The arguments of a script that makes sources at random."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moe_opt")
    parser.add_argument("ptxas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    return parser


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--only", choices=KINDS)
    arguments = parser.parse_args()
    compiler, failed = Compiler(arguments.moe_opt, arguments.ptxas), False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = {kind: [pool.submit(check, kind, number, compiler, arguments.seed) for number in range(arguments.count)]
                  for kind in KINDS if arguments.only in (None, kind)}
        for kind, results in checks.items():
            outcomes = []
            for result in results:
                outcomes.append(result.result())
                if outcomes[-1][1]:
                    print(": ".join(filter(None, outcomes[-1])), flush=True)
            refused = sum(name is None for name, _ in outcomes)
            wrong = sum(name is not None and bool(error) for name, error in outcomes)
            print(f"{kind}: {len(outcomes) - refused - wrong} of {len(outcomes)} sources compile, {refused} have sizes that there are not", flush=True)
            failed |= wrong > 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
