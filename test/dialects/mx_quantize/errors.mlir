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

// Tokens in groups: q has M rounded up to a multiple of 128; scales are of as many, and have room for one block more in each group.
func.func @groups_axis(%x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' must not be there: 'x' has rank 2 and is cut along axis 1; groups cut a matrix along axis 0}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x32xbf16>, tensor<2xi32>) -> (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>)
  return
}

// -----

func.func @groups_rank(%x: tensor<2x64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' must not be there: 'x' has rank 3 and is cut along axis 0; groups cut a matrix along axis 0}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<2x64x32xbf16>, tensor<2xi32>) -> (tensor<2x64x32xf8E4M3FN>, tensor<2x64x32xf8E8M0FNU>)
  return
}

// -----

func.func @groups_q(%x: tensor<70x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'q' has dimension 0 of size 70; it must be 128}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<70x32xbf16>, tensor<2xi32>) -> (tensor<70x32xf8E4M3FN>, tensor<5x32xf8E8M0FNU>)
  return
}

// -----

func.func @groups_scales(%x: tensor<70x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 5; it must be 6}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<70x32xbf16>, tensor<2xi32>) -> (tensor<128x32xf8E4M3FN>, tensor<5x32xf8E8M0FNU>)
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
  // expected-error@below {{op expects at least 1 operands, but got 0}}
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
  // expected-error@below {{unknown attribute 'axes'; the op has axis, block, align, mode or schedule}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", axes = 1 : i64}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64x16xf8E4M3FN>, tensor<4x2x16xf8E8M0FNU>)
  return
}

// -----

func.func @unknown_unit_attribute(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{unknown attribute 'saturate'; the op has axis, block, align, mode or schedule}}
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
  // expected-error@below {{unknown attribute 'mode'; the op has axis, block, align, order or schedule}}
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

// -----

func.func @dequantize_groups_axis(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' must not be there: 'x' has rank 2 and is cut along axis 1; groups cut a matrix along axis 0}}
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 1 : i64, block = 32 : i64}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x32xbf16>
  return
}

// -----

// ceil(80 / 32) rows, and one more for each group.
func.func @dequantize_groups_scales(%q: tensor<80x16xf8E4M3FN>, %s: tensor<3x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 0 of size 3; it must be 5}}
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<80x16xf8E4M3FN>, tensor<3x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<80x16xbf16>
  return
}

// -----

func.func @dequantize_groups_x(%q: tensor<80x16xf8E4M3FN>, %s: tensor<5x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'x' has dimension 0 of size 96; it must be 80}}
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<80x16xf8E4M3FN>, tensor<5x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<96x16xbf16>
  return
}

// -----

func.func @dequantize_groups_rank(%q: tensor<80x16xf8E4M3FN>, %s: tensor<5xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has rank 1; it must be 2, as the other tensors}}
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<80x16xf8E4M3FN>, tensor<5xf8E8M0FNU>, tensor<2xi32>) -> tensor<80x16xbf16>
  return
}

// -----

func.func @dequantize_aligned_rows(%q: tensor<80x16xf8E4M3FN>, %s: tensor<5x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'q' has dimension 0 of size 80; with 'align' it must be a multiple of 128}}
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64, align = 128 : i64}
      : (tensor<80x16xf8E4M3FN>, tensor<5x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<80x16xbf16>
  return
}

// -----

// Those of all blocks of q, and no more.
func.func @dequantize_aligned_scales(%q: tensor<512x16xf8E4M3FN>, %s: tensor<18x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 0 of size 18; it must be 16}}
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64, align = 128 : i64}
      : (tensor<512x16xf8E4M3FN>, tensor<18x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<512x16xbf16>
  return
}

// -----

func.func @dequantize_align_alone(%q: tensor<512x16xf8E4M3FN>, %s: tensor<16x16xf8E8M0FNU>) {
  // expected-error@below {{attribute 'align' must not be there: no result has groups along the axis that is summed over}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64, align = 128 : i64}
      : (tensor<512x16xf8E4M3FN>, tensor<16x16xf8E8M0FNU>) -> tensor<512x16xbf16>
  return
}

// -----

// quantize_dual: blocks along both of the last two axes.
func.func @dual_block(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'block' is 16; it must be 32}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 16 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_mode(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'mode' is "up"; it must be floor, rceil, ceil or even}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "up"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_axis(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{unknown attribute 'axis'; the op has block, mode or schedule}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil", axis = 1 : i64}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_rank_1(%a0: tensor<64xbf16>) {
  // expected-error@below {{operand 'x' has rank 1; it must be 2 to 3}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_rank_4(%a0: tensor<1x1x64x128xbf16>) {
  // expected-error@below {{operand 'x' has rank 4; it must be 2 to 3}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<1x1x64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_rows(%a0: tensor<48x128xbf16>) {
  // expected-error@below {{dimension 0 has size 48; both axes must have a multiple of 32, the size of an MX block}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<48x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_columns(%a0: tensor<4x64x16xbf16>) {
  // expected-error@below {{dimension 2 has size 16; both axes must have a multiple of 32, the size of an MX block}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x16xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_q_rank(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'q' has rank 3; it must be 2}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<1x64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_q_size(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'q' has dimension 1 of size 64; it must be 128}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x64xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_scales_size(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 128; it must be 4}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x128xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_q_t_size(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'q_t' has dimension 0 of size 128; it must be 64}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<128x64xf8E4M3FN>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_scales_t_size(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales_t' has dimension 0 of size 64; it must be 2}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>)
  return
}

// -----

func.func @dual_q_t_element(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'q_t' has element type bf16; it must be f8E4M3FN or f8E5M2}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xbf16>, tensor<2x128xf8E8M0FNU>)
  return
}

// -----

