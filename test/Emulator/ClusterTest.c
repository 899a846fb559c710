/* ClusterTest.c - clusters: CTAs that reach each other's shared memory, and those that must not.
 *
 * Why it exists: CTAs of a cluster are right only if they wait for each other, at the start, at
 * each exchange and at the end; every kernel runs under several schedules, and each check has a
 * kernel that only it can catch.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

#include <stdalign.h>

enum { SCHEDULES = 12, WORDS = 1024 };

static alignas(256) uint32_t out[WORDS];
static alignas(256) uint32_t in[WORDS];

/* %r30 is the rank, %r31 that of the other CTA of a pair, %l30 its shared memory; %l0 is the
 * thread's word of `out`, %l31 and %l32 its words of the CTA's own memory and of the other's. */
#define PLACES                                                                                     \
  "mov.u32 %r30, %cluster_ctarank;\nxor.b32 %r31, %r30, 1;\nmov.b64 %l29, smem;\n"                 \
  "mapa.shared::cluster.u64 %l30, %l29, %r31;\nmul.wide.u32 %l28, %tid, 4;\n"                      \
  "add.s64 %l31, %l29, %l28;\nadd.s64 %l32, %l30, %l28;\n"                                         \
  "mov.u32 %r29, %ctaid.x;\nmov.u32 %r28, %ntid.x;\nmad.lo.s32 %r29, %r29, %r28, %tid;\n"          \
  "mul.wide.u32 %l0, %r29, 4;\nadd.s64 %l0, %out, %l0;\n"
#define ARRIVE "barrier.cluster.arrive.release.aligned;\n"
#define WAIT "barrier.cluster.wait.acquire.aligned;\n"
#define TOGETHER ARRIVE WAIT
#define PAIR ".reqnctapercluster 2\n"

static void run(const char *body, const char *directives, uint32_t threads, uint32_t ctas,
                const moe_emu_tensor_map_t *map) {
  for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++) {
    memset(out, 0xA5, sizeof out);
    emu_expect_ok(&(emu_kernel_t){.body = body,
                                  .directives = directives,
                                  .threads = threads,
                                  .ctas = ctas,
                                  .schedule = schedule,
                                  .maps = map,
                                  .map_count = map != NULL},
                  in, sizeof in, out, sizeof out);
  }
}

#define EXPECT(count, expression)                                                                  \
  for (uint32_t t = 0; t < (count); t++)                                                           \
  assert_int_equal(out[t], (uint32_t)(expression))

static void test_places(void **state) {
  (void)state;
  run("mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ctaid.y;\nmad.lo.s32 %r1, %r2, 6, %r1;\n"
      "mul.wide.u32 %l1, %r1, 4;\nadd.s64 %l1, %out, %l1;\n"
      "mov.u32 %r2, %cluster_ctarank;\nmov.u32 %r3, %cluster_ctaid.x;\nadd.s32 %r2, %r2, %r3;\n"
      "mov.u32 %r3, %clusterid.x;\nmad.lo.s32 %r2, %r3, 10, %r2;\n"
      "mov.u32 %r3, %nclusterid.x;\nmad.lo.s32 %r2, %r3, 100, %r2;\n"
      "mov.u32 %r3, %cluster_nctarank;\nmad.lo.s32 %r2, %r3, 1000, %r2;\n"
      "mov.u32 %r3, %cluster_nctaid.x;\nmad.lo.s32 %r2, %r3, 10000, %r2;\n"
      "st.global.b32 [%l1], %r2;",
      ".reqnctapercluster 3, 1, 1\n", 1, 6, NULL);
  EXPECT(6, 33200 + t / 3 * 10 + t % 3 * 2);
}

/* A CTA's own addresses have its rank from bit 24 on, as those that mapa gives, generic ones too;
 * what they lead to does not change. */
