"""mixed_mm with random schedules, on the emulator. Those that the compiler takes give every bit on data with exact sums, or ptxas has no registers for them.

Why: random_schedules.py compiles such kernels, and the tests of test/Kernels/mixed_mm run a few schedules. A user may write any that the compiler does not refuse.

  random_mixed.py [--seed S] [--count N]

Prints what is wrong, and how many were right; exit code 1 where one is wrong.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from random_schedules import NO_REGISTERS, accepted

EXPERTS, ROWS, COLUMNS, TOKENS = 5, 272, 640, 30  # rows and columns that end inside of tiles and of stages
COLUMNS_OF_ROWS = 512  # where scales lie by rows they are a multiple of it
CHECK = ["--device", "emu", "--runs", "1", "--threads", "1", "--step-limit", "100000000", "--exact", "--check"]


def call(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def arguments_of(form):
    """Shapes of all operands, and groups where there are experts."""
    is_fp8, columns = form.get("format") == "f8E4M3FN", COLUMNS_OF_ROWS if form.get("order") == "rows" else COLUMNS
    leading, group = [EXPERTS] if form.get("experts") else [], 32 if is_fp8 else form.get("group", 64)
    numbers = [*leading, ROWS, 1 if group == -1 else columns // group]
    weights = [ROWS, columns] if is_fp8 else [ROWS // 16, columns // 64, 512]
    shapes = {"w": [*leading, *weights], "scales": numbers, "x": [TOKENS, columns]}
    if form.get("zeros"):
        shapes["zeros"] = numbers
    if leading:
        shapes["offs"] = leading
    if form.get("bias"):
        shapes["bias"] = [*leading, ROWS]
    named = [word for name, shape in shapes.items() for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
    return named + (["--groups", "ragged", "--nan-groups"] if leading else [])


def check(seed, number, folder):
    """A form and a schedule that the compiler takes, and what is wrong with it."""
    rnd = random.Random(f"{seed} {number}")
    form, fields, text = accepted(rnd, lambda text: not call("moe-opt", "-", "--emit=scheduled", text=text)[0])
    failed, said = call("moe-opt", "-", "--emit=bundle", "-o", f"{folder}/{number}", text=text)
    if not failed:
        failed, said = call("moe-run", f"{folder}/{number}", *CHECK, *arguments_of(form), "--random", str(rnd.randint(1, 99)), "--schedule", str(rnd.randint(0, 9)))
    return f"{form} {fields}", said if failed else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(lambda number: check(arguments.seed, number, folder), range(arguments.count)))
    tight = sum(NO_REGISTERS in error for _, error in outcomes)
    wrong = [f"{name}: {error}" for name, error in outcomes if error and NO_REGISTERS not in error]
    print(*wrong, f"{len(outcomes) - tight - len(wrong)} of {len(outcomes)} products are right, {tight} have no registers", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
