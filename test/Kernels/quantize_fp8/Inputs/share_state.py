"""Gives the second launch of a bundle's function the state of the first: share_state.py BUNDLE.

Both launches are the same scale_fp8 or scale_fp8_dual, of different tensors of one shape. What the first one does not leave zero, a larger
maximum say, the second one then takes for its own; two calls with the same data would not show it.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import os
import sys

path = os.path.join(sys.argv[1], "manifest.json")
with open(path) as file:
    manifest = json.load(file)
first, second = manifest["functions"][0]["launches"]
states = {second["op"]["results"][i]: first["op"]["results"][i] for i in (2, 5) if i < len(first["op"]["results"])}
second["op"]["results"] = [states.get(name, name) for name in second["op"]["results"]]
for parameter in second["parameters"]:
    if parameter.get("tensor") in states:
        parameter["tensor"] = states[parameter["tensor"]]
temporaries = manifest["functions"][0]["temporaries"]
temporaries[:] = [tensor for tensor in temporaries if tensor["name"] not in states]
with open(path, "w") as file:
    json.dump(manifest, file)
