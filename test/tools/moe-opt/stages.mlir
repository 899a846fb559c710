// Every stage can be printed and fed back in, with the same PTX at the end.

// RUN: moe-opt %s --emit=ptx -o %t.ptx
// RUN: moe-opt %s --emit=source    -o %t.source.mlir    && moe-opt %t.source.mlir    --emit=ptx | diff %t.ptx -
// RUN: moe-opt %s --emit=fused     -o %t.fused.mlir     && moe-opt %t.fused.mlir     --emit=ptx | diff %t.ptx -
// RUN: moe-opt %s --emit=scheduled -o %t.scheduled.mlir && moe-opt %t.scheduled.mlir --emit=ptx | diff %t.ptx -
// RUN: moe-opt %s --emit=outlined  -o %t.outlined.mlir  && moe-opt %t.outlined.mlir  --emit=ptx | diff %t.ptx -
// RUN: moe-opt %s --emit=nvvm      -o %t.nvvm.mlir      && moe-opt %t.nvvm.mlir      --emit=ptx | diff %t.ptx -
// RUN: moe-opt %s --emit=llvm      -o %t.llvm.mlir      && moe-opt %t.llvm.mlir      --emit=ptx | diff %t.ptx -
// RUN: moe-opt %s --emit=llvm --mlir-print-op-generic   | moe-opt --emit=ptx | diff %t.ptx -

// RUN: FileCheck %s --check-prefix=SOURCE   < %t.source.mlir
// RUN: FileCheck %s --check-prefix=OUTLINED < %t.outlined.mlir
// RUN: FileCheck %s --check-prefix=LLVM     < %t.llvm.mlir
// RUN: FileCheck %s --check-prefix=PTX      < %t.ptx
// SOURCE-NOT: schedule
// OUTLINED:   gpu.module
// LLVM:       llvm.func
// LLVM-NOT:   {{scf|arith}}.
// PTX:        .target sm_90a
// PTX:        .entry

// RUN: moe-opt %s --emit=ptx --mlir-timing 2>&1 >/dev/null | FileCheck %s --check-prefix=TIMING
// TIMING: moe-verify
// TIMING: {{[0-9.]+}} s ptx

func.func @quantize(%w: tensor<2x128x256xbf16>)
    -> (tensor<2x128x256xf8E4M3FN, affine_map<(e, n, k) -> (e, k, n)>>, tensor<2x4x256xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<2x128x256xbf16>)
      -> (tensor<2x128x256xf8E4M3FN, affine_map<(e, n, k) -> (e, k, n)>>, tensor<2x4x256xf8E8M0FNU>)
  return %q, %s : tensor<2x128x256xf8E4M3FN, affine_map<(e, n, k) -> (e, k, n)>>, tensor<2x4x256xf8E8M0FNU>
}
