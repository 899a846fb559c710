// The kernels of mx_quantize.quantize and quantize_dual: what must stand in them, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// bf16, one output tile. Shared memory: 16 KB of output, 3 stages of 32 KB, then 3 + 3 barriers of 8 bytes.
//
// Who loads and who quantizes is decided once, after the barriers are there for everybody, the TMA included.
// CHECK-LABEL: llvm.func @bf16_0(
// CHECK-SAME: %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[XMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
// CHECK-SAME: %[[QMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}, %[[SCALES:[^:]*]]: !llvm.ptr<1>)
// CHECK: %[[SHARED:.*]] = llvm.mlir.addressof @dynamic_shared_memory
// CHECK: scf.if
// CHECK: nvvm.prefetch tensormap, %[[XMAP]]
// CHECK: nvvm.prefetch tensormap, %[[QMAP]]
//
// A stage is full after one announcement, empty after one arrival of each of 8 warps.
// CHECK: %[[FULL_0:.*]] = llvm.getelementptr %[[SHARED]][114688]
// CHECK: nvvm.mbarrier.init %[[FULL_0]], %c1_i32{{(_[0-9]+)?}} :
// CHECK: %[[EMPTY_0:.*]] = llvm.getelementptr %[[SHARED]][114712]
// CHECK: nvvm.mbarrier.init %[[EMPTY_0]], %c8_i32{{(_[0-9]+)?}} :
// CHECK-COUNT-4: nvvm.mbarrier.init
// CHECK-NOT: nvvm.mbarrier.init
// CHECK: nvvm.fence.mbarrier.init
// CHECK-NEXT: }
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: nvvm.barrier{{$}}
//
// The quantizing warps. The only output tile must have been read before anyone writes it again.
// CHECK: scf.for
// CHECK: scf.if
// CHECK-NEXT: nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK-NEXT: }
// CHECK: nvvm.barrier id = %c2_i32{{(_[0-9]+)?}} number_of_threads = %c256_i32
//
// Wait for the tile, read all of it, give the stage back, and only then compute and store.
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-32: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK-NOT: llvm.load
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.mbarrier.arrive
// CHECK-COUNT-32: llvm.intr.fabs
// CHECK-COUNT-31: llvm.intr.maximum
// CHECK-NOT: llvm.intr.maximum
//
// Two columns of 32 values: 16 converts of two values, 2 stores of 16 bytes each.
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2 {{.*}}f8E4M3FN
// CHECK-COUNT-2: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<3>
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2 {{.*}}f8E4M3FN
// CHECK-NOT: nvvm.convert
// CHECK-COUNT-2: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<3>
// CHECK-NOT: !llvm.ptr<3>
//
// Two scales at once, only where they are inside.
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : i16, !llvm.ptr<1>
// CHECK-NEXT: }
//
// What the warps wrote must be visible to the TMA before one thread sends it off.
// CHECK-NEXT: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NOT: scf
// CHECK: nvvm.barrier id = %c1_i32{{(_[0-9]+)?}} number_of_threads = %c256_i32
// CHECK-NEXT: scf.if
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[QMAP]],
// CHECK-NOT: nvvm.cp.async.bulk.tensor
// CHECK: nvvm.cp.async.bulk.commit.group
// CHECK-NEXT: }
// CHECK: scf.yield
//
// Shared memory outlives the copies out of it.
// CHECK: nvvm.cp.async.bulk.wait_group 0 {read}
//
// The loading warp: one lane, two boxes of 128 x 64 x 2 bytes a stage. Announce all bytes, then load.
// CHECK: } else {
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive.expect_tx %[[FULL:.*]], %c32768_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[XMAP]], %[[FULL]]
// CHECK: llvm.getelementptr {{.*}}[16384]
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[XMAP]], %[[FULL]]
// CHECK-NOT: nvvm.cp.async.bulk.tensor
// CHECK: llvm.return
//
// The record for launchers. Dynamic sizes are parameters, before what is written in terms of them.
// RECORD-LABEL: llvm.func @bf16_0(
// RECORD: moe.kernel = {block = [288, 1, 1], cluster = [1, 1, 1],
// RECORD-SAME: grid = [{min = [{mul = [{dim = [0, 0]}, {ceildiv = [{dim = [0, 1]}, 128]}, {ceildiv = [{dim = [0, 2]}, 128]}]}, {mul = ["num_sms", 2]}]}, 1, 1]
// RECORD-SAME: parameters = [{kind = "scalar", type = "i32", value = {dim = [0, 0]}}, {kind = "scalar", type = "i32", value = {dim = [0, 1]}}, {kind = "scalar", type = "i32", value = {dim = [0, 2]}},
// RECORD-SAME: {box = [64, 128, 1], dims = [{dim = [0, 2]}, {dim = [0, 1]}, {dim = [0, 0]}], element = "bf16", fill = "zero", kind = "tensor_map", l2_promotion = "256B", strides = [{mul = [{dim = [0, 2]}, 2]}, {mul = [{dim = [0, 1]}, {dim = [0, 2]}, 2]}], swizzle = "128B", tensor = 0
// RECORD-SAME: {box = [128, 128, 1], dims = [{dim = [0, 1]}, {dim = [0, 2]}, {dim = [0, 0]}], element = "u8", fill = "zero", kind = "tensor_map", l2_promotion = "256B", strides = [{dim = [0, 1]}, {mul = [{dim = [0, 1]}, {dim = [0, 2]}]}], swizzle = "128B", tensor = 1
// RECORD-SAME: {kind = "pointer", tensor = 2
// RECORD-SAME: requires = [{dim = [0, 1], multiple_of = 32 : i64}, {dim = [0, 2], multiple_of = 16 : i64}]
// RECORD-SAME: shared_memory = 114736
// RECORD-SAME: nvvm.minctasm = 2 : i32, nvvm.reqntid = array<i32: 288>
func.func @bf16(%w: tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil", schedule = {stages = 3, ctas_per_sm = 2}}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return %q, %s : tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// fp32, two output tiles of 256 x 64, static sizes: no parameters but the maps and the scales.
// CHECK-LABEL: llvm.func @f32_0(
// CHECK-SAME: %[[XMAP:[^:]*]]: !llvm.ptr {{.*}}, %[[QMAP:[^:]*]]: !llvm.ptr {{.*}}, %{{.*}}: !llvm.ptr<1>)
//
// Two slots: nothing is waited for before the tile, and one lane has one column.
// CHECK: scf.for
// CHECK-NOT: wait_group
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-32: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK-COUNT-16: nvvm.convert.f32x2.to.f8x2 {{.*}}f8E5M2
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
//
// After the fence the other slot must have been read, before anyone passes the barrier and writes it.
// CHECK: nvvm.fence.proxy
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK-NEXT: }
// CHECK: nvvm.barrier id =
//
// 256 rows are two halves of 128 bytes by 64.
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[QMAP]],
// CHECK: llvm.getelementptr {{.*}}[8192]
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[QMAP]],
// CHECK: nvvm.cp.async.bulk.commit.group
// CHECK: nvvm.cp.async.bulk.wait_group 0 {read}
//
// Two boxes of 256 x 32 x 4 bytes.
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c65536_i32{{(_[0-9]+)?}} :
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[XMAP]],
// CHECK-NOT: nvvm.cp.async.bulk.tensor
//
// RECORD-LABEL: llvm.func @f32_0(
// RECORD: moe.kernel = {block = [544, 1, 1],
// RECORD-SAME: grid = [{min = [{mul = [4, {ceildiv = [320, 256]}, {ceildiv = [80, 64]}]}, {mul = ["num_sms", 1]}]}, 1, 1]
// RECORD-SAME: parameters = [{box = [32, 256, 1], dims = [80, 320, 4], element = "f32", fill = "zero", kind = "tensor_map", l2_promotion = "256B", strides = [{mul = [80, 4]}, {mul = [320, 80, 4]}], swizzle = "128B", tensor = 0
// RECORD-SAME: {box = [128, 64, 1], dims = [320, 80, 4], element = "u8", {{.*}}strides = [320, {mul = [320, 80]}], swizzle = "128B", tensor = 1
// RECORD-SAME: shared_memory = 163872
func.func @f32(%w: tensor<4x320x80xf32>) -> (tensor<4x320x80xf8E5M2, #col_major>, tensor<4x10x80xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "floor",
      schedule = {tile_n = 256, tile_k = 64, stages = 2, output_stages = 2, warps = 16, ctas_per_sm = 1, band = 1}}
      : (tensor<4x320x80xf32>) -> (tensor<4x320x80xf8E5M2, #col_major>, tensor<4x10x80xf8E8M0FNU>)
  return %q, %s : tensor<4x320x80xf8E5M2, #col_major>, tensor<4x10x80xf8E8M0FNU>
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// Both from one read: a stage is read twice and given back once. The tiles take turns: before one is sent off, the other must have been
// read, since it is written next. Scales of rows are put down in shared memory for several tiles of a row, and stored when they are done.
// CHECK-LABEL: llvm.func @both_0(
// CHECK-SAME: %[[XMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[QMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[QTMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}},
// CHECK: scf.for
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-NOT: nvvm.mbarrier.arrive
// CHECK-NOT: !llvm.ptr<1>
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr<3>
// CHECK: nvvm.fence.proxy
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK: nvvm.barrier id =
// CHECK-NOT: nvvm.mbarrier.arrive
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.global.shared.cta %[[QMAP]],
// CHECK-NEXT: nvvm.cp.async.bulk.commit.group
// CHECK-COUNT-32: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: nvvm.mbarrier.arrive
// CHECK-NOT: llvm.load
// CHECK: nvvm.fence.proxy
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK: nvvm.barrier id =
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[QTMAP]],
// CHECK-NEXT: nvvm.cp.async.bulk.commit.group
// CHECK-NOT: nvvm.cp.async.bulk.tensor.global.shared.cta
// CHECK: scf.yield
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> i8
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
// CHECK: nvvm.barrier id =
// CHECK: scf.yield
// CHECK-COUNT-4: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[XMAP]],
// CHECK-NOT: nvvm.cp.async.bulk.tensor
//
// RECORD-LABEL: llvm.func @both_0(
// RECORD-SAME: grid = [{min = [{mul = [4, {ceildiv = [320, 128]}, {ceildiv = [96, 512]}]}, {mul = ["num_sms", 1]}]}, 1, 1]
// RECORD-SAME: requires = [{dim = [0, 1], multiple_of = 32 : i64}, {dim = [0, 2], multiple_of = 32 : i64}]
func.func @both(%x: tensor<4x320x96xbf16>)
    -> (tensor<4x320x96xf8E4M3FN>, tensor<4x320x3xf8E8M0FNU>, tensor<4x320x96xf8E4M3FN, #col_major>, tensor<4x10x96xf8E8M0FNU>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil"} : (tensor<4x320x96xbf16>)
      -> (tensor<4x320x96xf8E4M3FN>, tensor<4x320x3xf8E8M0FNU>, tensor<4x320x96xf8E4M3FN, #col_major>, tensor<4x10x96xf8E8M0FNU>)
  return %q, %s, %qt, %st
      : tensor<4x320x96xf8E4M3FN>, tensor<4x320x3xf8E8M0FNU>, tensor<4x320x96xf8E4M3FN, #col_major>, tensor<4x10x96xf8E8M0FNU>
}

// -----

// Two kernels share one symbol for their shared memory.
// CHECK: gpu.module @kernels
// CHECK: llvm.mlir.global external @dynamic_shared_memory() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK-NOT: llvm.mlir.global
// CHECK: llvm.func @twice_0(
// CHECK: llvm.func @twice_1(
// CHECK-NOT: func.func
#col_major = affine_map<(e, n, k) -> (e, k, n)>
func.func @twice(%w: tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>)
  %q2, %s2 = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "ceil"}
      : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>)
  return %q, %s2 : tensor<1x32x16xf8E5M2, #col_major>, tensor<1x1x16xf8E8M0FNU>
}
