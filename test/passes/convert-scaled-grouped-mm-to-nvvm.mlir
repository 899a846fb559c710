// The kernels of scaled_grouped_mm.scaled_mm: what must stand in them, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Forward, fast sums. Shared memory: 4 stages of 48 KB, 4 + 4 barriers, at 196672 5 slots that say where tiles are, at 196832 a barrier of each, at 197632 8 x 2 KB to
// stage out, 2 x 1 KB of scales, and at 216064 the table of 1024 groups, twice 4 KB.
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
//
// A slot may be written again when each lane of those that multiply has read it.
// CHECK: llvm.getelementptr %{{.*}}[196832]
// CHECK-COUNT-5: nvvm.mbarrier.init %{{.*}}, %c256_i32
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
// CHECK: llvm.getelementptr {{.*}}[216064]
// CHECK-NEXT: llvm.store %[[END]],
// CHECK: llvm.getelementptr {{.*}}[220160]
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
// CHECK-NEXT: nvvm.setmaxregister increase 216
//
// Who multiplies looks for no tile: once its first stage has landed, a slot says which one it is, and of group -1 there is none.
// CHECK: scf.while
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.getelementptr {{.*}}[196672]
// CHECK-NEXT: %[[SLOT_GROUP:.*]] = llvm.load
// CHECK: %[[GROUP:.*]] = nvvm.redux.sync or %[[SLOT_GROUP]],
// CHECK: %[[IS_TILE:.*]] = arith.cmpi ne, %[[GROUP]], %c-1_i32
// CHECK: scf.condition(%[[IS_TILE]])
// CHECK: %[[SLOT:.*]] = llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK: %[[ROW:.*]] = llvm.extractelement %[[SLOT]][%c1_i32
// CHECK: %[[ROW_END:.*]] = llvm.extractelement %[[SLOT]][%c2_i32
//
// Each lane says so.
// CHECK: %[[SLOT_READ:.*]] = llvm.getelementptr %{{.*}}[196832]
// CHECK-NEXT: nvvm.mbarrier.arrive %[[SLOT_READ]]
// CHECK: nvvm.bar.warp.sync
//
// A warpgroup none of whose rows belong to the group does not multiply: below.
// CHECK: %[[FIRST_ROW:.*]] = arith.addi %[[ROW]],
// CHECK-NEXT: %[[HAS_ROWS:.*]] = arith.cmpi ult, %[[FIRST_ROW]], %[[ROW_END]]
// CHECK-NEXT: %[[HAS_ROWS_WORD:.*]] = arith.extui %[[HAS_ROWS]]
// CHECK: %[[UNIFORM:.*]] = nvvm.redux.sync or %[[HAS_ROWS_WORD]],
// CHECK: %[[WORKS:.*]] = arith.cmpi ne, %[[UNIFORM]], %c0_i32
// CHECK-NEXT: scf.if %[[WORKS]]
//
// The first product of a tile stands before the loop and ignores what the accumulator holds.
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 32>, D[<f32>, <one>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
//
// While it runs scales are asked for: of two rows, and of two of the tile's columns by each thread of the warpgroup. Nothing waits here.
// CHECK-NOT: wgmma
// CHECK: %[[SA_0:.*]] = llvm.getelementptr %[[SA]][
// CHECK-NEXT: %[[ROW_SCALE_0:.*]] = llvm.load %[[SA_0]]
// CHECK: %[[SA_1:.*]] = llvm.getelementptr %[[SA]][
// CHECK-NEXT: %[[ROW_SCALE_1:.*]] = llvm.load %[[SA_1]]
// CHECK-COUNT-2: llvm.getelementptr %[[SB]][
// CHECK-NOT: nvvm.barrier
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
// The last products, and the last stage. Then the scales of columns go to shared memory, between barriers of the warpgroup.
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK: scf.if
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %c128_i32
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %c128_i32
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
// A warpgroup that does not multiply keeps up: it waits for each stage and releases it.
// CHECK: } else {
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.mbarrier.arrive
// CHECK: scf.yield
// CHECK-NOT: wgmma
//
// One thread loads. It finds the tile, waits until the slot has been read, writes it into the slot before it announces a stage of it, and for
// each 128 of K waits until a stage is free, announces (128 + 256) * 128 bytes, and loads both operands.
// CHECK: } else {
// CHECK-NEXT: nvvm.setmaxregister decrease 72
// CHECK: scf.if
// CHECK: scf.while
// CHECK: llvm.getelementptr {{.*}}[196832]
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.getelementptr {{.*}}[196672]
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive.expect_tx %[[FULL:.*]], %c49152_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[AMAP]], %[[FULL]], box[%[[AT:.*]], %{{[^,]*}}] :
// CHECK: llvm.getelementptr {{.*}}[16384]
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]], %[[FULL]], box[%[[AT]], %{{[^,]*}}, %{{[^,]*}}] :
// CHECK-NOT: nvvm.cp.async.bulk.tensor
//
// At the end a slot without a tile, and a stage with nothing in it.
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c0_i32{{(_[0-9]+)?}} :
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
// RECORD-SAME: requires = [{dim = [0, 1], same_as = [1, 1]}, {dim = [0, 0], same_as = [2, 0]}, {dim = [1, 0], same_as = [3, 0]}, {dim = [1, 2], same_as = [3, 1]}, {dim = [1, 0], same_as = [4, 0]},
// RECORD-SAME: {dim = [1, 2], multiple_of = 16 : i64}, {at_least = 16 : i64, dim = [0, 1]}, {dim = [0, 1], multiple_of = 16 : i64}, {at_least = 1 : i64, dim = [4, 0]}, {at_most = 1024 : i64, dim = [4, 0]}]
// RECORD-SAME: shared_memory = 224256
// RECORD-SAME: nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 384>
func.func @forward(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                   %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {tile_n = 256, stages = 4, band = 8, pingpong = 0, tma_store = 0}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Forward, promoted sums, E5M2 tokens. Static sizes but for the tokens: one scalar. A table of 8 groups takes as much as one of 32, and a
// warp stages 2 KB.
// CHECK-LABEL: llvm.func @promoted_0(
// CHECK-SAME: %[[TOKENS:[^:]*]]: i32, %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>,
// CHECK-SAME: %[[OUTMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %{{[^:]*}}: !llvm.ptr<1>, %[[COUNTERS:[^:]*]]: !llvm.ptr<1>)
// CHECK: nvvm.setmaxregister increase 224
//
// The first 128 of K: a fresh sum, the tile before stored while it runs, a wait for it, its stage back.
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 192, k = 32>, D[<f32>, <zero>], A[<e5m2>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 192, k = 32>, D[<f32>, <one>], A[<e5m2>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK-NOT: wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
// CHECK-NOT: wgmma.wait_group
// CHECK-COUNT-12: nvvm.stmatrix
// CHECK-NOT: nvvm.stmatrix
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK: nvvm.mbarrier.arrive
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
//
// Each 128 more: the same, and 96 additions in fp32.
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,
// CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <zero>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
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
//
// The TMA has read what was staged before. Then it stores a box, where all rows of the warp belong to the group; else the warp does.
// CHECK: nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-4: nvvm.stmatrix
// CHECK-NOT: nvvm.stmatrix
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NEXT: arith.constant
// CHECK-NEXT: nvvm.bar.warp.sync
// CHECK-NEXT: scf.if
// CHECK: scf.if
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[OUTMAP]],
// CHECK-NEXT: nvvm.cp.async.bulk.commit.group
// CHECK: } else {
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: nvvm.cp.async.bulk.wait_group 0 {read}
// The block's next tile is the one that the counter gives.
// CHECK: nvvm.setmaxregister decrease 56
// CHECK: llvm.atomicrmw add %[[COUNTERS]], %c1_i32{{(_[0-9]+)?}} syncscope("device") monotonic
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c40960_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[AMAP]], {{.*}}box[%{{[^,]*}}, %{{[^,]*}}] :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{[^,]*}}, %[[BMAP]], {{.*}}box[%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}] :
//
// RECORD-LABEL: llvm.func @promoted_0(
// RECORD: grid = [{min = [{mul = [{dim = [0, 0]}, {ceildiv = [320, 192]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: parameters = [{kind = "scalar", type = "i32", value = {dim = [0, 0]}},
// RECORD-SAME: {box = [128, 128], dims = [208, {dim = [0, 0]}], {{.*}}strides = [208],
// RECORD-SAME: {box = [128, 192, 1], dims = [208, 320, 8], {{.*}}strides = [208, {mul = [320, 208]}],
// RECORD-SAME: {box = [64, 16], dims = [320, {dim = [0, 0]}], element = "bf16", {{.*}}strides = [{mul = [320, 2]}], swizzle = "128B", tensor = 5
// RECORD-SAME: {kind = "status"}, {kind = "counters"}]
// RECORD-SAME: shared_memory = 224000
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
// CHECK-SAME: %[[ROWS:[^:]*]]: i32, %[[TOKENS:[^:]*]]: i32, %[[EXPERTS:[^:]*]]: i32, %[[COLUMNS:[^:]*]]: i32,
// CHECK-SAME: %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %[[COUNTERS:[^:]*]]: !llvm.ptr<1>)
//
// Groups are put in order, the longest first, once their ends are known.
// CHECK: arith.minsi %{{.*}}, %[[TOKENS]]
// CHECK: nvvm.barrier{{$}}
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr<3>
// CHECK: nvvm.barrier{{$}}
// CHECK: nvvm.setmaxregister increase 216
//
// The range of tokens comes with the tile, which one lane reads. It starts at a multiple of 32, and even an empty one has a step.
// CHECK: scf.while
// CHECK: %[[RANGE:[0-9]+]]:2 = scf.for
// CHECK-NEXT: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xi32>
// CHECK: scf.yield
// CHECK: %[[START:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[RANGE]]#0, %c0_i32
// CHECK: %[[END:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[RANGE]]#1, %c0_i32
// CHECK: %[[FIRST:.*]] = arith.andi %[[START]], %c-32_i32
// CHECK: arith.subi %[[END]], %[[FIRST]] :
// CHECK: arith.divui
// CHECK-NEXT: arith.maxsi %{{.*}}, %c1_i32
// CHECK: %[[IS_EMPTY:.*]] = arith.cmpi eq, %[[START]], %[[END]]
//
// The stage has been cleared. The block that comes first is the last one of the group: of it only the
// steps that it has.
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-NOT: nvvm.fence.proxy
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 32>, D[<f32>, <zero>], A[<e5m2>, <one>, <row>], B[<e4m3>, <one>, <col>]
// CHECK: scf.for
// CHECK: nvvm.wgmma.fence.aligned
// CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK-NEXT: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: nvvm.wgmma.commit.group
//
// Scales of a group without tokens count as 0: they may be NaN.
// CHECK: %[[SCALE:.*]] = llvm.load %{{.*}} : !llvm.ptr<1> -> f32
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: arith.select %[[IS_EMPTY]], %[[ZERO]], %[[SCALE]]
//
// In the loop the blocks before it, all of four steps.
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-NOT: nvvm.fence.proxy
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: nvvm.wgmma.commit.group
// CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: nvvm.mbarrier.arrive
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK-COUNT-16: nvvm.stmatrix
// CHECK-NOT: nvvm.stmatrix
//
// Three warps clear: they wait for a request, then for its copies, and keep of a piece of 16 tokens what is the group's. A thread has four
// rows, of which it reads all before it writes any; the other piece of a step may be cleared whole. The tensor cores see it when each lane
// has said so.
// CHECK: nvvm.setmaxregister decrease 72
// CHECK: scf.while
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: scf.if
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK: scf.if
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: arith.andi
// CHECK-NEXT: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK: nvvm.mbarrier.arrive %
//
// The next tile is asked for before this one is loaded, by one thread of a warp, which says where the tile is.
// CHECK: scf.while
// CHECK: scf.for
// CHECK-NEXT: %[[COUNT:.*]] = llvm.atomicrmw add %[[COUNTERS]], %c1_i32{{(_[0-9]+)?}} syncscope("device") monotonic
// CHECK-NEXT: scf.yield %[[COUNT]]
// CHECK: scf.if %[[LOADS:.*]] {
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<3>
// CHECK-NEXT: }
// CHECK: nvvm.bar.warp.sync
//
// A stage in which a group starts or ends is noted. Its copies complete on a barrier of its own.
// CHECK: scf.for {{.*}} -> (i32, i32, i32)
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: %[[NOTES:.*]] = arith.andi %[[PARTIAL:.*]], %[[LOADS]] : i1
// CHECK-NEXT: scf.if %[[NOTES]]
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK: nvvm.mbarrier.arrive %
// CHECK: %[[LANDED:.*]] = arith.select %[[PARTIAL]], {{.*}} : !llvm.ptr<3>
//
// Two operands of two dimensions; both are read along the tokens. Arrivals in place of those of the 96 lanes that clear come behind.
// CHECK: scf.if %[[LOADS]]
// CHECK: nvvm.mbarrier.arrive.expect_tx %[[LANDED]], %c49152_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[AMAP]], %[[LANDED]], box[%[[AT:.*]], %{{[^,]*}}] :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]], %[[LANDED]], box[%[[AT]], %{{[^,]*}}] :
// CHECK: nvvm.mbarrier.arrive.nocomplete %[[LANDED]],
// CHECK: nvvm.mbarrier.arrive %[[LANDED]]
//
// Those are the first two k-tiles. In the others nothing starts or ends, and nothing is noted.
// CHECK: scf.for {{.*}} -> (i32, i32, i32)
// CHECK-NOT: arith.andi {{.*}} : i1
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: nvvm.cp.async.bulk.tensor
//
// The last block leaves both counters zero.
// CHECK: %[[DONE:.*]] = llvm.getelementptr %[[COUNTERS]][4]
// CHECK-NEXT: llvm.fence syncscope("device") acq_rel
// CHECK-NEXT: llvm.atomicrmw add %[[DONE]], %c1_i32{{(_[0-9]+)?}} syncscope("device") acq_rel
// CHECK: %[[IS_LAST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: scf.if %[[IS_LAST]]
// CHECK-NEXT: llvm.atomicrmw xchg %[[COUNTERS]], %c0_i32
// CHECK-NEXT: llvm.atomicrmw xchg %[[DONE]], %c0_i32
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @gradient_0(
// RECORD: grid = [{min = [{mul = [{dim = [4, 0]}, {ceildiv = [{dim = [0, 0]}, 128]}, {ceildiv = [{dim = [1, 1]}, 256]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: parameters = [{kind = "scalar", type = "i32", value = {dim = [0, 0]}}, {kind = "scalar", type = "i32", value = {dim = [0, 1]}}, {kind = "scalar", type = "i32", value = {dim = [4, 0]}}, {kind = "scalar", type = "i32", value = {dim = [1, 1]}},
// RECORD-SAME: {box = [128, 128], dims = [{dim = [0, 1]}, {dim = [0, 0]}], {{[^}]*}}{{.*}}strides = [{dim = [0, 1]}], swizzle = "128B", tensor = 0
// RECORD-SAME: {box = [128, 256], dims = [{dim = [0, 1]}, {dim = [1, 1]}], {{[^}]*}}{{.*}}strides = [{dim = [0, 1]}], swizzle = "128B", tensor = 1
// RECORD-SAME: {kind = "status"}, {kind = "counters"}]
// RECORD-SAME: requires = [{dim = [0, 1], same_as = [1, 0]}, {dim = [4, 0], same_as = [2, 0]}, {dim = [0, 0], same_as = [2, 1]}, {dim = [4, 0], same_as = [3, 0]}, {dim = [1, 1], same_as = [3, 1]},
// RECORD-SAME: {dim = [1, 1], multiple_of = 16 : i64}, {at_least = 16 : i64, dim = [0, 1]}, {dim = [0, 1], multiple_of = 16 : i64}, {at_least = 1 : i64, dim = [4, 0]}, {at_most = 1024 : i64, dim = [4, 0]}]
func.func @gradient(%qa: tensor<?x?xf8E5M2>, %qb: tensor<?x?xf8E4M3FN, #col_major>, %sa: tensor<?x?xf32>, %sb: tensor<?x?xf32>,
                    %offs: tensor<?xi32>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {tile_n = 256, stages = 4, band = 8, pingpong = 0, tma_store = 0}}
      : (tensor<?x?xf8E5M2>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>

// Nothing dynamic: no scalars. What the kernel needs is recorded all the same; the types have it already.
// RECORD-LABEL: llvm.func @static_0(
// RECORD-SAME: %{{[^:]*}}: !llvm.ptr {
// RECORD-SAME: grid = [{min = [{mul = [2, {ceildiv = [48, 192]}, {ceildiv = [32, 128]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: parameters = [{box = [128, 192], dims = [64, 48],
// RECORD-SAME: requires = [{dim = [0, 1], same_as = [1, 0]},
func.func @static(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>, %sb: tensor<2x32xf32>,
                  %offs: tensor<2xi32>) -> tensor<2x48x32xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<48x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x48x32xbf16>
  return %out : tensor<2x48x32xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Batched, with a scale for each expert, a bias, and f32 out: no groups, offsets or status. The tokens' map has a dimension of experts too.
// CHECK-LABEL: llvm.func @batched_0(
// CHECK-SAME: %{{[^:]*}}: i32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %{{[^:]*}}: i32,
// CHECK-SAME: %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[SA:[^:]*]]: !llvm.ptr<1>, %[[SB:[^:]*]]: !llvm.ptr<1>, %[[BIAS:[^:]*]]: !llvm.ptr<1>, %[[OUT:[^:]*]]: !llvm.ptr<1>)
// CHECK: nvvm.setmaxregister increase 216
// CHECK-COUNT-4: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group
//
// One scale of either for all of the tile, and of the columns the bias alone goes to shared memory.
// CHECK: llvm.getelementptr %[[SA]][
// CHECK: llvm.getelementptr %[[SB]][
// CHECK-NEXT: llvm.load
// CHECK-COUNT-2: llvm.getelementptr %[[BIAS]][
// CHECK-NOT: llvm.getelementptr %[[SB]]
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %c128_i32
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %c128_i32
//
// 32 columns at a time; 16 bytes are 4 of them.
// CHECK: %[[BIASES:.*]] = llvm.load {{.*}} : !llvm.ptr<3> -> vector<2xf32>
// CHECK: %[[BY_ROW:.*]] = arith.mulf
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[BY_ROW]]
// CHECK: %[[BIAS_0:.*]] = llvm.extractelement %[[BIASES]]
// CHECK-NEXT: arith.addf %[[SCALED]], %[[BIAS_0]]
// CHECK-COUNT-8: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK: llvm.getelementptr %[[OUT]][
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: nvvm.stmatrix
// CHECK-NOT: llvm.fptrunc
//
// Tiles are taken in turn.
// CHECK: nvvm.setmaxregister decrease 72
// CHECK-NOT: llvm.atomicrmw
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[AMAP]], %[[FULL:.*]], box[%[[AT:.*]], %{{[^,]*}}, %[[EXPERT:[^,]*]]] :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]], %[[FULL]], box[%[[AT]], %{{[^,]*}}, %[[EXPERT]]] :
// CHECK-NOT: llvm.atomicrmw
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @batched_0(
// RECORD: grid = [{min = [{mul = [{dim = [1, 0]}, {ceildiv = [{dim = [0, 1]}, 128]}, {ceildiv = [{dim = [1, 2]}, 256]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: {box = [128, 128, 1], dims = [{dim = [0, 2]}, {dim = [0, 1]}, {dim = [1, 0]}],
// RECORD-SAME: {box = [128, 256, 1], dims = [{dim = [0, 2]}, {dim = [1, 2]}, {dim = [1, 0]}],
// RECORD-SAME: {kind = "pointer", tensor = 2{{[^}]*}}}, {kind = "pointer", tensor = 3{{[^}]*}}}, {kind = "pointer", tensor = 4{{[^}]*}}}, {kind = "pointer", tensor = 5{{[^}]*}}}]
// RECORD-SAME: requires = [{dim = [0, 0], same_as = [1, 0]}, {dim = [0, 2], same_as = [1, 1]}, {dim = [0, 0], same_as = [2, 0]}, {dim = [0, 0], same_as = [3, 0]}, {dim = [0, 0], same_as = [4, 0]}, {dim = [1, 2], same_as = [4, 1]},
func.func @batched(%qa: tensor<?x?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<?xf32>,
                   %bias: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %bias) {accumulate = "fast", schedule = {tile_n = 256, stages = 4, band = 8, pingpong = 0, tma_store = 0}}
      : (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
  return %out : tensor<?x?x?xf32>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Operands are swapped: the rows of a tile are 128 columns of the weights, its columns 32 tokens, and out is f16 with a bias.
// CHECK-LABEL: llvm.func @swapped_0(
// CHECK-SAME: %{{[^:]*}}: i32, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[COLUMNS:[^:]*]]: i32,
// CHECK-SAME: %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[SA:[^:]*]]: !llvm.ptr<1>, %[[SB:[^:]*]]: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %[[BIAS:[^:]*]]: !llvm.ptr<1>, %[[OUT:[^:]*]]: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr<1>, %[[COUNTERS:[^:]*]]: !llvm.ptr<1>)
// CHECK: nvvm.setmaxregister increase 216
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 32, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e5m2>, <one>, <col>]
//
// A lane's two rows have a scale of the weights and a bias each; the tokens' scales go to shared memory.
// CHECK: llvm.getelementptr %[[SB]][
// CHECK: llvm.getelementptr %[[BIAS]][
// CHECK-NEXT: %[[HALF:.*]] = llvm.load {{.*}} -> f16
// CHECK-NEXT: %[[ROW_BIAS:.*]] = llvm.fpext %[[HALF]] : f16 to f32
// CHECK: llvm.getelementptr %[[SB]][
// CHECK: llvm.getelementptr %[[BIAS]][
// CHECK: llvm.getelementptr %[[SA]][
// CHECK: llvm.inline_asm has_side_effects {{.*}}"wgmma.wait_group.sync.aligned 0;"
// CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %c128_i32
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<3>
//
// The token's scale first as ever; the tile is transposed on its way out, 16 tokens a store, of each warp 32 bytes of a token. All are staged first.
// CHECK: %[[TOKEN_SCALES:.*]] = llvm.load {{.*}} : !llvm.ptr<3> -> vector<2xf32>
// CHECK: %[[TOKEN_SCALE:.*]] = llvm.extractelement %[[TOKEN_SCALES]]
// CHECK-NEXT: %[[BY_TOKEN:.*]] = arith.mulf %[[TOKEN_SCALE]],
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %{{.*}}, %[[BY_TOKEN]]
// CHECK-NEXT: arith.addf %[[SCALED]], %[[ROW_BIAS]]
// CHECK: llvm.fptrunc {{.*}} : vector<2xf32> to vector<2xf16>
// CHECK: nvvm.stmatrix {{.*}} layout = #nvvm.mma_layout<col>
// CHECK-NOT: nvvm.bar.warp.sync
// CHECK: nvvm.stmatrix {{.*}} layout = #nvvm.mma_layout<col>
// CHECK: nvvm.bar.warp.sync
// CHECK: arith.cmpi ult, %{{.*}}, %[[COLUMNS]]
// CHECK: scf.if
// CHECK: llvm.getelementptr %[[OUT]][
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: nvvm.bar.warp.sync
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: nvvm.bar.warp.sync
// CHECK-NOT: nvvm.stmatrix
//
// The weights first: they are the rows.
// CHECK: nvvm.setmaxregister decrease 72
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c20480_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]],
// CHECK: llvm.getelementptr {{.*}}[16384]
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[AMAP]],
//
// The next tile is the counter's, and asked for between two loops over k-tiles.
// CHECK: llvm.atomicrmw add %[[COUNTERS]], %{{.*}} monotonic
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]],
//
// RECORD-LABEL: llvm.func @swapped_0(
// RECORD: grid = [{min = [{mul = [{dim = [0, 0]}, {ceildiv = [{dim = [1, 2]}, 128]}]}, "num_sms"]}, 1, 1]
// RECORD-SAME: {box = [128, 32], dims = [{dim = [0, 1]}, {dim = [0, 0]}],
// RECORD-SAME: {box = [128, 128, 1], dims = [{dim = [0, 1]}, {dim = [1, 2]}, {dim = [1, 0]}],
func.func @swapped(%qa: tensor<?x?xf8E5M2>, %qb: tensor<?x?x?xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                   %offs: tensor<?xi32>, %bias: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias)
      {accumulate = "fast", schedule = {swap_operands = 1, tile_n = 32, stages = 9, band = 8, cluster = 1, pingpong = 0}}
      : (tensor<?x?xf8E5M2>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>, tensor<?x?xf16>)
      -> tensor<?x?xf16>
  return %out : tensor<?x?xf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Clusters of two blocks, with tiles below one another. One scale for all tokens, one for each expert.
