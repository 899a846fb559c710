#col_major = affine_map<(m, k) -> (k, m)>
func.func @quantize(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>)
    -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32, #col_major>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x, %offs) {granularity = "1x128", pow2 = false, sanitize = false, align = 128 : i64}
      : (tensor<?x?xbf16>, tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32, #col_major>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>)
  return %q, %s, %qt, %st
      : tensor<?x?xf8E4M3FN>, tensor<?x?xf32, #col_major>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>
}
