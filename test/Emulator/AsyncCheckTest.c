/* AsyncCheckTest.c - kernels that do something wrong with bulk copies, with memory that those and
 * ordinary accesses touch, or before a launch before them has ended; and what the emulator says.
 *
 * Why it exists: each check has a kernel here that only it can catch; without the check the kernel
 * would run.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

/* ---- Bulk copies without a map ---- */

#define FIRST "setp.ne.b32 %p1, %tid, 0;\n@%p1 ret;\nmov.b64 %l1, smem;\n"
#define LOAD(to, from, bytes)                                                                      \
  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%l1+" to "], [%in+" from     \
  "], " bytes ", [smem];\n"
#define STORE(to, from, bytes)                                                                     \
  "cp.async.bulk.global.shared::cta.bulk_group [" to "], [%l1+" from "], " bytes ";\n"
#define READY                                                                                      \
  FIRST "mbarrier.init.shared.b64 [smem], 1;\nfence.mbarrier_init.release.cluster;\n"              \
        "mbarrier.arrive.expect_tx.shared.b64 _, [smem], 64;\n"
#define LANDED "W:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem], 0;\n@!%p2 bra W;\n"
#define WRITTEN FIRST "st.shared.v4.b32 [smem+64], {%tid, %tid, %tid, %tid};\n"
#define TAKEN "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"

static void test_plain_bulk_copies(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
      {.body = READY LOAD("64", "0", "24"), .report = "24 bytes at global address"},
      {.body = READY LOAD("64", "0", "0"), .report = "and the bytes not 0"},
      {.body = READY LOAD("64", "8", "64"), .report = "both must be multiples of 16"},
      {.body = READY LOAD("72", "0", "64"), .report = "is not a multiple of 16"},
      {.body = READY LOAD("16352", "0", "64"), .report = "are outside of the CTA's"},
      {.body = READY LOAD("64", "4048", "64"), .report = "reaches past the end of 'in'"},
      {.body = READY LOAD("64", "4096", "64"), .report = "lies 0 bytes after the end of 'in'"},
      {.body = READY LOAD("64", "0", "64") "ld.shared.b32 %r1, [smem+64];",
       .report = "the load races"},
      {.body = READY LOAD("64", "0", "80") LANDED, .report = "more bytes land than phase 0"},
      {.body = READY LOAD("64", "0", "48") LANDED, .report = "16 bytes to land"},
      {.body = READY LOAD("64", "0", "64"),
       .report = "exits while bulk loads may still write its shared memory: nobody has waited for "
                 "phase 0 of the mbarrier at shared address 0x400"},
      {.body = FIRST "mbarrier.init.shared.b64 [smem], 1;\n" LOAD("64", "0", "64"),
       .report = "fence.mbarrier_init is missing"},
      {.body = FIRST LOAD("64", "0", "64"), .report = "no mbarrier has been initialized"},
      {.body = WRITTEN STORE("%out", "64", "16") TAKEN, .report = "without a fence.proxy.async"},
      {.body = WRITTEN "fence.proxy.async.shared::cta;\n" STORE("%out", "64", "32") TAKEN,
       .report = "uninitialized"},
      {.body = WRITTEN "fence.proxy.async.shared::cta;\n" STORE("%in", "64", "16") TAKEN,
       .report = "is in 'in', which is read only"},
      {.body = WRITTEN "fence.proxy.async.shared::cta;\n" STORE("%out", "64", "16"),
       .report = "with 1 bulk stores that no cp.async.bulk.commit_group follows"},
      {.body = WRITTEN "fence.proxy.async.shared::cta;\n" STORE(
           "%out", "64", "16") "cp.async.bulk.commit_group;\nst.shared.b32 [smem+64], 1;\n"
                               "cp.async.bulk.wait_group 0;\n",
       .report = "with a read by bulk group 0 of warp 0, lane 0"},
      {.body = WRITTEN "fence.proxy.async.shared::cta;\n" STORE("%out", "64", "16") TAKEN,
       .report = "races with a write by another CTA, (",
       .ctas = 2},
  };
  EMU_EXPECT_FAULTS(rows);
}

/* ---- Ordinary accesses and bulk copies of the same global memory ---- */

#define FILL_OUT                                                                                   \
  "st.global.v4.b32 [%out], {%tid, %tid, %tid, %tid};\n"                                           \
  "st.global.v4.b32 [%out+16], {%tid, %tid, %tid, %tid};\n"                                        \
  "st.global.v4.b32 [%out+32], {%tid, %tid, %tid, %tid};\n"                                        \
  "st.global.v4.b32 [%out+48], {%tid, %tid, %tid, %tid};\n"
#define LOAD_OUT                                                                                   \
  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%l1+64], [%out], 64, "       \
  "[smem];\n"
/* Warp 0 fills, then the first thread of warp 1 loads. */
#define TWO_WARPS(by_writer, by_reader)                                                            \
  "mov.b64 %l1, smem;\nsetp.ne.b32 %p1, %tid, 0;\n@%p1 bra READ;\n" FILL_OUT by_writer             \
  "READ:\nbar.sync 0;\nsetp.ne.b32 %p1, %tid, 32;\n@%p1 ret;\n"                                    \
  "mbarrier.init.shared.b64 [smem], 1;\nfence.mbarrier_init.release.cluster;\n"                    \
  "mbarrier.arrive.expect_tx.shared.b64 _, [smem], 64;\n" by_reader LOAD_OUT LANDED