// CHECK-LABEL: llvm.func @cluster_0(
// CHECK-SAME: %[[AMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[BMAP:[^:]*]]: !llvm.ptr {{{[^}]*}}}, %[[SA:[^:]*]]: !llvm.ptr<1>, %[[SB:[^:]*]]: !llvm.ptr<1>,
// CHECK: %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctarank
//
// A stage is empty after the arrivals of both blocks' warps.
// CHECK: nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %c16_i32
// CHECK: nvvm.fence.mbarrier.init
// CHECK-NOT: nvvm.barrier{{$}}
// CHECK: nvvm.cluster.arrive {aligned}
// CHECK-NEXT: nvvm.cluster.wait {aligned}
// CHECK: nvvm.setmaxregister increase 216
//
// No scale of a column, and no barrier for them.
// CHECK: nvvm.wgmma.commit.group
// CHECK: llvm.load %[[SA]] : !llvm.ptr<1> -> f32
// CHECK: llvm.getelementptr %[[SB]][
// CHECK-NOT: nvvm.barrier
// CHECK: nvvm.wgmma.wait.group.sync.aligned 1
//
// Two lanes release the stage, each in one of the blocks.
// CHECK: arith.cmpi ult, %{{.*}}, %c2_i32
// CHECK-NEXT: scf.if
// CHECK: nvvm.mapa %{{.*}}, %{{.*}} : !llvm.ptr<3> -> !llvm.ptr<7>
// CHECK: mbarrier.arrive
//
// Each block loads its own rows, and half of the columns for both. It announces what lands in it.
// CHECK: nvvm.setmaxregister decrease 72
// CHECK: nvvm.mbarrier.arrive.expect_tx %[[FULL:.*]], %c49152_i32{{(_[0-9]+)?}} :
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[AMAP]], %[[FULL]], box[%{{[^,]*}}, %{{[^,]*}}] :
// CHECK: %[[PART:.*]] = arith.muli %[[RANK]], %c128_i32
// CHECK: %[[COLUMN:.*]] = arith.addi %{{.*}}, %[[PART]]
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[BMAP]], %[[FULL]], box[%{{[^,]*}}, %[[COLUMN]], %{{[^,]*}}] multicast_mask = %{{.*}} :
//
// Neither ends before the other one.
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.cluster.arrive {aligned}
// CHECK-NEXT: nvvm.cluster.wait {aligned}
// CHECK-NEXT: llvm.return
//
// RECORD-LABEL: llvm.func @cluster_0(
// RECORD: cluster = [2, 1, 1], grid = [{mul = [{min = [{mul = [{dim = [0, 0]}, {ceildiv = [{dim = [1, 2]}, 256]}]}, "num_clusters"]}, 2]}, 1, 1]
// RECORD-SAME: {box = [128, 128], dims = [{dim = [0, 1]}, {dim = [0, 0]}],
// RECORD-SAME: {box = [128, 128, 1], dims = [{dim = [0, 1]}, {dim = [1, 2]}, {dim = [1, 0]}],
// RECORD-SAME: requires = [{dim = [0, 1], same_as = [1, 1]}, {dim = [1, 0], same_as = [3, 0]}, {dim = [1, 0], same_as = [4, 0]}, {dim = [1, 2], multiple_of = 16 : i64},
// RECORD-SAME: nvvm.cluster_dim = array<i32: 2>
func.func @cluster(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #col_major>, %sa: tensor<1xf32>, %sb: tensor<?xf32>,
                   %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs)
      {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 2, pingpong = 0}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<1xf32>, tensor<?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Ping-pong, the default of fast sums. Shared memory: 6 stages of 32 KB, 6 + 6 barriers, at 196704 8 slots of 48 bytes, their barriers at