func.func @dual_scales_t_element(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales_t' has element type f32; it must be f8E8M0FNU}}
  %r:4 = "mx_quantize.quantize_dual"(%a0) {block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<64x128xf8E4M3FN>, tensor<2x128xf32>)
  return
}

// -----

// quantize_fp8: ranks, axes and groups of each granularity.
func.func @granularity(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'granularity' is "column"; it must be row, tensor, expert, group, 1x128 or 128x128}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "column", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @pow2_is_i64(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'pow2' has type i64; it must be a bool, true or false}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = 1 : i64, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @sanitize_is_i8(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'sanitize' has type i8; it must be a bool, true or false}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = 0 : i8}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @no_pow2(%x: tensor<64x128xbf16>) {
  // expected-error@below {{attribute "pow2" is expected but not provided}}
  %r:2 = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @fp8_unknown_attribute(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{unknown attribute 'mode'; the op has axis, align, granularity, pow2, sanitize or schedule}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @fp8_rank_1(%a0: tensor<64xbf16>) {
  // expected-error@below {{operand 'x' has rank 1; it must be 2 to 3}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @fp8_rank_4(%a0: tensor<1x1x64x128xbf16>) {
  // expected-error@below {{operand 'x' has rank 4; it must be 2 to 3}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 3 : i64, pow2 = true, sanitize = false}
      : (tensor<1x1x64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @fp8_axis_negative(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'axis' is -1; it must be 0 or 1, one of the last two}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = -1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @fp8_axis_rank(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'axis' is 2; it must be 0 or 1, one of the last two}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 2 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @fp8_axis_0_of_3(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{attribute 'axis' is 0; it must be 1 or 2, one of the last two}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<64x128xf32>)
  return
}

// -----

func.func @blocks_of_tokens_without_offs(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{operand 'offs' is missing; with granularity "1x128" and axis 0 there is a scale for each group}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "1x128", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x1xf32>)
  return
}

// -----

func.func @blocks_of_rows_with_offs(%a0: tensor<64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{operand 'offs' must not be there: with granularity "1x128" and axis 1 no scale belongs to a group}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<64x1xf32>)
  return
}

// -----

// Each group has room for a block more.
func.func @blocks_of_tokens(%a0: tensor<320x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 3; it must be 7}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "1x128", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<320x128xbf16>, tensor<4xi32>) -> (tensor<384x128xf8E4M3FN>, tensor<3x128xf32>)
  return
}

// -----

func.func @squares_of_columns(%a0: tensor<4x320x144xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 320; it must be 3}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<4x320x144xbf16>) -> (tensor<4x320x144xf8E4M3FN>, tensor<4x320x2xf32>)
  return
}

// -----

func.func @dual_of_experts(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{granularity "expert" has the same scales along both axes; quantize once for each}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0) {granularity = "expert", pow2 = true, sanitize = false} : (tensor<4x64x128xbf16>)
      -> (tensor<4x64x128xf8E4M3FN>, tensor<4xf32>, tensor<4x64x128xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @dual_squares_of_tokens(%a0: tensor<64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{the tensor has rank 2; with granularity "128x128" it must be 3}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0, %a1) {granularity = "128x128", pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4xi32>)
      -> (tensor<64x128xf8E4M3FN>, tensor<1x1xf32>, tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @expert_rank(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{the tensor has rank 2; with granularity "expert" it must be 3}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "expert", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @group_rank(%a0: tensor<4x64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{the tensor has rank 3; with granularity "group" it must be 2}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "group", axis = 2 : i64, pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>, tensor<4xi32>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @group_without_offs(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{operand 'offs' is missing; with granularity "group" and axis 1 there is a scale for each group}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @columns_without_offs(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{operand 'offs' is missing; with granularity "row" and axis 0 there is a scale for each group}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @rows_with_offs(%a0: tensor<64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{operand 'offs' must not be there: with granularity "row" and axis 1 no scale belongs to a group}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @tensor_with_offs(%a0: tensor<64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{operand 'offs' must not be there: with granularity "tensor" and axis 0 no scale belongs to a group}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "tensor", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<1xf32>)
  return
}

// -----

func.func @offs_rank(%a0: tensor<64x128xbf16>, %a1: tensor<4x1xi32>) {
  // expected-error@below {{operand 'offs' has rank 2; it must be 1}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4x1xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @offs_element(%a0: tensor<64x128xbf16>, %a1: tensor<4xi64>) {
  // expected-error@below {{operand 'offs' has element type i64; it must be i32}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4xi64>) -> (tensor<64x128xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @too_many_groups(%a0: tensor<64x128xbf16>, %a1: tensor<1025xi32>) {
  // expected-error@below {{there are 1025 groups; there may be at most 1024}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<1025xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<1025xf32>)
  return
}

// -----

func.func @fp8_x_element(%a0: tensor<64x128xf16>) {
  // expected-error@below {{operand 'x' has element type f16; it must be bf16 or f32}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @fp8_scales_element(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales' has element type f8E8M0FNU; it must be f32}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf8E8M0FNU>)
  return
}

// -----

func.func @fp8_q_size(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'q' has dimension 0 of size 128; it must be 64}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<128x64xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @row_scales(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 128; it must be 64}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<128xf32>)
  return
}

// -----

func.func @row_scales_rank(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales' has rank 2; it must be 1}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x1xf32>)
  return
}

// -----

func.func @row_scales_of_experts(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 64; it must be 128}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>)
  return
}

// -----

func.func @row_scales_of_groups(%a0: tensor<128x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 128; it must be 4}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<128x128xf32>)
  return
}

// -----

func.func @row_scales_of_groups_dynamic(%a0: tensor<128x128xbf16>, %a1: tensor<?xi32>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 4; it must be ?}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>, tensor<?xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @tensor_scales(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 64; it must be 1}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @tensor_scales_rank(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales' has rank 2; it must be 1}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @expert_scales(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 64; it must be 4}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "expert", axis = 2 : i64, pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @group_scales(%a0: tensor<64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 5; it must be 4}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0, %a1) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<5xf32>)
  return
}

