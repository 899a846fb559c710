// Everything that is wrong with an mx_quantize op has one message.

// RUN: moe-opt %s --split-input-file --moe-verify --verify-diagnostics

// Structure, which IRDL checks.
func.func @not_a_tensor(%x: vector<32xbf16>) {
  // expected-error@below {{expected base type 'builtin.tensor' but got 'builtin.vector'}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (vector<32xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @unranked(%x: tensor<*xbf16>) {
  // expected-error@below {{expected base type 'builtin.tensor' but got 'builtin.unranked_tensor'}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<*xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @unranked_result(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{expected base type 'builtin.tensor' but got 'builtin.unranked_tensor'}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<*xf8E8M0FNU>)
  return
}

// -----

func.func @no_operand() {
  // expected-error@below {{op expects exactly 1 operands, but got 0}}
  %q, %s = "mx_quantize.quantize"() {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : () -> (tensor<32xf8E4M3FN>, tensor<1xf8E8M0FNU>)
  return
}

// -----

func.func @one_result(%x: tensor<32xbf16>) {
  // expected-error@below {{op expects exactly 2 results, but got 1}}
  %q = "mx_quantize.quantize"(%x) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32xbf16>) -> tensor<32xf8E4M3FN>
  return
}

// -----

func.func @region(%x: tensor<32xbf16>) {
  // expected-error@below {{unexpected number of regions: expected 0 but got 1}}
  %q, %s = "mx_quantize.quantize"(%x) ({}) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32xbf16>) -> (tensor<32xf8E4M3FN>, tensor<1xf8E8M0FNU>)
  return
}

// -----

func.func @no_axis(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute "axis" is expected but not provided}}
  %q, %s = "mx_quantize.quantize"(%x) {block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @no_block(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute "block" is expected but not provided}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @no_mode(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute "mode" is expected but not provided}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_float(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{expected base attribute 'builtin.integer' but got 'builtin.float'}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1.0, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @mode_is_integer(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{expected base attribute 'builtin.string' but got 'builtin.integer'}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = 1}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @properties(%x: tensor<32xbf16>) {
  // expected-error@below {{extensible Dialects don't support properties}}
  %q, %s = "mx_quantize.quantize"(%x) <{axis = 0 : i64}> {block = 32 : i64, mode = "rceil"}
      : (tensor<32xbf16>) -> (tensor<32xf8E4M3FN>, tensor<1xf8E8M0FNU>)
  return
}

// -----

// Custom syntax, which MLIR rejects without a word.
func.func @custom_syntax(%x: tensor<32xbf16>) {
  // expected-error@below {{'mx_quantize.quantize' has no custom syntax; write the generic form: "mx_quantize.quantize"(operands)}}
  %q, %s = mx_quantize.quantize %x : tensor<32xbf16>
  return
}

// -----

// Attributes.
func.func @unknown_attribute(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{unknown attribute 'axes'; the op has axis, block, mode or schedule}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", axes = 1 : i64}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @unknown_unit_attribute(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{unknown attribute 'saturate'; the op has axis, block, mode or schedule}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", saturate}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @kernel_is_integer(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'kernel' is 3 : i64; it must be the symbol of a kernel}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", kernel = 3}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @kernel_is_string(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'kernel' is "k"; it must be the symbol of a kernel}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", kernel = "k"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_i32(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' has type i32; it must be i64}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i32, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_i1(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' has type i1; it must be i64}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = true, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_signed(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' has type si64; it must be i64}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : si64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_wide(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' has type i128; it must be i64}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 18446744073709551617 : i128, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @block_is_index(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'block' has type index; it must be i64}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : index, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @mode(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'mode' is "nearest"; it must be floor, rceil, ceil or even}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "nearest"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @mode_upper_case(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'mode' is "RCEIL"; it must be floor, rceil, ceil or even}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "RCEIL"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @mode_is_empty(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'mode' is ""; it must be floor, rceil, ceil or even}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = ""}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @mode_is_prefix(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'mode' is "rcei"; it must be floor, rceil, ceil or even}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rcei"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_negative(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' is -1; it must be 0 to 2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = -1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_rank(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' is 3; it must be 0 to 2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 3 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_huge(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' is 4294967297; it must be 0 to 2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 4294967297 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_is_least(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'axis' is -9223372036854775808; it must be 0 to 2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = -9223372036854775808 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @block(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'block' is 16; it must be 32}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 16 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @block_is_zero(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'block' is 0; it must be 32}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 0 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @block_is_huge(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{attribute 'block' is 4294967328; it must be 32}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 4294967328 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

// Element types.
func.func @x_element(%x: tensor<4x64x16xf16>) {
  // expected-error@below {{operand 'x' has element type f16; it must be bf16 or f32}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @x_element_is_quantized(%x: tensor<4x64x16xf8E4M3FN>) {
  // expected-error@below {{operand 'x' has element type f8E4M3FN; it must be bf16 or f32}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xf8E4M3FN>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @q_element(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has element type f8E4M3; it must be f8E4M3FN or f8E5M2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @q_element_fnuz(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has element type f8E5M2FNUZ; it must be f8E4M3FN or f8E5M2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E5M2FNUZ>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @scales_element(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'scales' has element type i8; it must be f8E8M0FNU}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xi8>)
  return
}

// -----

func.func @results_swapped(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has element type f8E8M0FNU; it must be f8E4M3FN or f8E5M2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x2x16xf8E8M0FNU>, tensor<4x64x16xf8E4M3FN>)
  return
}

