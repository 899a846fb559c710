"""docs/numerics.md in plain PyTorch, an op of mx_quantize each: what the kernels are checked against and timed beside.

Written as people write them who have nothing but PyTorch, and so that torch.compile can take them as a whole: no operation waits
for the device, and offsets of groups are lists on the host, `ends`. Which is a help that kernels do not get. Rows in no group are
zeros here. Scales in E8M0 are uint8 here: torch.compile knows no other way to make them.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import torch
from torch.nn.functional import pad

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
NAN = 0x7FC00000


def innermost(q, axis):
    """q, the dimension `axis` of which is contiguous: the last one or the one before it."""
    return q if axis == q.dim() - 1 else q.transpose(-1, -2).contiguous().transpose(-1, -2)


def parts(ends):
    """Begin and end of each group."""
    return list(zip([0, *ends[:-1]], ends))


def ceildiv(a, b):
    return -(-a // b)


# MX


def mx_scale(amax, element, mode):
    """The E8M0 scale as int32; amax: fp32."""
    exponent, half_ulp = (8, 1 << 19) if element == torch.float8_e4m3fn else (15, 1 << 20)
    if mode == "rceil":
        bits = (amax * (1 / LARGEST[element])).view(torch.int32)
        scale = torch.where(bits <= 0x400000, 0, (bits + 0x7FFFFF) >> 23)
    elif mode == "floor":
        scale = (amax * 2.0**-exponent).view(torch.int32) >> 23
    else:
        power = (amax.view(torch.int32) + (0x7FFFFF if mode == "ceil" else half_ulp)) >> 23
        scale = (power - exponent).clamp(min=0)
        if mode == "even":
            scale = torch.where(power == 255, 255, scale)
    return torch.where(amax.isfinite(), scale, 255)


def quantize(x, *, element, axis, mode, block=32):
    blocks = x.unflatten(axis, (-1, block))
    scales = mx_scale(blocks.abs().amax(axis + 1, keepdim=True).float(), element, mode)
    q = blocks.float() * torch.where(scales == 255, NAN, (254 - scales) << 23).view(torch.float32)
    if mode in ("floor", "even"):
        q = q.clamp(-LARGEST[element], LARGEST[element])
    return innermost(q.to(element).flatten(axis, axis + 1), axis), scales.squeeze(axis + 1).to(torch.uint8)


def quantize_dual(x, **attributes):
    return *quantize(x, axis=x.dim() - 1, **attributes), *quantize(x, axis=x.dim() - 2, **attributes)


def dequantize(q, scales, *, element, axis, block=32):
    scales = scales.view(torch.uint8).to(torch.int32).unsqueeze(axis + 1)
    bits = torch.where(scales == 255, NAN, torch.where(scales == 0, 0x400000, scales << 23))
    return ((q.float().unflatten(axis, (-1, block)) * bits.view(torch.float32)).flatten(axis, axis + 1).to(element),)


# FP8 with fp32 scales


def slices_amax(x, ends, granularity, axis):
    """The largest magnitude of each slice, in the shape of the scales."""
    x = x.abs()
    if ends is not None:
        dims = (0,) if granularity == "row" else (0, 1)
        return torch.stack([x[b:e].amax(dims) if e > b else x.new_zeros(x.shape[len(dims) :]) for b, e in parts(ends)])
    if granularity == "row":
        return x.amax(axis)
    if granularity == "expert":
        return x.amax((1, 2))
    if granularity == "tensor":
        return x.amax().reshape(1)
    if granularity == "1x128":
        return pad(x, (0, -x.shape[-1] % 128)).unflatten(-1, (-1, 128)).amax(-1)
    squares = pad(x, (0, -x.shape[-1] % 128, 0, -x.shape[-2] % 128)).unflatten(-1, (-1, 128)).unflatten(-3, (-1, 128))
    return squares.amax((-3, -1))


def spread(scales, x, granularity, axis):
    """Scales of x without groups, in a shape that broadcasts to that of x."""
    if granularity == "row":
        return scales.unsqueeze(axis)
    if granularity == "expert":
        return scales[:, None, None]
    if granularity == "tensor":
        return scales
    if granularity == "128x128":
        scales = scales.repeat_interleave(128, -2)[..., : x.shape[-2], :]
    return scales.repeat_interleave(128, -1)[..., : x.shape[-1]]


def scaled(x, scales, ends, granularity, axis, cast):
    """cast of fp32 x times scales."""
    if ends is None:
        return cast(x.float() * spread(scales, x, granularity, axis))
    products = [cast(x[b:e].float() * scales[g]) for g, (b, e) in enumerate(parts(ends))]
    if ends[-1] < x.shape[0]:
        products.append(cast(torch.zeros_like(x[ends[-1] :], dtype=torch.float32)))
    if products[0].dtype.itemsize > 1:
        return torch.cat(products)
    # As bytes: torch cannot concatenate 8-bit floats on CUDA.
    return torch.cat([product.view(torch.uint8) for product in products]).view(products[0].dtype)


def scale_fp8(x, ends=None, *, element, granularity, axis, pow2, sanitize):
    """Scales and their reciprocals, the factors."""
    if sanitize:
        x = x.nan_to_num()
    amax = slices_amax(x, ends, granularity, axis).double().clamp(min=1e-12)
    # A number divided by a tensor is no division in torch, but a product with the reciprocal.
    factors = (torch.full_like(amax, LARGEST[element]) / amax).float()
    if pow2:
        powers = (factors.view(torch.int32) & -0x800000).view(torch.float32)
        factors = torch.where(factors.isnan(), factors, powers)
    return 1.0 / factors, factors


def cast_fp8(x, factors, ends=None, *, element, granularity, axis, sanitize):
    if sanitize:
        x = x.nan_to_num()
    limit = LARGEST[element]
    q = scaled(x, factors, ends, granularity, axis, lambda product: product.clamp(-limit, limit).to(element))
    return (innermost(q, axis),)


def quantize_fp8(x, ends=None, *, element, granularity, axis, pow2, sanitize):
    common = dict(element=element, granularity=granularity, axis=axis, sanitize=sanitize)
    scales, factors = scale_fp8(x, ends, pow2=pow2, **common)
    return *cast_fp8(x, factors, ends, **common), scales


def both_axes(x, ends):
    """The two single ops that a dual one is: granularity row along the last axis, which no group cuts, and the one before."""
    common = dict(granularity="row")
    return (None, dict(common, axis=x.dim() - 1)), (ends, dict(common, axis=x.dim() - 2))


def quantize_fp8_dual(x, ends=None, **attributes):
    return tuple(t for group, axis in both_axes(x, ends) for t in quantize_fp8(x, group, **axis, **attributes))


def scale_fp8_dual(x, ends=None, **attributes):
    return tuple(t for group, axis in both_axes(x, ends) for t in scale_fp8(x, group, **axis, **attributes))


def cast_fp8_dual(x, factors, factors_t, ends=None, **attributes):
    pairs = zip((factors, factors_t), both_axes(x, ends))
    return tuple(t for f, (group, axis) in pairs for t in cast_fp8(x, f, group, **axis, **attributes))


def quantize_fp8_pair(x, y, ends, **attributes):
    return tuple(t for z in (x, y) for t in quantize_fp8(z, ends, granularity="row", axis=0, **attributes))


def scale_fp8_pair(x, y, ends, **attributes):
    return tuple(t for z in (x, y) for t in scale_fp8(z, ends, granularity="row", axis=0, **attributes))


def cast_fp8_pair(x, y, factors, factors_y, ends, **attributes):
    pairs = ((x, factors), (y, factors_y))
    return tuple(t for z, f in pairs for t in cast_fp8(z, f, ends, granularity="row", axis=0, **attributes))


def dequantize_fp8(q, scales, ends=None, *, element, granularity, axis):
    return (scaled(q, scales, ends, granularity, axis, lambda product: product.to(element)),)


# Moved bytes


def pack(scales):
    """uint8, whole tiles of 128 x 4 in the order of "128x4"."""
    scales = pad(scales, (0, -scales.shape[1] % 4, 0, -scales.shape[0] % 128))
    rows, columns = scales.shape
    return scales.view(rows // 128, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4).reshape(rows, columns)


def pack_scales(scales, ends=None, *, layout="128x4"):
    scales = scales.view(torch.uint8)
    if ends is None:
        return (pack(scales),)
    packed = torch.cat([pack(scales[b:e]) for b, e in parts(ends)])
    rows = 128 * (ceildiv(scales.shape[0], 128) + len(ends))
    return (pad(packed, (0, 0, 0, rows - packed.shape[0])),)


def padded_ends(ends, align):
    result, end = [], 0
    for b, e in parts(ends):
        end += align * ceildiv(e - b, align)
        result.append(end)
    return result


def pad_groups(x, ends, *, align):
    new, moved = padded_ends(ends, align), x.view(torch.uint8)
    padded = moved.new_zeros(align * (ceildiv(x.shape[0], align) + len(ends)), moved.shape[1])
    for (b, e), (start, _) in zip(parts(ends), parts(new)):
        padded[start : start + e - b] = moved[b:e]
    return padded.view(x.dtype), torch.tensor(new, dtype=torch.int32, device=x.device)


def unpad_groups(padded, ends, new, *, align):
    moved = padded.view(torch.uint8)
    x = torch.zeros_like(moved)
    for (b, e), (start, _) in zip(parts(ends), parts(new)):
        x[b:e] = moved[start : start + e - b]
    return (x.view(padded.dtype),)


FORMULAS = {
    function.__name__: function
    for function in (
        quantize, quantize_dual, dequantize, scale_fp8, cast_fp8, quantize_fp8, scale_fp8_dual, cast_fp8_dual, quantize_fp8_dual,
        quantize_fp8_pair, scale_fp8_pair, cast_fp8_pair, dequantize_fp8, pack_scales, pad_groups, unpad_groups,
    )
}  # fmt: skip