// -----

func.func @scales_1x128(%a0: tensor<64x144xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 1; it must be 2}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x144xbf16>) -> (tensor<64x144xf8E4M3FN>, tensor<64x1xf32>)
  return
}

// -----

func.func @scales_128x128(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 64; it must be 1}}
  %r:2 = "mx_quantize.quantize_fp8"(%a0) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x1xf32>)
  return
}

// -----

// quantize_fp8_dual.
func.func @dual_needs_offs(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{operand 'offs' is missing; columns have a scale for each group}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>, tensor<64x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @dual_needs_no_offs(%a0: tensor<4x64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{operand 'offs' must not be there: experts are the groups}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0, %a1) {pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>, tensor<4xi32>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>, tensor<4x64x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @fp8_dual_rank(%a0: tensor<64xbf16>) {
  // expected-error@below {{operand 'x' has rank 1; it must be 2 to 3}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0) {pow2 = true, sanitize = false}
      : (tensor<64xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>, tensor<4x64x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @fp8_dual_axis(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{unknown attribute 'axis'; the op has align, granularity, pow2, sanitize or schedule}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0) {pow2 = true, sanitize = false, axis = 1 : i64}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>, tensor<4x64x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @fp8_dual_scales(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 128; it must be 64}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0) {pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<4x64x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @fp8_dual_scales_t(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{result 'scales_t' has dimension 1 of size 64; it must be 128}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0) {pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>, tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>)
  return
}

// -----

func.func @fp8_dual_q_t(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{result 'q_t' has dimension 1 of size 128; it must be 64}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0) {pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>, tensor<4x128x64xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @fp8_dual_scales_t_of_groups(%a0: tensor<128x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'scales_t' has dimension 0 of size 5; it must be 4}}
  %r:4 = "mx_quantize.quantize_fp8_dual"(%a0, %a1) {pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<128xf32>, tensor<128x128xf8E4M3FN>, tensor<5x128xf32>)
  return
}

// -----

// quantize_fp8_pair.
func.func @pair_rank_of_x(%a0: tensor<4x64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'x' has rank 3; it must be 2}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<4x64x128xbf16>, tensor<64x32xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_rank_of_y(%a0: tensor<64x128xbf16>, %a1: tensor<4x64x128xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has rank 3; it must be 2}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<4x64x128xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_rows(%a0: tensor<64x128xbf16>, %a1: tensor<32x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has dimension 0 of size 32; it must be 64}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<32x32xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_dynamic_rows(%a0: tensor<64x128xbf16>, %a1: tensor<?x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has dimension 0 of size ?; it must be 64}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<?x32xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_element(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has element type f16; it must be bf16 or f32}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<64x32xf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_offs_rank(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4x1xi32>) {
  // expected-error@below {{operand 'offs' has rank 2; it must be 1}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4x1xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_groups(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<1025xi32>) {
  // expected-error@below {{there are 1025 groups; there may be at most 1024}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<1025xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_granularity(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{unknown attribute 'granularity'; the op has align, pow2, sanitize or schedule}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, granularity = "row"}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4x128xf32>, tensor<64x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_q(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'q' has dimension 1 of size 32; it must be 128}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN>, tensor<4x128xf32>, tensor<128x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_scales(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'scales' has dimension 1 of size 32; it must be 128}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<4x32xf32>, tensor<128x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_q_y(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'q_y' has dimension 1 of size 128; it must be 32}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<4x128xf32>, tensor<128x128xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @pair_scales_y(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'scales_y' has dimension 0 of size 128; it must be 4}}
  %r:4 = "mx_quantize.quantize_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<4x128xf32>, tensor<128x32xf8E4M3FN>, tensor<128x32xf32>)
  return
}

// -----

// The two passes: scale_fp8 and cast_fp8, the dual ones and those of pairs.
func.func @scale_element(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{attribute 'element' is "f8E4M3"; it must be f8E4M3FN or f8E5M2}}
  %r:3 = "mx_quantize.scale_fp8"(%a0) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3"}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @scale_factors(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'factors' has dimension 0 of size 2; it must be 1}}
  %r:3 = "mx_quantize.scale_fp8"(%a0) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<2xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @scale_state_rank(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'state' has rank 1; it must be 2}}
  %r:3 = "mx_quantize.scale_fp8"(%a0) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2xi32>)
  return
}

// -----

func.func @scale_state_size(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'state' has dimension 0 of size 1; it must be 2}}
  %r:3 = "mx_quantize.scale_fp8"(%a0) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1x1xi32>)
  return
}

// -----

func.func @scale_state_cells(%a0: tensor<64x128xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'state' has dimension 1 of size 2; it must be 4}}
  %r:3 = "mx_quantize.scale_fp8"(%a0, %a1) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xi32>)
  return
}

// -----

func.func @scale_state_element(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{result 'state' has element type f32; it must be i32}}
  %r:3 = "mx_quantize.scale_fp8"(%a0) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @scale_offs(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{operand 'offs' is missing; with granularity "group" and axis 1 there is a scale for each group}}
  %r:3 = "mx_quantize.scale_fp8"(%a0) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @scale_dual_state_t(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{result 'state_t' has dimension 2 of size 64; it must be 128}}
  %r:6 = "mx_quantize.scale_fp8_dual"(%a0) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<2x4x64xi32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x64xi32>)
  return
}

// -----

func.func @scale_dual_factors_t(%a0: tensor<4x64x128xbf16>) {
  // expected-error@below {{result 'factors_t' has dimension 1 of size 64; it must be 128}}
  %r:6 = "mx_quantize.scale_fp8_dual"(%a0) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<2x4x64xi32>, tensor<4x128xf32>, tensor<4x64xf32>, tensor<2x4x128xi32>)
  return
}