// -----

// Ranks and sizes.
func.func @x_is_scalar(%x: tensor<bf16>) {
  // expected-error@below {{operand 'x' has rank 0; it must be 1 to 5}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<bf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @x_rank_6(%x: tensor<1x1x1x1x32x1xbf16>) {
  // expected-error@below {{operand 'x' has rank 6; it must be 1 to 5}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<1x1x1x1x32x1xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @q_rank(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has rank 2; it must be 3, as the other tensors}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @scales_rank(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'scales' has rank 4; it must be 3, as the other tensors}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16x1xf8E8M0FNU>)
  return
}

// -----

func.func @x_is_empty(%x: tensor<0x64x16xbf16>) {
  // expected-error@below {{operand 'x' has dimension 0 of size 0; a static size must be 1 to 2147483647}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<0x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @x_is_huge(%x: tensor<4x64x2147483648xbf16>) {
  // expected-error@below {{operand 'x' has dimension 2 of size 2147483648; a static size must be 1 to 2147483647}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x2147483648xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @scales_are_empty(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 0; a static size must be 1 to 2147483647}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x0x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_no_multiple(%x: tensor<4x48x16xbf16>) {
  // expected-error@below {{dimension 1, the axis, has size 48; it must be a multiple of 32}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x48x16xbf16>) -> (tensor<4x48x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @axis_below_block(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{dimension 2, the axis, has size 16; it must be a multiple of 32}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x64x1xf8E8M0FNU>)
  return
}

// -----

func.func @q_size(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has dimension 2 of size 17; it must be 16}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x17xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @q_size_dynamic(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has dimension 0 of size ?; it must be 4}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<?x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @q_size_static(%x: tensor<?x64x16xbf16>) {
  // expected-error@below {{result 'q' has dimension 0 of size 4; it must be ?}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @scales_size(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 64; it must be 2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x64x16xf8E8M0FNU>)
  return
}

// -----

func.func @scales_size_other_dimension(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'scales' has dimension 2 of size 1; it must be 16}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x1xf8E8M0FNU>)
  return
}

// -----

func.func @scales_size_dynamic(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size ?; it must be 2}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x?x16xf8E8M0FNU>)
  return
}

// -----

