// Products of operands in MX blocks become products of bf16 where they are bound by computing, or stay: forward of operands that the kernel
// makes, else of operands that are dequantized first.

// RUN: moe-opt %s --moe-expand-recipes --canonicalize | FileCheck %s --enable-var-scope

#col_major = affine_map<(e, k, n) -> (e, n, k)>
#swapped = affine_map<(m, k) -> (k, m)>

// Weights and scales lie in memory as (E, N, K) and (E, N, K/32), and are seen so.
// CHECK-LABEL: func.func @forward
// CHECK: %[[R:.*]]:5 = "scaled_grouped_mm.dequantize_mm"(%arg0, %arg1, %arg2, %arg3, %arg4) : (tensor<4096x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #[[ORDER:.*]]>, tensor<4096x2xf8E8M0FNU>, tensor<8x2x48xf8E8M0FNU, #[[ORDER]]>, tensor<8xi32>) -> (tensor<4096x48xf32>, tensor<4096x64xbf16>, tensor<8x64x48xbf16, #[[ORDER]]>, tensor<16xi32>, tensor<8x1xi32>)
// CHECK-NEXT: return %[[R]]#0
func.func @forward(%qa: tensor<4096x64xf8E4M3FN>, %qb: tensor<8x64x48xf8E4M3FN, #col_major>, %sa: tensor<4096x2xf8E8M0FNU>,
                   %sb: tensor<8x2x48xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<4096x48xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<4096x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #col_major>, tensor<4096x2xf8E8M0FNU>, tensor<8x2x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<4096x48xf32>
  return %out : tensor<4096x48xf32>
}

