/* CheckTest.c - kernels that do something wrong, and what the emulator says.
 *
 * Why it exists: each check has a kernel here that only it can catch; without the check the kernel
 * would run.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

typedef struct wrong_t {
  const char *body, *report;
  uint32_t threads, ctas;
  const char *directives;
  bool pending;
} wrong_t;

static void expect(const wrong_t *wrong, size_t count) {
  for (size_t i = 0; i < count; i++)
    emu_expect_fault(&(emu_kernel_t){.body = wrong[i].body,
                                     .directives = wrong[i].directives,
                                     .threads = wrong[i].threads,
                                     .ctas = wrong[i].ctas,
                                     .pending = wrong[i].pending,
                                     .step_limit = 100000},
                     wrong[i].report);
}

#define EXPECT_ALL(rows) expect(rows, sizeof(rows) / sizeof(rows)[0])

/* ---- Memory ---- */

#define ONE_LANE "setp.ne.b32 %p1, %tid, 0;\n@%p1 ret;\n"

static void test_addresses(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "st.global.b32 [%out+4096], %tid;", .report = "lies 0 bytes after the end of 'out'"},
      {.body = "st.global.b32 [%out+-4], %tid;", .report = "lies 4 bytes before 'out'"},
      {.body = "ld.global.v2.b32 {%r1, %r2}, [%in+4092];", .report = "is not a multiple of 8"},
      {.body = "mov.b64 %l1, 4093;\nadd.s64 %l1, %l1, %in;\nld.global.b32 %r1, [%l1];",
       .report = "is not a multiple of 4"},
      {.body = "mov.b64 %l1, 4;\nld.global.b32 %r1, [%l1];", .report = "global address 0x4 lies"},
      {.body = "st.global.b32 [%in], %tid;", .report = "is in 'in', which is read only"},
      {.body = "st.global.b32 [%out], %tid;",
       .report = "in 'out' races with a write by another CTA, (",
       .ctas = 2},
      {.body = "st.shared.b32 [smem+16384], %tid;", .report = "are outside of the CTA's"},
      {.body = "mov.b64 %l1, 0;\nst.shared.b32 [%l1], %tid;", .report = "are outside of the CTA's"},
      {.body = "st.shared.v4.b32 [smem+8], {%tid, %tid, %tid, %tid};",
       .report = "is not a multiple of 16"},
      {.body = "ld.param.b32 %r1, [out+8];", .report = "bytes at 0x10 of the parameters"},
      {.body = "mov.b64 %l1, smem;\nst.global.b32 [%l1], %tid;", .report = "global address 0x400"},
  };
  EXPECT_ALL(rows);
}

/* .nc is for what nothing writes while the kernel runs, be it ordered or not. */
static void test_constants(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = ONE_LANE "ld.global.nc.b32 %r1, [%out+4];\nst.global.b32 [%out+4], 1;",
       .report = "in 'out', which line 16 (ld.global.nc.b32) reads by .nc"},
      {.body = ONE_LANE "st.global.b32 [%out+4], 1;\nld.global.nc.v2.b32 {%r1, %r2}, [%out];",
       .report = "in 'out' by .nc, which line 16 (st.global.b32) writes"},
      {.body = ONE_LANE "red.global.add.u32 [%out], 1;\nld.global.nc.b32 %r1, [%out];",
       .report = "by .nc, which line 16 (red.global.add.u32) writes"},
  };
  EXPECT_ALL(rows);
  static uint32_t in[1024], out[1024];
  emu_expect_ok(&(emu_kernel_t){.body = ONE_LANE "ld.global.nc.b32 %r1, [%in];\n"
                                                 "ld.global.nc.b32 %r1, [%out+8];\n"
                                                 "st.global.b32 [%out+4], %r1;"},
                in, sizeof in, out, sizeof out);
}

