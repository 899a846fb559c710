"""Weights of four or eight bits and their products with tokens of 16 bits.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import copy
import pathlib
from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

from moe_opt._mixed import GREATEST_SCALES, GREATEST_ZERO_POINT, GROUP_SIZES, OTHER_FP8, known_group
from moe_opt.torch import _ops

_OPS = torch.ops.moe_opt
FORMATS = ("i4", "ui4", "f4E2M1FN", "f8E4M3FN")
MX_FORMATS = ("f4E2M1FN", "f8E4M3FN")
ORDER_1X16 = [p // 2 + 8 * (p % 2) for p in range(16)]  # columns of each 16, of FP8 weights


class MixedWeights(NamedTuple):
    """Weights of a layer (N, K), or of experts (E, N, K), as mixed_mm takes them: pack_mixed_weights makes them."""

    w: Tensor  # packed
    scales: Tensor  # (N, K/group_size) or (E, N, K/group_size); those of a group lie side by side
    zeros: Optional[Tensor]  # likewise
    format: str
    group_size: int
    # Whether nothing that may still run writes the tensors: a product asks for them while the kernel before it on the stream still runs. If a
    # kernel will write them, or other tensors take their places, use _replace(constant=False).
    constant: bool = False

    def to(self, device: Union[str, torch.device, None] = None, dtype: Optional[torch.dtype] = None) -> MixedWeights:
        """The same on another device; with dtype, torch.bfloat16 or torch.float16, integers whose scales are of that type. To bf16 scales are
        rounded. To f16 those below its normal range are; one larger than 65504 is a ValueError. TypeError for another type, and with MX formats,
        whose scales are powers of two."""
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        if dtype is not None and (self.format in MX_FORMATS or dtype not in (torch.bfloat16, torch.float16)):
            raise TypeError(f"weights of format {self.format!r} have no scales of {dtype}; those of integers may be torch.bfloat16 or torch.float16")
        w, zeros = self.w.to(device), None if self.zeros is None else self.zeros.to(device)
        scales = _of_type(self.scales.to(device), dtype)
        if w is self.w and scales is self.scales and zeros is self.zeros:
            return self
        return MixedWeights(w, scales, zeros, self.format, self.group_size, self.constant and _is_written(scales))

    def __deepcopy__(self, memo: dict) -> MixedWeights:
        w, scales, zeros = (copy.deepcopy(tensor, memo) for tensor in self[:3])
        return MixedWeights(w, scales, zeros, self.format, self.group_size, self.constant and _is_written(w))


def _of_type(scales: Tensor, dtype: Optional[torch.dtype]) -> Tensor:
    """Scales of integers in another type; the same with None. ValueError where one is beyond its range, if the host may look."""
    found = scales if dtype is None else scales.to(dtype)
    if found is not scales and _may_wait(scales) and bool((found.isinf() & scales.isfinite()).any()):
        greatest = float(scales[scales.isfinite()].abs().max())
        raise ValueError(f"a scale is {greatest:g}; {dtype} has at most {torch.finfo(dtype).max:g}")
    return found


def _may_wait(tensor: Tensor) -> bool:
    """Whether the host could wait for what writes the tensor, and see its values: it has some, and nothing records the call."""
    if torch.compiler.is_compiling() or tensor.is_meta or isinstance(tensor, FakeTensor):
        return False
    return not tensor.is_cuda or (torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing())


def _is_written(tensor: Tensor) -> bool:
    """Whether the host could wait for what writes the tensor, and others on its stream; then it has."""
    if not _may_wait(tensor):
        return False
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    return True


torch.serialization.add_safe_globals([MixedWeights])  # what torch.save wrote of them, torch.load reads as it reads tensors


def _side_by_side(numbers: Tensor) -> Tensor:
    return numbers.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)


def _in_order_1x16(weight: Tensor) -> Tensor:
    order = torch.tensor(ORDER_1X16, device=weight.device)
    return weight.view(torch.uint8).unflatten(-1, (-1, 16))[..., order].flatten(-2).view(weight.dtype)


def pack_mixed_weights(weight: Tensor, scales: Tensor, zero_points: Optional[Tensor] = None, format: str = "i4") -> MixedWeights:
    """Weights for mixed_mm: call it once, when a model is loaded. It waits for the GPU and checks the values of E8M0 scales and zero points, except
    under torch.compile and graph capture. The result is MixedWeights.constant where it waited.

    weight: (N, K/2) or (E, N, K/2) uint8, two weights to a byte along K, the first in the low four bits; of MXFP8 (N, K) or (E, N, K)
       float8_e4m3fn. N is a multiple of 16.
    scales: (N, K/group) or (E, N, K/group), bf16 or f16; float8_e8m0fnu of MXFP4, at most 2^31, and MXFP8, at most 2^37. Groups are of a
       multiple of 32, as of a whole row, of MX 32.
    zero_points: uint8 of the shape of scales, 0 to 15, with format "ui4" and only then.
    format: what the bits are: "i4", -8 to 7; "ui4", 0 to 15 less the zero point; "f4E2M1FN"; "f8E4M3FN".

    Raises ValueError where they do not fit, TypeError for what is no tensor.
    """
    _ops.require_tensors(weight=weight, scales=scales, **({} if zero_points is None else {"zero_points": zero_points}))
    _ops.require_one_device(weight, scales, zero_points)
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}; it must be one of {', '.join(FORMATS)}")
    is_fp8, is_mx = format == "f8E4M3FN", format in MX_FORMATS
    dtype = torch.float8_e4m3fn if is_fp8 else torch.uint8
    if weight.dtype != dtype or weight.dim() not in (2, 3):
        raise ValueError(f"weight is {weight.dtype} of rank {weight.dim()}; it must be {dtype} of rank 2 or 3")
    if weight.shape[-1] == 0:
        raise ValueError(f"weight is {tuple(weight.shape)}; K must not be 0")
    if scales.dim() != weight.dim() or scales.shape[:-1] != weight.shape[:-1] or scales.shape[-1] == 0:
        raise ValueError(f"weight is {tuple(weight.shape)} and scales are {tuple(scales.shape)}; all dimensions but the last must be the same")
    columns, groups = (1 if is_fp8 else 2) * weight.shape[-1], scales.shape[-1]
    group_size, rest = columns // groups, columns % groups
    known = known_group(group_size)
    if not rest and known and not is_mx:  # scales of other groups are those of several
        scales, zero_points = (None if given is None else given.repeat_interleave(group_size // known, -1) for given in (scales, zero_points))
        group_size = known
    if rest or group_size not in GROUP_SIZES or (is_mx and group_size != 32):
        sizes = "32" if is_mx else "a multiple of 32"
        raise ValueError(f"weight is {tuple(weight.shape)} and scales are {tuple(scales.shape)}; {sizes} weights must share a scale")
    if weight.shape[-2] % 16:
        raise ValueError(f"weight is {tuple(weight.shape)}; N must be a multiple of 16")
    of_scales = (torch.float8_e8m0fnu,) if is_mx else (torch.bfloat16, torch.float16)
    if scales.dtype not in of_scales:
        raise ValueError(f"scales are {scales.dtype}; with format {format!r} they must be {' or '.join(map(str, of_scales))}")
    if (format == "ui4") != (zero_points is not None):
        raise ValueError('zero_points are needed with format "ui4"' if zero_points is None else f'format is {format!r}; it must be "ui4" with zero_points')
    if zero_points is not None and (zero_points.dtype != torch.uint8 or zero_points.shape != scales.shape):
        raise ValueError(f"zero_points are {zero_points.dtype} {tuple(zero_points.shape)}; they must be torch.uint8 {tuple(scales.shape)}")
    greatest = int(zero_points.max()) if zero_points is not None and zero_points.numel() and _may_wait(zero_points) else 0
    if greatest > GREATEST_ZERO_POINT:
        raise ValueError(f"zero_points have a {greatest}; they must be 0 to {GREATEST_ZERO_POINT}")
    greatest = int(scales.view(torch.uint8).max()) - 127 if is_mx and scales.numel() and _may_wait(scales) else 0
    if is_mx and greatest > GREATEST_SCALES[format]:
        raise ValueError(f"scales have {'NaN' if greatest == 128 else f'2^{greatest}'}; with format {format!r} they must be at most 2^{GREATEST_SCALES[format]}")
    zeros = None if zero_points is None else _side_by_side(zero_points)
    layout = "16x64_e2m1" if format == "f4E2M1FN" else "16x64"
    packed = _in_order_1x16(weight) if is_fp8 else _OPS.pack_weights.default(weight, layout)
    scales = _side_by_side(scales)
    return MixedWeights(packed, scales, zeros, format, group_size, _is_written(packed))


def load_mixed_weights(
    path: Union[str, pathlib.Path], name: str, device: Union[str, torch.device] = "cpu", dtype: Optional[torch.dtype] = None
) -> MixedWeights:
    """The weights of tensor `name` in a file that `python -m moe_opt.convert` wrote, packed for mixed_mm on this device.

    dtype: that of the tokens, torch.bfloat16 or torch.float16, to which scales of integers are rounded; as in the file without it. Checkpoints of
    GPTQ and AWQ have scales of f16, and models of bf16 tokens need dtype=torch.bfloat16, which keeps 8 of their 11 bits.

    MXFP8 weights may also lie in a checkpoint itself, as compressed-tensors, ModelOpt and others write them: name.weight float8_e4m3fn, and
    name.weight_scale or name.weight_scale_inv, uint8 or float8_e8m0fnu, of 32 weights along K each. Experts that are tensors of their own
    become one by `python -m moe_opt.convert --from mxfp8`.

    Raises OSError where there is no such file, KeyError where it has no such tensor, ValueError, which names file and weights, where mixed_mm does
    not take them. It needs safetensors: pip install moe_opt[convert].
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError("load_mixed_weights needs safetensors: pip install moe_opt[convert]") from error

    place = str(torch.device(device))  # which knows what is no device
    if place == "meta":
        raise ValueError("device is meta; weights of a file need one that keeps them")
    if pathlib.Path(path).is_dir():  # safetensors would not say which file
        raise IsADirectoryError(f"{path}: is a folder; it must be a safetensors file")
    try:
        with safe_open(str(path), framework="pt", device=place) as file:
            names, metadata = set(file.keys()), file.metadata() or {}
            form = metadata.get(f"{name}.weight.format")
            spelled = [f"{name}.{what}" for what in (("scales",) if form else ("weight_scale", "weight_scale_inv"))]
            spelled = [scales for scales in spelled if scales in names]
            if f"{name}.weight" not in names or not spelled:
                raise KeyError(f"{path}: {_missing(name, names, metadata)}")
            weight, scales = file.get_tensor(f"{name}.weight"), file.get_tensor(spelled[0])
            zeros = file.get_tensor(f"{name}.zero_points") if form and f"{name}.zero_points" in names else None
    except SafetensorError as error:
        raise ValueError(f"{path}: is no safetensors file: {error}") from error
    if form is None and scales.dtype not in (torch.uint8, torch.float8_e8m0fnu):
        raise ValueError(f"{path}: weights {name!r}: scales are {scales.dtype} {tuple(scales.shape)}; {OTHER_FP8}")
    if form is None and scales.dtype == torch.uint8:
        scales = scales.view(torch.float8_e8m0fnu)
    if dtype not in (None, torch.bfloat16, torch.float16) and form not in (None, *MX_FORMATS):
        raise TypeError(f"dtype is {dtype}; it must be torch.bfloat16 or torch.float16")
    try:
        scales = _of_type(scales, dtype if form not in (None, *MX_FORMATS) else None)
        return pack_mixed_weights(weight, scales, zeros, form or "f8E4M3FN")
    except ValueError as error:
        raise ValueError(f"{path}: weights {name!r}: {error}") from error


