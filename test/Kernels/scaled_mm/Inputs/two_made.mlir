// Two products with the same weights, each of which makes its operands: they have counters in common.
#columns = affine_map<(e, k, n) -> (e, n, k)>
func.func @products(%q1: tensor<?x?xf8E4M3FN>, %s1: tensor<?x?xf8E8M0FNU>, %q2: tensor<?x?xf8E4M3FN>, %s2: tensor<?x?xf8E8M0FNU>,
                    %qb: tensor<?x?x?xf8E4M3FN, #columns>, %sb: tensor<?x?x?xf8E8M0FNU, #columns>, %offs: tensor<?xi32>, %bias: tensor<?x?xf32>)
    -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %0 = "scaled_grouped_mm.scaled_mm_bias"(%q1, %qb, %s1, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?x?x?xf8E8M0FNU, #columns>, tensor<?xi32>, tensor<?x?xf32>)
      -> tensor<?x?xf32>
  %1 = "scaled_grouped_mm.scaled_mm_bias"(%q2, %qb, %s2, %sb, %offs, %bias) {accumulate = "fast"}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E4M3FN, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?x?x?xf8E8M0FNU, #columns>, tensor<?xi32>, tensor<?x?xf32>)
      -> tensor<?x?xf32>
  return %0, %1 : tensor<?x?xf32>, tensor<?x?xf32>
}
