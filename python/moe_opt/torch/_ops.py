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
from torch.autograd import forward_ad as _forward_ad

from moe_opt import _bundles, _mixed, _recipes
from moe_opt._library import InvalidArgument
from moe_opt.torch._functions import DTYPES, Function

LIBRARY = torch.library.Library("moe_opt", "DEF")
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
E8M0 = DTYPES["f8E8M0FNU"]


def _name(dtype: torch.dtype) -> str:
    """MLIR's name of an element type, or torch's where kernels have no such type."""
    return _NAMES.get(dtype, str(dtype))


def require_tensors(**arguments: object) -> None:
    """TypeError for what is no tensor."""
    for name, given in arguments.items():
        if not isinstance(given, Tensor):
            raise TypeError(f"{name} is of type {type(given).__name__}; it must be a torch.Tensor")


def require_types(**attributes: object) -> None:
    """TypeError for an element type that is none of torch's, and for what is no name."""
    for name, given in attributes.items():
        wanted = torch.dtype if name.endswith("dtype") else str
        if not isinstance(given, wanted):
            raise TypeError(f"{name} is {given!r}; it must be {'a torch.dtype' if wanted is torch.dtype else 'a name'}")


_functorch = torch._C._functorch
_transform = _functorch.peek_interpreter_stack


def _one(tensor: Tensor) -> Tensor:
    """The tensor that vmap has wrapped."""
    while _functorch.is_batchedtensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def _is_differentiated(tensor: Tensor) -> bool:
    """Whether torch.func.grad or its like wants a gradient of the tensor."""
    while _functorch.is_batchedtensor(tensor) or _functorch.is_gradtrackingtensor(tensor):
        if _functorch.is_gradtrackingtensor(tensor) and tensor.requires_grad:
            return True
        tensor = _functorch.get_unwrapped(tensor)
    return False


def refuse_derivatives(name: str, *operands: Optional[Tensor]) -> None:
    """NotImplementedError where forward-mode differentiation asks for a tangent of the result, or torch.func for a gradient: no op here has
    one, and torch would take it to be zero."""
    is_transformed = _transform() is not None and not torch.compiler.is_compiling()  # which reports derivatives itself
    if _forward_ad._current_level < 0 and not is_transformed:
        return
    given = [operand for operand in operands if operand is not None]
    if _forward_ad._current_level >= 0 and any(_forward_ad.unpack_dual(_one(operand)).tangent is not None for operand in given):
        raise NotImplementedError(f"moe_opt: {name} has no forward-mode derivative")
    if is_transformed and any(map(_is_differentiated, given)):
        raise NotImplementedError(f"moe_opt: {name} has no derivative by torch.func")


def needs_gradient(*operands: Optional[Tensor]) -> bool:
    """Whether autograd may ask for a gradient of one of these. A tensor that vmap has wrapped does not say so itself."""
    if not torch.is_grad_enabled():
        return False
    given = [operand for operand in operands if operand is not None]
    if any(operand.requires_grad for operand in given):
        return True
    is_transformed = _transform() is not None and not torch.compiler.is_compiling()  # whose tensors say it
    return is_transformed and any(_one(operand).requires_grad for operand in given)


def require_one_device(*tensors: object) -> None:
    """InvalidArgument where tensors, those of the arguments that are some, are on several devices."""
    devices = list(dict.fromkeys(str(tensor.device) for tensor in tensors if isinstance(tensor, Tensor)))
    if len(devices) > 1:
        raise InvalidArgument(f"tensors are on {' and '.join(devices)}; all must be on one device")


def define(schema: str, kernel: Callable, fake: Callable) -> None:
    """An op with one kernel for all devices and one for tensors without data, which torch also asks where only one of the tensors has none."""
    name = schema[: schema.index("(")]

    def checked(*arguments, **options):
        require_one_device(*arguments, *options.values())
        return fake(*arguments, **options)

    LIBRARY.define(schema, tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag))
    for key in ("CUDA", "CPU"):
        LIBRARY.impl(name, kernel, key)
    torch.library.register_fake(f"moe_opt::{name}", checked, lib=LIBRARY)


