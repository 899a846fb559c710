// The kernel of mx_quantize.quantize_fp8 in blocks of 128 x 128: what must stand in it, and in which order.

// RUN: moe-opt %s --split-input-file --emit=nvvm | FileCheck %s
// RUN: moe-opt %s --split-input-file --emit=ptx | FileCheck %s --check-prefix=PTX

// One barrier a block: what the 8 warps found is in one of two sets.
// CHECK-LABEL: llvm.func @squares_0(
// CHECK-SAME: shared_memory = 64 : i64
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr<3>
// CHECK: nvvm.barrier{{$}}
// CHECK-NOT: nvvm.barrier
// CHECK-COUNT-8: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
//
// PTX-LABEL: .entry squares_0(
// PTX-NOT: .ftz
// PTX: cvt.rn.satfinite.e4m3x2.f32
// PTX-NOT: .ftz
// PTX: ld.global.v4.b32
// PTX: div.rn.f32
// PTX-NOT: .ftz
func.func @squares(%x: tensor<8x8192x5120xbf16>) -> (tensor<8x8192x5120xf8E4M3FN>, tensor<8x64x40xf32>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x) {granularity = "128x128", axis = 2 : i64, pow2 = true, sanitize = false}
      : (tensor<8x8192x5120xbf16>) -> (tensor<8x8192x5120xf8E4M3FN>, tensor<8x64x40xf32>)
  return %q, %s : tensor<8x8192x5120xf8E4M3FN>, tensor<8x64x40xf32>
}
