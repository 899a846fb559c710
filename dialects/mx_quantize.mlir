// The mx_quantize dialect: casts to the low-precision formats of mixture-of-experts models.
//
// IRDL states the structure of an op (how many operands, which attributes, of which kind); what the values mean is checked
// by moe-verify. docs/dialects/mx_quantize.md is the reference. Stock mlir-opt reads this file with --irdl-file=.
// The integer `align` of ops with groups is optional, which IRDL cannot say: 128 where groups begin at multiples of 128 in what is
// quantized along tokens.
//
// Generated from lib/Dialect. Do not edit: change the rows, then `cmake --build build --target dialects`.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

irdl.dialect @mx_quantize {
  // x [, offs] -> q, scales: MX blocks of `block` consecutive elements along `axis` share one E8M0 scale. offs cuts dimension 0 of
  // a matrix into groups, each of which begins with a block of its own.
  irdl.operation @quantize {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.integer"
    %block = irdl.base "#builtin.integer"
    %mode = irdl.base "#builtin.string"
    irdl.operands(x: %x, offs: optional %offs)
    irdl.results(q: %q, scales: %scales)
    irdl.attributes {"axis" = %axis, "block" = %block, "mode" = %mode}
  }

  // q, scales [, offs] -> x: the inverse, rounded once to the type of x. offs is as for quantize; groups stay where they are in q.
  // The string `order` is optional: of the columns of x, as mixed_mm with layout "evens_first" reads them.
  irdl.operation @dequantize {
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.integer"
    %block = irdl.base "#builtin.integer"
    irdl.operands(q: %q, scales: %scales, offs: optional %offs)
    irdl.results(x: %x)
    irdl.attributes {"axis" = %axis, "block" = %block}
  }

  // q, scales -> x, scales_x: the inverse of quantize along the last dimension, as rows of f16, each over a power of two, by which its
  // greatest scale becomes 2^7. The string `order` is as for dequantize.
  irdl.operation @dequantize_f16 {
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %scales_x = irdl.base "!builtin.tensor"
    irdl.operands(q: %q, scales: %scales)
    irdl.results(x: %x, scales_x: %scales_x)
  }

  // x [, offs] -> rounded: what quantize and then dequantize make of x, in one pass: numbers of MX blocks of `element`, as bf16. offs
  // is as for quantize; the groups stay where they are.
  irdl.operation @round {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %rounded = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.integer"
    %block = irdl.base "#builtin.integer"
    %mode = irdl.base "#builtin.string"
    %element = irdl.base "#builtin.string"
    irdl.operands(x: %x, offs: optional %offs)
    irdl.results(rounded: %rounded)
    irdl.attributes {"axis" = %axis, "block" = %block, "mode" = %mode, "element" = %element}
  }

  // x [, offs] -> rounded, rounded_t: the same along the last dimension (rounded) and along the one before it (rounded_t), from one
  // read. offs is for the latter.
  irdl.operation @round_dual {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %rounded = irdl.base "!builtin.tensor"
    %rounded_t = irdl.base "!builtin.tensor"
    %block = irdl.base "#builtin.integer"
    %mode = irdl.base "#builtin.string"
    %element = irdl.base "#builtin.string"
    irdl.operands(x: %x, offs: optional %offs)
    irdl.results(rounded: %rounded, rounded_t: %rounded_t)
    irdl.attributes {"block" = %block, "mode" = %mode, "element" = %element}
  }

  // x -> q, scales, q_t, scales_t: quantize along the last dimension (q) and along the one before it (q_t), from one read.
  irdl.operation @quantize_dual {
    %x = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %q_t = irdl.base "!builtin.tensor"
    %scales_t = irdl.base "!builtin.tensor"
    %block = irdl.base "#builtin.integer"
    %mode = irdl.base "#builtin.string"
    irdl.operands(x: %x)
    irdl.results(q: %q, scales: %scales, q_t: %q_t, scales_t: %scales_t)
    irdl.attributes {"block" = %block, "mode" = %mode}
  }

  // x -> q, scales: rows of f16, each over a power of two, by which its greatest magnitude comes to lie from 2^15 up to 2^16.
  irdl.operation @quantize_f16 {
    %x = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(q: %q, scales: %scales)
  }

  // x [, offs] -> q, scales: one f32 scale for each slice of x that `granularity` names; x is about q * scales. offs cuts
  // dimension 0 into groups.
  irdl.operation @quantize_fp8 {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %granularity = irdl.base "#builtin.string"
    %axis = irdl.base "#builtin.integer"
    %pow2 = irdl.base "#builtin.integer"
    %sanitize = irdl.base "#builtin.integer"
    irdl.operands(x: %x, offs: optional %offs)
    irdl.results(q: %q, scales: %scales)
    irdl.attributes {"granularity" = %granularity, "axis" = %axis, "pow2" = %pow2, "sanitize" = %sanitize}
  }

  // x [, offs] -> q, scales, q_t, scales_t: quantize_fp8 along the last dimension (q) and along the one before it (q_t). The
  // string `granularity` is optional, which IRDL cannot say: "row" if it is not there, with one read of x for the scales and one
  // for the casts, or "1x128" or "128x128", with one read in all.
  irdl.operation @quantize_fp8_dual {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %q_t = irdl.base "!builtin.tensor"
    %scales_t = irdl.base "!builtin.tensor"
    %pow2 = irdl.base "#builtin.integer"
    %sanitize = irdl.base "#builtin.integer"
    irdl.operands(x: %x, offs: optional %offs)
    irdl.results(q: %q, scales: %scales, q_t: %q_t, scales_t: %scales_t)
    irdl.attributes {"pow2" = %pow2, "sanitize" = %sanitize}
  }

  // x, y, offs -> q, scales, q_y, scales_y: two quantize_fp8 with granularity "row" along dimension 0, of tensors with the same rows in
  // the same groups, in the launches of one.
  irdl.operation @quantize_fp8_pair {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %q_y = irdl.base "!builtin.tensor"
    %scales_y = irdl.base "!builtin.tensor"
    %pow2 = irdl.base "#builtin.integer"
    %sanitize = irdl.base "#builtin.integer"
    irdl.operands(x: %x, y: %y, offs: %offs)
    irdl.results(q: %q, scales: %scales, q_y: %q_y, scales_y: %scales_y)
    irdl.attributes {"pow2" = %pow2, "sanitize" = %sanitize}
  }

  // x [, offs] -> scales, factors, state: the first of the two passes of quantize_fp8. factors is what elements are multiplied by,
  // scales the inverse. state belongs to the kernel: zero before and after each call.
  irdl.operation @scale_fp8 {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %factors = irdl.base "!builtin.tensor"
    %state = irdl.base "!builtin.tensor"
    %granularity = irdl.base "#builtin.string"
    %axis = irdl.base "#builtin.integer"
    %pow2 = irdl.base "#builtin.integer"
    %sanitize = irdl.base "#builtin.integer"
    %element = irdl.base "#builtin.string"
    irdl.operands(x: %x, offs: optional %offs)
    irdl.results(scales: %scales, factors: %factors, state: %state)
    irdl.attributes {"granularity" = %granularity, "axis" = %axis, "pow2" = %pow2, "sanitize" = %sanitize, "element" = %element}
  }

  // x, factors [, offs] -> q: the second.
  irdl.operation @cast_fp8 {
    %x = irdl.base "!builtin.tensor"
    %factors = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %granularity = irdl.base "#builtin.string"
    %axis = irdl.base "#builtin.integer"
    %sanitize = irdl.base "#builtin.integer"
    irdl.operands(x: %x, factors: %factors, offs: optional %offs)
    irdl.results(q: %q)
    irdl.attributes {"granularity" = %granularity, "axis" = %axis, "sanitize" = %sanitize}
  }

  // The two passes of quantize_fp8_dual.
  irdl.operation @scale_fp8_dual {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %factors = irdl.base "!builtin.tensor"
    %state = irdl.base "!builtin.tensor"
    %scales_t = irdl.base "!builtin.tensor"
    %factors_t = irdl.base "!builtin.tensor"
    %state_t = irdl.base "!builtin.tensor"
    %pow2 = irdl.base "#builtin.integer"
    %sanitize = irdl.base "#builtin.integer"
    %element = irdl.base "#builtin.string"
    irdl.operands(x: %x, offs: optional %offs)
    irdl.results(scales: %scales, factors: %factors, state: %state, scales_t: %scales_t, factors_t: %factors_t, state_t: %state_t)
    irdl.attributes {"pow2" = %pow2, "sanitize" = %sanitize, "element" = %element}
  }

  // x, factors, factors_t [, offs] -> q, q_t
  irdl.operation @cast_fp8_dual {
    %x = irdl.base "!builtin.tensor"
    %factors = irdl.base "!builtin.tensor"
    %factors_t = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %q_t = irdl.base "!builtin.tensor"
    %sanitize = irdl.base "#builtin.integer"
    irdl.operands(x: %x, factors: %factors, factors_t: %factors_t, offs: optional %offs)
    irdl.results(q: %q, q_t: %q_t)
    irdl.attributes {"sanitize" = %sanitize}
  }

  // The two passes of quantize_fp8_pair.
  irdl.operation @scale_fp8_pair {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %factors = irdl.base "!builtin.tensor"
    %state = irdl.base "!builtin.tensor"
    %scales_y = irdl.base "!builtin.tensor"
    %factors_y = irdl.base "!builtin.tensor"
    %state_y = irdl.base "!builtin.tensor"
    %pow2 = irdl.base "#builtin.integer"
    %sanitize = irdl.base "#builtin.integer"
    %element = irdl.base "#builtin.string"
    irdl.operands(x: %x, y: %y, offs: %offs)
    irdl.results(scales: %scales, factors: %factors, state: %state, scales_y: %scales_y, factors_y: %factors_y, state_y: %state_y)
    irdl.attributes {"pow2" = %pow2, "sanitize" = %sanitize, "element" = %element}
  }

  // x, y, factors, factors_y, offs -> q, q_y
  irdl.operation @cast_fp8_pair {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %factors = irdl.base "!builtin.tensor"
    %factors_y = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %q_y = irdl.base "!builtin.tensor"
    %sanitize = irdl.base "#builtin.integer"
    irdl.operands(x: %x, y: %y, factors: %factors, factors_y: %factors_y, offs: %offs)
    irdl.results(q: %q, q_y: %q_y)
    irdl.attributes {"sanitize" = %sanitize}
  }

  // q, scales [, offs] -> x: q * scales, rounded once to the type of x.
  irdl.operation @dequantize_fp8 {
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %granularity = irdl.base "#builtin.string"
    %axis = irdl.base "#builtin.integer"
    irdl.operands(q: %q, scales: %scales, offs: optional %offs)
    irdl.results(x: %x)
    irdl.attributes {"granularity" = %granularity, "axis" = %axis}
  }

  // scales [, offs] -> packed: E8M0 scales in the tiles of 128 x 4 that block-scaled tensor cores read; with offs each group
  // starts a tile of its own. Layout "rows_innermost": f32 scales with the rows side by side in memory.
  irdl.operation @pack_scales {
    %scales = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %packed = irdl.base "!builtin.tensor"
    %layout = irdl.base "#builtin.string"
    irdl.operands(scales: %scales, offs: optional %offs)
    irdl.results(packed: %packed)
    irdl.attributes {"layout" = %layout}
  }

  // x, offs -> padded, padded_offs: moves each group to a multiple of `align` rows; the rows between are zero.
  irdl.operation @pad_groups {
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %padded = irdl.base "!builtin.tensor"
    %padded_offs = irdl.base "!builtin.tensor"
    %align = irdl.base "#builtin.integer"
    irdl.operands(x: %x, offs: %offs)
    irdl.results(padded: %padded, padded_offs: %padded_offs)
    irdl.attributes {"align" = %align}
  }

  // padded, offs, padded_offs -> x: the inverse.
  irdl.operation @unpad_groups {
    %padded = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %padded_offs = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %align = irdl.base "#builtin.integer"
    irdl.operands(padded: %padded, offs: %offs, padded_offs: %padded_offs)
    irdl.results(x: %x)
    irdl.attributes {"align" = %align}
  }
}
