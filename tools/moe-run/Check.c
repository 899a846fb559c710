/* Check.c - compares what a call computed with the C reference, bit for bit.
 *
 * Why it exists: see Check.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Check.h"

#include "tools/moe-run/Describe.h"
#include "tools/moe-run/Report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs start from different bytes in turn, so that one that is never written shows as a difference
 * between them. */
static const uint8_t fills[2] = {0xA5, 0x5A};

enum { CHUNK = 1 << 20 };

#define MAX_DISTURBED_SECONDS 0.2

/* What is known of a result after all runs. */
typedef struct verdict_t {
  moe__run_difference_t difference;
  moe__run_judgment_t judgment;
  bool by_bound; /* of a product whose sums have no certain bits */
  int64_t written_rows;
  bool has_gaps;   /* rows before it may be nobody's */
  int64_t touched; /* position of an element of no group that was written; -1: none */
  bool guards_intact, same_always;
} verdict_t;

/* ---- Elements ---- */

static uint32_t load(const moe__run_tensor_t *tensor, int64_t position) {
  uint32_t bits = 0;
  size_t bytes = (size_t)tensor->dtype->bits / 8;
  memcpy(&bits, tensor->data + (size_t)position * bytes, bytes);
  return bits;
}

static bool is_nan(const char *dtype, uint32_t bits) {
  if (!strcmp(dtype, "bf16"))
    return (bits & 0x7FFF) > 0x7F80;
  if (!strcmp(dtype, "f16"))
    return (bits & 0x7FFF) > 0x7C00;
  if (!strcmp(dtype, "f32"))
    return (bits & 0x7FFFFFFF) > 0x7F800000;
  if (!strcmp(dtype, "f8E4M3FN") || !strcmp(dtype, "f8E5M2"))
    return (bits & 0x7F) == 0x7F;
  return false;
}

/* The bits of the same byte, over and over. */
static uint32_t filled(const moe__run_tensor_t *tensor, uint8_t fill) {
  return (uint32_t)fill * 0x01010101u >> (32 - tensor->dtype->bits);
}

static int64_t row_of(const moe__run_tensor_t *tensor, int64_t position) {
  return position / tensor->strides[0] % tensor->shape[0];
}

/* Compares two tensors of one layout, in rows [begin, end) of dimension 0. NaNs are equal whatever
 * their payload and sign, but an E5M2 NaN only as 0x7F or 0xFF, and E8M0 has only one. */
static moe__run_difference_t compare(const moe__run_tensor_t *got,
                                     const moe__run_tensor_t *expected, int64_t begin_row,
                                     int64_t end_row) {
  moe__run_difference_t difference = {0};
  size_t element = (size_t)got->dtype->bits / 8;
  for (size_t begin = 0; begin < got->bytes; begin += CHUNK) {
    size_t length = got->bytes - begin < CHUNK ? got->bytes - begin : CHUNK;
    if (!memcmp(got->data + begin, expected->data + begin, length))
      continue;
    for (size_t i = begin / element; i < (begin + length) / element; i++) {
      uint32_t a = load(got, (int64_t)i), b = load(expected, (int64_t)i);
      if (a == b || (is_nan(got->info->dtype, a) && is_nan(got->info->dtype, b)))
        continue;
      int64_t row = row_of(got, (int64_t)i);
      if (row < begin_row || row >= end_row || difference.count++)
        continue;
      difference.got = a;
      difference.expected = b;
      moe__run_tensor_index(got, (int64_t)i, difference.first);
    }
  }
  return difference;
}

/* Whether two runs, of which the second started from `fill`, wrote the same bits. Rows from those
 * on that are written are none of theirs; where there are gaps neither is what both left alone. */
static bool is_same(const moe__run_tensor_t *first, const moe__run_tensor_t *second, uint8_t fill,
                    const verdict_t *verdict) {
  if (verdict->written_rows == first->shape[0] && !verdict->has_gaps)
    return !memcmp(first->data, second->data, first->bytes);
  for (int64_t i = 0; i < first->elements; i++) {
    const bool is_left = verdict->has_gaps && load(first, i) == filled(first, fills[0]) &&
                         load(second, i) == filled(second, fill);
    if (row_of(first, i) < verdict->written_rows && !is_left && load(first, i) != load(second, i))
      return false;
  }
  return true;
}

