/* Pass.h - what a pass of moe-opt is, for the passes and for the driver that runs them.
 *
 * Why a room of its own: the driver runs passes that it does not name, and the passes know no
 * driver.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASS_PASS_H
#define MOE_PASS_PASS_H

#include "moe/compiler.h"

#include <mlir-c/IR.h>
#include <stdbool.h>

/* One instance of a pass in a pipeline, with the values of its options. */
typedef struct moe__pass_t moe__pass_t;

/* The value of an option: as given, or the default of Passes.def. Never NULL. The name must be one
 * of Passes.def's. */
const char *moe__pass_option(const moe__pass_t *pass, const char *name);

/* Runs the pass over a builtin.module. A pass leaves alone what is already lowered, so that the
 * output of every stage can be fed back in. False: the pass has reported why with mlirEmitError,
 * and the input is at fault. True: the module is valid again; an invalid one is a bug of the pass
 * and is reported as such. */
typedef bool (*moe__pass_run_t)(MlirOperation module, const moe__pass_t *pass);

/* The tables of the passes, which passes/Passes.c defines; run number i is that of pass number
 * i. */
#define MOE__MAX_PASSES 64
extern const moe_pass_info_t moe__passes[];
extern const size_t moe__num_passes;
extern const moe__pass_run_t moe__pass_runs[];
extern const moe_pass_option_info_t moe__pass_options[];
extern const size_t moe__num_pass_options;

#endif /* MOE_PASS_PASS_H */
