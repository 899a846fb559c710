// What cannot be a launch plan.

// RUN: moe-opt %s --split-input-file --moe-outline-kernels --verify-diagnostics

func.func @foreign_op(%a: tensor<32xf32>) -> tensor<32xf32> {
  // expected-error@below {{'arith.addf' has no kernel and could not be fused into one}}
  %b = arith.addf %a, %a : tensor<32xf32>
  return %b : tensor<32xf32>
}

// -----

// expected-error@below {{argument 0: moe.constant must stand alone, without a value}}
func.func @constant_with_value(%a: tensor<32xf32> {moe.constant = true}) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"} : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return %q, %s : tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>
}

// -----

func.func @transpose(%a: tensor<32x16xf32>) -> tensor<16x32xf32> {
  %e = tensor.empty() : tensor<16x32xf32>
  // expected-error@below {{'linalg.transpose' moves its tensor, and no kernel does that alone; it moves nothing where its result has the encoding affine_map<(d0, d1) -> (d1, d0)>}}
  %t = linalg.transpose ins(%a : tensor<32x16xf32>) outs(%e : tensor<16x32xf32>) permutation = [1, 0]
  return %t : tensor<16x32xf32>
}

// -----

func.func @transpose_of_column_major(%a: tensor<32x16xf32, affine_map<(m, k) -> (k, m)>>)
    -> tensor<16x32xf32, affine_map<(k, m) -> (m, k)>> {
  %e = tensor.empty() : tensor<16x32xf32, affine_map<(k, m) -> (m, k)>>
  // expected-error@below {{it moves nothing where its result has no encoding}}
  %t = linalg.transpose ins(%a : tensor<32x16xf32, affine_map<(m, k) -> (k, m)>>)
      outs(%e : tensor<16x32xf32, affine_map<(k, m) -> (m, k)>>) permutation = [1, 0]
  return %t : tensor<16x32xf32, affine_map<(k, m) -> (m, k)>>
}

// -----

func.func @transpose_of_no_order(%a: tensor<32x16xf32, 1>) {
  %e = tensor.empty() : tensor<16x32xf32>
  // expected-error@below {{'linalg.transpose' has no kernel and could not be fused into one}}
  %t = linalg.transpose ins(%a : tensor<32x16xf32, 1>) outs(%e : tensor<16x32xf32>) permutation = [1, 0]
  return
}

// -----

func.func @reads_a_destination() -> tensor<32xf8E5M2> {
  // expected-error@below {{'tensor.empty' has no kernel and could not be fused into one}}
  %e = tensor.empty() : tensor<32xf32>
  %q, %s = "mx_quantize.quantize"(%e) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return %q : tensor<32xf8E5M2>
}

// -----

func.func @reads_a_view_of_a_destination() -> tensor<32x16xf8E5M2> {
  // expected-error@below {{'tensor.empty' has no kernel and could not be fused into one}}
  %e = tensor.empty() : tensor<16x32xf32>
  %d = tensor.empty() : tensor<32x16xf32, affine_map<(m, k) -> (k, m)>>
  %v = linalg.transpose ins(%e : tensor<16x32xf32>) outs(%d : tensor<32x16xf32, affine_map<(m, k) -> (k, m)>>) permutation = [1, 0]
  %q, %s = "mx_quantize.quantize"(%v) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32x16xf32, affine_map<(m, k) -> (k, m)>>) -> (tensor<32x16xf8E5M2>, tensor<1x16xf8E8M0FNU>)
  return %q : tensor<32x16xf8E5M2>
}

// -----

func.func @returns_a_destination() -> tensor<32xf32> {
  // expected-error@below {{'tensor.empty' has no kernel and could not be fused into one}}
  %e = tensor.empty() : tensor<32xf32>
  return %e : tensor<32xf32>
}

// -----

