"""probes_wgmma.py - probes of the matrix product: operand layouts, fragments, precision.

Why it exists: to see an operand's layout, its memory is filled with a code of the position, and the
other operand selects: with S[k][j] = 1 where k = j mod K, the product repeats the operand, and every
element of D shows which bytes of shared memory the hardware took for it.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

SELECTOR = 32768  # where the selecting operand lies, K-major, 128-byte swizzle; the coded one is at 0
SHARED = 65536
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
MODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
ONES = {"e4m3": 0x38, "e5m2": 0x3C, "bf16": 0x3F80, "f16": 0x3C00}
WIDE = ("bf16", "f16")


def word_of_ones(dtype):
    return ONES[dtype] * (0x10001 if dtype in WIDE else 0x01010101)


def descriptor(leading, stride, swizzle):
    """All of a descriptor but its start address."""
    return leading // 16 << 16 | stride // 16 << 32 | MODES[swizzle] << 62


def code_words(bits, word, to):
    """PTX that puts the code of word number %`word` into %`to`. Codes.h has the same codes."""
    if bits == 16:
        return f"    mad.lo.u32 %{to}, %{word}, 0x20002, 0x20012000;\n"
    lines = f"    mov.u32 %{to}, 0;\n    shl.b32 %b0, %{word}, 2;\n"
    for part in range(4):
        lines += f"""\
    add.u32 %b1, %b0, {part};
    shr.u32 %b2, %b1, 6;
    shr.u32 %b3, %b1, 11;
    mul.lo.u32 %b1, %b1, 29;
    mad.lo.u32 %b1, %b2, 11, %b1;
    mad.lo.u32 %b1, %b3, 3, %b1;
    and.b32 %b1, %b1, 63;
    add.u32 %b1, %b1, 8;
    shl.b32 %b1, %b1, {8 * part};
    or.b32 %{to}, %{to}, %b1;
"""
    return lines


def fill(first, end, value):
    """PTX that sets the shared words [first, end), a multiple of 128, to what `value` makes of %r1."""
    label = f"fill_{first}"
    return f"""\
    add.u32 %r1, %thread, {first};
{label}:
{value}    shl.b32 %r3, %r1, 2;
    add.u32 %r3, %r3, %base;
    st.shared.u32 [%r3], %r2;
    add.u32 %r1, %r1, 128;
    setp.lt.u32 %p0, %r1, {end};
    @%p0 bra {label};
"""


def select(dtype, rows):
    """PTX that writes ones to element (row, row mod K) of the selector, for all rows."""
    size = 2 if dtype in WIDE else 1
    store = "st.shared.u16 [%r3], %one" if size == 2 else "st.shared.u8 [%r3], %one"
    return f"""\
    bar.sync 0;
    mov.u16 %one, {ONES[dtype]};
    mov.u32 %r1, %thread;
