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
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<128x256xbf16>) -> (tensor<128x256xf8E4M3FN>, tensor<128x2xf32, #col_major>)
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
      schedule = {tile_k = 128, warps = 8, blocks_per_sm = 4, band = 1}}
      : (tensor<128x128xbf16>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @warps(%x: tensor<128x128xbf16>) {
  // expected-error@below {{'schedule.warps' is 6; it must divide the 64 vectors of the lanes of a block of 128 x 128}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {warps = 6, blocks_per_sm = 4, band = 1}}
      : (tensor<128x128xbf16>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @vectors(%x: tensor<128x128xbf16>) {
  // expected-error@below {{'schedule' gives each thread 32 vectors; it may have at most 16}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {warps = 2, blocks_per_sm = 1, band = 1}}
      : (tensor<128x128xbf16>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}

// -----

func.func @registers(%x: tensor<128x128xf32>) {
  // expected-error@below {{'schedule' leaves 64 registers to each of 1024 threads; the kernel needs 96}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {warps = 8, blocks_per_sm = 4, band = 1}}
      : (tensor<128x128xf32>) -> (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>)
  return
}
