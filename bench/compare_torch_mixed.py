#!/usr/bin/env python3
"""Products of four-bit weights beside bf16, FP8 and humming, in one process: correctness, then microseconds.

    bench/gpu compile '^mixed.*-at-|^pack-weights'                                     where LLVM is
    bench/compare_torch_mixed.py build/bundles out.json [--only PATTERN] [--seconds N]  where a Hopper GPU and PyTorch are

Where the wheel humming-kernels is there, humming is a candidate too. It compiles its kernels when they are called first, which takes long:
--warm does that for the rows that --only takes, and nothing else, so that many processes can share the work.

Rows have names, such as "dense 3584 8192 16" (N, K, tokens), "dense 3584 8192 1024 mxfp4", "dense 3584 8192 16 mxfp8" and "experts 4096 2048 256 16 mxfp4" (N, K, experts, tokens, format);
--list prints them, --only takes those that a regular expression is found in. After --seconds no other row begins. One that fails is
reported and the others go on; the exit code is 1 then.

Random data. Each candidate is a CUDA graph of one call, timed by an event before and one behind it; candidates take turns, each round in another
order, L2 is cleared before each, and figures are medians. `copy` is the faster of two device copies that move as many bytes as weights and scales have, with
experts those of experts that have tokens. bf16 is torch.matmul and torch._grouped_mm on weights of 16 bits, FP8 torch._scaled_mm with
one scale and fast sums. Before it is timed, ours is compared in every bit with a product in fp64 on data whose sums are exact.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import functools
import json
import pathlib
import re
import statistics
import sys
import time
import traceback

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from launch_from_pytorch import Bundle  # noqa: E402
from mixed_products import EXPERT_SIZES, EXPERT_TOKENS, EXPERTS_OF_TOKEN, MANY_TOKENS, MXFP8_TOKENS, TOKENS  # noqa: E402
from torch_timing import DEVICE, clearing_l2, times  # noqa: E402

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
DENSE_GROUP, EXPERT_GROUP = 64, 32
ROUNDS, ROUNDS_OF_MANY_TOKENS = 21, 9
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
COPY_SHIFT = 5 << 20  # bytes
ORDER_1X16 = [p // 2 + 8 * (p % 2) for p in range(16)]
LIKE_BF16 = 0.2  # the largest part of the norm that humming's result, of weights that it rounds to four bits, differs by


def rows():
    """(name, function of a Run) of each row."""
    for (n, k), counts in TOKENS.items():
        for tokens in counts:
            yield f"dense {n} {k} {tokens}", functools.partial(dense, n, k, tokens, "i4")
            if tokens >= MANY_TOKENS:
                yield f"dense {n} {k} {tokens} mxfp4", functools.partial(dense, n, k, tokens, "mxfp4")
            if tokens in MXFP8_TOKENS:
                yield f"dense {n} {k} {tokens} mxfp8", functools.partial(dense, n, k, tokens, "mxfp8")
    for n, k, experts in EXPERT_SIZES:
        for tokens in EXPERT_TOKENS:
            for form in ("i4-32", "mxfp4"):
                yield f"experts {n} {k} {experts} {tokens} {form}", functools.partial(experts_row, n, k, experts, tokens, form)


class Run:
    """What all rows share: bundles, and how L2 is cleared."""

    def __init__(self, folder):
        self.folder, self.clear = pathlib.Path(folder), clearing_l2()

    @functools.lru_cache
    def bundle(self, name):
        return Bundle(self.folder / name)

    def pack(self, weights, form="i4"):
        """weights (N, K / 2) uint8, two four-bit weights each, or (N, K) FP8: packed, in the layout of this format."""
        if form == "mxfp8":
            return weights.view(torch.uint8).unflatten(-1, (-1, 16))[..., ORDER_1X16].flatten(-2).view(FP8)
        return self.bundle("pack-weights-e2m1" if form == "mxfp4" else "pack-weights")(weights)[0]


def values(weights, form):
    """The weights (..., K / 2) uint8, or FP8 (..., K), as fp32 (..., K)."""
    if form == "mxfp8":
        return weights.float()
    codes = torch.stack([weights & 15, weights >> 4], -1).flatten(-2).long()
    table = E2M1 + tuple(-v for v in E2M1) if form == "mxfp4" else tuple(range(8)) + tuple(range(-8, 0))
    return torch.tensor(table, dtype=torch.float32, device=DEVICE)[codes]


def stored_scales(powers, form):
    """2^powers in the type that scales of this format have."""
    return (powers + 127).to(torch.uint8).view(torch.float8_e8m0fnu) if form.startswith("mxfp") else powers.float().exp2().to(BF16)


def random_weights(*shape):
    return torch.randint(0, 256, shape, device=DEVICE, dtype=torch.uint8)


def copies(size):
    """Copies that move `size` bytes, read and written. There are two, to targets that lie differently to the source: a copy can take 1.5
    times as long where both lie in the same banks of memory."""
    source, near = (torch.empty(size // 2, dtype=torch.uint8, device=DEVICE) for _ in range(2))
    far = torch.empty(size // 2 + COPY_SHIFT, dtype=torch.uint8, device=DEVICE)[COPY_SHIFT:]
    return {"copy": lambda: near.copy_(source), "copy, shifted": lambda: far.copy_(source)}


@functools.lru_cache(maxsize=1)
def humming_layer(n, k):
    """humming's layer of (N, K) weights in four bits, and the bf16 weights that it rounded; None where it is not installed."""
    try:
        from humming.layer import HummingLayer
    except ImportError:
        return None
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config={"dtype": "int4", "group_size": DENSE_GROUP}, torch_dtype=BF16).cuda()
    weights = torch.randn(n, k, dtype=BF16, device=DEVICE)
    layer.load_from_unquantized(weights)
    layer.transform()
    return layer, weights


