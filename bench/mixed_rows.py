"""The rows of compare_torch_mixed.py: products of four-bit weights and of others, which are checked and timed.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import functools
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from launch_from_pytorch import Bundle  # noqa: E402
from mixed_products import EXPERTS_OF_TOKEN, packer_of  # noqa: E402
from torch_timing import DEVICE, clearing_l2, times  # noqa: E402

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
DENSE_GROUP, EXPERT_GROUP = 64, 32
ROUNDS, ROUNDS_OF_MANY_TOKENS = 21, 9
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
COPY_SHIFT = 5 << 20  # bytes
LAYERS_BYTES, LEAST_LAYERS = 240 << 20, 4  # of a chain: weights of four times as many bytes as L2 has
ORDER_1X16 = [p // 2 + 8 * (p % 2) for p in range(16)]
LIKE_BF16 = 0.2  # the largest part of the norm that humming's result, of weights that it rounds to four bits, differs by


class Run:
    """What all rows share: bundles, and how L2 is cleared."""

    def __init__(self, folder):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.manual_seed(1)
        self.folder, self.clear = pathlib.Path(folder), clearing_l2()

    @functools.lru_cache
    def bundle(self, name, overlap=False):
        return Bundle(self.folder / name, overlap)

    def pack(self, weights, form="i4"):
        """weights (N, K / 2) uint8, two four-bit weights each, or (N, K) FP8: packed, in the layout of this format."""
        if form == "mxfp8":
            return weights.view(torch.uint8).unflatten(-1, (-1, 16))[..., ORDER_1X16].flatten(-2).view(FP8)
        return self.bundle(packer_of(form))(weights)[0]


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


def exact(run, n, k, tokens, form, group, ends=None):
    """Operands of a product whose sums are exact, and its result, fp32. ends: of the groups of tokens of experts, which have the same weights
    and other scales."""
    weights = torch.randint(-8, 9, (n, k), device=DEVICE).to(FP8) if form == "mxfp8" else random_weights(n, k // 2)
    groups = [tokens] if ends is None else ends.tolist()
    powers = torch.randint(-3, 3, (len(groups), k // group, n), device=DEVICE)
    integers = torch.randint(-2, 3, (tokens, k), device=DEVICE).to(BF16)
    packed, scales = run.pack(weights, form), stored_scales(powers, form).transpose(1, 2)
    numbers, expected, start = values(weights, form), torch.zeros(tokens, n, device=DEVICE), 0
    for end, power in zip(groups, powers, strict=True):
        if end > start:
            scaled = numbers * power.t().float().exp2().repeat_interleave(group, 1)
            expected[start:end] = (integers[start:end].double() @ scaled.double().t()).float()
        start = end
    if ends is None:
        return (packed, scales[0], integers), expected
    return (packed[None].repeat(len(groups), *[1] * packed.dim()), scales, integers, ends), expected


def copies(size):
    """Copies that move `size` bytes, read and written. There are two, to targets that lie differently to the source: a copy can take 1.5
    times as long where both lie in the same banks of memory."""
    source, near = (torch.empty(size // 2, dtype=torch.uint8, device=DEVICE) for _ in range(2))
    far = torch.empty(size // 2 + COPY_SHIFT, dtype=torch.uint8, device=DEVICE)[COPY_SHIFT:]
    return {"copy": lambda: near.copy_(source), "copy, shifted": lambda: far.copy_(source)}


def new_humming_layer(n, k):
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


humming_layer = functools.lru_cache(maxsize=1)(new_humming_layer)


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


def dense(run, n, k, tokens, form):
    name, group = f"mixed-at-{n}x{k}-{tokens}", DENSE_GROUP if form == "i4" else EXPERT_GROUP
    product = run.bundle(name if form == "i4" else f"{name}-{form}")
    (packed, scales, integers), expected = exact(run, n, k, tokens, form, group)
    equal(product(packed, scales, integers)[0], expected, name)
    if form == "i4":
        scales = (torch.rand(k // group, n, device=DEVICE) + 0.1).to(BF16).t()
    x, bf16 = torch.randn(tokens, k, device=DEVICE).to(BF16), torch.randn(n, k, device=DEVICE).to(BF16)
    x8, fp8, one = torch.randn(max(16, tokens), k, device=DEVICE).to(FP8), bf16.to(FP8), torch.ones((), device=DEVICE)  # of 16 rows at least
    return timed(run, {
        "mixed_mm": lambda: product(packed, scales, x),
        **(humming(n, k, x) if form == "i4" else {}),
        "bf16": lambda: torch.matmul(x, bf16.t()),
        "fp8": lambda: torch._scaled_mm(x8, fp8.t(), scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True),
        **copies(packed.numel() + scales.element_size() * scales.numel()),
    }, tokens)  # fmt: skip


def chain(run, n, k, tokens, form):
    """Layers one after the other, as many as L2 does not hold: microseconds of one."""
    name, group = f"mixed-at-{n}x{k}-{tokens}" + ("" if form == "i4" else f"-{form}"), DENSE_GROUP if form == "i4" else EXPERT_GROUP
    products = {"mixed_mm": run.bundle(name, True), "mixed_mm, in order": run.bundle(name)}
    (packed, scales, integers), expected = exact(run, n, k, tokens, form, group)
    count = max(LEAST_LAYERS, -(-LAYERS_BYTES // packed.numel()))
    layers = [(packed.clone(), scales.clone()) for _ in range(count)]
    torch.cuda.synchronize()  # so that weights are constant
    for product in products.values():
        for result in [product(w, s, integers)[0] for w, s in layers]:
            equal(result, expected, name)
    x = torch.randn(tokens, k, device=DEVICE).to(BF16)
    calls = {what: lambda product=product: [product(w, s, x) for w, s in layers] for what, product in products.items()}
    if form == "i4":
        humming(n, k, x)  # is right
        own = [found[0] for found in (new_humming_layer(n, k) for _ in range(count)) if found]
        bf16 = [torch.randn(n, k, device=DEVICE).to(BF16).t() for _ in range(count)]
        x8, fp8, one = torch.randn(max(16, tokens), k, device=DEVICE).to(FP8), [w.to(FP8) for w in bf16], torch.ones((), device=DEVICE)
        calls |= {"humming": lambda: [layer(x) for layer in own]} if own else {}
        calls |= {
            "bf16": lambda: [torch.matmul(x, w) for w in bf16],
            "fp8": lambda: [torch._scaled_mm(x8, w, scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True) for w in fp8],
        }
    return {what: 1e6 * seconds / count for what, seconds in zip(calls, times(list(calls.values()), run.clear, ROUNDS), strict=True)}


def routed(tokens, experts):
    """The ends of the groups of tokens of experts that are drawn at random for each token, and how many have tokens."""
    generator = torch.Generator().manual_seed(tokens)
    drawn = torch.cat([torch.randperm(experts, generator=generator)[:EXPERTS_OF_TOKEN] for _ in range(tokens)])
    sizes = torch.bincount(drawn, minlength=experts)
    return sizes.cumsum(0).to(torch.int32).to(DEVICE), int((sizes > 0).sum())


def experts(run, n, k, count, tokens, form):
    name = f"experts-at-{n}x{k}-{tokens}-{form}"
    product, m = run.bundle(f"mixed-{name}"), tokens * EXPERTS_OF_TOKEN
    ends, touched = routed(tokens, count)
    (packed, scales, integers, _), expected = exact(run, n, k, m, form, EXPERT_GROUP, ends)
    equal(product(packed, scales, integers, ends)[0], expected, name)
    x, bf16 = torch.randn(m, k, device=DEVICE).to(BF16), torch.randn(count, n, k, device=DEVICE, dtype=BF16)
    return timed(run, {
        "mixed_mm": lambda: product(packed, scales, x, ends),
        "bf16": lambda: torch._grouped_mm(x, bf16.transpose(1, 2), offs=ends),
        **copies(touched * n * (k // 2 + k // EXPERT_GROUP * scales.element_size())),
    }, tokens) | {"touched": touched}  # fmt: skip


def warm(function, *arguments):
    """Lets humming compile its kernels for a row of this function and arguments."""
    if function in ("dense", "chain"):
        n, k, tokens, _ = arguments
        humming(n, k, torch.randn(tokens, k, device=DEVICE).to(BF16))
