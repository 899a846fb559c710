/* CheckTest.c - kernels that do something wrong with memory, barriers, registers or their
 * launch, and what the emulator says.
 *
 * Why it exists: each check has a kernel here that only it can catch; without the check the kernel
 * would run. AsyncCheckTest.c has copies, ProductCheckTest.c has products.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

/* ---- Memory ---- */

#define ONE_LANE "setp.ne.b32 %p1, %tid, 0;\n@%p1 ret;\n"

static void test_addresses(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
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
  EMU_EXPECT_FAULTS(rows);
}

/* .nc is for what nothing writes while the kernel runs, be it ordered or not. */
static void test_constants(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
      {.body = ONE_LANE "ld.global.nc.b32 %r1, [%out+4];\nst.global.b32 [%out+4], 1;",
       .report = "in 'out', which line 16 (ld.global.nc.b32) reads by .nc"},
      {.body = ONE_LANE "st.global.b32 [%out+4], 1;\nld.global.nc.v2.b32 {%r1, %r2}, [%out];",
       .report = "in 'out' by .nc, which line 16 (st.global.b32) writes"},
      {.body = ONE_LANE "red.global.add.u32 [%out], 1;\nld.global.nc.b32 %r1, [%out];",
       .report = "by .nc, which line 16 (red.global.add.u32) writes"},
  };
  EMU_EXPECT_FAULTS(rows);
  static uint32_t in[1024], out[1024];
  emu_expect_ok(&(emu_kernel_t){.body = ONE_LANE "ld.global.nc.b32 %r1, [%in];\n"
                                                 "ld.global.nc.b32 %r1, [%out+8];\n"
                                                 "st.global.b32 [%out+4], %r1;"},
                in, sizeof in, out, sizeof out);
}

static void test_initialization(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
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
  EMU_EXPECT_FAULTS(rows);
}

/* ---- Order ---- */

#define MINE                                                                                       \
  "shl.b32 %r1, %tid, 2;\ncvt.u64.u32 %l1, %r1;\nmov.b64 %l2, smem;\nadd.s64 %l1, %l1, %l2;\n"

static void test_races(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
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
  EMU_EXPECT_FAULTS(rows);
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
  static const emu_wrong_t rows[] = {
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
  EMU_EXPECT_FAULTS(rows);
}

/* What is not modeled is said. */
static void test_not_modeled(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
      {.body = "st.release.cta.shared.b32 [smem], 1;",
       .report = "acquires or releases by an access to shared memory, which is not modeled"},
      {.body = "st.shared.b32 [smem], 1;\nld.acquire.cta.shared.b32 %r1, [smem];",
       .report = "acquires or releases by an access to shared memory, which is not modeled"},
      {.body = "st.shared.b32 [smem], 1;\natom.acq_rel.cta.shared.add.u32 %r1, [smem], 1;",
       .report = "acquires or releases by an access to shared memory, which is not modeled"},
  };
  EMU_EXPECT_FAULTS(rows);
}

static void test_barriers(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
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
  EMU_EXPECT_FAULTS(rows);
}

