"""Kernels damaged without knowledge of how the emulator works: what it must say, with the place and the reason.

    independent.py SUITE BUNDLE SCRATCH

The framework is that of mutants.py. A pattern that matches nothing is an error, so that a mutant goes with the kernel it damages.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

import mutants
from mutants import manifest, ptx

R = r"%r\d+"
DEADLOCK = "deadlock, no warp can go on"
SAME_WARP = "of the same warp: no bar.warp.sync is in between"
FAR = r"out\[\d+.*times as far from"
DIFFERENT = "elements differ"
LEFT = "starts as zero, and a call must leave it zero"
PAST = "after the end of"
DIVIDED = r"(has executed|exits without) line \d+ \(%s[^)]*\).*all four must execute the same"
BLOCKING_WAIT = r"(?s)\{\s*\.reg \.pred\s+P1;\s*LAB_WAIT:.*?DONE:\s*\}"


def at(instruction, reason):
    """The report of a fault at an instruction."""
    return rf"line \d+ \({instruction}[^)]*\), \w+ \(\d+,0,0\), warp \d+(, lane \d+)?: .*{reason}"


def drop(pattern, which=0, count=1):
    return ptx(pattern, "", which, count)


def by_three_warps(pattern):
    """Warp 0 of each warpgroup leaves an instruction out."""
    part = "mov.u32 OWN, %tid.x; and.b32 OWN, OWN, 127; setp.gt.u32 PART, OWN, 31;"
    return ptx(f"({pattern})", r"{ .reg .b32 OWN; .reg .pred PART; " + part + r" @PART \1 }")


def product(qa, qb, *more):
    rows, (experts, _, columns) = qa[0], qb
    sizes = {"qa": qa, "qb": qb, "sa": (rows,), "sb": (experts, columns), "offs": (experts,)}
    return [*shapes(**sizes), *more]


def gradient(rows, tokens, columns, groups, *more):
    sizes = {"qa": (rows, tokens), "qb": (tokens, columns), "sa": (groups, rows), "sb": (groups, columns), "offs": (groups,)}
    return [*shapes(**sizes), *more]


def shapes(**sizes):
    return mutants.shapes([f"{name}={'x'.join(map(str, size))}" for name, size in sizes.items()])


RAGGED = ["--groups", "ragged"]
WAIT_GRID = r"griddepcontrol\.wait;"
CLUSTER_BARRIER = r"barrier\.cluster\.arrive\.aligned;(\s*)barrier\.cluster\.wait\.aligned;"
LAST_CLUSTER_BARRIER = CLUSTER_BARRIER + r"(?=\s*ret;)"
FENCE = r"fence\.acq_rel\.gpu;"
BOUND = r"setp\.ge\.u32(\s+%p\d+, %r\d+, %r\d+;\s*(?:setp\.ge\.u32[^;]*;\s*)?or\.pred)"
CLAMPED_LOAD = rf"min\.u32(\s+{R}), ({R}), {R};(\s*mul\.wide\.u32[^;]*, 4;\s*add\.s64[^;]*;\s*ld\.global)"
CARRIED = r"shfl\.sync\.idx\.b32[^;]*, 31, 31, -1;"

SUITES = {
    # Ping-pong, few tiles; then the mutants that more groups or more tiles bring to light.
    "product": (
        product((150, 272), (4, 272, 528), *RAGGED),
        [
            (
                "a tile is announced before its slot is written",
                ptx(
                    r"((?:\tst\.shared\.v4\.b32[^\n]*\n){2})(\tmbarrier\.arrive\.shared\.b64[^\n]*\n)",
                    r"\2\1",
                ),
                at(r"ld\.shared", "the load races .* with a write by warp 8"),
            ),
            (
                "only one warpgroup hears of the end",
                drop(r"mbarrier\.arrive\.shared\.b64[^;]*;(?=\s*\$L__BB0_\d+:\s*ret;)"),
                DEADLOCK + r".*mbarrier\.try_wait",
            ),
            ("registers asked for by three warps of four", by_three_warps(r"setmaxnreg\.inc[^;]*;"), DIVIDED % "setmaxnreg"),
            ("the loader keeps its registers", drop(r"setmaxnreg\.dec[^;]*;"), r"waits at line \d+ \(setmaxnreg\.inc\S*\) for registers"),
            ("rows and columns stored up to their end, and it too", ptx(BOUND, r"setp.gt.u32\1", 0, 0), at(r"st\.global", f"{PAST} 'out'|races with a write by")),
            ("the last row's factor not clamped", ptx(CLAMPED_LOAD, r"mov.b32\1, \2;\3", 1), at(r"ld\.global\.b32", f"{PAST} 'sa'")),
            ("offsets read by lanes that have none", ptx(CLAMPED_LOAD, r"mov.b32\1, \2;\3", 0), at(r"ld\.global\.b32", f"{PAST} 'offs'")),
            (
                "the number of rows is taken for an offset beyond them",
                ptx(r"setp\.lt\.s32(\s+%p\d+, %r\d+, %r\d+;\s*selp\.b32\s+%r\d+, 2,)", r"setp.le.s32\1"),
                "an offset is beyond the rows",
            ),
            ("groups without rows are not passed over", ptx(r"setp\.le\.u32", "setp.lt.u32", count=0), FAR),
            ("a product that ptxas may contract", ptx(r"mul\.rn\.f32", "mul.f32"), r"line \d+: mul\.f32: no rounding is given"),
            ("groups of 8 rows lie 512 bytes apart", ptx("4611686293305360384", "4611686155866406912", 0, 0), FAR),
            ("shuffle of half a warp", ptx(r"(shfl\.sync\.up\.b32[^;]*), -1;", r"\1, 65535;", 2), at(r"shfl\.sync\.up", "the mask names lanes 0x0000ffff")),
            ("the columns' box in the middle of the rows'", ptx(r"(add\.s64[^;]*), 16384;(?=[^;]*;[^;]*;\s*cp\.async)", r"\1, 8192;", count=0), at(r"cp\.async\.bulk\.tensor\.3d", "the bulk load races .* with a write by a bulk load")),
            ("one box less announced", ptx(r"mov\.b32(\s+%r\d+), 32768;(?=\s*mbarrier\.arrive\.expect_tx)", r"mov.b32\1, 16384;", count=0), "bytes land|more bytes"),
            ("weights of expert 0 for all", manifest("functions", 0, "launches", 0, "parameters", 5, lambda map: map | {"dims": [*map["dims"][:2], 1]}), FAR),
        ],
    ),
    "groups": (
        product((700, 144), (40, 144, 144), "--groups", "edge", "--exact", "--nan-groups"),
        [
            ("groups behind the 32nd not read", ptx(r"(add\.s32[^;]*, 128;\s*)setp\.lt\.s32[^;]*;\s*@%p\d+ bra[^;]*;", r"\1"), "depends on uninitialized shared memory"),
            ("tiles not carried to the next 32 groups", drop(CARRIED, 1), DIFFERENT),
            ("the sum over the warp without its last step", ptx(r"(shfl\.sync\.up\.b32[^;]*, 16, 0, -1;\s*)selp\.b32(\s+%r\d+), 0, %r\d+, %p\d+;", r"\1mov.b32\2, 0;"), DIFFERENT),
            ("staged rows read before all lanes have written", drop(r"bar\.warp\.sync[^;]*;", 2), at(r"(?:ld\.shared|cp\.async\.bulk\.tensor)", SAME_WARP)),
            ("staged rows overwritten before all lanes have read", drop(r"bar\.warp\.sync[^;]*;", 3), at("stmatrix", f"(?:{SAME_WARP}|whose wait_group has not been seen by this warp)")),
            ("factors of columns overwritten while others read", drop(r"bar\.sync \s*%r\d+, 128;", 0), at(r"st\.shared", "the store races .* with a read by warp")),
        ],
    ),
    # Data that are wrong on purpose.
    "reports": (
        product((150, 272), (4, 272, 528), "--groups", "decreasing"),
        [("nothing is reported", drop(r"atom\.global\.or\.b32[^;]*;"), "does not report that an offset is below")],
    ),
    "reports_beyond": (
        product((150, 272), (4, 272, 528), "--groups", "beyond"),
        [("an offset is taken for one that decreases", ptx(r"selp\.b32(\s+%r\d+), 2,", r"selp.b32\1, 1,"), "does not report that an offset is beyond|an offset is below")],
    ),
    "carried": (
        product((80, 16), (40, 16, 64), "--groups", "decreasing", "--random", "32"),
        [("the last of 32 offsets is not carried to the next", drop(CARRIED, 2), "does not report that an offset is below")],
    ),
    "flushed": (
        product((150, 272), (4, 272, 528), *RAGGED, "--exact"),
        [("products with the scales flushed", ptx(r"mul\.rn\.f32", "mul.rn.ftz.f32", 0, 0), DIFFERENT)],
    ),
    "slots": (
        product((64, 16), (2, 16, 5120)),
        [
            ("one slot more than there are", ptx(rf"(setp\.eq\.b32\s+%p\d+, {R}, )8;", r"\g<1>9;"), at(r"mbarrier\.try_wait", "phases two apart have the same parity")),
            # One lane arrives for all of its warp, without a barrier.
            (
                "a slot is given back while lanes read it",
                ptx(
                    r"mbarrier\.arrive\.shared\.b64 (\s*%rd\d+, \[%rd\d+\+197152\]);\s*bar\.warp\.sync[^;]*;",
                    r"{ .reg .pred FIRST; .reg .b32 T; mov.u32 T, %laneid; setp.eq.u32 FIRST, T, 0; @FIRST mbarrier.arrive.shared.b64 \1, 32; }",
                ),
                at(r"st\.shared", "the store races .* with a read by warp"),
            ),
        ],
    ),
    "turns": (
        product((128, 128), (1, 128, 2048)),
        [("the turn is not passed on", ptx(r"(or\.pred[^;]*;\s*@%p\d+ bra[^;]*;\s*)mbarrier\.arrive\.shared\.b64[^;]*;", r"\1"), DEADLOCK)],
    ),
    "older_phases": (
        product((128, 512), (1, 512, 4096)),
        [("turns are not waited for", drop(BLOCKING_WAIT, 1), at(r"mbarrier\.try_wait", "phases two apart have the same parity"))],
    ),
    "three_warps": (
        product((128, 784), (1, 784, 2048)),
        [
            ("a commit by three warps of four", by_three_warps(r"wgmma\.commit_group[^;]*;"), DIVIDED % "wgmma"),
            ("a wait by three warps of four", by_three_warps(r"wgmma\.wait_group\.sync\.aligned\s+1;"), DIVIDED % "wgmma"),
            ("a fence by three warps of four", by_three_warps(r"wgmma\.fence[^;]*;"), DIVIDED % "wgmma"),
        ],
    ),
    "clusters": (
        product((300, 272), (4, 272, 272), *RAGGED),
        [
            ("the last barrier is that of the CTA", ptx(LAST_CLUSTER_BARRIER, r"bar.sync 0;"), at("ret", "exits while its shared memory may still be touched")),
            ("the last barrier is not waited for", ptx(LAST_CLUSTER_BARRIER, r"barrier.cluster.arrive.aligned;"), at("ret", "exits while its shared memory may still be touched")),
            ("the last arrival is relaxed", ptx(LAST_CLUSTER_BARRIER, r"barrier.cluster.arrive.relaxed.aligned;\1barrier.cluster.wait.aligned;"), at("ret", "exits while its shared memory may still be touched")),
            ("the first arrival is relaxed", ptx(CLUSTER_BARRIER, r"barrier.cluster.arrive.relaxed.aligned;\1barrier.cluster.wait.aligned;"), r"the load races at shared address 0x\w+ with a write by warp 0"),
            ("a copy to more CTAs than there are", ptx(r"mov\.b16(\s+%rs\d+), 3;", r"mov.b16\1, 7;", count=0), at(r"cp\.async\.bulk\.tensor", "the mask 0x7")),
            ("a copy to CTA 0 alone", ptx(r"mov\.b16(\s+%rs\d+), 3;", r"mov.b16\1, 1;", count=0), DEADLOCK),
            ("both CTAs load into the first half", ptx(r"mul\.wide\.u32(\s+%rd\d+, %r\d+), 8192;", r"mul.wide.u32\1, 0;"), at(r"cp\.async\.bulk\.tensor", "the bulk load races")),
            ("a CTA announces only what it loads itself", ptx(r"mov\.b32(\s+%r\d+), 32768;(?=\s*mbarrier\.arrive\.expect_tx)", r"mov.b32\1, 24576;", count=0), "bytes land in phase 1 .* they belong to phase 0"),
            ("stages are free when one CTA has read them", ptx(r"mov\.b32(\s+%r\d+), 8;(?=\s*mbarrier\.init)", r"mov.b32\1, 4;"), "the bulk load races|phases two apart have the same parity"),
            ("stages are given back to CTA 0 alone", ptx(r"(mapa\.shared::cluster\.u64[^;]*, )%r\d+;", r"\g<1>0;", 0, 0), at(r"cp\.async\.bulk\.tensor", "the bulk load races")),
            ("a tile for each CTA", ptx(r"%clusterid\.x", "%ctaid.x"), at(r"(?:st\.global|cp\.async\.bulk\.tensor)", "in 'out' races with a write by")),
            ("clusters counted as CTAs", ptx(r"%nclusterid\.x", "%nctaid.x"), FAR),
        ],
    ),
    "gradient": (
        gradient(144, 304, 272, 4, *RAGGED),
        [
            ("a cleared stage without a proxy fence", drop(r"fence\.proxy\.async\S*;", 4), at("wgmma", "after an ordinary write by warp .* without a fence.proxy.async")),
            ("a stage is full when one of three warps has cleared it", ptx(r"mbarrier\.arrive\.shared\.b64 (\s*%rd\d+, \[%rd\d+\+196608\]);", r"{ .reg .pred FIRST; .reg .b32 T; mov.u32 T, %tid.x; setp.lt.u32 FIRST, T, 320; @FIRST mbarrier.arrive.shared.b64 \1, 3; }"), at("wgmma", "(after an ordinary write by|races .* with a write by) warp")),
            ("the order of the groups is read too early", drop(r"bar\.sync \s*0;", 1), at(r"ld\.shared", "the load races .* with a write by warp")),
            ("what to clear is not asked for", drop(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+197264\];", 0, 2), DEADLOCK),
            ("the last CTA leaves the count of CTAs", drop(r"atom\.global\.exch[^;]*;", 1), LEFT),
            ("tiles counted in the CTA's scope", ptx(r"atom\.global\.add", "atom.relaxed.cta.global.add"), at(r"atom\.relaxed\.cta", "an atomic .* in 'counters' races")),
            ("tiles counted by a load and a store", ptx(rf"atom\.global\.add\.u32(\s+{R}), (\[%rd\d+\]), 1;", r"ld.global.b32\1, \2; { .reg .b32 NEXT; add.s32 NEXT,\1, 1; st.global.b32 \2, NEXT; }"), at(r"ld\.global", "a read .* in 'counters' races")),
            ("the next tile known to one lane", ptx(rf"shfl\.sync\.idx\.b32(\s+{R}), ({R}), 0, 31, -1;", r"mov.b32\1, \2;", 10), "a uniform branch that lanes"),
            ("a group's first token as it is", ptx(r"and\.b32(\s+%r\d+), (%r\d+), -128;", r"mov.b32\1, \2;", 1), at(r"cp\.async\.bulk\.tensor", "the innermost coordinate is .* must be a multiple of 16")),
        ],
    ),
    "promoted": (
        product((150, 272), (4, 272, 272), *RAGGED),
        [
            ("one partial sum not added", drop(r"add\.rn\.f32[^;]*;", 136), FAR),
            ("a sum that ptxas may contract", ptx(r"add\.rn\.f32", "add.f32"), r"line \d+: add\.f32: no rounding is given"),
            ("a warpgroup without rows gives nothing back", ptx(r"(bar\.warp\.sync[^;]*;\s*@%p\d+ bra[^;]*;\s*(?:(?:shl|cvt|add)[^;]*;\s*)*)mbarrier\.arrive\.shared\.b64[^;]*;", r"\1"), DEADLOCK),
            ("products waited for but the last group", ptx(r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;", 0, 0), at(r"cp\.async\.bulk\.tensor", "with a read by a wgmma .* that has not been waited for")),
            ("the factors of columns behind the 128th not fetched", drop(r"st\.shared\.b32[^;]*;(?=\s*\$L__BB0_\d+:\s*(?:selp[^;]*;\s*)?bar\.sync)"), "depends on uninitialized shared memory"),
            ("factors of columns written while another warp stores the tile before", drop(r"bar\.sync[^;]*, 128;"), "races"),
            ("a tile stored before there is one", ptx(r"(redux\.sync\.or\.b32\s+(%r\d+)[^;]*;\s*setp\.eq\.b32\s+%p\d+, \2), 0;(\s*@)", r"\1, -1;\3"), "depends on uninitialized shared memory"),
        ],
    ),
    "three_warpgroups": (
        product((450, 272), (4, 272, 272), *RAGGED),
        [
            ("a stage that two of three warpgroups give back", ptx(r"(mov\.b32\s+%r\d+), 12;", r"\1, 8;"), "phases two apart have the same parity|races"),
            ("the third warpgroup multiplies the rows of the second", ptx(r"(mul\.wide\.u32\s+%rd\d+, %r\d+), 8192;", r"\1, 4096;", 0, 0), FAR),
            ("rows of two warpgroups loaded", manifest(*mutants.LAUNCH, 4, "box", [128, 128]), DEADLOCK),
            ("results stored as if they were not swizzled", manifest(*mutants.LAUNCH, 10, "swizzle", "none"), FAR),
        ],
    ),
    "swapped": (
        product((150, 272), (4, 272, 528), *RAGGED),
        [
            ("the result not transposed", ptx(r"\.trans", "", 0, 0), FAR),
            ("a warpgroup without rows gives nothing back", ptx(r"(bar\.warp\.sync[^;]*;\s*@%p\d+ bra[^;]*;\s*(?:(?:shl|cvt|add)[^;]*;\s*)*)mbarrier\.arrive\.shared\.b64[^;]*;", r"\1"), DEADLOCK),
        ],
    ),
    "scales": (
        [*shapes(x=(300, 272), offs=(4,)), *RAGGED, "--edge-blocks"],
        [
            ("no fence before a CTA counts itself", drop(FENCE, 0), at("atom", "nothing orders this atomic")),
            ("no fence after a CTA has counted itself", drop(FENCE, 1), at("atom", "nothing orders this atomic")),
            ("fences of the CTA's scope", ptx(FENCE, "fence.acq_rel.cta;", 0, 0), at("atom", "nothing orders this atomic")),
            ("maxima of the CTA's scope", ptx(r"atom\.global\.max", "atom.relaxed.cta.global.max"), at(r"atom\.relaxed\.cta", "an atomic .* races")),
            ("the maxima of warps are read too early", drop(r"bar\.sync \s*0;", 1), at(r"ld\.shared", "the load races .* with a write by warp")),
            ("who is last is asked too late", drop(r"bar\.sync \s*0;", 3), at(r"st\.shared", "the store races .* with a read by warp")),
            ("one CTA fewer counted", ptx(r"(atom\.global\.add[^;]*;\s*fence[^;]*;\s*mul[^;]*;\s*add\.s32[^;]*, )1;", r"\g<1>2;"), "nothing orders this atomic"),
            ("the maximum is read by .nc", ptx(rf"atom\.global\.exch\.b32(\s+{R}), (\[%rd\d+\]), 0;", r"ld.global.nc.b32\1, \2; st.global.b32 \2, 0;"), at(r"(ld\.global\.nc|st\.global)", ".nc is only for what nothing writes")),
            ("the maximum is left", ptx(rf"atom\.global\.exch\.b32(\s+{R}), (\[%rd\d+\]), 0;", r"ld.global.b32\1, \2;"), LEFT),
            ("vectors that end with the row begin anywhere", ptx(rf"(add\.s32\s+{R}, {R}), -8;", r"\1, -7;"), at(r"ld\.global\.v4", "is not a multiple of 16")),
        ],
    ),
    # One element in 2, in 16, in 128 does not count as it should: it shows where that one alone is the greatest.
    "columns": (
        [*shapes(x=(700, 272), offs=(30,)), "--groups", "edge", "--edge-blocks"],
        [("half of the columns do not count", ptx(r"(shfl\.sync\.bfly\.b32[^;]*), 2, 31, -1;", r"\1, 1, 31, -1;"), DIFFERENT)],
    ),
    "warps": (
        [*shapes(x=(16384, 16), offs=(64,)), "--edge-blocks", "--random", "2"],
        [("the last of 16 warps does not count", ptx(rf"max\.u32(\s+{R}), ({R}), {R};(\s*add\.s64[^;]*;\s*atom\.global\.max)", r"mov.b32\1, \2;\3"), DIFFERENT)],
    ),
    "words": (
        [*shapes(x=(400, 64), offs=(250,)), *RAGGED, "--edge-blocks", "--random", "8"],
        [("a word keeps its sign", ptx(rf"and\.b32(\s+{R}), ({R}), 2147450879;", r"mov.b32\1, \2;", 5), DIFFERENT)],
    ),
    "both_scales": (
        [*shapes(x=(700, 272), offs=(4,)), *RAGGED, "--edge-blocks"],
        [
            ("the last fence dropped", drop(FENCE, 3), at("atom", "nothing orders this atomic")),
            ("the flags are read before they are written", drop(r"bar\.sync \s*0;", 3), "depends on uninitialized shared memory"),
        ],
    ),
    "recipe": (
        [*shapes(a=(150, 272), b=(4, 272, 272), offs=(4,)), *RAGGED, "--normal"],
        [
            ("the launch in the middle does not wait", drop(WAIT_GRID, 1), at(r"cp\.async\.bulk\.tensor", "a launch uses that may go on")),
            ("the product does not wait", drop(WAIT_GRID, 2), at(r"cp\.async\.bulk\.tensor", "a launch before this one uses, without a griddepcontrol.wait")),
            ("scales of the launch before by .nc", ptx(r"ld\.global\.b32", "ld.global.nc.b32", 0, 0), at(r"ld\.global\.nc", "which a launch before this one uses, by .nc")),
            ("factors for scales", ptx(rf"rcp\.rn\.f32(\s+{R}), ({R});", r"mov.b32\1, \2;", 0), FAR),
        ],
    ),
    "dual": (
        [*shapes(x=(3, 96, 416)), "--edge-blocks"],
        [
            ("the first result without a proxy fence", drop(r"fence\.proxy\.async\S*;", 0), at(r"cp\.async\.bulk", "without a fence.proxy.async")),
            ("the second result without a proxy fence", drop(r"fence\.proxy\.async\S*;", 1), at(r"cp\.async\.bulk", "without a fence.proxy.async")),
            ("a store that is part of no group", drop(r"cp\.async\.bulk\.commit_group;", 0), at(r"st\.shared", "whose wait_group has not been seen")),
            ("the CTA does not wait for its last store", drop(r"cp\.async\.bulk\.wait_group\.read[^;]*;", 2), at("ret", "exits while 1 bulk groups may still read")),
            ("scales of a block behind the last", ptx(BOUND, r"setp.gt.u32\1", 0, 0), "in 'st' races with a write by another"),
        ],
    ),
    "loads": (
        [*shapes(x=(96, 416)), "--edge-blocks"],
        [("a tile more is loaded than there are", ptx(rf"setp\.lt\.s32(\s+%p\d+, {R}, {R};\s*@%p\d+ bra[^;]*;\s*bra\.uni)", r"setp.le.s32\1", 1), at("ret", "exits while bulk loads may still write its shared memory"))],
    ),
    "rows": (
        [*shapes(x=(20, 20000)), "--edge-blocks"],
        [
            ("a team's maxima read too early", drop(r"bar\.sync \s*%r\d+, %r\d+;", 0), at(r"ld\.shared", SAME_WARP + "|with a write by warp")),
            ("all teams meet at one barrier", ptx(rf"add\.s32(\s+{R}), {R}, 1;(?=\s*mul\.lo)", r"mov.b32\1, 1;"), "depends on uninitialized shared memory"),
            ("the last of eight warps does not count", ptx(rf"add\.s32(\s+{R}, {R}), {R};(?=\s*cvt\.u64\.u32[^;]*;\s*setp\.le)", r"add.s32\1, 7;"), DIFFERENT),
        ],
    ),
    "stream": (
        [*shapes(x=(70, 32))],
        [
            ("values behind the end of a chunk stored", ptx(r"setp\.ge\.u32(\s+%p\d+, %r\d+, %r\d+;\s*@%p\d+ bra[^;]*;\s*cvt)", r"setp.gt.u32\1", 0, 0), at(r"st\.global", f"{PAST} 'q'")),
            ("lanes of other blocks give the factor", ptx(", 7199, -1", ", 4127, -1", 0, 0), DIFFERENT),
            ("stores four bytes beside", ptx(r"(st\.global\.v4\.b16\s+\[%rd\d+\+)256\]", r"\g<1>252]"), at(r"st\.global", "is not a multiple of 8")),
        ],
    ),
    "least_scales": (
        [*shapes(x=(70, 416)), "--edge-blocks"],
        [
            ("the least scale one number too early", ptx(", 4194305;", ", 4194304;"), DIFFERENT),
            ("what gives the least scales flushed", ptx(rf"mul\.rn\.f32(\s+{R}, {R}, 0f3B124925)", r"mul.rn.ftz.f32\1"), DIFFERENT),
        ],
    ),
    "blocks": (
        [*shapes(x=(3, 200, 416)), "--edge-blocks"],
        [("a row behind the last stored", ptx(r"setp\.ge\.u32", "setp.gt.u32", 0, 0), at(r"st\.global", f"{PAST} 'q'|races"))],
    ),
    "dequantize": (
        [*shapes(q=(70, 416), s=(70, 13)), "--edge-blocks"],
        [
            ("subnormals lost", ptx(r"mul\.rn\.", "mul.rn.ftz.", 0, 0), DIFFERENT),
            ("a scale that is NaN gives a number", ptx(", 255", ", 254", 0, 0), DIFFERENT),
        ],
    ),
    "dequantize_groups": (
        [*shapes(q=(1616, 144), s=(75, 144), offs=(24,)), "--groups", "edge", "--nan-groups"],
        [
            ("scales of a group elsewhere", ptx(r"(shr\.u32 \s*%r\d+, %r\d+, 5;\s*shr\.u32 \s*%r\d+, %r\d+), 5;(\s*add\.s32)", r"\1, 6;\2"), DIFFERENT),
            ("a token of no group written", ptx(r"(selp\.b32 \s*%r\d+, %r\d+), -1,( %p\d+;\s*st\.shared)", r"\1, 0,\2"), "is in no group, and was written"),
        ],
    ),
    "dequantize_aligned": (
        [*shapes(q=(3840, 144), s=(120, 144), offs=(24,)), "--groups", "edge", "--nan-groups"],
        [
            ("padding not written", ptx(r"(selp\.b32 \s*%r\d+, %r\d+), -2,", r"\1, -1,"), DIFFERENT),
            ("a block without tokens written", ptx(r"(and\.b32 \s*%r\d+, %r\d+), -128;(\s*setp\.lt\.u32)", r"\1, -256;\2"), DIFFERENT),
        ],
    ),
    "dequantize_side": (
        [*shapes(q=(3840, 144), s=(120, 144), offs=(24,)), "--groups", "edge", "--nan-groups"],
        [
            ("padding times its scale", ptx(r"selp\.f32 \s*(%r\d+), (%r\d+), 0f00000000, %p\d+;", r"mov.b32 \1, \2;", 0, 0), DIFFERENT),
            ("scales of the rows before", ptx(r"(shr\.u32 \s*%r\d+, %r\d+), 5;", r"\1, 6;", 0, 0), DIFFERENT),
        ],
    ),
    "pack": (
        [*shapes(s=(300, 20), offs=(4,)), *RAGGED],
        [
            ("what pads a tile not cleared", drop(r"st\.shared\.b32\s+\[%rd\d+\], 0;", 1), "depends on uninitialized shared memory"),
            ("the table of groups read too early", drop(r"bar\.sync \s*0;", 0), at(r"ld\.shared", SAME_WARP)),
        ],
    ),
    "cast": (
        [*shapes(x=(300, 272), f=(4,), offs=(4,)), *RAGGED],
        [("the last tile's values leave without a proxy fence", drop(r"fence\.proxy\.async\S*;"), at(r"cp\.async\.bulk", "without a fence.proxy.async"))],
    ),
}

if __name__ == "__main__":
    mutants.ARGUMENTS, mutants.CHOSEN = SUITES[sys.argv.pop(1)]
    sys.exit(mutants.main())
