"""Four-bit and MXFP8 weights of checkpoints as plain tensors, in the form of the operands of scaled_grouped_mm.mixed_mm and mixed_mm_zeros.

    python -m moe_opt.convert IN.safetensors... OUT.safetensors --from gptq

reads safetensors files of one of the formats below and writes one file. Of each quantized tensor P it has

    P.weight       U8 (N, K/2): two weights to a byte along K, the first in the low four bits; of MXFP8 F8_E4M3 (N, K)
    P.scales       (N, K/group) in the type of the checkpoint; F8_E8M0 of MXFP4 and MXFP8
    P.zero_points  U8 (N, K/group), 0 to 15, where the checkpoint has zero points that differ from the middle

A weight is worth (w - zero point) * scale. The metadata of the file say `P.weight.format`, the attribute `format` of the op: "i4", two's
complement, -8 to 7; "ui4", 0 to 15, with zero points, for mixed_mm_zeros; "f4E2M1FN"; or "f8E4M3FN". `P.weight.group_size` says how many
weights along K share a scale: 32, 64, 128 or a whole row; scales of other multiples of 32 are repeated. Tensors ...experts.I.Q are stacked to ...experts.Q, of shapes (E, N, K/2) and (E, N, K/group). All other tensors are copied as
they are.

| --from             | tensors of P that are read                                          |
| gptq, gptq_v2      | P.qweight, P.qzeros, P.scales [, P.g_idx]; v2 stores zero points as they are, the older format less 1 |
| awq                | P.qweight, P.qzeros, P.scales                                       |
| compressed-tensors | P.weight_packed, P.weight_scale, P.weight_shape [, P.weight_zero_point, P.weight_g_idx] of pack-quantized |
| gpt-oss            | P_blocks, P_scales (or P.blocks, P.scales): MXFP4                   |
| mxfp8              | P.weight F8_E4M3, P.weight_scale or P.weight_scale_inv, U8 or F8_E8M0: the exponent plus 127 of each 32 weights along K |

mxfp8 is what compressed-tensors calls mxfp8-quantized (its MXFP8QuantizationCompressor) and ModelOpt writes for `--qformat mxfp8` (its
MXFP8QTensor), both with weight_scale, and what MiniMax-M3's files have, with weight_scale_inv.

It needs safetensors and ml_dtypes, and memory for the files and the result: pip install moe_opt[convert].

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import numpy

from moe_opt import _files
from moe_opt._mixed import GREATEST_SCALES, GREATEST_ZERO_POINT, GROUP_SIZES, OTHER_FP8, known_group

Array = numpy.ndarray[Any, Any]
Tensors = Mapping[str, Array]

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # nibble i of a word is column AWQ_ORDER[i] of its eight
MIDDLE = 8  # the zero point of symmetric weights that are stored as 0 to 15


class ConvertError(ValueError):
    """A file is not of the format, or of a form of it that mixed_mm has no place for; the text names the tensor."""


class Quantized(NamedTuple):
    """Weights as they are written. Of integers the nibbles are 0 to 15, also where they are symmetric."""

    weight: Array
    scales: Array
    zero_points: Optional[Array]  # None of MX


# ---- The formats ----


def _require(condition: bool, name: str, text: str) -> None:
    if not condition:
        raise ConvertError(f"tensor '{name}': {text}")


def _take(tensors: Tensors, name: str, rank: int | tuple[int, ...], *dtypes: str) -> Array:
    _require(name in tensors, name, "is missing")
    tensor, ranks = tensors[name], rank if isinstance(rank, tuple) else (rank,)
    _require(tensor.dtype.name in dtypes, name, f"has elements of {tensor.dtype.name}; they must be {' or '.join(dtypes)}")
    _require(tensor.ndim in ranks, name, f"has rank {tensor.ndim}; it must be {' or '.join(map(str, ranks))}")
    _require(tensor.size > 0, name, f"is {tensor.shape}, without elements")
    return tensor


_SCALES = ("float16", "bfloat16", "float32")


def _nibbles(words: Array) -> Array:
    """The eight nibbles of each int32, lowest first, along a new last dimension."""
    return ((words.astype("<u4")[..., None] >> numpy.arange(0, 32, 4, dtype=numpy.uint32)) & 15).astype(numpy.uint8)


def _pack(nibbles: Array) -> Array:
    """Two nibbles to a byte along the last dimension, the first in the low four bits."""
    return nibbles[..., ::2] | nibbles[..., 1::2] << 4


def _bytes(words: Array) -> Array:
    """int32 (N, K/8), of which nibble i is column i of its eight: the bytes in memory are the weights as they are written."""
    return numpy.ascontiguousarray(words, "<i4").view(numpy.uint8)


def _check_order(tensors: Tensors, name: str, k: int, groups: int) -> None:
    """Groups must be runs of columns."""
    if name in tensors:
        order = _take(tensors, name, 1, "int32")
        _require(order.shape == (k,), name, f"has {order.size} elements; it must have {k}")
        # Checkpoints that were never reordered may have -1 throughout.
        is_run = numpy.array_equal(order, numpy.arange(k) // (k // groups)) or bool((order == -1).all())
        _require(is_run, name, "puts columns into groups out of order (act-order), which is not supported")


def _gptq(tensors: Tensors, prefix: str, less: int = 1) -> Quantized:
    words = _take(tensors, f"{prefix}.qweight", 2, "int32")
    scales = _take(tensors, f"{prefix}.scales", 2, *_SCALES)
    zeros = _take(tensors, f"{prefix}.qzeros", 2, "int32")
    k, (groups, n) = words.shape[0] * 8, scales.shape
    _require(words.shape[1] == n, f"{prefix}.qweight", f"is {words.shape}, with scales {scales.shape}; it must be (K/8, {n}), four bits each")
    _require(n % 8 == 0, f"{prefix}.qweight", f"is {words.shape}; N must be a multiple of 8")
    _require(zeros.shape == (groups, n // 8), f"{prefix}.qzeros", f"is {zeros.shape}; it must be {(groups, n // 8)}, four bits each")
    _require(k % groups == 0, f"{prefix}.scales", f"has {groups} groups of {k} columns")
    _check_order(tensors, f"{prefix}.g_idx", k, groups)
    return Quantized(_bytes(words.T), scales.T, _nibbles(zeros).reshape(groups, n).T + numpy.uint8(less))


def _gptq_v2(tensors: Tensors, prefix: str) -> Quantized:
    return _gptq(tensors, prefix, 0)


def _awq(tensors: Tensors, prefix: str) -> Quantized:
    words = _take(tensors, f"{prefix}.qweight", 2, "int32")
    scales = _take(tensors, f"{prefix}.scales", 2, *_SCALES)
    zeros = _take(tensors, f"{prefix}.qzeros", 2, "int32")
    k, (groups, n) = words.shape[0], scales.shape
    _require(words.shape[1] * 8 == n, f"{prefix}.qweight", f"is {words.shape}, with scales {scales.shape}; it must be (K, {n} / 8), four bits each")
    _require(zeros.shape == (groups, n // 8), f"{prefix}.qzeros", f"is {zeros.shape}; it must be {(groups, n // 8)}, four bits each")
    _require(k % groups == 0, f"{prefix}.scales", f"has {groups} groups of {k} columns")
    _require(k % 2 == 0, f"{prefix}.qweight", f"is {words.shape}; K must be even")

    def columns(packed: Array) -> Array:
        return _nibbles(packed)[..., numpy.argsort(AWQ_ORDER)].reshape(packed.shape[0], n).T

    return Quantized(_pack(columns(words)), scales.T, columns(zeros))


def _compressed_tensors(tensors: Tensors, prefix: str) -> Quantized:
    words = _take(tensors, f"{prefix}.weight_packed", 2, "int32")
    scales = _take(tensors, f"{prefix}.weight_scale", 2, *_SCALES)
    shape = tuple(_take(tensors, f"{prefix}.weight_shape", 1, "int64", "int32").tolist())
    n, k = words.shape[0], words.shape[1] * 8
    _require(shape == (n, k), f"{prefix}.weight_packed", f"is {words.shape}, of weights {shape}; it must be (N, K/8), four bits each")
    groups = scales.shape[1]
    _require(scales.shape[0] == n and k % groups == 0, f"{prefix}.weight_scale", f"is {scales.shape}, of weights {shape}")
    _check_order(tensors, f"{prefix}.weight_g_idx", k, groups)
    zero_points, name = numpy.full((n, groups), MIDDLE, numpy.uint8), f"{prefix}.weight_zero_point"
    if name in tensors:  # packed along N; in older files as they are, -8 to 7
        zeros = _take(tensors, name, 2, "int32", "int8")
        expected = (n, groups) if zeros.dtype == numpy.int8 else (-(-n // 8), groups)
        _require(zeros.shape == expected, name, f"is {zeros.shape}; it must be {expected}")
        if zeros.dtype == numpy.int8:
            _require(-MIDDLE <= zeros.min() and zeros.max() < MIDDLE, name, f"has values from {zeros.min()} to {zeros.max()}; they must be -8 to 7")
            zero_points = (zeros + MIDDLE).astype(numpy.uint8)
        else:
            zero_points = _nibbles(zeros).transpose(0, 2, 1).reshape(-1, groups)[:n]
    return Quantized(_bytes(words), scales, zero_points)


def _require_scales(scales: Array, name: str, kind: str) -> None:
    """That bytes of E8M0 are none that mixed_mm may take for NaN."""
    greatest = int(scales.max(initial=0))
    found = "NaN" if greatest == 255 else f"2^{greatest - 127}"
    _require(greatest <= 127 + GREATEST_SCALES[kind], name, f"has a scale of {found}; mixed_mm takes up to 2^{GREATEST_SCALES[kind]}")


def _gpt_oss(tensors: Tensors, prefix: str) -> Quantized:
    between = "_" if f"{prefix}_blocks" in tensors else "."
    blocks = _take(tensors, f"{prefix}{between}blocks", 4, "uint8")
    scales = _take(tensors, f"{prefix}{between}scales", 3, "uint8")
    _require(blocks.shape[3] == 16, f"{prefix}{between}blocks", f"is {blocks.shape}; the last dimension must be 16, the bytes of 32 weights")
    _require(scales.shape == blocks.shape[:3], f"{prefix}{between}scales", f"is {scales.shape}; it must be {blocks.shape[:3]}")
    _require_scales(scales, f"{prefix}{between}scales", "f4E2M1FN")
    return Quantized(blocks.reshape(*blocks.shape[:2], -1), scales, None)


def _mxfp8(tensors: Tensors, prefix: str) -> Quantized:
    spelled = f"{prefix}.weight_scale" if f"{prefix}.weight_scale" in tensors else f"{prefix}.weight_scale_inv"
    weight = _take(tensors, f"{prefix}.weight", (2, 3), "float8_e4m3fn")
    found = tensors.get(spelled)
    if found is not None and found.dtype.name not in ("uint8", "float8_e8m0fnu"):
        raise ConvertError(f"tensor '{spelled}': is {found.dtype.name} {found.shape}; {OTHER_FP8}")
    scales = _take(tensors, spelled, weight.ndim, "uint8", "float8_e8m0fnu").view(numpy.uint8)
    expected = (*weight.shape[:-1], weight.shape[-1] // 32)
    _require(scales.shape == expected, spelled, f"is {scales.shape}, of weights {weight.shape}; it must be {expected}")
    _require_scales(scales, spelled, "f8E4M3FN")
    return Quantized(weight, scales, None)


class Format(NamedTuple):
    """How a checkpoint stores a tensor P: what its names end in, the first of which tells that P is there, and what reads it. others: the same
    of tensors with other names."""

    endings: tuple[str, ...]
    read: Callable[[Tensors, str], Quantized]
    others: tuple[str, ...] = ()


_GPTQ_ENDINGS = (".qweight", ".qzeros", ".scales", ".g_idx")
_COMPRESSED_ENDINGS = (".weight_packed", ".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx")
_GPTQS = ("gptq", "gptq_v2")
FORMATS = {
    "gptq": Format(_GPTQ_ENDINGS, _gptq),
    "gptq_v2": Format(_GPTQ_ENDINGS, _gptq_v2),
    "awq": Format(_GPTQ_ENDINGS[:3], _awq),
    "compressed-tensors": Format(_COMPRESSED_ENDINGS, _compressed_tensors),
    "gpt-oss": Format(("_blocks", "_scales"), _gpt_oss, (".blocks", ".scales")),
    "mxfp8": Format((".weight_scale", ".weight"), _mxfp8, (".weight_scale_inv", ".weight")),
}


# ---- All tensors of a checkpoint ----


def _prefixes(tensors: Tensors, form: Format) -> dict[str, tuple[str, ...]]:
    """The prefixes P of a checkpoint, and what the names of each end in."""
    found: dict[str, tuple[str, ...]] = {}
    for endings in (form.endings, form.others):
        for name in tensors if endings else ():
            if name.endswith(endings[0]):
                prefix = name[: -len(endings[0])]
                _require(prefix not in found, name, f"is there beside '{prefix}{form.endings[0]}'; which of the two holds cannot be told")
                found[prefix] = endings
    return found


def _layer(prefix: str) -> tuple[str, int]:
    """The name of the tensor that a prefix becomes a part of, and as which expert; -1: as all of it."""
    match = re.fullmatch(r"(.*\bexperts)\.(0|[1-9][0-9]{0,8})\.(.+)", prefix)
    return (f"{match[1]}.{match[3]}", int(match[2])) if match else (prefix, -1)


def _stacked(prefixes: Sequence[str]) -> dict[str, list[str]]:
    """The prefixes that become one tensor, by its name: the experts of a layer, in order, or one alone."""
    found: dict[str, dict[int, str]] = {}
    for prefix in prefixes:
        name, index = _layer(prefix)
        found.setdefault(name, {})[index] = prefix
    for name, parts in found.items():
        experts = sorted(index for index in parts if index >= 0)
        missing = next((place for place, index in enumerate(experts) if place != index), None)
        _require(missing is None, name, f"of {max(parts) + 1} experts, expert {missing} is missing; give all files of the layer")
        _require(not experts or -1 not in parts, name, "is there whole, and as experts, too")
    return {name: [parts[index] for index in sorted(parts)] for name, parts in found.items()}


def _join(name: str, parts: Sequence[Quantized]) -> Quantized:
    for what in ("weight", "scales"):
        kinds = {(getattr(part, what).shape, getattr(part, what).dtype.name) for part in parts}
        _require(len(kinds) == 1, name, f"the experts' {what} differ in shape or type: {', '.join(map(str, sorted(kinds)))}")
    rank = parts[0].weight.ndim
    _require(rank == 2, name, f"each of the experts' weights has rank {rank}; experts that are stacked have rank 2")
    zero_points = [part.zero_points for part in parts if part.zero_points is not None]  # of all or none
    return Quantized(
        numpy.stack([part.weight for part in parts]), numpy.stack([part.scales for part in parts]), numpy.stack(zero_points) if zero_points else None
    )


def _stack_bias(results: dict[str, Array], name: str, members: Sequence[str]) -> None:
    """The biases of experts, where all have one of the same shape, as one tensor beside their weights."""
    biases = [results.get(f"{member}.bias") for member in members]
    if members == [name] or any(bias is None or bias.shape != biases[0].shape or bias.dtype != biases[0].dtype for bias in biases):  # type: ignore[union-attr]
        return
    _require(f"{name}.bias" not in results, f"{name}.bias", "is in the checkpoint already, and would be overwritten")
    results[f"{name}.bias"] = numpy.stack([results.pop(f"{member}.bias") for member in members])


def _is_fp8(found: Quantized) -> bool:
    return found.weight.dtype != numpy.uint8


def _with_known_groups(found: Quantized) -> Quantized:
    """Groups of several times one that mixed_mm knows, but of less than a row, as so many groups of the largest of these with the same scales."""
    columns, groups = found.weight.shape[-1] * (1 if _is_fp8(found) else 2), found.scales.shape[-1]
    size, rest = divmod(columns, groups)
    known = known_group(size)
    if groups == 1 or rest or not known or size == known:
        return found
    times = size // known
    scales, zero_points = (None if given is None else numpy.repeat(given, times, -1) for given in (found.scales, found.zero_points))
    return Quantized(found.weight, scales, zero_points)


def _check_sizes(name: str, found: Quantized) -> int:
    """What mixed_mm asks for. Gives the size of a group."""
    n, k, groups = found.weight.shape[-2], found.weight.shape[-1] * (1 if _is_fp8(found) else 2), found.scales.shape[-1]
    size = k // groups
    _require(groups == 1 or size in GROUP_SIZES, name, f"has groups of {size}; they must be of a multiple of {GROUP_SIZES[0]} or a whole row")
    _require(n % 16 == 0 and k % 32 == 0, name, f"is {n} x {k}; N must be a multiple of 16 and K of 32")
    greatest = 0 if found.zero_points is None else int(found.zero_points.max())
    _require(
        greatest <= GREATEST_ZERO_POINT, name,
        f"has a zero point of {greatest}; mixed_mm_zeros takes 0 to {GREATEST_ZERO_POINT} (gptq_v2 is the format that stores zero points as they are)",
    )  # fmt: skip
    return size


def convert(tensors: Tensors, source: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors of a checkpoint of the format `source`, a key of FORMATS, in the form that this module describes, and the metadata.

    ConvertError names the tensor that does not fit, or the formats where `source` is none."""
    if source not in FORMATS:
        raise ConvertError(f"the format is {source!r}; it must be one of {', '.join(FORMATS)}")
    for name, tensor in tensors.items():
        _require(isinstance(tensor, numpy.ndarray), name, f"is a {type(tensor).__name__}; it must be a numpy array")
    read = FORMATS[source].read
    spelled = _prefixes(tensors, FORMATS[source])
    if not spelled:
        raise ConvertError(f"there is no tensor '*{FORMATS[source].endings[0]}', as {source} has them")
    used = {prefix + ending for prefix, endings in spelled.items() for ending in endings}
    results = {name: tensor for name, tensor in tensors.items() if name not in used}
    metadata: dict[str, str] = {}
    for name, members in _stacked(list(spelled)).items():
        found = read(tensors, name) if members == [name] else _join(name, [read(tensors, member) for member in members])
        found = _with_known_groups(found)
        size = _check_sizes(name, found)
        written = {"weight": found.weight, "scales": found.scales}
        if found.zero_points is None:
            kind, written["scales"] = "f8E4M3FN" if _is_fp8(found) else "f4E2M1FN", found.scales.view(_e8m0())
        elif (found.zero_points == MIDDLE).all():
            kind, written["weight"] = "i4", found.weight ^ numpy.uint8(0x88)  # w - 8 in two's complement
        else:
            kind, written["zero_points"] = "ui4", found.zero_points
        for what, tensor in written.items():
            _require(f"{name}.{what}" not in results, f"{name}.{what}", "is in the checkpoint already, and would be overwritten")
            results[f"{name}.{what}"] = numpy.ascontiguousarray(tensor)
        metadata |= {f"{name}.weight.format": kind, f"{name}.weight.group_size": str(size)}
        _stack_bias(results, name, members)
    return results, metadata