select:
    and.b32 %r2, %r1, {32 // size - 1};
    mul.lo.u32 %r2, %r2, {size};
    and.b32 %r3, %r1, 7;
    shl.b32 %r3, %r3, 4;
    xor.b32 %r2, %r2, %r3;
    mad.lo.u32 %r3, %r1, 128, %r2;
    add.u32 %r3, %r3, %base;
    add.u32 %r3, %r3, {SELECTOR};
    setp.lt.u32 %p0, %r1, {rows};
    @%p0 {store};
    add.u32 %r1, %r1, 128;
    @%p0 bra select;
"""


def kernel(name, n, body):
    registers = n // 2
    return f"""
.visible .entry {name}(
    .param .u64 y
)
.reqntid 128, 1, 1
{{
    .reg .pred %p<2>;
    .reg .b16 %one;
    .reg .b32 %thread, %base, %r<6>, %b<4>, %a<4>;
    .reg .b64 %d<3>;
    .reg .f32 %f<{registers}>;
    mov.u32 %thread, %tid.x;
    mov.u32 %base, shared;
{body}    ld.param.u64 %d0, [y];
    cvta.to.global.u64 %d0, %d0;
    mul.wide.u32 %d1, %thread, {registers * 4};
    add.u64 %d0, %d0, %d1;
{"".join(f"    st.global.f32 [%d0+{4 * i}], %f{i};{chr(10)}" for i in range(registers))}    ret;
}}
"""


def load_descriptor(to, offset, rest):
    return f"""\
    add.u32 %r1, %base, {offset};
    shr.u32 %r1, %r1, 4;
    cvt.u64.u32 %d{to}, %r1;
    or.b64 %d{to}, %d{to}, 0x{rest:x};
"""


def multiply(types, n, a, transposes, accumulate=False, scales=(1, 1)):
    """The fences, one instruction and the wait; %f holds D."""
    registers = ", ".join(f"%f{i}" for i in range(n // 2))
    k = 16 if types[0] in WIDE else 32
    immediates = list(scales) + (transposes if types[0] in WIDE else [])
    if a != "%d1" and types[0] in WIDE:  # A in registers has no transpose
        immediates.remove(transposes[0])
    return f"""\
    fence.proxy.async;
    bar.sync 0;
    setp.{"eq" if accumulate else "ne"}.u32 %p1, 0, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{types[0]}.{types[1]}
        {{{registers}}},
        {a}, %d2, %p1, {", ".join(str(i) for i in immediates)};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
"""


def zeros(n):
    return "".join(f"    mov.f32 %f{i}, 0f00000000;\n" for i in range(n // 2))


def probe(name, n, body, kind, attributes):
    return {"name": name, "kind": kind, "attributes": attributes, "threads": 128, "shared": SHARED,
            "y_words": 64 * n, "parameters": [{"kind": "pointer", "tensor": "y"}],
            "ptx": kernel(name, n, body)}


def layout(dtype, operand, major, n, swizzle, advance=0, base_offset=0):
    """Operand A or B in one layout, its first byte `advance` bytes into the coded memory.

    With a base offset the probe is informative: the emulator refuses those.
    """
    bits = 16 if dtype in WIDE else 8
    span = SPANS[swizzle]
    rows = n if operand == "b" else 64
    if major == "k":
        # Without a swizzle each half of K is one block; with one the leading offset is not used.
        leading, stride = (rows * 16 + 128, 128) if swizzle == "none" else (16, span * 8)
    else:
        leading, stride = (rows * 16 + 128, 128) if swizzle == "none" else (span * 16, span * 8)
    coded = descriptor(leading, stride, swizzle) | base_offset << 49
    selector = descriptor(16, 1024, "128B")
    transposed = int(major == "mn")
    body = fill(0, SELECTOR // 4, code_words(bits, "r1", "r2"))
    body += fill(SELECTOR // 4, SHARED // 4, "    mov.u32 %r2, 0;\n")
    body += select(dtype, 64 if operand == "b" else n) + zeros(n)
    if operand == "b":
        body += load_descriptor(1, SELECTOR, selector) + load_descriptor(2, advance, coded)
    else:
        body += load_descriptor(1, advance, coded) + load_descriptor(2, SELECTOR, selector)
    transposes = [transposed, 0] if operand == "a" else [0, transposed]
    body += multiply((dtype, dtype), n, "%d1", transposes)
    name = f"wgmma_{operand}_{major}_{dtype}_n{n}_{swizzle}" + (f"_at{advance}" if advance else "")
    name += f"_base{base_offset}" if base_offset else ""
    return probe(name, n, body, "informative" if base_offset else "wgmma_layout",
                 {"type": dtype, "operand": operand, "mn_major": major == "mn", "n": n,
                  "start": advance, "leading": leading, "stride": stride, "swizzle": swizzle})


def register_a(dtype):
    """A in registers, coded by thread and register, selected by B."""
    bits = 16 if dtype in WIDE else 8
    n = 32
    body = fill(SELECTOR // 4, SHARED // 4, "    mov.u32 %r2, 0;\n") + select(dtype, n) + zeros(n)
    for i in range(4):
        body += f"    mad.lo.u32 %r1, %thread, 4, {i};\n" + code_words(bits, "r1", f"a{i}")
    body += load_descriptor(2, SELECTOR, descriptor(16, 1024, "128B"))
    body += multiply((dtype, dtype), n, "{%a0, %a1, %a2, %a3}", [0, 0])
    return probe(f"wgmma_register_a_{dtype}", n, body, "wgmma_register_a", {"type": dtype, "n": n})


def scaled(dtype, scales):
    """D = D + scales * A * B with D = the register's number, B all ones: each element changes by 1."""
    n = 8
    body = fill(0, SELECTOR // 4, f"    mov.u32 %r2, 0x{word_of_ones(dtype):x};\n")
    body += fill(SELECTOR // 4, SHARED // 4, "    mov.u32 %r2, 0;\n") + select(dtype, 64)
    body += "".join(f"    mov.b32 %f{i}, 0x{bits:x};\n"
                    for i, bits in enumerate((0, 0x3F800000, 0x40000000, 0x40400000)))
    body += load_descriptor(1, SELECTOR, descriptor(16, 1024, "128B"))
    body += load_descriptor(2, 0, descriptor(16, 1024, "128B"))
    body += multiply((dtype, dtype), n, "%d1", [0, 0], True, scales)
    sign = "".join("p" if s > 0 else "m" for s in scales)
    return probe(f"wgmma_scaled_{dtype}_{sign}", n, body, "wgmma_scaled",
                 {"type": dtype, "n": n, "scales": list(scales)})


# Of a floating-point type: exponent bias, mantissa bits.
FORMATS = {"e4m3": (7, 3), "bf16": (127, 7)}


def kind_of_sums(dtype):
    """Of 8-bit types the emulator does not model lost bits."""
    return "wgmma_sums" if dtype in WIDE else "informative"


def precision(name, dtype, start, first, second, negative, steps):
    """What the tensor core keeps of D[r][j] = start + first +- 2^(second - r mod steps - j).

    The terms are D's first value, A[r][0] and A[r][1] * B[1][j]. `start` is bits, `first` and `second`
    are powers of two, `first` may be None. In column 7 of e4m3 there is no second term.
    """
    bias, mantissa = FORMATS[dtype]
    size = 2 if dtype in WIDE else 1
    assert second - steps + 1 + bias > 0
    store = "st.shared.u16" if size == 2 else "st.shared.u8"
    sign = 0x80 << 8 * (size - 1) if negative else 0
    n = 8
    body = fill(0, SELECTOR // 4, "    mov.u32 %r2, 0;\n")
    body += fill(SELECTOR // 4, SHARED // 4,
                 f"    mov.u32 %r2, 0x{word_of_ones(dtype):x};\n")
    body += f"""\
    bar.sync 0;
    and.b32 %r1, %thread, 7;
    shl.b32 %r2, %r1, {mantissa};
    sub.u32 %r2, {ONES[dtype]}, %r2;
    cvt.u16.u32 %one, %r2;
    shl.b32 %r1, %r1, 4;
    mad.lo.u32 %r1, %thread, 128, %r1;
    add.u32 %r1, %r1, %base;
    setp.lt.u32 %p0, %thread, 8;
    @%p0 {store} [%r1+{SELECTOR + size}], %one;
    setp.lt.u32 %p0, %thread, 64;
    mov.u16 %one, {0 if first is None else first + bias << mantissa};
    @%p0 {store} [%r1], %one;
    rem.u32 %r2, %thread, {steps};
    shl.b32 %r2, %r2, {mantissa};
    sub.u32 %r2, {sign | second + bias << mantissa}, %r2;
    cvt.u16.u32 %one, %r2;
    @%p0 {store} [%r1+{size}], %one;
"""
    body += "".join(f"    mov.b32 %f{i}, 0x{start:08x};\n" for i in range(n // 2))
    body += load_descriptor(1, 0, descriptor(16, 1024, "128B"))
    body += load_descriptor(2, SELECTOR, descriptor(16, 1024, "128B"))
    body += multiply((dtype, dtype), n, "%d1", [0, 0], True)
    return probe(f"wgmma_precision_{dtype}_{name}", n, body, kind_of_sums(dtype), {})


# Bits that random elements keep, and bits that they all have: exponents of 2^-7 to 1, of e4m3 all up to 1, so subnormal ones too.
SPREADS = {"bf16": (0x83FF, 0x3C00), "f16": (0x9FFF, 0x2000), "e4m3": (0xBF, 0), "e5m2": (0x9F, 0x20), "f32": (0x83FFFFFF, 0x3C000000)}


def random_word(source, to, dtype, spread):
    """PTX that makes a random word of %`source`; without `spread` of any bits, Inf and NaN among them."""
    keep, have = 0xFFFFFFFF, 0
    if spread:
        times = 1 if dtype == "f32" else 0x10001 if dtype in WIDE else 0x1010101
        keep, have = (bits * times for bits in SPREADS[dtype])
    return f"""\
    mul.lo.u32 %{to}, %{source}, 0x9E3779B1;
    shr.u32 %b0, %{to}, 15;
    xor.b32 %{to}, %{to}, %b0;
    mul.lo.u32 %{to}, %{to}, 0x85EBCA77;
    shr.u32 %b0, %{to}, 13;
    xor.b32 %{to}, %{to}, %b0;
    and.b32 %{to}, %{to}, 0x{keep:x};
    or.b32 %{to}, %{to}, 0x{have:x};
"""


def random_sums(types, from_registers, spread):
    """D + A * B of random numbers: what is cut, in sums of all K products and D."""
    n = 32
    body = fill(0, SELECTOR // 4, random_word("r1", "r2", types[0], spread))
    body += fill(SELECTOR // 4, SHARED // 4, random_word("r1", "r2", types[1], spread))
    for i in range(4):
        body += f"    mad.lo.u32 %r1, %thread, 4, {0x20000 + i};\n" + random_word("r1", f"a{i}", types[0], spread)
    for i in range(n // 2):
        body += f"    mad.lo.u32 %r1, %thread, {n // 2}, {0x10000 + i};\n" + random_word("r1", "r2", "f32", spread)
        body += f"    mov.b32 %f{i}, %r2;\n"
    body += load_descriptor(1, 0, descriptor(16, 1024, "128B")) + load_descriptor(2, SELECTOR, descriptor(16, 1024, "128B"))
    body += multiply(types, n, "{%a0, %a1, %a2, %a3}" if from_registers else "%d1", [0, 0], True)
    name = "_".join(["wgmma_sums", *dict.fromkeys(types), "a" if from_registers else "s", "spread" if spread else "any"])
    return probe(name, n, body, kind_of_sums(types[0]), {})


def constant_sums(name, a, b):
    """D + A * B of bf16 with one magnitude each; A of either sign, by row, and D zeros of either sign, by column."""
    n = 8
    body = fill(0, SHARED // 4, f"    mov.u32 %r2, 0x{b * 0x10001:x};\n")
    body += "".join(f"    mov.u32 %a{i}, 0x{(a | i % 2 << 15) * 0x10001:x};\n" for i in range(4))
    body += "".join(f"    mov.b32 %f{i}, 0x{i % 2 << 31:x};\n" for i in range(n // 2))
    body += load_descriptor(2, SELECTOR, descriptor(16, 1024, "128B"))
    body += multiply(("bf16", "bf16"), n, "{%a0, %a1, %a2, %a3}", [0, 0], True)
    return probe(f"wgmma_sums_bf16_{name}", n, body, "wgmma_sums", {})


def probes():
    result = []
    for dtype in ("e4m3", "e5m2", "bf16", "f16"):
        for n in (8, 64, 128, 256):
            for swizzle in SPANS:
                result.append(layout(dtype, "b", "k", n, swizzle))
        for swizzle in SPANS:
            result.append(layout(dtype, "a", "k", 32, swizzle))
        result.append(layout(dtype, "b", "k", 64, "64B", 32))
        result.append(layout(dtype, "b", "k", 64, "128B", 96))
        result.append(layout(dtype, "a", "k", 32, "128B", 32))
        result.append(register_a(dtype))
        for scales in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
            result.append(scaled(dtype, scales))
    for dtype in WIDE:
        for swizzle in SPANS:
            result.append(layout(dtype, "a", "mn", 16, swizzle))
            for n in (8, 64, 128, 256):
                result.append(layout(dtype, "b", "mn", n, swizzle))
    # Operands that start in the middle of the swizzle's period.
    for swizzle, advance in (("128B", 384), ("64B", 128), ("32B", 128)):
        result.append(layout("bf16", "b", "k", 64, swizzle, advance))
    for dtype, top, steps in (("e4m3", 8, 15), ("bf16", 20, 40)):
        for name, start, first, second, negative in (
                ("sum", 0, top, top, False), ("difference", 0, top, top, True),
                ("accumulator_1", 0x3F800000, None, 0, False),
                ("accumulator_all_ones", 0x3FFFFFFF, None, 0, False),
                ("accumulator_negative", 0xBFFFFFFF, None, 0, False),
                ("accumulator_2e24", 0x4B800000, None, top, False)):
            least = steps if second == top else 7
            result.append(precision(name, dtype, start, first, second, negative, least))
    for types in (("bf16", "bf16"), ("f16", "f16"), ("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2")):
        for from_registers in (True, False):
            for spread in (True, False):
                result.append(random_sums(types, from_registers, spread))
    # Zeros of both signs; sums below the least subnormal number; the least one itself.
    for name, a, b in (("zero", 0, 0x3F80), ("below", 127 - 100 << 7, 127 - 60 << 7), ("least", 127 - 100 << 7, 127 - 53 << 7)):
        result.append(constant_sums(name, a, b))
    # Last, so that a device that faults here has answered everything else.
    for swizzle, advance in (("128B", 384), ("64B", 128), ("32B", 128)):
        result.append(layout("bf16", "b", "k", 64, swizzle, advance, advance // 128))
    return result
