"""The code gate: assembles every variant of every kernel and looks at the machine code.

Why: ptxas returns success where it has dropped a setmaxnreg or spilled registers, and a kernel that spills or misses the
hardware's copies is wrong or slow without any test of numbers failing. Checked per kernel:

  ptxas says nothing of C75xx (ignored directives), spills, local memory or a stack
  registers fit blocks_per_sm blocks into a multiprocessor, and stay within the budget below
  the code has as many tensor copies (UTMALDG, UTMASTG), casts (F2FP) and matrix products (QGMMA) as the schedule says,
  and no local memory (LDL, STL)

Of the quantizers that bench/variants.py knows, with their default schedules, only the first of these and local memory.

  gate.py MOE_OPT PTXAS BENCH        BENCH: the folder bench/

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import concurrent.futures
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
# The default schedules, and those with the fewest registers that the compiler allows.
MORE_SCHEDULES = """
bf16 128 128 3 1 8 2 64
bf16 128 128 1 1 8 3 64
bf16 256 64 1 1 8 3 64
bf16 128 128 1 1 4 4 64
f32  128 64 2 2 8 2 64
f32  128 64 1 1 8 3 1
f32  128 128 1 2 16 1 64
"""
# Registers of a thread, by type of x: what the code needs today and a little more. A jump is a surprise that
# should be looked at before this table is changed.
BUDGET = {"bf16": 128, "f32": 88}
REGISTERS = 65536
# Products: case, accumulate and tile_n of the default schedules.
PRODUCTS = (("forward", "fast", 256), ("forward", "promoted", 192), ("gradient", "fast", 256), ("gradient", "promoted", 192))
# Of a thread when the kernel starts: 384 threads share all. The roles then move them by setmaxnreg.
PRODUCT_REGISTERS = 168
# Families of the variants: each has kernels of its own.
FAMILIES = (
    "mx-tokens-row-rceil", "mx-weights-row-rceil", "mx-tokens-dual-rceil", "mx-weights-dual-rceil",
    "fp8-row-tokens-row", "fp8-row-weights-row", "fp8-row-tokens-col", "fp8-row-weights-col", "fp8-tensor", "fp8-expert", "fp8-group",
    "fp8-1x128", "fp8-128x128", "fp8-dual-tokens", "fp8-dual-weights", "dequantize-mx", "dequantize-(row|tensor|expert|group|1x128|128x128)",
    "pack", "pad|unpad",
)
SIGNS = re.compile(r"\(C75\d\d\)|warning|error|[1-9]\d* bytes (stack frame|spill|lmem)", re.IGNORECASE)


def read_schedules(path):
    """Those of the kernels that write columns: lines such as mx-tokens-col-rceil-bf16-f8E4M3FN tile_n = 128, ..."""
    rows = [line.split() for line in MORE_SCHEDULES.strip().splitlines()]
    with open(path) as file:
        for line in file:
            name = re.match(r"mx-\w+-col-\w+-(bf16|f32)-", line)
            if name:
                fields = dict(re.findall(r"(\w+) = (\d+)", line))
                rows.append([name[1]] + [fields[field] for field in FIELDS])
    return sorted({(row[0], tuple(int(value) for value in row[1:])) for row in rows})


def quantize_source(x, schedule):
    """One function for each mode, type of q, and static or dynamic sizes."""
    functions = []
    fields = ", ".join(f"{name} = {value}" for name, value in zip(FIELDS, schedule))
    for mode, q, (sizes, scale_sizes) in itertools.product(MODES, TYPES, (("?x?x?", "?x?x?"), ("8x160x1408", "8x5x1408"))):
        results = f"tensor<{sizes}x{q}, #col_major>, tensor<{scale_sizes}xf8E8M0FNU>"
        name = f"{mode}_{q}_{'dynamic' if '?' in sizes else 'static'}"
        functions.append(
            f"func.func @{name}(%w: tensor<{sizes}x{x}>) -> ({results}) {{\n"
            f'  %q, %s = "mx_quantize.quantize"(%w) {{axis = 1 : i64, block = 32 : i64, mode = "{mode}",\n'
            f"      schedule = {{{fields}}}}} : (tensor<{sizes}x{x}>) -> ({results})\n"
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


def product_source(case, accumulate):
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
            f'  %out = "scaled_grouped_mm.scaled_mm"(%0, %1, %2, %3, %4) {{accumulate = "{accumulate}"}}\n'
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


def check_product(moe_opt, ptxas, case, accumulate, tile_n):
    return check(moe_opt, ptxas, *product_source(case, accumulate), product_counts(accumulate, tile_n), PRODUCT_REGISTERS)


def family_sources(bench):
    """The functions of each family, E4M3 and E5M2, bf16 and f32. Those of E5M2 sanitize."""
    sys.path.insert(0, bench)
    import variants

    table = variants.variants()
    for family in FAMILIES:
        names = [name for name in table if re.match(rf"({family})-", name)]
        functions = [re.sub(r"@\w+", "@" + re.sub(r"\W", "_", "of_" + name), table[name].source(), 1) for name in names]
        yield family, "".join(functions)


def check_family(moe_opt, ptxas, text):
    return check(moe_opt, ptxas, text, None, {}, 255)


def check(moe_opt, ptxas, text, count, expected, limit):
    """Number of kernels in the text, None where it is not known, the largest number of registers, and all problems."""
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
    count = count or max(1, len(kernels))
    if len(registers) != count or len(kernels) != count:
        problems.append(f"{count} kernels expected, {len(registers)} reported and {len(kernels)} in the cubin")
    problems += [f"{number} registers; {limit} are allowed" for number in registers if number > limit]
    for kernel, counts in kernels.items():
        for name, number in {**expected, "LDL": 0, "STL": 0}.items():
            allowed = number if isinstance(number, tuple) else (number,)
            if counts[name] not in allowed:
                problems.append(f"{kernel} has {counts[name]} {name}; it must have {' or '.join(map(str, allowed))}")
    return count, max(registers, default=0), problems


def main():
    moe_opt, ptxas, bench = sys.argv[1:]
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = {
            f"{row[0]} {' '.join(map(str, row[1]))}": pool.submit(check_quantize, moe_opt, ptxas, *row)
            for row in read_schedules(os.path.join(bench, "schedules.txt"))
        }
        checks |= {" ".join(map(str, row)): pool.submit(check_product, moe_opt, ptxas, *row) for row in PRODUCTS}
        checks |= {family: pool.submit(check_family, moe_opt, ptxas, text) for family, text in family_sources(bench)}
        for name, result in checks.items():
            count, registers, problems = result.result()
            print(f"{name}: {count} kernels, at most {registers} registers")
            for problem in problems:
                print(f"{name}: error: {problem}")
            failed |= bool(problems)
    sys.exit(failed)


if __name__ == "__main__":
    main()
