// Quantizations that take two passes over x become these; others stay.

// RUN: moe-opt %s --moe-expand-quantize | FileCheck %s
// RUN: moe-opt %s --moe-expand-quantize -o %t.once.mlir
// RUN: moe-opt %t.once.mlir --moe-expand-quantize | diff %t.once.mlir -

#mk_columns = affine_map<(m, k) -> (k, m)>
#enk_columns = affine_map<(e, n, k) -> (e, k, n)>

// The factors of the first pass are what the second one takes, its scales are the result. The state has a maximum and a counter for each
// scale.
// CHECK-LABEL: func.func @tensor
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x?xbf16>
// CHECK-NEXT: %[[S:.*]]:3 = "mx_quantize.scale_fp8"(%[[X]]) {axis = 1 : i64, element = "f8E4M3FN", granularity = "tensor", pow2 = true, sanitize = false}
// CHECK-SAME: : (tensor<?x?xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
// CHECK-NEXT: %[[Q:.*]] = "mx_quantize.cast_fp8"(%[[X]], %[[S]]#1) {axis = 1 : i64, granularity = "tensor", sanitize = false}
// CHECK-SAME: : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
// CHECK-NEXT: return %[[Q]], %[[S]]#0
func.func @tensor(%x: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<1xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<1xf32>)
  return %q, %s : tensor<?x?xf8E4M3FN>, tensor<1xf32>
}

// The flags are copied, pow2 to the first pass alone; encodings are those of the results; static sizes stay static.
// CHECK-LABEL: func.func @experts
// CHECK: "mx_quantize.scale_fp8"(%{{.*}}) {axis = 1 : i64, element = "f8E5M2", granularity = "expert", pow2 = false, sanitize = true}
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xi32>)
// CHECK: "mx_quantize.cast_fp8"(%{{.*}}, %{{.*}}#1) {axis = 1 : i64, granularity = "expert", sanitize = true}
// CHECK-SAME: -> tensor<4x64x48xf8E5M2, #{{.*}}>
// CHECK: "mx_quantize.scale_fp8"({{.*}}granularity = "row"{{.*}} -> (tensor<4x48xf32>, tensor<4x48xf32>, tensor<2x4x48xi32>)
// CHECK: "mx_quantize.cast_fp8"({{.*}}granularity = "row"{{.*}}tensor<4x48xf32>) -> tensor<4x64x48xf8E4M3FN, #{{.*}}>
func.func @experts(%w: tensor<4x64x48xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "expert", pow2 = false, sanitize = true}
      : (tensor<4x64x48xf32>) -> (tensor<4x64x48xf8E5M2, #enk_columns>, tensor<4xf32>)
  %r, %t = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "row", pow2 = false, sanitize = true}
      : (tensor<4x64x48xf32>) -> (tensor<4x64x48xf8E4M3FN, #enk_columns>, tensor<4x48xf32>)
  return
}

// Both passes take the groups.
// CHECK-LABEL: func.func @groups
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x?xbf16> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<8xi32>
// CHECK: %[[S:.*]]:3 = "mx_quantize.scale_fp8"(%[[X]], %[[OFFS]]) {{.*}} -> (tensor<8x?xf32>, tensor<8x?xf32>, tensor<2x8x?xi32>)
// CHECK: "mx_quantize.cast_fp8"(%[[X]], %[[S]]#1, %[[OFFS]])
// CHECK: %[[T:.*]]:3 = "mx_quantize.scale_fp8"(%[[X]], %[[OFFS]]) {{.*}}granularity = "group"{{.*}} -> (tensor<8xf32>, tensor<8xf32>, tensor<2x8xi32>)
// CHECK: "mx_quantize.cast_fp8"(%[[X]], %[[T]]#1, %[[OFFS]])
func.func @groups(%x: tensor<?x?xbf16>, %offs: tensor<8xi32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>, tensor<8xi32>) -> (tensor<?x?xf8E4M3FN, #mk_columns>, tensor<8x?xf32>)
  %r, %t = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 1 : i64, granularity = "group", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>, tensor<8xi32>) -> (tensor<?x?xf8E4M3FN>, tensor<8xf32>)
  return
}