def define_without_gradient(schema: str, kernel: Callable, fake: Callable, called: str) -> None:
    """An op, and NAME_recorded, the same for operands of which one needs a gradient (`needs_gradient`): an error when it is asked for, in which
    the op is `called` so. One op for both would cost each call 6 us of the host."""
    name = schema[: schema.index("(")]

    def refuse(ctx, *_):
        raise NotImplementedError(f"moe_opt: {called} has no gradient; where none is needed, call it under torch.no_grad()")

    define(schema, kernel, fake)
    define(f"{name}_recorded{schema[len(name):]}", kernel, fake)
    torch.library.register_autograd(f"moe_opt::{name}_recorded", refuse, lib=LIBRARY)


@functools.lru_cache(maxsize=None)
def function(op: str, kind: str, attributes: tuple, operands: tuple, results: tuple, orders: tuple = (), overlap: bool = False) -> Function:
    """The function of the bundle of an op: attributes and orders are pairs, operands (element type, rank), results element types. overlap: as of
    Function."""
    bundle, name = _bundles.find(op, dict(attributes), operands, results, kind, dict(orders))
    # A scale of all tokens covers those of no group too. Were they left as they are, what one layer leaves there would be the next one's.
    # The gradient of weights has no rows of tokens.
    cleared = ("recipe", "fp8_tensorwise") in attributes and kind != "backward_b"
    return Function(bundle, name, saving=kind.startswith("forward"), cleared=cleared, overlap=overlap)


def _require(fits: bool, message: str) -> None:
    """InvalidArgument for tensors without data, of which no kernel says it."""
    if not fits:
        raise InvalidArgument(message)


def _kinds(*tensors: Optional[Tensor]) -> tuple[tuple[str, int], ...]:
    """Element types and ranks of those that are there."""
    return tuple((_name(tensor.dtype), tensor.dim()) for tensor in tensors if tensor is not None)


# ---- Products of bf16 tensors, with gradients ----

_GROUPED_MM = "scaled_grouped_mm.grouped_mm"


@functools.lru_cache(maxsize=None)
def grouped_mm_function(kind: str, recipe: str, swapped: bool) -> Function:
    """The function of a recipe that is `kind`: call, forward or backward, the latter two with _a or _b behind where only that operand has a
    gradient. swapped: b (E, K, N) lies in memory as (E, N, K)."""
    _recipes.check(recipe)
    operands = (("bf16", 2), ("bf16", 3), ("i32", 1))
    orders = (("b", (0, 2, 1) if swapped else (0, 1, 2)),)
    return function(_GROUPED_MM, kind, (("recipe", recipe),), operands, ("bf16",), orders)


def _is_swapped(b: Tensor) -> bool:
    """Whether kernels read b (E, K, N) as it lies in memory as (E, N, K), as the weights of most networks do."""
    return b.transpose(1, 2).is_contiguous() or not b.is_contiguous()


def _arranged(b: Tensor) -> tuple[Tensor, bool]:
    """b as kernels read it, and _is_swapped(b). Where it lies in neither order, a copy."""
    rows = b.transpose(1, 2)
    if rows.is_contiguous():
        return b, True
    return (b, False) if b.is_contiguous() else (rows.contiguous().transpose(1, 2), True)


def _grouped_mm(a: Tensor, b: Tensor, offs: Tensor, recipe: str) -> Tensor:
    b, swapped = _arranged(b)
    return grouped_mm_function("call", recipe, swapped)(a.contiguous(), b, offs)


def _grouped_mm_fake(a: Tensor, b: Tensor, offs: Tensor, recipe: str) -> Tensor:
    b, swapped = _arranged(b)
    return grouped_mm_function("call", recipe, swapped).fake(a, b, offs)


define("grouped_mm(Tensor a, Tensor b, Tensor offs, str recipe) -> Tensor", _grouped_mm, _grouped_mm_fake)


