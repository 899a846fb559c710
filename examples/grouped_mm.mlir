// Tokens times expert weights, bf16 in and out, quantized to FP8 on the way: each token and each column of an expert by a scale of its
// own.
//
// The weights lie as models keep them, (E, N, K) in memory; the product sees them as (E, K, N). Nothing is transposed.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#col_major = affine_map<(e, k, n) -> (e, n, k)>

func.func @grouped_mm(%tokens: tensor<?x?xbf16>, %weights: tensor<?x?x?xbf16, #col_major>, %offs: tensor<?xi32>)
    -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%tokens, %weights, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x?xbf16>, tensor<?x?x?xbf16, #col_major>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}