static void test_initialization(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "add.s32 %r2, %r1, 1;", .report = "register %r1 is read before it is written"},
      {.body = "setp.lt.u32 %p1, %tid, 16;\n@%p1 mov.b32 %r1, 1;\nadd.s32 %r2, %r1, 1;",
       .report = "lane 16: register %r1 is read before it is written"},
      {.body = "@%p1 ret;", .report = "register %p1 is read before it is written"},
      {.body = "@%p1 bra A;\nA:\n", .report = "register %p1 is read before it is written"},
      {.body = "st.shared.b32 [smem], %r1;", .report = "register %r1 is read before it is written"},
      {.body = "st.shared.b16 [smem], 1;\nbar.sync 0;\nld.shared.b32 %r1, [smem];\n"
               "st.global.b32 [%out], %r1;",
       .report = "uses %r1, which depends on uninitialized shared memory: 0x402, loaded at line"},
      {.body = "atom.shared.add.u32 %r1, [smem], 1;", .report = "uninitialized shared memory"},
      {.body = "mov.b64 %l2, smem;\n"
               "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%l2];",
       .report = "the load reads uninitialized shared memory at 0x400"},
  };
  EXPECT_ALL(rows);
}

/* ---- Order ---- */

#define MINE                                                                                       \
  "shl.b32 %r1, %tid, 2;\ncvt.u64.u32 %l1, %r1;\nmov.b64 %l2, smem;\nadd.s64 %l1, %l1, %l2;\n"

static void test_races(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "st.shared.b32 [smem], 1;",
       .report = "races at shared address 0x400 with a write by",
       .threads = 64},
      {.body =
           MINE "st.shared.b32 [%l1], 1;\nbar.warp.sync -1;\n"
                "ld.shared.b32 %r2, [smem+132];\nadd.s32 %r2, %r2, 1;\nst.global.b32 [%out], %r2;",
       .report = "uninitialized",
       .threads = 33},
      {.body = MINE
       "st.shared.b32 [%l1], 1;\nbar.sync 0;\nsetp.lt.u32 %p1, %tid, 32;\n"
       "@%p1 bra A;\nst.shared.b32 [smem], 2;\nbra B;\nA:\nld.shared.b32 %r2, [smem];\nB:\n",
       .report = "races at shared address 0x400 with a",
       .threads = 64},
      /* bar.arrive hands on, but does not wait. */
      {.body = MINE
       "setp.lt.u32 %p1, %tid, 32;\n@%p1 bra A;\nbar.arrive 1, 64;\n"
       "st.shared.b32 [smem], 2;\nbra B;\nA:\nst.shared.b32 [smem], 1;\nbar.sync 1, 64;\nB:\n",
       .report = "races at shared address 0x400 with a write",
       .threads = 64},
  };
  EXPECT_ALL(rows);
}

#define ONE "setp.ne.b32 %p1, %tid, 0;\n"
#define INIT ONE "@%p1 bra I;\nmbarrier.init.shared.b64 [smem], 1;\nI:\n"
#define WAIT(label, parity)                                                                        \
  label ":\nmbarrier.try_wait.parity.shared.b64 %p2, [smem], " parity ";\n@!%p2 bra " label ";\n"

/* Long enough for what the other warp does first, but no order. */
#define LATER                                                                                      \
  "setp.lt.u32 %p3, %tid, 32;\n@%p3 bra LATE;\nmov.b32 %r9, 0;\nLATER:\nadd.s32 %r9, %r9, 1;\n"    \
  "setp.lt.u32 %p3, %r9, 3000;\n@%p3 bra LATER;\nLATE:\n"

