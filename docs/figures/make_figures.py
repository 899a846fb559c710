#!/usr/bin/env python3
"""Draws the figures of docs/architecture.md and docs/kernels/: `docs/figures/make_figures.py` writes the SVG files beside it.

The sizes in the maps of shared memory are those of the default schedules; `moe-opt --emit=manifest` prints the total.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from html import escape
from pathlib import Path

INK, QUIET, PAPER = "#1f2933", "#7b8794", "#ffffff"
BLUE, GREEN, ORANGE, VIOLET, GRAY = "#cfe2ff", "#d3f0d9", "#ffe3c2", "#e6dbff", "#eceff3"


class Figure:
    """An SVG under construction. Lengths are pixels; y runs down."""

    def __init__(self, width, height, title):
        self.size, self.parts = (width, height), [f"<title>{escape(title)}</title>"]

    def box(self, x, y, width, height, text="", fill=GRAY, size=13, align="middle", dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="{fill}" stroke="{INK}"'
            f' stroke-width="0.8"{dash}/>'
        )
        lines = text.split("\n") if text else []
        at = x + width / 2 if align == "middle" else x + 8
        first = y + height / 2 - (len(lines) - 1) * (size + 3) / 2 + size * 0.36
        for i, line in enumerate(lines):
            self.text(at, first + i * (size + 3), line, size, align)

    def text(self, x, y, text, size=13, align="start", color=INK, bold=False, mono=False):
        family = "DejaVu Sans Mono, monospace" if mono else "DejaVu Sans, sans-serif"
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-family="{family}" font-size="{size}" text-anchor="{align}"'
            f' fill="{color}"{weight} xml:space="preserve">{escape(text)}</text>'
        )

    def arrow(self, x1, y1, x2, y2, color=INK, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-width="1.2"'
            f' marker-end="url(#head)"{dash}/>'
        )

    def line(self, x1, y1, x2, y2, color=QUIET):
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-width="0.8"/>')

    def write(self, name):
        width, height = self.size
        head = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>'
        )
        body = "\n".join(self.parts)
        Path(__file__).with_name(name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
            f'<!-- Written by make_figures.py. -->\n{head}\n<rect width="{width}" height="{height}" fill="{PAPER}"/>\n'
            f"{body}\n</svg>\n"
        )


def rooms():
    """Which folder may include which: arrows go down."""
    f = Figure(900, 500, "The rooms of moe-opt, and who may use whom")
    f.text(20, 26, "The compiler", 15, bold=True)
    rows = [
        (50, "tools/moe-opt", "the command line", BLUE),
        (125, "lib/Driver", "stages, pipelines, diagnostics", BLUE),
        (200, "passes", "one file a pass", GREEN),
        (275, "lib/Kernels", "how an op is computed", GREEN),
    ]
    for y, name, what, fill in rows:
        f.box(20, y, 300, 46, f"{name}\n{what}", fill)
    for (y, *_), (below, *_) in zip(rows, rows[1:]):
        f.arrow(170, y + 46, 170, below)
    f.box(20, 350, 140, 62, "lib/Device\nTMA ring, wgmma,\ncasts, tile order", ORANGE, 12)
    f.box(180, 350, 140, 62, "lib/Dialect\nwhat an op is", VIOLET)
    f.box(20, 440, 300, 46, "lib/Builder\nIR from C", ORANGE)
    for x in (90, 250):
        f.arrow(x, 321, x, 350)
        f.arrow(x, 412, x, 440)
    f.box(360, 125, 170, 46, "lib/Target\nPTX, cubin, manifest", BLUE)
    f.arrow(320, 148, 360, 148)
    f.arrow(445, 171, 445, 381)
    f.arrow(445, 381, 322, 381)
    f.line(430, 171, 430, 336, INK)
    f.line(430, 336, 130, 336, INK)
    f.arrow(130, 336, 130, 350)
    f.text(600, 26, "What runs it", 15, bold=True)
    f.box(600, 50, 133, 111, "tools/moe-run\nruns, checks,\ntimes a bundle", BLUE)
    f.box(747, 50, 133, 111, "python/moe_opt\nPyTorch, JAX,\nnumpy", BLUE)
    f.box(600, 200, 280, 46, "lib/Runtime (libmoe_rt)\nloads a bundle, launches it", GREEN)
    f.box(600, 285, 280, 46, "lib/Emulator (libmoe_emu)\nexecutes the PTX on the CPU", ORANGE)
    f.box(600, 370, 280, 46, "lib/Reference (libmoe_ref)\nthe numerics in plain C", VIOLET)
    f.arrow(666, 161, 666, 200)
    f.arrow(813, 161, 813, 200)
    f.arrow(740, 246, 740, 285)
    f.arrow(740, 331, 740, 370)
    f.arrow(530, 155, 598, 215, dashed=True)
    f.text(553, 205, "bundle", 12, "middle", QUIET)
    f.write("rooms.svg")


def value():
    """One tensor's way from the source to the launch."""
    f = Figure(900, 590, "The way of one op from the source to the launch")
    steps = [
        ("source", "%q, %s = \"mx_quantize.quantize\"(%w) {axis = 1, block = 32, mode = \"rceil\"}", "the user"),
        ("fused", "transposes around it are gone; one op is one launch", "moe-verify ... moe-fuse-quantize"),
        ("scheduled", "... {schedule = {tile_n = 128, tile_k = 128, stages = 3, warps = 8, ...}}", "moe-select-schedule"),
        ("outlined", "... {kernel = @kernels::@quantize_expert_weights_0}; gpu.module @kernels", "moe-outline-kernels"),
        ("nvvm", "scf.for, nvvm.cp.async.bulk.tensor..., nvvm.mbarrier...; moe.kernel = {...}", "convert-mx-quantize-to-nvvm"),
        ("llvm", "llvm.func with branches, the NVVM intrinsics as ops", "upstream conversions"),
        ("ptx", "cp.async.bulk.tensor.3d.shared::cta.global.tile... [%rd4], [%rd1, {%r8, %r9, %r5}]", "LLVM's NVPTX backend"),
        ("bundle", "kernels.ptx   kernels.cubin   manifest.json", "ptxas, lib/Target"),
        ("prepare", "DLTensor w, q, s: checked; tensor maps encoded; grid = min(tiles, SMs x 2)", "libmoe_rt"),
        ("launch", "cuLaunchKernelEx, or the emulator's machine", "libmoe_rt"),
    ]
    for i, (stage, text, by) in enumerate(steps):
        y = 15 + 57 * i
        fill = BLUE if i < 2 else GREEN if i < 6 else ORANGE if i < 8 else VIOLET
        f.box(15, y, 110, 40, stage, fill, 14)
        f.text(140, y + 18, text, 12, mono=True)
        f.text(140, y + 36, by, 11, color=QUIET)
        if i + 1 < len(steps):
            f.arrow(70, y + 40, 70, y + 57)
    f.write("value.svg")


