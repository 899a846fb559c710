"""The rows of search_schedules.py: schedules of one variant, which are checked and timed.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json

import torch

from mixed_products import EXPERT_SIZES, EXPERTS_OF_TOKEN, form_of
from mixed_rows import BF16, DEVICE, Run, exact, routed
from launch_from_pytorch import DTYPES  # in examples/, which mixed_rows.py has put into the path
from torch_timing import group_ends, times
from variants import find, variants

FIRST_ROUNDS, ROUNDS = 7, 24
BEST = 7


def mixed_cases(run, variant):
    """Of each case its name, operands whose sums are exact, the bytes of their results, and operands that are timed."""
    m, n, k, *experts = variant.sizes
    if not experts:
        groups = {"dense": None}
    elif (n, k, *experts) in EXPERT_SIZES:
        groups = {"routed": routed(m // EXPERTS_OF_TOKEN, *experts)[0]}
    else:
        groups = {kind: group_ends(kind, m, *experts) for kind in ("equal", "ragged")}
    for kind, ends in groups.items():
        (packed, scales, integers, *rest), expected = exact(run, n, k, m, form_of(variant), variant.group, ends)
        x = torch.randn(m, k, device=DEVICE).to(BF16)
        yield kind, (packed, scales, integers, *rest), [expected.to(BF16).flatten().view(torch.uint8)], (packed, scales, x, *rest)


def numbers(name, dtype, shape, is_exact):
    if dtype == torch.uint8:  # bytes of weights, or zero points
        return torch.randint(0, 16 if name == "zeros" else 256, shape, device=DEVICE, dtype=dtype)
    if dtype == torch.float8_e8m0fnu:
        return torch.randint(125, 130, shape, device=DEVICE, dtype=torch.uint8).view(dtype)
    if name[0] in "sf":  # scales, and the factors of casts
        return (torch.randint(-2, 3, shape, device=DEVICE).float().exp2() if is_exact else torch.rand(shape, device=DEVICE) + 0.1).to(dtype)
    return (torch.randint(-2, 3, shape, device=DEVICE).float() if is_exact else torch.randn(shape, device=DEVICE)).to(dtype)


def operands(function, shapes, kind, is_exact):
    """Of these shapes, with groups of this kind."""
    for argument in function["arguments"]:
        name, dtype, order = argument["name"], DTYPES[argument["dtype"]], argument["order"]
        shape = shapes.get(name, argument["shape"])  # a static one is not in the call
        if dtype == torch.int32:  # ends of groups of tokens, which are rows of x, of a gradient's second operand, or of the first one
            tokens = next(shapes[name][0] for name in ("x", "qb", "b", *shapes) if len(shapes.get(name, ())) == 2)
            align = function["launches"][0]["op"]["attributes"].get("align", 0)
            yield group_ends(kind, tokens if "x" in shapes else tokens - align * shape[0], *shape)
        else:
            yield numbers(name, dtype, [shape[d] for d in order], is_exact).permute([order.index(d) for d in range(len(order))])


def other_cases(variant, function):
    """The same; results are not known beforehand."""
    has_sums = any(launch["op"]["name"].startswith("scaled_grouped_mm.") for launch in function["launches"])
    for line in variant.arguments("bench"):
        words = line.split()
        kind = words[words.index("--groups") + 1] if "--groups" in words else ""
        lists = {name: shapes.split(",") for name, _, shapes in (word.partition("=") for word in words) if shapes}
        for i in range(max(map(len, lists.values()))):
            texts = {name: shapes[i % len(shapes)] for name, shapes in lists.items()}  # a single shape serves all calls
            shapes = {name: tuple(map(int, text.split("x"))) for name, text in texts.items()}
            label = " ".join([*(f"{name}={text}" for name, text in texts.items()), kind]).strip()
            yield label, [*operands(function, shapes, kind, has_sums)], None, [*operands(function, shapes, kind, False)]


def results_of(bundle, arguments):
    """As bytes; what a kernel does not write is NaN."""
    torch.use_deterministic_algorithms(True)  # torch.empty fills memory then
    try:
        results = bundle(*arguments)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.cuda.synchronize()
    return [result.flatten().view(torch.uint8) for result in results]


def mistake(bundle, arguments, expected):
    """Of a schedule, as text. Where the device is lost this raises an error, and the process ends."""
    try:
        results = results_of(bundle, arguments)
    except (AssertionError, RuntimeError) as error:
        torch.cuda.synchronize()
        return str(error)
    return "" if all(map(torch.equal, results, expected)) else "results are wrong"


def row(folder, left_out, running):
    """The variant's, less the schedules that are left out. running: is told the number of the one that runs, as text, or nothing."""
    texts, run, bundles, wrong, cases = json.loads((folder / "schedules.json").read_text())["schedules"], Run(folder), {}, {}, {}
    variant = find(variants(), folder.name)
    for number in map(str, range(len(texts))):
        if number not in left_out:
            running(number)
            bundles[number] = run.bundle(number)
    running("")
    (function,) = bundles["0"].manifest["functions"]
    for label, sums, expected, arguments in mixed_cases(run, variant) if form_of(variant) else other_cases(variant, function):
        expected = expected or results_of(bundles["0"], sums)
        for number in list(bundles):
            running(number)
            why = mistake(bundles[number], sums, expected)
            if why:
                print(f"{folder.name} {label}: schedule {number}: {why}: {texts[int(number)]}", flush=True)
                wrong[number] = why
                del bundles[number]
        running("")
        if "0" in wrong:
            raise SystemExit(f"{folder.name} {label}: the default is wrong")

        def call(number):
            running(number)
            return bundles[number](*arguments)

        def before():
            running("")  # one of many
            run.clear()

        def timed(chosen, rounds):
            seconds = times([lambda number=number: call(number) for number in chosen], before, rounds, torch.cuda.graph_pool_handle())
            return dict(sorted(zip(chosen, (round(1e6 * second, 2) for second in seconds)), key=lambda item: item[1]))

        first = timed(list(bundles), FIRST_ROUNDS)
        best = timed(sorted({"0", *list(first)[:BEST]}), ROUNDS)
        cases[label] = {"us": best, "first_us": first, "schedules": {number: texts[int(number)] for number in best}}
        print(f"{folder.name} {label}: {len(first)} schedules, us of the best: {best}", flush=True)
    if not cases:
        raise SystemExit(f"{folder.name}: bench/gpu times no shapes of it")
    return {"variant": folder.name, "wrong": wrong, "cases": cases}
