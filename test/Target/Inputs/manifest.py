"""Checks a manifest against the schema and prints it one fact a line, for FileCheck.

  manifest.py manifest.schema.json manifest.json

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import sys

import jsonschema

with open(sys.argv[1]) as schema_file, open(sys.argv[2]) as manifest_file:
    schema, manifest = json.load(schema_file), json.load(manifest_file)
jsonschema.validate(manifest, schema)
print("the schema accepts it")


def show(value):
    return json.dumps(value, sort_keys=True)


for kernel in manifest["kernels"]:
    print("kernel", kernel["name"], *(f"{key} {kernel[key]}" for key in ("block", "cluster", "shared_memory")))
for function in manifest["functions"]:
    print("function", function["name"])
    for symbol in function["symbols"]:
        print("symbol", symbol["name"], *(f"{key} {symbol[key]}" for key in ("multiple_of", "min", "max")))
    for role in ("argument", "result", "temporary"):
        for tensor in function[role + "s" if role != "temporary" else "temporaries"]:
            print(role, tensor["name"], tensor["dtype"], show(tensor["shape"]), end=" ")
            print("order", tensor["order"], "alignment", tensor["alignment"], end="")
            print(" initial " + tensor["initial"] if role == "temporary" else "")
    if function["status"] is not None:
        print("status", function["status"])
    for launch in function["launches"]:
        op = launch["op"]
        print("programmatic " if launch["programmatic"] else "", end="")
        print("launch", launch["kernel"], op["name"], show(op["attributes"]), show(op["operands"]), end=" ")
        print("->", show(op["results"]))
        print("roles", *op["roles"])
        print("grid", show(launch["grid"]))
        for parameter in launch["parameters"]:
            print(show(parameter))