static void test_mbarriers(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "mbarrier.arrive.shared.b64 _, [smem];",
       .report = "no mbarrier has been initialized"},
      {.body = INIT LATER "mbarrier.arrive.shared.b64 _, [smem];",
       .report = "without order after its initialization by warp 0",
       .threads = 33},
      {.body = INIT "bar.warp.sync -1;\nld.shared.b32 %r1, [smem+4];",
       .report = "touches an mbarrier"},
      {.body = INIT "bar.warp.sync -1;\nst.shared.b32 [smem+4], 1;",
       .report = "touches an mbarrier"},
      {.body = ONE "@%p1 ret;\nmbarrier.init.shared.b64 [smem], 0;", .report = "a count of 0"},
      {.body = ONE "@%p1 ret;\nmbarrier.init.shared.b64 [smem+4], 1;",
       .report = "not a multiple of 8"},
      {.body = INIT "@%p1 ret;\nmbarrier.init.shared.b64 [smem], 1;",
       .report = "holds an mbarrier already"},
      {.body = INIT "@%p1 ret;\nmbarrier.arrive.shared.b64 _, [smem], 2;",
       .report = "2 arrivals in phase 0 of the mbarrier at shared address 0x400, which waits for 1 "
                 "of its 1"},
      {.body = INIT "bar.warp.sync -1;\n" WAIT("W", "0"),
       .report = "deadlock, no warp can go on; warp 0, lanes 0xffffffff, waits at line"},
      {.body =
           INIT "@%p1 ret;\nmbarrier.arrive.expect_tx.shared.b64 _, [smem], 64;\n" WAIT("W", "0"),
       .report = "phase 0 has 0 of 1 arrivals to come and 64 bytes to land"},
      {.body = INIT "@%p1 ret;\nmbarrier.arrive.expect_tx.shared.b64 _, [smem], 64;",
       .report = "has announced 64 bytes that have not landed"},
      {.body = INIT "bar.warp.sync -1;\n" WAIT("W", "2"), .report = "a parity of 2"},
      {.body = INIT "@%p1 ret;\nmbarrier.expect_tx.shared.b64 [smem], 1048575;\n"
                    "mbarrier.expect_tx.shared.b64 [smem], 1;",
       .report = "the limit is 1048575"},
      /* A second phase is over before the wait for the first one has come back. */
      {.body = INIT "bar.sync 0;\nsetp.ge.u32 %p3, %tid, 32;\n@%p3 bra P;\n@%p1 ret;\n"
                    "mbarrier.arrive.shared.b64 _, [smem];\nmbarrier.arrive.shared.b64 _, [smem];\n"
                    "ret;\nP:\n" WAIT("W", "0"),
       .report = "phases two apart have the same parity",
       .threads = 64},
      /* A wait for phase 1 that does not know of phase 0 comes back for the one before. */
      {.body = INIT "bar.sync 0;\nsetp.ge.u32 %p3, %tid, 32;\n@%p3 bra P;\n@%p1 ret;\n"
                    "mbarrier.arrive.shared.b64 _, [smem];\nmbarrier.arrive.shared.b64 _, [smem];\n"
                    "ret;\nP:\n" WAIT("W", "1"),
       .report = "phases two apart have the same parity",
       .threads = 64},
      /* The wait of one lane is not that of the others until they meet at a barrier. */
      {.body = INIT "bar.sync 0;\nsetp.ge.u32 %p3, %tid, 32;\n@%p3 bra P;\n@%p1 bra R;\n" WAIT(
           "W", "0") "R:\nld.shared.b32 %r1, [smem+64];\nret;\n"
                     "P:\nsetp.ne.b32 %p4, %tid, 32;\n@%p4 ret;\nst.shared.b32 [smem+64], 1;\n"
                     "mbarrier.arrive.shared.b64 _, [smem];\n",
       .report = " 0x440",
       .threads = 64},
  };
  EXPECT_ALL(rows);
}

/* ---- Bulk copies without a map ---- */

#define FIRST ONE "@%p1 ret;\nmov.b64 %l1, smem;\n"
#define LOAD(to, from, bytes)                                                                      \
  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%l1+" to "], [%in+" from     \
  "], " bytes ", [smem];\n"
#define STORE(to, from, bytes)                                                                     \
  "cp.async.bulk.global.shared::cta.bulk_group [" to "], [%l1+" from "], " bytes ";\n"
#define READY                                                                                      \
  FIRST "mbarrier.init.shared.b64 [smem], 1;\nfence.mbarrier_init.release.cluster;\n"              \
        "mbarrier.arrive.expect_tx.shared.b64 _, [smem], 64;\n"
#define WRITTEN FIRST "st.shared.v4.b32 [smem+64], {%tid, %tid, %tid, %tid};\n"
#define TAKEN "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"

