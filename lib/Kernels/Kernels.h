/* Kernels.h - the kernels: which one an op has, its schedules, and its code.
 *
 * A kernel's file ends with its definition, one row. Kernels.def lists the definitions.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_KERNELS_H
#define MOE_KERNELS_KERNELS_H

#include "lib/Device/Kernel.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Schedule.h"

#include "mlir-c/IR.h"

#include <stdbool.h>

/* A kernel that is to be built: the outlined function, its only op, and where the kernel goes,
 * under the function's name. */
typedef struct moe__lowering_t {
  MlirOperation function, op;
  MlirBlock gpu_module_body;
  const void *schedule; /* the struct of the definition's kind of schedule */
  const void *layout;   /* what the definition's layout() made of it */
} moe__lowering_t;

/* Starts the kernel, with its layout; and ends it, under the function's name. */
void moe__lowering_begin(const moe__lowering_t *lowering, moe__kernel_t *kernel);
void moe__lowering_end(const moe__lowering_t *lowering, moe__kernel_t *kernel,
                       const moe__expression_t *grid);

#define MOE__MAX_KERNEL_OPS 6

/* What there is to say of a kernel. The functions get an op that has passed moe-verify; those
 * behind has_kernel get one that it has let pass. */
typedef struct moe__kernel_definition_t {
  moe__op_id_t ops[MOE__MAX_KERNEL_OPS]; /* the ops that it computes */
  /* Where several kernels compute an op, whether this one does; NULL: always. The first row of
   * Kernels.def decides. */
  bool (*takes)(MlirOperation op);
  /* Whether the kernel covers this op; else it emits an error that says the way out. */
  bool (*has_kernel)(MlirOperation op);
  const moe__schedule_kind_t *schedule;
  moe__candidates_t (*candidates)(MlirOperation op);
  /* Computes the kernel's layout from its schedule, in a struct of layout_size bytes that starts
   * with a moe__layout_t (lib/Device/Layout.h). False after an error: no kernel has such a
   * schedule. Whether a multiprocessor has room for it is checked after that. */
  size_t layout_size;
  bool (*layout)(MlirOperation op, const void *schedule, void *out);
  /* Builds the kernel. False after an error. */
  bool (*lower)(const moe__lowering_t *lowering);
} moe__kernel_definition_t;

#define MOE_KERNEL(symbol) extern const moe__kernel_definition_t moe__##symbol##_kernel;
#include "lib/Kernels/Kernels.def"
#undef MOE_KERNEL

/* The kernel of an op; NULL where no kernel computes ops of this name. */
const moe__kernel_definition_t *moe__kernel_of(MlirOperation op);

/* Gives the op candidate number `number` as its schedule, the default where it has fewer, unless it
 * has a schedule. */
void moe__kernel_select_schedule(MlirOperation op, int number);

/* Checks that the kernel can have the op's schedule, and writes it with all its fields: one that
 * the source does not give has its value in the default. False after an error. */
bool moe__kernel_complete_schedule(MlirOperation op);

/* The number of candidates of the op that has most of them, among the ops in `module` that have no
 * schedule yet; 1 where all have one. The module has passed moe-verify. */
int moe__kernels_count_candidates(MlirOperation module);

/* Whether a function of the module has an op whose kernel is outlined. */
bool moe__kernels_are_outlined(MlirOperation module);

/* Lowers each outlined function of the module that holds an op of this dialect, and removes the
 * function. False after an error. */
bool moe__lower_kernels(MlirOperation module, const char *dialect);

#endif /* MOE_KERNELS_KERNELS_H */
