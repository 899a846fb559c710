// What the conversion refuses. Normally other passes have seen to all of it; a stage may also have been edited by hand.

// RUN: moe-opt %s --split-input-file --convert-scaled-grouped-mm-to-nvvm --verify-diagnostics

#col_major = affine_map<(m, k) -> (k, m)>
gpu.module @kernels {
  func.func @no_schedule(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>,
                         %sb: tensor<2x32xf32>, %offs: tensor<2xi32>) {
    // expected-error@below {{'schedule' must be a dictionary of integers}}
    %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast"}
        : (tensor<48x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>)
        -> tensor<2x48x32xbf16>
    return
  }
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
gpu.module @kernels {
  func.func @unverified(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>,
                        %sb: tensor<2x32xf32>) {
    // expected-error@below {{operand 'offs' is missing; it gives the groups}}
    %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 1, pingpong = 0}}
        : (tensor<48x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x32xf32>) -> tensor<2x48x32xbf16>
    return
  }
}

// -----

gpu.module @kernels {
  func.func @row_major(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN>, %sa: tensor<2x48xf32>,
                       %sb: tensor<2x32xf32>, %offs: tensor<2xi32>) {
    // expected-error@below {{the kernel takes qb column-major}}
    %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 1, pingpong = 0}}
        : (tensor<48x64xf8E4M3FN>, tensor<64x32xf8E4M3FN>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>) -> tensor<2x48x32xbf16>
    return
  }
}

// -----

#col_major = affine_map<(m, k) -> (k, m)>
gpu.module @kernels {
  // expected-error@below {{a kernel's name must be a letter, then letters, digits and _}}
  func.func @"1"(%qa: tensor<48x64xf8E4M3FN>, %qb: tensor<64x32xf8E4M3FN, #col_major>, %sa: tensor<2x48xf32>,
                 %sb: tensor<2x32xf32>, %offs: tensor<2xi32>) {
    %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sa, %sb, %offs) {accumulate = "fast", schedule = {swap_operands = 0, tile_n = 256, stages = 4, band = 8, cluster = 1, pingpong = 0}}
        : (tensor<48x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #col_major>, tensor<2x48xf32>, tensor<2x32xf32>, tensor<2xi32>)
        -> tensor<2x48x32xbf16>
    return
  }
}
