// What mx_quantize ops look like when they are printed; the text is read again, by moe-opt and by MLIR's own mlir-opt.

// RUN: moe-opt %s | FileCheck %s
// RUN: moe-opt %s | moe-opt - --moe-verify | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt - | FileCheck %s
// RUN: mlir-opt %s --irdl-file=%source_dir/dialects/mx_quantize.mlir | FileCheck %s
// RUN: moe-opt %s -o %t.mlir
// RUN: mlir-opt %t.mlir --irdl-file=%source_dir/dialects/mx_quantize.mlir | FileCheck %s
// RUN: moe-opt %t.mlir | diff %t.mlir -

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// CHECK: #[[$COL_MAJOR:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>

// CHECK-LABEL: func.func @quantize
// CHECK: "mx_quantize.quantize"(%{{.*}}) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
// CHECK-SAME: : (tensor<8x64x48xbf16>) -> (tensor<8x64x48xf8E4M3FN, #[[$COL_MAJOR]]>, tensor<8x2x48xf8E8M0FNU>)
func.func @quantize(%w: tensor<8x64x48xbf16>) -> (tensor<8x64x48xf8E4M3FN, #col_major>, tensor<8x2x48xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<8x64x48xbf16>) -> (tensor<8x64x48xf8E4M3FN, #col_major>, tensor<8x2x48xf8E8M0FNU>)
  return %q, %s : tensor<8x64x48xf8E4M3FN, #col_major>, tensor<8x2x48xf8E8M0FNU>
}

// Any rank from 1 to 5, any axis, all modes, every type.
// CHECK-LABEL: func.func @variants
// CHECK: mode = "floor"{{.*}}(tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
// CHECK: mode = "ceil"{{.*}}(tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>)
// CHECK: mode = "even"{{.*}}(tensor<2x3x4x32x5xbf16>) -> (tensor<2x3x4x32x5xf8E5M2>, tensor<2x3x4x1x5xf8E8M0FNU>)
func.func @variants(%a: tensor<32xf32>, %b: tensor<?x64xbf16>, %c: tensor<2x3x4x32x5xbf16>) {
  %qa, %sa = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  %qb, %sb = "mx_quantize.quantize"(%b) {axis = 1 : i64, block = 32 : i64, mode = "ceil"}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>)
  %qc, %sc = "mx_quantize.quantize"(%c) {axis = 3 : i64, block = 32 : i64, mode = "even"}
      : (tensor<2x3x4x32x5xbf16>) -> (tensor<2x3x4x32x5xf8E5M2>, tensor<2x3x4x1x5xf8E8M0FNU>)
  return
}

// A schedule, a kernel and attributes of other dialects may stand on an op.
// CHECK-LABEL: func.func @extra_attributes
// CHECK: kernel = @kernels::@k
// CHECK-SAME: note.of = "the tuner"
// CHECK-SAME: schedule = {band = 64 : i64}
func.func @extra_attributes(%w: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 0 : i64, block = 32 : i64, mode = "rceil", note.of = "the tuner",
                                       kernel = @kernels::@k, schedule = {band = 64}}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// CHECK-LABEL: func.func @dequantize
// CHECK: "mx_quantize.dequantize"(%{{.*}}, %{{.*}}) {axis = 1 : i64, block = 32 : i64}
// CHECK-SAME: : (tensor<4x?x16xf8E5M2, #[[$COL_MAJOR]]>, tensor<4x?x16xf8E8M0FNU>) -> tensor<4x?x16xf32>
func.func @dequantize(%q: tensor<4x?x16xf8E5M2, #col_major>, %s: tensor<4x?x16xf8E8M0FNU>) -> tensor<4x?x16xf32> {
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64}
      : (tensor<4x?x16xf8E5M2, #col_major>, tensor<4x?x16xf8E8M0FNU>) -> tensor<4x?x16xf32>
  return %x : tensor<4x?x16xf32>
}

