/* Passes.c - the tables of the passes, from Passes.def.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Passes.h"

#define MOE_PASS(symbol, argument, summary) {argument, summary},
#define MOE_PASS_OPTION(symbol, name, default_value, description)
const moe_pass_info_t moe__passes[] = {
#include "passes/Passes.def"
};
#undef MOE_PASS
#undef MOE_PASS_OPTION

const size_t moe__num_passes = sizeof moe__passes / sizeof moe__passes[0];

#define MOE_PASS(symbol, argument, summary) moe__pass_##symbol,
#define MOE_PASS_OPTION(symbol, name, default_value, description)
const moe__pass_run_t moe__pass_runs[] = {
#include "passes/Passes.def"
};
#undef MOE_PASS
#undef MOE_PASS_OPTION

/* Numbers the passes, so that an option's row can name its pass. */
enum {
#define MOE_PASS(symbol, argument, summary) PASS_##symbol,
#define MOE_PASS_OPTION(symbol, name, default_value, description)
#include "passes/Passes.def"
#undef MOE_PASS
#undef MOE_PASS_OPTION
};

#define MOE_PASS(symbol, argument, summary)
#define MOE_PASS_OPTION(symbol, name, default_value, description)                                  \
  {PASS_##symbol, name, default_value, description},
const moe_pass_option_info_t moe__pass_options[] = {
#include "passes/Passes.def"
    {0}, /* C has no empty arrays */
};
#undef MOE_PASS
#undef MOE_PASS_OPTION

const size_t moe__num_pass_options = sizeof moe__pass_options / sizeof moe__pass_options[0] - 1;

_Static_assert(sizeof moe__passes / sizeof moe__passes[0] <= MOE__MAX_PASSES, "raise the limit");
