// Expectations in the source are compared with what is reported.

// RUN: moe-opt %s --split-input-file --verify-diagnostics
// RUN: moe-opt %s --split-input-file --verify-diagnostics --emit=fused

func.func @same_line(%x: i32) -> i64 {
  return %x : i64 // expected-error {{use of value '%x' expects different type}}
  // expected-note@-2 {{prior use here}}
}

// -----

func.func @offset(%x: i32) {
  // expected-error@+1 {{custom op 'arith.nothing' is unknown}}
  arith.nothing %x
}

// -----

func.func @above(%x: i32) {
  arith.nothing %x
  // expected-error@above {{custom op 'arith.nothing'}}
}

// -----

func.func @below() {
  // expected-error@below {{no custom syntax; write the generic form: "mx_quantize.quantize"}}
  mx_quantize.quantize
}

// -----

func.func @nothing_expected() {
  return
}
