/* Schedule.h - how schedules are described and read. A schedule is every constant of a kernel that
 * is a choice and not a consequence.
 *
 * The fields of a kernel's schedule are a table in Schedule.h of its family:
 * mx_quantize/Schedule.h, scaled_grouped_mm/Schedule.h. To add a field, add a row there and use it
 * in the kernel.
 *
 * moe-select-schedule writes it as the attribute `schedule`, and the kernel's lowering reads it.
 * A schedule that is in the source already is kept.
 *
 * A kind of schedule is a struct of ints, and one table from which all else comes: the struct,
 * the check of values, the messages, the printed attribute, docs/schedules.md. A row of the
 * table is
 *
 *   X(T, name, least, most, initial, "what it is, one line")
 *
 *   initial: what a candidate has that leaves the field 0. Where 0 is a value, it is the initial
 *   one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_SCHEDULE_H
#define MOE_KERNELS_SCHEDULE_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct moe__schedule_field_t {
  const char *name;
  size_t offset; /* of the int in the struct */
  int least, most, initial;
  const char *text;
} moe__schedule_field_t;

/* Fields of a kind at most: the definition of a kind with more does not compile. */
#define MOE__MAX_FIELDS 32

typedef struct moe__schedule_kind_t {
  const char *name; /* "stream": the heading in docs/schedules.md */
  const char *text; /* which kernels have it, one sentence */
  const moe__schedule_field_t *fields;
  int count;   /* of fields */
  size_t size; /* of the struct */
} moe__schedule_kind_t;

/* Members of the struct, and rows of the table of fields, from the table TABLE(X, T). */
#define MOE__SCHEDULE_MEMBER(T, name, least, most, initial, text) int name;
#define MOE__SCHEDULE_FIELD(T, name, least, most, initial, text)                                   \
  {#name, offsetof(T, name), least, most, initial, text},

/* Defines the kind `symbol`, of the struct T. */
#define MOE__SCHEDULE_KIND(symbol, T, TABLE, name, text)                                           \
  static const moe__schedule_field_t symbol##_fields[] = {TABLE(MOE__SCHEDULE_FIELD, T)};          \
  _Static_assert(sizeof symbol##_fields / sizeof symbol##_fields[0] <= MOE__MAX_FIELDS,            \
                 "more fields than moe__schedule_read has room for");                              \
  const moe__schedule_kind_t symbol = {                                                            \
      name, text, symbol##_fields, sizeof symbol##_fields / sizeof symbol##_fields[0], sizeof(T)}

/* The schedules of one kernel for one class of op, an array of the kind's struct: the default, then
 * others worth measuring. Every op of the class can have each of them. */
typedef struct moe__candidates_t {
  const void *schedules;
  int count;
} moe__candidates_t;

#define MOE__CANDIDATES(array)                                                                     \
  (moe__candidates_t) {                                                                            \
    (array), (int)(sizeof(array) / sizeof(array)[0])                                               \
  }

/* Candidate number `number`, or the default where there are not so many, in `out`. */
void moe__schedule_candidate(const moe__schedule_kind_t *kind, moe__candidates_t candidates,
                             int number, void *out);

/* Reads the attribute `schedule`. A field that it does not name keeps the value that it has in
 * `out`. False after an error: the attribute is missing or no dictionary, a field is unknown, or
 * a value is outside its range. */
bool moe__schedule_read(MlirOperation op, const moe__schedule_kind_t *kind, void *out);

/* Writes the attribute, with all fields. */
void moe__schedule_write(MlirOperation op, const moe__schedule_kind_t *kind, const void *schedule);

#endif /* MOE_KERNELS_SCHEDULE_H */
