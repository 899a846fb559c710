"""Programs and their functions.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import ctypes
import operator
import os
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Union

from moe_opt import _bundles, _dlpack, _library
from moe_opt._library import InvalidArgument, NotFound, OutOfMemory, check, lib

Dimension = Union[int, str, None]
"""A size: a number, the name of a symbol, or None where it follows from symbols by a formula."""

_REPORTS = {
    1: "an offset is below the one before it, or the first is negative",
    2: "an offset is beyond the rows",
}


class TensorInfo(NamedTuple):
    """A tensor of a function's signature."""

    name: str
    dtype: str
    """MLIR's name: "bf16", "f32", "f8E4M3FN" ..."""
    shape: tuple[Dimension, ...]
    """The logical shape."""
    order: tuple[int, ...]
    """The logical dimension at each position in memory, outermost first; memory is compact in this order."""
    alignment: int
    """Of the first byte, in bytes."""
    constant: bool
    """Whether a call that overlaps may read it while what is before the call on the stream still runs."""


def _describe(info: Any) -> TensorInfo:
    shape = tuple(
        info.shape[i].symbol.decode() if info.shape[i].symbol else (info.shape[i].size if info.shape[i].size >= 0 else None)
        for i in range(info.rank)
    )
    return TensorInfo(info.name.decode(), info.dtype.decode(), shape, tuple(info.order[: info.rank]), info.alignment, info.is_constant)


def _stream_address(stream: Any) -> int:
    """The address of a CUDA stream given as a number or by the protocol `__cuda_stream__`."""
    address = int(stream.__cuda_stream__()[1]) if hasattr(stream, "__cuda_stream__") else stream
    if isinstance(address, int):
        if not 0 <= address < 2**64:
            raise InvalidArgument(f"stream is {address}, which is no address")
        return address
    raise TypeError(f"stream is a {type(stream).__name__}; it must be an address or have __cuda_stream__")


_on_gpus: set[_library.ProgramHandle] = set()  # their kernels may run behind the last reference, so they stay loaded


class Function:
    """A function of a program. Call it with its arguments, in order."""

    def __init__(self, program: _library.ProgramHandle, address: int) -> None:
        self._program, self._address = program, address
        info = _library.FunctionInfo.from_address(address)
        self.name: str = info.name.decode()
        self.arguments: tuple[TensorInfo, ...] = tuple(_describe(info.arguments[i]) for i in range(info.argument_count))
        self.results: tuple[TensorInfo, ...] = tuple(_describe(info.results[i]) for i in range(info.result_count))

    def __repr__(self) -> str:
        def text(tensors: Sequence[TensorInfo]) -> str:
            return ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in tensors)

        return f"<moe_opt.Function {self.name}({text(self.arguments)}) -> ({text(self.results)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, (Program(self._program), self.name)

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        return self

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
        """Runs the function.

        arguments: a tensor for each of `self.arguments`, numpy arrays or anything with `__dlpack__`, all on one device. Memory is compact in
            the order of the signature. Eight-bit floats may be uint8, and bf16 of numpy may be uint16, the bits.
        out: a tensor for each of `self.results`, to write into, or the tensor of the only one; otherwise they are made by the framework of the
            first argument, which must be numpy, torch or cupy. On a GPU they are allocated on the stream.
        stream: a CUDA stream, its address or an object with `__cuda_stream__`; otherwise the current one of torch or cupy, else the
            default stream. Where it is given, arguments and results must stay alive until the work on it is done.
        overlap: whether it may begin while earlier work on the stream still runs. Until that is done it reads only constant arguments
            (TensorInfo.constant), which no earlier work that may still run may write.

        Gives the result, or a tuple of results. Those of numpy are complete when it returns, those of a GPU when the stream has reached this
        call. InvalidArgument names a tensor that does not fit. A first call on a device loads the code there; NotPrepared where the stream is
        captured then.
        """
        if len(arguments) != len(self.arguments):
            names = ", ".join(t.name for t in self.arguments)
            raise InvalidArgument(f"function '{self.name}': got {len(arguments)} arguments; it takes {len(self.arguments)}: {names}")
        address = _dlpack.current_stream(arguments[0]) if stream is None and arguments else None
        # The framework whose current stream this is: its tensors need not wait for themselves.
        own = None if address is None else _dlpack.framework(arguments[0])
        if address is None:
            address = 0 if stream is None else _stream_address(stream)
        views = [self._view(array, info, "argument", address, own) for array, info in zip(arguments, self.arguments)]
        if hasattr(out, "__dlpack_device__"):
            out = (out,)
        if out is None:
            out = self._allocate(arguments[0], views, None if own else address)
        elif len(out) != len(self.results):
            raise InvalidArgument(f"function '{self.name}': out has {len(out)} tensors; there are {len(self.results)} results")
        views += [self._view(array, info, "result", address, own) for array, info in zip(out, self.results)]
        pointers = (ctypes.POINTER(_dlpack.Tensor) * len(views))(*(ctypes.pointer(v.tensor) for v in views))
        if views and views[0].tensor.device.type != _dlpack.CPU:
            _on_gpus.add(self._program)
        run = lib.moe_rt_call_run if overlap else lib.moe_rt_call_run_in_order
        check(run(self._program.handle, self._address, pointers, len(views), None, address or None))
        return out[0] if len(out) == 1 else tuple(out)

    def _view(self, array: Any, info: TensorInfo, role: str, stream: int, own: Optional[str]) -> _dlpack.View:
        try:
            return _dlpack.view(array, info.dtype, role == "result", None if own == _dlpack.framework(array) else stream)
        except (TypeError, ValueError, BufferError) as error:
            kind = TypeError if isinstance(error, TypeError) else InvalidArgument
            raise kind(f"function '{self.name}': {role} '{info.name}': {error}") from error

    def _allocate(self, like: Any, views: Sequence[_dlpack.View], stream: Optional[int]) -> list[Any]:
        pointers = (ctypes.POINTER(_dlpack.Tensor) * len(views))(*(ctypes.pointer(v.tensor) for v in views))
        results = (_library.Result * len(self.results))()
        check(lib.moe_rt_call_results(self._program.handle, self._address, pointers, len(views), results, None))
        made = []
        for result, info in zip(results, self.results):
            shape = tuple(result.shape[: len(info.shape)])
            try:
                made.append(_dlpack.empty(like, shape, info.order, info.dtype, stream))
            except MemoryError as error:  # torch has an error of its own, which stays
                raise OutOfMemory(f"function '{self.name}': result '{info.name}': no memory for {info.dtype} {list(shape)}") from error
        return made

    def reports(self, like: Any, stream: Any = None) -> list[str]:
        """What kernels found wrong with offsets that only the device sees, on the device of the tensor `like`, since the last time.

        stream: as of a call; it must be said where the current one is not known, as of jax. It waits for that stream, and no other may have
        a run of the function under way, whose report could be lost. Results are defined all the same: docs/manifest.md says how."""
        bits = ctypes.c_uint32()
        address = _dlpack.current_stream(like) if stream is None else _stream_address(stream)
        if address is None and _dlpack.place(like).type != _dlpack.CPU:
            raise InvalidArgument(f"function '{self.name}': the current stream of {_dlpack.framework(like)} is not known; say which one the calls were on")
        check(lib.moe_rt_function_status(self._program.handle, self._address, _dlpack.place(like), address or None, ctypes.byref(bits)))
        return [text for bit, text in _REPORTS.items() if bits.value & bit]


