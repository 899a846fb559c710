/* Support.c - runs small kernels, for the emulator's tests.
 *
 * Why it exists: see Support.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

#include <stdalign.h>
#include <stdlib.h>

enum { MAX_MAPS = 4, SHARED = 16384 };

static const char sources[] =
    "ld.global.v2.b64 {%l1, %l2}, [%in];\n"
    "ld.global.b64 %l3, [%in+16];\n"
    "cvt.u32.u64 %r1, %l1;\ncvt.u32.u64 %r2, %l2;\ncvt.u32.u64 %r3, %l3;\n"
    "cvt.u16.u64 %h1, %l1;\ncvt.u16.u64 %h2, %l2;\ncvt.u16.u64 %h3, %l3;\n"
    "and.b32 %r39, %r1, 1;\nsetp.eq.b32 %p1, %r39, 1;\n";

static char *write_ptx(const emu_kernel_t *kernel) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  assert_non_null(file);
  fprintf(file,
          ".version 8.0\n.target sm_90a\n.address_size 64\n"
          ".extern .shared .align %u .b8 smem[];\n"
          ".visible .entry test(.param .u64 in, .param .u64 out",
          kernel->alignment ? kernel->alignment : 1024);
  for (int i = 0; i < kernel->map_count; i++)
    fprintf(file, ", .param .align 64 .b8 map%d[128]", i);
  fprintf(file, ")\n%s{\n", kernel->directives ? kernel->directives : "");
  fprintf(file, ".reg .pred %%p<24>;\n.reg .b16 %%h<24>;\n.reg .b32 %%r<40>, %%tid;\n"
                ".reg .b64 %%l<40>, %%in, %%out;\n"
                "mov.u32 %%tid, %%tid.x;\nld.param.b64 %%in, [in];\nld.param.b64 %%out, [out];\n");
  fprintf(file, "%s%s\nret;\n}\n", kernel->loads_sources ? sources : "", kernel->body);
  fclose(file);
  return text;
}

moe_emu_status_t emu_run(const emu_kernel_t *kernel, const void *in, size_t in_bytes, void *out,
                         size_t out_bytes, moe_emu_report_t *out_report) {
  alignas(64) uint8_t maps[MAX_MAPS][MOE_EMU_TENSOR_MAP_BYTES];
  uint64_t in_address = (uint64_t)(uintptr_t)in, out_address = (uint64_t)(uintptr_t)out;
  const void *parameters[2 + MAX_MAPS] = {&in_address, &out_address};
  for (int i = 0; i < kernel->map_count; i++) {
    moe_emu_tensor_map_t map = kernel->maps[i];
    map.address += map.address < 1 << 20 ? out_address : 0;
    if (moe_emu_tensor_map_encode(&map, maps[i], out_report) != MOE_EMU_OK)
      fail_msg("map %d: %s", i, out_report->text);
    parameters[2 + i] = maps[i];
  }
  char *text = write_ptx(kernel);
  moe_emu_module_t *module = NULL;
  moe_emu_status_t status = moe_emu_module_load(text, strlen(text), &module, out_report);
  if (status != MOE_EMU_OK)
    fail_msg("%s in:\n%s", out_report->text, text);
  free(text);
  const moe_emu_buffer_t buffers[] = {
      {in_address, in_bytes, false, "in", kernel->pending},
      {out_address, out_bytes, true, "out", kernel->pending},
  };
  moe_emu_launch_t launch = {
      .kernel = "test",
      .grid = {kernel->ctas ? kernel->ctas : 1, kernel->rows_of_ctas ? kernel->rows_of_ctas : 1, 1},
      .block = {kernel->threads ? kernel->threads : 32, 1, 1},
      .cluster = {1, 1, 1},
      .dynamic_shared = kernel->shared ? kernel->shared : SHARED,
      .parameters = parameters,
      .parameter_count = 2 + kernel->map_count,
      .buffers = buffers,
      .buffer_count = 2,
  };
  moe_emu_options_t options = {.schedule = kernel->schedule,
                               .threads = 1,
                               .step_limit = kernel->step_limit ? kernel->step_limit : 10000000};
  status = moe_emu_launch(module, &launch, &options, out_report);
  moe_emu_module_destroy(module);
  return status;
}

void emu_expect_ok(const emu_kernel_t *kernel, const void *in, size_t in_bytes, void *out,
                   size_t out_bytes) {
  moe_emu_report_t report;
  moe_emu_status_t status = emu_run(kernel, in, in_bytes, out, out_bytes, &report);
  if (status != MOE_EMU_OK)
    fail_msg("schedule %llu: %s in:\n%s", (unsigned long long)kernel->schedule, report.text,
             kernel->body);
}

void emu_expect_fault(const emu_kernel_t *kernel, const char *text) {
  /* With room between and around them, so that what lies beside one is not the other. */
  enum { BYTES = 4096 };
  static alignas(256) uint8_t memory[5 * BYTES];
  for (uint64_t schedule = 0; schedule < 4; schedule++) {
    emu_kernel_t scheduled = *kernel;
    moe_emu_report_t report;
    scheduled.schedule = schedule;
    moe_emu_status_t status =
        emu_run(&scheduled, memory + BYTES, BYTES, memory + 3 * BYTES, BYTES, &report);
    if (status == MOE_EMU_OK || !strstr(report.text, text))
      fail_msg("schedule %llu: status %d, '%s' does not contain '%s' in:\n%s",
               (unsigned long long)schedule, (int)status, report.text, text, kernel->body);
  }
}

void emu_expect_faults(const emu_wrong_t *wrong, size_t count) {
  for (size_t i = 0; i < count; i++)
    emu_expect_fault(&(emu_kernel_t){.body = wrong[i].body,
                                     .directives = wrong[i].directives,
                                     .threads = wrong[i].threads,
                                     .ctas = wrong[i].ctas,
                                     .pending = wrong[i].pending,
                                     .step_limit = 100000},
                     wrong[i].report);
}

void emu_expect_refused(const char *ptx, const char *report) {
  moe_emu_module_t *module = NULL;
  moe_emu_report_t found;
  assert_int_equal(moe_emu_module_load(ptx, strlen(ptx), &module, &found), MOE_EMU_INVALID_PTX);
  assert_null(module);
  assert_string_equal(found.text, report);
}