// Groups that begin anywhere, and at multiples of 128 tokens.
// CHECK-LABEL: func.func @dequantize_groups
// CHECK: "mx_quantize.dequantize"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64, block = 32 : i64}
// CHECK: "mx_quantize.dequantize"(%{{.*}}, %{{.*}}, %{{.*}}) {align = 128 : i64, axis = 0 : i64, block = 32 : i64}
func.func @dequantize_groups(%q: tensor<80x16xf8E4M3FN>, %s: tensor<5x16xf8E8M0FNU>, %qa: tensor<512x16xf8E4M3FN>,
                             %sa: tensor<16x16xf8E8M0FNU>, %offs: tensor<2xi32>) {
  %x = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<80x16xf8E4M3FN>, tensor<5x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<80x16xbf16>
  %y = "mx_quantize.dequantize"(%qa, %sa, %offs) {axis = 0 : i64, block = 32 : i64, align = 128 : i64}
      : (tensor<512x16xf8E4M3FN>, tensor<16x16xf8E8M0FNU>, tensor<2xi32>) -> tensor<512x16xbf16>
  return
}

// CHECK-LABEL: func.func @quantize_dual
// CHECK: %{{.*}}:4 = "mx_quantize.quantize_dual"(%{{.*}}) {block = 32 : i64, mode = "floor"}
// CHECK-SAME: : (tensor<4x64x?xf32>) -> (tensor<4x64x?xf8E5M2>, tensor<4x64x?xf8E8M0FNU>, tensor<4x64x?xf8E5M2, #[[$COL_MAJOR]]>, tensor<4x2x?xf8E8M0FNU>)
func.func @quantize_dual(%x: tensor<4x64x?xf32>) {
  %q, %s, %qt, %st = "mx_quantize.quantize_dual"(%x) {block = 32 : i64, mode = "floor"} : (tensor<4x64x?xf32>)
      -> (tensor<4x64x?xf8E5M2>, tensor<4x64x?xf8E8M0FNU>, tensor<4x64x?xf8E5M2, #col_major>, tensor<4x2x?xf8E8M0FNU>)
  return
}

// Every granularity, with and without groups.
// CHECK-LABEL: func.func @quantize_fp8
// CHECK: "mx_quantize.quantize_fp8"(%{{.*}}) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false} : {{.*}} -> (tensor<?x144xf8E4M3FN>, tensor<?xf32>)
// CHECK: "mx_quantize.quantize_fp8"(%{{.*}}, %{{.*}}) {axis = 0 : i64, granularity = "row", pow2 = false, sanitize = true} : {{.*}} -> (tensor<?x144xf8E5M2>, tensor<3x144xf32>)
// CHECK: granularity = "group"{{.*}}tensor<3xi32>) -> (tensor<?x144xf8E4M3FN>, tensor<3xf32>)
// CHECK: granularity = "1x128"{{.*}} -> (tensor<?x144xf8E4M3FN>, tensor<?x2xf32>)
// CHECK: granularity = "128x128"{{.*}} -> (tensor<?x144xf8E4M3FN>, tensor<?x2xf32>)
// CHECK: granularity = "tensor"{{.*}} -> (tensor<4x64x144xf8E4M3FN, #[[$COL_MAJOR]]>, tensor<1xf32>)
// CHECK: granularity = "expert"{{.*}} -> (tensor<4x64x144xf8E4M3FN>, tensor<4xf32>)
// CHECK: granularity = "row"{{.*}} -> (tensor<4x64x144xf8E4M3FN>, tensor<4x144xf32>)
func.func @quantize_fp8(%x: tensor<?x144xbf16>, %w: tensor<4x64x144xf32>, %offs: tensor<3xi32>) {
  %q0, %s0 = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x144xbf16>) -> (tensor<?x144xf8E4M3FN>, tensor<?xf32>)
  %q1, %s1 = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "row", pow2 = false, sanitize = true}
      : (tensor<?x144xbf16>, tensor<3xi32>) -> (tensor<?x144xf8E5M2>, tensor<3x144xf32>)
  %q2, %s2 = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 1 : i64, granularity = "group", pow2 = true, sanitize = false}
      : (tensor<?x144xbf16>, tensor<3xi32>) -> (tensor<?x144xf8E4M3FN>, tensor<3xf32>)
  %q3, %s3 = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "1x128", pow2 = true, sanitize = false}
      : (tensor<?x144xbf16>) -> (tensor<?x144xf8E4M3FN>, tensor<?x2xf32>)
  %q4, %s4 = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "128x128", pow2 = true, sanitize = false}
      : (tensor<?x144xbf16>) -> (tensor<?x144xf8E4M3FN>, tensor<?x2xf32>)
  %q5, %s5 = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = false}
      : (tensor<4x64x144xf32>) -> (tensor<4x64x144xf8E4M3FN, #col_major>, tensor<1xf32>)
  %q6, %s6 = "mx_quantize.quantize_fp8"(%w) {axis = 2 : i64, granularity = "expert", pow2 = true, sanitize = false}
      : (tensor<4x64x144xf32>) -> (tensor<4x64x144xf8E4M3FN>, tensor<4xf32>)
  %q7, %s7 = "mx_quantize.quantize_fp8"(%w) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<4x64x144xf32>) -> (tensor<4x64x144xf8E4M3FN>, tensor<4x144xf32>)
  return
}

