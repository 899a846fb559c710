/* Store.c - how the values of a tile of scaled_mm get to out: see Epilogue.h.
 *
 * A warp brings its 16 rows of the tile in order in a part of shared memory of its own. Where all
 * of them belong to the group, the TMA stores them; else the warp writes rows of `staged` bytes. Or
 * each lane has columns that lie side by side, and writes these (`direct`). Where operands are
 * swapped the tile leaves transposed, in pieces of a sector, 32 bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"

#include "lib/Device/Elements.h"
#include "lib/Device/Warp.h"

#include "mlir-c/BuiltinTypes.h"

static int out_bytes(const moe__scaled_mm_t *s) {
  return mlirTypeIsAF32(s->out_type) ? 4 : 2;
}

/* Columns of a staged piece. */
static int piece_columns(const moe__scaled_mm_t *s) {
  return moe__mm_staged_bytes(&s->schedule) / out_bytes(s);
}

/* The address of row `row`, column `column` of out. */
static MlirValue address_of(moe__scaled_mm_t *s, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue index =
      moe__add(b, moe__wide_mul(b, row, s->columns.value), moe__zext(b, column, b->i64));
  return moe__offset(b, s->out, moe__shl(b, index, out_bytes(s) == 4 ? 2 : 1));
}

/* ---- Rows of a tile are rows of out ---- */

/* The place of 16-byte piece `chunk` of a staged row. Rows of 128 bytes in the 128-byte swizzle, or
 * of 64 in that of 64: no bank conflicts. */
static MlirValue staged(moe__scaled_mm_t *s, MlirValue staging, MlirValue row, MlirValue chunk) {
  moe__builder_t *b = &s->kernel.builder;
  bool whole = moe__mm_staged_bytes(&s->schedule) == MOE__MM_STAGED_LINE;
  MlirValue mask = whole ? moe__and(b, row, 7) : moe__and(b, moe__lshr(b, row, 1), 3);
  MlirValue in_row = moe__shl(b, moe__xor(b, chunk, mask), 4);
  return moe__offset(b, staging, moe__add(b, moe__shl(b, row, whole ? 7 : 6), in_row));
}

/* The values of pairs j and j + 1 of columns in 16 bits, two a word: [pair][row]. */
static void pack_pairs(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int j,
                       const MlirValue scales[2], const moe__mm_fragment_t registers,
                       MlirValue words[4]) {
  for (int i = 0; i < 2; i++) {
    MlirValue pair[2][2];
    moe__mm_finish_pair(s, e, j + i, scales[i], registers, pair);
    for (int h = 0; h < 2; h++)
      words[2 * i + h] = moe__pack_halves(&s->kernel.builder, s->out_type, pair[h]);
  }
}

/* Two times 8 columns of 16 bits, of which the first is number 8*j of the tile and 8*position of
 * those that are staged. */
static void stage_halves(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int j, int position,
                         const MlirValue scales[2], const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[4];
  pack_pairs(s, e, j, scales, registers, words);
  /* Of the four 8 x 8 matrices of a store, lane l addresses row l % 8 of matrix l / 8: rows first,
   * then columns. */
  MlirValue row = moe__and(b, e->self->lane, 15);
  MlirValue chunk = moe__add(b, moe__lshr(b, e->self->lane, 4), position);
  moe__store_matrix(b, staged(s, e->staging, row, chunk), words, false);
}

/* The same in 32 bits. */
static void stage_words(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int j, int position,
                        const MlirValue scales[2], const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue lane = e->self->lane;
  for (int i = 0; i < 2; i++) {
    MlirValue pair[2][2];
    moe__mm_finish_pair(s, e, j + i, scales[i], registers, pair);
    for (int h = 0; h < 2; h++) {
      MlirValue row = moe__add(b, moe__lshr(b, lane, 2), 8 * h);
      MlirValue chunk = moe__add(b, moe__lshr(b, moe__and(b, lane, 3), 1), 2 * (position + i));
      MlirValue half = moe__shl(b, moe__and(b, lane, 1), 3);
      moe__store(b, moe__vector(b, 2, pair[h]),
                 moe__offset(b, staged(s, e->staging, row, chunk), half));
    }
  }
}

/* The warp's first row in out. */
static MlirValue first_row(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e) {
  return moe__add(&s->kernel.builder, e->tile->row, e->self->warp_row);
}

