/* MachineTest.c - what warps do together: divergence, shuffles, barriers, atomics, copies.
 *
 * Why it exists: these are right only if the machine schedules right, so every kernel runs under
 * several schedules.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

#include <stdalign.h>

enum { SCHEDULES = 5, MAX_WORDS = 4096 };

static alignas(256) uint32_t out[MAX_WORDS];
static alignas(256) uint32_t in[MAX_WORDS];

/* Runs the body, which stores to %l0, the thread's own word of `out`, under every schedule. */
static void run(const char *body, uint32_t threads, uint32_t ctas) {
  char text[4096];
  snprintf(text, sizeof text,
           "mov.u32 %%r38, %%ctaid.x;\nmov.u32 %%r39, %%ntid.x;\n"
           "mad.lo.s32 %%r38, %%r38, %%r39, %%tid;\nmul.wide.u32 %%l0, %%r38, 4;\n"
           "add.s64 %%l0, %%out, %%l0;\n%s",
           body);
  for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++) {
    memset(out, 0xA5, sizeof out);
    emu_expect_ok(
        &(emu_kernel_t){.body = text, .threads = threads, .ctas = ctas, .schedule = schedule}, in,
        sizeof in, out, sizeof out);
  }
}

#define EXPECT(count, expression)                                                                  \
  for (uint32_t t = 0; t < (count); t++)                                                           \
  assert_int_equal(out[t], (uint32_t)(expression))

static uint32_t collatz(uint32_t n) {
  uint32_t steps = 0;
  for (; n > 1; steps++)
    n = n & 1 ? 3 * n + 1 : n / 2;
  return steps;
}

/* A loop that every lane leaves at another time, with a branch inside. */
static void test_divergent_loop(void **state) {
  (void)state;
  run("mov.b32 %r1, %tid;\nmov.b32 %r2, 0;\n"
      "LOOP:\nsetp.le.u32 %p1, %r1, 1;\n@%p1 bra DONE;\n"
      "and.b32 %r3, %r1, 1;\nsetp.eq.b32 %p2, %r3, 0;\n@%p2 bra EVEN;\n"
      "mad.lo.s32 %r1, %r1, 3, 1;\nbra NEXT;\nEVEN:\nshr.u32 %r1, %r1, 1;\n"
      "NEXT:\nadd.s32 %r2, %r2, 1;\nbra.uni LOOP;\n"
      "DONE:\nbar.warp.sync -1;\nactivemask.b32 %r4;\nsetp.ne.b32 %p3, %r4, -1;\n"
      "@%p3 mov.b32 %r2, 999;\nst.global.b32 [%l0], %r2;",
      128, 1);
  EXPECT(128, collatz(t));
}

/* Lanes that return early, from the middle of nested branches. */
static void test_early_exit(void **state) {
  (void)state;
  run("and.b32 %r1, %tid, 3;\nst.global.b32 [%l0], %r1;\n"
      "setp.eq.b32 %p1, %r1, 0;\n@%p1 ret;\n"
      "setp.lt.u32 %p2, %r1, 3;\n@%p2 bra A;\nbra B;\n"
      "A:\nsetp.eq.b32 %p3, %r1, 1;\n@%p3 bra C;\nret;\nC:\n"
      "B:\nadd.s32 %r2, %r1, 100;\nst.global.b32 [%l0], %r2;",
      64, 1);
  EXPECT(64, t % 2 == 0 ? t % 4 : t % 4 + 100);
}

/* One lane waits for what another lane of its warp does in the other branch. */
static void test_lanes_are_independent(void **state) {
  (void)state;
  run("setp.eq.b32 %p1, %tid, 0;\n@!%p1 bra START;\nmbarrier.init.shared.b64 [smem], 31;\n"
      "START:\nbar.warp.sync -1;\n@%p1 bra WAIT;\n"
      "mbarrier.arrive.shared.b64 _, [smem];\nbra JOIN;\n"
      "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem], 0;\n@!%p2 bra WAIT;\n"
      "JOIN:\nactivemask.b32 %r1;\nst.global.b32 [%l0], %r1;",
      32, 1);
  EXPECT(32, 0xFFFFFFFF);
}

