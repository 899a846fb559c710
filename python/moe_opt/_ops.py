"""The ops as functions of tensors, over the bundles that come with the package.

Each op has a bundle for each combination of attributes and element types; NotFound says which was wanted. Shapes are dynamic. Tensors
are numpy arrays, or those of torch or cupy; results are of the same framework. Names of element types are MLIR's: bf16, f16, f32,
f8E4M3FN, f8E5M2, f8E8M0FNU. A tensor that does not fit is InvalidArgument, and what is no tensor TypeError.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import functools
from typing import Any, Mapping, Optional

from moe_opt import _arguments, _bundles, _dlpack, _library, _recipes
from moe_opt._library import InvalidArgument
from moe_opt._program import Function

_ELEMENTS = {name: element for element, e in _dlpack.ELEMENT_TYPES.items() for name in e.numpy_names[:1]} | {"uint16": "bf16"}


@functools.lru_cache(maxsize=None)
def _function(
    op: str, attributes: tuple[tuple[str, Any], ...], operands: tuple[tuple[str, int], ...], results: tuple[str, ...], orders: tuple[Any, ...] = ()
) -> Function:
    bundle, name = _bundles.find(op, dict(attributes), operands, results, orders=dict(orders))
    program = _library.program(_bundles.folder() / bundle)
    return Function(program, program.function(name))


def _element(tensor: Any, name: str, byte: str) -> str:
    """The element type of a tensor of any framework; `byte` is that of uint8."""
    dtype = str(getattr(tensor, "dtype", None)).rpartition(".")[2]
    element = dtype if dtype in _dlpack.ELEMENT_TYPES else byte if dtype == "uint8" and byte else _ELEMENTS.get(dtype)
    if name == "offs" and element != "i32":
        raise InvalidArgument(f"offs has elements of {dtype}; they must be int32")
    if element is None:
        raise InvalidArgument(f"{name} has elements of {dtype}; they must be one of {', '.join(sorted(_ELEMENTS))}")
    return element


def _call(op: str, attributes: Mapping[str, Any], tensors: Mapping[str, Any], results: tuple[str, ...], byte: str = "") -> Any:
    present = {name: tensor for name, tensor in tensors.items() if tensor is not None or name != "offs"}
    _arguments.require_tensors(**present)
    operands = tuple((_element(tensor, name, byte), tensor.ndim) for name, tensor in present.items())
    _arguments.require_attributes(**attributes, dtype=results[0])
    return _function(op, tuple(attributes.items()), operands, results)(*present.values())


def quantize_mx(
    x: Any, axis: int = -1, dtype: str = "f8E4M3FN", mode: str = "rceil", offs: Optional[Any] = None, align: Optional[int] = None
) -> tuple[Any, Any]:
    """MX: 32 elements along `axis` share a scale that is a power of two (E8M0).

    x: (M, K) or (E, N, K), bf16 or f32, row-major. The size of `axis` is a multiple of 32, without offs.
    axis: the last dimension or the one before it.
    dtype: f8E4M3FN or f8E5M2.
    mode: how scales are rounded: floor, rceil, ceil or even.
    offs: (G,), int32, the end of each group of rows, which may have any size: of x (M, K) along M. Blocks are counted from the start of each
    group.
    align: 128, with offs and mode rceil: each group begins at a multiple of 128 rows of q, with zeros behind its last one.

    Gives q, of the shape of x, and scales, with size / 32 in the place of `axis`. x is q times its scale, rounded. Along the dimension
    before the last, q lies in memory with the last two dimensions swapped. With offs, block j of group g has row offs[g-1] // 32 + g + j of
    the scales, and q has room for a multiple of 128 rows; what is of no group is not written. With align, group g begins with row
    128 * (offs[g-1] // 128 + g) of q, which has 128 rows more for each group, and the scales are those of all blocks of q.

    Raises TypeError for what is no tensor, NotFound for types or attributes that have no kernels, and InvalidArgument, a ValueError, for
    tensors that do not fit.
    """
    _arguments.require_tensors(x=x)
    attributes = {"axis": _arguments.axis_of(x, axis), "block": 32, "mode": mode, "align": align}
    return _call("mx_quantize.quantize", attributes, {"x": x, "offs": offs}, (dtype, "f8E8M0FNU"))


def quantize_mx_dual(x: Any, dtype: str = "f8E4M3FN", mode: str = "rceil") -> tuple[Any, Any, Any, Any]:
    """MX along both of the last two dimensions, from one read of x. Gives q, scales, q_t, scales_t: along the last dimension, then along the
    one before it, as `quantize_mx` does. Raises what `quantize_mx` raises."""
    return _call("mx_quantize.quantize_dual", {"block": 32, "mode": mode}, {"x": x}, (dtype, "f8E8M0FNU"))


def quantize_fp8(
    x: Any,
    granularity: str = "row",
    axis: int = -1,
    offs: Optional[Any] = None,
    dtype: str = "f8E4M3FN",
    pow2: bool = True,
    sanitize: bool = False,
    align: Optional[int] = None,
) -> tuple[Any, Any]:
    """FP8 with fp32 scales.

    x: (M, K) or (E, N, K), bf16 or f32, row-major.
    granularity: row (vectors along `axis`; along the rows of a matrix, those of each group), tensor, expert, group, 1x128 or 128x128.
    axis: the last dimension or the one before it.
    offs: (G,), int32: the end of each group of rows, where the granularity has groups.
    dtype: f8E4M3FN or f8E5M2.
    pow2: scales are powers of two. sanitize: NaN becomes 0, and Inf the largest number, before anything else.
    align: 128, of rows along axis 0: each group begins at a multiple of 128 rows of q, as in `quantize_mx`.

    Gives q, of the shape of x, and scales, whose shapes docs/dialects/mx_quantize.md has; those of 1x128 blocks lie with the rows side by side, as
    `scaled_mm` reads them. x is q times its scale, rounded. Raises what
    `quantize_mx` raises.
    """
    _arguments.require_tensors(x=x)
    attributes = {"granularity": granularity, "axis": _arguments.axis_of(x, axis), "pow2": pow2, "sanitize": sanitize, "align": align}
    return _call("mx_quantize.quantize_fp8", attributes, {"x": x, "offs": offs}, (dtype, "f32"))


def quantize_fp8_dual(
    x: Any,
    offs: Optional[Any] = None,
    dtype: str = "f8E4M3FN",
    pow2: bool = True,
    sanitize: bool = False,
    align: Optional[int] = None,
) -> tuple[Any, Any, Any, Any]:
    """FP8 by rows and by columns, from two reads of x together: q, scales, q_t, scales_t. x of rank 2 has groups of rows, whose ends are in
    `offs`, and its columns have a scale for each group. align: 128, as in `quantize_mx`, of q_t. Raises what `quantize_mx` raises."""
    attributes = {"pow2": pow2, "sanitize": sanitize, "align": align}
    return _call("mx_quantize.quantize_fp8_dual", attributes, {"x": x, "offs": offs}, (dtype, "f32"))


def _lies_swapped(tensor: Any) -> bool:
    """Whether the last two dimensions of a tensor of rank 3 are swapped in memory."""
    strides = tensor.stride() if callable(getattr(tensor, "stride", None)) else tensor.strides
    return strides[-2] < strides[-1]


def _scaled_mx(tensors: Mapping[str, Any], accumulate: str, out_dtype: str) -> Any:
    """The product with scales of MX blocks."""
    qa, qb, sb, offs = tensors["qa"], tensors["qb"], tensors["sb"], tensors["offs"]
    _arguments.require_attributes(accumulate=accumulate, out_dtype=out_dtype)
    swapped = sb.ndim == 3 and _lies_swapped(sb)
    attributes = _recipes.mx_choice(accumulate, qa.shape, qb.shape, None if offs is None else offs.shape, swapped, out_dtype)
    operands = tuple(("f8E8M0FNU" if name in ("sa", "sb") else _element(tensor, name, "f8E4M3FN"), tensor.ndim) for name, tensor in tensors.items() if tensor is not None)
    orders = _recipes.mx_orders(sb.ndim, swapped)
    present = [tensor for tensor in tensors.values() if tensor is not None]
    return _function("scaled_grouped_mm.scaled_mm", tuple(attributes.items()), operands, (out_dtype,), orders)(*present)


def scaled_mm(qa: Any, qb: Any, sa: Any, sb: Any, offs: Optional[Any] = None, accumulate: str = "fast", out_dtype: str = "bf16") -> Any:
    """Products of FP8 operands (f8E4M3FN, or uint8) with fp32 scales, or with those of MX blocks (f8E8M0FNU, or uint8).

    qa (M, K), qb (E, K, N), offs (E,): out (M, N), the rows of group e times qb[e]. sa (M,), sb (E, N); or one scale, (1,) and (E,).
    qa (N, M), qb (M, K), offs (E,): out (E, N, K), the sum over the rows of each group: the gradient of weights. sa (E, N), sb (E, K); or (E,).
    qa (E, M, K), qb (E, K, N), no offs: out (E, M, N). sa (E, M), sb (E, N); or (E,).

    Scales of MX blocks: sa (M, K / 32), sb (E, K / 32, N), which lies in memory so or as (E, N, K / 32); gradient of weights
    sa (blocks, N), sb (blocks, K), as `quantize_mx` gives them with offs; batched sa (E, M, K / 32).

    Scales of FP8 blocks, f32, forward: sa (M, K / 128), of 1x128, as `quantize_fp8` gives them; sb (E, K / 128, N / 128), of 128x128, which
    lies in memory as (E, N / 128, K / 128). Sums are promoted then.

    qb lies in memory with its last two dimensions swapped. offs (int32) are the ends of the groups, which may have any size;
    rows behind the last are neither read nor written.
    Do not pass operands that were quantized with align: their groups begin at padded rows, which this function cannot see.
    accumulate: fast or promoted sums (docs/numerics.md). With scales of MX blocks fast ones take, by the sizes, room for the tokens or both
    operands in 16 bits while they run. out_dtype: of the result, bf16, f16 or f32. Raises what `quantize_mx` raises.
    """
    tensors = {"qa": qa, "qb": qb, "sa": sa, "sb": sb, "offs": offs}
    _arguments.require_tensors(**{name: tensor for name, tensor in tensors.items() if tensor is not None or name != "offs"})
    if _element(sa, "sa", "f8E8M0FNU") == "f8E8M0FNU":
        return _scaled_mx(tensors, accumulate, out_dtype)
    attributes = _recipes.fp32_choice(accumulate, qa.shape, (sa.ndim, sb.ndim), None if offs is None else offs.shape)
    return _call("scaled_grouped_mm.scaled_mm", attributes, tensors, (out_dtype,), "f8E4M3FN")


def grouped_mm(a: Any, b: Any, offs: Any, recipe: str = "fp8_rowwise") -> Any:
    """out (M, N): the rows of a (M, K) that are in group e times b[e], of b (E, K, N), both quantized on the way.

    a, b: bf16. b lies in memory as (E, N, K), as models keep weights: `weights.swapaxes(1, 2)`.
    offs: (E,), int32: the end of each group of rows. Groups may have any size; rows behind the last are not written.
    recipe: fp8_rowwise, fp8_tensorwise, fp8_blockwise or mxfp8. K and N are multiples of 16, with mxfp8 of 32. fp8_tensorwise takes NaN as 0 and
    Inf as the greatest bf16.

    Gives bf16. Raises what `quantize_mx` raises.
    """
    return _call("scaled_grouped_mm.grouped_mm", {"recipe": recipe}, {"a": a, "b": b, "offs": offs}, ("bf16",))
