// Rows of FP8 without a kernel, and schedules that no kernel can have.

// RUN: moe-opt %s --split-input-file --moe-select-schedule --verify-diagnostics

#col_major = affine_map<(m, k) -> (k, m)>
func.func @x_order(%x: tensor<64x128xbf16, #col_major>) {
  // expected-error@below {{the kernel takes x and writes q row-major; remove their encoding}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16, #col_major>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @q_order(%x: tensor<64x128xbf16>) {
  // expected-error@below {{the kernel takes x and writes q row-major; remove their encoding}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN, #col_major>, tensor<64xf32>)
  return
}

// -----

func.func @k_bf16(%x: tensor<64x12xbf16>) {
  // expected-error@below {{operand 'x' has dimension 1 of size 12; the kernel needs a multiple of 8}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x12xbf16>) -> (tensor<64x12xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @k_f32(%x: tensor<2x64x6xf32>) {
  // expected-error@below {{operand 'x' has dimension 2 of size 6; the kernel needs a multiple of 4}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 2 : i64, pow2 = true, sanitize = false}
      : (tensor<2x64x6xf32>) -> (tensor<2x64x6xf8E4M3FN>, tensor<2x64xf32>)
  return
}

// -----

func.func @buffer_kb_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.buffer_kb' is 0; it must be between 1 and 224}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 0, stages = 64, warps = 16, ctas_per_sm = 1}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @buffer_kb_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.buffer_kb' is 225; it must be between 1 and 224}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 225, stages = 64, warps = 16, ctas_per_sm = 1}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @stages_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.stages' is 1; it must be between 2 and 128}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 1, warps = 16, ctas_per_sm = 1}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @stages_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.stages' is 129; it must be between 2 and 128}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 129, warps = 16, ctas_per_sm = 1}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @warps_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.warps' is 0; it must be between 1 and 31}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 64, warps = 0, ctas_per_sm = 1}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @warps_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.warps' is 32; it must be between 1 and 31}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 64, warps = 32, ctas_per_sm = 1}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @ctas_per_sm_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.ctas_per_sm' is 0; it must be between 1 and 4}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 64, warps = 16, ctas_per_sm = 0}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @ctas_per_sm_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.ctas_per_sm' is 5; it must be between 1 and 4}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 64, warps = 16, ctas_per_sm = 5}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @other_field(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule' has no field 'tile_n'}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 64, warps = 16, ctas_per_sm = 1, tile_n = 32}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @no_integer(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.warps' must be an integer}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 208, stages = 64, warps = "16", ctas_per_sm = 1}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}

// -----

func.func @shared_memory(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule' needs 115776 bytes of shared memory in each of 2 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 112, stages = 64, warps = 16, ctas_per_sm = 2}}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  return
}
