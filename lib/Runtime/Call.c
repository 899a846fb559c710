/* Call.c - a call whose tensors stay where they are: prepared once, launched often.
 *
 * All that a launch needs is computed and checked once; launching again is a loop over ready
 * structs.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Plan.h"

#include <stdlib.h>

struct moe_rt_call_t {
  moe_rt_device_t *device; /* borrowed */
  moe__rt_plan_t *plan;
  void *workspace; /* NULL where there are no temporaries */
  uint64_t status; /* address of the status word; 0: there is none */
  void *frame;
  moe__rt_ready_launch_t *launches; /* in the frame */
};

/* Allocates the workspace and zeroes what starts as zero. Done when it returns: a launch may be on
 * any stream. */
static moe_rt_status_t make_workspace(moe_rt_call_t *call) {
  const moe__rt_plan_t *plan = call->plan;
  moe_rt_device_t *device = call->device;
  if (plan->workspace_bytes == 0)
    return MOE_RT_OK;
  MOE__RT_TRY(device->backend->allocate(device, (size_t)plan->workspace_bytes, &call->workspace));
  char *workspace = call->workspace;
  if (plan->function->status >= 0)
    call->status = (uint64_t)(uintptr_t)(workspace + plan->status_offset);
  int64_t bytes = plan->workspace_bytes - plan->zero_begin;
  if (bytes == 0)
    return MOE_RT_OK;
  MOE__RT_TRY(device->backend->fill(device, workspace + plan->zero_begin, 0, (size_t)bytes, NULL));
  return device->backend->stream_synchronize(device, NULL);
}

static moe_rt_status_t prepare(const moe_rt_program_t *program, const moe__rt_function_t *function,
                               const DLTensor *const *tensors, int tensor_count,
                               moe_rt_call_t *call) {
  MOE__RT_TRY(moe__rt_device_check(call->device));
  MOE__RT_TRY(moe__rt_tensors_check_kinds(call->device, function, tensors, tensor_count,
                                          moe__rt_given_count(function)));
  MOE__RT_TRY(moe__rt_plan_make(program, function, tensors, &call->plan));
  moe__rt_places_t places;
  MOE__RT_TRY(
      moe__rt_tensors_check_addresses(function, tensors, call->plan->bytes, places.addresses));
  moe_rt_status_t status = make_workspace(call);
  if (status != MOE_RT_OK)
    return status == MOE_RT_DEVICE_LOST ? status : moe__rt_fail_in(status, "workspace");
  places.workspace = (uint64_t)(uintptr_t)call->workspace;
  places.status = call->status;
  call->frame = aligned_alloc(_Alignof(moe__rt_encoded_map_t), moe__rt_frame_bytes(call->plan));
  if (!call->frame)
    return moe__rt_fail_memory();
  return moe__rt_frame_fill(call->device, call->plan, &places, NULL, call->frame, &call->launches);
}

moe_rt_status_t moe_rt_call_prepare(const moe_rt_program_t *program,
                                    const moe_rt_function_info_t *function,
                                    const DLTensor *const *tensors, int tensor_count,
                                    moe_rt_call_t **out_call) {
  if (!out_call)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_call is NULL", __func__);
  *out_call = NULL;
  const moe__rt_function_t *found = moe__rt_program_function(program, function);
  if (!found)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: function is not of this program", __func__);
  if (!program->device) {
    return moe__rt_fail(MOE_RT_NOT_PREPARED,
                        "%s: the program is not on a device; moe_rt_program_load puts it there",
                        __func__);
  }
  moe_rt_call_t *call = calloc(1, sizeof *call);
  if (!call)
    return moe__rt_fail_memory();
  call->device = program->device;
  moe_rt_status_t status = prepare(program, found, tensors, tensor_count, call);
  if (status != MOE_RT_OK) {
    moe_rt_call_destroy(call);
    return status == MOE_RT_DEVICE_LOST ? moe__rt_device_check(program->device)
                                        : moe__rt_fail_in(status, "function '%s'", function->name);
  }
  *out_call = call;
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_call_launch(const moe_rt_call_t *call, void *stream) {
  if (!call)
    return moe__rt_fail(MOE_RT_NOT_PREPARED, "%s: call is NULL", __func__);
  MOE__RT_TRY(moe__rt_device_check(call->device));
  return moe__rt_frame_launch(call->device, call->launches, call->plan->launch_count, stream);
}

/* Whether a part of the workspace is zero. */
static moe_rt_status_t is_zero(const moe_rt_call_t *call, int64_t offset, int64_t bytes,
                               bool *out_is_zero) {
  unsigned char *copy = malloc((size_t)bytes + 1);
  if (!copy)
    return moe__rt_fail_memory();
  moe_rt_device_t *device = call->device;
  moe_rt_status_t status =
      device->backend->from_device(device, copy, (char *)call->workspace + offset, (size_t)bytes);
  *out_is_zero = true;
  for (int64_t i = 0; i < bytes && status == MOE_RT_OK; i++)
    *out_is_zero &= copy[i] == 0;
  free(copy);
  return status;
}

moe_rt_status_t moe_rt_call_check_zeroed(const moe_rt_call_t *call, void *stream,
                                         const char **out_name, int *out_count) {
  if (!out_name || !out_count)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_name or out_count is NULL", __func__);
  *out_name = NULL;
  *out_count = 0;
  if (!call)
    return moe__rt_fail(MOE_RT_NOT_PREPARED, "%s: call is NULL", __func__);
  const moe__rt_plan_t *plan = call->plan;
  const moe__rt_function_t *function = plan->function;
  MOE__RT_TRY(call->device->backend->stream_synchronize(call->device, stream));
  for (int t = 0; t < function->tensor_count; t++) {
    bool is_clean = true;
    if (!function->tensors[t].is_zeroed || t == function->status)
      continue;
    ++*out_count;
    if (plan->bytes[t])
      MOE__RT_TRY(is_zero(call, plan->offsets[t], plan->bytes[t], &is_clean));
    if (!is_clean && !*out_name)
      *out_name = function->tensors[t].info->name;
  }
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_call_status(const moe_rt_call_t *call, void *stream, uint32_t *out_bits) {
  if (!out_bits)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_bits is NULL", __func__);
  *out_bits = 0;
  if (!call)
    return moe__rt_fail(MOE_RT_NOT_PREPARED, "%s: call is NULL", __func__);
  return moe__rt_device_take_status(call->device, (void *)(uintptr_t)call->status, stream,
                                    out_bits);
}

void moe_rt_call_destroy(moe_rt_call_t *call) {
  if (!call)
    return;
  if (call->workspace)
    call->device->backend->free(call->device, call->workspace);
  free(call->frame);
  moe__rt_plan_destroy(call->plan);
  free(call);
}
