/* ScaledMm.h - the kernel of scaled_grouped_mm.scaled_mm under construction: what its parts
 * share.
 *
 * ScaledMm.c has the kernel, and what warps are there for. Operands.c says what an op has and
 * which ops the kernel takes, Parameters.c what a launcher gives and checks. Tiles.c has the tiles,
 * Load.c the loading warpgroup, Warpgroups.c the multiplying warpgroups, PingPong.c those that have
 * tiles of their own. Multiply.h has their products, and Epilogue.h what follows these.
 * Clear.c has what a gradient needs besides, where its groups begin and end inside of a stage.
 * Ahead.c makes operands of MX blocks.
 * Blocks.h and Mx.h have what scales of FP8 blocks and of MX blocks need besides.
 *
 * Two operands meet in a tile. Of one, 128 rows are the rows of the tile, as a rule 64 for each
 * warpgroup, or 192 of three; of the other, tile_n are its columns. The rows are those of qa,
 * unless the schedule swaps the operands: then tokens are columns, of which a tile may have as few
 * as 16, and the tile is transposed when it is stored.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_SCALED_GROUPED_MM_SCALED_MM_H
#define MOE_KERNELS_SCALED_GROUPED_MM_SCALED_MM_H

#include "lib/Device/Async.h"
#include "lib/Device/Groups.h"
#include "lib/Device/Tiles.h"
#include "lib/Device/Wgmma.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/scaled_grouped_mm/Schedule.h"

#define MOE__MM_WARPGROUP 128 /* threads */
/* As a rule; where three warpgroups multiply, Schedule.h has functions that give the numbers. */
#define MOE__MM_TILE_ROWS 128
#define MOE__MM_WARPGROUPS 2                                     /* that multiply; one more loads */
#define MOE__MM_THREADS (MOE__MM_WARPGROUPS * MOE__MM_WARPGROUP) /* that multiply */
/* Bytes of the reduction in a k-tile, which fills a stage: a row of it in shared memory. One wgmma
 * multiplies MOE__MM_STEP of them. Of FP8 these are elements; moe__mm_depth gives the elements of
 * so many bytes. */
#define MOE__MM_TILE_K 128
#define MOE__MM_STEP 32
#define MOE__MM_K_TILE_STEPS (MOE__MM_TILE_K / MOE__MM_STEP)

/* Of an operand of 16 bits that is MN-major: so many of its rows lie side by side in a row of a
 * stage, which is of one element of the reduction; and the bytes of such a block. */
#define MOE__MM_BLOCK_ROWS 64
#define MOE__MM_BLOCK_BYTES (MOE__MM_BLOCK_ROWS * MOE__MM_TILE_K)

/* The operands that are multiplied. */
enum { MOE__MM_QA, MOE__MM_QB };

/* How many scales an operand has: one, one for each expert, one for each of its rows; of qa one
 * for each 128 of a row, of qb one for each 128 x 128, or in a gradient as of qa; one for each 32
 * of a row; none. Either both have blocks or none, both MX blocks or none, and both scales or
 * none. */
typedef enum moe__mm_scales_t {
  MOE__SCALE_OF_ALL,
  MOE__SCALE_OF_EXPERT,
  MOE__SCALE_OF_ROW,
  MOE__SCALE_OF_BLOCK,
  MOE__SCALE_OF_MX_BLOCK,
  MOE__NO_SCALE
} moe__mm_scales_t;

/* qa or qb. Its rows are those of out if it is qa, and the columns of out if it is qb. */
typedef struct moe__mm_operand_t {
  int rows; /* in the tiles of a cluster */
  int tile; /* of those, in the tile of a CTA */
  int box;  /* of those, in one copy; unused if MN-major */
  moe__fp8_t element;
  bool mn_major; /* of 16 bits: its rows lie side by side in memory */
  MlirValue map;
  int map_rank;
  moe__mm_scales_t granularity;
  /* !llvm.ptr<1>; null without scales, and with blocks that are not MX, unless those are of qb and
   * warps hold them */
  MlirValue scales;
  MlirValue tail_map, scale_map; /* with blocks of tokens; the latter unless they are MX */
} moe__mm_operand_t;

/* Of an operand that is made in the kernel: what it is in MX blocks, and room for its numbers, of
 * which there is a count for each panel. All !llvm.ptr<1>. */
