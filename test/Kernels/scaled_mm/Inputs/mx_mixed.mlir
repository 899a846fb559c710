// 100 tokens for each of 3 experts, on average.
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product(%qa: tensor<300x512xf8E4M3FN>, %qb: tensor<3x512x144xf8E4M3FN, #col_major>, %sa: tensor<300x16xf8E8M0FNU>,
                   %sb: tensor<3x16x144xf8E8M0FNU, #col_major>, %offs: tensor<3xi32>) -> tensor<300x144xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<300x512xf8E4M3FN>, tensor<3x512x144xf8E4M3FN, #col_major>, tensor<300x16xf8E8M0FNU>, tensor<3x16x144xf8E8M0FNU, #col_major>,
         tensor<3xi32>) -> tensor<300x144xbf16>
  return %out : tensor<300x144xbf16>
}
