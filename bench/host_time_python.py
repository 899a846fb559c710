#!/usr/bin/env python3
"""Host time of one product of quantized operands, called from Python. Prints JSON.

    PYTHONPATH=python bench/host_time_python.py [--rounds N]

needs a Hopper GPU and PyTorch; tvm-ffi is left out where it is not installed. The tensors are small, so that the device keeps up with the
host. In microseconds of host time for a call, each the median of rounds of 100 calls behind a synchronization:

    torch        moe_opt.torch.scaled_grouped_mm
    torch_op     the same through torch's dispatcher, torch.ops.moe_opt.scaled_mm
    torch_own    torch._scaled_grouped_mm
    tvm_ffi      the function of tvm-ffi, on torch's tensors, with a result that is there already
    allocate     torch allocates the result, as moe_opt.torch does

bench/host_time.py has the runtime's part of it.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import statistics
import sys
import time

import torch

import moe_opt
import moe_opt.torch as moe
import moe_opt.tvm_ffi

CALLS = 100
M, N, K, E = 256, 256, 256, 4


def candidates():
    """What is timed, by name."""
    x, w = torch.randn(M, K, device="cuda").bfloat16(), torch.randn(E, N, K, device="cuda").bfloat16()
    offs = torch.arange(1, E + 1, device="cuda", dtype=torch.int32) * (M // E)
    a, b = moe.quantize_fp8(x), moe.quantize_fp8(w)
    operands = (a.q, b.q.transpose(1, 2), a.scales, b.scales, offs)
    op, own = torch.ops.moe_opt.scaled_mm.default, torch._scaled_grouped_mm
    empty = moe._functions._fast_empty
    calls = {
        "torch": lambda: moe.scaled_grouped_mm(*operands),
        "torch_op": lambda: op(*operands),
        "torch_own": lambda: own(*operands, out_dtype=torch.bfloat16, use_fast_accum=True),
        "allocate": lambda: empty((M, N), (N, 1), torch.bfloat16),
    }
    try:
        bundle, name = moe_opt._bundles.find(
            "scaled_grouped_mm.scaled_mm", {"accumulate": "fast"}, [("f8E4M3FN", 2), ("f8E4M3FN", 3), ("f32", 1), ("f32", 2), ("i32", 1)], ["bf16"])
        function = moe_opt.tvm_ffi.functions(moe_opt._bundles.folder() / bundle)[name]
        out = torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
        calls["tvm_ffi"] = lambda: function(*operands, out)
        function(*operands, out)
        assert torch.equal(out, moe.scaled_grouped_mm(*operands))
    except ImportError:
        print("host_time_python: without tvm-ffi, which is not installed", file=sys.stderr)
    return calls


def host_seconds(call, rounds):
    """Of one call; so few that the device's queue holds them all."""
    samples = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        samples.append((time.perf_counter() - begin) / CALLS)
    torch.cuda.synchronize()
    return statistics.median(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=31)
    arguments = parser.parse_args()
    with torch.no_grad():
        calls = candidates()
        for call in calls.values():
            call()
        times = {name: round(host_seconds(call, arguments.rounds) * 1e6, 2) for name, call in calls.items()}
    json.dump({"unit": "us of host time for a call", "device": torch.cuda.get_device_name(), "torch": torch.__version__, "times": times}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