static void test_plain_bulk_copies(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = READY LOAD("64", "0", "24"), .report = "24 bytes at global address"},
      {.body = READY LOAD("64", "0", "0"), .report = "and the bytes not 0"},
      {.body = READY LOAD("64", "8", "64"), .report = "both must be multiples of 16"},
      {.body = READY LOAD("72", "0", "64"), .report = "is not a multiple of 16"},
      {.body = READY LOAD("16352", "0", "64"), .report = "are outside of the CTA's"},
      {.body = READY LOAD("64", "4048", "64"), .report = "reaches past the end of 'in'"},
      {.body = READY LOAD("64", "4096", "64"), .report = "lies 0 bytes after the end of 'in'"},
      {.body = READY LOAD("64", "0", "64") "ld.shared.b32 %r1, [smem+64];",
       .report = "the load races"},
      {.body = READY LOAD("64", "0", "80") WAIT("W", "0"),
       .report = "more bytes land than phase 0"},
      {.body = READY LOAD("64", "0", "48") WAIT("W", "0"), .report = "16 bytes to land"},
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
  EXPECT_ALL(rows);
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
#define LANDED "W:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem], 0;\n@!%p2 bra W;\n"
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
  static const wrong_t rows[] = {
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
  EXPECT_ALL(rows);
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
  static const wrong_t rows[] = {
      {.body = "ld.global.b32 %r1, [%in];", .report = TOUCHES("in"), .pending = true},
      {.body = "st.global.b32 [%out], 1;\ngriddepcontrol.wait;",
       .report = TOUCHES("out"),
       .pending = true},
      {.body = "griddepcontrol.launch_dependents;\nred.global.add.u32 [%out], 1;",
       .report = TOUCHES("out"),
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
  EXPECT_ALL(rows);
  /* A launch before the last one, which has not waited for it. */
  emu_expect_fault(&(emu_kernel_t){.body = "griddepcontrol.wait;\nld.global.b32 %r1, [%in];",
                                   .pending = MOE_EMU_PENDING_BEYOND,
                                   .step_limit = 100000},
                   "touches 'in', which a launch uses that may go on");
  static uint32_t in[1024], out[1024];
  /* One thread waits, the others hear of it. */
  emu_expect_ok(&(emu_kernel_t){.body = "setp.ne.b32 %p1, %tid, 0;\n@%p1 bra A;\n"
                                        "griddepcontrol.wait;\nA:\nbar.sync 0;\n"
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

/* What is not modeled is said. */
static void test_not_modeled(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "st.release.cta.shared.b32 [smem], 1;",
       .report = "acquires or releases by an access to shared memory, which is not modeled"},
      {.body = "st.shared.b32 [smem], 1;\nld.acquire.cta.shared.b32 %r1, [smem];",
       .report = "acquires or releases by an access to shared memory, which is not modeled"},
      {.body = "st.shared.b32 [smem], 1;\natom.acq_rel.cta.shared.add.u32 %r1, [smem], 1;",
       .report = "acquires or releases by an access to shared memory, which is not modeled"},
  };
  EXPECT_ALL(rows);
}

static void test_barriers(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "setp.lt.u32 %p1, %tid, 32;\n@%p1 ret;\nbar.sync 0;",
       .report = "for barrier 0: 32 of 64 threads have come",
       .threads = 64},
      {.body = "setp.lt.u32 %p1, %tid, 16;\n@%p1 bra A;\nbar.sync 0;\nA:\n",
       .report = "all must come together"},
      {.body = "bar.sync 16;", .report = "barrier 16 of 32 threads: there are 16 barriers"},
      {.body = "bar.sync 1, 40;", .report = "barrier 1 of 40 threads", .threads = 64},
      {.body = "setp.lt.u32 %p1, %tid, 32;\nselp.b32 %r1, 64, 96, %p1;\nbar.sync 1, %r1;",
       .report = "to the barrier with",
       .threads = 96},
      {.body = "bar.arrive 1, 64;\nbar.arrive 1, 64;",
       .report = "a second time before it is complete",
       .threads = 64 - 32 + 1},
      {.body = "setp.ge.u32 %p1, %tid, 32;\n@%p1 ret;\nbar.arrive 1, 64;",
       .report = "the CTA ends while barrier 1 has 32 of 64 threads",
       .threads = 64},
      {.body = "setp.lt.u32 %p1, %tid, 16;\n@%p1 bra A;\nbar.warp.sync -1;\nA:\n",
       .report = "the mask names lanes 0xffffffff, lanes 0xffff0000 execute it"},
      {.body = "setp.lt.u32 %p1, %tid, 16;\n@%p1 bra.uni A;\nA:\n",
       .report = "a uniform branch that lanes"},
      {.body = "L:\nbra.uni L;", .report = "the limit of 100000 steps of its cluster is reached"},
      {.body = "trap;", .report = "the kernel gave up"},
  };
  EXPECT_ALL(rows);
}

static void test_registers(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "setmaxnreg.inc.sync.aligned.u32 96;", .report = "fixes no number of registers"},
      {.body = "setmaxnreg.inc.sync.aligned.u32 96;",
       .directives = ".maxnreg 64\n",
       .report = "for registers: 2048 of 2048 are in use"},
      {.body = "setmaxnreg.dec.sync.aligned.u32 96;",
       .directives = ".maxnreg 64\n",
       .report = "the warp has 64 registers a thread, not at least 96"},
      {.body = "setp.lt.u32 %p1, %tid, 16;\n@%p1 setmaxnreg.dec.sync.aligned.u32 32;",
       .directives = ".maxnreg 64\n",
       .report = "executed by a part of the warp's lanes"},
      {.body = "setp.lt.u32 %p1, %tid, 32;\n@%p1 setmaxnreg.dec.sync.aligned.u32 32;\n"
               "@!%p1 setmaxnreg.dec.sync.aligned.u32 40;",
       .directives = ".maxnreg 64\n",
       .report = "in its place: all four must execute the same",
       .threads = 128},
      {.body = "setp.lt.u32 %p1, %tid, 32;\n@%p1 setmaxnreg.dec.sync.aligned.u32 32;",
       .directives = ".maxnreg 64\n",
       .report = "all four must execute the same",
       .threads = 128},
  };
  EXPECT_ALL(rows);
}

