#!/usr/bin/env python3
"""How long the Python package's products of a layer with weights of four or eight bits take, at many sizes, and what follows: which product
suits which sizes.

    python/make_bundles.py FOLDER --only '^mixed_mm(_zeros)?-[^_]*-[0-9]+x'    where LLVM is
    bench/mixed_sizes.py time FOLDER OUT [--only PATTERN]                      where an H200 and PyTorch are: microseconds, as JSON
    bench/mixed_sizes.py fit FOLDER OUT python/mixed_times.json                anywhere with numpy

`time` adds to OUT, and `fit` to its target. `time` lets all products of a kind that are for as many tokens take turns at each size, as CUDA
graphs of one call, on random data; L2 is cleared before each, and figures are medians. `fit` finds the four numbers of each product of moe_opt/_mixed.py, none of them negative, with
the least squares of relative errors. Then it says what is lost: for each kind, the time of the product that would be chosen to that of the best one,
of all sizes, and of those that were left out of the fit (each third).

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import collections
import itertools
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "examples")]
import make_bundles  # noqa: E402
from mixed_products import MixedProduct  # noqa: E402

candidates, layer_size, terms, us_of_f16 = (getattr(make_bundles.SIZES, name) for name in ("candidates", "layer_size", "terms", "us_of_f16"))
COLUMNS = (2048, 8192)
# Up to 64 tokens, and more: tokens and rows.
FEW = ((1, 8, 16, 32, 64), (1024, 2048, 3584, 4096, 5120, 8192, 10240, 14336, 20480, 28672))
MANY = ((80, 128, 160, 256, 512, 1024, 3000), (1024, 3584, 4096, 8192, 12288, 28672))
ROUNDS = {True: 9, False: 5}  # of few and of many tokens
SAME = 1e-6  # a difference of errors that is none
ROUNDING = 1e-12  # of sums of squares, and of numbers that are 0
HELD_OUT = 3  # each so many sizes are left out of a fit


def name_of(size):
    return "x".join(map(str, size))


def products(folder):
    """The entries of a folder's index without a bias: by kind, and by (tokens, rows) that a product is for."""
    found = collections.defaultdict(dict)
    for entry in json.loads((folder / "index.json").read_text(encoding="utf-8"))["bundles"]:
        if "tile" in entry and "_bias" not in entry["op"]:
            found[make_bundles.kind_of(entry["bundle"])][entry["attributes"]["tokens"], entry["attributes"]["rows"]] = entry
    return found


# ---- Times ----


def operands(entry, tokens, rows, columns):
    """Random tensors of the product's element types."""
    import torch

    from launch_from_pytorch import DTYPES

    form, group = entry["attributes"]["format"], entry["attributes"]["group_size"]
    shapes = MixedProduct(form, group, zeros="zeros" in entry["op"]).shapes(tokens, rows, columns)
    found = []
    for tensor in entry["operands"]:
        dtype, shape = DTYPES[tensor["dtype"]], [shapes[tensor["name"]][dimension] for dimension in tensor["order"]]
        if dtype == torch.uint8:
            values = torch.randint(0, 16 if tensor["name"] == "zeros" else 256, shape, device="cuda", dtype=dtype)
        elif tensor["name"] != "scales":
            values = torch.randn(shape, device="cuda").to(dtype)
        elif dtype.itemsize == 1:
            values = torch.randint(120, 130, shape, device="cuda", dtype=torch.uint8).view(dtype)
        else:
            values = (torch.rand(shape, device="cuda") + 0.1).to(dtype)
        found.append(values.t() if tensor["order"] == [1, 0] else values)
    return found


def time_all(folder, out, only):
    import torch  # noqa: F401

    from launch_from_pytorch import Bundle
    from torch_timing import clearing_l2, times

    clear, found = clearing_l2(), json.loads(out.read_text()) if out.exists() else {}
    for kind, entries in products(folder).items():
        if not re.search(only, kind):
            continue
        bundles = {size: Bundle(folder / entry["bundle"]) for size, entry in entries.items()}
        found[kind] = []
        for few, (counts, all_rows) in ((True, FEW), (False, MANY)):
            for columns, rows, tokens in itertools.product(COLUMNS, all_rows, counts):
                sizes = [size for size in candidates(entries, tokens) if entries[size]["tile"]["columns"] <= columns]
                tensors = operands(entries[sizes[0]], tokens, rows, columns)
                seconds = times([lambda bundle=bundles[size]: bundle(*tensors) for size in sizes], clear, ROUNDS[few])
                found[kind].append([tokens, rows, columns, {name_of(size): round(1e6 * s, 2) for size, s in zip(sizes, seconds, strict=True)}])
        out.write_text(json.dumps(found))
        print(f"{kind}: {len(found[kind])} sizes", flush=True)


