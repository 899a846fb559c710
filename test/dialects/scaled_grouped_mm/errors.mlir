// Everything that is wrong with a scaled_grouped_mm op has one message.

// RUN: moe-opt %s --split-input-file --moe-verify --verify-diagnostics

// grouped_mm
func.func @not_a_tensor(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: memref<2xi32>) {
  // expected-error@below {{expected base type 'builtin.tensor' but got 'builtin.memref'}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, memref<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @no_recipe(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute "recipe" is expected but not provided}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @a_element(%a: tensor<64x32xf32>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'a' has element type f32; it must be bf16}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xf32>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @b_element(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xf8E4M3FN>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'b' has element type f8E4M3FN; it must be bf16}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xf8E4M3FN>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @offs_element(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi64>) {
  // expected-error@below {{operand 'offs' has element type i64; it must be i32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi64>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @offs_element_signed(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xsi32>) {
  // expected-error@below {{operand 'offs' has element type si32; it must be i32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xsi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @offs_is_scalar(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<i32>) {
  // expected-error@below {{operand 'offs' has rank 0; it must be 1 to 5}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<i32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @out_element(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has element type f8E5M2; it must be bf16, f16 or f32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xf8E5M2>
  return
}

// -----

func.func @recipe(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'recipe' is "fp8"; it must be fp8_rowwise, fp8_tensorwise, fp8_blockwise or mxfp8}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @unknown_attribute(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{unknown attribute 'recipes'; the op has recipe, accumulate or schedule}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", recipes = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @accumulate(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'accumulate' is "slow"; it must be fast or promoted}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", accumulate = "slow"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @accumulate_kind(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'accumulate' is true; it must be a string}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", accumulate = true}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @grouped_ranks(%a: tensor<2x64x32xbf16>, %b: tensor<32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'a' and 'b' have ranks 3 and 2; they must be 2 and 3, 2 and 2, or 3 and 3}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<2x64x32xbf16>, tensor<32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @grouped_no_offs(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>) {
  // expected-error@below {{operand 'offs' is missing; it gives the groups}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @batched_offs(%a: tensor<2x64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' must not be there: the batches are the groups}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<2x64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @grouped_reduction(%a: tensor<64x32xbf16>, %b: tensor<2x48x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'b' has dimension 1 of size 48; it must be 32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x48x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @grouped_offs_rank(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2x1xi32>) {
  // expected-error@below {{operand 'offs' has rank 2; it must be 1}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2x1xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @grouped_experts(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<?xi32>) {
  // expected-error@below {{operand 'offs' has dimension 0 of size ?; it must be 2}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<?xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @gradient_out(%a: tensor<32x64xbf16>, %b: tensor<64x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<32x64xbf16>, tensor<64x16xbf16>, tensor<2xi32>) -> tensor<3x32x16xbf16>
  return
}

// -----

