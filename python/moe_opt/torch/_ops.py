"""The ops moe_opt::* of torch: schemas, kernels for CUDA and CPU, fake kernels and gradients.

They are registered through torch.library.Library, whose ops cost less at each call than decorated ones. Every op is functional: it
writes new tensors only.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import functools
from typing import Callable, Optional

import torch
from torch import Tensor

from moe_opt import _bundles
from moe_opt.torch._functions import DTYPES, Function

_dispatch_modes, _function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_transform = torch._C._functorch.peek_interpreter_stack

LIBRARY = torch.library.Library("moe_opt", "DEF")
RECIPES = ("fp8_rowwise", "fp8_tensorwise")
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def check_recipe(recipe: str) -> None:
    if recipe not in RECIPES:
        raise ValueError(f"recipe is {recipe!r}; it must be one of {', '.join(RECIPES)}")


def define(schema: str, kernel: Callable, fake: Callable) -> None:
    """An op with one kernel for all devices and one for tensors without data."""
    name = schema[: schema.index("(")]
    LIBRARY.define(schema, tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag))
    for key in ("CUDA", "CPU"):
        LIBRARY.impl(name, kernel, key)
    torch.library.register_fake(f"moe_opt::{name}", fake, lib=LIBRARY)


@functools.lru_cache(maxsize=None)
def function(op: str, kind: str, attributes: tuple, operands: tuple, results: tuple, orders: tuple = ()) -> Function:
    """The function of the bundle of an op: attributes and orders are pairs, operands (element type, rank), results element types."""
    bundle, name = _bundles.find(op, dict(attributes), operands, results, kind, dict(orders))
    # A scale of all tokens covers those of no group too. Were they left as they are, what one layer leaves there would be the next one's.
    cleared = ("recipe", "fp8_tensorwise") in attributes
    return Function(bundle, name, saving=kind == "forward", cleared=cleared)


def _kinds(*tensors: Optional[Tensor]) -> tuple:
    """Element types and ranks of those that are there."""
    return tuple((_NAMES.get(tensor.dtype, str(tensor.dtype)), tensor.dim()) for tensor in tensors if tensor is not None)


# ---- Products of bf16 tensors, with gradients ----

_GROUPED_MM = "scaled_grouped_mm.grouped_mm"


@functools.lru_cache(maxsize=None)
def grouped_mm_function(kind: str, recipe: str, swapped: bool) -> Function:
    """The function of a recipe that is `kind`: call, forward or backward. swapped: b (E, K, N) lies in memory as (E, N, K)."""
    check_recipe(recipe)
    operands = (("bf16", 2), ("bf16", 3), ("i32", 1))
    orders = (("b", (0, 2, 1) if swapped else (0, 1, 2)),)
    return function(_GROUPED_MM, kind, (("recipe", recipe),), operands, ("bf16",), orders)


def arranged(b: Tensor) -> tuple[Tensor, bool]:
    """b (E, K, N) as kernels read it, and whether it lies in memory as (E, N, K), as the weights of most networks do. Where it lies neither
    so nor as (E, K, N), a copy."""
    rows = b.transpose(1, 2)
    if rows.is_contiguous():
        return b, True
    return (b, False) if b.is_contiguous() else (rows.contiguous().transpose(1, 2), True)


def _grouped_mm(a: Tensor, b: Tensor, offs: Tensor, recipe: str) -> Tensor:
    b, swapped = arranged(b)
    return grouped_mm_function("call", recipe, swapped)(a.contiguous(), b, offs)[0]


def _grouped_mm_fake(a: Tensor, b: Tensor, offs: Tensor, recipe: str) -> Tensor:
    return a.new_empty((a.shape[0], b.shape[2]))


def _forward(a: Tensor, b: Tensor, offs: Tensor, recipe: str) -> tuple[Tensor, ...]:
    b, swapped = arranged(b)
    return grouped_mm_function("forward", recipe, swapped)(a.contiguous(), b, offs)


def _forward_fake(a: Tensor, b: Tensor, offs: Tensor, recipe: str) -> tuple[Tensor, ...]:
    b, swapped = arranged(b)
    return grouped_mm_function("forward", recipe, swapped).empty(a, b, offs)


def _backward_function(recipe: str, b_q: Tensor) -> tuple[Function, bool]:
    """The function for the gradient, and whether it gives that of b as (E, N, K). What was saved of b lies in memory as b does."""
    swapped = not b_q.is_contiguous()
    found = grouped_mm_function("backward", recipe, swapped)
    return found, swapped and found.description["results"][1]["order"] == [0, 1, 2]


def _backward(offs, a_q, a_scales, b_q, b_scales, grad_out, recipe):
    run, is_turned = _backward_function(recipe, b_q)
    grad_a, grad_b = run(offs, a_q, a_scales, b_q, b_scales, grad_out.contiguous())
    return grad_a, grad_b.transpose(1, 2) if is_turned else grad_b


def _backward_fake(offs, a_q, a_scales, b_q, b_scales, grad_out, recipe):
    run, is_turned = _backward_function(recipe, b_q)
    grad_a, grad_b = run.empty(offs, a_q, a_scales, b_q, b_scales, grad_out)
    return grad_a, grad_b.transpose(1, 2) if is_turned else grad_b


define("grouped_mm(Tensor a, Tensor b, Tensor offs, str recipe) -> Tensor", _grouped_mm, _grouped_mm_fake)
define(
    "grouped_mm_forward(Tensor a, Tensor b, Tensor offs, str recipe)"
    " -> (Tensor out, Tensor a_q, Tensor a_scales, Tensor b_q, Tensor b_scales)",
    _forward,
    _forward_fake,
)
define(
    "grouped_mm_backward(Tensor offs, Tensor a_q, Tensor a_scales, Tensor b_q, Tensor b_scales, Tensor grad_out, str recipe)"
    " -> (Tensor grad_a, Tensor grad_b)",
    _backward,
    _backward_fake,
)


def _save(ctx, inputs, output) -> None:
    _, _, offs, recipe = inputs
    _, *saved = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*saved)
    ctx.save_for_backward(offs, *saved)
    ctx.recipe = recipe


def _differentiate(ctx, grad_out, *_):
    if grad_out is None:
        return None, None, None, None
    grad_a, grad_b = torch.ops.moe_opt.grouped_mm_backward.default(*ctx.saved_tensors, grad_out, ctx.recipe)
    return grad_a if ctx.needs_input_grad[0] else None, grad_b if ctx.needs_input_grad[1] else None, None, None


def _refuse(ctx, *_):
    raise NotImplementedError("moe_opt: a product by a recipe has no second derivative")


torch.library.register_autograd("moe_opt::grouped_mm_forward", _differentiate, setup_context=_save, lib=LIBRARY)
torch.library.register_autograd("moe_opt::grouped_mm_backward", _refuse, lib=LIBRARY)

# ---- The product of quantized operands ----

_PRODUCTS: dict[tuple, Function] = {}


def _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype) -> Function:
    """Looks the function up by what tells products apart; the rest is the runtime's to check."""
    key = (qa.dim(), qb.dim(), sb.dim(), accumulate, out_dtype)
    found = _PRODUCTS.get(key)
    if found is None:
        attributes = (("accumulate", accumulate),)
        found = function("scaled_grouped_mm.scaled_mm", "call", attributes, _kinds(qa, qb, sa, sb, offs), (_NAMES.get(out_dtype),))
        _PRODUCTS[key] = found
    return found


