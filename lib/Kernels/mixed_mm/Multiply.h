/* Multiply.h - the warpgroups that multiply: what their parts share.
 *
 * A piece of weights (moe__mixed_piece_columns) becomes a fragment in registers; the next one is
 * turned into numbers while the tensor core multiplies, across stages too. Multiply.c walks over
 * the stages. GroupSums.c multiplies weights as they are, and then the sums of their groups by
 * scales; ScaledWeights.c weights that are multiplied by their scales first.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_MULTIPLY_H
#define MOE_KERNELS_MIXED_MM_MULTIPLY_H

#include "lib/Kernels/mixed_mm/MixedMm.h"

/* Of a round of the loop. At its end nothing is in flight: ptxas lets every product wait for the
 * one before where they run on into the next round. */
#define MOE__MIXED_MOST_STAGES 4

/* A piece's weights, as wgmma takes them: the first moe__mixed_piece_words are there. */
typedef MlirValue moe__mixed_piece_t[MOE__MIXED_STEPS * MOE__WGMMA_A_REGISTERS];

/* ---- Multiply.c ---- */

int moe__mixed_piece_words(const moe__mixed_mm_t *s);

/* Tokens whose products are one accumulator. */
int moe__mixed_part_tokens(const moe__mixed_mm_t *s);

/* Of piece `index` of the stage in `buffer`: the lane's words of its chunk of 64 columns, which of
 * these is the first of its own, and which of a row's numbers are. */
MlirValue moe__mixed_piece_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, int index);
int moe__mixed_first_word(const moe__mixed_mm_t *s, int index);
moe__mixed_number_t moe__mixed_number_of(const moe__mixed_mm_t *s, int index);

/* Issues the products of piece `index` of a stage with one part of its tokens, which `tokens`
 * describes: instead of what `sums` has (fresh), or added to it. */
void moe__mixed_issue_products(moe__mixed_mm_t *s, MlirValue tokens, int index, int part,
                               const moe__mixed_piece_t weights, bool fresh,
                               moe__accumulator_t *sums);

/* Sums are added before this: LLVM would move the additions of several pieces down to where the
 * sums are stored, and all their products would stay in registers. Nothing is in flight. */
void moe__mixed_keep_here(moe__mixed_mm_t *s, moe__mixed_fragment_t sums);

/* Waits for a stage and turns its first piece into numbers; of sums that are rescaled, `units` were
 * those of the stage before, and become those of this one. Others have none: NULL. */
void moe__mixed_begin_stage(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            moe__cursor_t cursor, moe__mixed_piece_t first,
                            moe__mixed_units_t *units, MlirValue ratios[2]);

/* A part of it: where the scales of a row lie side by side, those of the stage behind. */
void moe__mixed_next_row_scale(moe__mixed_mm_t *s);

/* Where `stages` stages from the one at cursors[0] on are, and the descriptors of their tokens;
 * cursors[stages] is the stage behind them. */
void moe__mixed_walk_stages(moe__mixed_mm_t *s, int stages, moe__cursor_t *cursors,
                            MlirValue *buffers, MlirValue *tokens);

/* ---- GroupSums.c and ScaledWeights.c ---- */

/* The weights of piece `index` of the stage in `buffer`: as they are; times their scales, of
 * E8M0 or, with f16 tokens, bf16; times the highest bits of their scales, with what sums of the
 * group before are to be multiplied by. */
void moe__mixed_group_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                            int index, moe__mixed_piece_t out);
void moe__mixed_scaled_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                             MlirValue buffer, int index, moe__mixed_piece_t out);
void moe__mixed_unit_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           int index, const moe__mixed_units_t *units, moe__mixed_piece_t out,
                           MlirValue ratios[2]);

/* Each of these adds the products of the stage at `cursor`, or of `stages` from there on, to the
 * sums of a tile, and gives the stages back. `first` is the first piece of them; then, with
 * has_next, that of the stage behind. What follows a piece becomes numbers while the products of
 * that one run. */
void moe__mixed_sum_groups(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                           moe__cursor_t cursor, moe__mixed_piece_t first, bool has_next,
                           moe__mixed_fragment_t sums);

/* With tokens in parts. The products of two are in flight; a piece is turned into numbers while the
 * first two of the piece before run. */
void moe__mixed_sum_groups_in_parts(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                    moe__cursor_t cursor, int stages, moe__mixed_piece_t first,
                                    bool has_next, moe__mixed_fragment_t sums);

/* Of weights that have their scales in them: up to two pieces are in flight, and all products of a
 * stage are one sum. With long sums that is the sum of the tile, with which the tensor core goes
 * on. */
void moe__mixed_sum_scaled(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                           moe__cursor_t cursor, moe__mixed_piece_t first, bool has_next,
                           moe__mixed_fragment_t sums);

/* The same, where a piece becomes numbers behind the products of the one before, in its registers;
 * long sums. */
void moe__mixed_sum_scaled_behind(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                  moe__cursor_t cursor, moe__mixed_piece_t first, bool has_next,
                                  moe__mixed_fragment_t sums);

/* Long sums whose tokens are in parts, or in units of their own (moe__mixed_rescales): before the
 * products of another group are added to these they are multiplied by the ratio of the two units.
 * With tokens in parts the products of two are in flight. */
void moe__mixed_sum_long(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         moe__cursor_t cursor, int stages, moe__mixed_piece_t first,
                         moe__mixed_units_t *units, bool has_next, moe__mixed_fragment_t sums);

#endif /* MOE_KERNELS_MIXED_MM_MULTIPLY_H */