typedef struct moe__mm_made_t {
  moe__fp8_t element;
  MlirValue q, scales, numbers, panels;
} moe__mm_made_t;

typedef struct moe__scaled_mm_t {
  moe__kernel_t kernel;
  moe__mm_schedule_t schedule;
  moe__mm_layout_t layout;
  moe__mm_case_t which;
  bool promoted, has_bias;
  MlirType half; /* of the operands' elements where these have 16 bits; else null */
  bool aligned;  /* a gradient whose groups begin at multiples of 128 tokens, with zeros between */
  /* With blocks of any kind: else those along the reduction lie side by side. */
  bool sb_is_row_major;
  MlirValue sa_map, sb_map;      /* with blocks, unless those are of tokens or MX */
  moe__mm_operand_t operands[2]; /* qa, qb */
  bool makes_operands;           /* from MX blocks (Ahead.c) */
  moe__mm_made_t made[2];
  int column_n;                   /* columns that a tile's column counts in: a warpgroup's */
  int fragment_n;                 /* columns of the tile that a warpgroup multiplies, or of a part
                                   * of the tile (moe__mm_fit) */
  moe__mm_operand_t *side[2];     /* those whose rows are the tile's rows, its columns */
  moe__extent_t experts, columns; /* of out; experts: groups, batches */
  moe__extent_t rows;             /* of out: tokens, or of an expert if not forward */
  moe__extent_t depth;            /* of the reduction; of the gradient all tokens */
  MlirValue offs, status, counters, bias, out; /* !llvm.ptr<1> */
  MlirValue out_map;                           /* with tma_store: 16 rows x `staged` bytes */
  MlirValue wide_map; /* of the columns' operand where tiles are wide; null where they never are */
  MlirType out_type, bias_type; /* of elements */
  moe__groups_t groups;         /* not of batched products */
  /* i1: of the threads that are in the loader, whether this is the one that loads. */
  MlirValue loads;
} moe__scaled_mm_t;

/* What a warpgroup multiplies of a tile: 64 rows of it, or where each has tiles or columns of its
 * own, both halves. */
#define MOE__MM_MAX_FRAGMENTS 2
typedef MlirValue moe__mm_fragment_t[MOE__WGMMA_MAX_N / 2]; /* its registers, f32 */

/* Where a multiplying thread stands; in the first fragment, if there are two. */
typedef struct moe__mm_position_t {
  MlirValue warpgroup, lane;
  MlirValue warp_row; /* in the tile: the first of the warp's 16 rows */
  MlirValue row;      /* and the first of the lane's two rows, 8 apart */
} moe__mm_position_t;

/* What a tile sums over: `k_tiles` k-tiles from `first` on, of which [start, end) counts. In the
 * gradient the last k-tile is multiplied first, and only the first `last_steps` steps of it, and of
 * the first one all but the first `skipped`, of which only FP8 in groups that begin anywhere has
 * some; unless scales are of blocks of tokens: then k-tiles are those blocks, in order; or operands
 * have 16 bits and groups are aligned: then all of each k-tile is multiplied, in order too. */
typedef struct moe__mm_reduction_t {
  MlirValue first, k_tiles; /* i32 */
  /* i32; null but for the gradient, the last also where k-tiles are multiplied in order */
  MlirValue start, end, last_steps;
  MlirValue skipped; /* i32: steps of k-tile 0 that are wholly in front of the group; as the last */
} moe__mm_reduction_t;

/* ---- Operands.c ---- */

/* Whether there is a kernel for the op; if not, it has said why. */
bool moe__mm_has_kernel(MlirOperation op);

/* How many the op has of operand MOE__MM_QA or MOE__MM_QB, and whether its sums are promoted. */
moe__mm_scales_t moe__mm_scales(MlirOperation op, int operand);
bool moe__mm_is_promoted(MlirOperation op);

/* The tensor that a launcher gives an operand in: the operand itself, or what it is made of. */
moe__role_t moe__mm_given_role(MlirOperation op, int operand);

/* The tensor of an operand's scales; how many elements of an operand are 16 bytes. */
moe__role_t moe__mm_scale_role(int operand);
int moe__mm_line_multiple(MlirOperation op);

/* Writes down what the op and its schedule say. */
void moe__mm_read_op(moe__scaled_mm_t *s, MlirOperation op);

/* Whether tokens are in groups: unless products are batched. */
bool moe__mm_has_groups(const moe__scaled_mm_t *s);

