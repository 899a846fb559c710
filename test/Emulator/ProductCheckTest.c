/* ProductCheckTest.c - kernels that do something wrong with products of a warpgroup or a warp, and
 * what the emulator says.
 *
 * Why it exists: each check has a kernel here that only it can catch; without the check the kernel
 * would run.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

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
  static const emu_wrong_t rows[] = {
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
  EMU_EXPECT_FAULTS(rows);
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
  static const emu_wrong_t rows[] = {
      {.body = "mov.b32 %r1, 0;\n" PRODUCT, .report = "register %r2 is read before it is written"},
      {.body = "mov.b32 %r1, 0;\nmov.b32 %r2, 0;\nsetp.lt.u32 %p1, %tid, 16;\n@%p1 " PRODUCT,
       .report = "executed by lanes 0x0000ffff: all 32 must come together"},
  };
  EMU_EXPECT_FAULTS(rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_products_without_fences),
      cmocka_unit_test(test_products_of_a_warp),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
