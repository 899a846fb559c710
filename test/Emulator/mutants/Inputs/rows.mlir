func.func @cast(%w: tensor<?x?xbf16>, %f: tensor<1xf32>) -> tensor<?x?xf8E4M3FN> {
  %q = "mx_quantize.cast_fp8"(%w, %f) {axis = 1 : i64, granularity = "tensor", sanitize = false,
      schedule = {tile_n = 128, tile_k = 128, stages = 3, output_stages = 1, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  return %q : tensor<?x?xf8E4M3FN>
}
