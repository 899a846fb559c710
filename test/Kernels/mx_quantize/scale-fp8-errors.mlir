// First passes without a kernel, and schedules that no kernel can have.

// RUN: moe-opt %s --split-input-file --moe-select-schedule --verify-diagnostics

func.func @one_pass_row(%x: tensor<64x128xbf16>) {
  // expected-error@below {{granularity "row" along axis 1 takes one pass; use mx_quantize.quantize_fp8}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<64xf32>, tensor<64xf32>, tensor<2x64xi32>)
  return
}

// -----

func.func @one_pass_row_of_experts(%x: tensor<4x64x128xbf16>) {
  // expected-error@below {{granularity "row" along axis 2 takes one pass; use mx_quantize.quantize_fp8}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "row", axis = 2 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<4x64x128xbf16>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<2x4x64xi32>)
  return
}

// -----

func.func @one_pass_1x128(%x: tensor<64x128xbf16>) {
  // expected-error@below {{granularity "1x128" along axis 1 takes one pass; use mx_quantize.quantize_fp8}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<64x1xf32>, tensor<64x1xf32>, tensor<2x64x1xi32>)
  return
}

// -----

func.func @one_pass_128x128(%x: tensor<64x128xbf16>) {
  // expected-error@below {{granularity "128x128" along axis 1 takes one pass; use mx_quantize.quantize_fp8}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "128x128", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>) -> (tensor<1x1xf32>, tensor<1x1xf32>, tensor<2x1x1xi32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @x_order(%x: tensor<64x128xbf16, #col_major>) {
  // expected-error@below {{the kernel takes x row-major; remove its encoding}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16, #col_major>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @k_bf16(%x: tensor<64x12xbf16>) {
  // expected-error@below {{operand 'x' has dimension 1 of size 12; the kernel needs a multiple of 8}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x12xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @k_f32(%x: tensor<64x6xf32>) {
  // expected-error@below {{operand 'x' has dimension 1 of size 6; the kernel needs a multiple of 4}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x6xf32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @dual_k(%x: tensor<4x64x12xbf16>) {
  // expected-error@below {{operand 'x' has dimension 2 of size 12; the kernel needs a multiple of 8}}
  %s, %f, %state, %st, %ft, %state_t = "mx_quantize.scale_fp8_dual"(%x) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<4x64x12xbf16>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<2x4x64xi32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<2x4x12xi32>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @dual_x_order(%x: tensor<4x64x16xbf16, #col_major>) {
  // expected-error@below {{the kernel takes x row-major; remove its encoding}}
  %s, %f, %state, %st, %ft, %state_t = "mx_quantize.scale_fp8_dual"(%x) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<4x64x16xbf16, #col_major>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<2x4x64xi32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<2x4x16xi32>)
  return
}

// -----

// Alone the pass does not expand, and says so.
func.func @two_passes(%x: tensor<64x128xbf16>) {
  // expected-error@below {{granularity "tensor" along axis 1 takes two passes; run moe-expand-quantize}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<1xf32>)
  return
}

// -----

func.func @rows_per_warp_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.rows_per_warp' is 0; it must be between 1 and 32}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 0, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @rows_per_warp_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.rows_per_warp' is 33; it must be between 1 and 32}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 33, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @warps_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.warps' is 0; it must be between 1 and 32}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 0, ctas_per_sm = 2, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @warps_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.warps' is 33; it must be between 1 and 32}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 33, ctas_per_sm = 2, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @ctas_per_sm_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.ctas_per_sm' is 0; it must be between 1 and 8}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 0, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @ctas_per_sm_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.ctas_per_sm' is 9; it must be between 1 and 8}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 9, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @band_least(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.band' is 0; it must be between 1 and 4096}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 0}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @band_most(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.band' is 4097; it must be between 1 and 4096}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 4097}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @other_field(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule' has no field 'tile_n'}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 1, tile_n = 32}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @rows_per_warp(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule.rows_per_warp' is 12; it must be a power of two}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 12, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @registers(%x: tensor<64x128xbf16>) {
  // expected-error@below {{'schedule' leaves 80 registers to each of 768 threads; the kernel needs 96}}
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {granularity = "tensor", axis = 1 : i64, pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 3, band = 1}}
      : (tensor<64x128xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return
}

// -----

func.func @dual_rows_per_warp(%x: tensor<4x64x16xbf16>) {
  // expected-error@below {{'schedule.rows_per_warp' is 3; it must be a power of two}}
  %s, %f, %state, %st, %ft, %state_t = "mx_quantize.scale_fp8_dual"(%x) {pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 3, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<4x64x16xbf16>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<2x4x64xi32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<2x4x16xi32>)
  return
}

// -----

func.func @pair_types(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xf32>, %a2: tensor<4xi32>) {
  // expected-error@below {{the kernel reads 'x' and 'y' with one element type; give both the same, or use a quantize_fp8 for each}}
  %r:6 = "mx_quantize.scale_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<64x32xf32>, tensor<4xi32>) -> (tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x128xi32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<2x4x32xi32>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @pair_y_order(%a0: tensor<64x128xbf16>, %a1: tensor<64x32xbf16, #columns>, %a2: tensor<4xi32>) {
  // expected-error@below {{the kernel takes y row-major; remove its encoding}}
  %r:6 = "mx_quantize.scale_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<64x32xbf16, #columns>, tensor<4xi32>) -> (tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x128xi32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<2x4x32xi32>)
  return
}

// -----

func.func @pair_columns(%a0: tensor<64x128xbf16>, %a1: tensor<64x12xbf16>, %a2: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has dimension 1 of size 12; the kernel needs a multiple of 8}}
  %r:6 = "mx_quantize.scale_fp8_pair"(%a0, %a1, %a2) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<64x128xbf16>, tensor<64x12xbf16>, tensor<4xi32>) -> (tensor<4x128xf32>, tensor<4x128xf32>, tensor<2x4x128xi32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<2x4x12xi32>)
  return
}