static void test_addresses(void **state) {
  (void)state;
  run(PLACES "mapa.shared::cluster.u64 %l1, %l29, %r30;\nsub.s64 %l1, %l1, %l29;\n"
             "cvta.shared.u64 %l2, %l29;\nmapa.u64 %l3, %l2, %r30;\nsub.s64 %l3, %l3, %l2;\n"
             "or.b64 %l1, %l1, %l3;\nshr.u64 %l2, %l29, 24;\nmad.lo.s64 %l1, %l1, 10, %l2;\n"
             "cvt.u32.u64 %r1, %l1;\nmov.b32 %r2, smem;\nand.b32 %r2, %r2, 1023;\n"
             "mad.lo.s32 %r1, %r2, 100, %r1;\nst.shared.b32 [%l31], %r1;\nbar.warp.sync -1;\n"
             "ld.shared.b32 %r2, [smem+8];\nst.global.b32 [%l0], %r2;",
      ".reqnctapercluster 4\n", 32, 8, NULL);
  EXPECT(256, t / 32 % 4);
}

/* Each CTA writes to the other's memory, and reads it back from its own. */
static void test_remote_stores(void **state) {
  (void)state;
  run(PLACES TOGETHER
      "mad.lo.s32 %r1, %r30, 100, %tid;\nst.shared::cluster.b32 [%l32], %r1;\n" TOGETHER
      "ld.shared.b32 %r2, [%l31];\nst.global.b32 [%l0], %r2;",
      PAIR, 64, 4, NULL);
  EXPECT(256, (t / 64 % 2 ^ 1) * 100 + t % 64);
}

/* Loads, by a generic address; what the barrier's second half waits for comes before its first. */
static void test_remote_loads(void **state) {
  (void)state;
  run(PLACES "mad.lo.s32 %r1, %r30, 100, %tid;\nst.shared.b32 [%l31], %r1;\n" ARRIVE
             "cvta.shared.u64 %l1, %l31;\nmapa.u64 %l2, %l1, %r31;\n" WAIT
             "ld.b32 %r2, [%l2];\nst.global.b32 [%l0], %r2;\n" TOGETHER,
      PAIR, 64, 2, NULL);
  EXPECT(128, (t / 64 ^ 1) * 100 + t % 64);
}

/* The warps of both CTAs arrive at the first one's mbarrier, three times, with what they have
 * stored; the first one's arrivals let them go on. */
static void test_remote_arrivals(void **state) {
  (void)state;
  run(PLACES "setp.ne.b32 %p1, %tid, 0;\n@%p1 bra A;\nmbarrier.init.shared.b64 [smem+1024], 4;\n"
             "mbarrier.init.shared.b64 [smem+1032], "
             "2;\nfence.mbarrier_init.release.cluster;\nA:\n" TOGETHER
             "mov.b32 %r10, 0;\nmapa.shared::cluster.u64 %l1, %l29, %r10;\n"
             "mul.wide.u32 %l2, %r30, 256;\nadd.s64 %l2, %l1, %l2;\nadd.s64 %l2, %l2, %l28;\n"
             "and.b32 %r11, %tid, 31;\nsetp.ne.b32 %p2, %r11, 0;\nsetp.ne.b32 %p3, %r30, 0;\n"
             "mov.b32 %r12, 0;\n"
             "LOOP:\nmad.lo.s32 %r1, %r30, 100, %tid;\nmad.lo.s32 %r1, %r12, 1000, %r1;\n"
             "st.shared::cluster.b32 [%l2], %r1;\nbar.warp.sync -1;\n"
             "@%p2 bra B;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l1+1024];\nB:\n"
             "@%p3 bra C;\nand.b32 %r13, %r12, 1;\n"
             "FULL:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [smem+1024], "
             "%r13;\n@!%p4 bra FULL;\n"
             "ld.shared.b32 %r2, [%l31];\nld.shared.b32 %r3, [%l31+256];\n"
             "mad.lo.s32 %r2, %r3, 10000, %r2;\nst.global.b32 [%l0], %r2;\nbar.warp.sync -1;\n"
             "@%p2 bra C;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l30+1032];\n"
             "mapa.shared::cluster.u64 %l3, %l29, %r30;\n"
             "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l3+1032], 1;\nC:\n"
             "and.b32 %r13, %r12, 1;\n"
             "EMPTY:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [smem+1032], "
             "%r13;\n@!%p4 bra EMPTY;\n"
             "add.s32 %r12, %r12, 1;\nsetp.lt.u32 %p4, %r12, 3;\n@%p4 bra LOOP;\n" TOGETHER,
      PAIR, 64, 2, NULL);
  EXPECT(64, 2000 + t + 10000 * (2100 + t));
}

