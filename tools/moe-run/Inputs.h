/* Inputs.h - the arguments of a call: their shapes, and data from files or made up.
 *
 * Why it exists: what a file holds is compared with what the function takes here, and nowhere else.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_INPUTS_H
#define MOE_RUN_INPUTS_H

#include "tools/moe-run/Options.h"
#include "tools/moe-run/Tensor.h"

/* Fails where the command line names an argument that the function does not have, or leaves one
 * without data. */
int moe__run_inputs_verify(const moe__run_options_t *options,
                           const moe_rt_function_info_t *function);

/* Fails where --out names a file of the bundle or candidate in `folder`. */
int moe__run_inputs_spare(const moe__run_options_t *options, const char *folder);

/* Lays out call number `index` of the command line and gives its arguments memory and data.
 * moe__run_call_free also after an error. */
int moe__run_inputs_make(const moe__run_options_t *options, const moe_rt_program_t *program,
                         const moe_rt_function_info_t *function, int index,
                         moe__run_call_t *out_call);

#endif /* MOE_RUN_INPUTS_H */
