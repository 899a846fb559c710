"""The order in which candidates that are timed take turns.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import random


def turns(count, rounds):
    """The numbers below `count` in so many rounds, lists of each of them once.

    What follows a candidate that draws little power is faster. So in as many rounds as there are candidates, or twice as many where these
    are odd, each follows each other one equally often within a round (a Latin square by Williams).
    """
    first = [(i + 1) // 2 if i % 2 else -(i // 2) for i in range(count)]  # 0, 1, -1, 2, -2: each two are another step apart
    square = [[(start + step) % count for step in first] for start in range(count)]
    if count % 2:
        square += [row[::-1] for row in square]
    random.Random(1).shuffle(square)
    return [square[i % len(square)] for i in range(rounds)]
