// Functions whose launches require sizes of each other's tensors; symbols.test says what becomes of these.

#columns = affine_map<(m, k) -> (k, m)>

// The numbers of x and the scales of z are of one product, so x and z have as many tokens. Both are rounded up.
func.func @scales_of_another(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>, %z: tensor<?x?xbf16>, %offs: tensor<?xi32>) -> tensor<?x?x?xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %qx, %sx = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %qy, %sy = "mx_quantize.quantize"(%y, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %qz, %sz = "mx_quantize.quantize"(%z, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %n = tensor.dim %qx, %c1 : tensor<?x?xf8E4M3FN, #columns>
  %m = tensor.dim %qx, %c0 : tensor<?x?xf8E4M3FN, #columns>
  %empty = tensor.empty(%n, %m) : tensor<?x?xf8E4M3FN>
  %qa = linalg.transpose ins(%qx : tensor<?x?xf8E4M3FN, #columns>) outs(%empty : tensor<?x?xf8E4M3FN>) permutation = [1, 0]
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qy, %sz, %sy, %offs) {accumulate = "promoted"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// The numbers are arguments, and only the scales are of tokens: the numbers have as many as those, rounded up.
func.func @numbers_given(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?xf8E4M3FN, #columns>, %z: tensor<?x?xbf16>, %sb: tensor<?x?xf8E8M0FNU>, %offs: tensor<?xi32>)
    -> tensor<?x?x?xbf16> {
  %qz, %sz = "mx_quantize.quantize"(%z, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %out = "scaled_grouped_mm.scaled_mm"(%qa, %qb, %sz, %sb, %offs) {accumulate = "promoted"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

// Groups of other offsets have to be as many.
func.func @groups_of_another(%z: tensor<?x?xbf16>, %offs: tensor<?xi32>, %ends: tensor<?xi32>)
    -> tensor<?x?xbf16> {
  %qz, %sz = "mx_quantize.quantize"(%z, %ends) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %out = "mx_quantize.dequantize"(%qz, %sz, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// A row of scales lies side by side: their number is a multiple of 16, so K is one of 512.
func.func @scales_of_rows(%w: tensor<?x?xf8E4M3FN>, %scales: tensor<?x?xf8E8M0FNU>, %x: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "f8E4M3FN", group_size = 32 : i64, layout = "evens_first"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

// Scales of one for each 64 columns are those of a second product with one for each 32: of half as many columns.
func.func @groups_of_two_sizes(%w: tensor<?x?x512xui8>, %scales: tensor<?x?xbf16, affine_map<(n, j) -> (j, n)>>, %x: tensor<?x?xbf16>, %v: tensor<?x?x512xui8>, %y: tensor<?x?xbf16>)
    -> (tensor<?x?xbf16>, tensor<?x?xbf16>) {
  %a = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 64 : i64, layout = "16x64"}
      : (tensor<?x?x512xui8>, tensor<?x?xbf16, affine_map<(n, j) -> (j, n)>>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
  %b = "scaled_grouped_mm.mixed_mm"(%v, %scales, %y) {format = "i4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<?x?x512xui8>, tensor<?x?xbf16, affine_map<(n, j) -> (j, n)>>, tensor<?x?xbf16>) -> tensor<?x?xbf16>
  return %a, %b : tensor<?x?xbf16>, tensor<?x?xbf16>
}

// The scales are of as many tokens as the numbers, with room for groups: y has that room already.
func.func @room_for_groups(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>, %offs: tensor<?xi32>) -> (tensor<?x?xbf16>, tensor<?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil", align = 128 : i64}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %r, %t = "mx_quantize.quantize"(%y, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %out = "mx_quantize.dequantize"(%q, %t, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out, %s : tensor<?x?xbf16>, tensor<?x?xf8E8M0FNU>
}

// 500 tokens are rounded up to 512, and so are those that the scales are of: there are 385 to 512.
func.func @static_tokens(%x: tensor<500x16xbf16>, %z: tensor<?x16xbf16>, %offs: tensor<?xi32>) -> tensor<512x16xbf16> {
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<500x16xbf16>, tensor<?xi32>) -> (tensor<512x16xf8E4M3FN, #columns>, tensor<?x16xf8E8M0FNU>)
  %r, %t = "mx_quantize.quantize"(%z, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x16xbf16>, tensor<?xi32>) -> (tensor<?x16xf8E4M3FN, #columns>, tensor<?x16xf8E8M0FNU>)
  %out = "mx_quantize.dequantize"(%q, %t, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<512x16xf8E4M3FN, #columns>, tensor<?x16xf8E8M0FNU>, tensor<?xi32>) -> tensor<512x16xbf16>
  return %out : tensor<512x16xbf16>
}

// Tokens that are as many when they are rounded up are a multiple.
func.func @itself(%x: tensor<?x?xbf16>, %offs: tensor<?xi32>)
    -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>) {
  %q, %s = "mx_quantize.quantize"(%x, %offs) {axis = 0 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>)
  %y = "mx_quantize.dequantize"(%q, %s, %offs) {axis = 0 : i64, block = 32 : i64}
      : (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?xi32>) -> tensor<?x?xbf16>
  %r, %t, %u, %v = "mx_quantize.quantize_fp8_pair"(%x, %y, %offs) {pow2 = true, sanitize = false}
      : (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>)
  return %r, %t, %u, %v : tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>, tensor<?x?xf8E4M3FN, #columns>, tensor<?x?xf32>
}
