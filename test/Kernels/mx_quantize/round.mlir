// The kernels of mx_quantize.round and round_dual: what must stand in them.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// Along rows: a lane reads 4 times 16 bytes, once; the amax of an MX block is that of its words, over lanes; each number goes to FP8 and back in registers.
// CHECK-LABEL: llvm.func @rows_0(
// CHECK: scf.if
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load {{.*}} : !llvm.ptr<1>
// CHECK: llvm.return
//
// PTX-LABEL: .entry rows_0(
// PTX-NOT: bar.sync
// PTX-COUNT-4: ld.global.v4.b32
// PTX-NOT: ld.global
// PTX: max.NaN.bf16x2
// PTX: shfl.sync.bfly.b32
// PTX: cvt.rn.satfinite.e4m3x2.f32
// PTX: cvt.rn.f16x2.e4m3x2
// PTX: cvt.rn.bf16x2.f32
// PTX-NOT: ld.global
// PTX: ret;
func.func @rows(%x: tensor<?x1024xbf16>) -> tensor<?x1024xbf16> {
  %r = "mx_quantize.round"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<?x1024xbf16>) -> tensor<?x1024xbf16>
  return %r : tensor<?x1024xbf16>
}

// -----

// Both directions from one read, E5M2: four warps below one another have 8 rows each, and find the maxima of columns by shared memory. Each of their
// stores is of 256 bytes of two rows.
// PTX-LABEL: .entry both_0(
// PTX-COUNT-4: ld.global.v4.b32
// PTX: st.shared.v4.b32
// PTX: cvt.rn.satfinite.e5m2x2.f32
// PTX: cvt.rn.f16x2.e5m2x2
// PTX-COUNT-4: st.global.v4.b32
// PTX: bar.sync
// PTX-COUNT-4: ld.shared.v4.b32
// PTX-COUNT-4: st.global.v4.b32
// PTX-NOT: ld.global.v4
// PTX: ret;
func.func @both(%x: tensor<?x1024xbf16>) -> (tensor<?x1024xbf16>, tensor<?x1024xbf16>) {
  %r, %t = "mx_quantize.round_dual"(%x) {block = 32 : i64, mode = "rceil", element = "f8E5M2"} : (tensor<?x1024xbf16>)
      -> (tensor<?x1024xbf16>, tensor<?x1024xbf16>)
  return %r, %t : tensor<?x1024xbf16>, tensor<?x1024xbf16>
}
