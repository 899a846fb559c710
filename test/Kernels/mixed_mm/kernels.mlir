// The kernels of scaled_grouped_mm.mixed_mm and pack_weights: what must stand in them, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s

#scales = affine_map<(n, j) -> (j, n)>

// Warpgroups, integers. A piece is 64 rows of 64 columns: a lane has 32 weights of it in four words, and makes two of them bf16 with one lop3 and one fma.
// Weights go from registers into the tensor core, 16 columns a product, whose sum begins anew with each group. Sums of a group are added with one fma for each of
// 8 registers, behind the wait for its products, while those of the next group run.
// CHECK-LABEL: llvm.func @integers_0(
// CHECK: nvvm.barrier{{$}}
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.load {{.*}} -> vector<4xi32>
// CHECK-COUNT-16: "lop3.b32 $0, $1, $2, $3, 0x6A;"
// CHECK-NOT: lop3
// CHECK: scf.for
// CHECK: "wgmma.fence.sync.aligned;"
// CHECK: setp.ne.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16
// CHECK-COUNT-3: setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16
// CHECK-NOT: wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
// CHECK-COUNT-16: "lop3.b32 $0, $1, $2, $3, 0x6A;"
// CHECK: setp.ne.b32 p, 0, 0; wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
// CHECK: "wgmma.wait_group.sync.aligned 1;"
// CHECK-COUNT-8: llvm.intr.fma({{.*}} : (f32, f32, f32) -> f32
// CHECK-NOT: (f32, f32, f32) -> f32
// CHECK: "wgmma.wait_group.sync.aligned 0;"
// CHECK-COUNT-8: llvm.intr.fma({{.*}} : (f32, f32, f32) -> f32
// CHECK: nvvm.mbarrier.arrive %
//
// The loader: weights, scales and tokens of a stage, all by the TMA.
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-COUNT-4: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: nvvm.cp.async.bulk.tensor
// CHECK: llvm.return
func.func @integers(%w: tensor<256x8x512xui8>, %scales: tensor<4096x8xbf16, #scales>, %x: tensor<?x512xbf16>) -> tensor<?x4096xbf16> {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 64 : i64, layout = "16x64",
      schedule = {tile_n = 16, panels = 0, slices = 1, warpgroups = 2, depth = 128, stages = 8, in_flight = 2}}
      : (tensor<256x8x512xui8>, tensor<4096x8xbf16, #scales>, tensor<?x512xbf16>) -> tensor<?x4096xbf16>
  return %out : tensor<?x4096xbf16>
}

// -----

#scales = affine_map<(n, j) -> (j, n)>

// Panels with direct weights: the loader copies tokens and scales; a warp loads its weights into registers, those of the next stage behind the products of this one,
// and a fence stands before the arrival, as the loads from the stage might come behind it.
// CHECK-LABEL: llvm.func @direct_0(
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-COUNT-17: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-COUNT-4: "ld.global.L1::no_allocate.v4.b32
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-2: nvvm.ldmatrix {{.*}} num = 4
// CHECK-COUNT-4: nvvm.mma.sync {{.*}} multiplicandAPtxType = #nvvm.mma_type<bf16>
// CHECK: llvm.intr.fma({{.*}} : (f32, f32, f32) -> f32
// CHECK: "ld.global.L1::no_allocate.v4.b32
// CHECK-COUNT-12: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: "ld.global.L1::no_allocate.v4.b32
// CHECK-NOT: nvvm.mbarrier.arrive
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK: nvvm.mbarrier.arrive %
// CHECK: scf.yield
// CHECK-NOT: wgmma
// CHECK: llvm.return
func.func @direct(%w: tensor<64x16x512xui8>, %scales: tensor<1024x16xbf16, #scales>, %x: tensor<8x1024xbf16>) -> tensor<8x1024xbf16> {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 64 : i64, layout = "16x64",
      schedule = {tile_n = 8, panels = 4, slices = 4, split = 2, direct = 1, depth = 1024, stages = 6}}
      : (tensor<64x16x512xui8>, tensor<1024x16xbf16, #scales>, tensor<8x1024xbf16>) -> tensor<8x1024xbf16>
  return %out : tensor<8x1024xbf16>
}

// -----

#scales = affine_map<(e, n, j) -> (e, j, n)>

// Experts, MXFP4 with long sums: scales are bytes, and factors of the weights; the tensor core's sum never begins anew, and nothing is added to it.
// CHECK-LABEL: llvm.func @experts_0(
// CHECK: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr<3> -> i8
// CHECK: "lop3.b32
// CHECK-NOT: setp.ne.b32 p, 0, 0; wgmma
// CHECK-NOT: (f32, f32, f32) -> f32
// CHECK: setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16
// CHECK-NOT: setp.ne.b32 p, 0, 0; wgmma
// CHECK-NOT: (f32, f32, f32) -> f32
// CHECK: llvm.return
func.func @experts(%w: tensor<16x64x16x512xui8>, %scales: tensor<16x1024x32xf8E8M0FNU, #scales>, %x: tensor<?x1024xbf16>, %offs: tensor<16xi32>)
    -> tensor<?x1024xbf16> {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "f4E2M1FN", group_size = 32 : i64, layout = "16x64_e2m1",
      schedule = {tile_n = 32, panels = 0, slices = 1, warpgroups = 4, depth = 256, stages = 4, in_flight = 1, token_parts = 2, scaled_weights = 1, long_sums = 1}}
      : (tensor<16x64x16x512xui8>, tensor<16x1024x32xf8E8M0FNU, #scales>, tensor<?x1024xbf16>, tensor<16xi32>) -> tensor<?x1024xbf16>
  return %out : tensor<?x1024xbf16>
}

// -----

// A lane reads 16 bytes of each of four rows, and writes 16 of the packed block. No memory is shared.
// CHECK-LABEL: llvm.func @pack_0(
// CHECK-SAME: shared_memory = 0
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK: llvm.return
func.func @pack(%w: tensor<4096x256xui8>) -> tensor<256x8x512xui8> {
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "16x64"} : (tensor<4096x256xui8>) -> tensor<256x8x512xui8>
  return %packed : tensor<256x8x512xui8>
}
