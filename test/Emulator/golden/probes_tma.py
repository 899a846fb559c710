"""probes_tma.py - probes of tile copies: swizzles, boxes at and past the tensor's edges, fills, short rows.

Why it exists: which byte of global memory lands where in shared memory, and back, for every kind of
tensor map the project uses. Global memory and shared memory hold codes of their positions, so that the
output tells where each byte came from.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

SIZES = {"u8": 1, "bf16": 2, "f32": 4}
SPANS = {"none": 64, "32B": 32, "64B": 64, "128B": 128}
DUMP = 8192      # bytes of shared memory that a load probe dumps
BARRIER = 16384  # where the mbarrier lies
X_WORDS = 16384


def tensor_map(name, element, dims, strides, box, swizzle, fill):
    return {"kind": "tensor_map", "tensor": name, "element": element, "dims": dims,
            "strides": strides, "box": box, "swizzle": swizzle, "l2_promotion": "none", "fill": fill}


def begin(name, parameters):
    names = ",\n    ".join(parameters)
    return f"""
.visible .entry {name}(
    {names}
)
.reqntid 128, 1, 1
{{
    .reg .pred %p<3>;
    .reg .b32 %thread, %base, %r<6>, %c<5>;
    .reg .b64 %d<4>;
    mov.u32 %thread, %tid.x;
    mov.u32 %base, shared;
"""


def fill_shared(value):
    return f"""\
    mov.u32 %r0, %thread;
fill:
{value}    shl.b32 %r2, %r0, 2;
    add.u32 %r2, %r2, %base;
    st.shared.u32 [%r2], %r1;
    add.u32 %r0, %r0, 128;
    setp.lt.u32 %p0, %r0, {DUMP // 4};
    @%p0 bra fill;
    fence.proxy.async;
    bar.sync 0;
"""


def coordinates(values):
    moves = "".join(f"    mov.s32 %c{i}, {v};\n" for i, v in enumerate(values))
    return moves, ", ".join(f"%c{i}" for i in range(len(values)))


def load(name, element, dims, strides, box, at, swizzle="none", fill="zero", shared=0):
    """Loads one box at shared + `shared`, dumps DUMP bytes, then 1 if the barrier completed."""
    moves, list_ = coordinates(at)
    tx = SIZES[element]
    for size in box:
        tx *= size
    ptx = begin(name, [".param .align 64 .b8 map[128]", ".param .u64 y"]) + fill_shared(
        "    mov.u32 %r1, 0xA5A5A5A5;\n") + moves + f"""\
    setp.ne.u32 %p1, %thread, 0;
    mov.u32 %r4, 0;
    @%p1 bra dump;
    mov.b64 %d0, map;
    cvta.param.u64 %d0, %d0;
    add.u32 %r0, %base, {BARRIER};
    add.u32 %r1, %base, {shared};
    mbarrier.init.shared::cta.b64 [%r0], 1;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], {tx};
    cp.async.bulk.tensor.{len(box)}d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%r1], [%d0, {{{list_}}}], [%r0];
    mov.u32 %r3, 0;
wait:
    mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r0], 0;
    selp.u32 %r4, 1, 0, %p0;
    @%p0 bra dump;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, 1000000;
    @%p2 bra wait;
dump:
    bar.sync 0;
    ld.param.u64 %d1, [y];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r0, %thread;
copy:
    shl.b32 %r2, %r0, 2;
    add.u32 %r3, %r2, %base;
    ld.shared.u32 %r1, [%r3];
    cvt.u64.u32 %d2, %r2;
    add.u64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r1;
    add.u32 %r0, %r0, 128;
    setp.lt.u32 %p0, %r0, {DUMP // 4};
    @%p0 bra copy;
    @!%p1 st.global.u32 [%d1+{DUMP}], %r4;
    ret;
}}
"""
    return {"name": name, "kind": "tma_load",
            "attributes": {"at": at, "shared": shared, "dump": DUMP}, "threads": 128,
            "shared": BARRIER + 8, "x_words": X_WORDS, "y_words": DUMP // 4 + 1, "ptx": ptx,
            "parameters": [tensor_map("x", element, dims, strides, box, swizzle, fill),
                           {"kind": "pointer", "tensor": "y"}]}


def store(name, element, dims, strides, box, at, swizzle="none", shared=0):
    """Stores one box from shared memory, which holds a code of its words, to y."""
    moves, list_ = coordinates(at)
    ptx = begin(name, [".param .align 64 .b8 map[128]"]) + fill_shared(
        "    mad.lo.u32 %r1, %r0, 0x20002, 0x20001;\n") + moves + f"""\
    setp.ne.u32 %p1, %thread, 0;
    @%p1 ret;
    mov.b64 %d0, map;
    cvta.param.u64 %d0, %d0;
    add.u32 %r1, %base, {shared};
    cp.async.bulk.tensor.{len(box)}d.global.shared::cta.bulk_group [%d0, {{{list_}}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}}