// -----

func.func @scale_dual_offs(%a0: tensor<64x128xbf16>) {
  // expected-error@below {{operand 'offs' is missing; columns have a scale for each group}}
  %r:6 = "mx_quantize.scale_fp8_dual"(%a0) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<64xf32>, tensor<64xf32>, tensor<2x64xi32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x128xi32>)
  return
}

// -----

func.func @cast_factors(%a0: tensor<64x128xbf16>, %a1: tensor<64xf32>) {
  // expected-error@below {{operand 'factors' has dimension 0 of size 64; it must be 1}}
  %r = "mx_quantize.cast_fp8"(%a0, %a1) {granularity = "tensor", axis = 1 : i64, sanitize = false}
      : (tensor<64x128xbf16>, tensor<64xf32>) -> tensor<64x128xf8E4M3FN>
  return
}

// -----

func.func @cast_factors_rank(%a0: tensor<64x128xbf16>, %a1: tensor<64x1xf32>) {
  // expected-error@below {{operand 'factors' has rank 2; it must be 1}}
  %r = "mx_quantize.cast_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64, sanitize = false}
      : (tensor<64x128xbf16>, tensor<64x1xf32>) -> tensor<64x128xf8E4M3FN>
  return
}

// -----

func.func @cast_factors_element(%a0: tensor<64x128xbf16>, %a1: tensor<1xbf16>) {
  // expected-error@below {{operand 'factors' has element type bf16; it must be f32}}
  %r = "mx_quantize.cast_fp8"(%a0, %a1) {granularity = "tensor", axis = 1 : i64, sanitize = false}
      : (tensor<64x128xbf16>, tensor<1xbf16>) -> tensor<64x128xf8E4M3FN>
  return
}

// -----

func.func @cast_pow2(%a0: tensor<64x128xbf16>, %a1: tensor<1xf32>) {
  // expected-error@below {{unknown attribute 'pow2'; the op has axis, align, granularity, sanitize or schedule}}
  %r = "mx_quantize.cast_fp8"(%a0, %a1) {granularity = "tensor", axis = 1 : i64, sanitize = false, pow2 = true}
      : (tensor<64x128xbf16>, tensor<1xf32>) -> tensor<64x128xf8E4M3FN>
  return
}

// -----

func.func @cast_q(%a0: tensor<64x128xbf16>, %a1: tensor<1xf32>) {
  // expected-error@below {{result 'q' has dimension 0 of size ?; it must be 64}}
  %r = "mx_quantize.cast_fp8"(%a0, %a1) {granularity = "tensor", axis = 1 : i64, sanitize = false}
      : (tensor<64x128xbf16>, tensor<1xf32>) -> tensor<?x128xf8E4M3FN>
  return
}

// -----

func.func @cast_offs(%a0: tensor<64x128xbf16>, %a1: tensor<1xf32>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'offs' must not be there: with granularity "tensor" and axis 1 no scale belongs to a group}}
  %r = "mx_quantize.cast_fp8"(%a0, %a1, %a2) {granularity = "tensor", axis = 1 : i64, sanitize = false}
      : (tensor<64x128xbf16>, tensor<1xf32>, tensor<4xi32>) -> tensor<64x128xf8E4M3FN>
  return
}

// -----

func.func @cast_dual_factors_t(%a0: tensor<4x64x128xbf16>, %a1: tensor<4x64xf32>, %a2: tensor<4x64xf32>) {
  // expected-error@below {{operand 'factors_t' has dimension 1 of size 64; it must be 128}}
  %r:2 = "mx_quantize.cast_fp8_dual"(%a0, %a1, %a2) {sanitize = false}
      : (tensor<4x64x128xbf16>, tensor<4x64xf32>, tensor<4x64xf32>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64x128xf8E4M3FN>)
  return
}

// -----

func.func @cast_dual_offs(%a0: tensor<4x64x128xbf16>, %a1: tensor<4x64xf32>, %a2: tensor<4x128xf32>, %a3: tensor<4xi32>) {
  // expected-error@below {{operand 'offs' must not be there: experts are the groups}}
  %r:2 = "mx_quantize.cast_fp8_dual"(%a0, %a1, %a2, %a3) {sanitize = false}
      : (tensor<4x64x128xbf16>, tensor<4x64xf32>, tensor<4x128xf32>, tensor<4xi32>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64x128xf8E4M3FN>)
  return
}

// -----

func.func @scale_pair_rows(%a0: tensor<64x128xbf16>, %a1: tensor<32x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has dimension 0 of size 32; it must be 64}}
  %r:6 = "mx_quantize.scale_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<32x32xbf16>, tensor<4xi32>) -> (tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x128xi32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<2x4x32xi32>)
  return
}

// -----

func.func @scale_pair_factors_y(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'factors_y' has dimension 1 of size 128; it must be 32}}
  %r:6 = "mx_quantize.scale_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4xi32>) -> (tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x128xi32>, tensor<4x32xf32>, tensor<4x128xf32>, tensor<2x4x32xi32>)
  return
}

// -----

func.func @scale_pair_state(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'state' has dimension 2 of size 32; it must be 128}}
  %r:6 = "mx_quantize.scale_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4xi32>) -> (tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x32xi32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<2x4x32xi32>)
  return
}

// -----

func.func @scale_pair_state_y(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'state_y' has rank 2; it must be 3}}
  %r:6 = "mx_quantize.scale_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4xi32>) -> (tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x128xi32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xi32>)
  return
}

// -----

func.func @cast_pair_rows(%a0: tensor<64x128xbf16>, %a1: tensor<32x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has dimension 0 of size 32; it must be 64}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<64x128xbf16>, tensor<32x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<64x32xf8E4M3FN>)
  return
}

