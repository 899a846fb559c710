#!/usr/bin/env python3
"""How long the Python package's products of a layer or of experts with weights of four or eight bits, or of MX blocks, take, at many sizes, and what follows: which
product suits which sizes.

    python/make_bundles.py FOLDER --only '^mixed_mm(_zeros|_bias)?-|^scaled_mm-forward-mx.*(few|x[0-9])-bf16'     where LLVM is
    bench/mixed_sizes.py time FOLDER OUT [--only PATTERN]                      where an H200 and PyTorch are: microseconds, as JSON
    bench/mixed_sizes.py fit FOLDER OUT python/mixed_times.json                anywhere with numpy
    bench/mixed_sizes.py table python/mixed_times.json lib/Kernels/mixed_mm/ExpertTimes.def

`time` adds to OUT, and `fit` to its target. `time` lets all products of a kind that are for as many tokens, of MX blocks all products, take turns
at each size, as CUDA graphs of one call, on random data; L2 is cleared before each, and figures are medians. Sizes of experts are drawn at
random, always the same ones, with groups of tokens of equal weight or not. `fit` finds the numbers of each product that moe_opt/_mixed.py has, none of them negative, with
the least squares of relative errors. Then it says what is lost: for each kind, the time of the product that would be chosen to that of the best one,
of all sizes, and of those that were left out of the fit (each third). `table` writes the numbers of experts by which the
compiler chooses where sizes are known.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import collections
import itertools
import json
import math
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "examples")]
import make_bundles  # noqa: E402
from mixed_products import MixedProduct  # noqa: E402

SIZES = make_bundles.SIZES
COLUMNS = (2048, 8192)
# Up to 64 tokens, and more: tokens and rows.
FEW = ((1, 8, 16, 32, 64), (1024, 2048, 3584, 4096, 5120, 8192, 10240, 14336, 20480, 28672))
MANY = ((80, 128, 160, 256, 512, 1024, 3000), (1024, 3584, 4096, 8192, 12288, 28672))
ROUNDS = {True: 9, False: 5}  # of few and of many tokens
# Of experts: how many there are, the rows and columns of each, and tokens of each from so many to so many.
EXPERTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 384)
EXPERT_ROWS = (512, 768, 1024, 1408, 1536, 2048, 2560, 2880, 3072, 3584, 4096, 5120, 5760, 7168, 14336)
EXPERT_COLUMNS = (1024, 1408, 2048, 2816, 4096, 5120, 7168)  # multiples of each group
EXPERT_TOKENS = (0.05, 600)
EXPERT_LAYERS = 600
MX_COLUMNS = 512  # of products in MX blocks, whose scales may lie by rows, columns are a multiple
FEW_TILES, FEW_OF_ALL = 480, 0.7  # tiles of 128 rows of few experts, which this part of all have
MOST_WEIGHTS, MOST_PRODUCTS = 3e9, 6e11  # elements, multiplications
SKEWED = 0.4  # the part of sizes whose experts are of unequal weight, up to 1 + UNEQUAL times the least
UNEQUAL = 6
FEW_ROWS = 1 << 17  # of experts, or of their tokens
TIMED = ("tokens", "rows", "ctas", "at_once", "divided", "f16")  # what of a tile its times depend on
SAME = 1e-6  # a difference of errors that is none
ROUNDING = 1e-12  # of sums of squares, and of numbers that are 0
HELD_OUT = 3  # each so many sizes are left out of a fit


name_of = make_bundles.name_of


def products(folder):
    """The entries of a folder's index, without a bias but where it has times of its own: by kind, and by the sizes that a product is for."""
    found, sizes = collections.defaultdict(dict), {bundle.name: bundle.size for bundle in make_bundles.bundles() if getattr(bundle, "size", None)}
    for entry in json.loads((folder / "index.json").read_text(encoding="utf-8"))["bundles"]:
        name = entry["bundle"]
        if "tile" in entry and make_bundles.has_own_times(name):
            found[make_bundles.kind_of(name)][sizes[name]] = entry
    return found


def is_grouped(kind):
    return kind.endswith("-experts")


def is_mx(kind):
    return kind.startswith("mx-")


def expert_layers(mx=False):
    """Tokens of all experts, experts, rows and columns that are timed, and the weights by which tokens choose experts. mx: of products in MX blocks."""
    drawn = random.Random(1)
    found = []
    while len(found) < EXPERT_LAYERS:
        experts, rows, columns = map(drawn.choice, (EXPERTS, EXPERT_ROWS, EXPERT_COLUMNS))
        few = len(found) < FEW_OF_ALL * EXPERT_LAYERS
        tokens = round(experts * math.exp(drawn.uniform(*map(math.log, EXPERT_TOKENS))))
        if mx and (tokens > SIZES.MX_MOST * experts or columns % MX_COLUMNS):
            continue
        is_large = experts * rows * columns > MOST_WEIGHTS or tokens * rows * columns > MOST_PRODUCTS
        if not tokens or is_large or few != (experts * rows <= 128 * FEW_TILES):
            continue
        unequal = UNEQUAL * (drawn.random() < SKEWED)
        found.append(((tokens, experts, rows, columns), [1 + unequal * drawn.random() for _ in range(experts)]))
    return found