// Both directions in each of two passes: results keep their places.
// CHECK-LABEL: func.func @dual
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x?xbf16> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<?xi32>
// CHECK-NEXT: %[[S:.*]]:6 = "mx_quantize.scale_fp8_dual"(%[[X]], %[[OFFS]]) {element = "f8E4M3FN", pow2 = true, sanitize = true}
// CHECK-SAME: -> (tensor<?xf32>, tensor<?xf32>, tensor<2x?xi32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
// CHECK-NEXT: %[[Q:.*]]:2 = "mx_quantize.cast_fp8_dual"(%[[X]], %[[S]]#1, %[[S]]#4, %[[OFFS]]) {sanitize = true}
// CHECK-NEXT: return %[[Q]]#0, %[[S]]#0, %[[Q]]#1, %[[S]]#3
func.func @dual(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>)
    -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>, tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf32>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%x, %offs) {pow2 = true, sanitize = true} : (tensor<?x?xbf16>, tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>, tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf32>)
  return %q, %s, %qt, %st : tensor<?x?xf8E4M3FN>, tensor<?xf32>, tensor<?x?xf8E4M3FN, #mk_columns>, tensor<?x?xf32>
}

// CHECK-LABEL: func.func @dual_experts
// CHECK: %[[S:.*]]:6 = "mx_quantize.scale_fp8_dual"(%[[W:.*]]) {
// CHECK-SAME: -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<2x4x64xi32>, tensor<4x48xf32>, tensor<4x48xf32>, tensor<2x4x48xi32>)
// CHECK: "mx_quantize.cast_fp8_dual"(%[[W]], %[[S]]#1, %[[S]]#4) {sanitize = false}
func.func @dual_experts(%w: tensor<4x64x48xf32>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%w) {pow2 = true, sanitize = false} : (tensor<4x64x48xf32>)
      -> (tensor<4x64x48xf8E5M2>, tensor<4x64xf32>, tensor<4x64x48xf8E5M2, #enk_columns>, tensor<4x48xf32>)
  return
}

// Both tensors in each of two passes.
// CHECK-LABEL: func.func @pair
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x32xbf16> {{[^%]*}}%[[Y:[^:]*]]: tensor<?x48xbf16> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<8xi32>
// CHECK-NEXT: %[[S:.*]]:6 = "mx_quantize.scale_fp8_pair"(%[[X]], %[[Y]], %[[OFFS]]) {element = "f8E5M2", pow2 = true, sanitize = true}
// CHECK-SAME: -> (tensor<8x32xf32>, tensor<8x32xf32>, tensor<2x8x32xi32>, tensor<8x48xf32>, tensor<8x48xf32>, tensor<2x8x48xi32>)
// CHECK-NEXT: %[[Q:.*]]:2 = "mx_quantize.cast_fp8_pair"(%[[X]], %[[Y]], %[[S]]#1, %[[S]]#4, %[[OFFS]]) {sanitize = true}
// CHECK-SAME: -> (tensor<?x32xf8E5M2, #{{.*}}>, tensor<?x48xf8E5M2, #{{.*}}>)
// CHECK-NEXT: return %[[Q]]#0, %[[S]]#0, %[[Q]]#1, %[[S]]#3
func.func @pair(%x: tensor<?x32xbf16>, %y: tensor<?x48xbf16>, %offs: tensor<8xi32>)
    -> (tensor<?x32xf8E5M2, #mk_columns>, tensor<8x32xf32>, tensor<?x48xf8E5M2, #mk_columns>, tensor<8x48xf32>) {
  %q, %s, %qy, %sy = "mx_quantize.quantize_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = true}
      : (tensor<?x32xbf16>, tensor<?x48xbf16>, tensor<8xi32>)
      -> (tensor<?x32xf8E5M2, #mk_columns>, tensor<8x32xf32>, tensor<?x48xf8E5M2, #mk_columns>, tensor<8x48xf32>)
  return %q, %s, %qy, %sy : tensor<?x32xf8E5M2, #mk_columns>, tensor<8x32xf32>, tensor<?x48xf8E5M2, #mk_columns>, tensor<8x48xf32>
}

// One kernel does these: along the last dimension row by row, with or without a schedule, and blocks.
// CHECK-LABEL: func.func @one_pass
// CHECK-NEXT: "mx_quantize.quantize_fp8"({{.*}}granularity = "row"
// CHECK-NEXT: "mx_quantize.quantize_fp8"({{.*}}granularity = "row"{{.*}}schedule
// CHECK-NEXT: "mx_quantize.quantize_fp8"({{.*}}granularity = "1x128"
// CHECK-NEXT: "mx_quantize.quantize_fp8"({{.*}}granularity = "128x128"
// CHECK-NEXT: "mx_quantize.quantize"
// CHECK-NEXT: return
func.func @one_pass(%x: tensor<64x128xbf16>, %w: tensor<4x64x48xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64xf32>)
  %r, %t = "mx_quantize.quantize_fp8"(%w) {axis = 2 : i64, granularity = "row", pow2 = true, sanitize = false,
      schedule = {buffer_kb = 64, stages = 8, warps = 4, ctas_per_sm = 3}}
      : (tensor<4x64x48xf32>) -> (tensor<4x64x48xf8E4M3FN>, tensor<4x64xf32>)
  %q1, %s1 = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "1x128", pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x1xf32>)
  %q2, %s2 = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "128x128", pow2 = true, sanitize = false}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<1x1xf32>)
  %q3, %s3 = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x128xbf16>) -> (tensor<64x128xf8E4M3FN>, tensor<64x4xf8E8M0FNU>)
  return
}

