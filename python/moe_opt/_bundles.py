"""The bundles that come with the package: each op and recipe, with dynamic shapes.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import functools
import json
import os
import pathlib
from typing import Any, Iterable, Mapping, Optional, Sequence

from moe_opt._library import InputOutputError, InvalidBundle, NotFound
from moe_opt._mixed import LAYER_SIZES, MX_SIZES, ROOM, attributes_of, expert_sizes, mx_attributes


@functools.lru_cache(maxsize=None)
def folder() -> pathlib.Path:
    """The folder of the bundles: in the wheel, or those that ./dev wheel has made in a source tree. NotFound where there is none."""
    package = pathlib.Path(__file__).resolve().parent
    choices = (package / "bundles", package.parent.parent / "build-wheel" / "bundles")
    for choice in choices:
        if (choice / "index.json").exists():
            return choice
    raise NotFound(f"no bundles in {' or '.join(map(str, choices))}; ./dev wheel makes them in a source tree")


_ENTRY = {"bundle": str, "op": str, "attributes": dict, "operands": list, "results": list, "functions": dict}
_TENSOR = {"name": str, "dtype": str, "rank": int, "order": list}
_TILE = dict.fromkeys(("tokens", "rows", "ctas", "at_once", "divided", "f16", "columns"), int)


def _has(value: Any, kinds: Mapping[str, type]) -> bool:
    return isinstance(value, dict) and all(type(value.get(name)) is kind for name, kind in kinds.items())  # a bool is no int


_MOST_US = 1e9


def _are_numbers(us: Any, count: int) -> bool:
    return isinstance(us, list) and len(us) == count and all(type(number) in (int, float) and 0 <= number <= _MOST_US for number in us)


def _is_tile(tile: Any, of_experts: bool) -> bool:
    """Whether it is one of a product that can be chosen; what has not been timed has no `us`."""
    return (
        _has(tile, _TILE)
        and min(tile["tokens"], tile["rows"], tile["at_once"], tile["columns"]) > 0
        and tile["ctas"] in ROOM
        and ("us" not in tile or _are_numbers(tile["us"], 5 if of_experts else 4))
    )


def _is_entry(entry: Any) -> bool:
    """Whether an entry of index.json is one that python/make_bundles.py writes."""
    return (
        _has(entry, _ENTRY)
        and all(_has(tensor, _TENSOR) for tensor in (*entry["operands"], *entry["results"]))
        and all(isinstance(name, str) for name in entry["functions"].values())
        and ("tile" not in entry or _is_tile(entry["tile"], any(operand["name"] == "offs" for operand in entry["operands"])))
    )


@functools.lru_cache(maxsize=None)
def index() -> list[dict[str, Any]]:
    """The entries of index.json, which python/make_bundles.py describes."""
    try:
        content = json.loads((folder() / "index.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidBundle(f"{folder() / 'index.json'}: {error}") from error
    if not isinstance(content, dict):
        raise InvalidBundle(f"{folder() / 'index.json'}: is a {type(content).__name__}; it must be an object")
    if content.get("version") != 1:
        raise NotFound(f"{folder() / 'index.json'}: has version {content.get('version')}; this package knows 1")
    entries: list[dict[str, Any]] = content.get("bundles")
    if not isinstance(entries, list):
        raise InvalidBundle(f"{folder() / 'index.json'}: bundles is a {type(entries).__name__}; it must be a list")
    for place, entry in enumerate(entries):
        if not _is_entry(entry):
            raise InvalidBundle(f"{folder() / 'index.json'}: bundles[{place}] does not describe a bundle")
    return entries


def bundles() -> list[dict[str, Any]]:
    """What is there: of each bundle its name, op, attributes, operands, results and functions. `moe_opt.load(name)` loads one.

    NotFound where the package has none, InvalidBundle where their list is damaged."""
    return json.loads(json.dumps(index()))


def _operands(entry: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(operand["dtype"], operand["rank"]) for operand in entry["operands"]]


def _fits(entry: Mapping[str, Any], attributes: Mapping[str, Any], operands: Sequence[tuple[str, int]], results: Iterable[str]) -> bool:
    return (
        all(entry["attributes"].get(name) == value for name, value in attributes.items())
        and _operands(entry) == list(operands)
        and all(wanted in [result["dtype"] for result in entry["results"]] for wanted in results)
    )


def _lies(entry: Mapping[str, Any], orders: Mapping[str, Sequence[int]]) -> bool:
    """Whether its operands of these names have these memory orders."""
    has = {operand["name"]: operand["order"] for operand in entry["operands"]}
    return all(has.get(name) == list(order) for name, order in orders.items())


def _kinds(operands: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{dtype} of rank {rank}" for dtype, rank in operands)


def _others_of_operands(entries: Sequence[Mapping[str, Any]], operands: Sequence[tuple[str, int]]) -> str:
    """What the first operand that none of these bundles has, beside those before it, can be."""

    def begins(entry: Mapping[str, Any], count: int) -> bool:
        return _operands(entry)[:count] == list(operands[:count])

    count = max(count for count in range(len(operands) + 1) if any(begins(entry, count) for entry in entries))
    there = [entry["operands"][count] for entry in entries if begins(entry, count) and len(entry["operands"]) > count]
    if not there:
        return f"; there can be no more than {count} operands"
    names = " or ".join(sorted({operand["name"] for operand in there}))
    kinds = " or ".join(sorted({_kinds([(operand["dtype"], operand["rank"])]) for operand in there}))
    return f"; {names} {'is missing, and ' if count == len(operands) else ''}can be {kinds}{' beside those before it' if count else ''}"


def _others(op: str, attributes: Mapping[str, Any], operands: Sequence[tuple[str, int]], results: Sequence[str]) -> str:
    """What an error adds: of the first operand that no bundle of the op has beside those before it, what it can be; else the same of the first attribute; else
    of results, where there are none such."""
    entries = [entry for entry in index() if entry["op"] == op]
    left = [entry for entry in entries if _operands(entry) == list(operands)]
    if not left:
        return _others_of_operands(entries, operands) if entries else ""
    for name, value in attributes.items():
        values = sorted({repr(entry["attributes"].get(name)) for entry in left if name in entry["attributes"] or value is not None})
        left = [entry for entry in left if entry["attributes"].get(name) == value]
        if not left:
            return f"; {name} can be {', '.join(values)}" if values else ""
    there = {result["dtype"] for entry in left for result in entry["results"]}
    return "" if there.issuperset(results) else f"; results can be {', '.join(sorted(there))}"


def find(op: str, attributes: Mapping[str, Any], operands: Sequence[tuple[str, int]], results: Iterable[str] = (), kind: str = "call", orders: Optional[Mapping[str, Sequence[int]]] = None) -> tuple[str, str]:
    """The bundle of an op with these attributes, element types and ranks of operands, element types among the results, and memory orders of
    operands by name: its name and that of its function of this kind. An attribute that is None must not be there. NotFound says what was
    wanted."""
    results = tuple(results)
    for entry in index():
        if entry["op"] == op and kind in entry["functions"] and _lies(entry, orders or {}) and _fits(entry, attributes, operands, results):
            return entry["bundle"], entry["functions"][kind]
    wanted = ", ".join(f"{name} = {value!r}" for name, value in attributes.items() if value is not None)
    lying = "".join(f", {name} in memory order {list(order)}" for name, order in (orders or {}).items())
    raise NotFound(
        f"no bundle of {op} with {wanted or 'no attributes'} for operands {_kinds(operands)}{lying}"
        + (f" and results {', '.join(results)}" if results else "")
        + _others(op, attributes, operands, results)
        + "; moe_opt.bundles() lists those there are"
    )


_Attributes = tuple[tuple[str, Any], ...]
_Kinds = tuple[tuple[str, int], ...]
_Tiles = dict[tuple[int, ...], dict[str, Any]]


def _tiles(
    op: str,
    attributes: _Attributes,
    operands: _Kinds,
    results: tuple[str, ...],
    sizes: Mapping[tuple[int, ...], _Attributes],
    orders: Optional[Mapping[str, Sequence[int]]] = None,
) -> _Tiles:
    """Of the products that find would find with the attributes of these sizes, what index.json says of their tiles."""
    given = dict(attributes)
    fitting = [
        entry for entry in index() if entry["op"] == op and "us" in entry.get("tile", ()) and _fits(entry, given, operands, results) and _lies(entry, orders or {})
    ]
    tiles = {}
    for size, more in sizes.items():
        tile = next((entry["tile"] for entry in fitting if all(entry["attributes"].get(name) == number for name, number in more)), None)
        if tile is None:
            find(op, {**given, **dict(more)}, operands, results, orders=orders)
            raise NotFound(f"{folder() / 'index.json'}: does not say how long {op} takes: it is that of another version; ./dev wheel makes it again")
        tiles[size] = tile
    return tiles


@functools.lru_cache(maxsize=None)
def layer_tiles(op: str, attributes: _Attributes, operands: _Kinds, results: tuple[str, ...]) -> _Tiles:
    """The tiles of the products of a layer, by the sizes that they are for. NotFound where one of LAYER_SIZES is not there: a package may have some
    bundles only."""
    return _tiles(op, attributes, operands, results, {size: tuple(zip(("tokens", "rows"), size)) for size in LAYER_SIZES})


@functools.lru_cache(maxsize=None)
def expert_tiles(op: str, attributes: _Attributes, operands: _Kinds, results: tuple[str, ...]) -> _Tiles:
    """The same of experts, whose products are those of expert_sizes."""
    given = dict(attributes)
    sizes = expert_sizes(given["format"], given["group_size"], results[0], "bias" in op)
    return _tiles(op, attributes, operands, results, {size: attributes_of(size) for size in sizes})


_MX_KINDS = (("f8E4M3FN", 2), ("f8E4M3FN", 3), ("f8E8M0FNU", 2), ("f8E8M0FNU", 3), ("i32", 1))


@functools.lru_cache(maxsize=None)
def mx_tiles(order: tuple[int, ...]) -> _Tiles:
    """The same of products whose tokens and weights are MX blocks, with results in bf16, by MX_SIZES. order: in memory, of the scales of weights."""
    sizes = {size: tuple(mx_attributes(size).items()) for size in MX_SIZES}
    return _tiles("scaled_grouped_mm.scaled_mm", (), _MX_KINDS, ("bf16",), sizes, {"sb": order})


def name_of(path: str) -> Optional[str]:
    """The name of the bundle of the package that has this absolute path; None for another one."""
    parent, name = os.path.split(path)
    try:
        return name if parent == str(folder()) else None
    except NotFound:
        return None


def named(given: str | os.PathLike[str]) -> Optional[pathlib.Path]:
    """The folder of the bundle of the package that has this name; None for the path of another one, and where there is no package.
    InputOutputError for what is neither."""
    text = os.fspath(given)
    if pathlib.Path(text).exists() or os.sep in text or "\0" in text:
        return None
    try:
        names = [entry["bundle"] for entry in index()]
    except NotFound:
        return None
    if text not in names:
        raise InputOutputError(f"{text}: there is no such folder, and no bundle of the package has this name; moe_opt.bundles() lists those there are")
    return folder() / text
