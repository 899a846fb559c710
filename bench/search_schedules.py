#!/usr/bin/env python3
"""Schedules of a kernel that are drawn at random, and how long they take: whether there is a better one than the default.

    bench/search_schedules.py draw VARIANT --count N --seed S -o FOLDER    where LLVM and ptxas are
    bench/search_schedules.py time FOLDER [VARIANT...] -o OUT.json         where a Hopper GPU and PyTorch are

draw: FOLDER/VARIANT/0 is the bundle of a variant of bench/variants.py with its default schedule; 1 to N have others that moe-opt and ptxas
accept, and each has code of its own. There are fewer than N where 40 N draws have not found as many. FOLDER/VARIANT/schedules.json says what
they are. Fields and their ranges are those of docs/schedules.md. Half of the draws change a few fields of the default or of a schedule
that was kept, the others half of all fields. A field that moe-opt refuses gets its usual value.

time: the shapes are those that bench/gpu times. Results are compared in every bit, those of products on data whose sums are exact: of weights of four
and eight bits, where sizes are static, with a product in fp64, all others with those of number 0. Schedules that are right take turns as CUDA
graphs, L2 is cleared before each, and figures are medians; then the best ones and number 0 do so again, in more rounds. Each variant has a process
of its own. Where that fails, or makes no progress for --limit seconds, another one begins again without the schedule that was running.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import multiprocessing
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from mixed_products import form_of, packer_of
from variants import find, variants

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 16
COMPILING_SECONDS = 60
DRAWS = 40  # at most, for each that is asked for
REPAIRS = 12
ATTEMPTS = 4


def kinds():
    """Of each kind of schedule the least, the most and the usual value by field. A test compares the page with the tables of lib/Kernels."""
    for section in (ROOT / "docs/schedules.md").read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| `(\w+)` \| (\d+) to (\d+) \| (\d+) \|", section, re.MULTILINE)
        yield {field: tuple(map(int, numbers)) for field, *numbers in rows}


def text_of(schedule):
    return ", ".join(f"{field} = {value}" for field, value in schedule.items())


def run(options, source, *arguments):
    """moe-opt, and whatever it has started, ends in time."""
    command = ["timeout", str(COMPILING_SECONDS), options.moe_opt, "-", *map(str, arguments)]
    return subprocess.run(command, input=source, capture_output=True, text=True)


def default_of(options, source):
    """All fields of the default schedule."""
    done = run(options, source, "--emit=scheduled")
    found = re.findall(r"schedule = \{([^}]*)\}", done.stdout)
    if len(found) != 1:
        sys.exit(done.stderr or f"{options.variant} becomes {len(found)} kernels, which have no schedule in common")
    return {field: int(value) for field, value in re.findall(r"(\w+) = (\d+)", found[0])}


def value_of(rng, least, most):
    """Multiples of large powers of two are likelier than others."""
    steps = [2**i for i in range(most.bit_length())]
    return rng.choice([0] * (least == 0) + [step * i for step in steps for i in range(1, 17) if least <= step * i <= most])


def draw(rng, fields, kept):
    """Either half of the fields of the default or a few of one that was kept have other values."""
    if rng.random() < 0.5:
        base, changed = kept[0], [field for field in fields if rng.random() < 0.5]
    else:
        base, changed = rng.choice([kept[0], rng.choice(kept)]), rng.sample(list(fields), rng.randint(1, min(4, len(fields))))
    return base | {field: value_of(rng, *fields[field][:2]) for field in changed}


def compiled(options, source_of, schedule, fields, folder):
    """The schedule whose bundle is in the folder: this one, or with usual values where moe-opt refuses others; None if there is none."""
    for _ in range(REPAIRS):
        done = run(options, source_of(text_of(schedule)), "--emit=bundle", "-o", folder)
        if not done.returncode:
            return schedule
        refused = re.search(r"'schedule\.(\w+)' is", done.stderr)
        if not refused or schedule[refused[1]] == fields[refused[1]][2]:
            return None
        schedule = schedule | {refused[1]: fields[refused[1]][2]}
    return None


def code_of(folder):
    """What is launched: machine code, or PTX where there is no ptxas, and the manifest less hashes."""
    manifest = json.loads((folder / "manifest.json").read_text())
    artifacts = manifest.pop("artifacts")
    return (folder / artifacts.get("cubin", artifacts["ptx"])["file"]).read_bytes(), json.dumps(manifest)


def draw_variant(options):
    table, folder = variants(), options.out / options.variant
    variant = find(table, options.variant)
    default = default_of(options, variant.source())
    fields = next((kind for kind in kinds() if kind.keys() == default.keys()), None) or sys.exit("docs/schedules.md is not of this moe-opt")
    if folder.exists():
        sys.exit(f"{folder} is there already")
    folder.mkdir(parents=True)
    packer = packer_of(form_of(variant))
    for name in ("0", packer) if packer else ("0",):
        done = run(options, table.get(name, variant).source(), "--emit=bundle", "-o", folder / name)
        if done.returncode:
            sys.exit(done.stderr)
    rng, kept, codes, drawn = random.Random(options.seed), [default], {code_of(folder / "0")}, 0
    with tempfile.TemporaryDirectory(dir=folder) as new, ThreadPoolExecutor(options.jobs) as pool:
        while len(kept) <= options.count and drawn < DRAWS * options.count:
            batch = {pathlib.Path(new, str(drawn + i)): draw(rng, fields, kept) for i in range(BATCH)}
            drawn += BATCH
            found = pool.map(lambda path, schedule: compiled(options, variant.source, schedule, fields, path), batch, batch.values())
            for path, schedule in zip(batch, found):
                if schedule and len(kept) <= options.count and code_of(path) not in codes:
                    codes.add(code_of(path))
                    path.rename(folder / str(len(kept)))
                    kept.append(schedule)
    texts = [text_of(schedule) for schedule in kept]
    (folder / "schedules.json").write_text(json.dumps({"variant": options.variant, "seed": options.seed, "schedules": texts}, indent=1))
    print(f"{options.variant}: {len(kept) - 1} schedules beside the default, of {drawn} drawn")
    return 0


def attempt(folder, left_out, running, out):
    """In a process of its own."""
    import schedule_rows  # which needs PyTorch, and draw does not

    out.write_text(json.dumps(schedule_rows.row(folder, left_out, running.write_text)))


def time_variant(folder, limit):
    """A row; None where there is none."""
    left_out = {}
    with tempfile.TemporaryDirectory() as state:
        running, out = pathlib.Path(state, "running"), pathlib.Path(state, "out")
        for _ in range(ATTEMPTS):
            running.write_text("")
            process = multiprocessing.get_context("spawn").Process(target=attempt, args=(folder, set(left_out), running, out))
            process.start()
            while process.is_alive() and time.time() - running.stat().st_mtime < limit:
                process.join(1)
            why = f"made no progress for {limit:g} s" if process.is_alive() else f"ended with {process.exitcode}"
            process.kill()
            process.join()
            if out.exists() and process.exitcode == 0:
                return json.loads(out.read_text()) | {"left_out": left_out}
            number = running.read_text()
            print(f"{folder.name}: {f'schedule {number}' if number else 'the process'} {why}", flush=True)
            if number in ("", "0"):
                return None
            left_out[number] = why
    return None


def time_variants(options):
    names = options.variants or sorted(path.parent.name for path in options.folder.glob("*/schedules.json"))
    rows = []
    for name in names:
        row = time_variant(options.folder / name, options.limit)
        if row:
            rows.append(row)
        options.out.write_text(json.dumps(rows, indent=1))
    return 0 if len(rows) == len(names) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("variant")
    drawing.add_argument("--count", type=int, default=100, help="of schedules besides the default (default: %(default)s)")
    drawing.add_argument("--seed", type=int, default=1, help="another one draws other schedules (default: %(default)s)")
    drawing.add_argument("--jobs", type=int, default=2, help="how many are compiled at once (default: %(default)s)")
    drawing.add_argument("--moe-opt", default=str(ROOT / "build/bin/moe-opt"), help="the compiler (default: %(default)s)")
    drawing.add_argument("-o", "--out", type=pathlib.Path, required=True, help="a folder")
    drawing.set_defaults(function=draw_variant)
    timing = commands.add_parser("time")
    timing.add_argument("folder", type=pathlib.Path, help="that of draw")
    timing.add_argument("variants", nargs="*", help="of all that were drawn (default: all)")
    timing.add_argument("--limit", type=float, default=60, help="seconds without progress (default: %(default)s)")
    timing.add_argument("-o", "--out", type=pathlib.Path, required=True, help="a JSON file of the rows")
    timing.set_defaults(function=time_variants)
    options = parser.parse_args()
    return options.function(options)


if __name__ == "__main__":
    sys.exit(main())
