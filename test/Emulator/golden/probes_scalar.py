"""probes_scalar.py - probes of instructions that act on registers, and of mbarrier.

Why it exists: conversions, shuffles and bit operations have corners (NaN, ties, lengths past 32, lanes
out of range) that a document describes in words and hardware answers in bits.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

SPECIALS = [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000,
            0xFFC00001, 0x7F800001, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x40490FDB, 0xC2C80001, 0x4B000001]


def kernel(name, body):
    return f"""
.visible .entry {name}(
    .param .u64 y
)
.reqntid 128, 1, 1
{{
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %thread, %lane, %a, %b, %c, %o, %q, %r<8>;
    .reg .f32 %f<4>;
    .reg .b64 %to, %d<4>;
    ld.param.u64 %to, [y];
    cvta.to.global.u64 %to, %to;
    mov.u32 %thread, %tid.x;
    and.b32 %lane, %thread, 31;
    mul.wide.u32 %d0, %thread, 4;
    add.u64 %to, %to, %d0;
{body}    ret;
}}
"""


def probe(name, kind, body, words, shared=0):
    return {"name": name, "kind": kind, "attributes": {}, "threads": 128, "shared": shared,
            "y_words": words, "parameters": [{"kind": "pointer", "tensor": "y"}],
            "ptx": kernel(name, body)}


def hashed(to, multiplier):
    return f"    mad.lo.u32 %{to}, %thread, {multiplier}, 0x12345;\n    mul.lo.u32 %{to}, %{to}, {multiplier};\n"


def each(name, inputs, lines):
    """y[128 i + thread] = %o after lines[i]; %a, %b and %c are the inputs."""
    body = inputs
    for i, line in enumerate(lines):
        body += "".join(f"    {part};\n" for part in line.split("; "))
        body += f"    st.global.u32 [%to+{512 * i}], %o;\n"
    return probe(name, "plain", body, 128 * len(lines))


def sweep(name, kind, count, shift, lines):
    """For v = 128 i + thread, i < count, with %a = v << shift: %o after lines[j] goes to
    y[len(lines) * 128 i + 128 j + thread]."""
    body = f"""\
    mov.u32 %c, 0;
next:
    mad.lo.u32 %a, %c, 128, %thread;
    shl.b32 %a, %a, {shift};
