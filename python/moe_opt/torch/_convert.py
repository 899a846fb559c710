"""convert_experts_: the products of a model's expert weights by a recipe, while its code stays as it is.

The weights become tensors of a subclass that answers torch._grouped_mm itself. All else treats them as plain tensors: optimizers,
state_dict, checkpoints.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import functools
import sys
from typing import Callable, Optional

import torch
from torch import Tensor, nn

from moe_opt import _recipes

# torch's names of the product, and how they call its operands.
_PRODUCTS = {torch._grouped_mm, torch.ops.aten._grouped_mm, torch.ops.aten._grouped_mm.default} | {
    f for f in [getattr(nn.functional, "grouped_mm", None)] if f is not None
}
_OPERANDS = {"input": "a", "self": "a", "mat_a": "a", "mat2": "b", "mat_b": "b"}
# What gives the same weights in another type, order or place; its result answers products as the weights do.
_KEEPING = {
    Tensor.bfloat16, Tensor.to, Tensor.type, Tensor.transpose, Tensor.permute, Tensor.mT.__get__, Tensor.contiguous, Tensor.detach,
    Tensor.clone, Tensor.cuda, Tensor.cpu, Tensor.view, Tensor.requires_grad_, Tensor.type_as, Tensor.swapaxes,
    torch.transpose, torch.permute, torch.swapaxes, torch.clone, torch.detach, Tensor.float, Tensor.half, torch.empty_like, Tensor.data.__get__,
    Tensor.narrow, Tensor.new_zeros, Tensor.pin_memory, Tensor.view_as, torch.as_strided, torch.chunk, Tensor.chunk, torch.split, Tensor.split,
    Tensor.__getitem__, Tensor.reshape, Tensor.unflatten, Tensor.double, Tensor.swapdims, torch.swapdims, Tensor.movedim, torch.movedim,
    Tensor.moveaxis, torch.moveaxis, Tensor.mH.__get__, Tensor.adjoint, torch.adjoint, torch.transpose_copy, torch.permute_copy, torch.reshape, torch.narrow,
    Tensor.unsqueeze, torch.unsqueeze, Tensor.squeeze, torch.squeeze, Tensor.expand, Tensor.expand_as, Tensor.flatten, torch.flatten, torch.unflatten,
    Tensor.index_select, torch.index_select, Tensor.unbind, torch.unbind, Tensor.select, torch.select, Tensor.tensor_split, torch.tensor_split,
    Tensor.split_with_sizes, torch.split_with_sizes, Tensor.broadcast_to, torch.broadcast_to, Tensor.module_load, Tensor.reshape_as, Tensor.ravel, torch.ravel,
    Tensor.as_strided, Tensor.hsplit, torch.hsplit, Tensor.vsplit, torch.vsplit, Tensor.dsplit, torch.dsplit, Tensor.unsafe_chunk, torch.unsafe_chunk,
    Tensor.unsafe_split, torch.unsafe_split, Tensor.narrow_copy, torch.narrow_copy,
}  # fmt: skip
# Attributes, and the methods that give the same. torch.compile takes the result of an attribute for a part of the module, of which it makes no subclass.
_METHODS = {Tensor.mT.__get__: Tensor.adjoint, Tensor.mH.__get__: Tensor.adjoint, Tensor.data.__get__: Tensor.detach}


class ExpertWeights(Tensor):
    """Weights whose products go through moe_opt.torch.grouped_mm by the recipe of the subclass."""

    recipe: str

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in _PRODUCTS:
            return _product(cls, *args, **{_OPERANDS.get(name, name): given for name, given in kwargs.items()})
        if function is torch.chunk and sys._getframe(1).f_globals.get("__name__", "").startswith("torch.distributed."):
            raise RuntimeError(
                "fully_shard and distribute_tensor make plain tensors of converted expert weights: call convert_experts_ after them"
            )
        with torch._C.DisableTorchFunctionSubclass():
            result = (_METHODS.get(function, function) if torch.compiler.is_compiling() else function)(*args, **kwargs)
        first = args[0] if args else kwargs.get("input")
        if function not in _KEEPING or not isinstance(first, cls):
            return result
        if isinstance(result, (tuple, list)):
            return tuple(_kept(part, cls) for part in result)
        return _kept(result, cls)

    def __reduce_ex__(self, protocol):
        """Saved as a plain tensor: a checkpoint needs no moe_opt."""
        return _plain(self).__reduce_ex__(protocol)

    def __deepcopy__(self, memo) -> Tensor:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        if isinstance(self, nn.Parameter):
            copied = nn.Parameter(copied, self.requires_grad)
        copied.grad = None if self.grad is None else self.grad.clone()
        return copied

    # FSDP (torch.distributed.fsdp.fully_shard) gathers plain tensors; these two say what of, and that the whole is expert weights again.

    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy) -> tuple[tuple[Tensor, ...], None]:
        with torch._C.DisableTorchFunctionSubclass():
            part = self.detach().as_subclass(Tensor).to(mp_policy.param_dtype or self.dtype)
            missing = -(-outer_size[0] // mesh.size()) - part.shape[0]
            if part.shape[1:] == outer_size[1:] and missing > 0:  # all parts have the size of the first one
                part = torch.cat([part, part.new_zeros((missing, *part.shape[1:]))])
        return (part,), None

    def fsdp_post_all_gather(self, outputs, metadata, param_dtype, *, out=None) -> Optional[tuple[Tensor, tuple[Tensor, ...]]]:
        if out is not None:
            return None  # it lies in the memory of the outputs
        (whole,) = outputs
        return whole.as_subclass(type(self)), (whole,)


def _kept(result: object, cls: type) -> object:
    """As expert weights, but for what is none: the name that Tensor.type() gives, or one number."""
    if not isinstance(result, Tensor) or isinstance(result, ExpertWeights) or result.dim() == 0:
        return result
    return result.as_subclass(cls)


def _plain(weights: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        plain = weights.detach().as_subclass(Tensor).requires_grad_(weights.requires_grad)
        return nn.Parameter(plain, weights.requires_grad) if isinstance(weights, nn.Parameter) else plain


def _product(cls: type, a: Tensor, b: Tensor, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None, out_dtype=None) -> Tensor:
    """torch._grouped_mm: by the recipe where b is expert weights and the product is one of groups of tokens, else torch's own."""
    from moe_opt.torch import grouped_mm

    with torch._C.DisableTorchFunctionSubclass():
        is_ours = isinstance(b, cls) and offs is not None and bias is None and (a.dim(), b.dim()) == (2, 3) and out_dtype in (None, torch.bfloat16)
        if is_ours and (a.dtype, b.dtype) != (torch.bfloat16, torch.bfloat16):
            raise ValueError(f"tokens are {a.dtype} and weights {b.dtype}: products of weights that convert_experts_ converted take torch.bfloat16, cast both")
        return grouped_mm(a, b, offs, cls.recipe) if is_ours else torch._grouped_mm(a, b, offs=offs, bias=bias, out_dtype=out_dtype)


