func.func @scale(%x: tensor<?x?x?xbf16>, %y: tensor<?x?x?xbf16>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %s, %f, %state, %st, %ft, %state_t = "mx_quantize.scale_fp8_dual"(%x) {pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 8, warps = 4, ctas_per_sm = 2, band = 1}} : (tensor<?x?x?xbf16>)
      -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
  %u, %g, %other, %ut, %gt, %other_t = "mx_quantize.scale_fp8_dual"(%y) {pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 8, warps = 4, ctas_per_sm = 2, band = 1}} : (tensor<?x?x?xbf16>)
      -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
  return %s, %st, %u, %ut : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}
