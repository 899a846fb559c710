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
  MOE__OK = 0,
  MOE__INPUT = 1, /* the input is wrong, or --check found a mismatch */
  MOE__USAGE = 2, /* the command line is wrong */
  MOE__BUG = 70,  /* a bug of ours */
};

/* Prints "moe-run: ..." as one line and returns MOE__INPUT. Control characters, which a file's
 * names may hold, appear as '?'. */
int moe__input_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, returning MOE__BUG. */
int moe__bug_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports moe_rt_last_message(). Returns MOE__BUG where the device itself failed, else MOE__INPUT.
 */
int moe__runtime_error(moe_rt_status_t status);

/* Prints "moe-run: ...", a remark that is no error. */
void moe__note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Progress of the one long piece of work at hand; main thread only. Shown once it takes longer than
 * a second, where stderr is a terminal. `what` must live until moe__progress_end. */
void moe__progress_begin(const char *what);
void moe__progress_update(double fraction);
void moe__progress_end(void);

#endif /* MOE_RUN_REPORT_H */