/* Writes the `columns` staged columns, the first of which is number `first` of the tile, as far as
 * they belong to the group and to out. */
static void store_rows(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int first, int columns) {
  moe__builder_t *b = &s->kernel.builder;
  int row_chunks = moe__mm_staged_bytes(&s->schedule) / 16, rows = MOE__WARP / row_chunks;
  MlirValue lane = e->self->lane, chunk = moe__and(b, lane, row_chunks - 1);
  MlirValue first_column = moe__add(b, moe__mul(b, e->tile->column, s->column_n), first);
  MlirValue column = moe__add(b, moe__mul(b, chunk, 16 / out_bytes(s)), first_column);
  MlirValue column_inside = moe__ult(b, column, s->columns.value);
  int chunks = columns * out_bytes(s) / 16;
  if (chunks < row_chunks)
    column_inside = moe__and(b, column_inside, moe__ult(b, chunk, chunks));
  for (int i = 0; i < MOE__MM_WARP_ROWS; i += rows) {
    MlirValue in_warp = moe__add(b, moe__lshr(b, lane, rows == 4 ? 3 : 2), i);
    MlirValue row = moe__add(b, first_row(s, e), in_warp);
    MlirValue inside = moe__and(b, moe__ult(b, row, e->tile->row_end), column_inside);
    MOE__IF (b, inside) {
      MlirValue piece = moe__load_aligned(b, staged(s, e->staging, in_warp, chunk),
                                          moe__vector_type(b, 4, b->i32), 16);
      moe__store_aligned(b, piece, address_of(s, row, column), 16);
    }
  }
}

/* Stages so many columns from number `first` of the tile on. Where a tile is stored beside a
 * product, the scales of the columns that come next are read before a store: ptxas reads none in
 * front of one that it stands behind. */
static void stage(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int first, int columns,
                  const moe__mm_fragment_t registers) {
  bool ahead = moe__mm_stores_behind(s) && e->column_scales.ptr;
  MlirValue next[2] = {{NULL}, {NULL}};
  for (int i = 0; ahead && i < 2; i++)
    next[i] = moe__mm_load_pair(s, e, e->column_scales, first / 8 + i);
  for (int j = 0; j < columns / 8; j += 2) {
    MlirValue scales[2] = {next[0], next[1]};
    for (int i = 0; ahead && j + 2 < columns / 8 && i < 2; i++)
      next[i] = moe__mm_load_pair(s, e, e->column_scales, first / 8 + j + 2 + i);
    (out_bytes(s) == 4 ? stage_words : stage_halves)(s, e, first / 8 + j, j, scales, registers);
  }
}

/* ---- By the TMA ---- */

#define MAX_PIECES (MOE__WGMMA_MAX_N * 4 / 64)

void moe__mm_store_parameters(moe__scaled_mm_t *s, MlirOperation op) {
  if (!moe__mm_tma_pieces(&s->schedule))
    return;
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *rows = s->rows.expression, *columns = s->columns.expression;
  const moe__expression_t *size = moe__expression_constant(record, out_bytes(s));
  if (s->which != MOE__FORWARD)
    rows = moe__expression_mul(record, MOE__EXPRESSIONS(s->experts.expression, rows));
  int at_once = piece_columns(s);
  moe__tensor_map_t map = {
      .tensor = moe__tensor_number(op, MOE__OUT),
      .element = out_bytes(s) == 4 ? MOE__MAP_F32 : MOE__MAP_BF16,
      .rank = 2,
      .dims = {columns, rows},
      .strides = {moe__expression_mul(record, MOE__EXPRESSIONS(columns, size))},
      .box = {moe__expression_constant(record, at_once),
              moe__expression_constant(record, MOE__MM_WARP_ROWS)},
      .swizzle =
          at_once * out_bytes(s) == MOE__MM_STAGED_LINE ? MOE__SWIZZLE_128B : MOE__SWIZZLE_64B};
  s->out_map = moe__kernel_tensor_map(&s->kernel, &map);
}

void moe__mm_store_prefetch_map(moe__scaled_mm_t *s) {
  if (moe__mm_tma_pieces(&s->schedule))
    moe__tma_prefetch_map(&s->kernel.builder, s->out_map);
}

