"""Compiles mixed_mm with random schedules. Those that the compiler takes compile, or ptxas has no registers for them: nothing else may be wrong.

Why: the gate compiles defaults and candidates. Most schedules are neither. Which of them ptxas has registers for nobody knows beforehand
(docs/rationale/static-sizes.md); the compiler's error says so, and all that it can know it refuses by a message of its own.

  random_schedules.py MOE_OPT PTXAS [--seed S] [--count N]

Prints each schedule that fails otherwise, and how many of which kind there were; exit code 1 where one does.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from random_kernels import report
from static_shapes import Compiler, mixed_source, parser_of

FORMS = [
    {}, {"group": 32, "format": "ui4", "zeros": 1, "scales": "f32", "out": "f32"}, {"group": -1, "x": "f16", "out": "f16"}, {"group": 128, "bias": 1, "experts": 1},
    {"format": "f4E2M1FN", "group": 32, "scales": "f8E8M0FNU", "experts": 1}, {"format": "f8E4M3FN"}, {"format": "f8E4M3FN", "order": "rows", "bias": 1},
]  # fmt: skip
MOST_DRAWS = 1000


def seldom(rnd, usual, *others):
    return rnd.choice(others) if rnd.random() < 0.25 else usual


def schedule(rnd, is_fp8):
    """Fields that differ from the default's."""
    fields = {"tile_n": 8 * rnd.choice([1, 2, 3, 4, 5, 8, 12, 16, 24, 32]), "depth": rnd.choice([128, 128, 256, 64, 512]), "stages": rnd.randint(2, 6)}
    scaled = is_fp8 or rnd.random() < 0.3
    fields |= {"scaled_weights": int(scaled), "long_sums": int(scaled and rnd.random() < 0.7), "share": seldom(rnd, 1, 2, 4), "spread": seldom(rnd, 0, 1)}
    fields |= {"split": seldom(rnd, 1, 2, 4), "staged": seldom(rnd, 0, 1), "ctas_per_sm": seldom(rnd, 1, 2, 3, 4), "band": seldom(rnd, 4096, 1, 4)}
    if not is_fp8 and rnd.random() < 0.3:
        slices = seldom(rnd, 1, 2, 4)
        return fields | {"panels": rnd.randint(1, 16), "slices": slices, "direct": rnd.randint(0, 1), "in_flight": 1}
    parts = seldom(rnd, 1, 2, 3, 4)
    fields |= {"warpgroups": rnd.randint(1, 4), "in_flight": seldom(rnd, 1, 2), "behind": seldom(rnd, 0, 1), "common": 0, "panels": 0}
    return fields | {"token_parts": parts, "unroll": rnd.choice([1, 2, 4]) if parts > 1 else 1, "widths": seldom(rnd, 1, 2, 4)}


def accepted(rnd, takes):
    """A form, its schedule, and the source of both: the first of which takes(source) says that the compiler takes it."""
    for _ in range(MOST_DRAWS):
        form = rnd.choice(FORMS)
        fields = ",".join(f"{name}={value}" for name, value in schedule(rnd, form.get("format") == "f8E4M3FN").items())
        text = mixed_source(**{name: str(value) for name, value in form.items()}, schedule=fields)
        if takes(text):
            return form, fields, text
    raise RuntimeError(f"the compiler takes none of {MOST_DRAWS} schedules")


def check(compiler, seed, number):
    """A schedule that the compiler takes, and the error behind it."""
    form, fields, text = accepted(random.Random(f"{seed} {number}"), lambda text: not compiler.errors(text, "scheduled"))
    return f"{form} {fields}", compiler.errors(text)


def main():
    arguments = parser_of(__doc__).parse_args()
    compiler = Compiler(arguments.moe_opt, arguments.ptxas)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda number: check(compiler, arguments.seed, number), range(arguments.count)))
    return report(outcomes, "schedules compile")


if __name__ == "__main__":
    sys.exit(main())
