#!/usr/bin/env python3
"""schema_test.py - the manifest's schema accepts the sample manifests and refuses the damaged ones.

The schema is for those who write or read bundles without libmoe_rt. Inputs/damaged.json is the table that the runtime is
tested with too: where its "schema" is true, the schema must see the damage; where it is false, it must not claim to.

usage: schema_test.py SCHEMA INPUTS     (exit code 77: jsonschema is not installed)

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import copy
import json
import os
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: the python package jsonschema is not installed")
    sys.exit(77)

OPTIONAL = {"cubin", "ceildiv", "mul", "add", "min", "roles", "constant"}
# A function may have no status; a launch may be programmatic, an argument constant.
ALLOWED = {("status", None), ("programmatic", True), ("constant", True)}


def damage(manifest, path, value):
    manifest = copy.deepcopy(manifest)
    owner = manifest
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    return manifest


def places(value, path=()):
    """All paths below a value, but not into the free-form attributes of an op."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield path + (key,)
        if key != "attributes":
            yield from places(child, path + (key,))


def without(manifest, path):
    manifest = copy.deepcopy(manifest)
    owner = manifest
    for key in path[:-1]:
        owner = owner[key]
    del owner[path[-1]]
    return manifest


def main():
    schema_path, inputs = sys.argv[1:]

    def load(name):
        with open(os.path.join(inputs, name), encoding="utf-8") as file:
            return json.load(file)

    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    validator_class = jsonschema.validators.validator_for(schema)
    validator_class.check_schema(schema)
    accepts = validator_class(schema).is_valid
    failures = []

    for name in ("quantize.json", os.path.join("tiny", "manifest.json")):
        for error in validator_class(schema).iter_errors(load(name)):
            failures.append(f"{name}: {list(error.absolute_path)}: {error.message}")

    valid = load("quantize.json")
    table = load("damaged.json")
    for entry in table:
        if accepts(damage(valid, entry["at"], entry["set"])) == entry["schema"]:
            failures.append(f"{entry['at']}: the schema {'accepts' if entry['schema'] else 'refuses'} {entry['set']!r}")

    count = 0
    for path in places(valid):
        count += 1
        for wrong in (None, True, 0.5, -(2**63)):
            if (path[-1], wrong) not in ALLOWED and accepts(damage(valid, path, wrong)):
                failures.append(f"{path}: the schema accepts {wrong!r}")
        if isinstance(path[-1], str) and path[-1] not in OPTIONAL and accepts(without(valid, path)):
            failures.append(f"{path}: the schema accepts its absence")
    for path in [()] + [path for path in places(valid)]:
        owner = extended = copy.deepcopy(valid)
        for key in path:
            owner = owner[key]
        if isinstance(owner, dict) and (not path or path[-1] != "attributes"):
            owner["extra"] = 1
            if accepts(extended):
                failures.append(f"{path}: the schema accepts an unknown field")

    for failure in failures:
        print(failure)
    print(f"{len(table)} listed damages, {count} places, {len(failures)} failures")
    return 1 if failures or len(table) < 90 or count < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
