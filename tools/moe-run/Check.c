/* Check.c - compares what a call computed with the C reference, bit for bit.
 *
 * Why it exists: see Check.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Check.h"

#include "tools/moe-run/Describe.h"
#include "tools/moe-run/Reference.h"
#include "tools/moe-run/Report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The two runs start from different bytes, so that one that is never written shows as a difference
 * between them. */
static const uint8_t fills[2] = {0xA5, 0x5A};

enum { CHUNK = 1 << 20 };

/* What is known of a result after both runs. */
typedef struct verdict_t {
  moe__difference_t difference;
  bool guards_intact, same_twice;
} verdict_t;

static uint32_t load(const moe__tensor_t *tensor, int64_t position) {
  uint32_t bits = 0;
  size_t bytes = (size_t)tensor->dtype->bits / 8;
  memcpy(&bits, tensor->data + (size_t)position * bytes, bytes);
  return bits;
}

static bool is_nan(const char *dtype, uint32_t bits) {
  if (!strcmp(dtype, "bf16"))
    return (bits & 0x7FFF) > 0x7F80;
  if (!strcmp(dtype, "f32"))
    return (bits & 0x7FFFFFFF) > 0x7F800000;
  if (!strcmp(dtype, "f8E4M3FN") || !strcmp(dtype, "f8E5M2"))
    return (bits & 0x7F) == 0x7F;
  return false;
}

moe__difference_t moe__compare(const moe__tensor_t *got, const moe__tensor_t *expected) {
  moe__difference_t difference = {0};
  size_t element = (size_t)got->dtype->bits / 8;
  for (size_t begin = 0; begin < got->bytes; begin += CHUNK) {
    size_t length = got->bytes - begin < CHUNK ? got->bytes - begin : CHUNK;
    if (!memcmp(got->data + begin, expected->data + begin, length))
      continue;
    for (size_t i = begin / element; i < (begin + length) / element; i++) {
      uint32_t a = load(got, (int64_t)i), b = load(expected, (int64_t)i);
      if (a == b || (is_nan(got->info->dtype, a) && is_nan(got->info->dtype, b)))
        continue;
      if (difference.count++)
        continue;
      difference.got = a;
      difference.expected = b;
      moe__tensor_index(got, (int64_t)i, difference.first);
    }
  }
  return difference;
}

/* Runs the call into `results`. */
static int run_once(const moe__target_t *target, moe__device_call_t *device_call, moe__call_t *call,
                    moe__tensor_t *results, uint8_t fill, int threads, verdict_t *verdicts) {
  if (!target->device)
    return moe__reference_run(call, results, threads);
  int rc = moe__device_call_run(device_call, fill);
  for (int i = 0; i < call->function->result_count && !rc; i++) {
    bool intact;
    rc = moe__device_call_fetch(device_call, i, results[i].data, &intact);
    verdicts[i].guards_intact = verdicts[i].guards_intact && !rc && intact;
  }
  return rc;
}

static int report(const moe__tensor_t *result, const verdict_t *verdict,
                  const moe__target_t *target) {
  char index[MOE__LIST_TEXT];
  const moe__difference_t *difference = &verdict->difference;
  const char *name = result->info->name;
  int digits = result->dtype->bits / 4, rc = MOE__OK;
  if (difference->count)
    rc = moe__input_error("%s[%s]: got 0x%0*" PRIx32 ", expected 0x%0*" PRIx32 " (%" PRId64
                          " of %" PRId64 " elements differ; ran on %s)",
                          name, moe__list_text(result->info->rank, difference->first, ",", index),
                          digits, difference->got, digits, difference->expected, difference->count,
                          result->elements, target->words);
  if (!verdict->guards_intact)
    rc = moe__input_error("%s: the call wrote outside of it (ran on %s)", name, target->words);
  if (!verdict->same_twice)
    rc = moe__input_error("%s: two runs gave different bits (ran on %s)", name, target->words);
  return rc;
}

static json_t *describe(const moe__tensor_t *result, const verdict_t *verdict, bool on_device) {
  const moe__difference_t *difference = &verdict->difference;
  json_t *first = json_null();
  if (difference->count)
    first = json_pack("{s:o, s:I, s:I}", "index",
                      moe__describe_list(result->info->rank, difference->first), "got",
                      (json_int_t)difference->got, "expected", (json_int_t)difference->expected);
  return json_pack("{s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:b}", "name", result->info->name, "dtype",
                   result->info->dtype, "shape",
                   moe__describe_list(result->info->rank, result->shape), "elements",
                   (json_int_t)result->elements, "differences", (json_int_t)difference->count,
                   "first_difference", first, "guards_intact",
                   on_device ? json_boolean(verdict->guards_intact) : json_null(), "same_twice",
                   verdict->same_twice);
}

static int judge(const moe__target_t *target, const moe__call_t *call, const verdict_t *verdicts,
                 bool json, json_t *cases) {
  char *shapes = moe__describe_arguments(call);
  json_t *results = json_array();
  int rc = MOE__OK;
  for (int i = 0; i < call->function->result_count; i++) {
    rc |= report(&call->results[i], &verdicts[i], target);
    json_array_append_new(results, describe(&call->results[i], &verdicts[i], target->device));
  }
  json_array_append_new(cases, json_pack("{s:o, s:b, s:o}", "arguments", moe__describe_shapes(call),
                                         "ok", rc == MOE__OK, "results", results));
  if (!rc && !json) {
    printf("check %s: ", shapes ? shapes : "");
    for (int i = 0; i < call->function->result_count; i++)
      printf("%s%s", i ? ", " : "", call->results[i].info->name);
    if (target->device)
      printf(" equal the C reference in every bit, in two runs on %s\n", target->words);
    else
      printf(": only the C reference ran; its slices equal the whole in every bit\n");
  }
  free(shapes);
  return rc;
}

int moe__check(const moe__target_t *target, moe__call_t *call, int threads, bool json,
               json_t *cases) {
  int count = call->function->result_count, rc = MOE__INPUT;
  moe__device_call_t device_call = {0};
  moe__tensor_t *expected = moe__tensors_like(call->results, count);
  moe__tensor_t *second = moe__tensors_like(call->results, count);
  verdict_t *verdicts = calloc((size_t)count + 1, sizeof *verdicts);
  if (!verdicts)
    moe__input_error("out of memory");
  if (!expected || !second || !verdicts)
    goto done;
  for (int i = 0; i < count; i++)
    verdicts[i].guards_intact = true;
  /* Without a device, compare the sliced computation with the plain one. */
  rc = moe__reference_run(call, expected, target->device ? threads : 1);
  if (!rc && target->device)
    rc = moe__device_call_make(target, call, &device_call);
  if (!rc)
    rc = run_once(target, &device_call, call, call->results, fills[0], threads, verdicts);
  if (!rc)
    rc = run_once(target, &device_call, call, second, fills[1], threads, verdicts);
  for (int i = 0; i < count && !rc; i++) {
    verdicts[i].difference = moe__compare(&call->results[i], &expected[i]);
    verdicts[i].same_twice = !memcmp(call->results[i].data, second[i].data, second[i].bytes);
  }
  if (!rc)
    rc = judge(target, call, verdicts, json, cases);
done:
  moe__device_call_free(&device_call);
  free(verdicts);
  moe__tensors_free(second, count);
  moe__tensors_free(expected, count);
  return rc;
}
