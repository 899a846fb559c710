/* ManifestTest.c - a valid manifest is understood, and every damaged one is refused with the place
 * of the damage.
 *
 * The manifest is untrusted input: Inputs/damaged.json lists damages one by one, the walk below
 * makes all the simple ones, and the fuzz loop makes those that nobody thought of.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Manifest.h"
#include "test/Runtime/Support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *inputs;

static json_t *read_input(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", inputs, name);
  return read_json(path);
}

static moe_rt_status_t parse_text(const char *text, size_t size) {
  moe__rt_arena_t arena = {0};
  moe__rt_manifest_t manifest;
  moe_rt_status_t status = moe__rt_manifest_parse(text, size, "manifest.json", &arena, &manifest);
  moe__rt_arena_free(&arena);
  return status;
}

static moe_rt_status_t parse_json(const json_t *json) {
  char *text = json_dumps(json, 0);
  require(text != NULL, "json_dumps");
  moe_rt_status_t status = parse_text(text, strlen(text));
  free(text);
  return status;
}

static void expect_refusal(const json_t *json, const char *message) {
  moe_rt_status_t status = parse_json(json);
  if (status != MOE_RT_INVALID_BUNDLE || !strstr(moe_rt_last_message(), message)) {
    fail_msg("expected '%s', got status %d, '%s'", message, status,
             status == MOE_RT_OK ? "" : moe_rt_last_message());
  }
}

/* ---- The valid manifests ---- */

