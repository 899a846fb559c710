// grouped_mm becomes quantizers and scaled_mm. Nothing is copied: operands that lie the other way round are seen the other way round.

// RUN: moe-opt %s --split-input-file --moe-expand-recipes | FileCheck %s
// RUN: moe-opt %s --split-input-file --moe-expand-recipes -o %t.once.mlir
// RUN: moe-opt %t.once.mlir --split-input-file --moe-expand-recipes | diff %t.once.mlir -

// Forward. Tokens row by row. Weights that lie (E, N, K), K innermost: the (E, N, K) tensor is quantized row by row, in one pass, and is
// (E, K, N) again for the product. Sums are fast unless the op says otherwise.
// CHECK: #[[$ENK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[A:[^:]*]]: tensor<?x64xbf16> {{[^%]*}}%[[B:[^:]*]]: tensor<4x64x32xbf16, #[[$ENK]]> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<4xi32>
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<4x32x64xbf16>
// CHECK-NEXT: %[[W:.*]] = linalg.transpose ins(%[[B]] : tensor<4x64x32xbf16, #[[$ENK]]>) outs(%[[E]] : tensor<4x32x64xbf16>) permutation = [0, 2, 1]
// CHECK-NEXT: %[[QA:.*]]:2 = "mx_quantize.quantize_fp8"(%[[A]]) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
// CHECK-SAME: : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
// CHECK-NEXT: %[[QW:.*]]:2 = "mx_quantize.quantize_fp8"(%[[W]]) {axis = 2 : i64, granularity = "row", pow2 = true, sanitize = false}
// CHECK-SAME: : (tensor<4x32x64xbf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32xf32>)
// CHECK-NEXT: %[[F:.*]] = tensor.empty() : tensor<4x64x32xf8E4M3FN, #[[$ENK]]>
// CHECK-NEXT: %[[QB:.*]] = linalg.transpose ins(%[[QW]]#0 : tensor<4x32x64xf8E4M3FN>) outs(%[[F]] : {{.*}}) permutation = [0, 2, 1]
// CHECK-NEXT: %[[OUT:.*]] = "scaled_grouped_mm.scaled_mm"(%[[QA]]#0, %[[QB]], %[[QA]]#1, %[[QW]]#1, %[[OFFS]]) {accumulate = "fast"}
// CHECK-SAME: : (tensor<?x64xf8E4M3FN>, tensor<4x64x32xf8E4M3FN, #[[$ENK]]>, tensor<?xf32>, tensor<4x32xf32>, tensor<4xi32>) -> tensor<?x32xbf16>
// CHECK-NEXT: return %[[OUT]]
#enk = affine_map<(e, k, n) -> (e, n, k)>
func.func @forward(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16, #enk>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #enk>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// Weights as they lie for the other direction: quantized along the dimension before the last, which writes them column-major. No view.
// CHECK: #[[$ENK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-LABEL: func.func @dgrad
// CHECK-NOT: linalg
// CHECK: %[[QA:.*]]:2 = "mx_quantize.quantize_fp8"(%{{.*}}) {axis = 1 : i64
// CHECK: %[[QB:.*]]:2 = "mx_quantize.quantize_fp8"(%{{.*}}) {axis = 1 : i64, granularity = "row"
// CHECK-SAME: : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #[[$ENK]]>, tensor<?x?xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"(%[[QA]]#0, %[[QB]]#0, %[[QA]]#1, %[[QB]]#1, %{{.*}}) {accumulate = "promoted"}
// CHECK-SAME: -> tensor<?x?xf16>
// CHECK-NOT: linalg
func.func @dgrad(%a: tensor<?x?xbf16>, %b: tensor<?x?x?xbf16>, %offs: tensor<?xi32>) -> tensor<?x?xf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise", accumulate = "promoted"}
      : (tensor<?x?xbf16>, tensor<?x?x?xbf16>, tensor<?xi32>) -> tensor<?x?xf16>
  return %out : tensor<?x?xf16>
}

// -----