/* The first element in rows from `written` on that is not what it was filled with; -1 if none. */
static int64_t find_touched(const moe__run_tensor_t *tensor, uint8_t fill, int64_t written) {
  if (written == tensor->shape[0])
    return -1;
  const uint32_t untouched = filled(tensor, fill);
  for (int64_t i = 0; i < tensor->elements; i++)
    if (row_of(tensor, i) >= written && load(tensor, i) != untouched)
      return i;
  return -1;
}

/* ---- Running ---- */

/* Where calls share a state, runs the call on other data; not where that takes long. */
static int disturb(moe__run_device_call_t *device_call) {
  int zeroed = 0;
  int rc = moe__run_device_call_check_zeroed(device_call, &zeroed);
  bool is_long = device_call->target->is_emulator && device_call->expected > MAX_DISTURBED_SECONDS;
  return rc || zeroed == 0 || is_long ? rc : moe__run_device_call_disturb(device_call);
}

/* Runs the call into `results`. */
static int run_once(const moe__run_target_t *target, moe__run_device_call_t *device_call,
                    moe__run_call_t *call, moe__run_tensor_t *results, uint8_t fill, int threads,
                    verdict_t *verdicts) {
  const int count = call->function->result_count;
  if (!target->device) {
    for (int i = 0; i < count; i++)
      memset(results[i].data, fill, results[i].bytes);
    return moe__run_reference_run(call, results, threads);
  }
  int zeroed = 0, rc = MOE__RUN_OK;
  if (fill != fills[0])
    rc = disturb(device_call);
  if (!rc)
    rc = moe__run_device_call_run(device_call, fill);
  if (!rc)
    rc = moe__run_device_call_check_zeroed(device_call, &zeroed);
  for (int i = 0; i < count && !rc; i++) {
    bool intact;
    rc = moe__run_device_call_fetch(device_call, i, results[i].data, &intact);
    verdicts[i].guards_intact = verdicts[i].guards_intact && !rc && intact;
  }
  return rc;
}

/* ---- What is known ---- */

void moe__run_known_free(moe__run_known_t *known) {
  moe__run_tensors_free(known->results, known->count);
  free(known->judgments);
  *known = (moe__run_known_t){0};
}

/* The judgments of results with the bits of the call's; NULL where there are none. */
static const moe__run_judgment_t *recall(const moe__run_known_t *known,
                                         const moe__run_call_t *call) {
  bool is_known = known && known->results;
  for (int i = 0; is_known && i < known->count; i++)
    is_known = !memcmp(known->results[i].data, call->results[i].data, call->results[i].bytes);
  return is_known ? known->judgments : NULL;
}

static int remember(moe__run_known_t *known, const moe__run_call_t *call,
                    const verdict_t *verdicts) {
  int count = call->function->result_count;
  if (!known || known->results)
    return MOE__RUN_OK;
  moe__run_tensor_t *results = moe__run_tensors_like(call->results, count);
  moe__run_judgment_t *judgments = calloc((size_t)count + 1, sizeof *judgments);
  *known = (moe__run_known_t){results, judgments, count};
  if (!results || !judgments)
    return moe__run_input_error("out of memory");
  for (int i = 0; i < count; i++) {
    memcpy(results[i].data, call->results[i].data, call->results[i].bytes);
    judgments[i] = verdicts[i].judgment;
  }
  return MOE__RUN_OK;
}

/* ---- Judging ---- */

/* Computes what is expected of call->results, which the first run wrote, and judges them, if the
 * same bits have not been right before. Without a device, compares the sliced computation with the
 * plain one. */