// -----

func.func @cast_pair_factors(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4x32xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{operand 'factors' has dimension 1 of size 32; it must be 128}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<64x32xf8E4M3FN>)
  return
}

// -----

func.func @cast_pair_factors_y(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<5x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{operand 'factors_y' has dimension 0 of size 5; it must be 4}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4x128xf32>, tensor<5x32xf32>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<64x32xf8E4M3FN>)
  return
}

// -----

func.func @cast_pair_q_y(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{result 'q_y' has dimension 1 of size 128; it must be 32}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN>)
  return
}

// -----

func.func @cast_pair_pow2(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{unknown attribute 'pow2'; the op has align, sanitize or schedule}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<64x32xf8E4M3FN>)
  return
}

// -----

// dequantize_fp8: the same rules, with scales as operands.
func.func @dequantize_fp8_scales(%a0: tensor<64x128xf8E4M3FN>, %a1: tensor<32xf32>) {
  // expected-error@below {{operand 'scales' has dimension 0 of size 32; it must be 64}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64}
      : (tensor<64x128xf8E4M3FN>, tensor<32xf32>) -> tensor<64x128xbf16>
  return
}

// -----

func.func @dequantize_fp8_scales_element(%a0: tensor<64x128xf8E4M3FN>, %a1: tensor<64xf8E8M0FNU>) {
  // expected-error@below {{operand 'scales' has element type f8E8M0FNU; it must be f32}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64}
      : (tensor<64x128xf8E4M3FN>, tensor<64xf8E8M0FNU>) -> tensor<64x128xbf16>
  return
}

// -----

func.func @dequantize_fp8_q_element(%a0: tensor<64x128xbf16>, %a1: tensor<64xf32>) {
  // expected-error@below {{operand 'q' has element type bf16; it must be f8E4M3FN or f8E5M2}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64}
      : (tensor<64x128xbf16>, tensor<64xf32>) -> tensor<64x128xbf16>
  return
}

// -----

func.func @dequantize_fp8_x(%a0: tensor<64x128xf8E4M3FN>, %a1: tensor<64xf32>) {
  // expected-error@below {{result 'x' has dimension 1 of size 64; it must be 128}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64}
      : (tensor<64x128xf8E4M3FN>, tensor<64xf32>) -> tensor<64x64xbf16>
  return
}

// -----

func.func @dequantize_fp8_rank(%a0: tensor<64xf8E4M3FN>, %a1: tensor<64xf32>) {
  // expected-error@below {{operand 'q' has rank 1; it must be 2 to 3}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64}
      : (tensor<64xf8E4M3FN>, tensor<64xf32>) -> tensor<64x128xbf16>
  return
}

// -----

func.func @dequantize_fp8_axis(%a0: tensor<64x128xf8E4M3FN>, %a1: tensor<1x1xf32>) {
  // expected-error@below {{attribute 'axis' is 2; it must be 0 or 1, one of the last two}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "128x128", axis = 2 : i64}
      : (tensor<64x128xf8E4M3FN>, tensor<1x1xf32>) -> tensor<64x128xbf16>
  return
}

// -----

func.func @dequantize_fp8_offs(%a0: tensor<64x128xf8E4M3FN>, %a1: tensor<4xf32>) {
  // expected-error@below {{operand 'offs' is missing; with granularity "group" and axis 0 there is a scale for each group}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "group", axis = 0 : i64}
      : (tensor<64x128xf8E4M3FN>, tensor<4xf32>) -> tensor<64x128xbf16>
  return
}

// -----

func.func @dequantize_fp8_sanitize(%a0: tensor<64x128xf8E4M3FN>, %a1: tensor<64xf32>) {
  // expected-error@below {{unknown attribute 'sanitize'; the op has axis, granularity or schedule}}
  %r = "mx_quantize.dequantize_fp8"(%a0, %a1) {granularity = "row", axis = 1 : i64, sanitize = true}
      : (tensor<64x128xf8E4M3FN>, tensor<64xf32>) -> tensor<64x128xbf16>
  return
}

// -----

// pack_scales, pad_groups, unpad_groups.
func.func @layout(%a0: tensor<300x5xf8E8M0FNU>) {
  // expected-error@below {{attribute 'layout' is "32x4x4"; it must be 128x4}}
  %r = "mx_quantize.pack_scales"(%a0) {layout = "32x4x4"}
      : (tensor<300x5xf8E8M0FNU>) -> tensor<384x8xf8E8M0FNU>
  return
}

// -----

func.func @pack_rank(%a0: tensor<2x300x5xf8E8M0FNU>) {
  // expected-error@below {{operand 'scales' has rank 3; it must be 2}}
  %r = "mx_quantize.pack_scales"(%a0) {layout = "128x4"}
      : (tensor<2x300x5xf8E8M0FNU>) -> tensor<384x8xf8E8M0FNU>
  return
}

// -----

func.func @pack_rows(%a0: tensor<300x5xf8E8M0FNU>) {
  // expected-error@below {{result 'packed' has dimension 0 of size 300; it must be 384}}
  %r = "mx_quantize.pack_scales"(%a0) {layout = "128x4"}
      : (tensor<300x5xf8E8M0FNU>) -> tensor<300x8xf8E8M0FNU>
  return
}

// -----

func.func @pack_columns(%a0: tensor<300x5xf8E8M0FNU>) {
  // expected-error@below {{result 'packed' has dimension 1 of size 5; it must be 8}}
  %r = "mx_quantize.pack_scales"(%a0) {layout = "128x4"}
      : (tensor<300x5xf8E8M0FNU>) -> tensor<384x5xf8E8M0FNU>
  return
}

// -----

