// Blocks of FP8 without a kernel, and schedules that no kernel can have.

// RUN: moe-opt %s --split-input-file --moe-select-schedule --verify-diagnostics

#col_major = affine_map<(m, k) -> (k, m)>
func.func @q_order(%x: tensor<128x128xbf16>) {
  // expected-error@below {{the kernel takes x and writes q row-major; remove their encoding}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<128x128xbf16>) -> (tensor<128x128xf8E4M3FN, #col_major>, tensor<128x1xf32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @scales_order(%x: tensor<128x256xbf16>) {
  // expected-error@below {{the kernel writes scales row-major; remove their encoding}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<128x256xbf16>) -> (tensor<128x256xf8E4M3FN>, tensor<1x2xf32, #col_major>)
  return
}

// -----

func.func @k(%x: tensor<128x24xbf16>) {
  // expected-error@below {{operand 'x' has dimension 1 of size 24; the kernel needs a multiple of 16}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<128x24xbf16>) -> (tensor<128x24xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @tile(%x: tensor<128x128xbf16>) {
  // expected-error@below {{'schedule' has no field 'tile_k'}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {tile_k = 128, warps = 8, ctas_per_sm = 4, band = 1}}
      : (tensor<128x128xbf16>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @warps(%x: tensor<128x128xbf16>) {
  // expected-error@below {{'schedule.warps' is 6; it must divide the 64 vectors of the lanes of a block of 128 x 128}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {warps = 6, ctas_per_sm = 4, band = 1}}
      : (tensor<128x128xbf16>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @vectors(%x: tensor<128x128xbf16>) {
  // expected-error@below {{'schedule' gives each thread 32 vectors; it may have at most 16}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {warps = 2, ctas_per_sm = 1, band = 1}}
      : (tensor<128x128xbf16>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @registers(%x: tensor<128x128xf32>) {
  // expected-error@below {{'schedule' leaves 64 registers to each of 1024 threads; the kernel needs 96}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {warps = 8, ctas_per_sm = 4, band = 1}}
      : (tensor<128x128xf32>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

#odd = affine_map<(e, m, k) -> (m, e, k)>
func.func @odd_scales(%x: tensor<2x128x256xbf16>) {
  // expected-error@below {{the kernel writes scales row-major, or with the rows side by side; remove their encoding, or give them affine_map<(e, m, k) -> (e, k, m)>}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 2 : i64, pow2 = true, sanitize = false}
      : (tensor<2x128x256xbf16>) -> (tensor<2x128x256xf8E4M3FN>, tensor<2x128x2xf32, #odd>)
  return
}

// -----

func.func @row_major_columns(%x: tensor<2x128x256xbf16>) {
  // expected-error@below {{the kernel writes 'q' column-major; give it the encoding affine_map<(e, n, k) -> (e, k, n)>}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<2x128x256xbf16>) -> (tensor<2x128x256xf8E4M3FN>, tensor<2x1x256xf32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_row_major_scales(%x: tensor<128x256xbf16>, %offs: tensor<4xi32>) {
  // expected-error@below {{the kernel writes 'scales' of 1x128 with the rows side by side; give them the encoding affine_map<(m, k) -> (k, m)>}}
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x, %offs) {granularity = "1x128", pow2 = true, sanitize = false}
      : (tensor<128x256xbf16>, tensor<4xi32>)
      -> (tensor<128x256xf8E4M3FN>, tensor<128x2xf32>, tensor<128x256xf8E4M3FN, #col_major>, tensor<5x256xf32>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @dual_two_elements(%x: tensor<2x128x256xbf16>) {
  // expected-error@below {{the kernel writes 'q' and 'q_t' with one element type; give both the same, or use a quantize_fp8 for each}}
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x) {granularity = "128x128", pow2 = true, sanitize = false}
      : (tensor<2x128x256xbf16>)
      -> (tensor<2x128x256xf8E4M3FN>, tensor<2x1x2xf32>, tensor<2x128x256xf8E5M2, #col_major>, tensor<2x1x2xf32>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @square_tiles(%x: tensor<2x128x256xbf16>) {
  // expected-error@below {{'schedule' has tiles of 128 x 64; FP8 blocks take tiles of 128 x 128}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {tile_n = 128, tile_k = 64}}
      : (tensor<2x128x256xbf16>) -> (tensor<2x128x256xf8E4M3FN, #col_major>, tensor<2x1x2xf32>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @dual_tiles(%x: tensor<2x128x256xbf16>) {
  // expected-error@below {{'schedule.tile_k' is 64; it must be a multiple of 128}}
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x) {granularity = "1x128", pow2 = true, sanitize = false,
      schedule = {tile_n = 128, tile_k = 64}}
      : (tensor<2x128x256xbf16>)
      -> (tensor<2x128x256xf8E4M3FN>, tensor<2x128x2xf32, #col_major>, tensor<2x128x256xf8E4M3FN, #col_major>, tensor<2x1x256xf32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @segments_that_end(%x: tensor<128x256xbf16>, %offs: tensor<4xi32>) {
  // expected-error@below {{'schedule.stages' is 1; it must be 2 or more where CTAs take segments of tiles}}
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "1x128", axis = 0 : i64, pow2 = true, sanitize = false,
      schedule = {stages = 1}}
      : (tensor<128x256xbf16>, tensor<4xi32>) -> (tensor<128x256xf8E4M3FN, #col_major>, tensor<5x256xf32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dequantize_tokens(%q: tensor<128x256xf8E4M3FN, #col_major>, %s: tensor<5x256xf32>, %offs: tensor<4xi32>) {
  // expected-error@below {{no kernel dequantizes FP8 blocks of 1x128 along axis 0 yet; there is one along the last dimension}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s, %offs) {granularity = "1x128", axis = 0 : i64}
      : (tensor<128x256xf8E4M3FN, #col_major>, tensor<5x256xf32>, tensor<4xi32>) -> tensor<128x256xbf16>
  return
}