static void test_valid(void **state) {
  (void)state;
  json_t *json = read_input("quantize.json");
  char *text = json_dumps(json, 0);
  moe__rt_arena_t arena = {0};
  moe__rt_manifest_t manifest;
  if (moe__rt_manifest_parse(text, strlen(text), "manifest.json", &arena, &manifest) != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
  free(text);
  json_decref(json);

  assert_string_equal(manifest.ptx.file, "kernels.ptx");
  assert_int_equal(manifest.ptx.bytes, 64);
  assert_string_equal(manifest.ptx_isa, "8.0");
  assert_string_equal(manifest.cubin.file, "kernels.cubin");
  assert_int_equal(manifest.kernel_count, 2);
  assert_int_equal(manifest.kernels[1].block[0], 160);
  assert_int_equal(manifest.kernels[1].cluster[0], 2);
  assert_int_equal(manifest.kernels[1].shared_memory, 98304);
  assert_int_equal(manifest.function_count, 2);

  const moe_rt_function_info_t *info = &manifest.functions[0].info;
  assert_string_equal(info->name, "quantize_expert_weights");
  assert_int_equal(info->argument_count, 1);
  assert_int_equal(info->result_count, 2);
  assert_int_equal(info->temporary_count, 3);
  assert_int_equal(info->launch_count, 2);
  assert_string_equal(info->arguments[0].dtype, "bf16");
  assert_int_equal(info->arguments[0].dtype_bits, 16);
  assert_int_equal(info->arguments[0].rank, 3);
  assert_int_equal(info->arguments[0].shape[1].size, -1);
  assert_string_equal(info->arguments[0].shape[1].symbol, "w.1");
  assert_int_equal(info->results[0].order[1], 2);
  assert_int_equal(info->results[1].shape[1].size, -1);
  assert_null(info->results[1].shape[1].symbol);
  assert_int_equal(info->temporaries[1].alignment, 256);
  assert_string_equal(info->launches[1].kernel, "quantize");
  assert_string_equal(info->launches[1].op, "mx_quantize.quantize");
  assert_string_equal(info->launches[1].attributes_json,
                      "{\"axis\":1,\"block\":32,\"mode\":\"rceil\"}");
  assert_int_equal(info->launches[1].operand_count, 1);
  assert_int_equal(info->launches[1].result_count, 2);
  assert_string_equal(info->launches[1].operands[0].tensor, "w");
  assert_int_equal(info->launches[1].operands[0].rank, 3);
  assert_int_equal(info->launches[1].operands[0].permutation[2], 2);
  assert_string_equal(info->launches[1].results[1], "s");
  assert_string_equal(info->launches[1].roles[2], "scales");
  assert_null(info->launches[0].roles);
  const moe__rt_function_t *function = &manifest.functions[0];
  assert_int_equal(function->status, 5);
  assert_true(function->tensors[3].is_zeroed);
  assert_false(function->tensors[4].is_zeroed);
  assert_true(function->tensors[5].is_zeroed);
  assert_false(function->launches[0].programmatic);
  assert_true(function->launches[1].programmatic);
  assert_int_equal(manifest.functions[1].status, -1);

  info = &manifest.functions[1].info;
  assert_int_equal(info->results[0].shape[0].size, 128);
  assert_null(info->results[0].shape[0].symbol);
  assert_string_equal(info->launches[0].attributes_json, "{\"by\":[1,2.5,{\"deep\":null}]}");
  assert_int_equal(info->launches[0].operand_count, 2);
  assert_string_equal(info->launches[0].operands[0].tensor, "x");
  assert_int_equal(info->launches[0].operands[0].rank, 2);
  assert_int_equal(info->launches[0].operands[0].permutation[0], 1);
  assert_int_equal(info->launches[0].operands[0].permutation[1], 0);
  assert_int_equal(info->launches[0].operands[1].permutation[1], 1);
  moe__rt_arena_free(&arena);
}

static void test_valid_without_cubin(void **state) {
  (void)state;
  json_t *json = read_input("quantize.json");
  json_object_del(json_object_get(json, "artifacts"), "cubin");
  assert_int_equal(parse_json(json), MOE_RT_OK);
  json_decref(json);
  json = read_input("tiny/manifest.json");
  assert_int_equal(parse_json(json), MOE_RT_OK);
  json_decref(json);
}

/* ---- Damaged manifests ---- */

static void test_damaged(void **state) {
  (void)state;
  json_t *valid = read_input("quantize.json");
  json_t *table = read_input("damaged.json");
  size_t index = 0;
  json_t *damage = NULL;
  assert_true(json_array_size(table) > 90);
  json_array_foreach(table, index, damage) {
    json_t *json = json_deep_copy(valid);
    json_damage(json, json_object_get(damage, "at"), json_object_get(damage, "set"));
    expect_refusal(json, json_string_value(json_object_get(damage, "message")));
    json_decref(json);
  }
  json_decref(table);
  json_decref(valid);
}

/* "a", 0, "b" -> "a[0].b" */
static void path_text(json_t *path, char *text, size_t size) {
  size_t index = 0;
  json_t *key = NULL;
  *text = '\0';
  json_array_foreach(path, index, key) {
    size_t length = strlen(text);
    if (json_is_string(key))
      snprintf(text + length, size - length, "%s%s", index ? "." : "", json_string_value(key));
    else
      snprintf(text + length, size - length, "[%d]", (int)json_integer_value(key));
  }
}

/* Damages the value at `path` in a copy and expects the refusal to name the path. */
static void damage_one(const json_t *valid, json_t *path, json_t *value) {
  char message[256] = "manifest.json: ";
  size_t length = strlen(message);
  path_text(path, message + length, sizeof message - length);
  json_t *json = json_deep_copy(valid);
  json_damage(json, path, value);
  expect_refusal(json, message);
  json_decref(json);
}

/* A field that no object has. */
static void add_unknown_field(const json_t *valid, json_t *path) {
  json_t *json = json_deep_copy(valid);
  json_object_set_new(json_at(json, path, 0), "extra", json_integer(1));
  expect_refusal(json, "has the unknown field 'extra'");
  json_decref(json);
}

/* Fields that may be absent: the cubin, `constant`, and an operation, of which there are four. */
static bool may_be_absent(const char *key) {
  return strcmp(key, "cubin") == 0 || strcmp(key, "ceildiv") == 0 || strcmp(key, "mul") == 0 ||
         strcmp(key, "add") == 0 || strcmp(key, "min") == 0 || strcmp(key, "roles") == 0 ||
         strcmp(key, "constant") == 0;
}

/* A function may have no status; a launch may be programmatic, an argument constant. */
static bool may_be(const json_t *key, const json_t *value) {
  const char *text = json_is_string(key) ? json_string_value(key) : "";
  return (strcmp(text, "status") == 0 && json_is_null(value)) ||
         ((strcmp(text, "programmatic") == 0 || strcmp(text, "constant") == 0) &&
          json_is_true(value));
}

/* Goes through all fields and elements below `value`: each one removed (fields only), and set to
 * null, a boolean, a fraction and a huge integer. Returns how many there were. */
static int walk(const json_t *valid, json_t *value, json_t *path) {
  int count = 0;
  if (json_is_object(value))
    add_unknown_field(valid, path);
  void *iterator = json_object_iter(value);
  size_t elements = json_array_size(value);
  for (size_t i = 0; json_is_object(value) ? iterator != NULL : i < elements; i++) {
    json_t *key = json_is_object(value) ? json_string(json_object_iter_key(iterator))
                                        : json_integer((json_int_t)i);
    json_t *child =
        json_is_object(value) ? json_object_iter_value(iterator) : json_array_get(value, i);
    bool is_optional = json_is_string(key) && may_be_absent(json_string_value(key));
    json_array_append(path, key);
    if (json_is_string(key) && !is_optional)
      damage_one(valid, path, NULL);
    json_t *wrong[] = {json_null(), json_true(), json_real(0.5), json_integer(INT64_MIN)};
    for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
      if (!may_be(key, wrong[w]))
        damage_one(valid, path, wrong[w]);
      json_decref(wrong[w]);
    }
    count++;
    if (!json_is_string(key) || strcmp(json_string_value(key), "attributes") != 0)
      count += walk(valid, child, path);
    json_array_remove(path, json_array_size(path) - 1);
    json_decref(key);
    if (json_is_object(value))
      iterator = json_object_iter_next(value, iterator);
  }
  return count;
}

