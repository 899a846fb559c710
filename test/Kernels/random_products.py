"""Products with random schedules, on the emulator. Those that the compiler takes give every bit on data with exact sums, or ptxas has no registers for them.

Why: the tests of each kernel run defaults and a few schedules more. A user may write any that the compiler does not refuse.

  random_products.py SCHEDULES_MD [--seed S] [--count N]

SCHEDULES_MD: docs/schedules.md, which has the fields and their values. Prints what is wrong, and how many were right; exit code 1 where one is wrong.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import pathlib
import random
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "test/Target")]
from products import products  # noqa: E402
from random_kernels import error_of, is_accepted, report  # noqa: E402

FORMS = {name: form for name, form in products().items() if re.match(r"product-(halves-)?(forward|gradient|aligned|batched)", name)}
FIELD = re.compile(r"^\| `(\w+)` \| (\d+) to (\d+) \|", re.MULTILINE)
WIDE = (336, 48, 880, 3)  # M, N, K, E of which gradients have wide tiles, if the schedule has some, on the emulator's four multiprocessors


def fields_of(text):
    section = text[text.index("\n## products\n") :].split("\n## ")[1]
    return [(name, int(least), int(most)) for name, least, most in FIELD.findall(section)]


def schedule(rnd, fields):
    """About a third of the fields, each with any of its values."""
    chosen = [(name, least, most) for name, least, most in fields if rnd.random() < 0.33]
    return ", ".join(f"{name} = {rnd.randrange(least, most + 1, 16 if name == 'tile_n' else 1)}" for name, least, most in chosen)


def check(rnd, fields, folder):
    """The first form and schedule that the compiler takes, and what is wrong with it."""
    while True:
        name = rnd.choice(list(FORMS))
        text = schedule(rnd, fields)
        source = FORMS[name].source(text)
        if is_accepted(source):
            break
    form = FORMS[name]
    calls = [form.arguments("sanitize")[0]] + ([f"--check {form.shape_arguments([WIDE])} --nan-groups --groups ragged"] if form.case == "gradient" else [])
    return f"{name} {text}", error_of(rnd, source, folder, map(str.split, calls))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedules", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    rnd, fields = random.Random(arguments.seed), fields_of(arguments.schedules.read_text())
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [check(rnd, fields, f"{folder}/{number}") for number in range(arguments.count)]
    return report(outcomes, "products are right")


if __name__ == "__main__":
    sys.exit(main())
