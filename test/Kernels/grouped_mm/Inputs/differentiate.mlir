// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#col_major = affine_map<(e, k, n) -> (e, n, k)>

func.func @tensorwise(%a: tensor<?x?xbf16>, %b: tensor<?x?x?xbf16, #col_major>, %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_tensorwise"}
      : (tensor<?x?xbf16>, tensor<?x?x?xbf16, #col_major>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

func.func @rows(%a: tensor<?x?xbf16>, %b: tensor<?x?x?xbf16>, %offs: tensor<?xi32>) -> tensor<?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_rowwise"}
      : (tensor<?x?xbf16>, tensor<?x?x?xbf16>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %out : tensor<?x?xbf16>
}

func.func @batched(%a: tensor<?x?x?xbf16>, %b: tensor<?x?x?xbf16, #col_major>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "fp8_rowwise"}
      : (tensor<?x?x?xbf16>, tensor<?x?x?xbf16, #col_major>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

func.func @batched_rounded(%a: tensor<?x?x?xbf16>, %b: tensor<?x?x?xbf16, #col_major>) -> tensor<?x?x?xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b) {recipe = "mxfp8"}
      : (tensor<?x?x?xbf16>, tensor<?x?x?xbf16, #col_major>) -> tensor<?x?x?xbf16>
  return %out : tensor<?x?x?xbf16>
}

func.func @blockwise(%a: tensor<?x144xbf16>, %b: tensor<3x144x272xbf16, affine_map<(e, k, n) -> (e, n, k)>>, %offs: tensor<3xi32>) -> tensor<?x272xbf16> {
  %out = "scaled_grouped_mm.grouped_mm"(%a, %b, %offs) {recipe = "fp8_blockwise"}
      : (tensor<?x144xbf16>, tensor<3x144x272xbf16, affine_map<(e, k, n) -> (e, n, k)>>, tensor<3xi32>) -> tensor<?x272xbf16>
  return %out : tensor<?x272xbf16>
}