// 197088, those that say that all lanes have read one at 197152, those of the turns at 197216. A stage is empty after the arrivals of the 4 warps of one warpgroup, and a turn is passed by as
// many.
//
// CHECK-LABEL: llvm.func @pingpong_0(
// CHECK: %[[SHARED:.*]] = llvm.mlir.addressof @dynamic_shared_memory
// CHECK: %[[EMPTY_0:.*]] = llvm.getelementptr %[[SHARED]][196656]
// CHECK: nvvm.mbarrier.init %[[EMPTY_0]], %c4_i32{{(_[0-9]+)?}} :
// CHECK: %[[SLOT_0:.*]] = llvm.getelementptr %{{.*}}[197088]
// CHECK: nvvm.mbarrier.init %[[SLOT_0]], %c1_i32{{(_[0-9]+)?}} :
// CHECK: %[[SLOT_READ:.*]] = llvm.getelementptr %{{.*}}[197152]
// CHECK: nvvm.mbarrier.init %[[SLOT_READ]], %c128_i32{{(_[0-9]+)?}} :
// CHECK: llvm.getelementptr %{{.*}}[197216]
// CHECK: nvvm.mbarrier.init %{{.*}}, %c4_i32{{(_[0-9]+)?}} :
//
// The multiplying warpgroups: the slot, then the turn, then the first stage; both halves of the tile at each 32 bytes of K.
// CHECK: nvvm.setmaxregister increase 216
// CHECK: scf.while
// CHECK: llvm.getelementptr %{{.*}}[197088]
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.getelementptr %{{.*}}[197152]
// CHECK-NEXT: nvvm.mbarrier.arrive %
// CHECK: llvm.getelementptr %{{.*}}[197216]
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: llvm.getelementptr %{{.*}}[196608]
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive
// CHECK-COUNT-8: nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 32>
// CHECK-NOT: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-8: nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 32>
// CHECK: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.setmaxregister decrease 72
// CHECK: llvm.return
//
// RECORD-LABEL: llvm.func @pingpong_0(
// RECORD: grid = [{min = [{mul = [{dim = [0, 0]}, {ceildiv = [{dim = [1, 2]}, 128]}]}, "num_sms"]}, 1, 1]
func.func @pingpong(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<?x?xf32>,
                    %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}
