// The fusion relies on what moe-verify checks, also where it runs alone.

// RUN: moe-opt %s --split-input-file --moe-fuse-quantize --verify-diagnostics

func.func @axis(%w: tensor<64x32xbf16>) -> tensor<64x32xf8E4M3FN> {
  %te = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x32xbf16>) outs(%te : tensor<32x64xbf16>) permutation = [1, 0]
  // expected-error@below {{attribute 'axis' is 2; it must be 0 to 1}}
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x32xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  return %q : tensor<64x32xf8E4M3FN>
}
