func.func @f(%a: tensor<?x64xbf16>, %w: tensor<2x32x64xbf16>, %offs: tensor<2xi32>) -> tensor<?x32xbf16> {
  %0 = tensor.empty() : tensor<2x64x32xbf16, affine_map<(e, k, n) -> (e, n, k)>>
  %1 = linalg.transpose ins(%w : tensor<2x32x64xbf16>) outs(%0 : tensor<2x64x32xbf16, affine_map<(e, k, n) -> (e, n, k)>>) permutation = [0, 2, 1]
  %2 = "scaled_grouped_mm.grouped_mm"(%a, %1, %offs) {recipe = "fp8_rowwise", accumulate = "fast"} : (tensor<?x64xbf16>, tensor<2x64x32xbf16, affine_map<(e, k, n) -> (e, n, k)>>, tensor<2xi32>) -> tensor<?x32xbf16>
  return %2 : tensor<?x32xbf16>
}
