#!/usr/bin/env python3
"""Says whether two builds of moe-opt generate the same code: for every variant of variants.py and every example, with every
candidate schedule, the PTX and the manifest.

    bench/same_code.py record MOE-OPT FILE [--only PATTERN]   writes hashes of the PTX and the manifests to FILE, JSON
    bench/same_code.py compare FILE FILE [--only PATTERN] [--intended FILE]
                                       prints what differs and is not intended; exit code 1 where anything does

A refactoring records before and after, and compares. The assembler is left out: equal PTX gives equal machine code.

--intended: a list, in JSON, of the differences that are meant:
    [{"modules": PATTERN, "differs": PATTERN, "reason": "..."}, ...]
A difference is `only before`, `only after`, `number` (of a candidate that is there under another one), `PTX`, or the path of a part of
the manifest, such as `functions.launches.op.roles`. Both patterns are searched for. Prints for each row how many modules it is about;
without --only, a row that is about none is an error, too. intended.json has the differences between commit 4640928, from before the
folders became what they are, and now.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BENCH = Path(__file__).resolve().parent
EXAMPLES = BENCH.parent / "examples"

# Stands in for ptxas: what it writes is no machine code, and always the same. No kernel finds it too old.
ASSEMBLER = """#!/bin/sh
[ "$1" = --version ] && { echo "Cuda compilation tools, release 99.0, V99.0.0"; exit 0; }
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo none > "$2"; shift; done
exit 0
"""


def sources(pattern):
    """Names and MLIR texts."""
    found = {f"examples/{path.name}": path.read_text() for path in sorted(EXAMPLES.glob("*.mlir"))}
    variants = [sys.executable, str(BENCH / "variants.py")]
    names = subprocess.run([*variants, "list"], check=True, capture_output=True, text=True).stdout.split()
    found = {name: text for name, text in found.items() if re.search(pattern, name)}
    for name in filter(re.compile(pattern).search, names):
        found[name] = subprocess.run([*variants, "source", name], check=True, capture_output=True, text=True).stdout
    return found


def record_one(moe_opt, assembler, name, text):
    """Entries "NAME candidate I": [hash of the PTX, the manifest less the hashes of the artifacts]."""
    with tempfile.TemporaryDirectory() as folder:
        command = [moe_opt, "-", f"--ptxas={assembler}", "--emit=candidates", "-o", f"{folder}/out"]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode:
            return {name: ["failed", done.stderr]}
        entries = {}
        for bundle in sorted(Path(folder, "out").iterdir(), key=lambda path: int(path.name)):
            manifest = json.loads((bundle / "manifest.json").read_text())
            del manifest["artifacts"]
            ptx = hashlib.sha256((bundle / "kernels.ptx").read_bytes()).hexdigest()
            entries[f"{name} candidate {bundle.name}"] = [ptx, manifest]
        return entries


def record(moe_opt, pattern):
    found = sources(pattern)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        assembler = Path(folder, "ptxas")
        assembler.write_text(ASSEMBLER)
        assembler.chmod(0o755)
        parts = pool.map(lambda item: record_one(moe_opt, assembler, *item), found.items())
        return {name: entry for part in parts for name, entry in part.items()}


def parts(before, after, path=""):
    """The paths of what differs between two manifests; positions in lists are left out."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            below = f"{path}.{key}" if path else key
            if key in before and key in after:
                yield from parts(before[key], after[key], below)
            else:
                yield below
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after):
            yield from parts(one, other, path)
    elif before != after:
        yield path


def pairs(before, after):
    """Pairs of names: each entry and what it is afterwards, None where there is none. A candidate whose PTX another
    candidate of its source has now is that one."""
    found = [(name, name) for name in before if name in after and before[name][0] == after[name][0]]
    left = {name: before[name][0] for name in before.keys() - {name for name, _ in found}}
    added = {}
    for name in sorted(after.keys() - {name for name, _ in found}):
        added.setdefault((source_of(name), after[name][0]), []).append(name)
    for name in sorted(left):
        others = added.get((source_of(name), left[name]))
        if others:
            found.append((name, others.pop(0)))
            del left[name]
    rest = {name for names in added.values() for name in names}
    found += [(name, name if name in rest else None) for name in left]
    found += [(None, name) for name in rest - left.keys()]
    return sorted(found, key=lambda pair: pair[0] or pair[1])


def source_of(name):
    return name.partition(" candidate ")[0]


def differences(before, after):
    """Pairs of a module's name and what differs."""
    for name, other in pairs(before, after):
        if not name or not other:
            yield name or other, "only after" if other else "only before"
            continue
        if name != other:
            yield name, "number"
        if before[name][0] != after[other][0]:
            yield name, "PTX"
        for path in sorted(set(parts(before[name][1], after[other][1]))):
            yield name, path


def compare(before, after, intended):
    """Prints the report. Gives whether nothing differs but what is intended, and whether all that is intended differs."""
    found = {row["reason"]: set() for row in intended}
    others = {}
    for name, difference in differences(before, after):
        rows = [row for row in intended if re.search(row["modules"], name) and re.search(row["differs"], difference)]
        for row in rows:
            found[row["reason"]].add(name)
        if not rows:
            others.setdefault(name, []).append(difference)
    for name, differing in others.items():
        print(f"{name}: {', '.join(differing)}")
    for reason, names in found.items():
        print(f"{len(names)} modules as intended: {reason}")
    touched = set(others).union(*found.values())
    print(f"{len(pairs(before, after))} modules, {len(touched)} differ, {len(others)} of them not as intended")
    return not others, all(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("moe_opt")
    recording.add_argument("file", type=Path)
    recording.add_argument("--only", default=".")
    comparing = commands.add_parser("compare")
    comparing.add_argument("files", type=Path, nargs=2)
    comparing.add_argument("--only", default=".")
    comparing.add_argument("--intended", type=Path, help="JSON")
    arguments = parser.parse_args()
    if arguments.command == "record":
        entries = record(arguments.moe_opt, arguments.only)
        arguments.file.write_text(json.dumps(entries, indent=1))
        print(f"{len(entries)} modules")
        return 0
    before, after = (
        {name: entry for name, entry in json.loads(path.read_text()).items() if re.search(arguments.only, name)}
        for path in arguments.files
    )
    intended = json.loads(arguments.intended.read_text()) if arguments.intended else []
    same, all_found = compare(before, after, intended)
    return 0 if same and (all_found or arguments.only != ".") else 1


if __name__ == "__main__":
    sys.exit(main())
