/* FakeCuda.c - stands in for libcuda.so.1, so that moe-run's way to a device and back runs where
 * there is none.
 *
 * Why it exists: buffers, guard zones, comparison and timing are host code; only the kernel needs a
 * GPU. "Device" memory is host memory, and a launch computes, by the kernel's name, what the C
 * reference does. Kernels take pointers to their tensors, then the extents (E, N, K) of the
 * high-precision one; the quantized one is column-major per expert. Those of products take E, M, K
 * and N, in that order. quantize_slow takes 3 ms longer than quantize, and quantize_wrong has a
 * wrong byte.
 *
 * FAKE_CUDA names a fault to build in: `element` (a wrong byte), `guard` (a byte past the end),
 * `unwritten` (a byte is left as it was), `random` (a byte differs from launch to launch), `rare`
 * (only the fifth launch has a wrong byte), `nan` (NaNs with another sign: no fault), `old`
 * (another GPU), `crash` (the launch fails). Products know the faults of the table `product_faults`
 * too.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/reference.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

#define ENTRY __attribute__((visibility("default"))) int

static bool fault(const char *name) {
  const char *value = getenv("FAKE_CUDA");
  return value && !strcmp(value, name);
}

/* ---- The device ---- */

ENTRY cuInit(unsigned flags) {
  return flags ? NOT_FOUND : SUCCESS;
}
ENTRY cuDriverGetVersion(int *version) {
  return *version = 13000, SUCCESS;
}
ENTRY cuGetErrorName(int error, const char **text) {
  return *text = error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR", SUCCESS;
}
ENTRY cuGetErrorString(int error, const char **text) {
  return cuGetErrorName(error, text);
}
ENTRY cuDeviceGetCount(int *count) {
  return *count = 1, SUCCESS;
}
ENTRY cuDeviceGet(int *device, int ordinal) {
  return *device = ordinal, SUCCESS;
}
ENTRY cuDeviceTotalMem_v2(size_t *bytes, int device) {
  return *bytes = (size_t)1 << 30, device;
}
ENTRY cuDeviceGetName(char *name, int size, int device) {
  strncpy(name, "Fake GPU", (size_t)size);
  return device;
}
ENTRY cuDeviceGetAttribute(int *value, int attribute, int device) {
  enum { L2_CACHE_SIZE = 38, MAJOR = 75, MINOR = 76 };
  *value = attribute == L2_CACHE_SIZE ? 1 << 20
           : attribute == MAJOR       ? (fault("old") ? 8 : 9)
           : attribute == MINOR       ? 0
                                      : 132;
  return device;
}
ENTRY cuDevicePrimaryCtxRetain(void **context, int device) {
  return *context = &free, device;
}
ENTRY cuDevicePrimaryCtxRelease_v2(int device) {
  return device;
}
ENTRY cuCtxGetCurrent(void **context) {
  return *context = NULL, SUCCESS;
}
ENTRY cuCtxSetCurrent(void *context) {
  return (void)context, SUCCESS;
}

/* ---- Memory, streams, events ---- */

ENTRY cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
  return *pointer = (uint64_t)aligned_alloc(256, (bytes + 255) / 256 * 256), SUCCESS;
}
ENTRY cuMemFree_v2(uint64_t pointer) {
  return free((void *)pointer), SUCCESS;
}
ENTRY cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream) {
  return (void)stream, cuMemAlloc_v2(pointer, bytes);
}
ENTRY cuMemFreeAsync(uint64_t pointer, void *stream) {
  return (void)stream, cuMemFree_v2(pointer);
}
ENTRY cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  return memcpy((void *)to, from, bytes), SUCCESS;
}
ENTRY cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  return memcpy(to, (const void *)from, bytes), SUCCESS;
}
ENTRY cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  return memcpy((void *)to, (const void *)from, bytes), (void)stream, SUCCESS;
}
ENTRY cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
  return memset((void *)to, byte, bytes), (void)stream, SUCCESS;
}
ENTRY cuStreamCreate(void **stream, unsigned flags) {
  return *stream = malloc(1), (void)flags, SUCCESS;
}
ENTRY cuStreamDestroy_v2(void *stream) {
  return free(stream), SUCCESS;
}
ENTRY cuStreamIsCapturing(void *stream, int *status) {
  return *status = 0, (void)stream, SUCCESS;
}
ENTRY cuStreamSynchronize(void *stream) {
  return (void)stream, SUCCESS;
}
ENTRY cuEventCreate(struct timespec **event, unsigned flags) {
  return *event = malloc(sizeof **event), (void)flags, SUCCESS;
}
ENTRY cuEventDestroy_v2(struct timespec *event) {
  return free(event), SUCCESS;
}
ENTRY cuEventRecord(struct timespec *event, void *stream) {
  return clock_gettime(CLOCK_MONOTONIC, event), (void)stream, SUCCESS;
}
ENTRY cuEventSynchronize(struct timespec *event) {
  return (void)event, SUCCESS;
}
ENTRY cuEventElapsedTime(float *milliseconds, struct timespec *begin, struct timespec *end) {
  *milliseconds =
      (float)(end->tv_sec - begin->tv_sec) * 1e3f + (float)(end->tv_nsec - begin->tv_nsec) * 1e-6f;
  return SUCCESS;
}

