"""Makes a folder of candidates from the sample bundle: candidates.py FOLDER KERNEL...

Candidate N runs the Nth of these kernels of the stand-in for the CUDA driver, and its source.mlir says so.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import shutil
import sys

folder, *kernels = sys.argv[1:]
sample = os.path.join(os.path.dirname(__file__), "sample.bundle")
shutil.rmtree(folder, ignore_errors=True)
for number, kernel in enumerate(kernels):
    path = os.path.join(folder, str(number))
    shutil.copytree(sample, path)
    with open(os.path.join(path, "manifest.json")) as file:
        manifest = file.read()
    manifest = manifest.replace('{"name": "quantize", "block"', f'{{"name": "{kernel}", "block"')
    manifest = manifest.replace('"kernel": "quantize"', f'"kernel": "{kernel}"')
    with open(os.path.join(path, "manifest.json"), "w") as file:
        file.write(manifest)
    with open(os.path.join(path, "source.mlir"), "w") as file:
        file.write(f"// {number}: {kernel}\n")
