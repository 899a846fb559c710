"""What the tests of the package's choices share: `mixed`, which is python/moe_opt/_mixed.py without the package, and products as it tells them apart.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import pathlib
import sys

from source import source

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "python"))
from make_bundles import SIZES as mixed  # noqa: E402, F401


def product_source(name, form, group, dtype, tokens, experts, rows, columns, bias=False):
    """A function with weights of this form and groups, of which integers have scales of the tokens' type (dtype)."""
    scales = "f8E8M0FNU" if form == "f4E2M1FN" else dtype
    keys = {"format": form, "group": group, "x": dtype, "out": dtype, "scales": scales, "m": tokens, "experts": experts, "n": rows, "k": columns, "zeros": int(form == "ui4"), "bias": int(bias)}
    return source(name, **{key: str(value) for key, value in keys.items()})
