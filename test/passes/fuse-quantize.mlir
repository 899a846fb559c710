// transpose, quantize, transpose back becomes one quantize along another axis, where that is the same function.
//
// What must hold: with t[i] = x[p[i]] (dimension i of t is dimension p[i] of x), quantizing t along a scales the elements of x
// along p[a]; a transpose by r of the result restores the dimensions of x where p[r[i]] = i.

// RUN: moe-opt %s --split-input-file --moe-fuse-quantize | FileCheck %s
// RUN: moe-opt %s --split-input-file --moe-fuse-quantize --moe-fuse-quantize | FileCheck %s

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// Both results are transposed back. What nobody uses any more is gone, the encoding of q is kept.
// CHECK: #[[$COL_MAJOR:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-LABEL: func.func @both
// CHECK-SAME: (%[[W:.*]]: tensor<8x64x48xbf16>
// CHECK-NEXT: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
// CHECK-SAME: : (tensor<8x64x48xbf16>) -> (tensor<8x64x48xf8E4M3FN, #[[$COL_MAJOR]]>, tensor<8x2x48xf8E8M0FNU>)
// CHECK-NEXT: return %[[QS]]#0, %[[QS]]#1
func.func @both(%w: tensor<8x64x48xbf16>) -> (tensor<8x64x48xf8E4M3FN, #col_major>, tensor<8x2x48xf8E8M0FNU>) {
  %te = tensor.empty() : tensor<8x48x64xbf16>
  %t = linalg.transpose ins(%w : tensor<8x64x48xbf16>) outs(%te : tensor<8x48x64xbf16>) permutation = [0, 2, 1]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<8x48x64xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<8x64x48xf8E4M3FN, #col_major>
  %q = linalg.transpose ins(%qt : tensor<8x48x64xf8E4M3FN>) outs(%qe : tensor<8x64x48xf8E4M3FN, #col_major>) permutation = [0, 2, 1]
  %se = tensor.empty() : tensor<8x2x48xf8E8M0FNU>
  %s = linalg.transpose ins(%st : tensor<8x48x2xf8E8M0FNU>) outs(%se : tensor<8x2x48xf8E8M0FNU>) permutation = [0, 2, 1]
  return %q, %s : tensor<8x64x48xf8E4M3FN, #col_major>, tensor<8x2x48xf8E8M0FNU>
}

// -----

// Only q is transposed back; the scales are returned as they are, so that they are transposed after the fact. Their memory
// stays what it was: the scales of the fused op are column-major.
// CHECK: #[[$COL_MAJOR:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-LABEL: func.func @only_q
// CHECK-SAME: (%[[W:.*]]: tensor<8x64x48xbf16>
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 1 : i64
// CHECK-SAME: -> (tensor<8x64x48xf8E4M3FN>, tensor<8x2x48xf8E8M0FNU, #[[$COL_MAJOR]]>)
// CHECK: %[[S:.*]] = linalg.transpose ins(%[[QS]]#1 : tensor<8x2x48xf8E8M0FNU, #[[$COL_MAJOR]]>)
// CHECK-SAME: tensor<8x48x2xf8E8M0FNU>) permutation = [0, 2, 1]
// CHECK-NOT: linalg
// CHECK: return %[[QS]]#0, %[[S]]
func.func @only_q(%w: tensor<8x64x48xbf16>) -> (tensor<8x64x48xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>) {
  %te = tensor.empty() : tensor<8x48x64xbf16>
  %t = linalg.transpose ins(%w : tensor<8x64x48xbf16>) outs(%te : tensor<8x48x64xbf16>) permutation = [0, 2, 1]
  %qt, %s = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<8x48x64xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<8x64x48xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<8x48x64xf8E4M3FN>) outs(%qe : tensor<8x64x48xf8E4M3FN>) permutation = [0, 2, 1]
  return %q, %s : tensor<8x64x48xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>
}

// -----

// Nobody uses the scales: they are row-major, as the kernel writes them.
// CHECK-LABEL: func.func @unused_scales
// CHECK: "mx_quantize.quantize"(%{{.*}}) {axis = 1 : i64
// CHECK-SAME: tensor<8x2x48xf8E8M0FNU>)
func.func @unused_scales(%w: tensor<8x64x48xbf16>) -> tensor<8x64x48xf8E4M3FN> {
  %te = tensor.empty() : tensor<8x48x64xbf16>
  %t = linalg.transpose ins(%w : tensor<8x64x48xbf16>) outs(%te : tensor<8x48x64xbf16>) permutation = [0, 2, 1]
  %qt, %s = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<8x48x64xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<8x64x48xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<8x48x64xf8E4M3FN>) outs(%qe : tensor<8x64x48xf8E4M3FN>) permutation = [0, 2, 1]
  return %q : tensor<8x64x48xf8E4M3FN>
}

// -----

// Only the scales are transposed back, and nobody uses q at all.
// CHECK-LABEL: func.func @only_scales
// CHECK-SAME: (%[[W:.*]]: tensor<8x64x48xbf16>
// CHECK-NEXT: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 1 : i64{{.*}}, tensor<8x2x48xf8E8M0FNU>)
// CHECK-NEXT: return %[[QS]]#1
func.func @only_scales(%w: tensor<8x64x48xbf16>) -> tensor<8x2x48xf8E8M0FNU> {
  %te = tensor.empty() : tensor<8x48x64xbf16>
  %t = linalg.transpose ins(%w : tensor<8x64x48xbf16>) outs(%te : tensor<8x48x64xbf16>) permutation = [0, 2, 1]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<8x48x64xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>)
  %se = tensor.empty() : tensor<8x2x48xf8E8M0FNU>
  %s = linalg.transpose ins(%st : tensor<8x48x2xf8E8M0FNU>) outs(%se : tensor<8x2x48xf8E8M0FNU>) permutation = [0, 2, 1]
  return %s : tensor<8x2x48xf8E8M0FNU>
}

// -----