/* Tiles of more columns than these are as wide as they have columns of out, in units of
 * MOE__MM_NARROWEST, where each warpgroup has tiles of its own. */
#define MOE__MM_WIDE 128
#define MOE__MM_NARROWEST 64
bool moe__mm_fits_columns(const moe__scaled_mm_t *s);

/* Whether the columns' operand is brought in the order of `direct`: column 32*a + 8*q + 2*i + p of
 * a tile is multiplied as number (tile_n/4)*i + 8*a + 2*q + p. So lane q of each four, which has
 * columns 8*j + 2*q and the next of what is multiplied, has 8 columns side by side in each 32. */
#define MOE__MM_DIRECT 32
bool moe__mm_is_direct(const moe__scaled_mm_t *s);

/* Where in a tile the columns 8*j and 8*j + 1 of what is multiplied are, which lane 0 has. */
int moe__mm_column_of_pair(const moe__scaled_mm_t *s, int j);

/* Whether sums have their scales in them before the epilogue, or there are none. */
bool moe__mm_scales_sums(const moe__scaled_mm_t *s);

/* Whether a tile is stored while the first product of the next one runs: with promoted sums, whose
 * accumulator on the tensor core is free between two tiles. */
bool moe__mm_stores_behind(const moe__scaled_mm_t *s);

/* The elements of the reduction that `bytes` bytes of a row are. */
int moe__mm_depth(const moe__scaled_mm_t *s, int bytes);

/* Whether the CTAs of a cluster share what they read of it. */
bool moe__mm_is_shared(const moe__scaled_mm_t *s, const moe__mm_operand_t *operand);
/* The elements of the reduction in one copy, where it is MN-major. */
int moe__mm_box_depth(const moe__scaled_mm_t *s, const moe__mm_operand_t *operand);

/* ---- Parameters.c ---- */

/* What a launcher gives; and what it has to check: sizes that belong together, strides of tensor
 * maps and rows of out in multiples of 16 bytes. */
void moe__mm_add_parameters(moe__scaled_mm_t *s, MlirOperation op);
void moe__mm_add_requirements(moe__scaled_mm_t *s, MlirOperation op);

/* ---- Tiles.c ---- */

/* A tile and the range of tokens that it sums over, which is that of the gradient's group, where
 * the operands have it. */
typedef struct moe__mm_work_t {
  moe__group_tile_t tile;
  MlirValue start, end; /* i32; null but for the gradient */
} moe__mm_work_t;

/* Whether CTAs take their tiles by a counter; and whether only when nearly all of the one before
 * has been loaded, so that who is done first takes the next one. */
bool moe__mm_counts_tiles(const moe__scaled_mm_t *s);
bool moe__mm_counts_late(const moe__scaled_mm_t *s);

/* Whether CTAs that take tiles in turn begin some of them at the same time; and whether the kernel
 * has counters, for that or to take tiles by. */
bool moe__mm_is_in_step(const moe__scaled_mm_t *s);
bool moe__mm_has_counters(const moe__scaled_mm_t *s);

/* How many tiles there are (i32); the number of the one that the loading thread takes behind
 * number `index`; and, behind the last one, what leaves the counters as they were. share: of the
 * moe__mm_shares of a CTA, which the thread that loads has but where operands are made. */
MlirValue moe__mm_tile_count(moe__scaled_mm_t *s);
MlirValue moe__mm_next_tile(moe__scaled_mm_t *s, MlirValue index);
void moe__mm_finish_counting(moe__scaled_mm_t *s, int share);

/* In step: in one of `in_step` turns the loading thread waits until all CTAs that have a tile of
 * this turn, of which `index` is its own, begin it. patience (i32): how often it may ask; none is
 * left where that did not suffice. Nothing but the time depends on it. */
MlirValue moe__mm_patience(moe__scaled_mm_t *s);
void moe__mm_begin_in_step(moe__scaled_mm_t *s, MlirValue index, MlirValue total,
                           MlirValue *patience);

/* Whether the loader looks for a tile from the last one's group on. */
bool moe__mm_looks_from(const moe__scaled_mm_t *s);

/* group_from: if so, that group (i32); it becomes this tile's. */
moe__mm_work_t moe__mm_work_at(moe__scaled_mm_t *s, MlirValue index, MlirValue *group_from);
moe__mm_reduction_t moe__mm_reduction_of(moe__scaled_mm_t *s, const moe__mm_work_t *work);

