// What scaled_grouped_mm ops look like when they are printed; the text is read again, by moe-opt and by MLIR's own mlir-opt.

// RUN: moe-opt %s | FileCheck %s
// RUN: moe-opt %s | moe-opt - --moe-verify | FileCheck %s
// RUN: mlir-opt %s --irdl-file=%source_dir/dialects/scaled_grouped_mm.mlir | FileCheck %s
// RUN: moe-opt %s -o %t.mlir
// RUN: moe-opt %t.mlir | diff %t.mlir -

#col_major = affine_map<(e, k, n) -> (e, n, k)>

// CHECK: #[[$COL_MAJOR:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>

// CHECK-LABEL: func.func @grouped_mm
// CHECK: "scaled_grouped_mm.grouped_mm"(%{{.*}}, %{{.*}}, %{{.*}}) {recipe = "mxfp8"}
// CHECK-SAME: : (tensor<?x64xbf16>, tensor<8x64x32xbf16, #[[$COL_MAJOR]]>, tensor<8xi32>) -> tensor<?x32xbf16>
func.func @grouped_mm(%a: tensor<?x64xbf16>, %b: tensor<8x64x32xbf16, #col_major>, %offs: tensor<8xi32>)
    -> tensor<?x32xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "mxfp8"}
      : (tensor<?x64xbf16>, tensor<8x64x32xbf16, #col_major>, tensor<8xi32>) -> tensor<?x32xbf16>
  return %out : tensor<?x32xbf16>
}

// Without groups, and with the attribute that may be left out.
// CHECK-LABEL: func.func @batched
// CHECK: "scaled_grouped_mm.grouped_mm"(%{{[^,]*}}, %{{[^,]*}}) {accumulate = "promoted", recipe = "fp8_rowwise"}
func.func @batched(%a: tensor<8x?x64xbf16>, %b: tensor<8x64x32xbf16>) -> tensor<8x?x32xf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_rowwise", accumulate = "promoted"}
      : (tensor<8x?x64xbf16>, tensor<8x64x32xbf16>) -> tensor<8x?x32xf16>
  return %out : tensor<8x?x32xf16>
}

// offs may be left out.
// CHECK-LABEL: func.func @scaled_mm
// CHECK: "scaled_grouped_mm.scaled_mm"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {accumulate = "promoted"}
// CHECK: "scaled_grouped_mm.scaled_mm"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {accumulate = "fast"}
func.func @scaled_mm(%qa: tensor<?x64xf8E4M3FN>, %qb: tensor<8x64x32xf8E4M3FN, #col_major>, %sa: tensor<?xf32>,
                     %sb: tensor<8x32xf32>, %offs: tensor<8xi32>, %qa3: tensor<8x16x64xf8E4M3FN>,
                     %sa3: tensor<8x16xf32>) -> (tensor<?x32xbf16>, tensor<8x16x32xbf16>) {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x64xf8E4M3FN>, tensor<8x64x32xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<8x32xf32>, tensor<8xi32>)
      -> tensor<?x32xbf16>
  %batched = "scaled_grouped_mm.scaled_mm"(%qa3, %qb, %sa3, %sb) {accumulate = "fast"}
      : (tensor<8x16x64xf8E4M3FN>, tensor<8x64x32xf8E4M3FN, #col_major>, tensor<8x16xf32>, tensor<8x32xf32>)
      -> tensor<8x16x32xbf16>
  return %out, %batched : tensor<?x32xbf16>, tensor<8x16x32xbf16>
}

// Scales of blocks of tokens, counted from the start of each group.
// CHECK-LABEL: func.func @token_block_scales
// CHECK: granularity = "1x128"
func.func @token_block_scales(%qa: tensor<144x?xf8E4M3FN>, %qb: tensor<?x272xf8E4M3FN>, %sa: tensor<?x144xf32>, %sb: tensor<?x272xf32>,
                              %offs: tensor<8xi32>) -> tensor<8x144x272xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128"}
      : (tensor<144x?xf8E4M3FN>, tensor<?x272xf8E4M3FN>, tensor<?x144xf32>, tensor<?x272xf32>, tensor<8xi32>) -> tensor<8x144x272xf32>
  return %out : tensor<8x144x272xf32>
}