static int judge(const moe__run_target_t *target, const moe__run_call_t *call,
                 const moe__run_options_t *options, const moe__run_known_t *known,
                 moe__run_tensor_t *expected, verdict_t *verdicts) {
  const int count = call->function->result_count;
  const moe__run_judgment_t *recalled = recall(known, call);
  moe__run_judgment_t *judgments = calloc((size_t)count + 1, sizeof *judgments);
  if (!judgments)
    return moe__run_input_error("out of memory");
  int rc = MOE__RUN_OK;
  if (recalled) {
    memcpy(judgments, recalled, (size_t)count * sizeof *judgments);
  } else {
    /* What the reference leaves alone is what the first run started from. */
    for (int i = 0; i < count; i++)
      memset(expected[i].data, fills[0], expected[i].bytes);
    rc = moe__run_reference_judge(call, expected, call->results,
                                  target->device ? options->threads : 1, judgments);
  }
  for (int i = 0; i < count && !rc; i++) {
    const moe__run_tensor_t *result = &call->results[i];
    verdict_t *verdict = &verdicts[i];
    verdict->judgment = judgments[i];
    verdict->by_bound = judgments[i].is_product && !options->exact && !options->one_hot;
    verdict->written_rows = judgments[i].written_rows;
    verdict->has_gaps = judgments[i].has_gaps;
    if (!recalled && (!verdict->by_bound || !target->device))
      verdict->difference = compare(result, &expected[i], 0, verdict->written_rows);
    verdict->touched = find_touched(result, fills[0], verdict->written_rows);
  }
  free(judgments);
  return rc;
}

/* Compares another run, which started from `fill`, with the first. */
static void compare_run(const moe__run_call_t *call, const moe__run_tensor_t *again, uint8_t fill,
                        verdict_t *verdicts) {
  for (int i = 0; i < call->function->result_count; i++) {
    verdict_t *verdict = &verdicts[i];
    if (verdict->touched < 0)
      verdict->touched = find_touched(&again[i], fill, verdict->written_rows);
    verdict->same_always &= is_same(&call->results[i], &again[i], fill, verdict);
  }
}

/* ---- Reporting ---- */

/* The logical index of the element that the score names. */
static void worst_index(const moe__run_tensor_t *result, const moe_ref_score_t *score,
                        int64_t *index) {
  int rank = result->info->rank;
  index[0] = rank == 3 ? score->row / result->shape[1] : score->row;
  index[1] = rank == 3 ? score->row % result->shape[1] : score->column;
  index[2] = score->column;
}

/* Its bits. */
static uint32_t worst_bits(const moe__run_tensor_t *result, const int64_t *index) {
  int64_t position = 0;
  for (int d = 0; d < result->info->rank; d++)
    position += index[d] * result->strides[d];
  return load(result, position);
}

static int report_score(const moe__run_tensor_t *result, const moe_ref_score_t *score,
                        const moe__run_target_t *target) {
  char list[MOE__RUN_LIST_TEXT];
  int64_t index[MOE_RT_MAX_RANK] = {0};
  worst_index(result, score, index);
  return moe__run_input_error(
      "%s[%s]: got 0x%0*" PRIx32 ", which is %.3g times as far from %.9g as it may be (%" PRId64
      " of %" PRId64 " elements are too far; ran on %s)",
      result->info->name, moe__run_list_text(result->info->rank, index, ",", list),
      result->dtype->bits / 4, worst_bits(result, index), score->worst, score->exact,
      score->failures, score->elements, target->words);
}