static void test_shuffles(void **state) {
  (void)state;
  run("mul.lo.s32 %r1, %tid, 10;\nshfl.sync.down.b32 %r2|%p1, %r1, 3, 31, -1;\n"
      "selp.b32 %r3, 1000, 0, %p1;\nadd.s32 %r2, %r2, %r3;\nst.global.b32 [%l0], %r2;",
      32, 1);
  EXPECT(32, t + 3 < 32 ? (t + 3) * 10 + 1000 : t * 10);
  run("shfl.sync.up.b32 %r2|%p1, %tid, 5, 0, -1;\nst.global.b32 [%l0], %r2;", 32, 1);
  EXPECT(32, t >= 5 ? t - 5 : t);
  run("shfl.sync.bfly.b32 %r2, %tid, 21, 31, -1;\nst.global.b32 [%l0], %r2;", 32, 1);
  EXPECT(32, t ^ 21);
  run("shfl.sync.idx.b32 %r2, %tid, 3, 0x181F, -1;\nst.global.b32 [%l0], %r2;", 32, 1);
  EXPECT(32, (t & 24) + 3);
}

static void test_votes(void **state) {
  (void)state;
  run("setp.gt.u32 %p1, %tid, 19;\nvote.sync.ballot.b32 %r1, %p1, -1;\n"
      "vote.sync.any.pred %p2, %p1, -1;\nvote.sync.all.pred %p3, %p1, -1;\n"
      "vote.sync.uni.pred %p4, %p1, -1;\nselp.b32 %r2, 1, 0, %p2;\nselp.b32 %r3, 2, 0, %p3;\n"
      "selp.b32 %r4, 4, 0, %p4;\nxor.b32 %r1, %r1, %r2;\nxor.b32 %r1, %r1, %r3;\n"
      "xor.b32 %r1, %r1, %r4;\nst.global.b32 [%l0], %r1;",
      32, 1);
  EXPECT(32, 0xFFF00000 ^ 1);
  run("sub.s32 %r1, 5, %tid;\nredux.sync.min.s32 %r2, %r1, -1;\nredux.sync.max.u32 %r3, %r1, -1;\n"
      "redux.sync.add.s32 %r4, %r1, -1;\nredux.sync.xor.b32 %r5, %tid, -1;\n"
      "redux.sync.or.b32 %r6, %tid, -1;\nadd.s32 %r5, %r5, %r6;\n"
      "sub.s32 %r2, %r3, %r2;\nshl.b32 %r4, %r4, 4;\nadd.s32 %r2, %r2, %r4;\n"
      "add.s32 %r2, %r2, %r5;\nst.global.b32 [%l0], %r2;",
      32, 1);
  /* min -26, max as unsigned -1, sum 5*32 - 496, xor of 0..31 is 0, or of them 31 */
  EXPECT(32, (-1 + 26) + (160 - 496) * 16 + 31);
  run("elect.sync %r1|%p1, -1;\nselp.b32 %r2, 7, 0, %p1;\nadd.s32 %r1, %r1, %r2;\n"
      "st.global.b32 [%l0], %r1;",
      32, 1);
  EXPECT(32, t == 0 ? 7 : 0);
  run("and.b32 %r1, %tid, 1;\nmatch.any.sync.b32 %r2, %r1, -1;\nst.global.b32 [%l0], %r2;", 32, 1);
  EXPECT(32, t & 1 ? 0xAAAAAAAA : 0x55555555);
}

/* Words go round the CTA through shared memory, twice. */
static void test_cta_barrier(void **state) {
  (void)state;
  run("shl.b32 %r1, %tid, 2;\ncvt.u64.u32 %l1, %r1;\nmov.b64 %l2, smem;\nadd.s64 %l1, %l1, %l2;\n"
      "mov.b32 %r5, %tid;\nmov.b32 %r6, 0;\n"
      "LOOP:\nst.shared.b32 [%l1], %r5;\nbar.sync 0;\nadd.s32 %r2, %tid, 33;\n"
      "rem.u32 %r2, %r2, 160;\nshl.b32 %r2, %r2, 2;\ncvt.u64.u32 %l3, %r2;\nadd.s64 %l3, %l3, "
      "%l2;\n"
      "ld.shared.b32 %r5, [%l3];\nbar.sync 0;\nadd.s32 %r6, %r6, 1;\n"
      "setp.lt.u32 %p1, %r6, 2;\n@%p1 bra LOOP;\nst.global.b32 [%l0], %r5;",
      160, 2);
  EXPECT(320, (t % 160 + 66) % 160);
}

