"""What the comparisons with PyTorch share: groups of tokens, times of CUDA graphs that take turns, and clocks.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import statistics
import subprocess
import time

import torch

from products import EDGE_SIZES
from turns import turns

DEVICE = "cuda"
ROUNDS = 20
BUSY_SECONDS = 0.3  # until clocks are read
ALONE_SECONDS = 0.5


def group_ends(kind, rows, experts):
    """The ends of the groups, int32 on the device. Groups of kind "edge" end where they end, before the last row maybe."""
    if kind == "equal":
        sizes = [rows // experts] * experts
    elif kind == "edge":
        sizes = [EDGE_SIZES[e % len(EDGE_SIZES)] for e in range(experts)]
    elif kind == "one":
        sizes = [0] * (experts // 2) + [rows] + [0] * (experts - experts // 2 - 1)
    else:
        weights = torch.rand(experts, generator=torch.Generator().manual_seed(5)) + 0.2
        ends = (weights / weights.sum()).cumsum(0) * rows
        return torch.cat([ends[:-1], torch.tensor([float(rows)])]).to(torch.int32).to(DEVICE)
    return torch.tensor(sizes, device=DEVICE).cumsum(0).to(torch.int32)


def captured(function, pool=None):
    """A CUDA graph of the calls of function, and what the function returned, which each replay overwrites. pool: of graphs that may share
    memory."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        keep = function()
    return graph, keep


def clearing_l2():
    """A function that leaves in L2 nothing but clean lines that are of no use to anyone."""
    size = 4 * torch.cuda.get_device_properties(0).L2_cache_size
    buffer, sink = torch.empty(size // 4, dtype=torch.int32, device=DEVICE), torch.empty((), dtype=torch.int32, device=DEVICE)

    def clear():
        buffer.fill_(1)  # keeps the device busy while the host queues the rest
        torch.amax(buffer, (0,), out=sink)

    return clear


def times(functions, before=lambda: None, rounds=ROUNDS, pool=None):
    """Median seconds of each function, as a CUDA graph; they take turns. `before` runs before each, untimed. With a pool their results
    share memory."""
    graphs = [captured(function, pool)[0] for function in functions]
    samples = [[] for _ in graphs]
    for order in turns(len(graphs), rounds):
        for number in order:
            graph, sample = graphs[number], samples[number]
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before()
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            sample.append(begin.elapsed_time(end) * 1e-3)
    return [statistics.median(sample) for sample in samples]


# ---- Clocks ----


def read_clocks():
    """MHz and W, by NVML where it is there, else by nvidia-smi; None where neither is."""
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        return pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM), pynvml.nvmlDeviceGetPowerUsage(device) / 1000
    except Exception:  # whatever is missing
        pass
    try:
        query = ["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"]
        clock, power = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split(",")
        return int(clock), float(power)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def clocks_of(function, seconds):
    """What they are while the function, which takes so long, is repeated."""
    graph, _ = captured(function)
    for _ in range(max(1, int(2 * BUSY_SECONDS / seconds))):
        graph.replay()
    time.sleep(BUSY_SECONDS)
    clocks = read_clocks()
    torch.cuda.synchronize()
    return clocks


def alone(function, seconds):
    """What a function that takes so long does when it is repeated for ALONE_SECONDS: seconds, MHz and W in the second half."""
    graph, _ = captured(function)
    half = max(1, int(ALONE_SECONDS / 2 / seconds))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(half):
        graph.replay()
    begin.record()
    for _ in range(half):
        graph.replay()
    end.record()
    time.sleep(0.8 * ALONE_SECONDS)
    clocks = read_clocks()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / half, clocks