// Scales that lie as (E, K/32, N); a bias.
// CHECK-LABEL: func.func @row_major
// CHECK: "scaled_grouped_mm.dequantize_mm_bias"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {{.*}} -> (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?x?xbf16, #{{.*}}>, tensor<?xi32>, tensor<?x?xi32>)
func.func @row_major(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E5M2, #col_major>, %sa: tensor<?x?xf8E8M0FNU>,
                     %sb: tensor<?x?x?xf8E8M0FNU>, %offs: tensor<?xi32>, %bias: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E5M2, #col_major>, tensor<?x?xf8E8M0FNU>, tensor<?x?x?xf8E8M0FNU>, tensor<?xi32>,
         tensor<?x?xbf16>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// Where there are some tokens for each expert the weights become bf16 in the product.
// CHECK-LABEL: func.func @mixed
// CHECK-DAG: %[[W:.*]] = linalg.transpose ins(%arg1 {{.*}} permutation = [0, 2, 1]
// CHECK-DAG: %[[S:.*]] = linalg.transpose ins(%arg3 {{.*}} permutation = [0, 2, 1]
// CHECK-DAG: %[[A:.*]] = "mx_quantize.dequantize"(%arg0, %arg2) {axis = 1 : i64, block = 32 : i64, order = "evens_first"} : (tensor<4096x1024xf8E4M3FN>, tensor<4096x32xf8E8M0FNU>) -> tensor<4096x1024xbf16>
// CHECK: "scaled_grouped_mm.mixed_mm"(%[[W]], %[[S]], %[[A]], %arg4) {format = "f8E4M3FN", group_size = 32 : i64, layout = "evens_first"} : (tensor<8x48x1024xf8E4M3FN>, tensor<8x48x32xf8E8M0FNU>, tensor<4096x1024xbf16>, tensor<8xi32>) -> tensor<4096x48xbf16>
func.func @mixed(%qa: tensor<4096x1024xf8E4M3FN>, %qb: tensor<8x1024x48xf8E4M3FN, #col_major>, %sa: tensor<4096x32xf8E8M0FNU>,
                 %sb: tensor<8x32x48xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<4096x48xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<4096x1024xf8E4M3FN>, tensor<8x1024x48xf8E4M3FN, #col_major>, tensor<4096x32xf8E8M0FNU>, tensor<8x32x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<4096x48xbf16>
  return %out : tensor<4096x48xbf16>
}

// Up to 384 tokens of each both operands become f16, but for tokens of E5M2.
// CHECK-LABEL: func.func @mixed_f16
// CHECK: %[[A:.*]]:2 = "mx_quantize.dequantize_f16"(%arg0, %arg2) {order = "evens_first"} : (tensor<3072x1024xf8E4M3FN>, tensor<3072x32xf8E8M0FNU>) -> (tensor<3072x1024xf16>, tensor<3072xf32>)
// CHECK: "scaled_grouped_mm.mixed_mm_scaled"(%{{.*}}, %{{.*}}, %[[A]]#0, %[[A]]#1, %arg4) {format = "f8E4M3FN", group_size = 32 : i64, layout = "evens_first"} : (tensor<8x48x1024xf8E4M3FN>, tensor<8x48x32xf8E8M0FNU>, tensor<3072x1024xf16>,
// CHECK: "mx_quantize.dequantize"(%arg5, %arg2)
// CHECK: scaled_grouped_mm.mixed_mm"
func.func @mixed_f16(%qa: tensor<3072x1024xf8E4M3FN>, %qb: tensor<8x1024x48xf8E4M3FN, #col_major>, %sa: tensor<3072x32xf8E8M0FNU>,
                     %sb: tensor<8x32x48xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>, %q5: tensor<3072x1024xf8E5M2>)
    -> (tensor<3072x48xbf16>, tensor<3072x48xbf16>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<3072x1024xf8E4M3FN>, tensor<8x1024x48xf8E4M3FN, #col_major>, tensor<3072x32xf8E8M0FNU>, tensor<8x32x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<3072x48xbf16>
  %1 = "scaled_grouped_mm.scaled_mm"(%q5, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<3072x1024xf8E5M2>, tensor<8x1024x48xf8E4M3FN, #col_major>, tensor<3072x32xf8E8M0FNU>, tensor<8x32x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<3072x48xbf16>
  return %0, %1 : tensor<3072x48xbf16>, tensor<3072x48xbf16>
}

// Scales that lie as (E, K/32, N), for any K; a bias.
// CHECK-LABEL: func.func @mixed_row_major
// CHECK: "scaled_grouped_mm.mixed_mm_bias"{{.*}} {format = "f8E4M3FN", group_size = 32 : i64, layout = "evens_first"} : (tensor<8x48x288xf8E4M3FN>, tensor<8x48x9xf8E8M0FNU, #{{.*}}>, tensor<1024x288xbf16>, tensor<8xi32>, tensor<8x48xf16>) -> tensor<1024x48xf16>
func.func @mixed_row_major(%qa: tensor<1024x288xf8E5M2>, %qb: tensor<8x288x48xf8E4M3FN, #col_major>, %sa: tensor<1024x9xf8E8M0FNU>,
                           %sb: tensor<8x9x48xf8E8M0FNU>, %offs: tensor<8xi32>, %bias: tensor<8x48xf16>) -> tensor<1024x48xf16> {
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<1024x288xf8E5M2>, tensor<8x288x48xf8E4M3FN, #col_major>, tensor<1024x9xf8E8M0FNU>, tensor<8x9x48xf8E8M0FNU>,
         tensor<8xi32>, tensor<8x48xf16>) -> tensor<1024x48xf16>
  return %out : tensor<1024x48xf16>
}

// Not where K is no multiple of 512 and the scales of a column lie side by side, nor with weights of E5M2, nor with very many tokens.
// CHECK-LABEL: func.func @not_mixed
// CHECK-COUNT-3: scaled_grouped_mm.dequantize_mm
func.func @not_mixed(%qa: tensor<4096x544xf8E4M3FN>, %qb: tensor<8x544x48xf8E4M3FN, #col_major>, %sa: tensor<4096x17xf8E8M0FNU>,
                     %sb: tensor<8x17x48xf8E8M0FNU, #col_major>, %se: tensor<8x17x48xf8E8M0FNU>, %q5: tensor<8x544x48xf8E5M2, #col_major>,
                     %many: tensor<1048576x544xf8E4M3FN>, %sm: tensor<1048576x17xf8E8M0FNU>, %offs: tensor<8xi32>)
    -> (tensor<4096x48xbf16>, tensor<4096x48xbf16>, tensor<1048576x48xbf16>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<4096x544xf8E4M3FN>, tensor<8x544x48xf8E4M3FN, #col_major>, tensor<4096x17xf8E8M0FNU>, tensor<8x17x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<4096x48xbf16>
  %1 = "scaled_grouped_mm.scaled_mm"(%qa, %q5, %sa, %se, %offs) {accumulate = "fast"}
      : (tensor<4096x544xf8E4M3FN>, tensor<8x544x48xf8E5M2, #col_major>, tensor<4096x17xf8E8M0FNU>, tensor<8x17x48xf8E8M0FNU>,
         tensor<8xi32>) -> tensor<4096x48xbf16>
  %2 = "scaled_grouped_mm.scaled_mm"(%many, %qb, %sm, %se, %offs) {accumulate = "fast"}
      : (tensor<1048576x544xf8E4M3FN>, tensor<8x544x48xf8E4M3FN, #col_major>, tensor<1048576x17xf8E8M0FNU>, tensor<8x17x48xf8E8M0FNU>,
         tensor<8xi32>) -> tensor<1048576x48xbf16>
  return %0, %1, %2 : tensor<4096x48xbf16>, tensor<4096x48xbf16>, tensor<1048576x48xbf16>
}

// Blocks are scaled one by one where the weights' numbers would cost more.
// CHECK-LABEL: func.func @by_blocks
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
func.func @by_blocks(%qa: tensor<1024x544xf8E4M3FN>, %qb: tensor<8x544x48xf8E4M3FN, #col_major>, %sa: tensor<1024x17xf8E8M0FNU>,
                     %sb: tensor<8x17x48xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<1024x48xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<1024x544xf8E4M3FN>, tensor<8x544x48xf8E4M3FN, #col_major>, tensor<1024x17xf8E8M0FNU>, tensor<8x17x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<1024x48xbf16>
  return %out : tensor<1024x48xbf16>
}

// Tokens lie side by side, in groups; what comes out has them outermost.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[QA:.*]] = linalg.transpose ins(%arg0 {{.*}} permutation = [1, 0]
// CHECK: %[[A:.*]] = "mx_quantize.dequantize"(%[[QA]], %arg2, %arg4) {axis = 0 : i64, block = 32 : i64}
// CHECK: %[[AT:.*]] = linalg.transpose ins(%[[A]] {{.*}} permutation = [1, 0]
// CHECK: %[[B:.*]] = "mx_quantize.dequantize"(%arg1, %arg3, %arg4) {axis = 0 : i64, block = 32 : i64}
// CHECK: "scaled_grouped_mm.mm"(%[[AT]], %[[B]], %arg4) :
func.func @gradient(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?xf8E4M3FN, #swapped>, %sa: tensor<?x?xf8E8M0FNU>, %sb: tensor<?x?xf8E8M0FNU>,
                    %offs: tensor<?xi32>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN, #swapped>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>)
      -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// Aligned tokens stay side by side.
// CHECK-LABEL: func.func @aligned
// CHECK-COUNT-2: "mx_quantize.dequantize"{{.*}} {align = 128 : i64, axis = 0 : i64, block = 32 : i64} : (tensor<?x?xf8E4M3FN, #[[$SIDE:.*]]>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?xbf16, #[[$SIDE]]>
// CHECK: "scaled_grouped_mm.mm"{{.*}} {align = 128 : i64} : (tensor<?x?xbf16>, tensor<?x?xbf16, #[[$SIDE]]>, tensor<?xi32>)
func.func @aligned(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?xf8E4M3FN, #swapped>, %sa: tensor<?x?xf8E8M0FNU>, %sb: tensor<?x?xf8E8M0FNU>,
                   %offs: tensor<?xi32>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", align = 128 : i64}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN, #swapped>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>)
      -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// CHECK-LABEL: func.func @batched
// CHECK: "mx_quantize.dequantize"{{.*}} {axis = 2
// CHECK: "mx_quantize.dequantize"{{.*}} {axis = 2
// CHECK: "scaled_grouped_mm.mm"(%{{[^,]*}}, %{{[^,]*}}) :
func.func @batched(%qa: tensor<?x?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E4M3FN, #col_major>, %sa: tensor<?x?x?xf8E8M0FNU>,
                   %sb: tensor<?x?x?xf8E8M0FNU, #col_major>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<?x?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>, tensor<?x?x?xf8E8M0FNU, #col_major>)
      -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// A tensor of two products is dequantized once, also where it is seen through a view.
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-3: "mx_quantize.dequantize"
// CHECK-NOT: "mx_quantize.dequantize"
// CHECK: return
func.func @shared(%qa: tensor<8x?x64xf8E4M3FN>, %q2: tensor<8x?x64xf8E4M3FN>, %qb: tensor<8x64x48xf8E4M3FN, #col_major>, %sa: tensor<8x?x2xf8E8M0FNU>,
                  %s2: tensor<8x?x2xf8E8M0FNU>, %sb: tensor<8x2x48xf8E8M0FNU, #col_major>)
    -> (tensor<8x?x48xf32>, tensor<8x?x48xf32>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast"}
      : (tensor<8x?x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #col_major>, tensor<8x?x2xf8E8M0FNU>, tensor<8x2x48xf8E8M0FNU, #col_major>) -> tensor<8x?x48xf32>
  %1 = "scaled_grouped_mm.scaled_mm"(%q2, %qb, %s2, %sb) {accumulate = "fast"}
      : (tensor<8x?x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #col_major>, tensor<8x?x2xf8E8M0FNU>, tensor<8x2x48xf8E8M0FNU, #col_major>) -> tensor<8x?x48xf32>
  return %0, %1 : tensor<8x?x48xf32>, tensor<8x?x48xf32>
}

// Promoted sums are asked for.
// CHECK-LABEL: func.func @promoted
// CHECK-NOT: dequantize
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
func.func @promoted(%qa: tensor<?x64xf8E4M3FN>, %qb: tensor<8x64x48xf8E4M3FN, #col_major>, %sa: tensor<?x2xf8E8M0FNU>,
                    %sb: tensor<8x2x48xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<?x48xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #col_major>, tensor<?x2xf8E8M0FNU>, tensor<8x2x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<?x48xf32>
  return %out : tensor<?x48xf32>
}

// 64 tokens for each expert are few; reading weights takes the time, and a byte for each is read.
// CHECK-LABEL: func.func @few
// CHECK-NOT: dequantize
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
func.func @few(%qa: tensor<512x64xf8E4M3FN>, %qb: tensor<8x64x48xf8E4M3FN, #col_major>, %sa: tensor<512x2xf8E8M0FNU>,
               %sb: tensor<8x2x48xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<512x48xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<512x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #col_major>, tensor<512x2xf8E8M0FNU>, tensor<8x2x48xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<512x48xf32>
  return %out : tensor<512x48xf32>
}

// Or they become f16 in the product, where that takes less time: of long sums, or where the scales of a column lie side by side.
// CHECK-LABEL: func.func @few_long(
// CHECK: dequantize_f16
// CHECK: "scaled_grouped_mm.mixed_mm_scaled"
func.func @few_long(%qa: tensor<512x7168xf8E4M3FN>, %qb: tensor<8x7168x4096xf8E4M3FN, #col_major>, %sa: tensor<512x224xf8E8M0FNU>,
                    %sb: tensor<8x224x4096xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<512x4096xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<512x7168xf8E4M3FN>, tensor<8x7168x4096xf8E4M3FN, #col_major>, tensor<512x224xf8E8M0FNU>, tensor<8x224x4096xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<512x4096xbf16>
  return %out : tensor<512x4096xbf16>
}

// CHECK-LABEL: func.func @few_short(
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
func.func @few_short(%qa: tensor<512x512xf8E4M3FN>, %qb: tensor<8x512x4096xf8E4M3FN, #col_major>, %sa: tensor<512x16xf8E8M0FNU>,
                     %sb: tensor<8x16x4096xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<512x4096xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<512x512xf8E4M3FN>, tensor<8x512x4096xf8E4M3FN, #col_major>, tensor<512x16xf8E8M0FNU>, tensor<8x16x4096xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<512x4096xbf16>
  return %out : tensor<512x4096xbf16>
}

// CHECK-LABEL: func.func @few_of_rows(
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
func.func @few_of_rows(%qa: tensor<256x1024xf8E4M3FN>, %qb: tensor<8x1024x4096xf8E4M3FN, #col_major>, %sa: tensor<256x32xf8E8M0FNU>,
                       %sb: tensor<8x32x4096xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>) -> tensor<256x4096xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<256x1024xf8E4M3FN>, tensor<8x1024x4096xf8E4M3FN, #col_major>, tensor<256x32xf8E8M0FNU>, tensor<8x32x4096xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<256x4096xbf16>
  return %out : tensor<256x4096xbf16>
}

// CHECK-LABEL: func.func @few_of_columns(
// CHECK: dequantize_f16
// CHECK: "scaled_grouped_mm.mixed_mm_scaled"
func.func @few_of_columns(%qa: tensor<256x1024xf8E4M3FN>, %qb: tensor<8x1024x4096xf8E4M3FN, #col_major>, %sa: tensor<256x32xf8E8M0FNU>,
                          %sb: tensor<8x32x4096xf8E8M0FNU>, %offs: tensor<8xi32>) -> tensor<256x4096xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<256x1024xf8E4M3FN>, tensor<8x1024x4096xf8E4M3FN, #col_major>, tensor<256x32xf8E8M0FNU>, tensor<8x32x4096xf8E8M0FNU>,
         tensor<8xi32>) -> tensor<256x4096xbf16>
  return %out : tensor<256x4096xbf16>
}

// With a bias the tokens would become bf16, and by blocks takes less time than that.
// CHECK-LABEL: func.func @few_with_a_bias(
// CHECK: dequantize_f16
// CHECK: "scaled_grouped_mm.mixed_mm_scaled"
// CHECK: "scaled_grouped_mm.scaled_mm_bias"{{.*}} {accumulate = "promoted"}
func.func @few_with_a_bias(%qa: tensor<34x5632xf8E4M3FN>, %qb: tensor<8x5632x6144xf8E4M3FN, #col_major>, %sa: tensor<34x176xf8E8M0FNU>,
                           %sb: tensor<8x176x6144xf8E8M0FNU, #col_major>, %offs: tensor<8xi32>, %bias: tensor<8x6144xbf16>)
    -> (tensor<34x6144xbf16>, tensor<34x6144xbf16>) {
  %0 = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<34x5632xf8E4M3FN>, tensor<8x5632x6144xf8E4M3FN, #col_major>, tensor<34x176xf8E8M0FNU>, tensor<8x176x6144xf8E8M0FNU, #col_major>,
         tensor<8xi32>) -> tensor<34x6144xbf16>
  %1 = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<34x5632xf8E4M3FN>, tensor<8x5632x6144xf8E4M3FN, #col_major>, tensor<34x176xf8E8M0FNU>, tensor<8x176x6144xf8E8M0FNU, #col_major>,
         tensor<8xi32>, tensor<8x6144xbf16>) -> tensor<34x6144xbf16>
  return %0, %1 : tensor<34x6144xbf16>, tensor<34x6144xbf16>
}

// CHECK-LABEL: func.func @one_expert(
// CHECK: dequantize_f16
// CHECK: "scaled_grouped_mm.mixed_mm_scaled"
func.func @one_expert(%qa: tensor<64x7168xf8E4M3FN>, %qb: tensor<1x7168x2048xf8E4M3FN, #col_major>, %sa: tensor<64x224xf8E8M0FNU>,
                      %sb: tensor<1x224x2048xf8E8M0FNU, #col_major>, %offs: tensor<1xi32>) -> tensor<64x2048xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x7168xf8E4M3FN>, tensor<1x7168x2048xf8E4M3FN, #col_major>, tensor<64x224xf8E8M0FNU>, tensor<1x224x2048xf8E8M0FNU, #col_major>,
         tensor<1xi32>) -> tensor<64x2048xbf16>
  return %out : tensor<64x2048xbf16>
}

// CHECK-LABEL: func.func @one_short_expert(
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
func.func @one_short_expert(%qa: tensor<64x512xf8E4M3FN>, %qb: tensor<1x512x2048xf8E4M3FN, #col_major>, %sa: tensor<64x16xf8E8M0FNU>,
                            %sb: tensor<1x16x2048xf8E8M0FNU, #col_major>, %offs: tensor<1xi32>) -> tensor<64x2048xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<64x512xf8E4M3FN>, tensor<1x512x2048xf8E4M3FN, #col_major>, tensor<64x16xf8E8M0FNU>, tensor<1x16x2048xf8E8M0FNU, #col_major>,
         tensor<1xi32>) -> tensor<64x2048xbf16>
  return %out : tensor<64x2048xbf16>
}

// Rows of 36 have no dequantizer.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT: dequantize
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "promoted"}
func.func @narrow(%qa: tensor<36x4096xf8E4M3FN>, %qb: tensor<4096x48xf8E4M3FN, #swapped>, %sa: tensor<136x36xf8E8M0FNU>,
                  %sb: tensor<136x48xf8E8M0FNU>, %offs: tensor<8xi32>) -> tensor<8x36x48xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<36x4096xf8E4M3FN>, tensor<4096x48xf8E4M3FN, #swapped>, tensor<136x36xf8E8M0FNU>, tensor<136x48xf8E8M0FNU>, tensor<8xi32>)
      -> tensor<8x36x48xbf16>
  return %out : tensor<8x36x48xbf16>
}

// fp32 scales are another matter.
// CHECK-LABEL: func.func @rows
// CHECK: "scaled_grouped_mm.scaled_mm"{{.*}} {accumulate = "fast"}
func.func @rows(%qa: tensor<?x64xf8E4M3FN>, %qb: tensor<8x64x48xf8E4M3FN, #col_major>, %sa: tensor<?xf32>, %sb: tensor<8x48xf32>,
                %offs: tensor<8xi32>) -> tensor<?x48xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
      : (tensor<?x64xf8E4M3FN>, tensor<8x64x48xf8E4M3FN, #col_major>, tensor<?xf32>, tensor<8x48xf32>, tensor<8xi32>) -> tensor<?x48xf32>
  return %out : tensor<?x48xf32>
}