class Program:
    """The functions of a bundle: `program["name"]`, or `program.name`; a program of one function can be called itself."""

    def __init__(self, handle: _library.ProgramHandle) -> None:
        self._handle = handle
        addresses = [lib.moe_rt_program_function(handle.handle, i) for i in range(lib.moe_rt_program_function_count(handle.handle))]
        self._functions = {function.name: function for function in (Function(handle, address) for address in addresses)}

    def __repr__(self) -> str:
        return f"<moe_opt.Program {self._handle.folder}: {', '.join(self._functions)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """By the folder, or the name of a bundle of the package: what loads it needs the same one."""
        return load, (_bundles.name_of(self._handle.folder) or self._handle.folder,)

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self

    def __getitem__(self, name: str) -> Function:
        if not isinstance(name, str):
            raise TypeError(f"a function is asked for by its name, a str, and not by a {type(name).__name__}")
        if name not in self._functions:
            self._handle.function(name)  # raises NotFound, which lists those there are
        return self._functions[name]

    def __getattr__(self, name: str) -> Function:
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"the program has no function '{name}'; there are: {', '.join(functions)}")

    def __iter__(self) -> Iterator[Function]:
        return iter(self._functions.values())

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
        """The only function of the program; NotFound where it has several."""
        if len(self._functions) != 1:
            raise NotFound(f"the program has several functions, name one: {', '.join(self._functions)}")
        (function,) = self._functions.values()
        return function(*arguments, out=out, stream=stream, overlap=overlap)

    def load_on(self, like: Any) -> None:
        """Loads the code on the device of a tensor now, rather than at the first call; a stream can be captured after that."""
        loaded = ctypes.c_void_p()
        check(lib.moe_rt_program_on(self._handle.handle, _dlpack.place(like), ctypes.byref(loaded)))


def load(path: str | os.PathLike[str]) -> Program:
    """The program of a bundle: a folder that moe-opt wrote, or the name of a bundle of the package (`moe_opt.bundles()`).

    The folder is read and checked now; code is loaded on a device when it is first needed there. InputOutputError where a file cannot be
    read and for a name that is neither, InvalidBundle where a file is damaged."""
    own = _bundles.named(path)
    return Program(_library.ProgramHandle(path) if own is None else _library.program(own))