// Weight gradient. The first operand lies as the network has it, (M, N): columns of groups, as of the second, both with offs. A dynamic
// view has sizes.
// CHECK: #[[$COLUMNS:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @wgrad
// CHECK-SAME: %[[A:[^:]*]]: tensor<48x?xbf16, #[[$COLUMNS]]> {{[^%]*}}%[[B:[^:]*]]: tensor<?x64xbf16> {{[^%]*}}%[[OFFS:[^:]*]]: tensor<8xi32>
// CHECK: %[[M:.*]] = tensor.dim %[[A]], %c1
// CHECK: %[[E:.*]] = tensor.empty(%[[M]]) : tensor<?x48xbf16>
// CHECK: %[[X:.*]] = linalg.transpose ins(%[[A]] : {{.*}}) outs(%[[E]] : tensor<?x48xbf16>) permutation = [1, 0]
// CHECK-NEXT: %[[QX:.*]]:2 = "mx_quantize.quantize_fp8"(%[[X]], %[[OFFS]]) {axis = 0 : i64, granularity = "row"
// CHECK-SAME: -> (tensor<?x48xf8E4M3FN, #[[$COLUMNS]]>, tensor<8x48xf32>)
// CHECK-NEXT: %[[QB:.*]]:2 = "mx_quantize.quantize_fp8"(%[[B]], %[[OFFS]]) {axis = 0 : i64, granularity = "row"
// CHECK-SAME: -> (tensor<?x64xf8E4M3FN, #[[$COLUMNS]]>, tensor<8x64xf32>)
// CHECK: %[[QA:.*]] = linalg.transpose ins(%[[QX]]#0 : {{.*}}) outs(%{{.*}} : tensor<48x?xf8E4M3FN>) permutation = [1, 0]
// CHECK: "scaled_grouped_mm.scaled_mm"(%[[QA]], %[[QB]]#0, %[[QX]]#1, %[[QB]]#1, %[[OFFS]])
// CHECK-SAME: (tensor<48x?xf8E4M3FN>, tensor<?x64xf8E4M3FN, #[[$COLUMNS]]>, tensor<8x48xf32>, tensor<8x64xf32>, tensor<8xi32>) -> tensor<8x48x64xf32>
#columns = affine_map<(n, m) -> (m, n)>
func.func @wgrad(%a: tensor<48x?xbf16, #columns>, %b: tensor<?x64xbf16>, %offs: tensor<8xi32>) -> tensor<8x48x64xf32> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<48x?xbf16, #columns>, tensor<?x64xbf16>, tensor<8xi32>) -> tensor<8x48x64xf32>
  return %out : tensor<8x48x64xf32>
}

// -----

