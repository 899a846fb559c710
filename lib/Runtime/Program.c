/* Program.c - reads a bundle and loads its code on a device.
 *
 * Everything that can go wrong with a bundle goes wrong here, once, and not at a launch.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The code of a bundle between its reading and its loading. */
typedef struct bundle_code_t {
  moe__bytes_t cubin; /* empty where the bundle has none */
  moe__bytes_t ptx;
} bundle_code_t;

static void free_code(bundle_code_t *code) {
  free(code->cubin.data);
  free(code->ptx.data);
  *code = (bundle_code_t){0};
}

/* ---- Reading ---- */

static moe_rt_status_t read_code(const char *path, const moe__manifest_t *manifest,
                                 bundle_code_t *out) {
  MOE__TRY(moe__artifact_read(path, &manifest->ptx, &out->ptx));
  moe_rt_status_t status = moe__ptx_check(&out->ptx, manifest->ptx_isa, manifest->target);
  if (status != MOE_RT_OK)
    return moe__fail_in(status, "%s/%s", path, manifest->ptx.file);
  if (!manifest->cubin.file)
    return MOE_RT_OK;
  MOE__TRY(moe__artifact_read(path, &manifest->cubin, &out->cubin));
  status = moe__cubin_check(&out->cubin);
  return status == MOE_RT_OK ? status : moe__fail_in(status, "%s/%s", path, manifest->cubin.file);
}

static moe_rt_status_t read_bundle(const char *path, moe_rt_program_t *program,
                                   bundle_code_t *out_code) {
  static const char name[] = "manifest.json";
  moe__bytes_t text;
  MOE__TRY(moe__file_read(path, name, INT64_C(1) << 24, &text));
  size_t size = strlen(path) + 1 + sizeof name;
  char *file = moe__arena_allocate(&program->arena, size, 1);
  moe_rt_status_t status = MOE_RT_OK;
  if (file) {
    snprintf(file, size, "%s/%s", path, name);
    status = moe__manifest_parse(text.data, text.size, file, &program->arena, &program->manifest);
  } else {
    status = moe__fail_memory();
  }
  free(text.data);
  MOE__TRY(status);
  return read_code(path, &program->manifest, out_code);
}

/* ---- Loading ---- */

