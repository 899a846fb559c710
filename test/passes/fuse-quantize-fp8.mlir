// quantize_fp8 row by row along both of the last two dimensions of one tensor becomes one op that reads it less often.

// RUN: moe-opt %s --split-input-file --moe-fuse-quantize | FileCheck %s
// RUN: moe-opt %s --split-input-file --moe-fuse-quantize --moe-fuse-quantize | FileCheck %s

// Experts: in either order, at the place of the first.
// CHECK-LABEL: func.func @experts
// CHECK-NEXT: %[[D:.*]]:4 = "mx_quantize.quantize_fp8_dual"(%{{.*}}) {pow2 = true, sanitize = false} : (tensor<?x?x?xbf16>)
// CHECK-SAME: -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?xf32>, tensor<?x?x?xf8E4M3FN, #{{.*}}>, tensor<?x?xf32>)
// CHECK-NEXT: return %[[D]]#2, %[[D]]#3, %[[D]]#0, %[[D]]#1
#columns = affine_map<(e, n, k) -> (e, k, n)>
func.func @experts(%w: tensor<?x?x?xbf16>)
    -> (tensor<?x?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?x?xf8E4M3FN>, tensor<?x?xf32>) {
  %qt, %st = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #columns>, tensor<?x?xf32>)
  %q, %s = "mx_quantize.quantize_fp8"(%w) {axis = 2 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?xf32>)
  return %qt, %st, %q, %s : tensor<?x?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?x?xf8E4M3FN>, tensor<?x?xf32>
}

// -----

// Tokens: the op for both leaves rows in no group alone, in q and its scales too. Products of the same groups do not see them.
// CHECK-LABEL: func.func @tokens
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x64xbf16> {{[^%]*}}%[[W:[^:]*]]: {{.*}}%[[OFFS:[^:]*]]: tensor<2xi32>
// CHECK-NEXT: %[[D:.*]]:4 = "mx_quantize.quantize_fp8_dual"(%[[X]], %[[OFFS]]) {pow2 = true, sanitize = true}
// CHECK-NEXT: "scaled_grouped_mm.scaled_mm"(%[[D]]#0, %[[W]], %[[D]]#1, %{{.*}}, %[[OFFS]])
// CHECK-NEXT: "scaled_grouped_mm.scaled_mm_bias"(%[[D]]#0, %[[W]], %[[D]]#1, %{{.*}}, %[[OFFS]], %{{.*}})
// CHECK-NEXT: return %{{.*}}, %{{.*}}, %[[D]]#2, %[[D]]#3
#mk = affine_map<(m, k) -> (k, m)>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @tokens(%x: tensor<?x64xbf16>, %w: tensor<2x64x32xf8E4M3FN, #ekn>, %sw: tensor<2x32xf32>, %bias: tensor<2x32xbf16>, %offs: tensor<2xi32>)
    -> (tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>, tensor<2x64xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  %out = "scaled_grouped_mm.scaled_mm"(%q, %w, %s, %sw, %offs) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<2x64x32xf8E4M3FN, #ekn>, tensor<?xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<?x32xbf16>
  %biased = "scaled_grouped_mm.scaled_mm_bias"(%q, %w, %s, %sw, %offs, %bias) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<2x64x32xf8E4M3FN, #ekn>, tensor<?xf32>, tensor<2x32xf32>, tensor<2xi32>, tensor<2x32xbf16>)
      -> tensor<?x32xbf16>
  %qt, %st = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xf8E4M3FN, #mk>, tensor<2x64xf32>)
  return %out, %biased, %qt, %st : tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>, tensor<2x64xf32>
}

// -----

