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
import sys
import time
import traceback

from products import BENCH, EDGE_SIZES, SMALL, SUMS, SWEEP

# Sweeps: also promoted sums with scales of blocks.
SWEPT = (*SUMS, "blocks")
ALIGNED = ("blocks", "mx", "promoted", "fast")
CHECKED = [(2048, 1024, 512, 8), (2048, 528, 1040, 12), (700, 256, 64, 24), (4096, 512, 256, 256), (512, 256, 128, 1)]
CHECKED_GRADIENTS = [(2048, 1024, 512, 8), (2048, 200, 272, 12), (1024, 128, 64, 24), (512, 256, 128, 1)]
CHECKED_MX = [(2048, 1024, 512, 8), (2048, 208, 544, 12), (1024, 128, 64, 24), (512, 256, 128, 1)]
KINDS = ("equal", "ragged", "edge", "one")
CASES = ("forward", "gradient")


def tasks():
    """Of each task its name, that of its function in product_rows.py, and what this takes behind the run; what matters most first."""
    listed = []

    def add(what, function, shape, kind, *arguments):
        listed.append((f"{what} {' '.join(map(str, shape))} {kind}", function, (*arguments, shape, kind)))

    for sums in SUMS:
        for shape in CHECKED:
            for kind in KINDS:
                if kind != "edge" or sum(EDGE_SIZES[e % len(EDGE_SIZES)] for e in range(shape[3])) <= shape[0]:
                    add(f"check forward {sums}", "check_forward", shape, kind, sums)
        for shape in CHECKED_GRADIENTS:
            for kind in KINDS:
                add(f"check gradient {sums}", "check_gradient", shape, kind, sums)
        for shape in BENCH:
            for kind in ("equal", "ragged"):
                add(f"check forward {sums}", "check_forward", shape, kind, sums)
                add(f"check gradient {sums}", "check_gradient", shape, kind, sums)
    for sums in ALIGNED:
        for shape in CHECKED_GRADIENTS:
            for kind in KINDS:
                add(f"check aligned {sums}", "check_aligned", shape, kind, sums)
    for case in CASES:
        for shape in CHECKED_MX:
            for kind in KINDS:
                add(f"check mx {case}", "check_mx", shape, kind, case)
    for what, function in (("forward", "compare_forward"), ("wgrad", "compare_gradient"), ("dgrad", "compare_forward")):
        for shape in BENCH:
            for kind in ("equal", "ragged"):
                add(what, function, shape, kind, what)
    for shape in SMALL:
        for kind in ("equal", "ragged"):
            add("small", "compare_small", shape, kind, "small")
    for shape in BENCH:
        add("cost", "compare_cost", shape, "both", "cost")
    for shape in BENCH:
        for sums in ALIGNED:
            add(f"align {sums}", "compare_aligned", shape, "both", sums)
    for shape in BENCH:
        for case in CASES:
            for kind in ("equal", "ragged"):
                add(f"mx {case}", "compare_mx", shape, kind, case)
    for shape in BENCH:
        add("batched", "compare_batched", shape, "equal", "batched")
    for case, sums in itertools.product(CASES, SWEPT):
        for shape in (*BENCH, *SWEEP):
            for kind in ("equal", "ragged"):
                by_itself = kind == "equal" and shape in (BENCH[0], BENCH[-1])
                add(f"sweep {case} {sums}", "sweep", shape, kind, case, sums, by_itself)
    return listed


def perform(run, chosen, seconds):
    """How many were done, and failed."""
    import product_rows  # which needs PyTorch, and tasks() does not

    begin, done, failed, header = time.monotonic(), 0, 0, False
    for number, (name, function, arguments) in enumerate(chosen):
        if seconds and time.monotonic() - begin > seconds:
            print(f"no time is left for {len(chosen) - number} tasks, from '{name}' on")
            break
        done += 1
        if not name.startswith("check") and not header:
            product_rows.print_header()
            header = True
        try:
            getattr(product_rows, function)(run, *arguments)
        except Exception as error:  # the others go on
            failed += 1
            print(f"FAILED: {name}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
        product_rows.forget()
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
    for case in CASES:
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
    parser.add_argument("bundles", nargs="?", help="their folder")
    parser.add_argument("out", nargs="?", help="a JSON file of the rows")
    parser.add_argument("--only", default="", help="a regular expression: tasks that it is found in")
    parser.add_argument("--seconds", type=float, help="after which no other task begins")
    parser.add_argument("--no-clocks", dest="clocks", action="store_false", help="leave MHz and W out, which take time")
    parser.add_argument("--list", action="store_true", help="print the names of the tasks and do nothing")
    options = parser.parse_args()
    chosen = [task for task in tasks() if re.search(options.only, task[0])]
    if options.list:
        print(*(name for name, *_ in chosen), sep="\n")
        return 0
    if not options.bundles:
        parser.error("name the folder of the bundles")
    from torch_products import Run

    run = Run(options.bundles, options.clocks)
    done, failed = perform(run, chosen, options.seconds)
    checks = sum(name.startswith("check") for name, *_ in chosen[:done])
    print(f"{done} of {len(chosen)} tasks done, {checks} of them checks of every bit; {failed} failed")
    summarize(run.rows)
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(run.rows, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