/* A producer warp arrives, a consumer warp waits, both ways. */
static void test_named_barriers(void **state) {
  (void)state;
  run("setp.ge.u32 %p1, %tid, 32;\nand.b32 %r1, %tid, 31;\nshl.b32 %r1, %r1, 2;\n"
      "cvt.u64.u32 %l1, %r1;\nmov.b64 %l2, smem;\nadd.s64 %l1, %l1, %l2;\nmov.b32 %r2, 0;\n"
      "mov.b32 %r4, 0;\n@%p1 bra CONSUME;\n"
      "PRODUCE:\nbar.sync 2, 64;\nmad.lo.s32 %r3, %r2, 100, %tid;\nst.shared.b32 [%l1], %r3;\n"
      "bar.arrive 1, 64;\nadd.s32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 4;\n@%p2 bra PRODUCE;\n"
      "bra END;\n"
      "CONSUME:\nbar.arrive 2, 64;\nbar.sync 1, 64;\nld.shared.b32 %r3, [%l1];\n"
      "add.s32 %r4, %r4, %r3;\nadd.s32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 4;\n@%p2 bra CONSUME;\n"
      "END:\nst.global.b32 [%l0], %r4;",
      64, 1);
  EXPECT(64, t < 32 ? 0 : 600 + 4 * (t - 32));
}

static void test_memory(void **state) {
  (void)state;
  for (uint32_t i = 0; i < MAX_WORDS; i++)
    in[i] = i * 0x01010101;
  run("mul.wide.u32 %l1, %tid, 16;\nadd.s64 %l1, %in, %l1;\n"
      "ld.global.v4.b32 {%r1, %r2, %r3, _}, [%l1];\nld.global.s8 %r4, [%l1+4];\n"
      "ld.global.nc.L1::no_allocate.u16 %h1, [%l1+10];\ncvt.u32.u16 %r5, %h1;\n"
      "xor.b32 %r1, %r1, %r2;\nxor.b32 %r1, %r1, %r3;\nadd.s32 %r1, %r1, %r4;\n"
      "add.s32 %r1, %r1, %r5;\nst.global.b32 [%l0], %r1;",
      64, 1);
  for (uint32_t t = 0; t < 64; t++) {
    uint32_t a = in[4 * t], b = in[4 * t + 1], c = in[4 * t + 2];
    assert_int_equal(out[t], (a ^ b ^ c) + (uint32_t)(int8_t)b + (c >> 16));
  }
  /* Through generic addresses of shared memory. */
  run("mov.b64 %l1, smem;\ncvta.shared.u64 %l1, %l1;\nmul.wide.u32 %l2, %tid, 8;\n"
      "add.s64 %l1, %l1, %l2;\nst.v2.b32 [%l1], {%tid, 77};\nld.b64 %l3, [%l1];\n"
      "mov.b64 {%r1, %r2}, %l3;\nadd.s32 %r1, %r1, %r2;\nst.global.b32 [%l0], %r1;",
      64, 1);
  EXPECT(64, t + 77);
}

static void test_atomics(void **state) {
  (void)state;
  run("mov.b32 %r1, 0;\nsetp.eq.b32 %p1, %tid, 0;\n@%p1 st.shared.b32 [smem], 0;\nbar.sync 0;\n"
      "atom.shared.add.u32 %r1, [smem], 3;\nred.shared.add.u32 [smem], 1;\nbar.sync 0;\n"
      "ld.shared.b32 %r2, [smem];\nst.global.b32 [%l0], %r2;",
      96, 1);
  EXPECT(96, 96 * 4);
  /* Of global memory, by all CTAs. */
  run("add.s64 %l1, %out, 8192;\nsetp.eq.b32 %p1, %r38, 0;\n"
      "red.global.max.s32 [%l1], %r38;\natom.global.cas.b32 %r1, [%l1+4], 0xA5A5A5A5, 5;\n"
      "red.global.add.u32 [%l1+8], 2;\nst.global.b32 [%l0], %r38;",
      64, 4);
  assert_int_equal(out[2048], 255);
  assert_int_equal(out[2049], 5);
  assert_int_equal(out[2050], 0xA5A5A5A5 + 512);
}

