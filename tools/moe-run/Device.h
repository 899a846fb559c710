/* Device.h - where a call runs, and its tensors there.
 *
 * Why it exists: a plain run, a check and a benchmark all need the same buffers, guarded against a
 * kernel that writes past them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_DEVICE_H
#define MOE_RUN_DEVICE_H

#include "tools/moe-run/Options.h"
#include "tools/moe-run/Tensor.h"

/* A program and where it runs. */
typedef struct moe__run_target_t {
  moe_rt_device_t *device; /* NULL: the C reference */
  moe_rt_program_t *program;
  moe_rt_device_info_t info; /* of the device */
  bool is_emulator;
  bool is_fallback; /* the emulator, for want of a device that was looked for */
  int threads;      /* of the emulator */
  char name[32];    /* "cuda:0", "emu" or "reference" */
  char words[320];  /* "cuda:0 (NVIDIA H200, cubin)" or "the C reference" */
} moe__run_target_t;

/* Opens the device that the options name and reads their bundle. For "auto" without a CUDA
 * device that can run it: the emulator, with a note; where time is measured that is an error.
 * moe__run_target_close also after an error. */
int moe__run_target_open(const moe__run_options_t *options, moe__run_target_t *out_target);
void moe__run_target_close(moe__run_target_t *target);

/* The function of a program that --function names, or the only one. Errors begin with `path`, that
 * of the bundle, where it is not NULL. */
int moe__run_find_function(const moe__run_options_t *options, const moe_rt_program_t *program,
                           const char *path, const moe_rt_function_info_t **out);

/* A call on a device: the arguments are copied there; each result lies between two guard zones. */
typedef struct moe__run_device_call_t {
  const moe__run_target_t *target; /* borrowed */
  const moe__run_call_t *host;     /* borrowed */
  void **bases; /* per argument, then per result: guard zone, tensor, guard zone */
  void *stream;
  moe_rt_call_t *prepared;
  double expected;  /* seconds of a run on the emulator, roughly */
  uint8_t guard;    /* the byte that guard zones hold */
  uint32_t reports; /* bits of moe_rt_report_t, of all runs */
} moe__run_device_call_t;

/* Allocates, copies the arguments and prepares the call. moe__run_device_call_free also after an
 * error. */
int moe__run_device_call_make(const moe__run_target_t *target, const moe__run_call_t *host,
                              moe__run_device_call_t *out_call);
void moe__run_device_call_free(moe__run_device_call_t *call);

/* Prepares the same call of another program on the device: `function` there has the same
 * arguments and results. The caller destroys *out_prepared. */
moe_rt_status_t moe__run_device_call_prepare(const moe__run_device_call_t *call,
                                             const moe_rt_program_t *program,
                                             const moe_rt_function_info_t *function,
                                             moe_rt_call_t **out_prepared);

/* Fills all results and their guard zones with `byte`, then runs the call once and waits for it. */
int moe__run_device_call_run(moe__run_device_call_t *call, uint8_t byte);

/* Checks that the run has left the temporaries that start as zero as they were. MOE__RUN_INPUT
 * where it has not. *out_count: how many there are. */
int moe__run_device_call_check_zeroed(const moe__run_device_call_t *call, int *out_count);

/* Runs the call twice on other data, greater and less than its own and in another order, and gives
 * it back its own: what a run leaves behind does not fit the next one. What it computes is not
 * looked at. */
int moe__run_device_call_disturb(moe__run_device_call_t *call);

/* Says what the kernels reported in the runs so far but should not have, or did not but should:
 * `expected` has bits of moe_rt_report_t. MOE__RUN_INPUT where there is something. */
int moe__run_device_call_verify(const moe__run_device_call_t *call, uint32_t expected);

/* Device address of tensor number `index`: arguments, then results. */
void *moe__run_device_call_data(const moe__run_device_call_t *call, int index);

/* Copies result number `index` to `to`, and tells whether its guard zones are as they were filled.
 */
int moe__run_device_call_fetch(const moe__run_device_call_t *call, int index, void *to,
                               bool *out_guards_intact);

#endif /* MOE_RUN_DEVICE_H */