def _with_gradients(wanted: str, kept: str) -> None:
    """Defines the two ops of a product whose operands `wanted` have gradients. Of those in `kept` forward saves what these need: a gradient
    is a product with the other operand, quantized along another dimension. A recipe that rounds saves no scales: tensors of no elements
    take their places."""
    suffix = "" if len(wanted) == 2 else f"_{wanted}"
    saved = [f"{operand}_{what}" for operand in kept for what in ("q", "scales")]

    def with_scales(results, recipe):
        if recipe not in _recipes.ROUNDED:
            return results
        return (results[0], *(tensor for rounded in results[1:] for tensor in (rounded, rounded.new_empty(0))))

    def forward(a, b, offs, recipe):
        b, swapped = _arranged(b)
        return with_scales(grouped_mm_function(f"forward{suffix}", recipe, swapped)(a.contiguous(), b, offs), recipe)

    def forward_fake(a, b, offs, recipe):
        b, swapped = _arranged(b)
        return with_scales(grouped_mm_function(f"forward{suffix}", recipe, swapped).fake(a, b, offs), recipe)

    def turned(results, swapped):
        """The gradient of b, the last one, as b lies."""
        if not swapped or "b" not in wanted:
            return results
        return (results[0], results[1].transpose(1, 2)) if len(wanted) == 2 else results.transpose(1, 2)

    def backward(offs, *rest):
        *tensors, grad_out, recipe, swapped = rest
        tensors = tensors[::2] if recipe in _recipes.ROUNDED else tensors
        found = grouped_mm_function(f"backward{suffix}", recipe, swapped)
        run = found if grad_out.numel() else found.zeros
        return turned(run(offs, *tensors, grad_out.contiguous()), swapped)

    def backward_fake(offs, *rest):
        *tensors, grad_out, recipe, swapped = rest
        tensors = tensors[::2] if recipe in _recipes.ROUNDED else tensors
        return turned(grouped_mm_function(f"backward{suffix}", recipe, swapped).empty(offs, *tensors, grad_out), swapped)

    results = ", ".join(f"Tensor {name}" for name in ["out", *saved])
    define(f"grouped_mm_forward{suffix}(Tensor a, Tensor b, Tensor offs, str recipe) -> ({results})", forward, forward_fake)
    arguments = ", ".join(f"Tensor {name}" for name in ["offs", *saved, "grad_out"])
    gradients = ", ".join(f"Tensor grad_{operand}" for operand in wanted)
    define(f"grouped_mm_backward{suffix}({arguments}, str recipe, bool swapped) -> ({gradients})", backward, backward_fake)
    torch.library.register_autograd(f"moe_opt::grouped_mm_forward{suffix}", _differentiate, setup_context=_save, lib=LIBRARY)
    torch.library.register_autograd(f"moe_opt::grouped_mm_backward{suffix}", _refuse, lib=LIBRARY)


def _save(ctx, inputs, output) -> None:
    _, b, offs, recipe = inputs
    _, *saved = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*saved)
    ctx.save_for_backward(offs, *saved)
    ctx.recipe, ctx.swapped = recipe, _is_swapped(b)


def _differentiate(ctx, grad_out, *_):
    """The gradients that are asked for. What is saved suffices for them, and may suffice for another one: weights may need a gradient while
    only that of the tokens is asked for now."""
    wants_a, wants_b, *_ = ctx.needs_input_grad
    if grad_out is None or not (wants_a or wants_b):
        return None, None, None, None
    offs, *saved = ctx.saved_tensors
    ops, rest = torch.ops.moe_opt, (grad_out, ctx.recipe, ctx.swapped)
    if not wants_b:
        return ops.grouped_mm_backward_a.default(offs, *saved[-2:], *rest), None, None, None
    if not wants_a:
        return None, ops.grouped_mm_backward_b.default(offs, *saved[:2], *rest), None, None
    return *ops.grouped_mm_backward.default(offs, *saved, *rest), None, None


def _refuse(ctx, *_):
    raise NotImplementedError("moe_opt: a product by a recipe has no second derivative")


_with_gradients("ab", "ab")
_with_gradients("a", "b")
_with_gradients("b", "a")

# ---- The product of quantized operands ----

# The calls of products of groups by what tells them apart, once they have been found.
DIRECT_PRODUCTS: dict[tuple, Callable[..., Tensor]] = {}


def _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype, is_fake=False) -> Function:
    """is_fake: tensors without data may have sizes that are not known. Of products in MX blocks those of any number of tokens say what the result is."""
    out, is_mx, groups = _name(out_dtype), sa.dtype == E8M0, None if offs is None else offs.shape
    swapped = is_mx and sb.dim() == 3 and _is_swapped(sb)
    if is_mx and is_fake:
        attributes = _recipes.mx_choice_of_any(accumulate)
    elif is_mx:
        attributes = _recipes.mx_choice(accumulate, qa.shape, qb.shape, groups, swapped, out)
    else:
        attributes = _recipes.fp32_choice(accumulate, None if is_fake else qa.shape, (sa.dim(), sb.dim()), groups)
    orders = _recipes.mx_orders(sb.dim(), swapped) if is_mx else ()
    return function("scaled_grouped_mm.scaled_mm", "call", tuple(attributes.items()), _kinds(qa, qb, sa, sb, offs), (out,), orders)