/* CTA 0 fills and raises a flag, for which CTA 1 waits. */
#define TWO_CTAS(by_writer, by_reader)                                                             \
  READY "mov.u32 %r1, %ctaid.x;\nsetp.ne.b32 %p3, %r1, 0;\n@%p3 bra READ;\n" FILL_OUT by_writer    \
        "fence.acq_rel.gpu;\nst.relaxed.gpu.global.b32 [%out+128], 1;\n" LOAD_OWN LANDED "ret;\n"  \
        "READ:\nld.relaxed.gpu.global.b32 %r2, [%out+128];\nsetp.ne.b32 %p3, %r2, 1;\n"            \
        "@%p3 bra READ;\nfence.acq_rel.gpu;\n" by_reader LOAD_OUT                                  \
        "V:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem], 0;\n@!%p2 bra V;\n"
#define LOAD_OWN LOAD("64", "0", "64")
#define UNFENCED "comes after an ordinary write by CTA (0,0,0), warp 0, lane 0, at line "

static void test_global_proxies(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
      {.body = READY FILL_OUT LOAD_OUT LANDED, .report = UNFENCED},
      {.body = READY FILL_OUT "fence.proxy.async.shared::cta;\n" LOAD_OUT LANDED,
       .report = "without a fence.proxy.async for global memory in between"},
      {.body = READY "fence.proxy.async;\n" FILL_OUT LOAD_OUT LANDED, .report = UNFENCED},
      {.body = READY "red.global.add.u32 [%out+16], 1;\n" LOAD_OUT LANDED, .report = UNFENCED},
      {.body = TWO_WARPS("", ""), .report = UNFENCED, .threads = 64},
      {.body = READY FILL_OUT LOAD_OWN LANDED
       "fence.proxy.async.shared::cta;\n" STORE("%out", "64", "16") TAKEN,
       .report = UNFENCED},
      {.body = READY LOAD_OWN LANDED STORE("%out", "64",
                                           "64") "cp.async.bulk.commit_group;\nld.global.b32 %r1, "
                                                 "[%out+16];\ncp.async.bulk.wait_group 0;\n",
       .report = "races with a write by CTA (0,0,0), a bulk copy, at line "},
      {.body = READY LOAD_OWN LANDED STORE(
           "%out", "64", "64") "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n"
                               "ld.global.b32 %r1, [%out+16];\n",
       .report = "races with a write by CTA (0,0,0), a bulk copy, at line "},
      /* Threads of one CTA, where nothing in the kernel could order CTAs. */
      {.body = "setp.eq.b32 %p1, %tid, 0;\n@%p1 st.global.b32 [%out], 1;\n"
               "setp.eq.b32 %p1, %tid, 32;\n@%p1 ld.global.b32 %r1, [%out];\n",
       .report = "by CTA (0,0,0), warp ",
       .threads = 64},
      {.body = "setp.eq.b32 %p1, %tid, 0;\n@%p1 red.global.add.u32 [%out], 1;\n"
               "setp.eq.b32 %p1, %tid, 32;\n@%p1 ld.global.b32 %r1, [%out];\n",
       .report = "by CTA (0,0,0), warp ",
       .threads = 64},
      /* Nobody had written it when it was loaded. */
      {.body = READY LOAD_OUT FILL_OUT LANDED,
       .report = "races with a read by CTA (0,0,0), a bulk copy, at line "},
  };
  EMU_EXPECT_FAULTS(rows);
}

