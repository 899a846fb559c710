// An attribute `kernel` of an op of another dialect makes no launch of it.

// RUN: moe-opt %s --emit=manifest | FileCheck %s

// CHECK-COUNT-1: "kernel": "mm_0"
// CHECK-NOT: "kernel":
#col_major = affine_map<(e, k, n) -> (e, n, k)>
func.func @mm(%a: tensor<?x64xbf16>, %w: tensor<4x128x64xbf16>, %offs: tensor<4xi32>) -> tensor<?x128xbf16> {
  %e = tensor.empty() {kernel = 1 : i64} : tensor<4x64x128xbf16, #col_major>
  %b = linalg.transpose ins(%w : tensor<4x128x64xbf16>) outs(%e : tensor<4x64x128xbf16, #col_major>) permutation = [0, 2, 1]
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<?x64xbf16>, tensor<4x64x128xbf16, #col_major>, tensor<4xi32>) -> tensor<?x128xbf16>
  return %out : tensor<?x128xbf16>
}
