#col_major = affine_map<(e, n, k) -> (e, k, n)>

func.func @stream(%x: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>)
  return %q, %s : tensor<?x?xf8E4M3FN>, tensor<?x?xf32>
}

func.func @tiles(%x: tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf32>)
  return %q, %s : tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf32>
}
