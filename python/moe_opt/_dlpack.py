"""DLPack's structs by ctypes, and tensors of any framework as such structs.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple, Optional

import numpy

CPU, CUDA, CUDA_MANAGED = 1, 2, 13


class Device(ctypes.Structure):
    """DLDevice"""

    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    """DLDataType"""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    """DLTensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


READ_ONLY = 1  # a flag of a versioned tensor


class ElementType(NamedTuple):
    """An element type of manifests: its DLPack code and bits, and the numpy types that stand for it, the first that is there first. torch and JAX
    call it as the first of them is called."""

    code: int
    bits: int
    numpy_names: tuple[str, ...]


ELEMENT_TYPES = {
    "bf16": ElementType(4, 16, ("bfloat16", "uint16")),
    "f16": ElementType(2, 16, ("float16",)),
    "f32": ElementType(2, 32, ("float32",)),
    "f8E4M3FN": ElementType(10, 8, ("float8_e4m3fn", "uint8")),
    "f8E5M2": ElementType(12, 8, ("float8_e5m2", "uint8")),
    "f8E8M0FNU": ElementType(14, 8, ("float8_e8m0fnu", "uint8")),
    "i32": ElementType(0, 32, ("int32",)),
    "ui8": ElementType(1, 8, ("uint8",)),
}
_NUMPY_CODES = {name: (e.code, e.bits) for e in ELEMENT_TYPES.values() for name in e.numpy_names[:1]}
_NUMPY_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}


def numpy_dtype(element: str) -> numpy.dtype[Any]:
    """The numpy type of new arrays of an element type: of ml_dtypes where that is installed and has it, else the bits as unsigned integers."""
    names = ELEMENT_TYPES[element].numpy_names
    if len(names) > 1:
        try:
            import ml_dtypes  # pylint: disable=import-outside-toplevel

            return numpy.dtype(getattr(ml_dtypes, names[0]))
        except (ImportError, AttributeError):
            return numpy.dtype(names[1])
    return numpy.dtype(names[0])


class Memory(NamedTuple):
    """Memory of a device that no framework has described, as a tensor: for cuda.core, or whoever has an address.

    address: of the first element, in bytes. shape: logical. dtype: MLIR's name, "bf16" or "f8E4M3FN". device: the number of the CUDA device, or
    None for memory of the host. order: the logical dimension at each position in memory, outermost first; () is row-major. owner: what keeps the
    memory alive."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    device: Optional[int] = 0
    order: tuple[int, ...] = ()
    owner: Any = None

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device is not None and not isinstance(self.device, Integral):
            raise TypeError(f"the device of a Memory is {self.device!r}; it must be the number of a CUDA device, or None")
        return (CPU, 0) if self.device is None else (CUDA, self.device)


class View(NamedTuple):
    """A DLTensor and what keeps it and its memory alive."""

    tensor: Tensor
    keep: Any


def view_numpy(array: numpy.ndarray[Any, Any], element: str, is_written: bool) -> View:
    """A numpy array. Unsigned integers of 16 bits are taken as the bits of bf16 where that is wanted, as numpy has no such type."""
    if isinstance(array, numpy.ma.MaskedArray):
        raise ValueError("is a masked array, whose mask kernels would not see")
    if is_written and not array.flags.writeable:
        raise ValueError("is read-only; it would be written")
    dtype = array.dtype
    if not dtype.isnative:
        raise ValueError(f"has elements of {dtype}, of another byte order")
    if element == "bf16" and dtype == numpy.uint16:
        code, bits = ELEMENT_TYPES[element].code, 16
    elif dtype.name in _NUMPY_CODES:
        code, bits = _NUMPY_CODES[dtype.name]
    elif dtype.kind in _NUMPY_KINDS:
        code, bits = _NUMPY_KINDS[dtype.kind], 8 * dtype.itemsize
    else:
        raise ValueError(f"has elements of {dtype}; they must be {element}")
    if array.size and any(stride % dtype.itemsize for stride in array.strides):
        raise ValueError(f"has strides of {array.strides} bytes, which are no multiples of its elements")
    rank = array.ndim
    shape = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*(stride // dtype.itemsize for stride in array.strides))
    tensor = Tensor(array.ctypes.data, Device(CPU, 0), rank, DataType(code, bits, 1), shape, strides, 0)
    return View(tensor, (array, shape, strides))


def view_memory(memory: Memory) -> View:
    """What the memory says of itself."""
    if not isinstance(memory.address, Integral):
        raise TypeError(f"has the address {memory.address!r}; it must be an integer")
    for field, sizes in (("shape", memory.shape), ("order", memory.order)):
        if not isinstance(sizes, Sequence) or not all(isinstance(size, Integral) for size in sizes):
            raise TypeError(f"has the {field} {sizes!r}; it must be integers")
    rank = memory.ndim
    order = memory.order or tuple(range(rank))
    if sorted(order) != list(range(rank)):
        raise ValueError(f"has the order {order}; it must be a permutation of {rank} dimensions")
    if not 0 <= memory.address < 2**64 or not all(0 <= size < 2**63 for size in memory.shape):
        raise ValueError(f"has the address {memory.address} and the shape {tuple(memory.shape)}, which no memory has")
    element = ELEMENT_TYPES.get(memory.dtype)
    if element is None:
        raise ValueError(f"has elements of {memory.dtype}; they must be one of {', '.join(ELEMENT_TYPES)}")
    shape, strides, step = (ctypes.c_int64 * rank)(*memory.shape), (ctypes.c_int64 * rank)(), 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= memory.shape[dimension]
    device = Device(*memory.__dlpack_device__())
    return View(Tensor(memory.address, device, rank, DataType(element.code, element.bits, 1), shape, strides, 0), (memory, shape, strides))


capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def view_capsule(capsule: Any, is_written: bool) -> View:
    """The tensor in a capsule of `__dlpack__`. The capsule stays the owner: it frees the tensor when it goes."""
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _ManagedVersioned.from_address(capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise ValueError(f"comes by DLPack {managed.major}.{managed.minor}; this library knows 1")
        if is_written and managed.flags & READ_ONLY:
            raise ValueError("is read-only; it would be written")
        return View(managed.tensor, capsule)
    if _is_valid(capsule, b"dltensor"):
        return View(_Managed.from_address(capsule_pointer(capsule, b"dltensor")).tensor, capsule)
    raise TypeError("has a __dlpack__ that gives no DLPack capsule")


def _export(array: Any, **options: Any) -> Any:
    """Calls `__dlpack__`, without `max_version` where the producer is older than DLPack 1."""
    try:
        return array.__dlpack__(max_version=(1, 3), **options)
    except TypeError:
        return array.__dlpack__(**options)


def view(array: Any, element: str, is_written: bool, stream: Optional[int]) -> View:
    """Any tensor. `stream`, a CUDA stream's address, is the one that will read it; None: the framework's current one."""
    if isinstance(array, numpy.ndarray):
        return view_numpy(array, element, is_written)
    if isinstance(array, Memory):
        return view_memory(array)
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"is a {type(array).__name__}, which has no __dlpack__")
    if hasattr(array, "is_neg") and array.is_neg():  # a view of torch, whose memory has the other sign
        raise ValueError("is a negative view of its memory; resolve_neg() makes a tensor of it")
    if place(array).type not in (CUDA, CUDA_MANAGED):
        found = view_capsule(_export(array), is_written)
    else:
        # -1: the framework need not wait, for its own current stream is ours. 0 may not be said: 1 is the default stream.
        found = view_capsule(_export(array, stream=-1 if stream is None else stream or 1), is_written)
    given = found.tensor.dtype
    if element == "bf16" and (given.code, given.bits) == (_NUMPY_KINDS["u"], 16):  # its bits, in a framework without it
        tensor = Tensor.from_buffer_copy(found.tensor)
        tensor.dtype = DataType(ELEMENT_TYPES[element].code, 16, given.lanes)
        found = View(tensor, found)
    return found


def place(array: Any) -> Device:
    """Where a tensor is."""
    if isinstance(array, numpy.ndarray):
        return Device(CPU, 0)
    if not hasattr(array, "__dlpack_device__"):
        raise TypeError(f"a tensor is a {type(array).__name__}, which has no __dlpack_device__")
    kind, number = array.__dlpack_device__()
    return Device(int(kind), int(number))


# ---- Frameworks: their current stream, and new tensors ----

def _torch_stream(torch: Any, device: Device) -> int:
    return torch.cuda.current_stream(device.id).cuda_stream


def _cupy_stream(cupy: Any, device: Device) -> int:
    return cupy.cuda.get_current_stream(device.id).ptr


_STREAMS = {"torch": _torch_stream, "cupy": _cupy_stream}


def framework(array: Any) -> str:
    """The name of the package that the tensor's type comes from: "numpy", "torch", "cupy" ..."""
    return type(array).__module__.partition(".")[0]