// Nothing is transposed back: nothing to fuse.
// CHECK-LABEL: func.func @neither
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[T]]) {axis = 2 : i64
// CHECK: return %[[QS]]#0, %[[QS]]#1
func.func @neither(%w: tensor<8x64x48xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>) {
  %te = tensor.empty() : tensor<8x48x64xbf16>
  %t = linalg.transpose ins(%w : tensor<8x64x48xbf16>) outs(%te : tensor<8x48x64xbf16>) permutation = [0, 2, 1]
  %q, %s = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<8x48x64xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>)
  return %q, %s : tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>
}

// -----

// q is used both ways: one copy is needed anyway, nothing is fused.
// CHECK-LABEL: func.func @q_both_ways
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[T]]) {axis = 2 : i64
// CHECK: %[[Q:.*]] = linalg.transpose ins(%[[QS]]#0
// CHECK: return %[[QS]]#0, %[[Q]]
func.func @q_both_ways(%w: tensor<8x64x48xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN>) {
  %te = tensor.empty() : tensor<8x48x64xbf16>
  %t = linalg.transpose ins(%w : tensor<8x64x48xbf16>) outs(%te : tensor<8x48x64xbf16>) permutation = [0, 2, 1]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<8x48x64xbf16>) -> (tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<8x64x48xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<8x48x64xf8E4M3FN>) outs(%qe : tensor<8x64x48xf8E4M3FN>) permutation = [0, 2, 1]
  return %qt, %q : tensor<8x48x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN>
}

// -----

// One transpose is the inverse, the other is not, and on a cube both have the same type.
// CHECK-LABEL: func.func @cube_both_ways
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[T]]) {axis = 2 : i64
// CHECK: %[[OTHER:.*]] = linalg.transpose ins(%[[QS]]#0{{.*}}permutation = [1, 0, 2]
// CHECK: %[[BACK:.*]] = linalg.transpose ins(%[[QS]]#0{{.*}}permutation = [0, 2, 1]
// CHECK: return %[[OTHER]], %[[BACK]]
func.func @cube_both_ways(%w: tensor<32x32x32xbf16>) -> (tensor<32x32x32xf8E4M3FN>, tensor<32x32x32xf8E4M3FN>) {
  %te = tensor.empty() : tensor<32x32x32xbf16>
  %t = linalg.transpose ins(%w : tensor<32x32x32xbf16>) outs(%te : tensor<32x32x32xbf16>) permutation = [0, 2, 1]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x32x32xbf16>) -> (tensor<32x32x32xf8E4M3FN>, tensor<32x32x1xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<32x32x32xf8E4M3FN>
  %other = linalg.transpose ins(%qt : tensor<32x32x32xf8E4M3FN>) outs(%qe : tensor<32x32x32xf8E4M3FN>) permutation = [1, 0, 2]
  %back = linalg.transpose ins(%qt : tensor<32x32x32xf8E4M3FN>) outs(%qe : tensor<32x32x32xf8E4M3FN>) permutation = [0, 2, 1]
  return %other, %back : tensor<32x32x32xf8E4M3FN>, tensor<32x32x32xf8E4M3FN>
}

// -----

// q is transposed back and is also the destination of a transpose: the second use reads nothing but is a use.
// CHECK-LABEL: func.func @q_as_destination
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: "mx_quantize.quantize"(%[[T]]) {axis = 1 : i64
// CHECK: linalg.transpose ins(%[[QS:.*]]#0 : tensor<64x64xf8E4M3FN>) outs(%[[QS]]#0 : tensor<64x64xf8E4M3FN>)
func.func @q_as_destination(%w: tensor<64x64xbf16>) -> tensor<64x64xf8E4M3FN> {
  %te = tensor.empty() : tensor<64x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x64xbf16>) outs(%te : tensor<64x64xbf16>) permutation = [1, 0]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x64xbf16>) -> (tensor<64x64xf8E4M3FN>, tensor<64x2xf8E8M0FNU>)
  %q = linalg.transpose ins(%qt : tensor<64x64xf8E4M3FN>) outs(%qt : tensor<64x64xf8E4M3FN>) permutation = [1, 0]
  return %q : tensor<64x64xf8E4M3FN>
}

// -----

// t is used elsewhere: it stays, and the fused op reads x all the same.
// CHECK-LABEL: func.func @t_used_elsewhere
// CHECK-SAME: (%[[W:.*]]: tensor<64x32xbf16>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[W]]
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 0 : i64
// CHECK: return %[[T]], %[[QS]]#0
func.func @t_used_elsewhere(%w: tensor<64x32xbf16>) -> (tensor<32x64xbf16>, tensor<64x32xf8E4M3FN>) {
  %te = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x32xbf16>) outs(%te : tensor<32x64xbf16>) permutation = [1, 0]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x32xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  return %t, %q : tensor<32x64xbf16>, tensor<64x32xf8E4M3FN>
}

// -----

// q is transposed back once and returned twice; another transpose of the same kind gives the same value.
// CHECK-LABEL: func.func @q_twice
// CHECK-SAME: (%[[W:.*]]: tensor<64x32xbf16>
// CHECK-NEXT: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 0 : i64
// CHECK-NEXT: return %[[QS]]#0, %[[QS]]#0, %[[QS]]#0
func.func @q_twice(%w: tensor<64x32xbf16>) -> (tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN>) {
  %te = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x32xbf16>) outs(%te : tensor<32x64xbf16>) permutation = [1, 0]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x32xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  %again = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  return %q, %q, %again : tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN>
}

// -----

// Two transposes back in two memory orders: one op cannot write both.
// CHECK-LABEL: func.func @two_orders
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: "mx_quantize.quantize"(%[[T]]) {axis = 1 : i64
func.func @two_orders(%w: tensor<64x32xbf16>)
    -> (tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN, affine_map<(n, k) -> (k, n)>>) {
  %te = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x32xbf16>) outs(%te : tensor<32x64xbf16>) permutation = [1, 0]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x32xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  %ce = tensor.empty() : tensor<64x32xf8E4M3FN, affine_map<(n, k) -> (k, n)>>
  %c = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%ce : tensor<64x32xf8E4M3FN, affine_map<(n, k) -> (k, n)>>) permutation = [1, 0]
  return %q, %c : tensor<64x32xf8E4M3FN>, tensor<64x32xf8E4M3FN, affine_map<(n, k) -> (k, n)>>
}