// Written by hand, the two passes stay as they are.
// CHECK-LABEL: func.func @by_hand
// CHECK-COUNT-1: "mx_quantize.scale_fp8"
// CHECK-COUNT-1: "mx_quantize.cast_fp8"
// CHECK-NOT: mx_quantize
func.func @by_hand(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>) -> tensor<?x?xf8E4M3FN> {
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<?x?xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  %q = "mx_quantize.cast_fp8"(%y, %f) {axis = 1 : i64, granularity = "tensor", sanitize = false}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  return %q : tensor<?x?xf8E4M3FN>
}

// Where groups begin at multiples of 128 tokens, the second pass writes them so.
// CHECK-LABEL: func.func @aligned
// CHECK: "mx_quantize.scale_fp8"(%{{.*}}, %{{.*}}) {axis = 0 : i64, element = "f8E4M3FN", granularity = "row", pow2 = true, sanitize = false}
// CHECK: "mx_quantize.cast_fp8"({{.*}}) {align = 128 : i64, axis = 0 : i64, granularity = "row", sanitize = false}
// CHECK-SAME: -> tensor<1152x48xf8E4M3FN, #{{.*}}>
// CHECK: "mx_quantize.scale_fp8_dual"(%{{.*}}, %{{.*}}) {element = "f8E4M3FN", pow2 = true, sanitize = false}
// CHECK: "mx_quantize.cast_fp8_dual"({{.*}}) {align = 128 : i64, sanitize = false}
// CHECK: "mx_quantize.quantize_fp8"({{.*}}) {align = 128 : i64, axis = 0 : i64, granularity = "1x128", pow2 = true, sanitize = false}
func.func @aligned(%x: tensor<64x48xbf16>, %offs: tensor<8xi32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {align = 128 : i64, axis = 0 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<64x48xbf16>, tensor<8xi32>) -> (tensor<1152x48xf8E4M3FN, #mk_columns>, tensor<8x48xf32>)
  %d:4 = "mx_quantize.quantize_fp8_dual"(%x, %offs) {align = 128 : i64, pow2 = true, sanitize = false}
      : (tensor<64x48xbf16>, tensor<8xi32>)
      -> (tensor<64x48xf8E4M3FN>, tensor<64xf32>, tensor<1152x48xf8E4M3FN, #mk_columns>, tensor<8x48xf32>)
  %b, %c = "mx_quantize.quantize_fp8"(%x, %offs) {align = 128 : i64, axis = 0 : i64, granularity = "1x128", pow2 = true, sanitize = false}
      : (tensor<64x48xbf16>, tensor<8xi32>) -> (tensor<1152x48xf8E4M3FN, #mk_columns>, tensor<9x48xf32>)
  return
}
