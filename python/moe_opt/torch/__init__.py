"""PyTorch over moe-opt's kernels: grouped products with gradients, quantizers, and experts of a model converted in place.

    import moe_opt.torch as moe

    y = moe.grouped_mm(tokens, weights.transpose(1, 2), offs)  # bf16 in and out, FP8 inside; differentiable

Tensors on a CUDA device run there, on the current stream, and never make the host wait. Tensors on the CPU run on the emulator, which
is slow and exact: for tests. Every function is an op of torch (torch.ops.moe_opt), so that torch.compile, CUDA graphs and activation
checkpointing take it. Shapes: M tokens, E experts, K and N the sizes of a layer, multiples of 16, of 32 for mxfp8.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

from typing import Callable, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad as _forward_ad

from moe_opt import _arguments
from moe_opt._recipes import RECIPES
from moe_opt.torch._ops import DIRECT_PRODUCTS, needs_gradient, refuse_derivatives, require_one_device, require_tensors, require_types
from moe_opt.torch._convert import convert_experts_
from moe_opt.torch._mixed import MixedWeights, load_mixed_weights, mixed_mm, pack_mixed_weights

__all__ = [
    "MixedWeights", "RECIPES", "Quantized", "QuantizedDual", "convert_experts_", "grouped_mm", "load_mixed_weights", "mixed_mm",
    "pack_mixed_weights", "quantize_fp8", "quantize_fp8_dual", "quantize_mx", "quantize_mx_dual", "scaled_grouped_mm",
    "to_fp8_rowwise_then_scaled_grouped_mm",
]  # fmt: skip

_OPS = torch.ops.moe_opt
_is_compiling, _dispatch_modes, _function_modes = torch.compiler.is_compiling, torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_transform = torch._C._functorch.peek_interpreter_stack
_GROUPED_MM, _SCALED_MM, _SCALED_MM_RECORDED = _OPS.grouped_mm.default, _OPS.scaled_mm.default, _OPS.scaled_mm_recorded.default
# By which of a and b have gradients.
_GROUPED_MM_FORWARD = {
    (True, True): _OPS.grouped_mm_forward.default,
    (True, False): _OPS.grouped_mm_forward_a.default,
    (False, True): _OPS.grouped_mm_forward_b.default,
}


class Quantized(NamedTuple):
    """An eight-bit tensor and its scales."""

    q: Tensor
    scales: Tensor


class QuantizedDual(NamedTuple):
    """A tensor quantized along its last dimension (q, scales) and along the one before (q_t, scales_t), from one read."""

    q: Tensor
    scales: Tensor
    q_t: Tensor
    scales_t: Tensor


def grouped_mm(a: Tensor, b: Tensor, offs: Tensor, recipe: str = "fp8_rowwise") -> Tensor:
    """The product of each group of tokens with its expert's weights, quantized on the way; differentiable in a and b.

    a: (M, K) bf16, tokens in the order of their experts.
    b: (E, K, N) bf16, contiguous, or w.transpose(1, 2) of contiguous weights w (E, N, K). Any other b is copied first.
    offs: (E) int32 on the same device: group e is the rows offs[e-1] to offs[e] - 1 of a. Groups may have any size, 0 too. Rows from
       offs[E-1] on are in no group. They are ignored, and the result and the gradient of a are undefined there. But with
       fp8_tensorwise the scale of all rows covers them, and the result and the gradient are zero there.
    recipe: how operands are quantized, of the product and of both products of the gradient: one of RECIPES. fp8_tensorwise takes NaN as 0 and
       Inf as the greatest bf16.

    Returns (M, N) bf16. For the gradient of a a copy of b is kept, for that of b one of a, and neither a nor b: FP8 copies, with mxfp8 bf16 ones.
    Raises TypeError for what is no tensor, ValueError where shapes or types do not fit, MoeError for what the device reports.
    """
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and isinstance(offs, Tensor)):
        require_tensors(a=a, b=b, offs=offs)
    _arguments.check_product(a, b, offs, recipe, torch.bfloat16, torch.int32)
    refuse_derivatives("grouped_mm", a, b)
    wants = needs_gradient(a), needs_gradient(b)
    return _GROUPED_MM_FORWARD[wants](a, b, offs, recipe)[0] if any(wants) else _GROUPED_MM(a, b, offs, recipe)


def to_fp8_rowwise_then_scaled_grouped_mm(
    A: Tensor,
    B_t: Tensor,
    offs: Tensor,
    out_dtype: Optional[torch.dtype] = torch.bfloat16,
    float8_dtype: torch.dtype = torch.float8_e4m3fn,
    pad_token_groups_for_grouped_mm: bool = True,
) -> Tensor:
    """torchao's _to_fp8_rowwise_then_scaled_grouped_mm, with the same arguments: grouped_mm(A, B_t, offs, "fp8_rowwise").

    Groups may have any size, so pad_token_groups_for_grouped_mm changes nothing. A and B_t may be fp32; they are rounded to bf16
    first. The only float8_dtype is torch.float8_e4m3fn.

    Returns (M, N) of out_dtype. Raises what grouped_mm raises, and ValueError for another float8_dtype.
    """
    if float8_dtype != torch.float8_e4m3fn:
        raise ValueError(f"float8_dtype is {float8_dtype}; it must be torch.float8_e4m3fn")
    require_tensors(A=A, B_t=B_t, offs=offs)
    out = grouped_mm(A.to(torch.bfloat16), B_t.to(torch.bfloat16), offs, "fp8_rowwise")
    return out if out_dtype is None else out.to(out_dtype)


def scaled_grouped_mm(
    qa: Tensor,
    qb: Tensor,
    sa: Tensor,
    sb: Tensor,
    offs: Optional[Tensor] = None,
    accumulate: str = "fast",
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """The product of operands that are FP8 (E4M3) already, times their scales, fp32 or those of MX blocks. Not differentiable.

    | case            | qa        | qb        | sa          | sb          | offs | result    |
    | forward         | (M, K)    | (E, K, N) | (M)         | (E, N)      | (E)  | (M, N)    |
    | weight gradient | (N, M)    | (M, K)    | (E, N)      | (E, K)      | (E)  | (E, N, K) |
    | batched         | (E, M, K) | (E, K, N) | (E, M)      | (E, N)      | none | (E, M, N) |

    With scales sb of (E), one for an expert, sa is (1), (E) and (E). Scales of MX blocks, float8_e8m0fnu: sa (M, K/32), of the weight
    gradient (blocks, N), batched (E, M, K/32); sb (E, K/32, N), which may lie in memory as (E, N, K/32), of the weight gradient (blocks, K).
    They are as `quantize_mx` gives them. With them "fast" allocates, depending on the sizes, a temporary copy of the tokens, or of both operands,
    in 16 bits. Scales of FP8 blocks, fp32, forward: sa (M, K/128), of 1x128, as `quantize_fp8` gives them; sb (E, K/128, N/128), of 128x128,
    which lies in memory as (E, N/128, K/128), as checkpoints have it. Sums are promoted then. Such scales in another order are copied first.
    The last two dimensions of qb are swapped in memory, all else is row-major. accumulate: "fast" or "promoted" (sums over 128 are added in
    fp32). out_dtype: bf16, f16 or fp32.
    Do not pass operands that were quantized with align: their groups begin at padded rows, which this function cannot see.

    Raises TypeError for what is no tensor, NotFound for a case that has no kernels, and InvalidArgument, a ValueError, for tensors that do not
    fit.
    """
    # torch's dispatcher takes as long as the launch. It is asked where it has something to say: while code is traced, for tensors of
    # subclasses or without data, under modes and transforms.
    if not (
        _is_compiling()
        or not (type(qa) is type(qb) is type(sa) is type(sb) is type(offs) is Tensor)
        or qa.is_meta
        or sa.is_neg()  # a view that stands for -sa, which only the dispatcher makes
        or sb.is_neg()
        or _dispatch_modes()
        or _function_modes()
        or _transform()
        or _forward_ad._current_level >= 0
        or (torch.is_grad_enabled() and (qa.requires_grad or qb.requires_grad or sa.requires_grad or sb.requires_grad))
    ):
        direct = DIRECT_PRODUCTS.get((qa.dim(), qa.dtype, qb.dim(), qb.dtype, sa.dtype, sb.dim(), sb.dtype, accumulate, out_dtype))
        if direct is not None:
            try:
                return direct(qa, qb, sa, sb, offs)
            except RuntimeError:  # torch's own, for a tensor without data among others
                require_one_device(qa, qb, sa, sb, offs)
                raise
    require_tensors(qa=qa, qb=qb, sa=sa, sb=sb, **({} if offs is None else {"offs": offs}))
    require_types(out_dtype=out_dtype, accumulate=accumulate)
    refuse_derivatives("scaled_grouped_mm", qa, qb, sa, sb)
    return (_SCALED_MM_RECORDED if needs_gradient(qa, qb, sa, sb) else _SCALED_MM)(qa, qb, sa, sb, offs, accumulate, out_dtype)


# The ops of quantizers by function, and whether a gradient may be asked for.
_QUANTIZERS = {
    name: (getattr(_OPS, op).default, getattr(_OPS, f"{op}_recorded").default)
    for name, op in (("quantize_mx", "quantize"), ("quantize_mx_dual", "quantize_dual"), ("quantize_fp8", "quantize_fp8"), ("quantize_fp8_dual", "quantize_fp8_dual"))
}


def _quantizer(name: str, x: Tensor, offs: Optional[Tensor] = None) -> Callable[..., tuple[Tensor, ...]]:
    """The op of a quantizer for x."""
    if offs is not None:
        require_tensors(offs=offs)
    refuse_derivatives(name, x)
    op, recorded = _QUANTIZERS[name]
    return recorded if needs_gradient(x) else op


def quantize_mx(
    x: Tensor,
    axis: int = -1,
    dtype: torch.dtype = torch.float8_e4m3fn,
    mode: str = "rceil",
    offs: Optional[Tensor] = None,
    align: Optional[int] = None,
) -> Quantized:
    """MXFP8: 32 elements along `axis` share a scale that is a power of two (E8M0).

    x: (M, K) or (E, N, K), bf16 or fp32, contiguous or copied; axis: the last dimension or the one before, a multiple of 32 long.
    mode: how a scale follows from the largest element: rceil, floor, ceil or even (docs/numerics.md).
    offs: (E) int32, ends of groups of tokens (M, K) along M, of any size, from whose starts blocks are counted.
    align: 128, with offs and mode rceil: each group begins at a multiple of 128 rows of q (docs/numerics.md), with zeros behind its last one.

    Returns q of x's shape, with the last two dimensions swapped in memory where axis is not the last, and scales of x's shape with
    that dimension divided by 32. With offs, block j of group g has row offs[g-1] // 32 + g + j of the scales, and what is of no group is not
    written: of the scales, and of q, which has room up to a multiple of 128 rows.
    Raises TypeError for what is no tensor, NotFound for types or attributes that have no kernels, and InvalidArgument, a ValueError, for
    shapes that do not fit.
    """
    require_tensors(x=x)
    axis = _arguments.axis_of(x, axis)
    require_types(dtype=dtype, mode=mode)
    return Quantized(*_quantizer("quantize_mx", x, offs)(x, offs, axis, mode, align, dtype))


def quantize_mx_dual(x: Tensor, dtype: torch.dtype = torch.float8_e4m3fn, mode: str = "rceil") -> QuantizedDual:
    """quantize_mx along both of the last two dimensions of x, which is read once; raises what it raises."""
    require_tensors(x=x)
    require_types(dtype=dtype, mode=mode)
    return QuantizedDual(*_quantizer("quantize_mx_dual", x)(x, mode, dtype))


def quantize_fp8(
    x: Tensor,
    granularity: str = "row",
    axis: int = -1,
    offs: Optional[Tensor] = None,
    dtype: torch.dtype = torch.float8_e4m3fn,
    pow2: bool = True,
    sanitize: bool = False,
    align: Optional[int] = None,
) -> Quantized:
    """FP8 with fp32 scales.

    x: (M, K) or (E, N, K), bf16 or fp32, K a multiple of 8 of bf16 and of 4 of fp32, of 16 where columns or several rows share a scale
       (docs/support.md). granularity: what shares a scale: row, tensor, expert, group, 1x128 or 128x128. Rows run along
    `axis`; with offs (E) int32 their pieces within a group do. pow2: scales are powers of two. sanitize: NaN and Inf are replaced.

    Returns q of x's shape, with the last two dimensions swapped in memory where axis is not the last, and the scales that multiply q.
    Tokens (M, K) quantized along M by groups have room behind the last one, up to a multiple of 128 rows, which is not written. With align,
    which is 128, for rows, each group begins at a multiple of 128 rows of q, as in quantize_mx.
    docs/dialects/mx_quantize.md has the shapes; scales of 1x128 blocks lie with the rows side by side, as scaled_grouped_mm reads them. Raises what
    quantize_mx raises.
    """
    require_tensors(x=x)
    axis = _arguments.axis_of(x, axis)
    require_types(dtype=dtype, granularity=granularity)
    return Quantized(*_quantizer("quantize_fp8", x, offs)(x, offs, granularity, axis, pow2, sanitize, align, dtype))


def quantize_fp8_dual(
    x: Tensor,
    offs: Optional[Tensor] = None,
    dtype: torch.dtype = torch.float8_e4m3fn,
    pow2: bool = True,
    sanitize: bool = False,
    align: Optional[int] = None,
) -> QuantizedDual:
    """quantize_fp8 by rows along both of the last two dimensions of x; of tokens (M, K) the columns are cut by groups, and offs is needed.
    align: that of q_t. Raises what quantize_mx raises."""
    require_tensors(x=x)
    require_types(dtype=dtype)
    return QuantizedDual(*_quantizer("quantize_fp8_dual", x, offs)(x, offs, pow2, sanitize, align, dtype))
