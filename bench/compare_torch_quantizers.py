#!/usr/bin/env python3
"""Quantizers beside PyTorch, in one process: every bit, CUDA graphs, and time.

    bench/gpu compile                                                       where LLVM is
    bench/compare_torch_quantizers.py build/bundles out.json [PATTERN]      where a Hopper GPU and PyTorch are

All bundles of quantizers of bench/variants.py that are there, and whose names match PATTERN, are compared with
bench/torch_formulas.py on small shapes: random data, data with zeros, subnormals and extremes, and data with NaN and Inf. Each is captured in a CUDA graph that is
replayed twice on other data and compared with a launch of its own. Those of TIMED are timed beside PyTorch, eager and compiled,
beside its bare cast, which has no scales and keeps the layout, and beside a device copy that moves as many bytes: all as CUDA
graphs, in turns, with a cleared L2. PyTorch itself has no other kernel that quantizes to FP8 or MX.

A case that fails is reported and the others go on; the exit code is 1 then.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import pathlib
import re
import signal
import sys
import time
import traceback
import warnings
import zlib

import torch
import torch._dynamo
import torch._inductor.config

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
import variants  # noqa: E402
from launch_from_pytorch import DTYPES, Bundle  # noqa: E402
from torch_formulas import FORMULAS, innermost, padded_ends  # noqa: E402
from torch_timing import DEVICE, captured, clearing_l2, group_ends, times  # noqa: E402

# Variant, shape of x, number of groups.
TIMED = [
    ("mx-weights-col-rceil-bf16-f8E4M3FN", "1x8192x5120", 0),
    ("mx-weights-col-rceil-bf16-f8E4M3FN", "8x8192x5120", 0),
    ("mx-tokens-row-rceil-bf16-f8E4M3FN", "32768x7168", 0),
    ("mx-tokens-col-rceil-bf16-f8E4M3FN", "32768x7168", 0),
    ("mx-tokens-dual-rceil-bf16-f8E4M3FN", "32768x7168", 0),
    ("fp8-row-tokens-row-bf16-f8E4M3FN", "131072x7168", 0),
    ("fp8-row-weights-col-bf16-f8E4M3FN", "8x8192x5120", 0),
    ("fp8-row-tokens-col-bf16-f8E4M3FN", "65536x5120", 8),
    ("fp8-pair-tokens-bf16-f8E4M3FN", "65536x5120", 8),
    ("fp8-group-tokens-col-bf16-f8E4M3FN", "65536x5120", 8),
    ("fp8-tensor-tokens-row-bf16-f8E4M3FN", "32768x7168", 0),
    ("fp8-expert-weights-col-bf16-f8E4M3FN", "8x8192x5120", 0),
]
DATA = ("random", "extreme", "nan")
COMPILE_LIMIT = 40  # seconds for one torch.compile


class Case:
    """A variant with the shape of its first operand: arguments, and what PyTorch makes of them."""

    def __init__(self, variant, shape, groups):
        self.variant, self.groups = variant, groups
        self.attributes = parse(variant)
        self.shapes = {name: sizes(variant, name, shape, groups) for name in variant.operands}

    def arguments(self, data, ends="ragged"):
        rows = self.shapes[next(iter(self.shapes))][0]
        if self.variant.op == "unpad_groups":  # of the padded tensor
            rows -= self.attributes["align"] * self.groups
        offs = group_ends(ends, rows, self.groups) if self.variant.grouped else None
        return [self.argument(name, data, offs) for name in self.variant.operands]

    def argument(self, name, data, offs):
        if name == "offs":
            return offs
        if name == "padded_offs":
            return torch.tensor(padded_ends(offs.tolist(), self.attributes["align"]), dtype=torch.int32, device=DEVICE)
        kind, shape = self.variant.operands[name], self.shapes[name]
        element = element_of(kind)
        if name in ("x", "y", "padded"):
            tensor = random_values(shape, data).to(element)
        elif element.itemsize == 1:
            tensor = random_bytes(shape, element, data)
        else:  # scales, factors
            tensor = 2.0 ** torch.randint(-9, 10, shape, device=DEVICE).float() * (1 + torch.rand(shape, device=DEVICE))
        return innermost(tensor, len(shape) - 2) if "affine_map" in kind else tensor

    def expected(self, arguments):
        return self.chain(arguments)(*self.tensors(arguments))

    def chain(self, arguments):
        """PyTorch's function of the tensors; offsets of groups are constants in it."""
        ends = [argument.tolist() for argument in arguments if argument.dtype == torch.int32]
        formula, attributes = FORMULAS[self.variant.op], self.attributes
        return lambda *tensors: formula(*tensors, *ends, **attributes)

    def tensors(self, arguments):
        return [argument for argument in arguments if argument.dtype != torch.int32]

    def written(self, name, arguments):
        """The number of rows of a result that are written, None for all: rows in no group are not."""
        operands = dict(zip(self.variant.operands, arguments))
        if "offs" not in operands:
            return None
        ends = operands["offs"].tolist()
        if name == "padded":
            return padded_ends(ends, self.attributes["align"])[-1]
        by_rows = ("q", "qt", "x", "s", "f") if "dual" in self.variant.op else ("q", "qy", "x")
        return ends[-1] if name in by_rows else None