/* ---- Code: a kernel is its name ---- */

ENTRY cuLibraryLoadData(void **library, const void *code, int *jit, void **jit_values,
                        unsigned jits, int *options, void **option_values, unsigned option_count) {
  (void)jit, (void)jit_values, (void)jits, (void)options, (void)option_values, (void)option_count;
  return *library = (void *)code, SUCCESS;
}
ENTRY cuLibraryUnload(void *library) {
  return (void)library, SUCCESS;
}
ENTRY cuLibraryGetKernel(char **kernel, void *library, const char *name) {
  static char names[][16] = {"quantize", "dequantize",    "forward",
                             "wgrad",    "quantize_slow", "quantize_wrong"};
  (void)library;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], name))
      return *kernel = names[i], SUCCESS;
  return NOT_FOUND;
}
ENTRY cuKernelGetFunction(void **function, void *kernel) {
  return *function = kernel, SUCCESS;
}
ENTRY cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  return (void)attribute, (void)value, (void)kernel, device;
}
ENTRY cuTensorMapEncodeTiled(void *map, int element, uint32_t rank, void *address,
                             const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                             const uint32_t *element_strides, int interleave, int swizzle,
                             int promotion, int fill) {
  (void)map, (void)element, (void)rank, (void)address, (void)dims, (void)strides, (void)box;
  (void)element_strides, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  return NOT_FOUND;
}

static moe_ref_tensor_t tensor(void *parameter, moe_ref_dtype_t dtype, int64_t e, int64_t n,
                               int64_t k, bool column_major) {
  return (moe_ref_tensor_t){.data = *(void **)parameter,
                            .dtype = dtype,
                            .rank = 3,
                            .shape = {e, n, k},
                            .strides = {n * k, column_major ? 1 : k, column_major ? n : 1}};
}

/* Spoils q after the fact. */
static void build_in_fault(uint8_t *q, int64_t size, uint8_t before) {
  static uint8_t launches;
  if (fault("element"))
    q[size / 2] ^= 1;
  if (fault("guard"))
    q[size] ^= 1;
  if (fault("unwritten"))
    q[size - 1] = before;
  if (fault("random"))
    q[0] = launches++;
  if (fault("rare") && ++launches == 5)
    q[0] ^= 1;
  for (int64_t i = 0; fault("nan") && i < size; i++)
    q[i] |= (q[i] & 0x7F) == 0x7F ? 0x80 : 0;
}

/* ---- Products ---- */

/* A product whose tensors are views of the parameters, for faults to be built into. */
typedef struct {
  moe_ref_tensor_t a, b, sa, sb, offs, out;
  bool is_wgrad;
  float one;
  void *copy; /* of a tensor that a fault changes */
} product_t;

static void drop_scales(product_t *p) {
  p->one = 1;
  p->sa.data = &p->one;
  p->sa.strides[0] = p->sa.strides[1] = 0;
}

/* Every expert gets the matrix, or the scales, of the next one. */
static void swap_experts(product_t *p) {
  moe_ref_tensor_t *tensor = p->is_wgrad ? &p->sb : &p->b;
  size_t size = (size_t)moe_ref_dtype_bits(tensor->dtype) / 8, groups = (size_t)p->offs.shape[0];
  for (int d = 0; d < tensor->rank; d++)
    size *= (size_t)tensor->shape[d];
  p->copy = malloc(size);
  memcpy(p->copy, (uint8_t *)tensor->data + size / groups, size - size / groups);
  memcpy((uint8_t *)p->copy + size - size / groups, tensor->data, size / groups);
  tensor->data = p->copy;
}

/* The last group loses its last `by` tokens. */
static void shorten_last_group(product_t *p, int32_t by) {
  int64_t groups = p->offs.shape[0];
  int32_t *offs = p->copy = malloc((size_t)groups * sizeof *offs);
  memcpy(offs, p->offs.data, (size_t)groups * sizeof *offs);
  int32_t start = groups > 1 ? offs[groups - 2] : 0;
  offs[groups - 1] = offs[groups - 1] - by < start ? start : offs[groups - 1] - by;
  p->offs.data = offs;
}

static void skip_last_group(product_t *p) {
  shorten_last_group(p, INT32_MAX);
}

static void drop_tail(product_t *p) {
  if (p->is_wgrad) {
    shorten_last_group(p, 16);
    return;
  }
  p->a.shape[1] -= 16;
  p->b.shape[1] -= 16;
}