# ---- Fit ----


def least_squares(rows, values):
    """The four numbers, none negative, with the least squares of relative errors. Of so few each choice of those that are not 0 is tried."""
    import numpy

    rows = numpy.array(rows) / numpy.array(values)[:, None]
    best = None
    # All four first: where two have the same terms, as a begin and a round of which there is one in all sizes, each has a half.
    for chosen in itertools.chain.from_iterable(itertools.combinations(range(4), count) for count in range(4, 0, -1)):
        numbers, *_ = numpy.linalg.lstsq(rows[:, chosen], numpy.ones(len(rows)), rcond=None)
        if (numbers < -ROUNDING).any():
            continue
        error = ((rows[:, chosen] @ numbers - 1) ** 2).sum()
        if best is None or error < best[0] * (1 - SAME) - ROUNDING:
            best = error, [round(max(0.0, float(dict(zip(chosen, numbers)).get(i, 0))), 4) for i in range(4)]
    return best[1]


def fitted(entries, cells):
    """The numbers of each product of a kind."""
    found = {}
    for size, entry in entries.items():
        name, tile = name_of(size), entry["tile"]
        seen = [(m, n, k, us[name] - us_of_f16(tile, m, k)) for m, n, k, us in cells if name in us]
        found[name] = least_squares([terms(tile, m, n, k) for m, n, k, _ in seen], [us for *_, us in seen])
    return found


def losses(entries, numbers, cells):
    """Of each size, the time of the product that is chosen to that of the best one."""
    tiles = {size: entry["tile"] | {"us": numbers[name_of(size)]} for size, entry in entries.items()}
    return [us[name_of(layer_size(tiles, m, n, k))] / min(us.values()) for m, n, k, us in cells]


def fit_all(folder, source, target):
    cells_of, found = json.loads(source.read_text()), json.loads(target.read_text()) if target.exists() else {}
    for kind, entries in products(folder).items():
        cells = cells_of.get(kind)
        if not cells:
            print(f"{kind}: was not timed")
            continue
        left_out = cells[::HELD_OUT]
        rest = losses(entries, fitted(entries, [cell for i, cell in enumerate(cells) if i % HELD_OUT]), left_out)
        numbers = fitted(entries, cells)
        found[kind] = {name_of(size): {"tile": make_bundles.timed_tile(entry["tile"]), "us": numbers[name_of(size)]} for size, entry in entries.items()}
        for what, lost in (("all", losses(entries, numbers, cells)), ("left out", rest)):
            mean = math.exp(sum(map(math.log, lost)) / len(lost))
            print(f"{kind}, {what}: {len(lost)} sizes, mean {mean:.4f}, most {max(lost):.3f}, {sum(loss > 1.05 for loss in lost)} above 1.05")
    lines = ",\n".join(f' "{kind}": {{\n' + ",\n".join(f'  "{size}": {json.dumps(timed)}' for size, timed in sizes.items()) + "\n }" for kind, sizes in found.items())
    target.write_text(f"{{\n{lines}\n}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["time", "fit"])
    parser.add_argument("folder", type=pathlib.Path, help="of the bundles, with index.json")
    parser.add_argument("times", type=pathlib.Path, help="JSON that time writes and fit reads")
    parser.add_argument("target", type=pathlib.Path, nargs="?", help="what fit writes")
    parser.add_argument("--only", default="", help="kinds that this is found in")
    arguments = parser.parse_args()
    if arguments.what == "time":
        time_all(arguments.folder, arguments.times, arguments.only)
    elif arguments.target:
        fit_all(arguments.folder, arguments.times, arguments.target)
    else:
        parser.error("name the file that the numbers are written to")


if __name__ == "__main__":
    main()
