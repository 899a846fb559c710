// The kernel of mx_quantize.quantize_fp8 row by row: what must stand in it, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// A barrier for each stage's full and its empty, one arrival each.
// CHECK-LABEL: llvm.func @rows_0(
// CHECK-COUNT-8: nvvm.mbarrier.init {{.*}}, %c1_i32{{(_[0-9]+)?}} :
// CHECK-NOT: nvvm.mbarrier.init
// CHECK: nvvm.fence.mbarrier.init
// CHECK: nvvm.barrier{{$}}
//
// The loading lane: whole rows, if two fit.
// CHECK: scf.if
// CHECK: scf.if
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive.expect_tx {{.*}}, %[[BYTES:[0-9]+]] :
// CHECK: nvvm.cp.async.bulk.shared.cluster.global {{.*}}, %[[BYTES]] :
// CHECK: } else {
//
// A row on chip is read twice from there, four vectors of a lane in flight; the scale is stored once.
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xi32>
// CHECK: scf.yield
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.barrier id =
// CHECK: scf.for
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK: llvm.store {{.*}} : vector<2xi32>, !llvm.ptr<1>
// CHECK: nvvm.barrier id =
// CHECK: nvvm.mbarrier.arrive
// CHECK: } else {
//
// One that is too long is read twice from global memory, and nothing is waited for.
// CHECK-NOT: nvvm.mbarrier
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: nvvm.mbarrier
// CHECK: llvm.return
//
// No row is empty. 2 KB for rows, 4 stages of two barriers, a word for each warp in whole vectors.
// RECORD-LABEL: llvm.func @rows_0(
// RECORD-SAME: block = [192, 1, 1]
// RECORD-SAME: grid = [{min = [{mul = [{dim = [0, 0]}]}, {mul = ["num_sms", 3]}]}, 1, 1]
// RECORD-SAME: programmatic = true, requires = [{dim = [0, 1], multiple_of = 8 : i64}, {at_least = 1 : i64, dim = [0, 1]}, {at_most = 1073741823 : i64, dim = [0, 1]}]
// RECORD-SAME: shared_memory = 2144
// RECORD-SAME: zeroed = []
//
// Rows go into shared memory by bulk copies alone: threads store what the warps found, 4 bytes.
// PTX-LABEL: .entry rows_0(
// PTX-NOT: .ftz
// PTX-NOT: st.shared.v
// PTX: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// PTX-NOT: cp.async.bulk
// PTX-NOT: st.shared.v
// PTX: ld.shared.v4.b32
// PTX-NOT: st.shared.v
// PTX: div.rn.f32
// PTX: cvt.rn.satfinite.e4m3x2.f32
// PTX-NOT: st.shared.v
// PTX-NOT: .ftz
func.func @rows(%x: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = true, sanitize = false,
      schedule = {buffer_kb = 2, stages = 4, warps = 5, ctas_per_sm = 3}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>)
  return %q, %s : tensor<?x?xf8E4M3FN>, tensor<?xf32>
}

// -----

// Experts are rows like others. With static sizes there is one path: two rows of 10240 bytes fit.
// RECORD-LABEL: llvm.func @experts_0(
// RECORD-SAME: grid = [{min = [{mul = [8, 2048]}, {mul = ["num_sms", 1]}]}, 1, 1]
//
// PTX-LABEL: .entry experts_0(
// PTX-NOT: ld.global.v4
// PTX: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// PTX-NOT: ld.global.v4
// PTX: ret;
func.func @experts(%w: tensor<8x2048x2560xf32>) -> (tensor<8x2048x2560xf8E5M2>, tensor<8x2048xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%w) {granularity = "row", axis = 2 : i64, pow2 = true, sanitize = true}
      : (tensor<8x2048x2560xf32>) -> (tensor<8x2048x2560xf8E5M2>, tensor<8x2048xf32>)
  return %q, %s : tensor<8x2048x2560xf8E5M2>, tensor<8x2048xf32>
}

// -----

// A row of 112 KB: one fits, and nothing is copied.
// PTX-LABEL: .entry long_0(
// PTX-NOT: cp.async.bulk
// PTX: ld.global.v4.b32
// PTX-NOT: cp.async.bulk
// PTX: ret;
func.func @long(%x: tensor<64x57344xbf16>) -> (tensor<64x57344xf8E4M3FN>, tensor<64xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "row", axis = 1 : i64, pow2 = false, sanitize = false}
      : (tensor<64x57344xbf16>) -> (tensor<64x57344xf8E4M3FN>, tensor<64xf32>)
  return %q, %s : tensor<64x57344xf8E4M3FN>, tensor<64xf32>
}
