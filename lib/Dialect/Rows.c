/* Rows.c - the table of the ops, of MxQuantize.def and ScaledGroupedMm.def, and the words that
 * their rows are written in.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Row.h"
#include "lib/Dialect/RowFunctions.h"

#include <stddef.h>

/* ---- Element types ---- */

#define F32                                                                                        \
  { MOE__DTYPE_F32 }
#define BF16                                                                                       \
  { MOE__DTYPE_BF16 }
#define F16                                                                                        \
  { MOE__DTYPE_F16 }
#define E4M3                                                                                       \
  { MOE__DTYPE_E4M3 }
#define E8M0                                                                                       \
  { MOE__DTYPE_E8M0 }
#define I32                                                                                        \
  { MOE__DTYPE_I32 }
#define BYTES                                                                                      \
  { MOE__DTYPE_U8 }
#define WEIGHTS                                                                                    \
  { MOE__DTYPE_U8, MOE__DTYPE_E4M3 }
#define FP8                                                                                        \
  { MOE__DTYPE_E4M3, MOE__DTYPE_E5M2 }
#define HALF                                                                                       \
  { MOE__DTYPE_BF16, MOE__DTYPE_F16 }
#define HIGH_PRECISION                                                                             \
  { MOE__DTYPE_BF16, MOE__DTYPE_F32 }
#define ANY_ROWS                                                                                   \
  { MOE__DTYPE_BF16, MOE__DTYPE_F32, MOE__DTYPE_E4M3, MOE__DTYPE_E5M2 }
#define PRODUCT                                                                                    \
  { MOE__DTYPE_BF16, MOE__DTYPE_F16, MOE__DTYPE_F32 }
#define SCALES_OF_WEIGHTS                                                                          \
  { MOE__DTYPE_BF16, MOE__DTYPE_F16, MOE__DTYPE_F32, MOE__DTYPE_E8M0 }
#define PACKED_SCALES                                                                              \
  { MOE__DTYPE_E8M0, MOE__DTYPE_F32 }
#define SCALES_OF_PRODUCT                                                                          \
  { MOE__DTYPE_F32, MOE__DTYPE_E8M0 }

/* ---- Why offs must be there, or must not ---- */

#define GROUPS_OF_COLUMNS                                                                          \
  .needed = "columns have a scale for each group", .unwanted = "experts are the groups"
#define GROUPS_OF_TOKENS .needed = "it gives the groups", .unwanted = "there are no experts"
#define GROUPS_OF_PRODUCT .needed = "it gives the groups", .unwanted = "the batches are the groups"

/* ---- Attributes ---- */

#define NAME_OF(symbol, name) name,
#define MOE_MX_MODE NAME_OF
#define MOE_GRANULARITY NAME_OF
#define MOE_ACCUMULATION NAME_OF
#define MOE_WEIGHT_FORMAT NAME_OF
static const char *const MODES[] = {
#include "moe/mx_modes.def"
    NULL};
static const char *const GRANULARITIES[] = {
#include "moe/fp8_granularities.def"
    NULL};
static const char *const ACCUMULATIONS[] = {
#include "moe/accumulations.def"
    NULL};
static const char *const ELEMENTS[] = {"f8E4M3FN", "f8E5M2", NULL};
static const char *const LAYOUTS[] = {"128x4", "rows_innermost", NULL};
static const char *const LAYOUTS_OF_WEIGHTS[] = {"plain", "16x64",       "16x64_e2m1",
                                                 "1x16",  "evens_first", NULL};
static const char *const ORDERS[] = {"evens_first", NULL};
static const char *const PACKED_LAYOUTS[] = {"16x64", "16x64_e2m1", NULL};
static const char *const FORMATS[] = {
#include "moe/weight_formats.def"
    NULL};
static const char *const RECIPES[] = {"fp8_rowwise", "fp8_tensorwise", "fp8_blockwise", "mxfp8",
                                      NULL};
static const char *const BLOCKS_OF_TOKENS_NAMES[] = {"1x128", NULL};

#define AXIS                                                                                       \
  { "axis", MOE__INTEGER }
#define BLOCK                                                                                      \
  { "block", MOE__INTEGER }
#define ALIGN                                                                                      \
  { "align", MOE__INTEGER }
#define OPTIONAL_ALIGN                                                                             \
  { "align", MOE__INTEGER, .optional = true }
#define OPTIONAL_ORDER                                                                             \
  { "order", MOE__STRING, ORDERS, .optional = true }
#define GROUP_SIZE                                                                                 \
  { "group_size", MOE__INTEGER }
#define POW2                                                                                       \
  { "pow2", MOE__BOOL }
#define SANITIZE                                                                                   \
  { "sanitize", MOE__BOOL }
#define MODE                                                                                       \
  { "mode", MOE__STRING, MODES }
#define GRANULARITY                                                                                \
  { "granularity", MOE__STRING, GRANULARITIES }
#define OPTIONAL_GRANULARITY                                                                       \
  { "granularity", MOE__STRING, GRANULARITIES, .optional = true }
#define BLOCKS_OF_TOKENS                                                                           \
  { "granularity", MOE__STRING, BLOCKS_OF_TOKENS_NAMES, .optional = true }
#define ELEMENT                                                                                    \
  { "element", MOE__STRING, ELEMENTS }
#define LAYOUT                                                                                     \
  { "layout", MOE__STRING, LAYOUTS }
#define LAYOUT_OF_WEIGHTS                                                                          \
  { "layout", MOE__STRING, LAYOUTS_OF_WEIGHTS }
#define PACKED_LAYOUT                                                                              \
  { "layout", MOE__STRING, PACKED_LAYOUTS }
#define FORMAT                                                                                     \
  { "format", MOE__STRING, FORMATS }
#define RECIPE                                                                                     \
  { "recipe", MOE__STRING, RECIPES }
#define ACCUMULATE                                                                                 \
  { "accumulate", MOE__STRING, ACCUMULATIONS }
#define OPTIONAL_ACCUMULATE                                                                        \
  { "accumulate", MOE__STRING, ACCUMULATIONS, .optional = true }

/* ---- The tables ---- */

/* The program that prints the IRDL text has no use for functions, which need MLIR. */
#ifdef MOE_ROWS_WITHOUT_FUNCTIONS
#define CHECK(function)
#define SHAPE(function)
#else
#define CHECK(function) .check = function,
#define SHAPE(function) .shape = function,
#endif

const moe__op_row_t moe__op_rows[] = {
    [MOE__NO_OP] = {0},
#define MOE_DIALECT(...)
#define MOE_OP(symbol, op_name, ...) [MOE__OP_##symbol] = {.name = op_name, __VA_ARGS__},
#include "lib/Dialect/Dialects.def"
};

const moe__dialect_row_t moe__dialect_rows[] = {
#define MOE_DIALECT(dialect, text) {#dialect, text},
#define MOE_OP(...)
#include "lib/Dialect/Dialects.def"
    {NULL, NULL}};