// -----

// The second transpose is not the inverse of the first, though the shapes would fit (a cube).
// CHECK-LABEL: func.func @not_the_inverse
// CHECK: %[[T:.*]] = linalg.transpose ins(%{{.*}}permutation = [0, 2, 1]
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[T]]) {axis = 2 : i64
// CHECK: linalg.transpose ins(%[[QS]]#0{{.*}}permutation = [1, 0, 2]
func.func @not_the_inverse(%w: tensor<32x32x32xbf16>) -> tensor<32x32x32xf8E4M3FN> {
  %te = tensor.empty() : tensor<32x32x32xbf16>
  %t = linalg.transpose ins(%w : tensor<32x32x32xbf16>) outs(%te : tensor<32x32x32xbf16>) permutation = [0, 2, 1]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x32x32xbf16>) -> (tensor<32x32x32xf8E4M3FN>, tensor<32x32x1xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<32x32x32xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x32x32xf8E4M3FN>) outs(%qe : tensor<32x32x32xf8E4M3FN>) permutation = [1, 0, 2]
  return %q : tensor<32x32x32xf8E4M3FN>
}

// -----

// A cycle is not its own inverse: p = [1, 2, 0, 3] is undone by [2, 0, 1, 3], not by itself. Axis 3 of t is axis p[3] = 3 of x,
// axis 0 of t is axis p[0] = 1 of x.
// CHECK-LABEL: func.func @cycle
// CHECK-SAME: (%[[W:.*]]: tensor<32x64x96x4xbf16>
// CHECK-NEXT: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 1 : i64
// CHECK-SAME: -> (tensor<32x64x96x4xf8E4M3FN>, tensor<32x2x96x4xf8E8M0FNU>)
// CHECK-NEXT: return %[[QS]]#0, %[[QS]]#1
func.func @cycle(%w: tensor<32x64x96x4xbf16>) -> (tensor<32x64x96x4xf8E4M3FN>, tensor<32x2x96x4xf8E8M0FNU>) {
  %te = tensor.empty() : tensor<64x96x32x4xbf16>
  %t = linalg.transpose ins(%w : tensor<32x64x96x4xbf16>) outs(%te : tensor<64x96x32x4xbf16>) permutation = [1, 2, 0, 3]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x96x32x4xbf16>) -> (tensor<64x96x32x4xf8E4M3FN>, tensor<2x96x32x4xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<32x64x96x4xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<64x96x32x4xf8E4M3FN>) outs(%qe : tensor<32x64x96x4xf8E4M3FN>) permutation = [2, 0, 1, 3]
  %se = tensor.empty() : tensor<32x2x96x4xf8E8M0FNU>
  %s = linalg.transpose ins(%st : tensor<2x96x32x4xf8E8M0FNU>) outs(%se : tensor<32x2x96x4xf8E8M0FNU>) permutation = [2, 0, 1, 3]
  return %q, %s : tensor<32x64x96x4xf8E4M3FN>, tensor<32x2x96x4xf8E8M0FNU>
}

// -----

// The same cycle on a cube, "undone" by itself: shapes fit, values do not.
// CHECK-LABEL: func.func @cycle_twice
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: "mx_quantize.quantize"(%[[T]]) {axis = 0 : i64
// CHECK: linalg.transpose
func.func @cycle_twice(%w: tensor<32x32x32x4xbf16>) -> tensor<32x32x32x4xf8E4M3FN> {
  %te = tensor.empty() : tensor<32x32x32x4xbf16>
  %t = linalg.transpose ins(%w : tensor<32x32x32x4xbf16>) outs(%te : tensor<32x32x32x4xbf16>) permutation = [1, 2, 0, 3]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x32x32x4xbf16>) -> (tensor<32x32x32x4xf8E4M3FN>, tensor<1x32x32x4xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<32x32x32x4xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x32x32x4xf8E4M3FN>) outs(%qe : tensor<32x32x32x4xf8E4M3FN>) permutation = [1, 2, 0, 3]
  return %q : tensor<32x32x32x4xf8E4M3FN>
}

// -----

// A cycle where only the scales are transposed back: q of the fused op is in the dimensions of x, in the memory order of the
// transposed tensor, and is transposed by p itself. Memory order (e', n', k', c') of q' is x's dimensions (1, 2, 0, 3).
// CHECK: #[[$ORDER:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d2, d0, d3)>
// CHECK-LABEL: func.func @cycle_only_scales
// CHECK-SAME: (%[[W:.*]]: tensor<32x64x96x4xbf16>
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 2 : i64
// CHECK-SAME: -> (tensor<32x64x96x4xf8E4M3FN, #[[$ORDER]]>, tensor<32x64x3x4xf8E8M0FNU>)
// CHECK: %[[Q:.*]] = linalg.transpose ins(%[[QS]]#0{{.*}}tensor<64x96x32x4xf8E4M3FN>) permutation = [1, 2, 0, 3]
// CHECK: return %[[Q]], %[[QS]]#1
func.func @cycle_only_scales(%w: tensor<32x64x96x4xbf16>) -> (tensor<64x96x32x4xf8E4M3FN>, tensor<32x64x3x4xf8E8M0FNU>) {
  %te = tensor.empty() : tensor<64x96x32x4xbf16>
  %t = linalg.transpose ins(%w : tensor<32x64x96x4xbf16>) outs(%te : tensor<64x96x32x4xbf16>) permutation = [1, 2, 0, 3]
  %q, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x96x32x4xbf16>) -> (tensor<64x96x32x4xf8E4M3FN>, tensor<64x3x32x4xf8E8M0FNU>)
  %se = tensor.empty() : tensor<32x64x3x4xf8E8M0FNU>
  %s = linalg.transpose ins(%st : tensor<64x3x32x4xf8E8M0FNU>) outs(%se : tensor<32x64x3x4xf8E8M0FNU>) permutation = [2, 0, 1, 3]
  return %q, %s : tensor<64x96x32x4xf8E4M3FN>, tensor<32x64x3x4xf8E8M0FNU>
}

// -----