/* A kernel under several schedules that waits for a flag of the other CTA. */
static void test_global_proxies_of_two_ctas(void **state) {
  (void)state;
  static uint8_t in[4096], out[4096];
  static const struct {
    const char *body, *report;
  } rows[] = {
      {TWO_CTAS("", ""), UNFENCED},
      {TWO_CTAS("", "fence.proxy.async.shared::cta;\n"), UNFENCED},
      {TWO_CTAS("fence.proxy.async.global;\n", ""), NULL},
      {TWO_CTAS("", "fence.proxy.async;\n"), NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (uint64_t schedule = 0; schedule < 6; schedule++) {
      memset(out, 0, sizeof out);
      moe_emu_report_t report;
      moe_emu_status_t status =
          emu_run(&(emu_kernel_t){.body = rows[i].body, .ctas = 2, .schedule = schedule}, in,
                  sizeof in, out, sizeof out, &report);
      if (rows[i].report ? !strstr(report.text, rows[i].report) : status != MOE_EMU_OK)
        fail_msg("row %zu, schedule %d: '%s'", i, (int)schedule, report.text);
    }
  }
}

static void test_global_proxies_in_order(void **state) {
  (void)state;
  static const char *const rows[] = {
      READY FILL_OUT "fence.proxy.async;\n" LOAD_OUT LANDED,
      READY FILL_OUT "fence.proxy.async.global;\n" LOAD_OUT LANDED,
      READY "red.global.add.u32 [%out+16], 1;\nfence.proxy.async.global;\n" LOAD_OUT LANDED,
      TWO_WARPS("fence.proxy.async.global;\n", ""),
      TWO_WARPS("", "fence.proxy.async.global;\n"),
      READY LOAD_OWN LANDED STORE("%out", "64", "64") TAKEN "ld.global.b32 %r1, [%out+16];\n"
                                                            "st.global.b32 [%out+20], %r1;\n",
      READY LOAD_OUT LANDED FILL_OUT,
      "setp.eq.b32 %p1, %tid, 0;\n@%p1 st.global.b32 [%out], 1;\n@%p1 red.global.add.u32 [%out], "
      "1;\n"
      "bar.sync 0;\nld.global.b32 %r1, [%out];\n",
  };
  static uint8_t in[4096], out[4096];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (uint64_t schedule = 0; schedule < 4; schedule++)
      emu_expect_ok(&(emu_kernel_t){.body = rows[i], .threads = 64, .schedule = schedule}, in,
                    sizeof in, out, sizeof out);
  }
  /* A second run begins with what was there before the first one. */
  uint32_t word = 5;
  memcpy(out + 16, &word, sizeof word);
  emu_expect_ok(&(emu_kernel_t){.body = rows[2]}, in, sizeof in, out, sizeof out);
  memcpy(&word, out + 16, sizeof word);
  assert_int_equal(word, 6);
}

/* ---- Launches that start early ---- */

#define TOUCHES(name) "touches '" name "', which a launch before this one uses"

static void test_early_launches(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
      {.body = "ld.global.b32 %r1, [%in];", .report = TOUCHES("in"), .pending = true},
      {.body = "st.global.b32 [%out], 1;\ngriddepcontrol.wait;",
       .report = TOUCHES("out"),
       .pending = true},
      {.body = "red.global.add.u32 [%out], 1;", .report = TOUCHES("out"), .pending = true},
      {.body = "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;",
       .report = "lets the next launch begin before it knows",
       .pending = true},
      {.body = "setp.ne.b32 %p1, %tid, 0;\n@%p1 bra A;\ngriddepcontrol.wait;\nA:\n"
               "griddepcontrol.launch_dependents;",
       .report = "lane 1: lets the next launch begin",
       .threads = 32,
       .pending = true},
      {.body = READY LOAD("64", "0", "64"), .report = TOUCHES("in"), .pending = true},
      /* A tensor map that a launch before may be writing. */
      {.body = READY "mov.b32 %r1, 0;\n"
                     "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::"
                     "bytes [%l1], [%in, {%r1, %r1}], [smem];\n",
       .report = TOUCHES("in"),
       .pending = true},
      {.body = "griddepcontrol.wait;\nld.global.nc.b32 %r1, [%in];",
       .report = "reads 'in', which a launch before this one uses, by .nc",
       .pending = true},
      /* Each CTA waits for itself. */
      {.body = "mov.u32 %r1, %ctaid.x;\nsetp.ne.b32 %p1, %r1, 0;\n@%p1 bra A;\n"
               "griddepcontrol.wait;\nA:\nld.global.b32 %r1, [%in];",
       .report = "CTA (1,0,0)",
       .pending = true,
       .ctas = 2},
  };
  EMU_EXPECT_FAULTS(rows);
  /* A launch before the last one, which has not waited for it. */
  emu_expect_fault(&(emu_kernel_t){.body = "griddepcontrol.wait;\nld.global.b32 %r1, [%in];",
                                   .pending = MOE_EMU_PENDING_BEYOND,
                                   .step_limit = 100000},
                   "touches 'in', which a launch uses that may go on");
  static uint32_t in[1024], out[1024];
  /* Nothing is pending: whoever wants may let the next launch begin. */
  emu_expect_ok(&(emu_kernel_t){.body = "griddepcontrol.launch_dependents;"}, in, sizeof in, out,
                sizeof out);
  /* One thread waits, the others hear of it. */
  emu_expect_ok(&(emu_kernel_t){.body = "setp.ne.b32 %p1, %tid, 0;\n@%p1 bra A;\n"
                                        "griddepcontrol.wait;\nA:\nbar.sync 0;\n"
                                        "griddepcontrol.launch_dependents;\n"
                                        "ld.global.b32 %r1, [%in];",
                                .threads = 64,
                                .pending = MOE_EMU_PENDING},
                in, sizeof in, out, sizeof out);
  emu_expect_ok(&(emu_kernel_t){.body =
                                    "griddepcontrol.wait;\nld.global.b32 %r1, [%in];\n"
                                    "setp.eq.b32 %p1, %tid, 0;\n@%p1 st.global.b32 [%out], %r1;",
                                .ctas = 1,
                                .pending = true},
                in, sizeof in, out, sizeof out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain_bulk_copies),
      cmocka_unit_test(test_global_proxies),
      cmocka_unit_test(test_global_proxies_of_two_ctas),
      cmocka_unit_test(test_global_proxies_in_order),
      cmocka_unit_test(test_early_launches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
