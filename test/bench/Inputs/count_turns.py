"""Counts how often each candidate follows each other one in the rounds of bench/turns.py.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from collections import Counter

from turns import turns

MOST = 18

for count in range(1, MOST + 1):
    rounds = turns(count, 3 * count * (1 + count % 2))
    assert all(sorted(order) == list(range(count)) for order in rounds), count
    behind = Counter(pair for order in rounds for pair in zip(order, order[1:]))
    wanted = {(a, b): 3 * (1 + count % 2) for a in range(count) for b in range(count) if a != b}
    assert behind == wanted, (count, behind)
print(f"balanced for 1 to {MOST} candidates")