// The same where q has a memory order of its own: outermost is its dimension 1, which is dimension p[1] = 2 of x, then p[0] = 1.
// CHECK: #[[$ORDER:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d1, d0, d3)>
// CHECK-LABEL: func.func @cycle_encoded
// CHECK: "mx_quantize.quantize"(%{{.*}}) {axis = 2 : i64
// CHECK-SAME: -> (tensor<32x64x96x4xf8E4M3FN, #[[$ORDER]]>, tensor<32x64x3x4xf8E8M0FNU>)
func.func @cycle_encoded(%w: tensor<32x64x96x4xbf16>)
    -> (tensor<64x96x32x4xf8E4M3FN, affine_map<(a, b, c, d) -> (b, a, c, d)>>, tensor<32x64x3x4xf8E8M0FNU>) {
  %te = tensor.empty() : tensor<64x96x32x4xbf16>
  %t = linalg.transpose ins(%w : tensor<32x64x96x4xbf16>) outs(%te : tensor<64x96x32x4xbf16>) permutation = [1, 2, 0, 3]
  %q, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x96x32x4xbf16>)
      -> (tensor<64x96x32x4xf8E4M3FN, affine_map<(a, b, c, d) -> (b, a, c, d)>>, tensor<64x3x32x4xf8E8M0FNU>)
  %se = tensor.empty() : tensor<32x64x3x4xf8E8M0FNU>
  %s = linalg.transpose ins(%st : tensor<64x3x32x4xf8E8M0FNU>) outs(%se : tensor<32x64x3x4xf8E8M0FNU>) permutation = [2, 0, 1, 3]
  return %q, %s : tensor<64x96x32x4xf8E4M3FN, affine_map<(a, b, c, d) -> (b, a, c, d)>>, tensor<32x64x3x4xf8E8M0FNU>
}

// -----

// Dynamic sizes: what only computed the sizes of the transposed tensors goes with them.
// CHECK-LABEL: func.func @dynamic
// CHECK-SAME: (%[[W:.*]]: tensor<?x?x?xbf16>
// CHECK-NEXT: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 1 : i64
// CHECK-SAME: -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E8M0FNU>)
// CHECK-NEXT: return %[[QS]]#0, %[[QS]]#1
func.func @dynamic(%w: tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E8M0FNU>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %e = tensor.dim %w, %c0 : tensor<?x?x?xbf16>
  %n = tensor.dim %w, %c1 : tensor<?x?x?xbf16>
  %k = tensor.dim %w, %c2 : tensor<?x?x?xbf16>
  %b = arith.ceildivui %n, %c32 : index
  %te = tensor.empty(%e, %k, %n) : tensor<?x?x?xbf16>
  %t = linalg.transpose ins(%w : tensor<?x?x?xbf16>) outs(%te : tensor<?x?x?xbf16>) permutation = [0, 2, 1]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E8M0FNU>)
  %qe = tensor.empty(%e, %n, %k) : tensor<?x?x?xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<?x?x?xf8E4M3FN>) outs(%qe : tensor<?x?x?xf8E4M3FN>) permutation = [0, 2, 1]
  %se = tensor.empty(%e, %b, %k) : tensor<?x?x?xf8E8M0FNU>
  %s = linalg.transpose ins(%st : tensor<?x?x?xf8E8M0FNU>) outs(%se : tensor<?x?x?xf8E8M0FNU>) permutation = [0, 2, 1]
  return %q, %s : tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E8M0FNU>
}

// -----

// Dynamic sizes and one result as it is: its transpose, which moves nothing, has sizes.
// CHECK: #[[$COL_MAJOR:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @dynamic_only_q
// CHECK-SAME: (%[[W:[^:]*]]: tensor<?x?xbf16>
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 0 : i64
// CHECK-SAME: -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU, #[[$COL_MAJOR]]>)
// CHECK: %[[N:.*]] = tensor.dim %[[QS]]#1, %c1
// CHECK: %[[M:.*]] = tensor.dim %[[QS]]#1, %c0
// CHECK: %[[E:.*]] = tensor.empty(%[[N]], %[[M]]) : tensor<?x?xf8E8M0FNU>
// CHECK: %[[S:.*]] = linalg.transpose ins(%[[QS]]#1 {{.*}}) outs(%[[E]] {{.*}}) permutation = [1, 0]
// CHECK: return %[[QS]]#0, %[[S]]
func.func @dynamic_only_q(%w: tensor<?x?xbf16>, %te: tensor<?x?xbf16>, %qe: tensor<?x?xf8E4M3FN>)
    -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>) {
  %t = linalg.transpose ins(%w : tensor<?x?xbf16>) outs(%te : tensor<?x?xbf16>) permutation = [1, 0]
  %qt, %s = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  %q = linalg.transpose ins(%qt : tensor<?x?xf8E4M3FN>) outs(%qe : tensor<?x?xf8E4M3FN>) permutation = [1, 0]
  return %q, %s : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>
}

// -----

// Two quantizes of one transpose, in two modes: each is fused on its own, then the transpose is gone.
// CHECK-LABEL: func.func @two_quantizes
// CHECK-SAME: (%[[W:.*]]: tensor<64x32xbf16>
// CHECK-NEXT: %[[A:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
// CHECK-NEXT: %[[B:.*]]:2 = "mx_quantize.quantize"(%[[W]]) {axis = 0 : i64, block = 32 : i64, mode = "even"}
// CHECK-NEXT: return %[[A]]#0, %[[B]]#0
func.func @two_quantizes(%w: tensor<64x32xbf16>) -> (tensor<64x32xf8E4M3FN>, tensor<64x32xf8E5M2>) {
  %te = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x32xbf16>) outs(%te : tensor<32x64xbf16>) permutation = [1, 0]
  %qta, %sta = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qtb, %stb = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "even"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E5M2>, tensor<32x2xf8E8M0FNU>)
  %qae = tensor.empty() : tensor<64x32xf8E4M3FN>
  %qa = linalg.transpose ins(%qta : tensor<32x64xf8E4M3FN>) outs(%qae : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  %qbe = tensor.empty() : tensor<64x32xf8E5M2>
  %qb = linalg.transpose ins(%qtb : tensor<32x64xf8E5M2>) outs(%qbe : tensor<64x32xf8E5M2>) permutation = [1, 0]
  return %qa, %qb : tensor<64x32xf8E4M3FN>, tensor<64x32xf8E5M2>
}

