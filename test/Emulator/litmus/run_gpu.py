"""Runs the litmus tests on a GPU, and counts the outcomes.

Usage: run_gpu.py [--seconds S] [--out FILE]   runs all, S seconds in all, and writes what was seen as JSON; needs CuPy
       run_gpu.py --compare FILE               compares what was seen before with what is allowed

A launch runs many instances of a test, each with variables of its own; the CTAs of an instance are neighbors, so that they run at the
same time. Launches differ in the number of instances and in what runs before them.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import collections
import glob
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LANES, VARIABLE_WORDS, OUT_WORDS = 32, 128, 4
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)


def header(text, name):
    return re.search(rf"^// {name}: (.*)$", text, re.M).group(1)


def tests():
    for path in sorted(glob.glob(os.path.join(HERE, "*.ptx"))):
        with open(path) as file:
            yield os.path.basename(path)[: -len(".ptx")], file.read()


def allowed(text):
    return {" ".join(part.split()) for part in header(text, "allowed").split(";")}


def run(text, seconds):
    """A histogram of the outcomes of a test."""
    import cupy
    import numpy

    module = cupy.cuda.function.Module()
    module.load(text.encode())
    kernel = module.get_function("litmus")
    threads, names, place = int(header(text, "threads")), header(text, "outcome").split(), header(text, "place")
    seen = collections.Counter()
    noise = cupy.ones(1 << 22, dtype=cupy.float32)
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        instances = SIZES[number % len(SIZES)]
        number += 1
        variables = cupy.zeros(instances * VARIABLE_WORDS, dtype=cupy.uint32)
        out = cupy.zeros(instances * OUT_WORDS, dtype=cupy.uint32)
        if number % 2:
            noise *= 1.0001  # other lines in the caches
        grid, block = (instances, LANES * threads) if place == "warp" else (instances * threads, LANES)
        kernel((grid, 1, 1), (block, 1, 1), (variables, out))
        variables = cupy.asnumpy(variables).reshape(instances, 4, LANES)[:, :, 0]
        out = cupy.asnumpy(out).reshape(instances, OUT_WORDS)
        columns = [out[:, int(n[1])] if n[0] == "r" else variables[:, "xyzw".index(n)] for n in names]
        rows, counts = numpy.unique(numpy.stack(columns, axis=1), axis=0, return_counts=True)
        for row, count in zip(rows, counts):
            seen[" ".join(map(str, row))] += int(count)
    return dict(sorted(seen.items()))


def compare(seen):
    good = 0
    for name, text in tests():
        found = seen["tests"].get(name)
        others = None if found is None else set(found) - allowed(text)
        if found and not others:
            good += 1
        else:
            print(f"{name}: " + ("did not run" if not found else f"not allowed: {sorted(others)}"))
    total = sum(1 for _ in tests())
    print(f"{good} of {total} litmus tests: the GPU showed no outcome that is not allowed")
    return 0 if good == total else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--out")
    parser.add_argument("--compare")
    options = parser.parse_args()
    if options.compare:
        with open(options.compare) as file:
            return compare(json.load(file))
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    seen = {"device": device, "driver": cupy.cuda.runtime.driverGetVersion(), "tests": {}}
    total = sum(1 for _ in tests())
    for name, text in tests():
        seen["tests"][name] = run(text, options.seconds / total)
    if options.out:
        with open(options.out, "w") as file:
            json.dump(seen, file, indent=1)
            file.write("\n")
    return compare(seen)


if __name__ == "__main__":
    sys.exit(main())
