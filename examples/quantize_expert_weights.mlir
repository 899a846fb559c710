// Expert weights (E, N, K) in bf16, quantized to MXFP8 in blocks of 32 along N and written column-major per expert, in one
// launch. The number of experts and the sizes are known when it runs: N must be a multiple of 32, K of 16.
//
//   moe-opt examples/quantize_expert_weights.mlir --emit=bundle -o quantize_expert_weights/
#col_major = affine_map<(e, n, k) -> (e, k, n)>

func.func @quantize_expert_weights(%w: tensor<?x?x?xbf16>)
    -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return %q, %s : tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>
}