// -----

// Quantizing a block argument: there is no first transpose, whatever follows stays.
// CHECK-LABEL: func.func @argument
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%arg0) {axis = 1 : i64
// CHECK: linalg.transpose ins(%[[QS]]#0
func.func @argument(%t: tensor<32x64xbf16>) -> tensor<64x32xf8E4M3FN> {
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x32xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  return %q : tensor<64x32xf8E4M3FN>
}

// A declaration has nothing to fuse.
// CHECK: func.func private @declaration(tensor<32x64xbf16>
func.func private @declaration(tensor<32x64xbf16>)

// -----

// What the user wrote on the op stays on it, but the axis.
// CHECK-LABEL: func.func @attributes
// CHECK: "mx_quantize.quantize"(%{{.*}}) {axis = 0 : i64, block = 32 : i64, mode = "ceil", note.by = "me",
// CHECK-SAME: schedule = {tile_n = 256 : i64}}
func.func @attributes(%w: tensor<64x32xbf16>) -> tensor<64x32xf8E4M3FN> {
  %te = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x32xbf16>) outs(%te : tensor<32x64xbf16>) permutation = [1, 0]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "ceil", note.by = "me", schedule = {tile_n = 256}}
      : (tensor<32x64xbf16>) -> (tensor<32x64xf8E4M3FN>, tensor<32x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x32xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<32x64xf8E4M3FN>) outs(%qe : tensor<64x32xf8E4M3FN>) permutation = [1, 0]
  return %q : tensor<64x32xf8E4M3FN>
}

// -----

// Dead ops of ours go, whatever they feed into as long as that is dead; what somebody uses, and foreign ops, stay.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: %[[LIVE:.*]]:2 = "mx_quantize.quantize"
// CHECK-NEXT: call @declaration
// CHECK-NEXT: return %[[LIVE]]#1
func.func private @declaration()
func.func @dead(%w: tensor<64x32xbf16>) -> tensor<2x32xf8E8M0FNU> {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x32xbf16>) -> (tensor<64x32xf8E4M3FN>, tensor<2x32xf8E8M0FNU>)
  %q2, %s2 = "mx_quantize.quantize"(%w) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<64x32xbf16>) -> (tensor<64x32xf8E4M3FN>, tensor<2x32xf8E8M0FNU>)
  %x = "mx_quantize.dequantize"(%q2, %s2) {axis = 0 : i64, block = 32 : i64}
      : (tensor<64x32xf8E4M3FN>, tensor<2x32xf8E8M0FNU>) -> tensor<64x32xbf16>
  %e = tensor.empty() : tensor<32x64xbf16>
  %t = linalg.transpose ins(%x : tensor<64x32xbf16>) outs(%e : tensor<32x64xbf16>) permutation = [1, 0]
  call @declaration() : () -> ()
  return %s : tensor<2x32xf8E8M0FNU>
}

// -----

// The only permutation of one dimension undoes itself.
// CHECK-LABEL: func.func @rank_1
// CHECK-NEXT: %[[QS:.*]]:2 = "mx_quantize.quantize"(%{{.*}}) {axis = 0 : i64
// CHECK-NEXT: return %[[QS]]#0
func.func @rank_1(%w: tensor<64xbf16>) -> tensor<64xf8E4M3FN> {
  %te = tensor.empty() : tensor<64xbf16>
  %t = linalg.transpose ins(%w : tensor<64xbf16>) outs(%te : tensor<64xbf16>) permutation = [0]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64xbf16>) -> (tensor<64xf8E4M3FN>, tensor<2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64xf8E4M3FN>
  %q = linalg.transpose ins(%qt : tensor<64xf8E4M3FN>) outs(%qe : tensor<64xf8E4M3FN>) permutation = [0]
  return %q : tensor<64xf8E4M3FN>
}

// -----

// Both directions of one tensor are read once, whichever comes first.
// CHECK-LABEL: func.func @both(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x?xbf16>
// CHECK: %[[D:.*]]:4 = "mx_quantize.quantize_dual"(%[[X]]) {block = 32 : i64, mode = "rceil"}
// CHECK-SAME: -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #{{.*}}>, tensor<?x?xf8E8M0FNU>)
// CHECK-NOT: mx_quantize
// CHECK: return %[[D]]#0, %[[D]]#1, %[[D]]#2, %[[D]]#3
#both_col_major = affine_map<(m, k) -> (k, m)>
func.func @both(%x: tensor<?x?xbf16>)
    -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #both_col_major>, tensor<?x?xf8E8M0FNU>) {
  %qt, %st = "mx_quantize.quantize"(%x) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN, #both_col_major>, tensor<?x?xf8E8M0FNU>)
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return %q, %s, %qt, %st : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #both_col_major>, tensor<?x?xf8E8M0FNU>
}

// -----

