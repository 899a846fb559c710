"""Operands of grouped products, and the products as functions: ours, PyTorch's and DeepGEMM's.

What compare_torch.py compares; product_rows.py says how.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from launch_from_pytorch import Bundle  # noqa: E402
from products import SUMS  # noqa: E402
from torch_timing import captured, group_ends  # noqa: E402

FP8, BF16 = torch.float8_e4m3fn, torch.bfloat16


class Run:
    """What all tasks share: bundles, and the rows so far; whether clocks are read."""

    def __init__(self, folder, clocks):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.manual_seed(1)
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


# ---- MX blocks ----


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
