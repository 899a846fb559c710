/* Json.c - typed reading of untrusted JSON.
 *
 * The path of a value is spelled out only when something is wrong with it: a cursor knows its
 * parent, nothing more.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Appends the path of `json` below the root to `text`, which holds `size` bytes. */
static void append_path(const moe__rt_json_t *json, char *text, size_t size) {
  if (!json->parent)
    return;
  append_path(json->parent, text, size);
  size_t length = strlen(text);
  if (json->key)
    snprintf(text + length, size - length, "%s%s", length ? "." : "", json->key);
  else
    snprintf(text + length, size - length, "[%d]", json->index);
}

moe_rt_status_t moe__rt_json_fail(const moe__rt_json_t *json, const char *format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);

  char path[512] = "";
  append_path(json, path, sizeof path);
  const moe__rt_json_t *root = json;
  while (root->parent)
    root = root->parent;
  return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "%s: %s%s%s", root->key, path, *path ? ": " : "",
                      message);
}

static const char *type_name(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return "an object";
  case JSON_ARRAY:
    return "an array";
  case JSON_STRING:
    return "a string";
  case JSON_INTEGER:
    return "an integer";
  case JSON_REAL:
    return "a number with a fraction";
  case JSON_TRUE:
  case JSON_FALSE:
    return "a boolean";
  case JSON_NULL:
    return "null";
  }
  return "unknown";
}

static moe_rt_status_t expect_type(const moe__rt_json_t *json, json_type type, const char *name) {
  if (!json->value)
    return moe__rt_json_fail(json, "is missing");
  if (json_typeof(json->value) != type)
    return moe__rt_json_fail(json, "is %s; it must be %s", type_name(json->value), name);
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_json_object(const moe__rt_json_t *json, const char *const *fields) {
  MOE__RT_TRY(expect_type(json, JSON_OBJECT, "an object"));
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(json->value, key, value) {
    bool known = false;
    for (int i = 0; fields[i] && !known; i++)
      known = strcmp(key, fields[i]) == 0;
    if (!known)
      return moe__rt_json_fail(json, "has the unknown field '%.64s'", key);
  }
  return MOE_RT_OK;
}

moe__rt_json_t moe__rt_json_member(const moe__rt_json_t *json, const char *key) {
  return (moe__rt_json_t){.value = json_object_get(json->value, key), .parent = json, .key = key};
}

moe_rt_status_t moe__rt_json_array(const moe__rt_json_t *json, int least, int most,
                                   int *out_count) {
  MOE__RT_TRY(expect_type(json, JSON_ARRAY, "an array"));
  size_t count = json_array_size(json->value);
  if (count < (size_t)least || count > (size_t)most) {
    if (least == most)
      return moe__rt_json_fail(json, "has %zu elements; it must have %d", count, least);
    return moe__rt_json_fail(json, "has %zu elements; it must have %d to %d", count, least, most);
  }
  *out_count = (int)count;
  return MOE_RT_OK;
}

moe__rt_json_t moe__rt_json_element(const moe__rt_json_t *json, int index) {
  return (moe__rt_json_t){
      .value = json_array_get(json->value, (size_t)index), .parent = json, .index = index};
}

moe_rt_status_t moe__rt_json_integer(const moe__rt_json_t *json, int64_t least, int64_t most,
                                     int64_t *out_value) {
  MOE__RT_TRY(expect_type(json, JSON_INTEGER, "an integer"));
  int64_t value = json_integer_value(json->value);
  if (value < least || value > most) {
    return moe__rt_json_fail(json, "is %lld; it must be %lld to %lld", (long long)value,
                             (long long)least, (long long)most);
  }
  *out_value = value;
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_json_bool(const moe__rt_json_t *json, bool *out_value) {
  if (!json_is_boolean(json->value))
    return expect_type(json, JSON_TRUE, "true or false");
  *out_value = json_is_true(json->value);
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_json_string(const moe__rt_json_t *json, const char **out_text) {
  MOE__RT_TRY(expect_type(json, JSON_STRING, "a string"));
  *out_text = json_string_value(json->value);
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_json_name(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                  const char **out_name) {
  const char *text = NULL;
  MOE__RT_TRY(moe__rt_json_string(json, &text));
  size_t length = strlen(text);
  if (length < 1 || length > 255)
    return moe__rt_json_fail(json, "has %zu bytes; a name has 1 to 255", length);
  for (const char *c = text; *c; c++) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\'' || *c == '"')
      return moe__rt_json_fail(json, "holds a control character or a quote");
  }
  *out_name = moe__rt_arena_string(arena, text);
  return *out_name ? MOE_RT_OK : moe__rt_fail_memory();
}

moe_rt_status_t moe__rt_json_word(const moe__rt_json_t *json, const char *const *words, int count,
                                  int *out_index) {
  const char *text = NULL;
  MOE__RT_TRY(moe__rt_json_string(json, &text));
  char list[256] = "";
  for (int i = 0; i < count; i++) {
    if (strcmp(text, words[i]) == 0) {
      *out_index = i;
      return MOE_RT_OK;
    }
    size_t length = strlen(list);
    snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", words[i]);
  }
  return moe__rt_json_fail(json, "is '%.64s'; known are: %s", text, list);
}
