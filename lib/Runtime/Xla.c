/* Xla.c - runs a function on the buffers of XLA, which JAX compiles to.
 *
 * Why it exists: XLA calls a C function with a struct of pointers and links nothing. One handler
 * serves all functions: two attributes, `bundle` and `function`, name the folder and the
 * function in it.
 *
 * XLA has no strides. Its buffers come with logical sizes, and whoever calls declares the order
 * in memory that the manifest gives as the layout of each buffer.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Status.h"
#include "moe/limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xla/ffi/api/c_api.h>

/* ---- Programs by folder, which live as long as the process ---- */

typedef struct entry_t {
  char *path;
  moe_rt_program_t *program;
  struct entry_t *next;
} entry_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry_t *entries;

static moe_rt_status_t open_locked(const char *path, const moe_rt_program_t **out_program) {
  for (entry_t *entry = entries; entry; entry = entry->next) {
    if (strcmp(entry->path, path) == 0) {
      *out_program = entry->program;
      return MOE_RT_OK;
    }
  }
  entry_t *entry = calloc(1, sizeof *entry);
  char *copy = strdup(path);
  if (!entry || !copy) {
    free(copy);
    free(entry);
    return moe__rt_fail_memory();
  }
  moe_rt_status_t status = moe_rt_program_read(path, &entry->program);
  if (status != MOE_RT_OK) {
    free(copy);
    free(entry);
    return status;
  }
  entry->path = copy;
  entry->next = entries;
  entries = entry;
  *out_program = entry->program;
  return MOE_RT_OK;
}

static moe_rt_status_t open_program(const char *path, const moe_rt_program_t **out_program) {
  pthread_mutex_lock(&lock);
  moe_rt_status_t status = open_locked(path, out_program);
  pthread_mutex_unlock(&lock);
  return status;
}

/* ---- What XLA gives ---- */

/* The string attribute `name` as a C string that the caller frees. */
static char *string_attribute(const XLA_FFI_Attrs *attributes, const char *name) {
  for (int64_t i = 0; i < attributes->size; i++) {
    const XLA_FFI_ByteSpan *key = attributes->names[i];
    if (key->len != strlen(name) || memcmp(key->ptr, name, key->len) != 0 ||
        attributes->types[i] != XLA_FFI_AttrType_STRING)
      continue;
    const XLA_FFI_ByteSpan *value = attributes->attrs[i];
    return strndup(value->ptr, value->len);
  }
  return NULL;
}

static DLDataType dlpack_type(XLA_FFI_DataType type) {
  static const struct {
    XLA_FFI_DataType xla;
    DLDataType dlpack;
  } types[] = {
      {XLA_FFI_DataType_BF16, {kDLBfloat, 16, 1}},
      {XLA_FFI_DataType_F16, {kDLFloat, 16, 1}},
      {XLA_FFI_DataType_F32, {kDLFloat, 32, 1}},
      {XLA_FFI_DataType_S32, {kDLInt, 32, 1}},
      {XLA_FFI_DataType_U8, {kDLUInt, 8, 1}},
      {XLA_FFI_DataType_F8E4M3FN, {kDLFloat8_e4m3fn, 8, 1}},
      {XLA_FFI_DataType_F8E5M2, {kDLFloat8_e5m2, 8, 1}},
      {XLA_FFI_DataType_F8E8M0FNU, {kDLFloat8_e8m0fnu, 8, 1}},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].xla == type)
      return types[i].dlpack;
  return (DLDataType){0}; /* of no bits, which the runtime refuses */
}

/* A buffer as the tensor that the function wants there. */
typedef struct view_t {
  DLTensor tensor;
  int64_t strides[MOE_RT_MAX_RANK];
} view_t;

static moe_rt_status_t view(const moe_rt_tensor_info_t *info, const XLA_FFI_Buffer *buffer,
                            DLDevice device, view_t *out) {
  if (buffer->rank != info->rank) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "'%s' has rank %lld; it must be %d", info->name,
                        (long long)buffer->rank, info->rank);
  }
  int64_t step = 1;
  for (int i = info->rank - 1; i >= 0; i--) {
    out->strides[info->order[i]] = step;
    step *= buffer->dims[info->order[i]];
  }
  out->tensor = (DLTensor){.data = buffer->data,
                           .device = device,
                           .ndim = info->rank,
                           .dtype = dlpack_type(buffer->dtype),
                           .shape = buffer->dims,
                           .strides = out->strides};
  return MOE_RT_OK;
}

/* ---- The call ---- */

