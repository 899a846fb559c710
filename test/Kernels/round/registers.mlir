// A static number of rows of 2048 columns is a parameter of the kernel, as a dynamic one is: ptxas has no registers else. These compile, and have the bits of the reference.

// RUN: rm -rf %t && moe-opt %s --emit=bundle -o %t
// RUN: moe-run %t --function tokens --device emu --check --runs 1 --random 1 --edge-blocks | FileCheck %s
// RUN: moe-run %t --function weights --device emu --check --runs 1 --random 2 --edge-blocks | FileCheck %s
// CHECK: rounded, rounded_t equal the C reference in every bit

func.func @tokens(%x: tensor<32x2048xbf16>) -> (tensor<32x2048xbf16>, tensor<32x2048xbf16>) {
  %rounded, %rounded_t = "mx_quantize.round_dual"(%x) {block = 32 : i64, mode = "rceil", element = "f8E4M3FN"}
      : (tensor<32x2048xbf16>) -> (tensor<32x2048xbf16>, tensor<32x2048xbf16>)
  return %rounded, %rounded_t : tensor<32x2048xbf16>, tensor<32x2048xbf16>
}

func.func @weights(%x: tensor<8x128x2048xbf16>) -> (tensor<8x128x2048xbf16>, tensor<8x128x2048xbf16>) {
  %rounded, %rounded_t = "mx_quantize.round_dual"(%x) {block = 32 : i64, mode = "floor", element = "f8E5M2"}
      : (tensor<8x128x2048xbf16>) -> (tensor<8x128x2048xbf16>, tensor<8x128x2048xbf16>)
  return %rounded, %rounded_t : tensor<8x128x2048xbf16>, tensor<8x128x2048xbf16>
}