/* ---- Multicast ---- */

/* 32 rows of 32 words. */
static moe_emu_tensor_map_t rows_at(uint64_t address) {
  return (moe_emu_tensor_map_t){.type = MOE_EMU_MAP_U32,
                                .rank = 2,
                                .address = address,
                                .dims = {32, 32},
                                .strides = {128},
                                .box = {32, 1}};
}

#define BARRIER                                                                                    \
  "setp.ne.b32 %p1, %tid, 0;\n@%p1 bra I;\nmbarrier.init.shared.b64 [smem+1024], 1;\n"             \
  "fence.mbarrier_init.release.cluster;\nI:\nmov.b64 %l1, map0;\ncvta.param.u64 %l1, %l1;\n"
#define MULTICAST(mask)                                                                            \
  "mul.wide.u32 %l2, %r30, 128;\nadd.s64 %l2, %l2, %l29;\nmov.b16 %h1, " mask                      \
  ";\nmov.b32 %r1, 0;\n"                                                                           \
  "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"               \
  ".multicast::cluster [%l2], [%l1, {%r1, %r30}], [smem+1024], %h1;\n"
#define EXPECT_BYTES(bytes) "mbarrier.arrive.expect_tx.shared.b64 _, [smem+1024], " bytes ";\n"
#define LANDED "W:\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+1024], 0;\n@!%p2 bra W;\n"

/* Each CTA loads a row into all of them. */
static void test_multicast(void **state) {
  (void)state;
  moe_emu_tensor_map_t map = rows_at((uint64_t)(uintptr_t)in);
  for (uint32_t i = 0; i < WORDS; i++)
    in[i] = i * 3;
  run(PLACES BARRIER TOGETHER "@%p1 bra L;\n" EXPECT_BYTES("512") MULTICAST(
          "15") "L:\n" LANDED "mov.b32 %r2, 0;\nmov.b32 %r4, 0;\nS:\nld.shared.b32 %r3, [%l31];\n"
                "mad.lo.s32 %r4, %r4, 10, %r3;\nadd.s64 %l31, %l31, 128;\nadd.s32 %r2, %r2, 1;\n"
                "setp.lt.u32 %p3, %r2, 4;\n@%p3 bra S;\nst.global.b32 [%l0], %r4;\n" TOGETHER,
      ".reqnctapercluster 4\n", 32, 4, &map);
#define ROW(r) (3 * ((r)*32 + t % 32))
  EXPECT(128, ((ROW(0) * 10 + ROW(1)) * 10 + ROW(2)) * 10 + ROW(3));
  /* The last CTA gets nothing of the first three; the others nothing of the last. */
  run(PLACES BARRIER TOGETHER "@%p1 bra L;\nsetp.eq.b32 %p4, %r30, 3;\n"
                              "selp.b32 %r5, 8, 7, %p4;\ncvt.u16.u32 %h2, %r5;\nselp.b32 %r6, 128, "
                              "384, %p4;\n" EXPECT_BYTES("%r6")
                                  MULTICAST("%h2") "L:\n" LANDED
                                                   "mul.wide.u32 %l5, %r30, 128;\nadd.s64 %l5, "
                                                   "%l5, %l31;\nld.shared.b32 %r3, [%l5];\n"
                                                   "st.global.b32 [%l0], %r3;\n" TOGETHER,
      ".reqnctapercluster 4\n", 32, 4, &map);
  EXPECT(128, t * 3);
}

/* ---- Asynchronous stores ---- */

#define RELAXED "barrier.cluster.arrive.relaxed.aligned;\n" WAIT
#define STORE_ASYNC "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"

/* Each thread stores into the other CTA's memory, and its bytes complete on an mbarrier there,
 * which may be announced before they land or after. */