/* ---- Products ---- */

#define ZERO "mov.b32 %r1, 0;\nmov.b32 %r2, 0;\nmov.b32 %r3, 0;\nmov.b32 %r4, 0;\n"
#define FILL                                                                                       \
  "mul.wide.u32 %l1, %tid, 32;\nmov.b64 %l2, smem;\nadd.s64 %l1, %l1, %l2;\nmov.b32 %r5, 0;\n"     \
  "st.shared.v4.b32 [%l1], {%r5, %r5, %r5, %r5};\nst.shared.v4.b32 [%l1+16], {%r5, %r5, %r5, "     \
  "%r5};\n"
#define VISIBLE "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
/* No swizzle, rows of 8 every 128 bytes. */
#define DESCRIPTOR "mov.b64 %l3, 0x0000000800080040;\nsetp.eq.b32 %p1, %r5, 0;\n"
#define MMA                                                                                        \
  "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%r1, %r2, %r3, %r4}, %l3, %l3, %p1, 1, "   \
  "1;\n"
#define MORE_ZERO "mov.b32 %r14, 0;\nmov.b32 %r15, 0;\nmov.b32 %r16, 0;\nmov.b32 %r17, 0;\n"
#define MMA_WIDE                                                                                   \
  "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%r1, %r2, %r3, %r4, %r14, %r15, %r16, "   \
  "%r17}, %l3, %l3, %p1, 1, 1;\n"
#define A_REGISTERS "mov.b32 %r10, 0;\nmov.b32 %r11, 0;\nmov.b32 %r12, 0;\nmov.b32 %r13, 0;\n"
#define MMA_A                                                                                      \
  "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%r1, %r2, %r3, %r4}, {%r10, %r11, %r12, "  \
  "%r13}, %l3, %p1, 1, 1;\n"
