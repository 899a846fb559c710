#!/usr/bin/env python3
"""Host time of calls of several functions, on a GPU or with the tests' driver, which returns at once. Prints JSON.

    bench/host_time.py [--fake] [--build build] [--bundles build/bundles]

Missing bundles are compiled into the folder first. What the numbers are is in bench/host_time.c. `ours` is what a run takes more than
what it asks the driver for.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Bundle, function, shapes of the arguments: small, so that the device keeps up with the host.
CASES = (
    ("quantize-row-2d-rceil-bf16-f8E4M3FN", "quantize", "256x128"),
    ("quantize_fp8-row-row-2d-bf16-f8E4M3FN", "quantize_fp8", "256x128"),
    ("scaled_mm-forward-rows-fast-bf16", "scaled_mm", "256x128 8x128x256 256 8x256 8"),
    ("scaled_mm-gradient-rows-fast-bf16", "scaled_mm", "128x256 256x128 8x128 8x128 8"),
    ("grouped_mm-fp8_rowwise", "grouped_mm_forward", "256x128 8x128x256 8"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--fake", action="store_true", help="the tests' driver instead of the machine's")
    parser.add_argument("--build", default=str(ROOT / "build"), help="the build folder (default: %(default)s)")
    parser.add_argument("--bundles", default=str(ROOT / "build-wheel/bundles"), help="folder of the bundles (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=101)
    arguments = parser.parse_args()
    build, folder = pathlib.Path(arguments.build), pathlib.Path(arguments.bundles)
    missing = [bundle for bundle, _, _ in CASES if not (folder / bundle / "manifest.json").exists()]
    if missing:
        folder = build / "host_time_bundles"
        only = "^(" + "|".join(bundle for bundle, _, _ in CASES) + ")$"
        subprocess.run([sys.executable, str(ROOT / "python/make_bundles.py"), str(folder), "--only", only,
                        "--moe-opt", str(build / "bin/moe-opt")], check=True)
    environment = dict(os.environ)
    if arguments.fake:
        environment["LD_LIBRARY_PATH"] = str(build / "test/Runtime/fake_cuda")
    rows = []
    for bundle, function, shapes in CASES:
        command = [str(build / "bin/host_time"), str(folder / bundle), *shapes.split(), f"--function={function}", f"--rounds={arguments.rounds}"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(run.stderr)
        row = {"bundle": bundle, **json.loads(run.stdout)}
        row["ours"] = round(row["run"] - row["driver"], 3)
        rows.append(row)
    json.dump({"unit": "us of host time for a call", "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
