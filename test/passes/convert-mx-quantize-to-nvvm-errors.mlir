// What the conversion refuses. Normally other passes have seen to all of it; a stage may also have been edited by hand.

// RUN: moe-opt %s --split-input-file --convert-mx-quantize-to-nvvm --verify-diagnostics

#col_major = affine_map<(e, n, k) -> (e, k, n)>
gpu.module @kernels {
  func.func @no_schedule(%w: tensor<1x32x16xf32>) {
    // expected-error@below {{'schedule' must be a dictionary of integers}}
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return
  }
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
gpu.module @kernels {
  func.func @mode(%w: tensor<1x32x16xf32>) {
    // expected-error@below {{attribute 'mode' is "round"; it must be floor, rceil, ceil or even}}
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "round"}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return
  }
}

// -----

#col_major = affine_map<(e, n, k) -> (e, k, n)>
gpu.module @kernels {
  // expected-error@below {{a kernel's name must be a letter, then letters, digits and _}}
  func.func @"a b"(%w: tensor<1x32x16xf32>) {
    %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
        : (tensor<1x32x16xf32>) -> (tensor<1x32x16xf8E4M3FN, #col_major>, tensor<1x1x16xf8E8M0FNU>)
    return
  }
}

// -----

gpu.module @kernels {
  func.func @rank(%w: tensor<32xf32>) {
    // expected-error@below {{no kernel quantizes a tensor of rank 1 along axis 0 yet}}
    %q, %s = "mx_quantize.quantize"(%w) {axis = 0 : i64, block = 32 : i64, mode = "rceil",
        schedule = {tile_n = 128, tile_k = 32, stages = 1, output_stages = 1, warps = 4, ctas_per_sm = 1, band = 1}}
        : (tensor<32xf32>) -> (tensor<32xf8E4M3FN>, tensor<1xf8E8M0FNU>)
    return
  }
}

// -----

// A declaration and what is not ours stay for others.
gpu.module @kernels {
  func.func private @declaration()
  func.func @other() {
    return
  }
}

// -----

// expected-error@below {{'gpu.module' has the target #nvvm.target<chip = "sm_80">, but the kernels are for sm_90a}}
gpu.module @kernels [#nvvm.target<chip = "sm_90a">, #nvvm.target<chip = "sm_80">] {
}
