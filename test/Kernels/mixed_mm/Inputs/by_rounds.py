"""The schedules of few tokens of experts, by the compiler and as python/moe_opt/_mixed.py chooses among the package's products: by_rounds.py MOE-OPT says where they differ.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import subprocess
import sys

from package import mixed, product_source

WEIGHTS = [("i4", 32), ("i4", 64), ("i4", 128), ("ui4", 32), ("ui4", 64), ("ui4", 128), ("f4E2M1FN", 32)]
FORMS = [(form, group, dtype) for form, group in WEIGHTS for dtype in ("bf16", "f16")]
# Panels of a tile, columns of a stage, stages, CTAs of a multiprocessor, whether all CTAs divide the last tiles, and whether weights are multiplied by their scales.
FIELDS = ("panels", "depth", "stages", "ctas_per_sm", "spread", "scaled_weights")
INTEGERS = {mixed.HALF_A_ROUND: (4, 256, 3, 3, 0, 0), mixed.MOST_OF_A_ROUND: (4, 128, 4, 4, 0, 0), mixed.ONE_ROUND: (8, 128, 4, 2, 0, 0), mixed.MANY_ROUNDS: (16, 256, 3, 1, 1, 0)}
MXFP4 = INTEGERS | {mixed.ONE_ROUND: (8, 128, 4, 2, 0, 1), mixed.FEW_ROUNDS: (8, 256, 3, 2, 1, 1), mixed.MANY_ROUNDS: (16, 256, 4, 1, 1, 1)}
MXFP4_OF_F16 = INTEGERS | {mixed.ONE_ROUND: (8, 256, 4, 2, 0, 0), mixed.FEW_ROUNDS: (8, 256, 4, 2, 1, 0), mixed.MANY_ROUNDS: (16, 256, 5, 1, 1, 0)}


def schedules(form, dtype):
    return INTEGERS if form != "f4E2M1FN" else MXFP4 if dtype == "bf16" else MXFP4_OF_F16


LAYERS = [(256, 4096, 2176), (384, 7168, 2176), (128, 2880, 2944), (8, 14336, 4096), (60, 1408, 7168), (16, 16384, 5120), (2, 128, 4096)]
TOKENS = (1, 2, 4, 8, 11, 16, 24, 33, 70, 150, 400)
OF_EXPERT = (6, 12)  # on both sides of so many tokens of each, on average


def tokens_of(experts):
    return [tokens for tokens in TOKENS if tokens <= 12 * experts] + [tokens * experts + more for tokens in OF_EXPERT for more in (0, 1)]


def is_few(size):
    """Whether a product is chosen by tiles."""
    return "tiles" in mixed.names_of(size)


# The form of a case, its sizes, and what the package has for it.
cases = []
for form, group, dtype in FORMS:
    sizes = mixed.expert_sizes(form, group, dtype, False)
    for size in filter(is_few, sizes):
        tokens, rows, columns = mixed.compiled_for(size)
        cases.append((form, group, dtype, tokens, mixed.EXPERT_SIZES[0], rows, columns, size))
    cases += [(form, group, dtype, tokens, *layer, mixed.expert_size(tokens, *layer, form, group, dtype, False)) for layer in LAYERS for tokens in tokens_of(layer[0])]

text = "".join(product_source(f"f{number}", *case[:-1]) for number, case in enumerate(cases))
chosen = subprocess.run([sys.argv[1], "-", "--moe-select-schedule"], input=text, capture_output=True, text=True, check=True).stdout
found = [dict(re.findall(r"(\w+) = (\d+) :", schedule)) for schedule in re.findall(r"schedule = {([^}]*)}", chosen)]
wrong = 0
for (form, group, dtype, *sizes, size), fields in zip(cases, found, strict=True):
    schedule = tuple(int(fields[name]) for name in FIELDS)
    shifts = int(form != "f4E2M1FN" and dtype == "bf16")
    if (schedule != schedules(form, dtype)[size[1]] or int(fields["subnormal"]) != shifts) if is_few(size) else schedule[0] > 0:
        wrong += 1
        print(form, group, dtype, *sizes, size, "has", schedule)
few = [size[1] for *_, size in cases if is_few(size)]
print(f"{len(cases)} products, {len(few)} of few tokens, {wrong} differ; {len(set(few))} kinds")