/* A box goes through shared memory and comes out elsewhere, transposed by its swizzle and back. */
static void test_bulk_copies(void **state) {
  (void)state;
  enum { ROWS = 16, COLUMNS = 64 };
  for (uint32_t i = 0; i < MAX_WORDS; i++)
    in[i] = i * 2654435761U;
  const moe_emu_tensor_map_t maps[] = {
      {.type = MOE_EMU_MAP_U8,
       .rank = 2,
       .address = (uint64_t)(uintptr_t)in,
       .dims = {COLUMNS, ROWS},
       .strides = {COLUMNS},
       .box = {COLUMNS, ROWS},
       .swizzle = 2},
      {.type = MOE_EMU_MAP_U8,
       .rank = 2,
       .address = 1,
       .dims = {COLUMNS, ROWS},
       .strides = {COLUMNS},
       .box = {COLUMNS, ROWS},
       .swizzle = 2},
  };
  moe_emu_tensor_map_t mine[2] = {maps[0], maps[1]};
  mine[1].address = (uint64_t)(uintptr_t)out;
  for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++) {
    memset(out, 0xA5, sizeof out);
    emu_expect_ok(
        &(emu_kernel_t){
            .body =
                "setp.ne.b32 %p1, %tid, 0;\n@%p1 ret;\nmbarrier.init.shared.b64 [smem+8192], 1;\n"
                "fence.mbarrier_init.release.cluster;\nmov.b64 %l1, map0;\ncvta.param.u64 %l1, "
                "%l1;\n"
                "mov.b64 %l2, map1;\ncvta.param.u64 %l2, %l2;\nmov.b64 %l3, smem;\n"
                "mbarrier.arrive.expect_tx.shared.b64 _, [smem+8192], 1024;\nmov.b32 %r1, -8;\n"
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                "[%l3], [%l1, {0, %r1}], [smem+8192];\n"
                "W:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+8192], 0;\n@!%p2 bra W;\n"
                "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%l2, {0, 0}], [%l3];\n"
                "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
            .schedule = schedule,
            .maps = mine,
            .map_count = 2},
        in, sizeof in, out, sizeof out);
    /* The first eight rows of the box were outside. */
    for (uint32_t i = 0; i < ROWS * COLUMNS / 4; i++)
      assert_int_equal(out[i], i < 128 ? 0 : in[i - 128]);
    assert_int_equal(out[ROWS * COLUMNS / 4], 0xA5A5A5A5);
  }
}

/* Bytes come and go without a map: as many as a register says, and no byte beside them. */
static void test_plain_bulk_copies(void **state) {
  (void)state;
  for (uint32_t i = 0; i < MAX_WORDS; i++)
    in[i] = i * 2654435761U;
  for (uint32_t bytes = 16; bytes <= 4096; bytes = bytes * 2 + 16) {
    for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++) {
      char body[1024];
      snprintf(body, sizeof body,
               "setp.ne.b32 %%p1, %%tid, 0;\n@%%p1 ret;\nmbarrier.init.shared.b64 [smem+8192], 1;\n"
               "fence.mbarrier_init.release.cluster;\nmov.b32 %%r1, %u;\nmov.b64 %%l1, smem;\n"
               "mbarrier.arrive.expect_tx.shared.b64 _, [smem+8192], %%r1;\n"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%l1+48], "
               "[%%in+32], %%r1, [smem+8192];\n"
               "W:\nmbarrier.try_wait.parity.shared.b64 %%p2, [smem+8192], 0;\n@!%%p2 bra W;\n"
               "cp.async.bulk.global.shared::cta.bulk_group [%%out+64], [%%l1+48], %%r1;\n"
               "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
               bytes);
      memset(out, 0xA5, sizeof out);
      emu_expect_ok(&(emu_kernel_t){.body = body, .schedule = schedule}, in, sizeof in, out,
                    sizeof out);
      for (uint32_t i = 0; i < MAX_WORDS; i++)
        assert_int_equal(out[i], i >= 16 && i < 16 + bytes / 4 ? in[i - 16 + 8] : 0xA5A5A5A5);
    }
  }
}

/* Each CTA adds to a word and hands on what it wrote; the last one sums it up, and leaves zero:
 * the fences and atomics that LLVM writes. */
