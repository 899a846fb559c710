// Names that are given must be names, and unique; attributes of the project must be known.

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

// -----

// expected-error@below {{result 0: moe.name "__metadata__" is taken in safetensors files}}
func.func @metadata(%a: i32) -> (i32 {moe.name = "__metadata__"}) {
  return %a : i32
}

// -----

// expected-error@below {{argument 1: unknown attribute 'moe.diferentiable'; it may have moe.name, moe.constant or moe.differentiable}}
func.func @argument(%a: i32, %b: i32 {moe.diferentiable = false}) {
  return
}

// -----

// expected-error@below {{result 0: unknown attribute 'moe.constant'; it may have moe.name}}
func.func @result(%a: i32) -> (i32 {moe.constant}) {
  return %a : i32
}

// -----

// expected-error@below {{the function: unknown attribute 'moe.constnt'; it may have moe.forward or moe.backward}}
func.func @function(%a: i32) attributes {moe.constnt} {
  return
}

// -----

// Attributes of others, and those of the project, are left alone.
func.func @known(%a: i32 {moe.name = "x", moe.constant, moe.differentiable = false, llvm.noundef}) attributes {moe.forward = @f, other.a = 1} {
  return
}