/* Waits until the TMA has read what the warp has given to it, but for the last `pending` times. */
static void await_reads(moe__scaled_mm_t *s, const moe__mm_position_t *self, int pending) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__IF (b, moe__eq(b, self->lane, 0)) {
    moe__tma_wait_read(b, pending);
  }
  moe__warp_barrier(b);
}

void moe__mm_store_end(moe__scaled_mm_t *s, const moe__mm_position_t *self) {
  if (moe__mm_tma_pieces(&s->schedule))
    await_reads(s, self, 0);
}

/* Whether all of the warp's rows belong to the group, so that the TMA stores them. */
static MlirValue is_whole(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__ule(b, moe__add(b, first_row(s, e), MOE__MM_WARP_ROWS), e->tile->row_end);
}

/* Gives `count` staged pieces to the TMA, the first of which is column `first` of the tile. */
static void send(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int first, int count) {
  moe__builder_t *b = &s->kernel.builder;
  int at_once = piece_columns(s);
  MlirValue row = first_row(s, e);
  MlirValue column = moe__add(b, moe__mul(b, e->tile->column, s->column_n), first);
  MOE__IF (b, moe__eq(b, e->self->lane, 0)) {
    for (int i = 0; i < count; i++)
      moe__tma_store(b, s->out_map,
                     moe__offset_by(b, e->staging, i * moe__mm_piece_bytes(&s->schedule)), 2,
                     (MlirValue[]){moe__add(b, column, i * at_once), row});
    moe__tma_commit(b);
  }
}

/* The TMA cuts off the columns that are not in out; what it does not store the warp does. */
static void store_by_tma(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e,
                         const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  int at_once = piece_columns(s), pieces = s->fragment_n / at_once;
  MlirValue whole = is_whole(s, e);
  int most = moe__mm_tma_pieces(&s->schedule);
  for (int done = 0; done < pieces; done += most) {
    int count = pieces - done < most ? pieces - done : most;
    moe__mm_epilogue_t parts[MAX_PIECES];
    for (int i = 0; i < count; i++) {
      parts[i] = *e;
      parts[i].staging = moe__offset_by(b, e->staging, i * moe__mm_piece_bytes(&s->schedule));
    }
    await_reads(s, e->self, 0);
    for (int i = 0; i < count; i++)
      stage(s, &parts[i], (done + i) * at_once, at_once, registers);
    moe__fence_shared_to_async(b);
    moe__warp_barrier(b);
    MOE__IF (b, whole) {
      send(s, e, done * at_once, count);
    }
    MOE__ELSE (b) {
      for (int i = 0; i < count; i++)
        store_rows(s, &parts[i], (done + i) * at_once, at_once);
    }
  }
}

/* The same, a piece at a time: each is staged where the one `tma_store` before it was, while the
 * TMA reads those between the two. One that a warp stores itself counts as given too. */
static void store_in_rotation(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int places,
                              const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  int at_once = piece_columns(s), pieces = s->fragment_n / at_once;
  MlirValue whole = is_whole(s, e);
  bool goes_round = pieces % places == 0; /* the next tile's first piece has the first place too */
  for (int piece = 0; piece < pieces; piece++) {
    moe__mm_epilogue_t part = *e;
    part.staging =
        moe__offset_by(b, e->staging, piece % places * moe__mm_piece_bytes(&s->schedule));
    await_reads(s, e->self, piece > 0 || goes_round ? places - 1 : 0);
    stage(s, &part, piece * at_once, at_once, registers);
    moe__fence_shared_to_async(b);
    moe__warp_barrier(b);
    MOE__IF (b, whole) {
      send(s, &part, piece * at_once, 1);
    }
    MOE__ELSE (b) {
      store_rows(s, &part, piece * at_once, at_once);
      MOE__IF (b, moe__eq(b, e->self->lane, 0)) {
        moe__tma_commit(b);
      }
    }
  }
}

/* ---- By each lane ---- */

/* How often a tile has the columns of which a lane of four has 8, side by side. */
static int direct_parts(const moe__scaled_mm_t *s) {
  return s->fragment_n / MOE__MM_DIRECT;
}

