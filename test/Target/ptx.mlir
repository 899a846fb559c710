// The PTX: a version that older drivers load, the launch bounds of the schedule, and no instruction that rounds otherwise than the
// numerics contract says.

// RUN: moe-opt %s --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: FileCheck %s --check-prefix=NEVER --implicit-check-not=.ftz --implicit-check-not=.approx --implicit-check-not=div.full \
// RUN:   --implicit-check-not=div.rn --implicit-check-not=.local --implicit-check-not=call.uni --implicit-check-not=fma. < %t.ptx
// RUN: moe-opt %s --emit=ptx | diff %t.ptx -
// RUN: moe-opt %s --emit=ptx -O0 | FileCheck %s --check-prefix=O0

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// Shared memory is dynamic: its size is the launcher's business. 1024 is the alignment that 128-byte swizzles need.
// CHECK: .version 8.0
// CHECK-NEXT: .target sm_90a
// CHECK-NEXT: .address_size 64
// CHECK: .extern .shared .align 1024 .b8 dynamic_shared_memory[];

// Parameters in the order of the manifest; tensor maps by value and aligned to 64 bytes.
// CHECK-LABEL: .visible .entry dynamic_0(
// CHECK-NEXT: .param .u32 dynamic_0_param_0,
// CHECK-NEXT: .param .u32 dynamic_0_param_1,
// CHECK-NEXT: .param .u32 dynamic_0_param_2,
// CHECK-NEXT: .param .align 64 .b8 dynamic_0_param_3[128],
// CHECK-NEXT: .param .align 64 .b8 dynamic_0_param_4[128],
// CHECK-NEXT: .param .u64 {{.*}}dynamic_0_param_5
// CHECK-NEXT: )
// CHECK: .reqntid 256
// CHECK: .minnctapersm 3
// CHECK: {
//
// CHECK: mbarrier.init.shared.b64
// CHECK: fence.mbarrier_init.release.cluster;
// CHECK: bar{{(rier)?}}.sync 0;
// CHECK-DAG: mbarrier.arrive.expect_tx.shared.b64
// CHECK-DAG: cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
// CHECK-DAG: fence.proxy.async.shared::cta;
// CHECK-DAG: cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group
// CHECK-DAG: cp.async.bulk.commit_group;
// CHECK-DAG: cp.async.bulk.wait_group.read 0;
// CHECK-DAG: cvt.rn.satfinite.e4m3x2.f32
// CHECK: ret;
func.func @dynamic(%w: tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return %q, %s : tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>
}

// Where sizes are static there are no parameters for them.
// CHECK-LABEL: .visible .entry static_0(
// CHECK-NEXT: .param .align 64 .b8 static_0_param_0[128],
// CHECK-NEXT: .param .align 64 .b8 static_0_param_1[128],
// CHECK-NEXT: .param .u64 {{.*}}static_0_param_2
// CHECK-NEXT: )
// CHECK: cvt.rn.satfinite.e5m2x2.f32
func.func @static(%w: tensor<4x320x80xf32>) -> (tensor<4x320x80xf8E5M2, #col_major>, tensor<4x10x80xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "even"}
      : (tensor<4x320x80xf32>) -> (tensor<4x320x80xf8E5M2, #col_major>, tensor<4x10x80xf8E8M0FNU>)
  return %q, %s : tensor<4x320x80xf8E5M2, #col_major>, tensor<4x10x80xf8E8M0FNU>
}

// NEVER: .version 8.0
// O0: .visible .entry dynamic_0(
