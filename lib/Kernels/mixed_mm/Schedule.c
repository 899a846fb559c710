/* Schedule.c - see Schedule.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Schedule.h"

#include "lib/Builder/Inspect.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "mlir-c/BuiltinTypes.h"

MOE__SCHEDULE_KIND(moe__mixed_schedule, moe__mixed_schedule_t, MOE__MIXED_SCHEDULE, "mixed",
                   "mixed_mm, mixed_mm_scaled, mixed_mm_zeros, mixed_mm_bias, mixed_mm_zeros_bias");

/* ---- Sizes ---- */

int moe__mixed_panels(const moe__mixed_schedule_t *schedule) {
  return schedule->panels ? schedule->panels : MOE__MIXED_WARPS * schedule->warpgroups;
}

int moe__mixed_rows(const moe__mixed_schedule_t *schedule) {
  return MOE_WEIGHT_ROWS * moe__mixed_panels(schedule);
}

int moe__mixed_box_rows(const moe__mixed_schedule_t *schedule) {
  return schedule->common ? MOE__WGMMA_M : moe__mixed_rows(schedule);
}

/* Of two CTAs that have the rows of a warpgroup in common, those once. */
int moe__mixed_tile_rows(const moe__mixed_schedule_t *schedule) {
  int rows = moe__mixed_rows(schedule);
  return schedule->common ? 2 * rows - MOE__WGMMA_M : rows * schedule->share;
}

bool moe__mixed_meets(const moe__mixed_schedule_t *schedule) {
  return schedule->split > 1 || schedule->common;
}

bool moe__mixed_divides_tokens(const moe__mixed_schedule_t *schedule) {
  return schedule->split > 1 && !schedule->panels && schedule->tile_n % (8 * schedule->split) == 0;
}

bool moe__mixed_reuses(const moe__mixed_schedule_t *schedule) {
  return schedule->reuse && moe__mixed_divides_tokens(schedule);
}

bool moe__mixed_stages_results(const moe__mixed_schedule_t *schedule) {
  bool adds_rows = schedule->split > 1 && !moe__mixed_divides_tokens(schedule);
  return schedule->staged && schedule->slices == 1 && !schedule->common && !adds_rows;
}

int moe__mixed_warps(const moe__mixed_schedule_t *schedule) {
  return moe__mixed_panels(schedule) * schedule->slices;
}

int moe__mixed_scale_bytes(MlirType scale) {
  return mlirTypeIsAF32(scale) ? 4 : mlirTypeIsAFloat8E8M0FNU(scale) ? 1 : 2;
}

bool moe__mixed_has_scales_of_rows(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  return moe__has_fp8_weights(op) && moe__is_row_major(scales) && !moe__is_column_major(scales);
}

int moe__mixed_group(MlirOperation op) {
  int64_t group = moe__op_integer(op, "group_size");
  return group < 0 ? 0 : (int)group;
}

int moe__mixed_scales_of_stage(int group, int depth) {
  return group > depth ? 1 : group ? depth / group : 1;
}

moe__weight_format_t moe__mixed_format(MlirOperation op) {
  static const char *const NAMES[] = {
#define MOE_WEIGHT_FORMAT(symbol, name) [MOE__WEIGHT_##symbol] = (name),
#include "moe/weight_formats.def"
  };
  MlirStringRef name = moe__op_string(op, "format");
  int i = (int)(sizeof NAMES / sizeof *NAMES) - 1;
  while (i > 0 && !mlirStringRefEqual(name, mlirStringRefCreateFromCString(NAMES[i])))
    i--;
  return (moe__weight_format_t)i;
}

bool moe__mixed_takes_row_powers(MlirOperation op) {
  moe__weight_format_t format = moe__mixed_format(op);
  if (!mlirTypeIsAF16(moe__element_type(op, MOE__X)))
    return false;
  return format == MOE__WEIGHT_E4M3 ||
         (mlirTypeIsABF16(moe__element_type(op, MOE__SCALES)) &&
          (format == MOE__WEIGHT_I4 || format == MOE__WEIGHT_UINT4B8));
}