// CHECK-LABEL: func.func @quantize_fp8_dual
// CHECK: %{{.*}}:4 = "mx_quantize.quantize_fp8_dual"(%{{.*}}, %{{.*}}) {pow2 = true, sanitize = false} : {{.*}} -> (tensor<?x144xf8E4M3FN>, tensor<?xf32>, tensor<?x144xf8E4M3FN>, tensor<3x144xf32>)
// CHECK: %{{.*}}:4 = "mx_quantize.quantize_fp8_dual"(%{{.*}}) {pow2 = true, sanitize = false} : {{.*}}, #[[$COL_MAJOR]]>, tensor<4x144xf32>)
func.func @quantize_fp8_dual(%x: tensor<?x144xbf16>, %w: tensor<4x64x144xf32>, %offs: tensor<3xi32>) {
  %q0, %s0, %qt0, %st0 = "mx_quantize.quantize_fp8_dual"(%x, %offs) {pow2 = true, sanitize = false}
      : (tensor<?x144xbf16>, tensor<3xi32>) -> (tensor<?x144xf8E4M3FN>, tensor<?xf32>, tensor<?x144xf8E4M3FN>, tensor<3x144xf32>)
  %q1, %s1, %qt1, %st1 = "mx_quantize.quantize_fp8_dual"(%w) {pow2 = true, sanitize = false} : (tensor<4x64x144xf32>)
      -> (tensor<4x64x144xf8E4M3FN>, tensor<4x64xf32>, tensor<4x64x144xf8E4M3FN, #col_major>, tensor<4x144xf32>)
  return
}

// CHECK-LABEL: func.func @quantize_fp8_pair
// CHECK: %{{.*}}:4 = "mx_quantize.quantize_fp8_pair"(%{{.*}}, %{{.*}}, %{{.*}}) {pow2 = true, sanitize = false} : {{.*}} -> (tensor<?x144xf8E4M3FN>, tensor<3x144xf32>, tensor<?x32xf8E4M3FN>, tensor<3x32xf32>)
// CHECK: %[[P:.*]]:6 = "mx_quantize.scale_fp8_pair"(%{{.*}}, %{{.*}}, %{{.*}}) {element = "f8E4M3FN", pow2 = true, sanitize = false}
// CHECK-SAME: -> (tensor<3x144xf32>, tensor<3x144xf32>, tensor<2x3x144xi32>, tensor<3x32xf32>, tensor<3x32xf32>, tensor<2x3x32xi32>)
// CHECK: "mx_quantize.cast_fp8_pair"(%{{.*}}, %{{.*}}, %[[P]]#1, %[[P]]#4, %{{.*}}) {sanitize = false}
func.func @quantize_fp8_pair(%x: tensor<?x144xbf16>, %y: tensor<?x32xbf16>, %offs: tensor<3xi32>) {
  %q0, %s0, %qy0, %sy0 = "mx_quantize.quantize_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = false}
      : (tensor<?x144xbf16>, tensor<?x32xbf16>, tensor<3xi32>)
      -> (tensor<?x144xf8E4M3FN>, tensor<3x144xf32>, tensor<?x32xf8E4M3FN>, tensor<3x32xf32>)
  %s, %f, %state, %sy, %fy, %state_y = "mx_quantize.scale_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<?x144xbf16>, tensor<?x32xbf16>, tensor<3xi32>)
      -> (tensor<3x144xf32>, tensor<3x144xf32>, tensor<2x3x144xi32>, tensor<3x32xf32>, tensor<3x32xf32>, tensor<2x3x32xi32>)
  %q, %qy = "mx_quantize.cast_fp8_pair"(%x, %y, %f, %fy, %offs) {sanitize = false}
      : (tensor<?x144xbf16>, tensor<?x32xbf16>, tensor<3x144xf32>, tensor<3x32xf32>, tensor<3xi32>)
      -> (tensor<?x144xf8E4M3FN>, tensor<?x32xf8E4M3FN>)
  return
}

// CHECK-LABEL: func.func @two_passes
// CHECK: %[[S:.*]]:3 = "mx_quantize.scale_fp8"(%{{.*}}) {axis = 2 : i64, element = "f8E5M2", granularity = "expert", pow2 = true, sanitize = false}
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xi32>)
// CHECK: "mx_quantize.cast_fp8"(%{{.*}}, %[[S]]#1) {axis = 2 : i64, granularity = "expert", sanitize = false}
// CHECK: %[[D:.*]]:6 = "mx_quantize.scale_fp8_dual"(%{{.*}}, %{{.*}}) {element = "f8E4M3FN", pow2 = true, sanitize = false}
// CHECK-SAME: -> (tensor<?xf32>, tensor<?xf32>, tensor<2x?xi32>, tensor<3x144xf32>, tensor<3x144xf32>, tensor<2x3x144xi32>)
// CHECK: "mx_quantize.cast_fp8_dual"(%{{.*}}, %[[D]]#1, %[[D]]#4, %{{.*}}) {sanitize = false}
func.func @two_passes(%x: tensor<?x144xbf16>, %w: tensor<4x64x144xf32>, %offs: tensor<3xi32>) {
  %s, %f, %state = "mx_quantize.scale_fp8"(%w) {axis = 2 : i64, granularity = "expert", pow2 = true, sanitize = false, element = "f8E5M2"}
      : (tensor<4x64x144xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xi32>)
  %q = "mx_quantize.cast_fp8"(%w, %f) {axis = 2 : i64, granularity = "expert", sanitize = false}
      : (tensor<4x64x144xf32>, tensor<4xf32>) -> tensor<4x64x144xf8E5M2>
  %s0, %f0, %state0, %s1, %f1, %state1 = "mx_quantize.scale_fp8_dual"(%x, %offs) {pow2 = true, sanitize = false, element = "f8E4M3FN"}
      : (tensor<?x144xbf16>, tensor<3xi32>)
      -> (tensor<?xf32>, tensor<?xf32>, tensor<2x?xi32>, tensor<3x144xf32>, tensor<3x144xf32>, tensor<2x3x144xi32>)
  %q0, %q1 = "mx_quantize.cast_fp8_dual"(%x, %f0, %f1, %offs) {sanitize = false}
      : (tensor<?x144xbf16>, tensor<?xf32>, tensor<3x144xf32>, tensor<3xi32>) -> (tensor<?x144xf8E4M3FN>, tensor<?x144xf8E4M3FN>)
  return
}

