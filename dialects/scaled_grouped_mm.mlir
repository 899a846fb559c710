// The scaled_grouped_mm dialect: matrix products of quantized operands, over groups of tokens given by offsets.
//
// scaled_mm, mm, mixed_mm and pack_weights have kernels, and grouped_mm becomes quantizers or rounding, and products.
// docs/dialects/scaled_grouped_mm.md is the reference. Stock mlir-opt reads this file with --irdl-file=.
//
// Generated from lib/Dialect. Do not edit: change the rows, then `cmake --build build --target dialects`.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

irdl.dialect @scaled_grouped_mm {
  // a, b [, offs] -> out: high-precision operands, quantized inside as `recipe` says. The case follows from the ranks. The string
  // `accumulate` is optional, which IRDL cannot say.
  irdl.operation @grouped_mm {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %recipe = irdl.base "#builtin.string"
    irdl.operands(a: %a, b: %b, offs: optional %offs)
    irdl.results(out: %out)
    irdl.attributes {"recipe" = %recipe}
  }

  // a, b [, offs] -> out: a product of 16-bit operands, which have no scales. The case follows from the ranks. The integer `align`
  // is for a gradient of weights in which groups begin at multiples of 128 tokens, and optional, which IRDL cannot say.
  irdl.operation @mm {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b, offs: optional %offs)
    irdl.results(out: %out)
  }

  // a, b [, offs], bias -> out: mm with a bias for each column of each expert. An op of its own for the reason that scaled_mm_bias
  // is.
  irdl.operation @mm_bias {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b, offs: optional %offs, bias: %bias)
    irdl.results(out: %out)
  }

  // qa, qb, sa, sb [, offs] -> out: the case (2D-3D, 2D-2D, 3D-3D) follows from the ranks. The string `granularity` is for a
  // gradient of weights whose scales are of 1x128 blocks along tokens; the integer `align` is for one in which groups begin at
  // multiples of 128 tokens. Both are optional, which IRDL cannot say.
  irdl.operation @scaled_mm {
    %qa = irdl.base "!builtin.tensor"
    %qb = irdl.base "!builtin.tensor"
    %sa = irdl.base "!builtin.tensor"
    %sb = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %accumulate = irdl.base "#builtin.string"
    irdl.operands(qa: %qa, qb: %qb, sa: %sa, sb: %sb, offs: optional %offs)
    irdl.results(out: %out)
    irdl.attributes {"accumulate" = %accumulate}
  }

  // qa, qb, sa, sb [, offs], bias -> out: the same, with a bias for each column of each expert. An op of its own, since two
  // optional operands would ask for their segment sizes as an attribute of every op.
  irdl.operation @scaled_mm_bias {
    %qa = irdl.base "!builtin.tensor"
    %qb = irdl.base "!builtin.tensor"
    %sa = irdl.base "!builtin.tensor"
    %sb = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %accumulate = irdl.base "#builtin.string"
    irdl.operands(qa: %qa, qb: %qb, sa: %sa, sb: %sb, offs: optional %offs, bias: %bias)
    irdl.results(out: %out)
    irdl.attributes {"accumulate" = %accumulate}
  }

  // qa, qb, sa, sb, offs -> out, a, b, state_a, state_b: the product of what two tensors of MX blocks stand for, in one launch, whose
  // warps make the numbers of a and b while others multiply. a and b are room for them; afterwards they hold what belongs to groups.
  // The states belong to the kernel: zero before and after each call.
  irdl.operation @dequantize_mm {
    %qa = irdl.base "!builtin.tensor"
    %qb = irdl.base "!builtin.tensor"
    %sa = irdl.base "!builtin.tensor"
    %sb = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %state_a = irdl.base "!builtin.tensor"
    %state_b = irdl.base "!builtin.tensor"
    irdl.operands(qa: %qa, qb: %qb, sa: %sa, sb: %sb, offs: %offs)
    irdl.results(out: %out, a: %a, b: %b, state_a: %state_a, state_b: %state_b)
  }

  // qa, qb, sa, sb, offs, bias -> out, a, b, state_a, state_b: dequantize_mm with a bias for each column of each expert. An op of its
  // own for the reason that scaled_mm_bias is.
  irdl.operation @dequantize_mm_bias {
    %qa = irdl.base "!builtin.tensor"
    %qb = irdl.base "!builtin.tensor"
    %sa = irdl.base "!builtin.tensor"
    %sb = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %state_a = irdl.base "!builtin.tensor"
    %state_b = irdl.base "!builtin.tensor"
    irdl.operands(qa: %qa, qb: %qb, sa: %sa, sb: %sb, offs: %offs, bias: %bias)
    irdl.results(out: %out, a: %a, b: %b, state_a: %state_a, state_b: %state_b)
  }

  // w -> packed: four-bit weights, two to a byte along K, in the order in which mixed_mm reads them. `layout` names the order.
  irdl.operation @pack_weights {
    %w = irdl.base "!builtin.tensor"
    %packed = irdl.base "!builtin.tensor"
    %layout = irdl.base "#builtin.string"
    irdl.operands(w: %w)
    irdl.results(packed: %packed)
    irdl.attributes {"layout" = %layout}
  }

  // w, scales, x [, offs] -> out: weights of four or eight bits times 16-bit tokens. `group_size` weights along K share one scale, or with -1
  // the whole row does. Whether there are experts follows from the rank of scales.
  irdl.operation @mixed_mm {
    %w = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %format = irdl.base "#builtin.string"
    %group_size = irdl.base "#builtin.integer"
    %layout = irdl.base "#builtin.string"
    irdl.operands(w: %w, scales: %scales, x: %x, offs: optional %offs)
    irdl.results(out: %out)
    irdl.attributes {"format" = %format, "group_size" = %group_size, "layout" = %layout}
  }

  // w, scales, x, scales_x [, offs] -> out: mixed_mm with a scale for each token, which its sums are multiplied by.
  irdl.operation @mixed_mm_scaled {
    %w = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %scales_x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %format = irdl.base "#builtin.string"
    %group_size = irdl.base "#builtin.integer"
    %layout = irdl.base "#builtin.string"
    irdl.operands(w: %w, scales: %scales, x: %x, scales_x: %scales_x, offs: optional %offs)
    irdl.results(out: %out)
    irdl.attributes {"format" = %format, "group_size" = %group_size, "layout" = %layout}
  }

  // w, scales, zeros, x [, offs] -> out: the same, with a zero point for each group, which is subtracted from its weights. An op of
  // its own for the reason that scaled_mm_bias is.
  irdl.operation @mixed_mm_zeros {
    %w = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %zeros = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %format = irdl.base "#builtin.string"
    %group_size = irdl.base "#builtin.integer"
    %layout = irdl.base "#builtin.string"
    irdl.operands(w: %w, scales: %scales, zeros: %zeros, x: %x, offs: optional %offs)
    irdl.results(out: %out)
    irdl.attributes {"format" = %format, "group_size" = %group_size, "layout" = %layout}
  }

  // w, scales, x [, offs], bias -> out: mixed_mm with a bias for each row of each expert's weights.
  irdl.operation @mixed_mm_bias {
    %w = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %format = irdl.base "#builtin.string"
    %group_size = irdl.base "#builtin.integer"
    %layout = irdl.base "#builtin.string"
    irdl.operands(w: %w, scales: %scales, x: %x, offs: optional %offs, bias: %bias)
    irdl.results(out: %out)
    irdl.attributes {"format" = %format, "group_size" = %group_size, "layout" = %layout}
  }

  // w, scales, zeros, x [, offs], bias -> out: mixed_mm_zeros with such a bias.
  irdl.operation @mixed_mm_zeros_bias {
    %w = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %zeros = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %offs = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %out = irdl.base "!builtin.tensor"
    %format = irdl.base "#builtin.string"
    %group_size = irdl.base "#builtin.integer"
    %layout = irdl.base "#builtin.string"
    irdl.operands(w: %w, scales: %scales, zeros: %zeros, x: %x, offs: optional %offs, bias: %bias)
    irdl.results(out: %out)
    irdl.attributes {"format" = %format, "group_size" = %group_size, "layout" = %layout}
  }
}
