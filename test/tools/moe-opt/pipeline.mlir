// Passes of moe-opt and of MLIR run in the order given, at any depth, by pipeline or by flags.

// RUN: moe-opt %s --pass-pipeline='builtin.module(moe-verify, func.func(cse,canonicalize{max-iterations=3}) ,any(cse),moe-fuse-quantize)' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=DUMP
// DUMP: {{^}}builtin.module(moe-verify,func.func(cse,canonicalize{{{ *}}max-iterations=3 {{.*}}}),any(cse),moe-fuse-quantize){{$}}

// What is dumped can be read back.
// RUN: moe-opt %s --moe-verify --canonicalize=max-iterations=2 --cse --dump-pass-pipeline 2>&1 >/dev/null | tee %t.pipeline | FileCheck %s --check-prefix=FLAGS
// RUN: cat %t.pipeline | xargs -d '\n' -I {} moe-opt %s --dump-pass-pipeline --pass-pipeline={} 2>&1 >/dev/null | diff %t.pipeline -
// FLAGS: {{^}}builtin.module(moe-verify,canonicalize{{{ *}}max-iterations=2 {{.*}}},cse){{$}}

// RUN: moe-opt %s --emit=fused --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=STAGE
// STAGE: {{^}}builtin.module(moe-verify,moe-expand-recipes,moe-fuse-quantize,moe-expand-quantize){{$}}

// RUN: moe-opt %s --emit=source --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE
// NONE: {{^}}builtin.module(){{$}}

// The order matters: cse merges the sums only where canonicalize has not yet removed what is unused.
// RUN: moe-opt %s --cse | FileCheck %s --check-prefix=CSE
// RUN: moe-opt %s --pass-pipeline='builtin.module(func.func(cse))' | FileCheck %s --check-prefix=CSE
// RUN: moe-opt %s | FileCheck %s --check-prefix=PLAIN
// CSE-COUNT-1: arith.addi
// CSE-NOT:     arith.addi
// PLAIN-COUNT-2: arith.addi
func.func @f(%x: i32) -> (i32, i32) {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  return %a, %b : i32, i32
}

// IR between passes goes to stderr.
// RUN: moe-opt %s --moe-verify --cse --mlir-print-ir-before-all 2>&1 >/dev/null | FileCheck %s --check-prefix=BEFORE
// RUN: moe-opt %s --moe-verify --cse --mlir-print-ir-after-all 2>&1 >/dev/null | FileCheck %s --check-prefix=AFTER
// BEFORE:         IR Dump Before moe-verify
// BEFORE-COUNT-2: arith.addi
// BEFORE:         IR Dump Before CSE
// BEFORE-COUNT-2: arith.addi
// AFTER:          IR Dump After moe-verify
// AFTER-COUNT-2:  arith.addi
// AFTER:          IR Dump After CSE
// AFTER:          arith.addi
// AFTER-NOT:      arith.addi

// One report, with every pass in it.
// RUN: moe-opt %s --moe-verify --cse --mlir-timing 2>&1 >/dev/null | FileCheck %s --check-prefix=TIMING
// TIMING:     Execution time report
// TIMING-DAG: moe-verify
// TIMING-DAG: CSE
// TIMING-NOT: Execution time report
