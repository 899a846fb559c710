// The kernels of mx_quantize.pack_scales, mx_quantize.pad_groups and mx_quantize.unpad_groups: what must stand in them.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// 16 scales at a time where rows allow it, else one; a patch of 128 rows of 68 bytes between two barriers; 512 bytes out for a warp.
// CHECK-LABEL: llvm.func @pack_0(
// CHECK-SAME: shared_memory = 8704 : i64
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: } else {
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<1> -> i8
// CHECK: } else {
// CHECK: nvvm.barrier{{$}}
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<1>
// CHECK: nvvm.barrier{{$}}
func.func @pack(%s: tensor<?x?xf8E8M0FNU>) -> tensor<?x?xf8E8M0FNU> {
  %p = "mx_quantize.pack_scales"(%s) {layout = "128x4"} : (tensor<?x?xf8E8M0FNU>) -> tensor<?x?xf8E8M0FNU>
  return %p : tensor<?x?xf8E8M0FNU>
}

// -----

// Where the columns are known, one of the two is left.
// PTX-LABEL: .entry pack_static_0(
// PTX: ld.global.v4.b32
// PTX-NOT: ld.global.b8
func.func @pack_static(%s: tensor<?x160xf8E8M0FNU>) -> tensor<?x160xf8E8M0FNU> {
  %p = "mx_quantize.pack_scales"(%s) {layout = "128x4"} : (tensor<?x160xf8E8M0FNU>) -> tensor<?x160xf8E8M0FNU>
  return %p : tensor<?x160xf8E8M0FNU>
}

// -----

// The padded ends by the first block; then a piece of a row for each warp, 2 vectors loaded before the first is stored.
// CHECK-LABEL: llvm.func @pad_0(
// CHECK-SAME: shared_memory = 256 : i64
// CHECK: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr<1>
// CHECK: arith.cmpi ult, {{.*}} : i64
// CHECK-NEXT: scf.if
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-2: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
func.func @pad(%x: tensor<?x5120xbf16>, %offs: tensor<8xi32>) -> (tensor<?x5120xbf16>, tensor<8xi32>) {
  %p, %po = "mx_quantize.pad_groups"(%x, %offs) {align = 16 : i64}
      : (tensor<?x5120xbf16>, tensor<8xi32>) -> (tensor<?x5120xbf16>, tensor<8xi32>)
  return %p, %po : tensor<?x5120xbf16>, tensor<8xi32>
}

// -----

// Two tables: of the groups, and of the padded ones.
// CHECK-LABEL: llvm.func @unpad_0(
// CHECK-SAME: shared_memory = 512 : i64
// CHECK-COUNT-2: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: arith.cmpi ult, {{.*}} : i64
// CHECK-NEXT: scf.if
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
func.func @unpad(%p: tensor<?x5120xbf16>, %offs: tensor<8xi32>, %po: tensor<8xi32>) -> tensor<?x5120xbf16> {
  %x = "mx_quantize.unpad_groups"(%p, %offs, %po) {align = 16 : i64}
      : (tensor<?x5120xbf16>, tensor<8xi32>, tensor<8xi32>) -> tensor<?x5120xbf16>
  return %x : tensor<?x5120xbf16>
}