/* Whether steps in front of a group may be skipped. */
bool moe__mm_skips_steps(const moe__scaled_mm_t *s);

/* Where k-tile number `index`, in the order of multiplication, starts in the reduction. */
MlirValue moe__mm_k_tile_at(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                            MlirValue index);

/* How many pieces of its columns a tile has tokens in (i32), where operands are swapped. And what
 * builds `body` for each number of them, in a branch for tiles that have so many, with fragment_n
 * as it is then. */
MlirValue moe__mm_pieces(moe__scaled_mm_t *s, const moe__group_tile_t *tile);
void moe__mm_fit(moe__scaled_mm_t *s, const moe__group_tile_t *tile, void (*body)(void *user),
                 void *user);

/* The ring of slots in which the loader says where the tiles are that it loads, numbers i32. The
 * end, in place of a tile, is one of MOE__MM_NO_GROUP. One thread initializes their barriers. */
#define MOE__MM_NO_GROUP (-1)
void moe__mm_slots_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule,
                           MlirOperation op);
void moe__mm_slots_initialize(moe__scaled_mm_t *s);
moe__cursor_t moe__mm_slot_behind(moe__scaled_mm_t *s, moe__cursor_t slot);
void moe__mm_write_slot(moe__scaled_mm_t *s, moe__cursor_t slot, const moe__mm_work_t *work);
void moe__mm_write_end(moe__scaled_mm_t *s, moe__cursor_t slot);

/* For all lanes that multiply: what is in a slot, of which `take` is the last read; a lane takes
 * each slot that has a tile once. */
MlirValue moe__mm_next_slot(moe__scaled_mm_t *s, MlirValue slot);
MlirValue moe__mm_read_group(moe__scaled_mm_t *s, MlirValue slot);
moe__mm_work_t moe__mm_read_slot(moe__scaled_mm_t *s, MlirValue slot);
moe__mm_work_t moe__mm_take_slot(moe__scaled_mm_t *s, MlirValue slot);

/* Where each warpgroup has tiles of its own, it does not know where the stages of one begin: the
 * slot says so, and has a barrier. The loader writes a slot, then announces it. Readers have a
 * cursor over the ring of slots. */
void moe__mm_write_first(moe__scaled_mm_t *s, moe__cursor_t slot, moe__cursor_t first);
void moe__mm_announce_slot(moe__scaled_mm_t *s, moe__cursor_t slot);
moe__cursor_t moe__mm_slots_from(moe__scaled_mm_t *s, MlirValue warpgroup);
moe__cursor_t moe__mm_slot_after_next(moe__scaled_mm_t *s, moe__cursor_t slot);
void moe__mm_wait_for_slot(moe__scaled_mm_t *s, moe__cursor_t slot);
moe__cursor_t moe__mm_read_first(moe__scaled_mm_t *s, MlirValue slot);

/* ---- Wide.c ---- */

/* Whether the tiles of this launch are those of the schedule, i1, the same in all threads; else
 * they are wide. */
MlirValue moe__mm_is_narrow(moe__scaled_mm_t *s);

/* Makes it the kernel of wide tiles: what is built from here on is for them. */
void moe__mm_widen(moe__scaled_mm_t *s, MlirOperation op);

/* ---- Load.c ---- */

/* Byte `offset` of the stage at `cursor`; what is in it besides tiles begins behind them. */
MlirValue moe__mm_in_stage(moe__scaled_mm_t *s, moe__cursor_t cursor, int32_t offset);
MlirValue moe__mm_behind_tiles(moe__scaled_mm_t *s, moe__cursor_t cursor);

/* Where an operand's part of a tile starts. */
MlirValue moe__mm_first_row(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                            const moe__group_tile_t *tile);

/* Loads all tiles of the CTA. Called by the threads of the loading warpgroup. */
void moe__mm_load(moe__scaled_mm_t *s);

/* ---- Clear.c, for the gradient, unless its scales are of MX blocks or its groups aligned ---- */

/* The word whose lowest `bytes` bytes are set; bytes is clamped to 0..4. */
MlirValue moe__mm_low_bytes(moe__builder_t *b, MlirValue bytes);

/* Whether warps clear. Reserves shared memory, and initializes its barriers: one thread calls the
 * latter, and a barrier of the CTA must follow. */
bool moe__mm_clears(const moe__scaled_mm_t *s);
void moe__mm_clear_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule);
void moe__mm_clear_initialize(moe__scaled_mm_t *s);