# ---- Files ----

INDEX = ".safetensors.index.json"  # what names the files of a checkpoint end in
_INSTALL = "moe_opt.convert needs {}: pip install moe_opt[convert]"


def _e8m0() -> Any:
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ImportError(_INSTALL.format("ml_dtypes")) from error
    return ml_dtypes.float8_e8m0fnu


def _numpy_dtype(tensor: str, name: str) -> Any:
    """The numpy type of a tensor's type of safetensors: "BF16"."""
    plain = {"BOOL": "bool", "F": "float", "I": "int", "U": "uint"}
    match = re.fullmatch(r"([FIU])(8|16|32|64)", name)
    if name in plain or (match and name != "F8"):
        return numpy.dtype(plain.get(name) or f"{plain[match[1]]}{match[2]}")  # type: ignore[index]
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ImportError(_INSTALL.format("ml_dtypes")) from error
    others = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"}
    _require(name in others, tensor, f"has elements of {name}, which are not known")
    return numpy.dtype(getattr(ml_dtypes, others[name]))


def _read(path: pathlib.Path, into: dict[str, Array]) -> None:
    """Adds the tensors of a file."""
    import safetensors  # pylint: disable=import-outside-toplevel

    if path.is_dir() or path.name.endswith(INDEX):
        raise ConvertError(f"is {'a folder' if path.is_dir() else 'an index'}; give the safetensors files of the layers that are converted")
    try:
        found = safetensors.deserialize(path.read_bytes())
    except safetensors.SafetensorError as error:
        raise ConvertError(f"is no safetensors file: {error}") from error
    for name, description in found:
        if name in into:
            raise ConvertError(f"tensor '{name}': is in another file, too")
        dtype = _numpy_dtype(name, description["dtype"])
        into[name] = numpy.frombuffer(description["data"], dtype).reshape(description["shape"])


