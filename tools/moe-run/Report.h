/* Report.h - what moe-run says on stderr, and its exit codes.
 *
 * Why it exists: every failure is one line that names its place, whatever file of the tool finds
 * it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_REPORT_H
#define MOE_RUN_REPORT_H

#include "moe/runtime.h"

/* What the functions of this tool return, and the process with them. */
enum {
  MOE__RUN_OK = 0,
  MOE__RUN_INPUT = 1, /* the input is wrong, or --check found a mismatch */
  MOE__RUN_USAGE = 2, /* the command line is wrong */
  MOE__RUN_BUG = 70,  /* a bug of ours */
};

/* Prints "moe-run: ..." as one line and returns MOE__RUN_INPUT. Control characters, which a file's
 * names may hold, appear as '?'. */
int moe__run_input_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, returning MOE__RUN_BUG. */
int moe__run_bug_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports moe_rt_last_message(). Returns MOE__RUN_BUG where the device itself failed, else
 * MOE__RUN_INPUT. */
int moe__run_runtime_error(moe_rt_status_t status);

/* Prints "moe-run: ...", a remark that is no error. */
void moe__run_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Progress of the one long piece of work at hand; main thread only. Shown once it takes longer than
 * a second, where stderr is a terminal. `what` must live until moe__run_progress_end. */
void moe__run_progress_begin(const char *what);
void moe__run_progress_update(double fraction);
void moe__run_progress_end(void);

/* The same for work that cannot say how far it is: shows the seconds gone by, and those that are
 * expected, unless that is 0. Another thread does so until moe__run_clock_end. */
void moe__run_clock_begin(const char *what, double expected);
void moe__run_clock_end(void);

#endif /* MOE_RUN_REPORT_H */