/* The scales of the 8 columns that a lane has of part `part`, in pairs. */
static void load_pairs(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int part,
                       MlirValue out[4]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = moe__shl(b, moe__and(b, e->self->lane, 3), 5);
  at = moe__offset_by(b, moe__offset(b, e->column_scales, at), MOE__MM_DIRECT * 4 * part);
  for (int i = 0; i < 4; i += 2) {
    MlirValue four =
        moe__load_aligned(b, moe__offset_by(b, at, 8 * i), moe__vector_type(b, 4, b->f32), 16);
    for (int j = 0; j < 2; j++) {
      MlirValue pair[] = {moe__extract(b, four, 2 * j), moe__extract(b, four, 2 * j + 1)};
      out[i + j] = moe__vector(b, 2, pair);
    }
  }
}

/* The 8 columns that a lane has of part `part`, in words: [row][word]. scales: pairs, or null. */
static void finish_words(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int part,
                         const MlirValue scales[4], const moe__mm_fragment_t registers,
                         MlirValue out[2][8]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < 4; i++) {
    MlirValue pair[2][2];
    moe__mm_finish_pair(s, e, part + i * direct_parts(s), scales[i], registers, pair);
    for (int h = 0; h < 2; h++) {
      if (out_bytes(s) == 2) {
        out[h][i] = moe__pack_halves(b, s->out_type, pair[h]);
      } else {
        out[h][2 * i] = pair[h][0];
        out[h][2 * i + 1] = pair[h][1];
      }
    }
  }
}

/* Each lane stores 16 bytes of a row at once, or twice: nothing is brought in order, and nobody
 * waits. Scales of columns are read before the stores that they are not for. */
static void store_direct(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e,
                         const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  int size = out_bytes(s);
  bool has_scales = e->column_scales.ptr;
  MlirValue own = moe__shl(b, moe__and(b, e->self->lane, 3), 3);
  MlirValue column = moe__add(b, moe__mul(b, e->tile->column, s->column_n), own);
  MlirValue at[2], is_row[2], next[4] = {{NULL}, {NULL}, {NULL}, {NULL}};
  for (int h = 0; h < 2; h++) {
    MlirValue row = moe__add(b, moe__add(b, e->tile->row, e->self->row), 8 * h);
    is_row[h] = moe__ult(b, row, e->tile->row_end);
    at[h] = address_of(s, row, column);
  }
  if (has_scales)
    load_pairs(s, e, 0, next);
  for (int part = 0; part < direct_parts(s); part++) {
    MlirValue is_column = moe__ult(b, moe__add(b, column, MOE__MM_DIRECT * part), s->columns.value);
    MlirValue words[2][8], scales[4] = {next[0], next[1], next[2], next[3]};
    if (has_scales && part + 1 < direct_parts(s))
      load_pairs(s, e, part + 1, next);
    finish_words(s, e, part, scales, registers, words);
    for (int h = 0; h < 2; h++) {
      MOE__IF (b, moe__and(b, is_row[h], is_column)) {
        for (int i = 0; i < size / 2; i++)
          moe__store_aligned(b, moe__vector(b, 4, words[h] + 4 * i),
                             moe__offset_by(b, at[h], MOE__MM_DIRECT * part * size + 16 * i), 16);
      }
    }
  }
}

static void store_straight(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e,
                           const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mm_is_direct(s)) {
    store_direct(s, e, registers);
    return;
  }
  int places = moe__mm_tma_pieces(&s->schedule);
  if (places && s->schedule.rotate) {
    store_in_rotation(s, e, places, registers);
    return;
  }
  if (places) {
    store_by_tma(s, e, registers);
    return;
  }
  int at_once = piece_columns(s);
  for (int first = 0; first < s->fragment_n; first += at_once) {
    int columns = s->fragment_n - first < at_once ? s->fragment_n - first : at_once;
    stage(s, e, first, columns, registers);
    moe__warp_barrier(b);
    store_rows(s, e, first, columns);
    moe__warp_barrier(b);
  }
}

/* ---- Rows of a tile are columns of out ---- */

#define SECTOR 32

/* Tokens that are staged before any is stored: the warp waits for itself once for all of them. */
#define TOKENS_AT_ONCE (MOE__MM_WARP_ROWS * MOE__MM_STAGED_LINE / SECTOR)
#define TOKENS 16 /* of a store, which fills so many sectors */

