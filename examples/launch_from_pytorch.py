#!/usr/bin/env python3
"""Launches a bundle from PyTorch without libmoe_rt: the manifest and the CUDA driver are enough.

    moe-opt examples/quantize_expert_weights.mlir --emit=bundle -o quantize_expert_weights/
    python3 examples/launch_from_pytorch.py quantize_expert_weights/

Why it exists: authors of other runtimes can read here all that a launcher must do. docs/manifest.md says what each field
means. With CuPy only the allocation of tensors differs.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import ctypes
import json
import math
import pathlib
import sys

import torch

DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "f8E8M0FNU": torch.float8_e8m0fnu,
    "i32": torch.int32,
    "ui8": torch.uint8,
}
# Values of the driver's enums (cuda.h).
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
ELEMENTS = {"u8": 0, "f32": 7, "bf16": 9}
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
PROGRAMMATIC_STREAM_SERIALIZATION = 6
L2_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS = {"zero": 0, "nan": 1}

cuda = ctypes.CDLL("libcuda.so.1")


def driver(name, *arguments):
    """Calls a function of the driver and turns its error code into an exception."""
    code = getattr(cuda, name)(*arguments)
    if code:
        raise RuntimeError(f"{name} failed with CUDA error {code}")


def evaluate(expression, values):
    """The value of an expression; values: shape symbols, num_sms and, in grids, num_clusters."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return values[expression]
    ((operator, operands),) = expression.items()
    operands = [evaluate(operand, values) for operand in operands]
    if operator == "ceildiv":
        return -(-operands[0] // operands[1])
    return {"mul": math.prod, "add": sum, "min": min}[operator](operands)


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_memory", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint)]


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute with a value that is an int."""

    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


def count_clusters(function, kernel):
    """How many clusters of a kernel the device holds at once; the code says how large they are."""
    if math.prod(kernel["cluster"]) == 1:
        return 0
    count = ctypes.c_int()
    config = LaunchConfig(tuple(kernel["cluster"]), tuple(kernel["block"]), kernel["shared_memory"])
    driver("cuOccupancyMaxActiveClusters", ctypes.byref(count), function, ctypes.byref(config))
    return count.value


def allocate(description, values):
    """A tensor of the described logical shape, compact in the described memory order."""
    shape = [evaluate(size, values) for size in description["shape"]]
    order = description["order"]
    memory = torch.empty([shape[d] for d in order], dtype=DTYPES[description["dtype"]], device="cuda")
    return memory.permute([order.index(d) for d in range(len(shape))])


def check(argument, description, values):
    """Kernels see no more than an address: type, shape and memory order of an argument are for the launcher to check."""
    name, dtype = description["name"], DTYPES[description["dtype"]]
    assert argument.is_cuda, f"{name} is on {argument.device}"
    as_bytes = argument.dtype == torch.uint8 and dtype.itemsize == 1  # as of DLPack before it knew 8-bit floats
    assert argument.dtype == dtype or as_bytes, f"{name} is {argument.dtype}, not {dtype}"
    shape = [evaluate(size, values) for size in description["shape"]]
    assert list(argument.shape) == shape, f"{name} is {list(argument.shape)}, not {shape}"
    order = description["order"]
    assert argument.permute(order).is_contiguous(), f"{name}: strides {argument.stride()} are not of memory order {order}"
    assert argument.data_ptr() % description["alignment"] == 0, f"{name} is not aligned to {description['alignment']} bytes"


def encode_tensor_map(parameter, tensor, values):
    """A 128-byte CUtensorMap, aligned to 64."""
    rank = len(parameter["dims"])
    memory = ctypes.create_string_buffer(128 + 64)
    address = (ctypes.addressof(memory) + 63) // 64 * 64
    driver(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(address),
        ELEMENTS[parameter["element"]],
        ctypes.c_uint32(rank),
        ctypes.c_void_p(tensor.data_ptr()),
        (ctypes.c_uint64 * rank)(*[evaluate(size, values) for size in parameter["dims"]]),
        (ctypes.c_uint64 * (rank - 1))(*[evaluate(stride, values) for stride in parameter["strides"]]),
        (ctypes.c_uint32 * rank)(*[evaluate(size, values) for size in parameter["box"]]),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,  # not interleaved
        SWIZZLES[parameter["swizzle"]],
        L2_PROMOTIONS[parameter["l2_promotion"]],
        FILLS[parameter["fill"]],
    )
    return memory, address


class Bundle:
    """A loaded bundle; call it with the function's arguments to get its results. overlap: nothing that may
    still run at a call writes what is constant among these, so that launches may start early where the manifest allows it."""

    def __init__(self, folder, overlap=False):
        folder, self.overlap = pathlib.Path(folder), overlap
        self.manifest = json.loads((folder / "manifest.json").read_text())
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes PyTorch's context current
        artifacts = self.manifest["artifacts"]
        code = (folder / artifacts.get("cubin", artifacts["ptx"])["file"]).read_bytes()
        module = ctypes.c_void_p()
        driver("cuModuleLoadData", ctypes.byref(module), code + b"\0")
        self.kernels = {}
        for kernel in self.manifest["kernels"]:
            function = ctypes.c_void_p()
            driver("cuModuleGetFunction", ctypes.byref(function), module, kernel["name"].encode())
            driver("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel["shared_memory"])
            self.kernels[kernel["name"]] = (function, kernel, count_clusters(function, kernel))
        self.num_sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.zeroed = {}

    def __call__(self, *arguments):
        (function,) = self.manifest["functions"]
        values = self.bind(function, arguments)
        tensors = {}
        for argument, description in zip(arguments, function["arguments"], strict=True):
            check(argument, description, values)
            tensors[description["name"]] = argument
        for description in function["results"] + function["temporaries"]:
            zero = description.get("initial") == "zero"
            tensors[description["name"]] = (self.allocate_zeroed if zero else allocate)(description, values)
        launched = False
        for number, launch in enumerate(function["launches"]):
            # Where the launches before it are left out, only the first one in the list knows what to wait for.
            early = self.overlap and launch["programmatic"] and (launched or number == 0)
            launched |= self.launch(launch, tensors, values, early)
        return [tensors[description["name"]] for description in function["results"]]

    def bind(self, function, arguments):
        """Values of num_sms and of the shape symbols: each is a dimension of an argument."""
        values = {"num_sms": self.num_sms}
        for argument, description in zip(arguments, function["arguments"], strict=True):
            for size, expression in zip(argument.shape, description["shape"], strict=True):
                if isinstance(expression, str):
                    values.setdefault(expression, size)
        for symbol in function["symbols"]:
            size = values[symbol["name"]]
            assert size % symbol["multiple_of"] == 0 and symbol["min"] <= size <= symbol["max"], f"{symbol}: {size}"
        return values

    def allocate_zeroed(self, description, values):
        """Zeroed once: kernels leave it zero. So one tensor serves all calls, as long as these are on one stream."""
        key = (description["name"], *(evaluate(size, values) for size in description["shape"]))
        if key not in self.zeroed:
            assert not torch.cuda.is_current_stream_capturing(), "call the bundle once before it is captured"
            self.zeroed[key] = allocate(description, values).zero_()
        return self.zeroed[key]

    def status(self):
        """The bits that kernels have reported since the last time (docs/manifest.md); waits for them."""
        (function,) = self.manifest["functions"]
        word = self.zeroed.get((function["status"], 1))
        if word is None:
            return 0
        bits = word.item()
        word.zero_()
        return bits

    def launch(self, launch, tensors, values, early):
        """A launch, which may start early or not: the latter is always right. False where there is nothing to launch."""
        kernel, description, num_clusters = self.kernels[launch["kernel"]]
        grid = [evaluate(size, values | {"num_clusters": num_clusters}) for size in launch["grid"]]
        if 0 in grid:
            return False
        keep, addresses = [], []
        for parameter in launch["parameters"]:
            if parameter["kind"] == "tensor_map":
                memory, address = encode_tensor_map(parameter, tensors[parameter["tensor"]], values)
            else:
                if parameter["kind"] == "pointer":
                    memory = ctypes.c_uint64(tensors[parameter["tensor"]].data_ptr())
                else:
                    integer = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}[parameter["type"]]
                    memory = integer(evaluate(parameter["value"], values))
                address = ctypes.addressof(memory)
            keep.append(memory)
            addresses.append(address)
        attribute = LaunchAttribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, 1)
        config = LaunchConfig(
            tuple(grid),
            tuple(description["block"]),
            description["shared_memory"],
            torch.cuda.current_stream().cuda_stream,
            ctypes.addressof(attribute),
            int(early),
        )
        driver("cuLaunchKernelEx", ctypes.byref(config), kernel, (ctypes.c_void_p * len(addresses))(*addresses), None)
        return True


def reference(w):
    """MXFP8 along dimension 1, RCEIL, in PyTorch: what people run today."""
    experts, n, k = w.shape
    blocks = w.float().view(experts, n // 32, 32, k)
    scaled = blocks.abs().amax(2) * torch.tensor(1 / 448, dtype=torch.float32, device=w.device)
    bits = scaled.view(torch.int32)
    scales = torch.where(bits <= 0x400000, 0, (bits + 0x7FFFFF) >> 23)
    reciprocals = ((254 - scales) << 23).view(torch.float32)
    q = (blocks * reciprocals[:, :, None]).to(torch.float8_e4m3fn)
    return q.view(experts, n, k), scales.to(torch.uint8).view(torch.float8_e8m0fnu)


def equal(a, b):
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def main():
    bundle = Bundle(sys.argv[1])
    w = torch.randn(4, 2048, 1024, device="cuda", dtype=torch.bfloat16)
    q, scales = bundle(w)
    expected_q, expected_scales = reference(w)
    assert equal(q, expected_q), "q differs"
    assert equal(scales, expected_scales), "scales differ"

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured_q, captured_scales = bundle(w)
    w.copy_(torch.randn_like(w))
    for _ in range(3):
        graph.replay()
    expected_q, expected_scales = reference(w)
    assert equal(captured_q, expected_q), "q differs in the graph"
    assert equal(captured_scales, expected_scales), "scales differ in the graph"
    print(f"q {tuple(q.shape)}, strides {q.stride()}, and scales {tuple(scales.shape)} equal PyTorch's, in a CUDA graph too")


if __name__ == "__main__":
    main()
