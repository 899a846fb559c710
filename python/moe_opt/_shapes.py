"""The shapes of results, as frameworks need them before there are tensors: of tensors without data, and of sizes that are symbols.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import json
from typing import Any, Callable, Sequence

from moe_opt import _bundles, _library


def description(bundle: str, name: str) -> dict[str, Any]:
    """What the manifest says of a function of a bundle of the package; the errors of `moe_opt.load`."""
    _library.program(_bundles.folder() / bundle).function(name)  # which checks both
    manifest = json.loads((_bundles.folder() / bundle / "manifest.json").read_text(encoding="utf-8"))
    (function,) = (function for function in manifest["functions"] if function["name"] == name)
    return function


def check(bundle: str, name: str, shapes: Sequence[Sequence[Any]]) -> None:
    """InvalidArgument where arguments of a function of a bundle of the package cannot have these shapes. Of sizes that are symbols nothing is
    known yet."""
    if all(isinstance(size, int) for shape in shapes for size in shape):
        program = _library.program(_bundles.folder() / bundle)
        program.check_shapes(program.function(name), shapes)


def _expression(value: Any, symbols: dict[str, str]) -> str:
    """The manifest's expression as Python, in terms of the shapes of the arguments."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return symbols[value]
    ((operator, operands),) = value.items()
    texts = [_expression(operand, symbols) for operand in operands]
    if operator == "ceildiv":
        return f"-(-{texts[0]} // {texts[1]})"
    if operator == "min":
        return f"min({', '.join(texts)})"
    return f"({ {'mul': ' * ', 'add': ' + '}[operator].join(texts)})"


def result_texts(function: dict[str, Any]) -> list[tuple[str, str]]:
    """Sizes and strides of each result as Python, in terms of s0, s1, ..., the shapes of the arguments.

    The manifest's expressions become Python once, because evaluating them takes longer than launching a kernel.
    """
    symbols: dict[str, str] = {}
    for index, argument in enumerate(function["arguments"]):
        for dimension, size in enumerate(argument["shape"]):
            if isinstance(size, str):
                symbols.setdefault(size, f"s{index}[{dimension}]")
    texts = []
    for result in function["results"]:
        sizes = [_expression(size, symbols) for size in result["shape"]]
        strides, step = [""] * len(sizes), "1"
        for dimension in reversed(result["order"]):
            strides[dimension] = step
            step = sizes[dimension] if step == "1" else f"{step} * {sizes[dimension]}"
        texts.append((f"({', '.join(sizes)},)", f"({', '.join(strides)},)"))
    return texts


def results(function: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """A function from the shapes of the arguments to the sizes and strides of the results. Sizes may be symbolic."""
    names = ", ".join(f"s{index}" for index in range(len(function["arguments"])))
    pairs = ", ".join(f"({sizes}, {strides})" for sizes, strides in result_texts(function))
    return eval(f"lambda {names}: ({pairs},)", {"min": min})  # only names and integers of the manifest