static void test_async_stores(void **state) {
  (void)state;
  moe_emu_tensor_map_t map = rows_at((uint64_t)(uintptr_t)in); /* that BARRIER names */
  run(PLACES BARRIER RELAXED
      "mad.lo.s32 %r1, %r30, 100, %tid;\n" STORE_ASYNC ".b32 [%l32], %r1, [%l30+1024];\n"
      "@%p1 bra L;\n" EXPECT_BYTES("256") "L:\n" LANDED
                                          "ld.shared.b32 %r2, [%l31];\nst.global.b32 [%l0], %r2;",
      PAIR, 64, 4, &map);
  EXPECT(256, (t / 64 % 2 ^ 1) * 100 + t % 64);
  /* Into the own memory, 16 bytes of a lane. */
  run(PLACES BARRIER RELAXED "@%p1 bra L;\n" EXPECT_BYTES(
          "512") "L:\n"
                 "mapa.shared::cluster.u64 %l4, %l29, %r30;\nmul.wide.u32 %l5, %tid, 16;\n"
                 "add.s64 %l5, %l4, %l5;\nshl.b32 %r1, %tid, 2;\nadd.s32 %r2, %r1, 1;\nadd.s32 "
                 "%r3, %r1, 2;\n"
                 "add.s32 %r4, %r1, 3;\n" STORE_ASYNC
                 ".v4.b32 [%l5], {%r1, %r2, %r3, %r4}, [%l4+1024];\n" LANDED
                 "ld.shared.b32 %r2, [%l31];\nld.shared.b32 %r3, [%l31+256];\n"
                 "mad.lo.s32 %r2, %r3, 1000, %r2;\nst.global.b32 [%l0], %r2;",
      PAIR, 32, 2, &map);
  EXPECT(64, t % 32 + 1000 * (t % 32 + 64));
}

/* ---- What is wrong ---- */

typedef struct wrong_t {
  const char *body, *report;
  const char *directives;
  uint32_t threads, ctas;
} wrong_t;

static void expect(const wrong_t *wrong, size_t count) {
  const moe_emu_tensor_map_t map = rows_at(0); /* of `out` */
  for (size_t i = 0; i < count; i++)
    emu_expect_fault(&(emu_kernel_t){.body = wrong[i].body,
                                     .directives = wrong[i].directives ? wrong[i].directives : PAIR,
                                     .threads = wrong[i].threads,
                                     .ctas = wrong[i].ctas ? wrong[i].ctas : 2,
                                     .maps = &map,
                                     .map_count = 1,
                                     .step_limit = 100000},
                     wrong[i].report);
}

#define EXPECT_ALL(rows) expect(rows, sizeof(rows) / sizeof(rows)[0])
#define ONLY(rank) "setp.ne.b32 %p5, %r30, " #rank ";\n@%p5 bra E;\n"

static void test_lifetimes(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = PLACES "st.shared::cluster.b32 [%l32], 1;\n" TOGETHER,
       .report = "which may not have begun: no barrier.cluster is in between"},
      /* Only one of the two has come. */
      {.body = PLACES ARRIVE "st.shared::cluster.b32 [%l32], 1;\n" WAIT,
       .report = "which may not have begun"},
      {.body = PLACES TOGETHER "st.shared::cluster.b32 [%l32], 1;", .report = "exit"},
      {.body = PLACES TOGETHER ONLY(0) "ld.shared::cluster.b32 %r1, [%l32];\n"
                                       "st.global.b32 [%l0], %r1;\nE:\n" TOGETHER,
       .report = "uses %r1, which depends on uninitialized shared memory: 0x4",
       .ctas = 4},
      {.body = PLACES
       "st.shared.b32 [%l31], 1;\n" TOGETHER ONLY(0) "ld.shared::cluster.b32 %r1, [%l32];\nE:\n",
       .report = "exit"},
      {.body = PLACES "st.shared.b32 [%l31], 1;\n" TOGETHER "setp.eq.b32 %p5, %r30, 1;\n@%p5 ret;\n"
                      "mov.b32 %r1, 0;\nL:\nadd.s32 %r1, %r1, 1;\nsetp.lt.u32 %p5, %r1, 30000;\n"
                      "@%p5 bra L;\nld.shared::cluster.b32 %r1, [%l32];",
       .report = "reaches for the shared memory of CTA (1,0,0), which has exited"},
      /* The arrival is not waited for. */
      {.body = PLACES BARRIER TOGETHER ONLY(
           0) "@%p1 bra E;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l30+1024];\n"
              "E:\n",
       .report = "exit"},
      {.body = PLACES BARRIER TOGETHER ONLY(0) "@%p1 bra E;\n" MULTICAST("2") "E:\n",
       .report = "exit"},
      {.body = PLACES BARRIER STORE_ASYNC ".b32 [%l32], 1, [%l30+1024];\n" TOGETHER,
       .report = "which may not have begun"},
      {.body = PLACES BARRIER RELAXED STORE_ASYNC ".b32 [%l32], 1, [%l30+1024];\n",
       .report = "exit"},
  };
  EXPECT_ALL(rows);
}