static int report(const moe__run_tensor_t *result, const verdict_t *verdict,
                  const moe__run_target_t *target) {
  char list[MOE__RUN_LIST_TEXT];
  int64_t index[MOE_RT_MAX_RANK] = {0};
  const moe__run_difference_t *difference = &verdict->difference;
  const char *name = result->info->name;
  int digits = result->dtype->bits / 4, rank = result->info->rank, rc = MOE__RUN_OK;
  if (difference->count)
    rc = moe__run_input_error("%s[%s]: got 0x%0*" PRIx32 ", expected 0x%0*" PRIx32 " (%" PRId64
                              " of %" PRId64 " elements differ; ran on %s)",
                              name, moe__run_list_text(rank, difference->first, ",", list), digits,
                              difference->got, digits, difference->expected, difference->count,
                              result->elements, target->words);
  if (verdict->by_bound && verdict->judgment.score.failures)
    rc = report_score(result, &verdict->judgment.score, target);
  const moe_ref_score_t *score = &verdict->judgment.score;
  if (verdict->by_bound && score->elements && score->signal == 0 && score->failures == 0 &&
      !verdict->judgment.is_empty)
    rc = moe__run_input_error("%s: the exact result is zero, Inf or NaN in all %" PRId64
                              " elements: there is nothing to judge, other data are needed",
                              name, score->elements);
  if (verdict->touched >= 0) {
    moe__run_tensor_index(result, verdict->touched, index);
    rc = moe__run_input_error("%s[%s]: is in no group, and was written (ran on %s)", name,
                              moe__run_list_text(rank, index, ",", list), target->words);
  }
  if (!verdict->guards_intact)
    rc = moe__run_input_error("%s: the call wrote outside of it (ran on %s)", name, target->words);
  if (!verdict->same_always)
    rc = moe__run_input_error("%s: two runs gave different bits (ran on %s)", name, target->words);
  return rc;
}

/* JSON has no Inf and no NaN. */
static json_t *number(double x) {
  return isfinite(x) ? json_real(x) : json_null();
}

static json_t *describe_worst(const moe__run_tensor_t *result, const moe_ref_score_t *score) {
  if (score->elements == 0)
    return json_null();
  int64_t index[MOE_RT_MAX_RANK] = {0};
  worst_index(result, score, index);
  return json_pack("{s:o, s:I, s:o, s:o}", "index",
                   moe__run_describe_list(result->info->rank, index), "got",
                   (json_int_t)worst_bits(result, index), "exact", number(score->exact), "bound",
                   number(score->bound));
}

static json_t *describe(const moe__run_tensor_t *result, const verdict_t *verdict, bool on_device) {
  const moe__run_difference_t *difference = &verdict->difference;
  const moe_ref_score_t *score = &verdict->judgment.score;
  json_t *first = json_null();
  if (difference->count)
    first = json_pack("{s:o, s:I, s:I}", "index",
                      moe__run_describe_list(result->info->rank, difference->first), "got",
                      (json_int_t)difference->got, "expected", (json_int_t)difference->expected);
  json_t *object = json_pack(
      "{s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:b}", "name", result->info->name, "dtype",
      result->info->dtype, "shape", moe__run_describe_list(result->info->rank, result->shape),
      "elements", (json_int_t)result->elements, "differences", (json_int_t)difference->count,
      "first_difference", first, "guards_intact",
      on_device ? json_boolean(verdict->guards_intact) : json_null(), "same_twice",
      verdict->same_always);
  if (verdict->judgment.is_product || verdict->judgment.has_groups)
    json_object_set_new(object, "groups_only", json_boolean(verdict->touched < 0));
  if (verdict->judgment.is_product) {
    json_object_set_new(object, "judged_by", json_string(verdict->by_bound ? "bound" : "bits"));
    json_object_set_new(object, "beyond_bound", json_integer(score->failures));
    json_object_set_new(object, "worst_ratio", number(score->worst));
    json_object_set_new(object, "worst", describe_worst(result, score));
    json_object_set_new(object, "sqnr_db", number(moe_ref_score_sqnr(score)));
    if (verdict->judgment.is_quantized)
      json_object_set_new(object, "unquantized_sqnr_db",
                          number(moe_ref_score_sqnr(&verdict->judgment.quality)));
  }
  return object;
}

