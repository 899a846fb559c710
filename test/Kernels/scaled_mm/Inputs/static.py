"""Prints a product forward whose sizes are static: static.py fast|promoted|blocks|mx M N K E [SCHEDULE]. The folder of bench is on the path.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

from products import Product

kind, *words = sys.argv[1:]
blocks = {"blocks": "checkpoint", "mx": "mx"}.get(kind)
product = Product("forward", "fast" if kind == "fast" else "promoted", sizes=tuple(map(int, words[:4])), blocks=blocks)
print(product.source(words[4] if len(words) > 4 else None))