def parse(variant):
    """Attributes of a variant as arguments of its formula."""
    words = {"true": True, "false": False}
    attributes = {
        name: DTYPES[word] if name == "element" else words.get(word, int(word) if word.isdigit() else word)
        for name, word in re.findall(r'(\w+) = "?(\w+)"?', variant.attributes)
    }
    if variant.op.startswith(("quantize", "dequantize", "cast")):
        attributes["element"] = element_of(variant.results[variant.returned[0]])
    return attributes


def element_of(kind):
    return DTYPES[re.search(r"x((?:b?f|i)\d\w*)[,>]", kind).group(1)]


def sizes(variant, name, x, groups):
    kind = variant.operands[name]
    return [int(size) for size in variant.shape(name, x, groups).split("x")] if "?" in kind else [1]


def random_values(shape, data):
    """fp32 values whose rows differ in magnitude."""
    values = torch.randn(shape, device=DEVICE) * 2.0 ** torch.randint(-6, 7, (*shape[:-1], 1), device=DEVICE)
    if data == "extreme":
        values[..., : shape[-2] // 4, :] *= 0.0  # zeros of both signs
        values[..., shape[-2] // 4 : shape[-2] // 2, : shape[-1] // 2] *= 2.0**-127
        plant(values, [0.0, 1e-12, 2.0**-133, 2.0**-126, 448, 450, -480, 57344, -61440, 3.3e38, -3.3e38], 512)
    elif data == "nan":
        plant(values, [float("nan"), float("inf"), -float("inf")], 2048)
    return values


def plant(values, special, distance):
    special = torch.tensor(special, device=DEVICE)
    places = torch.randint(values.numel(), (values.numel() // distance + 1,), device=DEVICE)
    values.view(-1)[places] = special[torch.randint(len(special), places.shape, device=DEVICE)]


def random_bytes(shape, element, data):
    """Elements or scales: without NaN and extremes where data is "random"."""
    everything = data != "random"
    if element == torch.float8_e8m0fnu:
        low, high = (0, 256) if everything else (100, 150)
        return torch.randint(low, high, shape, device=DEVICE).to(torch.uint8).view(element)
    if everything:
        return torch.randint(256, shape, device=DEVICE).to(torch.uint8).view(element)
    return torch.randn(shape, device=DEVICE).to(element)


# Bits


def differences(got, expected):
    """Elements whose bits differ; all NaN are equal."""
    if expected.dtype == torch.uint8 or got.dtype == torch.float8_e8m0fnu:
        different = got.view(torch.uint8) != expected.view(torch.uint8)
    elif got.dtype == torch.int32:
        different = got != expected
    else:
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[got.dtype.itemsize]
        nan = got.float().isnan() & expected.float().isnan()
        different = (got.view(integer) != expected.view(integer)) & ~nan
    return int(different.sum())


def compare(case, arguments, got, expected, what):
    for name, mine, theirs in zip(case.variant.returned, got, expected, strict=True):
        assert mine.shape == theirs.shape, f"{what}: {name} is {tuple(mine.shape)}, not {tuple(theirs.shape)}"
        column_major = "affine_map" in case.variant.results[name]
        assert (mine.mT if column_major else mine).is_contiguous(), f"{what}: {name} has strides {mine.stride()}"
        rows = case.written(name, arguments)
        count = differences(mine[:rows], theirs[:rows])
        assert count == 0, f"{what}: {count} of {mine.numel()} elements of {name} differ"


def small_case(name, variant):
    shape = variants.GROUPED_SANITIZE[0] if variant.grouped else (variants.SANITIZE[variant.rank()][0], 0)
    torch.manual_seed(zlib.crc32(name.encode()))
    return Case(variant, *shape)


def check(name, variant, bundle):
    case = small_case(name, variant)
    for data in DATA:
        for ends in ("ragged", "edge", "one") if variant.grouped else (None,):
            arguments = case.arguments(data, ends)
            compare(case, arguments, bundle(*arguments), case.expected(arguments), f"{data} data, groups {ends}")
    assert bundle.status() == 0, "the kernels report bad offsets"
    check_graph(case, bundle)


def check_graph(case, bundle):
    """Captured with some data, replayed with other: twice the bits of an ordinary launch, also over rubbish in the results."""
    arguments = case.arguments("random", "ragged")
    graph, results = captured(lambda: bundle(*arguments))
    for argument, other in zip(arguments, case.arguments("extreme", "edge")):
        argument.copy_(other)
    expected = bundle(*arguments)
    for replay in ("first", "second"):
        for result in results:
            result.view(torch.uint8).fill_(0x5A)
        graph.replay()
        torch.cuda.synchronize()
        compare(case, arguments, results, expected, f"{replay} replay")
    assert bundle.status() == 0, "the kernels report bad offsets in a graph"


# Time


def out_of_time(*_):
    raise TimeoutError("stopped: torch.compile took too long")


def first_call(function, *arguments):
    """What the function returns, and the seconds that it took."""
    previous = signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(COMPILE_LIMIT)
    try:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        results = function(*arguments)
        torch.cuda.synchronize()
        return results, time.perf_counter() - begin
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def compiled(chain, tensors, expected, row):
    """The chain by torch.compile, None if that fails; the row says how long it took, and whether its bits are PyTorch's."""
    torch._dynamo.reset()
    function = torch.compile(chain, dynamic=False, fullgraph=True)
    try:
        results, row["compile_seconds"] = first_call(function, *tensors)
    except Exception as error:  # whatever the compiler raises
        row["compile_error"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:200]
        return None
    row["compiled_differs"] = {i: count for i, pair in enumerate(zip(results, expected)) if (count := differences(*pair))}
    return function


def copying(size):
    """A device copy that moves `size` bytes: it reads half of them and writes half."""
    source = torch.randint(256, (size // 2,), dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def time_case(name, shape, groups, bundle, with_compile):
    """A row of the table: median seconds of each candidate."""
    torch.manual_seed(1)
    variant = variants.quantizers()[name]
    case = Case(variant, shape, groups)
    arguments = case.arguments("random", "ragged")
    tensors, chain = case.tensors(arguments), case.chain(arguments)
    got, expected = bundle(*arguments), chain(*tensors)
    compare(case, arguments, got, expected, "timed shape")
    size = sum(t.nbytes for t in (*arguments, *got))
    row = dict(variant=name, shape=shape, groups=groups, bytes=size)
    candidates = {"ours": lambda: bundle(*arguments), "copy": copying(size), "eager": lambda: chain(*tensors)}
    function = compiled(chain, tensors, expected, row) if with_compile else None
    del got, expected
    if function:
        candidates["compiled"] = lambda: function(*tensors)
    if not variant.op.endswith(("dual", "pair")):
        element = case.attributes["element"]
        candidates["cast"] = lambda: tensors[0].to(element)
    row["seconds"] = dict(zip(candidates, times(list(candidates.values()), clearing_l2())))
    row["ratios"] = {other: seconds / row["seconds"]["ours"] for other, seconds in row["seconds"].items() if other != "ours"}
    return row


HEADER = (
    f"{'':36} {'shape':>12} {'groups':>6} {'ours us':>8} {'TB/s':>5}   {'copy':>7}  {'eager':>7}  {'compiled':>8}"
    f"  {'bare cast':>9}   {'compile s':>9}  compiled bits"
)


def print_row(row):
    ours, ratios = row["seconds"]["ours"], row["ratios"]

    def ratio(other):
        return f"{ratios[other]:.3f}" if other in ratios else "-"

    seconds = f"{row['compile_seconds']:.1f}" if "compile_seconds" in row else "-"
    bits = "-"
    if "compiled_differs" in row:
        bits = "differ" if row["compiled_differs"] else "equal"
    print(
        f"{row['variant']:36} {row['shape']:>12} {row['groups'] or '-':>6} {ours * 1e6:8.1f} {row['bytes'] / ours * 1e-12:5.2f}"
        f"   {ratio('copy'):>7}  {ratio('eager'):>7}  {ratio('compiled'):>8}  {ratio('cast'):>9}   {seconds:>9}  {bits}",
        flush=True,
    )


class Report:
    """What went well and what did not; the time that is left."""

    def __init__(self, seconds):
        self.begin, self.limit = time.monotonic(), seconds
        self.checks, self.rows, self.failures = {}, [], []

    def spent(self):
        return time.monotonic() - self.begin

    def left(self):
        return self.limit - self.spent()

    def attempt(self, what, function, *arguments):
        """Whether and what the function returned. A failure is printed, and is no reason to stop."""
        if self.left() < 0:
            self.fail(what, "not reached: no time left")
            return None
        try:
            return function(*arguments)
        except Exception as error:
            self.fail(what, f"{type(error).__name__}: {error}")
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            return None

    def fail(self, what, why):
        self.failures.append(dict(what=what, why=why))
        print(f"FAILED: {what}: {why}", flush=True)

    def write(self, path):
        device = torch.cuda.get_device_name(0)
        content = dict(
            device=device, torch=torch.__version__, seconds=self.spent(), checked=self.checks, times=self.rows,
            failures=self.failures,
        )  # fmt: skip
        pathlib.Path(path).write_text(json.dumps(content, indent=1))


def check_all(report, folder, names):
    """Checks all bundles; gives those that could be loaded."""
    table, bundles = variants.quantizers(), {}
    for name in names:
        bundle = report.attempt(name, Bundle, folder / name)
        if bundle is None:
            continue
        bundles[name] = bundle
        before = len(report.failures)
        report.attempt(name, check, name, table[name], bundle)
        report.checks[name] = len(report.failures) == before
    good = sum(report.checks.values())
    print(f"{good} of {len(names)} bundles: every bit equal to PyTorch's, and captured in a CUDA graph ({report.spent():.0f} s)")
    return bundles


def time_all(report, bundles):
    cases = [case for case in TIMED if case[0] in bundles]
    if not cases:
        return
    # Starting up is not the time of the first case; and a cache that an earlier run left would be.
    torch._inductor.config.force_disable_caches = True
    warnings.filterwarnings("ignore", message="dynamo_pgo")
    report.attempt("torch.compile", first_call, torch.compile(lambda x: x + 1, dynamic=False), torch.ones(16, device=DEVICE))
    print(f"Times, and how many times longer others take; compiling started at {report.spent():.0f} s\n{HEADER}")
    for name, shape, groups in cases:
        with_compile = report.left() > COMPILE_LIMIT
        row = report.attempt(f"{name} {shape}", time_case, name, shape, groups, bundles[name], with_compile)
        if row:
            if "compile_error" in row:
                report.fail(f"{name} {shape} by torch.compile", row["compile_error"])
            report.rows.append(row)
            print_row(row)
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=pathlib.Path, help="what bench/gpu compile wrote")
    parser.add_argument("out", nargs="?", help="results as JSON")
    parser.add_argument("pattern", nargs="?", default=".", help="regular expression: bundles whose names match")
    parser.add_argument("--seconds", type=float, default=140, help="what is not begun by then is a failure (default: 140)")
    options = parser.parse_args()
    report = Report(options.seconds)
    there = [name for name in variants.quantizers() if (options.bundles / name / "manifest.json").exists()]
    names = [name for name in there if re.search(options.pattern, name)]
    if not names:
        sys.exit(f"{parser.prog}: no bundle of bench/variants.py in {options.bundles} matches {options.pattern}")
    bundles = check_all(report, options.bundles, names)
    time_all(report, bundles)
    if options.out:
        report.write(options.out)
    print(f"{len(report.failures)} failures, {report.spent():.0f} s")
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
