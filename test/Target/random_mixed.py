"""mixed_mm with random schedules, on the emulator. Those that the compiler takes give every bit on data with exact sums, or ptxas has no registers for them.

Why: random_schedules.py compiles such kernels, and the tests of test/Kernels/mixed_mm run a few schedules. A user may write any that the compiler does not refuse.

  random_mixed.py [--seed S] [--count N]

Prints what is wrong, and how many were right; exit code 1 where one is wrong.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from random_kernels import error_of, is_accepted, report
from random_schedules import accepted  # puts bench/ on the path

from mixed_products import MixedProduct

EXPERTS, ROWS, COLUMNS, TOKENS = 5, 272, 640, 30  # rows and columns that end inside of tiles and of stages
COLUMNS_OF_ROWS = 512  # where scales lie by rows they are a multiple of it


def arguments_of(form):
    """Shapes of all operands, and groups where there are experts."""
    kinds = {{"format": "weights"}.get(name, name): value for name, value in form.items() if name != "order"}
    if form.get("format") == "f8E4M3FN":
        kinds["group"] = 32
    columns = COLUMNS_OF_ROWS if form.get("order") == "rows" else COLUMNS
    sizes = (TOKENS, ROWS, columns, EXPERTS) if form.get("experts") else (TOKENS, ROWS, columns)
    return ["--check", *MixedProduct(**kinds).of_cases([sizes]).split(), *(["--groups", "ragged", "--nan-groups"] if form.get("experts") else [])]


def check(seed, number, folder):
    """A form and a schedule that the compiler takes, and what is wrong with it."""
    rnd = random.Random(f"{seed} {number}")
    form, fields, text = accepted(rnd, is_accepted)
    return f"{form} {fields}", error_of(rnd, text, f"{folder}/{number}", [arguments_of(form)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(lambda number: check(arguments.seed, number, folder), range(arguments.count)))
    return report(outcomes, "products are right")


if __name__ == "__main__":
    sys.exit(main())
