// Few tokens for each of 32 experts, whose groups come the largest first.
func.func @product(%qa: tensor<704x144xf8E4M3FN>, %qb: tensor<32x144x144xf8E4M3FN, affine_map<(e, k, n) -> (e, n, k)>>, %sa: tensor<704xf32>, %sb: tensor<32x144xf32>, %offs: tensor<32xi32>) -> tensor<704x144xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 32, pieces = 2, stages = 3, pingpong = 0}}
      : (tensor<704x144xf8E4M3FN>, tensor<32x144x144xf8E4M3FN, affine_map<(e, k, n) -> (e, n, k)>>, tensor<704xf32>, tensor<32x144xf32>, tensor<32xi32>) -> tensor<704x144xbf16>
  return %out : tensor<704x144xbf16>
}
