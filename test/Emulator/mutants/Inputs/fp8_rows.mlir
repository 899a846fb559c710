func.func @quantize(%w: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>) {
  %q, %scales = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false,
      schedule = {buffer_kb = 8, stages = 5, warps = 4, ctas_per_sm = 2}} : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>)
  return %q, %scales : tensor<?x?xf8E4M3FN>, tensor<?xf32>
}
