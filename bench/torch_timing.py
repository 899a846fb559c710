"""What the comparisons with PyTorch share: groups of tokens, and times of CUDA graphs that take turns.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import random
import statistics

import torch

DEVICE = "cuda"
EDGE_SIZES = [0, 1, 15, 16, 31, 63, 64, 65, 127, 128, 129, 0]
ROUNDS = 20


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


def captured(function):
    """A CUDA graph of the calls of function, and what the function returned, which each replay overwrites."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
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


def times(functions, before=lambda: None, rounds=ROUNDS):
    """Median seconds of each function, as a CUDA graph; they take turns, each round in another order, so that none always follows
    the same other one. `before` runs before each, untimed."""
    graphs = [captured(function) for function in functions]
    samples, order = [[] for _ in graphs], random.Random(1)
    for _ in range(rounds):
        for number in order.sample(range(len(graphs)), len(graphs)):
            (graph, _), sample = graphs[number], samples[number]
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before()
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            sample.append(begin.elapsed_time(end) * 1e-3)
    return [statistics.median(sample) for sample in samples]
