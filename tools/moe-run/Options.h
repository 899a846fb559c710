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
typedef struct moe__input_t {
  char *argument, *file; /* owned */
  const char *tensor;    /* NULL: not given */
} moe__input_t;

typedef struct moe__shape_t {
  int rank;
  int64_t sizes[MOE_RT_MAX_RANK];
} moe__shape_t;

/* --shape ARGUMENT=SHAPE[,SHAPE...] */
typedef struct moe__shape_list_t {
  char *argument;       /* owned */
  moe__shape_t *shapes; /* owned */
  int count;
} moe__shape_list_t;

/* --groups: how random offsets cut tokens into groups. */
typedef enum moe__groups_t {
  MOE__GROUPS_EQUAL,
  MOE__GROUPS_RAGGED,
  MOE__GROUPS_EDGE,
  MOE__GROUPS_ONE,
  MOE__GROUPS_NONE
} moe__groups_t;

typedef enum moe__mode_t { MOE__RUN, MOE__CHECK, MOE__BENCH, MOE__TUNE } moe__mode_t;

typedef struct moe__options_t {
  moe__mode_t mode;
  const char *bundle;   /* for MOE__TUNE a folder of them */
  const char *function; /* NULL: the only one */
  const char *out;      /* NULL: none */
  const char *device;   /* "auto", "reference", "emu", "cuda" or "cuda:N" */
  moe__input_t *inputs;
  int input_count;
  moe__shape_list_t *shapes;
  int shape_count; /* arguments with --shape */
  int case_count;  /* calls to make: the length of the lists of shapes */
  bool random, edge_blocks, json;
  bool exact, one_hot, normal, nan_groups; /* one_hot: products are exact too */
  moe__groups_t groups;
  bool groups_given;
  uint64_t seed, schedule;
  int time_limit; /* seconds; 0: none */
  int threads, repeat, runs;
} moe__options_t;

/* Parses the command line. Ends the process after --help and --version, and with MOE__USAGE where
 * it is wrong. */
void moe__options_parse(int argc, char **argv, moe__options_t *out_options);
void moe__options_free(moe__options_t *options);

/* What was given for an argument, NULL if nothing was. */
const moe__input_t *moe__options_input(const moe__options_t *options, const char *argument);
/* Of its list of shapes, the one of case number `index`. */
const moe__shape_t *moe__options_shape(const moe__options_t *options, const char *argument,
                                       int index);

#endif /* MOE_RUN_OPTIONS_H */