static void test_races(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body =
           PLACES TOGETHER "st.shared::cluster.b32 [%l32], 1;\nst.shared.b32 [%l31], 2;\n" TOGETHER,
       .report = "races at shared address 0x400"},
      {.body = PLACES TOGETHER ONLY(
           0) "st.shared::cluster.b32 [%l32], 1;\nE:\n"
              "setp.ne.b32 %p5, %r30, 1;\n@%p5 bra F;\nld.shared.b32 %r1, [%l31];\n"
              "F:\n" TOGETHER,
       .report = "shared"},
      /* A relaxed arrival says that the CTA has begun, and hands on nothing. */
      {.body = PLACES "st.shared.b32 [%l31], 1;\nbarrier.cluster.arrive.relaxed.aligned;\n" WAIT
                      "ld.shared::cluster.b32 %r1, [%l32];\n" TOGETHER,
       .report = "with a write by CTA ("},
      /* A release whose scope does not have the other CTA. */
      {.body = PLACES BARRIER TOGETHER
       "setp.eq.u32 %p6, %r30, 0;\n@%p6 bra R;\n@%p1 bra E;\nst.shared::cluster.b32 [%l30], 1;\n"
       "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%l30+1024];\nbra E;\n"
       "R:\nmbarrier.try_wait.parity.shared.b64 %p5, [smem+1024], 0;\n@!%p5 bra R;\n"
       "ld.shared.b32 %r1, [smem];\nE:\n" TOGETHER,
       .report = "races at shared address 0x400 with a write by CTA (1,0,0), warp 0"},
      /* What only one of two warps has waited for. */
      {.body = PLACES BARRIER TOGETHER "setp.lt.u32 %p6, %tid, 32;\n@!%p6 bra R;\n" ONLY(
           1) "@%p1 bra E;\nst.shared::cluster.b32 [%l30], 1;\n"
              "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l30+1024];\nbra E;\n"
              "R:\n" ONLY(
                  0) "mov.b32 %r9, 0;\nL:\nadd.s32 %r9, %r9, 1;\n"
                     "setp.lt.u32 %p5, %r9, 30000;\n@%p5 bra L;\nld.shared.b32 %r1, [smem];\n"
                     "E:\n" TOGETHER,
       .report = "races at shared address 0x400 with a write by CTA (1,0,0), warp 0",
       .threads = 64},
      /* The other CTA may still read where the copy lands. */
      {.body = PLACES BARRIER "st.shared.b32 [%l31], 1;\nfence.proxy.async.shared::cta;\n" TOGETHER
                              "ld.shared.b32 %r9, [%l31];\n@%p1 bra E;\n" EXPECT_BYTES("256")
                                  MULTICAST("3") "E:\n" LANDED TOGETHER,
       .report = "races at shared address 0x404"},
      {.body = PLACES BARRIER "st.shared.b32 [%l31], 1;\n" TOGETHER "@%p1 bra E;\n" EXPECT_BYTES(
           "256") MULTICAST("3") "E:\n" LANDED TOGETHER,
       .report = "without a fence.proxy.async"},
      /* Only a part of what the others send has been announced. */
      {.body = PLACES BARRIER TOGETHER "@%p1 bra E;\n" EXPECT_BYTES("128")
           MULTICAST("3") "E:\n" LANDED TOGETHER,
       .report = "bytes"},
      /* What an asynchronous store brings has not been waited for. */
      {.body = PLACES BARRIER RELAXED STORE_ASYNC ".b32 [%l32], 1, [%l30+1024];\n" TOGETHER
                                                  "ld.shared.b32 %r1, [%l31];\n",
       .report = "races at shared address 0x"},
      /* The other CTA may still read where it lands. */
      {.body = PLACES BARRIER
       "st.shared.b32 [%l31], 1;\nfence.proxy.async.shared::cta;\n" TOGETHER
       "ld.shared.b32 %r9, [%l31];\n" STORE_ASYNC
       ".b32 [%l32], 1, [%l30+1024];\n@%p1 bra E;\n" EXPECT_BYTES("128") "E:\n" LANDED TOGETHER,
       .report = "races at shared address 0x"},
      {.body = PLACES BARRIER RELAXED STORE_ASYNC
       ".b32 [%l32], 1, [%l30+1024];\n@%p1 bra E;\n" EXPECT_BYTES("64") "E:\n" LANDED TOGETHER,
       .report = "bytes"},
  };
  EXPECT_ALL(rows);
}