// Who returns q, or its scales, returns all rows; and a product of other groups reads other rows.
// CHECK-LABEL: func.func @returned
// CHECK-COUNT-2: "mx_quantize.quantize_fp8"(
// CHECK-LABEL: func.func @other_groups
// CHECK-COUNT-2: "mx_quantize.quantize_fp8"(
#mk = affine_map<(m, k) -> (k, m)>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @returned(%x: tensor<?x64xbf16>, %offs: tensor<2xi32>) -> (tensor<?xf32>, tensor<?x64xf8E4M3FN, #mk>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  %qt, %st = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xf8E4M3FN, #mk>, tensor<2x64xf32>)
  return %s, %qt : tensor<?xf32>, tensor<?x64xf8E4M3FN, #mk>
}
func.func @other_groups(%x: tensor<?x64xbf16>, %w: tensor<2x64x32xf8E4M3FN, #ekn>, %sw: tensor<2x32xf32>, %offs: tensor<2xi32>, %others: tensor<2xi32>)
    -> (tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  %out = "scaled_grouped_mm.scaled_mm"(%q, %w, %s, %sw, %offs) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<2x64x32xf8E4M3FN, #ekn>, tensor<?xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<?x32xbf16>
  %qt, %st = "mx_quantize.quantize_fp8"(%x, %others) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xf8E4M3FN, #mk>, tensor<2x64xf32>)
  return %out, %qt : tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>
}

// -----

// Offsets that are made after the first of the two.
// CHECK-LABEL: func.func @offs_later
// CHECK-COUNT-2: "mx_quantize.quantize_fp8"(
#mk = affine_map<(m, k) -> (k, m)>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @offs_later(%x: tensor<?x64xbf16>, %w: tensor<2x64x32xf8E4M3FN, #ekn>, %sw: tensor<2x32xf32>, %offs: tensor<2xi32>)
    -> (tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>, tensor<?x64xbf16>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  %padded, %ends = "mx_quantize.pad_groups"(%x, %offs) {align = 1 : i64} : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xbf16>, tensor<2xi32>)
  %out = "scaled_grouped_mm.scaled_mm"(%q, %w, %s, %sw, %ends) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<2x64x32xf8E4M3FN, #ekn>, tensor<?xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<?x32xbf16>
  %qt, %st = "mx_quantize.quantize_fp8"(%x, %ends) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xf8E4M3FN, #mk>, tensor<2x64xf32>)
  return %out, %qt, %padded : tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>, tensor<?x64xbf16>
}

// -----

// Two that do not belong together: another flag, another type, another granularity, a schedule, another tensor, a size that the op for
// both does not take.
// CHECK-LABEL: func.func @different
// CHECK-NOT: _dual
#columns = affine_map<(e, n, k) -> (e, k, n)>
func.func @different(%w: tensor<2x32x64xbf16>, %v: tensor<2x32x64xbf16>, %odd: tensor<2x24x64xbf16>)
    -> (tensor<2x32x64xf8E4M3FN>, tensor<2x32x64xf8E4M3FN, #columns>, tensor<2x32x64xf8E5M2, #columns>, tensor<2x32x64xf8E4M3FN, #columns>,
        tensor<2x32x64xf8E4M3FN, #columns>, tensor<2x24x64xf8E4M3FN>, tensor<2x24x64xf8E4M3FN, #columns>) {
  %q0, %s0 = "mx_quantize.quantize_fp8"(%w) {axis = 2 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN>, tensor<2x32xf32>)
  %q1, %s1 = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN, #columns>, tensor<2x64xf32>)
  %q2, %s2 = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E5M2, #columns>, tensor<2x64xf32>)
  %q3, %s3 = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "expert", pow2 = true, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN, #columns>, tensor<2xf32>)
  %q4, %s4 = "mx_quantize.quantize_fp8"(%v) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN, #columns>, tensor<2x64xf32>)
  %q5, %s5 = "mx_quantize.quantize_fp8"(%odd) {axis = 2 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<2x24x64xbf16>) -> (tensor<2x24x64xf8E4M3FN>, tensor<2x24xf32>)
  %q6, %s6 = "mx_quantize.quantize_fp8"(%odd) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<2x24x64xbf16>) -> (tensor<2x24x64xf8E4M3FN, #columns>, tensor<2x64xf32>)
  return %q0, %q1, %q2, %q3, %q4, %q5, %q6 : tensor<2x32x64xf8E4M3FN>, tensor<2x32x64xf8E4M3FN, #columns>, tensor<2x32x64xf8E5M2, #columns>,
      tensor<2x32x64xf8E4M3FN, #columns>, tensor<2x32x64xf8E4M3FN, #columns>, tensor<2x24x64xf8E4M3FN>, tensor<2x24x64xf8E4M3FN, #columns>
}

// -----