static void test_last_cta(void **state) {
  (void)state;
  for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++) {
    memset(out, 0, sizeof out);
    emu_expect_ok(
        &(emu_kernel_t){
            .body =
                "setp.ne.b32 %p1, %tid, 0;\n@%p1 ret;\n"
                "mov.u32 %r1, %ctaid.x;\nadd.s32 %r2, %r1, 100;\n"
                "mul.wide.u32 %l1, %r1, 4;\nadd.s64 %l1, %l1, %out;\n"
                "st.global.b32 [%l1+64], %r2;\n"
                "fence.acq_rel.gpu;\natom.global.add.u32 %r3, [%out], 1;\nfence.acq_rel.gpu;\n"
                "atom.global.max.u32 %r4, [%out+4], %r2;\natom.global.or.b32 %r4, [%out+8], %r1;\n"
                "setp.ne.b32 %p2, %r3, 7;\n@%p2 ret;\nmov.b32 %r5, 0;\nmov.b32 %r6, 0;\n"
                "add.s64 %l2, %out, 64;\n"
                "L:\nld.global.b32 %r7, [%l2];\nadd.s32 %r6, %r6, %r7;\n"
                "add.s64 %l2, %l2, 4;\nadd.s32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 8;\n"
                "@%p3 bra L;\nst.global.b32 [%out+12], %r6;\nst.global.b32 [%out], 0;",
            .ctas = 8,
            .schedule = schedule},
        in, sizeof in, out, sizeof out);
    assert_int_equal(out[0], 0);
    assert_int_equal(out[1], 107);
    assert_int_equal(out[2], 7);
    assert_int_equal(out[3], 828);
  }
}

/* Fences of the generic proxy and the control of dependent grids, in every spelling. */
static void test_no_effect(void **state) {
  (void)state;
  run("membar.cta;\nmembar.gl;\nmembar.sys;\nfence.acq_rel.cta;\nfence.acq_rel.cluster;\n"
      "fence.acq_rel.gpu;\nfence.acq_rel.sys;\nfence.sc.cta;\nfence.sc.cluster;\nfence.sc.gpu;\n"
      "fence.sc.sys;\ngriddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n"
      "ld.acquire.gpu.global.b32 %r1, [%l0];\nst.release.gpu.global.b32 [%l0], %tid;",
      32, 1);
  EXPECT(32, t);
}

/* Four 8 x 8 matrices, of which element (row, column) of matrix i is number 64 * i + 8 * row +
 * column: in shared memory rows lie one after the other, or columns where they are transposed. */
static void test_store_matrix(void **state) {
  (void)state;
  static const char body[] =
      "shl.b32 %%r1, %%tid, 1;\nmad.lo.s32 %%r1, %%r1, 65537, 65536;\n"
      "add.s32 %%r2, %%r1, 4194368;\nadd.s32 %%r3, %%r2, 4194368;\nadd.s32 %%r4, %%r3, 4194368;\n"
      "mul.wide.u32 %%l1, %%tid, 16;\nmov.b64 %%l2, smem;\nadd.s64 %%l2, %%l2, %%l1;\n"
      "stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [%%l2], {%%r1, %%r2, %%r3, %%r4};\n"
      "bar.warp.sync -1;\nld.shared.v4.b32 {%%r5, %%r6, %%r7, %%r8}, [%%l2];\n"
      "add.s64 %%l1, %%l1, %%out;\nst.global.v4.b32 [%%l1], {%%r5, %%r6, %%r7, %%r8};";
  for (int transposed = 0; transposed < 2; transposed++) {
    char text[1024];
    snprintf(text, sizeof text, body, transposed ? ".trans" : "");
    run(text, 32, 1);
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t line = i / 8 % 8, place = i % 8;
      uint32_t number = i / 64 * 64 + (transposed ? 8 * place + line : 8 * line + place);
      assert_int_equal(out[i / 2] >> i % 2 * 16 & 0xffff, number);
    }
  }
}

/* Element (row, column) of matrix i in shared memory is number 64 * i + 8 * row + column; lane
 * 4 * r + c of register i has two of row r, or of column r where the matrix is transposed. */
