#!/usr/bin/env python3
"""A linear layer of experts in training, and a whole expert layer, in PyTorch: bf16, torchao's FP8 and moe_opt's, in one process.

    bench/train_step.py OUT.json [--only PATTERN] [--candidates PATTERN] [--compiled PATTERN] [--launches PATTERN] [--seconds N]

needs a Hopper GPU, PyTorch, and moe_opt on the path; torchao is left out where it is not installed.

A step is the forward pass and the gradients of tokens and weights, by autograd. Each candidate runs eager, compiled and as a CUDA
graph; all take turns, and figures are medians. A sample is several steps behind a short pause of the device, so that the host's start
is not in it but a host that cannot keep up is. `layer` is w1, w3, SwiGLU and w2 with w1 and w3 of (E, N, K).

Saved bytes are what autograd keeps for backward; peak memory is that of a step above what the operands take; host times are those of
a call, without waiting for the device. Launches are what CUPTI says a step ran, with the median time of each. One product is moe_opt.torch.scaled_grouped_mm beside torch._scaled_grouped_mm, on few tokens.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import math
import re
import statistics
import sys
import time

import torch

import moe_opt.torch as moe
from torch_timing import captured, group_ends
from turns import turns

try:
    from torchao.prototype.moe_training import _to_fp8_rowwise_then_scaled_grouped_mm as torchao_mm
except ImportError:
    torchao_mm = None

BF16 = torch.bfloat16
# (M, N, K, E), groups
ROWS = [
    ((32768, 2048, 7168, 8), "equal"),
    ((131072, 2048, 7168, 8), "equal"),
    ((131072, 8192, 5120, 8), "equal"),
    ((65536, 1408, 2048, 16), "equal"),
    ((16384, 8192, 5120, 4), "equal"),
    ((32768, 2048, 7168, 8), "ragged"),
]
ROUNDS = 12  # a multiple of 4, 6 and 12 candidates: turns.py
SAMPLE_SECONDS = 6e-3  # of steps in a sample, at least one step
PAUSE_CYCLES = 3_000_000  # before a sample: 1.5 ms
LAUNCH_REPEATS = 15


def by_recipe(recipe):
    """Closes over the recipe: torch.compile tells functions of one code apart by what they close over, not by their defaults."""
    return lambda x, w, offs: moe.grouped_mm(x, w.transpose(1, 2), offs, recipe)


def products():
    """How each candidate multiplies tokens (M, K) by weights (E, N, K)."""
    candidates = {"bf16": lambda x, w, offs: torch._grouped_mm(x, w.transpose(1, 2), offs=offs)}
    if torchao_mm:
        candidates["torchao"] = lambda x, w, offs: torchao_mm(x, w.transpose(1, 2), offs, pad_token_groups_for_grouped_mm=False)
    for recipe in moe.RECIPES:
        candidates[recipe] = by_recipe(recipe)
    return candidates


def ends(kind, m, e):
    """Multiples of 16, as torchao needs them."""
    offs = group_ends(kind, m, e)
    return ((offs + 8) // 16 * 16).to(torch.int32)


def linear(shape, kind):
    """What a step of a linear layer is made of: the function of tokens and weights, these, and the gradient of the result."""
    m, n, k, e = shape
    x = torch.randn(m, k, device="cuda", dtype=BF16, requires_grad=True)
    w = torch.cat([torch.randn(1, n, k, device="cuda", dtype=BF16) for _ in range(e)]).mul_(k**-0.5).requires_grad_()
    offs, grad = ends(kind, m, e), torch.randn(m, n, device="cuda", dtype=BF16)
    return lambda mm: (lambda x, w: mm(x, w, offs)), (x, w), grad


def layer(shape, kind):
    """The same of w1, w3, SwiGLU and w2."""
    m, n, k, e = shape

    def weights(rows, columns):
        return torch.cat([torch.randn(1, rows, columns, device="cuda", dtype=BF16) for _ in range(e)]).mul_(columns**-0.5).requires_grad_()

    x = torch.randn(m, k, device="cuda", dtype=BF16, requires_grad=True)
    offs, grad = ends(kind, m, e), torch.randn(m, k, device="cuda", dtype=BF16)

    def of(mm):
        return lambda x, w1, w3, w2: mm(torch.nn.functional.silu(mm(x, w1, offs)) * mm(x, w3, offs), w2, offs)

    return of, (x, weights(n, k), weights(n, k), weights(k, n)), grad


def saved_bytes(forward, inputs):
    """What autograd keeps for backward, each storage once."""
    storages = {}

    def keep(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = forward(*inputs)
    del y
    return sum(storages.values())


def peak_bytes(step):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def host_seconds(function, calls):
    """Of one call; so few that the device's queue holds them all."""
    samples = []
    for _ in range(7):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        samples.append((time.perf_counter() - begin) / calls)
    torch.cuda.synchronize()
    return statistics.median(samples)


