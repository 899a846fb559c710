"""A bundle with a function for each quantizer, and what those with fp32 scales must compute: quantizers.py ...

  quantizers.py bundle DIR            writes the bundle: static shapes, kernels that do nothing
  quantizers.py data FILE END ...     the arguments of all functions; END are the offsets
  quantizers.py check BUNDLE FILE OUT PREFIX   runs all functions of this prefix on FILE and compares with what they must give
  quantizers.py same BUNDLE FILE OUT PREFIX OTHER   functions whose names differ in the prefix give the same
  quantizers.py random BUNDLE PREFIX OPTION ...     moe-run --check on them

Written from docs/numerics.md, without a line of the C reference, and slowly.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import bisect
import itertools
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import safetensors

M, K, L, E, N, G, ALIGN = 150, 136, 48, 3, 140, 5, 16
PTX = os.path.join(os.path.dirname(__file__), "quantizers.ptx")
PTX_BYTES, PTX_XXH3_128 = 538, "6e0a5265a4fe9fad4c9eb685ca8661c5"


def ceildiv(a, b):
    return -(-a // b)


# ---- The functions ----

FUNCTIONS = {}
SHAPES = {"x": (M, K), "w": (E, N, K)}
OFFS = ("offs", "i32", (G,), (0,))


def order_along(rank, axis):
    order = list(range(rank))
    if axis != rank - 1:
        order[-2:] = reversed(order[-2:])
    return tuple(order)


def row_major(name, dtype, shape):
    return (name, dtype, tuple(shape), tuple(range(len(shape))))


def function(name, arguments, results, launches, temporaries=()):
    FUNCTIONS[name] = {"arguments": arguments, "results": results, "temporaries": temporaries, "launches": launches}


def scale_shape(granularity, shape, axis, grouped):
    if granularity == "row":
        return ([G] if grouped else []) + [size for d, size in enumerate(shape) if d != axis]
    if granularity in ("1x128", "128x128"):
        rows = shape[-2] if granularity == "1x128" else ceildiv(shape[-2], 128)
        return [*shape[:-2], rows, ceildiv(shape[-1], 128)]
    return {"tensor": [1], "expert": [E], "group": [G]}[granularity]


def quantize_fp8(suffix, x, granularity, axis, pow2=True, sanitize=False, grouped=False, dtype="bf16", element="f8E4M3FN"):
    """quantize_fp8, the same in two passes, and the way back."""
    shape = SHAPES[x]
    scales = scale_shape(granularity, shape, axis, grouped)
    offs, names = ([OFFS], ["offs"]) if grouped else ([], [])
    argument = row_major(x if dtype == "bf16" else f"{x}_{dtype}", dtype, shape)
    where = {"granularity": granularity, "axis": axis}
    q = ("q", element, shape, order_along(len(shape), axis))
    s = row_major("scales", "f32", scales)
    launch = ("quantize_fp8", {**where, "pow2": pow2, "sanitize": sanitize}, [argument[0], *names], ["q", "scales"])
    function(f"quantize_{suffix}", [argument, *offs], [q, s], [launch])
    scale = {**where, "pow2": int(pow2), "sanitize": int(sanitize), "element": element}
    passes = [
        ("scale_fp8", scale, [argument[0], *names], ["scales", "factors", "state"]),
        ("cast_fp8", {**where, "sanitize": int(sanitize)}, [argument[0], "factors", *names], ["q"]),
    ]
    temporaries = [row_major("factors", "f32", scales), row_major("state", "i32", [2, *scales])]
    function(f"passes_{suffix}", [argument, *offs], [q, s], passes, temporaries)
    back = ("dequantize_fp8", where, ["q", "scales", *names], ["x"])
    function(f"dequantize_{suffix}", [q, s, *offs], [row_major("x", dtype, shape)], [back])


def dual_results(shape, element, scales, scales_t, scale_dtype):
    rank = len(shape)
    return [
        ("q", element, shape, order_along(rank, rank - 1)),
        row_major("scales", scale_dtype, scales),
        ("q_t", element, shape, order_along(rank, rank - 2)),
        row_major("scales_t", scale_dtype, scales_t),
    ]


def quantize_fp8_dual(suffix, x, grouped):
    shape, rank = SHAPES[x], len(SHAPES[x])
    argument, offs, names = row_major(x, "bf16", shape), [OFFS] * grouped, ["offs"] * grouped
    scales = scale_shape("row", shape, rank - 1, False)
    scales_t = scale_shape("row", shape, rank - 2, grouped)
    results = dual_results(shape, "f8E4M3FN", scales, scales_t, "f32")
    attributes = {"pow2": True, "sanitize": True}
    named = [result[0] for result in results]
    function(f"dual_{suffix}", [argument, *offs], results, [("quantize_fp8_dual", attributes, [x, *names], named)])
    passes = [
        (
            "scale_fp8_dual",
            {**attributes, "element": "f8E4M3FN"},
            [x, *names],
            ["scales", "factors", "state", "scales_t", "factors_t", "state_t"],
        ),
        ("cast_fp8_dual", {"sanitize": True}, [x, "factors", "factors_t", *names], ["q", "q_t"]),
    ]
    temporaries = [
        row_major("factors", "f32", scales),
        row_major("state", "i32", [2, *scales]),
        row_major("factors_t", "f32", scales_t),
        row_major("state_t", "i32", [2, *scales_t]),
    ]
    function(f"dual_passes_{suffix}", [argument, *offs], results, passes, temporaries)
    along = {"granularity": "row", "axis": rank - 1, **attributes}
    across = {"granularity": "row", "axis": rank - 2, **attributes}
    singles = [("quantize_fp8", along, [x], named[:2]), ("quantize_fp8", across, [x, *names], named[2:])]
    function(f"dual_singles_{suffix}", [argument, *offs], results, singles)


def quantize_fp8_pair():
    """Of tensors with the same rows and other columns; the same in two passes, and as two ops."""
    attributes = {"pow2": True, "sanitize": True}
    x, y = row_major("x", "bf16", (M, K)), row_major("y", "bf16", (M, L))
    results, factors = [], []
    for suffix, (_, _, shape, _) in (("", x), ("_y", y)):
        scales = (G, shape[1])
        results += [("q" + suffix, "f8E4M3FN", shape, (1, 0)), row_major("scales" + suffix, "f32", scales)]
        factors += [row_major("factors" + suffix, "f32", scales), row_major("state" + suffix, "i32", (2, *scales))]
    named = [result[0] for result in results]
    function("pair", [x, y, OFFS], results, [("quantize_fp8_pair", attributes, ["x", "y", "offs"], named)])
    scaled = [name for scales, factor, state in zip(named[1::2], factors[::2], factors[1::2]) for name in (scales, factor[0], state[0])]
    passes = [
        ("scale_fp8_pair", {**attributes, "element": "f8E4M3FN"}, ["x", "y", "offs"], scaled),
        ("cast_fp8_pair", {"sanitize": True}, ["x", "y", "factors", "factors_y", "offs"], named[::2]),
    ]
    function("pair_passes", [x, y, OFFS], results, passes, factors)
    row = {"granularity": "row", "axis": 0, **attributes}
    singles = [("quantize_fp8", row, ["x", "offs"], named[:2]), ("quantize_fp8", row, ["y", "offs"], named[2:])]
    function("pair_singles", [x, y, OFFS], results, singles)


quantize_fp8("row_1", "x", "row", 1)
quantize_fp8("row_0", "x", "row", 0, grouped=True)
quantize_fp8("row_0_e5m2", "x", "row", 0, pow2=False, sanitize=True, grouped=True, dtype="f32", element="f8E5M2")
quantize_fp8("row_experts_2", "w", "row", 2, pow2=False)
quantize_fp8("row_experts_1", "w", "row", 1)
quantize_fp8("tensor", "x", "tensor", 0, sanitize=True)
quantize_fp8("tensor_experts", "w", "tensor", 2, sanitize=True)
quantize_fp8("expert", "w", "expert", 1)
quantize_fp8("group_0", "x", "group", 0, pow2=False, grouped=True)
quantize_fp8("group_1", "x", "group", 1, grouped=True)
quantize_fp8("1x128", "x", "1x128", 1, dtype="f32")
quantize_fp8("128x128", "x", "128x128", 1, pow2=False)
quantize_fp8("128x128_experts", "w", "128x128", 2)
quantize_fp8_dual("groups", "x", True)
function(
    "cast",
    [row_major("x", "bf16", (M, K)), row_major("factors", "f32", (G, K)), OFFS],
    [("q", "f8E4M3FN", (M, K), (1, 0))],
    [("cast_fp8", {"granularity": "row", "axis": 0, "sanitize": True}, ["x", "factors", "offs"], ["q"])],
)
quantize_fp8_dual("experts", "w", False)
quantize_fp8_pair()

MX_SHAPE = (E, 96, 64)
MX = row_major("v", "bf16", MX_SHAPE)
MX_RESULTS = dual_results(MX_SHAPE, "f8E5M2", (E, 96, 2), (E, 3, 64), "f8E8M0FNU")
MX_NAMES = [result[0] for result in MX_RESULTS]
MX_MODE = {"block": 32, "mode": "rceil"}
function("mx_dual", [MX], MX_RESULTS, [("quantize_dual", MX_MODE, ["v"], MX_NAMES)])
MX_SINGLES = [("quantize", {"axis": 2, **MX_MODE}, ["v"], MX_NAMES[:2]), ("quantize", {"axis": 1, **MX_MODE}, ["v"], MX_NAMES[2:])]
function("mx_singles", [MX], MX_RESULTS, MX_SINGLES)

SCALES = row_major("mx_scales", "f8E8M0FNU", (M, 5))
for suffix, groups in [("all", 0), ("groups", G)]:
    packed = row_major("packed", "f8E8M0FNU", (128 * (ceildiv(M, 128) + groups), 8))
    offs = [OFFS] if groups else []
    function(
        f"pack_{suffix}",
        [SCALES, *offs],
        [packed],
        [("pack_scales", {"layout": "128x4"}, ["mx_scales", *(o[0] for o in offs)], ["packed"])],
    )

PADDED_ROWS = ALIGN * (ceildiv(M, ALIGN) + G)
PADDED = row_major("padded", "bf16", (PADDED_ROWS, K))
PADDED_OFFS = row_major("padded_offs", "i32", (G,))
PAD = ("pad_groups", {"align": ALIGN}, ["x", "offs"], ["padded", "padded_offs"])
UNPAD = ("unpad_groups", {"align": ALIGN}, ["padded", "offs", "padded_offs"], ["back"])
BACK = row_major("back", "bf16", (PADDED_ROWS, K))
X = row_major("x", "bf16", (M, K))
function("pad", [X, OFFS], [PADDED, PADDED_OFFS], [PAD])
function("there_and_back", [X, OFFS], [BACK], [PAD, UNPAD], [PADDED, PADDED_OFFS])
function("unpad", [PADDED, PADDED_OFFS, OFFS], [BACK], [UNPAD])

# The last of each kind, with something wrong.
Q, S = row_major("q", "f8E4M3FN", (M, K)), row_major("scales", "f32", (M,))
RIGHT = {"granularity": "row", "axis": 1, "pow2": True, "sanitize": False}
Y, Q_Y, S_Y = row_major("y", "bf16", (M + 1, L)), ("q_y", "f8E4M3FN", (M + 1, L), (1, 0)), row_major("scales_y", "f32", (G, L))
function("wrong_rows", [X, Y, OFFS], [("q", "f8E4M3FN", (M, K), (1, 0)), row_major("scales", "f32", (G, K)), Q_Y, S_Y],
         [("quantize_fp8_pair", {"pow2": True, "sanitize": False}, ["x", "y", "offs"], ["q", "scales", "q_y", "scales_y"])])
for name, wrong in [("granularity", "column"), ("pow2", 2), ("axis", 2)]:
    function(f"wrong_{name}", [X], [Q, S], [("quantize_fp8", {**RIGHT, name: wrong}, ["x"], ["q", "scales"])])
function("wrong_sanitize", [X], [Q, S], [("quantize_fp8", {k: RIGHT[k] for k in RIGHT if k != "sanitize"}, ["x"], ["q", "scales"])])
function("wrong_groups", [X], [Q, S], [("quantize_fp8", {**RIGHT, "axis": 0}, ["x"], ["q", "scales"])])
function("wrong_shape", [X], [Q, row_major("scales", "f32", (M + 1,))], [("quantize_fp8", RIGHT, ["x"], ["q", "scales"])])
function("wrong_layout", [SCALES], [row_major("packed", "f8E8M0FNU", (256, 8))], [("pack_scales", {"layout": "4x128"}, ["mx_scales"], ["packed"])])
function("wrong_align", [X, OFFS], [PADDED, PADDED_OFFS], [("pad_groups", {"align": 0}, ["x", "offs"], ["padded", "padded_offs"])])
function("wrong_state", [X], [Q], [
    ("scale_fp8", {**RIGHT, "element": "f8E4M3FN"}, ["x"], ["scales", "factors", "state"]),
    ("cast_fp8", {k: RIGHT[k] for k in ("granularity", "axis", "sanitize")}, ["x", "factors"], ["q"]),
], [S, row_major("factors", "f32", (M,)), row_major("state", "f32", (2, M))])


# ---- The bundle ----


def tensor_entry(tensor, **more):
    name, dtype, shape, order = tensor
    return {"name": name, "dtype": dtype, "shape": list(shape), "order": list(order), "alignment": 16, **more}


# What the ops call their tensors; offs is the last operand where there are groups.
ROLES = {
    "quantize": ("x", "q scales"),
    "quantize_dual": ("x", "q scales q_t scales_t"),
    "dequantize": ("q scales", "x"),
    "quantize_fp8": ("x offs", "q scales"),
    "quantize_fp8_dual": ("x offs", "q scales q_t scales_t"),
    "quantize_fp8_pair": ("x y offs", "q scales q_y scales_y"),
    "dequantize_fp8": ("q scales offs", "x"),
    "scale_fp8": ("x offs", "scales factors state"),
    "scale_fp8_dual": ("x offs", "scales factors state scales_t factors_t state_t"),
    "scale_fp8_pair": ("x y offs", "scales factors state scales_y factors_y state_y"),
    "cast_fp8": ("x factors offs", "q"),
    "cast_fp8_dual": ("x factors factors_t offs", "q q_t"),
    "cast_fp8_pair": ("x y factors factors_y offs", "q q_y"),
    "pack_scales": ("scales offs", "packed"),
    "pad_groups": ("x offs", "padded padded_offs"),
    "unpad_groups": ("padded offs padded_offs", "x"),
}


def launch_entry(entry, launch, kernel):
    op, attributes, operands, results = launch
    roles = ROLES[op][0].split()[: len(operands)] + ROLES[op][1].split()
    parameters = []
    if kernel == "touch":  # a byte of the second column in a column-major result
        name, _, shape, _ = entry["results"][0]
        parameters = [{"kind": "pointer", "tensor": name}, {"kind": "scalar", "type": "i64", "value": shape[0] + 7}]
    return {
        "kernel": kernel,
        "op": {"name": f"mx_quantize.{op}", "attributes": attributes, "operands": operands, "results": results, "roles": roles},
        "grid": [1, 1, 1],
        "parameters": parameters,
        "programmatic": False,
    }


def function_entry(name, kernel="nothing"):
    entry = FUNCTIONS[name]
    return {
        "name": name if kernel == "nothing" else f"{kernel}_{name}",
        "symbols": [],
        "arguments": [tensor_entry(t) for t in entry["arguments"]],
        "results": [tensor_entry(t) for t in entry["results"]],
        "temporaries": [tensor_entry(t, initial="zero" if t[0].startswith("state") else "none") for t in entry["temporaries"]],
        "status": None,
        "launches": [launch_entry(entry, launch, kernel) for launch in entry["launches"]],
    }


def bundle(path):
    os.makedirs(path)
    shutil.copy(PTX, os.path.join(path, "kernels.ptx"))
    manifest = {
        "format": "moe-opt-bundle",
        "version": 1,
        "producer": "quantizers.py",
        "target": "sm_90a",
        "artifacts": {"ptx": {"file": "kernels.ptx", "bytes": PTX_BYTES, "xxh3_128": PTX_XXH3_128, "isa": "8.0"}},
        "kernels": [{"name": name, "block": [1, 1, 1], "cluster": [1, 1, 1], "shared_memory": 0} for name in ("nothing", "touch")],
        "functions": [function_entry(name) for name in FUNCTIONS]
        + [function_entry(name, "touch") for name in ("unpad", "dequantize_group_1", "cast")],
    }
    with open(os.path.join(path, "manifest.json"), "w") as file:
        json.dump(manifest, file, indent=1)


# ---- Arguments ----


def value(generator, i, count):
    """Of many magnitudes; in the first fifth of a tensor sometimes special."""
    special = {0: 0.0, 1: -0.0, 2: math.inf, 3: -math.inf, 4: math.nan, 5: 1e-12, 6: 2.0**-130}
    kind = generator.randrange(600 if 5 * i < count else 600000)
    return special.get(kind, generator.gauss(0, 1) * 2.0 ** (i // 40 % 37 - 20))


def data(path, *ends):
    generator = random.Random(1)
    header, blob = {}, b""
    for name, file_dtype, shape in [
        ("x", "BF16", (M, K)),
        ("x_f32", "F32", (M, K)),
        ("w", "BF16", (E, N, K)),
        ("y", "BF16", (M, L)),
        ("v", "BF16", MX_SHAPE),
        ("offs", "I32", (G,)),
        ("mx_scales", "F8_E8M0", (M, 5)),
    ]:
        count, size = math.prod(shape), safetensors.SIZES[file_dtype]
        if name == "offs":
            more = struct.pack(f"<{G}i", *map(int, ends))
        elif name == "mx_scales":
            more = bytes(generator.randrange(256) for _ in range(count))
        else:
            values = [struct.pack("<f", value(generator, i, count)) for i in range(count)]
            more = b"".join(bits[4 - size :] for bits in values)
        header[name] = {"dtype": file_dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(more)]}
        blob += more
    safetensors.write(path, header, blob)


# ---- Checks ----


def fp32(x):
    if abs(x) >= 2.0**128 * (1 - 2.0**-25):
        return math.copysign(math.inf, x)
    return struct.unpack("<f", struct.pack("<f", x))[0]


def magnitudes(mantissa, bias, codes):
    one = 1 << mantissa
    return [(c / one if c < one else (1 + c % one / one) * 2.0 ** (c // one - 1)) * 2.0 ** (1 - bias) for c in range(codes)]


ELEMENTS = {"f8E4M3FN": magnitudes(3, 7, 0x7F), "f8E5M2": magnitudes(2, 15, 0x7C)}


def cast(element, x):
    """None for NaN."""
    if math.isnan(x):
        return None
    table, size = ELEMENTS[element], min(abs(x), ELEMENTS[element][-1])
    above = bisect.bisect_left(table, size)
    code = min((abs(table[c] - size), c % 2, c) for c in (max(above - 1, 0), above))[2]
    return code | (0x80 if math.copysign(1, x) < 0 else 0)


def clean(x, dtype):
    greatest = (2 - 2.0**-7) * 2.0**127 if dtype == "bf16" else (2 - 2.0**-23) * 2.0**127
    return 0.0 if math.isnan(x) else max(-greatest, min(greatest, x))


def ends_of(tensors, rows):
    ends, end = [], 0
    for offset in struct.unpack(f"<{G}i", tensors["offs"][2]):
        end = min(max(offset, end), rows)
        ends.append(end)
    return ends


def slice_of(granularity, axis, index, group):
    """The index of the scale of an element."""
    if granularity == "row":
        rest = index[:axis] + index[axis + 1 :]
        return rest if group is None else (group, *rest)
    if granularity == "128x128":
        return (*index[:-2], index[-2] // 128, index[-1] // 128)
    return {
        "tensor": (0,),
        "expert": index[:1],
        "group": (group,),
        "1x128": (index[0], index[-1] // 128),
    }[granularity]


def row_major_number(index, shape):
    number = 0
    for i, size in zip(index, shape):
        number = number * size + i
    return number


def check_direction(launch, arguments, results, tensors, out):
    _, attributes, operands, (q_name, scales_name) = launch
    (_, dtype, shape, _), (_, element, _, order) = arguments[operands[0]], results[q_name]
    scales = results[scales_name][2]
    raw = tensors[operands[0]][2]
    size = 2 if dtype == "bf16" else 4
    ends = ends_of(tensors, shape[0]) if "offs" in operands else None
    x, slices, amax = {}, {}, {index: 0.0 for index in itertools.product(*map(range, scales))}
    for number, index in enumerate(itertools.product(*map(range, shape))):
        group = None if ends is None else bisect.bisect_right(ends, index[0])
        if group == G:
            continue
        bits = raw[number * size : (number + 1) * size].rjust(4, b"\0")
        (x[index],) = struct.unpack("<f", bits)
        if attributes["sanitize"]:
            x[index] = clean(x[index], dtype)
        slices[index] = at = slice_of(attributes["granularity"], attributes["axis"], index, group)
        if math.isnan(x[index]) or abs(x[index]) > amax[at]:
            amax[at] = math.nan if math.isnan(amax[at]) else abs(x[index])
    factors = {}
    for at, largest in amax.items():
        factor = fp32(ELEMENTS[element][-1] / (1e-12 if largest < 1e-12 else largest))
        if attributes["pow2"] and not math.isnan(factor) and factor > 0:
            factor = 2.0 ** (math.frexp(factor)[1] - 1)
        factors[at] = factor
        expected = math.inf if factor == 0 else fp32(1 / factor)
        number = row_major_number(at, scales)
        (found,) = struct.unpack("<f", out[scales_name][2][4 * number : 4 * number + 4])
        assert found == expected or (found != found and expected != expected), f"{scales_name}{at}: {found}, not {expected}"
    memory_shape = [shape[d] for d in order]
    for index in itertools.product(*map(range, shape)):
        found = out[q_name][2][row_major_number([index[d] for d in order], memory_shape)]
        expected = 0
        if index in x:
            product = x[index] * factors[slices[index]] if not math.isnan(x[index]) else math.nan
            expected = cast(element, fp32(product) if not math.isnan(product) else product)
        assert found == expected or (expected is None and found & 0x7F == 0x7F), f"{q_name}{index}: {found}, not {expected}"


def check_quantized(name, tensors, out):
    entry = FUNCTIONS[name]
    arguments = {t[0]: t for t in entry["arguments"]}
    for launch in entry["launches"]:
        check_direction(launch, arguments, {t[0]: t for t in entry["results"]}, tensors, out)


def check_packed(name, tensors, out):
    packed, scales, columns = out["packed"][2], tensors["mx_scales"][2], 5
    expected = bytearray(len(packed))
    start = tile = 0
    for end in ends_of(tensors, M) if "groups" in name else [M]:
        for row in range(start, end):
            r = row - start
            for c in range(columns):
                at = ((tile + r // 128) * 2 + c // 4) * 512
                expected[at + r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = scales[row * columns + c]
        tile += ceildiv(end - start, 128)
        start = end
    assert packed == bytes(expected), "packed"


def check_padded(name, tensors, out):
    x, row_bytes = tensors["x"][2], 2 * K
    expected, back, starts, start = bytearray(PADDED_ROWS * row_bytes), bytearray(PADDED_ROWS * row_bytes), [0], 0
    for end in ends_of(tensors, M):
        expected[starts[-1] * row_bytes : (starts[-1] + end - start) * row_bytes] = x[start * row_bytes : end * row_bytes]
        starts.append(starts[-1] + ceildiv(end - start, ALIGN) * ALIGN)
        start = end
    back[: start * row_bytes] = x[: start * row_bytes]
    if name == "there_and_back":
        assert out["back"][2] == bytes(back), "back"
    else:
        assert out["padded"][2] == bytes(expected), "padded"
        assert struct.unpack(f"<{G}i", out["padded_offs"][2]) == tuple(starts[1:]), "padded_offs"


# ---- Runs ----


def names(prefix):
    found = [name for name in FUNCTIONS if name.startswith(prefix)]
    assert found, prefix
    return found


def run(bundle_path, name, path, out, *options):
    command = ["moe-run", bundle_path, "--function", name, "--device", "reference", "--out", out, *options]
    for argument in FUNCTIONS[name]["arguments"]:
        command += ["--in", f"{argument[0]}={path}"]
    subprocess.run(command, check=True)
    return safetensors.read(out)[0]


def check(bundle_path, path, out, prefix):
    checks = {"quantize": check_quantized, "pack": check_packed, "pad": check_padded, "there": check_padded}
    tensors, _ = safetensors.read(path)
    for name in names(prefix):
        print(name, flush=True)
        checks[prefix.split("_")[0]](name, tensors, run(bundle_path, name, path, out))


def same(bundle_path, path, out, prefix, other):
    for name in names(prefix):
        print(name, flush=True)
        found = run(bundle_path, name, path, out, "--threads", "3")
        assert found == run(bundle_path, name.replace(prefix, other), path, out)


def random_data(bundle_path, prefix, *options):
    options = list(options)
    groups = options.index("--groups") if "--groups" in options else len(options)
    for name in names(prefix):
        has_groups = any(argument[0] == "offs" for argument in FUNCTIONS[name]["arguments"])
        chosen = options if has_groups else options[:groups] + options[groups + 2:]
        command = ["moe-run", bundle_path, "--function", name, "--device", "reference", "--check", "--threads", "3", *chosen]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    {"bundle": bundle, "data": data, "check": check, "same": same, "random": random_data}[sys.argv[1]](*sys.argv[2:])
