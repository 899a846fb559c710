func.func @f(%w: tensor<2x64x32xbf16>) -> (tensor<2x64x32xf8E4M3FN>, tensor<2x2x32xf8E8M0FNU>) {
  %0 = tensor.empty() : tensor<2x32x64xbf16>
  %1 = linalg.transpose ins(%w : tensor<2x64x32xbf16>) outs(%0 : tensor<2x32x64xbf16>) permutation = [0, 2, 1]
  %2, %3 = "mx_quantize.quantize"(%1) {axis = 2 : i64, block = 32 : i64, mode = "rceil"} : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN>, tensor<2x32x2xf8E8M0FNU>)
  %4 = tensor.empty() : tensor<2x64x32xf8E4M3FN>
  %5 = linalg.transpose ins(%2 : tensor<2x32x64xf8E4M3FN>) outs(%4 : tensor<2x64x32xf8E4M3FN>) permutation = [0, 2, 1]
  %6 = tensor.empty() : tensor<2x2x32xf8E8M0FNU>
  %7 = linalg.transpose ins(%3 : tensor<2x32x2xf8E8M0FNU>) outs(%6 : tensor<2x2x32xf8E8M0FNU>) permutation = [0, 2, 1]
  return %5, %7 : tensor<2x64x32xf8E4M3FN>, tensor<2x2x32xf8E8M0FNU>
}
