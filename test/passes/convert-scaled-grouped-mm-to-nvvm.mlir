// The kernels of scaled_grouped_mm.scaled_mm: what must stand in them, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Forward, fast sums. Shared memory: 4 stages of 48 KB, 4 + 4 barriers, then at 197632 8 x 2 KB to stage out, 8 x 1 KB of scales, and
// the table of 1024 groups, twice 4 KB.
//
// CHECK-LABEL: llvm.func @forward_0(
// CHECK-SAME: %[[TOKENS:[^:]*]]: i32, %[[DEPTH:[^:]*]]: i32, %[[EXPERTS:[^:]*]]: i32, %[[COLUMNS:[^:]*]]: i32,
// CHECK-SAME: %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
// CHECK-SAME: %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
// CHECK-SAME: %[[SA:[^:]*]]: !llvm.ptr<1>, %[[SB:[^:]*]]: !llvm.ptr<1>, %[[OFFS:[^:]*]]: !llvm.ptr<1>, %[[OUT:[^:]*]]: !llvm.ptr<1>, %[[STATUS:[^:]*]]: !llvm.ptr<1>)
// CHECK: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK: %[[SHARED:.*]] = llvm.mlir.addressof @dynamic_shared_memory
// CHECK: nvvm.prefetch tensormap, %[[AMAP]]
// CHECK: nvvm.prefetch tensormap, %[[BMAP]]
//
// A stage is full after one announcement, empty after one arrival of each of 8 multiplying warps.
// CHECK: %[[FULL_0:.*]] = llvm.getelementptr %[[SHARED]][196608]
// CHECK: nvvm.mbarrier.init %[[FULL_0]], %c1_i32{{(_[0-9]+)?}} :
// CHECK: %[[EMPTY_0:.*]] = llvm.getelementptr %[[SHARED]][196640]
// CHECK: nvvm.mbarrier.init %[[EMPTY_0]], %c8_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %c8_i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %c8_i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %c8_i32
// CHECK-NOT: nvvm.mbarrier.init
// CHECK: nvvm.fence.mbarrier.init
// CHECK-NEXT: }
//
// The first warp reads the offsets, 32 at a time. An end is no less than the one before and no more than the tokens; the largest so far
// is found in 5 steps, the start is the end of the lane before, and the tiles of the groups are added up in 5 more.
// CHECK: %[[FIRST_WARP:.*]] = arith.cmpi ult, %[[THREAD]], %c32_i32
// CHECK: scf.if %[[FIRST_WARP]]
// CHECK: scf.for {{.*}} to %[[EXPERTS]] step %c32_i32{{.*}} iter_args(%[[END_BEFORE:.*]] = %c0_i32{{.*}}, %[[TILES_BEFORE:.*]] = %c0_i32{{.*}}, %[[OFFSET_BEFORE:.*]] = %c0_i32{{.*}}, %[[FAULTS_BEFORE:.*]] = %c0_i32
// CHECK: %[[OFFSET:.*]] = llvm.getelementptr %[[OFFS]][
// CHECK: %[[READ:.*]] = llvm.load %[[OFFSET]] : !llvm.ptr<1> -> i32
//
// What is wrong with an offset: it is below the one before it, as the lanes read them, or beyond the tokens.
// CHECK: %[[READ_BEFORE:.*]] = nvvm.shfl.sync up %{{.*}}, %[[READ]], %c1_i32
// CHECK: %[[BEFORE:.*]] = arith.select %{{.*}}, %[[OFFSET_BEFORE]], %[[READ_BEFORE]]
// CHECK: %[[DECREASES:.*]] = arith.cmpi slt, %[[READ]], %[[BEFORE]]
// CHECK-NEXT: %[[BIT_0:.*]] = arith.select %[[DECREASES]], %c1_i32
// CHECK: %[[IS_BEYOND:.*]] = arith.cmpi slt, %[[TOKENS]], %[[READ]]
// CHECK-NEXT: %[[BIT_1:.*]] = arith.select %[[IS_BEYOND]], %c2_i32
// CHECK: %[[FOUND:.*]] = arith.ori %[[BIT_0]], %[[BIT_1]]
// CHECK: %[[FAULTS:.*]] = arith.ori %[[FAULTS_BEFORE]], %[[FOUND]]
//
// CHECK: %[[NO_LESS:.*]] = arith.maxsi %[[READ]], %[[END_BEFORE]]
// CHECK-NEXT: %[[CLAMPED:.*]] = arith.minsi %[[NO_LESS]], %[[TOKENS]]
// CHECK: nvvm.shfl.sync up %{{.*}}, %[[CLAMPED]], %c1_i32
// CHECK: arith.maxsi
// CHECK: nvvm.shfl.sync up {{.*}} %c2_i32
// CHECK: arith.maxsi
// CHECK: nvvm.shfl.sync up {{.*}} %c4_i32
// CHECK: arith.maxsi
// CHECK: nvvm.shfl.sync up {{.*}} %c8_i32
// CHECK: arith.maxsi
// CHECK: nvvm.shfl.sync up {{.*}} %c16_i32
// CHECK: arith.maxsi
// CHECK: %[[END:.*]] = arith.select
// CHECK: nvvm.shfl.sync up %{{.*}}, %[[END]], %c1_i32
// CHECK: arith.select %{{.*}}, %[[END_BEFORE]],
// CHECK: arith.subi %[[END]],
// CHECK: arith.divui {{.*}}, %c128_i32
// CHECK-COUNT-5: nvvm.shfl.sync up
// CHECK: %[[TILE_END:.*]] = arith.addi %{{.*}}, %[[TILES_BEFORE]]
// CHECK: llvm.getelementptr {{.*}}[222208]
// CHECK-NEXT: llvm.store %[[END]],
// CHECK: llvm.getelementptr {{.*}}[226304]
// CHECK-NEXT: llvm.store %[[TILE_END]],
// CHECK: nvvm.shfl.sync idx %{{.*}}, %[[END]], %c31_i32
// CHECK: nvvm.shfl.sync idx %{{.*}}, %[[TILE_END]], %c31_i32
// CHECK: nvvm.shfl.sync idx %{{.*}}, %[[READ]], %c31_i32
// CHECK: scf.yield {{.*}}, %[[FAULTS]] :
//
// One atomic of the warp, where there is something to say.
// CHECK: %[[ALL:.*]] = nvvm.redux.sync or
// CHECK: %[[ARE_FAULTS:.*]] = arith.cmpi ne, %[[ALL]], %c0_i32
// CHECK: %[[REPORTS:.*]] = arith.andi %[[ARE_FAULTS]],
// CHECK-NEXT: scf.if %[[REPORTS]]
// CHECK-NEXT: llvm.atomicrmw _or %[[STATUS]], %[[ALL]] syncscope("device") monotonic
// CHECK-NEXT: }
//
// Everybody waits for the barriers and the table; then the roles part, and registers go from who loads to who multiplies.
// CHECK: nvvm.barrier{{$}}
// CHECK: %[[MULTIPLIES:.*]] = arith.cmpi ult, %[[THREAD]], %c256_i32
// CHECK-NEXT: scf.if %[[MULTIPLIES]]
// CHECK-NEXT: nvvm.setmaxregister increase 232
// CHECK: scf.for
//
// The first product of a tile stands before the loop and ignores what the accumulator holds.
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 32>, D[<f32>, <one>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
//
// While it runs: two row scales into registers, the tile's column scales into shared memory. Nothing waits for a product here.
// CHECK-NOT: wgmma
// CHECK: %[[SA_0:.*]] = llvm.getelementptr %[[SA]][
// CHECK-NEXT: %[[ROW_SCALE_0:.*]] = llvm.load %[[SA_0]]
// CHECK: %[[SA_1:.*]] = llvm.getelementptr %[[SA]][
// CHECK-NEXT: %[[ROW_SCALE_1:.*]] = llvm.load %[[SA_1]]
// CHECK: llvm.getelementptr %[[SB]][
// CHECK-COUNT-4: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK-NOT: wgmma
// CHECK: nvvm.bar.warp.sync
//
// The loop: wait for the stage, four products, and only then wait for those before and give their stage back.
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
// CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: scf.if
// CHECK: nvvm.mbarrier.arrive
// CHECK-NEXT: }
// CHECK: scf.yield
//
// The last products, and the last stage.
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK: scf.if
// CHECK: nvvm.mbarrier.arrive
//
// 64 columns at a time: the row's scale first, then the column's, two values to bf16, four matrices in one store. Then whole rows of
// 128 bytes, each only where it is inside.
// CHECK: %[[BY_ROW:.*]] = arith.mulf %[[ROW_SCALE_0]], %{{.*}} : f32
// CHECK-NEXT: arith.mulf %{{.*}}, %[[BY_ROW]] : f32
// CHECK: llvm.fptrunc {{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK: arith.mulf %[[ROW_SCALE_1]],
// CHECK-COUNT-4: nvvm.stmatrix {{.*}} layout = #nvvm.mma_layout<row>
// CHECK-NOT: nvvm.stmatrix
// CHECK: nvvm.bar.warp.sync
// CHECK-NOT: nvvm.stmatrix
// CHECK: %[[COLUMN_INSIDE:.*]] = arith.cmpi ult, %{{.*}}, %[[COLUMNS]]
// CHECK: %[[ROW_INSIDE:.*]] = arith.cmpi ult
// CHECK: %[[INSIDE:.*]] = arith.andi %[[ROW_INSIDE]], %[[COLUMN_INSIDE]]
// CHECK-NEXT: scf.if %[[INSIDE]]
// CHECK: llvm.getelementptr %[[OUT]][
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NEXT: }
// CHECK-NOT: nvvm.stmatrix
// CHECK: scf.if
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-12: nvvm.stmatrix
// CHECK-NOT: nvvm.stmatrix
// CHECK-NOT: wgmma
//
// One thread loads: wait until the stage is free, announce (128 + 256) * 128 bytes, then 128 of K of both operands.
// CHECK: } else {
// CHECK-NEXT: nvvm.setmaxregister decrease 40
// CHECK: scf.if
// CHECK: scf.for
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive.expect_tx %[[FULL:.*]], %c49152_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[AMAP]], %[[FULL]], box[%[[AT:.*]], %{{[^,]*}}] :
// CHECK: llvm.getelementptr {{.*}}[16384]
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]], %[[FULL]], box[%[[AT]], %{{[^,]*}}, %{{[^,]*}}] :
// CHECK-NOT: nvvm.cp.async.bulk.tensor
// CHECK: llvm.return
//
// Dynamic sizes are parameters; a launcher checks those that the types cannot.
// RECORD-LABEL: llvm.func @forward_0(
// RECORD: moe.kernel = {block = [384, 1, 1], cluster = [1, 1, 1],
// RECORD-SAME: grid = [{min = [{mul = [{dim = [0, 0]}, {ceildiv = [{dim = [1, 2]}, 256]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: parameters = [{kind = "scalar", type = "i32", value = {dim = [0, 0]}}, {kind = "scalar", type = "i32", value = {dim = [0, 1]}}, {kind = "scalar", type = "i32", value = {dim = [1, 0]}}, {kind = "scalar", type = "i32", value = {dim = [1, 2]}},
// RECORD-SAME: {box = [128, 128], dims = [{dim = [0, 1]}, {dim = [0, 0]}], element = "u8", fill = "zero", kind = "tensor_map", l2_promotion = "256B", strides = [{dim = [0, 1]}], swizzle = "128B", tensor = 0
// RECORD-SAME: {box = [128, 256, 1], dims = [{dim = [0, 1]}, {dim = [1, 2]}, {dim = [1, 0]}], element = "u8", fill = "zero", kind = "tensor_map", l2_promotion = "256B", strides = [{dim = [0, 1]}, {mul = [{dim = [1, 2]}, {dim = [0, 1]}]}], swizzle = "128B", tensor = 1
// RECORD-SAME: {kind = "pointer", tensor = 2{{[^}]*}}}, {kind = "pointer", tensor = 3{{[^}]*}}}, {kind = "pointer", tensor = 4{{[^}]*}}}, {kind = "pointer", tensor = 5{{[^}]*}}}, {kind = "status"}]
// RECORD-SAME: requires = [{dim = [0, 0], same_as = [2, 0]}, {dim = [0, 1], same_as = [1, 1]}, {dim = [1, 0], same_as = [3, 0]}, {dim = [1, 2], same_as = [3, 1]}, {dim = [1, 0], same_as = [4, 0]},
// RECORD-SAME: {dim = [1, 2], multiple_of = 16 : i64}, {at_least = 16 : i64, dim = [0, 1]}, {dim = [0, 1], multiple_of = 16 : i64}, {at_least = 1 : i64, dim = [4, 0]}, {at_most = 1024 : i64, dim = [4, 0]}]
// RECORD-SAME: shared_memory = 230400
// RECORD-SAME: nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 384>
func.func @forward(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                   %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Forward, promoted sums, E5M2 tokens. Static sizes but for the tokens: one scalar. A table of 8 groups takes as much as one of 32.
// CHECK-LABEL: llvm.func @promoted_0(
// CHECK-SAME: %[[TOKENS:[^:]*]]: i32, %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>)
// CHECK: nvvm.setmaxregister increase 232
//
// The scales first, since no product is in flight yet.
// CHECK-NOT: wgmma
// CHECK-COUNT-3: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
//
// For each 128 of K: a fresh sum, a wait for it, its stage back, and 96 additions in fp32.
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 192, k = 32>, D[<f32>, <zero>], A[<e5m2>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 192, k = 32>, D[<f32>, <one>], A[<e5m2>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK-NOT: arith.addf
// CHECK: scf.if
// CHECK: nvvm.mbarrier.arrive
// CHECK-COUNT-96: arith.addf {{.*}} : f32
// CHECK-NOT: arith.addf
// CHECK: scf.yield
// CHECK-NOT: wgmma
// CHECK-COUNT-12: nvvm.stmatrix
// CHECK-NOT: nvvm.stmatrix
// CHECK: nvvm.setmaxregister decrease 40
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c40960_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[AMAP]], {{.*}}box[%{{[^,]*}}, %{{[^,]*}}] :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[BMAP]], {{.*}}box[%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}] :
//
// RECORD-LABEL: llvm.func @promoted_0(
// RECORD: grid = [{min = [{mul = [{dim = [0, 0]}, {ceildiv = [320, 192]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: parameters = [{kind = "scalar", type = "i32", value = {dim = [0, 0]}},
// RECORD-SAME: {box = [128, 128], dims = [208, {dim = [0, 0]}], {{.*}}strides = [208],
// RECORD-SAME: {box = [128, 192, 1], dims = [208, 320, 8], {{.*}}strides = [208, {mul = [320, 208]}],
// RECORD-SAME: shared_memory = 187648
func.func @promoted(%qa: tensor<?x208xf8E5M2>, %qb: tensor<8x208x320xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<8x320xf32>,
                    %offs: tensor<8xi32>) -> tensor<?x320xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x208xf8E5M2>, tensor<8x208x320xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<8x320xf32>, tensor<8xi32>) -> tensor<?x320xbf16>
  return %out : tensor<?x320xbf16>
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>

