/* Options.h - the command line of moe-run, parsed.
 *
 * Why it exists: everything that can be judged without reading a file is judged before any work
 * starts.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_OPTIONS_H
#define MOE_RUN_OPTIONS_H

#include "moe/runtime.h"

/* --in ARGUMENT=FILE[:TENSOR] */
typedef struct moe__run_input_t {
  char *argument, *file; /* owned */
  const char *tensor;    /* NULL: not given */
} moe__run_input_t;

typedef struct moe__run_shape_t {
  int rank;
  int64_t sizes[MOE_RT_MAX_RANK];
} moe__run_shape_t;

/* --shape ARGUMENT=SHAPE[,SHAPE...] */
typedef struct moe__run_shape_list_t {
  char *argument;           /* owned */
  moe__run_shape_t *shapes; /* owned */
  int count;
} moe__run_shape_list_t;

/* --groups: how random offsets cut tokens into groups. */
typedef enum moe__run_groups_t {
  MOE__RUN_GROUPS_EQUAL,
  MOE__RUN_GROUPS_RAGGED,
  MOE__RUN_GROUPS_EDGE,
  MOE__RUN_GROUPS_ONE,
  MOE__RUN_GROUPS_NONE,
  MOE__RUN_GROUPS_DECREASING, /* these two are mistakes that kernels report */
  MOE__RUN_GROUPS_BEYOND
} moe__run_groups_t;

typedef enum moe__run_mode_t {
  MOE__RUN_RUN,
  MOE__RUN_CHECK,
  MOE__RUN_BENCH,
  MOE__RUN_TUNE,
  MOE__RUN_CONTENTS, /* say what the bundle holds */
} moe__run_mode_t;

typedef struct moe__run_options_t {
  moe__run_mode_t mode;
  const char *bundle;   /* for MOE__RUN_TUNE a folder of them */
  const char *function; /* NULL: the only one */
  const char *out;      /* NULL: none */
  const char *device;   /* "auto", "reference", "emu", "cuda" or "cuda:N" */
  moe__run_input_t *inputs;
  int input_count;
  moe__run_shape_list_t *shapes;
  int shape_count; /* arguments with --shape */
  int case_count;  /* calls to make: the length of the lists of shapes */
  bool edge_blocks, json;
  bool exact, one_hot, normal, nan_groups; /* one_hot: products are exact too */
  moe__run_groups_t groups;
  bool groups_given;
  uint64_t seed, schedule;
  bool seed_given;
  uint64_t step_limit; /* instructions of all warps of a cluster together; 0: none */
  int threads, repeat, runs;
} moe__run_options_t;

/* Parses the command line. Ends the process after --help and --version, and with MOE__RUN_USAGE
 * where it is wrong. */
void moe__run_options_parse(int argc, char **argv, moe__run_options_t *out_options);
void moe__run_options_free(moe__run_options_t *options);

/* What was given for an argument, NULL if nothing was. */
const moe__run_input_t *moe__run_options_input(const moe__run_options_t *options,
                                               const char *argument);
/* Of its list of shapes, the one of case number `index`. */
const moe__run_shape_t *moe__run_options_shape(const moe__run_options_t *options,
                                               const char *argument, int index);

#endif /* MOE_RUN_OPTIONS_H */
