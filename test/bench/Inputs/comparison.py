"""Prints what a comparison of bench/ with PyTorch lists, where PyTorch cannot be imported, and fails where a function is named that is not there.

    python3 test/bench/Inputs/comparison.py COMPARISON.py LIST ROWS.py

LIST: the function of COMPARISON.py that gives names, functions of ROWS.py, and what these take behind the run.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import ast
import pathlib
import runpy
import sys

sys.modules["torch"] = None
comparison, listing, rows = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(comparison).parent))
functions = {
    node.name: len(node.args.args) for node in ast.parse(pathlib.Path(rows).read_text()).body if isinstance(node, ast.FunctionDef)
}
for name, function, arguments in runpy.run_path(comparison)[listing]():
    if functions.get(function) != 1 + len(arguments):
        sys.exit(f"'{name}': {rows} has no {function} of {1 + len(arguments)} arguments")
sys.argv[1:] = ["--list"]
runpy.run_path(comparison, run_name="__main__")
