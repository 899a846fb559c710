// moe-differentiate makes a forward and a backward function, which save quantized tensors only.
//
// RUN: moe-opt %s --split-input-file --moe-differentiate | FileCheck %s --enable-var-scope
//
// What it prints can be fed back in, and it leaves its own functions alone.
//
// RUN: moe-opt %examples/grouped_mm.mlir --moe-differentiate -o %t.mlir
// RUN: moe-opt %t.mlir --moe-differentiate | diff - %t.mlir
// RUN: FileCheck %s --check-prefix=NAMES --input-file %t.mlir
//
// The launches are those of forward_backward.mlir, in which each bf16 tensor is read twice: for its scales and for its casts, along
// both dimensions at once.
//
// RUN: moe-opt %t.mlir --emit=fused -o %t.fused
// RUN: FileCheck %s --check-prefix=LAUNCHES --input-file %t.fused
// RUN: moe-opt %t.fused --moe-fuse-quantize | diff - %t.fused

// NAMES: @grouped_mm_forward({{.*}}"tokens"{{.*}}"weights"{{.*}}"offs"}) -> ({{.*}}"out"{{.*}}"tokens_q_t"{{.*}}"tokens_scales_t"{{.*}}"weights_q_t"{{.*}}"weights_scales_t"}) attributes {moe.backward = @grouped_mm_backward}
// NAMES: @grouped_mm_backward({{.*}}"offs"{{.*}}"tokens_q_t"{{.*}}"tokens_scales_t"{{.*}}"weights_q_t"{{.*}}"weights_scales_t"{{.*}}"grad_out"}) -> ({{.*}}"grad_tokens"{{.*}}"grad_weights"}) attributes {moe.forward = @grouped_mm_forward}

