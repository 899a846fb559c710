"""Damages a bundle of the quantize kernel, one way at a time, and asks moe-run to check each on the emulator.

Usage: mutants.py BUNDLE SCRATCH          run all; fails where one is not caught, or is caught by something else
       mutants.py BUNDLE SCRATCH --table FILE  also write what caught each, as a Markdown table
       mutants.py BUNDLE SCRATCH --rows   run those of the kernel that writes tiles in rows; BUNDLE is of rows.mlir
                                 --stream, --fp8-rows, --fp8-scales, --fp8-pair, --fp8-columns, --fp8-aligned, --fp8-squares   those of the file of this name
                                 --products, --counted, --by-size, --clusters, --pingpong, --gradients, --blocks, --direct, --token-blocks, --aligned, --rows-aligned, --mx, --mx-tokens, --halves, --cluster-halves, --wide, --ahead, --ahead-of-few   those of scaled_mm, mm and dequantize_mm
                                 --round   those of round_dual
                                 --dual    those of quantize_dual by clusters
                                 --order   the order between blocks in two scale_fp8_dual; BUNDLE as of --fp8-scales
                                 --chain   five launches: both operands quantized in two passes each, and the product

A mutant changes the PTX (a regular expression, which must match) or the manifest. `caught` is a part of what moe-run must say.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import os
import re
import shutil
import subprocess
import sys

# More tiles than blocks, and more of them than stages: every barrier is used again.
SHAPE = "w=3x416x656"
ROW_SHAPE = "w=416x768,416x672"
# More chunks than warps, the last one not full; one chunk and a block.
STREAM_SHAPE = "w=415x96,33x32"
# Teams of two warps, one of four, and rows that do not fit.
FP8_ROW_SHAPE = "w=96x1000,40x2000,17x5000"
FP8_SCALE_SHAPE = "x=3x96x520,1x33x264,3x96x64"
FP8_PAIR_SHAPE = "x=304x272,96x64,288x528"
DIFFERENT = "elements differ"
WAIT = r"(?s)\{\s*\.reg \.pred\s+P1;.*?\}"  # an inline wait on an mbarrier


def ptx(pattern, replacement="", which=0, count=1):
    """Replaces match number `which` of the pattern."""

    def change(text, _):
        matches = list(re.finditer(pattern, text))
        if len(matches) <= which:
            raise SystemExit(f"mutants.py: no match of {pattern!r}: the kernel has changed")
        for match in reversed(matches[which : which + count] if count else matches[which:]):
            text = text[: match.start()] + match.expand(replacement) + text[match.end() :]
        return text

    return change


def manifest(*path_and_value):
    """Sets a field of the manifest."""
    *path, last, value = path_and_value

    def change(text, description):
        at = description
        for key in path:
            at = at[key]
        at[last] = value(at[last]) if callable(value) else value
        return text

    return change


LAUNCH = ("functions", 0, "launches", 0, "parameters")
STORE = r"(cp\.async\.bulk\.tensor\.3d\.global\S+ \[\S+ \{)(\S+), (\S+), (\S+)\}\], \[dynamic_shared_memory\];"
LOAD = r"cp\.async\.bulk\.tensor\.3d\.shared::cluster\S+ \[(\S+)\], (.*?), \[(\S+)\+(\d+)\];"

MUTANTS = [
    # Fences
    ("fence.mbarrier_init dropped", ptx(r"fence\.mbarrier_init\S+;"), "not visible to the async proxy"),
    ("fence.proxy.async dropped", ptx(r"fence\.proxy\.async\S+;"), "without a fence.proxy.async in between"),
    ("fence.proxy.async by all threads but one", ptx(r"(fence\.proxy\.async\S+;)", r"@%p18 \1"),
     "without a fence.proxy.async in between"),
    # Barriers
    ("block barrier after the initialization dropped", ptx(r"bar\.sync\s+0;"), "mbarrier"),
    ("barrier before the bulk store dropped", ptx(r"bar\.sync\s+1, 256;"), "the bulk store .*(races|uninitialized)"),
    ("barrier after the wait for the bulk store dropped", ptx(r"bar\.sync\s+2, 256;"), "the store races"),
    ("barrier 1 becomes barrier 0 of the whole block", ptx(r"bar\.sync\s+1, 256;", "bar.sync 0;"), "deadlock"),
    ("barrier of fewer threads than come", ptx(r"bar\.sync\s+1, 256;", "bar.sync 1, 224;"), "barrier|the bulk store races"),
    ("barrier of more threads than come", ptx(r"bar\.sync\s+1, 256;", "bar.sync 1, 288;"), "deadlock"),
    ("barrier counts that disagree", ptx(r"bar\.sync\s+2, 256;", "@%p8 bar.sync 2, 256;"), "all must come together"),
    ("barrier of lanes that have gone apart", ptx(r"(bar\.warp\.sync\s+-1;)", r"@%p8 \1"), "the mask names lanes"),
    ("warp barrier before the release dropped", ptx(r"bar\.warp\.sync\s+-1;"), "the bulk load races .* a read by warp"),
    # mbarriers
    ("a full mbarrier not initialized", ptx(r"mbarrier\.init\S+\s+\[\S+\], %r\d+;"), "no mbarrier has been initialized"),
    ("an empty mbarrier not initialized", ptx(r"mbarrier\.init\S+\s+\[\S+\], %r\d+;", which=1),
     "no mbarrier has been initialized"),
    ("an mbarrier initialized twice", ptx(r"(mbarrier\.init\S+\s+\[\S+\], %r\d+;)", r"\1 \1"), "holds an mbarrier already"),
    ("full mbarriers wait for 2 arrivals", ptx(r"mov\.b32 (\s*%r\d+), 1;(\s*mbarrier\.init)", r"mov.b32 \1, 2;\2"), "deadlock"),
    ("empty mbarriers wait for 7 of 8 arrivals", ptx(r"mov\.b32 (\s*%r\d+), 8;(\s*mbarrier\.init)", r"mov.b32 \1, 7;\2"),
     "races|arrivals in phase|deadlock"),
    ("empty mbarriers wait for 9 arrivals", ptx(r"mov\.b32 (\s*%r\d+), 8;(\s*mbarrier\.init)", r"mov.b32 \1, 9;\2"), "deadlock"),
    ("an arrival dropped", ptx(r"mbarrier\.arrive\.shared\.b64[^;]*;"), "deadlock"),
    ("every lane arrives, not one", ptx(r"@%p\d+ bra\s+\S+;(\s*add\.s64 \s*\S+, \S+, \d+;\s*mbarrier\.arrive\.shared)", r"\1"),
     "deadlock|arrivals in phase|two apart have the same parity"),
    ("consumers do not wait for the load", ptx(WAIT), "a bulk load .* not been waited for|uninitialized"),
    ("consumers try to wait, once", ptx(r"bra\.uni\s+LAB_WAIT;"), "a bulk load .* not been waited for"),
    ("the producer does not wait for the readers", ptx(WAIT, which=1), "arrivals in phase"),
    ("the producer tries to wait, once", ptx(r"bra\.uni\s+LAB_WAIT;", which=1), "arrivals in phase|the bulk load races|land in phase|announced"),
    ("consumers' parity flipped", ptx(r"(try_wait\.parity\.shared\.b64 P1, \[%r\d+\], )%r\d+", r"\g<1>1"),
     "a bulk load .* not been waited for|uninitialized|deadlock|two apart have the same parity"),
    ("producer's parity flipped", ptx(r"(xor\.b32\s+%r\d+, %r\d+), 1;", r"\1, 0;"), "deadlock"),
    ("consumers' parity never changes", ptx(r"selp\.b32\s+(%r\d+), 1, 0, %p\d+;", r"mov.b32 \1, 0;"),
     "a bulk load .* not been waited for|deadlock|two apart have the same parity"),
    ("producer's parity never changes", ptx(r"selp\.b32\s+(%r\d+), 1, 0, %p\d+;", r"mov.b32 \1, 0;", which=1),
     "arrivals in phase"),
    ("fewer bytes announced than land", ptx(r"(mov\.b32\s+%r\d+), 32768;", r"\1, 32752;"), "more bytes land|fewer bytes"),
    ("more bytes announced than land", ptx(r"(mov\.b32\s+%r\d+), 32768;", r"\1, 32784;"), "deadlock"),
    ("half of the bytes announced", ptx(r"(mov\.b32\s+%r\d+), 32768;", r"\1, 16384;"), "fewer bytes than it got|not been waited for"),
    ("no bytes announced", ptx(r"mbarrier\.arrive\.expect_tx\S+ (\S+, \[\S+\]), \S+;", r"mbarrier.arrive.shared.b64 \1;"),
     "fewer bytes than it got|not been waited for|land"),
    ("one stage more than there are", ptx(r"(setp\.eq\.b32\s+%p\d+, %r\d+), 3;", r"\1, 4;", count=2), "mbarrier"),
    # Bulk copies
    ("wait before reusing the store's buffer dropped", ptx(r"cp\.async\.bulk\.wait_group\.read\s+0;"), "bulk group"),
    ("wait before the exit dropped", ptx(r"cp\.async\.bulk\.wait_group\.read\s+0;", which=1), "may still read shared memory"),
    ("commit dropped", ptx(r"cp\.async\.bulk\.commit_group;"), "commit_group|races"),
    ("one of two loads dropped", ptx(LOAD), "deadlock"),
    ("both loads to one place", ptx(r"add\.s64 \s*(%rd\d+), (%rd\d+), 32768;", r"add.s64 \1, \2, 16384;"), "the bulk load races"),
    ("load to a misaligned place", ptx(r"add\.s64 \s*(%rd\d+), (%rd\d+), 32768;", r"add.s64 \1, \2, 32832;"), "multiple of"),
    ("load into the next stage", ptx(r"add\.s64 \s*(%rd\d+), (%rd\d+), 32768;", r"add.s64 \1, \2, 49152;"), "races|uninitialized"),
    ("load past the end of shared memory", ptx(r"add\.s64 \s*(%rd\d+), (%rd\d+), 32768;", r"add.s64 \1, \2, 131072;"),
     "outside of the CTA's"),
    ("load completes on the empty mbarrier", ptx(r"(cp\.async\.bulk\.tensor\.3d\.shared::cluster[^;]*)\+114688\];", r"\1+114712];"),
     "land|deadlock"),
    ("load from the tile beside", ptx(r"or\.b32 \s*(%r\d+), (%r\d+), 64;(\s*add\.s64)", r"mov.b32 \1, \2;\3"), DIFFERENT),
    ("store before the tile is complete", ptx(r"(?s)(st\.shared\.v4\.b32\s+\[)(%rd\d+)(\].*?st\.shared\.v4\.b32\s+\[)%rd\d+\]", r"\1\2\3\2]"), "uninitialized|differ"),
    ("store from the loads' buffer", ptx(STORE, r"\1\2, \3, \4}], [dynamic_shared_memory+16384];"), "the bulk store"),
    ("store with swapped coordinates", ptx(STORE, r"\1\3, \2, \4}], [dynamic_shared_memory];"), "differ|another CTA"),
    ("store of a tile past the tensor", ptx(STORE, r"\1\2, \3, 3}], [dynamic_shared_memory];"), DIFFERENT),
    # Addresses
    ("bounds of the scales not checked", ptx(r"@%p15 bra\s+\$L__BB0_11;"), "another CTA|after the end of|outside"),
    ("scales stored past the end", ptx(r"(st\.global\.b16\s+\[%rd\d+)\]", r"\1+1048576]"), "after the end of 'scales'"),
    ("scales stored before the start", ptx(r"(st\.global\.b16\s+\[%rd\d+)\]", r"\1+-1073741824]"), "bytes before|after the end of"),
    ("scales stored misaligned", ptx(r"(st\.global\.b16\s+\[%rd\d+)\]", r"\1+1]"), "not a multiple of 2"),
    ("shared store misaligned", ptx(r"(st\.shared\.v4\.b32\s+\[%rd\d+)\]", r"\1+4]"), "not a multiple of 16"),
    ("warps write each other's part", ptx(r"and\.b32 \s*(%r\d+), %r\d+, 64;", r"mov.b32 \1, 0;"), "the store races"),
    ("shared load past the stages", ptx(r"(ld\.shared\.b32\s+%r\d+, \[%rd\d+\+)16384\]", r"\g<1>999999]"), "outside of the CTA's|not a multiple"),
    ("shared load of another stage", ptx(r"(ld\.shared\.b32\s+%r\d+, \[%rd\d+\+)16384\]", r"\g<1>49152]"),
     "not been waited for|uninitialized"),
    # Registers and control flow
    ("a register not initialized", ptx(r"mov\.b32 \s*%r\d+, 0;(\s*setp\.ne\.b32)", r"\1"), "read before it is written"),
    ("the producer stops early", ptx(r"@%p\d+ bra\s+\$L__BB0_18;"), "deadlock"),
    ("an endless loop", ptx(r"(div\.u32[^;]*;)", r"SPIN: bra.uni SPIN; \1"), "the limit of \\d+ steps"),
    ("a uniform branch that is not", ptx(r"@(%p\d+) bra\s+(\S+;\s*cp\.async\.bulk\.wait_group)", r"@\1 bra.uni \2"), "uniform branch"),
    # The manifest
    ("input map without its swizzle", manifest(*LAUNCH, 3, "swizzle", "none"), DIFFERENT),
    ("output map without its swizzle", manifest(*LAUNCH, 4, "swizzle", "none"), DIFFERENT),
    ("input box too small", manifest(*LAUNCH, 3, "box", lambda box: [box[0], box[1] // 2, box[2]]), "deadlock"),
    ("too little shared memory", manifest("kernels", 0, "shared_memory", lambda size: size - 16384), "outside of the CTA's"),
    ("one warp too few", manifest("kernels", 0, "block", lambda block: [block[0] - 32, 1, 1]), ".reqntid"),
]


# What the kernel that writes rows does of its own: the rest is the same.
ROW_MUTANTS = [
    ("a row written with the swizzle of another", ptx(r"xor\.b32 \s*(%r\d+), (%r\d+), 16;", r"xor.b32 \1, \2, 32;"),
     "races|uninitialized|differ"),
    ("a row read with the swizzle of another", ptx(r"xor\.b32 \s*(%r\d+), (%r\d+), 16;", r"xor.b32 \1, \2, 32;", which=1), DIFFERENT),
    ("16 bytes of a row not written", ptx(r"st\.shared\.v4\.b32\s[^;]*;"), "uninitialized"),
    ("output map with another swizzle", manifest(*LAUNCH, 3, "swizzle", "none"), DIFFERENT),
]


# MX along the last dimension: a stream of chunks. The first copy in the code is of whole chunks, the second of the last one.
LOAD_VECTOR = r"(ld\.global\.v4\.b32 \s*\{[^}]*\}, \[%rd\d+)\+512\]"
STREAM_MUTANTS = [
    ("a vector is another one", ptx(LOAD_VECTOR, r"\1+528]"), DIFFERENT),
    ("a vector of the last chunk is past the end", ptx(r"min\.u32 (\s*%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;"), "after the end|uninitialized"),
    ("the last chunk is taken for a whole one", ptx(r"setp\.lt\.u64 (\s*%p\d+), %rd\d+, 1024;", r"setp.ne.b32 \1, 0, 0;"), "after the end|uninitialized"),
    ("results past the end", ptx(r"setp\.ge\.u32 (\s*%p\d+), %r\d+, %r\d+;", r"setp.ne.b32 \1, 0, 0;", which=1, count=4), "after the end|another CTA"),
    ("scales past the end", ptx(r"setp\.ge\.u32 (\s*%p\d+), %r\d+, %r\d+;", r"setp.ne.b32 \1, 0, 0;"), "after the end"),
    ("warps take one chunk only", ptx(r"setp\.lt\.s32 (\s*%p\d+), %r\d+, %r\d+;", r"setp.ne.b32 \1, 0, 0;"), DIFFERENT),
    ("all blocks take the same chunks", ptx(r"mov\.u32 (\s*%r\d+), %ctaid\.x;", r"mov.b32 \1, 0;"), "another CTA|differ"),
    ("blocks go on by more chunks than all of them take", ptx(r"mov\.u32 (\s*%r\d+), %nctaid\.x;", r"mov.b32 \1, 16;"), DIFFERENT),
    ("the largest of half of a block", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), 1, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("a lane gives away what it should keep", ptx(r"(shfl\.sync\.bfly\.b32 \s*%r\d+, %r\d+), 2, 31, -1;", r"\1, 1, 31, -1;"), DIFFERENT),
    ("NaN is no maximum", ptx(r"max\.NaN\.bf16x2", "max.bf16x2", count=0), DIFFERENT),
    ("the scale of the warp's first block for all", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+, 0), 7199, -1;", r"\1, 31, -1;"), DIFFERENT),
    ("the scale of another vector", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+), 1, 7199, -1;", r"\1, 2, 7199, -1;", which=1), DIFFERENT),
    ("scales in another order", ptx(r"and\.b32 (\s*%r\d+), (%r\d+), 24;", r"and.b32 \1, \2, 16;"), "races with a write|" + DIFFERENT),
    ("a scale not stored", ptx(r"st\.global\.b8\s[^;]*;", which=1), DIFFERENT),
    ("8 bytes of a lane not written", ptx(r"st\.global\.v4\.b16\s[^;]*;", which=2), DIFFERENT),
]

# quantize_fp8 row by row: a ring of rows, which teams of warps share.
FP8_ROW_MUTANTS = [
    ("a team does not wait for what its warps found", ptx(r"(st\.shared\.b32[^;]*;\s*)bar\.sync\s+%r\d+, %r\d+;", r"\1"), "races|uninitialized"),
    ("nor where rows are long", ptx(r"(st\.shared\.b32[^;]*;\s*)bar\.sync\s+%r\d+, %r\d+;", r"\1", which=1), "races|uninitialized"),
    ("a row is given back before the team has read it", ptx(r"bar\.sync\s+%r\d+, %r\d+;"), "races"),
    ("what warps found in a long row is overwritten", ptx(r"bar\.sync\s+%r\d+, %r\d+;", which=2), "races"),
    ("teams share a barrier", ptx(r"bar\.sync\s+%r\d+, (%r\d+);", r"bar.sync 1, \1;", which=1),
     "races|uninitialized|barrier|deadlock"),
    ("a barrier of half of a team", ptx(r"bar\.sync\s+(%r\d+), %r\d+;", r"bar.sync \1, 32;", which=1), "races|uninitialized|barrier"),
    ("a row is read before it has landed", ptx(WAIT, which=1), "not been waited for|uninitialized"),
    ("a row is loaded over one that is read", ptx(WAIT), "arrivals in phase|races"),
    ("a row is never given back", ptx(r"mbarrier\.arrive\.shared\.b64[^;]*;"), "deadlock"),
    ("16 bytes of a row announced", ptx(r"(mbarrier\.arrive\.expect_tx\S+ \S+, \[\S+\]), %r\d+;", r"\1, 16;"), "more bytes land|fewer bytes|not been waited for"),
    ("a row lands 16 bytes on", ptx(r"(cp\.async\.bulk\.shared::cluster\S+ \[%rd\d+)\]", r"\1+16]"), "races|uninitialized|not been waited for"),
    ("the end of a row is not looked for", ptx(r"setp\.ge\.u32\s+(%p\d+), %r\d+, %r\d+;(\s*@%p\d+ bra)", r"setp.ne.b32 \1, 0, 0;\2"),
     "another CTA|after the end|uninitialized|differ|races"),
    ("the largest of the other warps is lost", ptx(r"max\.u32 (\s*%r\d+), (%r\d+), %r\d+;(\s*add\.s32[^;]*;\s*setp[^;]*;\s*@%p\d+ bra)", r"mov.b32 \1, \2;\3"), DIFFERENT),
    ("the largest of half of a warp", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), 16, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("NaN is no maximum", ptx(r"max\.NaN\.bf16x2", "max.bf16x2", count=0), DIFFERENT),
    ("factors that are no powers of two", ptx(r"and\.b32 (\s*%r\d+), (%r\d+), 2139095040;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("scales of small rows are those of their amax", ptx(r"setp\.lt\.u32\s+(%p\d+), (%r\d+), 730643661;", r"setp.lt.u32 \1, \2, 1;"), DIFFERENT),
    ("the factor is stored for the scale", ptx(r"div\.rn\.f32 (\s*%r\d+), 0f3F800000, (%r\d+);|rcp\.rn\.f32 (\s*%r\d+), (%r\d+);", r"mov.b32 \1\3, \2\4;"), DIFFERENT),
]

# Two scale_fp8_dual of different tensors that share a state.
ATOMIC_MAX = r"atom\.global\.max\.u32 \s*(%r\d+), (\[%rd\d+\]), (%r\d+);"
COUNT = r"atom\.global\.add\.u32 \s*(%r\d+), (\[%rd\d+\]), 1;"
FP8_SCALE_MUTANTS = [
    ("rows' maxima are not raised", ptx(ATOMIC_MAX), DIFFERENT),
    ("some columns' maxima are not raised", ptx(ATOMIC_MAX, which=2), DIFFERENT),
    ("rows' maxima are stored", ptx(ATOMIC_MAX, r"st.global.b32 \2, \3;"), "differ|races|another CTA"),
    ("columns' maxima are stored", ptx(ATOMIC_MAX, r"st.global.b32 \2, \3;", which=1), "differ|races|another CTA"),
    ("NaN is no maximum", ptx(r"max\.NaN\.bf16x2", "max.bf16x2", count=0), DIFFERENT),
    ("the largest is not taken out of the state", ptx(r"atom\.global\.exch\.b32 (\s*%r\d+), (\[%rd\d+\]), 0;", r"ld.global.b32 \1, \2;"), DIFFERENT),
    ("columns' largest are not taken out of the state",
     ptx(r"atom\.global\.exch\.b32 (\s*%r\d+), (\[%rd\d+\]), 0;", r"ld.global.b32 \1, \2;", which=2), DIFFERENT),
    ("the counter of rows is left as it is", ptx(r"st\.global\.b32\s+\[%rd\d+\], 0;"), "must leave it zero"),
    ("the counter of columns is left as it is", ptx(r"st\.global\.b32\s+\[%rd\d+\], 0;", which=1), "must leave it zero"),
    ("blocks count themselves twice", ptx(COUNT, r"atom.global.add.u32 \1, \2, 2;"), "nothing orders"),
    ("the second but last block is the last", ptx(r"(atom\.global\.add\.u32[^;]*;[^;]*;\s*add\.s32 \s*%r\d+, %r\d+), 1;", r"\1, 2;"), "nothing orders"),
    ("what warps found is read too early", ptx(r"bar\.sync\s+0;"), "races|uninitialized"),
    ("whether it was the last is read too early", ptx(r"bar\.sync\s+0;", which=2), "races|uninitialized"),
    ("rows past the end of an expert are raised", ptx(r"setp\.ge\.u32\s+(%p\d+), %r\d+, (%r\d+);(\s*or\.pred)", r"setp.ne.b32 \1, 0, 0;\3"),
     "differ|after the end|nothing orders"),
    ("columns past the end are raised", ptx(r"setp\.le\.u32\s+(%p\d+), %r\d+, %r\d+;", r"setp.ne.b32 \1, 0, 0;"), "differ|uninitialized|after the end|another CTA|nothing orders"),
    ("a lane gives away what it should keep", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+, %r\d+), 8, 31, -1;", r"shfl.sync.bfly.b32 \1, 4, 31, -1;"), DIFFERENT),
    ("a warp's last step is left out", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), 1, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("factors of columns from 112, not 448", ptx(r"0f43E00000", "0f42E00000", which=1), DIFFERENT),
]

# Both passes of a pair: what a tile takes of its tensor, one by one, is that of the other one.
OF_TENSOR = r"selp\.b64 (\s*%rd\d+), (%rd\d+), (%rd\d+), %p\d+;"
ELSEWHERE = "differ|global address|another CTA"
FP8_PAIR_MUTANTS = [
    ("maxima of y are those of x", ptx(OF_TENSOR, r"mov.b64 \1, \2;"), ELSEWHERE),
    ("x is read as wide as y", ptx(r"(selp\.b64[^;]*;\s*)selp\.b32 (\s*%r\d+), (%r\d+), (%r\d+), %p\d+;", r"\1mov.b32 \2, \4;"),
     ELSEWHERE),
    ("y counts in the state of x", ptx(OF_TENSOR, r"mov.b64 \1, \2;", which=1), ELSEWHERE),
    ("x counts in the state of y", ptx(OF_TENSOR, r"mov.b64 \1, \3;", which=1), ELSEWHERE),
    ("scales of y are written to those of x", ptx(OF_TENSOR, r"mov.b64 \1, \2;", which=2), ELSEWHERE),
    ("factors of x are written to those of y", ptx(OF_TENSOR, r"mov.b64 \1, \3;", which=3), ELSEWHERE),
    ("scales of y in empty groups are not written", ptx(r"st\.global\.b32\s+\[%rd\d+\], 662700032;", which=1), DIFFERENT),
    ("columns of y count from those of x", ptx(r"(sub\.s32[^;]*;\s*)min\.u32 (\s*%r\d+), (%r\d+), %r\d+;(\s*selp\.b64)", r"\1mov.b32 \2, \3;\4"),
     ELSEWHERE),
    ("y is cast by the factors of x", ptx(OF_TENSOR, r"mov.b64 \1, \2;", which=4), ELSEWHERE),
    ("rows of x that end a group are written to y", ptx(OF_TENSOR, r"mov.b64 \1, \3;", which=5), ELSEWHERE),
    ("tiles of y are written through the map of x", ptx(OF_TENSOR, r"mov.b64 \1, \2;", which=6), ELSEWHERE),
    ("tiles of x are read through the map of y", ptx(OF_TENSOR, r"mov.b64 \1, \3;", which=7), DIFFERENT),
]

# FP8 blocks of tokens in groups, along both axes.
UNWRITTEN = r"elements differ|of no group|races with a write by another CTA"
FP8_COLUMNS_MUTANTS = [
    ("a tile is written while its last one is sent", ptx(r"cp\.async\.bulk\.wait_group\.read \s*0;", count=0), "races"),
    ("rows are sent before all warps have cast", ptx(r"bar\.sync \s*1, 256;"), "races|uninitialized"),
    ("columns are sent before all warps have cast", ptx(r"bar\.sync \s*1, 256;", which=1), "races|uninitialized"),
    ("no fence before a tile is sent", ptx(r"fence\.proxy\.async\.shared::cta;"), "fence"),
    ("one strip of four does not count", ptx(r"(ld\.shared\.b32[^;]*;\s*)max\.NaN\.bf16x2 (\s*%r\d+), (%r\d+), %r\d+;", r"\1mov.b32 \2, \3;", 2), DIFFERENT),
    ("rows of the next group count", ptx(r"setp\.ge\.u32(\s+%p\d+), (%r\d+), %r\d+;", r"setp.ge.u32\1, \2, 0;"), DIFFERENT),
    ("one piece of a row does not count", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), 16, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("scales of rows behind the group are stored", ptx(r"setp\.ge\.u32(\s+%p\d+), (%r\d+), %r\d+;(\s*or\.pred[^;]*;\s*setp\.gt\.u32[^;]*, 15;)", r"setp.ge.u32\1, \2, 4294967295;\3"), UNWRITTEN),
    ("scales of columns behind the last are stored", ptx(r"(setp\.ne\.b32[^;]*, 0;\s*)setp\.ge\.u32(\s+%p\d+), (%r\d+), %r\d+;", r"\1setp.ge.u32\2, \3, 4294967295;"), "after the end of|elements differ|races"),
    ("zeros have no least scale", ptx(r"setp\.lt\.u32(\s+%p\d+, %r\d+), 730643661;", r"setp.lt.u32\1, 0;", count=0), DIFFERENT),
    ("a scale is the factor", ptx(r"rcp\.rn\.f32", "mov.b32", count=0), DIFFERENT),
    ("rows are sent whole where their group ends", ptx(r"(bar\.sync\s+1, 256;\s*add\.s32[^;]*;\s*)setp\.le\.u32", r"\1setp.ge.u32"), "races|elements differ|of no group"),
    ("columns begin anywhere", ptx(r"and\.b32(\s+%r\d+), %r\d+, 127;(\s*bar\.sync)", r"mov.b32\1, 0;\2"), "not a multiple of|elements differ"),
    ("a row is read behind the end of the tile", ptx(r"and\.b32(\s+%r\d+), (%r\d+), 16383;", r"mov.b32\1, \2;", which=3), "races|uninitialized|outside|elements differ"),
    ("a line is sent before it is complete", ptx(r"(setp\.ne\.b32[^;]*, 0;\s*or\.pred\s+%p\d+, )(%p\d+), %p\d+;(\s*not\.pred)", r"\1\2, \2;\3"), "races|elements differ|of no group"),
    ("bytes of another segment are written", ptx(r"setp\.ne\.b32(\s+%p\d+), (%r\d+), 0;(\s*or\.pred[^;]*;\s*not\.pred)", r"setp.ne.b32\1, 0, 0;\3"), "races|elements differ|of no group"),
    ("rows behind the group are of its columns", ptx(r"min\.u32(\s+%r\d+), %r\d+, 128;", r"mov.b32\1, 128;"), "races|elements differ|of no group"),
    ("words have no bytes of the tile above", ptx(r"shl\.b64(\s+%rd\d+), (%rd\d+), %r\d+;", r"mov.b64\1, \2;", count=0), DIFFERENT),
    ("one word has none", ptx(r"shl\.b64(\s+%rd\d+), (%rd\d+), %r\d+;", r"mov.b64\1, \2;", 2), DIFFERENT),
    ("a short tile does not hold what the one above held", ptx(r"setp\.gt\.u32(\s+%p\d+), (%r\d+), 127;(\s*setp\.lt)", r"setp.gt.u32\1, \2, 0;\3"), "races|elements differ"),
    ("a segment keeps what it holds", ptx(r"setp\.lt\.u32(\s+%p\d+), (%r\d+), 129;", r"setp.lt.u32\1, \2, 256;"), DIFFERENT),
    ("what is held takes the place of a line that is being sent", ptx(r"bar\.sync \s*2, 256;"), "races"),
    ("what is held is sent before all warps have stored it", ptx(r"bar\.sync \s*2, 256;", which=1), "races"),
]

# The same where groups begin at multiples of 128 tokens.
FP8_ALIGNED_MUTANTS = [
    ("no zeros behind the end of a group", ptx(r"setp\.gt\.u32(\s+%p\d+), (%r\d+), 31;(\s*@%p\d+ bra[^;]*;\s*mov\.b32\s+%r\d+, -1;)", r"setp.ge.u32\1, \2, 0;\3"), DIFFERENT),
    ("zeros begin a row late", ptx(r"mov\.b32(\s+%r\d+), -1;(\s*shl\.b32)", r"mov.b32\1, -2;\2"), DIFFERENT),
    ("a strip behind the end of a group has no zeros", ptx(r"setp\.gt\.u32(\s+%p\d+), (%r\d+), 31;(\s*@%p\d+ bra[^;]*;\s*mov\.b32\s+%r\d+, -1;)", r"sub.s32 \2, \2, 1; setp.gt.u32\1, \2, 30; add.s32 \2, \2, 1;\3"), DIFFERENT),
    ("one half of a column has no zeros", ptx(r"st\.shared\.v4\.b32 [^;]*;(\s*\$L__BB0_\d+:\s*fence\.proxy)", r"\1"), DIFFERENT),
    ("groups begin anywhere", ptx(r"and\.b32(\s+%r\d+), (%r\d+), -128;(\s*bar\.sync)", r"mov.b32\1, \2;\3"), "the innermost coordinate"),
    ("groups have no room of their own", ptx(r"shl\.b32(\s+%r\d+), %r\d+, 7;(\s*and\.b32\s+%r\d+, %r\d+, -128;)", r"mov.b32\1, 0;\2"), "races|elements differ"),
    ("scales are those of the next block", ptx(r"shr\.u32(\s+%r\d+), (%r\d+), 7;", r"shr.u32\1, \2, 6;", 2), "races|elements differ|after the end of"),
    ("rows of the next group count", ptx(r"setp\.ge\.u32(\s+%p\d+), (%r\d+), %r\d+;", r"setp.ge.u32\1, \2, 0;"), DIFFERENT),
    ("rows are sent whole where their group ends", ptx(r"(bar\.sync\s+1, 128;\s*add\.s32[^;]*;\s*)setp\.le\.u32", r"\1setp.ge.u32"), "races|elements differ|of no group"),
    ("columns are sent before all warps have cast", ptx(r"bar\.sync \s*1, 128;", which=3), "races|uninitialized"),
    ("no fence before columns are sent", ptx(r"fence\.proxy\.async\.shared::cta;", which=1), "fence"),
    ("a tile of columns is written while that of rows is sent", ptx(r"cp\.async\.bulk\.wait_group\.read \s*0;", which=2), "races"),
]

# Squares, both ways.
FP8_SQUARES_MUTANTS = [
    ("maxima are read before all warps have found theirs", ptx(r"(?s)bar\.sync \s*2, 128;(.*?)bar\.sync \s*1, 128;", r"\1"), "races|uninitialized"),
    ("lanes 16 apart do not count", ptx(r"shfl\.sync\.bfly\.b32 (\s*%r\d+), (%r\d+), 16, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("the last warp does not count", ptx(r"max\.u32 (\s*%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;", 12, 1), DIFFERENT),
    ("all experts have the scales of the first", ptx(r"mad\.lo\.s64 (\s*%rd\d+), %rd\d+, %rd\d+, (%rd\d+);", r"mov.b64 \1, \2;"), "differ|races"),
    ("scales of columns are the factors", ptx(r"rcp\.rn\.f32", "mov.b32", 1), DIFFERENT),
    ("a tile of columns is written while that of rows is sent", ptx(r"cp\.async\.bulk\.wait_group\.read \s*0;", which=2), "races"),
]

# Products forward. First what a wrong kernel may compute, then what it may do too early or too late.
SCALED = r"mul\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+);\s*mul\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+);"  # sa times the sum, times sb
ROWS_LOAD = r"(cp\.async\.bulk\.tensor\.2d[^;]*\{%r\d+, )(%r\d+)(\}[^;]*;)"
WEIGHTS_LOAD = r"(cp\.async\.bulk\.tensor\.3d[^;]*\{%r\d+, )(%r\d+), (%r\d+)(\}[^;]*;)"


def stage_wait(offset, which, limit=r"mov\.b32 [^;]*;\s*", count=1):
    """Drops a wait for an mbarrier of the ring: `offset` is that of the first of its kind. limit: what sets how long it waits; which, count: as
    for `ptx`."""
    return ptx(rf"(?s)(add\.s32 \s*%r\d+, %r\d+, {offset};\s*{limit}// begin inline asm\s*)\{{\s*\.reg \.pred\s+P1;.*?\}}", r"\1", which, count)


def parameter(number, change):
    """Appends a change of the register, \\1, that parameter `number` is loaded into."""
    return ptx(rf"ld\.param\.b32 \s*(%r\d+), \[\w+_param_{number}\];", r"\g<0> " + change, count=0)


PRODUCT_MUTANTS = [
    ("all zeros", ptx(r"cvt\.rn\.bf16x2\.f32 (\s*%r\d+), %r\d+, %r\d+;", r"mov.b32 \1, 0;", count=0), DIFFERENT),
    ("scales of tokens ignored", ptx(SCALED, r"mov.b32 \1, \3; mul.rn.f32 \4, \5, \6;", count=0), DIFFERENT),
    ("scales of weights ignored", ptx(SCALED, r"mul.rn.f32 \1, \2, \3; mov.b32 \4, \5;", count=0), DIFFERENT),
    ("both scales ignored", ptx(SCALED, r"mov.b32 \1, \3; mov.b32 \4, \5;", count=0), DIFFERENT),
    ("weights of the first expert", ptx(WEIGHTS_LOAD, r"\1\2, 0\4"), DIFFERENT),
    ("weights of the next expert", ptx(WEIGHTS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \3, 1; \1\2, OFF\4 }"), DIFFERENT),
    ("weights of the next column", ptx(WEIGHTS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF, \3\4 }"), DIFFERENT),
    ("rows off by one", ptx(ROWS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF\3 }"), DIFFERENT),
    ("the tail of K dropped", parameter(1, r"and.b32 \1, \1, -128;"), DIFFERENT),
    ("the last group skipped", parameter(2, r"add.s32 \1, \1, -1;"), DIFFERENT),
    ("the last columns skipped", parameter(3, r"and.b32 \1, \1, -64;"), "differ|after the end|another CTA"),
    ("rows behind the group stored", ptx(r"(setp\.ge\.u32 \s*%p\d+, %r\d+, )%r\d+;(\s*or\.pred)", r"\1-1;\2", which=1), "differ|no group|another CTA"),
    ("rows of the next tile stored", ptx(r"(bfe\.u32 \s*%r\d+, %r1, 2), 3;", r"\1, 2;"), DIFFERENT),
    ("operands in the other format", ptx(r"e4m3\.e4m3", "e5m2.e5m2", count=0), DIFFERENT),
    ("the sum started anew in the middle", ptx(r"setp\.ne\.b32 p, 1, 0;", "setp.ne.b32 p, 0, 0;", which=1), DIFFERENT),
    ("a part of K taken twice", ptx(r"(add\.s64 \s*%rd\d+, %rd\d+, 46116862933053603)86;", r"\g<1>84;"), DIFFERENT),
    ("rows of a product 16 instead of 8 apart", ptx(r"(or\.b64 \s*%rd\d+, %rd\d+, )4611686293305360384;", r"\g<1>4611686568183267328;"),
     "differ|outside|uninitialized|not been waited for"),
    ("tokens' map without its swizzle", manifest(*LAUNCH, 4, "swizzle", "none"), DIFFERENT),
    ("weights' map without its swizzle", manifest(*LAUNCH, 5, "swizzle", "none"), DIFFERENT),
    ("tokens' box of half of the rows", manifest(*LAUNCH, 4, "box", lambda box: [box[0], box[1] // 2]), "deadlock"),
    ("stage not waited for", stage_wait(196608, 0), "not been waited for|uninitialized"),
    ("the next stage not waited for", stage_wait(196608, 1), "not been waited for|uninitialized|two apart have the same parity"),
    ("stages overwritten that are read", stage_wait(196640, 0), "arrivals in phase|races"),
    ("fewer bytes announced than land", ptx(r"(mov\.b32 \s*%r\d+), 49152;(\s*mbarrier)", r"\1, 49136;\2"), "more bytes land|fewer bytes"),
    ("a stage released while it is read", ptx(r"(wgmma\.wait_group\.sync\.aligned\s+)1;", r"\g<1>2;"), "races"),
    ("a stage not released", ptx(r"mbarrier\.arrive\.shared\.b64[^;]*;"), "deadlock"),
    ("sums read before they are there", ptx(r"wgmma\.wait_group\.sync\.aligned\s+0;"), "wgmma"),
    ("products not committed", ptx(r"wgmma\.commit_group\.sync\.aligned;", count=0), "wgmma"),
    ("fence before the products dropped", ptx(r"wgmma\.fence\.sync\.aligned;"), "wgmma"),
    ("column scales read before they are there", ptx(r"bar\.sync \s*%r\d+, 128;", which=1), "races|uninitialized"),
    ("column scales overwritten while they are read", ptx(r"bar\.sync \s*%r\d+, 128;"), "races"),
    ("a staged piece in another place", ptx(r"xor\.b32 \s*(%r\d+), (%r\d+), %r\d+;(\s*shl\.b32 \s*%r\d+, %r\d+, 4;)", r"mov.b32 \1, \2;\3"), "races|uninitialized|differ"),
    ("the table of groups read before it is there", ptx(r"bar\.sync \s*0;"), "mbarrier|races|uninitialized"),
]

# Clusters of two blocks, each of which loads half of what both read of the weights.
CLUSTER_BARRIER = r"barrier\.cluster\.arrive\.aligned;\s*barrier\.cluster\.wait\.aligned;"
CLUSTER_MUTANTS = [
    ("the other block's barriers not waited for", ptx(CLUSTER_BARRIER), "cluster|mbarrier|deadlock"),
    ("a block ends while the other writes to it", ptx(CLUSTER_BARRIER, which=1), "exit|ended|over|deadlock|cluster"),
    ("weights for the own block only", ptx(r"(mov\.b16 \s*%rs\d+), 3;", r"\1, 1;"), "deadlock|differ|uninitialized"),
    ("both halves of the weights are the same", ptx(WEIGHTS_LOAD, r"{ .reg .b32 OFF; and.b32 OFF, \2, -256; \1OFF, \3\4 }"), DIFFERENT),
    ("stages released in the own block only", ptx(r"mapa\.shared::cluster\.u64 \s*(%rd\d+), (%rd\d+), %r\d+;", r"mapa.shared::cluster.u64 \1, \2, 0;", count=0),
     "deadlock|races|arrivals|two apart have the same parity"),
    ("stages free after the arrivals of one block", ptx(r"(mov\.b32 \s*%r\d+), 16;(\s*mbarrier\.init)", r"\1, 8;\2"), "arrivals|races|land|two apart have the same parity"),
    ("stages overwritten that either reads", stage_wait(196640, 0), "arrivals|races|land"),
]


# Ping-pong: slots, turns, stages that one warpgroup reads, and what comes while a tile is multiplied.
PINGPONG_MUTANTS = [
    ("a slot not waited for", stage_wait(197088, 0), "races|uninitialized"),
    ("a stage not waited for", stage_wait(196608, 0), "not been waited for|uninitialized|races"),
    ("the next stage not waited for", stage_wait(196608, 1), "not been waited for|uninitialized|races|two apart have the same parity"),
    ("stages overwritten that are read", stage_wait(196656, 0, count=0), "arrivals in phase|races"),
    ("turns are passed by fewer warps", ptx(r"(mbarrier\.init\.shared\.b64 \s*\[dynamic_shared_memory\+197216\], )%r\d+;", r"{ .reg .b32 N; mov.b32 N, 3; \1N; }"), "arrivals in phase|races|deadlock|not been waited for|two apart have the same parity"),
    ("turns wait for more warps", ptx(r"(mbarrier\.init\.shared\.b64 \s*\[dynamic_shared_memory\+197216\], )%r\d+;", r"{ .reg .b32 N; mov.b32 N, 5; \1N; }"), "deadlock"),
    ("a stage is free after fewer warps", ptx(r"(mbarrier\.init\.shared\.b64 \s*\[dynamic_shared_memory\+196656\], )%r\d+;", r"{ .reg .b32 N; mov.b32 N, 3; \1N; }"), "arrivals in phase|races|deadlock|two apart have the same parity"),
    ("a slot waits for more lanes", ptx(r"(mbarrier\.init\.shared\.b64 \s*\[dynamic_shared_memory\+197152\], )%r\d+;", r"{ .reg .b32 N; mov.b32 N, 129; \1N; }"), "deadlock"),
    ("lanes do not say that they have read a slot", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+197152\];"), "deadlock"),
    ("a slot not announced", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+197088\];"), "deadlock"),
    ("the end not announced", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+197088\];", which=2), "deadlock"),
    ("a stage released while it is read", ptx(r"(wgmma\.wait_group\.sync\.aligned\s+)1;", r"\g<1>2;", count=0), "races"),
    ("sums read before they are there", ptx(r"wgmma\.wait_group\.sync\.aligned\s+0;", count=0), "wgmma"),
    ("products not committed", ptx(r"wgmma\.commit_group\.sync\.aligned;", count=0), "wgmma"),
    ("column scales read before they are there", ptx(r"bar\.sync \s*%r\d+, 128;", which=1), "races|uninitialized"),
    ("weights of the next column", ptx(WEIGHTS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF, \3\4 }", count=0), DIFFERENT),
    ("rows off by one", ptx(ROWS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF\3 }", count=0), "differ|races"),
    ("fewer bytes announced than land", ptx(r"(mov\.b32 \s*%r\d+), 32768;(\s*mbarrier)", r"\1, 32752;\2", count=0), "more bytes land|fewer bytes"),
    ("both scales ignored", ptx(SCALED, r"mov.b32 \1, \3; mov.b32 \4, \5;", count=0), DIFFERENT),
    ("stored by the TMA without a fence", ptx(r"fence\.proxy\.async\S+;", count=0), "without a fence.proxy.async in between"),
    ("stored by the TMA before all is staged", ptx(r"(fence\.proxy\.async\S+;\s*)bar\.warp\.sync\s+-1;", r"\1", count=0), "races|uninitialized|without a fence"),
    ("staged while the TMA reads", ptx(r"cp\.async\.bulk\.wait_group\.read\s+0;", "", count=0), "races|may still read"),
    ("rows behind the group stored by the TMA", ptx(r"(add\.s32 \s*%r\d+, %r\d+, )16;", r"\g<1>1;", count=0), "differ|no group|another CTA|races"),
    ("the TMA stores other columns", ptx(r"(cp\.async\.bulk\.tensor\.2d\.global\S+ \[%rd\d+, \{)(%r\d+)([^;]*;)", r"{ .reg .b32 OFF; add.s32 OFF, \2, 8; \1OFF\3 }"), "differ|races|another CTA"),
    ("out's map without its swizzle", manifest(*LAUNCH, 10, "swizzle", "none"), DIFFERENT),
]

# The gradient. Outside of the group are other tokens, or NaN: it is not enough to clear one of the operands. What clears stands in the
# code twice, for the last step of a group and, behind it, for the first one: of one piece of 16 tokens some stay, and the other may be
# cleared whole, there the first step stands in front; 96 rows at once, of which the first 128 are those of the first operand.
KEPT = r"((?:and\.b32[^;]*;\s*){4})st\.shared\.v4\.b32[^;]*;"
# Where blocks of tokens are cleared (below): pieces of 16 tokens of which some stay, and whole ones.
MASKED = r"(ld\.shared\.v4\.b32[^;]*;\s*(?:and\.b32[^;]*;\s*){4})st\.shared\.v4\.b32[^;]*;"
ZEROED = r"()st\.shared\.v4\.b32\s+\[[^;]*\], \{0, 0, 0, 0\};"


def first_warp_arrives(place):
    """Of the three warps that clear, the first one arrives for all."""
    return ptx(rf"mbarrier\.arrive\.shared\.b64 (\s*%rd\d+, \[%rd\d+\+{place}\]);",
               r"{ .reg .pred FIRST; .reg .b32 T; mov.u32 T, %tid.x; setp.lt.u32 FIRST, T, 320; @FIRST mbarrier.arrive.shared.b64 \1, 3; }")


GRADIENT_MUTANTS = [
    ("nothing cleared", ptx(KEPT, r"\1", count=0), DIFFERENT),
    ("the first operand not cleared where a group starts", ptx(KEPT, r"\1", which=4), DIFFERENT),
    ("the second operand not cleared where a group starts", ptx(KEPT, r"\1", which=6, count=2), DIFFERENT),
    ("the last rows not cleared where a group starts", ptx(KEPT, r"\1", which=7), DIFFERENT),
    ("the whole 16 tokens of a step not cleared where a group starts", ptx(ZEROED, r"\1", count=4), DIFFERENT),
    ("the first operand not cleared where a group ends", ptx(KEPT, r"\1"), DIFFERENT),
    ("the second operand not cleared where a group ends", ptx(KEPT, r"\1", which=2, count=2), DIFFERENT),
    ("the last rows not cleared where a group ends", ptx(KEPT, r"\1", which=3), DIFFERENT),
    ("the whole 16 tokens of a step not cleared where a group ends", ptx(ZEROED, r"\1", which=4, count=4), DIFFERENT),
    ("cleared without a fence", ptx(r"fence\.proxy\.async\S+;"), "without a fence.proxy.async in between"),
    ("a stage is full before all warps have cleared it", first_warp_arrives(196608), "races|without a fence|differ"),
    ("a request read before it is there", stage_wait(196896, 0), "uninitialized|races|not been waited for"),
    ("cleared before it has landed", stage_wait(196928, 0, limit=""), "not been waited for|uninitialized|races"),
    ("multiplied without being cleared", ptx(r"selp\.b64 (\s*%rd\d+), (%rd\d+), (%rd\d+), %p\d+;((?:\s*\w[^;]*;){1,3}\s*mbarrier\.arrive\.expect_tx)", r"mov.b64 \1, \3;\4", count=0),
     "deadlock|differ|arrivals|races"),
    ("a stage that has been cleared is not said to be full", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+196608\];"), "deadlock"),
    ("what to clear is not asked for", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+196896\];"), "deadlock"),
    ("the end is not said", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+196896\];", which=1), "deadlock"),
    ("an empty group sums nothing", ptx(r"max\.u32 (\s*%r\d+), (%r\d+), 1;(\s*add\.s32)", r"mov.b32 \1, \2;\3", count=0), "differ|deadlock|not been waited for|two apart have the same parity"),
    ("the first tokens of a group left out", ptx(r"and\.b32 (\s*%r\d+), (%r\d+), -32;", r"\g<0> add.s32 \1, \1, 32;", count=0), "differ|deadlock|the limit of|races"),
    ("all zeros", ptx(r"cvt\.rn\.bf16x2\.f32 (\s*%r\d+), %r\d+, %r\d+;", r"mov.b32 \1, 0;", count=0), DIFFERENT),
    ("both scales ignored", ptx(SCALED, r"mov.b32 \1, \3; mov.b32 \4, \5;", count=0), DIFFERENT),
    ("the last group skipped", parameter(2, r"add.s32 \1, \1, -1;"), DIFFERENT),
    ("rows off by one", ptx(ROWS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF\3 }"), DIFFERENT),
    ("columns off by one", ptx(ROWS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF\3 }", which=1), DIFFERENT),
]

# What orders the blocks of a first pass: each raises maxima, then counts itself; the last one takes them out. The counts of rows and columns
# follow each other, so that the two fences between them are not needed.
FENCE = r"fence\.acq_rel\.gpu;"
EXCHANGE = r"atom\.global\.exch\.b32 (\s*%r\d+), (\[%rd\d+\]), 0;"
UNORDERED = "nothing orders"
ORDER_MUTANTS = [
    *[(f"fence {n} of the counts dropped", ptx(FENCE, which=n), UNORDERED) for n in (0, 3)],
    *[(f"fence {n} of the counts for the block only", ptx(FENCE, "fence.acq_rel.cta;", which=n), UNORDERED) for n in (0, 3)],
    *[(f"fence {n} of the counts for the cluster only", ptx(FENCE, "fence.acq_rel.cluster;", which=n), UNORDERED) for n in (0, 3)],
    ("no fence at all", ptx(FENCE, count=0), UNORDERED),
    ("all fences for the block only", ptx(FENCE, "fence.acq_rel.cta;", count=0), UNORDERED),
    ("the fences stand behind the count", ptx(r"(fence\.acq_rel\.gpu;)(\s*atom[^;]*;)", r"\2 \1"), UNORDERED),
    ("the barrier before the count dropped", ptx(r"bar\.sync\s+0;", which=1), UNORDERED),
    ("rows counted for the block only", ptx(r"atom\.global\.add", "atom.relaxed.cta.global.add"), "races with"),
    ("columns counted for the block only", ptx(r"atom\.global\.add", "atom.relaxed.cta.global.add", which=1), "races with"),
    ("rows' maxima raised for the block only", ptx(r"atom\.global\.max", "atom.relaxed.cta.global.max"), "races with"),
    ("columns' maxima raised for the block only", ptx(r"atom\.global\.max", "atom.relaxed.cta.global.max", which=1), "races with"),
    ("maxima raised by a load and a store", ptx(ATOMIC_MAX, r"ld.global.u32 \1, \2; st.global.u32 \2, \3;"), "races with"),
]

WAIT_GRID = r"griddepcontrol\.wait;"
BY_SOME = r"{ .reg .pred SOME; .reg .b32 ID; mov.u32 ID, %%tid.x; setp.%s SOME, ID, %d; @SOME griddepcontrol.wait; }"
LEFT = "must leave it zero"
COUNTER = r"st\.global\.b32\s+\[%rd\d+(\+4)?\], 0;"
CHAIN_MUTANTS = [
    ("the second launch does not wait", ptx(WAIT_GRID, which=1), "without a griddepcontrol.wait"),
    ("a middle launch, which needs nothing of those before, does not wait", ptx(WAIT_GRID, which=2), "a launch uses that may go on"),
    ("the fourth launch does not wait", ptx(WAIT_GRID, which=3), "without a griddepcontrol.wait"),
    ("the last launch does not wait", ptx(WAIT_GRID, which=4), "without a griddepcontrol.wait"),
    ("only thread 0 waits for the launches before, and no barrier follows",
     ptx(WAIT_GRID + r"\s*bar\.sync\s+0;", BY_SOME % ("eq.u32", 0), which=1), "before it knows that a thread of its CTA"),
    ("only the second warp waits for the launches before, and no barrier follows",
     ptx(WAIT_GRID + r"\s*bar\.sync\s+0;", BY_SOME % ("eq.u32", 32), which=1), "griddepcontrol.wait"),
    ("nobody waits, and all go on", ptx(WAIT_GRID, count=0), "without a griddepcontrol.wait"),
    ("the barrier after the wait of one thread dropped", ptx(WAIT_GRID + r"\s*bar\.sync\s+0;", BY_SOME % ("eq.u32", 0)), "griddepcontrol.wait|before it knows"),
    ("the counter of a is left as it is", ptx(COUNTER), LEFT),
    ("the counter of b is left as it is", ptx(COUNTER, which=1), LEFT),
    ("the maximum of a is left as it is", ptx(EXCHANGE, r"ld.global.b32 \1, \2;"), LEFT + "|races"),
    ("the maximum of b is left as it is", ptx(EXCHANGE, r"ld.global.b32 \1, \2;", which=1), LEFT + "|races"),
    ("the maximum of a is replaced by 1", ptx(EXCHANGE, r"atom.global.exch.b32 \1, \2, 1;"), LEFT),
    *[(f"fence {n} of the chain dropped", ptx(FENCE, which=n), UNORDERED) for n in range(4)],
    # Of the store at the end: each CTA has one tile. Those before belong to the store behind the next tile's first product, or are followed
    # by another; behind the last one nobody writes.
    *[(f"barrier {n} of lanes dropped", ptx(r"bar\.warp\.sync\s+-1;", which=n), "of the same warp|races") for n in (20, 21, 29)],
    ("a barrier of half of the lanes", ptx(r"bar\.warp\.sync\s+-1;", "bar.warp.sync 65535;"), "the mask names"),
    ("a product that may be fused with a sum", ptx(r"mul\.rn\.f32", "mul.f32"), "ptxas may contract"),
    ("a sum that may be fused with a product", ptx(r"(add|sub)\.rn\.(f32|bf16x2|f16x2)", r"\1.\2"), "ptxas may contract"),
]

CHAIN_SHAPES = ["a=100x272", "b=3x272x144", "offs=3"]
# Scales of blocks, in tiles of 192 columns: those of tokens lie in the stage from byte 40960 on; lanes 0 to 15 hold those of weights of the
# first block of columns, the others those of the second one, of 16 blocks of K.
TOKEN_SCALE = r"ld\.shared\.b32 \s*(%r\d+), \[(%rd\d+)\+(?:40960|40992)\];(\s*mul)"
WEIGHT_SCALE = r"shfl\.sync\.idx\.b32 (\s*%r\d+), (%r\d+), (0|16|%r\d+), 31, -1;"
MIDDLE = r"selp\.f32 (\s*%r\d+), (%r\d+), (%r\d+), %p\d+;"
OF_BLOCK = r"and\.b32 (\s*%r\d+), (%r\d+), 15;(\s*shfl)"
HELD = r"ld\.global\.b32 \s*(%r\d+), \[(%rd\d+)\];"
BOX = r"and\.b32 (\s*%r\d+), (%r\d+), -4;"
IN_BOX = r"and\.b32 (\s*%r\d+), %r\d+, 12;"
BLOCK_MUTANTS = [
    ("scales of tokens ignored", ptx(TOKEN_SCALE, r"mov.b32 \1, 0f3F800000;\3", count=0), DIFFERENT),
    ("scales of the next token", ptx(TOKEN_SCALE, r"add.s64 \2, \2, 4; \g<0>", count=0), "differ|uninitialized"),
    ("the second row scaled as the first", ptx(r"\+40992\];", "+40960];", count=0), DIFFERENT),
    ("the second row's scale 16 rows below", ptx(r"\+40992\];", "+41024];", count=0), "differ|uninitialized"),
    ("tokens before the group not skipped", ptx(IN_BOX, r"mov.b32 \1, 0;", count=0), DIFFERENT),
    ("the box of tokens begins where the group does", ptx(BOX, r"mov.b32 \1, \2;"), "multiple of 16"),
    ("the box of tokens begins four tokens early", ptx(BOX, r"add.s32 \1, \2, -4; and.b32 \1, \1, -4;"), DIFFERENT),
    ("scales of tokens of the next block", ptx(r"mad\.lo\.s32 \s*(%r\d+), (%r\d+), (%r\d+), (%r\d+);(\s*and\.b32 [^;]*, -4;)", r"mad.lo.s32 \1, \2, \3, \4; add.s32 \1, \1, \3;\5"), DIFFERENT),
    ("scales of weights ignored", ptx(WEIGHT_SCALE, r"mov.b32 \1, 0f3F800000;", count=0), DIFFERENT),
    ("all columns of a tile's first product in the first block", ptx(r"(shfl\.sync\.idx\.b32 [^;]*), 16, 31, -1;", r"\1, 0, 31, -1;"), DIFFERENT),
    ("all columns of the others in the first block", ptx(r"or\.b32 (\s*%r\d+), (%r\d+), 16;(\s*shfl)", r"mov.b32 \1, \2;\3"), DIFFERENT),
    ("the middle columns never in the second block", ptx(MIDDLE, r"mov.b32 \1, \2;", count=0), DIFFERENT),
    ("the middle columns always in the second block", ptx(MIDDLE, r"mov.b32 \1, \3;", count=0), DIFFERENT),
    ("scales of weights of the first expert", ptx(r"mad\.lo\.s32 \s*(%r\d+), %r\d+, %r\d+, (%r\d+);(\s*mad\.lo)", r"mov.b32 \1, \2;\3"), DIFFERENT),
    ("scales of weights of the first block for all of K", ptx(OF_BLOCK, r"mov.b32 \1, 0;\3"), DIFFERENT),
    ("scales of weights one block ahead", ptx(OF_BLOCK, r"add.s32 \1, \2, 1; and.b32 \1, \1, 15;\3"), DIFFERENT),
    ("the first scales of weights that a warp holds one further", ptx(HELD, r"ld.global.b32 \1, [\2+4];", which=1), "differ|global"),
    ("those for the next 16 blocks of K one further", ptx(HELD, r"ld.global.b32 \1, [\2+4];", which=2), "differ|global"),
    ("scales of weights behind the last block of columns", ptx(r"selp\.b32 (\s*%r\d+), (%r\d+), 0, %p\d+;(\s*mad\.lo)", r"mov.b32 \1, \2;\3"), "global"),
    ("scales of weights behind the last block of K", ptx(r"min\.u32 (\s*%r\d+), (%r\d+), %r\d+;(\s*add\.s32 [^;]*;\s*mul\.wide\.u32)", r"mov.b32 \1, \2;\3"), "global"),
    ("sums added without their scales", ptx(r"fma\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+), (%r\d+);", r"add.rn.f32 \1, \2, \4;", count=0), DIFFERENT),
    ("all but the last block forgotten", ptx(r"fma\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+), (%r\d+);", r"mul.rn.f32 \1, \2, \3;", count=0), DIFFERENT),
    ("scales of tokens end with the first block", manifest(*LAUNCH, 6, "dims", ["qa.0"]), DIFFERENT),
    ("a box of tokens without room for an early beginning", manifest(*LAUNCH, 6, "box", [128]), "deadlock"),
    ("the bytes of the scales not announced", ptx(r"(mov\.b32 \s*%r\d+), 41488;", r"\1, 40960;"), "more bytes land|fewer bytes|races|not been waited for"),
    ("a stage released before all lanes have read its scales", ptx(r"bar\.warp\.sync\s+-1;(\s*// begin inline asm\s*wgmma\.wait_group)", r"\1", count=0), "races"),
    ("stage not waited for", stage_wait(167936, 0), "not been waited for|uninitialized"),
]
# The second one has more blocks of K than a warp holds scales of.
# Three warpgroups, columns in another order, lanes that store what they have.
DIRECT_MUTANTS = [
    ("half of the weights' rows brought", manifest(*LAUNCH, 5, "box", [128, 2, 16, 2, 1]), "deadlock"),
    ("rows of weights brought as if 8 columns were 4", manifest(*LAUNCH, 5, "strides", 1, {"mul": ["qa.1", 4]}), DIFFERENT),
    ("pairs of columns brought one column apart", manifest(*LAUNCH, 5, "strides", 2, "qa.1"), DIFFERENT),
    ("a lane's columns of two parts of a row overlap", ptx(r"(st\.global\.v4\.b32 \s*\[%rd\d+)\+64\]", r"\1+32]", count=0), "races|differ"),
    ("a lane's columns of the first row in the second", ptx(r"(st\.global\.v4\.b32 \s*\[%rd\d+\+64\], \{)(%r\d+), (%r\d+)", r"\1\3, \2"), DIFFERENT),
    ("the second row scaled as the first", ptx(r"\+40992\];", "+40960];", count=0), DIFFERENT),
    ("a slot waits for more lanes", ptx(r"(mbarrier\.init\.shared\.b64 \s*\[dynamic_shared_memory\+210192\], )%r\d+;", r"{ .reg .b32 N; mov.b32 N, 385; \1N; }"), "deadlock"),
    ("lanes do not say that they have read a slot", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+210192\];", count=0), "deadlock"),
    ("nor one of whose rows they have none", ptx(r"mbarrier\.arrive\.shared\.b64 \s*%rd\d+, \[%rd\d+\+210192\];", which=2), "deadlock"),
]
BLOCK_SHAPES = ["qa=701x272,20x2192", "qb=11x272x400,2x2192x208", "sa=701x3,20x18", "sb=11x3x4,2x18x2", "offs=11,2"]

# Scales of MX blocks, in tiles of 128 columns and three stages: the factors of rows lie in a stage from byte 32768 on, of columns from 34816.
OF_ROWS = r"ld\.shared\.v4\.b32 \s*\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}, \[(%rd\d+)\+(3[34]\d\d\d|32768)\];"
MX_FMA = r"(mul\.rn\.f32 \s*(%r\d+), (%r\d+), (%r\d+);)(\s*)fma\.rn\.f32 (\s*%r\d+), \2, (%r\d+), (%r\d+);"
MX_MUTANTS = [
    ("sums added without the scale of a", ptx(MX_FMA, r"\1\5add.rn.f32 \6, \2, \8;", count=0), DIFFERENT),
    ("sums added without the scale of b", ptx(MX_FMA, r"\5fma.rn.f32 \6, \4, \7, \8;", count=0), DIFFERENT),
    ("all but the last MX block forgotten", ptx(MX_FMA, r"\1\5mul.rn.f32 \6, \2, \7;", count=0), DIFFERENT),
    ("the last register of a fragment not added", ptx(MX_FMA, r"\1\5mov.b32 \6, \8;", which=31), DIFFERENT),
    ("factors of the first MX block for the second", ptx(r"\+33280\];", "+32768];"), DIFFERENT),
    ("scales of columns of the first MX block for the second", ptx(r"\+35328\];", "+34816];"), DIFFERENT),
    ("factors of rows 8 below", ptx(OF_ROWS, r"ld.shared.v4.b32 {\2, \1, \4, \3}, [\5+\6];", count=0), DIFFERENT),
    ("factors of rows of the other fragment", ptx(OF_ROWS, r"ld.shared.v4.b32 {\3, \4, \1, \2}, [\5+\6];", count=0), DIFFERENT),
    ("factors of rows half as large", ptx(r"shl\.b32 (\s*%r\d+), (%r\d+), 23;(\s*max\.u32)", r"shl.b32 \1, \2, 22;\3", count=0), DIFFERENT),
    ("the second scale of a word taken for the first", ptx(r"and\.b32 (\s*%r\d+), (%r\d+), 255;(\s*shl\.b32[^;]*, 23;)", r"bfe.u32 \1, \2, 8, 8;\3"), DIFFERENT),
    ("rows behind the last read", ptx(r"min\.u32 (\s*%r\d+), (%r\d+), %r\d+;(\s*cvt\.u64\.u32)", r"mov.b32 \1, \2;\3"), "differ|global address"),
    ("a stage full with the factors of two warps", ptx(r"mov\.b32 (\s*%r\d+), 97;(\s*mbarrier\.init[^;]*;)", r"mov.b32 \1, 65;\2"), "races|uninitialized|phase|differ|more arriv|not been waited"),
    ("factors written before those before have been read", stage_wait(110616, 0), "races|phase|arrivals|uninitialized"),
    ("a stage released by half of the lanes that have read it", ptx(r"mov\.b32 (\s*%r\d+), 256;(\s*mbarrier\.init[^;]*;)", r"mov.b32 \1, 128;\2"), "races|uninitialized|phase|differ|more arriv|not been waited|deadlock"),
    ("a stage released while its last product is read", ptx(r"wgmma\.wait_group\.sync\.aligned 0;", "", count=0), "wgmma"),
    ("the other half of the columns", ptx(r"shl\.b32 (\s*%r\d+), (%r\d+), 13;", r"shl.b32 \1, \2, 12;", count=0), "differ|races|multiple of"),
]
MX_SHAPES = ["qa=143x160,70x512", "qb=3x160x80,2x512x144", "sa=143x5,70x16", "sb=3x5x80,2x16x144", "offs=3,2"]

# The gradient, with scales of MX blocks of tokens: 64 columns, three stages of 33792 bytes, with factors from byte 24576 on and tails from
# byte 27648 on. Barriers of copies are the first; tokens are moved by words and by bits, and cleared behind the group.
MOVED = r"shr\.u64 (\s*%rd\d+), (%rd\d+), (%r\d+);(\s*cvt\.u32\.u64)"
MX_PLACE = r"shr\.u32 \s*(%r\d+), (%r\d+), 5;\s*add\.s32 \s*(%r\d+), \1, (%r\d+);"
MX_MASKED = r"(ld\.shared\.v4\.b32[^;]*;\s*(?:and\.b32[^;]*;\s*){4})st\.shared\.v4\.b32[^;]*;"
MX_TOKEN_MUTANTS = [
    ("tokens not moved by bytes", ptx(MOVED, r"mov.b64 \1, \2;\4", count=0), DIFFERENT),
    ("tokens moved by words one too far", ptx(r"setp\.ne\.b32 (\s*%p\d+), (%r\d+), 5;", r"setp.ne.b32 \1, \2, 4;"), DIFFERENT),
    ("tokens of one distance not moved", ptx(r"setp\.ne\.b32 (\s*%p\d+), (%r\d+), 3;", r"setp.ne.b32 \1, \2, 99;"), DIFFERENT),
    ("groups with a head taken for such without", ptx(r"and\.b32 (\s*%r\d+), (%r\d+), 31;(\s*bfe)", r"mov.b32 \1, 0;\3"), "differ|deadlock"),
    ("nothing cleared behind the group", ptx(MX_MASKED, r"\1", count=0), DIFFERENT),
    ("a token too few cleared", ptx(r"sub\.s32 (\s*%r\d+), (%r\d+), (%r\d+);(\s*add\.s32 [^;]*, -12;)", r"sub.s32 \1, \2, \3; add.s32 \1, \1, 1;\4"), DIFFERENT),
    ("moved without a fence", ptx(r"fence\.proxy\.async\S+;", which=1), "without a fence.proxy.async in between"),
    ("cleared without a fence", ptx(r"fence\.proxy\.async\S+;"), "without a fence.proxy.async in between"),
    ("moved before it has landed", ptx(r"(?s)(\$L__BB\d+_\d+:\s*mov\.b32 \s*%r\d+, 10000000;\s*// begin inline asm\s*)\{\s*\.reg \.pred\s+P1;.*?\}", r"\1"), "not been waited for|uninitialized|races"),
    ("tails in another order", manifest(*LAUNCH, 5, "swizzle", "none"), DIFFERENT),
    ("tails of other tokens", ptx(r"add\.s32 (\s*%r\d+), (%r\d+), 128;(\s*@%p)", r"add.s32 \1, \2, 160;\3"), "differ|deadlock"),
    ("the bytes of tails not announced", ptx(r"24576, 30720,", "24576, 24576,"), "more bytes land|fewer bytes|races|not been waited for"),
    ("no room between the scales of groups", ptx(MX_PLACE, r"shr.u32 \1, \2, 5; mov.b32 \3, \1;"), DIFFERENT),
    ("scales from the first row on", ptx(MX_PLACE, r"mov.b32 \3, \4;"), DIFFERENT),
    ("scales of rows ignored", ptx(MX_FMA, r"\1\5add.rn.f32 \6, \2, \8;", count=0), DIFFERENT),
    ("scales of columns ignored", ptx(MX_FMA, r"\5fma.rn.f32 \6, \4, \7, \8;", count=0), DIFFERENT),
    ("a stage full with the tokens of two warps", ptx(r"mov\.b32 (\s*%r\d+), 97;(\s*mbarrier\.init[^;]*;)", r"mov.b32 \1, 65;\2"), "races|uninitialized|phase|differ|more arriv|not been waited"),
]
MX_TOKEN_SHAPES = ["qa=144x1312,16x1616,144x16", "qb=1312x80,1616x16,16x80", "sa=47x144,57x16,41x144", "sb=47x80,57x16,41x80", "offs=6,6,40"]

# The gradient, with scales of blocks of tokens: 192 columns, three stages of 53248 bytes, with tails from byte 40960 on and scales from
# byte 51200 on. Between two blocks of a group one operand is cleared.
COLUMN_SCALES = r"ld\.shared\.v2\.b32 \s*\{(%r\d+), (%r\d+)\}, \[%rd\d+\+5\d{4}\];"
SCALES_OF_BLOCK = r"add\.s32 (\s*%r\d+), (%r\d+), (%r\d+);(\s*add\.s64 [^;]*, 51200;)"
PLACE_OF_GROUP = r"(max\.u32 [^;]*, 1;\s*)add\.s32 (\s*%r\d+), (%r\d+), (%r\d+);(\s*mov\.b32 \s*%r\d+, 0;)"
TAIL_CLEARED = r"(ld\.shared\.v4\.b32[^;]*;\s*(?:and\.b32[^;]*;\s*){4}|)st\.shared\.v4\.b32 \s*\[%rd\d+\+4\d{4}\][^;]*;"
BLOCK_TERM = r"fma\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+), (%r\d+);"
TOKEN_BLOCK_MUTANTS = [
    ("scales of rows ignored", ptx(r"ld\.shared\.b32 \s*(%r\d+), \[%rd\d+\+512(00|32)\];", r"mov.b32 \1, 0f3F800000;", count=0), DIFFERENT),
    ("the second row scaled as the first", ptx(r"\+51232\];", "+51200];"), DIFFERENT),
    ("scales of columns ignored", ptx(COLUMN_SCALES, r"mov.b32 \1, 0f3F800000; mov.b32 \2, 0f3F800000;", count=0), DIFFERENT),
    ("two columns' scales exchanged", ptx(COLUMN_SCALES, r"\g<0> { .reg .b32 T; mov.b32 T, \1; mov.b32 \1, \2; mov.b32 \2, T; }", which=5), DIFFERENT),
    ("scales of the block before", ptx(SCALES_OF_BLOCK, r"add.s32 \1, \2, \3; add.s32 \1, \1, -1;\4"), DIFFERENT),
    ("scales of the first block for the whole group", ptx(SCALES_OF_BLOCK, r"mov.b32 \1, \2;\4"), DIFFERENT),
    ("no room between the scales of groups", ptx(PLACE_OF_GROUP, r"\1mov.b32 \2, \4;\5"), DIFFERENT),
    ("scales from the first row on", ptx(PLACE_OF_GROUP, r"\1mov.b32 \2, \3;\5"), DIFFERENT),
    ("the room of groups outside of the map", manifest(*LAUNCH, 7, "dims", ["qa.0", {"ceildiv": ["qa.1", 128]}]), DIFFERENT),
    ("nothing cleared", ptx(f"{MASKED}|{ZEROED}", r"\1", count=0), DIFFERENT),
    ("pieces of which tokens stay not cleared", ptx(MASKED, r"\1", count=0), DIFFERENT),
    ("whole pieces not cleared", ptx(ZEROED, r"\1", count=0), DIFFERENT),
    ("tails not cleared", ptx(TAIL_CLEARED, r"\1", count=0), DIFFERENT),
    ("the second operand not cleared where a group starts or ends", ptx(r"selp\.b32 (\s*%r\d+), 1, 0, (%p\d+);(\s*min\.s32)", r"mov.b32 \1, 0;\3"), DIFFERENT),
    ("the second operand not cleared where a group starts", ptx(r"or\.pred (\s*%p\d+), (%p\d+), (%p\d+);(\s*selp\.b32 [^;]*, 1, 0, %p\d+;\s*min\.s32)", r"mov.pred \1, \3;\4"), DIFFERENT),
    ("the second operand not cleared where a group ends", ptx(r"or\.pred (\s*%p\d+), (%p\d+), (%p\d+);(\s*selp\.b32 [^;]*, 1, 0, %p\d+;\s*min\.s32)", r"mov.pred \1, \2;\4"), DIFFERENT),
    ("the second operand not cleared in the tail in front of a short last block", ptx(r"add\.s32 (\s*%r\d+), (%r\d+), 160;", r"add.s32 \1, \2, 129;"), DIFFERENT),
    ("tokens in front of a block stay in the last rows", ptx(r"st\.shared\.v4\.b32 \s*\[%rd\d+\+12288\], \{%r[^;]*;"), DIFFERENT),
    ("16 tokens in front of a block stay in the last rows", ptx(r"st\.shared\.v4\.b32 \s*\[%rd\d+\+12288\], \{0[^;]*;"), DIFFERENT),
    ("tokens behind a block stay in the last rows", ptx(r"st\.shared\.v4\.b32 \s*\[%rd\d+\+44032\], \{%r[^;]*;"), DIFFERENT),
    ("16 tokens behind a block stay in the last rows", ptx(r"st\.shared\.v4\.b32 \s*\[%rd\d+\+44032\], \{0[^;]*;"), DIFFERENT),
    ("a stage is full before all warps have cleared it", first_warp_arrives(159744), "races|without a fence|differ"),
    ("warps that clear are told of no end", ptx(r"st\.shared\.b32 \s*(\[%rd\d+\+159920\]), -1;", r"st.shared.b32 \1, 0;"), "races|deadlock|differ|arrivals"),
    ("cleared without a fence", ptx(r"fence\.proxy\.async\S+;", which=1), "without a fence.proxy.async in between"),
    ("a request read before it is there", stage_wait(159968, 0), "uninitialized|races|not been waited for"),
    ("cleared before it has landed", stage_wait(159992, 0, limit=""), "not been waited for|uninitialized|races"),
    ("multiplied without being cleared", ptx(r"selp\.b64 (\s*%rd\d+), (%rd\d+), (%rd\d+), %p\d+;((?:\s*\w[^;]*;){1,3}\s*mbarrier\.arrive\.noComplete)", r"mov.b64 \1, \3;\4"),
     "deadlock|differ|arrivals|races"),
    ("tails left out", ptx(r"and\.b32 (\s*%r\d+), %r\d+, 31;(\s*setp\.ne\.b32 [^;]*;\s*selp\.b32 [^;]*;\s*redux)", r"mov.b32 \1, 0;\2"), DIFFERENT),
    ("tails in every group", ptx(r"and\.b32 (\s*%r\d+), %r\d+, 31;(\s*setp\.ne\.b32 [^;]*;\s*selp\.b32 [^;]*;\s*redux)", r"mov.b32 \1, 1;\2"), "differ|uninitialized"),
    ("tails in another order", manifest(*LAUNCH, 6, "swizzle", "none"), DIFFERENT),
    ("the bytes of tails not announced", ptx(r"52480, 42240,", "42240, 42240,"), "more bytes land|fewer bytes|races|not been waited for"),
    ("a stage released before all lanes have read its scales", ptx(r"bar\.warp\.sync\s+-1;(\s*@%p\d+ bra [^;]*;\s*bra\.uni)", r"\1"), "races"),
    ("stage not waited for", stage_wait(159744, 0), "not been waited for|uninitialized|races"),
    ("a group without tokens is -0", ptx(r"(selp\.f32 \s*%r\d+, 0f80000000, )0f00000000", r"\g<1>0f80000000"), DIFFERENT),
    ("a group without tokens is read", ptx(r"mul\.lo\.s32 (\s*%r\d+), (%r\d+), (%r\d+);(\s*selp\.f32)", r"mov.b32 \1, \3;\4"), "differ|uninitialized"),
    ("sums begin with +0", ptx(r"(selp\.f32 \s*%r\d+, )0f80000000", r"\g<1>0f00000000"), DIFFERENT),
    ("sums added without their scales", ptx(BLOCK_TERM, r"add.rn.f32 \1, \3, \4;", count=0), DIFFERENT),
    ("all but the last block forgotten", ptx(BLOCK_TERM, r"mul.rn.f32 \1, \2, \3;", count=0), DIFFERENT),
    ("the last group skipped", parameter(2, r"add.s32 \1, \1, -1;"), DIFFERENT),
    ("rows off by one", ptx(ROWS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF\3 }"), DIFFERENT),
    ("rows of tails off by one", ptx(ROWS_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 1; \1OFF\3 }", which=4), DIFFERENT),
]
# The last one has groups of many blocks, with neighbors in their group.
TOKEN_BLOCK_SHAPES = ["qa=144x1312,16x1616,144x16,112x2096", "qb=1312x208,1616x16,16x208,2096x16", "sa=17x144,19x16,41x144,21x112", "sb=17x208,19x16,41x208,21x16", "offs=6,6,40,4"]

# The same where groups begin at multiples of 128 tokens: four stages of 43008 bytes, with scales from byte 40960 on.
ALIGNED_PLACE = r"shl\.b32 \s*(%r\d+), (%r\d+), 7;\s*and\.b32 \s*(%r\d+), (%r\d+), -128;\s*add\.s32 \s*(%r\d+), \3, \1;"
WHOLE_BLOCKS = r"add\.s32 (\s*%r\d+), (%r\d+), 127;(\s*shr\.u32[^;]*, 7;(?:\s*(?:mul\.lo\.s32|shl\.b32)[^;]*;)?\s*max\.u32)"
ALIGNED_SCALES = r"shr\.u32 (\s*%r\d+), (%r\d+), 7;(\s*add\.s64 [^;]*, 40960;)"
ALIGNED_MUTANTS = [
    ("no room between groups", ptx(ALIGNED_PLACE, r"and.b32 \5, \4, -128;"), DIFFERENT),
    ("room for two blocks between groups", ptx(ALIGNED_PLACE, r"shl.b32 \1, \2, 8; and.b32 \3, \4, -128; add.s32 \5, \3, \1;"), DIFFERENT),
    ("groups begin beside multiples of 128", ptx(ALIGNED_PLACE, r"shl.b32 \1, \2, 7; add.s32 \5, \4, \1;"), "multiple of 16"),
    ("the last block left out where it is short", ptx(WHOLE_BLOCKS, r"mov.b32 \1, \2;\3", count=0), DIFFERENT),
    ("it is not loaded", ptx(WHOLE_BLOCKS, r"mov.b32 \1, \2;\3", which=1), "deadlock|races"),
    ("a block of no group is read where one has no tokens", ptx(r"selp\.b32 (\s*%r\d+), %r\d+, (%r\d+), %p\d+;(\s*add\.s32 [^;]*, 127;)", r"mov.b32 \1, \2;\3"), DIFFERENT),
    ("scales of the block before", ptx(ALIGNED_SCALES, r"shr.u32 \1, \2, 7; add.s32 \1, \1, -1;\3"), DIFFERENT),
    ("blocks 64 tokens apart", ptx(r"add\.s32 (\s*%r\d+), (%r\d+), 128;(\s*setp\.ne)", r"add.s32 \1, \2, 64;\3"), DIFFERENT),
    ("scales of rows ignored", ptx(r"ld\.shared\.b32 \s*(%r\d+), \[%rd\d+\+40(960|992)\];", r"mov.b32 \1, 0f3F800000;", count=0), DIFFERENT),
    ("scales of columns ignored", ptx(r"ld\.shared\.v2\.b32 \s*\{(%r\d+), (%r\d+)\}, \[%rd\d+\+4[12]\d{3}\];", r"mov.b32 \1, 0f3F800000; mov.b32 \2, 0f3F800000;", count=0), DIFFERENT),
    ("the bytes of the scales not announced", ptx(r"(mov\.b32 \s*%r\d+), 42240;", r"\1, 40960;"), "more bytes land|fewer bytes|races|not been waited for"),
    ("a stage released before all lanes have read its scales", ptx(r"bar\.warp\.sync\s+-1;(\s*@%p\d+ bra [^;]*;\s*add\.s64[^;]*;\s*mbarrier\.arrive\.shared)", r"\1"), "races"),
    ("stage not waited for", stage_wait(172032, 0), "not been waited for|uninitialized|races"),
    ("loaded before it has been released", stage_wait(172064, 0), "arrivals in phase|races|land in phase|announced|two apart"),
    ("all but the last block forgotten", ptx(BLOCK_TERM, r"mul.rn.f32 \1, \2, \3;", count=0), DIFFERENT),
    ("the last group skipped", parameter(2, r"add.s32 \1, \1, -1;"), DIFFERENT),
    ("scales of one block less", manifest(*LAUNCH, 6, "dims", lambda dims: [dims[0], 1]), DIFFERENT),
]
ALIGNED_SHAPES = ["qa=144x2176,16x2432,144x5248,112x2688", "qb=2176x208,2432x16,5248x208,2688x16", "sa=17x144,19x16,41x144,21x112", "sb=17x208,19x16,41x208,21x16", "offs=6,6,40,4"]

# Scales of rows: of the last k-tile of a group the steps that have tokens, and that one first.
ALIGNED_ROWS_MUTANTS = [
    ("tokens behind the last whole step left out", ptx(r"(add\.s32 \s*%r\d+, %r\d+, )31;(\s*shr\.u32 \s*%r\d+, %r\d+, 5;)", r"\g<1>0;\2"), DIFFERENT),
    ("the last step left out", ptx(r"(sub\.s32 \s*(%r\d+), %r\d+, %r\d+;\s*add\.s32 \s*%r\d+, \2, )4;(\s*redux)", r"\g<1>3;\3"), DIFFERENT),
    ("the block behind the last one first", ptx(r"(add\.s32 \s*%r\d+, %r\d+, )-128;(\s*max\.u32)", r"\g<1>0;\2"), DIFFERENT),
    ("the k-tile before the last one first", ptx(r"(add\.s32 \s*%r\d+, %r\d+, )-128;(\s*max\.u32)", r"\g<1>-256;\2"), DIFFERENT),
]
ALIGNED_ROWS_SHAPES = [*ALIGNED_SHAPES[:2], "sa=6x144,6x16,40x144,4x112", "sb=6x208,6x16,40x208,4x16", ALIGNED_SHAPES[4]]

# Groups of few_tokens.mlir, the largest first: each lane compares its group's key, the size and below it 63 minus the number, with those of all 32; in
# this order a lane has a place, whose tiles are added up. The ends of groups are at 79104, of their tiles at 79232, the order at 79360.
COMPARED = r"(setp\.lt\.u32 \s*%p\d+, (%r\d+)), %r\d+;(\s*selp\.b64 \s*%rd\d+, 1, 0,)"
OWN_NUMBER = r"sub\.s32 (\s*%r\d+, %r\d+), %r1;(\s*add\.s32 \s*%r\d+, %r\d+, 63;)"
MISPLACED = "differ|races|uninitialized|outside"
# Tiles forward by a counter.
TAKEN = r"(atom\.global\.add\.u32 \s*%r\d+, \[%rd\d+"
COUNTED_MUTANTS = [
    ("every other tile is taken", ptx(TAKEN + r"\]), 1;", r"\1, 2;"), DIFFERENT),
    ("blocks take the same tiles", ptx(TAKEN + r"\]), 1;", r"\1, 0;"), "races"),
    ("blocks count themselves twice", ptx(TAKEN + r"\+4\]), 1;", r"\1, 2;"), LEFT),
    ("the counter of tiles is left as it is", ptx(r"atom\.global\.exch\.b32 \s*%r\d+, \[%rd\d+\], 0;"), LEFT),
    ("the counter of blocks is left as it is", ptx(r"atom\.global\.exch\.b32 \s*%r\d+, \[%rd\d+\+4\], 0;"), LEFT),
]
BY_SIZE_MUTANTS = [
    ("ends of groups read before they are there", ptx(r"bar\.warp\.sync\s+-1;"), "races|uninitialized"),
    ("the order read before it is there", ptx(r"bar\.warp\.sync\s+-1;", which=1), "races|uninitialized"),
    ("groups of one size have one place", ptx(OWN_NUMBER, r"sub.s32 \1, 0;\2"), MISPLACED),
    ("a group comes behind itself", ptx(r"setp\.lt(\.u32 \s*%p\d+, %r\d+, %r\d+;\s*selp\.b64 \s*%rd\d+, 1, 0,)", r"setp.le\1", count=32), MISPLACED),
    ("one group not compared with", ptx(COMPARED, r"\1, \2;\3", which=5), MISPLACED),
    ("the order one place further", ptx(r"(st\.shared\.b32 \s*\[%rd\d+\+)79360(\], %r1;)", r"\g<1>79364\2"), MISPLACED),
    ("the group at the place before", ptx(r"(ld\.shared\.b32 \s*%r\d+, \[%rd\d+\+)79360\]", r"\g<1>79356]", which=1), MISPLACED),
    ("tiles counted of the place before", ptx(r"(ld\.shared\.b32 \s*%r\d+, \[%rd\d+\+)79360\]", r"\g<1>79356]"), MISPLACED),
    ("the table read before it is there", ptx(r"bar\.sync \s*0;"), "mbarrier|races|uninitialized"),
]

# Operands of 16 bits, in the gradient: what lies behind a group in its last step is cleared in four blocks, two of each operand.
HALVES_WGMMA = r"(wgmma\.mma_async\S+ [^;]*, p, 1,\s*1, )"
HALVES_LOAD = r"(cp\.async\.bulk\.tensor\.2d\.shared::cluster\S+ \[%rd\d+\], \[%rd\d+, \{)(%r\d+), (%r\d+)(\}[^;]*;)"
HALVES_MUTANTS = [
    ("nothing cleared in the first block", ptx(ZEROED), DIFFERENT),
    ("nothing cleared in the second block", ptx(ZEROED, which=1), DIFFERENT),
    ("nothing cleared in the third block", ptx(ZEROED, which=2), DIFFERENT),
    ("nothing cleared in the fourth block", ptx(ZEROED, which=3), DIFFERENT),
    ("cleared from a token further on", ptx(r"setp\.ge\.s32(\s+%p\d+, %r\d+, %r\d+;\s*@%p\d+ bra[^;]*;\s*st\.shared\.v4\.b32\s+\[[^;]*\], \{0, 0, 0, 0\};)", r"setp.gt.s32\1"),
     DIFFERENT),
    ("cleared from a token before", ptx(r"add\.s32(\s+%r\d+, %r\d+), -1;(\s*add\.s64[^;]*;\s*add\.s64[^;]*;\s*mov\.b32)", r"add.s32\1, -2;\2"), DIFFERENT),
    ("cleared in the step before the last one", ptx(r"shl\.b32(\s+%r\d+, %r\d+), 11;(\s*cvt\.s64)", r"shl.b32\1, 10;\2"), DIFFERENT),
    ("half of a step cleared", ptx(r"(setp\.lt\.s32 \s*%p\d+, %r\d+), 32;", r"\1, -64;"), DIFFERENT),
    ("cleared without a fence", ptx(r"fence\.proxy\.async\S+;", count=0), "without a fence.proxy.async in between"),
    ("rows read as if they were K-major", ptx(HALVES_WGMMA + r"1,\s*1;", r"\g<1>0, 1;", count=0), DIFFERENT),
    ("columns read as if they were K-major", ptx(HALVES_WGMMA + r"1,\s*1;", r"\g<1>1, 0;", count=0), "uninitialized|differ|races"),
    ("the next step too near", ptx(r"(add\.s32 \s*%r\d+, %r\d+), 128;", r"\1, 64;", count=0), DIFFERENT),
    ("rows of the token behind", ptx(HALVES_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \3, 1; \1\2, OFF\4 }"), DIFFERENT),
    ("columns of the next row", ptx(HALVES_LOAD, r"{ .reg .b32 OFF; add.s32 OFF, \2, 8; \1OFF, \3\4 }", which=2), DIFFERENT),
    ("the second block in the place of the first", ptx(HALVES_LOAD, r"", which=1), "deadlock|fewer bytes"),
]

# The same in clusters. An address of shared memory has the CTA's rank in its upper bits, and a descriptor of an MN-major tile must not.
HALVES_SHARED = r"(cp\.async\.bulk\.tensor\.2d\.shared::cluster\S+multicast::cluster )\[(%rd\d+)\](, \[%rd\d+, \{%r\d+), (%r\d+)(\}[^;]*;)"
HALVES_CLUSTER_MUTANTS = [
    ("the rank of the CTA in a descriptor", ptx(r"bfe\.u64( \s*%rd\d+, %rd\d+), 4, 14;", r"shr.u64\1, 4;", count=0), "uninitialized|differ|races"),
    ("both halves of the tokens are the same", ptx(HALVES_SHARED, r"{ .reg .b32 OFF; mov.u32 OFF, %cluster_ctarank; mad.lo.s32 OFF, OFF, -32, \4; \1[\2]\3, OFF\5 }", count=0),
     DIFFERENT),
    ("both halves of the tokens in one place", ptx(HALVES_SHARED, r"{ .reg .b32 OFF; .reg .b64 AT; mov.u32 OFF, %cluster_ctarank; mul.wide.s32 AT, OFF, -4096; "
                                                   r"add.s64 AT, \2, AT; \1[AT]\3, \4\5 }", count=0), "uninitialized|races"),
    ("shared columns for the own CTA only", ptx(r"(mov\.b16 \s*%rs\d+), 3;", r"\1, 1;", count=0), "deadlock|differ|uninitialized|more bytes"),
    ("nothing cleared in the fourth block", ptx(ZEROED, which=3), DIFFERENT),
]

# Rounding both ways, in groups. Four lanes find the largest magnitude of a row's block, two lanes of each warp those of its columns.
ROUND_SHAPES = ["x=300x608,45x32", "offs=12,3"]
ROUND_MUTANTS = [
    ("the block of a row without two of its lanes", ptx(r"shfl\.sync\.bfly\.b32 \s*(%r\d+), (%r\d+), 1, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("the block of a row without one half", ptx(r"shfl\.sync\.bfly\.b32 \s*(%r\d+), (%r\d+), 2, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("the scale of another row", ptx(r"(shfl\.sync\.idx\.b32 \s*%r\d+, %r\d+), 2, 7199, -1;", r"\1, 3, 7199, -1;"), DIFFERENT),
    ("the block of a column without one of a lane's rows", ptx(r"max\.NaN\.bf16x2 (\s*%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("the block of a column without one half", ptx(r"shfl\.sync\.bfly\.b32 \s*(%r\d+), (%r\d+), 16, 31, -1;", r"mov.b32 \1, \2;"), DIFFERENT),
    ("rows behind the group stored", ptx(r"and\.pred( \s*%p\d+), (%p\d+), %p\d+;", r"mov.pred\1, \2;", which=1), "differ|races|outside|no group"),
    ("NaN for no block", ptx(r"(setp\.eq\.b32 \s*%p\d+, %r\d+), 255;", r"\1, 256;", count=0), DIFFERENT),
    ("the least scale as if it were 0", ptx(r"(selp\.b32 \s*%r\d+), 4194304,", r"\1, 0,", count=0), DIFFERENT),
    ("both directions in one result", ptx(r"(ld\.param\.b64 \s*%rd\d+, \[\w+_param_)4\];", r"\g<1>3];"), "differ|races|uninitialized|written by"),
    ("the table of groups read before it is there", ptx(r"bar\.sync \s*0;"), "races|uninitialized"),
]

# Operands that the kernel makes of MX blocks: the code of who makes stands twice, for all warps at first and for three of them, each time
# for the weights and for the tokens; then that of the thread that loads, for its first tile and for the others. A fence of the proxy by one of
# the two sides is enough for the emulator. Under a random schedule it looks at all orders, and threads that load wait.
AHEAD_SHAPES = ["qa=1100x288", "qb=1x288x400", "sa=1100x9", "sb=1x9x400", "offs=1"]
AHEAD_OF_FEW_SHAPES = ["qa=300x288", "qb=24x288x144", "sa=300x9", "sb=24x9x144", "offs=24"]
NOT_ZERO = "starts as zero, and a call must leave it zero"
TAKE = r"(atom\.global\.add\.u32 \s*%r\d+, \[%rd\d+\+8\], )1;"
AHEAD_MUTANTS = [
    ("nobody executes a fence of the proxy of global memory", ptx(r"fence\.proxy\.async\.global;", count=0), "without a fence.proxy.async for global memory"),
    ("lanes release before the others have written", ptx(r"(fence\.proxy\.async\.global;\s*)bar\.warp\.sync[^;]*;", r"\1", count=0), "nothing orders the two"),
    ("pieces are not released", ptx(r"red\.release\.gpu", "red.relaxed.gpu", count=0), "nothing orders the two"),
    ("the thread that loads acquires nothing", ptx(r"fence\.acq_rel\.gpu;(?=\s*fence\.proxy)", count=0), "nothing orders the two"),
    ("but for its first tile", ptx(r"fence\.acq_rel\.gpu;(?=\s*fence\.proxy)", which=1), "nothing orders the two"),
    ("it wants a piece less of each panel", ptx(r"(atom\.global\.add\.u32 \s*)(%r\d+)(, \[%rd\d+\], %r\d+;)", r"\1\2\3 add.s32 \2, \2, 1;", count=0), "nothing orders the two"),
    ("it asks no more before all is made", ptx(r"(and\.b32 \s*%r\d+, %r\d+, 65535;\s*)setp\.eq", r"\1setp.ne", count=0), "nothing orders the two"),
    ("every other piece is nobody's", ptx(TAKE, r"\g<1>2;", count=0), "the limit of 300000 steps"),
    ("the first piece is made by several", ptx(TAKE, r"\g<1>0;"), "nothing orders the two"),
    ("counts of panels are not left zero", ptx(r"st\.global\.b32 \s*\[%rd\d+(?:\+-?\d+)?\], 0;", count=0), NOT_ZERO),
    ("nor the number of pieces taken", ptx(r"atom\.global\.exch\.b32 \s*%r\d+, \[%rd\d+\+8\], 0;", count=0), NOT_ZERO),
    ("the scale of another block", ptx(r"(shr\.u64 \s*%rd\d+, %rd\d+), 5;", r"\1, 6;"), DIFFERENT),
]
# All is made first: a maker that is done speaks for the other warps of its CTA too.
AHEAD_OF_FEW_MUTANTS = [
    ("makers do not wait for the other warps of their CTA", ptx(r"bar\.sync \s*0;", which=1), "nothing orders the two"),
    ("the table of groups is read before it is there", ptx(r"bar\.sync \s*0;"), "uninitialized shared memory"),
]

# Wide tiles of a gradient, which stand behind the others: on four multiprocessors these shapes have them, and 16 columns are left.
WIDE_SHAPES = ["qa=128x336", "qb=336x784", "sa=3x128", "sb=3x784", "offs=3"]
WIDE_MUTANTS = [
    ("every other CTA has the other tiles", ptx(r"and\.pred( \s*%p\d+), %p\d+, %p\d+;", r"{ .reg .b32 ODD; mov.u32 ODD, %ctaid.x; and.b32 ODD, ODD, 1; setp.eq.u32\1, ODD, 1; }"), "differ|races|written by|uninitialized"),
    ("a box of the columns of other tiles", manifest(*LAUNCH, 12, "box", [128, 128]), "deadlock"),
    ("the map of other tiles", ptx(r"(mov\.b64 \s*%rd\d+, product_0_param_)12;", r"\g<1>5;"), "deadlock"),
    ("tiles begin 128 columns apart", ptx(r"(mul\.lo\.s32 \s*%r\d+, %r\d+), 192;", r"\1, 128;", count=0), "differ|races|written by"),
    ("a stage is shorter than its tiles", ptx(r"(mul\.lo\.s32 \s*%r\d+, %r\d+), 40960;", r"\1, 32768;", count=0), "races|not been waited for|land"),
    ("a stage more than there are", ptx(r"(setp\.eq\.b32 \s*%p\d+, %r\d+), 5;", r"\1, 6;", count=0), "mbarrier|races|uninitialized|deadlock"),
]

PRODUCT_SHAPES = ["qa=700x272", "qb=11x272x336", "sa=700", "sb=11x336", "offs=11"]
GRADIENT_SHAPES = ["qa=144x1104", "qb=1104x336", "sa=17x144", "sb=17x336", "offs=17"]


def shapes(arguments):
    return [word for argument in arguments for word in ("--shape", argument)]


# The arguments of moe-run, and the mutants.
# MX blocks both ways by clusters, whose CTAs send the scales of rows to the one that stores them: of the second cluster in a row two of eight CTAs have
# tiles, and the last one of these 32 columns.
DUAL_SHAPE = "x=1x160x1184"
DUAL_MUTANTS = [
    ("the barrier of the cluster not waited for", ptx(r"barrier\.cluster\.wait\.aligned;"), "may not have begun"),
    ("no arrival at it", ptx(r"barrier\.cluster\.arrive\.relaxed\.aligned;"), "without having arrived"),
    ("fence.mbarrier_init dropped", ptx(r"fence\.mbarrier_init\S+;"), "without order after its initialization|not visible to the async proxy"),
    ("scales stored before they have landed", ptx(WAIT, which=2), "races|uninitialized"),
    ("a try in place of a wait", ptx(r"bra\.uni\s+LAB_WAIT;", which=2), "races|uninitialized"),
    ("half of the scales' bytes announced", ptx(r"(shl\.b32 \s*%r\d+, %r\d+), 6;(\s*mbarrier\.arrive\.expect_tx)", r"\1, 5;\2"), "bytes|races|uninitialized"),
    ("twice as many bytes announced", ptx(r"(shl\.b32 \s*%r\d+, %r\d+), 6;(\s*mbarrier\.arrive\.expect_tx)", r"\1, 7;\2"), "deadlock"),
    ("bytes of all eight CTAs announced", ptx(r"mul\.lo\.s32 (\s*%r\d+), (%r\d+), (%r\d+);(\s*shl\.b32[^;]*, 6;)", r"mul.lo.s32 \1, 8, \3;\4"), "deadlock"),
    ("scales go to one CTA, their bytes to another", ptx(r"(mapa\.shared::cluster\.u64 \s*%rd\d+, %rd\d+), %r\d+;", r"\1, 0;"), "of different CTAs"),
    ("all scales go to the first CTA", ptx(r"(mapa\.shared::cluster\.u64 \s*%rd\d+, %rd\d+), %r\d+;", r"\1, 0;", count=2), "deadlock|bytes"),
    ("scales go to CTAs without tiles", ptx(r"rem\.u16 (\s*%rs\d+), (%rs\d+), %rs\d+;", r"mov.b16 \1, \2;"), "exit|deadlock|no mbarrier|no CTA"),
    ("scales of all tiles in one place", ptx(r"or\.b32 (\s*%r\d+), (%r\d+), (%r\d+);(\s*shr\.u32 [^;]*, 5;\s*or\.b32)", r"mov.b32 \1, \2;\4"), "races"),
    ("CTAs behind the last column have tiles", ptx(r"setp\.ge\.u32 (\s*%p\d+), (%r\d+), (%r\d+);(\s*@%p\d+ bra)", r"setp.ge.u32 \1, \2, 1024;\4"),
     DIFFERENT + "|deadlock|exit|outside|bytes"),
    ("a CTA stores another one's rows", ptx(r"mad\.lo\.s32 (\s*%r\d+, %r\d+, %r\d+), %r\d+;", r"mad.lo.s32 \1, 0;"), "uninitialized|races|differ"),
    ("rows behind the end stored", ptx(r"setp\.ge\.u32 (\s*%p\d+), (%r\d+), %r\d+;(\s*or\.pred)", r"setp.ge.u32 \1, \2, 128;\3", count=0), "races|outside|after the end|differ"),
]

SUITES = {
    "--dual": (["--shape", DUAL_SHAPE, "--edge-blocks"], DUAL_MUTANTS),
    "--rows": (["--shape", ROW_SHAPE], ROW_MUTANTS),
    "--stream": (["--shape", STREAM_SHAPE, "--edge-blocks"], STREAM_MUTANTS),
    "--fp8-rows": (["--shape", FP8_ROW_SHAPE, "--edge-blocks"], FP8_ROW_MUTANTS),
    "--products": ([*shapes(PRODUCT_SHAPES), "--exact", "--nan-groups", "--groups", "edge"], PRODUCT_MUTANTS),
    "--counted": ([*shapes(PRODUCT_SHAPES), "--exact", "--nan-groups", "--groups", "edge", "--step-limit", "300000"], COUNTED_MUTANTS),
    "--by-size": (["--exact", "--nan-groups", "--groups", "edge"], BY_SIZE_MUTANTS),
    "--clusters": ([*shapes(PRODUCT_SHAPES), "--exact", "--nan-groups", "--groups", "edge"], CLUSTER_MUTANTS),
    "--pingpong": ([*shapes(PRODUCT_SHAPES), "--exact", "--nan-groups", "--groups", "edge"], PINGPONG_MUTANTS),
    "--blocks": ([*shapes(BLOCK_SHAPES), "--exact", "--nan-groups", "--groups", "edge"], BLOCK_MUTANTS),
    "--direct": ([*shapes(BLOCK_SHAPES), "--exact", "--nan-groups", "--groups", "edge"], DIRECT_MUTANTS),
    "--mx-tokens": ([*shapes(MX_TOKEN_SHAPES), "--exact", "--nan-groups", "--groups", "ragged"], MX_TOKEN_MUTANTS),
    "--mx": ([*shapes(MX_SHAPES), "--exact", "--nan-groups", "--groups", "edge"], MX_MUTANTS),
    "--aligned": ([*shapes(ALIGNED_SHAPES), "--exact", "--nan-groups", "--groups", "ragged"], ALIGNED_MUTANTS),
    "--rows-aligned": ([*shapes(ALIGNED_ROWS_SHAPES), "--exact", "--nan-groups", "--groups", "ragged"], ALIGNED_ROWS_MUTANTS),
    "--token-blocks": ([*shapes(TOKEN_BLOCK_SHAPES), "--exact", "--nan-groups", "--groups", "ragged"], TOKEN_BLOCK_MUTANTS),
    # A mutant that counts from below zero multiplies until it comes to the limit; the right kernel takes fewer than 200000 steps.
    "--gradients": ([*shapes(GRADIENT_SHAPES), "--exact", "--nan-groups", "--groups", "edge", "--step-limit", "300000"], GRADIENT_MUTANTS),
    "--ahead": ([*shapes(AHEAD_SHAPES), "--exact", "--nan-groups", "--schedule", "1", "--step-limit", "300000"], AHEAD_MUTANTS),
    "--ahead-of-few": ([*shapes(AHEAD_OF_FEW_SHAPES), "--exact", "--nan-groups", "--schedule", "1"], AHEAD_OF_FEW_MUTANTS),
    "--wide": ([*shapes(WIDE_SHAPES), "--exact", "--nan-groups", "--groups", "edge"], WIDE_MUTANTS),
    "--halves": (["--shape", "a=144x1104", "--shape", "b=1104x336", "--shape", "offs=17", "--exact", "--nan-groups", "--groups", "edge"], HALVES_MUTANTS),
    "--cluster-halves": (["--shape", "a=144x1104", "--shape", "b=1104x336", "--shape", "offs=17", "--exact", "--nan-groups", "--groups", "edge"], HALVES_CLUSTER_MUTANTS),
    "--round": ([*shapes(ROUND_SHAPES), "--groups", "edge", "--edge-blocks"], ROUND_MUTANTS),
    "--fp8-scales": (["--shape", FP8_SCALE_SHAPE, "--shape", FP8_SCALE_SHAPE.replace("x=", "y="), "--edge-blocks"], FP8_SCALE_MUTANTS),
    "--order": (["--shape", FP8_SCALE_SHAPE, "--shape", FP8_SCALE_SHAPE.replace("x=", "y="), "--edge-blocks"], ORDER_MUTANTS),
    "--chain": ([*shapes(CHAIN_SHAPES), "--normal", "--groups", "edge"], CHAIN_MUTANTS),
    "--fp8-pair": (["--shape", FP8_PAIR_SHAPE, "--shape", "y=304x528,96x32,288x16", "--shape", "offs=9,4,3", "--groups", "edge"], FP8_PAIR_MUTANTS),
    "--fp8-columns": (["--shape", "x=304x272,1264x528", "--shape", "offs=9,2", "--groups", "equal", "--edge-blocks"], FP8_COLUMNS_MUTANTS),
    "--fp8-aligned": (["--shape", "x=304x272,1264x528,704x144", "--shape", "offs=9,2,11", "--groups", "edge", "--edge-blocks"], FP8_ALIGNED_MUTANTS),
    "--fp8-squares": (["--shape", "x=2x400x528,3x272x144"], FP8_SQUARES_MUTANTS),
}
ARGUMENTS, CHOSEN = next((SUITES[flag] for flag in SUITES if flag in sys.argv), (["--shape", SHAPE], MUTANTS))


# One run: what a call leaves to the next one only values.py asks. A check of two runs takes three times as long.
CHECK = ["--device", "emu", "--check", "--runs", "1", "--random", "1", "--step-limit", "3000000", "--threads", "1"]


def run(bundle, arguments=None):
    """What moe-run says about a bundle; its exit code."""
    bundle = os.path.abspath(bundle)
    done = subprocess.run(["moe-run", bundle, *CHECK, *(arguments or ARGUMENTS)], capture_output=True, text=True, cwd=os.path.dirname(bundle))
    return done.returncode, (done.stdout + done.stderr).strip()


def write(bundle, text, description):
    """Writes the PTX and the manifest, with the hash that moe-run finds."""
    data = text.encode()
    with open(os.path.join(bundle, "kernels.ptx"), "wb") as file:
        file.write(data)
    description["artifacts"].pop("cubin", None)
    description["artifacts"]["ptx"]["bytes"] = len(data)
    path = os.path.join(bundle, "manifest.json")
    with open(path, "w") as file:
        json.dump(description, file)
    found = re.search(r"has the hash ([0-9a-f]{32})", run(bundle)[1])
    if found:
        description["artifacts"]["ptx"]["xxh3_128"] = found.group(1)
        with open(path, "w") as file:
            json.dump(description, file)


def shorten(said):
    """What is wrong, without where; where only the bits differ, that."""
    if DIFFERENT in said:
        return "the bits differ from the C reference's"
    said = re.sub(r"^.*?CTA \(\d+,\d+,\d+\)(, warp \d+)?(, lane \d+)?: ", "", said.splitlines()[0])
    said = re.sub(r"^moe-run: .*kernel '[^']*': ", "", said)
    said = re.sub(r" by another CTA, \(.*", " by another CTA", said)
    said = re.sub(r"; warp 0, lanes 0x\w+, waits at line \d+ \((\S+)\).*", r": `\1` waits", said)
    said = re.sub(r"global address \S+ lies \d+ bytes .*", "an address outside of every buffer", said)
    said = re.sub(r" (at|at shared address|address) (address )?0x[0-9a-f]+", "", said)
    return re.sub(r"0x[0-9a-f]{4,}", "...", said)


def main():
    source, scratch = sys.argv[1:3]
    with open(os.path.join(source, "kernels.ptx")) as file:
        text = file.read()
    with open(os.path.join(source, "manifest.json")) as file:
        original = file.read()
    code, said = run(source)
    if code != 0:
        raise SystemExit(f"mutants.py: the kernel itself fails: {said}")
    failures, rows = 0, []
    for name, change, caught in CHOSEN:
        description = json.loads(original)
        bundle = os.path.join(scratch, "mutant")
        shutil.rmtree(bundle, ignore_errors=True)
        os.makedirs(bundle)
        write(bundle, change(text, description), description)
        code, said = run(bundle)
        is_caught = code in (1, 70) and re.search(caught, said, re.S)
        if not is_caught:
            failures += 1
            print(f"NOT CAUGHT: {name}: exit {code}: {said[:600]}")
        rows.append((name, shorten(said)))
    if "--table" in sys.argv:
        with open(sys.argv[sys.argv.index("--table") + 1], "w") as file:
            print("| mutant | what the emulator said |\n|---|---|", file=file)
            for name, said in rows:
                print(f"| {name} | {said.replace('|', '/')} |", file=file)
    print(f"{len(CHOSEN) - failures} of {len(CHOSEN)} mutants are caught")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