func.func @returns_view(%a: tensor<32x64xf32>) -> tensor<64x32xf8E5M2, affine_map<(k, m) -> (m, k)>> {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32x64xf32>) -> (tensor<32x64xf8E5M2>, tensor<32x2xf8E8M0FNU>)
  %e = tensor.empty() : tensor<64x32xf8E5M2, affine_map<(k, m) -> (m, k)>>
  %v = linalg.transpose ins(%q : tensor<32x64xf8E5M2>) outs(%e : tensor<64x32xf8E5M2, affine_map<(k, m) -> (m, k)>>) permutation = [1, 0]
  // expected-error@below {{result 0 is a view; return what the kernel makes, and let the caller see it with other dimensions}}
  return %v : tensor<64x32xf8E5M2, affine_map<(k, m) -> (m, k)>>
}

// -----

func.func @returns_argument(%a: tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  // expected-error@below {{result 1 is an argument; every result must be made by a kernel}}
  return %q, %a : tensor<32xf8E5M2>, tensor<32xf32>
}

// -----

func.func @returns_twice(%a: tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>, tensor<32xf8E5M2>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  // expected-error@below {{results 0 and 2 are the same value; each result has a buffer of its own}}
  return %q, %s, %q : tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>, tensor<32xf8E5M2>
}

// -----

// expected-error@below {{argument 1 is not used; every argument must be read by a kernel}}
func.func @unused_argument(%a: tensor<32xf32>, %flag: i1) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// -----

// A view that nobody reads is no use, and neither is being a destination.
// expected-error@below {{argument 0 is not used; every argument must be read by a kernel}}
func.func @unread_view(%a: tensor<32x64xf32>, %d: tensor<64x32xf32, affine_map<(k, m) -> (m, k)>>) {
  %v = linalg.transpose ins(%a : tensor<32x64xf32>) outs(%d : tensor<64x32xf32, affine_map<(k, m) -> (m, k)>>) permutation = [1, 0]
  return
}

// -----

// expected-error@below {{argument 1 is not used; every argument must be read by a kernel}}
func.func @destination(%a: tensor<32x64xf32>, %d: tensor<64x32xf32, affine_map<(k, m) -> (m, k)>>) {
  %v = linalg.transpose ins(%a : tensor<32x64xf32>) outs(%d : tensor<64x32xf32, affine_map<(k, m) -> (m, k)>>) permutation = [1, 0]
  %q, %s = "mx_quantize.quantize"(%v) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<64x32xf32, affine_map<(k, m) -> (m, k)>>) -> (tensor<64x32xf8E5M2>, tensor<64x1xf8E8M0FNU>)
  return
}

// -----

// expected-error@below {{a launch plan has no branches: the function must be one block}}
func.func @branch() {
  cf.br ^end
^end:
  return
}

// -----

// expected-error@below {{a launch plan has no branches: the function must be one block}}
func.func @unreachable_block(%flag: i1) {
  return
^never:
  cf.cond_br %flag, ^never, ^never
}

// -----

// expected-error@below {{a function must have a name}}
func.func @""() {
  return
}

// -----

// expected-error@below {{'memref.global' beside the functions cannot be compiled}}
memref.global @table : memref<4xf32>

// -----

func.func @f() {
  return
}
// expected-error@below {{'builtin.module' beside the functions cannot be compiled}}
module @inner {
  func.func @f() {
    return
  }
}

// -----

func.func @no_such_kernel(%a: tensor<32xf32>) {
  // expected-error@below {{there is no kernel @kernels::@k}}
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor", kernel = @kernels::@k}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// -----

gpu.module @kernels {
  func.func @other() { return }
}
func.func @no_such_kernel_in_module(%a: tensor<32xf32>) {
  // expected-error@below {{there is no kernel @kernels::@k}}
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor", kernel = @kernels::@k}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// -----

gpu.module @kernels {
  func.func @other() { return }
}
func.func @no_kernel_by_number(%a: tensor<32xf32>) {
  // expected-error@below {{there is no kernel 3 : i64}}
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor", kernel = 3 : i64}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}
