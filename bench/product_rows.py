"""The tasks of compare_torch.py: checks of every bit, and rows of times.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import torch

from products import SUMS, small_name
from torch_products import (
    BF16,
    MX_CASES,
    deep_gemm,
    deep_gemm_gradient,
    dense,
    gradients,
    grouped,
    grouped_bf16,
    integers,
    normal,
    powers,
    scales,
    usable,
    weights,
)
from torch_timing import alone, clearing_l2, clocks_of, group_ends, times

LIKE_TORCH = 0.02  # the largest part of the norm that two right results differ by

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


def check_aligned(run, sums, shape, kind):
    expected, found = (function() for function in gradients(run, sums, shape, kind, integers, powers))
    assert bool(torch.isfinite(found).all()) and torch.equal(found.view(torch.int16), expected.view(torch.int16)), "the bits differ"


def check_mx(run, case, shape, kind):
    functions, rows = MX_CASES[case](run, shape, kind, integers)
    expected = functions["promoted"]()[:rows]
    for name in ("fast", "fast, groups anywhere"):
        if name in functions:
            assert torch.equal(functions[name]()[:rows].view(torch.int16), expected.view(torch.int16)), f"the bits of {name} sums differ"


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


def forget():
    """Gives memory of a task back, for the next one."""
    torch.cuda.empty_cache()