/* "check w=2x64x48: q, scales equal the C reference in every bit, in two runs on ..." */
static void print_verdicts(const moe__run_target_t *target, const moe__run_call_t *call,
                           const char *arguments, int runs, const verdict_t *verdicts) {
  const int count = call->function->result_count;
  int named = 0;
  printf("check %s: ", arguments);
  for (int i = 0; i < count; i++)
    if (!verdicts[i].by_bound || !target->device)
      printf("%s%s", named++ ? ", " : "", call->results[i].info->name);
  if (!target->device)
    printf(": only the C reference ran; its slices equal the whole in every bit");
  else if (named)
    printf(" equal the C reference in every bit");
  for (int i = 0; i < count; i++) {
    const moe__run_judgment_t *judgment = &verdicts[i].judgment;
    if (!verdicts[i].by_bound)
      continue;
    if (judgment->score.elements == 0) { /* no tokens, or none in a group */
      printf("%s%s has no elements to judge", named++ ? "; " : "", call->results[i].info->name);
      continue;
    }
    if (judgment->is_empty && judgment->score.signal == 0) {
      printf("%s%s is zero, a sum of no tokens", named++ ? "; " : "", call->results[i].info->name);
      continue;
    }
    printf("%s%s is within %.2f of its bound, SQNR %.1f dB", named++ ? "; " : "",
           call->results[i].info->name, judgment->score.worst,
           moe_ref_score_sqnr(&judgment->score));
    if (judgment->is_quantized)
      printf(", %.1f dB from unquantized operands", moe_ref_score_sqnr(&judgment->quality));
  }
  if (target->device && call->mistakes)
    printf(", wrong offsets are reported");
  static const char *const words[] = {"one run", "two runs"};
  if (target->device && runs <= 2)
    printf(", in %s on %s", words[runs - 1], target->words);
  else if (target->device)
    printf(", in %d runs on %s", runs, target->words);
  putchar('\n');
}

static int conclude(const moe__run_target_t *target, const moe__run_call_t *call,
                    const moe__run_device_call_t *device_call, const moe__run_options_t *options,
                    const verdict_t *verdicts, json_t *cases) {
  char *shapes = moe__run_describe_arguments(call);
  json_t *results = json_array();
  int rc = target->device ? moe__run_device_call_verify(device_call, call->mistakes) : MOE__RUN_OK;
  for (int i = 0; i < call->function->result_count; i++) {
    rc |= report(&call->results[i], &verdicts[i], target);
    json_array_append_new(results, describe(&call->results[i], &verdicts[i], target->device));
  }
  json_array_append_new(cases,
                        json_pack("{s:o, s:b, s:o}", "arguments", moe__run_describe_shapes(call),
                                  "ok", rc == MOE__RUN_OK, "results", results));
  if (!rc && !options->json)
    print_verdicts(target, call, shapes ? shapes : "", options->runs, verdicts);
  free(shapes);
  return rc;
}

int moe__run_check(const moe__run_target_t *target, moe__run_call_t *call,
                   const moe__run_options_t *options, json_t *cases, moe__run_known_t *known) {
  int count = call->function->result_count, rc = MOE__RUN_INPUT;
  moe__run_device_call_t device_call = {0};
  moe__run_tensor_t *expected = moe__run_tensors_like(call->results, count);
  moe__run_tensor_t *again = moe__run_tensors_like(call->results, count);
  verdict_t *verdicts = calloc((size_t)count + 1, sizeof *verdicts);
  if (!verdicts)
    moe__run_input_error("out of memory");
  if (!expected || !again || !verdicts)
    goto done;
  for (int i = 0; i < count; i++)
    verdicts[i].guards_intact = verdicts[i].same_always = true;
  rc = target->device ? moe__run_device_call_make(target, call, &device_call) : MOE__RUN_OK;
  if (!rc)
    rc = run_once(target, &device_call, call, call->results, fills[0], options->threads, verdicts);
  if (!rc)
    rc = judge(target, call, options, known, expected, verdicts);
  for (int run = 1; run < options->runs && !rc; run++) {
    const uint8_t fill = fills[run % 2];
    rc = run_once(target, &device_call, call, again, fill, options->threads, verdicts);
    if (!rc)
      compare_run(call, again, fill, verdicts);
  }
  if (!rc)
    rc = conclude(target, call, &device_call, options, verdicts, cases);
  if (!rc)
    rc = remember(known, call, verdicts);
done:
  moe__run_device_call_free(&device_call);
  free(verdicts);
  moe__run_tensors_free(again, count);
  moe__run_tensors_free(expected, count);
  return rc;
}