bool moe__mixed_takes_scaled_weights(MlirOperation op) {
  if (moe__mixed_takes_row_powers(op))
    return true;
  return mlirTypeIsAFloat8E8M0FNU(moe__element_type(op, MOE__SCALES)) &&
         mlirTypeIsABF16(moe__element_type(op, MOE__X)) &&
         (moe__mixed_format(op) == MOE__WEIGHT_E2M1 || moe__has_fp8_weights(op));
}

bool moe__mixed_takes_units(MlirOperation op) {
  MlirType scale = moe__element_type(op, MOE__SCALES);
  return (mlirTypeIsABF16(scale) || mlirTypeIsAF16(scale)) &&
         mlirTypeIsABF16(moe__element_type(op, MOE__X)) &&
         moe__mixed_format(op) != MOE__WEIGHT_E2M1 && !moe__has_fp8_weights(op);
}

/* ---- The layout ---- */

#define MOST_WARPS 31 /* of a CTA's 32, of which one loads */

/* The tokens of a tile, and the parts that are summed in turn. */
static bool check_tokens(MlirOperation op, const moe__mixed_schedule_t *s) {
  if (s->tile_n % 8)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of 8", s->tile_n);
  if (s->tile_n % (8 * s->token_parts))
    return moe__error(op, "'schedule.token_parts' is %d; each must be a multiple of 8 of %d tokens",
                      s->token_parts, s->tile_n);
  if (s->token_parts > 1 && s->in_flight > 1)
    return moe__error(op, "'schedule.token_parts' is %d; it must be 1 with in_flight",
                      s->token_parts);
  if (s->unroll > 1 && s->token_parts == 1)
    return moe__error(op, "'schedule.unroll' is %d; it must be 1 without token_parts", s->unroll);
  if (s->widths > 1 && (s->panels || s->split > 1 || s->share > 1 || s->common))
    return moe__error(op,
                      "'schedule.widths' is %d; it must be 1 with panels, split, share and common",
                      s->widths);
  if (s->tile_n % (8 * s->widths * s->token_parts))
    return moe__error(op,
                      "'schedule.widths' is %d; each part, and each of its token_parts, must be a "
                      "multiple of 8 of %d tokens",
                      s->widths, s->tile_n);
  if (s->tile_n % (8 * s->share))
    return moe__error(op, "'schedule.share' is %d; each must load a multiple of 8 of %d tokens",
                      s->share, s->tile_n);
  return true;
}

/* The columns of a stage, and the scales that come with them. */
static bool check_depth(MlirOperation op, const moe__mixed_schedule_t *s) {
  int depths = s->behind && !moe__has_fp8_weights(op) ? MOE_WEIGHT_COLUMNS : 128;
  if (s->depth % depths)
    return moe__error(op, "'schedule.depth' is %d; it must be a multiple of %d", s->depth, depths);
  int group = moe__mixed_group(op);
  if (group && s->depth % group && group % s->depth)
    return moe__error(op,
                      "'schedule.depth' is %d; it must be a multiple of the %d columns that share "
                      "a scale, or divide them",
                      s->depth, group);
  int of_box = MOE__MIXED_ROW_SCALES * MOE_MX_BLOCK; /* columns, whose scales come at once */
  if (moe__mixed_has_scales_of_rows(op) && of_box % s->depth)
    return moe__error(op, "'schedule.depth' is %d; with scales that lie by rows it must divide %d",
                      s->depth, of_box);
  int scales = moe__mixed_scales_of_stage(moe__mixed_group(op), s->depth);
  if (s->long_sums && scales > 1 && scales % 2)
    return moe__error(op, "'schedule.depth' is %d; with long_sums it must be a multiple of 256",
                      s->depth);
  return true;
}