static void test_every_field(void **state) {
  (void)state;
  json_t *valid = read_input("quantize.json");
  json_t *path = json_array();
  assert_true(walk(valid, valid, path) > 200);
  json_decref(path);
  json_decref(valid);
}

static void test_limits(void **state) {
  (void)state;
  json_t *valid = read_input("quantize.json");
  json_t *path = json_pack("[s,i,s,i,s]", "functions", 0, "launches", 0, "parameters");
  json_t *scalars = json_array();
  for (int i = 0; i < 512; i++)
    json_array_append_new(scalars,
                          json_pack("{s:s,s:s,s:i}", "kind", "scalar", "type", "i64", "value", i));
  json_damage(valid, path, scalars);
  assert_int_equal(parse_json(valid), MOE_RT_OK);
  json_array_append(scalars, json_array_get(scalars, 0));
  expect_refusal(valid, "parameters: has 513 elements; it must have 0 to 512");

  /* A map is 64-byte aligned: 31 maps, a scalar and another map end past the limit; 32 maps just
   * fit. */
  json_t *map = json_pack("{s:s,s:s,s:s,s:[s],s:[],s:[i],s:s,s:s,s:s}", "kind", "tensor_map",
                          "tensor", "w", "element", "bf16", "dims", "w.2", "strides", "box", 64,
                          "swizzle", "128B", "l2_promotion", "none", "fill", "nan");
  json_t *maps = json_array();
  for (int i = 0; i < 32; i++)
    json_array_append(maps, map);
  json_damage(valid, path, maps);
  assert_int_equal(parse_json(valid), MOE_RT_OK);
  json_array_insert(maps, 31, json_array_get(scalars, 0));
  expect_refusal(valid, "parameters[32]: ends at byte 4160 of the parameters; the limit is 4096");
  json_decref(maps);
  json_decref(map);
  json_decref(scalars);
  json_decref(path);
  json_decref(valid);
}

/* Faults of the text itself. */
static void test_text(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "manifest.json:1:0: '[' or '{' expected near end of file"},
      {"[]", "manifest.json: is an array; it must be an object"},
      {"{", "manifest.json:1:1: "},
      {"{}", "manifest.json: format: is missing"},
      {"{\"format\": \"moe-opt-bundle\"}", "manifest.json: version: is missing"},
      {"{\"format\": \"moe-opt-bundle\", \"version\": 3, \"new\": 1}",
       "manifest.json: version: is 3; this reader knows 1"},
      {"{\"format\": \"a\", \"format\": \"b\"}", "duplicate object key"},
      {"{\"version\": 9223372036854775808}", "too big integer"},
      {"{\"format\": \"\\u0000\"}", "\\u0000 is not allowed"},
      {"{\"format\": \"\xff\"}", "manifest.json:1:"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(parse_text(cases[i].text, strlen(cases[i].text)), MOE_RT_INVALID_BUNDLE);
    if (!strstr(moe_rt_last_message(), cases[i].message))
      fail_msg("expected '%s', got '%s'", cases[i].message, moe_rt_last_message());
  }
  enum { DEPTH = 100000 };
  char *deep = malloc(DEPTH);
  memset(deep, '[', DEPTH);
  assert_int_equal(parse_text(deep, DEPTH), MOE_RT_INVALID_BUNDLE);
  assert_non_null(strstr(moe_rt_last_message(), "maximum parsing depth reached"));
  free(deep);
}

