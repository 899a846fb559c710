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
