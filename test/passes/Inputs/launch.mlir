func.func @f(%w: tensor<4x?x48xbf16>) -> (tensor<4x?x48xf8E4M3FN, affine_map<(e, n, k) -> (e, k, n)>>, tensor<4x?x48xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil", schedule = {tile_n = 128, tile_k = 64, stages = 2, output_stages = 1, warps = 4, ctas_per_sm = 1, band = 1}} : (tensor<4x?x48xbf16>) -> (tensor<4x?x48xf8E4M3FN, affine_map<(e, n, k) -> (e, k, n)>>, tensor<4x?x48xf8E8M0FNU>)
  return %q, %s : tensor<4x?x48xf8E4M3FN, affine_map<(e, n, k) -> (e, k, n)>>, tensor<4x?x48xf8E8M0FNU>
}
