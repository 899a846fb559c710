#!/usr/bin/env python3
"""What tiles alone allow: ragged groups beside equal ones, by counting. No GPU and no PyTorch are needed.

    bench/tile_bounds.py [SMS]

For the shapes of bench/products.py and the ragged groups of bench/torch_timing.py. A tile takes as long as it has to multiply, and nothing else: no
loads, no stores, one clock. Multiprocessors take tiles in order, each the next one when it is free. A figure is the time with equal groups over that
with ragged ones, so that 1 is no cost; "work" is that of what is multiplied, as if no multiprocessor waited at the end.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import heapq
import random
import sys

from products import BENCH

TILE, STEP = 128, 32  # rows of a tile, tokens of a k-tile; tokens of a step
SEED = 5  # of torch_timing.group_ends


def uniform(seed):
    """The numbers of torch.rand on the CPU: the same generator as Python's, begun otherwise, 24 bits of each word."""
    state = [seed]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) & 0xFFFFFFFF)
    words = random.Random()
    words.setstate((3, (*state, 624), None))
    while True:
        yield (words.getrandbits(32) & 0xFFFFFF) / 2**24


def ragged(rows, experts):
    numbers = uniform(SEED)
    weights = [next(numbers) + 0.2 for _ in range(experts)]
    ends = [int(sum(weights[: e + 1]) / sum(weights) * rows) for e in range(experts - 1)] + [rows]
    return [end - start for start, end in zip([0, *ends], ends)]


def up(size, unit=TILE):
    return -(-size // unit)


def time(tiles, sms):
    """Until the last of the tiles is done, of which each is begun by the multiprocessor that is free first."""
    free = [0] * sms
    for tile in tiles:
        heapq.heapreplace(free, free[0] + tile)
    return max(free)


def forward(sizes, columns, halves):
    """halves: whether a tile of whose rows a group has at most 64 is half a tile."""
    for size in sizes:
        last = 0.5 if halves and 0 < size % TILE <= TILE // 2 else 1
        yield from [1] * ((up(size) - 1) * columns) + [last] * columns


def k_tiles(sizes, anywhere):
    """Those that a gradient's groups load, and the steps of 32 that they multiply in quarters of one."""
    start = 0
    for size in sizes:
        first = start % TILE if anywhere else 0
        steps = up(first + size, STEP) - first // STEP
        yield up(first + size), steps / (TILE // STEP)
        start += size


def gradient(lengths, tiles):
    for length in sorted(lengths, reverse=True):
        yield from [length] * tiles


def main():
    sms = int(sys.argv[1]) if len(sys.argv) > 1 else 132
    for m, n, k, experts in BENCH:
        equal, groups = [m // experts] * experts, ragged(m, experts)
        print(f"{m}, {n}, {k}, {experts}: {groups}")
        for sums, width, halves in (("fast", 128, False), ("promoted", 192, True)):
            whole, parts = (list(forward(sizes, up(n, width), halves)) for sizes in (equal, groups))
            print(f"  forward {sums}: {len(whole)} and {len(parts)} tiles, work {sum(whole) / sum(parts):.3f}, time {time(whole, sms):g} and {time(parts, sms):g}: "
                  f"{time(whole, sms) / time(parts, sms):.3f}")
        for sums, width in (("fast", 128), ("promoted", 192)):
            tiles = up(n, TILE) * up(k, width)
            base = time(gradient([size / TILE for size in equal], tiles), sms)
            for name, anywhere in (("anywhere", True), ("aligned", False)):
                loaded, multiplied = zip(*k_tiles(groups, anywhere))
                figures = [base / time(gradient(lengths, tiles), sms) for lengths in (loaded, multiplied)]
                print(f"  gradient {sums}, {name}: {m // TILE} and {sum(loaded)} k-tiles, {sum(multiplied):g} multiplied; "
                      f"time by those loaded {figures[0]:.3f}, multiplied {figures[1]:.3f}")


if __name__ == "__main__":
    main()
