// The kernels of scaled_grouped_mm.mm and mm_bias: what differs from those of scaled_mm (test/passes/convert-scaled-grouped-mm-to-nvvm.mlir).

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Forward: ping-pong by default. A stage has 64 elements of the reduction, 128 bytes of each row: four products of 16 for each of the two halves of a tile. No scales
// are read, and sums are rounded as they are.
// CHECK-LABEL: llvm.func @forward_0(
// CHECK-SAME: {box = [64, 128], dims
// CHECK-SAME: element = "bf16"
// CHECK-SAME: {box = [64, 128, 1], dims
// CHECK-COUNT-2: D[<f32>, <zero>], A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>]
// CHECK-COUNT-6: D[<f32>, <one>], A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>]
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
// CHECK: scf.for
// CHECK-COUNT-8: <m = 64, n = 128, k = 16>, D[<f32>, <one>]
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK-NOT: arith.mulf
// CHECK: llvm.fptrunc {{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK-NOT: arith.mulf
// CHECK: llvm.return
func.func @forward(%a: tensor<?x?xbf16>, %b: tensor<?x?x?xbf16, #col_major>, %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) {schedule = {pingpong = 1, tile_n = 128, stages = 6, cluster = 1, tma_store = 1}}
      : (tensor<?x?xbf16>, tensor<?x?x?xbf16, #col_major>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// -----

// Weights that lie as (E,K,N), f16, a bias: the rows of b lie side by side, so that a stage has blocks of 64 of them, and the tensor core transposes.
// The last k-tiles of a tile are loaded behind the look for the next tile.
// CHECK-LABEL: llvm.func @row_major_0(
// CHECK-SAME: {box = [64, 128], dims
// CHECK-SAME: {box = [64, 64, 1], dims
// CHECK: D[<f32>, <zero>], A[<f16>, <one>, <row>], B[<f16>, <one>, <row>]
// CHECK: arith.addf
// CHECK: llvm.fptrunc {{.*}} : vector<2xf32> to vector<2xf16>
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-COUNT-6: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: nvvm.cp.async.bulk.tensor.shared
// CHECK: llvm.return
func.func @row_major(%a: tensor<?x?xf16>, %b: tensor<?x?x?xf16>, %offs: tensor<?xi32>, %bias: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %out = "scaled_grouped_mm.mm_bias"(%a, %b, %offs, %bias) {schedule = {pingpong = 1, tile_n = 128, stages = 6, cluster = 1, tma_store = 1}}
      : (tensor<?x?xf16>, tensor<?x?x?xf16>, tensor<?xi32>, tensor<?x?xf16>) -> tensor<?x?xf16>
  return %out : tensor<?x?xf16>
}

// -----

#km = affine_map<(m, k) -> (k, m)>

// The weight gradient of tokens as they lie, without wide tiles: both operands are transposed by the tensor core, which loads two blocks of each.
// CHECK-LABEL: llvm.func @gradient_0(
// CHECK: D[<f32>, <zero>], A[<bf16>, <one>, <col>], B[<bf16>, <one>, <row>]
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-COUNT-4: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: nvvm.cp.async.bulk.tensor.shared
// CHECK: llvm.return
func.func @gradient(%a: tensor<?x?xbf16, #km>, %b: tensor<?x?xbf16>, %offs: tensor<?xi32>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) {schedule = {pingpong = 1, tile_n = 128, stages = 6, cluster = 1, tma_store = 1, wide_stages = 0}}
      : (tensor<?x?xbf16, #km>, tensor<?x?xbf16>, tensor<?xi32>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// In step: the thread that loads counts the tile that it begins, and asks until all of its turn are begun or its patience is at an end. The last CTA leaves zero.
// CHECK-LABEL: llvm.func @in_step_0(
// CHECK: llvm.atomicrmw add %[[COUNTERS:[^,]+]], %{{.*}} syncscope("device") monotonic
// CHECK: scf.while
// CHECK: %[[PATIENT:.*]] = arith.cmpi ne
// CHECK: %[[MISSING:.*]] = arith.cmpi ult
// CHECK: %[[WAITS:.*]] = arith.andi %[[MISSING]], %[[PATIENT]]
// CHECK: scf.condition(%[[WAITS]])
// CHECK: llvm.atomicrmw add %[[COUNTERS]],
// CHECK: nvvm.cp.async.bulk.tensor.shared
// CHECK: llvm.atomicrmw xchg %[[COUNTERS]],
// CHECK: llvm.return
func.func @in_step(%a: tensor<?x?xbf16>, %b: tensor<?x?x?xbf16, #col_major>, %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<?x?xbf16>, tensor<?x?x?xbf16, #col_major>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Clusters are not in step: nothing is counted.
// CHECK-LABEL: llvm.func @cluster_0(
// CHECK-NOT: llvm.atomicrmw add
// CHECK: llvm.return
func.func @cluster(%a: tensor<?x?xbf16>, %b: tensor<?x?x?xbf16, #col_major>, %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.mm"(%a, %b, %offs) {schedule = {cluster = 2}} : (tensor<?x?xbf16>, tensor<?x?x?xbf16, #col_major>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}