def humming(n, k, x):
    """humming as a candidate, once its result has been seen to be like that of bf16."""
    found = humming_layer(n, k)
    if not found:
        return {}
    layer, weights = found
    expected = x.float() @ weights.float().t()
    different = (layer(x).float() - expected).norm() / expected.norm()
    if not different < LIKE_BF16:
        raise AssertionError(f"humming's result differs from that of bf16 by {different:.3f} of its norm")
    return {"humming": lambda: layer(x)}


def equal(result, expected, name):
    wrong = int((result.view(torch.int16) != expected.to(BF16).view(torch.int16)).sum())
    if wrong:
        raise AssertionError(f"{name}: {wrong} of {result.numel()} results are wrong")


def timed(run, candidates, tokens):
    seconds = times(list(candidates.values()), run.clear, ROUNDS if tokens < 1024 else ROUNDS_OF_MANY_TOKENS)
    found = {name: 1e6 * second for name, second in zip(candidates, seconds, strict=True)}
    return found | {"copy": min(found["copy"], found.pop("copy, shifted"))}


def dense(n, k, tokens, form, run):
    name, group = f"mixed-at-{n}x{k}-{tokens}", DENSE_GROUP if form == "i4" else EXPERT_GROUP
    product = run.bundle(name if form == "i4" else f"{name}-{form}")
    weights = torch.randint(-8, 9, (n, k), device=DEVICE).to(FP8) if form == "mxfp8" else random_weights(n, k // 2)
    packed = run.pack(weights, form)
    powers = torch.randint(-3, 3, (k // group, n), device=DEVICE)
    scales = stored_scales(powers, form)
    integers = torch.randint(-2, 3, (tokens, k), device=DEVICE).to(BF16)
    scaled = values(weights, form) * powers.t().float().exp2().repeat_interleave(group, 1)
    equal(product(packed, scales.t(), integers)[0], (integers.double() @ scaled.double().t()).float(), name)
    del scaled
    if form == "i4":
        scales = (torch.rand(k // group, n, device=DEVICE) + 0.1).to(BF16)
    x, bf16 = torch.randn(tokens, k, device=DEVICE).to(BF16), torch.randn(n, k, device=DEVICE).to(BF16)
    x8, fp8, one = torch.randn(max(16, tokens), k, device=DEVICE).to(FP8), bf16.to(FP8), torch.ones((), device=DEVICE)  # of 16 rows at least
    return timed(run, {
        "mixed_mm": lambda: product(packed, scales.t(), x),
        **(humming(n, k, x) if form == "i4" else {}),
        "bf16": lambda: torch.matmul(x, bf16.t()),
        "fp8": lambda: torch._scaled_mm(x8, fp8.t(), scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True),
        **copies(packed.numel() + scales.element_size() * scales.numel()),
    }, tokens)  # fmt: skip


def routed(tokens, experts):
    """The ends of the groups of tokens of experts that are drawn at random for each token, and how many have tokens."""
    generator = torch.Generator().manual_seed(tokens)
    drawn = torch.cat([torch.randperm(experts, generator=generator)[:EXPERTS_OF_TOKEN] for _ in range(tokens)])
    sizes = torch.bincount(drawn, minlength=experts)
    return sizes.cumsum(0).to(torch.int32).to(DEVICE), int((sizes > 0).sum())


def experts_row(n, k, experts, tokens, form, run):
    name = f"experts-at-{n}x{k}-{tokens}-{form}"
    product, m = run.bundle(f"mixed-{name}"), tokens * EXPERTS_OF_TOKEN
    ends, touched = routed(tokens, experts)
    first = random_weights(n, k // 2)
    packed = run.pack(first, form)[None].repeat(experts, 1, 1, 1)
    powers = torch.randint(-3, 3, (experts, k // EXPERT_GROUP, n), device=DEVICE)
    stored = stored_scales(powers, form)
    scales, integers = stored.transpose(1, 2), torch.randint(-2, 3, (m, k), device=DEVICE).to(BF16)
    result, start = product(packed, scales, integers, ends)[0], 0
    for expert, end in enumerate(ends.tolist()):
        if end > start:
            scaled = values(first, form) * powers[expert].t().float().exp2().repeat_interleave(EXPERT_GROUP, 1)
            equal(result[start:end], (integers[start:end].double() @ scaled.double().t()).float(), name)
        start = end
    x, bf16 = torch.randn(m, k, device=DEVICE).to(BF16), torch.randn(experts, n, k, device=DEVICE, dtype=BF16)
    return timed(run, {
        "mixed_mm": lambda: product(packed, scales, x, ends),
        "bf16": lambda: torch._grouped_mm(x, bf16.transpose(1, 2), offs=ends),
        **copies(touched * n * (k // 2 + k // EXPERT_GROUP * stored.element_size())),
    }, tokens) | {"touched": touched}  # fmt: skip


def warm(name):
    kind, n, k, tokens, *_ = name.split()
    if kind == "dense":
        humming(int(n), int(k), torch.randn(int(tokens), int(k), device=DEVICE).to(BF16))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundles")
    parser.add_argument("out", nargs="?", help="a JSON file of the rows")
    parser.add_argument("--only", default="", help="a regular expression: rows that it is found in")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no other row begins")
    parser.add_argument("--warm", action="store_true", help="let humming compile its kernels, and do nothing else")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and do nothing")
    options = parser.parse_args()
    chosen = [(name, row) for name, row in rows() if re.search(options.only, name)]
    if options.list:
        print(*(name for name, _ in chosen), sep="\n")
        return 0
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    run, found, failed, begin = Run(options.bundles), [], 0, time.monotonic()
    for name, row in chosen:
        if time.monotonic() - begin > options.seconds:
            print("no time for", name)
            continue
        try:
            if options.warm:
                warm(name)
                continue
            found.append({"row": name, "us": row(run)})
        except Exception:  # the rows that follow say more than none
            failed += 1
            print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
            continue
        print(name, {what: round(us, 1) for what, us in found[-1]["us"].items()}, flush=True)
        if options.out:
            pathlib.Path(options.out).write_text(json.dumps(found, indent=1))
    for other in ("humming", "bf16", "fp8", "copy"):
        ratios = [row["us"][other] / row["us"]["mixed_mm"] for row in found if other in row["us"]]
        if ratios:
            print(f"{other} to mixed_mm: {statistics.geometric_mean(ratios):.3f} (least {min(ratios):.3f})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