# ---- Times ----


def shapes_of(entry, tokens, *sizes):
    """Those of a product's operands, by name."""
    *experts, rows, columns = sizes
    if entry["op"].endswith("scaled_mm"):
        (count,) = experts
        blocks = columns // 32
        return {"qa": (tokens, columns), "qb": (count, columns, rows), "sa": (tokens, blocks), "sb": (count, blocks, rows), "offs": (count,)}
    form, group = entry["attributes"]["format"], entry["attributes"]["group_size"]
    return MixedProduct(form, group, zeros="zeros" in entry["op"], bias="bias" in entry["op"], experts=bool(experts)).shapes(tokens, rows, columns, *experts)


def operands(entry, tokens, *sizes, weights=None):
    """Random tensors of the product's element types. sizes: rows and columns, and before these experts, which tokens choose by these weights."""
    import torch

    from launch_from_pytorch import DTYPES

    shapes, found = shapes_of(entry, tokens, *sizes), []
    for tensor in entry["operands"]:
        dtype, shape = DTYPES[tensor["dtype"]], [shapes[tensor["name"]][dimension] for dimension in tensor["order"]]
        if tensor["name"] == "offs":
            chosen = torch.multinomial(torch.tensor(weights), tokens, replacement=True, generator=torch.Generator().manual_seed(tokens))
            values = torch.bincount(chosen, minlength=len(weights)).cumsum(0).to(torch.int32).cuda()
        elif dtype == torch.uint8:
            values = torch.randint(0, 16 if tensor["name"] == "zeros" else 256, shape, device="cuda", dtype=dtype)
        elif tensor["name"][0] != "s":
            values = torch.randn(shape, device="cuda").to(dtype)
        elif dtype.itemsize == 1:
            values = torch.randint(120, 130, shape, device="cuda", dtype=torch.uint8).view(dtype)
        else:
            values = (torch.rand(shape, device="cuda") + 0.1).to(dtype)
        found.append(values.permute(tensor["order"]))  # swaps the last two, or none
    return found


def layer_cells():
    """What is timed of a layer: sizes, no weights of experts, and how often."""
    for few, (counts, all_rows) in ((True, FEW), (False, MANY)):
        for columns, rows, tokens in itertools.product(COLUMNS, all_rows, counts):
            yield (tokens, rows, columns), None, ROUNDS[few]


def expert_cells(mx=False):
    """The same of experts."""
    for sizes, weights in expert_layers(mx):
        tokens, experts, rows, _ = sizes
        yield sizes, weights, ROUNDS[max(tokens, experts) * rows < FEW_ROWS]


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
        for sizes, weights, rounds in expert_cells(is_mx(kind)) if is_grouped(kind) else layer_cells():
            usual = SIZES.expert_candidates(entries, *sizes[:2]) if is_grouped(kind) else SIZES.candidates(entries, sizes[0])
            chosen = list(entries) if is_mx(kind) else usual
            chosen = [size for size in chosen if entries[size]["tile"]["columns"] <= sizes[-1]]
            tensors = operands(entries[chosen[0]], *sizes, weights=weights)
            seconds = times([lambda bundle=bundles[size]: bundle(*tensors) for size in chosen], clear, rounds)
            found[kind].append([*sizes, {name_of(size): round(1e6 * s, 2) for size, s in zip(chosen, seconds, strict=True)}])
        out.write_text(json.dumps(found))
        print(f"{kind}: {len(found[kind])} sizes", flush=True)


# ---- Fit ----


def least_squares(rows, values):
    """The numbers, none negative, with the least squares of relative errors. Of so few each choice of those that are not 0 is tried."""
    import numpy

    rows = numpy.array(rows) / numpy.array(values)[:, None]
    best = None
    # All first: where two have the same terms, as a begin and a round of which there is one in all sizes, each has a half.
    for chosen in itertools.chain.from_iterable(itertools.combinations(range(rows.shape[1]), count) for count in range(rows.shape[1], 0, -1)):
        numbers, *_ = numpy.linalg.lstsq(rows[:, chosen], numpy.ones(len(rows)), rcond=None)
        if (numbers < -ROUNDING).any():
            continue
        error = ((rows[:, chosen] @ numbers - 1) ** 2).sum()
        if best is None or error < best[0] * (1 - SAME) - ROUNDING:
            best = error, [round(max(0.0, float(dict(zip(chosen, numbers)).get(i, 0))), 4) for i in range(rows.shape[1])]
    return best[1]


