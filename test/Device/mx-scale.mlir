// The scale of a block, in each mode and for both element types: the constants of docs/numerics.md, section 2.
//
// NaN becomes Inf by an unsigned minimum with 0x7F800000 = 2139095040 before anything is added to the bits.

// RUN: moe-opt %s --convert-mx-quantize-to-nvvm | FileCheck %s

#col_major = affine_map<(e, n, k) -> (e, k, n)>

gpu.module @kernels {
  // d = amax * 2^-8, its exponent. The reciprocal is the float of byte 254 - scale, NaN for 255.
  // CHECK-LABEL: llvm.func @floor_e4m3(
  // CHECK: %[[BITS:.*]] = arith.minui %{{.*}}, %c2139095040_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[FACTOR:.*]] = arith.constant 3.906250e-03 : f32
  // CHECK: %[[AMAX:.*]] = llvm.bitcast %[[BITS]] : i32 to f32
  // CHECK: %[[D:.*]] = arith.mulf %[[AMAX]], %[[FACTOR]]
  // CHECK: %[[D_BITS:.*]] = llvm.bitcast %[[D]]
  // CHECK: %[[SCALE:.*]] = arith.shrui %[[D_BITS]], %c23_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[DIFFERENCE:.*]] = arith.subi %c254_i32{{(_[0-9]+)?}}, %[[SCALE]]
  // CHECK: %[[POWER:.*]] = arith.shli %[[DIFFERENCE]], %c23_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[IS_NAN:.*]] = arith.cmpi eq, %[[SCALE]], %c255_i32{{(_[0-9]+)?}} : i32
  // CHECK: arith.select %[[IS_NAN]], %c2143289344_i32{{(_[0-9]+)?}}, %[[POWER]]
  func.func @floor_e4m3(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "floor",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }

  // CHECK-LABEL: llvm.func @floor_e5m2(
  // CHECK: arith.minui
  // CHECK: arith.constant 3.05175781E-5 : f32
  // CHECK: nvvm.convert.f32x2.to.f8x2 {{.*}}f8E5M2
  func.func @floor_e5m2(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "floor",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }

  // d = amax * fp32(1/448); up to 2^-127 = 0x00400000 the byte is 0, above it the exponent is rounded up.
  // CHECK-LABEL: llvm.func @rceil_e4m3(
  // CHECK: arith.minui
  // CHECK: arith.constant 0.00223214296 : f32
  // CHECK: %[[D:.*]] = llvm.bitcast %{{.*}} : f32 to i32
  // CHECK: %[[IS_TINY:.*]] = arith.cmpi ult, %[[D]], %c4194305_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[UP:.*]] = arith.addi %[[D]], %c8388607_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[EXPONENT:.*]] = arith.shrui %[[UP]], %c23_i32{{(_[0-9]+)?}} : i32
  // CHECK: arith.select %[[IS_TINY]], %c0_i32{{(_[0-9]+)?}}, %[[EXPONENT]]
  func.func @rceil_e4m3(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }

  // CHECK-LABEL: llvm.func @rceil_e5m2(
  // CHECK: arith.minui
  // CHECK: arith.constant 1.74386169E-5 : f32
  func.func @rceil_e5m2(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }

  // The exponent of amax rounded up, less 8, not below 0; Inf gives 255. Nothing is multiplied.
  // CHECK-LABEL: llvm.func @ceil_e4m3(
  // CHECK: %[[BITS:.*]] = arith.minui
  // CHECK-NOT: arith.mulf
  // CHECK: %[[SUM:.*]] = arith.addi %[[BITS]], %c8388607_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[UP:.*]] = arith.shrui %[[SUM]], %c23_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[MIN:.*]] = arith.minui %[[UP]], %c8_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[SCALE:.*]] = arith.subi %[[UP]], %[[MIN]]
  // CHECK: %[[IS_INF:.*]] = arith.cmpi eq, %[[BITS]], %c2139095040_i32{{(_[0-9]+)?}} : i32
  // CHECK: arith.select %[[IS_INF]], %c255_i32{{(_[0-9]+)?}}, %[[SCALE]]
  func.func @ceil_e4m3(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "ceil",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }

  // CHECK-LABEL: llvm.func @ceil_e5m2(
  // CHECK: arith.minui %{{.*}}, %c2139095040_i32{{(_[0-9]+)?}} : i32
  // CHECK: arith.minui %{{.*}}, %c15_i32{{(_[0-9]+)?}} : i32
  func.func @ceil_e5m2(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "ceil",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }

  // amax rounded to 3 (E5M2: 2) bits of mantissa by adding half of the last one, 2^19 (2^20), then like floor.
  // CHECK-LABEL: llvm.func @even_e4m3(
  // CHECK: %[[BITS:.*]] = arith.minui
  // CHECK: %[[SUM:.*]] = arith.addi %[[BITS]], %c524288_i32{{(_[0-9]+)?}} : i32
  // CHECK: %[[ROUNDED:.*]] = arith.andi %[[SUM]], %c2139095040_i32{{(_[0-9]+)?}} : i32
  // CHECK: arith.constant 3.906250e-03 : f32
  // CHECK: llvm.bitcast %[[ROUNDED]] : i32 to f32
  func.func @even_e4m3(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "even",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }

  // CHECK-LABEL: llvm.func @even_e5m2(
  // CHECK: arith.minui
  // CHECK: arith.addi %{{.*}}, %c1048576_i32{{(_[0-9]+)?}} : i32
  // CHECK: arith.constant 3.05175781E-5 : f32
  func.func @even_e5m2(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "even",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, blocks_per_sm = 1, band = 1}}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return %q, %s : tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>
  }
}
