"""JAX over moe-opt's kernels: grouped products with gradients, and quantizers.

    import moe_opt.jax as moe

    y = moe.grouped_mm(tokens, weights.transpose(0, 2, 1), offs)  # bf16 in and out, FP8 inside; differentiable

Calls go through XLA's FFI, so they can be traced, jitted and differentiated. On CUDA they run on XLA's stream; on the CPU the emulator
runs the same kernels, which is slow and exact: for tests. Shapes: M tokens, E experts, K and N the sizes of a layer, multiples of 16,
of 32 for mxfp8.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy
from jax.custom_derivatives import SymbolicZero

from moe_opt import _arguments, _bundles, _dlpack, _library, _recipes, _shapes
from moe_opt._recipes import RECIPES

__all__ = ["RECIPES", "Quantized", "grouped_mm", "quantize_fp8", "quantize_mx", "scaled_mm"]

DTYPES = {name: jnp.dtype(element.numpy_names[0]) for name, element in _dlpack.ELEMENT_TYPES.items()}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_TARGET = "moe_opt_run"


class Quantized(NamedTuple):
    """An eight-bit tensor and its scales."""

    q: jax.Array
    scales: jax.Array


@functools.lru_cache(maxsize=None)
def _register() -> None:
    """Tells XLA the handlers of libmoe_rt."""
    for platform, handler in (("cpu", _library.lib.moe_rt_xla_cpu), ("CUDA", _library.lib.moe_rt_xla_cuda)):
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(ctypes.cast(handler, ctypes.c_void_p).value), platform=platform)


def _axes(*arrays: jax.Array) -> frozenset[str]:
    """The axes of jax.shard_map along which one of the arrays differs."""
    kinds = [jax.typeof(array) for array in arrays]
    manual = [getattr(kind, "manual_axis_type", None) for kind in kinds]  # of JAX before 0.10 the type itself knows
    return frozenset().union(*(getattr(kind, "vma", ()) if axes is None else axes.varying for kind, axes in zip(kinds, manual)))


def _differing(arrays: Sequence[jax.Array], axes: frozenset[str]) -> list[jax.Array]:
    """The arrays as such that differ along these axes of jax.shard_map. Its transpose sums over them."""
    return [jax.lax.pcast(array, tuple(sorted(axes - _axes(array))), to="varying") if axes else array for array in arrays]


class _Function:
    """One function of a bundle, of JAX arrays."""

    def __init__(self, bundle: str, name: str, without: str) -> None:
        """without: what a derivative of the call would be."""
        self.without = without
        self.description = _shapes.description(bundle, name)
        self._shapes = _shapes.results(self.description)
        self._attributes = {"bundle": str(_bundles.folder() / bundle), "function": name}
        self._input_layouts, self._output_layouts = (
            [tuple(tensor["order"]) for tensor in self.description[key]] for key in ("arguments", "results")
        )

    def results(self, *arguments: jax.Array) -> list[jax.ShapeDtypeStruct]:
        """Shapes and types of the results."""
        return [
            jax.ShapeDtypeStruct(size, DTYPES[result["dtype"]])
            for (size, _), result in zip(self._shapes(*[argument.shape for argument in arguments]), self.description["results"])
        ]

    def run(self, *arguments: jax.Array) -> list[jax.Array]:
        """The results. InvalidArgument for shapes that do not fit, while the call is traced."""
        _register()
        _shapes.check(self._attributes["bundle"], self._attributes["function"], [argument.shape for argument in arguments])
        results = self.results(*arguments)
        call = jax.ffi.ffi_call(
            _TARGET, results, vmap_method="sequential", input_layouts=self._input_layouts, output_layouts=self._output_layouts
        )
        axes = _axes(*arguments)
        return _differing(call(*_differing(arguments, axes), **self._attributes), axes)

    def __call__(self, *arguments: jax.Array) -> list[jax.Array]:
        return _call(self, *arguments)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _call(function: _Function, *arguments: jax.Array) -> list[jax.Array]:
    return function.run(*arguments)


@_call.defjvp
def _refuse_derivative(function: _Function, primals: Any, tangents: Any) -> Any:
    raise TypeError(f"{function.without}; jax.lax.stop_gradient takes a value out of what is differentiated")


@functools.lru_cache(maxsize=None)
def _function(
    op: str,
    kind: str,
    attributes: tuple[tuple[str, Any], ...],
    operands: tuple[tuple[str, int], ...],
    results: tuple[str, ...],
    orders: tuple[tuple[str, tuple[int, ...]], ...] = (),
) -> _Function:
    """The function of the bundle of an op: attributes and orders, memory orders by operand, are pairs; operands (element type, rank); results
    element types."""
    name = "quantize_mx" if op == "mx_quantize.quantize" else op.rpartition(".")[2]
    without = f"{name} has no {'second ' if name == 'grouped_mm' else ''}derivative"
    return _Function(*_bundles.find(op, dict(attributes), operands, results, kind, dict(orders)), without)


def _name(dtype: Any) -> str:
    """MLIR's name of an element type, or JAX's where kernels have no such type."""
    return _NAMES.get(jnp.dtype(dtype), str(jnp.dtype(dtype)))


def _kinds(*arrays: jax.Array) -> tuple[tuple[str, int], ...]:
    return tuple((_name(array.dtype), array.ndim) for array in arrays)


# ---- Grouped products ----


def _grouped_mm_function(kind: str, recipe: str) -> _Function:
    operands = (("bf16", 2), ("bf16", 3), ("i32", 1))
    return _function("scaled_grouped_mm.grouped_mm", kind, (("recipe", recipe),), operands, ("bf16",))


def _result(x: jax.Array, offs: jax.Array, recipe: str) -> jax.Array:
    """x as it is returned. Where a scale of all tokens covers the rows of no group, which kernels do not write, they become zero. Groups end at
    the greatest offset where offsets decrease."""
    return jnp.where(jnp.arange(x.shape[0])[:, None] < jnp.max(offs), x, 0) if recipe == "fp8_tensorwise" else x


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _product(a: jax.Array, b: jax.Array, offs: jax.Array, recipe: str) -> jax.Array:
    return _result(_grouped_mm_function("call", recipe)(a, b, offs)[0], offs, recipe)


def _sharding(x: Any) -> Any:
    """That of its type, which names the axes of an explicit mesh."""
    return getattr(jax.typeof(x), "sharding", None)


def _as_sharded(x: jax.Array, sharding: Any) -> jax.Array:
    """A gradient has the type of what it is for; the call of a kernel gives one that every device has whole."""
    return x if sharding is None or _sharding(x) == sharding else jax.sharding.reshard(x, sharding)


def _forward(a: Any, b: Any, offs: Any, recipe: str) -> tuple[jax.Array, Any]:
    """What is saved is a dictionary, whose key says for which gradients, "" for both, or "_a" or "_b", and how a and b are sharded. What JAX
    differentiates is perturbed."""
    suffix = {(True, False): "_a", (False, True): "_b"}.get((a.perturbed, b.perturbed), "")
    out, *saved = _grouped_mm_function(f"forward{suffix}", recipe)(a.value, b.value, offs.value)
    return _result(out, offs.value, recipe), (offs.value, {(suffix, _sharding(a.value), _sharding(b.value)): saved})


def _backward(recipe: str, saved: Any, grad: Any) -> tuple[Optional[jax.Array], Optional[jax.Array], Any]:
    offs, tensors = saved
    (((suffix, *shardings), operands),) = tensors.items()
    none = numpy.zeros(offs.shape, jax.dtypes.float0)
    if isinstance(grad, SymbolicZero):
        return None, None, none
    function = _grouped_mm_function(f"backward{suffix}", recipe)
    if grad.shape[0] and grad.shape[1]:
        found = function(offs, *operands, grad)
    else:  # no kernel sums over a dimension of size 0
        found = _differing([jnp.zeros(result.shape, result.dtype) for result in function.results(offs, *operands, grad)], _axes(offs))
    grad_a = None if suffix == "_b" else _as_sharded(_result(found[0], offs, recipe), shardings[0])
    grad_b = None if suffix == "_a" else _as_sharded(found[-1].transpose(0, 2, 1), shardings[1])  # (E, N, K), which is how b lies in memory
    return grad_a, grad_b, none


_product.defvjp(_forward, _backward, symbolic_zeros=True)


def grouped_mm(a: jax.Array, b: jax.Array, offs: jax.Array, recipe: str = "fp8_rowwise") -> jax.Array:
    """The product of each group of tokens with its expert's weights, quantized on the way; differentiable in a and b.

    a: (M, K) bf16, tokens in the order of their experts.
    b: (E, K, N) bf16. The kernels read it as (E, N, K) in memory: give weights of that shape as w.transpose(0, 2, 1), which XLA then
       does not move; another order is copied.
    offs: (E) int32: group e is the rows offs[e-1] to offs[e] - 1 of a. Groups may have any size, 0 too. Rows from offs[E-1] on are in
       no group. They do not count, and what the result and the gradient of a hold there is not defined. But with
       fp8_tensorwise the scale of all rows covers them, and the result and the gradient are zero there.
    recipe: how operands are quantized, of the product and of both products of the gradient: one of RECIPES. fp8_tensorwise takes NaN as 0 and
       Inf as the greatest bf16.

    Returns (M, N) bf16. For the gradient of a a copy of b is kept, for that of b one of a, and neither a nor b: FP8 copies, with mxfp8 bf16 ones.
    Raises TypeError for what is no array, ValueError where shapes or types do not fit.
    """
    _arguments.require_tensors(a=a, b=b, offs=offs)
    _arguments.check_product(a, b, offs, recipe, DTYPES["bf16"], DTYPES["i32"])
    return _product(*_differing((a, b, offs), _axes(a, b, offs)), recipe)


# ---- Products of quantized operands ----


def scaled_mm(
    qa: jax.Array,
    qb: jax.Array,
    sa: jax.Array,
    sb: jax.Array,
    offs: Optional[jax.Array] = None,
    accumulate: str = "fast",
    out_dtype: Any = jnp.bfloat16,
) -> jax.Array:
    """The product of operands that are FP8 (E4M3) already, times their scales, fp32 or those of MX blocks. Not differentiable.

    | case            | qa        | qb        | sa          | sb          | offs | result    |
    | forward         | (M, K)    | (E, K, N) | (M)         | (E, N)      | (E)  | (M, N)    |
    | weight gradient | (N, M)    | (M, K)    | (E, N)      | (E, K)      | (E)  | (E, N, K) |
    | batched         | (E, M, K) | (E, K, N) | (E, M)      | (E, N)      | none | (E, M, N) |

    With scales sb of (E), one for an expert, sa is (1), (E) and (E). Scales of MX blocks, float8_e8m0fnu: sa (M, K/32), sb (E, K/32, N), of
    the weight gradient (blocks, N) and (blocks, K), batched (E, M, K/32) and (E, K/32, N), as `quantize_mx` gives them. The kernels read qb, and
    such scales sb of weights, with the last two dimensions swapped in memory: give what is quantized as (E, N, K) as q.transpose(0, 2, 1) and
    scales.transpose(0, 2, 1), which XLA then does not move; another order is copied. offs: (E) int32, ends of groups, as for `grouped_mm`;
    rows of no group are not defined. Scales of FP8 blocks, forward: sa (M, K/128), of 1x128, as `quantize_fp8` gives them, and sb
    (E, K/128, N/128), of 128x128, given likewise as scales.transpose(0, 2, 1); sums are promoted then. accumulate: "fast" or "promoted" (sums
    over 128 are added in fp32). With scales of MX blocks "fast" allocates, depending on the sizes, a temporary copy of the tokens, or of both
    operands, in 16 bits. out_dtype: bfloat16, float16 or float32.
    Do not pass operands that were quantized with align: their groups begin at padded rows, which this function cannot see.

    Raises TypeError for what is no array, NotFound for a case that has no kernels, and InvalidArgument, a ValueError, for shapes that do not fit.
    """
    arguments = {"qa": qa, "qb": qb, "sa": sa, "sb": sb} | ({} if offs is None else {"offs": offs})
    _arguments.require_tensors(**arguments)
    _arguments.require_attributes(accumulate=accumulate)
    if out_dtype is None:  # which numpy takes for float64
        raise TypeError("out_dtype is None; it must be a type of JAX")
    is_mx, groups = sa.dtype == DTYPES["f8E8M0FNU"], None if offs is None else offs.shape
    is_known = all(isinstance(size, int) for size in (*qa.shape, *qb.shape))  # else it is exported for any number of tokens
    if is_mx and is_known:
        attributes = _recipes.mx_choice(accumulate, qa.shape, qb.shape, groups, True, _name(out_dtype))
    elif is_mx:
        attributes = _recipes.mx_choice_of_any(accumulate)
    else:
        attributes = _recipes.fp32_choice(accumulate, qa.shape if is_known else None, (sa.ndim, sb.ndim), groups)
    orders = _recipes.mx_orders(sb.ndim, True) if is_mx else ()
    found = _function("scaled_grouped_mm.scaled_mm", "call", tuple(attributes.items()), _kinds(*arguments.values()), (_name(out_dtype),), orders)
    return found(*arguments.values())[0]


# ---- Quantizers ----


def _quantized(op: str, x: jax.Array, offs: Optional[jax.Array], dtype: Any, **attributes: Any) -> Quantized:
    """The result of a quantizer."""
    arguments = {"x": x} if offs is None else {"x": x, "offs": offs}
    _arguments.require_tensors(**arguments)
    attributes["axis"] = _arguments.axis_of(x, attributes["axis"])
    _arguments.require_attributes(**attributes)
    return Quantized(*_function(op, "call", tuple(attributes.items()), _kinds(*arguments.values()), (_name(dtype),))(*arguments.values()))


def quantize_mx(
    x: jax.Array,
    axis: int = -1,
    dtype: Any = jnp.float8_e4m3fn,
    mode: str = "rceil",
    offs: Optional[jax.Array] = None,
    align: Optional[int] = None,
) -> Quantized:
    """MXFP8: 32 elements along `axis` share a scale that is a power of two (E8M0).

    x: (M, K) or (E, N, K), bf16 or fp32; axis: the last dimension or the one before, a multiple of 32 long. mode: how a scale follows
    from the largest element: rceil, floor, ceil or even (docs/numerics.md). offs: (E) int32, ends of groups of tokens (M, K) along M, of any
    size, from whose starts blocks are counted. align: 128, with offs and mode rceil: each group begins at a multiple of 128 rows of q
    (docs/numerics.md), with zeros behind its last one. Not differentiable.

    Returns q of x's shape and scales of x's shape with that dimension divided by 32. With offs, block j of group g has row
    offs[g-1] // 32 + g + j of the scales, and what is of no group is not written: of the scales, and of q, which has room up to a multiple
    of 128 rows. Raises TypeError for what is no array, NotFound for types or attributes that have no kernels, and InvalidArgument, a
    ValueError, for shapes that do not fit.
    """
    return _quantized("mx_quantize.quantize", x, offs, dtype, axis=axis, mode=mode, align=align)


def quantize_fp8(
    x: jax.Array,
    granularity: str = "row",
    axis: int = -1,
    offs: Optional[jax.Array] = None,
    dtype: Any = jnp.float8_e4m3fn,
    pow2: bool = True,
    sanitize: bool = False,
    align: Optional[int] = None,
) -> Quantized:
    """FP8 with fp32 scales.

    x: (M, K) or (E, N, K), bf16 or fp32. granularity: what shares a scale: row, tensor, expert, group, 1x128 or 128x128. Rows run along
    `axis`; with offs (E) int32 their pieces within a group do. pow2: scales are powers of two. sanitize: NaN and Inf are replaced.

    Returns q of x's shape, and the scales that multiply q; docs/dialects/mx_quantize.md has their shapes. With align, which is 128, for rows of
    groups, each group begins at a multiple of 128 rows of q, as in quantize_mx. Not differentiable.
    Raises what quantize_mx raises.
    """
    return _quantized("mx_quantize.quantize_fp8", x, offs, dtype, granularity=granularity, axis=axis, pow2=pow2, sanitize=sanitize, align=align)
