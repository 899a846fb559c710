func.func @quantize(%w: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>) {
  %q, %scales = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {chunks = 1, warps = 4, ctas_per_sm = 2, persistent = 1}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return %q, %scales : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>
}
