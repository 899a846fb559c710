"""Low-precision kernels of mixture-of-experts models, from Python.

    import moe_opt, numpy

    x = numpy.random.default_rng(0).standard_normal((64, 256), dtype=numpy.float32)
    q, scales = moe_opt.quantize_mx(x)               # MXFP8: E4M3 elements, an E8M0 scale for 32 of them

    program = moe_opt.load("bundle/")                # what moe-opt --emit=bundle wrote
    out = program["grouped_mm"](tokens, weights, offs)

Tensors are anything with `__dlpack__`. numpy arrays run on the emulator of the GPU, CUDA tensors on their device and on the
current stream of their framework. What the kernels compute is docs/numerics.md, to the bit.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from moe_opt._bundles import bundles
from moe_opt._compiler import CompileError, compile  # pylint: disable=redefined-builtin
from moe_opt._dlpack import Memory
from moe_opt._library import (
    DeviceError,
    DeviceLost,
    InputOutputError,
    InvalidArgument,
    InvalidBundle,
    LimitReached,
    MoeError,
    NoDevice,
    NoDriver,
    NotFound,
    NotPrepared,
    OldAssembler,
    OutOfMemory,
    Unsupported,
    set_emulator,
    version,
)
from moe_opt._ops import (
    grouped_mm,
    quantize_fp8,
    quantize_fp8_dual,
    quantize_mx,
    quantize_mx_dual,
    scaled_mm,
)
from moe_opt._program import Dimension, Function, Program, TensorInfo, load

__version__ = version()
__all__ = [
    "CompileError",
    "DeviceError",
    "DeviceLost",
    "Dimension",
    "Function",
    "InputOutputError",
    "InvalidArgument",
    "InvalidBundle",
    "LimitReached",
    "Memory",
    "MoeError",
    "NoDevice",
    "NoDriver",
    "NotFound",
    "NotPrepared",
    "OldAssembler",
    "OutOfMemory",
    "Program",
    "TensorInfo",
    "Unsupported",
    "bundles",
    "compile",
    "grouped_mm",
    "load",
    "quantize_fp8",
    "quantize_fp8_dual",
    "quantize_mx",
    "quantize_mx_dual",
    "scaled_mm",
    "set_emulator",
]

# A traceback then names what people import, and not the file that it is written in.
for _name in __all__:
    _value = globals()[_name]
    if isinstance(_value, type) and issubclass(_value, MoeError):
        _value.__module__ = __name__
del _name, _value