#define MMA_BF16(d, a)                                                                             \
  "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {" d "}, {" a "}, %l3, %p1, 1, 1, 0;\n"
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define DONE "wgmma.wait_group.sync.aligned 0;\n"
#define FENCE "wgmma.fence.sync.aligned;\n"
#define ONE_OF_FOUR "setp.lt.u32 %p2, %tid, 32;\n"
#define ROWS .threads = 128

static void test_products(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT "add.rn.f32 %r1, %r1, %r1;\n" DONE,
       .report = "register %r1 belongs to a wgmma that no wgmma.wait_group has waited for",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT "mov.b32 %r4, 1;\n" DONE,
       .report = "register %r4 belongs to a wgmma",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR MMA COMMIT DONE,
       .report = "without a wgmma.fence",
       ROWS},
      {.body =
           ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT DONE "mov.b32 %r2, 1;\n" MMA COMMIT DONE,
       .report = "register %r2 was written before it, at line 32, without a wgmma.fence in between",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT DONE
       "add.rn.f32 %r6, %r2, %r2;\n" MMA COMMIT DONE,
       .report = "register %r2 was read before it, at line 32, without a wgmma.fence in between",
       ROWS},
      {.body =
           ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT "st.shared.b32 [smem+8192], %r2;\n" DONE,
       .report = "register %r2 belongs to a wgmma",
       ROWS},
      /* Accumulators of the other shape. */
      {.body = ZERO MORE_ZERO FILL VISIBLE DESCRIPTOR FENCE MMA MMA_WIDE COMMIT DONE,
       .report = "register %r1 was written by a product of another shape, without a wgmma.fence",
       ROWS},
      {.body = ZERO MORE_ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT DONE MMA_WIDE COMMIT DONE,
       .report = "register %r1 was written by a product of another shape, without a wgmma.fence",
       ROWS},
      /* A in registers: written and read without a fence, written and read in flight. */
      {.body =
           ZERO FILL A_REGISTERS VISIBLE DESCRIPTOR FENCE "mov.b32 %r13, 0;\n" MMA_A COMMIT DONE,
       .report = "register %r13 was written before it",
       ROWS},
      {.body = ZERO FILL A_REGISTERS VISIBLE DESCRIPTOR FENCE MMA_A COMMIT DONE
       "mov.b32 %r6, %r11;\n" MMA_A COMMIT DONE,
       .report = "register %r11 was read before it",
       ROWS},
      {.body =
           ZERO FILL A_REGISTERS VISIBLE DESCRIPTOR FENCE MMA_A COMMIT "mov.b32 %r12, 0;\n" DONE,
       .report = "register %r12 belongs to a wgmma",
       ROWS},
      {.body =
           ZERO FILL A_REGISTERS VISIBLE DESCRIPTOR FENCE MMA_A COMMIT "mov.b32 %r6, %r12;\n" DONE,
       .report = "register %r12 belongs to a wgmma",
       ROWS},
      /* Of two groups the older one is awaited: its A may be written, that of the newer may not. */
      {.body = ZERO MORE_ZERO FILL A_REGISTERS
       "mov.b32 %r20, 0;\n" VISIBLE DESCRIPTOR FENCE MMA_BF16("%r1, %r2, %r3, %r4",
                                                              "%r10, %r11, %r12, %r13")
           COMMIT MMA_BF16("%r14, %r15, %r16, %r17", "%r20, %r20, %r20, %r20") COMMIT
       "wgmma.wait_group.sync.aligned 1;\nmov.b32 %r12, 1;\nmov.b32 %r20, 1;\n" DONE,
       .report = "register %r20 belongs to a wgmma",
       ROWS},
      {.body = ZERO MORE_ZERO FILL A_REGISTERS VISIBLE DESCRIPTOR FENCE MMA_BF16(
           "%r1, %r2, %r3, %r4", "%r10, %r11, %r12, %r13")
           COMMIT MMA_BF16("%r14, %r15, %r16, %r17", "%r13, %r10, %r11, %r11") COMMIT
       "wgmma.wait_group.sync.aligned 1;\nmov.b32 %r12, 1;\nmov.b32 %r11, 1;\n" DONE,
       .report = "register %r11 belongs to a wgmma",
       ROWS},
      /* What one product computes is the other's A. */
      {.body = ZERO FILL A_REGISTERS VISIBLE DESCRIPTOR FENCE MMA COMMIT DONE
       "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%r10, %r11, %r12, %r13}, "
       "{%r1, %r2, %r3, %r4}, %l3, %p1, 1, 1;\n" COMMIT DONE,
       .report = "register %r1 was written by a product before it, without a wgmma.fence",
       ROWS},
      {.body = FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT DONE,
       .report = "register %r1 is read before it is written",
       ROWS},
      {.body = ZERO FILL "bar.sync 0;\n" DESCRIPTOR FENCE MMA COMMIT DONE,
       .report = "without a fence.proxy.async in between",
       ROWS},
      {.body = ZERO FILL "fence.proxy.async.shared::cta;\n" DESCRIPTOR FENCE MMA COMMIT DONE,
       .report = "wgmma's",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT "st.shared.b32 [smem], 1;\n" DONE,
       .report = "with a read by a wgmma of warpgroup 0 that has not been waited for",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT,
       .report = "exits with 1 products",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR
       "setp.lt.u32 %p2, %tid, 32;\n@!%p2 bra A;\nbar.sync 1, 128;\nA:\n" FENCE MMA COMMIT DONE,
       .report = "for products that not all four warps have started",
       ROWS},
      /* What one warp of four leaves out. */
      {.body = ZERO FILL VISIBLE DESCRIPTOR ONE_OF_FOUR "@%p2 ret;\n" FENCE MMA COMMIT DONE,
       .report = "all four must execute the same",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE ONE_OF_FOUR "@!%p2 " FENCE MMA COMMIT DONE,
       .report = "(wgmma.fence.sync.aligned) in its place: all four must execute the same",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE MMA ONE_OF_FOUR "@!%p2 " COMMIT DONE,
       .report = "in its place: all four must execute the same",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT ONE_OF_FOUR "@!%p2 " DONE FENCE DONE,
       .report = "in its place: all four must execute the same",
       ROWS},
      {.body = ZERO FILL VISIBLE DESCRIPTOR
       "setp.lt.u32 %p2, %tid, 32;\nselp.b64 %l4, 1, 0, %p2;\nxor.b64 %l3, %l3, %l4;\n" FENCE MMA
           COMMIT DONE,
       .report = "start different products",
       ROWS},
      {.body = ZERO FILL VISIBLE
       "setp.eq.b32 %p1, %r5, 0;\nmov.b64 %l3, 0x0000000800083FFF;\n" FENCE MMA COMMIT DONE,
       .report = "outside of the CTA's",
       ROWS},
      {.body = ZERO FILL VISIBLE
       "setp.eq.b32 %p1, %r5, 0;\nmov.b64 %l3, 0x0000000800088040;\n" FENCE MMA COMMIT DONE,
       .report = "descriptor",
       ROWS},
      {.body = ZERO DESCRIPTOR, .report = "register %r5", ROWS},
  };
  EXPECT_ALL(rows);
}

