"""Whether integers of experts are multiplied in f16, by the compiler and by the product of the package that python/moe_opt/_mixed.py chooses: becomes_f16.py MOE-OPT says where they differ.

Experts have a whole number of tokens each: between two of these the package may go by a limit of its own. In groups of 32 it has no product for 27 to 43
tokens but one that is f16.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import subprocess
import sys
from itertools import product

from package import mixed, product_source

EXPERTS = 8
FORMS = [("i4", group, "bf16", bias) for group in (32, 64, 128) for bias in (False, True)] + [("ui4", 64, "bf16", False), ("i4", 64, "f16", False)]
# On both sides of each limit.
LAYERS = [(1008, 4096), (1024, 128), (2032, 2048), (2048, 1408), (2048, 1536), (4096, 2048)]
TOKENS = {32: (1, 26, 44, 104, 105, 136, 137, 700), 64: (1, 52, 53, 96, 104, 105, 136, 137, 700), 128: (1, 52, 53, 700)}

cases = [(*form, tokens, *layer) for form, layer in product(FORMS, LAYERS) for tokens in TOKENS[form[1]]]
functions = []
for form, group, dtype, bias, tokens, rows, columns in cases:
    size = mixed.expert_size(tokens * EXPERTS, EXPERTS, rows, columns, form, group, dtype, bias)
    m, n, k = mixed.compiled_for(size)
    for sizes in (tokens * EXPERTS, EXPERTS, rows, columns), (m, mixed.EXPERT_SIZES[0], n, k):
        functions.append(product_source(f"f{len(functions)}", form, group, dtype, *sizes, bias))
made = subprocess.run([sys.argv[1], "-", "--moe-expand-recipes"], input="".join(functions), stdout=subprocess.PIPE, text=True, check=True).stdout
found = ["quantize_f16" in body for body in re.split(r"func\.func @", made)[1:]]
wrong = 0
for case, compiled, chosen in zip(cases, found[::2], found[1::2], strict=True):
    if compiled != chosen:
        wrong += 1
        print(*case, "is f16" if compiled else "is not f16", "and the package's", "is" if chosen else "is not")
print(f"{len(cases)} products, {sum(found[::2])} in f16, {wrong} differ")
