// Products, too, give the same PTX and the same manifest from every stage.

// RUN: rm -rf %t && mkdir %t
// RUN: moe-opt %s --emit=ptx -o %t/direct.ptx
// RUN: moe-opt %s --emit=manifest -o %t/direct.json
// RUN: moe-opt %s --emit=scheduled -o %t/scheduled.mlir
// RUN: moe-opt %t/scheduled.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/scheduled.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/scheduled.mlir --emit=outlined -o %t/outlined.mlir
// RUN: moe-opt %t/outlined.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/outlined.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/outlined.mlir --emit=nvvm -o %t/nvvm.mlir
// RUN: moe-opt %t/nvvm.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/nvvm.mlir --emit=manifest | diff %t/direct.json -
// RUN: moe-opt %t/nvvm.mlir --emit=llvm -o %t/llvm.mlir
// RUN: moe-opt %t/llvm.mlir --emit=ptx | diff %t/direct.ptx -
// RUN: moe-opt %t/llvm.mlir --emit=manifest | diff %t/direct.json -

#kn_col_major = affine_map<(e, k, n) -> (e, n, k)>
#mk_col_major = affine_map<(m, k) -> (k, m)>

func.func @products(%tokens: tensor<?x256xf8E4M3FN>, %weights: tensor<4x256x64xf8E4M3FN, #kn_col_major>, %token_scales: tensor<?xf32>,
                    %weight_scales: tensor<4x64xf32>, %offs: tensor<4xi32>, %gradients: tensor<64x?xf8E5M2>,
                    %columns: tensor<?x256xf8E4M3FN, #mk_col_major>, %gradient_scales: tensor<4x64xf32>, %column_scales: tensor<4x256xf32>)
    -> (tensor<?x64xbf16>, tensor<4x64x256xbf16>) {
  %out = "scaled_grouped_mm.scaled_mm"(%tokens, %weights, %token_scales, %weight_scales, %offs) {accumulate = "fast"}
      : (tensor<?x256xf8E4M3FN>, tensor<4x256x64xf8E4M3FN, #kn_col_major>, tensor<?xf32>, tensor<4x64xf32>, tensor<4xi32>) -> tensor<?x64xbf16>
  %gradient = "scaled_grouped_mm.scaled_mm"(%gradients, %columns, %gradient_scales, %column_scales, %offs) {accumulate = "promoted"}
      : (tensor<64x?xf8E5M2>, tensor<?x256xf8E4M3FN, #mk_col_major>, tensor<4x64xf32>, tensor<4x256xf32>, tensor<4xi32>) -> tensor<4x64x256xbf16>
  return %out, %gradient : tensor<?x64xbf16>, tensor<4x64x256xbf16>
}
