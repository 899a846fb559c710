/* Manifest.c - the top of a manifest: format, artifacts, kernels.
 *
 * The manifest is untrusted input. Nothing of it is used before it was checked here, in Function.c
 * or in Launch.c.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Manifest.h"
#include "moe/bundle.h"

#include <stdlib.h>
#include <string.h>

/* A file name, not a path: it may not leave the bundle's folder. */
static moe_rt_status_t parse_file_name(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                       const char **out_name) {
  MOE__RT_TRY(moe__rt_json_name(json, arena, out_name));
  if (strchr(*out_name, '/') || strstr(*out_name, "..") || strcmp(*out_name, ".") == 0) {
    return moe__rt_json_fail(json, "is '%.64s'; it must be a plain file name, without '/' and '..'",
                             *out_name);
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_hash(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                  const char **out_hash) {
  MOE__RT_TRY(moe__rt_json_name(json, arena, out_hash));
  if (strlen(*out_hash) != 32 || strspn(*out_hash, "0123456789abcdef") != 32)
    return moe__rt_json_fail(json, "must be 32 lower-case hex digits");
  return MOE_RT_OK;
}

/* "8.0" */
static moe_rt_status_t parse_isa(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                 const char **out_isa) {
  MOE__RT_TRY(moe__rt_json_name(json, arena, out_isa));
  static const char digits[] = "0123456789";
  size_t major = strspn(*out_isa, digits);
  size_t minor = (*out_isa)[major] == '.' ? strspn(*out_isa + major + 1, digits) : 0;
  if (major < 1 || minor < 1 || (*out_isa)[major + 1 + minor] != '\0' || major + minor > 6)
    return moe__rt_json_fail(json, "is '%.64s'; it must be a PTX version such as 8.0", *out_isa);
  return MOE_RT_OK;
}

/* 13030 for "13.3" and for "13.3.73", as the CUDA driver counts versions; 0 for anything else. */
static int version_number(const char *text) {
  int parts[3] = {0}, count = 0;
  for (; count < 3; count++) {
    size_t length = strspn(text, "0123456789");
    if (length < 1 || length > 4)
      return 0;
    parts[count] = (int)strtol(text, NULL, 10);
    text += length;
    if (*text != '.')
      break;
    text++;
  }
  bool is_version = *text == '\0' && count > 0 && count < 3 && parts[0] > 0 && parts[1] < 100;
  return is_version ? 1000 * parts[0] + 10 * parts[1] : 0;
}

static moe_rt_status_t parse_artifact(const moe__rt_json_t *json, const char *const *fields,
                                      moe__rt_arena_t *arena, moe__rt_artifact_t *out) {
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t file = moe__rt_json_member(json, "file");
  moe__rt_json_t bytes = moe__rt_json_member(json, "bytes");
  moe__rt_json_t hash = moe__rt_json_member(json, "xxh3_128");
  MOE__RT_TRY(parse_file_name(&file, arena, &out->file));
  MOE__RT_TRY(moe__rt_json_integer(&bytes, 1, MOE__RT_MAX_ARTIFACT_BYTES, &out->bytes));
  return parse_hash(&hash, arena, &out->hash);
}

static moe_rt_status_t parse_artifacts(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                       moe__rt_manifest_t *out) {
  static const char *const fields[] = {"ptx", "cubin", NULL};
  static const char *const ptx_fields[] = {"file", "bytes", "xxh3_128", "isa", NULL};
  static const char *const cubin_fields[] = {"file", "bytes", "xxh3_128", "assembler", NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t ptx = moe__rt_json_member(json, "ptx");
  MOE__RT_TRY(parse_artifact(&ptx, ptx_fields, arena, &out->ptx));
  moe__rt_json_t isa = moe__rt_json_member(&ptx, "isa");
  MOE__RT_TRY(parse_isa(&isa, arena, &out->ptx_isa));

  moe__rt_json_t cubin = moe__rt_json_member(json, "cubin");
  if (!cubin.value)
    return MOE_RT_OK;
  MOE__RT_TRY(parse_artifact(&cubin, cubin_fields, arena, &out->cubin));
  moe__rt_json_t assembler = moe__rt_json_member(&cubin, "assembler");
  const char *name = NULL;
  MOE__RT_TRY(moe__rt_json_name(&assembler, arena, &name));
  const char *number = strrchr(name, ' '); /* "ptxas 13.3.73" */
  out->assembler = number ? version_number(number + 1) : 0;
  return MOE_RT_OK;
}

/* Three integers of 1 to most[i] whose product is at most `most_together`. */
static moe_rt_status_t parse_extent(const moe__rt_json_t *json, const int64_t most[3],
                                    int64_t most_together, uint32_t out[3]) {
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, 3, 3, &count));
  int64_t product = 1;
  for (int i = 0; i < 3; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    int64_t value = 0;
    MOE__RT_TRY(moe__rt_json_integer(&element, 1, most[i], &value));
    out[i] = (uint32_t)value;
    product *= value;
  }
  if (product > most_together) {
    return moe__rt_json_fail(json, "has the product %lld; it must be at most %lld",
                             (long long)product, (long long)most_together);
  }
  return MOE_RT_OK;
}

/* An identifier of PTX. */
static moe_rt_status_t parse_entry_name(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                        const char **out_name) {
  static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$";
  MOE__RT_TRY(moe__rt_json_name(json, arena, out_name));
  const char *rest = *out_name;
  while (*rest && (strchr(first, *rest) || (rest > *out_name && *rest >= '0' && *rest <= '9')))
    rest++;
  if (*rest)
    return moe__rt_json_fail(json, "is '%.64s', which is not an identifier of PTX", *out_name);
  return MOE_RT_OK;
}

static moe_rt_status_t parse_kernel(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                    moe__rt_kernel_t *out) {
  static const char *const fields[] = {"name",          "block",         "cluster",
                                       "shared_memory", "min_assembler", NULL};
  static const int64_t block_limits[3] = {1024, 1024, 64};
  static const int64_t cluster_limits[3] = {8, 8, 8};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t name = moe__rt_json_member(json, "name");
  moe__rt_json_t block = moe__rt_json_member(json, "block");
  moe__rt_json_t cluster = moe__rt_json_member(json, "cluster");
  moe__rt_json_t shared_memory = moe__rt_json_member(json, "shared_memory");
  MOE__RT_TRY(parse_entry_name(&name, arena, &out->name));
  MOE__RT_TRY(parse_extent(&block, block_limits, 1024, out->block));
  MOE__RT_TRY(parse_extent(&cluster, cluster_limits, 8, out->cluster));
  int64_t bytes = 0;
  MOE__RT_TRY(moe__rt_json_integer(&shared_memory, 0, MOE_CTA_SHARED_MEMORY, &bytes));
  out->shared_memory = (uint32_t)bytes;
  moe__rt_json_t least = moe__rt_json_member(json, "min_assembler");
  if (!least.value)
    return MOE_RT_OK;
  const char *version = NULL;
  MOE__RT_TRY(moe__rt_json_name(&least, arena, &version));
  out->min_assembler = version_number(version);
  if (!out->min_assembler)
    return moe__rt_json_fail(&least, "is '%.64s'; it must be a version such as 13.3", version);
  return MOE_RT_OK;
}

static moe_rt_status_t parse_kernels(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                     moe__rt_manifest_t *out) {
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, 1, MOE_MAX_KERNELS, &count));
  out->kernels = moe__rt_arena_allocate(arena, (size_t)count, sizeof *out->kernels);
  if (!out->kernels)
    return moe__rt_fail_memory();
  for (; out->kernel_count < count; out->kernel_count++) {
    moe__rt_json_t element = moe__rt_json_element(json, out->kernel_count);
    moe__rt_kernel_t *kernel = &out->kernels[out->kernel_count];
    MOE__RT_TRY(parse_kernel(&element, arena, kernel));
    for (int i = 0; i < out->kernel_count; i++) {
      if (strcmp(out->kernels[i].name, kernel->name) == 0)
        return moe__rt_json_fail(&element, "has the name of kernels[%d], '%s'", i, kernel->name);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_functions(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                       moe__rt_manifest_t *out) {
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, 1, MOE_MAX_FUNCTIONS, &count));
  out->functions = moe__rt_arena_allocate(arena, (size_t)count, sizeof *out->functions);
  if (!out->functions)
    return moe__rt_fail_memory();
  for (; out->function_count < count; out->function_count++) {
    moe__rt_json_t element = moe__rt_json_element(json, out->function_count);
    moe__rt_function_t *function = &out->functions[out->function_count];
    MOE__RT_TRY(moe__rt_function_parse(&element, out, arena, function));
    for (int i = 0; i < out->function_count; i++) {
      if (strcmp(out->functions[i].info.name, function->info.name) == 0) {
        return moe__rt_json_fail(&element, "has the name of functions[%d], '%s'", i,
                                 function->info.name);
      }
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_root(const moe__rt_json_t *root, moe__rt_arena_t *arena,
                                  moe__rt_manifest_t *out) {
  static const char *const fields[] = {"format",    "version", "producer",  "target",
                                       "artifacts", "kernels", "functions", NULL};
  static const char *const formats[] = {MOE_BUNDLE_FORMAT};
  static const char *const targets[] = {MOE_BUNDLE_TARGET};
  /* Format and version first: a later version may have fields that this reader does not know. */
  if (!json_is_object(root->value))
    return moe__rt_json_object(root, fields);
  moe__rt_json_t format = moe__rt_json_member(root, "format");
  moe__rt_json_t version = moe__rt_json_member(root, "version");
  int index = 0;
  MOE__RT_TRY(moe__rt_json_word(&format, formats, 1, &index));
  int64_t number = 0;
  MOE__RT_TRY(moe__rt_json_integer(&version, INT64_MIN, INT64_MAX, &number));
  if (number != MOE_BUNDLE_VERSION)
    return moe__rt_json_fail(&version, "is %lld; this reader knows %d", (long long)number,
                             MOE_BUNDLE_VERSION);
  MOE__RT_TRY(moe__rt_json_object(root, fields));

  moe__rt_json_t producer = moe__rt_json_member(root, "producer");
  moe__rt_json_t target = moe__rt_json_member(root, "target");
  moe__rt_json_t artifacts = moe__rt_json_member(root, "artifacts");
  moe__rt_json_t kernels = moe__rt_json_member(root, "kernels");
  moe__rt_json_t functions = moe__rt_json_member(root, "functions");
  const char *ignored = NULL;
  MOE__RT_TRY(moe__rt_json_name(&producer, arena, &ignored));
  MOE__RT_TRY(moe__rt_json_word(&target, targets, 1, &index));
  out->target = targets[index];
  MOE__RT_TRY(parse_artifacts(&artifacts, arena, out));
  MOE__RT_TRY(parse_kernels(&kernels, arena, out));
  return parse_functions(&functions, arena, out);
}

moe_rt_status_t moe__rt_manifest_parse(const char *text, size_t bytes, const char *file,
                                       moe__rt_arena_t *arena, moe__rt_manifest_t *out_manifest) {
  *out_manifest = (moe__rt_manifest_t){0};
  json_error_t error;
  json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (!json) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "%s:%d:%d: %s", file, error.line, error.column,
                        error.text);
  }
  moe__rt_json_t root = {.value = json, .key = file};
  moe_rt_status_t status = parse_root(&root, arena, out_manifest);
  json_decref(json);
  return status;
}
