// Every op gets a schedule; one that is there is kept.

// RUN: moe-opt %s --moe-expand-quantize --moe-select-schedule | FileCheck %s
// RUN: moe-opt %s --moe-expand-quantize --moe-select-schedule -o %t.once.mlir
// RUN: moe-opt %t.once.mlir --moe-select-schedule | diff %t.once.mlir -

// Another candidate: ops that have fewer get their default.
// RUN: moe-opt %s --moe-expand-quantize --moe-select-schedule=candidate=0 | diff %t.once.mlir -
// RUN: moe-opt %s --moe-expand-quantize --moe-select-schedule=candidate=5 | FileCheck %s --check-prefix=FIVE

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// The defaults. Changing one is a matter of measurements: docs/performance.
// CHECK-LABEL: func.func @defaults
// CHECK: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 3 : i64, output_stages = 1 : i64, segment = 1 : i64,
// CHECK-SAME: stages = 1 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 8 : i64}{{.*}}(tensor<?x?x?xbf16>)
// CHECK: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 2 : i64, segment = 1 : i64,
// CHECK-SAME: stages = 2 : i64, tile_k = 64 : i64, tile_n = 128 : i64, warps = 8 : i64}{{.*}}(tensor<4x64x48xf32>)
// FIVE-LABEL: func.func @defaults
// FIVE: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 1 : i64, segment = 1 : i64,
// FIVE-SAME: stages = 3 : i64, tile_k = 64 : i64, tile_n = 256 : i64, warps = 8 : i64}{{.*}}(tensor<?x?x?xbf16>)
// FIVE: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 1 : i64, output_stages = 2 : i64, segment = 1 : i64,
// FIVE-SAME: stages = 2 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 16 : i64}{{.*}}(tensor<4x64x48xf32>)
func.func @defaults(%a: tensor<?x?x?xbf16>, %b: tensor<4x64x48xf32>) {
  %qa, %sa = "mx_quantize.quantize"(%a) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  %qb, %sb = "mx_quantize.quantize"(%b) {axis = 1 : i64, block = 32 : i64, mode = "even"}
      : (tensor<4x64x48xf32>) -> (tensor<4x64x48xf8E5M2, #col_major>, tensor<4x2x48xf8E8M0FNU>)
  return
}

#mk_columns = affine_map<(m, k) -> (k, m)>

// Those of the other quantizers, of bf16 and of f32.
// CHECK-LABEL: func.func @other_defaults
// CHECK: "mx_quantize.quantize"{{.*}}axis = 1{{.*}}schedule = {chunks = 1 : i64, ctas_per_sm = 6 : i64, persistent = 0 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.quantize"{{.*}}axis = 1{{.*}}schedule = {chunks = 1 : i64, ctas_per_sm = 4 : i64, persistent = 0 : i64, warps = 8 : i64}} : (tensor<?x?xf32>
// CHECK: "mx_quantize.quantize_dual"{{.*}}schedule = {band = 1 : i64, cluster = 8 : i64, ctas_per_sm = 4 : i64, output_stages = 1 : i64, segment = 1 : i64, stages = 1 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 4 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.quantize_dual"{{.*}}schedule = {band = 1 : i64, cluster = 1 : i64, ctas_per_sm = 1 : i64, output_stages = 1 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 16 : i64}} : (tensor<?x?xf32>
// CHECK: "mx_quantize.quantize_fp8"{{.*}}granularity = "row"{{.*}}schedule = {buffer_kb = 208 : i64, ctas_per_sm = 1 : i64, stages = 64 : i64, warps = 16 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.quantize_fp8"{{.*}}granularity = "1x128"{{.*}}schedule = {chunks = 1 : i64, ctas_per_sm = 6 : i64, persistent = 0 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.quantize_fp8"{{.*}}granularity = "1x128"{{.*}}schedule = {chunks = 1 : i64, ctas_per_sm = 4 : i64, persistent = 0 : i64, warps = 8 : i64}} : (tensor<?x?xf32>
// CHECK: "mx_quantize.quantize_fp8"{{.*}}granularity = "128x128"{{.*}}schedule = {band = 1 : i64, ctas_per_sm = 4 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.quantize_fp8"{{.*}}granularity = "128x128"{{.*}}schedule = {band = 1 : i64, ctas_per_sm = 2 : i64, warps = 16 : i64}} : (tensor<?x?xf32>
// CHECK: "mx_quantize.scale_fp8"{{.*}}granularity = "tensor"{{.*}}schedule = {band = 1 : i64, ctas_per_sm = 1 : i64, rows_per_warp = 16 : i64, warps = 16 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.cast_fp8"{{.*}}axis = 1{{.*}}granularity = "tensor"{{.*}}schedule = {band = 1 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 512 : i64, tile_n = 32 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.cast_fp8"{{.*}}axis = 1{{.*}}granularity = "tensor"{{.*}}schedule = {band = 1 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 256 : i64, tile_n = 32 : i64, warps = 8 : i64}} : (tensor<?x?xf32>
// CHECK: "mx_quantize.cast_fp8"{{.*}}axis = 0{{.*}}granularity = "tensor"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.cast_fp8"{{.*}}axis = 0{{.*}}granularity = "tensor"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 64 : i64, tile_n = 128 : i64, warps = 8 : i64}} : (tensor<?x?xf32>
func.func @other_defaults(%a: tensor<?x?xbf16>, %b: tensor<?x?xf32>, %f: tensor<1xf32>) {
  %q0, %s0 = "mx_quantize.quantize"(%a) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  %q1, %s1 = "mx_quantize.quantize"(%b) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xf32>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  %q2, %s2, %qt2, %st2 = "mx_quantize.quantize_dual"(%a) {block = 32 : i64, mode = "rceil"} : (tensor<?x?xbf16>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf8E8M0FNU>)
  %q3, %s3, %qt3, %st3 = "mx_quantize.quantize_dual"(%b) {block = 32 : i64, mode = "rceil"} : (tensor<?x?xf32>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf8E8M0FNU>)
  %q4, %s4 = "mx_quantize.quantize_fp8"(%a) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>)
  %q5, %s5 = "mx_quantize.quantize_fp8"(%a) {axis = 1 : i64, granularity = "1x128", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>)
  %q6, %s6 = "mx_quantize.quantize_fp8"(%b) {axis = 1 : i64, granularity = "1x128", pow2 = true, sanitize = false}
      : (tensor<?x?xf32>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>)
  %q7, %s7 = "mx_quantize.quantize_fp8"(%a) {axis = 1 : i64, granularity = "128x128", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>)
  %q8, %s8 = "mx_quantize.quantize_fp8"(%b) {axis = 1 : i64, granularity = "128x128", pow2 = true, sanitize = false}
      : (tensor<?x?xf32>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>)
  %s9, %f9, %state9 = "mx_quantize.scale_fp8"(%a) {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<?x?xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  %q10 = "mx_quantize.cast_fp8"(%a, %f) {axis = 1 : i64, granularity = "tensor", sanitize = false}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  %q11 = "mx_quantize.cast_fp8"(%b, %f) {axis = 1 : i64, granularity = "tensor", sanitize = false}
      : (tensor<?x?xf32>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  %q12 = "mx_quantize.cast_fp8"(%a, %f) {axis = 0 : i64, granularity = "tensor", sanitize = false}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN, #mk_columns>
  %q13 = "mx_quantize.cast_fp8"(%b, %f) {axis = 0 : i64, granularity = "tensor", sanitize = false}
      : (tensor<?x?xf32>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN, #mk_columns>
  return
}

// A function that takes two passes has a schedule for each.
// CHECK-LABEL: func.func @two_passes
// CHECK: "mx_quantize.scale_fp8_dual"{{.*}}schedule = {band = 1 : i64, ctas_per_sm = 2 : i64, rows_per_warp = 16 : i64, warps = 8 : i64}} : (tensor<?x?x?xbf16>
// CHECK: "mx_quantize.cast_fp8_dual"{{.*}}schedule = {band = 1 : i64, cluster = 1 : i64, ctas_per_sm = 4 : i64, output_stages = 1 : i64, segment = 1 : i64, stages = 1 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 4 : i64}} : (tensor<?x?x?xbf16>
func.func @two_passes(%w: tensor<?x?x?xbf16>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%w) {pow2 = true, sanitize = false} : (tensor<?x?x?xbf16>)
      -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?xf32>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>)
  return
}

// A pair has the schedules of its halves.
// CHECK-LABEL: func.func @pairs
// CHECK: "mx_quantize.scale_fp8_pair"{{.*}}schedule = {band = 1 : i64, ctas_per_sm = 1 : i64, rows_per_warp = 16 : i64, warps = 16 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.cast_fp8_pair"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.scale_fp8_pair"{{.*}}schedule = {band = 1 : i64, ctas_per_sm = 1 : i64, rows_per_warp = 16 : i64, warps = 16 : i64}} : (tensor<?x?xf32>
// CHECK: "mx_quantize.cast_fp8_pair"{{.*}}schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 2 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 64 : i64, tile_n = 128 : i64, warps = 8 : i64}} : (tensor<?x?xf32>
func.func @pairs(%a: tensor<?x?xbf16>, %b: tensor<?x?xbf16>, %c: tensor<?x?xf32>, %d: tensor<?x?xf32>, %offs: tensor<?xi32>) {
  %q, %s, %qy, %sy = "mx_quantize.quantize_fp8_pair"(%a, %b, %offs) {pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf32>)
  %q2, %s2, %qy2, %sy2 = "mx_quantize.quantize_fp8_pair"(%c, %d, %offs) {pow2 = true, sanitize = false}
      : (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf32>)
  return
}

// Scales are packed row by row where rows are known to be short.
// CHECK-LABEL: func.func @layouts
// CHECK: "mx_quantize.pack_scales"{{.*}}schedule = {ctas_per_sm = 5 : i64, tile_columns = 64 : i64, warps = 8 : i64}} : (tensor<?x?xf8E8M0FNU>
// CHECK: "mx_quantize.pack_scales"{{.*}}schedule = {ctas_per_sm = 4 : i64, tile_columns = 160 : i64, warps = 8 : i64}} : (tensor<?x160xf8E8M0FNU>
// CHECK: "mx_quantize.pack_scales"{{.*}}schedule = {ctas_per_sm = 5 : i64, tile_columns = 64 : i64, warps = 8 : i64}} : (tensor<?x352xf8E8M0FNU>
// CHECK: "mx_quantize.pad_groups"{{.*}}schedule = {ctas_per_sm = 6 : i64, persistent = 0 : i64, vectors = 2 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
// CHECK: "mx_quantize.unpad_groups"{{.*}}schedule = {ctas_per_sm = 6 : i64, persistent = 0 : i64, vectors = 2 : i64, warps = 8 : i64}} : (tensor<?x?xbf16>
func.func @layouts(%a: tensor<?x?xf8E8M0FNU>, %b: tensor<?x160xf8E8M0FNU>, %c: tensor<?x352xf8E8M0FNU>, %x: tensor<?x?xbf16>, %offs: tensor<?xi32>) {
  %pa = "mx_quantize.pack_scales"(%a) {layout = "128x4"} : (tensor<?x?xf8E8M0FNU>) -> tensor<?x?xf8E8M0FNU>
  %pb = "mx_quantize.pack_scales"(%b) {layout = "128x4"} : (tensor<?x160xf8E8M0FNU>) -> tensor<?x160xf8E8M0FNU>
  %pc = "mx_quantize.pack_scales"(%c) {layout = "128x4"} : (tensor<?x352xf8E8M0FNU>) -> tensor<?x352xf8E8M0FNU>
  %p, %po = "mx_quantize.pad_groups"(%x, %offs) {align = 16 : i64} : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xbf16>, tensor<?xi32>)
  %u = "mx_quantize.unpad_groups"(%p, %offs, %po) {align = 16 : i64} : (tensor<?x?xbf16>, tensor<?xi32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return
}

// CHECK-LABEL: func.func @given
// CHECK: schedule = {band = 1 : i64, cluster = 1 : i64, ctas_per_sm = 1 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 1 : i64, tile_k = 32 : i64,
// CHECK-SAME: tile_n = 256 : i64, warps = 2 : i64}
// FIVE-LABEL: func.func @given
// FIVE: schedule = {band = 1 : i64, cluster = 1 : i64, ctas_per_sm = 1 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 1 : i64, tile_k = 32 : i64,
func.func @given(%w: tensor<?x?x?xf32>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 256, tile_k = 32, stages = 1, output_stages = 2, warps = 2, ctas_per_sm = 1, band = 1}}
      : (tensor<?x?x?xf32>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

#kn_col_major = affine_map<(e, k, n) -> (e, n, k)>

// CHECK-LABEL: func.func @products
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "fast", schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 1 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 6 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 1 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<?x?xf8E4M3FN>, tensor<?x?x?x
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "promoted", schedule = {band = 12 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 5 : i64, swap_operands = 0 : i64, tile_n = 192 : i64, tma_store = 1 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<?x?xf8E4M3FN>, tensor<?x?x?x
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "fast", schedule = {band = 16 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 1 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 6 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 1 : i64, warpgroups = 2 : i64, wide_stages = 5 : i64}} : (tensor<48x64xf8E5M2>, tensor<64x32x
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "promoted", schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 1 : i64, staged = 128 : i64, stages = 4 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 2 : i64, warpgroups = 3 : i64, wide_stages = 0 : i64}} : (tensor<48x64xf8E5M2>, tensor<64x32x
//
// Where groups are rows, there are candidates with swapped operands.
// FIVE-LABEL: func.func @products
// FIVE: {accumulate = "fast", schedule = {band = 16 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 4 : i64, swap_operands = 0 : i64, tile_n = 256 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}}
// FIVE: {accumulate = "promoted", schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 2 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 7 : i64, swap_operands = 1 : i64, tile_n = 64 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}}
// FIVE: {accumulate = "fast", schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 4 : i64, swap_operands = 0 : i64, tile_n = 256 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}}
// FIVE: {accumulate = "promoted", schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 6 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}}
func.func @products(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #kn_col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                    %offs: tensor<?xi32>, %ga: tensor<48x64xf8E5M2>, %gb: tensor<64x32xf8E4M3FN, #mk_columns>,
                    %gsa: tensor<2x48xf32>, %gsb: tensor<2x32xf32>, %goffs: tensor<2xi32>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  %1 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  %2 = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %gsa, %gsb, %goffs) {accumulate = "fast"}
      : (tensor<48x64xf8E5M2>, tensor<64x32xf8E4M3FN, #mk_columns>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x48x32xbf16>
  %3 = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %gsa, %gsb, %goffs) {accumulate = "promoted"}
      : (tensor<48x64xf8E5M2>, tensor<64x32xf8E4M3FN, #mk_columns>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x48x32xbf16>
  return
}

// Scales of FP8 blocks, 512 tokens an expert and more, or not known how many: three warpgroups multiply, and each lane stores what it has; also with a bias. Below 512
// two warpgroups do. Few tokens are few here too.
// CHECK-LABEL: func.func @fp8_blocks
// CHECK: schedule = {band = 11 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 1 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 5 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 0 : i64, warpgroups = 3 : i64, wide_stages = 0 : i64}} : (tensor<?x?x
// CHECK: schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 4 : i64, swap_operands = 0 : i64, tile_n = 192 : i64, tma_store = 3 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<2x128x128x
// CHECK: schedule = {band = 11 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 1 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 5 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 0 : i64, warpgroups = 3 : i64, wide_stages = 0 : i64}} : (tensor<2x512x128x
// CHECK: schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 3 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 6 : i64, swap_operands = 1 : i64, tile_n = 96 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<64x128x
func.func @fp8_blocks(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #kn_col_major>, %sa: tensor<?x?xf32, #mk_columns>, %sb: tensor<?x?x?xf32, #kn_col_major>,
                      %offs: tensor<?xi32>, %a: tensor<2x128x128xf8E4M3FN>, %b: tensor<2x128x48xf8E4M3FN, #kn_col_major>,
                      %as: tensor<2x128x1xf32, #kn_col_major>, %bs: tensor<2x1x1xf32, #kn_col_major>, %bias: tensor<2x48xf32>,
                      %a512: tensor<2x512x128xf8E4M3FN>, %as512: tensor<2x512x1xf32, #kn_col_major>,
                      %few: tensor<64x128xf8E4M3FN>, %fews: tensor<64x1xf32, #mk_columns>, %ends: tensor<2xi32>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?x?xf32, #mk_columns>, tensor<?x?x?xf32, #kn_col_major>, tensor<?xi32>) -> tensor<?x?xbf16>
  %1 = "scaled_grouped_mm.scaled_mm_bias"(%a, %b, %as, %bs, %bias) {accumulate = "promoted"}
      : (tensor<2x128x128xf8E4M3FN>, tensor<2x128x48xf8E4M3FN, #kn_col_major>, tensor<2x128x1xf32, #kn_col_major>, tensor<2x1x1xf32, #kn_col_major>, tensor<2x48xf32>) -> tensor<2x128x48xf32>
  %3 = "scaled_grouped_mm.scaled_mm_bias"(%a512, %b, %as512, %bs, %bias) {accumulate = "promoted"}
      : (tensor<2x512x128xf8E4M3FN>, tensor<2x128x48xf8E4M3FN, #kn_col_major>, tensor<2x512x1xf32, #kn_col_major>, tensor<2x1x1xf32, #kn_col_major>, tensor<2x48xf32>) -> tensor<2x512x48xf32>
  %2 = "scaled_grouped_mm.scaled_mm"(%few, %b, %fews, %bs, %ends) {accumulate = "promoted"}
      : (tensor<64x128xf8E4M3FN>, tensor<2x128x48xf8E4M3FN, #kn_col_major>, tensor<64x1xf32, #mk_columns>, tensor<2x1x1xf32, #kn_col_major>, tensor<2xi32>) -> tensor<64x48xbf16>
  return
}

// A few tokens for each expert, where types say so: operands are swapped, and a tile has pieces that are narrower than their average. 64 tokens are for 2
// experts as many as 32 in a batch; those of 128 are not few, and a gradient has no few tokens. Of a batch the experts need not be known.
// CHECK-LABEL: func.func @few_tokens
// CHECK: schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 4 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 8 : i64, swap_operands = 1 : i64, tile_n = 64 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<32x64x
// CHECK: schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 3 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 6 : i64, swap_operands = 1 : i64, tile_n = 96 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<64x64x
// CHECK: schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 3 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 7 : i64, swap_operands = 1 : i64, tile_n = 96 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<2x32x64x
// CHECK: schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 4 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 5 : i64, swap_operands = 1 : i64, tile_n = 128 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<2x33x64x
// CHECK: schedule = {band = 12 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 5 : i64, swap_operands = 0 : i64, tile_n = 192 : i64, tma_store = 1 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}} : (tensor<2x128x64x
// CHECK: schedule = {band = 16 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 1 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 6 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 1 : i64, warpgroups = 2 : i64, wide_stages = 5 : i64}} : (tensor<16x16x
// CHECK: schedule = {band = 8 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 3 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 7 : i64, swap_operands = 1 : i64, tile_n = 96 : i64, tma_store = 0 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}}
func.func @few_tokens(%q32: tensor<32x64xf8E4M3FN>, %q64: tensor<64x64xf8E4M3FN>, %b32: tensor<2x32x64xf8E4M3FN>,
                      %b33: tensor<2x33x64xf8E4M3FN>, %b128: tensor<2x128x64xf8E4M3FN>, %qb: tensor<2x64x48xf8E4M3FN, #kn_col_major>,
                      %sa: tensor<1xf32>, %sb: tensor<2xf32>, %offs: tensor<2xi32>, %bias: tensor<2x48xf16>,
                      %ga: tensor<16x16xf8E4M3FN>, %gb: tensor<16x16xf8E4M3FN, #mk_columns>,
                      %any32: tensor<?x32x64xf8E4M3FN>, %any: tensor<?x64x48xf8E4M3FN, #kn_col_major>, %sany: tensor<?xf32>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%q32, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<32x64xf8E4M3FN>, tensor<2x64x48xf8E4M3FN, #kn_col_major>, tensor<1xf32>, tensor<2xf32>, tensor<2xi32>) -> tensor<32x48xbf16>
  %1 = "scaled_grouped_mm.scaled_mm_bias"(%q64, %qb, %sa, %sb, %offs, %bias) {accumulate = "promoted"}
      : (tensor<64x64xf8E4M3FN>, tensor<2x64x48xf8E4M3FN, #kn_col_major>, tensor<1xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2x48xf16>) -> tensor<64x48xf16>
  %2 = "scaled_grouped_mm.scaled_mm"(%b32, %qb, %sb, %sb) {accumulate = "fast"}
      : (tensor<2x32x64xf8E4M3FN>, tensor<2x64x48xf8E4M3FN, #kn_col_major>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x32x48xf32>
  %3 = "scaled_grouped_mm.scaled_mm"(%b33, %qb, %sb, %sb) {accumulate = "fast"}
      : (tensor<2x33x64xf8E4M3FN>, tensor<2x64x48xf8E4M3FN, #kn_col_major>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x33x48xf32>
  %4 = "scaled_grouped_mm.scaled_mm"(%b128, %qb, %sb, %sb) {accumulate = "promoted"}
      : (tensor<2x128x64xf8E4M3FN>, tensor<2x64x48xf8E4M3FN, #kn_col_major>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x128x48xf32>
  %5 = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %sb, %sb, %offs) {accumulate = "fast"}
      : (tensor<16x16xf8E4M3FN>, tensor<16x16xf8E4M3FN, #mk_columns>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) -> tensor<2x16x16xbf16>
  %6 = "scaled_grouped_mm.scaled_mm"(%any32, %any, %sany, %sany) {accumulate = "fast"}
      : (tensor<?x32x64xf8E4M3FN>, tensor<?x64x48xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?xf32>) -> tensor<?x32x48xf32>
  return
}

// CHECK-LABEL: func.func @given_products
// CHECK: schedule = {band = 1 : i64, beside = 0 : i64, cluster = 2 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 6 : i64, swap_operands = 0 : i64, tile_n = 128 : i64, tma_store = 1 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}
// CHECK: schedule = {band = 4096 : i64, beside = 0 : i64, cluster = 1 : i64, direct = 0 : i64, in_step = 0 : i64, pieces = 1 : i64, pingpong = 0 : i64, rotate = 0 : i64, staged = 128 : i64, stages = 8 : i64, swap_operands = 1 : i64, tile_n = 48 : i64, tma_store = 1 : i64, warpgroups = 2 : i64, wide_stages = 0 : i64}
func.func @given_products(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #kn_col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                          %offs: tensor<?xi32>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 128, stages = 6, band = 1, cluster = 2, pingpong = 0}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  %1 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {swap_operands = 1, tile_n = 48, stages = 8, band = 4096, cluster = 1, pingpong = 0}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return
}

// A field that is not given has the value of the default; the older name of a field is read, and is printed by its name.
// CHECK-LABEL: func.func @some_fields
// CHECK: schedule = {band = 64 : i64, cluster = 1 : i64, ctas_per_sm = 3 : i64, output_stages = 1 : i64, segment = 1 : i64, stages = 1 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 8 : i64}
// CHECK: schedule = {band = 1024 : i64, cluster = 1 : i64, ctas_per_sm = 1 : i64, output_stages = 2 : i64, segment = 1 : i64, stages = 2 : i64, tile_k = 64 : i64, tile_n = 128 : i64, warps = 8 : i64}
func.func @some_fields(%a: tensor<?x?x?xbf16>, %b: tensor<?x?x?xf32>) {
  %qa, %sa = "mx_quantize.quantize"(%a) {axis = 1 : i64, block = 32 : i64, mode = "rceil", schedule = {band = 64}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  %qb, %sb = "mx_quantize.quantize"(%b) {axis = 1 : i64, block = 32 : i64, mode = "rceil", schedule = {ctas_per_sm = 1}}
      : (tensor<?x?x?xf32>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}