/* What becomes of weights and scales. */
static bool check_weights(MlirOperation op, const moe__mixed_schedule_t *s) {
  if (s->scaled_weights && !moe__mixed_takes_scaled_weights(op) &&
      !(s->long_sums && moe__mixed_takes_units(op)))
    return moe__error(op, "'schedule.scaled_weights' is 1; it must be 0 but for f8E4M3FN "
                          "weights, f4E2M1FN weights with scales of f8E8M0FNU and bf16 tokens, i4 "
                          "and uint4b8 weights with scales of bf16 and f16 tokens, or with "
                          "long_sums integers with scales of 16 bits and bf16 tokens");
  if (moe__has_fp8_weights(op) && (!s->scaled_weights || s->panels))
    return moe__error(op, "'schedule' must have scaled_weights and no panels with weights of "
                          "f8E4M3FN");
  if (s->long_sums && !s->scaled_weights)
    return moe__error(op, "'schedule.long_sums' is 1; it must be 0 without scaled_weights");
  if (s->behind &&
      (s->panels || s->in_flight > 1 || s->token_parts > 1 || s->scaled_weights != s->long_sums ||
       (s->scaled_weights && !moe__mixed_takes_scaled_weights(op))))
    return moe__error(op, "'schedule.behind' is 1; it must be 0 with panels, in_flight, "
                          "token_parts, sums of a stage and sums in units");
  bool has_powers = s->scaled_weights && moe__mixed_takes_row_powers(op);
  if (s->scaled_weights &&
      ((s->token_parts > 1 && (!s->long_sums || has_powers)) || s->in_flight > 1))
    return moe__error(op, "'schedule.scaled_weights' is 1; in_flight must be 1 then, and "
                          "token_parts too without long_sums, and with f16 tokens");
  int scales = moe__mixed_scales_of_stage(moe__mixed_group(op), s->depth);
  if (s->scaled_weights && s->panels &&
      (!s->long_sums || !moe__mixed_takes_scaled_weights(op) || moe__mixed_takes_row_powers(op) ||
       scales / s->slices % 4))
    return moe__error(op, "'schedule.scaled_weights' is 1; with panels it needs long_sums, scales "
                          "of f8E8M0FNU, and a multiple of 128 columns of a stage for each warp");
  if (s->subnormal && (s->scaled_weights || !mlirTypeIsABF16(moe__element_type(op, MOE__X)) ||
                       mlirTypeIsAF32(moe__element_type(op, MOE__OUT)) ||
                       moe__mixed_format(op) == MOE__WEIGHT_E2M1))
    return moe__error(op, "'schedule.subnormal' is 1; it needs integers, bf16 tokens, results of "
                          "16 bits and scaled_weights = 0");
  return true;
}

/* What CTAs divide or have in common. */
static bool check_ctas(MlirOperation op, const moe__mixed_schedule_t *s) {
  if (s->common && (s->panels || s->warpgroups == 1 || s->split > 1 || s->share > 1 ||
                    !mlirValueIsNull(moe__operand(op, MOE__OFFS)) ||
                    !mlirValueIsNull(moe__operand(op, MOE__ZEROS))))
    return moe__error(op, "'schedule.common' is 1; it must be 0 but with several warpgroups, and "
                          "with split, share, panels, experts and zero points");
  if (moe__mixed_has_scales_of_rows(op) && s->common)
    return moe__error(op, "'schedule.common' is 1; it must be 0 with scales that lie by rows");
  if (s->share > 1 && s->split > 1)
    return moe__error(op, "'schedule.share' is %d; it must be 1 with split", s->share);
  if (s->spread &&
      (s->split > 1 || s->share > 1 || s->common || s->widths > 1 || s->slices > 1 || s->direct))
    return moe__error(op, "'schedule.spread' is 1; it must be 0 with split, share, common, widths, "
                          "slices and direct");
  int sums = moe__mixed_warps(s) * MOE__WARP * s->tile_n / 2;
  if (s->spread && sums * s->ctas_per_sm > MOE__PARTIAL_SUMS)
    return moe__error(op,
                      "'schedule.spread' is 1; the %d sums of a CTA are handed on, of a "
                      "multiprocessor no more than %d",
                      sums, MOE__PARTIAL_SUMS);
  if (s->whole && (!s->direct || s->split > 1 || !mlirValueIsNull(moe__operand(op, MOE__OFFS))))
    return moe__error(op, "'schedule.whole' is 1; it must be 0 without direct, with split and "
                          "with experts");
  return moe__mixed_panels(s) % s->split == 0 ||
         moe__error(op, "'schedule.split' is %d; it must divide the %d panels of rows", s->split,
                    moe__mixed_panels(s));
}

