"""Damages what kernels compute, one constant, rounding or branch at a time, and asks moe-run whether the data that it makes reach it.

Usage: values.py SCRATCH [NAME...]   prints how many are caught, for each case, or for those named; fails where one is not

Every mutant must differ by value from the C reference; none is known by its text. Whoever changes the formulas,
or the data, sees here which branch is no longer reached.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutants
from mutants import ptx

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "test/tools/moe-run/Inputs"))
import safetensors  # noqa: E402
MX_SOURCE = ROOT / "test/Kernels/quantize/Inputs/source.py"
FP8_SOURCE = ROOT / "test/Kernels/quantize_fp8/Inputs/source.py"
DEQUANTIZE_SOURCE = ROOT / "test/Kernels/dequantize/Inputs/source.py"
VARIANTS = ROOT / "bench/variants.py"

E4M3, E5M2, BF16, F32 = "f8E4M3FN", "f8E5M2", "bf16", "f32"
ALL = (BF16, F32)


# ---- MX ----
# What each mode does with amax, and for which types of x the change can be seen at all: between two bf16 numbers nothing happens.
def product(factor):
    return rf"mul\.rn\.f32 (\s*%r\d+, %r\d+, 0f{factor});"


def constant(before, value):
    return rf"({before} \s*%[rp]\d+, %r\d+, ){value};"


def mx_mutants(mode, element, which):
    """`which`: number of the place in the code, of those that find a scale."""

    def ptx(pattern, replacement, count=1):
        return mutants.ptx(pattern, replacement, which if count else 0, count)

    max_exponent, inverse, half = {E4M3: (8, "3B124925", 524288), E5M2: (15, "37924925", 1048576)}[element]
    power = {E4M3: "3B800000", E5M2: "38000000"}[element]
    ceiled = constant("add.s32", 8388607)
    of_mode = {
        "floor": [
            ("amax times half of the power of two", ptx(f"0f{power}", f"0f{int(power, 16) - 0x800000:08X}"), ALL),
            ("the product of amax rounded towards zero", ptx(product(power), r"mul.rz.f32 \1;"), (F32,)),
        ],
        "rceil": [
            ("the product of amax flushes subnormals", ptx(product(inverse), r"mul.rn.ftz.f32 \1;"), ALL),
            ("1/MAX rounded the other way", ptx(f"0f{inverse}", f"0f{int(inverse, 16) - 1:08X}"), (F32,)),
            ("a power of two is rounded up", ptx(ceiled, r"\g<1>8388608;"), ALL),
            ("the number after a power of two is not rounded up", ptx(ceiled, r"\g<1>8388606;"), (F32,)),
            ("2^-127 is rounded up", ptx(constant("setp.lt.u32", 4194305), r"\g<1>4194304;"), ALL),
            ("the number after 2^-127 is not rounded up", ptx(constant("setp.lt.u32", 4194305), r"\g<1>4194306;"), (F32,)),
            ("subnormals are not rounded up", ptx(constant("setp.lt.u32", 4194305), r"\g<1>8388608;"), ALL),
        ],
        "ceil": [
            ("a power of two is rounded up", ptx(ceiled, r"\g<1>8388608;"), ALL),
            ("the number after a power of two is not rounded up", ptx(ceiled, r"\g<1>8388606;"), (F32,)),
            ("the least scale is that of twice as much",
             ptx(rf"max\.u32 (\s*%r\d+, %r\d+, ){max_exponent};", rf"max.u32 \g<1>{max_exponent + 1};"), ALL),
            ("Inf is a number", ptx(constant("setp.gt.u32", 2139095039), r"\g<1>-1;"), ALL),
        ],
        "even": [
            ("half of the last bit of the mantissa is not rounded up", ptx(constant("add.s32", half), rf"\g<1>{half - 1};"), ALL),
            ("a bit less than half is rounded up", ptx(constant("add.s32", half), rf"\g<1>{half + 1};"), (F32,)),
            ("less than half is rounded up", ptx(constant("add.s32", half), rf"\g<1>{half + 0x10000};"), ALL),
            ("amax times half of the power of two", ptx(f"0f{power}", f"0f{int(power, 16) - 0x800000:08X}"), ALL),
        ],
    }[mode]
    return of_mode + [
        ("NaN is a number", ptx(r"min\.u32 (\s*%r\d+), (%r\d+), 2139095040;", r"and.b32 \1, \2, 2139095040; min.u32 \1, \1, 2130706432;"), ALL),
        ("a block of NaN is not NaN", ptx(r"setp\.eq\.b32 (\s*%p\d+, %r\d+), 255;", r"setp.eq.b32 \1, 256;"), ALL),
        ("elements flush subnormals", ptx(r"mul\.rn\.f32 (\s*%r\d+, %r\d+, %r\d+;)", r"mul.rn.ftz.f32 \1", count=0), ALL),
    ]


MX_SHAPES = {"columns": "w=1x288x128", "rows": "w=40x832", "both": "w=256x256"}


def mx_case(mode, x, element, way):
    rank = {"columns": "3", "rows": "2", "both": "2"}[way]
    source = [sys.executable, str(MX_SOURCE), mode, x, element, way, rank]
    places = range(2) if way == "both" else range(1)  # a dual op has code for each direction
    changes = [change for which in places for change in mx_mutants(mode, element, which)]
    chosen = [(what, change) for what, change, types in changes if x in types]
    return f"{mode}-{x}-{element}-{way}", source, ["--edge-blocks", "--shape", MX_SHAPES[way]], chosen


MODES = ("floor", "rceil", "ceil", "even")
MX_CASES = [
    *[mx_case(mode, x, element, "columns") for mode in MODES for x, element in ((F32, E4M3), (BF16, E5M2))],
    *[mx_case("rceil", x, element, "columns") for x, element in ((BF16, E4M3), (F32, E5M2))],
    *[mx_case(mode, F32, E4M3, "both") for mode in MODES],
    *[mx_case(mode, BF16, E4M3, "rows") for mode in MODES],
]


# ---- FP8 with fp32 scales ----
# With powers of two alone a quotient that is a bit off shows only next to one. Elements, quotients and inverses of them are never
# subnormal where it would matter: see docs/numerics.md.
DIVISION = r"div\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+);"
LEAST = r"(setp\.lt\.u32 \s*%p\d+, %r\d+), 730643661;"  # 1e-12, where it is compared with the bits of amax


def fp8_mutants(x, is_pow2):
    changes = [
        ("no amax is too small", ptx(LEAST, r"\1, 1;"), True),
        ("the quotient is a product with the inverse",
         ptx(DIVISION, r"rcp.rn.f32 \1, \3; mul.rn.f32 \1, \2, \1;"), x == F32 or not is_pow2),
        ("1e-12 is too small too", ptx(LEAST, r"\1, 730726401;"), not is_pow2),
        ("MAX is 240", ptx(r"0f43E00000", "0f43700000"), True),
        ("the scale is not the inverse", ptx(r"rcp\.rn\.f32 (\s*%r\d+), (%r\d+);", r"mov.b32 \1, \2;"), True),
        ("factors are not powers of two", ptx(r"and\.b32 (\s*%r\d+), (%r\d+), 2139095040;", r"mov.b32 \1, \2;"), is_pow2),
        ("the factor of NaN is a power of two", ptx(r"setp\.gt\.u32 (\s*%p\d+, %r\d+), 2139095040;", r"setp.gt.u32 \1, -1;"), is_pow2),
    ]
    return [(what, change) for what, change, is_seen in changes if is_seen]


def fp8_case(op, axis, x, is_pow2):
    """Slices of 16 elements: so many that each number next to a power of two comes."""
    source = [sys.executable, str(FP8_SOURCE), op, "row", "2", str(axis), x, E4M3, str(is_pow2).lower(), "false"]
    shape = "1040x16" if axis == 1 else "16x1040"
    name = f"{op}-{x}-axis{axis}{'-pow2' if is_pow2 else ''}"
    return name, source, ["--edge-blocks", "--shape", f"x={shape}", *(["--shape", "offs=1"] if axis == 0 else [])], fp8_mutants(x, is_pow2)


FP8_CASES = [fp8_case(op, axis, x, is_pow2) for op, axis in (("quantize", 1), ("scale", 0)) for x in ALL for is_pow2 in (True, False)]


# ---- Products ----
SCALED = r"mul\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+);\s*mul\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+);"


def scaled(replacement):
    """Replaces what scales a sum; the names are those of docs/numerics.md, `first` for what sa * acc was in."""

    def change(text, description):
        def replace(match):
            first, sa, acc, out, *factors = (group.strip() for group in match.groups())
            (sb,) = [factor for factor in factors if factor != first]
            return replacement.format(first=first, sa=sa, acc=acc, out=out, sb=sb)

        changed, count = re.subn(SCALED, replace, text)
        if count == 0:
            raise SystemExit("values.py: sums are not scaled as they were: the kernel has changed")
        return changed

    return change


def fused(text, description):
    """Adds the bias to a product that is not rounded."""

    def replace(match):
        _, x, y, between, total, right, left = match.groups()
        return f"{between}fma.rn.f32 {total}, {x}, {y}, {left or right};"

    changed, count = re.subn(
        r"mul\.rn\.f32 \s*(%r\d+), (%r\d+), (%r\d+);((?:[^;]*;)?\s*)add\.rn\.f32 \s*(%r\d+), (?:\1, (%r\d+)|(%r\d+), \1);", replace, text
    )
    if count == 0:
        raise SystemExit("values.py: no bias is added to a product: the kernel has changed")
    return changed


PRODUCT_MUTANTS = [
    ("(sb * sa) * acc", scaled("mul.rn.f32 {first}, {sb}, {sa}; mul.rn.f32 {out}, {first}, {acc};")),
    ("sa * (sb * acc)", scaled("mul.rn.f32 {first}, {sb}, {acc}; mul.rn.f32 {out}, {sa}, {first};")),
]
# Neither is seen where results are f16, which has nothing so small.
FLUSHES = [
    ("the product with sa flushes subnormals", scaled("mul.rn.ftz.f32 {first}, {sa}, {acc}; mul.rn.f32 {out}, {sb}, {first};")),
    ("the product with sb flushes subnormals", scaled("mul.rn.f32 {first}, {sa}, {acc}; mul.rn.ftz.f32 {out}, {sb}, {first};")),
]
FORWARD = ["qa=300x272", "qb=5x272x80", "sa=300", "sb=5x80", "offs=5"]
GRADIENT = ["qa=144x304", "qb=304x80", "sa=5x144", "sb=5x80", "offs=5"]
BATCHED = ["qa=3x129x272", "qb=3x272x80", "sa=3x129", "sb=3x80"]


def product_case(name, shapes, chosen, schedule=""):
    source = [sys.executable, str(VARIANTS), "source", f"product-{name}", *([schedule] if schedule else [])]
    groups = ["--groups", "ragged"] if any(shape.startswith("offs") for shape in shapes) else []
    return name, source, ["--exact", *groups, *mutants.shapes(shapes)], chosen


SWAPPED = "swap_operands = 1, tile_n = 32, stages = 5, band = 4, cluster = 1, pingpong = 0"
FUSED = [("the sum with the bias is fused", fused)]
PRODUCT_CASES = [
    product_case("forward-fast", FORWARD, PRODUCT_MUTANTS + FLUSHES),
    product_case("forward-fast-f16", FORWARD, PRODUCT_MUTANTS, SWAPPED),
    product_case("gradient-fast", GRADIENT, PRODUCT_MUTANTS + FLUSHES),
    product_case("batched-promoted-f32", BATCHED, PRODUCT_MUTANTS + FLUSHES),
    product_case("forward-fast-bias", [*FORWARD, "bias=5x80"], PRODUCT_MUTANTS + FUSED),
    product_case("forward-promoted-shared-sa-sb", ["qa=300x272", "qb=5x272x80", "sa=1", "sb=5", "offs=5"], PRODUCT_MUTANTS),
]



# ---- Groups ----
# As many as there may be, so that each step of the search over them, half as long as the one before, is taken and not taken.
STEPS = [512, 256, 128, 64, 32, 16, 8, 4, 2]


def step_dropped(step, which):
    stays = r"or\.b32|add\.s32"
    return ptx(rf"((?:{stays}) \s*(%r\d+), (%r\d+)), {step};(\s*selp\.b32 \s*%r\d+, \2, \3,)", r"\1, 0;\4", which)


LAST_STEP = ptx(r"(and\.pred[^;]*;\s*selp\.b32 \s*%r\d+), 1, 0,", r"\1, 0, 0,")


def search_mutants(places):
    steps = [(f"step {step} of search {which}", step_dropped(step, which)) for which in range(places) for step in STEPS]
    return [*steps, ("the last step of the search", LAST_STEP)]


def search_case(name, source, shapes, places):
    arguments = ["--exact", "--groups", "ragged", *mutants.shapes(shapes)]
    return f"search-{name}", [sys.executable, *map(str, source)], arguments, search_mutants(places)


PLAIN = "swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 1, pingpong = 0"
KERNELS = ROOT / "test/Kernels"
SEARCH_CASES = [
    search_case("quantize_fp8", [FP8_SOURCE, "quantize", "row", 2, 0, BF16, E4M3, "true", "false"], ["x=208x16", "offs=1024"], 2),
    search_case("dequantize_fp8", [KERNELS / "dequantize_fp8/Inputs/source.py", "row", 2, 0, E4M3, BF16],
                ["q=208x16", "s=1024x16", "offs=1024"], 1),
    # The first step, over all of them, is taken by rows of no group alone; other kernels have none, or take the last group for them.
    ("search-none", [sys.executable, str(KERNELS / "dequantize_fp8/Inputs/source.py"), "row", "2", "0", E4M3, BF16],
     ["--groups", "none", *mutants.shapes(["q=208x16", "s=1024x16", "offs=1024"])],
     [("step 1024 of search 0", ptx(r"(selp\.b32 \s*%r\d+), 1024, 0,", r"\1, 0, 0,"))]),
    search_case("product", [VARIANTS, "source", "product-forward-fast", PLAIN],
                ["qa=208x16", "qb=1024x16x16", "sa=208", "sb=1024x16", "offs=1024"], 1),
]

# Offsets of 80 groups, one token each, of which one is wrong: among the first 32, the first of the next 32, the last.
FAULTS = {"early": (5, 0), "between": (32, 3), "late": (79, 1)}
FOUND = r"or\.b32 (\s*%r\d+, %r\d+), (%r\d+);(\s*)or\.b32 (\s*\2), (%r\d+), (%r\d+);"


def later_forgotten(text, description):
    """Faults are noted only where the number of the first of 32 groups is 0."""
    base = re.search(r"add\.s32 \s*(%r\d+), \1, 32;", text).group(1)
    return ptx(FOUND, r"{ .reg .pred LATER; setp.ne.b32 LATER, " + base + r", 0; or.b32 \1, \2;\3@!LATER or.b32 \4, \5, \6; }")(text, description)


FAULT_MUTANTS = {
    "early": [
        ("faults of groups before the last 32 forgotten", ptx(FOUND, r"mov.b32 \1;\3or.b32 \4, \5, \6;")),
        ("faults that one lane found alone are reported", ptx(r"redux\.sync\.or\.b32 (\s*%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;")),
    ],
    "between": [
        ("the offset before 32 groups forgotten",
         ptx(r"(ld\.global\.b32 \s*(%r\d+),(?:[^;]*;)*?\s*)shfl\.sync\.idx\.b32 (\s*%r\d+), \2, 31, 31, -1;", r"\1mov.b32 \3, 0;")),
    ],
    "late": [("faults of groups behind the first 32 forgotten", later_forgotten)],
}
FAULTY = ["qa=80x16", "qb=80x16x16", "sa=80", "sb=80x16"]
FAULT_CASES = [
    (f"fault-{which}", [sys.executable, str(VARIANTS), "source", "product-forward-fast", PLAIN],
     [*mutants.shapes(FAULTY), "--in", f"offs={which}"], chosen, "an offset is below the one before it")
    for which, chosen in FAULT_MUTANTS.items()
]


# ---- What a call leaves to the next one ----
# A factor that only ever becomes less, or greater, is right as long as the data stay the same: the call must run on others in between.
FACTOR = r"st\.global\.b32 \s*(\[%rd\d+\]), (%r\d+);((?:[^;]*;)?\s*rcp)"
BOUNDED = r"{ .reg .b32 OLD; ld.global.b32 OLD, \1; BOUND st.global.b32 \1, OLD; }\3"
# New memory holds 0xA5A5A5A5.
BOUNDS = {
    "less": "min.u32 OLD, OLD, \\2;",
    "greater": "{ .reg .pred NEW; setp.eq.b32 NEW, OLD, 0xA5A5A5A5; selp.b32 OLD, 0, OLD, NEW; } max.u32 OLD, OLD, \\2;",
}
STATE_CASES = [
    ("state-tensorwise", [sys.executable, str(VARIANTS), "source", "recipe-forward-tensorwise"],
     ["--runs", "2", "--normal", "--groups", "edge", *mutants.shapes(["a=100x272", "b=3x272x144", "offs=3"])],
     [(f"factors only become {which}", ptx(FACTOR, BOUNDED.replace("BOUND", bound), count=0)) for which, bound in BOUNDS.items()])
]

CASES = MX_CASES + FP8_CASES + PRODUCT_CASES + SEARCH_CASES + FAULT_CASES + STATE_CASES


def write_offsets(scratch):
    """The files that FAULT_CASES take."""
    for which, (group, end) in FAULTS.items():
        ends = list(range(1, 81))
        ends[group] = end
        data = struct.pack("<80i", *ends)
        safetensors.write(scratch / which, {"offs": {"dtype": "I32", "shape": [80], "data_offsets": [0, len(data)]}}, data)


# Where a tile is taken for one of another group, CTAs also meet where they should not.
WRONG = f"{mutants.DIFFERENT}|without a fence.proxy.async|two runs gave different bits|is in no group|nothing orders|races with|must leave it zero|after the end of"


def run_case(scratch, case):
    """How many mutants of the case are caught, how many there are, and what was said of the others."""
    name, source, arguments, chosen, *rest = case
    told = rest[0] if rest else None  # what a right kernel says of these data; otherwise it has the reference's bits
    bundle, mutant = scratch / name, scratch / f"{name}-mutant"
    text = subprocess.run(source, check=True, capture_output=True, text=True).stdout
    subprocess.run(["moe-opt", "-", "--emit=bundle", "-o", str(bundle)], input=text, check=True, text=True)
    code, said = mutants.run(str(bundle), arguments)
    if code != (1 if told else 0) or (told and told not in said):
        raise SystemExit(f"values.py: {name}: the kernel itself fails: {said}")
    original, manifest = (bundle / "kernels.ptx").read_text(), (bundle / "manifest.json").read_text()
    missed = []
    for what, change in chosen:
        shutil.rmtree(mutant, ignore_errors=True)
        os.makedirs(mutant)
        description = json.loads(manifest)
        mutants.write(str(mutant), change(original, description), description)
        code, said = mutants.run(str(mutant), arguments)
        is_caught = told not in said and code in (0, 1) if told else re.search(WRONG, said) is not None
        if not is_caught:
            missed.append(f"NOT CAUGHT: {name}: {what}: exit {code}: {said[:300]}")
    return len(chosen) - len(missed), len(chosen), missed


def main(all_cases, write_files=write_offsets):
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):  # not a folder: what was meant is another thing
        raise SystemExit(sys.modules["__main__"].__doc__)
    scratch, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    scratch.mkdir(exist_ok=True)
    write_files(scratch)
    cases = [case for case in all_cases if not names or any(re.fullmatch(pattern, case[0]) for pattern in names)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda case: run_case(scratch, case), cases))
    for case, (caught, count, missed) in zip(cases, results):
        print(*missed, f"{case[0]}: {caught} of {count}", sep="\n")
    caught, count = (sum(result[i] for result in results) for i in range(2))
    print(f"{caught} of {count} mutants are caught")
    return 1 if caught != count else 0


if __name__ == "__main__":
    sys.exit(main(CASES))
