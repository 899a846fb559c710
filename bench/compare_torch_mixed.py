#!/usr/bin/env python3
"""Products of four-bit weights beside bf16, FP8 and humming, in one process: correctness, then microseconds.

    bench/gpu compile '^mixed.*-at-|^pack-weights'                                     where LLVM is
    bench/compare_torch_mixed.py build/bundles out.json [--only PATTERN] [--seconds N]  where a Hopper GPU and PyTorch are

Where the wheel humming-kernels is there, humming is a candidate too. It compiles its kernels when they are called first, which takes long:
--warm does that for the rows that --only takes, and nothing else, so that many processes can share the work.

Rows have names, such as "dense 3584 8192 16" (N, K, tokens), "dense 3584 8192 1024 mxfp4", "dense 3584 8192 16 mxfp8", "chain 3584 8192 16 mxfp4" and "experts 4096 2048 256 16 mxfp4" (N, K, experts,
tokens, format); --list prints them, --only takes those that a regular expression is found in. After --seconds no other row begins. One that fails is
reported and the others go on; the exit code is 1 then.

Random data. A chain is a graph of layers with weights of their own, one after the other as in a model, and figures are those of one layer;
mixed_mm has launches that start early there. Otherwise each candidate is a CUDA graph of one call, timed by an event before and one behind it; candidates take turns, each round in another
order, L2 is cleared before each, and figures are medians. `copy` is the faster of two device copies that move as many bytes as weights and scales have, with
experts those of experts that have tokens. bf16 is torch.matmul and torch._grouped_mm on weights of 16 bits, FP8 torch._scaled_mm with
one scale and fast sums. Before it is timed, ours is compared in every bit with a product in fp64 on data whose sums are exact.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import pathlib
import re
import statistics
import sys
import time
import traceback

from mixed_products import CHAIN_TOKENS, EXPERT_SIZES, EXPERT_TOKENS, MXFP8_TOKENS, TOKENS, times_mxfp4


def rows():
    """Of each row its name, that of its function in mixed_rows.py, and what this takes."""
    for (n, k), counts in TOKENS.items():
        for tokens in counts:
            yield f"dense {n} {k} {tokens}", "dense", (n, k, tokens, "i4")
            if times_mxfp4(tokens):
                yield f"dense {n} {k} {tokens} mxfp4", "dense", (n, k, tokens, "mxfp4")
            if tokens in MXFP8_TOKENS:
                yield f"dense {n} {k} {tokens} mxfp8", "dense", (n, k, tokens, "mxfp8")
    for n, k in TOKENS:
        for tokens in CHAIN_TOKENS:
            for form in ("i4", "mxfp4"):
                yield f"chain {n} {k} {tokens} {form}", "chain", (n, k, tokens, form)
    for n, k, experts in EXPERT_SIZES:
        for tokens in EXPERT_TOKENS:
            for form in ("i4-32", "mxfp4"):
                yield f"experts {n} {k} {experts} {tokens} {form}", "experts", (n, k, experts, tokens, form)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundles", nargs="?", help="their folder")
    parser.add_argument("out", nargs="?", help="a JSON file of the rows")
    parser.add_argument("--only", default="", help="a regular expression: rows that it is found in")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no other row begins")
    parser.add_argument("--warm", action="store_true", help="let humming compile its kernels, and do nothing else")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and do nothing")
    options = parser.parse_args()
    chosen = [row for row in rows() if re.search(options.only, row[0])]
    if options.list:
        print(*(name for name, *_ in chosen), sep="\n")
        return 0
    if not options.bundles:
        parser.error("name the folder of the bundles")
    import mixed_rows  # which needs PyTorch, and rows() does not

    run, found, failed, begin = mixed_rows.Run(options.bundles), [], 0, time.monotonic()
    for name, function, arguments in chosen:
        if time.monotonic() - begin > options.seconds:
            print("no time for", name)
            continue
        try:
            if options.warm:
                mixed_rows.warm(function, *arguments)
                continue
            found.append({"row": name, "us": getattr(mixed_rows, function)(run, *arguments)})
        except Exception:  # the rows that follow say more than none
            failed += 1
            print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
            continue
        print(name, {what: round(us, 1) for what, us in found[-1]["us"].items()}, flush=True)
        if options.out:
            pathlib.Path(options.out).write_text(json.dumps(found, indent=1))
    for kind in dict.fromkeys(row["row"].split()[0] for row in found):
        for other in ("humming", "bf16", "fp8", "copy", "mixed_mm, in order"):
            ratios = [row["us"][other] / row["us"]["mixed_mm"] for row in found if row["row"].startswith(kind) and other in row["us"]]
            if ratios:
                print(f"{kind}, {other} to mixed_mm: {statistics.geometric_mean(ratios):.3f} (least {min(ratios):.3f})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
