/* Report.c - what moe-run says on stderr.
 *
 * Why it exists: names in messages come from untrusted files, and a progress line must never stand
 * in an error's way.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Report.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
  const char *what; /* NULL: no work at hand */
  struct timespec begin;
  int percent; /* as shown; -1: nothing is shown */
} progress = {NULL, {0, 0}, -1};

static void print_line(const char *format, va_list arguments) {
  char line[4096];
  vsnprintf(line, sizeof line, format, arguments);
  for (char *c = line; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7F)
      *c = '?';
  moe__progress_end();
  fflush(stdout);
  fprintf(stderr, "moe-run: %s\n", line);
}

int moe__input_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
  return MOE__INPUT;
}

int moe__bug_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
  return MOE__BUG;
}

int moe__runtime_error(moe_rt_status_t status) {
  bool device_failed = status == MOE_RT_DEVICE_ERROR || status == MOE_RT_DEVICE_LOST ||
                       status == MOE_RT_NOT_PREPARED;
  moe__input_error("%s", moe_rt_last_message());
  return device_failed ? MOE__BUG : MOE__INPUT;
}

void moe__note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
}

void moe__progress_begin(const char *what) {
  progress.what = what;
  progress.percent = -1;
  clock_gettime(CLOCK_MONOTONIC, &progress.begin);
}

void moe__progress_update(double fraction) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double seconds = (double)(now.tv_sec - progress.begin.tv_sec) +
                   (double)(now.tv_nsec - progress.begin.tv_nsec) * 1e-9;
  int percent = (int)(fraction * 100);
  if (!progress.what || seconds < 1 || percent == progress.percent || !isatty(STDERR_FILENO))
    return;
  progress.percent = percent;
  fprintf(stderr, "\rmoe-run: %s %3d %%", progress.what, percent);
}

void moe__progress_end(void) {
  if (progress.what && progress.percent >= 0)
    fprintf(stderr, "\r\033[K");
  progress.what = NULL;
}
