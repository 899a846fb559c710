#!/usr/bin/python3
"""make_probes.py - writes the bundle of probe kernels: kernels.ptx and manifest.json.

Why it exists: the emulator claims to do what an H200 does. Each probe asks the hardware one question
whose answer is a few words of output. There are many (every swizzle, every operand layout), and all
follow a few patterns, so they are written by a program.

usage: make_probes.py --hash-tool PROGRAM [--ptxas PTXAS] OUT_FOLDER

PROGRAM FILE prints the XXH3-128 hash of a file. With an assembler the bundle gets a cubin too.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import os
import subprocess

import probes_scalar
import probes_tma
import probes_wgmma

HEADER = """\
// kernels.ptx - probes of the hardware. Written by make_probes.py; do not edit.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 shared[];
"""


def tensor(name, words):
    return {"name": name, "dtype": "i32", "shape": [words], "order": [0], "alignment": 128}


def function(probe):
    """One function: x (if the probe reads global memory) -> y."""
    arguments = [tensor("x", probe["x_words"])] if "x_words" in probe else []
    return {
        "name": probe["name"],
        "symbols": [],
        "arguments": arguments,
        "results": [tensor("y", probe["y_words"])],
        "temporaries": [],
        "status": None,
        "launches": [{
            "kernel": probe["name"],
            "op": {"name": "probe." + probe["kind"], "attributes": probe["attributes"],
                   "operands": [a["name"] for a in arguments], "results": ["y"]},
            "grid": [1, 1, 1],
            "parameters": probe["parameters"],
            "programmatic": False,
        }],
    }


def artifact(folder, name, hash_tool, field, value):
    path = os.path.join(folder, name)
    digest = subprocess.run([hash_tool, path], check=True, capture_output=True, text=True)
    return {"file": name, "bytes": os.path.getsize(path), "xxh3_128": digest.stdout.strip(), field: value}


def write_artifacts(arguments, probes):
    ptx = os.path.join(arguments.folder, "kernels.ptx")
    with open(ptx, "w") as file:
        file.write(HEADER + "".join(probe["ptx"] for probe in probes))
    artifacts = {"ptx": artifact(arguments.folder, "kernels.ptx", arguments.hash_tool, "isa", "8.0")}
    if arguments.ptxas:
        cubin = os.path.join(arguments.folder, "kernels.cubin")
        subprocess.run([arguments.ptxas, "-arch=sm_90a", "-Werror", ptx, "-o", cubin], check=True)
        version = subprocess.run([arguments.ptxas, "--version"], check=True, capture_output=True, text=True)
        artifacts["cubin"] = artifact(arguments.folder, "kernels.cubin", arguments.hash_tool, "assembler",
                                      version.stdout.splitlines()[-1])
    return artifacts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hash-tool", required=True)
    parser.add_argument("--ptxas")
    parser.add_argument("folder")
    arguments = parser.parse_args()

    probes = probes_scalar.probes() + probes_tma.probes() + probes_wgmma.probes()
    os.makedirs(arguments.folder, exist_ok=True)
    artifacts = write_artifacts(arguments, probes)
    manifest = {
        "format": "moe-opt-bundle",
        "version": 1,
        "producer": "make_probes.py",
        "target": "sm_90a",
        "artifacts": artifacts,
        "kernels": [{"name": p["name"], "block": [p["threads"], 1, 1], "cluster": [1, 1, 1],
                     "shared_memory": p["shared"]} for p in probes],
        "functions": [function(p) for p in probes],
    }
    with open(os.path.join(arguments.folder, "manifest.json"), "w") as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
