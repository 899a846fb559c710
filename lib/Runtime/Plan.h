/* Plan.h - what a call launches, as far as shapes decide it, and a frame: the same with addresses.
 *
 * A step of training brings the same shapes at other addresses. The plan is made and checked once
 * for the shapes; a frame is filled for the addresses, in memory of the caller.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_PLAN_H
#define MOE_RUNTIME_PLAN_H

#include "lib/Runtime/MapCache.h"
#include "lib/Runtime/Tensors.h"

typedef struct moe__rt_plan_t {
  moe__rt_arena_t arena;
  const moe__rt_function_t *function;
  uint64_t first_key;    /* the key of its first map in a cache; no other plan has its keys */
  int64_t *bytes;        /* of each tensor of the function */
  int64_t *offsets;      /* of each tensor of the function: of a temporary, in the workspace */
  int64_t zero_begin;    /* what starts as zero lies from here to the status word */
  int64_t status_offset; /* where the status word would lie; the workspace without one ends here */
  int64_t workspace_bytes;                     /* with the status word */
  struct moe__rt_plan_parameter_t *parameters; /* of all launches, one after the other */
  uint32_t *parameter_bytes;                   /* parallel */
  moe__rt_tensor_map_t *maps;                  /* without addresses */
  moe__rt_ready_buffer_t *buffers;             /* of all launches, without addresses */
  int *buffer_tensors;                         /* parallel */
  moe__rt_ready_launch_t *launches; /* but for parameters and buffers, which a frame has */
  int launch_count, parameter_count, map_count, buffer_count;
} moe__rt_plan_t;

/* Makes the plan of tensors that have passed moe__rt_tensors_check_kinds; checks their shapes.
 * Freed with moe__rt_plan_destroy. */
moe_rt_status_t moe__rt_plan_make(const moe_rt_program_t *program,
                                  const moe__rt_function_t *function,
                                  const DLTensor *const *tensors, moe__rt_plan_t **out_plan);

/* NULL is allowed. */
void moe__rt_plan_destroy(moe__rt_plan_t *plan);

/* The workspace of a function whose tensors have these bytes: offsets of the temporaries, those
 * that start as zero behind the others, the status word behind all. */
typedef struct moe__rt_workspace_layout_t {
  int64_t zero_begin, status_offset, bytes;
} moe__rt_workspace_layout_t;

moe_rt_status_t moe__rt_workspace_lay_out(const moe__rt_function_t *function, const int64_t *bytes,
                                          int64_t *out_offsets, moe__rt_workspace_layout_t *out);

/* Where the tensors of a frame are. */
typedef struct moe__rt_places_t {
  uint64_t addresses[MOE__RT_MAX_TENSORS]; /* of arguments and results; the rest is set here */
  uint64_t workspace;
  uint64_t status; /* of the status word */
} moe__rt_places_t;

/* How much memory a frame of the plan takes. */
size_t moe__rt_frame_bytes(const moe__rt_plan_t *plan);

/* Fills a frame in `memory`, which is aligned as moe__rt_encoded_map_t is: the plan's launches,
 * ready. The frame ends with plan, memory and cache whatever comes first; maps come from the
 * cache, or are made anew where it is NULL. */
moe_rt_status_t moe__rt_frame_fill(moe_rt_device_t *device, const moe__rt_plan_t *plan,
                                   moe__rt_places_t *places, moe__rt_map_cache_t *cache,
                                   void *memory, moe__rt_ready_launch_t **out_launches);

/* Launches a frame on a stream. */
moe_rt_status_t moe__rt_frame_launch(moe_rt_device_t *device,
                                     const moe__rt_ready_launch_t *launches, int count,
                                     void *stream);

#endif /* MOE_RUNTIME_PLAN_H */