@functools.lru_cache(maxsize=None)
def _subclass(recipe: str) -> type:
    """The type knows the recipe, so that what is made of the weights knows it too."""
    return type(f"ExpertWeights_{recipe}", (ExpertWeights,), {"recipe": recipe, "__module__": __name__})


globals().update({f"ExpertWeights_{recipe}": _subclass(recipe) for recipe in _recipes.RECIPES})


@functools.lru_cache(maxsize=None)
def _tell_dynamo() -> None:
    """torch.compile asks tensors only about functions in torch's list of those that can be overridden, which has no private names.

    It keeps a set of the list from its first compilation on."""
    torch.overrides.get_overridable_functions()[torch].append(torch._grouped_mm)
    dynamo = sys.modules.get("torch._dynamo.variables.torch")
    if dynamo is not None:
        dynamo.get_overridable_functions().add(torch._grouped_mm)


def _is_experts(name: str, parameter: nn.Parameter) -> bool:
    return parameter.dim() == 3


def _is_distributed(parameter: nn.Parameter) -> bool:
    """Whether it is a DTensor, whose part on this device is what products see."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(parameter, module.DTensor)


def _is_usual(kind: type) -> bool:
    """Whether parameters of this type compute as torch.nn.Parameter does and have its layout, so that they may become of another type."""
    answers = all(getattr(kind, name) is getattr(nn.Parameter, name) for name in ("__torch_function__", "__torch_dispatch__"))
    return answers and kind.__basicsize__ == nn.Parameter.__basicsize__ and not issubclass(kind, nn.parameter.UninitializedTensorMixin)


def _check_parameter(name: str, parameter: nn.Parameter) -> None:
    """TypeError for a tensor of a subclass that computes in its own way, ValueError for a part that is made anew."""
    if _is_distributed(parameter):
        if parameter.is_meta:
            raise ValueError(f"{name} is sharded and on the meta device, from where to_empty makes plain weights again: call convert_experts_ after it")
    elif not isinstance(parameter, ExpertWeights) and not _is_usual(type(parameter)):
        raise TypeError(f"{name} is of type {type(parameter).__name__}; it must be a torch.nn.Parameter")


def _convert(parameter: nn.Parameter, cls: type) -> None:
    """In place: optimizers, hooks and other modules that have the parameter keep it."""
    if _is_distributed(parameter):
        parameter._local_tensor = parameter._local_tensor.as_subclass(cls)
        return
    parameter.__class__ = cls
    parameter._is_param = True  # nn.Parameter knows its own of other types by it


def convert_experts_(
    module: nn.Module, recipe: str = "fp8_rowwise", filter: Optional[Callable[[str, nn.Parameter], bool]] = None
) -> nn.Module:
    """After this, torch._grouped_mm with an expert weight of the module goes through moe_opt.torch.grouped_mm by the recipe.

    module: any module whose code calls torch._grouped_mm(tokens, weights, offs=offs), weights being parameters or casts and transposes
       of them. It is changed in place and returned.
    filter: of the name and the parameter, true for those to convert; all of rank 3 by default. A parameter that has several names is converted
       where one of them is chosen.

    Parameters stay the objects that they are, with names, values, gradients, hooks, requires_grad and their optimizer; only their type is another
    one, and compiled code is compiled again. What is saved is plain tensors, and either kind can be loaded. Whatever replaces the parameters undoes
    the conversion: load_state_dict(..., assign=True), loading a module that was pickled whole, and of sharded parameters (DTensor) to_empty, casts
    and moves of the module.
    Raises ValueError for an unknown recipe, if nothing is converted, and for sharded parameters on the meta device; TypeError for what is no
    module, and for parameters of a type that computes in its own way. Nothing is changed then.
    """
    _recipes.check(recipe)
    if not isinstance(module, nn.Module):
        raise TypeError(f"module is of type {type(module).__name__}; it must be a torch.nn.Module")
    chosen = filter or _is_experts
    converted: dict[nn.Parameter, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if chosen(name, parameter):
            converted.setdefault(parameter, name)
    if not converted:
        raise ValueError(f"{type(module).__name__} has no parameters to convert: none of rank 3, or none that the filter chooses")
    for parameter, name in converted.items():
        _check_parameter(name, parameter)
    _tell_dynamo()
    for parameter in converted:
        _convert(parameter, _subclass(recipe))
    if "torch._dynamo" in sys.modules:  # compiled code does not ask whether a parameter has become of another type
        torch.compiler.reset()
    return module
