/* Report.c - what moe-run says on stderr.
 *
 * Why it exists: names in messages come from untrusted files, and a progress line must never stand
 * in an error's way.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Report.h"

#include <pthread.h>
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
  moe__run_progress_end();
  fflush(stdout);
  fprintf(stderr, "moe-run: %s\n", line);
}

int moe__run_input_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
  return MOE__RUN_INPUT;
}

int moe__run_bug_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
  return MOE__RUN_BUG;
}

int moe__run_runtime_error(moe_rt_status_t status) {
  bool device_failed = status == MOE_RT_DEVICE_ERROR || status == MOE_RT_DEVICE_LOST ||
                       status == MOE_RT_NOT_PREPARED;
  moe__run_input_error("%s", moe_rt_last_message());
  return device_failed ? MOE__RUN_BUG : MOE__RUN_INPUT;
}

void moe__run_note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
}

void moe__run_progress_begin(const char *what) {
  progress.what = what;
  progress.percent = -1;
  clock_gettime(CLOCK_MONOTONIC, &progress.begin);
}

void moe__run_progress_update(double fraction) {
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

void moe__run_progress_end(void) {
  if (progress.what && progress.percent >= 0)
    fprintf(stderr, "\r\033[K");
  progress.what = NULL;
}

/* ---- A clock for work that cannot say how far it is ---- */

static struct {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t ended;
  bool runs, ends;
  const char *what;
  double expected;
} ticker = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static void *tick(void *unused) {
  struct timespec next;
  bool shown = false;
  clock_gettime(CLOCK_REALTIME, &next);
  pthread_mutex_lock(&ticker.mutex);
  for (int seconds = 1; !ticker.ends; seconds++) {
    next.tv_sec++;
    while (!ticker.ends && !pthread_cond_timedwait(&ticker.ended, &ticker.mutex, &next))
      continue;
    if (ticker.ends)
      break;
    shown = true;
    fprintf(stderr, "\rmoe-run: %s %d s", ticker.what, seconds);
    if (ticker.expected > 0)
      fprintf(stderr, " of about %.0f", ticker.expected);
  }
  if (shown)
    fprintf(stderr, "\r\033[K");
  pthread_mutex_unlock(&ticker.mutex);
  return unused;
}

void moe__run_clock_begin(const char *what, double expected) {
  if (!isatty(STDERR_FILENO))
    return;
  ticker.what = what;
  ticker.expected = expected;
  ticker.ends = false;
  ticker.runs = !pthread_create(&ticker.thread, NULL, tick, NULL);
}

void moe__run_clock_end(void) {
  if (!ticker.runs)
    return;
  pthread_mutex_lock(&ticker.mutex);
  ticker.ends = true;
  pthread_cond_signal(&ticker.ended);
  pthread_mutex_unlock(&ticker.mutex);
  pthread_join(ticker.thread, NULL);
  ticker.runs = false;
}
