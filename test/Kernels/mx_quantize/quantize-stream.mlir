// The kernels of mx_quantize.quantize along the last dimension, and of quantize_fp8 in blocks of 1 x 128: what must stand in it, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s --check-prefix=RECORD
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// A chunk of bf16: 4 vectors, all before the first is used. 3 shuffles leave each of 4 lanes with one of their 4 blocks; its scale is one
// byte, and 4 shuffles give what is multiplied by. The first copy is of whole spans and has no comparisons, the second one is of the last.
// CHECK-LABEL: llvm.func @tokens_0
// CHECK-SAME: (%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>)
// CHECK: nvvm.griddepcontrol wait
// CHECK-NOT: scf.for
// CHECK: scf.if
// CHECK: scf.if
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: {{llvm.load|scf.if}}
// CHECK-COUNT-3: nvvm.shfl.sync bfly
// CHECK-NOT: {{nvvm.shfl|scf.if}}
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
// CHECK: nvvm.shfl.sync idx
// CHECK-COUNT-4: nvvm.convert.f32x2.to.f8x2
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
// CHECK-COUNT-3: nvvm.shfl.sync idx
// CHECK-NOT: {{nvvm.shfl|scf.if}}
// CHECK: } else {
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
//
// A block of the grid for 8 warps of one chunk each.
// RECORD-LABEL: llvm.func @tokens_0(
// RECORD-SAME: grid = [{ceildiv = [{ceildiv = [{mul = [{dim = [0, 0]}, {dim = [0, 1]}]}, 1024]}, 8]}, 1, 1]
// RECORD-SAME: programmatic = true, requires = [{dim = [0, 1], multiple_of = 32 : i64}], shared_memory = 0 : i64
// RECORD-SAME: nvvm.minctasm = 6 : i32
//
// The elements are counted in 64 bits, and lanes ask those of their block: 4 of them, whose numbers have the upper 3 bits in common.
// PTX-LABEL: .entry tokens_0(
// PTX-NOT: .ftz
// PTX: mul.wide.u32
// PTX: ld.global.v4.b32
// PTX: max.NaN.bf16x2
// PTX: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
// PTX: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
// PTX: st.global.b8
// PTX: shfl.sync.idx.b32 {{.*}}, 0, 7199, -1;
// PTX: cvt.rn.satfinite.e4m3x2.f32
// PTX: shfl.sync.idx.b32 {{.*}}, 3, 7199, -1;
// PTX-NOT: .ftz
func.func @tokens(%x: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {chunks = 1, warps = 8, ctas_per_sm = 6, persistent = 0}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return %q, %s : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>
}

// -----

// Persistent, two chunks of f32 at once: 16 vectors, then for each chunk 4 + 2 + 1 shuffles and a scale, 8 shuffles and 8 stores of 4 bytes.
// CHECK-LABEL: llvm.func @weights_0(
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-16: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-7: nvvm.shfl.sync bfly
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 4 : i64} : vector<1xi32>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK-COUNT-7: nvvm.shfl.sync bfly
// CHECK: llvm.store {{.*}} : i8, !llvm.ptr<1>
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 4 : i64} : vector<1xi32>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK: } else {
//
// RECORD-LABEL: llvm.func @weights_0(
// RECORD-SAME: grid = [{min = [{ceildiv = [{ceildiv = [{mul = [{dim = [0, 0]}, 96, 64]}, 2048]}, 4]}, {mul = ["num_sms", 5]}]}, 1, 1]
// RECORD-SAME: requires = [{dim = [0, 2], multiple_of = 32 : i64}]
//
// PTX-LABEL: .entry weights_0(
// PTX: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
// PTX: shfl.sync.idx.b32 {{.*}}, 7, 6175, -1;
func.func @weights(%w: tensor<?x96x64xf32>) -> (tensor<?x96x64xf8E5M2>, tensor<?x96x2xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 2 : i64, block = 32 : i64, mode = "floor",
      schedule = {chunks = 2, warps = 4, ctas_per_sm = 5, persistent = 1}}
      : (tensor<?x96x64xf32>) -> (tensor<?x96x64xf8E5M2>, tensor<?x96x2xf8E8M0FNU>)
  return %q, %s : tensor<?x96x64xf8E5M2>, tensor<?x96x2xf8E8M0FNU>
}

// -----

// FP8 in blocks of 128: 16 lanes share a block, which takes 5 shuffles for 4 vectors at once; one in 4 lanes stores a scale, 8 of a chunk.
// CHECK-LABEL: llvm.func @blocks_0(
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: nvvm.shfl.sync idx
// CHECK-COUNT-4: nvvm.convert.f32x2.to.f8x2
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
//
// Rows of 5120 are whole blocks: it need not be asked where they end.
// RECORD-LABEL: llvm.func @blocks_0(
// RECORD-SAME: grid = [{ceildiv = [{ceildiv = [{mul = [{dim = [0, 0]}, 5120]}, 1024]}, 8]}, 1, 1]
// RECORD-SAME: requires = [{dim = [0, 1], multiple_of = 16 : i64}]
//
// PTX-LABEL: .entry blocks_0(
// PTX-NOT: {{.ftz|div.u32}}
// PTX: ld.global.v4.b32
// PTX: div.rn.f32
// PTX: shfl.sync.idx.b32 {{.*}}, 12, 4127, -1;
// PTX: cvt.rn.satfinite.e4m3x2.f32
// PTX-NOT: {{.ftz|div.u32}}
func.func @blocks(%x: tensor<?x5120xbf16>) -> (tensor<?x5120xf8E4M3FN>, tensor<?x40xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<?x5120xbf16>) -> (tensor<?x5120xf8E4M3FN>, tensor<?x40xf32>)
  return %q, %s : tensor<?x5120xf8E4M3FN>, tensor<?x40xf32>
}

// -----

// Where that is not known, or not so, a row may end within a span: the grid has room for as many spans as rows have then.
// RECORD-LABEL: llvm.func @rows_0(
// RECORD-SAME: grid = [{ceildiv = [{mul = [{dim = [0, 0]}, {ceildiv = [{dim = [0, 1]}, 1024]}]}, 8]}, 1, 1]
// PTX-LABEL: .entry rows_0(
// PTX: div.u32
func.func @rows(%x: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "1x128", axis = 1 : i64, pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>)
  return %q, %s : tensor<?x?xf8E4M3FN>, tensor<?x?xf32>
}