/* What warps divide, with panels. */
static bool check_warps(MlirOperation op, const moe__mixed_schedule_t *s) {
  int chunks = s->depth / MOE_WEIGHT_COLUMNS;
  if (s->direct && !s->panels)
    return moe__error(op, "'schedule.direct' is %d; it must be 0 without panels", s->direct);
  if (s->direct && chunks / s->slices > MOE__MIXED_MOST_AHEAD)
    return moe__error(
        op,
        "'schedule.direct' is %d; a warp has %d chunks of a stage and loads no more than %d ahead",
        s->direct, chunks / s->slices, MOE__MIXED_MOST_AHEAD);
  if (s->slices > 1 && !s->panels)
    return moe__error(op, "'schedule.slices' is %d; it must be 1 without panels", s->slices);
  if (moe__mixed_warps(s) > MOST_WARPS)
    return moe__error(op, "'schedule.slices' is %d; %d warps multiply, and %d can", s->slices,
                      moe__mixed_warps(s), MOST_WARPS);
  if (chunks % s->slices)
    return moe__error(
        op, "'schedule.slices' is %d; it must divide the %d chunks of %d columns of a stage",
        s->slices, chunks, MOE_WEIGHT_COLUMNS);
  return true;
}

static bool check(MlirOperation op, const moe__mixed_schedule_t *s) {
  return check_tokens(op, s) && check_depth(op, s) && check_weights(op, s) && check_ctas(op, s) &&
         check_warps(op, s);
}

/* Registers of a thread that loads, where setmaxnreg gives others to those that multiply. */
#define LOADER_REGISTERS 48
#define FEW_LOADER_REGISTERS 32    /* where those that multiply need more */
#define FEWEST_LOADER_REGISTERS 24 /* where those that multiply need all others */
#define WIDE_TILE 48
#define WIDE_MARGIN 40
#define BOX_ALIGNMENT 128 /* of what the TMA writes */

/* Those that each thread has, where a CTA has so many warps. */
static int registers_of(const moe__mixed_schedule_t *s, int warps) {
  int each = moe__layout_registers(warps * s->ctas_per_sm * MOE__WARP);
  return each < MOE__MIXED_MOST_REGISTERS ? each : MOE__MIXED_MOST_REGISTERS;
}