// LAUNCHES-LABEL: func.func @grouped_mm_forward(
// LAUNCHES: "mx_quantize.scale_fp8_dual"(%arg0, %arg2)
// LAUNCHES: "mx_quantize.cast_fp8_dual"(%arg0
// LAUNCHES: "mx_quantize.scale_fp8_dual"([[W:%[a-z0-9_]+]]) {{.*}} : (tensor<?x?x?xbf16>)
// LAUNCHES: "mx_quantize.cast_fp8_dual"([[W]]
// LAUNCHES: "scaled_grouped_mm.scaled_mm"
// LAUNCHES-NOT: {{"(mx_quantize|scaled_grouped_mm)}}
// LAUNCHES-LABEL: func.func @grouped_mm_backward(
// LAUNCHES-SAME: {moe.name = "grad_out"}
// LAUNCHES: "mx_quantize.scale_fp8_dual"(%arg5
// LAUNCHES: "mx_quantize.cast_fp8_dual"(%arg5
// LAUNCHES-COUNT-2: "scaled_grouped_mm.scaled_mm"
// LAUNCHES-NOT: {{"(mx_quantize|scaled_grouped_mm)}}

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// Two products read %a: it is quantized once for both, and each gives a gradient of its own. No addition has a kernel.
// CHECK-LABEL: func.func @shared_forward(
// CHECK-SAME: "a_q_t"
// CHECK-NOT: "a_q_t_1"
// CHECK: "mx_quantize.quantize_fp8"(%arg0) {axis = 1
// CHECK-NOT: (%arg0) {axis = 1
// CHECK: "mx_quantize.quantize_fp8"(%arg0, %arg3) {axis = 0
// CHECK-NOT: (%arg0, %arg3) {axis = 0
// CHECK-LABEL: func.func @shared_backward(
// CHECK-SAME: "grad_a"{{.*}}"grad_a_1"{{.*}}"grad_w1"{{.*}}"grad_w3"}
// CHECK-COUNT-4: "scaled_grouped_mm.scaled_mm"
// CHECK-NOT: "scaled_grouped_mm.scaled_mm"
func.func @shared(%a: tensor<?x64xbf16>, %w1: tensor<4x64x32xbf16, #col_major>, %w3: tensor<4x64x32xbf16, #col_major>, %offs: tensor<4xi32>)
    -> (tensor<?x32xbf16>, tensor<?x32xbf16>) {
  %h1 = "scaled_grouped_mm.grouped_mm"(%a, %w1, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #col_major>, tensor<4xi32>) -> tensor<?x32xbf16>
  %h3 = "scaled_grouped_mm.grouped_mm"(%a, %w3, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #col_major>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %h1, %h3 : tensor<?x32xbf16>, tensor<?x32xbf16>
}

// -----

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// One product after the other: the gradient of %h is an operand of two products. Of %w2, whose gradient is not wanted, only that is
// quantized and saved which the gradient of %h reads, and of %h nothing. %w1 is row-major, and so is its gradient.
// CHECK-LABEL: func.func @chain_forward(
// CHECK-SAME: "y"{{.*}}"a_q_t"{{.*}}"a_scales_t"{{.*}}"w1_q"{{.*}}"w1_scales"{{.*}}"w2_q_t"{{.*}}"w2_scales_t"})
// CHECK-NOT: moe.differentiable
// CHECK-LABEL: func.func @chain_backward(
// CHECK-SAME: "offs"{{.*}}"grad_y"}) -> (tensor<?x64xbf16> {{{.*}}"grad_a"}, tensor<4x64x32xbf16> {{{.*}}"grad_w1"})
// CHECK: [[DH:%[0-9]+]] = "scaled_grouped_mm.scaled_mm"({{.*}}) {accumulate = "promoted"}
// CHECK: "mx_quantize.quantize_fp8"([[DH]]) {axis = 1
// CHECK: "scaled_grouped_mm.scaled_mm"({{.*}}) {accumulate = "fast"}
// CHECK: "mx_quantize.quantize_fp8"([[DH]], %arg0) {axis = 0
// CHECK: "scaled_grouped_mm.scaled_mm"({{.*}}) {accumulate = "fast"}
// CHECK-NEXT: return
func.func @chain(%a: tensor<?x64xbf16>, %w1: tensor<4x64x32xbf16>, %w2: tensor<4x32x48xbf16, #col_major> {moe.differentiable = false},
                 %offs: tensor<4xi32>) -> tensor<?x48xbf16> {
  %h = "scaled_grouped_mm.grouped_mm"(%a, %w1, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  %y = "scaled_grouped_mm.grouped_mm"(%h, %w2, %offs) {recipe = "fp8_tensorwise", accumulate = "promoted"}
      : (tensor<?x32xbf16>, tensor<4x32x48xbf16, #col_major>, tensor<4xi32>) -> tensor<?x48xbf16>
  return %y : tensor<?x48xbf16>
}

// -----

#nm = affine_map<(n, m) -> (m, n)>

// The gradient of a gradient of weights: two forward products. Both tensors lie as (M, .), and their gradients too.
// CHECK-LABEL: func.func @gradient_forward(
// CHECK-SAME: tensor<?x32xf8E4M3FN> {moe.name = "dy_q"}
// CHECK-LABEL: func.func @gradient_backward(
// CHECK-SAME: -> (tensor<?x32xbf16> {moe.name = "grad_dy"}, tensor<?x64xbf16> {moe.name = "grad_x"})
func.func @gradient(%dy: tensor<32x?xbf16, #nm>, %x: tensor<?x64xbf16>, %offs: tensor<4xi32>) -> tensor<4x32x64xbf16> {
  %dw = "scaled_grouped_mm.grouped_mm"(%dy, %x, %offs) {recipe = "fp8_rowwise"}
      : (tensor<32x?xbf16, #nm>, tensor<?x64xbf16>, tensor<4xi32>) -> tensor<4x32x64xbf16>
  return %dw : tensor<4x32x64xbf16>
}

// -----

#swapped = affine_map<(e, k, n) -> (e, n, k)>

// Batches, with operands in either order.
// CHECK-LABEL: func.func @batched_backward(
// CHECK-SAME: -> (tensor<4x64x32xbf16> {moe.name = "grad_a"}, tensor<4x64x48xbf16> {moe.name = "grad_b"})
// CHECK-COUNT-2: "scaled_grouped_mm.scaled_mm"
func.func @batched(%a: tensor<4x32x64xbf16, #swapped>, %b: tensor<4x64x48xbf16>) -> tensor<4x32x48xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_tensorwise"}
      : (tensor<4x32x64xbf16, #swapped>, tensor<4x64x48xbf16>) -> tensor<4x32x48xbf16>
  return %out : tensor<4x32x48xbf16>
}

// -----

#ekn = affine_map<(e, k, n) -> (e, n, k)>

// Rounding is passed straight through, and so are views: the gradient of %x is that of what is dequantized, that of %w lies as %w does.
// What the source rounds is not saved: the product quantizes it once more.
// CHECK-LABEL: func.func @rounded_forward(
// CHECK: "mx_quantize.quantize"
// CHECK: "mx_quantize.dequantize"
// CHECK-LABEL: func.func @rounded_backward(
// CHECK-SAME: "hidden_q_t"
// CHECK-SAME: -> (tensor<?x64xbf16> {moe.name = "grad_x"}, tensor<4x32x64xbf16> {moe.name = "grad_w"})
// CHECK-NOT: "mx_quantize.quantize"
func.func @rounded(%x: tensor<?x64xbf16>, %w: tensor<4x32x64xbf16>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>)
  %rounded = "mx_quantize.dequantize"(%q, %s) {axis = 1 : i64, block = 32 : i64}
      : (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>) -> tensor<?x64xbf16>
  %space = tensor.empty() : tensor<4x64x32xbf16, #ekn>
  %w_t = linalg.transpose ins(%w : tensor<4x32x64xbf16>) outs(%space : tensor<4x64x32xbf16, #ekn>) permutation = [0, 2, 1]
  %y = "scaled_grouped_mm.grouped_mm"(%rounded, %w_t, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #ekn>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// -----

// mxfp8 saves numbers of MX blocks: of the tokens along tokens, of the weights along N.
// CHECK-LABEL: func.func @rounded_forward
// CHECK-SAME: moe.name = "out"}, tensor<?x64xbf16> {moe.name = "a_rounded_t"}, tensor<4x32x64xbf16> {moe.name = "b_rounded_t"})
// CHECK-COUNT-2: "mx_quantize.round"
// CHECK: "scaled_grouped_mm.mm"
// CHECK-COUNT-2: "mx_quantize.round"
// CHECK-LABEL: func.func @rounded_backward
// CHECK: "mx_quantize.round"({{.*}}) {axis = 1 : i64
// CHECK: "scaled_grouped_mm.mm"
// CHECK: "mx_quantize.round"({{.*}}) {axis = 0 : i64
// CHECK: "scaled_grouped_mm.mm"
#rounded_columns = affine_map<(e, k, n) -> (e, n, k)>
func.func @rounded(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16, #rounded_columns>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #rounded_columns>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}