static void test_load_matrix(void **state) {
  (void)state;
  static const char body[] =
      "mul.lo.s32 %%r1, %%tid, 524296;\nadd.s32 %%r1, %%r1, 65536;\nadd.s32 %%r2, %%r1, 131074;\n"
      "add.s32 %%r3, %%r2, 131074;\nadd.s32 %%r4, %%r3, 131074;\n"
      "mul.wide.u32 %%l1, %%tid, 16;\nmov.b64 %%l2, smem;\nadd.s64 %%l2, %%l2, %%l1;\n"
      "st.shared.v4.b32 [%%l2], {%%r1, %%r2, %%r3, %%r4};\nbar.warp.sync -1;\n"
      "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%r5, %%r6, %%r7, %%r8}, [%%l2];\n"
      "add.s64 %%l1, %%l1, %%out;\nst.global.v4.b32 [%%l1], {%%r5, %%r6, %%r7, %%r8};";
  for (int transposed = 0; transposed < 2; transposed++) {
    char text[1024];
    snprintf(text, sizeof text, body, transposed ? ".trans" : "");
    run(text, 32, 1);
    for (uint32_t lane = 0; lane < 32; lane++)
      for (uint32_t i = 0; i < 4; i++)
        for (uint32_t h = 0; h < 2; h++) {
          uint32_t line = lane / 4, place = lane % 4 * 2 + h;
          uint32_t number = 64 * i + (transposed ? 8 * place + line : 8 * line + place);
          assert_int_equal(out[lane * 4 + i] >> 16 * h & 0xffff, number);
        }
  }
}

static uint32_t bits_of_f32(float x) {
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Whole numbers up to 64, of which bf16 and f16 have all. */
static uint32_t half_of(bool is_f16, int x) {
  uint32_t bits = bits_of_f32((float)x);
  if (!is_f16)
    return bits >> 16;
  return x ? (bits >> 16 & 0x8000) | (((bits >> 13 & 0x3ffff) - (112 << 10)) & 0x7fff) : 0;
}

/* a[16][16] * b[16][8] + c[16][8], each element where the PTX ISA has it. */
static void test_product(void **state) {
  (void)state;
  static const char body[] =
      "mul.wide.u32 %%l1, %%tid, 40;\nadd.s64 %%l1, %%l1, %%in;\n"
      "ld.global.v2.b32 {%%r1, %%r2}, [%%l1];\nld.global.v2.b32 {%%r3, %%r4}, [%%l1+8];\n"
      "ld.global.v2.b32 {%%r5, %%r6}, [%%l1+16];\nld.global.v2.b32 {%%r7, %%r8}, [%%l1+24];\n"
      "ld.global.v2.b32 {%%r9, %%r10}, [%%l1+32];\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32 {%%r7, %%r11, %%r12, %%r13}, "
      "{%%r1, %%r2, %%r3, %%r4}, {%%r5, %%r6}, {%%r7, %%r8, %%r9, %%r10};\n"
      "mul.wide.u32 %%l1, %%tid, 16;\nadd.s64 %%l1, %%l1, %%out;\n"
      "st.global.v4.b32 [%%l1], {%%r7, %%r11, %%r12, %%r13};";
  int a[16][16], b[16][8], c[16][8];
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) {
      a[i][j] = (i * 7 + j * 5 + i * j) % 61 - 30;
      if (j < 8) {
        b[i][j] = (i * 11 + j * 3 + i * j * 2) % 59 - 29;
        c[i][j] = i * 1000 - j * 77;
      }
    }
  for (int is_f16 = 0; is_f16 < 2; is_f16++) {
    for (int lane = 0; lane < 32; lane++) {
      uint32_t *to = in + (ptrdiff_t)lane * 10;
      int group = lane / 4, pair = lane % 4 * 2;
      for (int i = 0; i < 4; i++) {
        int row = group + i % 2 * 8, k = pair + i / 2 * 8, sum = c[group + i / 2 * 8][pair + i % 2];
        to[i] = half_of(is_f16, a[row][k]) | half_of(is_f16, a[row][k + 1]) << 16;
        to[6 + i] = bits_of_f32((float)sum);
      }
      for (int i = 0; i < 2; i++)
        to[4 + i] = half_of(is_f16, b[pair + 8 * i][group]) |
                    half_of(is_f16, b[pair + 8 * i + 1][group]) << 16;
    }
    char text[1024];
    snprintf(text, sizeof text, body, is_f16 ? "f16" : "bf16", is_f16 ? "f16" : "bf16");
    run(text, 32, 1);
    for (int lane = 0; lane < 32; lane++)
      for (int i = 0; i < 4; i++) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2, sum = c[row][column];
        for (int k = 0; k < 16; k++)
          sum += a[row][k] * b[k][column];
        assert_int_equal(out[lane * 4 + i], bits_of_f32((float)sum));
      }
  }
}

