#!/usr/bin/env python3
"""Grouped FP8 products beside PyTorch's, in one process: correctness on exact inputs, then TFLOP/s.

    bench/gpu compile product                                                      where LLVM is
    bench/compare_torch.py build/bundles out.json [--only PATTERN] [--seconds N]   where a Hopper GPU and PyTorch are

Where the wheel sgl-deep-gemm is there, DeepGEMM is a candidate too: promoted sums, forward with scales of 1 x 128 and 128 x 128, in
the gradient of weights with 1 x 128 on both sides.

Tasks have names, such as "check forward ...", "forward 16384 8192 5120 8 equal", "dgrad ...", "wgrad ...", "small ..." and
"batched ..."; --list prints them, --only takes those that a regular expression is found in. After --seconds no other task begins.
One that fails is reported and the others go on; the exit code is 1 then.

Each product is captured in a CUDA graph, so that the host is not measured; the candidates of a row take turns, and a row's figures
are medians. Ratios of one run can be compared, absolute figures of two runs cannot: the chip is limited by power. Candidates are
ours and torch._scaled_grouped_mm, each with fast and promoted sums; torch._grouped_mm in bf16; and, for the same M, N and K without
groups, torch._scaled_mm with one scale for a tensor or one for each row. MHz and W are those of ours and torch's with fast sums,
each repeated for a while.

The rows "sweep" are about our schedules: every bundle in BUNDLES/tune/product-CASE-SUMS/ (TUNE=1 bench/gpu compile) is a candidate
beside torch's, DeepGEMM and a product without groups. Each of them also runs alone for a while: TFLOP/s, MHz and W. Those of
"sweep forward blocks" have scales of 1x128 and 128x128 blocks, those of "sweep gradient blocks" of 1x128 blocks of tokens, and stand
beside ours with scales of rows.

The rows "align" are gradients of weights whose groups begin at multiples of 128 tokens, ragged and equal, beside those whose groups begin anywhere and
DeepGEMM's; "check aligned" compares the bits of both, with NaN in all that must not be read.

The rows "mx" are of operands in MX blocks: promoted sums, fast ones, whose operands are dequantized first, `mm` of operands that are bf16 already, and
torch._grouped_mm of these; forward also torch's whole way, a dequantizer that torch.compile has made and torch._grouped_mm; with equal groups DeepGEMM; in the
gradient with groups aligned and where they lie. "check mx" compares the bits of fast sums with those of promoted ones.

The rows "small" are bound by reading the weights. Their time is compared with that of reading the weights once, at the bandwidth of
a device copy of as many bytes, which is measured with them; L2 is cleared before each.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time
import traceback

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from launch_from_pytorch import Bundle  # noqa: E402
from products import BENCH, SMALL, SWEEP, small_name  # noqa: E402
from torch_timing import EDGE_SIZES, captured, clearing_l2, group_ends, times  # noqa: E402

FP8, BF16 = torch.float8_e4m3fn, torch.bfloat16
SUMS = ("fast", "promoted")
# Sweeps: also promoted sums with scales of blocks.
SWEPT = (*SUMS, "blocks")
ALIGNED = ("blocks", "mx", "promoted", "fast")
CHECKED = [(2048, 1024, 512, 8), (2048, 528, 1040, 12), (700, 256, 64, 24), (4096, 512, 256, 256), (512, 256, 128, 1)]
CHECKED_GRADIENTS = [(2048, 1024, 512, 8), (2048, 200, 272, 12), (1024, 128, 64, 24), (512, 256, 128, 1)]
CHECKED_MX = [(2048, 1024, 512, 8), (2048, 208, 544, 12), (1024, 128, 64, 24), (512, 256, 128, 1)]
KINDS = ("equal", "ragged", "edge", "one")
LIKE_TORCH = 0.02  # the largest part of the norm that two right results differ by
BUSY_SECONDS = 0.3  # until clocks are read
ALONE_SECONDS = 0.5


class Run:
    """What all tasks share: bundles, and the rows so far; whether clocks are read."""

    def __init__(self, folder, clocks):
        self.folder, self.clocks, self.bundles, self.rows = pathlib.Path(folder), clocks, {}, []

    def bundle(self, name):
        if name not in self.bundles:
            self.bundles[name] = Bundle(self.folder / name)
        return self.bundles[name]


# ---- Operands: a (M,K), b (E,K,N) column-major and their scales; of a gradient (N,M), (M,K) column-major ----


def integers(*shape):
    """Of these the sums are exact in any order."""
    return torch.randint(-2, 3, shape, device="cuda").float().to(FP8)


def powers(*shape):
    return 2.0 ** torch.randint(-2, 3, shape, device="cuda").float()


def normal(*shape):
    return torch.randn(shape, device="cuda").to(FP8)


def scales(*shape):
    return torch.rand(shape, device="cuda") + 0.1


def weights(values, n, k, experts):
    """Expert by expert: the values before they are cast take four times the memory."""
    return torch.cat([values(1, n, k) for _ in range(experts)]).transpose(1, 2)


# ---- Checks ----


def check_forward(run, accumulate, shape, kind):
    m, n, k, experts = shape
    a, b, sa, sb = integers(m, k), weights(integers, n, k, experts), powers(m), powers(experts, n)
    ends = group_ends(kind, m, experts)
    rows = int(ends[-1])
    a.view(torch.uint8)[rows:] = 0x7F  # what must not be read is NaN
    expected = torch.zeros(m, n, device="cuda", dtype=BF16)
    start = 0
    for e, end in enumerate(ends.tolist()):
        group = slice(start, end)
        expected[group] = (sb[e] * (sa[group, None] * (a[group].float() @ b[e].float()))).to(BF16)
        start = end
    bundle = run.bundle(f"product-forward-{accumulate}")
    for _ in range(2):
        (out,) = bundle(a, b, sa, sb, ends)
        assert torch.equal(out[:rows].view(torch.int16), expected[:rows].view(torch.int16)), "the bits differ"


def check_gradient(run, accumulate, shape, kind):
    """NaN in every token that is in no group, and in a group of one token between two others."""
    m, n, k, experts = shape
    ends = group_ends(kind, m, experts)
    a, b = integers(n, m), integers(k, m).t()
    sa, sb = powers(experts, n), powers(experts, k)
    a.view(torch.uint8)[:, int(ends[-1]) :] = 0x7F
    b.view(torch.uint8)[int(ends[-1]) :] = 0x7F
    if kind == "edge":
        a.view(torch.uint8)[:, int(ends[0])] = 0x7F
        b.view(torch.uint8)[int(ends[0])] = 0x7F
    (out,) = run.bundle(f"product-gradient-{accumulate}")(a, b, sa, sb, ends)
    start = 0
    for e, end in enumerate(ends.tolist()):
        expected = (sb[e] * (sa[e][:, None] * (a[:, start:end].float() @ b[start:end].float()))).to(BF16)
        same = out[e].view(torch.int16) == expected.view(torch.int16)
        both_nan, zero = out[e].isnan() & expected.isnan(), (out[e] == 0) & (expected == 0)
        assert bool((same | both_nan | zero).all()), f"the bits of expert {e} differ"
        start = end


def check_like(ours, theirs, rows):
    """On data without exact sums: the norm of what differs."""
    ours, theirs = ours[:rows], theirs[:rows]
    differing = sum(float((x.float() - y.float()).square().sum()) for x, y in zip(ours.split(4096), theirs.split(4096)))
    norm = sum(float(y.float().square().sum()) for y in theirs.split(4096))
    assert differing <= LIKE_TORCH**2 * norm, f"differs from torch's by {(differing / norm) ** 0.5:.4f} of its norm"


# ---- Aligned groups ----


def places(ends, m):
    """Where each of m tokens stands in a tensor of aligned groups, and how many tokens that has. Tokens of no group have no place."""
    token = torch.arange(int(ends[-1]), device="cuda", dtype=torch.int32)
    group = torch.searchsorted(ends, token, right=True, out_int32=True)
    start = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])[group]
    return (128 * (start // 128 + group) + token - start).long(), 128 * (-(-m // 128) + len(ends))


def aligned(x, ends):
    """x, (rows, m) of FP8, with its groups of tokens aligned: zeros behind each, NaN in blocks of none."""
    place, room = places(ends, x.shape[1])
    blocks = torch.full((x.shape[0], room // 128, 128), 0x7F, dtype=torch.uint8, device="cuda")
    blocks[:, (place // 128).unique()] = 0
    blocks = blocks.view(x.shape[0], room)
    blocks[:, place] = x.view(torch.uint8)[:, : len(place)]
    return blocks.view(x.dtype)


def aligned_scales(x, ends, m):
    """Scales of MX blocks of tokens, of groups that begin anywhere, where groups are aligned; NaN in blocks of none."""
    place, room = places(ends, m)
    moved = torch.full((room // 32, x.shape[1]), 255, dtype=torch.uint8, device="cuda")
    start = 0
    for group, end in enumerate(ends.tolist()):
        rows, first = -(-(end - start) // 32), 4 * (start // 128 + group)
        moved[first : first + rows] = x.view(torch.uint8)[start // 32 + group :][:rows]
        start = end
    return moved.view(x.dtype)


def gradients(run, sums, shape, kind, values, scale):
    """A gradient of weights, and the same of aligned groups: functions. scale: makes scales, fp32."""
    m, n, k, experts = shape
    ends = group_ends(kind, m, experts).clamp(max=m)
    a, b = values(n, m), values(k, m)
    if sums == "mx":
        rows = -(-m // 32) + experts
        old = [torch.randint(125, 130, (rows, size), device="cuda", dtype=torch.uint8).view(torch.float8_e8m0fnu) for size in (n, k)]
        new = [aligned_scales(x, ends, m) for x in old]
    else:
        rows = -(-m // 128) + experts if sums == "blocks" else experts
        old = new = scale(rows, n), scale(rows, k)
    moved = aligned(a, ends), aligned(b, ends)
    return (lambda: run.bundle(f"product-gradient-{sums}")(a, b.t(), *old, ends)[0],
            lambda: run.bundle(f"product-aligned-{sums}")(moved[0], moved[1].t(), *new, ends)[0])  # fmt: skip


def check_aligned(run, sums, shape, kind):
    expected, found = (function() for function in gradients(run, sums, shape, kind, integers, powers))
    assert bool(torch.isfinite(found).all()) and torch.equal(found.view(torch.int16), expected.view(torch.int16)), "the bits differ"


# ---- Candidates ----


def usable(candidates):
    """Those of name and function that can be called and captured; torch has not all of them for all shapes."""
    found = {}
    for name, function in candidates.items():
        try:
            captured(function)
            torch.cuda.synchronize()
            found[name] = function
        except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            if name.startswith("ours"):
                raise
            print(f"    without {name}: {str(error).strip().splitlines()[0][:120]}")
    return found


def dense(m, n, k):
    """Without groups."""
    a, b = normal(m, k), normal(n, k).t()
    one, sa, sb = torch.ones((), device="cuda"), scales(m, 1), scales(1, n)

    def product(sa, sb, fast):
        return torch._scaled_mm(a, b, scale_a=sa, scale_b=sb, out_dtype=BF16, use_fast_accum=fast)

    return {
        "dense tensor fast": lambda: product(one, one, True),
        "dense tensor promoted": lambda: product(one, one, False),
        "dense row fast": lambda: product(sa, sb, True),
        "dense row promoted": lambda: product(sa, sb, False),
    }


def grouped(run, name, a, b, sa, sb, ends):
    """Ours and torch's; torch wants the scales of a gradient flat."""
    flat = (sa.flatten(), sb.flatten()) if name == "gradient" else (sa, sb)
    tail = () if ends is None else (ends,)
    candidates = {f"ours {sums}": lambda sums=sums: run.bundle(f"product-{name}-{sums}")(a, b, sa, sb, *tail)[0] for sums in SUMS}
    for sums in SUMS:
        candidates[f"torch {sums}"] = lambda sums=sums: torch._scaled_grouped_mm(
            a, b, *flat, offs=ends, out_dtype=BF16, use_fast_accum=sums == "fast"
        )
    return candidates


