/* MixedMm.h - the kernel of scaled_grouped_mm.mixed_mm under construction: what its parts share.
 *
 * Candidates.c chooses the schedule and Schedule.c lays the kernel out; MixedMm.c has the kernel,
 * and what warps are there for. Parameters.c says which ops it takes and what a launcher gives,
 * Tiles.c has the tiles, Load.c the warp that loads. Weights.c turns four bits into numbers of the
 * tokens' type; Numbers.c reads what a stage has; Multiply.c has the warpgroups that multiply, and
 * Multiply.h what it shares with GroupSums.c and ScaledWeights.c, and Panels.c the warps that do in
 * their place. RowPowers.c brings scales into the range of f16. Store.c has what follows, and
 * Spread.c how CTAs divide the columns of the last tiles evenly.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_MIXED_MM_H
#define MOE_KERNELS_MIXED_MM_MIXED_MM_H

#include "lib/Device/Async.h"
#include "lib/Device/Groups.h"
#include "lib/Device/Warp.h"
#include "lib/Device/Wgmma.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/mixed_mm/Schedule.h"

#define MOE__MIXED_WARPS 4 /* of a warpgroup; each has a panel of MOE_WEIGHT_ROWS rows */
#define MOE__MIXED_QUAD 4  /* lanes that have the same two rows */
#define MOE__MIXED_STEP 16 /* columns of one wgmma: a word of a lane's weights */
#define MOE__MIXED_STEPS (MOE_WEIGHT_COLUMNS / MOE__MIXED_STEP) /* of a chunk */
#define MOE__MIXED_CHUNK_BYTES 128 /* of MOE_WEIGHT_COLUMNS columns of a token */
/* Weights that are multiplied by E8M0 scales are divided by 2^30, so that their factors are numbers
 * of bf16 up to scales of 2^31, of FP8 weights 2^37. */
#define MOE__MIXED_DIVISOR_EXPONENT 30
#define MOE__MIXED_DIVISOR ((float)(1 << MOE__MIXED_DIVISOR_EXPONENT))
#define MOE__MIXED_LINE 128      /* bytes of a row of FP8 weights, side by side in a stage */
#define MOE__MIXED_ROW_SCALES 16 /* bytes of a row's scales in a stage, where they lie by rows */
#define MOE__MIXED_MOST_OWN_FACTORS 8 /* of 1024 columns */
#define MOE__MIXED_MOST_REGISTERS 240 /* of a thread */
#define MOE__MIXED_MOST_AHEAD 8       /* chunks that a warp loads itself before it needs them */

typedef struct moe__mixed_mm_t {
  moe__kernel_t kernel;
  moe__mixed_schedule_t schedule;
  moe__mixed_layout_t layout;
  moe__weight_format_t format;
  int n;                                 /* tokens of the products that are being emitted */
  int group;                             /* columns that share a scale; 0: all */
  MlirType x_type, scale_type, out_type; /* of elements */
  moe__extent_t experts, rows;           /* of the weights; rows: N */
  moe__extent_t tokens, depth;           /* M and K */
  MlirValue w_map, scale_map, x_map;     /* !llvm.ptr; the first is null where w is not */
  MlirValue w;                           /* !llvm.ptr<1>, where warps load the weights */
  MlirValue zero_map;                    /* null without zero points */
  MlirValue bias;                        /* !llvm.ptr<1>; null: none */
  MlirValue scales_x;                    /* !llvm.ptr<1>; null: tokens have no scales */
  MlirValue offs, status, out;           /* !llvm.ptr<1>; the first two are null without experts */
  MlirValue partials, arrivals;          /* !llvm.ptr<1>, with spread */
  moe__groups_t groups;
  bool ahead; /* weights come while launches before this one still run */
  /* The greatest of the FP8 weights' magnitudes so far, of a tile, for each of the lane's two rows:
   * twice 16 bits (i32), each the most of what stood there. */
  MlirValue greatest[2];
  MlirValue goes_on; /* i1: stages are needed again; null: they always are */
  /* Where moe__mixed_own_factors: the factors of the lane's two rows in the stage of the piece that
   * becomes numbers next, of every fourth group, which are the lane's own (i32, twice a number of
   * the tokens' type; where moe__mixed_has_row_powers, those of both rows in the first word). */
  MlirValue own_factors[MOE__MIXED_MOST_OWN_FACTORS][2];
  /* Where moe__mixed_has_row_powers: the powers of two that the scales of the lane's two rows are
   * multiplied by (i32, two numbers of bf16; null: before the first stage of a tile). And those
   * before the stage whose scales came last, and whether that changed one of the warp's (i32). */
  MlirValue row_powers, powers_before, powers_change;
  MlirValue row_scale; /* of the scales by rows in a stage, the first one of its own (i32) */
} moe__mixed_mm_t;

