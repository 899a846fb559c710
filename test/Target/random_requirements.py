"""Gives a kernel random requirements, and looks whether every shape that its manifest accepts fulfills them.

Why: the compiler says what kernels need of sizes by symbols and expressions of the arguments' sizes. What it cannot say must be an error: a requirement that
is lost lets a kernel read memory that is not there.

The function quantizes x, y and z in groups of rows, and multiplies two of the three. The last kernel, that of the product, gets one to five requirements of
its tensors' sizes; those of the others stay or go. A launcher takes any sizes that the symbols allow.

  random_requirements.py MOE_OPT PTXAS [--seed S] [--count N]

Prints how many modules compile and how many are an error, and what is wrong of others; exit code 1 where something is. The same seed gives the same modules.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import collections
import json
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from static_shapes import parser_of

QUANTIZED = "".join(f"""
  %q{t}, %s{t} = "mx_quantize.quantize"(%{t}, %offs) {{axis = 0 : i64, block = 32 : i64, mode = "rceil"}}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)""" for t in "xyz")  # fmt: skip
SOURCE = f"""
#columns = affine_map<(m, k) -> (k, m)>
func.func @f(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>, %z: tensor<?x?xbf16>, %offs: tensor<?xi32>) -> tensor<?x?x?xbf16> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index{QUANTIZED}
  %n = tensor.dim %qx, %c1 : tensor<?x?xf8E4M3FN, #columns>
  %m = tensor.dim %qx, %c0 : tensor<?x?xf8E4M3FN, #columns>
  %empty = tensor.empty(%n, %m) : tensor<?x?xf8E4M3FN>
  %qa = linalg.transpose ins(%qx : tensor<?x?xf8E4M3FN, #columns>) outs(%empty : tensor<?x?xf8E4M3FN>) permutation = [1, 0]
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qy, %sz, %sy, %offs) {{accumulate = "promoted"}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}}
"""
RANKS = 2, 2, 2, 2, 1, 3  # of the product's tensors: qa, qb, sa, sb, offs, out
EXPERTS = 4, 0
SHAPES = 200  # that are tried of each module
LARGEST = 1 << 20


def ceil_div(x, y):
    return -(-x // y)


def product_sizes(shapes):
    """The sizes of the product's tensors, of the arguments' shapes: what the quantizers make of them."""
    (x, n), (y, k), (z, l), (experts,) = (shapes[name] for name in ("x", "y", "z", "offs"))
    scales = [4 * ceil_div(rows, 128) + experts for rows in (z, y)]
    return (n, 128 * ceil_div(x, 128)), (128 * ceil_div(y, 128), k), (scales[0], l), (scales[1], k), (experts,), (experts, n, k)


def run(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True)


class Modules:
    """Modules that differ in what their kernels require."""

    def __init__(self, moe_opt, ptxas):
        self.command = [moe_opt, "-", f"--ptxas={ptxas}", "--emit=manifest", "--reproducer=/dev/null", "-o", "-"]
        lowered = run([moe_opt, "-", "--emit=nvvm"], SOURCE)
        if lowered.returncode:
            sys.exit(lowered.stderr)
        # Kernels that do nothing compile at once.
        text = re.sub(r"(    llvm\.func @f_\d.*\{\n)(?:.*\n)*?(    \}\n)", r"\1      llvm.return\n\2", lowered.stdout)
        lists = r"requires = \[(.*?)\](?=, shared_memory)"
        self.requirements, self.parts = re.findall(lists, text), re.sub(lists, "\0", text).split("\0")
        assert len(self.requirements) == 4, "three quantizers and a product were expected"

    def text(self, rng, required):
        of_others = [old if rng.random() < 0.4 else "" for old in self.requirements[:-1]]
        lists = [f"requires = [{list_}]" for list_ in (*of_others, ", ".join(required))]
        return "".join(part + list_ for part, list_ in zip(self.parts, (*lists, "")))

    def manifest(self, text):
        """The function of the manifest, or the error."""
        done = run(self.command, text)
        return (None, done.stderr) if done.returncode else (json.loads(done.stdout)["functions"][0], "")


# ---- Requirements ----


def random_dimension(rng):
    tensor = rng.randrange(len(RANKS))
    return tensor, rng.randrange(RANKS[tensor])


def random_requirement(rng):
    """As a tuple, and as the attribute of the kernel."""
    dim = random_dimension(rng)
    of = f"dim = [{dim[0]}, {dim[1]}]"
    kind = rng.choice(("multiple_of", "at_least", "at_most", "same_as", "same_as", "quotient_of", "quotient_of", "quotient_of"))
    values = {"multiple_of": (2, 3, 4, 16, 32), "at_least": (1, 2, 5, 128, 200), "at_most": (3, 200, 1024)}
    if kind in values:
        value = rng.choice(values[kind])
        return (kind, dim, value), f"{{{of}, {kind} = {value} : i64}}"
    other = random_dimension(rng)
    if kind == "same_as":
        return (kind, dim, other), f"{{{of}, same_as = [{other[0]}, {other[1]}]}}"
    divisor, groups = rng.choice((1, 2, 3, 4, 32, 64, 128)), rng.choice((None, None, EXPERTS, random_dimension(rng)))
    of_groups = f", groups = [{groups[0]}, {groups[1]}]" if groups else ""
    return (kind, dim, other, divisor, groups), f"{{{of}, divisor = {divisor} : i64{of_groups}, quotient_of = [{other[0]}, {other[1]}]}}"


def holds(requirement, sizes):
    kind, dim, other, *more = requirement

    def size(at):
        return sizes[at[0]][at[1]]

    if kind == "multiple_of":
        return size(dim) % other == 0
    if kind in ("at_least", "at_most"):
        return size(dim) >= other if kind == "at_least" else size(dim) <= other
    if kind == "same_as":
        return size(dim) == size(other)
    divisor, groups = more
    return size(dim) == ceil_div(size(other), divisor) + (size(groups) if groups else 0)


# ---- What a launcher takes ----


def value_of(expression, symbols):
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return symbols[expression]
    ((kind, operands),) = expression.items()
    x, y = (value_of(operand, symbols) for operand in operands)
    return ceil_div(x, y) if kind == "ceildiv" else x * y if kind == "mul" else x + y


def names_in(expression):
    if isinstance(expression, dict):
        return set().union(*(names_in(operand) for operands in expression.values() for operand in operands))
    return {expression} if isinstance(expression, str) else set()


def random_size(rng, symbol):
    """One that a symbol may have: its least one, and some above."""
    unit = symbol["multiple_of"]
    least, most = ceil_div(symbol["min"], unit), min(symbol["max"], max(LARGEST, symbol["min"] + unit)) // unit
    return None if least > most else unit * rng.randint(least, min(most, least + rng.choice((0, 1, 5, 300))))


def wrong_of(function, requirements, rng):
    """What is wrong of a manifest; None where nothing is."""
    shapes = {argument["name"]: argument["shape"] for argument in function["arguments"]}
    alone = {size for shape in shapes.values() for size in shape if isinstance(size, str)}
    used = set().union(*(names_in(size) for shape in shapes.values() for size in shape))
    if not alone == used == {symbol["name"] for symbol in function["symbols"]}:
        return f"symbols, and what sizes there are: {alone}, {used}, {function['symbols']}"
    for _ in range(SHAPES):
        symbols = {symbol["name"]: random_size(rng, symbol) for symbol in function["symbols"]}
        if None in symbols.values():
            return f"no size is left: {function['symbols']}"
        sizes = product_sizes({name: [value_of(size, symbols) for size in shape] for name, shape in shapes.items()})
        for requirement in requirements:
            if not holds(requirement, sizes):
                return f"{requirement} does not hold of {sizes}"
        if [value_of(size, symbols) for size in function["results"][0]["shape"]] != list(sizes[5]):
            return f"the result is not {sizes[5]}"
    return None


def try_one(modules, seed, number):
    """(What became of it, what is wrong)."""
    rng = random.Random(f"{seed} {number}")
    requirements, attributes = zip(*(random_requirement(rng) for _ in range(rng.randint(1, 5))))
    function, error = modules.manifest(modules.text(rng, attributes))
    if function is None:
        is_clear = re.search("cannot be required of the arguments' sizes|operations inside each other in sizes", error)
        return ("error", None) if is_clear else ("wrong", f"module {number}: {error}")
    wrong = wrong_of(function, requirements, rng)
    return ("compiles", None) if wrong is None else ("wrong", f"module {number}: {wrong}")


def main():
    arguments = parser_of(__doc__).parse_args()
    modules = Modules(arguments.moe_opt, arguments.ptxas)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda number: try_one(modules, arguments.seed, number), range(arguments.count)))
    for _, wrong in found:
        if wrong:
            print(wrong)
    counts = collections.Counter(what for what, _ in found)
    print(f"of {len(found)} modules {counts['compiles']} compile, {counts['error']} are an error, {counts['wrong']} are wrong")
    return counts["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