/* Decides how many warps load, and how registers are divided. */
static bool divide_registers(MlirOperation op, const moe__mixed_schedule_t *s,
                             moe__mixed_layout_t *l) {
  int warps = moe__mixed_warps(s);
  int needed = s->panels ? moe__mixed_panel_registers(s) : moe__mixed_registers(s);
  l->registers = registers_of(s, warps + 1);
  /* Wide tiles have more to keep: they get more than they need where there is more. */
  l->divides = !s->panels && l->registers < needed + (s->tile_n >= WIDE_TILE ? WIDE_MARGIN : 0) &&
               l->registers < MOE__MIXED_MOST_REGISTERS;
  l->cta.threads = (warps + (l->divides ? MOE__MIXED_WARPS : 1)) * MOE__WARP;
  if (l->divides) {
    int each = registers_of(s, warps + MOE__MIXED_WARPS);
    int all = each * (s->warpgroups + 1);
    /* With several widths those that multiply need more, but with scales of E8M0, where ptxas
     * serializes products (C7512) if they have. */
    bool takes_more = s->widths > 1 && (!s->scaled_weights || moe__mixed_takes_row_powers(op));
    l->loader_registers = takes_more ? FEW_LOADER_REGISTERS : LOADER_REGISTERS;
    if ((all - LOADER_REGISTERS) / s->warpgroups / 8 * 8 < needed)
      l->loader_registers = s->behind ? FEW_LOADER_REGISTERS : FEWEST_LOADER_REGISTERS;
    int left = (all - l->loader_registers) / s->warpgroups / 8 * 8;
    l->registers = left < MOE__MIXED_MOST_REGISTERS ? left : MOE__MIXED_MOST_REGISTERS;
  }
  if (l->registers < needed)
    return moe__error(op,
                      "'schedule' leaves %d registers to each thread that multiplies; the kernel "
                      "needs %d",
                      l->registers, needed);
  /* Of panels ptxas loads all tokens of a warp's part of a stage ahead. */
  int ahead = s->tile_n * (s->depth / MOE_WEIGHT_COLUMNS / s->slices);
  int most = l->registers * (s->direct ? 3 : 7) / 8;
  return !s->panels || ahead <= most ||
         moe__error(op,
                    "'schedule' leaves %d registers to each thread that multiplies; the %d tokens "
                    "of a warp's columns of a stage take %d, and may take %d",
                    l->registers, s->tile_n, ahead, most);
}

/* Whether one tile may have room for more tokens than there are, with panels. Then these alone are
 * loaded: a box of the TMA that reaches past the end of its tensor takes longer. */
static bool has_room(MlirOperation op, const moe__mixed_schedule_t *s) {
  int64_t tokens = moe__static_dimension(moe__tensor_type(op, MOE__X), 0);
  return mlirValueIsNull(moe__operand(op, MOE__OFFS)) && s->panels && s->share == 1 &&
         tokens < s->tile_n;
}

bool moe__mixed_lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__mixed_schedule_t *s = schedule;
  moe__mixed_layout_t *l = out;
  if (!check(op, s))
    return false;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  if (!divide_registers(op, s, l))
    return false;
  int chunks = s->depth / MOE_WEIGHT_COLUMNS, rows = moe__mixed_rows(s);
  l->weights = chunks * s->tile_n * MOE__MIXED_CHUNK_BYTES;
  int of_chunk = moe__has_fp8_weights(op) ? 2 * MOE_WEIGHT_BYTES : MOE_WEIGHT_BYTES;
  l->scales = l->weights + (s->direct ? 0 : moe__mixed_panels(s) * chunks * of_chunk);
  int numbers = moe__mixed_scales_of_stage(moe__mixed_group(op), s->depth) * rows;
  int zeros = mlirValueIsNull(moe__operand(op, MOE__ZEROS)) ? 0 : numbers;
  l->scales_of_rows = moe__mixed_has_scales_of_rows(op);
  l->landing =
      l->scales + (l->scales_of_rows
                       ? rows * MOE__MIXED_ROW_SCALES
                       : numbers * moe__mixed_scale_bytes(moe__element_type(op, MOE__SCALES)));
  l->zeros = (l->landing + BOX_ALIGNMENT - 1) / BOX_ALIGNMENT * BOX_ALIGNMENT;
  l->ring = moe__ring_reserve(&l->cta, s->stages, l->zeros + zeros);
  l->landing += zeros;
  l->fits = has_room(op, s);
  int room = s->stages * l->ring.stage_bytes;
  if (moe__mixed_reuses(s) && moe__mixed_meeting_bytes(s) > room)
    return moe__error(op, "'schedule.reuse' is 1; the sums take %d bytes, and the stages have %d",
                      moe__mixed_meeting_bytes(s), room);
  moe__mixed_store_reserve(l, s);
  if (s->spread)
    moe__mixed_spread_reserve(l);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  return true;
}
