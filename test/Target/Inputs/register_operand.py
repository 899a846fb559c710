"""Puts a wgmma with its first operand in registers at the beginning of a kernel in the stage nvvm.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import sys

PRODUCT = (
    "{ .reg .f32 s<4>; .reg .b32 a<4>; .reg .b64 d; mov.b64 d, 0; "
    "mov.b32 a0, 0; mov.b32 a1, 0; mov.b32 a2, 0; mov.b32 a3, 0; wgmma.fence.sync.aligned; "
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {s0, s1, s2, s3}, {a0, a1, a2, a3}, d, 1, 1, 1, 0; "
    "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }"
)
text = sys.stdin.read()
kernel = re.search(r"llvm\.func @\w+\(.*?\{\n", text)
# In LLVM's inline assembly a $ is an operand, and {, | and } are not special to NVPTX.
print(text[: kernel.end()] + f'      llvm.inline_asm has_side_effects "{PRODUCT}", "" : () -> ()\n' + text[kernel.end() :])