def current_stream(array: Any) -> Optional[int]:
    """The address of the stream that is current for the tensor's framework and device; None where the framework is not known."""
    if not hasattr(array, "__dlpack_device__"):
        return None
    device = place(array)
    name = framework(array)
    if device.type not in (CUDA, CUDA_MANAGED) or name not in _STREAMS:
        return None
    return _STREAMS[name](sys.modules[name], device)


def _torch_allocating_on(torch: Any, stream: Optional[int], like: Any) -> Any:
    if stream is None or not like.is_cuda:
        return contextlib.nullcontext()
    is_default = stream in (0, 1)  # 1: cudaStreamLegacy, which torch takes for no stream of its own
    return torch.cuda.stream(torch.cuda.default_stream(like.device) if is_default else torch.cuda.ExternalStream(stream, like.device))


def empty(like: Any, shape: tuple[int, ...], order: tuple[int, ...], element: str, stream: Optional[int] = None) -> Any:
    """A new tensor of the framework and on the device of `like`, of a logical shape, compact in a memory order. stream: the address of the
    CUDA stream that it is allocated on; None: the framework's current one. TypeError where the framework is not known."""
    name = framework(like)
    in_memory = tuple(shape[dimension] for dimension in order)
    back = [order.index(dimension) for dimension in range(len(order))]
    if name == "numpy":
        return _aligned(in_memory, numpy_dtype(element)).transpose(back)
    if name == "torch":
        torch = sys.modules[name]
        dtype = getattr(torch, ELEMENT_TYPES[element].numpy_names[0], torch.uint8)
        with _torch_allocating_on(torch, stream, like):
            return torch.empty(in_memory, dtype=dtype, device=like.device).permute(back)
    if name == "cupy":
        cupy = sys.modules[name]
        on = contextlib.nullcontext() if stream is None else cupy.cuda.ExternalStream(stream, like.device.id)
        with cupy.cuda.Device(like.device.id), on:  # it has no type of ml_dtypes: the bits
            return cupy.empty(in_memory, dtype=ELEMENT_TYPES[element].numpy_names[-1]).transpose(back)
    raise TypeError(f"results cannot be made as {type(like).__name__} of {name}; give `out`, a tensor for each result, to the function of a bundle")


def _aligned(shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> numpy.ndarray[Any, Any]:
    """An array whose data is aligned as a GPU's allocator would do it."""
    alignment = 256
    count = 1
    for size in shape:
        count *= size
    memory = numpy.empty(count * dtype.itemsize + alignment, numpy.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + count * dtype.itemsize].view(dtype).reshape(shape)
