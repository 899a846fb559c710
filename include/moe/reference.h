/* moe/reference.h - the numerics contract of moe-opt in plain C.
 *
 * Why it exists: every kernel, on a GPU or in an emulator, is compared with these functions bit for
 * bit. They are written to be read; where speed and clarity disagree, clarity wins.
 * docs/numerics.md is the contract they implement.
 *
 * All functions are pure and thread-safe. Arithmetic is fp32, round to nearest even, subnormals
 * kept; the floating-point environment of the caller must be the default one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_REFERENCE_H
#define MOE_REFERENCE_H

#include "moe/export.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, by the name MLIR gives them. X(constant, name, bits). */
#define MOE_REF_DTYPES(X)                                                                          \
  X(MOE_REF_F32, "f32", 32)                                                                        \
  X(MOE_REF_BF16, "bf16", 16)                                                                      \
  X(MOE_REF_E4M3, "f8E4M3FN", 8)                                                                   \
  X(MOE_REF_E5M2, "f8E5M2", 8)                                                                     \
  X(MOE_REF_E8M0, "f8E8M0FNU", 8)

typedef enum moe_ref_dtype_t {
#define MOE_REF_DTYPE(constant, name, bits) constant,
  MOE_REF_DTYPES(MOE_REF_DTYPE)
#undef MOE_REF_DTYPE
} moe_ref_dtype_t;

/* How an MX block's scale follows from its absolute maximum. X(constant, name). */
#define MOE_REF_MX_MODES(X)                                                                        \
  X(MOE_REF_FLOOR, "floor")                                                                        \
  X(MOE_REF_RCEIL, "rceil")                                                                        \
  X(MOE_REF_CEIL, "ceil")                                                                          \
  X(MOE_REF_EVEN, "even")

typedef enum moe_ref_mx_mode_t {
#define MOE_REF_MX_MODE(constant, name) constant,
  MOE_REF_MX_MODES(MOE_REF_MX_MODE)
#undef MOE_REF_MX_MODE
} moe_ref_mx_mode_t;

typedef enum moe_ref_status_t {
  MOE_REF_OK = 0,
  MOE_REF_INVALID_ARGUMENT, /* a dtype, shape, axis or block the operation does not take */
} moe_ref_status_t;

#define MOE_REF_MAX_RANK 5

/* A borrowed view of a tensor in host memory. Strides are in elements and need not be compact. */
typedef struct moe_ref_tensor_t {
  void *data;
  moe_ref_dtype_t dtype;
  int rank;
  int64_t shape[MOE_REF_MAX_RANK];
  int64_t strides[MOE_REF_MAX_RANK];
} moe_ref_tensor_t;

/* ---- Number formats (OCP 8-bit floating point v1.0, OCP MX v1.0) ---- */

/* fp32 -> E4M3/E5M2, round to nearest even; finite values and Inf saturate to the largest finite
 * value with x's sign (PTX cvt.rn.satfinite); NaN gives 0x7F. */
MOE_API uint8_t moe_ref_e4m3_from_f32(float x);
MOE_API uint8_t moe_ref_e5m2_from_f32(float x);

/* E4M3/E5M2 -> fp32, exact. NaN patterns give a quiet NaN; E5M2 0x7C/0xFC give +-Inf. */
MOE_API float moe_ref_f32_from_e4m3(uint8_t byte);
MOE_API float moe_ref_f32_from_e5m2(uint8_t byte);

/* E8M0 -> fp32, exact: 2^(byte-127); byte 0 is the subnormal 2^-127, byte 255 is NaN. */
MOE_API float moe_ref_f32_from_e8m0(uint8_t byte);

/* bf16 bits -> fp32, exact. */
MOE_API float moe_ref_f32_from_bf16(uint16_t bits);

/* fp32 -> bf16 bits, round to nearest even; NaN gives 0x7FFF. */
MOE_API uint16_t moe_ref_bf16_from_f32(float x);

/* ---- MX block scaling (OCP MX v1.0 section 6.3; RCEIL as in PyTorch's MoE training) ---- */

/* The E8M0 scale of a block whose largest magnitude is amax (>= 0, Inf or NaN). element is
 * MOE_REF_E4M3 or MOE_REF_E5M2. A NaN or Inf amax gives 255. */
MOE_API uint8_t moe_ref_mx_scale(float amax, moe_ref_mx_mode_t mode, moe_ref_dtype_t element);

/* The fp32 factor that elements are multiplied by: the value of E8M0 byte 254-scale; NaN for scale
 * 255. */
MOE_API float moe_ref_mx_reciprocal(uint8_t scale);

/* Quantizes x along axis in blocks of `block` consecutive elements.
 *   x      any rank 1..5; F32 or BF16
 *   q      the shape of x; E4M3 or E5M2; any strides
 *   scales the shape of x with dimension `axis` divided by block; E8M0; any strides
 * x.shape[axis] must be a multiple of block. Nothing is written when the status is not MOE_REF_OK.
 */
MOE_API moe_ref_status_t moe_ref_mx_quantize(const moe_ref_tensor_t *x, int axis, int64_t block,
                                             moe_ref_mx_mode_t mode, const moe_ref_tensor_t *q,
                                             const moe_ref_tensor_t *scales);

/* The inverse: x = q * 2^(scale-127), rounded once to x's type (F32 or BF16). Scale 255 gives NaN;
 * a product of 2^128 or more gives Inf. Shapes as for moe_ref_mx_quantize. */
MOE_API moe_ref_status_t moe_ref_mx_dequantize(const moe_ref_tensor_t *q,
                                               const moe_ref_tensor_t *scales, int axis,
                                               int64_t block, const moe_ref_tensor_t *x);

/* ---- Names ---- */

/* The dtype or mode of this name, -1 if there is none. */
MOE_API int moe_ref_dtype_from_name(const char *name);
MOE_API int moe_ref_mx_mode_from_name(const char *name);

/* Bits of one element of dtype. */
MOE_API int moe_ref_dtype_bits(moe_ref_dtype_t dtype);

#ifdef __cplusplus
}
#endif

#endif /* MOE_REFERENCE_H */
