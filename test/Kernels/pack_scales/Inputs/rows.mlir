#side = affine_map<(m, k) -> (k, m)>

func.func @rows(%s: tensor<?x?xf32>) -> tensor<?x?xf32, #side> {
  %packed = "mx_quantize.pack_scales"(%s) {layout = "rows_innermost"} : (tensor<?x?xf32>) -> tensor<?x?xf32, #side>
  return %packed : tensor<?x?xf32, #side>
}