def _scaled_mm(qa, qb, sa, sb, offs=None, accumulate="fast", out_dtype=torch.bfloat16):
    found = _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype)
    return (found(qa, qb, sa, sb) if offs is None else found(qa, qb, sa, sb, offs))[0]


def scaled_mm_direct(qa, qb, sa, sb, offs, accumulate, out_dtype) -> Optional[Tensor]:
    """The product without torch's dispatcher, which takes longer than the launch. None where it has something to say: while code is
    traced, under modes and transforms, or for tensors of subclasses."""
    if (
        torch.compiler.is_compiling()
        or not type(qa) is type(qb) is type(sa) is type(sb) is type(offs) is Tensor
        or _dispatch_modes()
        or _function_modes()
        or _transform() is not None
    ):
        return None
    found = _PRODUCTS.get((qa.dim(), qb.dim(), sb.dim(), accumulate, out_dtype))
    return None if found is None else found.call(qa, qb, sa, sb, offs)[0]


def _scaled_mm_fake(qa, qb, sa, sb, offs=None, accumulate="fast", out_dtype=torch.bfloat16):
    found = _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype)
    return (found.empty(qa, qb, sa, sb) if offs is None else found.empty(qa, qb, sa, sb, offs))[0]


define(
    'scaled_mm(Tensor qa, Tensor qb, Tensor sa, Tensor sb, Tensor? offs=None, str accumulate="fast",'
    " ScalarType out_dtype=bfloat16) -> Tensor",
    _scaled_mm,
    _scaled_mm_fake,
)

# ---- Quantizers ----


def _quantizer(op: str, names: tuple[str, ...], grouped: bool) -> tuple[Callable, Callable]:
    """The kernel and the fake kernel of a quantizer: x[, offs], the attributes of these names, the element type of q."""

    def find(x, offs, values, dtype):
        found = function(op, "call", tuple(zip(names, values)), _kinds(x, offs), (_NAMES.get(dtype, str(dtype)),))
        return found, (x.contiguous(),) if offs is None else (x.contiguous(), offs)

    def kernel(x, *rest):
        offs, (*values, dtype) = (rest[0], rest[1:]) if grouped else (None, rest)
        found, arguments = find(x, offs, values, dtype)
        return found(*arguments)

    def fake(x, *rest):
        offs, (*values, dtype) = (rest[0], rest[1:]) if grouped else (None, rest)
        found, arguments = find(x, offs, values, dtype)
        return found.empty(*arguments)

    return kernel, fake


define(
    "quantize(Tensor x, int axis, str mode, ScalarType dtype) -> (Tensor q, Tensor scales)",
    *_quantizer("mx_quantize.quantize", ("axis", "mode"), False),
)
define(
    "quantize_dual(Tensor x, str mode, ScalarType dtype) -> (Tensor q, Tensor scales, Tensor q_t, Tensor scales_t)",
    *_quantizer("mx_quantize.quantize_dual", ("mode",), False),
)
define(
    "quantize_fp8(Tensor x, Tensor? offs, str granularity, int axis, bool pow2, bool sanitize, ScalarType dtype)"
    " -> (Tensor q, Tensor scales)",
    *_quantizer("mx_quantize.quantize_fp8", ("granularity", "axis", "pow2", "sanitize"), True),
)
define(
    "quantize_fp8_dual(Tensor x, Tensor? offs, bool pow2, bool sanitize, ScalarType dtype)"
    " -> (Tensor q, Tensor scales, Tensor q_t, Tensor scales_t)",
    *_quantizer("mx_quantize.quantize_fp8_dual", ("pow2", "sanitize"), True),
)
