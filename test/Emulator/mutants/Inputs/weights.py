"""Damages mixed_mm, one constant, place or instruction at a time, and asks moe-run whether its data reach it, or the emulator whether it sees it.

Usage: weights.py SCRATCH [NAME...]   as values.py, which has the machinery

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import subprocess
import sys

import mutants
import values
from mutants import ptx

SOURCE = values.ROOT / "test/Kernels/mixed_mm/Inputs/source.py"


def signed(half):
    """The constant with this half twice, as PTX has it."""
    word = half << 16 | half
    return str(word - (1 << 32) if word >> 31 else word)


def constant(instruction, before, after, which=0, count=1):
    return ptx(rf"({instruction} \s*%r\d+, %r\d+, ){before};", rf"\g<1>{after};", which, count)


def placed(before, after):
    """The constants of the lop3 that put a weight in its place."""
    return ptx(rf"mov\.b32 (\s*%r\d+), {signed(before)};", rf"mov.b32 \1, {signed(after)};", 0, 0)


DESCRIPTOR = (1 << 62) + (1 << 38) + (1 << 16)  # of tokens' tiles, without their place
LOAD = r"(cp\.async\.bulk\.tensor\.{rank}d[^;]*\{{){place}"
FMA = r"fma\.rn\.f32 \s*(%r\d+), (%r\d+), (%r\d+), (%r\d+);"
PARTS = r"add\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+);"
PRODUCT = r"setp\.ne\.b32 p, {fresh}, 0; wgmma"

# Integers in bf16, experts, two CTAs that divide the columns.
INTEGERS = [
    ("two's complement taken for an excess", placed(0x4308, 0x4300)),
    ("an excess of 7", ptx(rf"mov\.b32 (\s*%r\d+), {signed(0xC308)};", rf"mov.b32 \1, {signed(0xC307)};")),
    ("a bit of a weight lost", placed(0xF, 0x7)),
    ("the lower of two weights lost", ptx(rf"mov\.b32 (\s*%r\d+), {signed(0xF)};", rf"mov.b32 \1, {0xF0000};", 0, 0)),
    ("a weight of the columns beside", constant(r"shr\.u32", "4", "8", which=2)),
    ("two words of weights exchanged", ptx(r"(ld\.shared\.v4\.b32 \s*\{%r\d+, %r\d+), (%r\d+), (%r\d+)(\}, \[%rd\d+\+2560\];)",
                                           r"\1, \3, \2\4")),
    ("weights of the 64 columns before", ptx(r"(ld\.shared\.v4\.b32 [^;]*)\+2560\];", r"\g<1>+2048];")),
    ("tokens' columns of the 16 before", ptx(rf"(or\.b64 \s*%rd\d+, %rd\d+, )({DESCRIPTOR + 6});",
                                             rf"\g<1>{DESCRIPTOR + 4};")),
    ("a product begins a fresh sum", ptx(PRODUCT.format(fresh=1), PRODUCT.format(fresh=0).replace("\\", ""), which=1)),
    ("the scale of the row beside", ptx(r"(ld\.shared\.b16 [^;]*)\+6160\];", r"\g<1>+6162];")),
    ("the scale of the group before", ptx(r"(ld\.shared\.b16 [^;]*)\+6288\];", r"\g<1>+6160];")),
    ("the scale of the rows above", ptx(r"(ld\.shared\.b16 [^;]*)\+6160\];", r"\g<1>+6144];", 0, 0)),
    ("a scale of half its size", constant(r"shl\.b32", "16", "15")),
    ("a group left out", ptx(FMA, r"mov.b32 \1, \4;", which=5)),
    ("the groups before left out", ptx(FMA, r"mul.rn.f32 \1, \2, \3;", which=10)),
    ("a scale left out", ptx(FMA, r"add.rn.f32 \1, \2, \4;", which=1)),
    ("the sums of one CTA", ptx(PARTS, r"mov.b32 \1, \2;")),
    ("the sums of one CTA twice", ptx(PARTS, r"add.rn.f32 \1, \2, \2;", which=2)),
    ("weights of the first rows", ptx(LOAD.format(rank=4, place=r"(%r\d+, %r\d+, )%r\d+"), r"\1\g<2>0")),
    ("weights of the first expert", ptx(LOAD.format(rank=4, place=r"(%r\d+, %r\d+, %r\d+, )%r\d+"), r"\1\g<2>0")),
    ("scales of the first expert", ptx(LOAD.format(rank=3, place=r"(%r\d+, %r\d+, )%r\d+"), r"\1\g<2>0")),
    ("scales of the first groups", ptx(LOAD.format(rank=3, place=r"(%r\d+, )%r\d+"), r"\1\g<2>0")),
    ("tokens of the first columns", ptx(LOAD.format(rank=2, place=r"%r\d+"), r"\g<1>0")),
    ("tokens of the first group", ptx(LOAD.format(rank=2, place=r"(%r\d+, )%r\d+"), r"\1\g<2>0")),
    ("one more token", ptx(r"setp\.ge\.u32 (\s*%p\d+), (%r\d+), (%r\d+);(\s*or\.pred)", r"setp.gt.u32 \1, \2, \3;\4", which=1)),
]
# What the emulator sees, and says so.
values.WRONG += "|the (store|load|bulk load) races at shared address|the load reads uninitialized shared memory|belongs to a wgmma|without a wgmma.fence|: deadlock|a launch before this one uses|lets the next launch begin|depends on uninitialized shared memory|times as far from (nan|-?[0-9.e+-]+) as it may be"
HAZARDS = [
    ("no wait for the products", ptx(r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;")),
    ("no fence before the products", ptx(r"wgmma\.fence\.sync\.aligned;", "")),
    ("products that are not committed", ptx(r"wgmma\.commit_group\.sync\.aligned;", "", which=1)),
    ("a stage that is not given back", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\];", "")),
    ("a stage read before it has landed", ptx(r"@P1 bra\.uni DONE;", "bra.uni DONE;")),
    ("sums read before all CTAs have written them", ptx(r"(st\.shared::cluster[^;]*;\s*)barrier\.cluster\.arrive\.aligned;\s*barrier\.cluster\.wait\.aligned;", r"\1")),
]
# CTAs that divide columns add some tokens each, where the stages were.
MEET = r"barrier\.cluster\.arrive\.aligned;\s*barrier\.cluster\.wait\.aligned;"
REUSED = [
    ("sums sent before all CTAs have read their stages", ptx(rf"(?s){MEET}(\s*st\.shared::cluster.*?){MEET}\s*({MEET})", r"\1\2")),
    ("no fence before the stages are filled again", ptx(r"fence\.proxy\.async\.shared::cta;", "", which=0, count=0)),
    ("all sums to the first CTA", ptx(r"(mapa\.shared::cluster\.u64 \s*%rd\d+, %rd\d+, )1;", r"\g<1>0;")),
    ("the tokens of the first CTA in both", ptx(r"(?s)(mov\.u32 \s*(%r\d+), %cluster_ctarank;.*?)shl\.b32 (\s*%r\d+), \2, 4;", r"\1and.b32 \3, \2, 0;")),
    ("the sums of one CTA twice", ptx(PARTS, r"add.rn.f32 \1, \2, \2;", which=2)),
]
# Integers in bf16, two warps that divide the columns of each panel.
MMA = r"(mma\.sync[^;]*?\{%r\d+, %r\d+, %r\d+, %r\d+\},\s*\{)"
PANELS = [
    ("two words of a product's weights exchanged", ptx(MMA + r"(%r\d+), (%r\d+), (%r\d+, %r\d+\},)", r"\1\3, \2, \4")),
    ("two words of a product's tokens exchanged", ptx(MMA + r"([^}]*\},\s*\{)(%r\d+), (%r\d+)\}", r"\1\2\4, \3}", which=2)),
    ("a product that begins a fresh sum", ptx(MMA + r"([^}]*\},\s*\{%r\d+, %r\d+\},\s*\{)%r\d+, %r\d+, %r\d+, %r\d+\}",
                                             r"\1\g<2>0f00000000, 0f00000000, 0f00000000, 0f00000000}", which=3)),
    ("tokens of the 32 columns before", constant(r"xor\.b32", "64", "0")),
    ("tokens out of another chunk of the swizzle", ptx(r"(ldmatrix[^;]*%rd\d+)\]", r"\1+16]")),
    ("weights of the first warp's columns", ptx(r"selp\.b64 (\s*%rd\d+), 512, 0,", r"selp.b64 \1, 0, 0,")),
    ("tokens of the first warp's columns", ptx(r"selp\.b64 (\s*%rd\d+), 1024, 0,", r"selp.b64 \1, 0, 0,")),
    ("scales of the first warp's columns", ptx(r"selp\.b64 (\s*%rd\d+), 96, 0,", r"selp.b64 \1, 0, 0,")),
    ("the sums of one warp", ptx(PARTS, r"mov.b32 \1, \2;")),
    ("the sums of one warp twice", ptx(PARTS, r"add.rn.f32 \1, \2, \2;", which=2)),
    ("sums read before both warps have written them", ptx(r"bar\.sync \s*1, 192;", "bar.warp.sync -1;")),
    ("a stage read before it has landed", ptx(r"@P1 bra\.uni DONE;", "bra.uni DONE;")),
]
# The same, warps load their weights.
AHEAD = r"ld\.global\.L1::no_allocate\.v4\.b32"
DIRECT = [
    ("weights of the next columns", ptx(rf"({AHEAD} [^;]*%rd\d+)\]", r"\1+512]")),
    ("weights of the next columns, loaded ahead", ptx(rf"({AHEAD} [^;]*%rd\d+)\]", r"\1+512]", which=1)),
    ("weights of the lane beside", ptx(rf"({AHEAD} [^;]*%rd\d+)\]", r"\1+16]", which=1)),
    ("two words of a lane's weights exchanged", ptx(rf"({AHEAD} \{{)(%r\d+), (%r\d+)", r"\1\3, \2", which=1)),
    ("weights that are not loaded ahead", ptx(rf"{AHEAD} [^;]*;", "", which=1)),
    ("a stage read before it has landed", ptx(r"@P1 bra\.uni DONE;", "bra.uni DONE;", which=1)),
    ("the last stage that is not given back", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\];", "", which=1)),
    ("no fence before a stage is given back", ptx(r"fence\.proxy\.async\.shared::cta;", "")),
    ("no fence before any stage is given back", ptx(r"fence\.proxy\.async\.shared::cta;", "", count=0)),
]
# The same, all stages there at once: they are given back for the next tile alone.
ALL_STAGES = [
    ("stages that are not given back", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\];", "", count=0)),
    ("the last stage that is not given back", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\];", "", which=1)),
    ("no fence before any stage is given back", ptx(r"fence\.proxy\.async\.shared::cta;", "", count=0)),
]
# Integers from subnormal numbers.
SUBNORMAL = [
    ("the upper place 16 fold", ptx(rf"mov\.b32 (\s*%r\d+), {signed(0x7C80)};", rf"mov.b32 \1, {signed(0x7E80)};")),
    ("an excess of 7", ptx(rf"mov\.b32 (\s*%r\d+), {signed(0xBD80)};", rf"mov.b32 \1, {signed(0xBD60)};")),
    ("a sign at the upper place", placed(0x80, 0)),
    ("a sign at the lower place", placed(0x8, 0)),
    ("sums not multiplied by 128", ptx(r"mul\.rn\.f32 (\s*%r\d+, %r\d+), 0f43000000", r"mul.rn.f32 \1, 0f3F800000")),
]
# Its zero points.
SUBNORMAL_ZEROS = [
    ("zero points of half their size", ptx(rf"mul\.rn\.bf16x2 (\s*%r\d+), (%r\d+), (%r\d+);", r"mul.rn.bf16x2 \1, \2, \3; fma.rn.bf16x2 \1, \1, \1, \1;")),
    ("zero points of one half of the columns", ptx(r"mul\.lo\.s32 (\s*%r\d+, %r\d+), 65537;", r"mul.lo.s32 \1, 1;", which=0, count=0)),
]
# More tiles than multiprocessors.
TILES = [("sums overwritten before they have been read", ptx(r"bar\.sync \s*1, 64;", "bar.warp.sync -1;", which=1))]
# E2M1 values in bf16, E8M0 scales.
FLOATS = [
    ("signs lost of registers that need one turn or none", constant(r"and\.b32", signed(0x81C0), signed(0x01C0), count=0)),
    ("the sign lost of the one that needs two", constant(r"and\.b32", signed(0x80C0), signed(0x00C0))),
    ("its exponent's highest bit lost", placed(0x0100, 0)),
    ("its other bits lost", constant(r"and\.b32", signed(0x80C0), signed(0x8000))),
    ("the highest bit of an exponent lost", constant(r"and\.b32", signed(0x81C0), signed(0x80C0))),
    ("the mantissa lost", constant(r"and\.b32", signed(0x81C0), signed(0x8180), which=1)),
    ("a weight of another register", ptx(r"shl\.b32 (\s*%r\d+, %r\d+), 4;(\s*and\.b32)", r"shl.b32 \1, 0;\2")),
    ("a weight of another column", ptx(r"shf\.l\.wrap\.b32 (\s*%r\d+, %r\d+, %r\d+), 10;", r"shf.l.wrap.b32 \1, 26;")),
    ("twice the values", ptx(rf"mov\.b32 (\s*%r\d+), {signed(0x7E80)};", rf"mov.b32 \1, {signed(0x7F00)};")),
    ("scales of half their size", ptx(r"shl\.b32 (\s*%r\d+, %r\d+), 23;", r"shl.b32 \1, 22;")),
]
# E8M0 scales of all bytes.
SCALES = [
    ("the scale NaN taken for Inf", ptx(r"fma\.rn\.f32 (\s*%r\d+), (%r\d+), 0f00000000, (%r\d+);", r"mov.b32 \1, \2;", which=0, count=0)),
    ("the scale 2^-127 taken for 0", ptx(r"max\.u32 (\s*%r\d+), (%r\d+), 4194304;", r"mov.b32 \1, \2;", which=0, count=0)),
]
# E8M0 scales as factors of weights.
SCALED = [
    ("weights half as large", ptx(rf"(mad\.lo\.s32 [^;]*){signed(0x3000)}", rf"\g<1>{signed(0x2F80)}", 0, 0)),
    ("sums not multiplied by 2^30", ptx(r"fma\.rn\.f32 (\s*%r\d+, %r\d+), 0f4E800000,", r"fma.rn.f32 \1, 0f3F800000,", which=0, count=0)),
    ("scales of one half of the columns only", ptx(r"mad\.lo\.s32 (\s*%r\d+, %r\d+), 8388736,", r"mad.lo.s32 \1, 8388608,")),
    ("a weight not multiplied", ptx(r"mul\.rn\.bf16x2 (\s*%r\d+), (%r\d+), (%r\d+);", r"mov.b32 \1, \2;", which=3)),
    ("products of a chunk that begin a fresh sum", ptx(PRODUCT.format(fresh=1), PRODUCT.format(fresh=0).replace("\\", ""), which=4)),
    ("products that are not waited for", ptx(r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;")),
]
# The same of panels, where four lanes divide the scales.
SCALED_PANELS = [
    ("the factor of another group", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+, )3, 7199", r"\g<1>2, 7199", 0, 0)),
    ("the factor of one row for both", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, )(%r\d+)(, 1, 7199[^;]*;\s*shfl\.sync\.idx\.b32 \s*%r\d+, )%r\d+", r"\1\2\3\2", 0, 0)),
    ("sums not multiplied by 2^30", ptx(r"mul\.rn\.f32 (\s*%r\d+, %r\d+), 0f4E800000", r"mul.rn.f32 \1, 0f3F800000", which=1)),
    ("factors of the first warp's columns", ptx(r"selp\.b32 (\s*%r\d+), 4, 0,", r"selp.b32 \1, 0, 0,")),
    ("a product that begins a fresh sum", ptx(MMA + r"([^}]*\},\s*\{%r\d+, %r\d+\},\s*\{)%r\d+, %r\d+, %r\d+, %r\d+\}",
                                             r"\1\g<2>0f00000000, 0f00000000, 0f00000000, 0f00000000}", which=3)),
]
# Scales of all bytes as factors.
SCALED_NAN = [("scales beyond 2^31 that are numbers", ptx(r"min\.u16x2 (\s*%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;", 0, 0))]
# Integers in f16: weights at two places of a half.
HALVES = [
    ("the upper place 8 fold", ptx(rf"mov\.b32 (\s*%r\d+), {signed(0x2C00)};", rf"mov.b32 \1, {signed(0x3000)};")),
    ("the upper place with the excess of the lower", ptx(rf"mov\.b32 (\s*%r\d+), {signed(0xD480)};", rf"mov.b32 \1, {signed(0xD400)};")),
    ("a sign at the upper place", placed(0x6480, 0x6400)),
]
# Integers times scales of bf16 in f16, brought to the greatest of each row; tokens that have scales.
MAGNITUDES = r"max\.NaN\.bf16x2 (\s*%r\d+), (%r\d+), (%r\d+);"
ROW_POWERS = [
    ("the greatest scale of the lane's own group", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), (?:1|2), 31, -1;", r"mov.b32 \1, \2;", 0, 0)),
    ("scales out of range", ptx(r"sub\.s32 (\s*%r\d+), -2088763392, (%r\d+);", r"sub.s32 \1, -2046820352, \2;", 0, 0)),
    ("a scale that is not brought to its row", ptx(r"mul\.rn\.f32 (\s*%r\d+), (%r\d+), %r\d+;(\s*mul\.rn\.f32 [^;]*;\s*cvt\.rn\.f16x2\.f32)", r"mov.b32 \1, \2;\3", which=1)),
    ("sums that are not brought back", ptx(r"sub\.s32 (\s*%r\d+), 2130706432, %r\d+;", r"mov.b32 \1, 1065353216;", 0, 0)),
    ("the power of one row for both", ptx(r"and\.b32 (\s*%r\d+), (%r\d+), -65536;", r"shl.b32 \1, \2, 16;", which=1)),
    ("the scales of another group", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+, )1, 7199", r"\g<1>0, 7199")),
]
# The same where the greatest scale of a row meets tokens of 0, in the middle of its columns: powers follow it.
SMALL_SCALES = [
    ("scales brought to 2^5 only", ptx(r"sub\.s32 (\s*%r\d+), -2088763392, (%r\d+);", r"sub.s32 \1, -2122317824, \2;", 0, 0)),
    ("a scale out of range that nobody sees", ptx(r"redux\.sync\.or\.b32 (\s*%r\d+), (%r\d+), (%r\d+);", r"mov.b32 \1, 0;", which=2)),
    ("sums that do not follow", ptx(r"sub\.s32 (\s*%r\d+), 2130706432, (%r\d+);", r"mov.b32 \1, 1065353216;", which=0)),
    ("the greatest scale of the lane's own group", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), 1, 31, -1;", r"mov.b32 \1, \2;", which=2)),
]
SCALED_TOKENS = [
    ("the scale of the token before", ptx(r"add\.s32 (\s*%r\d+), (%r\d+), 1;(\s*shfl\.sync\.idx)", r"mov.b32 \1, \2;\3")),
    ("sums that are not multiplied by it", ptx(r"(mul\.rn\.f32 \s*)(%r\d+)(, [^;]*;\s*)mul\.rn\.f32 (\s*%r\d+), \2, %r\d+;", r"\1\2\3mov.b32 \4, \2;")),
    ("an integer that is not multiplied by its scale", ptx(r"mul\.rn\.f16x2 (\s*%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;", which=3)),
    ("the scale of the row beside", ptx(r"(ld\.shared\.b16 [^;]*)\+6160\];", r"\g<1>+6144];", 0, 0)),
]
# Tokens that become f16.
TOKENS_IN_F16 = [
    ("the greatest of a warp's columns", ptx(r"ld\.shared\.v2\.b32 \s*\{(%r\d+), (%r\d+)\}[^;]*;", r"mov.b32 \1, 0; mov.b32 \2, 0;")),
    ("no barrier before it is read", ptx(r"bar\.sync \s*0;", "")),
    ("no barrier before that of the next row", ptx(r"bar\.sync \s*0;", "", which=1)),
    ("the greatest of the last columns left out", ptx(MAGNITUDES, r"mov.b32 \1, \2;", which=0)),
    ("a scale of half its size", ptx(r"(add\.s32 \s*%r\d+, %r\d+, )-125829120;", r"\g<1>-134217728;")),
    ("columns behind the row", ptx(r"setp\.ge\.u32 (\s*%p\d+), (%r\d+), (%r\d+);", r"setp.ge.u32 \1, \2, 65536;")),
]
# A bias in bf16.
BIAS = [
    ("the bias of a row left out", ptx(r"cvt\.f32\.bf16 (\s*%r\d+), %rs\d+;", r"mov.b32 \1, 0;")),
    ("the bias of the first expert", ptx(r"mul\.lo\.s64 (\s*%rd\d+), %rd\d+, %rd\d+;(\s*min\.u32)", r"mov.b64 \1, 0;\2")),
    ("the bias of the row above", ptx(r"or\.b32 (\s*%r\d+, %r\d+), 8;(\s*min\.u32)", r"or.b32 \1, 0;\2")),
    ("a bias of half its size", ptx(r"cvt\.f32\.bf16 (\s*%r\d+), (%rs\d+);", r"cvt.f32.bf16 \1, \2; mul.rn.f32 \1, \1, 0f3F000000;")),
]
# Tokens in two parts.
PARTS_OF_TOKENS = [
    ("products of a part that are not waited for", ptx(r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;")),
    ("no fence before a part", ptx(r"wgmma\.fence\.sync\.aligned;", "", which=1)),
    ("the first part's tokens twice", ptx(rf"(add\.s64 \s*%rd\d+, %rd\d+, ){DESCRIPTOR + 64};", rf"\g<1>{DESCRIPTOR};")),
    ("a part of a group left out", ptx(FMA, r"mov.b32 \1, \4;", which=7)),
    ("a part begins with the sums of the one before", ptx(PRODUCT.format(fresh=0), PRODUCT.format(fresh=1).replace("\\", ""), which=2)),
]

# The same in two widths: tiles of 16 tokens and of 32.
PARTS_BY_WIDTH = [
    ("the first part's tokens twice, of few", ptx(rf"(add\.s64 \s*%rd\d+, %rd\d+, ){DESCRIPTOR + 64};", rf"\g<1>{DESCRIPTOR};")),
    ("the first part's tokens twice, of more", ptx(rf"(add\.s64 \s*%rd\d+, %rd\d+, ){DESCRIPTOR + 128};", rf"\g<1>{DESCRIPTOR};")),
    ("a part of a group left out, of few", ptx(FMA, r"mov.b32 \1, \4;", which=7)),
]

# The same, two stages in a round of the loop.
UNROLLED = [
    ("a stage that is not given back", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\];", "", which=0)),
    ("products of the second stage that are not waited for", ptx(r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;", which=4)),
    ("a stage read before it has landed", ptx(r"@P1 bra\.uni DONE;", "bra.uni DONE;", which=1)),
]
# The same, and the tensor core sums over all columns.
LONG_SUMS = [
    ("sums not multiplied by 2^30", ptx(r"mul\.rn\.f32 (\s*%r\d+, %r\d+), 0f4E800000", r"mul.rn.f32 \1, 0f3F800000", which=0, count=0)),
    ("sums of the stages before left out", ptx(PRODUCT.format(fresh=1), PRODUCT.format(fresh=0).replace("\\", ""), which=16)),
    ("products that are not waited for", ptx(r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;")),
]
# FP8 weights, whose scales have the difference of the exponents in them.
FP8 = [
    ("a magnitude's lowest bit lost", ptx(rf"(and\.b32 [^;]*){signed(0x7F0)}", rf"\g<1>{signed(0x7E0)}", 0, 0)),
    ("scales half as large", ptx(rf"(mad\.lo\.s32 [^;]*){signed(0x2D00)}", rf"\g<1>{signed(0x2C80)}", 0, 0)),
    ("a sign of the columns beside", ptx(r"shl\.b32 (\s*%r\d+, %r\d+), 8;", r"shl.b32 \1, 0;", 0, 0)),
    ("magnitudes of the columns beside", ptx(r"shr\.u32 (\s*%r\d+, %r\d+), 4;(\s*and)", r"shl.b32 \1, 4;\2", 0, 0)),
    ("weights of the 32 columns before", ptx(r"xor\.b32 (\s*%r\d+, %r\d+), 32;", r"mov.b32 \1;", 0)),
    ("sums not multiplied by 2^30", ptx(r"(selp\.f32 [^;]*)0f4E800000", r"\g<1>0f3F800000", 0, 0)),
    ("weights of the first expert", ptx(LOAD.format(rank=3, place=r"(%r\d+, %r\d+, )%r\d+"), r"\1\g<2>0", 0)),
]
FP8_NAN = [
    ("NaN that nobody sees", ptx(r"(add\.s32 [^;]*)1048592", r"\g<1>0", 0, 0)),
    ("NaN of the lane's own columns", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), 2, 31, -1;", r"mov.b32 \1, \2;", 0, 0)),
    ("scales beyond 2^37 that are numbers", ptx(r"min\.u16x2 (\s*%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;", 0, 0)),
]
# The same, where four lanes divide the scales of a stage.
FP8_BEHIND = [
    ("the factor of another group", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+, )3, 7199", r"\g<1>2, 7199", 0, 0)),
    ("the factor of one row for both", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, )(%r\d+)(, 1, 7199[^;]*;\s*shfl\.sync\.idx\.b32 \s*%r\d+, )%r\d+", r"\1\2\3\2", 0, 0)),
    ("the factors of the first lane's groups for all", ptx(r"(and\.b32 \s*%r\d+, %r\d+, )3;", r"\g<1>0;", 0, 0)),
]
# Scales by rows, of which a stage has those of its columns among 16; results through shared memory, the last tokens of a tile 8.
FP8_ROWS = [
    ("scales of the first columns of 512", ptx(r"(and\.b32 \s*%r\d+, %r\d+, )15;", r"\g<1>0;", which=1, count=0)),
    ("scales of the 32 columns before", ptx(r"(ld\.shared\.b8 [^;]*)\+14337\];", r"\g<1>+14336];")),
    ("scales of the rows above", ptx(r"(ld\.shared\.b8 [^;]*)\+14464\];", r"\g<1>+14336];")),
    ("no barrier before results are read", ptx(r"(stmatrix[^;]*;\s*)bar\.warp\.sync\s+-1;", r"\1")),
    ("tokens behind the tile written too", ptx(r"(setp\.gt\.u32 \s*%p\d+, %r\d+, )15;", r"\g<1>31;")),
]
# Tiles with half of their tokens or less.
WIDTHS = [
    ("a tile with more tokens taken for a half", ptx(r"(redux\.sync[^;]*;\s*setp\.gt\.u32 \s*%p\d+, %r\d+, )16;", r"\g<1>31;")),
    ("tokens of a half left out", ptx(r"(add\.s32 \s*%r\d+, %r\d+, )8;(\s*setp)", r"\g<1>0;\2")),
]
# Tokens in the order that weights as they are want.
ORDER = [
    ("odd columns for even ones", ptx(r"mov\.b32 (\s*%r\d+), 25632;", r"mov.b32 \1, 30001;")),
    ("columns of another thread", ptx(r"(shfl\.sync\.bfly\.b32 [^;]*), 1, 31, -1;", r"\1, 2, 31, -1;")),
    ("columns kept that go to the other thread", ptx(r"selp\.b32 (\s*%r\d+), (%r\d+), (%r\d+), (%p\d+);(\s*shfl)", r"selp.b32 \1, \3, \2, \4;\5")),
]
# Integers whose long sums are rescaled between groups: results in f32 of normal data, data with exact sums, whose units are 1, and scales of any size.
UNITS = [
    ("the unit of one row for both", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+, )1, 7199", r"\g<1>0, 7199", which=2)),
    ("the ratio of another group", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+, )2, 7199", r"\g<1>0, 7199", which=1)),
    ("the factor of another group", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+, )2, 7199", r"\g<1>0, 7199", which=0)),
    ("the unit before is that of the group", ptx(r"shfl\.sync\.bfly\.b32 \s*(%r\d+), (%r\d+), 2, 31, -1;", r"mov.b32 \1, \2;", which=2)),
    ("a factor of three bits", constant(r"and\.b32", "2146435072", "2145386496", which=1)),
    ("a unit of the wrong bits", constant(r"and\.b32", "7340032", "6291456", which=1)),
    ("a stage's products that begin a fresh sum", ptx(PRODUCT.format(fresh=1), PRODUCT.format(fresh=0).replace("\\", ""), which=8)),
    ("products that are not waited for", ptx(r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;")),
    ("no fence before a part", ptx(r"wgmma\.fence\.sync\.aligned;", "", which=2)),
    ("a stage that is not given back", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\];", "", which=0)),
]
EXACT_UNITS = [
    ("a ratio of equal units that is not 1", ptx(r"fma\.rn\.f32 \s*(%r\d+), (%r\d+), (%r\d+), (%r\d+);", r"mov.b32 \1, \4;", which=1, count=0)),
    ("what is subtracted not multiplied", ptx(r"mul\.rn\.bf16x2 (\s*%r\d+), (%r\d+), (%r\d+);", r"mov.b32 \1, \3;")),
]
EDGE_UNITS = [
    ("subnormal scales lost", ptx(r"setp\.lt\.u32 (\s*%p\d+), (%r\d+), 226492416;", r"setp.lt.u32 \1, \2, 0;", which=0, count=0)),
    ("the greatest scales Inf", ptx(r"setp\.gt\.u32 (\s*%p\d+), (%r\d+), 2071986175;", r"setp.gt.u32 \1, \2, -1;", which=0, count=0)),
]
# Tiles that have registers for one piece of weights while two parts are in flight.
WIDEST = [
    ("a piece's last products that are not waited for", ptx(r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;")),
    ("sums of a piece's last part left out", ptx(FMA, r"mov.b32 \1, \4;", which=100)),
    ("no fence before a piece", ptx(r"wgmma\.fence\.sync\.aligned;", "", which=4)),
]
# A table of 70 groups, three of a lane.
TABLE = [
    ("the ends of the lanes before forgotten", ptx(r"max\.s32 (\s*%r\d+), %r\d+, 0;", r"mov.b32 \1, 0;")),
    ("the tiles of the lanes before forgotten", ptx(r"(16, 0, -1;\s*(?:setp[^;]*;\s*)?selp\.b32 \s*%r\d+, 0, [^;]*;\s*)add\.s32 (\s*%r\d+, %r\d+), %r\d+;", r"\1add.s32 \2, 0;")),
    ("an offset of the group before", ptx(r"add\.s32 (\s*%r\d+, %r\d+), 2;(\s*min\.u32 \s*%r\d+, %r\d+, 69;)", r"add.s32 \1, 1;\2")),
    ("the lane's end before forgotten", ptx(r"max\.s32 (\s*%r\d+, %r\d+), %r\d+;(\s*min\.s32 \s*%r\d+, %r\d+, %r\d+;\s*mul\.wide)", r"max.s32 \1, 0;\2")),
    ("an end without the greatest before it", ptx(r"max\.s32 (\s*%r\d+), %r\d+, (%r\d+);(\s*min\.s32 \s*%r\d+, %r\d+, %r\d+;\s*st\.shared\.b32 \s*\[%rd\d+\+\d+\])", r"mov.b32 \1, \2;\3")),
]
# Weights of both k-tiles that are asked for ahead; then the loader waits, and each warp that multiplies.
AHEAD = [
    ("tokens asked for before the wait", ptx(mutants.WAIT_GRID, "", which=1)),
    ("results stored without a wait", ptx(mutants.WAIT_GRID, "")),
    ("the next launch let go before the wait", ptx(mutants.WAIT_GRID + r"(\s*)griddepcontrol\.launch_dependents;", r"griddepcontrol.launch_dependents;\1griddepcontrol.wait;", which=0)),
    ("the first weights twice", ptx(LOAD.format(rank=3, place=r"(%r\d+, )%r\d+"), r"\1\g<2>0")),
    ("tokens of the first columns for the first weights", ptx(LOAD.format(rank=2, place=r"%r\d+"), r"\g<1>0", which=1)),
]
# Tokens that never come, whose places are cleared.
ONE_TILE = [
    ("places of tokens that never come are not cleared", ptx(r"st\.shared\.v4\.b32 [^;]*;", "", count=0)),
    ("and read before they are", ptx(r"bar\.sync\s+1, 192;", "")),
    ("a token's place is cleared, too", ptx(r"(add\.s64 \s*%rd\d+, %rd\d+), 128;(\s*\$L__)", r"\1, 0;\2")),
]
# The same of a number that each call has.
LOADED = r"min\.u32 (\s*%r\d+, %r\d+), 8;"
FEW_TOKENS = [
    ("places of tokens that never come are not cleared", ptx(r"st\.shared\.v4\.b32 [^;]*, \{0, 0, 0, 0\};", "")),
    ("all places are cleared", ptx(LOADED, r"min.u32 \1, 0;", which=0)),
    ("the place behind the last token is not cleared", ptx(LOADED, r"add.u32 \1, 1;", which=0)),
    ("as many bytes are waited for as a whole tile has", ptx(LOADED, r"max.u32 \1, 8;", which=1)),
]
EXPERTS = ["--exact", "--groups", "ragged", *mutants.shapes(["w=3x9x5x512", "x=30x320", "offs=3"])]


def case(name, keys, chosen, scales="3x144x5", more=(), schedule="tile_n=8,warpgroups=1,stages=2,split=2"):
    source = [sys.executable, str(SOURCE), "experts=1", f"schedule={schedule}", *keys]
    return f"weights-{name}", source, [*EXPERTS, "--shape", f"scales={scales}", *more], chosen


CASES = [
    case("integers", [], INTEGERS),
    case("hazards", [], HAZARDS),
    case("floats", ["format=f4E2M1FN", "group=32", "scales=f8E8M0FNU"], FLOATS, "3x144x10"),
    ("weights-scales", [sys.executable, str(SOURCE), "format=f4E2M1FN", "group=32", "scales=f8E8M0FNU", "x=f16", "out=f32", "schedule=tile_n=8,warpgroups=1,stages=2"],
     ["--edge-blocks", *mutants.shapes(["w=9x5x512", "scales=144x10", "x=30x320"])], SCALES),
    case("scaled", ["format=f4E2M1FN", "group=32", "scales=f8E8M0FNU"], SCALED, "3x144x10",
         schedule="tile_n=8,warpgroups=1,depth=256,stages=2,in_flight=1,scaled_weights=1"),
    case("long-sums", ["format=f4E2M1FN", "group=32", "scales=f8E8M0FNU"], LONG_SUMS, "3x144x10",
         schedule="tile_n=8,warpgroups=1,depth=256,stages=2,in_flight=1,scaled_weights=1,long_sums=1"),
    case("scaled-panels", ["format=f4E2M1FN", "group=32", "scales=f8E8M0FNU"], SCALED_PANELS, "3x144x10",
         schedule="tile_n=8,panels=3,slices=2,depth=256,stages=2,in_flight=1,scaled_weights=1,long_sums=1"),
    ("weights-scaled-nan", [sys.executable, str(SOURCE), "format=f4E2M1FN", "group=32", "scales=f8E8M0FNU", "schedule=tile_n=8,panels=3,slices=2,depth=256,stages=2,in_flight=1,scaled_weights=1,long_sums=1"],
     ["--edge-blocks", *mutants.shapes(["w=9x5x512", "scales=144x10", "x=30x320"])], SCALED_NAN),
    ("weights-fp8", [sys.executable, str(SOURCE), "format=f8E4M3FN", "experts=1", "schedule=tile_n=8,warpgroups=1,depth=256,stages=2,in_flight=1,scaled_weights=1,long_sums=1"],
     ["--one-hot", "--groups", "ragged", *mutants.shapes(["w=3x144x320", "scales=3x144x10", "x=30x320", "offs=3"])], FP8),
    ("weights-fp8-behind", [sys.executable, str(SOURCE), "format=f8E4M3FN", "experts=1", "schedule=tile_n=8,warpgroups=1,depth=256,stages=2,in_flight=1,behind=1,scaled_weights=1,long_sums=1"],
     ["--one-hot", "--groups", "ragged", *mutants.shapes(["w=3x144x320", "scales=3x144x10", "x=30x320", "offs=3"])], FP8_BEHIND),
    ("weights-fp8-nan", [sys.executable, str(SOURCE), "format=f8E4M3FN", "out=f32", "schedule=tile_n=8,warpgroups=1,stages=2,in_flight=1,scaled_weights=1"],
     ["--edge-blocks", *mutants.shapes(["w=144x320", "scales=144x10", "x=30x320"])], FP8_NAN),
    ("weights-fp8-rows", [sys.executable, str(SOURCE), "format=f8E4M3FN", "layout=evens_first", "order=rows", "experts=1", "schedule=tile_n=24,warpgroups=1,depth=128,stages=3,in_flight=1,scaled_weights=1,long_sums=1,staged=1"],
     ["--exact", "--groups", "ragged", *mutants.shapes(["w=3x144x1024", "scales=3x144x32", "x=100x1024", "offs=3"])], FP8_ROWS),
    ("weights-fp8-widths", [sys.executable, str(SOURCE), "format=f8E4M3FN", "experts=1", "schedule=tile_n=32,warpgroups=1,depth=128,stages=2,in_flight=1,scaled_weights=1,long_sums=1,widths=2"],
     ["--exact", "--groups", "ragged", *mutants.shapes(["w=3x144x320", "scales=3x144x10", "x=150x320", "offs=3"])], WIDTHS),
    ("weights-order", [sys.executable, str(values.DEQUANTIZE_SOURCE), "2", "1", "f8E4M3FN", "bf16", "", "evens_first"], mutants.shapes(["q=37x96", "s=37x3"]), ORDER),
    ("weights-widest", [sys.executable, str(SOURCE), "schedule=tile_n=256,warpgroups=1,stages=2,token_parts=4,in_flight=1"],
     ["--exact", *mutants.shapes(["w=5x5x512", "scales=80x5", "x=250x320"])], WIDEST),
    *[(f"weights-{name}", [sys.executable, str(SOURCE), out, "schedule=tile_n=16,warpgroups=1,stages=2,token_parts=2,in_flight=1,unroll=2,scaled_weights=1,long_sums=1"],
       [data, *mutants.shapes(["w=5x8x512", "scales=80x8", "x=30x512"])], chosen)
      for name, out, data, chosen in (("units", "out=f32", "--normal", UNITS), ("exact-units", "out=bf16", "--exact", EXACT_UNITS), ("edge-units", "out=bf16", "--edge-blocks", EDGE_UNITS))],
    case("halves", ["x=f16"], HALVES),
    ("weights-row-powers", [sys.executable, str(SOURCE), "group=32", "x=f16", "schedule=tile_n=8,warpgroups=1,depth=128,stages=2,in_flight=1,scaled_weights=1,long_sums=1"],
     ["--random", "3", *mutants.shapes(["w=9x3x512", "scales=144x5", "x=37x160"])], ROW_POWERS),
    ("weights-small-scales", [sys.executable, str(SOURCE), "group=32", "x=f16", "schedule=tile_n=8,warpgroups=1,depth=128,stages=2,in_flight=1,scaled_weights=1,long_sums=1"],
     [f"--in={name}=small_scales" for name in ("w", "scales", "x")], SMALL_SCALES),
    case("scaled-tokens", ["group=32", "x=f16", "scaled=1"], SCALED_TOKENS, "3x144x10", more=["--shape", "scales_x=30"],
         schedule="tile_n=8,warpgroups=1,depth=128,stages=2,in_flight=1,scaled_weights=1,long_sums=1,split=1"),
    ("weights-tokens-in-f16", [sys.executable, str(values.ROOT / "bench/variants.py"), "source", "quantize-f16", "vectors = 1, warps = 2, ctas_per_sm = 1"],
     ["--edge-blocks", "--schedule", "2", *mutants.shapes(["x=300x528"])], TOKENS_IN_F16),
    case("panels", [], PANELS, schedule="tile_n=8,panels=3,slices=2,depth=128,stages=2"),
    case("direct", [], DIRECT, schedule="tile_n=8,panels=3,slices=2,direct=1,depth=128,stages=2"),
    ("weights-all-stages", [sys.executable, str(SOURCE), "k=512", "schedule=tile_n=8,panels=1,slices=2,direct=1,whole=1,depth=128,stages=4,split=1"],
     ["--exact", *mutants.shapes(["w=17x8x512", "scales=272x8", "x=8x512"])], ALL_STAGES),
    ("weights-reused", [sys.executable, str(SOURCE), "schedule=tile_n=32,warpgroups=1,depth=128,stages=2,split=2,reuse=1,staged=1,in_flight=1"],
     ["--exact", "--schedule", "3", *mutants.shapes(["w=13x9x512", "scales=208x9", "x=150x576"])], REUSED),
    case("subnormal", [], SUBNORMAL, schedule="tile_n=8,panels=3,slices=2,depth=128,stages=2,subnormal=1"),
    case("subnormal-zeros", ["format=ui4", "zeros=1"], SUBNORMAL_ZEROS, more=["--shape", "zeros=3x144x5"], schedule="tile_n=8,warpgroups=1,stages=2,split=2,subnormal=1"),
    ("weights-tiles", [sys.executable, str(SOURCE), "schedule=tile_n=8,panels=1,slices=2,depth=128,stages=2"],
     ["--exact", *mutants.shapes(["w=17x2x512", "scales=272x2", "x=70x128"])], TILES),
    ("weights-table", [sys.executable, str(SOURCE), "experts=70", "schedule=tile_n=8,panels=2"],
     ["--exact", "--groups", "decreasing", "--random", "33", *mutants.shapes(["w=70x3x2x512", "scales=70x48x2", "x=140x128", "offs=70"])], TABLE),
    ("weights-ahead", [sys.executable, str(SOURCE), "constant=1", "bias=1", "schedule=tile_n=8,warpgroups=1,depth=128,stages=3,split=1"],
     ["--exact", *mutants.shapes(["w=9x4x512", "scales=144x4", "x=30x256", "bias=144"])], AHEAD),
    ("weights-one-tile", [sys.executable, str(SOURCE), "m=1", "n=144", "k=576", "schedule=tile_n=8,panels=3,slices=2,depth=128,stages=2,split=1"], ["--exact"], ONE_TILE),
    ("weights-few-tokens", [sys.executable, str(SOURCE), "schedule=tile_n=8,panels=3,slices=2,depth=128,stages=2"],
     ["--exact", *mutants.shapes(["w=9x9x512", "scales=144x9", "x=3x576"])], FEW_TOKENS),
    case("bias", ["bias=1"], BIAS, more=["--shape", "bias=3x144"]),
    case("unrolled", [], UNROLLED, schedule="tile_n=16,warpgroups=1,stages=2,token_parts=2,in_flight=1,unroll=2"),
    case("parts", [], PARTS_OF_TOKENS, schedule="tile_n=16,warpgroups=1,stages=2,token_parts=2,in_flight=1"),
    ("weights-parts-by-width", [sys.executable, str(SOURCE), "experts=1", "schedule=tile_n=32,warpgroups=1,stages=2,token_parts=2,widths=2,in_flight=1"],
     ["--exact", "--groups", "ragged", *mutants.shapes(["w=3x9x5x512", "scales=3x144x5", "x=150x320", "offs=3"])], [*PARTS_BY_WIDTH, *WIDTHS]),
]


def write_small_scales(scratch):
    """The file that weights-small-scales takes."""
    subprocess.run([sys.executable, SOURCE.parent / "small_scales.py", scratch / "small_scales", "-26", "9"], check=True)


if __name__ == "__main__":
    sys.exit(values.main(CASES, write_small_scales))
