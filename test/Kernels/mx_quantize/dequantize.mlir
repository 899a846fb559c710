// The kernels of mx_quantize.dequantize and mx_quantize.dequantize_fp8: what must stand in them, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// A stream: 8 vectors of q and as many scales are loaded before the first is used.
// CHECK-LABEL: llvm.func @rows_0(
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xi32>
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> i8
// CHECK-NOT: llvm.load
// CHECK: scf.if
// CHECK-COUNT-4: nvvm.convert.f8x2.to.f16x2 {{.*}}(f8E4M3FN)
// CHECK-NOT: nvvm.convert
// CHECK: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<1>
//
// Scales of another size are refused: their dimension is an expression.
// RECORD-LABEL: llvm.func @rows_0(
// RECORD-SAME: requires = [{dim = [0, 0], same_as = [1, 0]}, {dim = [1, 1], divisor = 32 : i64, quotient_of = [0, 1]},
// RECORD-SAME: {dim = [0, 1], multiple_of = 32 : i64}]
//
// fp16 holds every FP8 number; one rounding, and nothing is flushed.
// PTX-LABEL: .entry rows_0(
// PTX-NOT: .ftz
// PTX: ld.global.v2.b32
// PTX: cvt.rn.f16x2.e4m3x2
// PTX: cvt.f32.f16
// PTX: mul.rn.f32
// PTX: cvt.rn.bf16x2.f32
// PTX: st.global.v4.b32
// PTX-NOT: .ftz
func.func @rows(%q: tensor<?x?xf8E4M3FN>, %s: tensor<?x?xf8E8M0FNU>) -> tensor<?x?xbf16> {
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64,
      schedule = {tile_n = 16, tile_k = 1024, ctas_per_sm = 4, persistent = 1}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>) -> tensor<?x?xbf16>
  return %x : tensor<?x?xbf16>
}

// -----

// The default, without rows: 2 vectors, as pieces of the stream.
// CHECK-LABEL: llvm.func @stream_0(
// CHECK-NOT: scf.if
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xi32>
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> i8
// CHECK-NOT: llvm.load
// CHECK-COUNT-2: scf.if
func.func @stream(%q: tensor<?x?xf8E4M3FN>, %s: tensor<?x?xf8E8M0FNU>) -> tensor<?x?xbf16> {
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>) -> tensor<?x?xbf16>
  return %x : tensor<?x?xbf16>
}

// -----

// Through shared memory: 8 vectors in, a barrier, words out, a barrier before the next tile.
// CHECK-LABEL: llvm.func @columns_0(
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK-NOT: llvm.store
// CHECK: nvvm.barrier{{$}}
// CHECK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: scf.if
// CHECK: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<8xi8>
// CHECK-COUNT-4: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<1>
// CHECK: nvvm.barrier{{$}}
// CHECK-NEXT: }
//
// RECORD-LABEL: llvm.func @columns_0(
// RECORD-SAME: shared_memory = 16384 : i64
#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @columns(%q: tensor<?x?x?xf8E4M3FN, #col_major>, %s: tensor<?x?x?xf8E8M0FNU>) -> tensor<?x?x?xbf16> {
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64}
      : (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>) -> tensor<?x?x?xbf16>
  return %x : tensor<?x?x?xbf16>
}

// -----

// Groups: a table by one warp, which may report; tiles follow the groups.
// CHECK-LABEL: llvm.func @groups_0(
// CHECK: scf.if
// CHECK: nvvm.shfl.sync
// CHECK: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.for
//
// RECORD-LABEL: llvm.func @groups_0(
// RECORD-SAME: grid = [{mul = [1, {add = [{ceildiv = [{dim = [0, 0]}, 8]}, {dim = [2, 0]}]}, {ceildiv = [512, 1024]}]}, 1, 1]
// RECORD-SAME: {kind = "status"}
// RECORD-SAME: requires = [{dim = [2, 0], same_as = [1, 0]}, {dim = [0, 1], multiple_of = 16 : i64}, {at_least = 1 : i64, dim = [2, 0]}, {at_most = 1024 : i64, dim = [2, 0]}]
func.func @groups(%q: tensor<?x512xf8E5M2>, %s: tensor<?xf32>, %offs: tensor<?xi32>) -> tensor<?x512xbf16> {
  %x = "mx_quantize.dequantize_fp8"(%q, %s, %offs) {granularity = "group", axis = 1 : i64}
      : (tensor<?x512xf8E5M2>, tensor<?xf32>, tensor<?xi32>) -> tensor<?x512xbf16>
  return %x : tensor<?x512xbf16>
}
