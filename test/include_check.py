#!/usr/bin/env python3
"""Checks what include lines say of the house, and the length of lines.

    test/include_check.py [FOLDER]    FOLDER: the repository, by default the one that this file is in

Each finding names a file, a line and the rule that it breaks; the exit code is 1 where there are any. The rules:

  arrow      a room includes only itself and the rooms that ROOMS allows it; all may include what is in include/
  circle     no file includes itself by way of others
  header     a source includes the header of its name, if there is one; a header has users besides its own source
  columns    lines of C have at most 100 columns, comments too; tables (.def) may have more

The rooms of the tests and of bench/ are in it as well. No room may include them.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import posixpath
import re
import sys
from pathlib import Path

COLUMNS = 100

FOLDERS = ("bench", "cmake", "examples", "include", "lib", "passes", "test", "tools")  # where C is

# Who may include whom. docs/architecture.md draws it; tools/moe-run and the examples see the libraries by their public
# headers alone. A test sees the room that it tests, and those of which it is the other side.
ROOMS = {
    "include": [],
    "lib/Files": [],
    "lib/Reference": [],
    "lib/Emulator": [],
    "lib/Runtime": [],
    "lib/Builder": [],
    "lib/Pass": [],
    "lib/Dialect": ["lib/Builder"],
    "lib/Device": ["lib/Builder"],
    "lib/Kernels": ["lib/Builder", "lib/Device", "lib/Dialect"],
    "lib/Target": ["lib/Builder", "lib/Device", "lib/Dialect", "lib/Files"],
    "lib/Driver": ["lib/Builder", "lib/Dialect", "lib/Files", "lib/Kernels", "lib/Pass", "lib/Target"],
    "passes": ["lib/Builder", "lib/Dialect", "lib/Kernels", "lib/Pass"],
    "tools/moe-opt": ["lib/Driver", "lib/Files"],
    "tools/moe-run": ["lib/Files"],
    "bench": ["lib/Runtime"],
    "cmake": [],
    "examples": [],
    "test/Builder": ["lib/Builder"],
    "test/Device": ["lib/Device"],
    "test/Driver": ["lib/Driver", "lib/Kernels", "lib/Target", "passes"],
    "test/Emulator": ["lib/Emulator"],
    "test/Files": ["lib/Files"],
    "test/Kernels": ["lib/Kernels"],
    "test/Reference": [],
    "test/Runtime": ["lib/Runtime"],
    "test/fuzz": [],
    "test/tools": [],
}

# Includes that break an arrow and are meant to: the including room, the file, and why.
EXCEPTIONS = {
    ("lib/Emulator", "lib/Reference/Formats.h"): "both round to the formats by the same functions",
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)


def room_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in ("lib", "test", "tools") else parts[0]


def lines_of_includes(text):
    """(line number, included path) of each include line."""
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1]


def read(top):
    """The texts of the C files, by path."""
    files = [path for folder in FOLDERS for path in sorted((top / folder).rglob("*"))]
    return {str(path.relative_to(top)): path.read_text() for path in files if path.suffix in (".c", ".h", ".def")}


def included_files(texts):
    """For each file its includes that are files of the project: (line, path)."""
    included = {}
    for path, text in texts.items():
        found = []
        for line, name in lines_of_includes(text):
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            for target in dict.fromkeys((name, f"include/{name}", beside)):
                if target in texts:
                    found.append((line, target))
        included[path] = found
    return included


def arrows(included):
    for path, found in included.items():
        room = room_of(path)
        for line, target in found:
            other = room_of(target)
            if other in (room, "include") or other in ROOMS.get(room, []) or (room, target) in EXCEPTIONS:
                continue
            allowed = ", ".join(ROOMS.get(room, [])) or "no other room"
            yield f"{path}:{line}: arrow: {room} includes {target}; it may include {allowed}"


def circles(included):
    done, stack = set(), []

    def visit(path):
        if path in stack:
            circle = [*stack[stack.index(path) :], path]
            yield f"{path}:1: circle: {' -> '.join(circle)}"
        elif path not in done:
            stack.append(path)
            for _, target in included[path]:
                yield from visit(target)
            done.add(stack.pop())

    for path in included:
        yield from visit(path)


def reached(path, included):
    """All that a file includes, by way of others too."""
    found, left = set(), [path]
    while left:
        for _, target in included[left.pop()]:
            if target not in found:
                found.add(target)
                left.append(target)
    return found


def headers(texts, included):
    users = {}
    for path, found in included.items():
        for _, target in found:
            users.setdefault(target, set()).add(path)
    for path in texts:
        if path.endswith(".c"):
            header = path[:-2] + ".h"
            if header in texts and header not in reached(path, included):
                yield f"{path}:1: header: it must include {header}"
        elif path.endswith(".h") and not path.startswith("include/"):
            others = users.get(path, set()) - {path[:-2] + ".c"}
            if not others:
                yield f"{path}:1: header: no file but its own source includes it; what it declares can be static"


def columns(texts):
    for path, text in texts.items():
        if path.endswith(".def"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS:
                yield f"{path}:{number}: columns: {len(line)} columns; at most {COLUMNS}"


def main():
    top = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    texts = read(top)
    included = included_files(texts)
    findings = [*arrows(included), *circles(included), *headers(texts, included), *columns(texts)]
    print(*findings, sep="\n", end="\n" if findings else "")
    print(f"{len(texts)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