func.func @pack_groups(%a0: tensor<300x5xf8E8M0FNU>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'packed' has dimension 0 of size 384; it must be 896}}
  %r = "mx_quantize.pack_scales"(%a0, %a1) {layout = "128x4"}
      : (tensor<300x5xf8E8M0FNU>, tensor<4xi32>) -> tensor<384x8xf8E8M0FNU>
  return
}

// -----

func.func @pack_element(%a0: tensor<300x5xf32>) {
  // expected-error@below {{layout "128x4" is of f8E8M0FNU scales}}
  %r = "mx_quantize.pack_scales"(%a0) {layout = "128x4"}
      : (tensor<300x5xf32>) -> tensor<384x8xf8E8M0FNU>
  return
}

// -----

func.func @pack_offs_rank(%a0: tensor<300x5xf8E8M0FNU>, %a1: tensor<2x2xi32>) {
  // expected-error@below {{operand 'offs' has rank 2; it must be 1}}
  %r = "mx_quantize.pack_scales"(%a0, %a1) {layout = "128x4"}
      : (tensor<300x5xf8E8M0FNU>, tensor<2x2xi32>) -> tensor<384x8xf8E8M0FNU>
  return
}

// -----

func.func @align_0(%a0: tensor<100x16xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{attribute 'align' is 0; it must be 1 to 4096}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 0 : i64}
      : (tensor<100x16xbf16>, tensor<4xi32>) -> (tensor<176x16xbf16>, tensor<4xi32>)
  return
}

// -----

func.func @align_huge(%a0: tensor<100x16xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{attribute 'align' is 4097; it must be 1 to 4096}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 4097 : i64}
      : (tensor<100x16xbf16>, tensor<4xi32>) -> (tensor<176x16xbf16>, tensor<4xi32>)
  return
}

// -----

func.func @pad_types(%a0: tensor<100x16xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{the rows that come out must have the element type of those that go in}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 16 : i64}
      : (tensor<100x16xbf16>, tensor<4xi32>) -> (tensor<176x16xf32>, tensor<4xi32>)
  return
}

// -----

func.func @pad_element(%a0: tensor<100x16xf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{operand 'x' has element type f16; it must be bf16, f32, f8E4M3FN or f8E5M2}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 16 : i64}
      : (tensor<100x16xf16>, tensor<4xi32>) -> (tensor<176x16xbf16>, tensor<4xi32>)
  return
}

// -----

func.func @pad_rank(%a0: tensor<2x100x16xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{operand 'x' has rank 3; it must be 2}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 16 : i64}
      : (tensor<2x100x16xbf16>, tensor<4xi32>) -> (tensor<176x16xbf16>, tensor<4xi32>)
  return
}

// -----

func.func @pad_rows(%a0: tensor<100x16xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'padded' has dimension 0 of size 112; it must be 176}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 16 : i64}
      : (tensor<100x16xbf16>, tensor<4xi32>) -> (tensor<112x16xbf16>, tensor<4xi32>)
  return
}

// -----

func.func @pad_columns(%a0: tensor<100x16xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'padded' has dimension 1 of size 32; it must be 16}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 16 : i64}
      : (tensor<100x16xbf16>, tensor<4xi32>) -> (tensor<176x32xbf16>, tensor<4xi32>)
  return
}

// -----

func.func @padded_offs(%a0: tensor<100x16xbf16>, %a1: tensor<4xi32>) {
  // expected-error@below {{result 'padded_offs' has dimension 0 of size 5; it must be 4}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 16 : i64}
      : (tensor<100x16xbf16>, tensor<4xi32>) -> (tensor<176x16xbf16>, tensor<5xi32>)
  return
}

// -----

func.func @pad_groups(%a0: tensor<100x16xbf16>, %a1: tensor<2000xi32>) {
  // expected-error@below {{there are 2000 groups; there may be at most 1024}}
  %r:2 = "mx_quantize.pad_groups"(%a0, %a1) {align = 16 : i64}
      : (tensor<100x16xbf16>, tensor<2000xi32>) -> (tensor<176x16xbf16>, tensor<2000xi32>)
  return
}

// -----

func.func @unpad_offs(%a0: tensor<176x16xbf16>, %a1: tensor<4xi32>, %a2: tensor<5xi32>) {
  // expected-error@below {{operand 'padded_offs' has dimension 0 of size 5; it must be 4}}
  %r = "mx_quantize.unpad_groups"(%a0, %a1, %a2) {align = 16 : i64}
      : (tensor<176x16xbf16>, tensor<4xi32>, tensor<5xi32>) -> tensor<176x16xbf16>
  return
}

// -----

func.func @unpad_offs_rank(%a0: tensor<176x16xbf16>, %a1: tensor<4xi32>, %a2: tensor<4x1xi32>) {
  // expected-error@below {{operand 'padded_offs' has rank 2; it must be 1}}
  %r = "mx_quantize.unpad_groups"(%a0, %a1, %a2) {align = 16 : i64}
      : (tensor<176x16xbf16>, tensor<4xi32>, tensor<4x1xi32>) -> tensor<176x16xbf16>
  return
}

// -----

func.func @unpad_rows(%a0: tensor<176x16xbf16>, %a1: tensor<4xi32>, %a2: tensor<4xi32>) {
  // expected-error@below {{result 'x' has dimension 0 of size 100; it must be 176}}
  %r = "mx_quantize.unpad_groups"(%a0, %a1, %a2) {align = 16 : i64}
      : (tensor<176x16xbf16>, tensor<4xi32>, tensor<4xi32>) -> tensor<100x16xbf16>
  return
}

// -----

func.func @unpad_types(%a0: tensor<176x16xbf16>, %a1: tensor<4xi32>, %a2: tensor<4xi32>) {
  // expected-error@below {{the rows that come out must have the element type of those that go in}}
  %r = "mx_quantize.unpad_groups"(%a0, %a1, %a2) {align = 16 : i64}
      : (tensor<176x16xbf16>, tensor<4xi32>, tensor<4xi32>) -> tensor<176x16xf8E4M3FN>
  return
}

