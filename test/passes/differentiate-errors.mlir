// What moe-differentiate refuses, each at its place.
//
// RUN: moe-opt %s --split-input-file --verify-diagnostics --moe-differentiate

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @no_rule(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16, #col_major>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  // expected-error@below {{'arith.negf' has no rule by which to differentiate it}}
  %c = arith.negf %a : tensor<?x64xbf16>
  %out = "scaled_grouped_mm.grouped_mm"(%c, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #col_major>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @quantized(%qa: tensor<?x64xf8E4M3FN>, %qb: tensor<4x64x32xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<4x32xf32>,
                     %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  // expected-error@below {{'scaled_grouped_mm.scaled_mm' has no rule by which to differentiate it}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<4x64x32xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<4x32xf32>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @sum(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16, #col_major>, %c: tensor<4x32x16xbf16, #col_major>, %offs: tensor<4xi32>)
    -> (tensor<?x32xbf16>, tensor<?x16xbf16>) {
  // expected-error@below {{the gradient of this result is a sum of 2, and no kernel adds}}
  %h = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #col_major>, tensor<4xi32>) -> tensor<?x32xbf16>
  %out = "scaled_grouped_mm.grouped_mm"(%h, %c, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x32xbf16>, tensor<4x32x16xbf16, #col_major>, tensor<4xi32>) -> tensor<?x16xbf16>
  return %h, %out : tensor<?x32xbf16>, tensor<?x16xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @element(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16, #col_major>, %offs: tensor<4xi32>) -> tensor<?x32xf32> {
  // expected-error@below {{the gradient of 'out' has the element type of 'out', and products take bf16 only}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #col_major>, tensor<4xi32>) -> tensor<?x32xf32>
  return %out : tensor<?x32xf32>
}

// -----

func.func @more_tokens(%x: tensor<20x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>) -> tensor<128x32xbf16> {
  // expected-error@below {{result 0 has room for more tokens than the operand, and its gradient too}}
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<20x64xbf16>, tensor<4xi32>) -> (tensor<128x64xf8E4M3FN, affine_map<(m, k) -> (k, m)>>, tensor<4x64xf32>)
  %y = "mx_quantize.dequantize_fp8"(%q, %s, %offs) {axis = 0 : i64, granularity = "row"}
      : (tensor<128x64xf8E4M3FN, affine_map<(m, k) -> (k, m)>>, tensor<4x64xf32>, tensor<4xi32>) -> tensor<128x64xbf16>
  %out = "scaled_grouped_mm.grouped_mm"(%y, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<128x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<128x32xbf16>
  return %out : tensor<128x32xbf16>
}

// -----

func.func @converted(%x: tensor<?x64xf32>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  // expected-error@below {{the gradient of operand 'x' has another element type than 'x', and no kernel converts it}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x64xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  %y = "mx_quantize.dequantize_fp8"(%q, %s) {axis = 1 : i64, granularity = "row"} : (tensor<?x64xf8E4M3FN>, tensor<?xf32>) -> tensor<?x64xbf16>
  %out = "scaled_grouped_mm.grouped_mm"(%y, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// expected-error@below {{no result of bf16, f16 or f32 depends on an argument whose gradient is wanted}}
func.func @nothing(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
}

// -----

// expected-error@below {{argument 0: its gradient is that of a result, as it is; there is nothing to compute}}
func.func @as_it_is(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  %y = "mx_quantize.dequantize_fp8"(%q, %s) {axis = 1 : i64, granularity = "row"} : (tensor<?x64xf8E4M3FN>, tensor<?xf32>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// expected-error@below {{argument 0: its gradient does not lie in memory as the argument does, and would have to be copied}}
func.func @moved(%x: tensor<64x?xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>, %m: index) -> tensor<?x32xbf16> {
  %space = tensor.empty(%m) : tensor<?x64xbf16>
  %t = linalg.transpose ins(%x : tensor<64x?xbf16>) outs(%space : tensor<?x64xbf16>) permutation = [1, 0]
  %out = "scaled_grouped_mm.grouped_mm"(%t, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// expected-error@below {{argument 2: moe.differentiable is true, but only tensors of bf16, f16 and f32 have a gradient}}
func.func @integers(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32> {moe.differentiable = true}) -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// expected-error@below {{argument 0: moe.differentiable must be true or false}}
func.func @no_bool(%a: tensor<?x64xbf16> {moe.differentiable = "yes"}, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// expected-error@below {{argument 3: moe.differentiable is true, but no result depends on it}}
func.func @unused(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>, %c: tensor<?xf32> {moe.differentiable = true})
    -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// expected-error@below {{there is a 'f_backward' already; one is made of this function}}
func.func @f(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}
func.func private @f_backward()

// -----

// expected-error@below {{a function to differentiate must be one block}}
func.func @blocks(%a: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  cf.br ^end
^end:
  return %a : tensor<?x64xbf16>
}

// -----

func.func @dimensions(%a: tensor<1x1x1x1x1x1x1x32x32xbf16>) -> tensor<1x1x1x1x1x1x1x32x32xbf16> {
  %space = tensor.empty() : tensor<1x1x1x1x1x1x1x32x32xbf16>
  // expected-error@below {{a function with a transpose of more than 8 dimensions cannot be differentiated}}
  %t = linalg.transpose ins(%a : tensor<1x1x1x1x1x1x1x32x32xbf16>) outs(%space : tensor<1x1x1x1x1x1x1x32x32xbf16>)
      permutation = [0, 1, 2, 3, 4, 5, 6, 8, 7]
  return %t : tensor<1x1x1x1x1x1x1x32x32xbf16>
}

// -----

func.func private @g()
func.func @calls(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  // expected-error@below {{'func.call' makes nothing that a result needs, and would be lost; remove it}}
  func.call @g() : () -> ()
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// One that no gradient passes through is made again in the forward function, which takes as many.
func.func @other_dimensions(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>,
                            %c: tensor<1x1x1x1x1x1x1x32x32xi8>)
    -> (tensor<?x32xbf16>, tensor<1x1x1x1x1x1x1x32x32xi8>) {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  %space = tensor.empty() : tensor<1x1x1x1x1x1x1x32x32xi8>
  // expected-error@below {{a function with a transpose of more than 8 dimensions cannot be differentiated}}
  %t = linalg.transpose ins(%c : tensor<1x1x1x1x1x1x1x32x32xi8>) outs(%space : tensor<1x1x1x1x1x1x1x32x32xi8>)
      permutation = [0, 1, 2, 3, 4, 5, 6, 8, 7]
  return %out, %t : tensor<?x32xbf16>, tensor<1x1x1x1x1x1x1x32x32xi8>
}

// -----

func.func @rows_that_are_summed(%a: tensor<2x5x64xbf16>, %b: tensor<2x64x32xbf16>) -> tensor<2x5x32xbf16> {
  // expected-error@below {{the gradient of operand 'b' sums over dimension 1 of operand 'a', of size 5; it must be a multiple of 16}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_rowwise"} : (tensor<2x5x64xbf16>, tensor<2x64x32xbf16>) -> tensor<2x5x32xbf16>
  return %out : tensor<2x5x32xbf16>
}

// -----

#km = affine_map<(n, m) -> (m, n)>
func.func @columns_of_a_gradient(%a: tensor<64x128xbf16, #km>, %b: tensor<128x48xbf16>, %offs: tensor<2xi32>) -> tensor<2x64x48xbf16> {
  // expected-error@below {{the gradient of operand 'a' sums over dimension 1 of operand 'b', of size 48; it must be a multiple of 32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"} : (tensor<64x128xbf16, #km>, tensor<128x48xbf16>, tensor<2xi32>) -> tensor<2x64x48xbf16>
  return %out : tensor<2x64x48xbf16>
}

// -----

func.func @columns_that_are_summed(%a: tensor<?x64xbf16>, %b: tensor<2x64x48xbf16>, %offs: tensor<2xi32>) -> tensor<?x48xbf16> {
  // expected-error@below {{the gradient of operand 'a' sums over dimension 2 of operand 'b', of size 48; it must be a multiple of 32}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"} : (tensor<?x64xbf16>, tensor<2x64x48xbf16>, tensor<2xi32>) -> tensor<?x48xbf16>
  return %out : tensor<?x48xbf16>
}