def grouped_bf16(a, b, ends):
    """b is column-major: its transpose is contiguous."""
    wide_a, wide_b = a.to(BF16), b.transpose(-2, -1).to(BF16).transpose(-2, -1)
    return {"torch bf16": lambda: torch._grouped_mm(wide_a, wide_b, offs=ends, out_dtype=BF16)}


def deep_gemm(m, n, k, experts):
    """DeepGEMM for equal groups: promoted sums, fp32 scales of 1 x 128 and 128 x 128, out bf16. Nothing where it is not installed."""
    try:
        import deep_gemm as library
    except ImportError:
        return {}
    a, b = normal(m, k), torch.cat([normal(1, n, k) for _ in range(experts)])
    sa, sb = scales(k // 128, m).t(), scales(experts, n // 128, k // 128)  # as the kernel reads them: none is transposed first
    group = torch.arange(experts, device="cuda", dtype=torch.int32).repeat_interleave(m // experts)
    out = torch.empty(m, n, device="cuda", dtype=BF16)

    def product():
        library.m_grouped_fp8_gemm_nt_contiguous((a, sa), (b, sb), out, group)
        return out

    return {"deepgemm promoted": product}


def deep_gemm_gradient(n, k, sizes):
    """The same for the gradient of weights of groups of these sizes, multiples of 128: scales of 1 x 128 on both sides, out fp32."""
    try:
        import deep_gemm as library
    except ImportError:
        return {}
    m = sum(sizes)
    a, b = normal(n * m), normal(k * m)  # group after group, each (n, size) and (k, size)
    sa, sb = scales(m // 128, n).t(), scales(m // 128, k).t()
    out, counts = torch.zeros(len(sizes), n, k, device="cuda"), torch.tensor(sizes, device="cuda", dtype=torch.int32)

    def product():  # out is added to
        library.k_grouped_fp8_gemm_nt_contiguous((a, sa), (b, sb), out, sizes, counts, out)
        return out

    return {"deepgemm promoted": product}


# ---- Clocks ----


def read_clocks():
    """MHz and W, by NVML where it is there, else by nvidia-smi; None where neither is."""
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        return pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM), pynvml.nvmlDeviceGetPowerUsage(device) / 1000
    except Exception:  # whatever is missing
        pass
    try:
        query = ["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"]
        clock, power = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split(",")
        return int(clock), float(power)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def clocks_of(function, seconds):
    """What they are while the function, which takes so long, is repeated."""
    graph, _ = captured(function)
    for _ in range(max(1, int(2 * BUSY_SECONDS / seconds))):
        graph.replay()
    time.sleep(BUSY_SECONDS)
    clocks = read_clocks()
    torch.cuda.synchronize()
    return clocks


def alone(function, seconds):
    """What a function that takes so long does when it is repeated for ALONE_SECONDS: seconds, MHz and W in the second half."""
    graph, _ = captured(function)
    half = max(1, int(ALONE_SECONDS / 2 / seconds))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(half):
        graph.replay()
    begin.record()
    for _ in range(half):
        graph.replay()
    end.record()
    time.sleep(0.8 * ALONE_SECONDS)
    clocks = read_clocks()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / half, clocks


# ---- Rows ----


def measure(run, what, shape, kind, candidates, rows):
    """One row. rows: of the results that are written."""
    m, n, k, _ = shape
    functions = usable(candidates)
    if "torch fast" in functions:
        check_like(functions["ours fast"](), functions["torch fast"](), rows)
    seconds = dict(zip(functions, times(list(functions.values()))))
    rates = {name: 2e-12 * m * n * k / each for name, each in seconds.items()}
    clocks = {}
    if run.clocks:
        clocks = {name: clocks_of(functions[name], seconds[name]) for name in ("ours fast", "torch fast") if name in functions}
    run.rows.append(dict(what=what, shape=shape, groups=kind, rates=rates, clocks=clocks))
    print_row(what, shape, kind, rates, clocks)


def ratio(rates, sums):
    return f"{rates[f'ours {sums}'] / rates[f'torch {sums}']:.3f}" if f"torch {sums}" in rates else "-"


def label(what, shape, kind):
    return f"{what:7} {' '.join(map(str, shape)):>20} {kind:>6} |"


# Of a row: names of candidates, and the widths of their columns.
FAST = [("torch fast", 12), ("ours fast", 5)]
PROMOTED = [("torch promoted", 15), ("ours promoted", 5)]
OTHERS = [("torch bf16", 5), ("dense tensor fast", 18), ("dense tensor promoted", 9)]
OTHERS += [("dense row fast", 9), ("dense row promoted", 9)]


def print_header():
    print(
        f"{label('', ('M', 'N', 'K', 'E'), 'groups')}  fast: torch  ours  ratio  promoted: torch  ours  ratio   bf16"
        "  dense: tensor fast, promoted, row fast, promoted | MHz W: ours, torch"
    )


def print_row(what, shape, kind, rates, clocks):
    def columns(names):
        return " ".join((f"{rates[name]:.0f}" if name in rates else "-").rjust(width) for name, width in names)

    words = " ".join(f"{mhz:.0f} {watts:.0f}" for mhz, watts in filter(None, clocks.values()))
    fast, promoted = (ratio(rates, sums).rjust(6) for sums in SUMS)
    print(label(what, shape, kind), columns(FAST), fast, columns(PROMOTED), promoted, columns(OTHERS), "|", words, flush=True)


def compare_forward(run, what, shape, kind):
    """Of dgrad, N and K are exchanged: the gradients of tokens, (M,N), times weights, over N."""
    m, n, k, experts = shape
    out, depth = (n, k) if what == "forward" else (k, n)
    ends = group_ends(kind, m, experts)
    operands = normal(m, depth), weights(normal, out, depth, experts), scales(m), scales(experts, out)
    candidates = grouped(run, "forward", *operands, ends) | grouped_bf16(*operands[:2], ends)
    if kind == "equal":
        candidates |= dense(m, out, depth) | deep_gemm(m, out, depth, experts)
    measure(run, what, shape, kind, candidates, m)


def compare_gradient(run, what, shape, kind):
    m, n, k, experts = shape
    ends = group_ends(kind, m, experts)
    if kind == "ragged":  # torch takes multiples of 16 only
        ends = torch.div(ends, 16, rounding_mode="floor").mul(16).to(torch.int32)
    operands = normal(n, m), normal(k, m).t(), scales(experts, n), scales(experts, k)
    candidates = grouped(run, "gradient", *operands, ends) | grouped_bf16(*operands[:2], ends)
    measure(run, what, shape, kind, candidates, experts)


def compare_batched(run, what, shape, kind):
    m, n, k, experts = shape
    a = normal(experts, m // experts, k)
    operands = a, weights(normal, n, k, experts), scales(experts, m // experts), scales(experts, n)
    measure(run, what, shape, kind, grouped(run, "batched", *operands, None), experts)


def compare_cost(run, what, shape, kind):
    """What ragged groups cost, and the gradient beside the product forward: ours alone, in one rotation."""
    m, n, k, experts = shape
    forward = normal(m, k), weights(normal, n, k, experts), scales(m), scales(experts, n)
    gradient = normal(n, m), normal(k, m).t(), scales(experts, n), scales(experts, k)
    ends = {groups: group_ends(groups, m, experts) for groups in ("equal", "ragged")}
    candidates = {}
    for name, operands in (("forward", forward), ("gradient", gradient)):
        for sums in SUMS:
            for groups in ends:
                candidates[f"{name} {sums} {groups}"] = lambda name=name, operands=operands, sums=sums, groups=groups: run.bundle(
                    f"product-{name}-{sums}"
                )(*operands, ends[groups])[0]
    seconds = dict(zip(candidates, times(list(candidates.values()))))
    costs = {}
    for sums in SUMS:
        for name in ("forward", "gradient"):
            costs[f"{name} {sums}, ragged to equal"] = seconds[f"{name} {sums} equal"] / seconds[f"{name} {sums} ragged"]
        costs[f"gradient to forward {sums}"] = seconds[f"forward {sums} equal"] / seconds[f"gradient {sums} equal"]
    run.rows.append(dict(what=what, shape=shape, groups=kind, costs=costs))
    print(label(what, shape, kind), ", ".join(f"{name} {value:.3f}" for name, value in costs.items()), flush=True)


def compare_aligned(run, sums, shape, kind):
    """Aligned groups beside others, ragged and equal, in one rotation; DeepGEMM with equal ones."""
    m, n, k, experts = shape
    candidates = {}
    for groups in ("equal", "ragged"):
        anywhere, moved = gradients(run, sums, shape, groups, normal, scales)
        check_like(moved(), anywhere(), experts)
        candidates |= {f"gradient {groups}": anywhere, f"aligned {groups}": moved}
    functions = candidates | (usable(deep_gemm_gradient(n, k, [m // experts] * experts)) if sums == "blocks" else {})
    seconds = dict(zip(functions, times(list(functions.values()))))
    rates = {name: 2e-12 * m * n * k / each for name, each in seconds.items()}
    pairs = [("aligned ragged", "aligned equal"), ("aligned equal", "gradient equal"), ("aligned ragged", "gradient ragged"),
             ("aligned equal", "deepgemm promoted"), ("aligned ragged", "deepgemm promoted")]  # fmt: skip
    costs = {f"{sums}, {one} to {other}": rates[one] / rates[other] for one, other in pairs if other in rates}
    run.rows.append(dict(what="align", sums=sums, shape=shape, groups=kind, sweep=rates, ratios=costs))
    words = [f"{name} {rate:.0f}" for name, rate in rates.items()] + [f"{name} {ratio:.3f}" for name, ratio in costs.items()]
    print(label(f"align {sums}", shape, kind), ", ".join(words), flush=True)


def powers_of_blocks(*shape):
    """Scales of MX blocks."""
    return torch.randint(125, 130, shape, device="cuda", dtype=torch.uint8).view(torch.float8_e8m0fnu)


def widened(q, exponents):
    """Elements along the last dimension times the scales of their MX blocks, as bf16."""
    factors = (exponents.view(torch.uint8).float() - 127).exp2()
    return torch.cat([(part.float().unflatten(-1, (-1, 32)) * factor[..., None]).flatten(-2).to(BF16)
                      for part, factor in zip(q.split(4096), factors.split(4096))])  # fmt: skip


torch._dynamo.config.recompile_limit = 64  # each shape is compiled for itself


@torch.compile(dynamic=False)
def dequantized(q, exponents):
    """Elements along the last dimension times the scales of their MX blocks, given as bytes, as bf16: one kernel of torch's compiler. A power
    of two is made of its exponent's bits; the least and the greatest are no numbers of fp32 that way, and do not occur here."""
    factors = (exponents.to(torch.int32) << 23).view(torch.float32)
    return (q.float().unflatten(-1, (-1, 32)) * factors[..., None]).flatten(-2).to(BF16)


def mx_forward(run, shape, kind, values):
    """Functions of the product forward in MX blocks."""
    m, n, k, experts = shape
    ends = group_ends(kind, m, experts).clamp(max=m)
    a, b, sa, sb = values(m, k), weights(values, n, k, experts), powers_of_blocks(m, k // 32), powers_of_blocks(experts, n, k // 32)
    wide_a = widened(a, sa)
    wide_b = torch.stack([widened(b[e].t(), sb[e]) for e in range(experts)]).transpose(1, 2)
    quantized = (a, b, sa, sb.transpose(1, 2), ends)
    rows, bytes_a, bytes_b = b.transpose(1, 2), sa.view(torch.uint8), sb.view(torch.uint8)  # rows as they lie

    def torch_way():
        return torch._grouped_mm(dequantized(a, bytes_a), dequantized(rows, bytes_b).transpose(1, 2), offs=ends, out_dtype=BF16)

    return {
        "promoted": lambda: run.bundle("product-forward-mx")(*quantized)[0],
        "fast": lambda: run.bundle("chain-product-forward-mx")(*quantized)[0],
        "mm": lambda: run.bundle("product-halves-forward")(wide_a, wide_b, ends)[0],
        "torch bf16": lambda: torch._grouped_mm(wide_a, wide_b, offs=ends, out_dtype=BF16),
        "torch": torch_way,
    }, int(ends[-1])


def mx_gradient(run, shape, kind, values):
    """Functions of the gradient of weights in MX blocks, of aligned groups and of those that begin anywhere."""
    m, n, k, experts = shape
    ends = group_ends(kind, m, experts).clamp(max=m)
    if kind == "ragged":  # torch takes multiples of 16 only
        ends = torch.div(ends, 16, rounding_mode="floor").mul(16).to(torch.int32)
    a, b = values(n, m), values(k, m)
    sa, sb = (powers_of_blocks(-(-m // 32) + experts, size) for size in (n, k))
    moved = aligned(a, ends), aligned(b, ends).t(), aligned_scales(sa, ends, m), aligned_scales(sb, ends, m)
    wide_a, wide_b = a.t().contiguous().to(BF16).t(), b.t().contiguous().to(BF16)
    return {
        "promoted": lambda: run.bundle("product-aligned-mx")(*moved, ends)[0],
        "fast": lambda: run.bundle("chain-product-aligned-mx")(*moved, ends)[0],
        "fast, groups anywhere": lambda: run.bundle("chain-product-gradient-mx")(a, b.t(), sa, sb, ends)[0],
        "mm": lambda: run.bundle("product-halves-gradient")(wide_a, wide_b, ends)[0],
        "torch bf16": lambda: torch._grouped_mm(wide_a, wide_b, offs=ends, out_dtype=BF16),
    }, experts


MX_CASES = {"forward": mx_forward, "gradient": mx_gradient}


def check_mx(run, case, shape, kind):
    functions, rows = MX_CASES[case](run, shape, kind, integers)
    expected = functions["promoted"]()[:rows]
    for name in ("fast", "fast, groups anywhere"):
        if name in functions:
            assert torch.equal(functions[name]()[:rows].view(torch.int16), expected.view(torch.int16)), f"the bits of {name} sums differ"


def compare_mx(run, case, shape, kind):
    m, n, k, _ = shape
    functions, rows = MX_CASES[case](run, shape, kind, normal)
    check_like(functions["fast"](), functions["promoted"](), rows)
    if kind == "equal":
        m, n, k, experts = shape
        functions |= deep_gemm(m, n, k, experts) if case == "forward" else deep_gemm_gradient(n, k, [m // experts] * experts)
    functions = usable(functions)
    if "torch" in functions:
        check_like(functions["fast"](), functions["torch"](), rows)
    seconds = dict(zip(functions, times(list(functions.values()))))
    rates = {name: 2e-12 * m * n * k / each for name, each in seconds.items()}
    costs = {f"mx {case}, time of fast sums to promoted": rates["promoted"] / rates["fast"]}
    costs |= {f"mx {case}, time of {name} to fast sums": rates["fast"] / rates[name] for name in ("torch", "torch bf16", "deepgemm promoted") if name in rates}
    run.rows.append(dict(what="mx", case=case, shape=shape, groups=kind, sweep=rates, ratios=costs))
    words = [f"{name} {rate:.0f}" for name, rate in rates.items()] + [f"{name} {cost:.3f}" for name, cost in costs.items()]
    print(label(f"mx {case}", shape, kind), ", ".join(words), flush=True)


def sweep(run, case, sums, by_itself, shape, kind):
    """Schedules of ours beside others. by_itself: each alone besides."""
    m, n, k, experts = shape
    folder = run.folder / "tune" / f"product-{case}-{sums}"
    names = sorted(path.name for path in folder.iterdir() if (path / "manifest.json").exists())
    ends = group_ends(kind, m, experts)
    if case == "gradient":
        if kind == "ragged" and sums != "blocks":
            ends = torch.div(ends, 16, rounding_mode="floor").mul(16).to(torch.int32)
        operands = normal(n, m), normal(k, m).t(), scales(experts, n), scales(experts, k)
    else:
        operands = normal(m, k), weights(normal, n, k, experts), scales(m), scales(experts, n)
    of_rows = operands
    if sums == "blocks" and case == "gradient":
        operands = *operands[:2], scales(m // 128 + experts, n), scales(m // 128 + experts, k)
    elif sums == "blocks":  # as the kernel reads them, and DeepGEMM
        operands = *operands[:2], scales(k // 128, m).t(), scales(experts, n // 128, k // 128).transpose(1, 2)
    candidates = {name: lambda name=name: run.bundle(f"tune/product-{case}-{sums}/{name}")(*operands, ends)[0] for name in names}
    others = grouped(run, case, *operands, ends)
    others = {name: function for name, function in others.items() if name == f"torch {sums}"}
    if sums == "blocks":
        others["ours promoted"] = lambda: run.bundle(f"product-{case}-promoted")(*of_rows, ends)[0]
    if kind == "equal" and case == "forward":
        others |= {name: function for name, function in dense(m, n, k).items() if name == f"dense row {sums}"}
        others |= deep_gemm(m, n, k, experts)
    if kind == "equal" and (case, sums) == ("gradient", "blocks"):
        others |= deep_gemm_gradient(n, k, [m // experts] * experts)
    reference = candidates[names[0]]()
    for name in names[1:]:
        torch.full_like(reference, float("nan"))  # memory of the result: what a candidate leaves out is not right by chance
        out = candidates[name]()
        same = torch.equal(out.view(torch.int16), reference.view(torch.int16))
        if not same:
            check_like(out, reference, len(reference))
            print(f"    {name} differs from {names[0]} in some bits")
    functions = candidates | usable(others)
    seconds = dict(zip(functions, times(list(functions.values()))))
    work = 2e-12 * m * n * k
    rates = {name: work / each for name, each in seconds.items()}
    row = dict(what="sweep", case=case, sums=sums, shape=shape, groups=kind, sweep=rates)
    print(label(f"sweep {case} {sums}", shape, kind), ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()), flush=True)
    if by_itself:
        found = {name: alone(function, seconds[name]) for name, function in functions.items()}
        row["alone"] = {name: (work / each, clocks) for name, (each, clocks) in found.items()}
        words = (f"{name} {rate:.0f} at {clocks[0] if clocks else 0:.0f} MHz {clocks[1] if clocks else 0:.0f} W"
                 for name, (rate, clocks) in row["alone"].items())  # fmt: skip
        print("    alone:", ", ".join(words), flush=True)
    run.rows.append(row)


def compare_small(run, what, shape, kind):
    m, n, k, experts = shape
    ends = group_ends(kind, m, experts)
    a, b, sa, sb = normal(m, k), weights(normal, n, k, experts), scales(m), scales(experts, n)
    candidates = {"ours static": lambda: run.bundle(small_name(shape))(a, b, sa, sb, ends)[0]}
    candidates |= grouped(run, "forward", a, b, sa, sb, ends)
    source = b.transpose(1, 2).view(torch.uint8)
    target = torch.empty_like(source)
    candidates["copy"] = lambda: target.copy_(source)
    functions = usable(candidates)
    if "torch fast" in functions:
        check_like(functions["ours static"](), functions["torch fast"](), m)
    seconds = dict(zip(functions, times(list(functions.values()), clearing_l2())))
    floor = seconds["copy"] / 2  # the copy reads and writes
    fractions = {name: floor / each for name, each in seconds.items() if name != "copy"}
    run.rows.append(dict(what=what, shape=shape, groups=kind, seconds=seconds, fractions=fractions))
    print(label(what, shape, kind), f"weights once {floor * 1e6:.1f} us, {source.numel() / floor * 1e-12:.2f} TB/s |",
          ", ".join(f"{name} {seconds[name] * 1e6:.1f} us {part:.3f}" for name, part in fractions.items()), flush=True)  # fmt: skip


# ---- All of it ----


def tasks():
    """Names and functions of a run, what matters most first."""
    listed = []

    def add(what, function, shape, kind, *arguments):
        listed.append((f"{what} {' '.join(map(str, shape))} {kind}", lambda run: function(run, *arguments, shape, kind)))

    for sums in SUMS:
        for shape in CHECKED:
            for kind in KINDS:
                if kind != "edge" or sum(EDGE_SIZES[e % len(EDGE_SIZES)] for e in range(shape[3])) <= shape[0]:
                    add(f"check forward {sums}", check_forward, shape, kind, sums)
        for shape in CHECKED_GRADIENTS:
            for kind in KINDS:
                add(f"check gradient {sums}", check_gradient, shape, kind, sums)
        for shape in BENCH:
            for kind in ("equal", "ragged"):
                add(f"check forward {sums}", check_forward, shape, kind, sums)
                add(f"check gradient {sums}", check_gradient, shape, kind, sums)
    for sums in ALIGNED:
        for shape in CHECKED_GRADIENTS:
            for kind in KINDS:
                add(f"check aligned {sums}", check_aligned, shape, kind, sums)
    for case in MX_CASES:
        for shape in CHECKED_MX:
            for kind in KINDS:
                add(f"check mx {case}", check_mx, shape, kind, case)
    for what, function in (("forward", compare_forward), ("wgrad", compare_gradient), ("dgrad", compare_forward)):
        for shape in BENCH:
            for kind in ("equal", "ragged"):
                add(what, function, shape, kind, what)
    for shape in SMALL:
        for kind in ("equal", "ragged"):
            add("small", compare_small, shape, kind, "small")
    for shape in BENCH:
        add("cost", compare_cost, shape, "both", "cost")
    for shape in BENCH:
        for sums in ALIGNED:
            add(f"align {sums}", compare_aligned, shape, "both", sums)
    for shape in BENCH:
        for case in MX_CASES:
            for kind in ("equal", "ragged"):
                add(f"mx {case}", compare_mx, shape, kind, case)
    for shape in BENCH:
        add("batched", compare_batched, shape, "equal", "batched")
    for case, sums in itertools.product(("forward", "gradient"), SWEPT):
        for shape in (*BENCH, *SWEEP):
            for kind in ("equal", "ragged"):
                by_itself = kind == "equal" and shape in (BENCH[0], BENCH[-1])
                add(f"sweep {case} {sums}", sweep, shape, kind, case, sums, by_itself)
    return listed


def perform(run, chosen, seconds):
    """How many were done, and failed."""
    begin, done, failed, header = time.monotonic(), 0, 0, False
    for number, (name, function) in enumerate(chosen):
        if seconds and time.monotonic() - begin > seconds:
            print(f"no time is left for {len(chosen) - number} tasks, from '{name}' on")
            break
        done += 1
        if not name.startswith("check") and not header:
            print_header()
            header = True
        try:
            function(run)
        except Exception as error:  # the others go on
            failed += 1
            print(f"FAILED: {name}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
        torch.cuda.empty_cache()
    return done, failed


def mean(values):
    values = list(values)
    return f"{statistics.geometric_mean(values):.3f}, least {min(values):.3f}, of {len(values)} rows" if values else "no rows"


def summarize(rows):
    """Ratios to torch and to a product without groups; what ragged groups and the gradient cost."""
    rates = {(row["what"], tuple(row["shape"]), row["groups"]): row["rates"] for row in rows if "rates" in row}
    for what in ("forward", "dgrad", "wgrad", "batched"):
        for kind in ("equal", "ragged"):
            own = [r for (w, _, groups), r in rates.items() if (w, groups) == (what, kind)]
            for sums in SUMS if own else ():
                there = [r for r in own if f"torch {sums}" in r]
                print(f"{what} {sums}, {kind} groups, to torch: {mean(r[f'ours {sums}'] / r[f'torch {sums}'] for r in there)}")
                for other, name in ((f"dense row {sums}", "one group"), ("deepgemm promoted", "DeepGEMM")):
                    there = [r[f"ours {sums}"] / r[other] for r in own if other in r]
                    if there:
                        print(f"{what} {sums}, {kind} groups, to {name}: {mean(there)}")
    for case in ("forward", "gradient"):
        for sums in SWEPT:
            for kind in ("equal", "ragged"):
                summarize_sweep(rows, case, sums, kind)
    costs = [row["costs"] for row in rows if "costs" in row]
    for name in costs[0] if costs else ():
        print(f"{name}: {mean(row[name] for row in costs)}")
    for name in dict.fromkeys(name for row in rows for name in row.get("ratios", ())):
        print(f"{name}: {mean(row['ratios'][name] for row in rows if name in row.get('ratios', ()))}")
    for row in rows:
        if "fractions" in row:
            best = max((fraction, name) for name, fraction in row["fractions"].items() if name.startswith("ours"))
            print(f"small {' '.join(map(str, row['shape']))} {row['groups']}: {best[0]:.3f} of the weights' time ({best[1]})")


def summarize_sweep(rows, case, sums, kind):
    """Each candidate's geometric mean over the rows that all have, and to the product without groups."""
    own = [row["sweep"] for row in rows if (row["what"], row.get("case"), row.get("sums"), row["groups"]) == ("sweep", case, sums, kind)]
    for name in own[0] if own else ():
        words = [f"{statistics.geometric_mean(row[name] for row in own if name in row):.0f} TFLOP/s"]
        for other in (f"dense row {sums}", "deepgemm promoted"):
            there = [row[name] / row[other] for row in own if name in row and other in row]
            if there:
                words.append(f"to {other} {mean(there)}")
        print(f"sweep {case} {sums}, {kind} groups, {name}: {'; '.join(words)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundles")
    parser.add_argument("out", nargs="?", help="a JSON file of the rows")
    parser.add_argument("--only", default="", help="a regular expression: tasks that it is found in")
    parser.add_argument("--seconds", type=float, help="after which no other task begins")
    parser.add_argument("--no-clocks", dest="clocks", action="store_false", help="leave MHz and W out, which take time")
    parser.add_argument("--list", action="store_true", help="print the names of the tasks and do nothing")
    options = parser.parse_args()
    chosen = [task for task in tasks() if re.search(options.only, task[0])]
    if options.list:
        print(*(name for name, _ in chosen), sep="\n")
        return 0
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    run = Run(options.bundles, options.clocks)
    done, failed = perform(run, chosen, options.seconds)
    checks = sum(name.startswith("check") for name, _ in chosen[:done])
    print(f"{done} of {len(chosen)} tasks done, {checks} of them checks of every bit; {failed} failed")
    summarize(run.rows)
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(run.rows, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
