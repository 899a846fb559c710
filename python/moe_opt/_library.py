"""libmoe_rt by ctypes: where it is, its structs, its functions, and its statuses as exceptions.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import ctypes
import functools
import numbers
import os
import pathlib
from typing import Any, Callable, Sequence

from moe_opt import _dlpack

MAX_RANK = 5


class MoeError(Exception):
    """A function of libmoe_rt failed; the text names the place, the value found and the value allowed."""


class InvalidArgument(MoeError, ValueError):
    """A tensor or another argument does not fit the function."""


class NotFound(MoeError, LookupError):
    """There is no function, or bundle, of that name."""


class InvalidBundle(MoeError, ValueError):
    """A bundle is damaged."""


class Unsupported(MoeError):
    """The device cannot run this code."""


class NoDriver(MoeError):
    """There is no CUDA driver on this machine."""


class NoDevice(MoeError):
    """There is no such device."""


class OutOfMemory(MoeError, MemoryError):
    """The device or the host has no memory left."""


class DeviceError(MoeError):
    """The device, or the emulator, found a fault in a kernel."""


class DeviceLost(MoeError):
    """An earlier fault left the device unusable for this process."""


class NotPrepared(MoeError):
    """The program must be loaded on the device first, before the stream is captured."""


class InputOutputError(MoeError, OSError):
    """A file cannot be read."""


class OldAssembler(MoeError):
    """The assembler of a bundle's code, or the compiler of the driver, is older than its kernels need."""


class LimitReached(MoeError):
    """A launch on the emulator came to the step limit of `set_emulator`, and was ended."""


_EXCEPTIONS: dict[int, type[MoeError]] = {
    1: InvalidArgument,
    2: NotFound,
    3: InvalidBundle,
    4: Unsupported,
    5: NoDriver,
    6: NoDevice,
    7: OutOfMemory,
    8: DeviceError,
    9: DeviceLost,
    10: NotPrepared,
    11: InputOutputError,
    12: OldAssembler,
    13: LimitReached,
}


class EmulatorOptions(ctypes.Structure):
    """moe_rt_emulator_options_t"""

    _fields_ = [("schedule", ctypes.c_uint64), ("threads", ctypes.c_int), ("step_limit", ctypes.c_uint64)]


class Result(ctypes.Structure):
    """moe_rt_result_t"""

    _fields_ = [("tensor", _dlpack.Tensor), ("shape", ctypes.c_int64 * MAX_RANK), ("strides", ctypes.c_int64 * MAX_RANK)]


class DimensionInfo(ctypes.Structure):
    """moe_rt_dimension_t"""

    _fields_ = [("size", ctypes.c_int64), ("symbol", ctypes.c_char_p)]


class TensorInfo(ctypes.Structure):
    """moe_rt_tensor_info_t"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("dtype_bits", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("shape", DimensionInfo * MAX_RANK),
        ("order", ctypes.c_int * MAX_RANK),
        ("alignment", ctypes.c_int64),
        ("is_constant", ctypes.c_bool),
    ]


class FunctionInfo(ctypes.Structure):
    """moe_rt_function_info_t"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("argument_count", ctypes.c_int),
        ("result_count", ctypes.c_int),
        ("temporary_count", ctypes.c_int),
        ("launch_count", ctypes.c_int),
        ("arguments", ctypes.POINTER(TensorInfo)),
        ("results", ctypes.POINTER(TensorInfo)),
        ("temporaries", ctypes.POINTER(TensorInfo)),
        ("launches", ctypes.c_void_p),
    ]


def _folders() -> list[pathlib.Path]:
    """Where the libraries may be: in the wheel, or in the build folder of a source tree."""
    package = pathlib.Path(__file__).resolve().parent
    return [package / "lib", package.parent.parent / "build" / "lib"]


def library_path(name: str) -> str:
    """The path of a library; its soname, for the loader to find, where it is neither in the wheel nor in a source tree."""
    soname = f"lib{name}.so.0"
    for folder in _folders():
        if (folder / soname).exists():
            return str(folder / soname)
    return soname


def runtime_path() -> str:
    """The path of libmoe_rt, or the name by which the loader finds it."""
    return library_path("moe_rt")


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "moe_rt_last_message": (ctypes.c_char_p, []),
    "moe_rt_version": (ctypes.c_char_p, []),
    "moe_rt_emulator_configure": (ctypes.c_int, [ctypes.POINTER(EmulatorOptions)]),
    "moe_rt_program_read": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]),
    "moe_rt_program_destroy": (None, [ctypes.c_void_p]),
    "moe_rt_program_on": (ctypes.c_int, [ctypes.c_void_p, _dlpack.Device, ctypes.POINTER(ctypes.c_void_p)]),
    "moe_rt_program_function_count": (ctypes.c_int, [ctypes.c_void_p]),
    "moe_rt_program_function": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]),
    "moe_rt_program_find": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]),
    "moe_rt_function_shapes": (ctypes.c_int, [ctypes.c_void_p] * 5),
    "moe_rt_call_results": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)],
    ),
    "moe_rt_call_run": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p],
    ),
    "moe_rt_call_run_in_order": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p],
    ),
    "moe_rt_function_status": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_void_p, _dlpack.Device, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32)],
    ),
}