def roles(name, title, lanes, spans, unit, legend):
    """lanes: names; spans: (lane, start, length, text, fill), in units of time."""
    width = 150 + unit * max(start + length for _, start, length, *_ in spans) + 20
    f = Figure(max(width, 760), 60 + 52 * len(lanes) + 22 * len(legend), title)
    for i, lane in enumerate(lanes):
        y = 20 + 52 * i
        f.text(15, y + 24, lane, 13)
        f.line(145, y + 44, width - 10, y + 44)
    for lane, start, length, text, fill in spans:
        f.box(150 + unit * start, 22 + 52 * lane, unit * length, 38, text, fill, 11)
    base = 30 + 52 * len(lanes)
    f.arrow(150, base, width - 15, base, QUIET)
    f.text(width - 15, base + 15, "time", 12, "end", QUIET)
    for i, line in enumerate(legend):
        f.text(15, base + 30 + 22 * i, line, 12, color=QUIET)
    f.write(name)


def product_roles():
    k_tiles, wgmma, store = 4, 1.1, 2.0
    spans = []
    for k in range(3 * k_tiles):
        spans.append((0, k * wgmma, wgmma - 0.06, f"k{k % k_tiles}", (BLUE, ORANGE, BLUE)[k // k_tiles]))
    for tile in range(3):
        lane, start = 1 + tile % 2, 1.3 + tile * k_tiles * wgmma
        for k in range(k_tiles if tile < 2 else 1):
            spans.append((lane, start + k * wgmma, wgmma - 0.06, f"wgmma k{k}", GREEN))
        if tile < 2:
            spans.append((lane, start + k_tiles * wgmma, store, "scale, store", VIOLET))
    roles(
        "product_roles.svg",
        "Roles of the product's warpgroups over time, with ping-pong",
        ["loader, 1 warp", "warpgroup 0", "warpgroup 1"],
        spans,
        70,
        [
            "Blue, orange: tiles in turn. The loader runs ahead by as many k-tiles as the ring has stages, across the end of a tile.",
            "Each multiplying warpgroup has tiles of its own, and stores one while the other multiplies.",
        ],
    )


def memory(name, title, parts, total):
    """parts: (text, bytes, fill), from offset 0 up. Heights are bent so that small parts stay legible."""
    heights = [max(26, min(120, size / 420)) for _, size, _ in parts]
    f = Figure(700, sum(heights) + 60, title)
    y, offset = 20, 0
    for (text, size, fill), height in zip(parts, heights):
        f.text(95, y + 12, f"{offset}", 11, "end", QUIET, mono=True)
        f.box(105, y, 330, height, text, fill, 12)
        f.text(445, y + height / 2 + 4, f"{size} bytes", 12, color=QUIET)
        y, offset = y + height, offset + size
    f.text(95, y + 12, f"{total}", 11, "end", QUIET, mono=True)
    f.write(name)


def product_memory():
    """The default of a forward product: ping-pong, with scales for rows and columns."""
    tile_n, stages, groups = 128, 6, 1024
    parts = [
        (f"stage {i}: qa 128 x 128, then qb {tile_n} x 128,\n128-byte swizzle", (128 + tile_n) * 128, (BLUE, GREEN)[i % 2])
        for i in range(stages)
    ]
    parts.append(("barriers of the ring; slots with the tiles to come", 1024, GRAY))
    parts.append(("staging: for each of 8 warps 16 rows of 128 bytes", 8 * 2048, VIOLET))
    parts.append(("scales of the columns, for each warpgroup", 2 * tile_n * 4, ORANGE))
    parts.append(("table of groups: 8 bytes each", groups * 8, GRAY))
    total = sum(size for _, size, _ in parts)
    memory("product_memory.svg", f"Shared memory of a product, tile 128 x {tile_n}, {stages} stages, {groups} groups", parts, total)


def product_fragment():
    f = Figure(860, 420, "Which thread holds which element of the accumulator of wgmma.m64nNk32")
    f.text(20, 26, "Accumulator of one warpgroup: 64 rows, N columns", 14, bold=True)
    for warp in range(4):
        f.box(20, 45 + 84 * warp, 120, 80, f"warp {warp}\nrows {16 * warp} to {16 * warp + 15}", (BLUE, GREEN)[warp % 2])
    f.line(140, 45, 190, 60)
    f.line(140, 125, 190, 330)
    f.text(195, 52, "rows of the warp; columns 0 to 15 of N", 12, color=QUIET)
    cell = 34
    for row in range(8):
        y = 62 + row * cell
        label = f"{row}, {row + 8}"
        f.text(238, y + 21, label, 11, "end", QUIET)
        for column in range(16):
            lane = 4 * row + (column % 8) // 2
            f.box(245 + column * cell, y, cell, cell, str(lane), (BLUE, ORANGE)[column // 8], 11)
    f.text(245, 62 + 8 * cell + 22, "The number in a cell is the lane. Lane l holds rows l / 4 and l / 4 + 8 of its warp, and of", 12)
    f.text(245, 62 + 8 * cell + 40, "every 8 columns the two from 2 (l mod 4) on: register 4 i + 2 h + c holds row l / 4 + 8 h,", 12)
    f.text(245, 62 + 8 * cell + 58, "column 8 i + 2 (l mod 4) + c.", 12)
    f.write("product_fragment.svg")


def cast_roles():
    spans = []
    for t in range(6):
        spans.append((0, t * 1.3, 1.2, f"load tile {t}", BLUE))
    for t in range(5):
        spans.append((1, 1.5 + t * 1.3, 1.0, f"cast tile {t}", GREEN))
        spans.append((2, 2.5 + t * 1.3, 1.2, f"store tile {t}", ORANGE))
    roles(
        "cast_roles.svg",
        "Roles of the warps of a tile cast over time",
        ["loader, 1 warp", "8 warps that cast", "TMA stores"],
        spans,
        98,
        [
            "One CTA. Two CTAs share a multiprocessor, so that one casts while the other waits.",
            "The warps that cast wait until the last store has read the output tile before they write it again.",
        ],
    )


def cast_memory():
    parts = [(f"stage {i}: a tile of x, 128 rows x 128 columns of bf16,\nas two boxes of 128 bytes a row", 32768, (BLUE, GREEN)[i % 2]) for i in range(3)]
    parts.append(("output tile: q transposed, 128 rows of 128 bytes", 16384, ORANGE))
    parts.append(("barriers of the ring", 114736 - 3 * 32768 - 16384, GRAY))
    memory("cast_memory.svg", "Shared memory of a column-wise MX cast, tile 128 x 128, 3 stages", parts, 114736)


def cast_fragment():
    f = Figure(860, 330, "What one lane holds of a unit, by direction")
    f.text(20, 26, "Columns: a unit is a strip of 32 rows x 128 bytes", 14, bold=True)
    for lane in range(8):
        f.box(20 + 46 * lane, 45, 46, 160, f"lane\n{lane}", (BLUE, GREEN)[lane % 2], 11)
    f.text(395, 130, "... lane 31", 12)
    f.text(20, 228, "A lane has 4 bytes of each of 32 rows: 2 columns of bf16 or 1 of f32.", 12)
    f.text(20, 246, "A column of 32 rows is one MX block, so a lane finds amax alone.", 12)
    f.text(480, 26, "Rows: a unit is 32 pieces of a row", 14, bold=True)
    for lane in range(5):
        f.box(480, 45 + 32 * lane, 340, 32, f"lane {lane}: 128 bytes of one row", (BLUE, GREEN)[lane % 2], 11)
    f.text(480, 228, "... lane 31", 12)
    f.text(480, 246, "64 elements of bf16 are two MX blocks, 32 of f32 are one.", 12)
    f.text(480, 264, "The lanes with pieces of one row join their scales, so that", 12)
    f.text(480, 282, "16 bytes of scales leave at once.", 12)
    f.write("cast_fragment.svg")


def stream_fragment():
    f = Figure(860, 260, "What a lane of the stream kernel holds of a chunk")
    f.text(20, 26, "A chunk of 1024 elements: a lane has one 16-byte vector of every 512 bytes", 14, bold=True)
    for row in range(4):
        y = 45 + 34 * row
        f.text(60, y + 21, f"load {row}", 11, "end", QUIET)
        for lane in range(8):
            f.box(70 + 90 * lane, y, 90, 30, f"lane {lane}" if lane < 7 else "... lane 31", (BLUE, GREEN)[(lane // 4) % 2], 11)
    f.text(20, 205, "bf16: 4 neighboring lanes share an MX block in each load. A shuffle that halves the vectors with each step leaves every", 12)
    f.text(20, 223, "lane with the amax of one MX block; 32 lanes make the 32 scales of the chunk, which leave as one sector of 32 bytes.", 12)
    f.write("stream_fragment.svg")


def two_pass_roles():
    spans = [
        (0, 0.0, 3.4, "CTA 0: amax of its tiles, atomic max, count", BLUE),
        (1, 0.0, 3.8, "CTA 1: ..., counts last: scales; clears the state", BLUE),
        (2, 3.5, 1.0, "starts, waits", GRAY),
        (2, 4.5, 3.6, "griddepcontrol.wait over: cast x by factors", GREEN),
    ]
    roles(
        "two_pass_roles.svg",
        "Two launches: the first finds scales, the second casts",
        ["launch 1: scale_fp8", "", "launch 2: cast_fp8"],
        spans,
        90,
        [
            "The last CTA of a slice turns its maximum into a scale and leaves the state at zero for the next call.",
            "The second launch walks the tiles backwards: what the first read last is still in L2.",
        ],
    )


def main():
    for draw in (
        rooms, value, product_roles, product_memory, product_fragment, cast_roles, cast_memory, cast_fragment,
        stream_fragment, two_pass_roles,
    ):
        draw()


if __name__ == "__main__":
    main()