/* What a CTA, or a cluster of them, multiplies at once: i32. */
typedef struct moe__mixed_tile_t {
  MlirValue expert, row;      /* row: the first one of the weights */
  MlirValue token, token_end; /* token_end may be more than a tile further */
} moe__mixed_tile_t;

/* Where a thread that multiplies stands; i32. */
typedef struct moe__mixed_position_t {
  MlirValue panel, slice, lane; /* of a tile; slice: null where a panel has one warp */
} moe__mixed_position_t;

/* The k-tiles of this CTA: `count` from `first` on, i32. */
typedef struct moe__mixed_reduction_t {
  MlirValue first, count;
} moe__mixed_reduction_t;

/* What a CTA works off at once, with spread: k-tiles of tile number `tile` (i32). */
typedef struct moe__mixed_share_t {
  MlirValue tile;
  moe__mixed_reduction_t reduction;
} moe__mixed_share_t;

/* The registers of a warp's rows of a tile, as of an accumulator: tile_n / 2 f32. */
typedef MlirValue moe__mixed_fragment_t[MOE__WGMMA_MAX_N / 2];

/* ---- Parameters.c ---- */

/* Whether the kernel takes the op; else there is an error. */
bool moe__mixed_has_kernel(MlirOperation op);

/* Adds the kernel's parameters and what a launcher must check. */
void moe__mixed_add_parameters(moe__mixed_mm_t *s, MlirOperation op);

/* The most tokens that are loaded at once: of the narrowest tile, or those that the CTAs of a
 * cluster divide. */
int moe__mixed_box_tokens(const moe__mixed_mm_t *s);

/* ---- Tiles.c ---- */

/* Of those of a cluster, the first rows that are a CTA's own. */
int moe__mixed_own_rows(const moe__mixed_mm_t *s);

/* Tiles below one another, and all of them (i32); tile number `index`. Tiles of the same weights
 * come one after another. */
MlirValue moe__mixed_row_tiles(moe__mixed_mm_t *s);
MlirValue moe__mixed_tile_count(moe__mixed_mm_t *s);
moe__mixed_tile_t moe__mixed_tile_at(moe__mixed_mm_t *s, MlirValue index);

/* Tokens of a tile that land in a stage, where boxes have no more than there are (i32). */
MlirValue moe__mixed_loaded_tokens(moe__mixed_mm_t *s);

/* All k-tiles of a tile (i32), and those that this CTA has, but for spread. */
MlirValue moe__mixed_k_tiles(moe__mixed_mm_t *s);
moe__mixed_reduction_t moe__mixed_reduction_of(moe__mixed_mm_t *s);

/* Of the columns of the rows that two CTAs have in common: k-tiles that this one begins with. */
MlirValue moe__mixed_common_count(moe__mixed_mm_t *s);

/* Between tile `index` and the next one of this CTA, of `total` (i32): the sums of the one before
 * have been read. All warps call it; `multiplies`: this one does. */
void moe__mixed_end_tile(moe__mixed_mm_t *s, MlirValue index, MlirValue total, bool multiplies);

/* ---- Load.c ---- */

/* Loads what the CTA multiplies; `loads` (i1): this thread does. */
void moe__mixed_load(moe__mixed_mm_t *s, MlirValue loads);

/* Whether the first loads of the CTA are issued before all others, by moe__mixed_load_early: those
 * of constant weights ahead of the wait for launches before; and in a cluster that divides columns
 * while its CTAs come together. Experts' tiles are known behind that. */
bool moe__mixed_loads_early(const moe__mixed_mm_t *s);
void moe__mixed_load_early(moe__mixed_mm_t *s);

/* ---- Weights.c ---- */