def take_turns(steps):
    """Median seconds of a step of each candidate."""
    counts, samples = {}, {name: [] for name in steps}

    def sample(step, count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(PAUSE_CYCLES)
        begin.record()
        for _ in range(count):
            step()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count

    for name, step in steps.items():
        counts[name] = max(1, math.ceil(SAMPLE_SECONDS / sample(step, 1)))
    names = list(steps)
    for order in turns(len(names), ROUNDS):
        for name in (names[number] for number in order):
            samples[name].append(sample(steps[name], counts[name]))
    return {name: statistics.median(values) for name, values in samples.items()}


def launches(step, repeats=LAUNCH_REPEATS):
    """What a step runs on the device, in order: the name of each kernel or copy and its median microseconds."""
    from torch.profiler import ProfilerActivity, profile

    step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(repeats):
            step()
        torch.cuda.synchronize()
    events = sorted((e for e in found.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)
    count, names = len(events) // repeats, [event.name for event in events]
    if not events or names != names[:count] * repeats:
        raise RuntimeError(f"{len(events)} launches in {repeats} steps, which are not the same in each")
    return [(names[i], statistics.median(e.time_range.elapsed_us() for e in events[i::count])) for i in range(count)]


def attempt(what, function):
    """function(), or None with the reason on stderr: not every candidate takes every shape."""
    try:
        result = function()
        torch.cuda.synchronize()
        return result
    except Exception as error:  # pylint: disable=broad-except
        if what.startswith("fp8"):
            raise
        print(f"    without {what}: {str(error).strip().splitlines()[0][:120]}", file=sys.stderr)
        return None


def measure(build, shape, kind, candidates, with_compiled, with_launches):
    """All figures of one row, of bf16 and the candidates whose names match."""
    of, inputs, grad = build(shape, kind)
    steps, row = {}, {"shape": shape, "groups": kind, "seconds": {}, "saved": {}, "peak": {}, "host": {}}

    def step_of(forward):
        return lambda: torch.autograd.grad(forward(*inputs), inputs, grad)

    for name, mm in products().items():
        if name != "bf16" and not re.search(candidates, name):
            continue
        forward = of(mm)
        step = step_of(forward)
        if attempt(name, step) is None:
            continue
        row["saved"][name] = saved_bytes(forward, inputs)
        row["peak"][name] = peak_bytes(step)
        row["host"][name] = host_seconds(step, 3)
        steps[f"{name} eager"] = step
        graph = attempt(f"{name} graph", lambda step=step: captured(step))
        if graph:
            steps[f"{name} graph"] = lambda graph=graph: graph[0].replay()
        if with_compiled:
            torch._dynamo.reset()
            compiled = step_of(torch.compile(forward, fullgraph=True))
            if attempt(f"{name} compiled", compiled):
                steps[f"{name} compiled"] = compiled
    row["seconds"] = take_turns(steps)
    if with_launches:
        row["launches"] = {name: attempt(f"launches of {name}", lambda name=name: launches(steps[f"{name} eager"])) for name in row["saved"]}
    return row


def one_product():
    """Host seconds of one product of quantized operands."""
    m, n, k, e = 256, 256, 256, 4
    x, w = torch.randn(m, k, device="cuda", dtype=BF16), torch.randn(e, n, k, device="cuda", dtype=BF16)
    offs = ends("equal", m, e)
    a, b = moe.quantize_fp8(x), moe.quantize_fp8(w)
    qb = b.q.transpose(1, 2)
    with torch.no_grad():
        ours = host_seconds(lambda: moe.scaled_grouped_mm(a.q, qb, a.scales, b.scales, offs), 100)
        theirs = host_seconds(
            lambda: torch._scaled_grouped_mm(a.q, qb, a.scales, b.scales, offs, out_dtype=BF16, use_fast_accum=True), 100
        )
    return {"ours": ours, "torch": theirs}


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def table(rows, mode):
    """Milliseconds of a mode, and how many times as fast as each other candidate ours is."""
    names = [name for name in products() if any(f"{name} {mode}" in row["seconds"] for row in rows)]
    recipes = [name for name in names if name in moe.RECIPES]
    if not recipes:
        return
    ours, others = recipes[0], [name for name in names if name not in recipes]
    rows = [row for row in rows if f"{ours} {mode}" in row["seconds"]]
    print(f"\n{mode}, ms\n| M, N, K, E | {' | '.join(names)} | {' | '.join(f'to {name}' for name in others)} |")
    print("|---" * (1 + len(names) + len(others)) + "|")
    ratios = {name: [] for name in others}
    for row in rows:
        seconds = {name: row["seconds"].get(f"{name} {mode}") for name in names}
        for name in others:
            if seconds[name]:
                ratios[name].append(seconds[name] / seconds[ours])
        cells = [f"{seconds[name] * 1e3:.3f}" if seconds[name] else "-" for name in names]
        cells += [f"{seconds[name] / seconds[ours]:.2f}" if seconds[name] else "-" for name in others]
        print(f"| {', '.join(map(str, row['shape']))}{' ragged' if row['groups'] == 'ragged' else ''} | {' | '.join(cells)} |")
    means = [f"{geometric_mean(ratios[name]):.3f}" if ratios[name] else "-" for name in others]
    print(f"| geometric mean | {' | '.join('' for _ in names)} | {' | '.join(means)} |")
    for name in names:
        both = [row["seconds"] for row in rows if f"{name} {mode}" in row["seconds"]]
        faster = [seconds[f"bf16 {mode}"] / seconds[f"{name} {mode}"] for seconds in both]
        print(f"{name} to bf16: {' '.join(f'{ratio:.3f}' for ratio in faster)}, geometric mean {geometric_mean(faster):.3f}")


def print_launches(rows):
    for row in rows:
        for name, found in row.get("launches", {}).items():
            if found:
                print(f"\n{name}, {', '.join(map(str, row['shape']))}, {row['groups']}: {sum(us for _, us in found):.0f} us in {len(found)} launches")
                for kernel, us in found:
                    print(f"  {us:9.1f} us  {kernel[:100]}")


def figures(rows):
    """Memory and host times, and eager beside a graph."""
    names = [name for name in products() if name in rows[0]["saved"]]
    print(f"\n| M, N, K, E | {' | '.join(f'{n}: saved, peak MiB, host us, eager / graph' for n in names)} |")
    print("|---" * (1 + len(names)) + "|")
    for row in rows:
        cells = []
        for name in names:
            eager, graph = row["seconds"].get(f"{name} eager"), row["seconds"].get(f"{name} graph")
            slower = f"{eager / graph:.3f}" if eager and graph else "-"
            cells.append(f"{row['saved'][name] / row['saved']['bf16']:.3f}, {row['peak'][name] >> 20}, {row['host'][name] * 1e6:.0f}, {slower}")
        print(f"| {', '.join(map(str, row['shape']))} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out")
    parser.add_argument("--only", default="", help="rows whose text, as in 'linear 32768 2048 7168 8 equal', has this regular expression")
    parser.add_argument("--candidates", default="", help="those whose names have this regular expression, and bf16")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after these no other row begins")
    parser.add_argument("--launches", default="$^", help="rows, as for --only, whose launches are timed one by one too")
    parser.add_argument("--compiled", default="", help="rows, as for --only, that are compiled too; compiling takes longer than all else")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "host_of_one_product": attempt("one product", one_product) or {}}
    print("host us of one product:", {name: round(seconds * 1e6, 2) for name, seconds in result["host_of_one_product"].items()})
    for kind, build in (("linear", linear), ("layer", layer)):
        rows = []
        for shape, groups in ROWS:
            name = f"{kind} {' '.join(map(str, shape))} {groups}"
            if not re.search(arguments.only, name):
                continue
            if time.perf_counter() - begin > arguments.seconds:
                print(f"no time for {name}")
                continue
            with_compiled, with_launches = re.search(arguments.compiled, name), re.search(arguments.launches, name)
            rows.append(measure(build, shape, groups, arguments.candidates, with_compiled, with_launches))
            torch.cuda.empty_cache()
            print(f"{name}: measured after {time.perf_counter() - begin:.0f} s", flush=True)
            result[kind] = rows
            with open(arguments.out, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
        if rows:
            print(f"\n# {kind}")
            for mode in ("eager", "graph", "compiled"):
                table(rows, mode)
            figures(rows)
            print_launches(rows)


if __name__ == "__main__":
    main()
