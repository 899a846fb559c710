#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual(%x: tensor<32xWIDTHxf32>)
    -> (tensor<32xWIDTHxf8E4M3FN>, tensor<32xBLOCKSxf8E8M0FNU>, tensor<32xWIDTHxf8E4M3FN, #col_major>, tensor<1xWIDTHxf8E8M0FNU>) {
  %q, %s, %q_t, %s_t = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil"} : (tensor<32xWIDTHxf32>)
      -> (tensor<32xWIDTHxf8E4M3FN>, tensor<32xBLOCKSxf8E8M0FNU>, tensor<32xWIDTHxf8E4M3FN, #col_major>, tensor<1xWIDTHxf8E8M0FNU>)
  return %q, %s, %q_t, %s_t
      : tensor<32xWIDTHxf8E4M3FN>, tensor<32xBLOCKSxf8E8M0FNU>, tensor<32xWIDTHxf8E4M3FN, #col_major>, tensor<1xWIDTHxf8E8M0FNU>
}
