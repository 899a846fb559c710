#columns = affine_map<(m, k) -> (k, m)>
func.func @pair(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>, %offs: tensor<?xi32>)
    -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>) {
  %s, %f, %state, %sy, %fy, %state_y = "mx_quantize.scale_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 8, warps = 4, ctas_per_sm = 2, band = 1}} : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?xi32>)
      -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
  %q, %qy = "mx_quantize.cast_fp8_pair"(%x, %y, %f, %fy, %offs) {sanitize = false}
      : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E4M3FN, #columns>)
  return %q, %s, %qy, %sy : tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>
}
