// Functions become launch plans, and each launch has a kernel of its own.

// RUN: moe-opt %s --split-input-file --moe-outline-kernels | FileCheck %s
// RUN: moe-opt %s --split-input-file --moe-outline-kernels --moe-outline-kernels | FileCheck %s

// CHECK: module attributes {gpu.container_module}
// CHECK-LABEL: func.func @two
// CHECK-SAME: (%[[A:.*]]: tensor<32xf32> {{.*}}, %[[B:.*]]: tensor<64xbf16>
// CHECK-NEXT: %[[QA:.*]]:2 = "mx_quantize.quantize"(%[[A]]){{.*}}kernel = @kernels::@two_0
// CHECK-NEXT: %[[QB:.*]]:2 = "mx_quantize.quantize"(%[[B]]){{.*}}kernel = @kernels::@two_1
// CHECK-NEXT: return %[[QA]]#0, %[[QB]]#0
func.func @two(%a: tensor<32xf32>, %b: tensor<64xbf16>) -> (tensor<32xf8E5M2>, tensor<64xf8E4M3FN>) {
  %qa, %sa = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  %qb, %sb = "mx_quantize.quantize"(%b) {axis = 0 : i64, block = 32 : i64, mode = "ceil"}
      : (tensor<64xbf16>) -> (tensor<64xf8E4M3FN>, tensor<2xf8E8M0FNU>)
  return %qa, %qb : tensor<32xf8E5M2>, tensor<64xf8E4M3FN>
}

// A chain: the temporary between two launches is an ordinary value. A value may be returned and be read by a later launch.
// CHECK-LABEL: func.func @chain
// CHECK: %[[QS:.*]]:2 = "mx_quantize.quantize"(%{{.*}}kernel = @kernels::@chain_0
// CHECK: "mx_quantize.dequantize"(%[[QS]]#0, %[[QS]]#1) {{.*}}kernel = @kernels::@chain_1
func.func @chain(%a: tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf8E5M2>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  %x = "mx_quantize.dequantize"(%q, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>) -> tensor<32xf32>
  return %x, %q : tensor<32xf32>, tensor<32xf8E5M2>
}

// CHECK: func.func @nothing()
func.func @nothing() {
  return
}
// CHECK: func.func private @declaration(i32
func.func private @declaration(i32)

// The kernels hold copies of the ops, without the attribute, in the order of the launches.
// CHECK: gpu.module @kernels {
// CHECK-NEXT: func.func @two_0(%[[A:.*]]: tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
// CHECK-NEXT: %[[QS:.*]]:2 = "mx_quantize.quantize"(%[[A]]) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
// CHECK-NEXT: return %[[QS]]#0, %[[QS]]#1
// CHECK: func.func @two_1(%{{.*}}: tensor<64xbf16>)
// CHECK-NEXT: mode = "ceil"
// CHECK: func.func @chain_0(
// CHECK: func.func @chain_1(%[[Q:.*]]: tensor<32xf8E5M2>, %[[S:.*]]: tensor<1xf8E8M0FNU>) -> tensor<32xf32>
// CHECK-NEXT: "mx_quantize.dequantize"(%[[Q]], %[[S]])
// CHECK-NOT: @chain_2

// -----

// Arguments of kernels are constant where those of the function are, also through a view.
// CHECK: func.func @given_0(%{{[a-z0-9]+}}: tensor<32x64xf8E5M2, #{{.*}}> {moe.constant}, %{{[a-z0-9]+}}: tensor<1x64xf8E8M0FNU>)
// CHECK: func.func @given_1(%{{[a-z0-9]+}}: tensor<32x64xf32>)
// CHECK: func.func @given_2(%{{[a-z0-9]+}}: tensor<32x64xf8E5M2, #{{.*}}> {moe.constant}, %{{[a-z0-9]+}}: tensor<1x64xf8E8M0FNU>)
func.func @given(%q: tensor<64x32xf8E5M2> {moe.constant}, %s: tensor<1x64xf8E8M0FNU>)
    -> (tensor<32x64xf8E5M2, affine_map<(m, k) -> (k, m)>>, tensor<1x64xf8E8M0FNU>, tensor<32x64xf32>) {
  %e = tensor.empty() : tensor<32x64xf8E5M2, affine_map<(m, k) -> (k, m)>>
  %view = linalg.transpose ins(%q : tensor<64x32xf8E5M2>) outs(%e : tensor<32x64xf8E5M2, affine_map<(m, k) -> (k, m)>>) permutation = [1, 0]
  %x = "mx_quantize.dequantize"(%view, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<32x64xf8E5M2, affine_map<(m, k) -> (k, m)>>, tensor<1x64xf8E8M0FNU>) -> tensor<32x64xf32>
  %q2, %s2 = "mx_quantize.quantize"(%x) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32x64xf32>) -> (tensor<32x64xf8E5M2, affine_map<(m, k) -> (k, m)>>, tensor<1x64xf8E8M0FNU>)
  %y = "mx_quantize.dequantize"(%view, %s) {axis = 0 : i64, block = 32 : i64}
      : (tensor<32x64xf8E5M2, affine_map<(m, k) -> (k, m)>>, tensor<1x64xf8E8M0FNU>) -> tensor<32x64xf32>
  return %q2, %s2, %y : tensor<32x64xf8E5M2, affine_map<(m, k) -> (k, m)>>, tensor<1x64xf8E8M0FNU>, tensor<32x64xf32>
}