/* What is subtracted from the integers of the lane's two rows, as moe__mixed_convert wants it
 * (i32): zero points, an i32 for each row, or the format's own; NULL: there are none. */
void moe__mixed_subtrahends(moe__mixed_mm_t *s, const MlirValue *zeros, MlirValue out[2]);

/* The four registers of a wgmma's operand that a word of a lane's weights stands for: integers, or
 * E2M1 values, which have no subtrahends, exact in the tokens' type. */
void moe__mixed_convert(moe__mixed_mm_t *s, MlirValue word, const MlirValue subtrahends[2],
                        MlirValue out[MOE__WGMMA_A_REGISTERS]);

/* Turns the sums of such integers into those of the weights: with subnormal they are in units of
 * 128. And those of panels whose weights are multiplied by their scales: these are over
 * MOE__MIXED_DIVISOR. */
void moe__mixed_end_sums(moe__mixed_mm_t *s, moe__mixed_fragment_t sums);

/* The same of weights times the lane's two rows' factors. E2M1 values times factors (i32, twice a
 * bf16) are in bf16 the weights times their scales, over MOE__MIXED_DIVISOR; those below 2^-100 are
 * rounded. Integers times factors (i32, twice an f16) are so in f16, times the rows' powers. */
void moe__mixed_convert_scaled(moe__mixed_mm_t *s, MlirValue word, const MlirValue factors[2],
                               MlirValue out[MOE__WGMMA_A_REGISTERS]);

/* The same of FP8 weights, of a word of each of the two rows. In bf16 NaN becomes a number, and is
 * seen in s->greatest. */
void moe__mixed_convert_fp8(moe__mixed_mm_t *s, const MlirValue words[2],
                            const MlirValue factors[2], MlirValue out[MOE__WGMMA_A_REGISTERS]);

/* The same of integers times factors (i32, twice a bf16 that is a power of two or 0), in bf16: the
 * subtrahends have been multiplied by them. All of them are exact. */
void moe__mixed_scale_subtrahends(moe__mixed_mm_t *s, const MlirValue factors[2],
                                  MlirValue subtrahends[2]);
void moe__mixed_convert_unit(moe__mixed_mm_t *s, MlirValue word, const MlirValue factors[2],
                             const MlirValue subtrahends[2], MlirValue out[MOE__WGMMA_A_REGISTERS]);

/* What the lane's two rows' sums are multiplied by (f32): the divisor, or NaN where a weight of
 * the row was. All lanes of a warp must call it. */
void moe__mixed_last_factors(moe__mixed_mm_t *s, float divisor, MlirValue out[2]);

/* ---- RowPowers.c ---- */

/* Whether weights are multiplied by their scales in f16: integers by those of bf16, and FP8
 * weights. Its range suffices for the scales of a row over a power of two, by which the sums of the
 * row are multiplied at the end. */
bool moe__mixed_has_row_powers(const moe__mixed_mm_t *s);

/* Whether FP8 weights become numbers without the NaN among them, so that it is looked for. */
bool moe__mixed_watches_nan(const moe__mixed_mm_t *s);

/* Makes the powers such that the scales of a stage are in range, which come next: `count` of each
 * of the lane's two rows, f32, which are multiplied by them. All lanes of a warp must call it, of
 * which four have all scales of two rows. Once the sums of the stages before are complete these
 * follow. */
void moe__mixed_follow_scales(moe__mixed_mm_t *s, MlirValue scales[][2], int count);
void moe__mixed_follow_powers(moe__mixed_mm_t *s, moe__mixed_fragment_t sums);

/* What the sums of the lane's two rows are multiplied by at the end (f32). */
void moe__mixed_inverse_powers(moe__mixed_mm_t *s, MlirValue out[2]);

/* ---- Numbers.c ---- */

/* Which of the numbers that a row has in a stage: number `constant`, counted from `first` (i32;
 * null: 0) on. */
typedef struct moe__mixed_number_t {
  MlirValue first;
  int constant;
} moe__mixed_number_t;

/* The scales of the lane's two rows, as f32 and as factors of weights (i32, twice a number of the
 * tokens' type), and what is subtracted from their weights. Factors of bf16 have the difference of
 * the exponents' biases and the divisor in them; beyond 2^31, of FP8 weights 2^37, they are NaN. */