/* Registers that one warpgroup gives up, the other takes. */
static void test_registers_move(void **state) {
  (void)state;
  for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++)
    emu_expect_ok(&(emu_kernel_t){.directives = ".maxnreg 64\n",
                                  .body = "setp.lt.u32 %p1, %tid, 128;\n@%p1 bra GIVE;\n"
                                          "setmaxnreg.inc.sync.aligned.u32 96;\nbra END;\n"
                                          "GIVE:\nnanosleep.u32 10;\n"
                                          "setmaxnreg.dec.sync.aligned.u32 32;\nEND:\n",
                                  .threads = 256,
                                  .schedule = schedule},
                  in, sizeof in, out, sizeof out);
}

/* Dynamic shared memory lies at a multiple of its alignment, and of no more. */
static void test_dynamic_shared_memory(void **state) {
  (void)state;
  for (uint32_t alignment = 4; alignment <= 2048; alignment *= 2) {
    emu_expect_ok(&(emu_kernel_t){.body = "mov.b64 %l1, smem;\nst.global.b64 [%out], %l1;\n"
                                          "mov.u32 %r1, %total_smem_size;\n"
                                          "st.global.b32 [%out+8], %r1;",
                                  .threads = 1,
                                  .alignment = alignment},
                  in, sizeof in, out, sizeof out);
    assert_int_equal(out[0] & (2 * alignment - 1), alignment);
    assert_int_equal(out[2], (alignment == 2048 ? 1024 : 0) + 16384);
  }
}

/* A tile of 8 rows of 128 bytes, swizzled by offsets in the tile, which is right only where the
 * tile begins at a multiple of 1024. */
static void test_swizzle_needs_alignment(void **state) {
  (void)state;
  const moe_emu_tensor_map_t map = {.type = MOE_EMU_MAP_U8,
                                    .rank = 2,
                                    .dims = {128, 8},
                                    .strides = {128},
                                    .box = {128, 8},
                                    .swizzle = 3};
  for (uint32_t alignment = 128; alignment <= 1024; alignment *= 2) {
    memset(out, 0xA5, sizeof out);
    emu_expect_ok(
        &(emu_kernel_t){
            .body = "shr.u32 %r1, %tid, 3;\nand.b32 %r2, %tid, 7;\nxor.b32 %r2, %r2, %r1;\n"
                    "shl.b32 %r1, %r1, 7;\nshl.b32 %r2, %r2, 4;\nadd.s32 %r1, %r1, %r2;\n"
                    "cvt.u64.u32 %l1, %r1;\nmov.b64 %l2, smem;\nadd.s64 %l1, %l1, %l2;\n"
                    "st.shared.v4.b32 [%l1], {%tid, %tid, %tid, %tid};\n"
                    "fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.ne.b32 %p1, %tid, 0;\n"
                    "@%p1 ret;\nmov.b64 %l3, map0;\ncvta.param.u64 %l3, %l3;\n"
                    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%l3, {0, 0}], "
                    "[%l2];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
            .threads = 64,
            .alignment = alignment,
            .maps = &map,
            .map_count = 1},
        in, sizeof in, out, sizeof out);
    bool is_right = true;
    for (uint32_t i = 0; i < 256; i++)
      is_right = is_right && out[i] == i / 4;
    assert_int_equal(is_right, alignment == 1024);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_divergent_loop),
      cmocka_unit_test(test_early_exit),
      cmocka_unit_test(test_lanes_are_independent),
      cmocka_unit_test(test_shuffles),
      cmocka_unit_test(test_votes),
      cmocka_unit_test(test_cta_barrier),
      cmocka_unit_test(test_named_barriers),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_atomics),
      cmocka_unit_test(test_bulk_copies),
      cmocka_unit_test(test_plain_bulk_copies),
      cmocka_unit_test(test_last_cta),
      cmocka_unit_test(test_no_effect),
      cmocka_unit_test(test_store_matrix),
      cmocka_unit_test(test_load_matrix),
      cmocka_unit_test(test_product),
      cmocka_unit_test(test_registers_move),
      cmocka_unit_test(test_dynamic_shared_memory),
      cmocka_unit_test(test_swizzle_needs_alignment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