/* The row after the last one is in the guard zone. */
static void shift_rows(product_t *p) {
  p->a.data = (uint8_t *)p->a.data + p->a.strides[0];
}

static const struct {
  const char *name;
  void (*build_in)(product_t *p);
} product_faults[] = {
    {"scales", drop_scales}, {"experts", swap_experts}, {"last_group", skip_last_group},
    {"tail", drop_tail},     {"shifted", shift_rows},
};

static int multiply(bool is_wgrad, void **parameters) {
  int64_t e = *(int64_t *)parameters[6], m = *(int64_t *)parameters[7],
          k = *(int64_t *)parameters[8], n = *(int64_t *)parameters[9];
  void *data[6];
  for (int i = 0; i < 6; i++)
    data[i] = *(void **)parameters[i];
  product_t p = {
      .is_wgrad = is_wgrad,
      .a = {data[0], MOE_REF_E4M3, 2, {is_wgrad ? n : m, is_wgrad ? m : k}, {is_wgrad ? m : k, 1}},
      .offs = {data[4], MOE_REF_I32, 1, {e}, {1}},
  };
  if (is_wgrad) {
    p.b = (moe_ref_tensor_t){data[1], MOE_REF_E4M3, 2, {m, k}, {1, m}};
    p.sa = (moe_ref_tensor_t){data[2], MOE_REF_F32, 2, {e, n}, {n, 1}};
    p.sb = (moe_ref_tensor_t){data[3], MOE_REF_F32, 2, {e, k}, {k, 1}};
    p.out = (moe_ref_tensor_t){data[5], MOE_REF_BF16, 3, {e, n, k}, {n * k, k, 1}};
  } else {
    p.b = (moe_ref_tensor_t){data[1], MOE_REF_E4M3, 3, {e, k, n}, {n * k, 1, k}};
    p.sa = (moe_ref_tensor_t){data[2], MOE_REF_F32, 1, {m}, {1}};
    p.sb = (moe_ref_tensor_t){data[3], MOE_REF_F32, 2, {e, n}, {n, 1}};
    p.out = (moe_ref_tensor_t){data[5], MOE_REF_BF16, 2, {m, n}, {n, 1}};
  }
  for (size_t i = 0; i < sizeof product_faults / sizeof *product_faults; i++)
    if (fault(product_faults[i].name))
      product_faults[i].build_in(&p);
  moe_ref_scaled_mm_t mm = {&p.a, &p.b, &p.sa, &p.sb, &p.offs, &p.out, NULL, false, false};
  int64_t rows = moe_ref_scaled_mm_rows(&mm);
  int status = moe_ref_scaled_mm(&mm, 0, rows);
  int64_t written = is_wgrad ? rows : moe_ref_scaled_mm_tokens(&mm);
  free(p.copy);
  int64_t columns = p.out.shape[p.out.rank - 1];
  uint16_t *out = p.out.data;
  if (fault("zeros"))
    memset(out, 0, (size_t)(written * columns) * sizeof *out);
  if (fault("outside"))
    out[(rows - 1) * columns] = 0xA5A5;
  build_in_fault((uint8_t *)out, rows * columns * 2, 0xA5);
  return status;
}

ENTRY cuOccupancyMaxActiveClusters(int *count, const char *function, const void *config) {
  (void)function, (void)config;
  *count = 1;
  return 0;
}

ENTRY cuLaunchKernelEx(const void *config, const char *function, void **parameters, void **extra) {
  (void)config, (void)extra;
  if (fault("crash"))
    return ILLEGAL_ADDRESS;
  if (!strcmp(function, "forward") || !strcmp(function, "wgrad"))
    return multiply(!strcmp(function, "wgrad"), parameters);
  bool quantize = !strncmp(function, "quantize", strlen("quantize"));
  if (!strcmp(function, "quantize_slow"))
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
  int64_t e = *(int64_t *)parameters[3], n = *(int64_t *)parameters[4],
          k = *(int64_t *)parameters[5];
  moe_ref_tensor_t x = tensor(parameters[quantize ? 0 : 2], MOE_REF_BF16, e, n, k, false);
  moe_ref_tensor_t q = tensor(parameters[quantize ? 1 : 0], MOE_REF_E4M3, e, n, k, true);
  moe_ref_tensor_t scales = tensor(parameters[quantize ? 2 : 1], MOE_REF_E8M0, e, n / 32, k, false);
  if (!quantize)
    return moe_ref_mx_dequantize(&q, &scales, 1, 32, &x);
  uint8_t before = ((uint8_t *)q.data)[e * n * k - 1];
  int status = moe_ref_mx_quantize(&x, 1, 32, MOE_REF_RCEIL, &q, &scales);
  build_in_fault(q.data, e * n * k, before);
  if (!strcmp(function, "quantize_wrong"))
    ((uint8_t *)q.data)[0] ^= 1;
  return status;
}
