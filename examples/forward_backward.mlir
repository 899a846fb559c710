// A linear layer of a mixture of experts in training: the output, the gradient of the tokens, the gradient of the weights, by FP8
// products.
//
// Tokens, weights and gradients are quantized for two products each, along two dimensions, and read once for both. The transposes move
// nothing: the encoding of a tensor is its order in memory, and their results lie as their operands do.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ekn = affine_map<(e, k, n) -> (e, n, k)>
#nm = affine_map<(n, m) -> (m, n)>

func.func @forward_backward(%x: tensor<?x?xbf16>, %w: tensor<?x?x?xbf16>, %dy: tensor<?x?xbf16>, %offs: tensor<?xi32>)
    -> (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?x?xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xbf16>
  %e = tensor.dim %w, %c0 : tensor<?x?x?xbf16>
  %n = tensor.dim %w, %c1 : tensor<?x?x?xbf16>
  %k = tensor.dim %w, %c2 : tensor<?x?x?xbf16>

  // y (M, N) = x (M, K) times w, seen as (E, K, N)
  %w_space = tensor.empty(%e, %k, %n) : tensor<?x?x?xbf16, #ekn>
  %w_t = linalg.transpose ins(%w : tensor<?x?x?xbf16>) outs(%w_space : tensor<?x?x?xbf16, #ekn>) permutation = [0, 2, 1]
  %y = "scaled_grouped_mm.grouped_mm"(%x, %w_t, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x?xbf16>, tensor<?x?x?xbf16, #ekn>, tensor<?xi32>) -> tensor<?x?xbf16>

  // dx (M, K) = dy (M, N) times w (E, N, K)
  %dx = "scaled_grouped_mm.grouped_mm"(%dy, %w, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x?xbf16>, tensor<?x?x?xbf16>, tensor<?xi32>) -> tensor<?x?xbf16>

  // dw (E, N, K) = dy, seen as (N, M), times x (M, K), over the tokens of each expert
  %dy_space = tensor.empty(%n, %m) : tensor<?x?xbf16, #nm>
  %dy_t = linalg.transpose ins(%dy : tensor<?x?xbf16>) outs(%dy_space : tensor<?x?xbf16, #nm>) permutation = [1, 0]
  %dw = "scaled_grouped_mm.grouped_mm"(%dy_t, %x, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x?xbf16, #nm>, tensor<?x?xbf16>, tensor<?xi32>) -> tensor<?x?x?xbf16>
  return %y, %dx, %dw : tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?x?xbf16>
}