static void test_instructions(void **state) {
  (void)state;
  static const wrong_t rows[] = {
      {.body = ARRIVE ARRIVE, .report = "a second time without a wait"},
      {.body = WAIT, .report = "waits at the cluster's barrier without having arrived"},
      {.body = "setp.lt.u32 %p1, %tid, 16;\n@%p1 bra A;\n" ARRIVE "A:\n",
       .report = "all must come together"},
      {.body = PLACES BARRIER TOGETHER ONLY(1) LANDED "E:\n" TOGETHER,
       .report = "for the cluster's barrier: 32 of 64 threads have come; CTA (1,0,0); warp 0"},
      {.body = PLACES "mapa.shared::cluster.u64 %l1, %l29, 2;", .report = "no CTA of rank 2"},
      {.body = PLACES "mov.b64 %l1, 5;\nmapa.u64 %l1, %l1, 1;",
       .report = "is no address of shared"},
      {.body = PLACES TOGETHER "st.shared.b32 [%l32], 1;", .report = "outside of the CTA's"},
      /* Without the rank it is the first CTA's. */
      {.body = PLACES TOGETHER ONLY(1) "st.shared.b32 [1024], 1;\nE:\n",
       .report = "4 bytes at shared address 0x400 are outside of the CTA's [0x1000400, "},
      {.body = PLACES TOGETHER "st.shared::cluster.b32 [%l30+16384], 1;",
       .report = "outside of the CTA's"},
      {.body = PLACES TOGETHER "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l30];",
       .report = "no mbarrier has been initialized at shared address 0x400 of CTA ("},
      {.body = PLACES BARRIER TOGETHER
       "@%p1 bra E;\n"
       "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l30+1024], 2;\nE:\n" TOGETHER,
       .report = "2 arrivals in phase 0"},
      /* Behind relaxed arrivals mbarriers may be used that were fenced before. */
      {.body = PLACES "setp.ne.b32 %p1, %tid, 0;\n@%p1 bra I;\n"
                      "mbarrier.init.shared.b64 [smem+1024], 1;\nI:\n" RELAXED "@%p1 bra E;\n"
                      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%l30+1024];\n"
                      "E:\n" TOGETHER,
       .report = "without order after its initialization"},
      {.body = PLACES BARRIER RELAXED STORE_ASYNC ".b32 [%l32+2], 1, [%l30+1024];\n" TOGETHER,
       .report = "is not a multiple of 4"},
      {.body = PLACES BARRIER RELAXED STORE_ASYNC ".b32 [%l32], 1, [%l30+1032];\n" TOGETHER,
       .report = "no mbarrier has been initialized at shared address 0x808 of CTA ("},
      {.body = PLACES BARRIER RELAXED STORE_ASYNC ".b32 [%l32], 1, [%l29+1024];\n" TOGETHER,
       .report = "the destination and the mbarrier are of different CTAs"},
      {.body = PLACES "setp.ne.b32 %p1, %tid, 0;\n@%p1 bra I;\n"
                      "mbarrier.init.shared.b64 [smem+1024], 1;\nI:\n" TOGETHER STORE_ASYNC
                      ".b32 [%l32], 1, [%l30+1024];\n" TOGETHER,
       .report = "fence.mbarrier_init is missing"},
      {.body = PLACES BARRIER TOGETHER "@%p1 bra E;\n" MULTICAST("4") "E:\n" TOGETHER,
       .report = "the mask 0x4 of CTAs; the cluster has 2"},
      {.body = PLACES BARRIER TOGETHER "@%p1 bra E;\n" MULTICAST("0") "E:\n" TOGETHER,
       .report = "the mask 0x0 of CTAs"},
      {.body = PLACES BARRIER TOGETHER
       "@%p1 bra E;\nmov.b32 %r1, 0;\n"
       "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
       "[%l30], [%l1, {%r1, %r1}], [smem+1024];\nE:\n" TOGETHER,
       .report = "the destination and the mbarrier are of different CTAs"},
  };
  EXPECT_ALL(rows);
}

