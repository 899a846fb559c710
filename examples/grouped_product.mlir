// Tokens (M, K) in FP8, routed to experts, times the experts' weights (E, K, N): rows [offs[e-1], offs[e]) go to expert e. Row scales of
// the tokens, column scales of the weights; no padding of groups, and the offsets stay on the device.
//
//   moe-opt examples/grouped_product.mlir --emit=bundle -o grouped_product/
#col_major = affine_map<(e, k, n) -> (e, n, k)>

func.func @grouped_product(%tokens: tensor<?x?xf8E4M3FN>, %weights: tensor<?x?x?xf8E4M3FN, #col_major>,
                           %token_scales: tensor<?xf32>, %weight_scales: tensor<?x?xf32>, %offs: tensor<?xi32>)
    -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%tokens, %weights, %token_scales, %weight_scales, %offs)
      {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>)
      -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}