/* ---- Fuzz ---- */

static uint64_t random_state = 0x9E3779B97F4A7C15;

static size_t random_below(size_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (size_t)(random_state >> 11) % limit;
}

/* One of: bytes flipped, a piece cut out, the end cut off, a piece copied elsewhere, a number
 * changed. */
static void mutate_text(char *text, size_t *size) {
  static const char *const numbers[] = {"0",    "-1", "1e308", "9223372036854775807",
                                        "null", "[]", "{}"};
  size_t at = random_below(*size);
  size_t length = 1 + random_below(40);
  if (at + length > *size)
    length = *size - at;
  switch (random_below(5)) {
  case 0:
    for (size_t i = 0; i < length; i += 4)
      text[at + i] = (char)(text[at + i] ^ (1 << random_below(8)));
    break;
  case 1:
    memmove(text + at, text + at + length, *size - at - length);
    *size -= length;
    break;
  case 2:
    *size = at;
    break;
  case 3: {
    size_t to = random_below(*size - length + 1);
    memmove(text + to, text + at, length);
    break;
  }
  default: {
    const char *number = numbers[random_below(sizeof numbers / sizeof numbers[0])];
    while (at + strlen(number) < *size && !strchr("0123456789", text[at]))
      at++;
    if (at + strlen(number) < *size)
      memcpy(text + at, number, strlen(number));
  }
  }
}

static void test_fuzz_text(void **state) {
  (void)state;
  json_t *json = read_input("quantize.json");
  char *valid = json_dumps(json, JSON_COMPACT);
  size_t valid_size = strlen(valid);
  int refused = 0;
  for (int round = 0; round < 6000; round++) {
    size_t size = valid_size;
    char *text = malloc(size);
    memcpy(text, valid, size);
    for (size_t n = 1 + random_below(3); n > 0 && size > 0; n--)
      mutate_text(text, &size);
    /* A copy of the exact size, so that AddressSanitizer sees a read past the end. */
    char *exact = malloc(size ? size : 1);
    memcpy(exact, text, size);
    free(text);
    refused += parse_text(exact, size) == MOE_RT_INVALID_BUNDLE;
    free(exact);
  }
  assert_true(refused > 4000);
  free(valid);
  json_decref(json);
}

/* Collects all values below `value`. */
static void collect(json_t *value, json_t **values, size_t *count, size_t limit) {
  const char *key = NULL;
  json_t *child = NULL;
  size_t index = 0;
  if (*count < limit)
    values[(*count)++] = value;
  if (json_is_object(value)) {
    json_object_foreach(value, key, child) collect(child, values, count, limit);
  }
  json_array_foreach(value, index, child) collect(child, values, count, limit);
}

/* Replaces a random child of a random container by a copy of a random value: the text stays JSON,
 * the types do not. */
static void test_fuzz_values(void **state) {
  (void)state;
  enum { LIMIT = 2000 };
  json_t *valid = read_input("quantize.json");
  json_t *values[LIMIT];
  int refused = 0;
  for (int round = 0; round < 3000; round++) {
    json_t *json = json_deep_copy(valid);
    size_t count = 0;
    collect(json, values, &count, LIMIT);
    json_t *copy = json_deep_copy(values[random_below(count)]);
    json_t *container = NULL;
    do
      container = values[random_below(count)];
    while (json_array_size(container) + json_object_size(container) == 0);
    if (json_is_array(container)) {
      json_array_set(container, random_below(json_array_size(container)), copy);
    } else {
      void *iterator = json_object_iter(container);
      for (size_t n = random_below(json_object_size(container)); n > 0; n--)
        iterator = json_object_iter_next(container, iterator);
      json_object_iter_set(container, iterator, copy);
    }
    json_decref(copy);
    refused += parse_json(json) == MOE_RT_INVALID_BUNDLE;
    json_decref(json);
  }
  assert_true(refused > 2000);
  json_decref(valid);
}

int main(int argc, char **argv) {
  require(argc == 2, "usage: manifest_test INPUTS");
  inputs = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid),     cmocka_unit_test(test_valid_without_cubin),
      cmocka_unit_test(test_damaged),   cmocka_unit_test(test_every_field),
      cmocka_unit_test(test_limits),    cmocka_unit_test(test_text),
      cmocka_unit_test(test_fuzz_text), cmocka_unit_test(test_fuzz_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