func.func @batched_out_rank(%a: tensor<2x64x32xbf16>, %b: tensor<2x32x16xbf16>) {
  // expected-error@below {{result 'out' has rank 2; it must be 3}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "mxfp8"}
      : (tensor<2x64x32xbf16>, tensor<2x32x16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @grouped_too_many_experts(%a: tensor<64x32xbf16>, %b: tensor<1025x32x16xbf16>, %offs: tensor<1025xi32>) {
  // expected-error@below {{there are 1025 experts; there may be at most 1024}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<1025x32x16xbf16>, tensor<1025xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @encoding(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16, affine_map<(k, n) -> (n, k)>>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'b' has encoding affine_map<(d0, d1) -> (d1, d0)>; it must be a permutation of its 3 dimensions}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16, affine_map<(k, n) -> (n, k)>>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @custom_syntax(%a: tensor<64x32xbf16>) {
  // expected-error@below {{'scaled_grouped_mm.grouped_mm' has no custom syntax; write the generic form}}
  %out = scaled_grouped_mm.grouped_mm %a : tensor<64x32xbf16>
  return
}

// -----

// scaled_mm
func.func @too_few_operands(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>) {
  // expected-error@below {{op expects at least 4 operands, but got 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @qa_element(%qa: tensor<64x32xbf16>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has element type bf16; it must be f8E4M3FN or f8E5M2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xbf16>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @qb_element(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xi8>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has element type i8; it must be f8E4M3FN or f8E5M2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xi8>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @sa_element(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xbf16>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has element type bf16; it must be f32 or f8E8M0FNU}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xbf16>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @sb_element(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf64>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has element type f64; it must be f32 or f8E8M0FNU}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf64>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @scaled_offs_element(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xui32>) {
  // expected-error@below {{operand 'offs' has element type ui32; it must be i32}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xui32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @qa_size(%qa: tensor<0x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has dimension 0 of size 0; a static size must be 1 to 2147483647}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<0x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @accumulate(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'accumulate' is "slow"; it must be fast or promoted}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "slow"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @no_accumulate(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute "accumulate" is expected but not provided}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// The case follows from the ranks of qa and qb.
func.func @ranks_3_2(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'qa' and 'qb' have ranks 3 and 2; they must be 2 and 3, 2 and 2, or 3 and 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @ranks_1_3(%qa: tensor<64xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'qa' and 'qb' have ranks 1 and 3; they must be 2 and 3, 2 and 2, or 3 and 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @ranks_2_4(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x1x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'qa' and 'qb' have ranks 2 and 4; they must be 2 and 3, 2 and 2, or 3 and 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x1x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @ranks_4_3(%qa: tensor<2x1x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'qa' and 'qb' have ranks 4 and 3; they must be 2 and 3, 2 and 2, or 3 and 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<2x1x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// Scales of one kind.
func.func @only_sa_is_mx(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'sa' and 'sb' must both be f32 or both f8E8M0FNU}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1xf8E8M0FNU>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @only_sb_is_mx(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'sa' and 'sb' must both be f32 or both f8E8M0FNU}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// Scales of 1x128 and 128x128 blocks: (M,K/128) (E,K/128,N/128), and batched (E,M,K/128) (E,K/128,N/128).
func.func @only_sa_is_in_blocks(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64x2xf32>, %sb: tensor<2x272xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has scales of blocks and operand 'sb' has none; both must have them, or neither}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64x2xf32>, tensor<2x272xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @only_sb_is_in_blocks(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x2x3xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has scales of blocks and operand 'sa' has none; both must have them, or neither}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64xf32>, tensor<2x2x3xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @batched_only_sa_is_in_blocks(%qa: tensor<2x64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<2x64x2xf32>, %sb: tensor<2xf32>) {
  // expected-error@below {{operand 'sa' has scales of blocks and operand 'sb' has none; both must have them, or neither}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "promoted"}
      : (tensor<2x64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<2x64x2xf32>, tensor<2xf32>) -> tensor<2x64x272xbf16>
  return
}

// -----

// Scales of blocks of tokens: (M/128 + E, N) and (M/128 + E, K), told by the attribute.
func.func @blocks_of_tokens_forward(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64x2xf32>, %sb: tensor<2x2x3xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'granularity' must not be there: but for a gradient of weights the shapes of the scales say what they are}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64x2xf32>, tensor<2x2x3xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @blocks_of_tokens_rows(%qa: tensor<64x272xf8E4M3FN>, %qb: tensor<272x144xf8E4M3FN>, %sa: tensor<5x64xf32>, %sb: tensor<4x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 4; it must be 5}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128"}
      : (tensor<64x272xf8E4M3FN>, tensor<272x144xf8E4M3FN>, tensor<5x64xf32>, tensor<4x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @blocks_of_tokens_fast(%qa: tensor<64x272xf8E4M3FN>, %qb: tensor<272x144xf8E4M3FN>, %sa: tensor<5x64xf32>, %sb: tensor<5x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'accumulate' is "fast"; it must be promoted with scales of blocks}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", granularity = "1x128"}
      : (tensor<64x272xf8E4M3FN>, tensor<272x144xf8E4M3FN>, tensor<5x64xf32>, tensor<5x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @blocks_of_tokens_not_told(%qa: tensor<64x272xf8E4M3FN>, %qb: tensor<272x144xf8E4M3FN>, %sa: tensor<5x64xf32>, %sb: tensor<5x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 5; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x272xf8E4M3FN>, tensor<272x144xf8E4M3FN>, tensor<5x64xf32>, tensor<5x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @blocks_of_tokens_e8m0(%qa: tensor<64x288xf8E4M3FN>, %qb: tensor<288x144xf8E4M3FN>, %sa: tensor<64x9xf8E8M0FNU>, %sb: tensor<9x144xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'granularity' is "1x128"; 'sa' and 'sb' must be f32 then}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128"}
      : (tensor<64x288xf8E4M3FN>, tensor<288x144xf8E4M3FN>, tensor<64x9xf8E8M0FNU>, tensor<9x144xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

// Groups that begin at multiples of 128 tokens: as many more for each of them, which the scales of blocks have too.
func.func @align_forward(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x272xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'align' must not be there: only the groups of a gradient of weights are padded}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", align = 128 : i64}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64xf32>, tensor<2x272xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @align_batched(%qa: tensor<2x64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x272xf32>) {
  // expected-error@below {{attribute 'align' must not be there: only the groups of a gradient of weights are padded}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "promoted", align = 128 : i64}
      : (tensor<2x64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<2x64xf32>, tensor<2x272xf32>) -> tensor<2x64x272xbf16>
  return
}

// -----

func.func @align_other(%qa: tensor<64x640xf8E4M3FN>, %qb: tensor<640x144xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'align' is 64; it must be 128}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", align = 64 : i64}
      : (tensor<64x640xf8E4M3FN>, tensor<640x144xf8E4M3FN>, tensor<2x64xf32>, tensor<2x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @align_string(%qa: tensor<64x640xf8E4M3FN>, %qb: tensor<640x144xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'align' is "128"; it must be i64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", align = "128"}
      : (tensor<64x640xf8E4M3FN>, tensor<640x144xf8E4M3FN>, tensor<2x64xf32>, tensor<2x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @align_multiple(%qa: tensor<64x272xf8E4M3FN>, %qb: tensor<272x144xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has dimension 1 of size 272; with 'align' it must be a multiple of 128}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", align = 128 : i64}
      : (tensor<64x272xf8E4M3FN>, tensor<272x144xf8E4M3FN>, tensor<2x64xf32>, tensor<2x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @align_room(%qa: tensor<64x256xf8E4M3FN>, %qb: tensor<256x144xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has dimension 1 of size 256; with 'align' it must be more than 128 for each of 2 groups}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", align = 128 : i64}
      : (tensor<64x256xf8E4M3FN>, tensor<256x144xf8E4M3FN>, tensor<2x64xf32>, tensor<2x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @align_blocks(%qa: tensor<64x640xf8E4M3FN>, %qb: tensor<640x144xf8E4M3FN>, %sa: tensor<7x64xf32>, %sb: tensor<7x144xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 7; it must be 5}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128", align = 128 : i64}
      : (tensor<64x640xf8E4M3FN>, tensor<640x144xf8E4M3FN>, tensor<7x64xf32>, tensor<7x144xf32>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @align_mx(%qa: tensor<64x640xf8E4M3FN>, %qb: tensor<640x144xf8E4M3FN>, %sa: tensor<20x64xf8E8M0FNU>, %sb: tensor<22x144xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 22; it must be 20}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", align = 128 : i64}
      : (tensor<64x640xf8E4M3FN>, tensor<640x144xf8E4M3FN>, tensor<20x64xf8E8M0FNU>, tensor<22x144xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @blocks_fast(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64x2xf32>, %sb: tensor<2x2x3xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'accumulate' is "fast"; it must be promoted with scales of blocks}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64x2xf32>, tensor<2x2x3xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @blocks_sa_tokens(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<65x2xf32>, %sb: tensor<2x2x3xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 65; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<65x2xf32>, tensor<2x2x3xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @blocks_sa_reduction(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64x1xf32>, %sb: tensor<2x2x3xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 1 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64x1xf32>, tensor<2x2x3xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @blocks_sb_experts(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64x2xf32>, %sb: tensor<3x2x3xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64x2xf32>, tensor<3x2x3xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @blocks_sb_reduction(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64x2xf32>, %sb: tensor<2x3x2xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 1 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64x2xf32>, tensor<2x3x2xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @blocks_sb_columns(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<64x2xf32>, %sb: tensor<2x2x2xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 2 of size 2; it must be 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<64x2xf32>, tensor<2x2x2xf32>, tensor<2xi32>) -> tensor<64x272xbf16>
  return
}

// -----

func.func @batched_blocks_sa_reduction(%qa: tensor<2x64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<2x64x1xf32>, %sb: tensor<2x2x3xf32>) {
  // expected-error@below {{operand 'sa' has dimension 2 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "promoted"}
      : (tensor<2x64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<2x64x1xf32>, tensor<2x2x3xf32>) -> tensor<2x64x272xbf16>
  return
}

// -----

func.func @batched_blocks_sb_columns(%qa: tensor<2x64x144xf8E4M3FN>, %qb: tensor<2x144x272xf8E4M3FN>, %sa: tensor<2x64x2xf32>, %sb: tensor<2x2x4xf32>) {
  // expected-error@below {{operand 'sb' has dimension 2 of size 4; it must be 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "promoted"}
      : (tensor<2x64x144xf8E4M3FN>, tensor<2x144x272xf8E4M3FN>, tensor<2x64x2xf32>, tensor<2x2x4xf32>) -> tensor<2x64x272xbf16>
  return
}

// -----

// Offsets where there are groups of tokens, and only there.
func.func @forward_without_offs(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'offs' is missing; it gives the groups}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @gradient_without_offs(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'offs' is missing; it gives the groups}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @batched_with_offs(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' must not be there: the batches are the groups}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x64x16xbf16>
  return
}

// -----

// Forward: (M,K) (E,K,N) (M) (E,N) (E) -> (M,N).
func.func @forward_sa_rank(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64x1x1xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has rank 3; it must be 1}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64x1x1xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_sb_rank(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16x1x1xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has rank 4; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16x1x1xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_offs_rank(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2x1xi32>) {
  // expected-error@below {{operand 'offs' has rank 2; it must be 1}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2x1xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_out_rank(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has rank 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @forward_qb_k(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x64x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has dimension 1 of size 64; it must be 32}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x64x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_sa_m(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<32xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 32; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<32xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_sb_e(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<3x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<3x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_sb_n(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x32xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 1 of size 32; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_offs_e(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<3xi32>) {
  // expected-error@below {{operand 'offs' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<3xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_out_m(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 0 of size 63; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<63x16xbf16>
  return
}

// -----

func.func @forward_out_n(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 1 of size 32; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x32xbf16>
  return
}

// -----

// Weight gradient: (N,M) (M,K) (E,N) (E,K) (E) -> (E,N,K).
func.func @gradient_sa_rank(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48x1xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has rank 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48x1xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_sb_rank(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16x1xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has rank 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16x1xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_offs_rank(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<1x2xi32>) {
  // expected-error@below {{operand 'offs' has rank 2; it must be 1}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<1x2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_out_rank(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has rank 2; it must be 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<96x16xbf16>
  return
}

// -----

func.func @gradient_qb_m(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<32x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has dimension 0 of size 32; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_sa_n(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x16xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 1 of size 16; it must be 48}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_sb_e(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<3x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<3x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_sb_k(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x48xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 1 of size 48; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x48xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_offs_e(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<3xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 2; it must be 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<3xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_out_e(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<3x48x16xbf16>
  return
}

// -----

func.func @gradient_out_n(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 1 of size 64; it must be 48}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @gradient_out_k(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 2 of size 48; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x48xbf16>
  return
}

// -----

// Batched: (E,M,K) (E,K,N) (E,M) (E,N) -> (E,M,N).
func.func @batched_sa_rank(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64x1x1xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'sa' has rank 4; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64x1x1xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_sb_rank(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16x1x1xf32>) {
  // expected-error@below {{operand 'sb' has rank 4; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16x1x1xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_out_rank(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{result 'out' has rank 2; it must be 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<128x16xbf16>
  return
}

// -----

func.func @batched_qb_e(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<3x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'qb' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<3x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_qb_k(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x64x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'qb' has dimension 1 of size 64; it must be 32}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x64x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_sa_e(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<3x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<3x64xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_sa_m(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x32xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'sa' has dimension 1 of size 32; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x32xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_sb_e(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<1x16xf32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<1x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_sb_n(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x32xf32>) {
  // expected-error@below {{operand 'sb' has dimension 1 of size 32; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_out_e(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{result 'out' has dimension 0 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<1x64x16xbf16>
  return
}

// -----

func.func @batched_out_m(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{result 'out' has dimension 1 of size 16; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<2x16x16xbf16>
  return
}

// -----

func.func @batched_out_n(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{result 'out' has dimension 2 of size 64; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<2x64x64xbf16>
  return
}

// -----

// One size is static everywhere or nowhere.
func.func @out_dynamic(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 0 of size ?; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<?x16xbf16>
  return
}

// -----

func.func @out_static(%qa: tensor<?x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<?xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 0 of size 64; it must be ?}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<?xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @qb_dynamic(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x?x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has dimension 1 of size ?; it must be 32}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x?x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @offs_static(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<?x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<?x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' has dimension 0 of size 2; it must be ?}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<?x32x16xf8E4M3FN>, tensor<64xf32>, tensor<?x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @gradient_offs_dynamic(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<?xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 2; it must be ?}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<?xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

// E8M0 scales: one for 32 along the reduction. Forward: (M,K/32) and (E,K/32,N).
func.func @mx_sa_rank(%qa: tensor<64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<64xf8E8M0FNU>, %sb: tensor<2x4x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has rank 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<64xf8E8M0FNU>, tensor<2x4x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_sb_rank(%qa: tensor<64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<64x4xf8E8M0FNU>, %sb: tensor<2x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has rank 2; it must be 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<2x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_sa_m(%qa: tensor<64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<32x4xf8E8M0FNU>, %sb: tensor<2x4x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 32; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<32x4xf8E8M0FNU>, tensor<2x4x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_sa_k(%qa: tensor<64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<64x128xf8E8M0FNU>, %sb: tensor<2x4x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 1 of size 128; it must be 4}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<64x128xf8E8M0FNU>, tensor<2x4x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_sb_e(%qa: tensor<64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<64x4xf8E8M0FNU>, %sb: tensor<3x4x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<3x4x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_sb_k(%qa: tensor<64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<64x4xf8E8M0FNU>, %sb: tensor<2x3x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 1 of size 3; it must be 4}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<2x3x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_sb_n(%qa: tensor<64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<64x4xf8E8M0FNU>, %sb: tensor<2x4x4xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 2 of size 4; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<2x4x4xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_k(%qa: tensor<64x112xf8E4M3FN>, %qb: tensor<2x112x16xf8E4M3FN>, %sa: tensor<64x3xf8E8M0FNU>, %sb: tensor<2x3x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{the dimension of size 112 that 'sa' has a scale for each 32 of must be a multiple of 32}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x112xf8E4M3FN>, tensor<2x112x16xf8E4M3FN>, tensor<64x3xf8E8M0FNU>, tensor<2x3x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mx_k_dynamic(%qa: tensor<64x?xf8E4M3FN>, %qb: tensor<2x?x16xf8E4M3FN>, %sa: tensor<64x4xf8E8M0FNU>, %sb: tensor<2x4x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 1 of size 4; it must be ?}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x?xf8E4M3FN>, tensor<2x?x16xf8E4M3FN>, tensor<64x4xf8E8M0FNU>, tensor<2x4x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// Weight gradient: (M/32+E,N) and (M/32+E,K); M of any size.
func.func @mx_gradient_sa_m(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf8E8M0FNU>, %sb: tensor<4x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 2; it must be 4}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf8E8M0FNU>, tensor<4x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @mx_gradient_sa_n(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<4x16xf8E8M0FNU>, %sb: tensor<4x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 1 of size 16; it must be 48}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<4x16xf8E8M0FNU>, tensor<4x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @mx_gradient_sb_m(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<4x48xf8E8M0FNU>, %sb: tensor<16x2xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 16; it must be 4}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<4x48xf8E8M0FNU>, tensor<16x2xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @mx_gradient_sb_k(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<4x48xf8E8M0FNU>, %sb: tensor<4x48xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 1 of size 48; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<4x48xf8E8M0FNU>, tensor<4x48xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @mx_gradient_m(%qa: tensor<48x80xf8E4M3FN>, %qb: tensor<80x16xf8E4M3FN>, %sa: tensor<4x48xf8E8M0FNU>, %sb: tensor<5x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 4; it must be 5}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x80xf8E4M3FN>, tensor<80x16xf8E4M3FN>, tensor<4x48xf8E8M0FNU>, tensor<5x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

// Batched: (E,M,K/32) and (E,K/32,N).
func.func @mx_batched_sa_rank(%qa: tensor<2x64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<2x64xf8E8M0FNU>, %sb: tensor<2x4x16xf8E8M0FNU>) {
  // expected-error@below {{operand 'sa' has rank 2; it must be 3}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<2x64xf8E8M0FNU>, tensor<2x4x16xf8E8M0FNU>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @mx_batched_sa_k(%qa: tensor<2x64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<2x64x1xf8E8M0FNU>, %sb: tensor<2x4x16xf8E8M0FNU>) {
  // expected-error@below {{operand 'sa' has dimension 2 of size 1; it must be 4}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<2x64x1xf8E8M0FNU>, tensor<2x4x16xf8E8M0FNU>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @mx_batched_sb_k(%qa: tensor<2x64x128xf8E4M3FN>, %qb: tensor<2x128x16xf8E4M3FN>, %sa: tensor<2x64x4xf8E8M0FNU>, %sb: tensor<2x16x4xf8E8M0FNU>) {
  // expected-error@below {{operand 'sb' has dimension 1 of size 16; it must be 4}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x128xf8E4M3FN>, tensor<2x128x16xf8E4M3FN>, tensor<2x64x4xf8E8M0FNU>, tensor<2x16x4xf8E8M0FNU>) -> tensor<2x64x16xbf16>
  return
}

// -----

// Scales that several rows share: one for each expert; of a forward product's tokens, one for all.
func.func @forward_sa_of_experts(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 2; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_sb_of_all(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<1xf32>, %sb: tensor<1xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<1xf32>, tensor<1xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_sb_of_columns(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 16; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @forward_sa_dynamic(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<?xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size ?; it must be 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<?xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @gradient_sa_of_all(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<1xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<1xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @gradient_sb_of_all(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2xf32>, %sb: tensor<1xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2xf32>, tensor<1xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @batched_sa_of_all(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<1xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'sa' has dimension 0 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<1xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @batched_sb_of_all(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2xf32>, %sb: tensor<1xf32>) {
  // expected-error@below {{operand 'sb' has dimension 0 of size 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2xf32>, tensor<1xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @mx_sa_of_all(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has rank 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// scaled_mm_bias: the last operand is the bias, offs stand before it.
func.func @bias_missing(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{op expects at least 5 operands, but got 4}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @bias_element(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<2x16xi32>) {
  // expected-error@below {{operand 'bias' has element type i32; it must be bf16, f16 or f32}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<2x16xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @bias_of_another_type(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<2x16xf32>) {
  // expected-error@below {{operand 'bias' must have the element type of 'out'}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<2x16xf32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @bias_rank(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<16xbf16>) {
  // expected-error@below {{operand 'bias' has rank 1; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @bias_experts(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<3x16xbf16>) {
  // expected-error@below {{operand 'bias' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<3x16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @bias_columns(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<2x32xbf16>) {
  // expected-error@below {{operand 'bias' has dimension 1 of size 32; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<2x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @bias_offs(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %bias: tensor<2x16xbf16>) {
  // expected-error@below {{operand 'offs' is missing; it gives the groups}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2x16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @bias_offs_element(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi64>, %bias: tensor<2x16xbf16>) {
  // expected-error@below {{operand 'offs' has element type i64; it must be i32}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi64>, tensor<2x16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @bias_batched_offs(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<2x16xbf16>) {
  // expected-error@below {{operand 'offs' must not be there: the batches are the groups}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<2x16xbf16>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @bias_batched_columns(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>, %bias: tensor<2x64xbf16>) {
  // expected-error@below {{operand 'bias' has dimension 1 of size 64; it must be 16}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %bias) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>, tensor<2x64xbf16>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @bias_of_gradient(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<2x16xbf16>) {
  // expected-error@below {{operand 'bias' must not be there: a gradient of weights has none}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<2x16xbf16>) -> tensor<2x48x16xbf16>
  return
}

// -----

func.func @bias_accumulate(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<2x16xbf16>) {
  // expected-error@below {{attribute 'accumulate' is "slow"; it must be fast or promoted}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "slow"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<2x16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

// The kernels keep a table of the groups in shared memory.
func.func @experts(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<1025x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<1025x16xf32>, %offs: tensor<1025xi32>) {
  // expected-error@below {{there are 1025 experts; there may be at most 1024}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<1025x32x16xf8E4M3FN>, tensor<64xf32>, tensor<1025x16xf32>, tensor<1025xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @gradient_experts(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<1025x48xf32>, %sb: tensor<1025x16xf32>, %offs: tensor<1025xi32>) {
  // expected-error@below {{there are 1025 experts; there may be at most 1024}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<1025x48xf32>, tensor<1025x16xf32>, tensor<1025xi32>) -> tensor<1025x48x16xbf16>
  return
}

// -----

// mixed_mm of FP8 weights
func.func @fp8_weights_as_bytes(%w: tensor<16x32xui8>, %scales: tensor<16x1xf8E8M0FNU>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{operand 'w' must be f8E4M3FN with format "f8E4M3FN"}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f8E4M3FN", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x32xui8>, tensor<16x1xf8E8M0FNU>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @fp8_weights_of_four_bits(%w: tensor<16x16xf8E4M3FN>, %scales: tensor<16x1xbf16>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{operand 'w' must be ui8 with format "i4"}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xf8E4M3FN>, tensor<16x1xbf16>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @fp8_weights_scales(%w: tensor<16x32xf8E4M3FN>, %scales: tensor<16x1xbf16>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{operand 'scales' must be f8E8M0FNU with weights of f8E4M3FN}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f8E4M3FN", group_size = 32 : i64, layout = "1x16"}
      : (tensor<16x32xf8E4M3FN>, tensor<16x1xbf16>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @fp8_weights_layout(%w: tensor<16x32xf8E4M3FN>, %scales: tensor<16x1xf8E8M0FNU>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{attribute 'layout' is "16x64"; it must be 1x16, evens_first, or plain, with this format}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f8E4M3FN", group_size = 32 : i64, layout = "16x64"}
      : (tensor<16x32xf8E4M3FN>, tensor<16x1xf8E8M0FNU>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @fp8_weights_shape(%w: tensor<16x16xf8E4M3FN>, %scales: tensor<16x1xf8E8M0FNU>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{operand 'w' has dimension 1 of size 16; it must be 32}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f8E4M3FN", group_size = 32 : i64, layout = "1x16"}
      : (tensor<16x16xf8E4M3FN>, tensor<16x1xf8E8M0FNU>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

// mixed_mm
func.func @w_element(%w: tensor<2x16x16xi8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'w' has element type i8; it must be ui8 or f8E4M3FN}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xi8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @scales_element(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xf8E4M3FN>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has element type f8E4M3FN; it must be bf16, f16, f32 or f8E8M0FNU}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xf8E4M3FN>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @x_element(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'x' has element type f32; it must be bf16 or f16}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mixed_out_element(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has element type f8E4M3FN; it must be bf16, f16 or f32}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xf8E4M3FN>
  return
}

// -----

func.func @group_size_is_i32(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'group_size' has type i32; it must be i64}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i32, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @group_size_is_string(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{expected base attribute 'builtin.integer' but got 'builtin.string'}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = "32", layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @group_size_is_16(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'group_size' is 16; it must be 32, 64, 128, or -1 for the whole row}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 16 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @e8m0_of_64(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xf8E8M0FNU>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'group_size' is 64; it must be 32 with scales of f8E8M0FNU}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 64 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xf8E8M0FNU>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @format_is_unknown(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'format' is "u4"; it must be i4, uint4b8, ui4, f4E2M1FN or f8E4M3FN}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "u4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @layout_is_unknown(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'layout' is "64x16"; it must be plain, 16x64, 16x64_e2m1, 1x16 or evens_first}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "64x16"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @rows_of_8(%w: tensor<2x24x16xui8>, %scales: tensor<2x24x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 1 of size 24; it must be a multiple of 16}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x24x16xui8>, tensor<2x24x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x24xbf16>
  return
}

// -----

func.func @depth_of_48(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x48xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'x' has dimension 1 of size 48; it must be a multiple of 32}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x48xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @row_depth_of_48(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x48xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'x' has dimension 1 of size 48; it must be a multiple of 32}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = -1 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x48xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @number_of_groups(%w: tensor<2x16x32xui8>, %scales: tensor<2x16x3xbf16>, %x: tensor<64x64xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 2 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x32xui8>, tensor<2x16x3xbf16>, tensor<64x64xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @one_scale_of_a_row(%w: tensor<2x16x32xui8>, %scales: tensor<2x16x2xbf16>, %x: tensor<64x64xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 2 of size 2; it must be 1}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = -1 : i64, layout = "plain"}
      : (tensor<2x16x32xui8>, tensor<2x16x2xbf16>, tensor<64x64xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @unknown_scale_of_a_row(%w: tensor<2x16x?xui8>, %scales: tensor<2x16x?xbf16>, %x: tensor<64x?xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 2 of size ?; it must be 1}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = -1 : i64, layout = "plain"}
      : (tensor<2x16x?xui8>, tensor<2x16x?xbf16>, tensor<64x?xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @unknown_number_of_groups(%w: tensor<2x16x32xui8>, %scales: tensor<2x16x?xbf16>, %x: tensor<64x64xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 2 of size ?; it must be 2}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x32xui8>, tensor<2x16x?xbf16>, tensor<64x64xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @number_of_groups_of_unknown_depth(%w: tensor<2x16x?xui8>, %scales: tensor<2x16x2xbf16>, %x: tensor<64x?xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has dimension 2 of size 2; it must be ?}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x?xui8>, tensor<2x16x2xbf16>, tensor<64x?xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @scales_rank(%w: tensor<2x16x16xui8>, %scales: tensor<16xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has rank 1; it must be 2 to 3}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<16xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @w_rank(%w: tensor<16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'w' has rank 2; it must be 3}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @w_depth(%w: tensor<2x16x32xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'w' has dimension 2 of size 32; it must be 16}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x32xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @packed_rank(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'w' has rank 3; it must be 4}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @packed_tile(%w: tensor<2x1x1x256xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'w' has dimension 3 of size 256; it must be 512}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<2x1x1x256xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @no_offsets(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{operand 'offs' is missing; it gives the groups}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @offsets_of_no_experts(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'offs' must not be there: there are no experts}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @number_of_offsets(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<3xi32>) {
  // expected-error@below {{operand 'offs' has dimension 0 of size 3; it must be 2}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<3xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mixed_out_rows(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has dimension 1 of size 32; it must be 16}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x32xbf16>
  return
}

// -----

// pack_weights
func.func @pack_element(%w: tensor<32x16xi8>) {
  // expected-error@below {{operand 'w' has element type i8; it must be ui8}}
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "16x64"} : (tensor<32x16xi8>) -> tensor<2x1x512xui8>
  return
}

// -----

func.func @pack_layout(%w: tensor<32x16xui8>) {
  // expected-error@below {{attribute 'layout' is "plain"; it must be 16x64 or 16x64_e2m1}}
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "plain"} : (tensor<32x16xui8>) -> tensor<2x1x512xui8>
  return
}

// -----

func.func @pack_rank(%w: tensor<32xui8>) {
  // expected-error@below {{operand 'w' has rank 1; it must be 2 to 3}}
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "16x64"} : (tensor<32xui8>) -> tensor<2x1x512xui8>
  return
}

// -----

func.func @pack_rows(%w: tensor<24x16xui8>) {
  // expected-error@below {{operand 'w' has dimension 0 of size 24; it must be a multiple of 16}}
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "16x64"} : (tensor<24x16xui8>) -> tensor<2x1x512xui8>
  return
}

// -----

func.func @pack_bytes(%w: tensor<32x24xui8>) {
  // expected-error@below {{operand 'w' has dimension 1 of size 24; it must be a multiple of 16}}
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "16x64"} : (tensor<32x24xui8>) -> tensor<2x1x512xui8>
  return
}

// -----

func.func @pack_result(%w: tensor<32x16xui8>) {
  // expected-error@below {{result 'packed' has dimension 1 of size 2; it must be 1}}
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "16x64"} : (tensor<32x16xui8>) -> tensor<2x2x512xui8>
  return
}

// -----

// mixed_mm_zeros
func.func @zeros_of_i4(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %zeros: tensor<16x1xui8>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{attribute 'format' must be "ui4" with zero points}}
  %out = "scaled_grouped_mm.mixed_mm_zeros"(%w, %scales, %zeros, %x) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<16x1xui8>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @zeros_shape(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %zeros: tensor<16x2xui8>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{operand 'zeros' has dimension 1 of size 2; it must be 1}}
  %out = "scaled_grouped_mm.mixed_mm_zeros"(%w, %scales, %zeros, %x) {format = "ui4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<16x2xui8>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

// mixed_mm_bias
func.func @mixed_bias_element(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %x: tensor<64x32xbf16>, %bias: tensor<16xf32>) {
  // expected-error@below {{operand 'bias' must have the element type of 'out'}}
  %out = "scaled_grouped_mm.mixed_mm_bias"(%w, %scales, %x, %bias) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<64x32xbf16>, tensor<16xf32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mixed_bias_rows(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %x: tensor<64x32xbf16>, %bias: tensor<32xbf16>) {
  // expected-error@below {{operand 'bias' has dimension 0 of size 32; it must be 16}}
  %out = "scaled_grouped_mm.mixed_mm_bias"(%w, %scales, %x, %bias) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<64x32xbf16>, tensor<32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mixed_bias_experts(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>,
                              %bias: tensor<16xbf16>) {
  // expected-error@below {{operand 'bias' has rank 1; it must be 2}}
  %out = "scaled_grouped_mm.mixed_mm_bias"(%w, %scales, %x, %offs, %bias) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xbf16>, tensor<2xi32>, tensor<16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

// mixed_mm_zeros_bias
func.func @mixed_zeros_bias_element(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %zeros: tensor<16x1xui8>, %x: tensor<64x32xbf16>,
                                    %bias: tensor<16xi32>) {
  // expected-error@below {{operand 'bias' has element type i32; it must be}}
  %out = "scaled_grouped_mm.mixed_mm_zeros_bias"(%w, %scales, %zeros, %x, %bias) {format = "ui4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<16x1xui8>, tensor<64x32xbf16>, tensor<16xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// mm
func.func @mm_element(%a: tensor<64x32xf8E4M3FN>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'a' has element type f8E4M3FN; it must be bf16 or f16}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mm_elements(%a: tensor<64x32xf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operands 'a' and 'b' must both be bf16 or both f16}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<64x32xf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mm_offs(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>) {
  // expected-error@below {{operand 'offs'}}
  %out = "scaled_grouped_mm.mm"(%a, %b) : (tensor<64x32xbf16>, tensor<2x32x16xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mm_bias_element(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>, %bias: tensor<2x16xf32>) {
  // expected-error@below {{operand 'bias' must have the element type of 'out'}}
  %out = "scaled_grouped_mm.mm_bias"(%a, %b, %offs, %bias) : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>, tensor<2x16xf32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mm_bias_size(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>, %bias: tensor<2x24xbf16>) {
  // expected-error@below {{operand 'bias' has dimension 1 of size 24; it must be 16}}
  %out = "scaled_grouped_mm.mm_bias"(%a, %b, %offs, %bias) : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>, tensor<2x24xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mm_bias_gradient(%a: tensor<64x272xbf16>, %b: tensor<272x144xbf16>, %offs: tensor<2xi32>, %bias: tensor<2x144xbf16>) {
  // expected-error@below {{a gradient of weights has none}}
  %out = "scaled_grouped_mm.mm_bias"(%a, %b, %offs, %bias) : (tensor<64x272xbf16>, tensor<272x144xbf16>, tensor<2xi32>, tensor<2x144xbf16>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @mm_align(%a: tensor<64x272xbf16>, %b: tensor<272x144xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'a' has dimension 1 of size 272; with 'align' it must be a multiple of 128}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) {align = 128 : i64} : (tensor<64x272xbf16>, tensor<272x144xbf16>, tensor<2xi32>) -> tensor<2x64x144xbf16>
  return
}

// -----

func.func @mixed_order(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>, %w: tensor<16x32xf8E4M3FN>, %scales: tensor<16x1xf8E8M0FNU>) {
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> tensor<64x32xbf16>
  // expected-error@below {{operand 'x' must have its columns in the order "evens_first" with this layout, which dequantize and dequantize_f16 with that 'order' give them}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f8E4M3FN", group_size = 32 : i64, layout = "evens_first"}
      : (tensor<16x32xf8E4M3FN>, tensor<16x1xf8E8M0FNU>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mixed_evens_first_four_bits(%w: tensor<16x16xui8>, %scales: tensor<16x1xf8E8M0FNU>, %x: tensor<64x32xbf16>) {
  // expected-error@below {{attribute 'layout' is "evens_first"; it must be 16x64_e2m1, or plain, with this format}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f4E2M1FN", group_size = 32 : i64, layout = "evens_first"}
      : (tensor<16x16xui8>, tensor<16x1xf8E8M0FNU>, tensor<64x32xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

// dequantize_mm, dequantize_mm_bias: forward alone, with groups; what the kernel writes besides out are results.
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_qa_element(%qa: tensor<48x64xbf16>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                           %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has element type bf16; it must be f8E4M3FN or f8E5M2}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xbf16>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_sa_element(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf32>,
                           %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has element type f32; it must be f8E8M0FNU}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf32>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_a_element(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                          %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'a' has element type f16; it must be bf16}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_b_element(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                          %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'b' has element type f32; it must be bf16}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xf32, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_state_a_element(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'state_a' has element type i64; it must be i32}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi64>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_out_element(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                            %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has element type f8E4M3FN; it must be bf16, f16 or f32}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xf8E4M3FN>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_a_shape(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                        %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'a' has dimension 1 of size 32; it must be 64}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x32xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_b_shape(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                        %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'b' has dimension 1 of size 32; it must be 64}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x32x64xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_state_a_shape(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                              %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'state_a' has dimension 0 of size 2; it must be 1}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<2xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_state_a_rank(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                             %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'state_a' has rank 2; it must be 1}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1x1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_state_b_shape(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                              %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'state_b' has dimension 1 of size 2; it must be 1}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x2xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_state_b_experts(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'state_b' has dimension 0 of size 1; it must be 2}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<1x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_state_a_dynamic(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'state_a' has dimension 0 of size ?; it must be 1}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<?xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_blocks(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x64xf8E8M0FNU>,
                       %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'sa' has dimension 1 of size 64; it must be 2}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x64xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_k(%qa: tensor<48x48xf8E4M3FN>, %qb: tensor<2x48x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                  %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{the dimension of size 48 that 'sa' has a scale for each 32 of must be a multiple of 32}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x48xf8E4M3FN>, tensor<2x48x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x48xbf16>, tensor<2x48x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_offs(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                     %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<3xi32>) {
  // expected-error@below {{operand 'offs' has dimension 0 of size 3; it must be 2}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<3xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_without_offs(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                             %sb: tensor<2x2x32xf8E8M0FNU, #col_major>) {
  // expected-error@below {{op expects exactly 5 operands, but got 4}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_without_state(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                              %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{op expects exactly 5 results, but got 4}}
  %out:4 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_batched(%qa: tensor<2x48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<2x48x2xf8E8M0FNU>,
                        %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has rank 3; it must be 2}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<2x48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<2x48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<2x48x32xbf16>, tensor<2x48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

func.func @made_gradient(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x32xf8E5M2>, %sa: tensor<48x2xf8E8M0FNU>,
                         %sb: tensor<2x32xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has rank 2; it must be 3}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<64x32xf8E5M2>, tensor<48x2xf8E8M0FNU>, tensor<2x32xf8E8M0FNU>, tensor<2xi32>)
      -> (tensor<2x48x32xbf16>, tensor<48x64xbf16>, tensor<64x32xbf16>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_accumulate(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                           %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{unknown attribute 'accumulate'; the op has schedule}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_bias_element(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>, %sb: tensor<2x2x32xf8E8M0FNU, #col_major>,
                             %offs: tensor<2xi32>, %bias: tensor<2x32xf32>) {
  // expected-error@below {{operand 'bias' must have the element type of 'out'}}
  %out:5 = "scaled_grouped_mm.dequantize_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>, tensor<2x32xf32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_bias_shape(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>, %sb: tensor<2x2x32xf8E8M0FNU, #col_major>,
                           %offs: tensor<2xi32>, %bias: tensor<2x48xbf16>) {
  // expected-error@below {{operand 'bias' has dimension 1 of size 48; it must be 32}}
  %out:5 = "scaled_grouped_mm.dequantize_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>, tensor<2x48xbf16>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_without_bias(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                             %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{op expects exactly 6 operands, but got 5}}
  %out:5 = "scaled_grouped_mm.dequantize_mm_bias"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

// mixed_mm_scaled
func.func @scaled_tokens(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %x: tensor<64x32xf16>, %of_tokens: tensor<32xf32>) {
  // expected-error@below {{operand 'scales_x' has dimension 0 of size 32; it must be 64}}
  %out = "scaled_grouped_mm.mixed_mm_scaled"(%w, %scales, %x, %of_tokens) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<64x32xf16>, tensor<32xf32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @scaled_element(%w: tensor<16x16xui8>, %scales: tensor<16x1xbf16>, %x: tensor<64x32xf16>, %of_tokens: tensor<64xbf16>) {
  // expected-error@below {{operand 'scales_x' has element type bf16; it must be f32}}
  %out = "scaled_grouped_mm.mixed_mm_scaled"(%w, %scales, %x, %of_tokens) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<16x16xui8>, tensor<16x1xbf16>, tensor<64x32xf16>, tensor<64xbf16>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @scaled_groups(%w: tensor<2x16x16xui8>, %scales: tensor<2x16x1xbf16>, %x: tensor<64x32xf16>, %of_tokens: tensor<64xf32>) {
  // expected-error@below {{operand 'offs'}}
  %out = "scaled_grouped_mm.mixed_mm_scaled"(%w, %scales, %x, %of_tokens) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<2x16x16xui8>, tensor<2x16x1xbf16>, tensor<64x32xf16>, tensor<64xf32>) -> tensor<64x16xbf16>
  return
}
