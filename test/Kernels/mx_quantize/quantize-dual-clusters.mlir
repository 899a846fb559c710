// The kernel of quantize_dual by clusters: scales of rows go to the CTA that stores them, behind a barrier that only says that all have begun. Its PTX
// states the version that st.async needs, that of other kernels does not.

// RUN: moe-opt %s --emit=nvvm | FileCheck %s --check-prefix=GRID
// RUN: moe-opt %s --emit=ptx | FileCheck %s
// RUN: sed 's/stages = 1, cluster = 8/stages = 2, cluster = 1/' %s | moe-opt - --emit=ptx | FileCheck %s --check-prefix=ALONE
// RUN: moe-opt %s --emit=manifest | FileCheck %s --check-prefix=MANIFEST

#col_major = affine_map<(m, k) -> (k, m)>

// GRID: cluster = [8, 1, 1]
// GRID-SAME: grid = [{mul = [{mul = [1, {ceildiv = [{{.*}}, 128]}, {ceildiv = [{{.*}}, 1024]}]}, 8]}, 1, 1]

// CHECK: .version 8.1
// CHECK: .reqntid 256
// CHECK: .reqnctapercluster 8
// CHECK-COUNT-3: mbarrier.init.shared.b64
// CHECK: fence.mbarrier_init.release.cluster;
// CHECK: barrier.cluster.arrive.relaxed.aligned;
// CHECK-NOT: st.async
// CHECK: barrier.cluster.wait.aligned;
// CHECK-COUNT-2: mapa.shared::cluster.u64
// CHECK: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32
// CHECK-NOT: barrier.cluster
// CHECK: mbarrier.arrive.expect_tx.shared.b64
// CHECK: mbarrier.try_wait.parity
// CHECK: st.global.v4.b32
// CHECK-NOT: barrier.cluster
// CHECK: ret;

// ALONE: .version 8.0
// ALONE-NOT: cluster.arrive
// ALONE-NOT: st.async

// MANIFEST: "isa": "8.1"
func.func @both(%x: tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "rceil", schedule = {stages = 1, cluster = 8, warps = 8, ctas_per_sm = 2}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>)
  return %q, %s, %qt, %st : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E4M3FN, #col_major>, tensor<?x?xf8E8M0FNU>
}