/* Where those from number `first` of a tile on are staged. */
static MlirValue staged_tokens(moe__builder_t *b, const moe__mm_epilogue_t *e, int first) {
  return moe__offset_by(b, e->staging, first % TOKENS_AT_ONCE * SECTOR);
}

/* Writes 16 bytes of a token: lane l has half l % 2 of the warp's 16 columns, of token l / 2 behind
 * number `first` of the tile. */
static void store_tokens(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue lane = e->self->lane, half = moe__and(b, lane, 1);
  MlirValue token = moe__lshr(b, lane, 1);
  MlirValue row = moe__add(b, moe__add(b, e->tile->row, first), token);
  MlirValue warp_column =
      moe__add(b, moe__mul(b, e->tile->column, MOE__MM_TILE_ROWS), e->self->warp_row);
  MlirValue column = moe__add(b, warp_column, moe__shl(b, half, 3));
  MlirValue inside =
      moe__and(b, moe__ult(b, row, e->tile->row_end), moe__ult(b, column, s->columns.value));
  MOE__IF (b, inside) {
    MlirValue from = moe__offset(b, staged_tokens(b, e, first), moe__shl(b, lane, 4));
    moe__store_aligned(b, moe__load_aligned(b, from, moe__vector_type(b, 4, b->i32), 16),
                       address_of(s, row, column), 16);
  }
}

/* Stages 16 tokens x 16 columns of 16 bits, from token `first` of the tile. */
static void stage_tokens(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int first,
                         const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[4], lane = e->self->lane, not_read[2] = {{NULL}, {NULL}};
  pack_pairs(s, e, first / 8, not_read, registers, words);
  /* Matrix 2*i + h, transposed, is tokens 8*i to 8*i + 7 of columns 8*h to 8*h + 7. */
  MlirValue token = moe__add(b, moe__and(b, lane, 7), moe__shl(b, moe__lshr(b, lane, 4), 3));
  MlirValue half = moe__and(b, moe__lshr(b, lane, 3), 1);
  MlirValue within = moe__add(b, moe__mul(b, token, SECTOR), moe__shl(b, half, 4));
  moe__store_matrix(b, moe__offset(b, staged_tokens(b, e, first), within), words, true);
}

static void store_transposed_halves(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e,
                                    const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  for (int done = 0; done < s->fragment_n; done += TOKENS_AT_ONCE) {
    int left = s->fragment_n - done;
    int end = done + (left < TOKENS_AT_ONCE ? left : TOKENS_AT_ONCE);
    for (int first = done; first < end; first += TOKENS)
      stage_tokens(s, e, first, registers);
    moe__warp_barrier(b);
    for (int first = done; first < end; first += TOKENS)
      store_tokens(s, e, first);
    moe__warp_barrier(b);
  }
}

/* 8 tokens x 16 columns of 32 bits: each 8 lanes write 8 columns of a token, a sector. */
static void store_transposed_words(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int j,
                                   const moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue pair[2][2];
  moe__mm_finish_pair(s, e, j, (MlirValue){NULL}, registers, pair);
  MlirValue first = moe__shl(b, moe__and(b, e->self->lane, 3), 1);
  for (int h = 0; h < 2; h++) {
    MlirValue column = moe__add(b, moe__mul(b, e->tile->column, MOE__MM_TILE_ROWS),
                                moe__add(b, e->self->row, 8 * h));
    MlirValue column_inside = moe__ult(b, column, s->columns.value);
    for (int c = 0; c < 2; c++) {
      MlirValue row = moe__add(b, e->tile->row, moe__add(b, first, 8 * j + c));
      MlirValue inside = moe__and(b, moe__ult(b, row, e->tile->row_end), column_inside);
      MOE__IF (b, inside) {
        moe__store(b, pair[h][c], address_of(s, row, column));
      }
    }
  }
}

static void store_transposed(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e,
                             const moe__mm_fragment_t registers) {
  if (out_bytes(s) == 2)
    store_transposed_halves(s, e, registers);
  else
    for (int j = 0; j < s->fragment_n / 8; j++)
      store_transposed_words(s, e, j, registers);
}

void moe__mm_store(moe__scaled_mm_t *s, const moe__mm_epilogue_t *epilogue,
                   const moe__mm_fragment_t registers) {
  (s->schedule.swap_operands ? store_transposed : store_straight)(s, epilogue, registers);
}