static void test_registers(void **state) {
  (void)state;
  static const emu_wrong_t rows[] = {
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
  EMU_EXPECT_FAULTS(rows);
}

/* ---- Launches ---- */

/* A pointer that must be there and is not is an error, and the report says which. */
static void test_null(void **state) {
  (void)state;
  moe_emu_module_t *module = NULL;
  moe_emu_tensor_map_t map = {.rank = 1};
  uint8_t bytes[MOE_EMU_TENSOR_MAP_BYTES];
  moe_emu_report_t report;
#define EXPECT_NULL(call, expected)                                                                \
  do {                                                                                             \
    assert_int_equal(call, MOE_EMU_INVALID_ARGUMENT);                                              \
    assert_string_equal(report.text, expected " is NULL");                                         \
  } while (0)
  EXPECT_NULL(moe_emu_module_load(NULL, 1, &module, &report), "text or out_module");
  EXPECT_NULL(moe_emu_module_load("", 0, NULL, &report), "text or out_module");
  EXPECT_NULL(moe_emu_launch(NULL, NULL, NULL, &report),
              "module, launch, or its kernel, parameters or buffers");
  EXPECT_NULL(moe_emu_tensor_map_encode(NULL, bytes, &report), "map or out_bytes");
  EXPECT_NULL(moe_emu_tensor_map_encode(&map, NULL, &report), "map or out_bytes");
#undef EXPECT_NULL
  assert_int_equal(moe_emu_module_load("", 0, &module, NULL), MOE_EMU_INVALID_ARGUMENT);
  assert_int_equal(moe_emu_launch(NULL, NULL, NULL, NULL), MOE_EMU_INVALID_ARGUMENT);
  assert_int_equal(moe_emu_tensor_map_encode(&map, bytes, NULL), MOE_EMU_INVALID_ARGUMENT);
  assert_false(moe_emu_module_has(NULL, "k"));
  moe_emu_module_destroy(NULL);
}

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
  EXPECT_INVALID(bad.grid[1] = 0,
                 "kernel 'k': grid.y is 0 and block.y is 1; they must be 1 to 65535 and 1 to 1024");
  EXPECT_INVALID(bad.grid[0] = UINT32_C(1) << 31,
                 "kernel 'k': grid.x is 2147483648 and block.x is 64; they must be 1 to 2147483647 "
                 "and 1 to 1024");
  EXPECT_INVALID(
      bad.grid[2] = 65536,
      "kernel 'k': grid.z is 65536 and block.z is 1; they must be 1 to 65535 and 1 to 64");
  EXPECT_INVALID(bad.block[2] = 65,
                 "kernel 'k': grid.z is 1 and block.z is 65; they must be 1 to 65535 and 1 to 64");
  EXPECT_INVALID(bad.parameter_count = 0, "kernel 'k': 0 parameters given; it has 1");
  EXPECT_INVALID(bad.buffer_count = -1, "kernel 'k': -1 buffers");
  static const char missing[] = "module, launch, or its kernel, parameters or buffers is NULL";
  EXPECT_INVALID(bad.kernel = NULL, missing);
  EXPECT_INVALID(bad.parameters = NULL, missing);
  EXPECT_INVALID(bad.buffer_count = 1, missing);
  EXPECT_INVALID(bad.parameter_bytes = &eight,
                 "kernel 'k': parameter 0 has 8 bytes; the PTX declares 4");
  const void *nothing[] = {NULL};
  EXPECT_INVALID(bad.parameters = nothing, "kernel 'k': parameter 0 is NULL");
  const moe_emu_buffer_t nowhere = {.bytes = 4, .name = "x"};
  EXPECT_INVALID((bad.buffers = &nowhere, bad.buffer_count = 1),
                 "kernel 'k': buffer 'x' has the address 0");
  static const int wrong_threads[] = {-1, 1025};
  for (int i = 0; i < 2; i++) {
    const moe_emu_options_t options = {.threads = wrong_threads[i]};
    assert_int_equal(moe_emu_launch(module, &good, &options, &report), MOE_EMU_INVALID_ARGUMENT);
  }
  assert_string_equal(report.text, "threads is 1025; it must be 0 to 1024");
  EXPECT_INVALID(bad.dynamic_shared = 232449,
                 "kernel 'k': 232449 bytes of shared memory; the limit is 232448");
  moe_emu_module_destroy(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_addresses),      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_initialization), cmocka_unit_test(test_races),
      cmocka_unit_test(test_mbarriers),      cmocka_unit_test(test_not_modeled),
      cmocka_unit_test(test_barriers),       cmocka_unit_test(test_registers),
      cmocka_unit_test(test_launches),       cmocka_unit_test(test_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
