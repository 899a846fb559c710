"""Compares the artifacts of a bundle with what its manifest says of them: sizes and, where the module is there, hashes.

  artifacts.py BUNDLE

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import os
import sys

try:
    import xxhash
except ImportError:
    xxhash = None

with open(os.path.join(sys.argv[1], "manifest.json")) as file:
    artifacts = json.load(file)["artifacts"]
for kind, artifact in sorted(artifacts.items()):
    with open(os.path.join(sys.argv[1], artifact["file"]), "rb") as file:
        data = file.read()
    same = len(data) == artifact["bytes"]
    if xxhash:
        same = same and xxhash.xxh3_128_hexdigest(data) == artifact["xxh3_128"]
    print(kind, artifact["file"], "ok" if same else "differs")
