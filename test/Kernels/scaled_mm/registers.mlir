// Static sizes that leave ptxas no registers are parameters of the kernel, as dynamic ones are: each of these compiles, and has the bits of the reference.

// RUN: rm -rf %t && moe-opt %s --emit=bundle -o %t
// RUN: moe-run %t --function forward_bias --device emu --check --runs 1 --random 1 --exact --nan-groups --groups ragged | FileCheck %s
// RUN: moe-run %t --function forward_48 --device emu --check --runs 1 --random 2 --exact --nan-groups --groups edge | FileCheck %s
// RUN: moe-run %t --function gradient --device emu --check --runs 1 --random 3 --exact --nan-groups --groups ragged | FileCheck %s
// RUN: moe-run %t --function gradient_128 --device emu --check --runs 1 --random 6 --exact --nan-groups --groups edge | FileCheck %s
// RUN: moe-run %t --function gradient_aligned --device emu --check --runs 1 --random 4 --exact --nan-groups --groups edge | FileCheck %s
// RUN: moe-run %t --function groups_64 --device emu --check --runs 1 --random 5 --exact --nan-groups --groups ragged | FileCheck %s
// RUN: moe-run %t --function columns_32 --device emu --check --runs 1 --random 7 --exact --nan-groups --groups ragged | FileCheck %s
// RUN: moe-run %t --function one_expert --device emu --check --runs 1 --random 8 --exact --nan-groups --groups ragged | FileCheck %s
// CHECK: out equal the C reference in every bit

#col_major = affine_map<(e, k, n) -> (e, n, k)>
#tokens_last = affine_map<(m, k) -> (k, m)>

func.func @forward_bias(%qa: tensor<400x128xf8E4M3FN>, %qb: tensor<2x128x128xf8E4M3FN, #col_major>, %sa: tensor<400xf32>, %sb: tensor<2x128xf32>, %offs: tensor<2xi32>, %bias: tensor<2x128xf32>) -> tensor<400x128xf32> {
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "promoted"}
      : (tensor<400x128xf8E4M3FN>, tensor<2x128x128xf8E4M3FN, #col_major>, tensor<400xf32>, tensor<2x128xf32>, tensor<2xi32>, tensor<2x128xf32>) -> tensor<400x128xf32>
  return %out : tensor<400x128xf32>
}

func.func @forward_48(%qa: tensor<400x128xf8E4M3FN>, %qb: tensor<2x128x48xf8E4M3FN, #col_major>, %sa: tensor<400xf32>, %sb: tensor<2x48xf32>, %offs: tensor<2xi32>) -> tensor<400x48xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<400x128xf8E4M3FN>, tensor<2x128x48xf8E4M3FN, #col_major>, tensor<400xf32>, tensor<2x48xf32>, tensor<2xi32>) -> tensor<400x48xf32>
  return %out : tensor<400x48xf32>
}

func.func @gradient(%qa: tensor<48x400xf8E4M3FN>, %qb: tensor<400x80xf8E4M3FN, #tokens_last>, %sa: tensor<2x48xf32>, %sb: tensor<2x80xf32>, %offs: tensor<2xi32>) -> tensor<2x48x80xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<48x400xf8E4M3FN>, tensor<400x80xf8E4M3FN, #tokens_last>, tensor<2x48xf32>, tensor<2x80xf32>, tensor<2xi32>) -> tensor<2x48x80xf32>
  return %out : tensor<2x48x80xf32>
}

func.func @gradient_128(%qa: tensor<48x400xf8E4M3FN>, %qb: tensor<400x128xf8E4M3FN, #tokens_last>, %sa: tensor<2x48xf32>, %sb: tensor<2x128xf32>, %offs: tensor<2xi32>) -> tensor<2x48x128xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted"}
      : (tensor<48x400xf8E4M3FN>, tensor<400x128xf8E4M3FN, #tokens_last>, tensor<2x48xf32>, tensor<2x128xf32>, tensor<2xi32>) -> tensor<2x48x128xf32>
  return %out : tensor<2x48x128xf32>
}

func.func @gradient_aligned(%qa: tensor<48x640xf8E4M3FN>, %qb: tensor<640x80xf8E4M3FN, #tokens_last>, %sa: tensor<2x48xf32>, %sb: tensor<2x80xf32>, %offs: tensor<2xi32>) -> tensor<2x48x80xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", align = 128 : i64}
      : (tensor<48x640xf8E4M3FN>, tensor<640x80xf8E4M3FN, #tokens_last>, tensor<2x48xf32>, tensor<2x80xf32>, tensor<2xi32>) -> tensor<2x48x80xf32>
  return %out : tensor<2x48x80xf32>
}

func.func @groups_64(%qa: tensor<48x8448xf8E4M3FN>, %qb: tensor<8448x64xf8E4M3FN, #tokens_last>, %sa: tensor<66x48xf32>, %sb: tensor<66x64xf32>, %offs: tensor<64xi32>) -> tensor<64x48x64xbf16> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128", align = 128 : i64}
      : (tensor<48x8448xf8E4M3FN>, tensor<8448x64xf8E4M3FN, #tokens_last>, tensor<66x48xf32>, tensor<66x64xf32>, tensor<64xi32>) -> tensor<64x48x64xbf16>
  return %out : tensor<64x48x64xbf16>
}

func.func @columns_32(%qa: tensor<64x2304xf8E4M3FN>, %qb: tensor<2304x32xf8E4M3FN, #tokens_last>, %sa: tensor<18x64xf32>, %sb: tensor<18x32xf32>, %offs: tensor<16xi32>) -> tensor<16x64x32xf32> {
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "promoted", granularity = "1x128", align = 128 : i64}
      : (tensor<64x2304xf8E4M3FN>, tensor<2304x32xf8E4M3FN, #tokens_last>, tensor<18x64xf32>, tensor<18x32xf32>, tensor<16xi32>) -> tensor<16x64x32xf32>
  return %out : tensor<16x64x32xf32>
}

func.func @one_expert(%qa: tensor<200x128xf8E4M3FN>, %qb: tensor<1x128x80xf8E4M3FN, #col_major>, %sa: tensor<200xf32>, %sb: tensor<1x80xf32>, %offs: tensor<1xi32>, %bias: tensor<1x80xf32>) -> tensor<200x80xf32> {
  %out = "scaled_grouped_mm.scaled_mm_bias"(%qa, %qb, %sa, %sb, %offs, %bias) {accumulate = "promoted"}
      : (tensor<200x128xf8E4M3FN>, tensor<1x128x80xf8E4M3FN, #col_major>, tensor<200xf32>, tensor<1x80xf32>, tensor<1xi32>, tensor<1x80xf32>) -> tensor<200x80xf32>
  return %out : tensor<200x80xf32>
}
