// What kernels require of sizes, and symbols cannot say: an error at the op, and no manifest.

// RUN: moe-opt %s --split-input-file --emit=manifest --verify-diagnostics

#columns = affine_map<(n, j) -> (j, n)>

// A scale for each 64 columns cannot be one for each 32 of the same columns.
func.func @group_sizes(%w: tensor<?x?x512xui8>, %scales: tensor<?x?xbf16, #columns>, %x: tensor<?x?xbf16>, %v: tensor<?x?x512xui8>)
    -> (tensor<?x?xbf16>, tensor<?x?xbf16>) {
  %a = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<?x?x512xui8>, tensor<?x?xbf16, #columns>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
  // expected-error@below {{the kernel needs size {"ceildiv":["x.1",32]} to be the same as {"ceildiv":["x.1",64]}; that cannot be required of the arguments' sizes}}
  %b = "scaled_grouped_mm.mixed_mm"(%v, %scales, %x) {format = "i4", group_size = 64 : i64, layout = "16x64"}
      : (tensor<?x?x512xui8>, tensor<?x?xbf16, #columns>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
  return %a, %b : tensor<?x?xbf16>, tensor<?x?xbf16>
}

// -----

#columns = affine_map<(m, k) -> (k, m)>

// Tokens with room for groups are never as many as without it.
func.func @itself(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>)
    -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?xi32>) {
  %padded, %ends = "mx_quantize.pad_groups"(%x, %offs) {align = 16 : i64} : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xbf16>, tensor<?xi32>)
  // expected-error@below {{the kernel needs size "x.0" to be the same as {"mul":[{"add":[{"ceildiv":["x.0",16]},"offs.0"]},16]}; that cannot be required of the arguments' sizes}}
  %q, %s, %r, %t = "mx_quantize.quantize_fp8_pair"(%x, %padded, %offs) {pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>)
  return %q, %s, %r, %t, %ends : tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?xi32>
}

// -----

#columns = affine_map<(m, k) -> (k, m)>

// Blocks of tokens in groups, and one more in each, are as many as there are: nothing makes them a multiple of 32.
func.func @sum(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>)
    -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize_fp8"(%x, %offs) {axis = 0 : i64, granularity = "1x128", pow2 = false, sanitize = false}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>)
  // expected-error@below {{the kernel needs size {"add":[{"ceildiv":["x.0",128]},"offs.0"]} to be a multiple of 32; that cannot be required of the arguments' sizes}}
  %r, %t = "mx_quantize.quantize"(%s) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xf32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  return %q, %r, %t : tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>
}

// -----

#columns = affine_map<(m, k) -> (k, m)>

// Room for groups, of tokens that have some: a launcher would not take the bundle.
// expected-error@below {{there are 10 operations inside each other in sizes of the function; a manifest holds at most 8}}
func.func @deep(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %y = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64, align = 128 : i64}
      : (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?xbf16>
  %r, %t = "mx_quantize.quantize"(%y, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %z = "mx_quantize.dequantize"(%r, %t, %offs) {axis = 0 : i64, block = 32 : i64, align = 128 : i64}
      : (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?xbf16>
  %u, %v = "mx_quantize.quantize"(%z, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  return %u, %v : tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>
}
