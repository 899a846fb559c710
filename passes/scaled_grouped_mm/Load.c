/* Load.c - the loading warpgroup of scaled_mm: see ScaledMm.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/scaled_grouped_mm/ScaledMm.h"

#include "lib/Kernel/Warp.h"

/* Where an operand's part of a tile starts. */
static MlirValue first_row(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                           const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  if (operand == &s->operands[MOE__MM_QB])
    return moe__mul(b, tile->column, moe__i32(b, operand->rows));
  if (s->which == MOE__FORWARD)
    return tile->row;
  return moe__sub(b, tile->row, moe__mul(b, tile->group, s->rows.value));
}

/* Loads what a tile takes of an operand, from `at` of the reduction on, to `buffer`. What the blocks of a
 * cluster share each of them loads a part of, for all. */
static void load_operand(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                         const moe__group_tile_t *tile, MlirValue at, MlirValue buffer,
                         MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = first_row(s, operand, tile);
  if (s->schedule.cluster == 1 || operand != s->side[1]) {
    moe__tma_load(b, operand->map, buffer, landed, operand->map_rank,
                  (MlirValue[]){at, row, tile->group});
    return;
  }
  MlirValue part = moe__mul(b, s->kernel.cluster_rank, moe__i32(b, operand->box));
  MlirValue all = moe__trunc(b, moe__i32(b, (1 << s->schedule.cluster) - 1), b->i16);
  buffer = moe__offset(b, buffer, moe__mul(b, part, moe__i32(b, MOE__MM_DEPTH)));
  moe__tma_load_multicast(b, operand->map, buffer, landed, operand->map_rank,
                          (MlirValue[]){at, moe__add(b, row, part), tile->group}, all);
}

/* Where the loader stands: the stage it fills next, and of a gradient what is to be cleared. */
typedef struct loader_t {
  moe__cursor_t cursor;
  moe__mm_requests_t requests;
} loader_t;

enum { STAGE, PHASE, NEXT, OLDEST, OLDEST_PHASE, LOADER }; /* as values that loops carry */

static loader_t loader_from(const MlirValue carried[LOADER]) {
  return (loader_t){{carried[STAGE], carried[PHASE]},
                    {carried[NEXT], {carried[OLDEST], carried[OLDEST_PHASE]}}};
}

static void loader_to(const loader_t *loader, MlirValue carried[LOADER]) {
  carried[STAGE] = loader->cursor.stage;
  carried[PHASE] = loader->cursor.phase;
  carried[NEXT] = loader->requests.next;
  carried[OLDEST] = loader->requests.oldest.stage;
  carried[OLDEST_PHASE] = loader->requests.oldest.phase;
}

/* Loads block number `index` of a tile. */
static void load_block(moe__scaled_mm_t *s, const moe__mm_work_t *work,
                       const moe__mm_reduction_t *reduction, MlirValue index, loader_t *loader) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t row_bytes = MOE__MM_TILE_ROWS * MOE__MM_DEPTH;
  int32_t column_bytes = s->schedule.tile_n * MOE__MM_DEPTH;
  MlirValue at = moe__mm_block_at(s, reduction, index), newest = loader->requests.next;
  moe__ring_wait_empty(kernel, &s->ring, loader->cursor);
  MlirValue landed = s->which == MOE__GRADIENT
                         ? moe__mm_request(s, reduction, at, loader->cursor, &loader->requests)
                         : moe__ring_full(kernel, &s->ring, loader->cursor);
  moe__if_t one = moe__if_begin(b, s->loads, false);
  moe__mbarrier_arrive_expect(b, landed, moe__i32(b, row_bytes + column_bytes));
  MlirValue buffer = moe__ring_buffer(kernel, &s->ring, loader->cursor);
  load_operand(s, s->side[0], &work->tile, at, buffer, landed);
  load_operand(s, s->side[1], &work->tile, at, moe__offset_by(b, buffer, row_bytes), landed);
  moe__if_end(b, &one);
  /* Whoever multiplies gives a stage back when the next one is full. With two stages the next one cannot be
   * loaded before: to wait for it here would be a deadlock. */
  if (s->which == MOE__GRADIENT)
    moe__mm_clear(s, s->schedule.stages > 2 ? newest : loader->requests.next, &loader->requests);
  loader->cursor = moe__cursor_next(b, &s->ring, loader->cursor);
}

/* Loads all of a tile. */
static void load_tile(moe__scaled_mm_t *s, const moe__mm_work_t *work, loader_t *loader) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = moe__mm_reduction_of(s, work);
  MlirValue carried[LOADER];
  loader_to(loader, carried);
  moe__for_t blocks =
      moe__for_begin(b, moe__i32(b, 0), reduction.blocks, moe__i32(b, 1), LOADER, carried);
  *loader = loader_from(blocks.carried);
  load_block(s, work, &reduction, blocks.index, loader);
  loader_to(loader, carried);
  moe__for_end(b, &blocks, carried);
  *loader = loader_from(blocks.carried);
}

static void load_tiles(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue total = moe__mm_tile_count(s);
  loader_t loader = {moe__cursor_start(b), moe__mm_requests_start(b)};
  enum { SLOT = LOADER, INDEX, CARRIED };
  MlirValue carried[CARRIED] = {[SLOT] = moe__i32(b, 0), [INDEX] = moe__tiles_first(kernel)};
  loader_to(&loader, carried);
  moe__while_t tiles = moe__while_begin(b, CARRIED, carried, CARRIED);
  moe__while_test(b, &tiles, moe__ult(b, tiles.carried[INDEX], total), tiles.carried);
  MlirValue next = moe__mm_next_tile(s, tiles.carried[INDEX]); /* early: it takes its time */
  moe__mm_work_t work = moe__mm_work_at(s, tiles.carried[INDEX]);
  moe__if_t one = moe__if_begin(b, s->loads, false);
  moe__mm_write_slot(s, tiles.carried[SLOT], &work);
  moe__if_end(b, &one);
  if (s->which == MOE__GRADIENT)
    moe__warp_barrier(b); /* all lanes go on together: they wait for phases by parity */
  loader = loader_from(tiles.carried);
  load_tile(s, &work, &loader);
  loader_to(&loader, carried);
  carried[SLOT] = moe__mm_next_slot(s, tiles.carried[SLOT]);
  carried[INDEX] = moe__mm_counts_tiles(s) ? moe__shuffle(b, next, moe__i32(b, 0)) : next;
  moe__while_end(b, &tiles, carried);
  loader = loader_from(tiles.carried);
  if (s->which == MOE__GRADIENT)
    moe__mm_clear(s, loader.requests.next, &loader.requests);
  /* One more stage, with nothing in it, says that there are no more tiles. */
  one = moe__if_begin(b, s->loads, false);
  moe__mm_write_end(s, tiles.carried[SLOT]);
  moe__ring_acquire(kernel, &s->ring, loader.cursor, moe__i32(b, 0));
  moe__mm_finish_counting(s);
  moe__if_end(b, &one);
}

/* The loading warpgroup: one thread is here, or of a gradient one warp, of which one thread loads. */
void moe__mm_load(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue end = moe__i32(b, MOE__MM_THREADS + MOE__WARP), is_here = s->loads;
  if (s->which == MOE__GRADIENT)
    is_here = moe__ult(b, s->kernel.thread, end);
  else
    s->loads = moe__op1(b, "arith.constant", b->i1, MOE__NO_VALUES, "value = true");
  moe__if_t here = moe__if_begin(b, is_here, false);
  load_tiles(s);
  moe__if_end(b, &here);
}
