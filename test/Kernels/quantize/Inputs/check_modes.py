"""Checks the kernels of mx_quantize.quantize and quantize_dual in one scale mode on the emulator, under several orders of its
threads: check_modes.py FOLDER MODE. Prints a line for each call that is not right, and how many were.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WEIGHTS = ["3x96x416", "2x32x16", "1x288x656"]
WEIGHTS_BOTH = ["3x96x416", "2x32x32", "1x288x672"]
TOKENS = ["288x672", "64x32", "40x1056"]
TOKENS_BOTH = ["288x672", "64x32", "32x1056"]
TOKENS_COLUMNS = ["288x656", "64x32", "96x16"]

# A mode changes what a thread computes of a maximum, and nothing of the order of threads: one mode is run in several.
ORDERED = "rceil"
# Element type of x and of q, the ways that are quantized, rank of x, shapes, and how many orders of threads.
CASES = [
    ("bf16", "f8E4M3FN", "columns", 3, WEIGHTS, 5),
    ("bf16", "f8E5M2", "columns", 3, WEIGHTS, 5),
    ("f32", "f8E4M3FN", "columns", 3, WEIGHTS, 5),
    ("f32", "f8E5M2", "columns", 3, WEIGHTS, 5),
    ("bf16", "f8E4M3FN", "rows", 2, TOKENS, 3),
    ("bf16", "f8E4M3FN", "both", 3, WEIGHTS_BOTH, 3),
    ("bf16", "f8E5M2", "rows", 2, TOKENS, 3),
    ("bf16", "f8E5M2", "both", 2, TOKENS_BOTH, 3),
    ("f32", "f8E4M3FN", "rows", 2, TOKENS, 3),
    ("f32", "f8E4M3FN", "both", 2, TOKENS_BOTH, 3),
    ("f32", "f8E5M2", "rows", 2, TOKENS, 3),
    ("f32", "f8E5M2", "both", 3, WEIGHTS_BOTH, 3),
    ("bf16", "f8E4M3FN", "columns", 2, TOKENS_COLUMNS, 2),
    ("f32", "f8E5M2", "rows", 3, WEIGHTS_BOTH, 2),
]


def expected(way, shape):
    names = "q, scales, q_t, scales_t" if way == "both" else "q, scales"
    return f"check w={shape}: {names} equal the C reference in every bit, in two runs on emu"


def check(folder, mode, case):
    """The outputs that are not as expected, one for each call, and how many calls were right."""
    x, q, way, rank, shapes, orders = case
    bundle = folder / f"{mode}-{x}-{q}-{way}-{rank}"
    source = [sys.executable, str(Path(__file__).with_name("source.py")), mode, x, q, way, str(rank)]
    text = subprocess.run(source, check=True, capture_output=True, text=True).stdout
    subprocess.run(["moe-opt", "-", "--emit=bundle", "-o", str(bundle)], input=text, check=True, text=True)
    wrong, right = [], 0
    for order in range(orders if mode == ORDERED else 1):
        arguments = ["--device", "emu", "--check", "--random", "1", "--edge-blocks", "--schedule", str(order)]
        command = ["moe-run", str(bundle), *arguments, "--shape", f"w={','.join(shapes)}"]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        for shape in shapes:
            if done.returncode == 0 and any(line.startswith(expected(way, shape)) for line in lines):
                right += 1
            else:
                wrong.append(f"{' '.join(command)}: {shape}\n{done.stdout}{done.stderr}")
    return wrong, right


def main():
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda case: check(folder, mode, case), CASES))
    for wrong, _ in results:
        print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{mode}: {sum(right for _, right in results)} right, {sum(len(wrong) for wrong, _ in results)} wrong")


if __name__ == "__main__":
    main()
