// Arguments and results of functions are called what the source calls them; printing keeps the names.

// RUN: moe-opt %s --split-input-file | FileCheck %s
// RUN: moe-opt %s --split-input-file | moe-opt --split-input-file | FileCheck %s
// RUN: moe-opt %s --split-input-file --mlir-print-op-generic | moe-opt --split-input-file | FileCheck %s

// CHECK-LABEL: @plain(
// CHECK-SAME:    {moe.name = "w"}, %{{.*}} {moe.name = "x_2"}) -> (i32 {moe.name = "q"}, i32 {moe.name = "s"})
func.func @plain(%w: i32, %x_2: i32) -> (i32, i32) {
  %q = arith.addi %w, %x_2 : i32
  %s = arith.muli %w, %x_2 : i32
  return %q, %s : i32, i32
}

// Spread over lines, generic form, a comment that looks like a name.
// CHECK-LABEL: @spread(
// CHECK-SAME:    {moe.name = "first"}, %{{.*}} {moe.name = "second"}) -> (i32 {moe.name = "sum"}, i32 {moe.name = "result1"})
func.func @spread(
    %first: i32, // %other: i32
    %second
      : i32) -> (i32, i32) {
  %sum = arith.addi %first, %second : i32
  "func.return"(%sum,
                %first) : (i32, i32) -> ()
}

// Numbers, names with characters that are not for everyone, one of several results.
// CHECK-LABEL: @unusable(
// CHECK-SAME:    {moe.name = "arg0"}, %{{.*}} {moe.name = "arg1"}, %{{.*}} {moe.name = "arg2"}) -> (i32 {moe.name = "result0"}, i32 {moe.name = "result1"})
func.func @unusable(%0: i32, %a.b: i32, %c$d: i32) -> (i32, i32) {
  %r:2 = scf.execute_region -> (i32, i32) {
    scf.yield %0, %0 : i32, i32
  }
  return %r#0, %r#1 : i32, i32
}

// A name that safetensors files have for something else.
// CHECK-LABEL: @reserved(
// CHECK-SAME:    {moe.name = "arg0"}, %{{.*}} {moe.name = "__metadata"}) -> (i32 {moe.name = "result0"})
func.func @reserved(%__metadata__: i32, %__metadata: i32) -> i32 {
  return %__metadata__ : i32
}

// An argument that is returned, and twice the same value: names are unique in the function.
// CHECK-LABEL: @unique(
// CHECK-SAME:    {moe.name = "result1"}, %{{.*}} {moe.name = "x"}) -> (i32 {moe.name = "y"}, i32 {moe.name = "result1_"}, i32 {moe.name = "result2"})
func.func @unique(%result1: i32, %x: i32) -> (i32, i32, i32) {
  %y = arith.addi %x, %x : i32
  return %y, %y, %x : i32, i32, i32
}

// A declaration has no names in the text.
// CHECK-LABEL: @declaration(
// CHECK-SAME:    i32 {moe.name = "arg0"}) -> (i64 {moe.name = "result0"})
func.func private @declaration(i32) -> i64

// Names that are given come first; other attributes stay.
// CHECK-LABEL: @given(
// CHECK-SAME:    {moe.name = "b"}, %{{.*}} {llvm.noundef, moe.name = "arg1"}) -> (i32 {moe.name = "weights"})
func.func @given(%a: i32 {moe.name = "b"}, %b: i32 {llvm.noundef}) -> (i32 {moe.name = "weights"}) {
  return %a : i32
}

// -----

// Line numbers are right in later pieces, too.
// CHECK-LABEL: @later(
// CHECK-SAME:    {moe.name = "here"}
func.func @later(%here: i32) {
  return
}