// Also where one of them was written with transposes.
// CHECK-LABEL: func.func @both_with_transposes(
// CHECK: "mx_quantize.quantize_dual"
// CHECK-NOT: "mx_quantize.quantize"
// CHECK-NOT: linalg.transpose
// CHECK: return
#both_col_major = affine_map<(m, k) -> (k, m)>
func.func @both_with_transposes(%x: tensor<64x96xbf16>)
    -> (tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>, tensor<64x96xf8E4M3FN, #both_col_major>, tensor<2x96xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x96xbf16>) -> (tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>)
  %te = tensor.empty() : tensor<96x64xbf16>
  %t = linalg.transpose ins(%x : tensor<64x96xbf16>) outs(%te : tensor<96x64xbf16>) permutation = [1, 0]
  %tq, %ts = "mx_quantize.quantize"(%t) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<96x64xbf16>) -> (tensor<96x64xf8E4M3FN>, tensor<96x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<64x96xf8E4M3FN, #both_col_major>
  %qt = linalg.transpose ins(%tq : tensor<96x64xf8E4M3FN>) outs(%qe : tensor<64x96xf8E4M3FN, #both_col_major>) permutation = [1, 0]
  %se = tensor.empty() : tensor<2x96xf8E8M0FNU>
  %st = linalg.transpose ins(%ts : tensor<96x2xf8E8M0FNU>) outs(%se : tensor<2x96xf8E8M0FNU>) permutation = [1, 0]
  return %q, %s, %qt, %st
      : tensor<64x96xf8E4M3FN>, tensor<64x3xf8E8M0FNU>, tensor<64x96xf8E4M3FN, #both_col_major>, tensor<2x96xf8E8M0FNU>
}

// -----

// Two that differ in more than the axis stay two: mode, type, a schedule, sizes and layouts without a kernel.
// CHECK-LABEL: func.func @not_both(
// CHECK-NOT: quantize_dual
// CHECK-COUNT-8: "mx_quantize.quantize"
// CHECK-NOT: quantize_dual
// CHECK: return
#both_col_major = affine_map<(m, k) -> (k, m)>
func.func @not_both(%a: tensor<?x?xbf16>, %b: tensor<?x?xbf16>, %c: tensor<?x?xbf16>, %d: tensor<64x48xbf16>)
    -> (tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>,
        tensor<?x?xf8E8M0FNU>, tensor<2x48xf8E8M0FNU>, tensor<2x48xf8E8M0FNU>) {
  %aq, %as = "mx_quantize.quantize"(%a) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  %aqt, %ast = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN, #both_col_major>, tensor<?x?xf8E8M0FNU>)
  %bq, %bs = "mx_quantize.quantize"(%b) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  %bqt, %bst = "mx_quantize.quantize"(%b) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E5M2, #both_col_major>, tensor<?x?xf8E8M0FNU>)
  %cq, %cs = "mx_quantize.quantize"(%c) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 64, tile_k = 128, stages = 2, output_stages = 1, warps = 4, ctas_per_sm = 1, band = 1}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  %cqt, %cst = "mx_quantize.quantize"(%c) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN, #both_col_major>, tensor<?x?xf8E8M0FNU>)
  %dq, %ds = "mx_quantize.quantize"(%d) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x48xbf16>) -> (tensor<64x48xf8E4M3FN, #both_col_major>, tensor<2x48xf8E8M0FNU>)
  %dqr, %dsr = "mx_quantize.quantize"(%d) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<64x48xbf16>) -> (tensor<64x48xf8E4M3FN>, tensor<2x48xf8E8M0FNU>)
  return %as, %ast, %bs, %bst, %cs, %cst, %ds, %dsr
      : tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>,
        tensor<?x?xf8E8M0FNU>, tensor<2x48xf8E8M0FNU>, tensor<2x48xf8E8M0FNU>
}

// -----

// Two tensors with rows in the same groups are quantized by one op, where the first of the two stood.
#columns = affine_map<(m, k) -> (k, m)>
// CHECK-LABEL: func.func @pair
// CHECK-SAME: (%[[X:[^:]*]]: tensor<128x32xbf16> {{[^%]*}}%[[Y:[^:]*]]: tensor<128x48xbf16> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<4xi32>
// CHECK-NEXT: %[[P:.*]]:4 = "mx_quantize.quantize_fp8_pair"(%[[X]], %[[Y]], %[[OFFS]]) {pow2 = true, sanitize = false}
// CHECK-SAME: : (tensor<128x32xbf16>, tensor<128x48xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #{{.*}}>, tensor<4x32xf32>, tensor<128x48xf8E4M3FN, #{{.*}}>, tensor<4x48xf32>)
// CHECK-NEXT: "mx_quantize.dequantize_fp8"(%[[P]]#0, %[[P]]#1, %[[OFFS]])
// CHECK-NEXT: return %{{.*}}, %[[P]]#2, %[[P]]#3
func.func @pair(%x: tensor<128x32xbf16>, %y: tensor<128x48xbf16>, %offs: tensor<4xi32>)
    -> (tensor<128x32xbf16>, tensor<128x48xf8E4M3FN, #columns>, tensor<4x48xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %b = "mx_quantize.dequantize_fp8"(%q, %s, %offs) {granularity = "row", axis = 0 : i64}
      : (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>, tensor<4xi32>) -> tensor<128x32xbf16>
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x48xbf16>, tensor<4xi32>) -> (tensor<128x48xf8E4M3FN, #columns>, tensor<4x48xf32>)
  return %b, %qy, %sy : tensor<128x32xbf16>, tensor<128x48xf8E4M3FN, #columns>, tensor<4x48xf32>
}

// -----

// The second tensor is made between the two: the op stands where the second one stood.
#columns = affine_map<(m, k) -> (k, m)>
// CHECK-LABEL: func.func @pair_is_late
// CHECK-NEXT: %[[Y:.*]] = "mx_quantize.dequantize_fp8"
// CHECK-NEXT: "mx_quantize.quantize_fp8_pair"(%{{.*}}, %[[Y]], %{{.*}})
// CHECK-NEXT: return
func.func @pair_is_late(%x: tensor<128x32xbf16>, %z: tensor<128x48xf8E4M3FN>, %t: tensor<128xf32>, %offs: tensor<4xi32>)
    -> (tensor<128x32xf8E4M3FN, #columns>, tensor<128x48xf8E4M3FN, #columns>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %y = "mx_quantize.dequantize_fp8"(%z, %t) {granularity = "row", axis = 1 : i64}
      : (tensor<128x48xf8E4M3FN>, tensor<128xf32>) -> tensor<128x48xbf16>
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x48xbf16>, tensor<4xi32>) -> (tensor<128x48xf8E4M3FN, #columns>, tensor<4x48xf32>)
  return %q, %qy : tensor<128x32xf8E4M3FN, #columns>, tensor<128x48xf8E4M3FN, #columns>
}

// -----

// There is no such place: the second tensor is made of the first one's result.
#columns = affine_map<(m, k) -> (k, m)>
// CHECK-LABEL: func.func @no_place
// CHECK-NOT: quantize_fp8_pair
// CHECK: return
func.func @no_place(%x: tensor<128x32xbf16>, %offs: tensor<4xi32>) -> tensor<128x32xf8E4M3FN, #columns> {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %y = "mx_quantize.dequantize_fp8"(%q, %s, %offs) {granularity = "row", axis = 0 : i64}
      : (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>, tensor<4xi32>) -> tensor<128x32xbf16>
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  return %qy : tensor<128x32xf8E4M3FN, #columns>
}

