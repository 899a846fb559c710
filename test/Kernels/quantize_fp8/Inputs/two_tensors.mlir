#columns = affine_map<(m, k) -> (k, m)>
func.func @two_tensors(%x: tensor<304x272xbf16>, %y: tensor<304x48xbf16>, %offs: tensor<7xi32>)
    -> (tensor<384x272xf8E4M3FN, #columns>, tensor<7x272xf32>, tensor<384x48xf8E4M3FN, #columns>, tensor<7x48xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<304x272xbf16>, tensor<7xi32>) -> (tensor<384x272xf8E4M3FN, #columns>, tensor<7x272xf32>)
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<304x48xbf16>, tensor<7xi32>) -> (tensor<384x48xf8E4M3FN, #columns>, tensor<7x48xf32>)
  return %q, %s, %qy, %sy
      : tensor<384x272xf8E4M3FN, #columns>, tensor<7x272xf32>, tensor<384x48xf8E4M3FN, #columns>, tensor<7x48xf32>
}
