// Pieces are compiled one by one, keep the line numbers of the file, and are joined by the separator.

// RUN: moe-opt %s --split-input-file | FileCheck %s
// RUN: moe-opt %s --split-input-file | moe-opt --split-input-file | FileCheck %s

// Without the flag, the second @f is a redefinition.
// RUN: not moe-opt %s 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: split-input.mlir:[[# @LINE + 14]]:{{[0-9]+}}: error: redefinition of symbol named 'f'

// An error in one piece leaves the others alone, but there is no output then.
// RUN: sed -e 's/@g(i16)/@g(i99999999)/' %s > %t.mlir
// RUN: not moe-opt %t.mlir --split-input-file 2>&1 | FileCheck %s --check-prefix=ERROR --implicit-check-not=module
// ERROR: {{.*}}.mlir:[[# @LINE + 14]]:{{[0-9]+}}: error: integer bitwidth is limited
// ERROR-NEXT: func.func private @g(i99999999)

// CHECK: func.func private @f(i32
func.func private @f(i32)
// CHECK: // -----
// -----

// CHECK: func.func private @f(i64
func.func private @f(i64)

// -----
// CHECK: // -----
// CHECK: func.func private @g(i16
func.func private @g(i16)