"""
    for i, line in enumerate(lines):
        body += "".join(f"    {part};\n" for part in line.split("; "))
        body += f"    st.global.u32 [%to+{512 * i}], %o;\n"
    body += (f"    add.u64 %to, %to, {512 * len(lines)};\n    add.u32 %c, %c, 1;\n"
             f"    setp.lt.u32 %p3, %c, {count};\n    @%p3 bra next;\n")
    return probe(name, kind, body, 128 * count * len(lines))


def two_tails(low, high, instruction):
    """%o or %h0 = instruction(%a | high, %a | low)."""
    return (f"or.b32 %r0, %a, {low}; mov.b32 %f0, %r0; or.b32 %r1, %a, {high}; mov.b32 %f1, %r1; "
            f"{instruction}, %f1, %f0")


def conversions():
    narrow = [two_tails(0, 1, f"cvt.rn.satfinite.{t}x2.f32 %h0") + "; cvt.u32.u16 %o, %h0"
              for t in ("e4m3", "e5m2")]
    widen = []
    for dtype in ("e4m3", "e5m2"):
        widen.append(f"shl.b32 %r0, %thread, 1; mad.lo.u32 %r0, %r0, 257, 256; cvt.u16.u32 %h0, %r0; "
                     f"cvt.rn.f16x2.{dtype}x2 %o, %h0")
    to_int = [f"mov.b32 %f0, %a; cvt.{r}.{t}.f32 %o, %f0"
              for r, t in (("rni", "s32"), ("rzi", "s32"), ("rmi", "s32"), ("rpi", "s32"),
                           ("rzi", "u32"), ("rni", "u32"))]
    rounded = [f"mov.b32 %f0, %a; cvt.{r}.f32.f32 %f1, %f0; mov.b32 %o, %f1"
               for r in ("rni", "rzi", "rmi", "rpi")]
    from_int = [f"cvt.{r}.f32.{t} %f0, %a; mov.b32 %o, %f0"
                for r, t in (("rn", "s32"), ("rn", "u32"), ("rz", "u32"))]
    half = ["shr.u32 %r0, %a, 16; cvt.u16.u32 %h0, %r0; cvt.f32.f16 %f0, %h0; mov.b32 %o, %f0"]
    return [
        sweep("cvt_e4m3x2_f32", "cvt_e4m3", 256, 17, narrow[:1]),
        sweep("cvt_e5m2x2_f32", "cvt_e5m2", 256, 17, narrow[1:]),
        each("cvt_f16x2_fp8x2", "", widen),
        sweep("cvt_bf16x2_f32", "cvt_bf16", 256, 17,
              [two_tails("0x8000", "0x8001", "cvt.rn.bf16x2.f32 %o"),
               two_tails("0x7FFF", "0x18000", "cvt.rn.bf16x2.f32 %o")]),
        sweep("cvt_f16x2_f32", "plain", 256, 17,
              [two_tails("0x1000", "0x1001", "cvt.rn.f16x2.f32 %o"),
               two_tails("0x0FFF", "0x3000", "cvt.rn.f16x2.f32 %o")]),
        sweep("cvt_f32_f16", "cvt_f32_f16", 512, 16, half),
        sweep("cvt_int_f32", "plain", 32, 20, to_int),
        sweep("cvt_integral_f32", "plain", 32, 20, rounded),
        sweep("cvt_f32_int", "plain", 32, 20, from_int),
    ]


def special(to, index):
    return "".join(f"    setp.eq.u32 %p0, %{index}, {i};\n    @%p0 mov.u32 %{to}, 0x{bits:08x};\n"
                   for i, bits in enumerate(SPECIALS))


def floats():
    inputs = "    and.b32 %r0, %thread, 15;\n    shr.u32 %r1, %thread, 4;\n"
    inputs += special("a", "r0") + special("b", "r1")
    low = inputs + "    mov.b32 %f0, %a;\n    mov.b32 %f1, %b;\n"
    high = inputs.replace("%thread, 4;", "%thread, 4;\n    add.u32 %r1, %r1, 8;") + \
        "    mov.b32 %f0, %a;\n    mov.b32 %f1, %b;\n"
    lines = [f"{op}.f32 %f2, %f0, %f1; mov.b32 %o, %f2"
             for op in ("add.rn", "sub.rn", "mul.rn", "div.rn", "max", "min", "max.NaN", "min.NaN",
                        "add.rz", "mul.rz", "max.ftz", "mul.rn.ftz")]
    lines.append("fma.rn.f32 %f2, %f0, %f1, %f1; mov.b32 %o, %f2")
    lines += [f"{op}.f32 %f2, %f0; mov.b32 %o, %f2" for op in ("abs", "neg", "rcp.rn", "sqrt.rn")]
    lines += [f"setp.{op}.f32 %p1, %f0, %f1; selp.u32 %o, 1, 0, %p1"
              for op in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                         "num", "nan")]
    return [each("float_low", low, lines), each("float_high", high, lines)]


def integers():
    inputs = hashed("a", "0x9E3779B1") + hashed("b", "0x85EBCA6B") + "    shl.b32 %c, %thread, 1;\n"
    three = [f"lop3.b32 %o, %a, %b, %c, 0x{lut:02x}" for lut in (0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B)]
    three += [f"prmt.b32{mode} %o, %a, %b, %{sel}" for mode, sel in
              (("", "b"), ("", "a"), (".f4e", "c"), (".b4e", "c"), (".rc8", "c"), (".ecl", "c"),
               (".ecr", "c"), (".rc16", "c"))]
    three += [
        "and.b32 %q, %b, 63; bfe.u32 %o, %a, %lane, %q",
        "and.b32 %q, %b, 63; bfe.s32 %o, %a, %lane, %q", "bfe.u32 %o, %a, %c, %lane",
        "bfe.s32 %o, %a, %c, %lane", "and.b32 %q, %b, 63; bfi.b32 %o, %a, %b, %lane, %q",
        "shf.l.wrap.b32 %o, %a, %b, %c", "shf.l.clamp.b32 %o, %a, %b, %c",
        "shf.r.wrap.b32 %o, %a, %b, %c", "shf.r.clamp.b32 %o, %a, %b, %c",
        "shl.b32 %o, %a, %thread", "shr.u32 %o, %a, %thread", "shr.s32 %o, %a, %thread",
        "mad.lo.u32 %o, %a, %b, %c", "mad.hi.u32 %o, %a, %b, %c", "mad.hi.s32 %o, %a, %b, %c",
        "mul.hi.u32 %o, %a, %b", "mul.hi.s32 %o, %a, %b",
        "mul.wide.u32 %d1, %a, %b; shr.u64 %d1, %d1, 21; cvt.u32.u64 %o, %d1",
        "mul.wide.s32 %d1, %a, %b; shr.s64 %d1, %d1, 21; cvt.u32.u64 %o, %d1", "popc.b32 %o, %a",
        "clz.b32 %o, %lane", "bfind.u32 %o, %lane", "bfind.s32 %o, %a", "brev.b32 %o, %a",
        "min.s32 %o, %a, %b", "max.s32 %o, %a, %b", "min.u32 %o, %a, %b", "max.u32 %o, %a, %b",
        "abs.s32 %o, %a", "div.u32 %o, %a, 7", "rem.u32 %o, %a, 7", "div.s32 %o, %a, -7",
        "rem.s32 %o, %a, -7", "cvt.s32.s8 %o, %a", "cvt.u16.u32 %h0, %a; cvt.u32.u16 %o, %h0",
        "cvt.u16.u32 %h0, %b; cvt.s32.s16 %o, %h0", "cvt.sat.s8.s32 %o, %a",
        "cvt.sat.u8.s32 %o, %a", "slct.u32.s32 %o, %a, %b, %a",
    ]
    return [each("integer", inputs, three)]


def warps():
    inputs = hashed("a", "0x9E3779B1") + "    mul.lo.u32 %b, %lane, 7;\n    and.b32 %b, %b, 63;\n"
    lines = []
    for mode, operand, clamp in (
            ("idx", "3", "31"), ("idx", "%b", "31"), ("idx", "%b", "0x1807"), ("idx", "%b", "0x100f"),
            ("up", "1", "0"), ("up", "5", "0x1800"), ("up", "%b", "0"), ("down", "1", "31"),
            ("down", "3", "0x1807"), ("down", "%b", "31"), ("bfly", "1", "31"), ("bfly", "16", "31"),
            ("bfly", "5", "0x1807"), ("bfly", "%b", "31")):
        shuffle = f"shfl.sync.{mode}.b32 %q|%p0, %a, {operand}, {clamp}, -1"
        lines += [f"{shuffle}; mov.u32 %o, %q", f"{shuffle}; selp.u32 %o, 1, 0, %p0"]
    lines += [f"redux.sync.{op} %o, %a, -1"
              for op in ("add.s32", "add.u32", "min.s32", "min.u32", "max.s32", "max.u32", "and.b32",
                         "or.b32", "xor.b32")]
    lines.append("setp.gt.s32 %p0, %a, 0; vote.sync.ballot.b32 %o, %p0, -1")
    for mode in ("all", "any", "uni"):
        for limit in ("0x7fffffff", "0", "0x80000000"):
            lines.append(f"setp.gt.s32 %p0, %a, {limit}; vote.sync.{mode}.pred %p1, %p0, -1; "
                         "selp.u32 %o, 1, 0, %p1")
    lines += ["elect.sync %q|%p0, -1; selp.u32 %o, 1, 0, %p0",
              "elect.sync %q|%p0, -1; mov.u32 %o, %q", "activemask.b32 %o",
              "and.b32 %q, %a, 7; match.any.sync.b32 %o, %q, -1"]
    return [each("warp", inputs, lines)]


def mbarrier():
    """One thread drives a barrier by hand; each test of a phase is one word. A test of a parity asks
    whether that phase is over; the phase before the first counts as over."""
    steps = []

    def do(text):
        steps.append(f"    {text};\n")

    def tell():
        steps.append("    st.global.u32 [%to], %o;\n    add.u64 %to, %to, 4;\n")

    def parity():
        for value in (0, 1):
            do(f"mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r0], {value}")
            do("selp.u32 %o, 1, 0, %p0")
            tell()

    def pending(token):
        do(f"mbarrier.pending_count.b64 %o, {token}")
        tell()

    do("setp.ne.u32 %p1, %thread, 0")
    do("@%p1 ret")
    do("mov.u32 %r0, shared")
    do("mbarrier.init.shared::cta.b64 [%r0], 3")
    parity()
    for _ in range(4):  # phase 0 completes with the third arrival; the fourth is in phase 1
        do("mbarrier.arrive.shared::cta.b64 %d1, [%r0]")
        pending("%d1")
        parity()
    do("mbarrier.test_wait.shared::cta.b64 %p0, [%r0], %d1")
    do("selp.u32 %o, 1, 0, %p0")
    tell()
    do("mbarrier.arrive.shared::cta.b64 %d2, [%r0], 2")  # completes phase 1
    pending("%d2")
    parity()
    do("mbarrier.test_wait.shared::cta.b64 %p0, [%r0], %d1")
    do("selp.u32 %o, 1, 0, %p0")
    tell()
    do("mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%r0], 64")
    pending("%d1")
    do("mbarrier.arrive.shared::cta.b64 %d1, [%r0], 2")  # all arrived, bytes pending
    parity()
    do("mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%r0], 40")
    parity()
    do("mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%r0], 24")  # completes phase 2
    parity()
    do("mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%r0], 16")  # bytes before they are expected
    do("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 16")
    parity()
    do("mbarrier.arrive_drop.shared::cta.b64 %d1, [%r0]")
    pending("%d1")
    do("mbarrier.arrive.shared::cta.b64 %d1, [%r0], 2")  # completes phase 3
    parity()
    do("mbarrier.arrive.shared::cta.b64 %d1, [%r0], 2")  # two arrivals are a phase from here on
    pending("%d1")
    parity()
    do("mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%r0], 1")
    pending("%d1")
    parity()
    text = "".join(steps)
    return [probe("mbarrier_phases", "plain", text, text.count("st.global"), 8)]


def probes():
    return conversions() + floats() + integers() + warps() + mbarrier()
