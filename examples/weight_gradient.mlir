// The gradient of the experts' weights (E, N, K): for each expert, output gradients (N, M) times tokens (M, K) over the rows of M that
// were routed to it. Both operands are FP8 with one scale for each expert and row or column; the offsets stay on the device.
//
//   moe-opt examples/weight_gradient.mlir --emit=bundle -o weight_gradient/
#col_major = affine_map<(m, k) -> (k, m)>

func.func @weight_gradient(%gradients: tensor<?x?xf8E4M3FN>, %tokens: tensor<?x?xf8E4M3FN, #col_major>,
                           %gradient_scales: tensor<?x?xf32>, %token_scales: tensor<?x?xf32>, %offs: tensor<?xi32>)
    -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%gradients, %tokens, %gradient_scales, %token_scales, %offs)
      {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xi32>)
      -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}