def _side_by_side(scales: Tensor) -> Tensor:
    """Scales whose last two dimensions are swapped in memory; a copy where they are not."""
    return scales if scales.dim() < 2 or scales.mT.is_contiguous() else scales.transpose(-1, -2).contiguous().transpose(-1, -2)


class _OfBlocks:
    """The call of the products with scales of FP8 blocks, each of which is for so many tokens."""

    def __init__(self, accumulate: str, out_dtype: torch.dtype) -> None:
        self.accumulate, self.out_dtype = accumulate, out_dtype
        self.products: dict[str, Function] = {}

    def call(self, qa: Tensor, qb: Tensor, sa: Tensor, sb: Tensor, offs: Tensor) -> Tensor:
        size = _recipes.blocks_size(qa.shape[0], offs.numel())
        product = self.products.get(size)
        if product is None:
            product = self.products[size] = _scaled_mm_function(qa, qb, sa, sb, offs, self.accumulate, self.out_dtype)
        return product.call(qa, qb, _side_by_side(sa), _side_by_side(sb), offs)


def _scaled_mm(qa, qb, sa, sb, offs=None, accumulate="fast", out_dtype=torch.bfloat16):
    if sa.dtype == E8M0:
        operands = (qa, qb, sa, sb) if offs is None else (qa, qb, sa, sb, offs)
        return _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype)(*operands)
    if offs is None:
        return _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype)(qa, qb, sa, sb)
    key = (qa.dim(), qa.dtype, qb.dim(), qb.dtype, sa.dtype, sb.dim(), sb.dtype, accumulate, out_dtype)  # all else is the runtime's to check
    direct = DIRECT_PRODUCTS.get(key)
    if direct is not None:
        return direct(qa, qb, sa, sb, offs)
    has_blocks = _recipes.has_blocks((sa.dim(), sb.dim()), offs.shape)
    found = _OfBlocks(accumulate, out_dtype) if has_blocks else _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype)
    out = found.call(qa, qb, sa, sb, offs)
    DIRECT_PRODUCTS[key] = found.call  # which the first call has made
    return out


def _scaled_mm_fake(qa, qb, sa, sb, offs=None, accumulate="fast", out_dtype=torch.bfloat16):
    found = _scaled_mm_function(qa, qb, sa, sb, offs, accumulate, out_dtype, is_fake=True)
    return found.fake(qa, qb, sa, sb) if offs is None else found.fake(qa, qb, sa, sb, offs)


define_without_gradient(
    'scaled_mm(Tensor qa, Tensor qb, Tensor sa, Tensor sb, Tensor? offs=None, str accumulate="fast",'
    " ScalarType out_dtype=bfloat16) -> Tensor",
    _scaled_mm,
    _scaled_mm_fake,
    "scaled_grouped_mm",
)

# ---- Products of four-bit weights ----


def _pack_weights(w, layout="16x64"):
    return function("scaled_grouped_mm.pack_weights", "call", (("layout", layout),), _kinds(w), ("ui8",))(w.contiguous())