def _json(path: pathlib.Path) -> dict[str, Any]:
    """The object in a file beside the tensors; empty where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _check_layers(folder: pathlib.Path, tensors: Tensors, source: str) -> None:
    """That no expert of a layer that is converted is in a file of the checkpoint that was not read, as its index says."""
    form = FORMATS[source]
    layers = {_layer(prefix)[0] for prefix in _prefixes(tensors, form)}
    for path in sorted(folder.glob(f"*{INDEX}")):
        files = _json(path).get("weight_map")
        for missing in files if isinstance(files, dict) else ():
            ending = next((endings[0] for endings in (form.endings, form.others) if endings and missing.endswith(endings[0])), None)
            if missing not in tensors and ending is not None:
                name, expert = _layer(missing[: -len(ending)])
                _require(expert < 0 or name not in layers, missing, f"is in {files[missing]}, by {path.name}; give all files of the layer")


def _check_source(folder: pathlib.Path, source: str) -> None:
    """GPTQ stores zero points less 1, and gptq_v2 as they are: nothing but the checkpoint's configuration says which."""
    for path in (folder / "config.json", folder / "quantize_config.json"):
        found = _json(path)
        said = found.get("quantization_config", found)
        said = said.get("checkpoint_format") if isinstance(said, dict) else None
        if source in _GPTQS and said in _GPTQS and said != source:
            raise ConvertError(f"{path}: says checkpoint_format {said!r}; the format is {source!r}")


