"""Prints the op mx_quantize.pack_scales as a function of any shape: source.py [grouped].

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

tensors = [("s", "tensor<?x?xf8E8M0FNU>"), ("offs", "tensor<?xi32>")][: 2 if "grouped" in sys.argv else 1]
print(f"""func.func @pack_scales({", ".join(f'%{name}: {type} {{moe.name = "{name}"}}' for name, type in tensors)})
    -> (tensor<?x?xf8E8M0FNU> {{moe.name = "packed"}}) {{
  %packed = "mx_quantize.pack_scales"({", ".join(f"%{name}" for name, _ in tensors)}) {{layout = "128x4"}}
      : ({", ".join(type for _, type in tensors)}) -> tensor<?x?xf8E8M0FNU>
  return %packed : tensor<?x?xf8E8M0FNU>
}}""")
