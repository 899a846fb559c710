// Uses of pack_scales, pad_groups and unpad_groups without a kernel, and schedules that no kernel can have.

// RUN: moe-opt %s --split-input-file --moe-select-schedule --verify-diagnostics

#col_major = affine_map<(m, k) -> (k, m)>
func.func @scales_order(%s: tensor<128x4xf8E8M0FNU, #col_major>) {
  // expected-error@below {{the kernel takes scales and writes packed row-major; remove their encoding}}
  %p = "mx_quantize.pack_scales"(%s) {layout = "128x4"} : (tensor<128x4xf8E8M0FNU, #col_major>) -> tensor<128x4xf8E8M0FNU>
  return
}

// -----

func.func @tile_columns(%s: tensor<128x4xf8E8M0FNU>) {
  // expected-error@below {{'schedule.tile_columns' is 24; it must be a multiple of 16}}
  %p = "mx_quantize.pack_scales"(%s) {layout = "128x4", schedule = {tile_columns = 24, warps = 2, ctas_per_sm = 1}}
      : (tensor<128x4xf8E8M0FNU>) -> tensor<128x4xf8E8M0FNU>
  return
}

// -----

func.func @pack_warps(%s: tensor<128x4xf8E8M0FNU>) {
  // expected-error@below {{'schedule.warps' is 3; it must divide the 4 tiles of 128 x 4}}
  %p = "mx_quantize.pack_scales"(%s) {layout = "128x4", schedule = {tile_columns = 16, warps = 3, ctas_per_sm = 1}}
      : (tensor<128x4xf8E8M0FNU>) -> tensor<128x4xf8E8M0FNU>
  return
}

// -----

func.func @pack_shared_memory(%s: tensor<128x4xf8E8M0FNU>) {
  // expected-error@below {{'schedule' needs 66048 bytes of shared memory in each of 4 CTAs; a multiprocessor has 233472, and reserves 1024 for each CTA}}
  %p = "mx_quantize.pack_scales"(%s) {layout = "128x4", schedule = {tile_columns = 512, warps = 8, ctas_per_sm = 4}}
      : (tensor<128x4xf8E8M0FNU>) -> tensor<128x4xf8E8M0FNU>
  return
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
func.func @x_order(%x: tensor<8x16xbf16, #col_major>, %offs: tensor<2xi32>) {
  // expected-error@below {{the kernel takes x and padded row-major; remove their encoding}}
  %p, %po = "mx_quantize.pad_groups"(%x, %offs) {align = 16 : i64}
      : (tensor<8x16xbf16, #col_major>, tensor<2xi32>) -> (tensor<48x16xbf16>, tensor<2xi32>)
  return
}

// -----

func.func @x_row_bytes(%x: tensor<8x12xbf16>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'x' has dimension 1 of size 12; the kernel needs a multiple of 8}}
  %p, %po = "mx_quantize.pad_groups"(%x, %offs) {align = 16 : i64}
      : (tensor<8x12xbf16>, tensor<2xi32>) -> (tensor<48x12xbf16>, tensor<2xi32>)
  return
}

// -----

func.func @padded_row_bytes(%p: tensor<48x24xf8E4M3FN>, %offs: tensor<2xi32>) {
  // expected-error@below {{operand 'padded' has dimension 1 of size 24; the kernel needs a multiple of 16}}
  %x = "mx_quantize.unpad_groups"(%p, %offs, %offs) {align = 16 : i64}
      : (tensor<48x24xf8E4M3FN>, tensor<2xi32>, tensor<2xi32>) -> tensor<48x24xf8E4M3FN>
  return
}

// -----

func.func @registers(%p: tensor<48x32xf32>, %offs: tensor<2xi32>) {
  // expected-error@below {{'schedule' leaves 48 registers to each of 1280 threads; the kernel needs 64}}
  %x = "mx_quantize.unpad_groups"(%p, %offs, %offs) {align = 16 : i64, schedule = {vectors = 8, warps = 8, ctas_per_sm = 5}}
      : (tensor<48x32xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<48x32xf32>
  return
}

// -----

func.func @pack_registers(%s: tensor<128x4xf8E8M0FNU>) {
  // expected-error@below {{'schedule' leaves 32 registers to each of 2048 threads; the kernel needs 48}}
  %p = "mx_quantize.pack_scales"(%s) {layout = "128x4", schedule = {tile_columns = 64, warps = 8, ctas_per_sm = 8}}
      : (tensor<128x4xf8E8M0FNU>) -> tensor<128x4xf8E8M0FNU>
  return
}