func.func @scales_size_static(%x: tensor<4x?x16xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 2; it must be ?}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x?x16xbf16>) -> (tensor<4x?x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

// Encodings.
func.func @encoding_is_string(%x: tensor<4x64x16xbf16, "col_major">) {
  // expected-error@below {{operand 'x' has encoding "col_major"; it must be a permutation of its 3 dimensions}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16, "col_major">) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @encoding_rank(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has encoding affine_map<(d0, d1) -> (d1, d0)>; it must be a permutation of its 3 dimensions}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN, affine_map<(n, k) -> (k, n)>>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @encoding_projects(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has encoding affine_map<(d0, d1, d2) -> (d0, d2)>; it must be a permutation of its 3 dimensions}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN, affine_map<(e, n, k) -> (e, k)>>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @encoding_repeats(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'scales' has encoding affine_map<(d0, d1, d2) -> (d0, d2, d2)>; it must be a permutation of its 3 dimensions}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU, affine_map<(e, n, k) -> (e, k, k)>>)
  return
}

// -----

func.func @encoding_computes(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has encoding affine_map<(d0, d1, d2) -> (d0, d2, d1 + 1)>; it must be a permutation of its 3 dimensions}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN, affine_map<(e, n, k) -> (e, k, n + 1)>>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @encoding_symbol(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{result 'q' has encoding affine_map<(d0, d1, d2)[s0] -> (d0, d2, d1)>; it must be a permutation of its 3 dimensions}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN, affine_map<(e, n, k)[s] -> (e, k, n)>>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

// dequantize: the same rules, with operands and results the other way round.
func.func @dequantize_q_element(%q: tensor<64x16xbf16>, %s: tensor<2x16xf8E8M0FNU>) {
  // expected-error@below {{operand 'q' has element type bf16; it must be f8E4M3FN or f8E5M2}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x16xbf16>, tensor<2x16xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @dequantize_scales_element(%q: tensor<64x16xf8E4M3FN>, %s: tensor<2x16xf32>) {
  // expected-error@below {{operand 'scales' has element type f32; it must be f8E8M0FNU}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x16xf8E4M3FN>, tensor<2x16xf32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @dequantize_x_element(%q: tensor<64x16xf8E4M3FN>, %s: tensor<2x16xf8E8M0FNU>) {
  // expected-error@below {{result 'x' has element type f64; it must be bf16 or f32}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x16xf8E4M3FN>, tensor<2x16xf8E8M0FNU>) -> tensor<64x16xf64>
  return
}

// -----

func.func @dequantize_mode(%q: tensor<64x16xf8E4M3FN>, %s: tensor<2x16xf8E8M0FNU>) {
  // expected-error@below {{unknown attribute 'mode'; the op has axis, block or schedule}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x16xf8E4M3FN>, tensor<2x16xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @dequantize_axis(%q: tensor<64x16xf8E4M3FN>, %s: tensor<2x16xf8E8M0FNU>) {
  // expected-error@below {{attribute 'axis' is 2; it must be 0 to 1}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 2 : i64, block = 32 : i64}
      : (tensor<64x16xf8E4M3FN>, tensor<2x16xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @dequantize_block(%q: tensor<64x16xf8E4M3FN>, %s: tensor<2x16xf8E8M0FNU>) {
  // expected-error@below {{attribute 'block' is 64; it must be 32}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 64 : i64}
      : (tensor<64x16xf8E4M3FN>, tensor<2x16xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @dequantize_q_size(%q: tensor<64x8xf8E4M3FN>, %s: tensor<2x16xf8E8M0FNU>) {
  // expected-error@below {{operand 'q' has dimension 1 of size 8; it must be 16}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x8xf8E4M3FN>, tensor<2x16xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @dequantize_scales_size(%q: tensor<64x16xf8E4M3FN>, %s: tensor<3x16xf8E8M0FNU>) {
  // expected-error@below {{operand 'scales' has dimension 0 of size 3; it must be 2}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x16xf8E4M3FN>, tensor<3x16xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @dequantize_x_size(%q: tensor<40x16xf8E4M3FN>, %s: tensor<2x16xf8E8M0FNU>) {
  // expected-error@below {{dimension 0, the axis, has size 40; it must be a multiple of 32}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<40x16xf8E4M3FN>, tensor<2x16xf8E8M0FNU>) -> tensor<40x16xbf16>
  return
}

// -----

func.func @dequantize_rank(%q: tensor<64x16xf8E4M3FN>, %s: tensor<2xf8E8M0FNU>) {
  // expected-error@below {{operand 'scales' has rank 1; it must be 2, as the other tensors}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x16xf8E4M3FN>, tensor<2xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}
