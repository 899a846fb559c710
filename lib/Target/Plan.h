/* Plan.h - the launch plan of a function, as the manifest tells it: its tensors, their shapes, and
 * the launches.
 *
 * A shape is a list of expressions of the manifest, over the shape symbols of the function: the
 * dynamic dimensions of its arguments. Where two sizes must be one, Symbols.c puts one symbol, or
 * an expression, in the place of another in all shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TARGET_PLAN_H
#define MOE_TARGET_PLAN_H

#include "lib/Builder/Views.h"
#include "lib/Device/Record.h"

#include <jansson.h>
#include <stddef.h>

/* An argument, a result, or a temporary: what one launch hands to another, state of kernels, the
 * status word. */
typedef struct moe__plan_tensor_t {
  MlirValue value; /* null: what all launches share */
  MlirType type;
  char *name;
  json_t *shape;
  bool zeroed;   /* the launcher zeroes it once */
  bool constant; /* MOE__CONSTANT, of an argument */
} moe__plan_tensor_t;

typedef struct moe__plan_launch_t {
  MlirOperation op;
  MlirStringRef kernel;
  moe__record_t record;
} moe__plan_launch_t;

typedef struct moe__plan_t {
  MlirOperation function, returns;
  json_t *symbols;             /* list of {name, multiple_of, min, max} */
  moe__plan_tensor_t *tensors; /* the arguments, then what launches make, in their order */
  size_t argument_count, tensor_count;
  moe__plan_launch_t *launches;
  size_t launch_count;
  /* Names of what all launches share, NULL where no kernel has it: the status word, and the
   * counters by which the CTAs of a launch share their work, the sums that they hand on, and the
   * words that say which ones are there. */
  const char *status, *counters, *partials, *arrivals;
} moe__plan_t;

/* Reads a function of the module. Emits an error and returns false where nothing can launch it.
 * moe__plan_destroy comes after it, also where it failed. */
bool moe__plan_read(MlirOperation module, MlirOperation function, moe__plan_t *out);
void moe__plan_destroy(moe__plan_t *plan);

/* Whether the function returns the value. */
bool moe__plan_returns(const moe__plan_t *plan, MlirValue value);

moe__plan_tensor_t *moe__plan_tensor(moe__plan_t *plan, MlirValue value);

/* Tensor number n of a launch: its operands, then its results. An operand may be a view:
 * dimension i of it is dimension out->at[i] of the tensor. */
moe__plan_tensor_t *moe__plan_viewed_tensor(moe__plan_t *plan, MlirOperation launch, int n,
                                            moe__permutation_t *out);

/* The same where the order of its dimensions does not matter. */
moe__plan_tensor_t *moe__plan_launch_tensor(moe__plan_t *plan, MlirOperation launch, int n);

/* The size of a dimension of a tensor of the launch; borrowed. */
json_t *moe__plan_size(moe__plan_t *plan, MlirOperation launch, const moe__dim_t *dim);

/* The names of what all launches share, which is added where it is first asked for. */
const char *moe__plan_status(moe__plan_t *plan);
const char *moe__plan_counters(moe__plan_t *plan);
const char *moe__plan_partials(moe__plan_t *plan);
const char *moe__plan_arrivals(moe__plan_t *plan);

#endif /* MOE_TARGET_PLAN_H */
