"""What scaled_grouped_mm.mixed_mm asks of weights.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
GROUP_SIZES = (32, 64, 128)  # weights along K that share a scale; of MX blocks 32
GREATEST_ZERO_POINT = 15  # mixed_mm_zeros reads four bits
GREATEST_SCALES = {"f8E4M3FN": 37, "f4E2M1FN": 31}  # powers of two; E8M0 scales beyond them may count as NaN (docs/numerics.md)
