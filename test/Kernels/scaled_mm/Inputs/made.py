"""Prints a dequantize_mm with a schedule: made.py SCHEDULE [row-major].

Sizes are dynamic. row-major: the scales of weights lie as (E, K/32, N).

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

schedule, order = sys.argv[1], "" if "row-major" in sys.argv[2:] else ", #columns"
print(
    f"""#columns = affine_map<(e, k, n) -> (e, n, k)>
func.func @product(%qa: tensor<?x?xf8E4M3FN>, %qb: tensor<?x?x?xf8E5M2, #columns>, %sa: tensor<?x?xf8E8M0FNU>,
                   %sb: tensor<?x?x?xf8E8M0FNU{order}>, %offs: tensor<?xi32>) -> tensor<?x?xbf16> {{
  %out:5 = "scaled_grouped_mm.dequantize_mm"(%qa, %qb, %sa, %sb, %offs) {{schedule = {{{schedule}}}}}
      : (tensor<?x?xf8E4M3FN>, tensor<?x?x?xf8E5M2, #columns>, tensor<?x?xf8E8M0FNU>, tensor<?x?x?xf8E8M0FNU{order}>, tensor<?xi32>)
      -> (tensor<?x?xbf16>, tensor<?x?xbf16>, tensor<?x?x?xbf16, #columns>, tensor<?xi32>, tensor<?x?xi32>)
  return %out#0 : tensor<?x?xbf16>
}}"""
)
