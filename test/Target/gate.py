"""The code gate: assembles every candidate of every kernel and looks at the machine code.

Why: ptxas returns success where it has dropped a setmaxnreg or spilled registers, and a kernel that spills or misses the
hardware's copies is wrong or slow without any test of numbers failing. Checked per kernel:

  ptxas says nothing of C75xx (ignored directives), spills, local memory or a stack
  registers fit ctas_per_sm CTAs into a multiprocessor, and stay within the budget below
  the code has as many tensor copies (UTMALDG, UTMASTG), casts (F2FP) and matrix products (QGMMA) as the schedule says,
  and no local memory (LDL, STL)

That is done in all types and modes with column-major MX quantization, and in all forms with products. Of the other variants of bench/variants.py
those that are timed are compiled for each candidate of moe-select-schedule, chains and recipes, whose ops have variants of their own, with defaults
only; ptxas says nothing, and there is no local memory.

  gate.py MOE_OPT PTXAS             the former
  gate.py MOE_OPT PTXAS VARIANTS    the latter

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import concurrent.futures
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import tempfile

import sass

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.append(BENCH)  # variants.py imports its neighbors
from products import Halves, Product  # noqa: E402

FIELDS = ("tile_n", "tile_k", "stages", "output_stages", "warps", "ctas_per_sm", "band")
MODES = ("floor", "rceil", "ceil", "even")
TYPES = ("f8E4M3FN", "f8E5M2")
# Beside the candidates: the schedules with the fewest registers that the compiler allows.
MORE_SCHEDULES = [
    ("bf16", (128, 128, 1, 1, 8, 3, 64)),
    ("bf16", (256, 64, 1, 1, 8, 3, 64)),
    ("bf16", (128, 128, 1, 1, 4, 4, 64)),
    ("f32", (128, 64, 1, 1, 8, 3, 1)),
]
# Registers of a thread, by type of x: what the code needs today and a little more. A jump is a surprise that
# should be looked at before this table is changed.
BUDGET = {"bf16": 128, "f32": 88}
REGISTERS = 65536
PRODUCT_FIELDS = ("swap_operands", "tile_n", "stages", "band", "cluster", "pingpong", "beside", "tma_store", "pieces", "warpgroups", "staged", "direct", "rotate", "wide_stages")
# By case and how it sums; "blocks": promoted, with scales of blocks.
PRODUCTS = (*itertools.product(("forward", "gradient", "batched"), ("fast", "promoted")), ("forward", "blocks"), ("batched", "blocks"),
            ("gradient", "blocks"))
# M, N, K, E where sizes are static: as usual, and the tokens of which moe-select-schedule takes tiles as narrow as the groups.
STATIC = (1024, 1408, 7168, 8)
FEW_TOKENS = ((128, 1408, 7168, 8), (256, 1408, 7168, 8), (512, 1408, 7168, 8))
# Beside the candidates: clusters, by whether sums are promoted; a gradient with scales of blocks has none.
CLUSTERS = {"fast": (0, 256, 4, 8, 2, 0, 0), "promoted": (0, 192, 4, 8, 2, 0, 0, 0, 1, 2, 128, 0, 0), "blocks": (0, 192, 4, 8, 2, 0, 0, 0, 1, 2, 128, 0, 0)}
# Of a thread when the kernel starts, by the number of warpgroups that multiply, beside one that loads: 384 or 512 threads share all. The roles then
# move them by setmaxnreg.
PRODUCT_REGISTERS = {2: 168, 3: 128}
SIGNS = re.compile(r"\(C75\d\d\)|warning|error|[1-9]\d* bytes (stack frame|spill|lmem)", re.IGNORECASE)


def candidates(moe_opt, text, fields):
    """The schedules that moe-select-schedule knows for the ops of the text, which are of one class."""
    found = []
    while True:
        command = [moe_opt, "-", f"--moe-select-schedule=candidate={len(found)}"]
        scheduled = subprocess.run(command, input=text, capture_output=True, text=True)
        if scheduled.returncode:
            if not found or "there is no candidate" not in scheduled.stderr:
                sys.exit(scheduled.stderr)
            return found
        schedule = re.search(r"schedule = {([^}]*)}", scheduled.stdout)[1]
        values = dict(re.findall(r"(\w+) = (\d+)", schedule))
        found.append(tuple(int(values[field]) for field in fields))


def schedule_text(fields, schedule):
    return f", schedule = {{{', '.join(f'{name} = {value}' for name, value in zip(fields, schedule))}}}" if schedule else ""


def alternate(i):
    """0, 1, 1, 0: over pairs of something and one of two types, each of those meets both values."""
    return (i + i // 2) % 2


def quantize_source(x, schedule):
    """One function for each mode and type of q, with sizes so that each meets static and dynamic ones."""
    functions = []
    all_sizes = ("?x?x?", "?x?x?"), ("8x160x1408", "8x5x1408")
    for i, (mode, q) in enumerate(itertools.product(MODES, TYPES)):
        sizes, scale_sizes = all_sizes[alternate(i)]
        results = f"tensor<{sizes}x{q}, #col_major>, tensor<{scale_sizes}xf8E8M0FNU>"
        name = f"{mode}_{q}_{'dynamic' if '?' in sizes else 'static'}"
        functions.append(
            f"func.func @{name}(%w: tensor<{sizes}x{x}>) -> ({results}) {{\n"
            f'  %q, %s = "mx_quantize.quantize"(%w) {{axis = 1 : i64, block = 32 : i64, mode = "{mode}"'
            f"{schedule_text(FIELDS, schedule)}}} : (tensor<{sizes}x{x}>) -> ({results})\n"
            f"  return %q, %s : {results}\n}}\n"
        )
    return "#col_major = affine_map<(e, n, k) -> (e, k, n)>\n" + "".join(functions), len(functions)


def quantize_counts(x, schedule):
    field = dict(zip(FIELDS, schedule))
    columns = 128 // (2 if x == "bf16" else 4)
    strips_per_warp = field["tile_n"] // 32 * (field["tile_k"] // columns) // field["warps"]
    return {
        "UTMALDG": field["tile_k"] // columns,
        "UTMASTG": field["tile_n"] // 128,
        "F2FP": strips_per_warp * 16 * (2 if x == "bf16" else 1),
    }


def check_quantize(moe_opt, ptxas, x, schedule):
    field = dict(zip(FIELDS, schedule))
    threads = (field["warps"] + (field["stages"] > 1)) * 32 * field["ctas_per_sm"]  # one warp more loads
    limit = min(REGISTERS // threads // 8 * 8, BUDGET[x])
    return check(moe_opt, ptxas, *quantize_source(x, schedule), quantize_counts(x, schedule), limit)


def product_forms(case, accumulate, sizes, in_all_types):
    """By type of out, with sizes dynamic and static: scales of rows and shared ones, without and with a bias. In all types: those of the operands too,
    in bf16 all of them. The machine code has the same structure in each, so that one schedule is enough."""
    has_bias = case != "gradient"
    if not in_all_types:
        return {"bf16": [{}, {"sizes": sizes, "bias": has_bias}],
                "f16": [{"sizes": sizes, "shared": () if accumulate == "blocks" else ("sa", "sb")}],
                "f32": [{"bias": has_bias}]}
    if (case, accumulate) == ("gradient", "blocks"):
        return {"bf16": [{}, {"sizes": sizes}, {"a": TYPES[1], "b": TYPES[1]}], "f16": [{"sizes": sizes}], "f32": [{}]}
    if accumulate == "blocks":
        return {"bf16": [{}, {"sizes": sizes, "bias": True}, {"a": TYPES[1], "b": TYPES[1], "blocks": "row-major"}],
                "f16": [{"sizes": sizes}], "f32": [{"bias": True}]}
    return {
        "bf16": [{"a": a, "b": b, "sizes": (None, sizes)[alternate(i)]} for i, (a, b) in enumerate(itertools.product(TYPES, TYPES))]
        + [{"shared": ("sa", "sb")}, {"bias": has_bias, "sizes": sizes}],
        "f16": [{}, {"shared": ("sa", "sb"), "bias": has_bias, "sizes": sizes}],
        "f32": [{"bias": has_bias}, {"shared": ("sb",), "sizes": sizes}],
    }


def product_source(case, accumulate, out, forms, schedule):
    """One function for each form."""
    fields = dict(zip(PRODUCT_FIELDS, schedule or ()))
    # A bias takes the room of the fifth stage of tiles with 192 columns, or with 192 rows, where warps bring rows in order.
    large = (fields.get("tile_n") == 192 or fields.get("warpgroups") == 3) and not fields.get("direct")
    biased = {**fields, "stages": min(fields["stages"], 4)} if large else fields
    full, narrow = (", ".join(f"{name} = {value}" for name, value in row.items()) or None for row in (fields, biased))
    if accumulate == "blocks":
        accumulate, forms = "promoted", [{"blocks": "tokens" if case == "gradient" else "checkpoint", **form} for form in forms]
    functions = [Product(case, accumulate, out=out, **form).source(narrow if form.get("bias") else full).replace("@product(", f"@product{i}(")
                 for i, form in enumerate(forms)]
    return "".join(functions), len(functions)


def swapped_products(field, accumulate):
    """Of tiles with operands swapped: for each number of pieces a part, with the first four, four in the loop, and where sums are promoted a loop with
    three or two times four."""
    widths = [field["tile_n"] // field["pieces"] * (i + 1) for i in range(field["pieces"])]
    at_once = [1 if accumulate == "fast" else max(1, min(3, 240 // n)) for n in widths]
    return sum(8 + (4 * n if n > 1 else 0) for n in at_once)


def product_counts(case, accumulate, out, schedule):
    field = {"pieces": 1, **dict(zip(PRODUCT_FIELDS, schedule))}
    halves, shares = out != "f32", field["cluster"] > 1
    # Twice as many where K is static: the loader's loop is unrolled.
    copies = (1, 2) if shares else (2, 4)
    multicast = copies if shares else 0
    if accumulate == "blocks":  # a box of scales of tokens besides, and where operands are swapped one of weights
        boxes = 1 + field["swap_operands"]
        copies = tuple((boxes + (1 if shares else 2)) * n for n in (1, 2))
    if (case, accumulate) == ("gradient", "blocks"):  # two tiles, their tails, and the scales of both
        copies = (6,)
    if case == "forward" and accumulate != "fast" and not shares:  # a loop for the last k-tiles, unrolled or not
        copies = tuple(copies[0] * n for n in range(1, 7))
    if field["swap_operands"]:  # and one over pieces
        copies = tuple(range(copies[0], 33))
    # In ping-pong ptxas keeps two copies of what a warpgroup does with its tile, by where it comes from.
    gradient, tiles = case == "gradient", 1
    if accumulate != "fast" and not field["swap_operands"] and not (gradient and (shares or accumulate == "blocks")):
        tiles = 2  # a tile is stored behind the first product of the next one, the last tile at the end
    if field["pingpong"]:
        tiles = 2
        if gradient:
            copies = (2,) if shares else (4,)
        elif case == "forward":  # such a loop too
            copies = tuple(copies[0] * n for n in range(2, 9))
        multicast = copies if shares else 0
    columns = field["tile_n"] * (field["pieces"] + 1) // 2
    counts = {
        # Four for 128 of the reduction; the first 128 stand before the loop. Those of the gradient may be less: one, and a loop over
        # the others, which ptxas unrolls. Where steps in front of a group are skipped, there is such a loop behind it too.
        # A warpgroup in ping-pong has 128 rows, twice as many. With scales of blocks of tokens there is one loop, and the tail.
        "QGMMA": swapped_products(field, accumulate) if field["swap_operands"] else 5 if (case, accumulate) == ("gradient", "blocks") else (44 if gradient else 24) if field["pingpong"] else (22 if tiles == 2 else 13) if gradient else 8,
        # Blocks of a cluster share what they read of one of the operands.
        "UTMALDG": copies,
        "UTMALDG (multicast)": multicast,
        # A warp's 16 rows: 16 columns a store, two values a cast. Or lanes store what they have.
        "STSM": 0 if field.get("direct") else columns // 16 * halves * tiles,
        "F2FP": columns // 4 * halves * tiles,
        "USETMAXREG": 2,
    }
    if field.get("wide_stages"):
        # The code of tiles of 192 columns stands behind, of which ptxas keeps four copies of what is stored, and three of 44 products.
        counts["UTMALDG"] = tuple(2 * n for n in counts["UTMALDG"])
        counts["USETMAXREG"] *= 2
        counts["QGMMA"] += 3 * 44
        counts["STSM"] += 192 // 16 * halves * 4
        counts["F2FP"] += 192 // 4 * halves * 4
    return counts


def check_product(moe_opt, ptxas, case, accumulate, sizes, schedule, in_all_types):
    """Number of kernels, the largest number of registers, and all problems, of all types of out."""
    results = [check(moe_opt, ptxas, *product_source(case, accumulate, out, forms, schedule), product_counts(case, accumulate, out, schedule),
                     PRODUCT_REGISTERS[dict(zip(PRODUCT_FIELDS, schedule)).get("warpgroups", 2)])
               for out, forms in product_forms(case, accumulate, sizes, in_all_types).items()]
    counts, registers, problems = zip(*results)
    return sum(counts), max(registers), sum(problems, [])


def product_checks(moe_opt):
    """By name: case, accumulate, static sizes, schedule, and whether in all types: the first schedule of a kind. Schedules that differ in other fields
    differ in constants."""
    checks, kinds = {}, set()
    for (case, accumulate), sizes in itertools.product(PRODUCTS, (None, *FEW_TOKENS)):
        if sizes and case != "forward":
            continue
        schedules = candidates(moe_opt, product_source(case, accumulate, "bf16", [{"sizes": sizes}], None)[0], PRODUCT_FIELDS)
        for schedule in schedules if (case, accumulate) == ("gradient", "blocks") else [*schedules, CLUSTERS[accumulate]]:
            field = dict(zip(PRODUCT_FIELDS, schedule))
            words = ["swapped"] * field["swap_operands"] + ["cluster"] * (field["cluster"] > 1) + ["ping-pong"] * field["pingpong"]
            words += ["three warpgroups"] * (field.get("warpgroups", 2) == 3) + ["direct"] * field.get("direct", 0)
            name = " ".join([case, accumulate, str(field["tile_n"]), *words])
            if name not in checks:
                kind = case, accumulate, field["swap_operands"]
                checks[name] = (case, accumulate, sizes or STATIC, schedule, kind not in kinds)
                kinds.add(kind)
    return checks


def check_variant(moe_opt, ptxas, name, variant):
    """Number of candidates, of kernels, and all problems. What ptxas says, moe-opt says."""
    has_candidates = not name.startswith(("chain", "recipe-"))
    with tempfile.TemporaryDirectory() as folder:
        target = folder if has_candidates else os.path.join(folder, "0")
        command = [moe_opt, "-", f"--emit={'candidates' if has_candidates else 'bundle'}", f"--ptxas={ptxas}", f"--reproducer={os.devnull}", "-o", target]
        compiled = subprocess.run(command, input=variant.source(), capture_output=True, text=True)
        if compiled.returncode:
            return 0, 0, [compiled.stderr]
        numbers, kernels, problems = os.listdir(folder), 0, []
        for number in numbers:
            with open(os.path.join(folder, number, "kernels.cubin"), "rb") as file:
                census = sass.census(file.read())
            kernels += len(census)
            problems += [f"candidate {number}: {kernel} has local memory" for kernel, counts in census.items()
                         if counts["LDL"] + counts["STL"]]
        return len(numbers), kernels, problems


def is_checked_elsewhere(name, variant):
    """Products whose structure is known, and each pass of a quantizer that has two."""
    is_known = isinstance(variant, Product) and not isinstance(variant, Halves) and not variant.is_mx and not variant.sizes and not variant.aligned
    return is_known or name.startswith(("scale-", "cast-"))


def read_variants(path):
    """Those that are timed. Of what comes in rank 2 and 3, rank 2: the code is the same but for the tile's origin. Of variants with the same
    candidates one."""
    spec = importlib.util.spec_from_file_location("variants", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table = module.variants()
    return {name: variant for name, variant in table.items()
            if variant.arguments("bench") and not is_checked_elsewhere(name, variant) and not ("-weights-" in name and name.replace("-weights-", "-tokens-") in table)
            and not getattr(variant, "has_candidates_of_another", bool)()}


def check(moe_opt, ptxas, text, count, expected, limit):
    """Number of kernels in the text, the largest number of registers, and all problems."""
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = os.path.join(folder, "x.ptx"), os.path.join(folder, "x.cubin")
        compiled = subprocess.run([moe_opt, "-", "--emit=ptx", "-o", ptx], input=text, capture_output=True, text=True)
        if compiled.returncode:
            return count, 0, [compiled.stderr]
        assembled = subprocess.run(
            [ptxas, "-arch=sm_90a", "-v", "-warn-spills", "-warn-lmem-usage", "-o", cubin, ptx],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        if assembled.returncode:
            return count, 0, [assembled.stdout]
        with open(cubin, "rb") as file:
            kernels = sass.census(file.read())
    problems = [line for line in assembled.stdout.splitlines() if SIGNS.search(line)]
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", assembled.stdout)]
    if len(registers) != count or len(kernels) != count:
        problems.append(f"{count} kernels expected, {len(registers)} reported and {len(kernels)} in the cubin")
    problems += [f"{number} registers; {limit} are allowed" for number in registers if number > limit]
    for kernel, counts in kernels.items():
        for name, number in {**expected, "LDL": 0, "STL": 0}.items():
            allowed = number if isinstance(number, tuple) else (number,)
            if counts[name] not in allowed:
                problems.append(f"{kernel} has {counts[name]} {name}; it must have {' or '.join(map(str, allowed))}")
    return count, max(registers, default=0), problems


def check_structure(moe_opt, ptxas, pool):
    """Prints what was found of the kernels whose code is known. True: there is a problem."""
    schedules = MORE_SCHEDULES + [
        (x, schedule) for x in BUDGET for schedule in candidates(moe_opt, quantize_source(x, None)[0], FIELDS)
    ]
    checks = {
        f"{x} {' '.join(map(str, schedule))}": pool.submit(check_quantize, moe_opt, ptxas, x, schedule)
        for x, schedule in sorted(schedules)
    }
    for name, row in product_checks(moe_opt).items():
        checks[name] = pool.submit(check_product, moe_opt, ptxas, *row)
    failed = False
    for name, result in checks.items():
        count, registers, problems = result.result()
        print(f"{name}: {count} kernels, at most {registers} registers")
        failed |= report(name, problems)
    return failed


def check_variants(moe_opt, ptxas, variants, pool):
    checks = {name: pool.submit(check_variant, moe_opt, ptxas, name, variant) for name, variant in read_variants(variants).items()}
    failed = False
    for name, result in checks.items():
        count, kernels, problems = result.result()
        print(f"{name}: {count} candidates, {kernels} kernels")
        failed |= report(name, problems)
    return failed


def report(name, problems):
    for problem in problems:
        print(f"{name}: error: {problem}")
    return bool(problems)


def main():
    moe_opt, ptxas, *variants = sys.argv[1:]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = check_variants(moe_opt, ptxas, *variants, pool) if variants else check_structure(moe_opt, ptxas, pool)
    sys.exit(failed)


if __name__ == "__main__":
    main()