// Weight gradient, E5M2 times E4M3.
// CHECK-LABEL: llvm.func @gradient_0(
// CHECK-SAME: %[[ROWS:[^:]*]]: i32, %[[TOKENS:[^:]*]]: i32, %[[COLUMNS:[^:]*]]: i32, %[[EXPERTS:[^:]*]]: i32,
// CHECK-SAME: %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>)
// CHECK: arith.minsi %{{.*}}, %[[TOKENS]]
// CHECK: nvvm.setmaxregister increase 232
//
// The group starts at a multiple of 32 tokens, and even an empty one has a block.
// CHECK: scf.for
// CHECK: %[[FIRST:.*]] = arith.andi %[[START:.*]], %c-32_i32
// CHECK: arith.subi %[[END:.*]], %[[FIRST]] :
// CHECK: arith.divui
// CHECK-NEXT: arith.maxsi %{{.*}}, %c1_i32
//
// What is not of the group is cleared in 384 rows, 32 at a time: four masks of four tokens, cut off at the end and the start.
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: %[[PAST_END:.*]] = arith.cmpi slt, %[[END]],
// CHECK-NEXT: %[[BEFORE_START:.*]] = arith.cmpi slt, %{{.*}}, %[[START]]
// CHECK-NEXT: %[[PARTIAL:.*]] = arith.ori %[[BEFORE_START]], %[[PAST_END]]
// CHECK-NEXT: scf.if %[[PARTIAL]]
// CHECK: arith.subi %[[END]],
// CHECK: %[[TO_END:.*]] = arith.trunci
// CHECK: arith.subi %[[START]],
// CHECK: %[[TO_START:.*]] = arith.trunci
// CHECK: %[[FROM_START:.*]] = arith.xori %[[TO_START]], %c-1_i32
// CHECK-NEXT: %[[MASK_0:.*]] = arith.andi %[[TO_END]], %[[FROM_START]]
// CHECK-COUNT-3: arith.xori {{.*}}, %c-1_i32
// CHECK: llvm.insertelement %[[MASK_0]],
// CHECK-COUNT-3: llvm.insertelement
// CHECK-COUNT-12: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK-NOT: llvm.store
//
// All 256 threads have cleared, and the tensor cores see it, before the product.
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NOT: scf
// CHECK: nvvm.barrier id = %c1_i32{{(_[0-9]+)?}} number_of_threads = %c256_i32
// CHECK-NEXT: }
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 32>, D[<f32>, <zero>], A[<e5m2>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: nvvm.wgmma.commit.group
//
// The same in the loop.
// CHECK-COUNT-4: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: scf.if
// CHECK-COUNT-12: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.fence.proxy
// CHECK: nvvm.barrier id = %c1_i32{{(_[0-9]+)?}} number_of_threads = %c256_i32
// CHECK-NEXT: }
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: nvvm.wgmma.commit.group
// CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: nvvm.mbarrier.arrive
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK-COUNT-16: nvvm.stmatrix
// CHECK-NOT: nvvm.stmatrix
//
// Two operands of two dimensions; both are read along the tokens.
// CHECK: nvvm.setmaxregister decrease 40
// CHECK: nvvm.mbarrier.arrive.expect_tx %[[FULL:.*]], %c49152_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[AMAP]], %[[FULL]], box[%[[AT:.*]], %{{[^,]*}}] :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]], %[[FULL]], box[%[[AT]], %{{[^,]*}}] :
// CHECK-NOT: nvvm.cp.async.bulk.tensor
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @gradient_0(
// RECORD: grid = [{min = [{mul = [{dim = [4, 0]}, {ceildiv = [{dim = [0, 0]}, 128]}, {ceildiv = [{dim = [1, 1]}, 256]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: parameters = [{kind = "scalar", type = "i32", value = {dim = [0, 0]}}, {kind = "scalar", type = "i32", value = {dim = [0, 1]}}, {kind = "scalar", type = "i32", value = {dim = [1, 1]}}, {kind = "scalar", type = "i32", value = {dim = [4, 0]}},
// RECORD-SAME: {box = [128, 128], dims = [{dim = [0, 1]}, {dim = [0, 0]}], {{[^}]*}}{{.*}}strides = [{dim = [0, 1]}], swizzle = "128B", tensor = 0
// RECORD-SAME: {box = [128, 256], dims = [{dim = [0, 1]}, {dim = [1, 1]}], {{[^}]*}}{{.*}}strides = [{dim = [0, 1]}], swizzle = "128B", tensor = 1
// RECORD-SAME: requires = [{dim = [0, 1], same_as = [1, 0]}, {dim = [4, 0], same_as = [2, 0]}, {dim = [0, 0], same_as = [2, 1]}, {dim = [4, 0], same_as = [3, 0]}, {dim = [1, 1], same_as = [3, 1]},
// RECORD-SAME: {dim = [1, 1], multiple_of = 16 : i64}, {at_least = 16 : i64, dim = [0, 1]}, {dim = [0, 1], multiple_of = 16 : i64}, {at_least = 1 : i64, dim = [4, 0]}, {at_most = 1024 : i64, dim = [4, 0]}]
func.func @gradient(%qa: tensor<?x?xf8E5M2>, %qb: tensor<?x?xf8E4M3FN, #col_major>, %sa: tensor<?x?xf32>, %sb: tensor<?x?xf32>,
                    %offs: tensor<?xi32>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x?xf8E5M2>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>

// Nothing dynamic: no scalars. What the kernel needs is recorded all the same; the types have it already.
// RECORD-LABEL: llvm.func @static_0(
// RECORD-SAME: %{{[^:]*}}: !llvm.ptr {
// RECORD-SAME: grid = [{min = [{mul = [2, {ceildiv = [48, 128]}, {ceildiv = [32, 192]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: parameters = [{box = [128, 128], dims = [64, 48],
// RECORD-SAME: requires = [{dim = [0, 1], same_as = [1, 0]},
func.func @static(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x32xf32>,
                  %offs: tensor<2xi32>) -> tensor<2x48x32xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x48x32xbf16>
  return %out : tensor<2x48x32xbf16>
}
