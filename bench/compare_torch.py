#!/usr/bin/env python3
"""Grouped FP8 products beside PyTorch's, in one process: correctness on exact inputs, then TFLOP/s.

    bench/gpu compile                                      where LLVM is
    bench/compare_torch.py build/bundles out.json          where a Hopper GPU and PyTorch are

Each product is captured in a CUDA graph, so that the host is not measured; the candidates of a row take turns, and a row's figures
are medians. Ratios of one run can be compared, absolute figures of two runs cannot: the chip is limited by power.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import pathlib
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from launch_from_pytorch import Bundle  # noqa: E402
from torch_timing import EDGE_SIZES, group_ends, times  # noqa: E402

# (M, N, K, E), all compute-bound.
SHAPES = [
    (16384, 8192, 5120, 4),
    (16384, 8192, 5120, 8),
    (32768, 4096, 7168, 4),
    (32768, 4096, 7168, 8),
    (32768, 7168, 2048, 4),
    (32768, 7168, 2048, 8),
    (98304, 2816, 2048, 8),
    (98304, 2048, 1408, 8),
]


def exact_operands(m, n, k, experts):
    """Operands whose sums are exact in any order."""

    def integers(*shape):
        return torch.randint(-2, 3, shape, device="cuda").float().to(torch.float8_e4m3fn)

    def powers(*shape):
        return 2.0 ** torch.randint(-2, 3, shape, device="cuda").float()

    return integers(m, k), integers(experts, n, k).transpose(1, 2), powers(m), powers(experts, n)


def random_operands(m, n, k, experts):
    b = torch.cat([torch.randn(1, n, k, device="cuda").to(torch.float8_e4m3fn) for _ in range(experts)])
    return (
        torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn),
        b.transpose(1, 2),
        torch.rand(m, device="cuda") + 0.1,
        torch.rand(experts, n, device="cuda") + 0.1,
    )


def expected(a, b, sa, sb, ends, out):
    start = 0
    for e, end in enumerate(ends.tolist()):
        rows = slice(start, end)
        out[rows] = (sb[e] * (sa[rows, None] * (a[rows].float() @ b[e].float()))).to(torch.bfloat16)
        start = end


def check(bundle, m, n, k, experts, kind):
    a, b, sa, sb = exact_operands(m, n, k, experts)
    ends = group_ends(kind, m, experts)
    rows = int(ends[-1])
    # What must not be read is NaN: tokens past the last group.
    a.view(torch.uint8)[rows:] = 0x7F
    reference = torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
    expected(a, b, sa, sb, ends, reference)
    (out,) = bundle(a, b, sa, sb, ends)
    assert torch.equal(out[:rows].view(torch.int16), reference[:rows].view(torch.int16)), (m, n, k, experts, kind)
    (again,) = bundle(a, b, sa, sb, ends)
    assert torch.equal(out[:rows].view(torch.int16), again[:rows].view(torch.int16)), "two runs differ"


def check_gradient(bundle, m, n, k, experts, kind):
    """qa (N,M) times qb (M,K) over the tokens of each group; NaN in every token that is in no group."""

    def integers(*shape):
        return torch.randint(-2, 3, shape, device="cuda").float().to(torch.float8_e4m3fn)

    def powers(*shape):
        return 2.0 ** torch.randint(-2, 3, shape, device="cuda").float()

    ends = group_ends(kind, m, experts)
    a, b = integers(n, m), integers(k, m).t()
    a.view(torch.uint8)[:, int(ends[-1]) :] = 0x7F
    b.view(torch.uint8)[int(ends[-1]) :] = 0x7F
    if kind == "edge":  # a group of one token, all NaN, between two others
        start = int(ends[0])
        a.view(torch.uint8)[:, start] = 0x7F
        b.view(torch.uint8)[start] = 0x7F
    sa, sb = powers(experts, n), powers(experts, k)
    (out,) = bundle(a, b, sa, sb, ends)
    start = 0
    for e, end in enumerate(ends.tolist()):
        product = a[:, start:end].float() @ b[start:end].float()
        reference = (sb[e] * (sa[e][:, None] * product)).to(torch.bfloat16)
        same = out[e].view(torch.int16) == reference.view(torch.int16)
        both_nan = out[e].isnan() & reference.isnan()
        zero = (out[e] == 0) & (reference == 0)
        assert bool((same | both_nan | zero).all()), ("gradient", m, n, k, experts, kind, e)
        start = end


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else float("nan")


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.backends.cuda.matmul.allow_tf32 = False
    bundles = {accumulate: Bundle(folder / f"product-forward-{accumulate}") for accumulate in ("fast", "promoted")}
    for bundle in bundles.values():
        for shape in [(2048, 1024, 512, 8), (2048, 528, 1040, 12), (700, 256, 64, 24), (4096, 512, 256, 256), (512, 256, 128, 1)]:
            for kind in ("equal", "ragged", "edge", "one"):
                if kind != "edge" or sum(EDGE_SIZES[e % 12] for e in range(shape[3])) <= shape[0]:
                    check(bundle, *shape, kind)
    gradients = {accumulate: Bundle(folder / f"product-gradient-{accumulate}") for accumulate in ("fast", "promoted")}
    for bundle in gradients.values():
        for shape in [(2048, 1024, 512, 8), (2048, 200, 272, 12), (1024, 128, 64, 24), (512, 256, 128, 1)]:
            for kind in ("equal", "ragged", "edge", "one"):
                check_gradient(bundle, *shape, kind)
    print("exact inputs: every bit equal")

    rows, ratios = [], {}
    compare_forward(bundles, rows, ratios)
    compare_gradient(gradients, rows, ratios)
    for (what, accumulate, kind), values in ratios.items():
        print(f"{what} {accumulate}, {kind} groups: geometric mean {geometric_mean(values):.3f}, least {min(values):.3f}")
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(rows, indent=1))


def compare(what, shape, kind, torch_product, bundles, arguments, rows, ratios):
    """One row: torch fast and promoted, ours fast and promoted."""
    m, n, k, experts = shape
    functions = [lambda fast=fast: torch_product(fast) for fast in (True, False)]
    functions += [lambda bundle=bundle: bundle(*arguments) for bundle in bundles.values()]
    rates = [2e-12 * m * n * k / seconds for seconds in times(functions)]
    fast, promoted = rates[2] / rates[0], rates[3] / rates[1]
    ratios.setdefault((what, "fast", kind), []).append(fast)
    ratios.setdefault((what, "promoted", kind), []).append(promoted)
    rows.append(dict(what=what, shape=shape, groups=kind, torch=rates[:2], ours=rates[2:]))
    print(
        f"{what:>8} {f'{m} {n} {k} {experts}':>20} {kind:>7}  {rates[0]:11.0f} {rates[1]:8.0f}   {rates[2]:10.0f}"
        f"  {fast:.3f} {rates[3]:9.0f}  {promoted:.3f}",
        flush=True,
    )


def compare_forward(bundles, rows, ratios):
    print(f"{'M N K E':>29} {'groups':>7}  torch: fast promoted   ours: fast  ratio  promoted  ratio")
    for shape in SHAPES:
        m, n, k, experts = shape
        operands = random_operands(m, n, k, experts)
        for kind in ("equal", "ragged"):
            ends = group_ends(kind, m, experts)

            def product(fast):
                return torch._scaled_grouped_mm(*operands, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=fast)

            compare("forward", shape, kind, product, bundles, (*operands, ends), rows, ratios)
        del operands


def compare_gradient(bundles, rows, ratios):
    for shape in SHAPES:
        m, n, k, experts = shape
        a = torch.randn(n, m, device="cuda").to(torch.float8_e4m3fn)
        b = torch.randn(k, m, device="cuda").to(torch.float8_e4m3fn).t()
        sa, sb = torch.rand(experts, n, device="cuda") + 0.1, torch.rand(experts, k, device="cuda") + 0.1
        for kind in ("equal", "ragged"):
            ends = group_ends(kind, m, experts)
            if kind == "ragged":  # torch takes multiples of 16 only
                ends = torch.div(ends, 16, rounding_mode="floor").mul(16).to(torch.int32)

            def product(fast):
                return torch._scaled_grouped_mm(
                    a, b, sa.flatten(), sb.flatten(), offs=ends, out_dtype=torch.bfloat16, use_fast_accum=fast
                )

            compare("gradient", shape, kind, product, bundles, (a, b, sa, sb, ends), rows, ratios)


if __name__ == "__main__":
    main()
