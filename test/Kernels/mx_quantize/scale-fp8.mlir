// The kernels of mx_quantize.scale_fp8, scale_fp8_dual and scale_fp8_pair: what must stand in them, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// One scale. All loads of a tile are there before the first is used; a warp finds its largest, one thread the block's, and raises the
// tensor's by it. All threads have raised what they had to before one counts the block; the count is what releases and acquires.
// CHECK-LABEL: llvm.func @tensor_0(
// CHECK: nvvm.griddepcontrol wait
// CHECK: scf.for
// CHECK-COUNT-16: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load {{.*}} : !llvm.ptr<1>
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr<3>
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.if
// CHECK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: llvm.atomicrmw umax {{.*}} syncscope("device") monotonic
// CHECK-NOT: llvm.atomicrmw
// CHECK: nvvm.barrier{{$}}
// CHECK: llvm.atomicrmw add {{.*}} syncscope("device") acq_rel
//
// The last block leaves the counter and the maximum zero, and writes factor and scale.
// CHECK: scf.if
// CHECK: llvm.store %c0_i32{{(_[0-9]+)?}}, {{.*}} : i32, !llvm.ptr<1>
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.if
// CHECK: llvm.atomicrmw xchg {{.*}}, %c0_i32{{(_[0-9]+)?}} syncscope("device") monotonic
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK-NOT: llvm.atomicrmw
//
// The second pass may start; then what a tensor without elements needs.
// CHECK: nvvm.griddepcontrol launch_dependents
// CHECK: scf.if
// CHECK: scf.for
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @tensor_0(
// RECORD-SAME: grid = [{mul = ["num_sms", 2]}, 1, 1]
// RECORD-SAME: programmatic = true, requires = [{dim = [0, 1], multiple_of = 8 : i64}, {at_least = 1 : i64, dim = [0, 1]}]
// RECORD-SAME: zeroed = [3]
//
// PTX-LABEL: .entry tensor_0(
// PTX-NOT: .ftz
// PTX: griddepcontrol.wait
// PTX: atom{{.*}}.max.u32
// PTX: bar.sync
// PTX: fence.acq_rel.gpu
// PTX: atom{{.*}}.add.u32
// PTX-NEXT: fence.acq_rel.gpu
// PTX: atom{{.*}}.exch.b32
// PTX: div.rn.f32
// PTX: griddepcontrol.launch_dependents
// PTX-NOT: .ftz
func.func @tensor(%x: tensor<?x?xbf16>) -> (tensor<1xf32>, tensor<1xf32>) {
  %s, %f, %state = "mx_quantize.scale_fp8"(%x) {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?xbf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<2x1xi32>)
  return %s, %f : tensor<1xf32>, tensor<1xf32>
}

// -----

// Columns of experts: no shuffles; what warps found goes through shared memory, in vectors, and a thread has a column.
// CHECK-LABEL: llvm.func @columns_0(
// CHECK-NOT: nvvm.shfl
// CHECK: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.if
// CHECK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: llvm.atomicrmw umax
// CHECK: nvvm.barrier{{$}}
// CHECK: llvm.atomicrmw add
// CHECK-NOT: llvm.atomicrmw add
// CHECK: nvvm.barrier{{$}}
// CHECK: llvm.atomicrmw xchg
//
// RECORD-LABEL: llvm.func @columns_0(
// RECORD-SAME: zeroed = [3]
func.func @columns(%w: tensor<?x?x?xbf16>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %s, %f, %state = "mx_quantize.scale_fp8"(%w) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
  return %s, %f : tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// Rows besides: 16 words of a lane become one in 16 shuffles, 8 + 4 + 2 + 1 and one more for what two lanes have of a row. Two counters.
// CHECK-LABEL: llvm.func @dual_0(
// CHECK-COUNT-16: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-COUNT-16: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl
// CHECK: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.barrier{{$}}
// CHECK: llvm.atomicrmw umax
// CHECK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: llvm.atomicrmw umax
// CHECK: nvvm.barrier{{$}}
// CHECK-COUNT-2: llvm.atomicrmw add
// CHECK: nvvm.barrier{{$}}
// CHECK-COUNT-2: llvm.atomicrmw xchg
// CHECK-NOT: llvm.atomicrmw
//
// RECORD-LABEL: llvm.func @dual_0(
// RECORD-SAME: programmatic = true
// RECORD-SAME: zeroed = [3, 6]
func.func @dual(%w: tensor<?x?x?xbf16>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %s, %f, %state, %st, %ft, %state_t = "mx_quantize.scale_fp8_dual"(%w) {pow2 = true, sanitize = false, element = "f8E4M3FN",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
  return %f, %ft : tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// Groups: one warp makes a table of them, which may report; groups without rows have scales of their own.
// CHECK-LABEL: llvm.func @groups_0(
// CHECK: nvvm.griddepcontrol wait
// CHECK: nvvm.shfl.sync up
// CHECK: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.for
// CHECK: llvm.atomicrmw umax
// CHECK: nvvm.griddepcontrol launch_dependents
// CHECK: scf.for
// CHECK: scf.if
// CHECK: scf.for
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<1>
//
// RECORD-LABEL: llvm.func @groups_0(
// RECORD-SAME: {kind = "status"}
// RECORD-SAME: requires = [{at_least = 1 : i64, dim = [1, 0]}, {at_most = 1024 : i64, dim = [1, 0]}, {dim = [0, 1], multiple_of = 4 : i64}, {at_least = 1 : i64, dim = [0, 1]}]
// RECORD-SAME: zeroed = [4]
func.func @groups(%x: tensor<?x?xf32>, %offs: tensor<?xi32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %s, %f, %state = "mx_quantize.scale_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = true, sanitize = false, element = "f8E5M2",
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?xf32>, tensor<?xi32>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
  return %s, %f : tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// Two tensors: the code of one, with a select for each pointer and size that a tile takes of its tensor. A table of groups, one counter
// for a tile; groups without rows are filled in both.
// CHECK-LABEL: llvm.func @pair_0(
// CHECK: nvvm.griddepcontrol wait
// CHECK: llvm.atomicrmw _or
// CHECK: nvvm.barrier{{$}}
// CHECK: scf.for
// CHECK: arith.select %[[FIRST:[0-9]+]], {{.*}} : !llvm.ptr<1>
// CHECK-COUNT-3: arith.select %[[FIRST]], {{.*}} : !llvm.ptr<1>
// CHECK-COUNT-16: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: llvm.atomicrmw umax
// CHECK-NOT: llvm.atomicrmw umax
// CHECK: llvm.atomicrmw add
// CHECK-NOT: llvm.atomicrmw add
// CHECK: llvm.atomicrmw xchg
// CHECK-NOT: llvm.atomicrmw
// CHECK: nvvm.griddepcontrol launch_dependents
// CHECK: scf.if
// CHECK-COUNT-4: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @pair_0(
// RECORD-SAME: requires = [{at_least = 1 : i64, dim = [2, 0]}, {at_most = 1024 : i64, dim = [2, 0]}, {dim = [0, 1], multiple_of = 8 : i64}, {at_least = 1 : i64, dim = [0, 1]}, {dim = [1, 1], multiple_of = 8 : i64}, {at_least = 1 : i64, dim = [1, 1]}, {dim = [0, 0], same_as = [1, 0]}]
// RECORD-SAME: zeroed = [5, 8]
func.func @pair(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>, %offs: tensor<?xi32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %s, %f, %state, %sy, %fy, %state_y = "mx_quantize.scale_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?xi32>)
      -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x?x?xi32>)
  return %f, %fy : tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// In two passes: the function has two launches, and the second one may start before the first has ended.
// RECORD-LABEL: llvm.func @both_passes_0(
// RECORD-SAME: programmatic = true
// RECORD-LABEL: llvm.func @both_passes_1(
// RECORD-SAME: programmatic = true
//
// PTX-LABEL: .entry both_passes_0(
// PTX: griddepcontrol.launch_dependents
// PTX-LABEL: .entry both_passes_1(
// PTX: griddepcontrol.wait
func.func @both_passes(%x: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<1xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<1xf32>)
  return %q, %s : tensor<?x?xf8E4M3FN>, tensor<1xf32>
}