// A view that makes x row-major stays: MX quantizers read nothing else.
// CHECK-LABEL: func.func @view
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: "mx_quantize.quantize"(%[[T]]) {axis = 1 : i64
#km = affine_map<(k, m) -> (m, k)>
func.func @view(%w: tensor<64x32xbf16, #km>) -> tensor<64x32xf8E4M3FN, #km> {
  %te = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x32xbf16, #km>) outs(%te : tensor<32x64xbf16>) permutation = [1, 0]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x32xf8E4M3FN, #km>
  %q = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN, #km>) permutation = [1, 0]
  return %q : tensor<64x32xf8E4M3FN, #km>
}

// -----

// In FP8 blocks too: squares of experts; 1x128 of tokens, where the rows of the scales lie side by side and one product reads both. Scales
// in another order, or two granularities, stay apart.
// CHECK-LABEL: func.func @blocks
// CHECK: "mx_quantize.quantize_fp8_dual"(%{{.*}}) {granularity = "128x128", pow2 = false, sanitize = false} : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN>, tensor<2x1x1xf32>, tensor<2x32x64xf8E4M3FN, #{{.*}}>, tensor<2x1x1xf32>)
// CHECK: "mx_quantize.quantize_fp8_dual"(%{{.*}}, %{{.*}}) {granularity = "1x128", pow2 = false, sanitize = false} : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xf8E4M3FN>, tensor<?x1xf32, #{{.*}}>, tensor<?x64xf8E4M3FN, #{{.*}}>, tensor<?x64xf32>)
// CHECK-LABEL: func.func @blocks_apart
// CHECK-NOT: _dual
#enk = affine_map<(e, n, k) -> (e, k, n)>
#mk = affine_map<(m, k) -> (k, m)>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @blocks(%w: tensor<2x32x64xbf16>, %x: tensor<?x64xbf16>, %qw: tensor<2x64x32xf8E4M3FN, #ekn>, %sw: tensor<2x1x1xf32>, %offs: tensor<2xi32>)
    -> (tensor<2x32x64xf8E4M3FN>, tensor<2x32x64xf8E4M3FN, #enk>, tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>, tensor<?x64xf32>) {
  %q0, %s0 = "mx_quantize.quantize_fp8"(%w) {axis = 2 : i64, granularity = "128x128", pow2 = false, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN>, tensor<2x1x1xf32>)
  %q1, %s1 = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "128x128", pow2 = false, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN, #enk>, tensor<2x1x1xf32>)
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "1x128", pow2 = false, sanitize = false}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?x1xf32, #mk>)
  %y = "scaled_grouped_mm.scaled_mm"(%q, %qw, %s, %sw, %offs) {accumulate = "promoted"}
      : (tensor<?x64xf8E4M3FN>, tensor<2x64x32xf8E4M3FN, #ekn>, tensor<?x1xf32, #mk>, tensor<2x1x1xf32>, tensor<2xi32>) -> tensor<?x32xbf16>
  %qt, %st = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "1x128", pow2 = false, sanitize = false}
      : (tensor<?x64xbf16>, tensor<2xi32>) -> (tensor<?x64xf8E4M3FN, #mk>, tensor<?x64xf32>)
  return %q0, %q1, %y, %qt, %st
      : tensor<2x32x64xf8E4M3FN>, tensor<2x32x64xf8E4M3FN, #enk>, tensor<?x32xbf16>, tensor<?x64xf8E4M3FN, #mk>, tensor<?x64xf32>
}
func.func @blocks_apart(%w: tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN>, tensor<2x32x1xf32>, tensor<2x32x64xf8E4M3FN, #enk>, tensor<2x1x64xf32>, tensor<2x32x64xf8E4M3FN>) {
  %q0, %s0 = "mx_quantize.quantize_fp8"(%w) {axis = 2 : i64, granularity = "1x128", pow2 = false, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN>, tensor<2x32x1xf32>)
  %q1, %s1 = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "1x128", pow2 = false, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN, #enk>, tensor<2x1x64xf32>)
  %q2, %s2 = "mx_quantize.quantize_fp8"(%w) {axis = 2 : i64, granularity = "128x128", pow2 = false, sanitize = false}
      : (tensor<2x32x64xbf16>) -> (tensor<2x32x64xf8E4M3FN>, tensor<2x1x1xf32>)
  return %q0, %s0, %q1, %s1, %q2 : tensor<2x32x64xf8E4M3FN>, tensor<2x32x1xf32>, tensor<2x32x64xf8E4M3FN, #enk>, tensor<2x1x64xf32>, tensor<2x32x64xf8E4M3FN>
}

// -----

// Groups that begin at multiples of 128 tokens are those of what is quantized along tokens, and stay so.
// CHECK-LABEL: func.func @aligned
// CHECK: "mx_quantize.quantize_fp8_dual"(%{{.*}}) {align = 128 : i64, granularity = "1x128", pow2 = true, sanitize = true}
#mk = affine_map<(m, k) -> (k, m)>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @aligned(%x: tensor<?x128xbf16>, %w: tensor<2x128x32xf8E4M3FN, #ekn>, %sw: tensor<2x1x1xf32>, %offs: tensor<2xi32>)
    -> (tensor<?x32xbf16>, tensor<?x128xf8E4M3FN, #mk>, tensor<?x128xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "1x128", pow2 = true, sanitize = true}
      : (tensor<?x128xbf16>) -> (tensor<?x128xf8E4M3FN>, tensor<?x1xf32, #mk>)
  %out = "scaled_grouped_mm.scaled_mm"(%q, %w, %s, %sw, %offs) {accumulate = "promoted"}
      : (tensor<?x128xf8E4M3FN>, tensor<2x128x32xf8E4M3FN, #ekn>, tensor<?x1xf32, #mk>, tensor<2x1x1xf32>, tensor<2xi32>) -> tensor<?x32xbf16>
  %qt, %st = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "1x128", pow2 = true, sanitize = true, align = 128 : i64}
      : (tensor<?x128xbf16>, tensor<2xi32>) -> (tensor<?x128xf8E4M3FN, #mk>, tensor<?x128xf32>)
  return %out, %qt, %st : tensor<?x32xbf16>, tensor<?x128xf8E4M3FN, #mk>, tensor<?x128xf32>
}

// -----

// Two tensors whose groups begin alike become a pair, others do not.
// CHECK-LABEL: func.func @aligned_pair
// CHECK: "mx_quantize.quantize_fp8_pair"(%{{.*}}) {align = 128 : i64, pow2 = true, sanitize = true}
// CHECK-LABEL: func.func @aligned_apart
// CHECK-COUNT-2: "mx_quantize.quantize_fp8"(
#mk = affine_map<(m, k) -> (k, m)>
func.func @aligned_pair(%x: tensor<64x128xbf16>, %y: tensor<64x32xbf16>, %offs: tensor<2xi32>)
    -> (tensor<384x128xf8E4M3FN, #mk>, tensor<2x128xf32>, tensor<384x32xf8E4M3FN, #mk>, tensor<2x32xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true, align = 128 : i64}
      : (tensor<64x128xbf16>, tensor<2xi32>) -> (tensor<384x128xf8E4M3FN, #mk>, tensor<2x128xf32>)
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true, align = 128 : i64}
      : (tensor<64x32xbf16>, tensor<2xi32>) -> (tensor<384x32xf8E4M3FN, #mk>, tensor<2x32xf32>)
  return %q, %s, %qy, %sy : tensor<384x128xf8E4M3FN, #mk>, tensor<2x128xf32>, tensor<384x32xf8E4M3FN, #mk>, tensor<2x32xf32>
}
func.func @aligned_apart(%x: tensor<64x128xbf16>, %y: tensor<64x32xbf16>, %offs: tensor<2xi32>)
    -> (tensor<384x128xf8E4M3FN, #mk>, tensor<2x128xf32>, tensor<128x32xf8E4M3FN, #mk>, tensor<2x32xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true, align = 128 : i64}
      : (tensor<64x128xbf16>, tensor<2xi32>) -> (tensor<384x128xf8E4M3FN, #mk>, tensor<2x128xf32>)
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = true}
      : (tensor<64x32xbf16>, tensor<2xi32>) -> (tensor<128x32xf8E4M3FN, #mk>, tensor<2x32xf32>)
  return %q, %s, %qy, %sy : tensor<384x128xf8E4M3FN, #mk>, tensor<2x128xf32>, tensor<128x32xf8E4M3FN, #mk>, tensor<2x32xf32>
}
