"""The code gate: assembles every candidate of every kernel and looks at the machine code.

Why: ptxas returns success where it has dropped a setmaxnreg or spilled registers, and a kernel that spills or misses the
hardware's copies is wrong or slow without any test of numbers failing. Checked per kernel:

  ptxas says nothing of C75xx (ignored directives), spills, local memory or a stack
  registers fit blocks_per_sm blocks into a multiprocessor, and stay within the budget below
  the code has as many tensor copies (UTMALDG, UTMASTG), casts (F2FP) and matrix products (QGMMA) as the schedule says,
  and no local memory (LDL, STL)

That is done in all types and modes with column-major MX quantization and products. Of the other variants of bench/variants.py
those that are timed are compiled for each candidate of moe-select-schedule; ptxas says nothing, and there is no local memory.

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

FIELDS = ("tile_n", "tile_k", "stages", "output_stages", "warps", "blocks_per_sm", "band")
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
PRODUCT_FIELDS = ("tile_n", "stages", "band")
PRODUCTS = tuple(itertools.product(("forward", "gradient"), ("fast", "promoted")))
# Of a thread when the kernel starts: 384 threads share all. The roles then move them by setmaxnreg.
PRODUCT_REGISTERS = 168
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


def quantize_source(x, schedule):
    """One function for each mode, type of q, and static or dynamic sizes."""
    functions = []
    for mode, q, (sizes, scale_sizes) in itertools.product(MODES, TYPES, (("?x?x?", "?x?x?"), ("8x160x1408", "8x5x1408"))):
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
    threads = (field["warps"] + 1) * 32 * field["blocks_per_sm"]
    limit = min(REGISTERS // threads // 8 * 8, BUDGET[x])
    return check(moe_opt, ptxas, *quantize_source(x, schedule), quantize_counts(x, schedule), limit)


def product_source(case, accumulate, schedule):
    """One function for each pair of types, and static or dynamic sizes."""
    functions = []
    for a, b, is_static in itertools.product(TYPES, TYPES, (False, True)):
        e, m, n, k = (8, 1024, 1408, 7168) if is_static else "????"
        if case == "forward":
            tensors = f"{m}x{k}x{a}", f"{e}x{k}x{n}x{b}, #forward", f"{m}xf32", f"{e}x{n}xf32", f"{e}xi32", f"{m}x{n}xbf16"
        else:
            tensors = f"{n}x{m}x{a}", f"{m}x{k}x{b}, #gradient", f"{e}x{n}xf32", f"{e}x{k}xf32", f"{e}xi32", f"{e}x{n}x{k}xbf16"
        *operands, result = [f"tensor<{tensor}>" for tensor in tensors]
        arguments = ", ".join(f"%{i}: {operand}" for i, operand in enumerate(operands))
        functions.append(
            f"func.func @{a}_{b}_{'static' if is_static else 'dynamic'}({arguments}) -> {result} {{\n"
            f'  %out = "scaled_grouped_mm.scaled_mm"(%0, %1, %2, %3, %4) {{accumulate = "{accumulate}"'
            f"{schedule_text(PRODUCT_FIELDS, schedule)}}}\n"
            f"      : ({', '.join(operands)}) -> {result}\n"
            f"  return %out : {result}\n}}\n"
        )
    maps = "#forward = affine_map<(e, k, n) -> (e, n, k)>\n#gradient = affine_map<(m, k) -> (k, m)>\n"
    return maps + "".join(functions), len(functions)


def product_counts(accumulate, tile_n):
    return {
        # Four for 128 of the reduction; with fast sums the first 128 stand before the loop.
        "QGMMA": 8 if accumulate == "fast" else 4,
        # Twice as many where K is static: the loader's loop is unrolled.
        "UTMALDG": (2, 4),
        # A warp's 16 rows: 16 columns a store, two values a cast.
        "STSM": tile_n // 16,
        "F2FP": tile_n // 4,
        "USETMAXREG": 2,
    }


def check_product(moe_opt, ptxas, case, accumulate, schedule):
    text, count = product_source(case, accumulate, schedule)
    return check(moe_opt, ptxas, text, count, product_counts(accumulate, schedule[0]), PRODUCT_REGISTERS)


def check_variant(moe_opt, ptxas, variant):
    """Number of candidates, of kernels, and all problems. What ptxas says, moe-opt says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [moe_opt, "-", "--emit=candidates", f"--ptxas={ptxas}", f"--reproducer={os.devnull}", "-o", folder]
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


def read_variants(path):
    """Those that are timed. Of what comes in rank 2 and 3, rank 2: the code is the same but for the tile's origin."""
    spec = importlib.util.spec_from_file_location("variants", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table = module.variants()
    return {name: variant for name, variant in table.items()
            if variant.is_timed() and not ("-weights-" in name and name.replace("-weights-", "-tokens-") in table)}


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
    for row in PRODUCTS:
        # Others of one tile_n differ in constants.
        widths = {schedule[0]: schedule for schedule in candidates(moe_opt, product_source(*row, None)[0], PRODUCT_FIELDS)}
        for tile_n, schedule in widths.items():
            checks[f"{' '.join(row)} {tile_n}"] = pool.submit(check_product, moe_opt, ptxas, *row, schedule)
    failed = False
    for name, result in checks.items():
        count, registers, problems = result.result()
        print(f"{name}: {count} kernels, at most {registers} registers")
        failed |= report(name, problems)
    return failed


def check_variants(moe_opt, ptxas, variants, pool):
    checks = {name: pool.submit(check_variant, moe_opt, ptxas, variant) for name, variant in read_variants(variants).items()}
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