// Groups that begin at multiples of 128 tokens: scales of their blocks, of MX blocks, and of rows.
// CHECK-LABEL: func.func @aligned_groups
// CHECK-COUNT-3: align = 128 : i64
func.func @aligned_groups(%qa: tensor<144x?xf8E4M3FN>, %qb: tensor<?x272xf8E4M3FN>, %sa: tensor<?x144xf32>, %sb: tensor<?x272xf32>,
                          %qa5: tensor<144x1152xf8E4M3FN>, %qb5: tensor<1152x272xf8E4M3FN>, %mxa: tensor<36x144xf8E8M0FNU>,
                          %mxb: tensor<36x272xf8E8M0FNU>, %ra: tensor<8x144xf32>, %rb: tensor<8xf32>, %offs: tensor<8xi32>) {
  %blocks = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", align = 128 : i64, granularity = "1x128"}
      : (tensor<144x?xf8E4M3FN>, tensor<?x272xf8E4M3FN>, tensor<?x144xf32>, tensor<?x272xf32>, tensor<8xi32>) -> tensor<8x144x272xf32>
  %mx = "scaled_grouped_mm.scaled_mm"(%qa5, %qb5, %mxa, %mxb, %offs) {accumulate = "promoted", align = 128 : i64}
      : (tensor<144x1152xf8E4M3FN>, tensor<1152x272xf8E4M3FN>, tensor<36x144xf8E8M0FNU>, tensor<36x272xf8E8M0FNU>, tensor<8xi32>) -> tensor<8x144x272xf32>
  %rows = "scaled_grouped_mm.scaled_mm"(%qa5, %qb5, %ra, %rb, %offs) {accumulate = "fast", align = 128 : i64}
      : (tensor<144x1152xf8E4M3FN>, tensor<1152x272xf8E4M3FN>, tensor<8x144xf32>, tensor<8xf32>, tensor<8xi32>) -> tensor<8x144x272xbf16>
  return
}

// Scales of blocks, the last of which are short, as checkpoints have those of weights.
// CHECK-LABEL: func.func @block_scales
// CHECK-COUNT-2: "scaled_grouped_mm.scaled_mm"
func.func @block_scales(%qa: tensor<?x272xf8E4M3FN>, %qb: tensor<8x272x144xf8E4M3FN, #col_major>, %sa: tensor<?x3xf32>,
                        %sb: tensor<8x3x2xf32, #col_major>, %offs: tensor<8xi32>, %qa3: tensor<8x16x272xf8E4M3FN>,
                        %sa3: tensor<8x16x3xf32, #col_major>) -> (tensor<?x144xbf16>, tensor<8x16x144xf32>) {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x272xf8E4M3FN>, tensor<8x272x144xf8E4M3FN, #col_major>, tensor<?x3xf32>, tensor<8x3x2xf32, #col_major>,
         tensor<8xi32>) -> tensor<?x144xbf16>
  %batched = "scaled_grouped_mm.scaled_mm"(%qa3, %qb, %sa3, %sb) {accumulate = "promoted"}
      : (tensor<8x16x272xf8E4M3FN>, tensor<8x272x144xf8E4M3FN, #col_major>, tensor<8x16x3xf32, #col_major>,
         tensor<8x3x2xf32, #col_major>) -> tensor<8x16x144xf32>
  return %out, %batched : tensor<?x144xbf16>, tensor<8x16x144xf32>
}