def bind(library: ctypes.CDLL, signatures: dict[str, tuple[Any, list[Any]]]) -> ctypes.CDLL:
    """Gives the functions of a library their types."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _open() -> ctypes.CDLL:
    path = runtime_path()
    try:
        return bind(ctypes.CDLL(path), _SIGNATURES)
    except OSError as error:
        raise ImportError(f"moe_opt cannot load libmoe_rt: {error}; ./dev build makes it in a source tree") from error


lib = _open()


def check(status: int) -> None:
    """Raises the exception of a status that is not 0, with the message of the last call of this thread."""
    if status:
        message = lib.moe_rt_last_message().decode(errors="replace")
        raise _EXCEPTIONS.get(status, MoeError)(message)


def version() -> str:
    """The version of libmoe_rt, "0.1.0"."""
    return lib.moe_rt_version().decode()


def set_emulator(*, schedule: int = 0, threads: int = 0, step_limit: int = 0) -> None:
    """Says how the emulator runs in this process, for every call from now on; without arguments as at the start.

    schedule: 0 gives warps turns in order; another number is the seed of a random order of warps and of asynchronous work.
    threads: how many run the CTAs of a launch, to 1024; 0: one for each processor.
    step_limit: instructions that all warps of a CTA, or of a cluster, together may execute, each counted once for a warp; 0: no limit. A launch
        that reaches it raises LimitReached, and its results are undefined.
    """
    for name, value, most in (("schedule", schedule, 2**64 - 1), ("threads", threads, 1024), ("step_limit", step_limit, 2**64 - 1)):
        if not isinstance(value, numbers.Integral):
            raise TypeError(f"set_emulator: {name} is {value!r}; it must be a number")
        if not 0 <= value <= most:
            raise InvalidArgument(f"set_emulator: {name} is {value}; it must be 0 to {most}")
    check(lib.moe_rt_emulator_configure(EmulatorOptions(schedule, threads, step_limit)))


class ProgramHandle:
    """A program of libmoe_rt, for all devices. It is destroyed with the last reference."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        handle, name = ctypes.c_void_p(), os.fsencode(path)
        if b"\0" in name:  # the library would read up to there
            raise InvalidArgument(f"{path!r}: a path has no NUL")
        check(lib.moe_rt_program_read(name, ctypes.byref(handle)))
        self.folder: str = os.fsdecode(os.path.abspath(path))
        self.handle: int = handle.value or 0
        self._destroy = lib.moe_rt_program_destroy

    def __del__(self) -> None:
        if getattr(self, "handle", 0):
            self._destroy(self.handle)

    def function(self, name: str) -> int:
        """The address of the function's moe_rt_function_info_t. NotFound names those there are."""
        function = ctypes.c_void_p()
        check(lib.moe_rt_program_find(self.handle, name.encode(), ctypes.byref(function)))
        return function.value or 0

    def check_shapes(self, function: int, shapes: Sequence[Sequence[int]]) -> None:
        """InvalidArgument where the arguments of a function, which have the right ranks, cannot have these shapes."""
        arrays = [(ctypes.c_int64 * len(shape))(*shape) for shape in shapes]
        pointers = (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
        check(lib.moe_rt_function_shapes(self.handle, function, pointers, None, None))


class _ObjectCall(ctypes.Structure):
    """moe_rt_object_call_t"""

    _fields_ = [("program", ctypes.c_void_p), ("function", ctypes.c_void_p), ("framework", ctypes.c_void_p), ("in_order", ctypes.c_bool)]


class _MethodDef(ctypes.Structure):
    """PyMethodDef"""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_FASTCALL = 0x80  # METH_FASTCALL
_object_calls: list[Any] = []  # what Python's functions point to, which may be called as long as the process lives


def object_call(program: ProgramHandle, function: int, exchange_table: Any, in_order: bool) -> Callable[..., int]:
    """moe_rt_python_run of a function of the program: called with the arguments and results, tensors of one framework, it runs the function
    and returns a status for `check`. It is a function as those of C extensions are: calling one through ctypes takes longer than the checks.

    exchange_table: DLPack's capsule with the functions of the framework, __dlpack_c_exchange_api__ of the type of its tensors.
    in_order: the function's constants may have been written by the kernel that is before it on the stream."""
    call = _ObjectCall(program.handle, function, _dlpack.capsule_pointer(exchange_table, b"dlpack_exchange_api"), in_order)
    run = ctypes.cast(lib.moe_rt_python_run, ctypes.c_void_p).value
    method = _MethodDef(b"moe_rt_python_run", run, _FASTCALL, None)
    _object_calls.append((program, call, method))
    return _new_function(ctypes.byref(method), ctypes.addressof(call), None)


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype, _new_function.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


@functools.lru_cache(maxsize=None)
def program(path: str | os.PathLike[str]) -> ProgramHandle:
    """The program in a folder that does not change, read once in the process."""
    return ProgramHandle(path)
