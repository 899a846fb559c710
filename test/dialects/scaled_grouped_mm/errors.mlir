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
  // expected-error@below {{attribute 'recipe' is "fp8"; it must be fp8_rowwise, fp8_tensorwise or mxfp8}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @unknown_attribute(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{unknown attribute 'recipes'; the op has recipe or schedule}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", recipes = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
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

// mixed_mm
func.func @w_element(%w: tensor<2x32x16xi8>, %scales: tensor<2x1x16xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'w' has element type i8; it must be i4}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {group_size = 32 : i64}
      : (tensor<2x32x16xi8>, tensor<2x1x16xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @w_element_unsigned(%w: tensor<2x32x16xui4>, %scales: tensor<2x1x16xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'w' has element type ui4; it must be i4}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {group_size = 32 : i64}
      : (tensor<2x32x16xui4>, tensor<2x1x16xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @scales_element(%w: tensor<2x32x16xi4>, %scales: tensor<2x1x16xf32>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'scales' has element type f32; it must be bf16 or f16}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {group_size = 32 : i64}
      : (tensor<2x32x16xi4>, tensor<2x1x16xf32>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @x_element(%w: tensor<2x32x16xi4>, %scales: tensor<2x1x16xbf16>, %x: tensor<64x32xf8E4M3FN>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'x' has element type f8E4M3FN; it must be bf16 or f16}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {group_size = 32 : i64}
      : (tensor<2x32x16xi4>, tensor<2x1x16xbf16>, tensor<64x32xf8E4M3FN>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @mixed_out_element(%w: tensor<2x32x16xi4>, %scales: tensor<2x1x16xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{result 'out' has element type f32; it must be bf16 or f16}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {group_size = 32 : i64}
      : (tensor<2x32x16xi4>, tensor<2x1x16xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xf32>
  return
}

// -----

func.func @group_size_is_i32(%w: tensor<2x32x16xi4>, %scales: tensor<2x1x16xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{attribute 'group_size' has type i32; it must be i64}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {group_size = 32 : i32}
      : (tensor<2x32x16xi4>, tensor<2x1x16xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @group_size_is_string(%w: tensor<2x32x16xi4>, %scales: tensor<2x1x16xbf16>, %x: tensor<64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{expected base attribute 'builtin.integer' but got 'builtin.string'}}
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {group_size = "32"}
      : (tensor<2x32x16xi4>, tensor<2x1x16xbf16>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}