def _missing(name: str, names: set[str], metadata: dict[str, str]) -> str:
    """Why a file has no weights of this name."""
    if {f"{name}.weight", f"{name}.scales"} <= names:
        return f"weights {name!r} have no metadata '{name}.weight.format', which tells their format and which other tools may have left out"
    found = sorted(key.removesuffix(".weight.format") for key in metadata if key.endswith(".weight.format"))
    if found:
        return f"there are no weights {name!r}; there are {', '.join(found[:3])}" + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return f"there are no four-bit or MXFP8 weights {name!r}; python -m moe_opt.convert writes them"


def _check(x: Tensor, weights: MixedWeights, offs: Optional[Tensor], bias: Optional[Tensor]) -> None:
    _ops.require_tensors(x=x, **{name: given for name, given in (("offs", offs), ("bias", bias)) if given is not None})
    if not isinstance(weights, MixedWeights):
        raise TypeError(f"weights are of type {type(weights).__name__}; pack_mixed_weights makes them")
    experts, rows = weights.scales.shape[:-2], weights.scales.shape[-2]
    depth = weights.scales.shape[-1] * weights.group_size
    types = (torch.bfloat16,) if weights.format == "f8E4M3FN" else (torch.bfloat16, torch.float16)
    if x.dim() != 2 or x.shape[1] != depth:
        raise ValueError(f"x is {tuple(x.shape)}; it must be (M, {depth}) with these weights")
    is_mx = weights.format in MX_FORMATS
    if x.dtype not in types if is_mx else x.dtype != weights.scales.dtype:
        wanted = " or ".join(map(str, types)) if is_mx else f"{weights.scales.dtype}, the type of the scales"
        raise ValueError(f"x is {x.dtype}; it must be {wanted}")
    if (offs is not None) != (len(experts) > 0):
        raise ValueError("offs is needed with weights of experts" if len(experts) > 0 else "offs must not be there: the weights are those of one layer")
    if offs is not None and (offs.dtype != torch.int32 or offs.shape != experts):
        raise ValueError(f"offs is {offs.dtype} {tuple(offs.shape)}; it must be torch.int32 {tuple(experts)}")
    if bias is not None and (bias.dtype != x.dtype or bias.shape != (*experts, rows)):
        raise ValueError(f"bias is {bias.dtype} {tuple(bias.shape)}; it must be {x.dtype} {(*experts, rows)}")


def mixed_mm(x: Tensor, weights: MixedWeights, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None) -> Tensor:
    """Tokens times weights of four or eight bits, which are numbers of 16 bits in the tensor core; what their scales are applied to,
    docs/numerics.md says.

    x: (M, K) bf16 or f16; with scales of 16 bits of their type, with MXFP8 weights bf16.
    weights: of a layer, or of experts: pack_mixed_weights, load_mixed_weights.
    offs: (E) int32, with experts: group e is the rows offs[e-1] to offs[e] - 1 of x. What the result holds in rows of no group is not
       defined.
    bias: (N), with experts (E, N), of x's type.

    Returns (M, N) of x's type. Raises ValueError where shapes or types do not fit. It has no gradient: a backward pass through it raises
    NotImplementedError.
    """
    _check(x, weights, offs, bias)
    w, scales, zeros, form, group_size, constant = weights
    _ops.refuse_derivatives("mixed_mm", x, w, scales, bias)
    op = _OPS.mixed_mm_recorded if _ops.needs_gradient(x, w, scales, bias) else _OPS.mixed_mm
    return op.default(x, w, scales, zeros, offs, None if bias is None else bias.contiguous(), form, group_size, constant)
