// Offsets that two ops read, of which the first has room for more tokens than the second has: random ones are right for both.

// RUN: moe-opt %s --ptxas=none --emit=bundle -o %t.bundle
// RUN: moe-run %t.bundle --device emu --check --exact --random 1 | FileCheck %s
// CHECK: o, p, po equal the C reference in every bit

func.func @f(%a: tensor<32x512xbf16>, %b: tensor<512x64xbf16>, %offs: tensor<2xi32>, %x: tensor<129x64xbf16>)
    -> (tensor<2x32x64xbf16>, tensor<131x64xbf16>, tensor<2xi32>) {
  %o = "scaled_grouped_mm.mm"(%a, %b, %offs) {align = 128 : i64} : (tensor<32x512xbf16>, tensor<512x64xbf16>, tensor<2xi32>) -> tensor<2x32x64xbf16>
  %p, %po = "mx_quantize.pad_groups"(%x, %offs) {align = 1 : i64} : (tensor<129x64xbf16>, tensor<2xi32>) -> (tensor<131x64xbf16>, tensor<2xi32>)
  return %o, %p, %po : tensor<2x32x64xbf16>, tensor<131x64xbf16>, tensor<2xi32>
}