// CHECK-LABEL: func.func @dequantize_fp8
// CHECK: "mx_quantize.dequantize_fp8"(%{{.*}}, %{{.*}}) {axis = 1 : i64, granularity = "1x128"} : (tensor<?x144xf8E4M3FN>, tensor<?x2xf32>) -> tensor<?x144xbf16>
// CHECK: "mx_quantize.dequantize_fp8"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 0 : i64, granularity = "row"}
func.func @dequantize_fp8(%q: tensor<?x144xf8E4M3FN>, %s: tensor<?x2xf32>, %sg: tensor<3x144xf32>, %offs: tensor<3xi32>) {
  %x = "mx_quantize.dequantize_fp8"(%q, %s) {axis = 1 : i64, granularity = "1x128"}
      : (tensor<?x144xf8E4M3FN>, tensor<?x2xf32>) -> tensor<?x144xbf16>
  %y = "mx_quantize.dequantize_fp8"(%q, %sg, %offs) {axis = 0 : i64, granularity = "row"}
      : (tensor<?x144xf8E4M3FN>, tensor<3x144xf32>, tensor<3xi32>) -> tensor<?x144xf32>
  return
}

// Sizes that are rounded up.
// CHECK-LABEL: func.func @layouts
// CHECK: "mx_quantize.pack_scales"(%{{.*}}) {layout = "128x4"} : (tensor<300x5xf8E8M0FNU>) -> tensor<384x8xf8E8M0FNU>
// CHECK: "mx_quantize.pack_scales"(%{{.*}}, %{{.*}}) {layout = "128x4"} : (tensor<300x5xf8E8M0FNU>, tensor<3xi32>) -> tensor<768x8xf8E8M0FNU>
// CHECK: %[[P:.*]]:2 = "mx_quantize.pad_groups"(%{{.*}}, %[[OFFS:.*]]) {align = 16 : i64} : (tensor<100x16xf8E5M2>, tensor<3xi32>) -> (tensor<160x16xf8E5M2>, tensor<3xi32>)
// CHECK: "mx_quantize.unpad_groups"(%[[P]]#0, %[[OFFS]], %[[P]]#1) {align = 16 : i64} : (tensor<160x16xf8E5M2>, tensor<3xi32>, tensor<3xi32>) -> tensor<160x16xf8E5M2>
func.func @layouts(%s: tensor<300x5xf8E8M0FNU>, %x: tensor<100x16xf8E5M2>, %offs: tensor<3xi32>) {
  %0 = "mx_quantize.pack_scales"(%s) {layout = "128x4"} : (tensor<300x5xf8E8M0FNU>) -> tensor<384x8xf8E8M0FNU>
  %1 = "mx_quantize.pack_scales"(%s, %offs) {layout = "128x4"} : (tensor<300x5xf8E8M0FNU>, tensor<3xi32>) -> tensor<768x8xf8E8M0FNU>
  %p, %po = "mx_quantize.pad_groups"(%x, %offs) {align = 16 : i64} : (tensor<100x16xf8E5M2>, tensor<3xi32>) -> (tensor<160x16xf8E5M2>, tensor<3xi32>)
  %u = "mx_quantize.unpad_groups"(%p, %offs, %po) {align = 16 : i64}
      : (tensor<160x16xf8E5M2>, tensor<3xi32>, tensor<3xi32>) -> tensor<160x16xf8E5M2>
  return
}

