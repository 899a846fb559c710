// The products of a layer in training by mxfp8, of sizes that say that experts have few tokens: they are quantized, and not rounded.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ekn = affine_map<(e, k, n) -> (e, n, k)>
#nm = affine_map<(n, m) -> (m, n)>

func.func @few_tokens(%x: tensor<83x64xbf16>, %w: tensor<4x96x64xbf16>, %dy: tensor<83x96xbf16>, %offs: tensor<4xi32>)
    -> (tensor<83x96xbf16>, tensor<83x64xbf16>, tensor<4x96x64xbf16>) {
  %w_space = tensor.empty() : tensor<4x64x96xbf16, #ekn>
  %w_t = linalg.transpose ins(%w : tensor<4x96x64xbf16>) outs(%w_space : tensor<4x64x96xbf16, #ekn>) permutation = [0, 2, 1]
  %y = "scaled_grouped_mm.grouped_mm"(%x, %w_t, %offs) {recipe = "mxfp8"}
      : (tensor<83x64xbf16>, tensor<4x64x96xbf16, #ekn>, tensor<4xi32>) -> tensor<83x96xbf16>
  %dx = "scaled_grouped_mm.grouped_mm"(%dy, %w, %offs) {recipe = "mxfp8"}
      : (tensor<83x96xbf16>, tensor<4x96x64xbf16>, tensor<4xi32>) -> tensor<83x64xbf16>
  %dy_space = tensor.empty() : tensor<96x83xbf16, #nm>
  %dy_t = linalg.transpose ins(%dy : tensor<83x96xbf16>) outs(%dy_space : tensor<96x83xbf16, #nm>) permutation = [1, 0]
  %dw = "scaled_grouped_mm.grouped_mm"(%dy_t, %x, %offs) {recipe = "mxfp8"}
      : (tensor<96x83xbf16, #nm>, tensor<83x64xbf16>, tensor<4xi32>) -> tensor<4x96x64xbf16>
  return %y, %dx, %dw : tensor<83x96xbf16>, tensor<83x64xbf16>, tensor<4x96x64xbf16>
}
