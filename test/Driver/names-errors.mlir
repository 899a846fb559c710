// Names that are given must be names, and unique.

// RUN: moe-opt %s --split-input-file --verify-diagnostics

// expected-error@below {{argument 1: moe.name "w" is used twice in this function}}
func.func @twice(%a: i32 {moe.name = "w"}, %b: i32 {moe.name = "w"}) {
  return
}

// -----

// expected-error@below {{result 0: moe.name "w" is used twice in this function}}
func.func @result(%a: i32 {moe.name = "w"}) -> (i32 {moe.name = "w"}) {
  return %a : i32
}

// -----

// expected-error@below {{argument 0: moe.name is not a string}}
func.func @number(%a: i32 {moe.name = 1}) {
  return
}

// -----

// expected-error@below {{argument 0: moe.name is empty}}
func.func @empty(%a: i32 {moe.name = ""}) {
  return
}
