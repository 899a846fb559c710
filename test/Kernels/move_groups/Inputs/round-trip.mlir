func.func @round_trip(%x: tensor<?x?xbf16> {moe.name = "x"}, %offs: tensor<?xi32> {moe.name = "offs"})
    -> (tensor<?x?xbf16> {moe.name = "y"}) {
  %padded, %padded_offs = "mx_quantize.pad_groups"(%x, %offs) {align = 16 : i64}
      : (tensor<?x?xbf16>, tensor<?xi32>) -> (tensor<?x?xbf16>, tensor<?xi32>)
  %y = "mx_quantize.unpad_groups"(%padded, %offs, %padded_offs) {align = 16 : i64}
      : (tensor<?x?xbf16>, tensor<?xi32>, tensor<?xi32>) -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}
