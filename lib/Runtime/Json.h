/* Json.h - typed reading of untrusted JSON, with the place of a fault in every message.
 *
 * jansson parses; this says "manifest.json: functions[0].launches[0].grid[1]: is -3; it must be 0
 * to 2147483647".
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_JSON_H
#define MOE_RUNTIME_JSON_H

#include "lib/Runtime/Arena.h"
#include "lib/Runtime/Status.h"

#include <jansson.h>

/* A value and the way to it. Cursors live on the stack of the reader; a parent outlives its
 * children. The root's key is the name of the file. A member that is not there has a NULL value:
 * reading it fails with "is missing". */
typedef struct moe__rt_json_t {
  json_t *value;
  const struct moe__rt_json_t *parent;
  const char *key; /* NULL for an element of an array */
  int index;
} moe__rt_json_t;

/* Sets "FILE: PATH: MESSAGE" and returns MOE_RT_INVALID_BUNDLE. */
__attribute__((format(printf, 2, 3))) moe_rt_status_t moe__rt_json_fail(const moe__rt_json_t *json,
                                                                        const char *format, ...);

/* Checks that the value is an object and has no field but `fields` (ends with NULL). */
moe_rt_status_t moe__rt_json_object(const moe__rt_json_t *json, const char *const *fields);

/* The member `key` of an object. */
moe__rt_json_t moe__rt_json_member(const moe__rt_json_t *json, const char *key);

/* Checks that the value is an array of `least` to `most` elements, and gives their number. */
moe_rt_status_t moe__rt_json_array(const moe__rt_json_t *json, int least, int most, int *out_count);

/* Element `index` of an array. */
moe__rt_json_t moe__rt_json_element(const moe__rt_json_t *json, int index);

/* An integer from `least` to `most`. */
moe_rt_status_t moe__rt_json_integer(const moe__rt_json_t *json, int64_t least, int64_t most,
                                     int64_t *out_value);

/* true or false. */
moe_rt_status_t moe__rt_json_bool(const moe__rt_json_t *json, bool *out_value);

/* A string, borrowed from the JSON. */
moe_rt_status_t moe__rt_json_string(const moe__rt_json_t *json, const char **out_text);

/* A name: a string of 1 to 255 bytes without control characters or quotes, copied to the arena. */
moe_rt_status_t moe__rt_json_name(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                  const char **out_name);

/* One of `count` words; gives its index. */
moe_rt_status_t moe__rt_json_word(const moe__rt_json_t *json, const char *const *words, int count,
                                  int *out_index);

#endif /* MOE_RUNTIME_JSON_H */