/* What needs no fence: accumulators of the same shape, registers that nobody has accessed since,
 * and A of two products. */
static void test_products_without_fences(void **state) {
  (void)state;
  static const char *const rows[] = {
      ZERO FILL VISIBLE DESCRIPTOR FENCE MMA MMA COMMIT MMA COMMIT DONE,
      ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT DONE MMA COMMIT DONE,
      ZERO FILL VISIBLE DESCRIPTOR FENCE MMA COMMIT DONE
      "mov.b32 %r6, %r1;\n" FENCE MMA COMMIT DONE,
      ZERO MORE_ZERO FILL VISIBLE DESCRIPTOR FENCE MMA FENCE MMA_WIDE COMMIT DONE,
      ZERO FILL A_REGISTERS VISIBLE DESCRIPTOR FENCE MMA_A MMA_A COMMIT DONE MMA_A COMMIT DONE,
  };
  static uint8_t in[4096], out[4096];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (uint64_t schedule = 0; schedule < 4; schedule++)
      emu_expect_ok(&(emu_kernel_t){.body = rows[i], .threads = 128, .schedule = schedule}, in,
                    sizeof in, out, sizeof out);
  }
}

/* A product of one warp has no rules but that its lanes come together, with all operands. */
#define PRODUCT                                                                                    \
  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r5, %r6, %r7, %r8}, {%r1, %r1, %r1, "     \
  "%r1}, {%r1, %r1}, {%r1, %r1, %r1, %r2};\n"

