"""What the functions of tensors of any framework ask of their arguments, before a bundle is looked for.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import numbers
from typing import Any

import numpy

from moe_opt import _recipes
from moe_opt._library import InvalidArgument


def require_tensors(**arguments: Any) -> None:
    """TypeError for what is no tensor of any framework."""
    for name, given in arguments.items():
        if not (hasattr(given, "dtype") and hasattr(given, "ndim")):
            raise TypeError(f"{name} is a {type(given).__name__}; it must be a tensor")


def require_attributes(**attributes: Any) -> None:
    """TypeError where an attribute is nothing to choose a bundle by."""
    for name, value in attributes.items():
        if not isinstance(value, (str, numbers.Integral, numpy.bool_)) and (name, value) != ("align", None):
            raise TypeError(f"{name} is {value!r}; it must be a name or a number")


def axis_of(x: Any, axis: int) -> int:
    """The dimension of a tensor x along which it is quantized, counted from the first. TypeError where axis is no number, InvalidArgument where
    it is none of the last two dimensions, or where x has another rank than 2 or 3."""
    if type(axis) is not int and not isinstance(axis, numbers.Integral):  # the second question takes a microsecond
        raise TypeError(f"axis is {axis!r}; it must be a number")
    rank = x.ndim
    if rank not in (2, 3):
        raise InvalidArgument(f"x has rank {rank}; it must be 2 or 3")
    if not -2 <= axis < rank or axis % rank < rank - 2:
        raise InvalidArgument(f"axis is {axis}; it must be one of the last two dimensions")
    return axis % rank


def check_product(a: Any, b: Any, offs: Any, recipe: str, bf16: Any, i32: Any) -> None:
    """ValueError where a (M, K), b (E, K, N), offs (E) are no operands of a product of groups by a recipe: what can be said better here than by
    a kernel's manifest. bf16, i32: the framework's types."""
    if a.ndim != 2 or b.ndim != 3 or offs.ndim != 1:
        raise ValueError(f"a, b, offs have ranks {a.ndim}, {b.ndim}, {offs.ndim}; they must have 2, 3 and 1: (M, K), (E, K, N), (E)")
    if a.dtype != bf16 or b.dtype != bf16:
        raise ValueError(f"a and b are {a.dtype} and {b.dtype}; both must be {bf16}")
    if offs.dtype != i32:
        raise ValueError(f"offs is {offs.dtype}; it must be {i32}")
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"a is {tuple(a.shape)} and b is {tuple(b.shape)}; the second dimension of both is summed over")
    if offs.shape[0] != b.shape[0]:
        raise ValueError(f"offs has {offs.shape[0]} ends of groups; b has {b.shape[0]} experts")
    _recipes.check_weights(b.shape, recipe)