// Weight gradient, and E8M0 scales: static, and of a dynamic number of tokens. 1024 experts are as many as there may be.
// CHECK-LABEL: func.func @scaled_mm_other_cases
// CHECK-COUNT-3: "scaled_grouped_mm.scaled_mm"
func.func @scaled_mm_other_cases(%ga: tensor<48x?xf8E5M2>, %gb: tensor<?x32xf8E4M3FN>, %gsa: tensor<1024x48xf32>,
                                 %gsb: tensor<1024x32xf32>, %goffs: tensor<1024xi32>, %mxa: tensor<?x48xf8E8M0FNU>,
                                 %mxb: tensor<?x32xf8E8M0FNU>, %qa: tensor<2x16x64xf8E4M3FN>, %qb: tensor<2x64x32xf8E5M2>,
                                 %sa: tensor<2x16x2xf8E8M0FNU>, %sb: tensor<2x2x32xf8E8M0FNU>) {
  %gradient = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %gsa, %gsb, %goffs) {accumulate = "fast"}
      : (tensor<48x?xf8E5M2>, tensor<?x32xf8E4M3FN>, tensor<1024x48xf32>, tensor<1024x32xf32>, tensor<1024xi32>)
      -> tensor<1024x48x32xbf16>
  %mx_gradient = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %mxa, %mxb, %goffs) {accumulate = "fast"}
      : (tensor<48x?xf8E5M2>, tensor<?x32xf8E4M3FN>, tensor<?x48xf8E8M0FNU>, tensor<?x32xf8E8M0FNU>, tensor<1024xi32>)
      -> tensor<1024x48x32xf32>
  %mx_batched = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "promoted"}
      : (tensor<2x16x64xf8E4M3FN>, tensor<2x64x32xf8E5M2>, tensor<2x16x2xf8E8M0FNU>, tensor<2x2x32xf8E8M0FNU>)
      -> tensor<2x16x32xf16>
  return
}

// One scale for all tokens, one for each expert; a bias, with offsets before it and without.
// CHECK-LABEL: func.func @scaled_mm_bias
// CHECK: "scaled_grouped_mm.scaled_mm"(%{{.*}}) {accumulate = "fast"}
// CHECK-SAME: : (tensor<?x64xf8E4M3FN>, tensor<8x64x32xf8E4M3FN, #[[$COL_MAJOR]]>, tensor<1xf32>, tensor<8xf32>, tensor<8xi32>) -> tensor<?x32xf16>
// CHECK: "scaled_grouped_mm.scaled_mm"(%{{.*}}) {accumulate = "fast"}
// CHECK-SAME: tensor<1024xf32>, tensor<1024xf32>, tensor<1024xi32>) -> tensor<1024x48x32xf32>
// CHECK: "scaled_grouped_mm.scaled_mm_bias"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[BIAS:[^,]*]]) {accumulate = "fast"}
// CHECK-SAME: tensor<8xi32>, tensor<8x32xf16>) -> tensor<?x32xf16>
// CHECK: "scaled_grouped_mm.scaled_mm_bias"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[BIAS]]) {accumulate = "promoted"}
// CHECK-SAME: tensor<8x16xf32>, tensor<8xf32>, tensor<8x32xf16>) -> tensor<8x16x32xf16>
func.func @scaled_mm_bias(%qa: tensor<?x64xf8E4M3FN>, %qb: tensor<8x64x32xf8E4M3FN, #col_major>, %sa: tensor<1xf32>,
                          %sb: tensor<8xf32>, %offs: tensor<8xi32>, %bias: tensor<8x32xf16>, %qa3: tensor<8x16x64xf8E4M3FN>,
                          %sa3: tensor<8x16xf32>, %ga: tensor<48x?xf8E5M2>, %gb: tensor<?x32xf8E4M3FN>, %gs: tensor<1024xf32>,
                          %goffs: tensor<1024xi32>) {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<8x64x32xf8E4M3FN, #col_major>, tensor<1xf32>, tensor<8xf32>, tensor<8xi32>) -> tensor<?x32xf16>
  %gradient = "scaled_grouped_mm.scaled_mm"(%ga, %gb, %gs, %gs, %goffs) {accumulate = "fast"}
      : (tensor<48x?xf8E5M2>, tensor<?x32xf8E4M3FN>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xi32>)
      -> tensor<1024x48x32xf32>
  %biased = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<8x64x32xf8E4M3FN, #col_major>, tensor<1xf32>, tensor<8xf32>, tensor<8xi32>, tensor<8x32xf16>)
      -> tensor<?x32xf16>
  %batched = "scaled_grouped_mm.scaled_mm_bias"(%qa3, %qb, %sa3, %sb, %bias) {accumulate = "promoted"}
      : (tensor<8x16x64xf8E4M3FN>, tensor<8x64x32xf8E4M3FN, #col_major>, tensor<8x16xf32>, tensor<8xf32>, tensor<8x32xf16>)
      -> tensor<8x16x32xf16>
  return
}

// CHECK-LABEL: func.func @mixed_mm
// CHECK: "scaled_grouped_mm.pack_weights"({{.*}}) {layout = "16x64"}
// CHECK: "scaled_grouped_mm.mixed_mm"({{.*}}) {format = "i4", group_size = 32 : i64, layout = "16x64"}
// CHECK: "scaled_grouped_mm.mixed_mm"({{.*}}) {format = "f4E2M1FN", group_size = -1 : i64, layout = "plain"}
// CHECK: "scaled_grouped_mm.mixed_mm_scaled"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {format = "i4"
// CHECK: "scaled_grouped_mm.mixed_mm_bias"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {format = "i4"
// CHECK: "scaled_grouped_mm.mixed_mm_zeros_bias"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {format = "ui4"
func.func @mixed_mm(%w: tensor<8x32x48xui8>, %scales: tensor<8x32x3xbf16>, %x: tensor<?x96xbf16>, %offs: tensor<8xi32>,
                    %w_dense: tensor<32x48xui8>, %of_rows: tensor<32x1xf32>, %zeros: tensor<32x1xui8>, %bias: tensor<8x32xf32>,
                    %bias_dense: tensor<32xf16>, %q: tensor<?x96xf16>, %of_tokens: tensor<?xf32>) {
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "16x64"} : (tensor<8x32x48xui8>) -> tensor<8x2x2x512xui8>
  %out = "scaled_grouped_mm.mixed_mm"(%packed, %scales, %x, %offs) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<8x2x2x512xui8>, tensor<8x32x3xbf16>, tensor<?x96xbf16>, tensor<8xi32>) -> tensor<?x32xf16>
  %dense = "scaled_grouped_mm.mixed_mm"(%w_dense, %of_rows, %x) {format = "f4E2M1FN", group_size = -1 : i64, layout = "plain"}
      : (tensor<32x48xui8>, tensor<32x1xf32>, tensor<?x96xbf16>) -> tensor<?x32xf32>
  %scaled = "scaled_grouped_mm.mixed_mm_scaled"(%packed, %scales, %q, %of_tokens, %offs) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<8x2x2x512xui8>, tensor<8x32x3xbf16>, tensor<?x96xf16>, tensor<?xf32>, tensor<8xi32>) -> tensor<?x32xbf16>
  %biased = "scaled_grouped_mm.mixed_mm_bias"(%packed, %scales, %x, %offs, %bias) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<8x2x2x512xui8>, tensor<8x32x3xbf16>, tensor<?x96xbf16>, tensor<8xi32>, tensor<8x32xf32>) -> tensor<?x32xf32>
  %both = "scaled_grouped_mm.mixed_mm_zeros_bias"(%w_dense, %of_rows, %zeros, %x, %bias_dense)
      {format = "ui4", group_size = -1 : i64, layout = "plain"}
      : (tensor<32x48xui8>, tensor<32x1xf32>, tensor<32x1xui8>, tensor<?x96xbf16>, tensor<32xf16>) -> tensor<?x32xf16>
  return
}