// -----

func.func @packed_rows_of_mx(%a0: tensor<128x4xf8E8M0FNU>) {
  // expected-error@below {{layout "rows_innermost" is of f32 scales}}
  %r = "mx_quantize.pack_scales"(%a0) {layout = "rows_innermost"} : (tensor<128x4xf8E8M0FNU>) -> tensor<128x4xf8E8M0FNU>
  return
}

// -----

func.func @packed_rows_of_groups(%a0: tensor<128x4xf32>, %a1: tensor<4xi32>) {
  // expected-error@below {{operand 'offs' must not be there: layout "rows_innermost" has no groups}}
  %r = "mx_quantize.pack_scales"(%a0, %a1) {layout = "rows_innermost"} : (tensor<128x4xf32>, tensor<4xi32>) -> tensor<128x4xf32>
  return
}

// -----

// Groups that begin at a multiple of tokens.
func.func @align_is_not_128(%x: tensor<70x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'align' is 64; it must be 128}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 64 : i64}
      : (tensor<70x32xbf16>, tensor<2xi32>) -> (tensor<384x32xf8E4M3FN>, tensor<12x32xf8E8M0FNU>)
  return
}

// -----

func.func @align_without_groups(%x: tensor<64x32xbf16>) {
  // expected-error@below {{attribute 'align' must not be there: no result has groups along the axis that is summed over}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64}
      : (tensor<64x32xbf16>) -> (tensor<64x32xf8E4M3FN>, tensor<2x32xf8E8M0FNU>)
  return
}

// -----

func.func @align_of_rows(%x: tensor<64x128xbf16>, %offs: tensor<4xi32>) {
  // expected-error@below {{attribute 'align' must not be there: no result has groups along the axis that is summed over}}
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "group", axis = 1 : i64, pow2 = true, sanitize = false, align = 128 : i64}
      : (tensor<64x128xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @align_of_experts(%x: tensor<4x64x128xbf16>) {
  // expected-error@below {{attribute 'align' must not be there: no result has groups along the axis that is summed over}}
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x) {pow2 = true, sanitize = false, align = 128 : i64}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64x128xf8E4M3FN>, tensor<4x64xf32>, tensor<4x64x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @align_of_a_pair(%x: tensor<64x128xbf16>, %y: tensor<64x32xbf16>, %offs: tensor<4xi32>) {
  // expected-error@below {{attribute 'align' is 256; it must be 128}}
  %q, %s, %qy, %sy = "mx_quantize.quantize_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = false, align = 256 : i64}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4xi32>)
      -> (tensor<640x128xf8E4M3FN>, tensor<4x128xf32>, tensor<640x32xf8E4M3FN>, tensor<4x32xf32>)
  return
}

// -----

func.func @align_q(%x: tensor<70x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'q' has dimension 0 of size 128; it must be 384}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64}
      : (tensor<70x32xbf16>, tensor<2xi32>) -> (tensor<128x32xf8E4M3FN>, tensor<12x32xf8E8M0FNU>)
  return
}

// -----

func.func @align_scales(%x: tensor<70x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 6; it must be 12}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64}
      : (tensor<70x32xbf16>, tensor<2xi32>) -> (tensor<384x32xf8E4M3FN>, tensor<6x32xf8E8M0FNU>)
  return
}

// -----

func.func @align_q_t(%x: tensor<64x128xbf16>, %offs: tensor<4xi32>) {
  // expected-error@below {{result 'q_t' has dimension 0 of size 128; it must be 640}}
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x, %offs) {pow2 = true, sanitize = false, align = 128 : i64}
      : (tensor<64x128xbf16>, tensor<4xi32>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>, tensor<128x128xf8E4M3FN>, tensor<4x128xf32>)
  return
}

// -----

func.func @align_q_y(%x: tensor<64x128xbf16>, %y: tensor<64x32xbf16>, %f: tensor<4x128xf32>, %fy: tensor<4x32xf32>, %offs: tensor<4xi32>) {
  // expected-error@below {{result 'q_y' has dimension 0 of size 128; it must be 640}}
  %q, %qy = "mx_quantize.cast_fp8_pair"(%x, %y, %f, %fy, %offs) {sanitize = false, align = 128 : i64}
      : (tensor<64x128xbf16>, tensor<64x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>)
      -> (tensor<640x128xf8E4M3FN>, tensor<128x32xf8E4M3FN>)
  return
}

// -----

func.func @align_of_a_dequantize(%q: tensor<640x128xf8E4M3FN>, %s: tensor<4x128xf32>, %offs: tensor<4xi32>) {
  // expected-error@below {{unknown attribute 'align'; the op has axis, granularity or schedule}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s, %offs) {granularity = "row", axis = 0 : i64, align = 128 : i64}
      : (tensor<640x128xf8E4M3FN>, tensor<4x128xf32>, tensor<4xi32>) -> (tensor<640x128xbf16>)
  return
}

// -----

// round
func.func @round_axis(%x: tensor<64x32xbf16>) {
  // expected-error@below {{attribute 'axis' is 2; it must be 0 to 1}}
  %0 = "mx_quantize.round"(%x) {axis = 2 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return
}

// -----

func.func @round_size(%x: tensor<48x32xbf16>) {
  // expected-error@below {{dimension 0, the axis, has size 48; it must be a multiple of 32}}
  %0 = "mx_quantize.round"(%x) {axis = 0 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<48x32xbf16>) -> tensor<48x32xbf16>
  return
}

// -----

func.func @round_dual_size(%x: tensor<48x40xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{dimension 1, the axis, has size 40; it must be a multiple of 32}}
  %0, %1 = "mx_quantize.round_dual"(%x, %offs) {block = 32 : i64, mode = "rceil", element = "f8E4M3FN"}
      : (tensor<48x40xbf16>, tensor<2xi32>) -> (tensor<48x40xbf16>, tensor<48x40xbf16>)
  return
}

