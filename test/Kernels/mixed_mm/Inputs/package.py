"""python/moe_opt/_mixed.py as `mixed`, without the rest of the package, which needs what it is built of.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import importlib.util
import pathlib

_path = pathlib.Path(__file__).resolve().parents[4] / "python/moe_opt/_mixed.py"
_spec = importlib.util.spec_from_file_location("_mixed", _path)
mixed = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mixed)
