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

typedef struct moe__run_dtype_t {
  const char *name;      /* in the manifest */
  const char *file_name; /* in a safetensors file */
  uint8_t dlpack_code;
  int bits;
} moe__run_dtype_t;

typedef struct moe__run_tensor_t {
  const moe_rt_tensor_info_t *info; /* borrowed from the program */
  const moe__run_dtype_t *dtype;    /* static */
  int64_t shape[MOE_RT_MAX_RANK];   /* logical */
  int64_t strides[MOE_RT_MAX_RANK]; /* elements, compact in info->order */
  int64_t elements;
  size_t bytes;
  uint8_t *data; /* owned; NULL until allocated */
} moe__run_tensor_t;

/* The tensors of one call of a function. */
typedef struct moe__run_call_t {
  const moe_rt_function_info_t *function; /* borrowed */
  moe__run_tensor_t *arguments, *results, *temporaries;
  uint32_t mistakes; /* bits of moe_rt_report_t: what is wrong in the arguments on purpose */
} moe__run_call_t;

/* What a safetensors file calls the dtype of this name in the manifest; NULL for one that moe-run
 * does not know. */
const char *moe__run_dtype_file_name(const char *name);

/* Lays out the arguments, results and temporaries of `function` for arguments of these shapes;
 * allocates no data. The shapes are checked against the function. moe__run_call_free also after an
 * error. */
int moe__run_call_layout(const moe_rt_program_t *program, const moe_rt_function_info_t *function,
                         const int64_t *const *argument_shapes, moe__run_call_t *out_call);
void moe__run_call_free(moe__run_call_t *call);

/* A copy of the `count` layouts at `tensors` with data of their own; NULL after an error, which is
 * reported. Free with moe__run_tensors_free. */
moe__run_tensor_t *moe__run_tensors_like(const moe__run_tensor_t *tensors, int count);
void moe__run_tensors_free(moe__run_tensor_t *tensors, int count);

/* Gives the tensor memory, uninitialized. */
int moe__run_tensor_allocate(moe__run_tensor_t *tensor);

/* The shape in memory order, outermost first: what a file says of the tensor. */
void moe__run_tensor_memory_shape(const moe__run_tensor_t *tensor, int64_t *out_shape);

/* True where memory order and logical order differ. */
bool moe__run_tensor_is_permuted(const moe_rt_tensor_info_t *info);

/* The logical index of the element at `position` in memory. */
void moe__run_tensor_index(const moe__run_tensor_t *tensor, int64_t position, int64_t *out_index);

/* The tensor as libmoe_ref sees it. Its dtype must be one that libmoe_ref has. */
moe_ref_tensor_t moe__run_tensor_view(const moe__run_tensor_t *tensor);

/* Writes the list "8x8192x5120" (separator "x") or "8,8192,5120" (",") to `text`, which it returns.
 */
enum { MOE__RUN_LIST_TEXT = 32 * 24 };
char *moe__run_list_text(int rank, const int64_t *values, const char *separator,
                         char text[MOE__RUN_LIST_TEXT]);

#endif /* MOE_RUN_TENSOR_H */