/* ---- Launches ---- */

static void test_launches(void **state) {
  (void)state;
  static const char ptx[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                            ".visible .entry k()\n{\nret;\n}\n"
                            ".visible .entry c()\n.reqnctapercluster 2, 1, 1\n{\nret;\n}\n"
                            ".visible .entry y()\n.reqnctapercluster 1, 2, 1\n{\nret;\n}\n";
  moe_emu_module_t *module = NULL;
  moe_emu_report_t report;
  assert_int_equal(moe_emu_module_load(ptx, strlen(ptx), &module, &report), MOE_EMU_OK);
  static const struct {
    const char *kernel, *report;
    uint32_t grid, cluster[3];
  } rows[] = {
      {"k", "", 3, {1, 1, 1}},
      {"k", "", 4, {2, 1, 1}},
      {"k", "", 16, {8, 1, 1}},
      {"c", "", 4, {1, 1, 1}}, /* the kernel's own */
      {"c", "", 4, {2, 1, 1}},
      {"c", "kernel 'c': cluster.x is 4; .reqnctapercluster says 2", 4, {4, 1, 1}},
      {"c", "kernel 'c': grid.x is 5; it must be a multiple of the cluster's 2", 5, {1, 1, 1}},
      {"k", "kernel 'k': clusters of 16 x 1 x 1 CTAs; 1 to 8 along x are modeled", 16, {16, 1, 1}},
      {"k", "kernel 'k': clusters of 1 x 1 x 2 CTAs; 1 to 8 along x are modeled", 2, {1, 1, 2}},
      {"y", "kernel 'y': clusters of 1 x 2 x 1 CTAs; 1 to 8 along x are modeled", 2, {1, 1, 1}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    moe_emu_launch_t launch = {
        .kernel = rows[i].kernel, .grid = {rows[i].grid, 1, 1}, .block = {32, 1, 1}};
    memcpy(launch.cluster, rows[i].cluster, sizeof launch.cluster);
    moe_emu_status_t status = moe_emu_launch(module, &launch, NULL, &report);
    assert_string_equal(report.text, rows[i].report);
    assert_int_equal(status, rows[i].report[0] ? MOE_EMU_INVALID_ARGUMENT : MOE_EMU_OK);
  }
  moe_emu_module_destroy(module);
  emu_expect_refused(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
      ".reg .b64 %l<2>;\nmbarrier.arrive.shared::cluster.b64 %l1, [1024];\nret;\n}\n",
      "line 7: mbarrier.arrive.shared::cluster.b64: an arrival by an address of the "
      "cluster gives no state: _ is taken");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places),          cmocka_unit_test(test_addresses),
      cmocka_unit_test(test_remote_stores),   cmocka_unit_test(test_remote_loads),
      cmocka_unit_test(test_remote_arrivals), cmocka_unit_test(test_multicast),
      cmocka_unit_test(test_async_stores),    cmocka_unit_test(test_lifetimes),
      cmocka_unit_test(test_races),           cmocka_unit_test(test_instructions),
      cmocka_unit_test(test_launches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