static void test_products_of_a_warp(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = "mov.b32 %r1, 0;\n" PRODUCT, .report = "register %r2 is read before it is written"},
      {.body = "mov.b32 %r1, 0;\nmov.b32 %r2, 0;\nsetp.lt.u32 %p1, %tid, 16;\n@%p1 " PRODUCT,
       .report = "executed by lanes 0x0000ffff: all 32 must come together"},
  };
  EXPECT_ALL(rows);
}

/* ---- Launches ---- */

static void test_launches(void **state) {
  (void)state;
  static const char ptx[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                            ".visible .entry k(.param .u32 n)\n.reqntid 64\n{\nret;\n}\n";
  moe_emu_module_t *module = NULL;
  moe_emu_report_t report;
  assert_int_equal(moe_emu_module_load(ptx, strlen(ptx), &module, &report), MOE_EMU_OK);
  assert_true(moe_emu_module_has(module, "k"));
  assert_false(moe_emu_module_has(module, "x"));
  uint32_t n = 3, bytes = 4;
  const void *parameters[] = {&n};
  const moe_emu_launch_t good = {.kernel = "k",
                                 .grid = {1, 1, 1},
                                 .block = {64, 1, 1},
                                 .cluster = {1, 1, 1},
                                 .parameters = parameters,
                                 .parameter_bytes = &bytes,
                                 .parameter_count = 1};
  assert_int_equal(moe_emu_launch(module, &good, NULL, &report), MOE_EMU_OK);
#define EXPECT_INVALID(change, expected)                                                           \
  do {                                                                                             \
    moe_emu_launch_t bad = good;                                                                   \
    change;                                                                                        \
    assert_int_equal(moe_emu_launch(module, &bad, NULL, &report), MOE_EMU_INVALID_ARGUMENT);       \
    assert_string_equal(report.text, expected);                                                    \
  } while (0)
  uint32_t eight = 8;
  EXPECT_INVALID(bad.kernel = "x", "the module has no kernel 'x'");
  EXPECT_INVALID(bad.block[0] = 32, "kernel 'k': block.x is 32; .reqntid says 64");
  EXPECT_INVALID(bad.grid[1] = 0, "kernel 'k': grid.y is 0 and block.y is 1");
  EXPECT_INVALID(bad.parameter_count = 0, "kernel 'k': 0 parameters given; it has 1");
  EXPECT_INVALID(bad.parameter_bytes = &eight,
                 "kernel 'k': parameter 0 has 8 bytes; the PTX declares 4");
  EXPECT_INVALID(bad.dynamic_shared = 232449,
                 "kernel 'k': 232449 bytes of shared memory; the limit is 232448");
  moe_emu_module_destroy(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_addresses),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_initialization),
      cmocka_unit_test(test_races),
      cmocka_unit_test(test_mbarriers),
      cmocka_unit_test(test_plain_bulk_copies),
      cmocka_unit_test(test_global_proxies),
      cmocka_unit_test(test_global_proxies_of_two_ctas),
      cmocka_unit_test(test_global_proxies_in_order),
      cmocka_unit_test(test_early_launches),
      cmocka_unit_test(test_not_modeled),
      cmocka_unit_test(test_barriers),
      cmocka_unit_test(test_registers),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_products_without_fences),
      cmocka_unit_test(test_products_of_a_warp),
      cmocka_unit_test(test_launches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