void moe__mixed_load_scales(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                            moe__mixed_number_t number, MlirValue out[2]);
/* The same of `count` E8M0 scales from number `first` (i32; null: 0) on, for which
 * moe__mixed_divides_scales: each of the four lanes that have the same two rows turns every fourth
 * one into a number, for all of them. With experts of few tokens; other forms were not timed. */
#define MOE__MIXED_MOST_OWN_SCALES 8
typedef struct moe__mixed_own_scales_t {
  MlirValue scales[MOE__MIXED_MOST_OWN_SCALES][2];
} moe__mixed_own_scales_t;
bool moe__mixed_divides_scales(const moe__mixed_mm_t *s, int count);
void moe__mixed_load_own_scales(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                MlirValue buffer, MlirValue first, int count,
                                moe__mixed_own_scales_t *out);
void moe__mixed_share_scales(moe__mixed_mm_t *s, const moe__mixed_own_scales_t *own, int number,
                             MlirValue out[2]);

/* With scaled_weights, and behind or panels, or experts of E2M1 weights: each of the four lanes
 * that have the same two rows turns the scales of every fourth group of a stage, or of the warp's
 * part of it, into factors, for all of them. Other forms were slower in some rows. How many, 0
 * where they do not; and the lane's own into s->own_factors, before a piece of the stage becomes
 * numbers, from number `first` (i32; null: 0) on. */
int moe__mixed_own_factors(const moe__mixed_mm_t *s);
int moe__mixed_factor_words(const moe__mixed_mm_t *s); /* of each */
void moe__mixed_load_own_factors(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, MlirValue first);
void moe__mixed_load_factors(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                             MlirValue buffer, int number, MlirValue out[2]);
void moe__mixed_load_subtrahends(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, moe__mixed_number_t number, MlirValue out[2]);

/* Scales of a stage as factors of weights, their highest four bits, and units of sums, what is left
 * of them. The four lanes that have the same two rows divide the numbers of these: lane l % 4 of
 * them has every second number, from number l % 4 / 2 on, of row l % 2. */
#define MOE__MIXED_MOST_UNITS 16
typedef struct moe__mixed_units_t {
  MlirValue factors[MOE__MIXED_MOST_UNITS]; /* i32, twice a bf16 */
  MlirValue ratios[MOE__MIXED_MOST_UNITS];  /* f32, the unit of the group before over this one */
  MlirValue above, below;                   /* f32, the last unit is above / below */
} moe__mixed_units_t;

/* Of the numbers of a stage, those of a lane. */
int moe__mixed_own_units(const moe__mixed_mm_t *s);

/* Units before the first stage; those of a stage, where `units` were those of the stage before. */
void moe__mixed_first_units(moe__mixed_mm_t *s, moe__mixed_units_t *units);
void moe__mixed_load_units(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           moe__mixed_units_t *units);

/* To all lanes: the factors and ratios of the lane's two rows, and the last units of a tile. */
void moe__mixed_share_unit(moe__mixed_mm_t *s, const moe__mixed_units_t *units, int number,
                           MlirValue factors[2], MlirValue ratios[2]);
void moe__mixed_last_units(moe__mixed_mm_t *s, const moe__mixed_units_t *units, MlirValue out[2]);

/* Whether the sums of a tile are in units, and are multiplied by the ratio of two of them. */
bool moe__mixed_rescales(const moe__mixed_mm_t *s);

/* Columns of a piece, which is a group, or 64 of a longer one, or of several groups where weights
 * have E8M0 scales in them. */
int moe__mixed_piece_columns(const moe__mixed_mm_t *s);

/* The lane's words of a chunk of 64 columns. */
MlirValue moe__mixed_load_words(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                MlirValue buffer, moe__mixed_number_t chunk);

/* The same of FP8 weights: a word for each step of 16 columns and each of the lane's two rows. */
void moe__mixed_load_fp8(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                         int chunk, MlirValue out[2 * MOE__MIXED_STEPS]);

/* A warp's arrival, at all CTAs whose copies fill the stage: it has read what it needs. */
void moe__mixed_release(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                        moe__cursor_t cursor);

/* ---- Multiply.c ---- */

/* Whether two pieces of weights and the products of two parts of the tokens have no registers at
 * once. */