def _pack_weights_fake(w, layout="16x64"):
    _require(w.dtype == torch.uint8 and w.dim() in (2, 3), f"w is {w.dtype} of rank {w.dim()}; it must be torch.uint8 of rank 2 or 3")
    _require(w.shape[-2] % 16 == 0 and w.shape[-1] % 16 == 0, f"w is {tuple(w.shape)}; N and the bytes of a row must be multiples of 16")
    return w.new_empty((*w.shape[:-2], w.shape[-2] // 16, -(-w.shape[-1] // 32), 512))


define('pack_weights(Tensor w, str layout="16x64") -> Tensor', _pack_weights, _pack_weights_fake)


@functools.lru_cache(maxsize=4096)
def _layer_attributes(op, attributes, kinds, results, tokens, rows, columns):
    """Attributes of the bundle for a product of these sizes."""
    size = _mixed.layer_size(_bundles.layer_tiles(op, attributes, kinds, results), tokens, rows, columns)
    return tuple(zip(("tokens", "rows"), size))


@functools.lru_cache(maxsize=4096)
def _expert_attributes(op, attributes, kinds, results, tokens, experts, rows, columns):
    """The same of experts."""
    return _mixed.attributes_of(_mixed.expert_size(_bundles.expert_tiles(op, attributes, kinds, results), tokens, experts, rows, columns))


def _mixed_mm(x, w, scales, zeros, offs, bias, format, group_size, constant=False):
    operands = tuple(tensor for tensor in (w, scales, zeros, x.contiguous(), offs, bias) if tensor is not None)
    if x.shape[0] == 0 or scales.shape[-2] == 0:
        return _mixed_mm_fake(x, w, scales, zeros, offs, bias, format, group_size)
    op = "scaled_grouped_mm.mixed_mm" + "_zeros" * (zeros is not None) + "_bias" * (bias is not None)
    attributes, kinds, results = (("format", format), ("group_size", group_size)), _kinds(*operands), (_NAMES[x.dtype],)
    tokens, (rows, columns) = x.shape[0], (scales.shape[-2], x.shape[1])
    if offs is None:
        attributes += _layer_attributes(op, attributes, kinds, results, tokens, rows, columns)
    else:
        attributes += _expert_attributes(op, attributes, kinds, results, tokens, max(1, offs.shape[0]), rows, columns)
    return function(op, "call", attributes, kinds, results, overlap=constant)(*operands)


def _mixed_mm_fake(x, w, scales, zeros, offs, bias, format, group_size, constant=False):
    columns, (*experts, rows, groups) = x.shape[1], scales.shape
    packed = (*experts, rows, columns) if format == "f8E4M3FN" else (*experts, rows // 16, -(-columns // 64), 512)
    _require(group_size in _mixed.GROUP_SIZES, f"group_size is {group_size}; it must be one of {', '.join(map(str, _mixed.GROUP_SIZES))}")
    _require(groups * group_size == columns, f"scales are {tuple(scales.shape)} and x is {tuple(x.shape)}; {group_size} columns share a scale")
    _require(tuple(w.shape) == packed, f"w is {tuple(w.shape)}; it must be {packed}")
    return x.new_empty((x.shape[0], rows))


define_without_gradient(
    "mixed_mm(Tensor x, Tensor w, Tensor scales, Tensor? zeros, Tensor? offs, Tensor? bias, str format, int group_size,"
    " bool constant=False) -> Tensor",
    _mixed_mm, _mixed_mm_fake, "mixed_mm",
)  # fmt: skip

# ---- Quantizers ----


def _quantizer(op: str, names: tuple[str, ...], grouped: bool) -> tuple[Callable, Callable]:
    """The kernel and the fake kernel of a quantizer: x[, offs], the attributes of these names, the element type of q."""

    def find(x, offs, values, dtype):
        found = function(op, "call", tuple(zip(names, values)), _kinds(x, offs), (_name(dtype),))
        return found, (x.contiguous(),) if offs is None else (x.contiguous(), offs)

    def kernel(x, *rest):
        offs, (*values, dtype) = (rest[0], rest[1:]) if grouped else (None, rest)
        found, arguments = find(x, offs, values, dtype)
        return found(*arguments)

    def fake(x, *rest):
        offs, (*values, dtype) = (rest[0], rest[1:]) if grouped else (None, rest)
        found, arguments = find(x, offs, values, dtype)
        return found.fake(*arguments)

    return kernel, fake


define_without_gradient(
    "quantize(Tensor x, Tensor? offs, int axis, str mode, int? align, ScalarType dtype) -> (Tensor q, Tensor scales)",
    *_quantizer("mx_quantize.quantize", ("axis", "mode", "align"), True),
    called="quantize_mx",
)
define_without_gradient(
    "quantize_dual(Tensor x, str mode, ScalarType dtype) -> (Tensor q, Tensor scales, Tensor q_t, Tensor scales_t)",
    *_quantizer("mx_quantize.quantize_dual", ("mode",), False),
    called="quantize_mx_dual",
)
define_without_gradient(
    "quantize_fp8(Tensor x, Tensor? offs, str granularity, int axis, bool pow2, bool sanitize, int? align, ScalarType dtype)"
    " -> (Tensor q, Tensor scales)",
    *_quantizer("mx_quantize.quantize_fp8", ("granularity", "axis", "pow2", "sanitize", "align"), True),
    called="quantize_fp8",
)
define_without_gradient(
    "quantize_fp8_dual(Tensor x, Tensor? offs, bool pow2, bool sanitize, int? align, ScalarType dtype)"
    " -> (Tensor q, Tensor scales, Tensor q_t, Tensor scales_t)",
    *_quantizer("mx_quantize.quantize_fp8_dual", ("pow2", "sanitize", "align"), True),
    called="quantize_fp8_dual",
)
