"""Replaces a bundle again and again and looks at it all the while: replace_bundle.py DIRECTORY COMMAND ... -- SOURCE ...

Passes where the sizes in every manifest that was seen were those of the files beside it. The folder is opened once for each
look, so that all three files come from one folder.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import os
import subprocess
import sys

directory, separator = sys.argv[1], sys.argv.index("--")
command, sources = sys.argv[2:separator], sys.argv[separator + 1 :]


def read(folder, name):
    with open(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
        return file.read()


seen = set()
for source in sources * 3:
    compiler = subprocess.Popen([command[0], source] + command[1:])
    while compiler.poll() is None:
        folder = os.open(directory, os.O_RDONLY)
        try:
            artifact = json.loads(read(folder, "manifest.json"))["artifacts"]["ptx"]
            if len(read(folder, artifact["file"])) != artifact["bytes"]:
                sys.exit("the PTX is not the manifest's")
            seen.add(artifact["xxh3_128"])
        except FileNotFoundError:
            pass  # the folder that was opened has just been replaced and removed
        finally:
            os.close(folder)
    if compiler.returncode:
        sys.exit(f"exit code {compiler.returncode}")
if len(seen) != len(sources):
    sys.exit(f"{len(seen)} bundles were seen")