def fitted(kind, entries, cells):
    """The numbers of each product of a kind."""
    found, terms = {}, SIZES.expert_terms if is_grouped(kind) else SIZES.terms
    for size, entry in entries.items():
        name, tile = name_of(size), entry["tile"]
        seen = [(sizes, us[name] - SIZES.us_of_f16(tile, sizes[0], sizes[-1])) for *sizes, us in cells if name in us]
        found[name] = least_squares([terms(tile, *sizes) for sizes, _ in seen], [us for _, us in seen])
    return found


def losses(kind, entries, numbers, cells):
    """Of each size, the time of the product that is chosen to that of the best one."""
    tiles = {size: entry["tile"] | {"us": numbers[name_of(size)]} for size, entry in entries.items()}
    chosen = SIZES.mx_size if is_mx(kind) else SIZES.expert_size if is_grouped(kind) else SIZES.layer_size
    return [us[name_of(chosen(tiles, *sizes))] / min(us.values()) for *sizes, us in cells]


def fit_all(folder, source, target):
    cells_of, found = json.loads(source.read_text()), json.loads(target.read_text()) if target.exists() else {}
    for kind, entries in products(folder).items():
        cells = cells_of.get(kind)
        if not cells:
            print(f"{kind}: was not timed")
            continue
        left_out = cells[::HELD_OUT]
        rest = losses(kind, entries, fitted(kind, entries, [cell for i, cell in enumerate(cells) if i % HELD_OUT]), left_out)
        numbers = fitted(kind, entries, cells)
        found[kind] = {name_of(size): {"tile": {field: entry["tile"][field] for field in TIMED}, "us": numbers[name_of(size)]} for size, entry in entries.items()}
        for what, lost in (("all", losses(kind, entries, numbers, cells)), ("left out", rest)):
            mean = math.exp(sum(map(math.log, lost)) / len(lost))
            print(f"{kind}, {what}: {len(lost)} sizes, mean {mean:.4f}, most {max(lost):.3f}, {sum(loss > 1.05 for loss in lost)} above 1.05")
    lines = ",\n".join(f' "{kind}": {{\n' + ",\n".join(f'  "{size}": {json.dumps(timed)}' for size, timed in sizes.items()) + "\n }" for kind, sizes in found.items())
    target.write_text(f"{{\n{lines}\n}}\n")


# ---- The compiler's table ----

# What lib/Kernels/mixed_mm/CandidatesFew.c calls products, and kinds that stand for all of them. Those by tiles are for fewer tokens. MX: weights that become
# f16, beside BY_BLOCKS.
FAMILIES = {
    "GROUP_SUMS_OF_32": "i4-32-bf16-biased-experts", "GROUP_SUMS": "i4-64-bf16-biased-experts", "IN_F16_OF_32": "i4-32-bf16-experts", "IN_F16": "i4-64-bf16-experts", "MXFP4": "f4E2M1FN-32-bf16-experts", "MXFP8": "f8E4M3FN-experts",
    "MX": "mx-row_major-experts", "BY_BLOCKS": "mx-row_major-experts", "MX_OF_ROWS": "mx-experts", "BY_BLOCKS_OF_ROWS": "mx-experts",
}  # fmt: skip
IN_F16 = ("IN_F16_OF_32", "IN_F16", "MX", "MX_OF_ROWS")


def write_table(source, target):
    times, lines = json.loads(source.read_text()), []
    for family, kind in FAMILIES.items():
        for name, timed in times[kind].items():
            tile, size = timed["tile"], tuple(map(int, name.split("x")))
            if "tiles" in SIZES.names_of(size) or (family in IN_F16) != bool(tile["f16"]):
                continue
            tokens = make_bundles.known_tokens(kind, tile["tokens"])
            ns = ", ".join(str(round(1000 * us)) for us in timed["us"])
            lines.append(f"MOE__TIMED({family}, {size[0]}, {tokens}, {tile['rows']}, {tile['ctas']}, {ns})\n")
    target.write_text(
        "/* ExpertTimes.def - what tiles of experts take on an H200, of python/mixed_times.json:\n"
        " * `bench/mixed_sizes.py table` writes it. Family, tokens of each expert that a tile is for, the\n"
        " * tile's tokens and rows, the CTAs that divide its columns, and five numbers in ns.\n *\n * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */\n" + "".join(lines)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["time", "fit", "table"])
    parser.add_argument("folder", type=pathlib.Path, help="of the bundles, with index.json; of table the JSON that fit writes")
    parser.add_argument("times", type=pathlib.Path, help="JSON that time writes and fit reads; what table writes")
    parser.add_argument("target", type=pathlib.Path, nargs="?", help="what fit writes")
    parser.add_argument("--only", default="", help="kinds that this is found in")
    arguments = parser.parse_args()
    if arguments.what == "table":
        write_table(arguments.folder, arguments.times)
    elif arguments.what == "time":
        time_all(arguments.folder, arguments.times, arguments.only)
    elif arguments.target:
        fit_all(arguments.folder, arguments.times, arguments.target)
    else:
        parser.error("name the file that the numbers are written to")


if __name__ == "__main__":
    main()