static moe_rt_status_t check_target(const moe_rt_device_t *device,
                                    const moe__manifest_t *manifest) {
  const moe_rt_device_info_t *info = &device->info;
  if (info->compute_major != 9 || info->compute_minor != 0) {
    return moe__fail(MOE_RT_UNSUPPORTED,
                     "%s has compute capability %d.%d; the bundle is for %s, which needs 9.0",
                     device->name, info->compute_major, info->compute_minor, manifest->target);
  }
  for (int i = 0; i < manifest->kernel_count; i++) {
    const moe__kernel_t *kernel = &manifest->kernels[i];
    if (kernel->shared_memory > info->shared_memory_per_block) {
      return moe__fail(MOE_RT_UNSUPPORTED,
                       "kernel '%s' needs %u bytes of shared memory; %s has %lld", kernel->name,
                       kernel->shared_memory, device->name,
                       (long long)info->shared_memory_per_block);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t load_kernels(moe_rt_program_t *program) {
  const moe__manifest_t *manifest = &program->manifest;
  moe_rt_device_t *device = program->device;
  for (int i = 0; i < manifest->kernel_count; i++) {
    const moe__kernel_t *kernel = &manifest->kernels[i];
    moe_rt_status_t status =
        device->backend->load_kernel(device, program->code, kernel, &program->kernels[i]);
    if (status == MOE_RT_OK && moe__kernel_cluster_blocks(kernel) > 1)
      status = device->backend->count_clusters(device, kernel, program->kernels[i],
                                               &program->clusters[i]);
    if (status != MOE_RT_OK)
      return moe__fail_in(status, "kernel '%s'", manifest->kernels[i].name);
  }
  return MOE_RT_OK;
}

/* Loads one kind of code with all of its kernels, or leaves nothing loaded. */
static moe_rt_status_t load_code(moe_rt_program_t *program, moe__code_kind_t kind,
                                 const moe__bytes_t *bytes) {
  const moe__backend_t *backend = program->device->backend;
  moe_rt_status_t status = backend->load_code(program->device, kind, bytes, &program->code);
  if (status != MOE_RT_OK)
    return status;
  status = load_kernels(program);
  if (status != MOE_RT_OK) {
    backend->unload_code(program->device, program->code);
    program->code = NULL;
  }
  return status;
}

/* The cubin is the code that was tested; the driver's own compiler is the second choice. */
static moe_rt_status_t load_bundle(moe_rt_program_t *program, moe_rt_device_t *device,
                                   const bundle_code_t *code) {
  const moe__manifest_t *manifest = &program->manifest;
  MOE__TRY(moe__device_check(device));
  MOE__TRY(check_target(device, manifest));
  program->device = device;
  program->kernels = moe__arena_allocate(&program->arena, (size_t)manifest->kernel_count,
                                         sizeof *program->kernels);
  program->clusters = moe__arena_allocate(&program->arena, (size_t)manifest->kernel_count,
                                          sizeof *program->clusters);
  if (!program->kernels || !program->clusters)
    return moe__fail_memory();
  char refusal[512] = "";
  if (code->cubin.data) {
    program->code_name = "cubin";
    moe_rt_status_t status = load_code(program, MOE__CUBIN, &code->cubin);
    if (status == MOE_RT_OK)
      return MOE_RT_OK;
    if (status != MOE_RT_UNSUPPORTED)
      return moe__fail_in(status, "%s", manifest->cubin.file);
    snprintf(refusal, sizeof refusal, "%s: %s; ", manifest->cubin.file, moe_rt_last_message());
  }
  program->code_name = "ptx";
  moe_rt_status_t status = load_code(program, MOE__PTX, &code->ptx);
  if (status == MOE_RT_OK)
    return MOE_RT_OK;
  return moe__fail_in(status, "%s%s", refusal, manifest->ptx.file);
}

static moe_rt_status_t make_program(moe_rt_device_t *device, const char *path,
                                    moe_rt_program_t **out_program) {
  moe_rt_program_t *program = calloc(1, sizeof *program);
  if (!program)
    return moe__fail_memory();
  program->code_name = "none";
  bundle_code_t code = {0};
  moe_rt_status_t status = read_bundle(path, program, &code);
  if (status == MOE_RT_OK && device) {
    status = load_bundle(program, device, &code);
    if (status != MOE_RT_OK && status != MOE_RT_DEVICE_LOST)
      moe__fail_in(status, "%s", path);
  }
  free_code(&code);
  if (status != MOE_RT_OK) {
    moe_rt_program_destroy(program);
    return status;
  }
  *out_program = program;
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_program_read(const char *path, moe_rt_program_t **out_program) {
  if (!out_program)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: out_program is NULL", __func__);
  *out_program = NULL;
  if (!path)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: path is NULL", __func__);
  return make_program(NULL, path, out_program);
}

moe_rt_status_t moe_rt_program_load(moe_rt_device_t *device, const char *path,
                                    moe_rt_program_t **out_program) {
  if (!out_program)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: out_program is NULL", __func__);
  *out_program = NULL;
  if (!device || !path)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: device or path is NULL", __func__);
  return make_program(device, path, out_program);
}

void moe_rt_program_destroy(moe_rt_program_t *program) {
  if (!program)
    return;
  if (program->code)
    program->device->backend->unload_code(program->device, program->code);
  moe__arena_free(&program->arena);
  free(program);
}

/* ---- Contents ---- */

int moe_rt_program_function_count(const moe_rt_program_t *program) {
  return program ? program->manifest.function_count : 0;
}

const moe_rt_function_info_t *moe_rt_program_function(const moe_rt_program_t *program, int index) {
  if (!program || index < 0 || index >= program->manifest.function_count)
    return NULL;
  return &program->manifest.functions[index].info;
}

const moe__function_t *moe__program_function(const moe_rt_program_t *program,
                                             const moe_rt_function_info_t *info) {
  for (int i = 0; program && i < program->manifest.function_count; i++) {
    if (&program->manifest.functions[i].info == info)
      return &program->manifest.functions[i];
  }
  return NULL;
}

/* "'a', 'b'" in a text of fixed size; what does not fit is left out. */
static void list_functions(const moe__manifest_t *manifest, char *text, size_t size) {
  size_t length = 0;
  for (int i = 0; i < manifest->function_count && length + 1 < size; i++) {
    snprintf(text + length, size - length, "%s'%s'", i ? ", " : "",
             manifest->functions[i].info.name);
    length = strlen(text);
  }
}

moe_rt_status_t moe_rt_program_find(const moe_rt_program_t *program, const char *name,
                                    const moe_rt_function_info_t **out_function) {
  if (!out_function)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: out_function is NULL", __func__);
  *out_function = NULL;
  if (!program)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: program is NULL", __func__);
  const moe__manifest_t *manifest = &program->manifest;
  if (!name && manifest->function_count == 1)
    name = manifest->functions[0].info.name;
  for (int i = 0; name && i < manifest->function_count; i++) {
    if (strcmp(manifest->functions[i].info.name, name) == 0) {
      *out_function = &manifest->functions[i].info;
      return MOE_RT_OK;
    }
  }
  char list[512] = "";
  list_functions(manifest, list, sizeof list);
  if (!name)
    return moe__fail(MOE_RT_NOT_FOUND, "the program has several functions, name one: %s", list);
  return moe__fail(MOE_RT_NOT_FOUND, "no function '%.64s'; there are: %s", name, list);
}

const char *moe_rt_program_code(const moe_rt_program_t *program) {
  return program ? program->code_name : "none";
}