bool moe__mixed_is_tight(const moe__mixed_schedule_t *schedule);

/* Whether the warpgroup's rows are those that two CTAs have in common (i1). */
MlirValue moe__mixed_is_common(moe__mixed_mm_t *s, const moe__mixed_position_t *self);

/* Gives back `count` stages (i32) from the one at `cursor` on. */
void moe__mixed_pass(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue count,
                     moe__cursor_t cursor);

/* The registers that a thread needs which multiplies. */
int moe__mixed_registers(const moe__mixed_schedule_t *schedule);

/* The sums of a tile over this CTA's k-tiles. */
void moe__mixed_multiply(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         const moe__mixed_reduction_t *reduction, moe__cursor_t cursor,
                         moe__mixed_fragment_t sums);

/* ---- Panels.c ---- */

/* The registers and the sums of warps that multiply a panel each, or a part of its columns; `tile`
 * is null where they do not load weights. */
int moe__mixed_panel_registers(const moe__mixed_schedule_t *schedule);
void moe__mixed_multiply_panel(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                               const moe__mixed_reduction_t *reduction,
                               const moe__mixed_tile_t *tile, moe__cursor_t cursor,
                               moe__mixed_fragment_t sums);

/* ---- Store.c ---- */

/* Bytes that the sums of CTAs that divide the columns take where they meet, and staged results. */
int moe__mixed_meeting_bytes(const moe__mixed_schedule_t *schedule);

/* Reserves shared memory, behind the ring. */
void moe__mixed_store_reserve(moe__mixed_layout_t *layout, const moe__mixed_schedule_t *schedule);

/* A warp's sums in memory, where another one adds them: bytes of those of a tile; and `at`, the
 * lane's first 16 bytes, to which its sums of s->n tokens are stored, or whose are added to its
 * own. */
int moe__mixed_sums_bytes(const moe__mixed_schedule_t *schedule);
void moe__mixed_put_sums(moe__mixed_mm_t *s, const moe__mixed_fragment_t sums, MlirValue at);
void moe__mixed_add_sums(moe__mixed_mm_t *s, MlirValue at, moe__mixed_fragment_t sums);

/* A barrier of the warps that multiply, which divide the columns of a stage. */
void moe__mixed_slices_barrier(moe__mixed_mm_t *s);

/* Adds what the warps of a panel have in the CTAs of the cluster, rounds and stores. With split
 * there is a barrier of the cluster in it, with reuse two, else with slices theirs. */
void moe__mixed_store(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                      const moe__mixed_tile_t *tile, const moe__mixed_fragment_t sums);

/* ---- Spread.c ---- */

/* Reserves shared memory; adds the parameters that it takes; and what the thread
 * that initializes the ring does before. */
void moe__mixed_spread_reserve(moe__mixed_layout_t *layout);
void moe__mixed_spread_parameters(moe__mixed_mm_t *s);
void moe__mixed_spread_initialize(moe__mixed_mm_t *s);

/* How many shares this CTA has, where there are so many tiles (i32), and number `index` of them. */
MlirValue moe__mixed_share_count(moe__mixed_mm_t *s, MlirValue tiles);
moe__mixed_share_t moe__mixed_share(moe__mixed_mm_t *s, MlirValue tiles, MlirValue index);

/* Hands the sums of a warp's share on, unless the share has the tile's last columns; else adds
 * those of the others that have some of the tile, one for each stage from that at `cursor` on. i1,
 * whether they are the sums of the tile. */
MlirValue moe__mixed_meet(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue tiles,
                          const moe__mixed_share_t *share, moe__cursor_t cursor,
                          moe__mixed_fragment_t sums);

/* What the thread that loads does for these sums, behind the k-tiles of share number `index`: says
 * that those of this CTA are there, behind its last share; and waits for those of
 * others, for each of which it says so by a stage, from that at `cursor` on. */
void moe__mixed_announce_sums(moe__mixed_mm_t *s, MlirValue tiles, MlirValue index);
void moe__mixed_await_sums(moe__mixed_mm_t *s, MlirValue tiles, const moe__mixed_share_t *share,
                           moe__cursor_t cursor);

#endif /* MOE_KERNELS_MIXED_MM_MIXED_MM_H */