def convert_files(inputs: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str], source: str) -> dict[str, str]:
    """Converts safetensors files, the parts of one checkpoint or one alone, of the format `source` into one file, and gives its metadata.

    The file is there whole or not at all. ConvertError names file and tensor; ImportError where safetensors or ml_dtypes is missing."""
    try:
        from safetensors import SafetensorError  # pylint: disable=import-outside-toplevel
        from safetensors.numpy import save_file  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ImportError(_INSTALL.format("safetensors")) from error
    target, tensors = pathlib.Path(output).resolve(), {}  # type: ignore[var-annotated]
    if target.exists() and not target.is_file():
        raise ConvertError(f"{output}: is there, and is no file")
    for path in map(pathlib.Path, inputs):
        if target.exists() and target.samefile(path):
            raise ConvertError(f"{path}: is an input, and would be overwritten")
        try:
            _read(path, tensors)
        except ConvertError as error:
            raise ConvertError(f"{path}: {error}") from error
    try:
        for folder in {path.absolute().parent for path in map(pathlib.Path, inputs)} if source in FORMATS else ():
            _check_source(folder, source)
            _check_layers(folder, tensors, source)
        results, metadata = convert(tensors, source)
    except ConvertError as error:
        raise ConvertError(f"{', '.join(map(str, inputs))}: {error}") from error
    with _files.replacing(target) as temporary:
        try:
            save_file(results, temporary, metadata={"format": "pt"} | metadata)
        except SafetensorError as error:
            raise OSError(f"{output}: cannot write: {error}") from error
    return metadata


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m moe_opt.convert", description=(__doc__ or "").partition("SPDX")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input", nargs="+", help="a safetensors file, or all files of the layers that are converted")
    parser.add_argument("output", help="the file to write")
    parser.add_argument("--from", dest="source", required=True, choices=FORMATS, help="the format of the input")
    arguments = parser.parse_args()
    try:
        metadata = convert_files(arguments.input, arguments.output, arguments.source)
    except OSError as error:
        sys.exit(f"moe_opt.convert: {error.filename}: {error.strerror}" if error.filename else f"moe_opt.convert: {error}")
    except ConvertError as error:
        sys.exit(f"moe_opt.convert: {error}")
    except ImportError as error:  # which says who needs what
        sys.exit(str(error))
    kinds = [value for key, value in metadata.items() if key.endswith(".format")]
    print(f"{arguments.output}: {len(kinds)} tensor{'' if len(kinds) == 1 else 's'} of weights ({', '.join(f'{kinds.count(kind)} {kind}' for kind in sorted(set(kinds)))})")


if __name__ == "__main__":
    _main()
