// Dequantizations without a kernel, and schedules that no kernel can have.

// RUN: moe-opt %s --split-input-file --moe-select-schedule --verify-diagnostics

func.func @axis_0(%q: tensor<32x4x16xf8E4M3FN>, %s: tensor<1x4x16xf8E8M0FNU>) {
  // expected-error@below {{no kernel dequantizes a tensor of rank 3 along axis 0; there are some for rank 2 and 3 along the last two dimensions}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<32x4x16xf8E4M3FN>, tensor<1x4x16xf8E8M0FNU>) -> tensor<32x4x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @q_column_major(%q: tensor<4x32xf8E4M3FN, #col_major>, %s: tensor<4x1xf8E8M0FNU>) {
  // expected-error@below {{the kernel takes q row-major along axis 1; remove its encoding}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64}
      : (tensor<4x32xf8E4M3FN, #col_major>, tensor<4x1xf8E8M0FNU>) -> tensor<4x32xbf16>
  return
}

// -----

func.func @q_row_major(%q: tensor<32x16xf8E4M3FN>, %s: tensor<1x16xf8E8M0FNU>) {
  // expected-error@below {{the kernel takes q column-major along axis 0; give it the encoding affine_map<(m, k) -> (k, m)>}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<32x16xf8E4M3FN>, tensor<1x16xf8E8M0FNU>) -> tensor<32x16xbf16>
  return
}

// -----

func.func @q_row_major_3(%q: tensor<2x32x16xf8E4M3FN>, %s: tensor<2x16xf32>) {
  // expected-error@below {{the kernel takes q column-major along axis 1; give it the encoding affine_map<(e, n, k) -> (e, k, n)>}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64}
      : (tensor<2x32x16xf8E4M3FN>, tensor<2x16xf32>) -> tensor<2x32x16xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @x_column_major(%q: tensor<4x32xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error@below {{the kernel takes scales and writes x row-major; remove their encoding}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64}
      : (tensor<4x32xf8E4M3FN>, tensor<4xf32>) -> tensor<4x32xbf16, #col_major>
  return
}

// -----

// Blocks of a group that begins anywhere cut a row of tokens at any place.
#col_major = affine_map<(m, k) -> (k, m)>
func.func @side_by_side(%q: tensor<64x32xf8E4M3FN, #col_major>, %s: tensor<4x32xf8E8M0FNU>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel writes x row-major where groups begin anywhere; remove its encoding, or give 'align'}}
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x32xf8E4M3FN, #col_major>, tensor<4x32xf8E8M0FNU>, tensor<2xi32>) -> tensor<64x32xbf16, #col_major>
  return
}

// -----

func.func @k(%q: tensor<4x24xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error@below {{operand 'q' has dimension 1 of size 24; the kernel needs a multiple of 16}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64}
      : (tensor<4x24xf8E4M3FN>, tensor<4xf32>) -> tensor<4x24xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @m(%q: tensor<24x32xf8E4M3FN, #col_major>, %s: tensor<1xf32>) {
  // expected-error@below {{operand 'q' has dimension 0 of size 24; the kernel needs a multiple of 16}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "tensor", axis = 0 : i64}
      : (tensor<24x32xf8E4M3FN, #col_major>, tensor<1xf32>) -> tensor<24x32xbf16>
  return
}

// -----

func.func @vector(%q: tensor<4x32xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error@below {{'schedule.tile_k' is 36; it must be a multiple of 8}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64,
      schedule = {tile_n = 8, tile_k = 36, warps = 1, ctas_per_sm = 1, band = 1}}
      : (tensor<4x32xf8E4M3FN>, tensor<4xf32>) -> tensor<4x32xbf16>
  return
}

// -----

func.func @lanes(%q: tensor<4x32xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error@below {{'schedule.tile_k' is 96; its 12 vectors must divide the 64 threads}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64,
      schedule = {tile_n = 8, tile_k = 96, warps = 2, ctas_per_sm = 1, band = 1}}
      : (tensor<4x32xf8E4M3FN>, tensor<4xf32>) -> tensor<4x32xbf16>
  return
}

// -----

func.func @rows(%q: tensor<4x32xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error@below {{'schedule.tile_n' is 12; it must be a multiple of 8, the rows that the threads take at once}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64,
      schedule = {tile_n = 12, tile_k = 64, warps = 2, ctas_per_sm = 1, band = 1}}
      : (tensor<4x32xf8E4M3FN>, tensor<4xf32>) -> tensor<4x32xbf16>
  return
}

// -----

func.func @vectors(%q: tensor<4x32xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error@below {{'schedule' gives each thread 32 vectors; it may have at most 16}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64,
      schedule = {tile_n = 256, tile_k = 64, warps = 2, ctas_per_sm = 1, band = 1}}
      : (tensor<4x32xf8E4M3FN>, tensor<4xf32>) -> tensor<4x32xbf16>
  return
}

// -----

func.func @registers(%q: tensor<4x32xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error@below {{'schedule' leaves 40 registers to each of 1536 threads; the kernel needs 64}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "row", axis = 1 : i64,
      schedule = {tile_n = 64, tile_k = 256, warps = 8, ctas_per_sm = 6, band = 1}}
      : (tensor<4x32xf8E4M3FN>, tensor<4xf32>) -> tensor<4x32xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @panel(%q: tensor<16x32xf8E4M3FN, #col_major>, %s: tensor<1xf32>) {
  // expected-error@below {{'schedule.tile_n' is 64; it must be a multiple of 128}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "tensor", axis = 0 : i64,
      schedule = {tile_n = 64, tile_k = 128, warps = 8, ctas_per_sm = 1, band = 1}}
      : (tensor<16x32xf8E4M3FN, #col_major>, tensor<1xf32>) -> tensor<16x32xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @item(%q: tensor<16x32xf8E4M3FN, #col_major>, %s: tensor<1xf32>) {
  // expected-error@below {{'schedule.tile_k' is 96; it must be a multiple of 64}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "tensor", axis = 0 : i64,
      schedule = {tile_n = 128, tile_k = 96, warps = 8, ctas_per_sm = 1, band = 1}}
      : (tensor<16x32xf8E4M3FN, #col_major>, tensor<1xf32>) -> tensor<16x32xbf16>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @items(%q: tensor<16x32xf8E4M3FN, #col_major>, %s: tensor<1xf32>) {
  // expected-error@below {{'schedule.warps' is 6; it must divide the tile's 16 items of 16 rows and 128 bytes, and a quarter of its columns}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {granularity = "tensor", axis = 0 : i64,
      schedule = {tile_n = 128, tile_k = 128, warps = 6, ctas_per_sm = 1, band = 1}}
      : (tensor<16x32xf8E4M3FN, #col_major>, tensor<1xf32>) -> tensor<16x32xbf16>
  return
}

// -----

// 8 KB of q, the groups of 128 rows, and the table of 1024 groups.
#col_major = affine_map<(m, k) -> (k, m)>
func.func @shared_memory(%q: tensor<?x?xf8E4M3FN, #col_major>, %s: tensor<?x?xf32>, %offs: tensor<?xi32>) {
  // expected-error@below {{'schedule' needs 16896 bytes of shared memory in each of 16 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %x = "mx_quantize.dequantize_fp8"(%q, %s, %offs) {granularity = "row", axis = 0 : i64,
      schedule = {tile_n = 128, tile_k = 64, warps = 2, ctas_per_sm = 16, band = 1}}
      : (tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return
}

// -----

func.func @order_persistent(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf8E8M0FNU>) {
  // expected-error@below {{'schedule.persistent' is 1; it must be 0 with 'order'}}
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64, order = "evens_first", schedule = {tile_n = 16, tile_k = 1024, persistent = 1}}
      : (tensor<64x32xf8E4M3FN>, tensor<64x1xf8E8M0FNU>) -> tensor<64x32xbf16>
  return
}
