// Every stage is text that can be fed back in: from each, the rest of the way gives the same PTX and the same manifest.

// RUN: rm -rf %t && mkdir %t
// RUN: moe-opt %s --emit=ptx -o %t/direct.ptx
// RUN: moe-opt %s --emit=manifest -o %t/direct.json
// RUN: moe-opt %s --emit=source -o %t/source.mlir
// RUN: moe-opt %t/source.mlir --emit=fused -o %t/fused.mlir
// RUN: moe-opt %t/fused.mlir --emit=scheduled -o %t/scheduled.mlir
// RUN: moe-opt %t/scheduled.mlir --emit=outlined -o %t/outlined.mlir
// RUN: moe-opt %t/outlined.mlir --emit=nvvm -o %t/nvvm.mlir
// RUN: moe-opt %t/nvvm.mlir --emit=llvm -o %t/llvm.mlir

// RUN: moe-opt %t/source.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/fused.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/scheduled.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/outlined.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/nvvm.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/llvm.mlir --emit=ptx | diff %t/direct.ptx -

// RUN: moe-opt %t/source.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/fused.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/scheduled.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/outlined.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/nvvm.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/llvm.mlir --emit=manifest | diff %t/direct.json -

// A stage leaves alone what has passed it already.
// RUN: moe-opt %t/scheduled.mlir --emit=scheduled | diff %t/scheduled.mlir -
// RUN: moe-opt %t/outlined.mlir --emit=outlined | diff %t/outlined.mlir -
// RUN: moe-opt %t/nvvm.mlir --emit=nvvm | diff %t/nvvm.mlir -
// RUN: moe-opt %t/llvm.mlir --emit=llvm | diff %t/llvm.mlir -

// The generic form of a stage is the same stage.
// RUN: moe-opt %t/nvvm.mlir --mlir-print-op-generic | moe-opt - --emit=ptx | diff %t/direct.ptx -

#col_major = affine_map<(e, n, k) -> (e, k, n)>

func.func @written_with_transposes(%w: tensor<2x64x48xbf16>)
    -> (tensor<2x64x48xf8E4M3FN, #col_major>, tensor<2x2x48xf8E8M0FNU>) {
  %te = tensor.empty() : tensor<2x48x64xbf16>
  %t = linalg.transpose ins(%w : tensor<2x64x48xbf16>) outs(%te : tensor<2x48x64xbf16>) permutation = [0, 2, 1]
  %qt, %st = "mx_quantize.quantize"(%t) {axis = 2 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<2x48x64xbf16>) -> (tensor<2x48x64xf8E4M3FN>, tensor<2x48x2xf8E8M0FNU>)
  %qe = tensor.empty() : tensor<2x64x48xf8E4M3FN, #col_major>
  %q = linalg.transpose ins(%qt : tensor<2x48x64xf8E4M3FN>) outs(%qe : tensor<2x64x48xf8E4M3FN, #col_major>) permutation = [0, 2, 1]
  %se = tensor.empty() : tensor<2x2x48xf8E8M0FNU>
  %s = linalg.transpose ins(%st : tensor<2x48x2xf8E8M0FNU>) outs(%se : tensor<2x2x48xf8E8M0FNU>) permutation = [0, 2, 1]
  return %q, %s : tensor<2x64x48xf8E4M3FN, #col_major>, tensor<2x2x48xf8E8M0FNU>
}

func.func @written_as_one(%first: tensor<?x?x?xf32>, %second: tensor<4x?x80xbf16>)
    -> (tensor<?x?x?xf8E5M2, #col_major>, tensor<?x?x?xf8E8M0FNU>, tensor<4x?x80xf8E4M3FN, #col_major>) {
  %q, %s = "mx_quantize.quantize"(%first) {axis = 1 : i64, block = 32 : i64, mode = "even"}
      : (tensor<?x?x?xf32>) -> (tensor<?x?x?xf8E5M2, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  %q2, %unused = "mx_quantize.quantize"(%second) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<4x?x80xbf16>) -> (tensor<4x?x80xf8E4M3FN, #col_major>, tensor<4x?x80xf8E8M0FNU>)
  return %q, %s, %q2 : tensor<?x?x?xf8E5M2, #col_major>, tensor<?x?x?xf8E8M0FNU>, tensor<4x?x80xf8E4M3FN, #col_major>
}
