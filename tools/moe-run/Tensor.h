/* Tensor.h - host tensors in the memory order of a function's signature.
 *
 * Why it exists: a file, the device and the C reference all see the same bytes; only the strides
 * differ from one tensor to the next, and they follow from the manifest's `order`.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_TENSOR_H
#define MOE_RUN_TENSOR_H

#include "moe/reference.h"
#include "moe/runtime.h"

/* Element types: X(name in the manifest, name in safetensors, DLPack type code, bits). */
#define MOE__DTYPES(X)                                                                             \
  X("bf16", "BF16", kDLBfloat, 16)                                                                 \
  X("f16", "F16", kDLFloat, 16)                                                                    \
  X("f32", "F32", kDLFloat, 32)                                                                    \
  X("f8E4M3FN", "F8_E4M3", kDLFloat8_e4m3fn, 8)                                                    \
  X("f8E5M2", "F8_E5M2", kDLFloat8_e5m2, 8)                                                        \
  X("f8E8M0FNU", "F8_E8M0", kDLFloat8_e8m0fnu, 8)                                                  \
  X("i32", "I32", kDLInt, 32)

typedef struct moe__dtype_t {
  const char *name;      /* in the manifest */
  const char *file_name; /* in a safetensors file */
  uint8_t dlpack_code;
  int bits;
} moe__dtype_t;

typedef struct moe__tensor_t {
  const moe_rt_tensor_info_t *info; /* borrowed from the program */
  const moe__dtype_t *dtype;        /* static */
  int64_t shape[MOE_RT_MAX_RANK];   /* logical */
  int64_t strides[MOE_RT_MAX_RANK]; /* elements, compact in info->order */
  int64_t elements;
  size_t bytes;
  uint8_t *data; /* owned; NULL until allocated */
} moe__tensor_t;

/* The tensors of one call of a function. */
typedef struct moe__call_t {
  const moe_rt_function_info_t *function; /* borrowed */
  moe__tensor_t *arguments, *results, *temporaries;
} moe__call_t;

/* What a safetensors file calls the dtype of this name in the manifest; NULL for one that moe-run
 * does not know. */
const char *moe__dtype_file_name(const char *name);

/* Lays out the arguments, results and temporaries of `function` for arguments of these shapes;
 * allocates no data. The shapes are checked against the function. moe__call_free also after an
 * error. */
int moe__call_layout(const moe_rt_program_t *program, const moe_rt_function_info_t *function,
                     const int64_t *const *argument_shapes, moe__call_t *out_call);
void moe__call_free(moe__call_t *call);

/* A copy of the `count` layouts at `tensors` with data of their own; NULL after an error, which is
 * reported. Free with moe__tensors_free. */
moe__tensor_t *moe__tensors_like(const moe__tensor_t *tensors, int count);
void moe__tensors_free(moe__tensor_t *tensors, int count);

/* Gives the tensor memory, uninitialized. */
int moe__tensor_allocate(moe__tensor_t *tensor);

/* The shape in memory order, outermost first: what a file says of the tensor. */
void moe__tensor_memory_shape(const moe__tensor_t *tensor, int64_t *out_shape);

/* True where memory order and logical order differ. */
bool moe__tensor_is_permuted(const moe_rt_tensor_info_t *info);

/* The logical index of the element at `position` in memory. */
void moe__tensor_index(const moe__tensor_t *tensor, int64_t position, int64_t *out_index);

/* The tensor as libmoe_ref sees it. Its dtype must be one that libmoe_ref has. */
moe_ref_tensor_t moe__tensor_view(const moe__tensor_t *tensor);

/* Writes the list "8x8192x5120" (separator "x") or "8,8192,5120" (",") to `text`, which it returns.
 */
enum { MOE__LIST_TEXT = 32 * 24 };
char *moe__list_text(int rank, const int64_t *values, const char *separator,
                     char text[MOE__LIST_TEXT]);

#endif /* MOE_RUN_TENSOR_H */
