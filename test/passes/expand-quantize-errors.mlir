// What moe-expand-quantize refuses.

// RUN: moe-opt %s --split-input-file --moe-expand-quantize --verify-diagnostics

func.func @schedule(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule' is that of one kernel, and this takes two passes; write mx_quantize.scale_fp8 and cast_fp8, with a schedule each}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "tensor", pow2 = true, sanitize = false,
      schedule = {rows_per_warp = 16, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<1xf32>)
  return
}

// -----

#columns = affine_map<(e, n, k) -> (e, k, n)>
func.func @dual_schedule(%w: tensor<4x64x48xf32>) {
  // expected-error@below {{and this takes two passes; write mx_quantize.scale_fp8_dual and cast_fp8_dual, with a schedule each}}
  %q, %s, %qt, %st = "mx_quantize.quantize_fp8_dual"(%w) {pow2 = true, sanitize = false, schedule = {band = 1}} : (tensor<4x64x48xf32>)
      -> (tensor<4x64x48xf8E5M2>, tensor<4x64xf32>, tensor<4x64x48xf8E5M2, #columns>, tensor<4x48xf32>)
  return
}

// -----

#columns = affine_map<(m, k) -> (k, m)>
func.func @pair_schedule(%x: tensor<128x48xf32>, %y: tensor<128x32xf32>, %offs: tensor<4xi32>) {
  // expected-error@below {{and this takes two passes; write mx_quantize.scale_fp8_pair and cast_fp8_pair, with a schedule each}}
  %q, %s, %qy, %sy = "mx_quantize.quantize_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = false, schedule = {band = 1}}
      : (tensor<128x48xf32>, tensor<128x32xf32>, tensor<4xi32>)
      -> (tensor<128x48xf8E5M2, #columns>, tensor<4x48xf32>, tensor<128x32xf8E5M2, #columns>, tensor<4x32xf32>)
  return
}

// -----

// The pass relies on what moe-verify checks, also where it runs alone.
func.func @unverified(%x: tensor<?x?xbf16>) {
  // expected-error@below {{the tensor has rank 2; with granularity "expert" it must be 3}}
  %q, %s = "mx_quantize.quantize_fp8"(%x) {axis = 1 : i64, granularity = "expert", pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?xf32>)
  return
}