// CHECK-LABEL: func.func @round
// CHECK: "mx_quantize.round"(%{{.*}}) {axis = 2 : i64, block = 32 : i64, element = "f8E4M3FN", mode = "rceil"} : (tensor<2x45x64xbf16>) -> tensor<2x45x64xbf16>
// CHECK: "mx_quantize.round"(%{{.*}}, %{{.*}}) {axis = 0 : i64, block = 32 : i64, element = "f8E5M2", mode = "even"} : (tensor<?x40xbf16>, tensor<3xi32>) -> tensor<?x40xbf16>
// CHECK: "mx_quantize.round_dual"(%{{.*}}, %{{.*}}) {block = 32 : i64, element = "f8E4M3FN", mode = "rceil"} : (tensor<45x64xbf16>, tensor<3xi32>) -> (tensor<45x64xbf16>, tensor<45x64xbf16>)
func.func @round(%w: tensor<2x45x64xbf16>, %x: tensor<?x40xbf16>, %y: tensor<45x64xbf16>, %offs: tensor<3xi32>) {
  %0 = "mx_quantize.round"(%w) {axis = 2 : i64, block = 32 : i64, mode = "rceil", element = "f8E4M3FN"} : (tensor<2x45x64xbf16>) -> tensor<2x45x64xbf16>
  %1 = "mx_quantize.round"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "even", element = "f8E5M2"}
      : (tensor<?x40xbf16>, tensor<3xi32>) -> tensor<?x40xbf16>
  %2, %3 = "mx_quantize.round_dual"(%y, %offs) {block = 32 : i64, mode = "rceil", element = "f8E4M3FN"}
      : (tensor<45x64xbf16>, tensor<3xi32>) -> (tensor<45x64xbf16>, tensor<45x64xbf16>)
  return
}

// CHECK-LABEL: func.func @dequantize_f16
// CHECK: "mx_quantize.dequantize_f16"(%{{.*}}, %{{.*}}) {order = "evens_first"} : (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>) -> (tensor<?x64xf16>, tensor<?xf32>)
func.func @dequantize_f16(%q: tensor<?x64xf8E4M3FN>, %s: tensor<?x2xf8E8M0FNU>) {
  %x, %sx = "mx_quantize.dequantize_f16"(%q, %s) {order = "evens_first"} : (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>) -> (tensor<?x64xf16>, tensor<?xf32>)
  return
}

// CHECK-LABEL: func.func @quantize_f16
// CHECK: "mx_quantize.quantize_f16"(%{{.*}}) : (tensor<?x48xbf16>) -> (tensor<?x48xf16>, tensor<?xf32>)
func.func @quantize_f16(%x: tensor<?x48xbf16>) {
  %q, %s = "mx_quantize.quantize_f16"(%x) : (tensor<?x48xbf16>) -> (tensor<?x48xf16>, tensor<?xf32>)
  return
}