"""
    return {"name": name, "kind": "tma_store", "attributes": {"at": at, "shared": shared},
            "threads": 128, "shared": DUMP, "y_words": 2048, "ptx": ptx,
            "parameters": [tensor_map("y", element, dims, strides, box, swizzle, "zero")]}


def plane(prefix, make, element, at, swizzle="none", short=0, rows=30, **options):
    """A copy of a box of 16 rows, as wide as the swizzle's span, of a matrix of `rows` rows, 256 bytes apart.

    `at` is the byte within a row and the row; rows have all 256 bytes but the last `short` elements.
    """
    size = SIZES[element]
    return make(f"{prefix}_{element}_{swizzle}", element, [256 // size - short, rows], [256],
                [SPANS[swizzle] // size, 16], [at[0] // size, at[1]], swizzle, **options)


def edges():
    """Boxes inside of the tensor and across each of its edges, for every swizzle and size of element."""
    result = []
    for element in SIZES:
        for swizzle, span in SPANS.items():
            result += [
                plane("tma_load", load, element, [16, 3], swizzle, rows=64),
                # The last row and column of the tensor are inside the box; the box is past both ends.
                plane("tma_load_past", load, element, [256 - span // 2, 55], swizzle, 3, 64),
                plane("tma_load_before", load, element, [-16, -5], swizzle, rows=64),
                plane("tma_store", store, element, [32, 7], swizzle),
                plane("tma_store_past", store, element, [256 - span // 2, 20], swizzle, 3),
                plane("tma_store_before", store, element, [-16, -3], swizzle),
            ]
    # One coordinate at a time.
    for swizzle in SPANS:
        result += [
            plane("tma_store_before_column", store, "u8", [-16, 0], swizzle),
            plane("tma_store_before_row", store, "u8", [0, -3], swizzle),
            plane("tma_store_past_row", store, "u8", [0, 20], swizzle),
        ]
    return result


def tails():
    """Stores across the end of rows that end inside a chunk of 16 bytes, and where a chunk ends inside 32."""
    result = []
    for element, counts in (("u8", (1, 7, 8, 15, 16, 17)), ("bf16", (1, 7, 8, 9)), ("f32", (1, 3, 4, 5))):
        size = SIZES[element]
        for count in counts:
            row = 192 // size + count
            result.append(store(f"tma_store_tail_{element}_{count}", element, [row, 9], [256],
                                [64 // size, 8], [160 // size, 1]))
            result.append(load(f"tma_load_tail_{element}_{count}", element, [row, 9], [256],
                               [64 // size, 8], [160 // size, 1]))
        # The tensor's last byte, with no row behind it, and the memory behind the tensor.
        result.append(store(f"tma_store_tail_{element}_1d", element, [1024 // size + 1], [],
                            [128 // size], [960 // size]))
    for swizzle in ("32B", "64B", "128B"):
        result.append(store(f"tma_store_tail_u8_{swizzle}", "u8", [193, 9], [256], [SPANS[swizzle], 8],
                            [176, 1], swizzle))
    return result


def unaligned():
    """Boxes whose first byte is not one of a chunk of 16: the hardware refuses them."""
    result = []
    for element in SIZES:
        for column in (4, 24, -8):
            name = f"unaligned_{'before_' if column < 0 else ''}{abs(column)}"
            result.append(plane(f"tma_load_{name}", load, element, [column, 0]))
            result.append(plane(f"tma_store_{name}", store, element, [column, 0]))
    for column in (1, 15, -1):
        name = f"unaligned_{'before_' if column < 0 else ''}{abs(column)}"
        result.append(plane(f"tma_load_{name}", load, "u8", [column, 0]))
        result.append(plane(f"tma_store_{name}", store, "u8", [column, 0]))
    # Unaligned, and not one byte inside of the tensor.
    result.append(plane("tma_load_unaligned_outside", load, "u8", [1001, 0]))
    result.append(plane("tma_store_unaligned_outside", store, "u8", [1001, 0]))
    # Unaligned in shared memory.
    for shared in (16, 64):
        result.append(plane(f"tma_load_unaligned_at{shared}", load, "u8", [0, 0], shared=shared))
        result.append(plane(f"tma_store_unaligned_at{shared}", store, "u8", [0, 0], shared=shared))
    return result


def ranks():
    """Tensors of 1, 3, 4 and 5 dimensions."""
    three = ("u8", [40, 9, 5], [48, 512], [32, 4, 3])
    five = ("f32", [6, 3, 3, 3, 3], [32, 96, 288, 864], [4, 2, 2, 2, 2])
    return [
        load("tma_load_1d", "bf16", [1000], [], [128], [904]),
        load("tma_load_3d", *three, [16, 7, -1], "32B"),
        load("tma_load_4d", "bf16", [20, 5, 4, 3], [48, 256, 1024], [16, 3, 2, 2], [-8, 3, 3, 1]),
        load("tma_load_5d", *five, [4, 2, -1, 1, 2]),
        store("tma_store_1d", "bf16", [1000], [], [128], [904]),
        store("tma_store_3d", *three, [0, 4, 1], "32B"),
        store("tma_store_3d_past", *three, [16, 7, 3], "32B"),
        store("tma_store_3d_before_row", *three, [0, -1, 1], "32B"),
        store("tma_store_3d_before", *three, [0, 4, -1], "32B"),
        store("tma_store_3d_before_past", *three, [16, 7, -1], "32B"),
        store("tma_store_3d_plain_before", *three, [0, 4, -1]),
        store("tma_store_5d", *five, [4, 2, 1, 1, 2]),
        store("tma_store_5d_before", *five, [4, 2, -1, 1, 2]),
    ]


def fills():
    """What a load writes where there is no tensor."""
    result = []
    for element in ("bf16", "f32"):
        inner = 128 // SIZES[element]
        result.append(load(f"tma_load_nan_{element}", element, [100, 20], [512], [inner, 16],
                           [(100 - inner // 2) // 8 * 8, 10], "128B", "nan"))
        result.append(load(f"tma_load_nan_outside_{element}", element, [100, 20], [512], [inner, 8],
                           [-5000, 3], "none", "nan"))
    result.append(load("tma_load_outside", "u8", [100, 20], [128], [64, 8], [0, 2147483647]))
    result.append(load("tma_load_far_before", "u8", [100, 20], [128], [64, 8], [-2147483648, 0]))
    result.append(store("tma_store_outside", "u8", [100, 20], [128], [64, 8], [0, 2147483647]))
    result.append(store("tma_store_far_before", "u8", [100, 20], [128], [64, 8], [-2147483648, 0]))
    return result


def places():
    """Rows shorter than the swizzle's span, and tiles that start in the middle of a swizzle's period."""
    result = []
    for swizzle, inner in (("128B", 64), ("128B", 16), ("64B", 32), ("64B", 16), ("32B", 16)):
        result.append(load(f"tma_load_short_{swizzle}_{inner}", "u8", [256, 64], [256], [inner, 16],
                           [0, 0], swizzle))
        result.append(store(f"tma_store_short_{swizzle}_{inner}", "u8", [256, 32], [256],
                            [inner, 16], [0, 0], swizzle))
    for swizzle, span in SPANS.items():
        for shared in (128, 640):
            result.append(load(f"tma_load_{swizzle}_at{shared}", "u8", [256, 64], [256], [span, 16],
                               [0, 0], swizzle, shared=shared))
    return result


def probes():
    return edges() + tails() + ranks() + fills() + places() + unaligned()