/* For the warp that loads: gives the barrier on which the copies to the free stage at `cursor` are
 * to complete, whose first token is `at`, or which gets block `index`; makes a request where there
 * is something to clear in it. *next: the number of the next request (i32), 0 at first. */
MlirValue moe__mm_request(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction, MlirValue at,
                          moe__cursor_t cursor, MlirValue *next);
MlirValue moe__mm_request_block(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                                MlirValue index, moe__cursor_t cursor, MlirValue *next);

/* All threads of the loading warpgroup, but not those of the warp that loads, call the latter,
 * which clears what is asked for until the thread that loads calls the former, when the next stage
 * is free. Each of them arrives at a stage that it has cleared, so that racecheck of
 * compute-sanitizer sees the order. */
#define MOE__MM_CLEARERS (MOE__MM_WARPGROUP - MOE__WARP)
void moe__mm_end_requests(moe__scaled_mm_t *s, MlirValue next);
void moe__mm_clear(moe__scaled_mm_t *s);

/* So the barriers of stages, and those that moe__mm_request gives, wait for as many arrivals: the
 * thread that loads makes them all, and announces the bytes. */
void moe__mm_expect(moe__scaled_mm_t *s, MlirValue barrier, MlirValue bytes);

/* The same arrivals but one, which has announced the bytes: behind the copies, which do not wait
 * for them. */
void moe__mm_arrive_for_clearers(moe__scaled_mm_t *s, MlirValue barrier);

/* ---- Ahead.c, where operands are made of MX blocks ---- */

/* Makes what the first tiles take: all threads of the CTA call it, when the table of groups is
 * there. And all the rest, as far as no other CTA does: the loading warpgroup, but not the warp
 * that loads. */
void moe__mm_make_first(moe__scaled_mm_t *s);
void moe__mm_make_rest(moe__scaled_mm_t *s);

/* What the thread that loads knows of what has been made, all i32: of the panels that a tile has,
 * how many pieces there were when it asked; how many shares of all were done then; and whether all
 * operands are made, so that it asks no more. */
typedef struct moe__mm_asked_t {
  MlirValue found[4], done, is_all;
} moe__mm_asked_t;
#define MOE__MM_CARRY_ASKED(asked)                                                                 \
  &(asked).found[0], &(asked).found[1], &(asked).found[2], &(asked).found[3], &(asked).done,       \
      &(asked).is_all

/* Nothing yet; asks for what a tile has, and does not wait for the answer; waits until all that is
 * copied for the tile has been made. */
moe__mm_asked_t moe__mm_asked_nothing(moe__scaled_mm_t *s);
void moe__mm_ask_for_made(moe__scaled_mm_t *s, const moe__mm_work_t *work, moe__mm_asked_t *asked);
void moe__mm_await_made(moe__scaled_mm_t *s, const moe__mm_work_t *work, moe__mm_asked_t *asked);

/* The shares of a CTA of what is counted at the end, and that of the thread that loads
 * (moe__mm_finish_counting); and what the last thread of all leaves as it was. */
int moe__mm_shares(const moe__scaled_mm_t *s);
int moe__mm_loader_share(const moe__scaled_mm_t *s);
void moe__mm_forget_made(moe__scaled_mm_t *s);

/* ---- Warpgroups.c ---- */

/* Multiplies and stores all tiles of the CTA, each warpgroup its 64 rows of them. */
void moe__mm_multiply_tiles(moe__scaled_mm_t *s);

/* Waits for the first stage of a tile; gives whether there is one. */
MlirValue moe__mm_has_tile(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue slot);

/* ---- PingPong.c ---- */

/* Multiplies and stores the tiles of one warpgroup, every other one of the CTA. */
void moe__mm_multiply_in_turn(moe__scaled_mm_t *s);

/* Where a multiplying thread stands in each fragment, if its warpgroup has all rows of a tile. */
void moe__mm_positions(moe__scaled_mm_t *s, moe__mm_position_t self[MOE__MM_MAX_FRAGMENTS]);

/* Reserves shared memory, and initializes its barriers: one thread calls the latter. */
void moe__mm_turns_reserve(moe__mm_layout_t *layout);
void moe__mm_turns_initialize(moe__scaled_mm_t *s);

#endif /* MOE_KERNELS_SCALED_GROUPED_MM_SCALED_MM_H */
