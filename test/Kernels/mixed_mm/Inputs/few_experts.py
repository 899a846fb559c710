"""The tiles of few experts, by the compiler and by python/moe_opt/_mixed.py, which have the same model and the same times: few_experts.py MOE-OPT says where they differ.

Sizes are drawn at random, always the same ones.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "python"))
import make_bundles  # noqa: E402
from source import source  # noqa: E402

SIZES, COUNT, MOST_TILES = make_bundles.SIZES, 150, 480
LEAST_TOKENS = 7  # of each expert, rounded up: fewer are worked off in panels
FORMS = {
    ("i4", 32, True): {"group": 32, "bias": 1}, ("i4", 64, True): {"group": 64, "bias": 1},
    ("f4E2M1FN", 32, False): {"format": "f4E2M1FN", "group": 32, "scales": "f8E8M0FNU"}, ("f8E4M3FN", 32, False): {"format": "f8E4M3FN"},
}  # fmt: skip
# What products of MX blocks become, where the scales of a column lie side by side, and those of a row.
MX_FORMS = {("mx-row_major", 32, False): {}, ("mx", 32, False): {"order": "rows"}}
MX_KEYS = {"format": "f8E4M3FN", "x": "f16", "scaled": 1}


def tiles_of(form, group, biased):
    """The tiles of the package's products, with times; of MX blocks without the product by blocks, which is another kernel."""
    if form.startswith("mx"):
        kind, sizes = f"{form}-experts", [size for size in SIZES.MX_SIZES if size != SIZES.MX_BY_BLOCKS]
    else:
        kind = (form if form == "f8E4M3FN" else f"{form}-{group}-bf16") + ("-biased" if biased else "") + "-experts"
        sizes = SIZES.expert_sizes(form, group, "bf16", biased)
    timed = {size: make_bundles.TIMES[kind][make_bundles.name_of(size)] for size in sizes}
    return {
        size: found["tile"] | {"tokens": make_bundles.known_tokens(kind, found["tile"]["tokens"]), "us": found["us"], "columns": 32}
        for size, found in timed.items()
    }


drawn = random.Random(7)
layers = []
while len(layers) < COUNT:
    experts, rows, columns = drawn.randint(1, 48), 16 * drawn.randint(8, 900), 128 * drawn.randint(1, 64)
    tokens = round(experts * 2 ** drawn.uniform(2.8, 11))
    if experts * -(-rows // 128) <= MOST_TILES and tokens > (LEAST_TOKENS - 1) * experts:
        layers.append((tokens, experts, rows, columns))

wrong, count, seen = 0, 0, set()
for form, keys in (FORMS | {form: MX_KEYS | keys for form, keys in MX_FORMS.items()}).items():
    is_mx, tiles = form in MX_FORMS, tiles_of(*form)
    known = [(m, e, n, 512 * -(-k // 512) if is_mx else k) for m, e, n, k in layers if not is_mx or m <= SIZES.MX_MOST * e]
    count += len(known)
    text = "".join(source(f"f{i}", **{name: str(value) for name, value in (keys | {"m": m, "experts": e, "n": n, "k": k}).items()}) for i, (m, e, n, k) in enumerate(known))
    text = text.replace("?x", "1x")  # a source's one expert is an unknown number
    chosen = subprocess.run([sys.argv[1], "-", "--moe-select-schedule"], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    for layer, function in zip(known, chosen.split("func.func")[1:], strict=True):
        fields = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+) :", function)}
        tile = tiles[(SIZES.mx_size if is_mx else SIZES.expert_size)(tiles, *layer)]
        found, expected = (fields["tile_n"], 64 * fields["warpgroups"], fields["split"]), (tile["tokens"], tile["rows"], tile["ctas"])
        seen.add((form, expected))
        if found != expected:
            wrong += 1
            print(*form, *layer, "has", found, "and the package", expected)
print(f"{count} products, {wrong} differ; {len(seen)} tiles")
