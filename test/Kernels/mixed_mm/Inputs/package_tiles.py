"""The tiles of the Python package's products of weights of four or eight bits, by the compiler and as they were timed (python/mixed_times.json): package_tiles.py MOE-OPT says where
they differ. Most with a bias have the times of those without.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "python"))
import make_bundles  # noqa: E402

products = [bundle for bundle in make_bundles.bundles() if isinstance(bundle, make_bundles.Sized) and make_bundles.has_own_times(bundle.name)]
text = "".join(bundle.known(f"f{number}", bundle.shapes(bundle.size)) for number, bundle in enumerate(products))
chosen = subprocess.run([sys.argv[1], *make_bundles.CHOOSING], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
wrong = 0
for bundle, source in zip(products, re.split(r"func\.func @", chosen)[1:], strict=True):
    tile, timed = bundle.tile(source), make_bundles.timed(bundle)
    if not timed or timed["tile"] != tile:
        wrong += 1
        print(bundle.name, "has", tile, "and was timed with", timed and timed["tile"])
experts = [bundle for bundle in products if bundle.is_grouped()]
kinds = {(make_bundles.kind_of(bundle.name), make_bundles.name_of(bundle.size)) for bundle in products}
unknown = {(kind, size) for kind, sizes in make_bundles.TIMES.items() for size in sizes if not kind.startswith("mx")} - kinds
print(f"{len(products)} products, {len(experts)} of experts, {wrong} differ; {len(unknown)} times of others")