// -----

// PTX allows letters, digits and _; two functions may come to the same name.
// CHECK: kernel = @kernels::@foo_bar_0,
// CHECK: kernel = @kernels::@foo_bar_1,
// CHECK: kernel = @kernels::@k3d_0,
// CHECK: kernel = @kernels::@k__0,
// CHECK: kernel = @kernels::@k_0,
func.func @"foo-bar"(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}
func.func @foo_bar(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}
func.func @"3d"(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}
func.func @_(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}
func.func @k(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// -----

// A letter of two bytes is two characters of the kernel's name.
// CHECK: kernel = @kernels::@gr____e_0,
func.func @"größe"(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// -----

// A function may be called as the module of kernels is.
// CHECK: func.func @kernels(
// CHECK: kernel = @kernels_0::@kernels_0
// CHECK: gpu.module @kernels_0
// CHECK-NEXT: func.func @kernels_0(
func.func @kernels(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// -----

// A gpu.module that is there is used, and what it holds is kept.
// CHECK: gpu.module @"my module" {
// CHECK-NEXT: func.func @f_0() {
// CHECK: func.func @f_1(
// CHECK: kernel = @"my module"::@f_1
gpu.module @"my module" {
  func.func @f_0() { return }
}
func.func @f(%a: tensor<32xf32>) {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 0 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
  return
}

// -----

// A transpose that moves nothing is a view: the plan holds it, and a kernel sees the type that it has. What makes sizes stays too.
// CHECK: #[[$COL_MAJOR:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @views
// CHECK: %[[V:.*]] = linalg.transpose ins(%{{.*}} : tensor<?x?xf32, #[[$COL_MAJOR]]>) outs(%{{.*}} : tensor<?x?xf32>)
// CHECK: "mx_quantize.quantize"(%[[V]]) {{.*}}kernel = @kernels::@views_0
// CHECK: func.func @views_0(%{{.*}}: tensor<?x?xf32>) -> (tensor<?x?xf8E5M2>, tensor<?x?xf8E8M0FNU>)
#col_major = affine_map<(k, m) -> (m, k)>
func.func @views(%a: tensor<?x?xf32, #col_major>) -> tensor<?x?xf8E5M2> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = tensor.dim %a, %c0 : tensor<?x?xf32, #col_major>
  %m = tensor.dim %a, %c1 : tensor<?x?xf32, #col_major>
  %e = tensor.empty(%m, %k) : tensor<?x?xf32>
  %v = linalg.transpose ins(%a : tensor<?x?xf32, #col_major>) outs(%e : tensor<?x?xf32>) permutation = [1, 0]
  %q, %s = "mx_quantize.quantize"(%v) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<?x?xf32>) -> (tensor<?x?xf8E5M2>, tensor<?x?xf8E8M0FNU>)
  return %q : tensor<?x?xf8E5M2>
}

// -----

// More dimensions than a tensor may have are moe-verify's business.
// CHECK-LABEL: func.func @many_dimensions
// CHECK: kernel = @kernels::@many_dimensions_0
func.func @many_dimensions(%a: tensor<1x1x1x1x1x1x1x1x32xf32>) -> tensor<1x1x1x1x1x1x1x1x32xf8E5M2> {
  %q, %s = "mx_quantize.quantize"(%a) {axis = 8 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<1x1x1x1x1x1x1x1x32xf32>) -> (tensor<1x1x1x1x1x1x1x1x32xf8E5M2>, tensor<1x1x1x1x1x1x1x1x1xf8E8M0FNU>)
  return %q : tensor<1x1x1x1x1x1x1x1x32xf8E5M2>
}
