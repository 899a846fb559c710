/* GemmTest.c - a matrix product as kernels make it: TMA loads with a 128-byte swizzle, an
 * mbarrier, wgmma on E4M3, accumulators stored from registers.
 *
 * Why it exists: the pieces have tests of their own; here descriptors, swizzles, fragments and
 * order must fit together. The operands are small whole numbers, so that every result is exact.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/reference.h"
#include "test/Emulator/Support.h"

#include <stdalign.h>
#include <stdlib.h>

enum { M = 256, N = 256, K = 256, TILE_M = 64, TILE_N = 128, TILE_K = 128, REGISTERS = TILE_N / 2 };

static alignas(256) uint8_t operands[(M + N) * K]; /* A, then B with K innermost */
static alignas(256) float product[M * N];

static void list_registers(FILE *file) {
  for (int i = 0; i < REGISTERS; i++)
    fprintf(file, "%s%%f%d", i ? ", " : "{", i);
  fputs("}", file);
}

/* One CTA computes a tile of 64 x 128; ctaid.x counts tiles of M, ctaid.y of N. */
static char *write_body(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  assert_non_null(file);
  fprintf(file,
          ".reg .b32 %%f<%d>;\nsetp.ne.b32 %%p1, %%tid, 0;\n@%%p1 bra BEGIN;\n"
          "mbarrier.init.shared.b64 [smem+24576], 1;\nfence.mbarrier_init.release.cluster;\n"
          "BEGIN:\nbar.sync 0;\n"
          "mov.u32 %%r1, %%ctaid.x;\nshl.b32 %%r1, %%r1, 6;\n"
          "mov.u32 %%r2, %%ctaid.y;\nshl.b32 %%r2, %%r2, 7;\n"
          "mov.b64 %%l1, map0;\ncvta.param.u64 %%l1, %%l1;\n"
          "mov.b64 %%l2, map1;\ncvta.param.u64 %%l2, %%l2;\nmov.b64 %%l3, smem;\n"
          "add.s64 %%l4, %%l3, 8192;\nshr.u64 %%l5, %%l3, 4;\nshr.u64 %%l6, %%l4, 4;\n"
          "or.b64 %%l5, %%l5, 0x4000004000010000;\nor.b64 %%l6, %%l6, 0x4000004000010000;\n"
          "mov.b32 %%r3, 0;\nmov.b32 %%r4, 0;\n"
          "LOOP:\n@%%p1 bra WAIT;\n"
          "mbarrier.arrive.expect_tx.shared.b64 _, [smem+24576], 24576;\n"
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
          "[%%l3], [%%l1, {%%r3, %%r1}], [smem+24576];\n"
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
          "[%%l4], [%%l2, {%%r3, %%r2}], [smem+24576];\n"
          "WAIT:\nmbarrier.try_wait.parity.shared.b64 %%p2, [smem+24576], %%r4;\n"
          "@!%%p2 bra WAIT;\nwgmma.fence.sync.aligned;\n",
          REGISTERS);
  for (int k = 0; k < TILE_K / 32; k++) {
    fprintf(file, "setp.ne.b32 %%p3, %%r3, %d;\nadd.s64 %%l7, %%l5, %d;\nadd.s64 %%l8, %%l6, %d;\n",
            k ? -1 : 0, 2 * k, 2 * k);
    fprintf(file, "wgmma.mma_async.sync.aligned.m64n%dk32.f32.e4m3.e4m3 ", TILE_N);
    list_registers(file);
    fputs(", %l7, %l8, %p3, 1, 1;\n", file);
  }
  fprintf(file,
          "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nbar.sync 0;\n"
          "xor.b32 %%r4, %%r4, 1;\nadd.s32 %%r3, %%r3, %d;\nsetp.lt.u32 %%p4, %%r3, %d;\n"
          "@%%p4 bra LOOP;\n"
          "shr.u32 %%r5, %%tid, 5;\nshl.b32 %%r5, %%r5, 4;\nbfe.u32 %%r6, %%tid, 2, 3;\n"
          "add.s32 %%r5, %%r5, %%r6;\nadd.s32 %%r5, %%r5, %%r1;\n"
          "and.b32 %%r7, %%tid, 3;\nshl.b32 %%r7, %%r7, 1;\nadd.s32 %%r7, %%r7, %%r2;\n"
          "mad.lo.s32 %%r8, %%r5, %d, %%r7;\nmul.wide.u32 %%l9, %%r8, 4;\n"
          "add.s64 %%l9, %%l9, %%out;\n",
          TILE_K, K, N);
  for (int i = 0; i < REGISTERS; i += 2)
    fprintf(file, "st.global.v2.b32 [%%l9+%d], {%%f%d, %%f%d};\n",
            4 * (i / 4 * 8 + (i & 2 ? 8 * N : 0)), i, i + 1);
  fclose(file);
  return text;
}

static int value_at(int matrix, int row, int k) {
  return (matrix * 5 + row * 7 + k * 3 + row * k % 11) % 9 - 4;
}

static void test_product(void **state) {
  (void)state;
  for (int i = 0; i < M + N; i++) {
    for (int k = 0; k < K; k++)
      operands[i * K + k] = moe_ref_e4m3_from_f32((float)value_at(i >= M, i >= M ? i - M : i, k));
  }
  const uint64_t address = (uint64_t)(uintptr_t)operands;
  const moe_emu_tensor_map_t maps[] = {
      {.type = MOE_EMU_MAP_U8,
       .rank = 2,
       .address = address,
       .dims = {K, M},
       .strides = {K},
       .box = {TILE_K, TILE_M},
       .swizzle = 3},
      {.type = MOE_EMU_MAP_U8,
       .rank = 2,
       .address = address + (uint64_t)M * K,
       .dims = {K, N},
       .strides = {K},
       .box = {TILE_K, TILE_N},
       .swizzle = 3},
  };
  char *body = write_body();
  for (uint64_t schedule = 0; schedule < 4; schedule++) {
    memset(product, 0xA5, sizeof product);
    emu_expect_ok(&(emu_kernel_t){.body = body,
                                  .threads = 128,
                                  .ctas = M / TILE_M,
                                  .rows_of_ctas = N / TILE_N,
                                  .shared = 24576 + 8,
                                  .schedule = schedule,
                                  .maps = maps,
                                  .map_count = 2},
                  operands, sizeof operands, product, sizeof product);
    for (int m = 0; m < M; m++) {
      for (int n = 0; n < N; n++) {
        int expected = 0;
        for (int k = 0; k < K; k++)
          expected += value_at(0, m, k) * value_at(1, n, k);
        if (product[m * N + n] != (float)expected)
          fail_msg("schedule %d: [%d, %d] is %f, expected %d", (int)schedule, m, n,
                   (double)product[m * N + n], expected);
      }
    }
  }
  free(body);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_product)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
