// What no manifest can describe.

// RUN: moe-opt %s --split-input-file --emit=manifest --verify-diagnostics

// expected-error@below {{the function launches no kernel}}
func.func @nothing() {
  return
}

// -----

// expected-error@below {{the name of the function must be 1 to 255 bytes of UTF-8, without quotes and control characters}}
func.func @"\FF"(%w: tensor<1x32x16xf32>)
    -> (tensor<1x32x16xf8E5M2, affine_map<(e, n, k) -> (e, k, n)>>, tensor<1x1x16xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "even"}
      : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, affine_map<(e, n, k) -> (e, k, n)>>, tensor<1x1x16xf8E8M0FNU>)
  return %q, %s : tensor<1x32x16xf8E5M2, affine_map<(e, n, k) -> (e, k, n)>>, tensor<1x1x16xf8E8M0FNU>
}

// -----

// expected-error@below {{the name of a tensor must be 1 to 255 bytes of UTF-8, without quotes and control characters}}
func.func @tensor_name(%w: tensor<1x32x16xf32> {moe.name = "it's"})
    -> (tensor<1x32x16xf8E5M2, affine_map<(e, n, k) -> (e, k, n)>>, tensor<1x1x16xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "even"}
      : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, affine_map<(e, n, k) -> (e, k, n)>>, tensor<1x1x16xf8E8M0FNU>)
  return %q, %s : tensor<1x32x16xf8E5M2, affine_map<(e, n, k) -> (e, k, n)>>, tensor<1x1x16xf8E8M0FNU>
}
