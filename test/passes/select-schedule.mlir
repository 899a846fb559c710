// Every op gets a schedule; one that is there is kept.

// RUN: moe-opt %s --moe-select-schedule | FileCheck %s
// RUN: moe-opt %s --moe-select-schedule -o %t.once.mlir
// RUN: moe-opt %t.once.mlir --moe-select-schedule | diff %t.once.mlir -

// Another candidate: ops that have fewer get their default.
// RUN: moe-opt %s --moe-select-schedule=candidate=0 | diff %t.once.mlir -
// RUN: moe-opt %s --moe-select-schedule=candidate=5 | FileCheck %s --check-prefix=FIVE

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// The two defaults. Changing one is a matter of measurements: docs/performance.
// CHECK-LABEL: func.func @defaults
// CHECK: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, blocks_per_sm = 2 : i64, output_stages = 1 : i64,
// CHECK-SAME: stages = 3 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 8 : i64}{{.*}}(tensor<?x?x?xbf16>)
// CHECK: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, blocks_per_sm = 2 : i64, output_stages = 2 : i64,
// CHECK-SAME: stages = 2 : i64, tile_k = 64 : i64, tile_n = 128 : i64, warps = 8 : i64}{{.*}}(tensor<4x64x48xf32>)
// FIVE-LABEL: func.func @defaults
// FIVE: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, blocks_per_sm = 1 : i64, output_stages = 1 : i64,
// FIVE-SAME: stages = 2 : i64, tile_k = 128 : i64, tile_n = 256 : i64, warps = 16 : i64}{{.*}}(tensor<?x?x?xbf16>)
// FIVE: "mx_quantize.quantize"{{.*}}schedule = {band = 1024 : i64, blocks_per_sm = 1 : i64, output_stages = 2 : i64,
// FIVE-SAME: stages = 2 : i64, tile_k = 128 : i64, tile_n = 128 : i64, warps = 16 : i64}{{.*}}(tensor<4x64x48xf32>)
func.func @defaults(%a: tensor<?x?x?xbf16>, %b: tensor<4x64x48xf32>) {
  %qa, %sa = "mx_quantize.quantize"(%a) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  %qb, %sb = "mx_quantize.quantize"(%b) {axis = 1 : i64, block = 32 : i64, mode = "even"}
      : (tensor<4x64x48xf32>) -> (tensor<4x64x48xf8E5M2, #col_major>, tensor<4x2x48xf8E8M0FNU>)
  return
}

// CHECK-LABEL: func.func @given
// CHECK: schedule = {band = 1 : i64, blocks_per_sm = 1 : i64, output_stages = 2 : i64, stages = 1 : i64, tile_k = 32 : i64,
// CHECK-SAME: tile_n = 256 : i64, warps = 2 : i64}
// FIVE-LABEL: func.func @given
// FIVE: schedule = {band = 1 : i64, blocks_per_sm = 1 : i64, output_stages = 2 : i64, stages = 1 : i64, tile_k = 32 : i64,
func.func @given(%w: tensor<?x?x?xf32>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 256, tile_k = 32, stages = 1, output_stages = 2, warps = 2, blocks_per_sm = 1, band = 1}}
      : (tensor<?x?x?xf32>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return
}

#kn_col_major = affine_map<(e, k, n) -> (e, n, k)>
#mk_col_major = affine_map<(m, k) -> (k, m)>

// CHECK-LABEL: func.func @products
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "fast", schedule = {band = 8 : i64, stages = 4 : i64, tile_n = 256 : i64}} : (tensor<?x?xf8E4M3FN>, tensor<?x?x?x
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "promoted", schedule = {band = 8 : i64, stages = 4 : i64, tile_n = 192 : i64}} : (tensor<?x?xf8E4M3FN>, tensor<?x?x?x
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "fast", schedule = {band = 8 : i64, stages = 4 : i64, tile_n = 256 : i64}} : (tensor<48x64xf8E5M2>, tensor<64x32x
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}}{accumulate = "promoted", schedule = {band = 8 : i64, stages = 4 : i64, tile_n = 192 : i64}} : (tensor<48x64xf8E5M2>, tensor<64x32x
// FIVE-LABEL: func.func @products
// FIVE: {accumulate = "fast", schedule = {band = 8 : i64, stages = 6 : i64, tile_n = 128 : i64}}
// FIVE: {accumulate = "promoted", schedule = {band = 8 : i64, stages = 4 : i64, tile_n = 192 : i64}}
func.func @products(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #kn_col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                    %offs: tensor<?xi32>, %ga: tensor<48x64xf8E5M2>, %gb: tensor<64x32xf8E4M3FN, #mk_col_major>,
                    %gsa: tensor<2x48xf32>, %gsb: tensor<2x32xf32>, %goffs: tensor<2xi32>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  %1 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  %2 = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %gsa, %gsb, %goffs) {accumulate = "fast"}
      : (tensor<48x64xf8E5M2>, tensor<64x32xf8E4M3FN, #mk_col_major>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x48x32xbf16>
  %3 = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %gsa, %gsb, %goffs) {accumulate = "promoted"}
      : (tensor<48x64xf8E5M2>, tensor<64x32xf8E4M3FN, #mk_col_major>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x48x32xbf16>
  return
}

// CHECK-LABEL: func.func @given_products
// CHECK: schedule = {band = 1 : i64, stages = 6 : i64, tile_n = 128 : i64}
// CHECK: schedule = {band = 4096 : i64, stages = 8 : i64, tile_n = 64 : i64}
func.func @given_products(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #kn_col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                          %offs: tensor<?xi32>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {tile_n = 128, stages = 6, band = 1}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  %1 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", schedule = {tile_n = 64, stages = 8, band = 4096}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return
}