static moe_rt_status_t run_on(const moe_rt_program_t *program,
                              const moe_rt_function_info_t *function,
                              const XLA_FFI_CallFrame *frame, DLDevice device, void *stream) {
  int arguments = function->argument_count;
  int count = arguments + function->result_count;
  if (frame->args.size != arguments || frame->rets.size != function->result_count) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "function '%s': %lld arguments and %lld results; it has %d and %d",
                        function->name, (long long)frame->args.size, (long long)frame->rets.size,
                        arguments, function->result_count);
  }
  view_t views[MOE_MAX_TENSORS];
  const DLTensor *tensors[MOE_MAX_TENSORS];
  for (int i = 0; i < count; i++) {
    bool is_argument = i < arguments;
    const moe_rt_tensor_info_t *info =
        is_argument ? &function->arguments[i] : &function->results[i - arguments];
    const XLA_FFI_Buffer *buffer =
        is_argument ? frame->args.args[i] : frame->rets.rets[i - arguments];
    moe_rt_status_t status = view(info, buffer, device, &views[i]);
    if (status != MOE_RT_OK)
      return moe__rt_fail_in(status, "function '%s'", function->name);
    tensors[i] = &views[i].tensor;
  }
  /* XLA may have made any argument by the kernel before. */
  return moe_rt_call_run_in_order(program, function, tensors, count, NULL, stream);
}

static moe_rt_status_t run(const XLA_FFI_CallFrame *frame, DLDevice device, void *stream) {
  char *path = string_attribute(&frame->attrs, "bundle");
  char *name = string_attribute(&frame->attrs, "function");
  const moe_rt_program_t *program = NULL;
  const moe_rt_function_info_t *function = NULL;
  moe_rt_status_t status =
      path && name ? open_program(path, &program)
                   : moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                                  "the call has no string attributes 'bundle' and 'function'");
  if (status == MOE_RT_OK)
    status = moe_rt_program_find(program, name, &function);
  if (status == MOE_RT_OK)
    status = run_on(program, function, frame, device, stream);
  free(path);
  free(name);
  return status;
}

static XLA_FFI_Error_Code error_code(moe_rt_status_t status) {
  switch (status) {
  case MOE_RT_INVALID_ARGUMENT:
    return XLA_FFI_Error_Code_INVALID_ARGUMENT;
  case MOE_RT_NOT_FOUND:
    return XLA_FFI_Error_Code_NOT_FOUND;
  case MOE_RT_OUT_OF_MEMORY:
    return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
  case MOE_RT_UNSUPPORTED:
    return XLA_FFI_Error_Code_UNIMPLEMENTED;
  case MOE_RT_NOT_PREPARED:
    return XLA_FFI_Error_Code_FAILED_PRECONDITION;
  default:
    return XLA_FFI_Error_Code_INTERNAL;
  }
}

static XLA_FFI_Error *to_error(const XLA_FFI_Api *api, moe_rt_status_t status) {
  if (status == MOE_RT_OK)
    return NULL;
  XLA_FFI_Error_Create_Args error = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                     .message = moe_rt_last_message(),
                                     .errc = error_code(status)};
  return api->XLA_FFI_Error_Create(&error);
}

/* XLA asks a handler once which version of the interface it was compiled for. */
static bool answers_metadata(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Extension_Base *extension = frame->extension_start;
  if (!extension || extension->type != XLA_FFI_Extension_Metadata)
    return false;
  XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  metadata->traits = 0;
  return true;
}

void *moe_rt_xla_cpu(void *call_frame) {
  XLA_FFI_CallFrame *frame = call_frame;
  if (answers_metadata(frame) || frame->stage != XLA_FFI_ExecutionStage_EXECUTE)
    return NULL;
  return to_error(frame->api, run(frame, (DLDevice){kDLCPU, 0}, NULL));
}

void *moe_rt_xla_cuda(void *call_frame) {
  XLA_FFI_CallFrame *frame = call_frame;
  if (answers_metadata(frame) || frame->stage != XLA_FFI_ExecutionStage_EXECUTE)
    return NULL;
  XLA_FFI_Stream_Get_Args stream = {.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE,
                                    .ctx = frame->ctx};
  XLA_FFI_Error *error = frame->api->XLA_FFI_Stream_Get(&stream);
  if (error)
    return error;
  XLA_FFI_DeviceOrdinal_Get_Args ordinal = {
      .struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, .ctx = frame->ctx};
  error = frame->api->XLA_FFI_DeviceOrdinal_Get(&ordinal);
  if (error)
    return error;
  DLDevice device = {kDLCUDA, ordinal.device_ordinal};
  return to_error(frame->api, run(frame, device, stream.stream));
}