// -----

// With dynamic rows, nothing says that there are as many of both; a product that reduces both does.
#columns = affine_map<(m, k) -> (k, m)>
// CHECK-LABEL: func.func @unknown_rows
// CHECK-NOT: quantize_fp8_pair
// CHECK: return
func.func @unknown_rows(%x: tensor<?x32xbf16>, %y: tensor<?x48xbf16>, %offs: tensor<4xi32>)
    -> (tensor<?x32xf8E4M3FN, #columns>, tensor<?x48xf8E4M3FN, #columns>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<?x32xbf16>, tensor<4xi32>) -> (tensor<?x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<?x48xbf16>, tensor<4xi32>) -> (tensor<?x48xf8E4M3FN, #columns>, tensor<4x48xf32>)
  return %q, %qy : tensor<?x32xf8E4M3FN, #columns>, tensor<?x48xf8E4M3FN, #columns>
}

// -----

// Either may be the one that the product has as it is.
#columns = affine_map<(m, k) -> (k, m)>
// CHECK-LABEL: func.func @gradient
// CHECK-SAME: (%[[DY:[^:]*]]: tensor<?x48xbf16> {{[^%]*}}%[[X:[^:]*]]: tensor<?x32xbf16> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<4xi32> {{[^%]*}}%[[E:[^:]*]]: tensor<48x?xf8E5M2>
// CHECK: %[[P:.*]]:4 = "mx_quantize.quantize_fp8_pair"(%[[X]], %[[DY]], %[[OFFS]]) {pow2 = false, sanitize = true}
// CHECK: %[[A:.*]] = linalg.transpose ins(%[[P]]#2
// CHECK: "scaled_grouped_mm.scaled_mm"(%[[A]], %[[P]]#0, %[[P]]#3, %[[P]]#1, %[[OFFS]])
// CHECK: %[[P2:.*]]:4 = "mx_quantize.quantize_fp8_pair"(%[[DY]], %[[X]], %[[OFFS]]) {pow2 = true, sanitize = true}
// CHECK: %[[A2:.*]] = linalg.transpose ins(%[[P2]]#0
// CHECK: "scaled_grouped_mm.scaled_mm"(%[[A2]], %[[P2]]#2, %[[P2]]#1, %[[P2]]#3, %[[OFFS]])
func.func @gradient(%dy: tensor<?x48xbf16>, %x: tensor<?x32xbf16>, %offs: tensor<4xi32>, %e: tensor<48x?xf8E5M2>)
    -> (tensor<4x48x32xbf16>, tensor<4x48x32xbf16>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = false, sanitize = true}
      : (tensor<?x32xbf16>, tensor<4xi32>) -> (tensor<?x32xf8E5M2, #columns>, tensor<4x32xf32>)
  %qd, %sd = "mx_quantize.quantize_fp8"(%dy, %offs) {granularity = "row", axis = 0 : i64, pow2 = false, sanitize = true}
      : (tensor<?x48xbf16>, tensor<4xi32>) -> (tensor<?x48xf8E5M2, #columns>, tensor<4x48xf32>)
  %a = linalg.transpose ins(%qd : tensor<?x48xf8E5M2, #columns>) outs(%e : tensor<48x?xf8E5M2>) permutation = [1, 0]
  %dw = "scaled_grouped_mm.scaled_mm"(%a, %q, %sd, %s, %offs) {accumulate = "fast"}
      : (tensor<48x?xf8E5M2>, tensor<?x32xf8E5M2, #columns>, tensor<4x48xf32>, tensor<4x32xf32>, tensor<4xi32>) -> tensor<4x48x32xbf16>
  %qd2, %sd2 = "mx_quantize.quantize_fp8"(%dy, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = true}
      : (tensor<?x48xbf16>, tensor<4xi32>) -> (tensor<?x48xf8E5M2, #columns>, tensor<4x48xf32>)
  %q2, %s2 = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = true}
      : (tensor<?x32xbf16>, tensor<4xi32>) -> (tensor<?x32xf8E5M2, #columns>, tensor<4x32xf32>)
  %a2 = linalg.transpose ins(%qd2 : tensor<?x48xf8E5M2, #columns>) outs(%e : tensor<48x?xf8E5M2>) permutation = [1, 0]
  %dw2 = "scaled_grouped_mm.scaled_mm"(%a2, %q2, %sd2, %s2, %offs) {accumulate = "fast"}
      : (tensor<48x?xf8E5M2>, tensor<?x32xf8E5M2, #columns>, tensor<4x48xf32>, tensor<4x32xf32>, tensor<4xi32>) -> tensor<4x48x32xbf16>
  return %dw, %dw2 : tensor<4x48x32xbf16>, tensor<4x48x32xbf16>
}

// -----

// What says something else is left alone: other groups, flags, element types of q or of the tensor, rows, axis, layout, a schedule; one
// that nobody uses, and the same tensor twice.
#columns = affine_map<(m, k) -> (k, m)>
// CHECK-LABEL: func.func @no_pairs
// CHECK-COUNT-9: "mx_quantize.quantize_fp8"(
// CHECK-NOT: mx_quantize
// CHECK: return
func.func @no_pairs(%x: tensor<128x32xbf16>, %a: tensor<128x32xbf16>, %f: tensor<128x32xf32>, %b: tensor<256x32xbf16>, %offs: tensor<4xi32>,
                    %others: tensor<4xi32>)
    -> (tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E5M2, #columns>,
        tensor<128x32xf8E4M3FN, #columns>, tensor<256x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN>,
        tensor<128x32xf8E4M3FN, #columns>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %q1, %s1 = "mx_quantize.quantize_fp8"(%a, %others) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %q2, %s2 = "mx_quantize.quantize_fp8"(%a, %offs) {granularity = "row", axis = 0 : i64, pow2 = false, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %q3, %s3 = "mx_quantize.quantize_fp8"(%a, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E5M2, #columns>, tensor<4x32xf32>)
  %q4, %s4 = "mx_quantize.quantize_fp8"(%f, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xf32>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %q5, %s5 = "mx_quantize.quantize_fp8"(%b, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<256x32xbf16>, tensor<4xi32>) -> (tensor<256x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %q6, %s6 = "mx_quantize.quantize_fp8"(%a, %offs) {granularity = "group", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4xf32>)
  %q7, %s7 = "mx_quantize.quantize_fp8"(%a, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN>, tensor<4x32xf32>)
  %unused, %s8 = "mx_quantize.quantize_fp8"(%a, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %q9, %s9 = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  return %q, %q1, %q2, %q3, %q4, %q5, %q6, %q7, %q9
      : tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E5M2, #columns>,
        tensor<128x32xf8E4M3FN, #columns>, tensor<256x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN>,
        tensor<128x32xf8E4M3FN, #columns>
}

// -----

// Of three, two are a pair, and one with a schedule is left alone.
#columns = affine_map<(m, k) -> (k, m)>
// CHECK-LABEL: func.func @three
// CHECK-SAME: (%[[X:[^:]*]]: tensor<128x32xbf16> {{[^%]*}}%[[Y:[^:]*]]: tensor<128x32xbf16> {{[^%]*}}%[[Z:[^:]*]]: tensor<128x32xbf16> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<4xi32>
// CHECK-NEXT: "mx_quantize.quantize_fp8"(%[[Z]], %[[OFFS]]) {{.*}}schedule
// CHECK-NEXT: "mx_quantize.quantize_fp8_pair"(%[[X]], %[[Y]], %[[OFFS]])
// CHECK-NEXT: "mx_quantize.quantize_fp8"(%[[Z]], %[[OFFS]])
// CHECK-NEXT: return
func.func @three(%x: tensor<128x32xbf16>, %y: tensor<128x32xbf16>, %z: tensor<128x32xbf16>, %offs: tensor<4xi32>)
    -> (tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>,
        tensor<128x32xf8E4M3FN, #columns>) {
  %q0, %s0 = "mx_quantize.quantize_fp8"(%z, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false, schedule = {band = 1}}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %qy, %sy = "mx_quantize.quantize_fp8"(%y, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  %qz, %sz = "mx_quantize.quantize_fp8"(%z, %offs) {granularity = "row", axis = 0 : i64, pow2 = true, sanitize = false}
      : (tensor<128x32xbf16>, tensor<4xi32>) -> (tensor<128x32xf8E4M3FN, #columns>, tensor<4x32xf32>)
  return %q0, %q, %qy, %qz : tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>, tensor<128x32xf8E4M3FN, #columns>,
      tensor<128x32xf8E4M3FN, #columns>
}

// -----

// What is rounded both ways is read once. With groups that holds where nobody reads rows of no group.
// CHECK-LABEL: func.func @rounded_both_ways
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x64xbf16> {{.*}}, %[[B:[^:]*]]: tensor<2x64x32xbf16> {{.*}}, %[[OFFS:[^:]*]]: tensor<2xi32>
// CHECK: %[[D:.*]]:2 = "mx_quantize.round_dual"(%[[X]], %[[OFFS]]) {block = 32 : i64, element = "f8E4M3FN", mode = "rceil"}
// CHECK-NEXT: "scaled_grouped_mm.mm"(%[[D]]#0, %[[B]], %[[OFFS]])
// CHECK-NEXT: return %{{.*}}, %[[D]]#1
// CHECK-LABEL: func.func @rounded_rows_are_read
// CHECK-NOT: round_dual
// CHECK-LABEL: func.func @rounded_weights
// CHECK: %[[D:.*]]:2 = "mx_quantize.round_dual"(%{{.*}}) {block = 32 : i64, element = "f8E5M2", mode = "even"}
// CHECK-NEXT: return %[[D]]#0, %[[D]]#1
// CHECK-LABEL: func.func @rounded_otherwise
// CHECK-NOT: round_dual
func.func @rounded_both_ways(%x: tensor<?x64xbf16>, %b: tensor<2x64x32xbf16>, %offs: tensor<2xi32>) -> (tensor<?x32xbf16>, tensor<?x64xbf16>) {
  %r = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %out = "scaled_grouped_mm.mm"(%r, %b, %offs) : (tensor<?x64xbf16>, tensor<2x64x32xbf16>, tensor<2xi32>) -> tensor<?x32xbf16>
  %t = "mx_quantize.round"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<?x64xbf16>, tensor<2xi32>) -> tensor<?x64xbf16>
  return %out, %t : tensor<?x32xbf16>, tensor<?x64xbf16>
}
func.func @rounded_rows_are_read(%x: tensor<?x64xbf16>, %offs: tensor<2xi32>) -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %r = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %t = "mx_quantize.round"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<?x64xbf16>, tensor<2xi32>) -> tensor<?x64xbf16>
  return %r, %t : tensor<?x64xbf16>, tensor<?x64xbf16>
}
func.func @rounded_weights(%x: tensor<2x96x64xbf16>) -> (tensor<2x96x64xbf16>, tensor<2x96x64xbf16>) {
  %t = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "even", element = "f8E5M2"} : (tensor<2x96x64xbf16>) -> tensor<2x96x64xbf16>
  %r = "mx_quantize.round"(%x) {axis = 2 : i64, block = 32 : i64, mode = "even", element = "f8E5M2"} : (tensor<2x96x64xbf16>) -> tensor<2x96x64xbf16>
  return %r, %t : tensor<2x96x64xbf16>, tensor<2x96x64xbf16>
}
func.func @rounded_otherwise(%x: tensor<2x96x64xbf16>) -> (tensor<2x96x64xbf16>, tensor<2x96x64xbf16>) {
  %t = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "even", element = "f8E5M2"} : (tensor<2x96x64xbf16>) -> tensor<2x96x64xbf16>
  %r = "mx_quantize.round"(%x) {axis = 2 : i64, block = 32 : i64, mode = "even", element = "f8E4M3FN"} : (tensor<2x96x64xbf16>) -> tensor<2x96x64xbf16>
  return %r, %t : tensor<2x96x64xbf16>, tensor<2x96x64xbf16>
}
