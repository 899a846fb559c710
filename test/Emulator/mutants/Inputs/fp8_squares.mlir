#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @quantize(%x: tensor<?x?x?xbf16>)
    -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf32>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf32>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x) {granularity = "128x128", pow2 = false, sanitize = false} : (tensor<?x?x?xbf16>)
      -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf32>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf32>)
  return %q, %s, %qt, %st : tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf32>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf32>
}
