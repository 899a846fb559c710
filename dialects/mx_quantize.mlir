// The mx_quantize dialect: casts to the low-precision formats of mixture-of-experts models.
//
// IRDL states the structure of an op (how many operands, which attributes, of which kind); what the values mean is checked
// by moe-verify. docs/dialects/mx_quantize.md is the reference. Stock mlir-opt reads this file with --irdl-file=.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

irdl.dialect @mx_quantize {
  // x -> q, scales: blocks of `block` consecutive elements along `axis` share one E8M0 scale.
  irdl.operation @quantize {
    %x = irdl.base "!builtin.tensor"
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.integer"
    %block = irdl.base "#builtin.integer"
    %mode = irdl.base "#builtin.string"
    irdl.operands(x: %x)
    irdl.results(q: %q, scales: %scales)
    irdl.attributes {"axis" = %axis, "block" = %block, "mode" = %mode}
  }

  // q, scales -> x: the inverse, rounded once to the type of x.
  irdl.operation @dequantize {
    %q = irdl.base "!builtin.tensor"
    %scales = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.integer"
    %block = irdl.base "#builtin.integer"
    irdl.operands(q: %q, scales: %scales)
    irdl.results(x: %x)
    irdl.attributes {"axis" = %axis, "block" = %block}
  }
}
