/* Kernels.c - see Kernels.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Kernels.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Layout.h"
#include "lib/Dialect/Dialect.h"

#include <ctype.h>
#include <stdlib.h>

static const moe__kernel_definition_t *const DEFINITIONS[] = {
#define MOE_KERNEL(symbol) &moe__##symbol##_kernel,
#include "lib/Kernels/Kernels.def"
#undef MOE_KERNEL
};

static bool computes(const moe__kernel_definition_t *kernel, MlirOperation op) {
  for (int i = 0; i < MOE__MAX_KERNEL_OPS && kernel->ops[i]; i++)
    if (moe__is(op, kernel->ops[i]))
      return !kernel->takes || kernel->takes(op);
  return false;
}

const moe__kernel_definition_t *moe__kernel_of(MlirOperation op) {
  for (size_t i = 0; i < sizeof DEFINITIONS / sizeof DEFINITIONS[0]; i++)
    if (computes(DEFINITIONS[i], op))
      return DEFINITIONS[i];
  return NULL;
}

/* ---- Schedules ---- */

static void *allocate(size_t size) {
  void *memory = calloc(1, size);
  if (!memory)
    abort();
  return memory;
}

static bool has_schedule(MlirOperation op) {
  return !mlirAttributeIsNull(moe__op_attribute(op, "schedule"));
}

void moe__kernel_select_schedule(MlirOperation op, int number) {
  const moe__kernel_definition_t *kernel = moe__kernel_of(op);
  if (has_schedule(op))
    return;
  void *schedule = allocate(kernel->schedule->size);
  moe__schedule_candidate(kernel->schedule, kernel->candidates(op), number, schedule);
  moe__schedule_write(op, kernel->schedule, schedule);
  free(schedule);
}

/* Reads the op's schedule, whose fields have the values of the default where they are not given,
 * and lays the kernel out. */
static bool plan(const moe__kernel_definition_t *kernel, MlirOperation op, void *out_schedule,
                 void *out_layout) {
  moe__schedule_candidate(kernel->schedule, kernel->candidates(op), 0, out_schedule);
  return moe__schedule_read(op, kernel->schedule, out_schedule) &&
         kernel->layout(op, out_schedule, out_layout) && moe__layout_fits(op, out_layout);
}

bool moe__kernel_complete_schedule(MlirOperation op) {
  const moe__kernel_definition_t *kernel = moe__kernel_of(op);
  void *schedule = allocate(kernel->schedule->size), *layout = allocate(kernel->layout_size);
  bool ok = plan(kernel, op, schedule, layout);
  if (ok)
    moe__schedule_write(op, kernel->schedule, schedule);
  free(schedule);
  free(layout);
  return ok;
}

static bool count_candidates(MlirOperation op, void *user) {
  int *count = user;
  const moe__kernel_definition_t *kernel = moe__kernel_of(op);
  int of_op = kernel && !has_schedule(op) ? kernel->candidates(op).count : 0;
  *count = of_op > *count ? of_op : *count;
  return true;
}

int moe__kernels_count_candidates(MlirOperation module) {
  int count = 1;
  moe__walk(module, count_candidates, &count);
  return count;
}

static bool is_no_launch(MlirOperation op) {
  return !moe__is_launch(op);
}

static bool has_no_launch(MlirBlock body) {
  return moe__walk_block(body, is_no_launch);
}

bool moe__kernels_are_outlined(MlirOperation module) {
  return !moe__walk_functions(module, has_no_launch);
}

/* ---- Lowering ---- */

/* moe-outline-kernels names kernels so; other names may have been written by hand. */
static bool is_identifier(MlirStringRef name) {
  bool ok = name.length > 0 && isalpha((unsigned char)name.data[0]);
  for (size_t i = 0; i < name.length; i++)
    ok &= isalnum((unsigned char)name.data[i]) || name.data[i] == '_';
  return ok;
}

static bool lower(const moe__kernel_definition_t *kernel, MlirOperation function, MlirOperation op,
                  MlirBlock gpu_module_body) {
  if (!is_identifier(moe__symbol(function)))
    return moe__error(function, "a kernel's name must be a letter, then letters, digits and _");
  void *schedule = allocate(kernel->schedule->size), *layout = allocate(kernel->layout_size);
  /* The op and its schedule may have been written by hand. */
  bool ok = kernel->has_kernel(op) && plan(kernel, op, schedule, layout) &&
            kernel->lower(&(moe__lowering_t){.function = function,
                                             .op = op,
                                             .gpu_module_body = gpu_module_body,
                                             .schedule = schedule,
                                             .layout = layout});
  free(schedule);
  free(layout);
  return ok;
}

static bool lower_gpu_module(MlirOperation gpu_module, const char *dialect) {
  MlirBlock body = moe__body(gpu_module);
  for (MlirOperation next, function = mlirBlockGetFirstOperation(body);
       !mlirOperationIsNull(function); function = next) {
    next = mlirOperationGetNextInBlock(function);
    if (!moe__op_is(function, "func.func") || mlirBlockIsNull(moe__body(function)))
      continue;
    MlirOperation op = mlirBlockGetFirstOperation(moe__body(function));
    const moe__kernel_definition_t *kernel =
        moe__op_in_dialect(op, dialect) ? moe__kernel_of(op) : NULL;
    if (!kernel)
      continue;
    if (!lower(kernel, function, op, body))
      return false;
    mlirOperationDestroy(function);
  }
  return true;
}

void moe__lowering_begin(const moe__lowering_t *lowering, moe__kernel_t *kernel) {
  moe__kernel_begin(kernel, mlirOperationGetContext(lowering->op),
                    mlirOperationGetLocation(lowering->op), lowering->layout);
}

void moe__lowering_end(const moe__lowering_t *lowering, moe__kernel_t *kernel,
                       const moe__expression_t *grid) {
  moe__kernel_end(kernel, lowering->gpu_module_body, moe__symbol(lowering->function), grid);
}

bool moe__lower_kernels(MlirOperation module, const char *dialect) {
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(module)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (moe__op_is(op, "gpu.module") && !lower_gpu_module(op, dialect))
      return false;
  return true;
}