// Batched: no groups, and either operand lies either way.
// CHECK-LABEL: func.func @batched
// CHECK: "mx_quantize.quantize_fp8"(%{{.*}}) {axis = 2 : i64, granularity = "row"{{.*}} -> (tensor<3x16x64xf8E4M3FN>, tensor<3x16xf32>)
// CHECK: "mx_quantize.quantize_fp8"(%{{.*}}) {axis = 1 : i64, granularity = "row"{{.*}} -> (tensor<3x64x32xf8E4M3FN, #{{.*}}>, tensor<3x32xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK-LABEL: func.func @batched_swapped
// CHECK-SAME: %[[A:[^:]*]]: tensor<3x16x64xbf16, #{{[^%]*}}%[[B:[^:]*]]: tensor<3x64x32xbf16, #
// CHECK: %[[X:.*]] = linalg.transpose ins(%[[A]] {{.*}} outs(%{{.*}} : tensor<3x64x16xbf16>)
// CHECK: %[[W:.*]] = linalg.transpose ins(%[[B]] {{.*}} outs(%{{.*}} : tensor<3x32x64xbf16>)
// CHECK: "mx_quantize.quantize_fp8"(%[[X]]) {axis = 1 : i64{{.*}} -> (tensor<3x64x16xf8E4M3FN, #{{.*}}>, tensor<3x16xf32>)
// CHECK: "mx_quantize.quantize_fp8"(%[[W]]) {axis = 2 : i64{{.*}} -> (tensor<3x32x64xf8E4M3FN>, tensor<3x32xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} : (tensor<3x16x64xf8E4M3FN>, tensor<3x64x32xf8E4M3FN, #{{.*}}>, tensor<3x16xf32>, tensor<3x32xf32>)
#swapped = affine_map<(e, k, n) -> (e, n, k)>
func.func @batched(%a: tensor<3x16x64xbf16>, %b: tensor<3x64x32xbf16>) -> tensor<3x16x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_rowwise"}
      : (tensor<3x16x64xbf16>, tensor<3x64x32xbf16>) -> tensor<3x16x32xbf16>
  return %out : tensor<3x16x32xbf16>
}
func.func @batched_swapped(%a: tensor<3x16x64xbf16, #swapped>, %b: tensor<3x64x32xbf16, #swapped>) -> tensor<3x16x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_rowwise"}
      : (tensor<3x16x64xbf16, #swapped>, tensor<3x64x32xbf16, #swapped>) -> tensor<3x16x32xbf16>
  return %out : tensor<3x16x32xbf16>
}

// -----

// fp8_tensorwise: one scale for the tokens, for an expert, for a group; NaN and Inf are replaced.
// CHECK-LABEL: func.func @tensorwise
// CHECK: {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = true} : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<1xf32>)
// CHECK: {axis = 1 : i64, granularity = "expert", pow2 = true, sanitize = true} : (tensor<4x64x32xbf16>) -> (tensor<4x64x32xf8E4M3FN, #{{.*}}>, tensor<4xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} tensor<1xf32>, tensor<4xf32>, tensor<4xi32>) -> tensor<?x32xbf16>
// CHECK-LABEL: func.func @tensorwise_wgrad
// CHECK: {axis = 0 : i64, granularity = "group", pow2 = true, sanitize = true} : (tensor<?x32xbf16>, tensor<4xi32>) -> (tensor<?x32xf8E4M3FN, #{{.*}}>, tensor<4xf32>)
// CHECK: {axis = 0 : i64, granularity = "group", pow2 = true, sanitize = true} : (tensor<?x64xbf16>, tensor<4xi32>) -> (tensor<?x64xf8E4M3FN, #{{.*}}>, tensor<4xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) -> tensor<4x32x64xbf16>
// CHECK-LABEL: func.func @tensorwise_batched
// CHECK-COUNT-2: granularity = "expert", pow2 = true, sanitize = true
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} tensor<?xf32>, tensor<?xf32>) -> tensor<?x?x?xbf16>
#columns = affine_map<(n, m) -> (m, n)>
func.func @tensorwise(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_tensorwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}
func.func @tensorwise_wgrad(%a: tensor<32x?xbf16, #columns>, %b: tensor<?x64xbf16>, %offs: tensor<4xi32>) -> tensor<4x32x64xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_tensorwise"}
      : (tensor<32x?xbf16, #columns>, tensor<?x64xbf16>, tensor<4xi32>) -> tensor<4x32x64xbf16>
  return %out : tensor<4x32x64xbf16>
}
func.func @tensorwise_batched(%a: tensor<?x?x?xbf16>, %b: tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_tensorwise"}
      : (tensor<?x?x?xbf16>, tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// -----

// fp8_blockwise: 1x128 of the tokens, with the rows of their scales side by side, 128x128 of the weights, which lie as a checkpoint has
// them or are seen so; sums are promoted.
// CHECK-LABEL: func.func @blockwise
// CHECK: {axis = 1 : i64, granularity = "1x128", pow2 = false, sanitize = false} : (tensor<?x272xbf16>) -> (tensor<?x272xf8E4M3FN>, tensor<?x3xf32, #[[SIDE:.*]]>)
// CHECK: {axis = 2 : i64, granularity = "128x128", pow2 = false, sanitize = false} : (tensor<4x144x272xbf16>) -> (tensor<4x144x272xf8E4M3FN>, tensor<4x2x3xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"} : {{.*}} tensor<?x3xf32, #[[SIDE]]>, tensor<4x3x2xf32, #{{.*}}>, tensor<4xi32>) -> tensor<?x144xbf16>
// CHECK-LABEL: func.func @blockwise_dgrad
// CHECK: {axis = 1 : i64, granularity = "128x128", pow2 = false, sanitize = false} : (tensor<4x144x272xbf16>) -> (tensor<4x144x272xf8E4M3FN, #{{.*}}>, tensor<4x2x3xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"} : {{.*}} tensor<4x2x3xf32>, tensor<4xi32>) -> tensor<?x272xbf16>
// Along tokens each group begins at a multiple of 128 tokens, and has room for as many more; the types do not say what the scales are,
// the attribute does.
// CHECK-LABEL: func.func @blockwise_wgrad
// CHECK: {align = 128 : i64, axis = 0 : i64, granularity = "1x128", pow2 = false, sanitize = false} : (tensor<300x144xbf16>, tensor<4xi32>) -> (tensor<896x144xf8E4M3FN, #{{.*}}>, tensor<7x144xf32>)
// CHECK: {align = 128 : i64, axis = 0 : i64, granularity = "1x128", pow2 = false, sanitize = false} : (tensor<300x272xbf16>, tensor<4xi32>) -> (tensor<896x272xf8E4M3FN, #{{.*}}>, tensor<7x272xf32>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted", align = 128 : i64, granularity = "1x128"} : (tensor<144x896xf8E4M3FN>, {{.*}} tensor<7x144xf32>, tensor<7x272xf32>, tensor<4xi32>) -> tensor<4x144x272xf32>
// CHECK-LABEL: func.func @blockwise_batched
// CHECK: {axis = 1 : i64, granularity = "1x128", pow2 = false, sanitize = false} : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #[[SWAPPED:.*]]>, tensor<?x?x?xf32>)
// CHECK: {axis = 1 : i64, granularity = "128x128"
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} tensor<?x?x?xf32, #[[SWAPPED]]>, tensor<?x?x?xf32>) -> tensor<?x?x?xbf16>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @blockwise(%a: tensor<?x272xbf16>, %b: tensor<4x272x144xbf16, #ekn>, %offs: tensor<4xi32>) -> tensor<?x144xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_blockwise"}
      : (tensor<?x272xbf16>, tensor<4x272x144xbf16, #ekn>, tensor<4xi32>) -> tensor<?x144xbf16>
  return %out : tensor<?x144xbf16>
}
func.func @blockwise_dgrad(%a: tensor<?x144xbf16>, %b: tensor<4x144x272xbf16>, %offs: tensor<4xi32>) -> tensor<?x272xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_blockwise", accumulate = "promoted"}
      : (tensor<?x144xbf16>, tensor<4x144x272xbf16>, tensor<4xi32>) -> tensor<?x272xbf16>
  return %out : tensor<?x272xbf16>
}
#nm = affine_map<(n, m) -> (m, n)>
func.func @blockwise_wgrad(%a: tensor<144x300xbf16, #nm>, %b: tensor<300x272xbf16>, %offs: tensor<4xi32>) -> tensor<4x144x272xf32> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_blockwise"}
      : (tensor<144x300xbf16, #nm>, tensor<300x272xbf16>, tensor<4xi32>) -> tensor<4x144x272xf32>
  return %out : tensor<4x144x272xf32>
}
func.func @blockwise_batched(%a: tensor<?x?x?xbf16, #ekn>, %b: tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_blockwise"}
      : (tensor<?x?x?xbf16, #ekn>, tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// -----

// mxfp8: both operands are rounded to numbers of MX blocks along what is summed, the weights by either view, and multiplied in bf16.
// CHECK-LABEL: func.func @mx
// CHECK: "mx_quantize.round"(%{{.*}}) {axis = 1 : i64, block = 32 : i64, element = "f8E4M3FN", mode = "rceil"} : (tensor<?x288xbf16>) -> tensor<?x288xbf16>
// CHECK: "mx_quantize.round"(%{{.*}}) {axis = 2 : i64, block = 32 : i64, element = "f8E4M3FN", mode = "rceil"} : (tensor<4x144x288xbf16>) -> tensor<4x144x288xbf16>
// CHECK: "scaled_grouped_mm.mm"{{.*}} : (tensor<?x288xbf16>, tensor<4x288x144xbf16, #{{.*}}>, tensor<4xi32>) -> tensor<?x144xbf16>
// CHECK-LABEL: func.func @mx_dgrad
// CHECK: "mx_quantize.round"(%{{.*}}) {axis = 1 : i64, {{.*}}} : (tensor<4x160x272xbf16>) -> tensor<4x160x272xbf16>
// CHECK: "scaled_grouped_mm.mm"{{.*}} : (tensor<?x160xbf16>, tensor<4x160x272xbf16>, tensor<4xi32>) -> tensor<?x272xbf16>
// Along tokens blocks begin with their group; tokens stay where they are.
// CHECK-LABEL: func.func @mx_wgrad
// CHECK: "mx_quantize.round"(%{{.*}}, %{{.*}}) {axis = 0 : i64, block = 32 : i64, element = "f8E4M3FN", mode = "rceil"} : (tensor<405x144xbf16>, tensor<4xi32>) -> tensor<405x144xbf16>
// CHECK: "mx_quantize.round"(%{{.*}}, %{{.*}}) {axis = 0 : i64, {{.*}}} : (tensor<405x272xbf16>, tensor<4xi32>) -> tensor<405x272xbf16>
// CHECK: "scaled_grouped_mm.mm"{{.*}} : (tensor<144x405xbf16, #{{.*}}>, tensor<405x272xbf16>, tensor<4xi32>) -> tensor<4x144x272xbf16>
// CHECK-LABEL: func.func @mx_batched
// CHECK: "scaled_grouped_mm.mm"{{.*}} : (tensor<?x?x?xbf16>, tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @mx(%a: tensor<?x288xbf16>, %b: tensor<4x288x144xbf16, #ekn>, %offs: tensor<4xi32>) -> tensor<?x144xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<?x288xbf16>, tensor<4x288x144xbf16, #ekn>, tensor<4xi32>) -> tensor<?x144xbf16>
  return %out : tensor<?x144xbf16>
}
func.func @mx_dgrad(%a: tensor<?x160xbf16>, %b: tensor<4x160x272xbf16>, %offs: tensor<4xi32>) -> tensor<?x272xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<?x160xbf16>, tensor<4x160x272xbf16>, tensor<4xi32>) -> tensor<?x272xbf16>
  return %out : tensor<?x272xbf16>
}
#nm = affine_map<(n, m) -> (m, n)>
func.func @mx_wgrad(%a: tensor<144x405xbf16, #nm>, %b: tensor<405x272xbf16>, %offs: tensor<4xi32>) -> tensor<4x144x272xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<144x405xbf16, #nm>, tensor<405x272xbf16>, tensor<4xi32>) -> tensor<4x144x272xbf16>
  return %out : tensor<4x144x272xbf16>
}
func.func @mx_batched(%a: tensor<?x?x?xbf16>, %b: tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "mxfp8"}
      : (tensor<?x?x?xbf16>, tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// -----

// An mm has no sums to choose: either value of accumulate is accepted, and changes nothing. 259 tokens of 4 experts are more than 64 each.
// CHECK-LABEL: func.func @mx_sums
// CHECK-COUNT-2: "mx_quantize.round"
// CHECK-NOT: accumulate
// CHECK-COUNT-2: "scaled_grouped_mm.mm"(%{{.*}}, %{{.*}}, %{{.*}}) :
// CHECK: return
func.func @mx_sums(%a: tensor<259x32xbf16>, %b: tensor<4x32x16xbf16>, %offs: tensor<4xi32>) -> (tensor<259x16xbf16>, tensor<259x16xbf16>) {
  %fast = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", accumulate = "fast"}
      : (tensor<259x32xbf16>, tensor<4x32x16xbf16>, tensor<4xi32>) -> tensor<259x16xbf16>
  %promoted = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", accumulate = "promoted"}
      : (tensor<259x32xbf16>, tensor<4x32x16xbf16>, tensor<4xi32>) -> tensor<259x16xbf16>
  return %fast, %promoted : tensor<259x16xbf16>, tensor<259x16xbf16>
}

// -----

// Where experts have few tokens, on average, reading weights takes the time: they stay in FP8, and sums are promoted.
// CHECK-LABEL: func.func @mx_few
// CHECK: "mx_quantize.quantize"(%{{.*}}) {axis = 1 : i64, block = 32 : i64, mode = "rceil"} : (tensor<256x288xbf16>) -> (tensor<256x288xf8E4M3FN>, tensor<256x9xf8E8M0FNU>)
// CHECK: {axis = 2 : i64, block = 32 : i64, mode = "rceil"} : (tensor<4x144x288xbf16>) -> (tensor<4x144x288xf8E4M3FN>, tensor<4x144x9xf8E8M0FNU>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"} : {{.*}} tensor<256x9xf8E8M0FNU>, tensor<4x9x144xf8E8M0FNU, #{{.*}}>, tensor<4xi32>) -> tensor<256x144xbf16>
// CHECK-LABEL: func.func @mx_few_fast
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
// CHECK-LABEL: func.func @mx_few_dgrad
// CHECK: {axis = 1 : i64, block = 32 : i64, mode = "rceil"} : (tensor<4x160x272xbf16>) -> (tensor<4x160x272xf8E4M3FN, #{{.*}}>, tensor<4x5x272xf8E8M0FNU>)
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} tensor<4x5x272xf8E8M0FNU>, tensor<4xi32>) -> tensor<64x272xbf16>
// The gradient of weights reads none: both operands are rounded.
// CHECK-LABEL: func.func @mx_few_wgrad
// CHECK: "mx_quantize.round"(%{{.*}}, %{{.*}}) {axis = 0 : i64, block = 32 : i64, element = "f8E4M3FN", mode = "rceil"} : (tensor<205x144xbf16>, tensor<4xi32>) -> tensor<205x144xbf16>
// CHECK: "mx_quantize.round"(%{{.*}}, %{{.*}}) {axis = 0 : i64, block = 32 : i64, element = "f8E4M3FN", mode = "rceil"} : (tensor<205x272xbf16>, tensor<4xi32>) -> tensor<205x272xbf16>
// CHECK: "scaled_grouped_mm.mm"{{.*}} tensor<4xi32>) -> tensor<4x144x272xbf16>
// So are those of a batched product whose tokens are column-major, as they are in the gradient of weights.
// CHECK-LABEL: func.func @mx_few_turned
// CHECK: "mx_quantize.round"{{.*}} -> tensor<2x64x48xbf16>
// CHECK: "scaled_grouped_mm.mm"{{.*}} -> tensor<2x48x16xbf16>
#ekn = affine_map<(e, k, n) -> (e, n, k)>
func.func @mx_few(%a: tensor<256x288xbf16>, %b: tensor<4x288x144xbf16, #ekn>, %offs: tensor<4xi32>) -> tensor<256x144xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<256x288xbf16>, tensor<4x288x144xbf16, #ekn>, tensor<4xi32>) -> tensor<256x144xbf16>
  return %out : tensor<256x144xbf16>
}
func.func @mx_few_fast(%a: tensor<64x32xbf16>, %b: tensor<2x32x16xbf16>, %offs: tensor<2xi32>) -> tensor<64x16xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8", accumulate = "fast"}
      : (tensor<64x32xbf16>, tensor<2x32x16xbf16>, tensor<2xi32>) -> tensor<64x16xbf16>
  return %out : tensor<64x16xbf16>
}
func.func @mx_few_dgrad(%a: tensor<64x160xbf16>, %b: tensor<4x160x272xbf16>, %offs: tensor<4xi32>) -> tensor<64x272xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<64x160xbf16>, tensor<4x160x272xbf16>, tensor<4xi32>) -> tensor<64x272xbf16>
  return %out : tensor<64x272xbf16>
}
#nm = affine_map<(n, m) -> (m, n)>
func.func @mx_few_wgrad(%a: tensor<144x205xbf16, #nm>, %b: tensor<205x272xbf16>, %offs: tensor<4xi32>) -> tensor<4x144x272xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<144x205xbf16, #nm>, tensor<205x272xbf16>, tensor<4xi32>) -> tensor<4x144x272xbf16>
  return %out : tensor<4x144x272xbf16>
}
func.func @mx_few_turned(%a: tensor<2x48x64xbf16, #ekn>, %b: tensor<2x64x16xbf16>) -> tensor<2x48x16xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "mxfp8"}
      : (tensor<2x48x64xbf16, #ekn>, tensor<2x64x16xbf16>) -> tensor<2x48x16xbf16>
  return %out : tensor<2x48x16xbf16>
}

// -----

// What is quantized already in the same way is not quantized again: the tokens and the weights of two products, by the same view; nor is
// what the source has quantized. Another axis, other flags or a later op are something else.
// CHECK-LABEL: func.func @shared
// CHECK-SAME: %[[A:[^:]*]]: tensor<?x64xbf16>
// CHECK: %[[Q:.*]]:2 = "mx_quantize.quantize_fp8"(%[[A]]) {axis = 1 : i64
// CHECK: linalg.transpose
// CHECK: "mx_quantize.quantize_fp8"
// CHECK: linalg.transpose
// CHECK: "scaled_grouped_mm.scaled_mm"(%[[Q]]#0, %[[V:.*]], %[[Q]]#1, %[[S:.*]], %{{.*}}) {accumulate = "fast"}
// CHECK-NEXT: "scaled_grouped_mm.scaled_mm"(%[[Q]]#0, %[[V]], %[[Q]]#1, %[[S]], %{{.*}}) {accumulate = "promoted"}
// CHECK: "mx_quantize.quantize_fp8"(%[[A]]) {axis = 1 : i64, granularity = "tensor"
// CHECK: "scaled_grouped_mm.scaled_mm"
#enk = affine_map<(e, k, n) -> (e, n, k)>
func.func @shared(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16, #enk>, %offs: tensor<4xi32>)
    -> (tensor<?x64xf8E4M3FN>, tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x32xbf16>) {
  %q, %s = "mx_quantize.quantize_fp8"(%a) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  %first = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #enk>, tensor<4xi32>) -> tensor<?x32xbf16>
  %second = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise", accumulate = "promoted"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #enk>, tensor<4xi32>) -> tensor<?x32xbf16>
  %third = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_tensorwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #enk>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %q, %first, %second, %third : tensor<?x64xf8E4M3FN>, tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x32xbf16>
}

// -----

// An op behind the product cannot be shared.
// CHECK-LABEL: func.func @too_late
// CHECK-COUNT-3: "mx_quantize.quantize_fp8"
func.func @too_late(%a: tensor<?x64xbf16>, %b: tensor<4x64x32xbf16>, %offs: tensor<4xi32>) -> (tensor<?x32xbf16>, tensor<?x64xf8E4M3FN>) {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  %q, %s = "mx_quantize.quantize_fp8"(%a) {axis = 1 : i64, granularity = "row", pow2 = true, sanitize = false}
      : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>)
  return %out, %q : tensor<?x32xbf16>, tensor<?x64xf8E4M3FN>
}

// -----

// The operand is a view already, of what can be quantized as it is.
// CHECK-LABEL: func.func @view_of_weights
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x32x64xbf16>
// CHECK: "mx_quantize.quantize_fp8"(%[[W]]) {axis = 2 : i64
#enk = affine_map<(e, k, n) -> (e, n, k)>
func.func @view_of_weights(%a: tensor<?x64xbf16>, %w: tensor<4x32x64xbf16>, %offs: tensor<4xi32>) -> tensor<?x32xbf16> {
  %e = tensor.empty() : tensor<4x64x32xbf16, #enk>
  %b = linalg.transpose ins(%w : tensor<4x32x64xbf16>) outs(%e : tensor<4x64x32xbf16, #enk>) permutation = [0, 2, 1]
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x64xbf16>, tensor<4x64x32xbf16, #enk>, tensor<4xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// -----

// Plain four-bit weights are packed, once for two products; the product keeps its schedule.
// CHECK-LABEL: func.func @plain_weights
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x32x48xui8>
// CHECK: %[[PACKED:.*]] = "scaled_grouped_mm.pack_weights"(%[[W]]) {layout = "16x64"} : (tensor<4x32x48xui8>) -> tensor<4x2x2x512xui8>
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm"(%[[PACKED]], {{.*}}) {format = "i4", group_size = 32 : i64, layout = "16x64", schedule = {tile_n = 8
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm_bias"(%[[PACKED]], {{.*}}) {format = "i4", group_size = 32 : i64, layout = "16x64"}
#side_by_side = affine_map<(e, n, j) -> (e, j, n)>
func.func @plain_weights(%w: tensor<4x32x48xui8>, %scales: tensor<4x32x3xbf16, #side_by_side>, %x: tensor<?x96xbf16>, %offs: tensor<4xi32>,
                         %bias: tensor<4x32xbf16>) -> (tensor<?x32xbf16>, tensor<?x32xbf16>) {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain", schedule = {tile_n = 8}}
      : (tensor<4x32x48xui8>, tensor<4x32x3xbf16, #side_by_side>, tensor<?x96xbf16>, tensor<4xi32>) -> tensor<?x32xbf16>
  %biased = "scaled_grouped_mm.mixed_mm_bias"(%w, %scales, %x, %offs, %bias) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<4x32x48xui8>, tensor<4x32x3xbf16, #side_by_side>, tensor<?x96xbf16>, tensor<4xi32>, tensor<4x32xbf16>) -> tensor<?x32xbf16>
  return %out, %biased : tensor<?x32xbf16>, tensor<?x32xbf16>
}

// -----

// Sizes that are not known stay so.
// CHECK-LABEL: func.func @plain_dense_weights
// CHECK: "scaled_grouped_mm.pack_weights"({{.*}}) {layout = "16x64"} : (tensor<?x?xui8>) -> tensor<?x?x512xui8>
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm_zeros"({{.*}}) {format = "ui4", group_size = -1 : i64, layout = "16x64"}
#side_by_side = affine_map<(n, j) -> (j, n)>
func.func @plain_dense_weights(%w: tensor<?x?xui8>, %scales: tensor<?x1xf16, #side_by_side>, %zeros: tensor<?x1xui8, #side_by_side>,
                               %x: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %out = "scaled_grouped_mm.mixed_mm_zeros"(%w, %scales, %zeros, %x) {format = "ui4", group_size = -1 : i64, layout = "plain"}
      : (tensor<?x?xui8>, tensor<?x1xf16, #side_by_side>, tensor<?x1xui8, #side_by_side>, tensor<?x?xf16>) -> tensor<?x?xf16>
  return %out : tensor<?x?xf16>
}

// -----

// Integers with a scale of bf16 for 32 of them, and many tokens: tokens become f16, once for two products. Those whose columns
// share one scale, with results in f32 or a schedule of their own stay. Where a product takes little time, the launch more is not worth it.
// CHECK-LABEL: func.func @many_tokens
// CHECK-SAME: %[[X:[^:]*]]: tensor<512x4096xbf16>
// CHECK: %[[F16:.*]]:2 = "mx_quantize.quantize_f16"(%[[X]]) : (tensor<512x4096xbf16>) -> (tensor<512x4096xf16>, tensor<512xf32>)
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm_scaled"(%{{.*}}, %{{.*}}, %[[F16]]#0, %[[F16]]#1) {format = "i4", group_size = 32 : i64, layout = "16x64"}
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm_scaled"(%{{.*}}, %{{.*}}, %[[F16]]#0, %[[F16]]#1) {format = "uint4b8", group_size = 32 : i64, layout = "16x64"}
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm"(%{{.*}}, %{{.*}}, %[[X]]) {format = "i4", group_size = -1 : i64
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm"(%{{.*}}, %{{.*}}, %[[X]]) {format = "i4", group_size = 32 : i64, layout = "16x64"} {{.*}} -> tensor<512x4096xf32>
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm"(%{{.*}}, %{{.*}}, %[[X]]) {{{.*}}schedule
#side_by_side = affine_map<(n, j) -> (j, n)>
func.func @many_tokens(%x: tensor<512x4096xbf16>, %w: tensor<256x64x512xui8>, %scales: tensor<4096x128xbf16, #side_by_side>,
                       %wide: tensor<4096x1xbf16, #side_by_side>)
    -> (tensor<512x4096xbf16>, tensor<512x4096xf16>, tensor<512x4096xbf16>, tensor<512x4096xf32>, tensor<512x4096xbf16>) {
  %0 = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<256x64x512xui8>, tensor<4096x128xbf16, #side_by_side>, tensor<512x4096xbf16>) -> tensor<512x4096xbf16>
  %1 = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "uint4b8", group_size = 32 : i64, layout = "16x64"}
      : (tensor<256x64x512xui8>, tensor<4096x128xbf16, #side_by_side>, tensor<512x4096xbf16>) -> tensor<512x4096xf16>
  %2 = "scaled_grouped_mm.mixed_mm"(%w, %wide, %x) {format = "i4", group_size = -1 : i64, layout = "16x64"}
      : (tensor<256x64x512xui8>, tensor<4096x1xbf16, #side_by_side>, tensor<512x4096xbf16>) -> tensor<512x4096xbf16>
  %3 = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<256x64x512xui8>, tensor<4096x128xbf16, #side_by_side>, tensor<512x4096xbf16>) -> tensor<512x4096xf32>
  %4 = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 32 : i64, layout = "16x64", schedule = {tile_n = 64}}
      : (tensor<256x64x512xui8>, tensor<4096x128xbf16, #side_by_side>, tensor<512x4096xbf16>) -> tensor<512x4096xbf16>
  return %0, %1, %2, %3, %4 : tensor<512x4096xbf16>, tensor<512x4096xf16>, tensor<512x4096xbf16>, tensor<512x4096xf32>, tensor<512x4096xbf16>
}

// -----

// CHECK-LABEL: func.func @few_columns
// CHECK-NOT: quantize_f16
// CHECK: "scaled_grouped_mm.mixed_mm"(
#side_by_side = affine_map<(n, j) -> (j, n)>
func.func @few_columns(%x: tensor<512x64xbf16>, %w: tensor<256x1x512xui8>, %scales: tensor<4096x2xbf16, #side_by_side>) -> tensor<512x4096xbf16> {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<256x1x512xui8>, tensor<4096x2xbf16, #side_by_side>, tensor<512x64xbf16>) -> tensor<512x4096xbf16>
  return %out : tensor<512x4096xbf16>
}

// -----

// Of experts, by the tokens of each; plain weights are packed too.
// CHECK-LABEL: func.func @many_tokens_of_experts
// CHECK: "scaled_grouped_mm.pack_weights"
// CHECK-NEXT: "mx_quantize.quantize_f16"
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm_scaled"({{.*}}) {format = "i4", group_size = 32 : i64, layout = "16x64"} : ({{.*}}tensor<2816x32xf16>, tensor<2816xf32>, tensor<64xi32>) -> tensor<2816x1024xbf16>
// CHECK-NEXT: "scaled_grouped_mm.mixed_mm"(
#side_by_side = affine_map<(e, n, j) -> (e, j, n)>
func.func @many_tokens_of_experts(%x: tensor<2816x32xbf16>, %fewer: tensor<2815x32xbf16>, %w: tensor<64x1024x16xui8>, %scales: tensor<64x1024x1xbf16, #side_by_side>,
                                  %offs: tensor<64xi32>) -> (tensor<2816x1024xbf16>, tensor<2815x1024xbf16>) {
  %0 = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<64x1024x16xui8>, tensor<64x1024x1xbf16, #side_by_side>, tensor<2816x32xbf16>, tensor<64xi32>) -> tensor<2816x1024xbf16>
  %1 = "scaled_grouped_mm.mixed_mm"(%w, %scales, %fewer, %offs) {format = "i4", group_size = 32 : i64, layout = "plain"}
      : (tensor<64x1024x16xui8>, tensor<64x1024x1xbf16, #side_by_side>, tensor<2815x32xbf16>, tensor<64xi32>) -> tensor<2815x1024xbf16>
  return %0, %1 : tensor<2816x1024xbf16>, tensor<2815x1024xbf16>
}
