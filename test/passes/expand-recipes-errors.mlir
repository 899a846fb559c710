// What moe-expand-recipes refuses: what has no kernels, and what would need a copy that nobody wrote.

// RUN: moe-opt %s --split-input-file --moe-expand-recipes --verify-diagnostics

#km = affine_map<(m, k) -> (k, m)>
func.func @mxfp8_order(%a: tensor<64x32xbf16, #km>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  // expected-error@below {{operand 'a' lies in memory in an order that no quantizer of this product reads, and would have to be copied; it must have no encoding}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16, #km>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}

// -----

func.func @schedule(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  // expected-error@below {{'schedule' is that of one kernel, and this becomes several; write mx_quantize.quantize_fp8 and scaled_grouped_mm.scaled_mm to choose}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise", schedule = {stages = 4}}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}

// -----

// With few tokens these are quantized, else rounded.
func.func @mxfp8_few_schedule(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  // expected-error@below {{'schedule' is that of one kernel, and this becomes several; write mx_quantize.quantize and scaled_grouped_mm.scaled_mm to choose}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", schedule = {stages = 4}}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}

// -----

func.func @mxfp8_schedule(%a: tensor<?x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) -> tensor<?x16xbf16> {
  // expected-error@below {{'schedule' is that of one kernel, and this becomes several; write mx_quantize.round and scaled_grouped_mm.mm to choose}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", schedule = {stages = 4}}
      : (tensor<?x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<?x16xbf16>
  return %out : tensor<?x16xbf16>
}

// -----

func.func @forward_a(%a: tensor<64x32xbf16, affine_map<(m, k) -> (k, m)>>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  // expected-error@below {{operand 'a' lies in memory in an order that no quantizer of this product reads, and would have to be copied; it must have no encoding}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<64x32xbf16, affine_map<(m, k) -> (k, m)>>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}

// -----

func.func @forward_b(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16, affine_map<(e, k, n) -> (k, e, n)>>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  // expected-error@below {{operand 'b' lies in memory in an order that no quantizer of this product reads, and would have to be copied; it must have no encoding or the encoding affine_map<(d0, d1, d2) -> (d0, d2, d1)>}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_tensorwise"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16, affine_map<(e, k, n) -> (k, e, n)>>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}

// -----

func.func @gradient_a(%a: tensor<32x64xbf16>, %b: tensor<64x16xbf16>, %offs: tensor<2xi32>) -> tensor<2x32x16xbf16> {
  // expected-error@below {{operand 'a' lies in memory in an order that no quantizer of this product reads, and would have to be copied; it must have the encoding affine_map<(d0, d1) -> (d1, d0)>}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<32x64xbf16>, tensor<64x16xbf16>, tensor<2xi32>) -> tensor<2x32x16xbf16>
  return %out : tensor<2x32x16xbf16>
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @gradient_b(%a: tensor<32x64xbf16, #columns>, %b: tensor<64x16xbf16, #columns>, %offs: tensor<2xi32>) -> tensor<2x32x16xbf16> {
  // expected-error@below {{operand 'b' lies in memory in an order that no quantizer of this product reads, and would have to be copied; it must have no encoding}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<32x64xbf16, #columns>, tensor<64x16xbf16, #columns>, tensor<2xi32>) -> tensor<2x32x16xbf16>
  return %out : tensor<2x32x16xbf16>
}

// -----

// What moe-verify refuses never gets here.
func.func @not_verified(%a: tensor<64x32xbf16>, %b: tensor<2x16x32xbf16>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  // expected-error@below {{operand 'b' has dimension 1 of size 16; it must be 32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<64x32xbf16>, tensor<2x16x32xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}

// -----

func.func @blockwise_fast(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  // expected-error@below {{recipe "fp8_blockwise" has scales that change along the sum; accumulate must be "promoted"}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_blockwise", accumulate = "fast"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @schedule_of_mx(%qa: tensor<?x64xf8E4M3FN>, %qb: tensor<8x64x48xf8E4M3FN, #col_major>, %sa: tensor<?x2xf8E8M0FNU>,
                          %sb: tensor<8x2x48xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) {
  // expected-error@below {{'schedule' is that of the kernel with promoted sums, and this becomes another one, or several; write accumulate = "promoted", or scaled_grouped_mm.dequantize_mm, or mx_quantize.dequantize and scaled_grouped_mm.mm to choose}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {tile_n = 128}}
      : (tensor<?x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #col_major>, tensor<?x2xf8E8M0FNU>, tensor<8x2x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<?x48xf32>
  return
}

// -----

func.func @columns(%a: tensor<64x32xbf16>, %b: tensor<2x32x24xbf16>, %offs: tensor<2xi32>) -> tensor<64x24xbf16> {
  // expected-error@below {{operand 'b' has dimension 2 of size 24; with recipe 'fp8_tensorwise' it must be a multiple of 16}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_tensorwise"} : (tensor<64x32xbf16>, tensor<2x32x24xbf16>, tensor<2xi32>) -> tensor<64x24xbf16>
  return %out : tensor<64x24xbf16>
}

// -----

func.func @summed(%a: tensor<64x48xbf16>, %b: tensor<2x48x32xbf16>, %offs: tensor<2xi32>) -> tensor<64x32xbf16> {
  // expected-error@below {{operand 'a' has dimension 1 of size 48; with recipe 'mxfp8' it must be a multiple of 32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"} : (tensor<64x48xbf16>, tensor<2x48x32xbf16>, tensor<2xi32>) -> tensor<64x32xbf16>
  return %out : tensor<64x32xbf16>
}

// -----

#mn = affine_map<(n, m) -> (m, n)>
func.func @rows(%a: tensor<24x64xbf16, #mn>, %b: tensor<64x32xbf16>, %offs: tensor<2xi32>) -> tensor<2x24x32xbf16> {
  // expected-error@below {{operand 'a' has dimension 0 of size 24; with recipe 'fp8_rowwise' it must be a multiple of 16}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"} : (tensor<24x64xbf16, #mn>, tensor<64x32xbf16>, tensor<2xi32>) -> tensor<2x24x32xbf16>
  return %out : tensor<2x24x32xbf16>
}

// -----

func.func @rounded_columns(%a: tensor<?x32xbf16>, %b: tensor<2x32x20xbf16>, %offs: tensor<2xi32>) -> tensor<?x20xbf16> {
  // expected-error@below {{operand 'b' has dimension 2 of size 20; with recipe 'mxfp8' it must be a multiple of 8}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"} : (tensor<?x32xbf16>, tensor<2x32x20xbf16>, tensor<2xi32>) -> tensor<?x20xbf16>
  return %out : tensor<?x20xbf16>
}

// -----

#ekm = affine_map<(e, m, k) -> (e, k, m)>
func.func @turned_rows(%a: tensor<2x24x32xbf16, #ekm>, %b: tensor<2x32x16xbf16>) -> tensor<2x24x16xbf16> {
  // expected-error@below {{operand 'a' has dimension 1 of size 24; with recipe 'fp8_rowwise' it must be a multiple of 16}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_rowwise"} : (tensor<2x24x32xbf16, #ekm>, tensor<2x32x16xbf16>) -> tensor<2x24x16xbf16>
  return %out : tensor<2x24x16xbf16>
}