// -----

func.func @round_groups(%x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' must not be there: 'x' has rank 2 and is cut along axis 1; groups cut a matrix along axis 0}}
  %0 = "mx_quantize.round"(%x, %offs) {axis = 1 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"}
      : (tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x32xbf16>
  return
}

// -----

func.func @round_block(%x: tensor<64x32xbf16>) {
  // expected-error@below {{attribute 'block' is 16; it must be 32}}
  %0 = "mx_quantize.round"(%x) {axis = 1 : i64, block = 16 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return
}

// -----

func.func @order_f32(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>) {
  // expected-error@below {{attribute 'order' must not be there: only an 'x' of bf16 whose axis is the last dimension has columns in another order}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64, order = "evens_first"}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> tensor<64x32xf32>
  return
}

// -----

func.func @order_axis(%q: tensor<32x64xf8E4M3FN>, %s: tensor<1x64xf8E8M0FNU>) {
  // expected-error@below {{attribute 'order' must not be there}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64, order = "evens_first"}
      : (tensor<32x64xf8E4M3FN>, tensor<1x64xf8E8M0FNU>) -> tensor<32x64xbf16>
  return
}

// -----

func.func @order_name(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>) {
  // expected-error@below {{attribute 'order' is "odds_first"; it must be evens_first}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64, order = "odds_first"}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> tensor<64x32xbf16>
  return
}

// -----

// Whoever reads x knows its order: a product of 16 bits does not, nor does one with weights in the layout "1x16".
func.func @order_mm(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64, order = "evens_first"}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> tensor<64x32xbf16>
  // expected-error@below {{result 'x' of dequantize has its columns in the order "evens_first", in which only mixed_mm with layout "evens_first" reads them}}
  %out = "scaled_grouped_mm.mm"(%x, %b, %offs) : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @order_1x16(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>, %w: tensor<16x32xf8E4M3FN>, %scales: tensor<16x1xf8E8M0FNU>) {
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64, order = "evens_first"}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> tensor<64x32xbf16>
  // expected-error@below {{result 'x' of dequantize has its columns in the order "evens_first", in which only mixed_mm with layout "evens_first" reads them}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f8E4M3FN", group_size = 32 : i64, layout = "1x16"}
      : (tensor<16x32xf8E4M3FN>, tensor<16x1xf8E8M0FNU>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

// quantize_f16
func.func @f16_element(%x: tensor<64x32xf32>) {
  // expected-error@below {{operand 'x' has element type f32; it must be bf16}}
  %q, %s = "mx_quantize.quantize_f16"(%x) : (tensor<64x32xf32>) -> (tensor<64x32xf16>, tensor<64xf32>)
  return
}

// -----

func.func @f16_scales(%x: tensor<64x32xbf16>) {
  // expected-error@below {{result 'scales' has dimension 0 of size 32; it must be 64}}
  %q, %s = "mx_quantize.quantize_f16"(%x) : (tensor<64x32xbf16>) -> (tensor<64x32xf16>, tensor<32xf32>)
  return
}

// -----

func.func @f16_rank(%x: tensor<2x64x32xbf16>) {
  // expected-error@below {{operand 'x' has rank 3; it must be 2}}
  %q, %s = "mx_quantize.quantize_f16"(%x) : (tensor<2x64x32xbf16>) -> (tensor<2x64x32xf16>, tensor<64xf32>)
  return
}

// -----

// dequantize_f16
func.func @f16_of_e5m2(%q: tensor<64x32xf8E5M2>, %s: tensor<64x1xf8E8M0FNU>) {
  // expected-error@below {{operand 'q' has element type f8E5M2; it must be f8E4M3FN}}
  %x, %sx = "mx_quantize.dequantize_f16"(%q, %s) : (tensor<64x32xf8E5M2>, tensor<64x1xf8E8M0FNU>) -> (tensor<64x32xf16>, tensor<64xf32>)
  return
}

// -----

func.func @f16_of_blocks(%q: tensor<64x64xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>) {
  // expected-error@below {{operand 'scales' has dimension 1 of size 1; it must be 2}}
  %x, %sx = "mx_quantize.dequantize_f16"(%q, %s) : (tensor<64x64xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> (tensor<64x64xf16>, tensor<64xf32>)
  return
}

// -----

func.func @f16_in_part_of_a_block(%q: tensor<64x48xf8E4M3FN>, %s: tensor<64x2xf8E8M0FNU>) {
  // expected-error@below {{48}}
  %x, %sx = "mx_quantize.dequantize_f16"(%q, %s) : (tensor<64x48xf8E4M3FN>, tensor<64x2xf8E8M0FNU>) -> (tensor<64x48xf16>, tensor<64xf32>)
  return
}

// -----

func.func @f16_order_of_another(%w: tensor<16x32xf8E4M3FN>, %scales: tensor<16x1xf8E8M0FNU>, %q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>) {
  %x, %sx = "mx_quantize.dequantize_f16"(%q, %s) {order = "evens_first"}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> (tensor<64x32xf16>, tensor<64xf32>)
  // expected-error@below {{result 'x' of dequantize has its columns in the order "evens_first", in which only mixed_mm with layout "evens_first" reads them}}
  %out = "scaled_grouped_mm.mixed_mm_scaled"(%w, %scales, %x, %sx) {format = "f8E4M3FN", group_size = 32 : i64, layout = "1x16"}
      : (tensor<16x32xf8E4M3FN>, tensor<16x1xf8E8M0FNU>, tensor<64x32xf16>, tensor<64xf32>) -> tensor<64x16xbf16>
  return
}
