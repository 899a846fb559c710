// The kernels of mx_quantize.cast_fp8, cast_fp8_dual and cast_fp8_pair: what they have beside those of quantize.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// One factor. What an earlier launch may have written is waited for before anything is read; the factor is loaded before the
// tile has landed. Nothing looks for the largest magnitude.
// CHECK-LABEL: llvm.func @tensor_0(
// CHECK: nvvm.griddepcontrol wait
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.for
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-NOT: llvm.intr.maximum
// CHECK-COUNT-32: nvvm.convert.f32x2.to.f8x2
// CHECK-NOT: nvvm.convert
// CHECK-NOT: llvm.store {{.*}} !llvm.ptr<1>
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @tensor_0(
// RECORD-SAME: {kind = "pointer", tensor = 1
// RECORD-SAME: programmatic = true, requires = [{dim = [0, 1], multiple_of = 16 : i64}]
func.func @tensor(%x: tensor<?x?xbf16>, %f: tensor<1xf32>) -> tensor<?x?xf8E4M3FN> {
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 1 : i64, granularity = "tensor", sanitize = false}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  return %q : tensor<?x?xf8E4M3FN>
}

// -----

// With sanitize the unit is looked through once; what is to be replaced is replaced in code of its own.
// CHECK-LABEL: llvm.func @sanitized_0(
// CHECK-COUNT-31: llvm.intr.maximum
// CHECK: scf.if
// CHECK: llvm.inline_asm
// CHECK-COUNT-32: nvvm.convert.f32x2.to.f8x2
// CHECK: } else {
// CHECK-NOT: llvm.inline_asm
// CHECK-COUNT-32: nvvm.convert.f32x2.to.f8x2
// CHECK-NOT: nvvm.convert
// CHECK: llvm.return
func.func @sanitized(%x: tensor<?x?xbf16>, %f: tensor<1xf32>) -> tensor<?x?xf8E4M3FN> {
  %q = "mx_quantize.cast_fp8"(%x, %f) {axis = 1 : i64, granularity = "tensor", sanitize = true}
      : (tensor<?x?xbf16>, tensor<1xf32>) -> tensor<?x?xf8E4M3FN>
  return %q : tensor<?x?xf8E4M3FN>
}

// -----

// Factors for the columns of each group: a pair for the lane's two columns. Rows of other groups are cast again, in a loop over
// these groups. A tile with rows in no group is written without the TMA.
// CHECK-LABEL: llvm.func @groups_0(
// CHECK: nvvm.griddepcontrol wait
// CHECK: nvvm.redux.sync or
// CHECK: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.for
// CHECK-COUNT-2: nvvm.shfl.sync idx
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> vector<2xf32>
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-32: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: nvvm.mbarrier.arrive
// CHECK-COUNT-32: nvvm.convert.f32x2.to.f8x2
// CHECK: scf.for
// CHECK: scf.if
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> vector<2xf32>
// CHECK-COUNT-32: nvvm.convert.f32x2.to.f8x2
// CHECK-NOT: nvvm.convert
// CHECK: nvvm.fence.proxy
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta
// CHECK: } else {
// CHECK: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<1>
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @groups_0(
// RECORD-SAME: {kind = "status"}
// RECORD-SAME: programmatic = true
// RECORD-SAME: requires = [{at_least = 1 : i64, dim = [2, 0]}, {at_most = 1024 : i64, dim = [2, 0]}, {dim = [2, 0], same_as = [1, 0]}, {dim = [0, 1], same_as = [1, 1]}, {dim = [0, 1], multiple_of = 16 : i64}]
#col_major = affine_map<(m, k) -> (k, m)>
func.func @groups(%x: tensor<?x?xbf16>, %f: tensor<?x?xf32>, %offs: tensor<?xi32>) -> tensor<?x?xf8E4M3FN, #col_major> {
  %q = "mx_quantize.cast_fp8"(%x, %f, %offs) {axis = 0 : i64, granularity = "row", sanitize = false}
      : (tensor<?x?xbf16>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xf8E4M3FN, #col_major>
  return %q : tensor<?x?xf8E4M3FN, #col_major>
}

// -----

// Two tensors: the code of one, with a select for each map, pointer and size that a tile takes of its tensor. All four maps are
// prefetched. One table of groups, one loop of the loading warp, one of those that cast.
// CHECK-LABEL: llvm.func @pair_0(
// CHECK-COUNT-4: nvvm.prefetch tensormap
// CHECK: nvvm.griddepcontrol wait
// CHECK: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.for
// CHECK: %[[FIRST:.*]] = arith.cmpi ult
// CHECK: arith.select %[[FIRST]], {{.*}} : !llvm.ptr<1>
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> vector<2xf32>
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-64: nvvm.convert.f32x2.to.f8x2
// CHECK-NOT: nvvm.convert
// CHECK: %[[MAP:.*]] = arith.select %[[FIRST]], %arg{{[0-9]+}}, %arg{{[0-9]+}} : !llvm.ptr
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]]
// CHECK: } else {
// CHECK: arith.select %[[FIRST]], {{.*}} : !llvm.ptr<1>
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
// CHECK: scf.for
// CHECK: %[[LOADED:.*]] = arith.cmpi ult
// CHECK: %[[X:.*]] = arith.select %[[LOADED]], %arg{{[0-9]+}}, %arg{{[0-9]+}} : !llvm.ptr
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}, %[[X]]
// CHECK-NOT: nvvm.cp.async.bulk.tensor
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @pair_0(
// RECORD-SAME: grid = [{min = [{mul = [1, {ceildiv = [{dim = [0, 0]}, 128]}, {add = [{ceildiv = [{dim = [0, 1]}, 128]}, {ceildiv = [{dim = [1, 1]}, 128]}]}]}, {mul = ["num_sms", 2]}]}, 1, 1]
// RECORD-SAME: tensor = 0 : i64}
// RECORD-SAME: tensor = 5 : i64}
// RECORD-SAME: tensor = 1 : i64}
// RECORD-SAME: tensor = 6 : i64}
// RECORD-SAME: {dim = [0, 0], same_as = [1, 0]}, {dim = [4, 0], same_as = [2, 0]}, {dim = [0, 1], same_as = [2, 1]}, {dim = [4, 0], same_as = [3, 0]}, {dim = [1, 1], same_as = [3, 1]}, {dim = [0, 1], multiple_of = 16 : i64}, {dim = [1, 1], multiple_of = 16 : i64}]
//
// A map stays a parameter: what is chosen is its address, and nothing is copied to local memory.
// PTX-LABEL: .entry pair_0(
// PTX-NOT: .local
// PTX: cvta.param.u64
// PTX-NOT: .local
// PTX: selp.b64 %[[MAP:.*]], %rd{{[0-9]+}}, %rd{{[0-9]+}}, %p
// PTX-NOT: .local
// PTX: cp.async.bulk.tensor.2d.global.shared::cta
// PTX-NOT: .local
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global
// PTX-NOT: .local
// PTX: ret;
#columns = affine_map<(m, k) -> (k, m)>
func.func @pair(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>, %f: tensor<?x?xf32>, %fy: tensor<?x?xf32>, %offs: tensor<?xi32>)
    -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E4M3FN, #columns>) {
  %q, %qy = "mx_quantize.cast_fp8_pair"(%x, %y, %f, %fy, %offs) {sanitize = false}
      : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E4M3FN, #columns>)
  return %q, %qy : tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E4M3FN, #columns>
}