// Operands of 16 bits: no scales, and an attribute that may be left out.
// CHECK-LABEL: func.func @mm
// CHECK: "scaled_grouped_mm.mm"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) : (tensor<?x64xbf16>, tensor<8x64x32xbf16, #[[$COL_MAJOR]]>, tensor<8xi32>) -> tensor<?x32xf32>
// CHECK: "scaled_grouped_mm.mm"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {align = 128 : i64} : (tensor<64x?xf16>, tensor<?x32xf16>, tensor<8xi32>) -> tensor<8x64x32xf16>
// CHECK: "scaled_grouped_mm.mm"(%{{[^,]*}}, %{{[^,]*}}) : (tensor<8x16x64xbf16>, tensor<8x64x32xbf16, #[[$COL_MAJOR]]>) -> tensor<8x16x32xbf16>
// CHECK: "scaled_grouped_mm.mm_bias"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) : (tensor<?x64xbf16>, tensor<8x64x32xbf16, #[[$COL_MAJOR]]>, tensor<8xi32>, tensor<8x32xf32>) -> tensor<?x32xf32>
// CHECK: "scaled_grouped_mm.mm_bias"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) : (tensor<8x16x64xbf16>, tensor<8x64x32xbf16, #[[$COL_MAJOR]]>, tensor<8x32xf32>) -> tensor<8x16x32xf32>
func.func @mm(%a: tensor<?x64xbf16>, %b: tensor<8x64x32xbf16, #col_major>, %offs: tensor<8xi32>, %dy: tensor<64x?xf16>, %x: tensor<?x32xf16>,
              %a3: tensor<8x16x64xbf16>, %bias: tensor<8x32xf32>) {
  %0 = "scaled_grouped_mm.mm"(%a, %b, %offs) : (tensor<?x64xbf16>, tensor<8x64x32xbf16, #col_major>, tensor<8xi32>) -> tensor<?x32xf32>
  %1 = "scaled_grouped_mm.mm"(%dy, %x, %offs) {align = 128 : i64} : (tensor<64x?xf16>, tensor<?x32xf16>, tensor<8xi32>) -> tensor<8x64x32xf16>
  %2 = "scaled_grouped_mm.mm"(%a3, %b) : (tensor<8x16x64xbf16>, tensor<8x64x32xbf16, #col_major>) -> tensor<8x16x32xbf16>
  %3 = "scaled_grouped_mm.mm_bias"(%a, %b, %offs, %bias) : (tensor<?x64xbf16>, tensor<8x64x32xbf16, #col_major>, tensor<8xi32>, tensor<8x32xf32>) -> tensor<?x32xf32>
  %4 = "scaled_grouped_mm.mm_bias"(%a3, %b, %bias) : (tensor<8x16x64xbf16>, tensor<8x64x32xbf16, #col_major>, tensor<8x32xf32>) -> tensor<8x16x32xf32>
  return
}

// Operands that are made of MX blocks: results besides out, and no attribute.
// CHECK-LABEL: func.func @dequantize_mm
// CHECK: %{{.*}}:5 = "scaled_grouped_mm.dequantize_mm"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) : (tensor<?x64xf8E4M3FN>, tensor<8x64x520xf8E5M2, #[[$COL_MAJOR]]>, tensor<?x2xf8E8M0FNU>, tensor<8x2x520xf8E8M0FNU>, tensor<8xi32>) -> (tensor<?x520xf32>, tensor<?x64xbf16>, tensor<8x64x520xbf16, #[[$COL_MAJOR]]>, tensor<?xi32>, tensor<8x3xi32>)
// CHECK: %{{.*}}:5 = "scaled_grouped_mm.dequantize_mm_bias"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {schedule = {tile_n = 128 : i64}} : ({{.*}}, tensor<8x520xf16>) -> (tensor<257x520xf16>, tensor<257x64xbf16>, tensor<8x64x520xbf16, #[[$COL_MAJOR]]>, tensor<2xi32>, tensor<8x3xi32>)
func.func @dequantize_mm(%qa: tensor<?x64xf8E4M3FN>, %qb: tensor<8x64x520xf8E5M2, #col_major>, %sa: tensor<?x2xf8E8M0FNU>, %sb: tensor<8x2x520xf8E8M0FNU>,
                         %offs: tensor<8xi32>, %q2: tensor<257x64xf8E4M3FN>, %s2: tensor<257x2xf8E8M0FNU>, %bias: tensor<8x520xf16>) {
  %0:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs)
      : (tensor<?x64xf8E4M3FN>, tensor<8x64x520xf8E5M2, #col_major>, tensor<?x2xf8E8M0FNU>, tensor<8x2x520xf8E8M0FNU>, tensor<8xi32>)
      -> (tensor<?x520xf32>, tensor<?x64xbf16>, tensor<8x64x520xbf16, #col_major>, tensor<?xi32>, tensor<8x3xi32>)
  %1:5 = "scaled_grouped_mm.dequantize_mm_bias"(%q2, %qb, %s2, %sb, %offs, %bias) {schedule = {tile_n = 128}}
      : (tensor<257x64xf8E4M3FN>, tensor<8x64x520xf8E5M2, #col_major>, tensor<257x2xf8E8M0FNU>, tensor<8x2x520xf8E8M0FNU>, tensor<8xi32>, tensor<8x520xf16>)
      -> (tensor<257x520xf16>, tensor<257x64xbf16>, tensor<8x64x520xbf16, #col_major>, tensor<2xi32>, tensor<8x3xi32>)
  return
}
