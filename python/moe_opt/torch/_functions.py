"""Functions of bundles as functions of torch tensors.

A Function allocates its results with torch and hands all tensors to libmoe_rt in one call. The library asks torch, through DLPack's
exchange table, where the tensors are and which stream is current; so nothing here waits for the device or copies.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Union

import torch

from moe_opt import _bundles, _dlpack, _library, _shapes

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, element.numpy_names[0]) for name, element in _dlpack.ELEMENT_TYPES.items()}


try:
    # What compiled code allocates with: a third of the time of torch.empty_strided. On the current device.
    from torch._C import _cuda_getDevice as _current_device
    from torch._C._dynamo.guards import _empty_strided_cuda as _fast_empty
except ImportError:

    def _fast_empty(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

    _current_device = torch.cuda.current_device


Results = Union[torch.Tensor, "tuple[torch.Tensor, ...]"]


class Function:
    """One function of a bundle; calling it with torch tensors gives the result, or the results as a tuple.

    Tensors are on one device, CUDA or CPU (the emulator), and lie in memory as the manifest says; what begins anywhere, as a part of another
    tensor does, is copied, and vectors also where their elements lie apart. Results are new. Work goes to the current stream of the device.
    """

    def __init__(self, bundle: str, name: str, saving: bool = False, cleared: bool = False, overlap: bool = False):
        """saving: results of eight-bit floats come as bytes, which all of torch can copy, sum and compare. cleared: the first result is
        zero where the kernels do not write it. overlap: nothing that may still run at a call writes what the manifest calls constant."""
        self.name = f"{bundle}: {name}"
        self._bundle, self._function, self._cleared = bundle, name, cleared
        self.description = _shapes.description(bundle, name)
        self._in_order = not overlap and any(argument.get("constant") for argument in self.description["arguments"])
        self.results = _shapes.results(self.description)
        dtypes = [DTYPES[result["dtype"]] for result in self.description["results"]]
        self.dtypes = [torch.uint8 if saving and dtype.itemsize == 1 else dtype for dtype in dtypes]
        self.call: Callable[..., Results] = self._open

    def __call__(self, *arguments: torch.Tensor) -> Results:
        return self.call(*arguments)

    def _open(self, *arguments: torch.Tensor) -> Results:
        """The first call. It reads the bundle; code is loaded on a device when the first tensors come from there."""
        table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        if table is None:
            raise RuntimeError(f"moe_opt.torch needs PyTorch 2.10 or newer; this is {torch.__version__}")
        program = _library.program(_bundles.folder() / self._bundle)
        function = program.function(self._function)
        self.call = self._compiled(*(_library.object_call(program, function, table, in_order) for in_order in (self._in_order, True)))
        return self.call(*arguments)

    def _compiled(self, run: Callable[..., int], run_in_order: Callable[..., int]) -> Callable[..., Results]:
        """The call as straight Python: a loop over five tensors takes as long as the launch. run: of the arguments and results; run_in_order:
        the same with arguments that a kernel has just copied."""
        texts = _shapes.result_texts(self.description)
        count = len(self.description["arguments"])
        arguments = [f"a{index}" for index in range(count)]
        results = [f"r{index}" for index in range(len(texts))]
        shapes = [f"    s{index} = a{index}.shape" for index in range(count) if any(f"s{index}[" in text for pair in texts for text in pair)]
        is_current = "device == 0" if torch.cuda.device_count() == 1 else "device >= 0 and device == current_device()"  # -1 is the CPU
        lines = [
            f"def call({', '.join(arguments)}):",
            *shapes,
            "    device = a0.get_device()",
            f"    if {is_current}:",
            *[f"        r{index} = fast_empty({sizes}, {strides}, d{index})" for index, (sizes, strides) in enumerate(texts)],
            "    else:",
            *[f"        r{index} = empty({sizes}, {strides}, dtype=d{index}, device=a0.device)" for index, (sizes, strides) in enumerate(texts)],
            *["    r0.zero_()"] * self._cleared,
            f"    status = run({', '.join(arguments + results)})",
            "    if status:",
            f"        moved = placed({', '.join(arguments)})",
            f"        check(run_in_order(*moved, {', '.join(results)}) if moved else status)",
            f"    return {', '.join(results)}",
        ]
        names: dict[str, Any] = {f"d{index}": dtype for index, dtype in enumerate(self.dtypes)} | {
            "run": run,
            "run_in_order": run_in_order,
            "check": _library.check,
            "placed": self._placed,
            "empty": torch.empty_strided,
            "fast_empty": _fast_empty,
            "current_device": _current_device,
        }
        exec("\n".join(lines), names)  # only names and integers of the manifest
        return names["call"]

    def _placed(self, *arguments: torch.Tensor) -> Optional[list[torch.Tensor]]:
        """Of a call that the library refused: the arguments, with copies of those that a copy makes right; None where there are none."""
        moved = [
            argument.clone(memory_format=torch.contiguous_format if argument.dim() == 1 else torch.preserve_format)
            if argument.data_ptr() % tensor["alignment"] or (argument.dim() == 1 and not argument.is_contiguous())
            else argument
            for argument, tensor in zip(arguments, self.description["arguments"])
        ]
        return None if all(one is other for one, other in zip(moved, arguments)) else moved

    def empty(self, *arguments: torch.Tensor) -> Results:
        """The results before they are computed; arguments may be fake."""
        device = arguments[0].device
        shapes = self.results(*[argument.shape for argument in arguments])
        tensors = [torch.empty_strided(size, stride, dtype=dtype, device=device) for (size, stride), dtype in zip(shapes, self.dtypes)]
        return tuple(tensors) if len(tensors) > 1 else tensors[0]

    def fake(self, *arguments: torch.Tensor) -> Results:
        """`empty` for arguments whose shapes the library checks, where they are numbers."""
        _shapes.check(self._bundle, self._function, [argument.shape for argument in arguments])
        return self.empty(*arguments)

    def zeros(self, *arguments: torch.Tensor) -> Results:
        """Results of zeros: what sums over no tokens are. No kernel sums over a dimension of size 0."""
        found = self.empty(*arguments)
        for tensor in (found,) if isinstance(found, torch.Tensor) else found:
            tensor.zero_()
        return found
