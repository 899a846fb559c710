// Ops without a kernel, and schedules that no kernel can have.

// RUN: moe-opt %s --split-input-file --moe-select-schedule --verify-diagnostics

// What has no kernel.
func.func @rank_1(%w: tensor<?xbf16>) {
  // expected-error@below {{no kernel quantizes a tensor of rank 1 along axis 0 yet; there are kernels for rank 2 and 3 along the last dimension and the one before it}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?xbf16>) -> (tensor<?xf8E4M3FN>, tensor<?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @axis_0(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{no kernel quantizes a tensor of rank 3 along axis 0 yet}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @rank_4(%w: tensor<?x?x?x?xbf16>) {
  // expected-error@below {{no kernel quantizes a tensor of rank 4 along axis 1 yet}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?x?xbf16>) -> (tensor<?x?x?x?xf8E4M3FN>, tensor<?x?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @k(%w: tensor<4x64x24xbf16>) {
  // expected-error@below {{operand 'x' has dimension 2 of size 24; the kernel needs a multiple of 16}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<4x64x24xbf16>) -> (tensor<4x64x24xf8E4M3FN, #col_major>, tensor<4x2x24xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @x_order(%w: tensor<?x?x?xbf16, #col_major>) {
  // expected-error@below {{the kernel has 'x' row-major; remove its encoding}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16, #col_major>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @scales_order(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{the kernel has 'scales' row-major; remove its encoding}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU, #col_major>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @q_row_major(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{the kernel writes 'q' column-major; give it the encoding affine_map<(e, n, k) -> (e, k, n)>}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @q_other_order(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{the kernel writes 'q' column-major}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, affine_map<(e, n, k) -> (n, k, e)>>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

func.func @rank_2_row_major(%x: tensor<?x?xbf16>) {
  // expected-error@below {{the kernel writes 'q' column-major; give it the encoding affine_map<(m, k) -> (k, m)>}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @rows_column_major(%x: tensor<?x?xbf16>) {
  // expected-error@below {{the kernel has 'q' row-major; remove its encoding}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_x(%x: tensor<?x?xbf16, #col_major>) {
  // expected-error@below {{the kernel has 'x' row-major; remove its encoding}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil"} : (tensor<?x?xbf16, #col_major>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_q(%x: tensor<?x?xbf16>) {
  // expected-error@below {{the kernel has 'q' row-major; remove its encoding}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil"} : (tensor<?x?xbf16>)
      -> (tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

func.func @dual_q_t(%x: tensor<?x?x?xbf16>) {
  // expected-error@below {{the kernel writes 'q_t' column-major; give it the encoding affine_map<(e, n, k) -> (e, k, n)>}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil"} : (tensor<?x?x?xbf16>)
      -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E8M0FNU>, tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @f16_encoding(%x: tensor<?x?xbf16>) {
  // expected-error@below {{the kernel takes x and q row-major; remove their encoding}}
  %q, %s = "mx_quantize.quantize_f16"(%x) : (tensor<?x?xbf16>) -> (tensor<?x?xf16, #col_major>, tensor<?xf32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_scales_t(%x: tensor<?x?xbf16>) {
  // expected-error@below {{the kernel has 'scales_t' row-major; remove its encoding}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil"} : (tensor<?x?xbf16>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU, #col_major>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_types(%x: tensor<?x?xbf16>) {
  // expected-error@below {{the kernel writes 'q' and 'q_t' with one element type; give both the same, or use a quantize for each}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil"} : (tensor<?x?xbf16>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E5M2, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

func.func @dequantize(%q: tensor<32xf8E4M3FN>, %s: tensor<1xf8E8M0FNU>) {
  // expected-error@below {{no kernel dequantizes a tensor of rank 1 along axis 0; there are some for rank 2 and 3 along the last two dimensions}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<32xf8E4M3FN>, tensor<1xf8E8M0FNU>) -> tensor<32xbf16>
  return
}

// -----

func.func @grouped_mm(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{'scaled_grouped_mm.grouped_mm' has no kernel; --emit=fused makes ops of it that have}}
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// The pass relies on what moe-verify checks, also where it runs alone.
#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @unverified(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{attribute 'axis' is 3; it must be 0 to 2}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 3 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

// Schedules.
#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @no_dictionary(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule' must be a dictionary of integers}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = 3}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @unit(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule' must be a dictionary of integers}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = unit}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @unknown_field(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule' has no field 'depth'; the fields here are tile_n, tile_k, stages, output_stages, warps, ctas_per_sm, band, segment, cluster}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64, depth = 1}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @typo(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule' has no field 'tile_m'}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64, tile_m = 128}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @field_is_wide(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.warps' must be an integer of at most 64 bits}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 18446744073709551624 : i128, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @field_is_string(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.warps' must be an integer of at most 64 bits}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = "8", ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @tile_n_too_small(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.tile_n' is 127; it must be a multiple of 128}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 127, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @tile_n_too_large(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.tile_n' is 257; it must be between 32 and 256}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 257, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @tile_k_too_small(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.tile_k' is 31; it must be between 32 and 1024}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 31, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @tile_k_too_large(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.tile_k' is 257; with a column-major result it must be at most 256}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 257, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @stages_too_small(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.stages' is 0; it must be between 1 and 8}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 0, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @stages_too_large(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.stages' is 9; it must be between 1 and 8}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 9, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @output_stages_too_small(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.output_stages' is 0; it must be between 1 and 2}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 0, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @output_stages_too_large(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.output_stages' is 3; it must be between 1 and 2}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 3, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @warps_too_small(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.warps' is 0; it must be between 1 and 16}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 0, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @warps_too_large(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.warps' is 17; it must be between 1 and 16}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 17, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @ctas_per_sm_too_small(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.ctas_per_sm' is 0; it must be between 1 and 8}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 0, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @ctas_per_sm_too_large(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.ctas_per_sm' is 9; it must be between 1 and 8}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 9, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @band_too_small(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.band' is 0; it must be between 1 and 4096}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 0}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @band_too_large(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.band' is 4097; it must be between 1 and 4096}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 4097}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @field_is_huge(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.warps' is 4294967304; it must be between 1 and 16}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 4294967304, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @tile_n_multiple(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.tile_n' is 192; it must be a multiple of 128}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 192, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @tile_k_multiple(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.tile_k' is 96; it must be a multiple of 64}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 96, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @tile_k_multiple_f32(%w: tensor<?x?x?xf32>) {
  // expected-error@below {{'schedule.tile_k' is 48; it must be a multiple of 32}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 48, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xf32>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @warps_divide(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.warps' is 3; it must divide the tile's 8 strips of 32 rows and 128 bytes}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 3, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @warps_exceed(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.warps' is 16; it must divide the tile's 8 strips of 32 rows and 128 bytes}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 16, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

// 7 stages of 32 KB and an output of 16 KB are more than the 227 KB of a block.
#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @shared_memory_of_block(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule' needs 245872 bytes of shared memory in each of 1 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 7, output_stages = 1, warps = 8, ctas_per_sm = 1, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

// 80 KB fit into a block, but not three times into a multiprocessor.
#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @shared_memory_of_sm(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule' needs 81952 bytes of shared memory in each of 3 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 1, warps = 8, ctas_per_sm = 3, band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

// More threads than a multiprocessor has.
func.func @threads(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule' has 2176 threads in 4 CTAs; a multiprocessor has 2048}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = false, sanitize = false,
      schedule = {ctas_per_sm = 4, buffer_kb = 2}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>)
  return
}

// -----

// Too many threads for their registers: ptxas would spill.
#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @registers(%w: tensor<?x?x?xf32>) {
  // expected-error@below {{'schedule' leaves 48 registers to each of 1280 threads; the kernel needs 64}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 64, stages = 1, output_stages = 1, warps = 8, ctas_per_sm = 5, band = 64}}
      : (tensor<?x?x?xf32>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

// Products without a kernel.
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @fast_product_with_mx_scales(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel adds sums of MX blocks in fp32; give 'accumulate' the value "promoted"}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @mx_sb_order(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU, affine_map<(e, k, n) -> (n, e, k)>>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes sb row-major or column-major per expert; remove its encoding, or give it affine_map<(e, k, n) -> (e, n, k)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU, affine_map<(e, k, n) -> (n, e, k)>>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @mx_pingpong(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.pingpong' is 1; it must be 0 where sums are promoted}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, tile_n = 128, pingpong = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @mx_tile(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 144; it must be a multiple of 32}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, tile_n = 144}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @mx_wide_tile(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 192; with scales of MX blocks it must be at most 160}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, tile_n = 192}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @mx_gradient(%qa: tensor<62x32xf8E4M3FN>, %qb: tensor<32x16xf8E4M3FN, #columns>, %sa: tensor<3x62xf8E8M0FNU>, %sb: tensor<3x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has dimension 0 of size 62; the kernel needs a multiple of 4}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<62x32xf8E4M3FN>, tensor<32x16xf8E4M3FN, #columns>, tensor<3x62xf8E8M0FNU>, tensor<3x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x62x16xbf16>
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @mx_gradient_order(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<32x16xf8E4M3FN, #columns>, %sa: tensor<3x64xf8E8M0FNU>, %sb: tensor<3x16xf8E8M0FNU, #columns>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN, #columns>, tensor<3x64xf8E8M0FNU>, tensor<3x16xf8E8M0FNU, #columns>, tensor<2xi32>) -> tensor<2x64x16xbf16>
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @mx_gradient_cluster(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<32x16xf8E4M3FN, #columns>, %sa: tensor<3x64xf8E8M0FNU>, %sb: tensor<3x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.cluster' is 2; it must be 1 in a gradient of weights with scales of blocks}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {cluster = 2}}
      : (tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN, #columns>, tensor<3x64xf8E8M0FNU>, tensor<3x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<2x64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @blocks_sa_order(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x16xf8E4M3FN, #col_major>, %sa: tensor<64x2xf32>, %sb: tensor<2x2x1xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes scales of 1x128 blocks with the tokens side by side; give sa the encoding affine_map<(m, k) -> (k, m)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x16xf8E4M3FN, #col_major>, tensor<64x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @batched_blocks_sa_order(%qa: tensor<2x64x144xf8E4M3FN>, %qb: tensor<2x144x16xf8E4M3FN, #col_major>, %sa: tensor<2x64x2xf32>, %sb: tensor<2x2x1xf32>) {
  // expected-error@below {{the kernel takes scales of 1x128 blocks with the tokens side by side; give sa the encoding affine_map<(e, m, k) -> (e, k, m)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "promoted"}
      : (tensor<2x64x144xf8E4M3FN>, tensor<2x144x16xf8E4M3FN, #col_major>, tensor<2x64x2xf32>, tensor<2x2x1xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @blocks_sb_order(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x16xf8E4M3FN, #col_major>, %sa: tensor<64x2xf32, affine_map<(m, k) -> (k, m)>>, %sb: tensor<2x2x1xf32, affine_map<(e, k, n) -> (k, e, n)>>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes sb row-major or column-major per expert; remove its encoding, or give it affine_map<(e, k, n) -> (e, n, k)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x16xf8E4M3FN, #col_major>, tensor<64x2xf32, affine_map<(m, k) -> (k, m)>>, tensor<2x2x1xf32, affine_map<(e, k, n) -> (k, e, n)>>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @blocks_swapped_tile_n(%qa: tensor<64x144xf8E4M3FN>, %qb: tensor<2x144x16xf8E4M3FN, #col_major>, %sa: tensor<64x2xf32, affine_map<(m, k) -> (k, m)>>, %sb: tensor<2x2x1xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 144; with scales of blocks it must be at most 128 where operands are swapped}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 1, tile_n = 144, stages = 2}}
      : (tensor<64x144xf8E4M3FN>, tensor<2x144x16xf8E4M3FN, #col_major>, tensor<64x2xf32, affine_map<(m, k) -> (k, m)>>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_qa_order(%qa: tensor<64x32xf8E4M3FN, affine_map<(m, n) -> (n, m)>>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN, affine_map<(m, n) -> (n, m)>>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_sb_order(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32, affine_map<(m, n) -> (n, m)>>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32, affine_map<(m, n) -> (n, m)>>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_bias_order(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>, %bias: tensor<2x16xbf16, affine_map<(e, n) -> (n, e)>>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>, tensor<2x16xbf16, affine_map<(e, n) -> (n, e)>>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_out_order(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16, affine_map<(m, n) -> (n, m)>>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @gradient_qa_order(%qa: tensor<48x64xf8E4M3FN, affine_map<(m, n) -> (n, m)>>, %qb: tensor<64x16xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN, affine_map<(m, n) -> (n, m)>>, tensor<64x16xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @gradient_sa_order(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32, affine_map<(m, n) -> (n, m)>>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN, #col_major>, tensor<2x48xf32, affine_map<(m, n) -> (n, m)>>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @gradient_sb_order(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32, affine_map<(m, n) -> (n, m)>>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x16xf32, affine_map<(m, n) -> (n, m)>>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @gradient_out_order(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes all tensors but qb row-major; remove their encoding}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16, affine_map<(e, n, k) -> (e, k, n)>>
  return
}

// -----

func.func @product_qb_row_major(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qb column-major per expert; give it the encoding affine_map<(e, k, n) -> (e, n, k)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @product_qb_order(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, affine_map<(e, k, n) -> (n, e, k)>>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qb column-major per expert; give it the encoding affine_map<(e, k, n) -> (e, n, k)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, affine_map<(e, k, n) -> (n, e, k)>>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @batched_qb_row_major(%qa: tensor<2x64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{the kernel takes qb column-major per expert; give it the encoding affine_map<(e, k, n) -> (e, n, k)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

func.func @gradient_qb_row_major(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qb column-major; give it the encoding affine_map<(m, k) -> (k, m)>}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_k(%qa: tensor<64x24xf8E4M3FN>, %qb: tensor<2x24x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has dimension 1 of size 24; the kernel needs a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x24xf8E4M3FN>, tensor<2x24x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_n(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x40xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x40xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has dimension 2 of size 40; the kernel needs a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x40xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x40xf32>, tensor<2xi32>) -> tensor<64x40xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @batched_k(%qa: tensor<2x64x24xf8E4M3FN>, %qb: tensor<2x24x16xf8E4M3FN, #col_major>, %sa: tensor<2x64xf32>, %sb: tensor<2x16xf32>) {
  // expected-error@below {{operand 'qa' has dimension 2 of size 24; the kernel needs a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<2x64x24xf8E4M3FN>, tensor<2x24x16xf8E4M3FN, #col_major>, tensor<2x64xf32>, tensor<2x16xf32>) -> tensor<2x64x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @gradient_m(%qa: tensor<48x72xf8E4M3FN>, %qb: tensor<72x16xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qa' has dimension 1 of size 72; the kernel needs a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x72xf8E4M3FN>, tensor<72x16xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @gradient_k(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x8xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x8xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has dimension 1 of size 8; the kernel needs a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x8xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x8xf32>, tensor<2xi32>) -> tensor<2x48x8xbf16>
  return
}

// -----

// Schedules of products.
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_schedule_is_array(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule' must be a dictionary of integers}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = [256, 4, 8]}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_unknown_field(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule' has no field 'warps'}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, warps = 8, cluster = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_field_is_string(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.stages' must be an integer}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = "4", band = 8, cluster = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_tile_n_too_small(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 15; it must be between 16 and 256}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 15, stages = 4, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_tile_n_too_large(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 257; it must be between 16 and 256}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 257, stages = 4, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_stages_too_small(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.stages' is 1; it must be between 2 and 12}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 1, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_stages_too_large(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.stages' is 13; it must be between 2 and 12}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 13, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_band_too_small(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.band' is 0; it must be between 1 and 4096}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 0, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_band_too_large(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.band' is 4097; it must be between 1 and 4096}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 4097, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_narrow_pieces(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.pieces' is 3; 64 columns must divide into pieces of a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 64, pieces = 3, stages = 4}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_swap_operands(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.swap_operands' is 2; it must be between 0 and 1}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 2, tile_n = 64, stages = 4, band = 8, cluster = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_cluster_too_small(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.cluster' is 0; it must be between 1 and 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 0, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_cluster_too_large(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.cluster' is 4; it must be between 1 and 2}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 4, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_tile_n_multiple(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 96; it must be a multiple of 64}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 96, stages = 4, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @pingpong_promoted(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.pingpong' is 1; it must be 0 where sums are promoted}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, tile_n = 128, stages = 4, band = 8, cluster = 1, pingpong = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @pingpong_swapped(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.pingpong' is 1; it must be 0 where operands are swapped}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 64, stages = 4, band = 8, cluster = 1, pingpong = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @pingpong_tile_n(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 256; it must be at most 192 with pingpong = 1}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 1, pingpong = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @beside_alone(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.beside' is 1; it must be 0 where there is no cluster}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 128, stages = 4, band = 8, cluster = 1, beside = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @three_warpgroups_fast(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.warpgroups' is 3; it must be 2 where sums are fast}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, stages = 4, tile_n = 128, pingpong = 0, warpgroups = 3}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @three_warpgroups_wide(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.warpgroups' is 3; it must be 2 where a tile has more than 128 columns}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, stages = 4, tile_n = 192, warpgroups = 3}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @one_wide_stage(%qa: tensor<16x64xf8E4M3FN>, %qb: tensor<64x256xf8E4M3FN, #col_major>, %sa: tensor<2x16xf32>, %sb: tensor<2x256xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.wide_stages' is 1; it must be 0, or 2 and more}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {wide_stages = 1}}
      : (tensor<16x64xf8E4M3FN>, tensor<64x256xf8E4M3FN, #col_major>, tensor<2x16xf32>, tensor<2x256xf32>, tensor<2xi32>) -> tensor<2x16x256xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @wide_stages(%qa: tensor<16x64xf8E4M3FN>, %qb: tensor<64x256xf8E4M3FN, #col_major>, %sa: tensor<2x16xf32>, %sb: tensor<2x256xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule' needs 264960 bytes of shared memory in each of 1 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {wide_stages = 6}}
      : (tensor<16x64xf8E4M3FN>, tensor<64x256xf8E4M3FN, #col_major>, tensor<2x16xf32>, tensor<2x256xf32>, tensor<2xi32>) -> tensor<2x16x256xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @rotate_pingpong(%qa: tensor<16x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<2x16xf32>, %sb: tensor<2x32xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.rotate' is 1; it must be 0 with pingpong = 1}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {pingpong = 1, tile_n = 128, stages = 4, rotate = 1}}
      : (tensor<16x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<2x16xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x16x32xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @three_warpgroups_gradient(%qa: tensor<16x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<3x16xf32>, %sb: tensor<3x32xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.warpgroups' is 3; it must be 2 where scales are of blocks of tokens that begin anywhere}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128", schedule = {tile_n = 128, stages = 3, warpgroups = 3}}
      : (tensor<16x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<3x16xf32>, tensor<3x32xf32>, tensor<2xi32>) -> tensor<2x16x32xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @staged_bytes(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.staged' is 96; it must be 64 or 128}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, stages = 4, tile_n = 128, warpgroups = 3, staged = 96}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @direct_fast(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.direct' is 1; it must be 0 where sums are fast}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, stages = 4, tile_n = 128, pingpong = 0, direct = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @direct_cluster(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.direct' is 1; it must be 0 where there are clusters}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, stages = 4, tile_n = 128, cluster = 2, direct = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @direct_gradient(%qa: tensor<16x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<2x16xf32>, %sb: tensor<2x32xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.direct' is 1; it must be 0 where groups are ranges of the reduction}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {tile_n = 128, stages = 4, direct = 1}}
      : (tensor<16x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<2x16xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x16x32xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @direct_mx(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.direct' is 1; it must be 0 where scales are of MX blocks}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, tile_n = 128, stages = 4, direct = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU, #col_major>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @swapped_tile_n_multiple(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 24; it must be a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 24, stages = 4, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @swapped_gradient(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.swap_operands' is 1; it must be 0 where groups are ranges of the reduction}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 64, stages = 4, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @swapped_cluster(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.cluster' is 2; it must be 1 where operands are swapped}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 64, stages = 4, band = 8, cluster = 2, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// A second accumulator needs registers.
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @promoted_tile_n(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 256; with promoted sums it must be at most 192}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @promoted_gradient_tile_n(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x16xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 256; with promoted sums it must be at most 192}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<48x64xf8E4M3FN>, tensor<64x16xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<2x48x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @promoted_swapped_tile_n(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.tile_n' is 208; with promoted sums it must be at most 192}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 1, tile_n = 208, stages = 2, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

// 5 stages of 48 KB, the barriers, 20 KB for the epilogue, 6 slots that say where tiles are, and the table of 2 groups.
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @product_shared_memory(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule' needs 265472 bytes of shared memory in each of 1 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 5, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @rows_tile_n(%x: tensor<?x?xbf16>, %f: tensor<1xf32>) {
  // expected-error@below {{'schedule.tile_n' is 48; it must be a multiple of 32}}
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 1 : i64, granularity = "tensor", sanitize = false,
      schedule = {tile_n = 48, tile_k = 128, stages = 2, output_stages = 1, warps = 2, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  return
}

// -----

func.func @strips(%x: tensor<?x?xbf16>, %f: tensor<1xf32>) {
  // expected-error@below {{'schedule.warps' is 1; a warp may have at most 16 of the tile's 32 strips}}
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 1 : i64, granularity = "tensor", sanitize = false,
      schedule = {tile_n = 256, tile_k = 256, stages = 1, output_stages = 1, warps = 1, ctas_per_sm = 1, band = 1}}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_shared_memory(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule' needs 133168 bytes of shared memory in each of 2 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 3, output_stages = 1, warps = 8, ctas_per_sm = 2, band = 1, cluster = 1}} : (tensor<?x?xbf16>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @cast_registers(%x: tensor<?x?xf32>, %f: tensor<1xf32>) {
  // expected-error@below {{'schedule' leaves 48 registers to each of 1280 threads; the kernel needs 64}}
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 0 : i64, granularity = "tensor", sanitize = false,
      schedule = {tile_n = 128, tile_k = 64, stages = 1, output_stages = 1, warps = 8, ctas_per_sm = 5, band = 1}}
      : (tensor<?x?xf32>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN, #col_major>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @cast_table(%x: tensor<?x?xbf16>, %f: tensor<?x?xf32>, %offs: tensor<?xi32>) {
  // expected-error@below {{'schedule' needs 122928 bytes of shared memory in each of 2 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %q = "mx_quantize.cast_fp8"(%x, %f, %offs) {axis = 0 : i64, granularity = "row", sanitize = false,
      schedule = {tile_n = 128, tile_k = 128, stages = 3, output_stages = 1, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?xbf16>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xf8E4M3FN, #col_major>
  return
}

// -----

func.func @cast_1x128(%x: tensor<?x?xbf16>, %f: tensor<?x?xf32>) {
  // expected-error@below {{no kernel casts with granularity "1x128"; use quantize_fp8, which finds the scales and casts at once}}
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 1 : i64, granularity = "1x128", sanitize = false}
      : (tensor<?x?xbf16>, tensor<?x?xf32>) -> tensor<?x?xf8E4M3FN>
  return
}

// -----

func.func @cast_order(%x: tensor<?x?xbf16>, %f: tensor<1xf32>) {
  // expected-error@below {{the kernel writes 'q' column-major; give it the encoding affine_map<(m, k) -> (k, m)>}}
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 0 : i64, granularity = "tensor", sanitize = false}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @cast_size(%x: tensor<24x32xbf16>, %f: tensor<1xf32>) {
  // expected-error@below {{operand 'x' has dimension 0 of size 24; the kernel needs a multiple of 16}}
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 0 : i64, granularity = "tensor", sanitize = false}
      : (tensor<24x32xbf16>, tensor<1xf32>) -> tensor<24x32xf8E4M3FN, #col_major>
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @cast_dual_types(%x: tensor<?x?x?xbf16>, %f: tensor<?x?xf32>, %ft: tensor<?x?xf32>) {
  // expected-error@below {{the kernel writes 'q' and 'q_t' with one element type; give both the same, or use a quantize_fp8 for each}}
  %q, %qt = "mx_quantize.cast_fp8_dual"(%x, %f, %ft) {sanitize = false}
      : (tensor<?x?x?xbf16>, tensor<?x?xf32>, tensor<?x?xf32>) -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E5M2, #col_major>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_output_stages(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule.output_stages' is 2; it must be 1 where both results are written, which take turns}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 2, warps = 8, ctas_per_sm = 1, band = 1, cluster = 1}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_cluster_goes_on(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule.cluster' is 8; it must be 1 where schedule.stages is not 1, and in all ops but mx_quantize.quantize_dual}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil", schedule = {stages = 2, cluster = 8}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_cluster_of_three(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule.cluster' is 3; it must be a power of two}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil", schedule = {stages = 1, cluster = 3}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @dual_cluster_of_narrow_tiles(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule.tile_k' is 64; it must be a multiple of 128 with a cluster}}
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil", schedule = {stages = 1, cluster = 4, tile_k = 64, warps = 4}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @cast_cluster(%x: tensor<?x?x?xbf16>, %f: tensor<?x?xf32>, %ft: tensor<?x?xf32>) {
  // expected-error@below {{'schedule.cluster' is 2; it must be 1 where schedule.stages is not 1, and in all ops but mx_quantize.quantize_dual}}
  %q, %qt = "mx_quantize.cast_fp8_dual"(%x, %f, %ft) {sanitize = false, schedule = {stages = 1, cluster = 2}}
      : (tensor<?x?x?xbf16>, tensor<?x?xf32>, tensor<?x?xf32>) -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @cast_dual_output_stages(%x: tensor<?x?x?xbf16>, %f: tensor<?x?xf32>, %ft: tensor<?x?xf32>) {
  // expected-error@below {{'schedule.output_stages' is 2; it must be 1 where both results are written, which take turns}}
  %q, %qt = "mx_quantize.cast_fp8_dual"(%x, %f, %ft) {sanitize = false,
      schedule = {tile_n = 128, tile_k = 128, stages = 2, output_stages = 2, warps = 8, ctas_per_sm = 1, band = 1}}
      : (tensor<?x?x?xbf16>, tensor<?x?xf32>, tensor<?x?xf32>) -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_q_types(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{the kernel writes 'q' and 'q_y' with one element type; give both the same, or use a quantize_fp8 for each}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN, #columns>, tensor<128x32xf8E5M2, #columns>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_types(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xf32>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{the kernel reads 'x' and 'y' with one element type; give both the same, or use a quantize_fp8 for each}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xf32>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_y(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16, #columns>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{the kernel has 'y' row-major; remove its encoding}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16, #columns>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_factors_y(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32, #columns>, %a4: tensor<4xi32>) {
  // expected-error@below {{the kernel has 'factors_y' row-major; remove its encoding}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32, #columns>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_q_y(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{the kernel writes 'q_y' column-major; give it the encoding affine_map<(m, k) -> (k, m)>}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_q(%a0: tensor<128x128xbf16>, %a1: tensor<128x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{the kernel writes 'q' column-major; give it the encoding affine_map<(m, k) -> (k, m)>}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN>, tensor<128x32xf8E4M3FN, #columns>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_columns(%a0: tensor<128x128xbf16>, %a1: tensor<128x24xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x24xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{operand 'y' has dimension 1 of size 24; the kernel needs a multiple of 16}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<128x128xbf16>, tensor<128x24xbf16>, tensor<4x128xf32>, tensor<4x24xf32>, tensor<4xi32>) -> (tensor<128x128xf8E4M3FN, #columns>, tensor<128x24xf8E4M3FN, #columns>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @cast_pair_rows(%a0: tensor<24x128xbf16>, %a1: tensor<24x32xbf16>, %a2: tensor<4x128xf32>, %a3: tensor<4x32xf32>, %a4: tensor<4xi32>) {
  // expected-error@below {{result 'q' has dimension 0 of size 24; it must be 128}}
  %r:2 = "mx_quantize.cast_fp8_pair"(%a0, %a1, %a2, %a3, %a4) {sanitize = false}
      : (tensor<24x128xbf16>, tensor<24x32xbf16>, tensor<4x128xf32>, tensor<4x32xf32>, tensor<4xi32>) -> (tensor<24x128xf8E4M3FN, #columns>, tensor<24x32xf8E4M3FN, #columns>)
  return
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @segment_without_groups(%w: tensor<?x?x?xbf16>) {
  // expected-error@below {{'schedule.segment' is 2; it must be 1 where no blocks of tokens are counted from the start of a group, and where groups are aligned}}
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {segment = 2}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @one_output_stage_of_groups(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>) {
  // expected-error@below {{'schedule.output_stages' is 1; it must be 2 where tiles begin with their group: what lies above a tile is written with it}}
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "1x128", pow2 = false, sanitize = false,
      schedule = {output_stages = 1}}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>)
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @tile_of_groups(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>) {
  // expected-error@below {{'schedule.tile_n' is 256; it must be 128 where tokens are in groups}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 256}}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @pieces(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64xf32>, %sb: tensor<2x16xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.pieces' is 2; 48 columns must divide into pieces of a multiple of 16}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 48, pieces = 2}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64xf32>, tensor<2x16xf32>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @mx_pieces(%qa: tensor<64x32xf8E4M3FN>, %qb: tensor<2x32x16xf8E4M3FN, #col_major>, %sa: tensor<64x1xf8E8M0FNU>, %sb: tensor<2x1x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.pieces' is 4; 64 columns must divide into pieces of a multiple of 32}}
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 1, tile_n = 64, pieces = 4}}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32x16xf8E4M3FN, #col_major>, tensor<64x1xf8E8M0FNU>, tensor<2x1x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x16xbf16>
  return
}

// -----

#mk_of_aligned = affine_map<(m, k) -> (k, m)>
func.func @segments_of_aligned_groups(%x: tensor<?x64xbf16>, %offs: tensor<2xi32>) -> (tensor<?x64xf8E4M3FN, #mk_of_aligned>, tensor<?x64xf8E8M0FNU>) {
  // expected-error@below {{'schedule.segment' is 2; it must be 1 where no blocks of tokens are counted from the start of a group, and where groups are aligned}}
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64, schedule = {segment = 2}}
      : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xf8E4M3FN, #mk_of_aligned>, tensor<?x64xf8E8M0FNU>)
  return %q, %s : tensor<?x64xf8E4M3FN, #mk_of_aligned>, tensor<?x64xf8E8M0FNU>
}

// -----

#mk_of_cast = affine_map<(m, k) -> (k, m)>
func.func @tiles_of_aligned_groups(%x: tensor<?x64xbf16>, %f: tensor<2x64xf32>, %offs: tensor<2xi32>) -> tensor<?x64xf8E4M3FN, #mk_of_cast> {
  // expected-error@below {{'schedule.tile_n' is 256; it must be 128 where groups are aligned}}
  %q = "mx_quantize.cast_fp8"(%x, %f, %offs) {axis = 0 : i64, granularity = "row", sanitize = false, align = 128 : i64, schedule = {tile_n = 256, tile_k = 64}}
      : (tensor<?x64xbf16>, tensor<2x64xf32>, tensor<2xi32>) -> tensor<?x64xf8E4M3FN, #mk_of_cast>
  return %q : tensor<?x64xf8E4M3FN, #mk_of_cast>
}

// -----

// Products of 16-bit operands, and what rounds.
func.func @halves_swapped(%a: tensor<?x64xbf16>, %b: tensor<2x64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.swap_operands' is 1; it must be 0 with operands of 16 bits}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) {schedule = {swap_operands = 1, tile_n = 64, pingpong = 0}} : (tensor<?x64xbf16>, tensor<2x64x32xbf16>, tensor<2xi32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func @halves_three_warpgroups(%a: tensor<?x64xbf16>, %b: tensor<2x64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.warpgroups' is 3; it must be 2 with operands of 16 bits}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) {schedule = {pingpong = 0, tile_n = 128, warpgroups = 3}} : (tensor<?x64xbf16>, tensor<2x64x32xbf16>, tensor<2xi32>) -> tensor<?x32xbf16>
  return
}

// -----

#km = affine_map<(m, k) -> (k, m)>
func.func @halves_order(%a: tensor<?x64xbf16, #km>, %b: tensor<2x64x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes a and out row-major, and b row-major or column-major; unless it is forward a may be column-major too}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<?x64xbf16, #km>, tensor<2x64x32xbf16>, tensor<2xi32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func @halves_tokens(%a: tensor<64x?xbf16>, %b: tensor<?x32xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes tokens that lie side by side only with 'align'; give a the encoding affine_map<(n, m) -> (m, n)>, and b none}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<64x?xbf16>, tensor<?x32xbf16>, tensor<2xi32>) -> tensor<2x64x32xbf16>
  return
}

// -----

func.func @halves_multiple(%a: tensor<?x64xbf16>, %b: tensor<2x64x36xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{dimension 2 of size 36}}
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<?x64xbf16>, tensor<2x64x36xbf16>, tensor<2xi32>) -> tensor<?x36xbf16>
  return
}

// -----

func.func @round_rank(%x: tensor<64x64x32xbf16>) {
  // expected-error@below {{no kernel rounds a tensor of rank 3 along axis 0; there are some for rank 2 and 3 along the last two dimensions}}
  %0 = "mx_quantize.round"(%x) {axis = 0 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<64x64x32xbf16>) -> tensor<64x64x32xbf16>
  return
}

// -----

#km = affine_map<(m, k) -> (k, m)>
func.func @round_order(%x: tensor<64x32xbf16, #km>) {
  // expected-error@below {{the kernel takes and writes row-major tensors; remove their encoding}}
  %0 = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<64x32xbf16, #km>) -> tensor<64x32xbf16, #km>
  return
}

// -----

func.func @round_lanes(%x: tensor<64x32xbf16>) {
  // expected-error@below {{'schedule.lanes' is 24 and 'schedule.vectors' is 4; they must be powers of two}}
  %0 = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN",
      schedule = {lanes = 24, vectors = 4}} : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return
}

// -----

func.func @round_warps(%x: tensor<64x32xbf16>) {
  // expected-error@below {{'schedule.warps' is 12; it must be a multiple of 8, the warps that have 32 rows with these lanes and vectors}}
  %0 = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN",
      schedule = {lanes = 32, vectors = 4, warps = 12}} : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return
}

// -----

// Operands that the kernel makes: in the orders in which it multiplies them, and by CTAs of their own.
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_of_row_major(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2>, %sa: tensor<48x2xf8E8M0FNU>,
                             %sb: tensor<2x2x32xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qb column-major per expert, and makes b so; give both the encoding affine_map<(e, k, n) -> (e, n, k)>}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_row_major(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                          %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qb column-major per expert, and makes b so; give both the encoding affine_map<(e, k, n) -> (e, n, k)>}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_tokens_column_major(%qa: tensor<48x64xf8E4M3FN, affine_map<(m, k) -> (k, m)>>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                    %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qa and sa row-major, and makes a so; remove their encoding}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN, affine_map<(m, k) -> (k, m)>>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_of_scales_column_major(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU, affine_map<(m, k) -> (k, m)>>,
                                       %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qa and sa row-major, and makes a so; remove their encoding}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU, affine_map<(m, k) -> (k, m)>>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_tokens_outermost(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                 %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes qa and sa row-major, and makes a so; remove their encoding}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16, affine_map<(m, k) -> (k, m)>>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_of_scales_elsewhere(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                    %sb: tensor<2x2x32xf8E8M0FNU, affine_map<(e, k, n) -> (k, e, n)>>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes sb row-major or column-major per expert; remove its encoding, or give it affine_map<(e, k, n) -> (e, n, k)>}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, affine_map<(e, k, n) -> (k, e, n)>>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_columns(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x36xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                        %sb: tensor<2x2x36xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'qb' has dimension 2 of size 36; the kernel needs a multiple of 8}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x36xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x36xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x36xbf16>, tensor<48x64xbf16>, tensor<2x64x36xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_in_clusters(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                            %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.cluster' is 2; it must be 1 where operands are made in the kernel}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs) {schedule = {cluster = 2}}
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_swapped(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                        %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.swap_operands' is 1; it must be 0 with operands of 16 bits}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs) {schedule = {swap_operands = 1, tile_n = 64, pingpong = 0}}
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_by_three_warpgroups(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                    %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule.warpgroups' is 3; it must be 2 with operands of 16 bits}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs) {schedule = {warpgroups = 3, tile_n = 128, pingpong = 0}}
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @made_out_column_major(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2, #col_major>, %sa: tensor<48x2xf8E8M0FNU>,
                                 %sb: tensor<2x2x32xf8E8M0FNU, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes a and out row-major, and b row-major or column-major; unless it is forward a may be column-major too}}
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<48x64xf8E4M3FN>, tensor<2x64x32xf8E5M2, #col_major>, tensor<48x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU, #col_major>, tensor<2xi32>)
      -> (tensor<48x32xbf16, affine_map<(m, n) -> (n, m)>>, tensor<48x64xbf16>, tensor<2x64x32xbf16, #col_major>, tensor<1xi32>, tensor<2x1xi32>)
  return
}
