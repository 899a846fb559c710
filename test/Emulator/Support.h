/* Support.h - runs small kernels, for the emulator's tests.
 *
 * Why it exists: a test should be the few lines of PTX that it is about.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_EMULATOR_SUPPORT_H
#define MOE_TEST_EMULATOR_SUPPORT_H

#include "moe/emulator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A kernel with registers %p<24> %h<24> %r<40> %l<40>, %tid (tid.x), %in and %out (addresses of the
 * buffers) and 16 KiB of shared memory at `smem`. */
typedef struct emu_kernel_t {
  const char *body;
  const char *directives; /* after the parameters; NULL: none */
  bool loads_sources;     /* the first three 64-bit words of `in` are loaded into %l1..3, %r1..3,
                             * %h1..3, and bit 0 of the first into %p1 */
  uint32_t threads, ctas; /* 0: 32 and 1 */
  uint32_t rows_of_ctas;  /* of the grid; 0: 1 */
  uint32_t shared;        /* bytes; 0: 16 KiB */
  uint32_t alignment;     /* that `smem` declares; 0: 1024 */
  uint64_t schedule;
  uint64_t step_limit;              /* 0: 10 million */
  const moe_emu_tensor_map_t *maps; /* parameters map0, map1, ...; an address below 1 MiB is an
                                     * offset in `out` */
  int map_count;
  moe_emu_pending_t pending; /* launches before this one use `in` and `out` */
} emu_kernel_t;

/* Runs it. `in` is read only, `out` may be written. */
moe_emu_status_t emu_run(const emu_kernel_t *kernel, const void *in, size_t in_bytes, void *out,
                         size_t out_bytes, moe_emu_report_t *out_report);

/* Runs it, which must succeed. */
void emu_expect_ok(const emu_kernel_t *kernel, const void *in, size_t in_bytes, void *out,
                   size_t out_bytes);

/* Runs it under several schedules; each must end in a fault whose report contains `text`. */
void emu_expect_fault(const emu_kernel_t *kernel, const char *text);

/* A kernel that does something wrong, and a part of the report of it. */
typedef struct emu_wrong_t {
  const char *body, *report;
  uint32_t threads, ctas;
  const char *directives;
  bool pending;
} emu_wrong_t;

/* The same of each of `count` kernels, with a limit of 100000 steps. */
void emu_expect_faults(const emu_wrong_t *wrong, size_t count);
#define EMU_EXPECT_FAULTS(rows) emu_expect_faults(rows, sizeof(rows) / sizeof(rows)[0])

/* Reads a module, which must be refused with exactly this report. */
void emu_expect_refused(const char *ptx, const char *report);

#endif /* MOE_TEST_EMULATOR_SUPPORT_H */
