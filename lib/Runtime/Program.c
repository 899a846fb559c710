/* Program.c - reads a bundle and loads its code on a device.
 *
 * Everything that can go wrong with a bundle goes wrong here, once, and not at a launch.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Run.h"
#include "moe/bundle.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void free_code(moe__rt_bundle_code_t *code) {
  free(code->cubin.data);
  free(code->ptx.data);
  *code = (moe__rt_bundle_code_t){0};
}

/* ---- Reading ---- */

/* "NAME/FILE", in the program's arena. */
static const char *file_name(moe_rt_program_t *program, const char *file) {
  size_t size = strlen(program->name) + 1 + strlen(file) + 1;
  char *name = moe__rt_arena_allocate(&program->arena, size, 1);
  if (name)
    snprintf(name, size, "%s/%s", program->name, file);
  return name;
}

static moe_rt_status_t parse_manifest(moe_rt_program_t *program, const char *text, size_t bytes) {
  moe__rt_manifest_t *manifest =
      moe__rt_arena_allocate(&program->arena, 1, sizeof *program->manifest);
  const char *file = file_name(program, MOE_BUNDLE_MANIFEST);
  if (!manifest || !file)
    return moe__rt_fail_memory();
  program->manifest = manifest;
  return moe__rt_manifest_parse(text, bytes, file, &program->arena, manifest);
}

static moe_rt_status_t check_ptx(const moe__rt_manifest_t *manifest, const moe__rt_bytes_t *ptx) {
  MOE__RT_TRY(moe__rt_artifact_check(&manifest->ptx, ptx));
  return moe__rt_ptx_check(ptx, manifest->ptx_isa, manifest->target);
}

static moe_rt_status_t check_cubin(const moe__rt_manifest_t *manifest,
                                   const moe__rt_bytes_t *cubin) {
  MOE__RT_TRY(moe__rt_artifact_check(&manifest->cubin, cubin));
  return moe__rt_cubin_check(cubin);
}

/* Checks the code of the program against its manifest. */
static moe_rt_status_t check_code(const moe_rt_program_t *program) {
  const moe__rt_manifest_t *manifest = program->manifest;
  moe_rt_status_t status = check_ptx(manifest, &program->source.ptx);
  if (status != MOE_RT_OK)
    return moe__rt_fail_in(status, "%s/%s", program->name, manifest->ptx.file);
  if (!manifest->cubin.file)
    return MOE_RT_OK;
  status = check_cubin(manifest, &program->source.cubin);
  return status == MOE_RT_OK
             ? status
             : moe__rt_fail_in(status, "%s/%s", program->name, manifest->cubin.file);
}

/* NAME/FOLDER/manifest.json; whether there is one. */
static bool has_manifest(const char *name, const char *folder) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/%s/%s", name, folder, MOE_BUNDLE_MANIFEST);
  return length > 0 && length < (int)sizeof path && access(path, F_OK) == 0;
}

/* Whoever names a source, or a folder of candidates, is told what a bundle is. */
static moe_rt_status_t fail_without_manifest(moe_rt_status_t status, const char *name) {
  if (has_manifest(name, "0"))
    return moe__rt_fail_after(status, "its folder holds candidates; %s/0 is a bundle", name);
  return moe__rt_fail_after(status, "a bundle is a folder that moe-opt --emit=bundle writes");
}

static moe_rt_status_t read_folder(moe_rt_program_t *program) {
  enum { MANIFEST_LIMIT = 1 << 24 };
  moe__rt_bytes_t text;
  moe_rt_status_t status =
      moe__rt_file_read(program->name, MOE_BUNDLE_MANIFEST, MANIFEST_LIMIT, &text);
  if (status == MOE_RT_IO_ERROR && !has_manifest(program->name, "."))
    return fail_without_manifest(status, program->name);
  MOE__RT_TRY(status);
  status = parse_manifest(program, text.data, text.size);
  free(text.data);
  MOE__RT_TRY(status);
  const moe__rt_manifest_t *manifest = program->manifest;
  moe__rt_bundle_code_t *code = &program->source;
  MOE__RT_TRY(
      moe__rt_file_read(program->name, manifest->ptx.file, MOE__RT_MAX_ARTIFACT_BYTES, &code->ptx));
  if (manifest->cubin.file)
    MOE__RT_TRY(moe__rt_file_read(program->name, manifest->cubin.file, MOE__RT_MAX_ARTIFACT_BYTES,
                                  &code->cubin));
  return check_code(program);
}

static moe_rt_status_t copy_bytes(const void *data, size_t size, moe__rt_bytes_t *out) {
  out->data = malloc(size + 1);
  if (!out->data)
    return moe__rt_fail_memory();
  memcpy(out->data, data, size);
  out->data[size] = '\0';
  out->size = size;
  return MOE_RT_OK;
}

static moe_rt_status_t read_memory(moe_rt_program_t *program, const moe_rt_bundle_t *bundle) {
  MOE__RT_TRY(parse_manifest(program, bundle->manifest, bundle->manifest_bytes));
  const char *cubin = program->manifest->cubin.file;
  if (!cubin != !bundle->cubin) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "%s: %s", program->name,
                        cubin ? "has no cubin; the manifest names one"
                              : "has a cubin; the manifest names none");
  }
  MOE__RT_TRY(copy_bytes(bundle->ptx, bundle->ptx_bytes, &program->source.ptx));
  if (cubin)
    MOE__RT_TRY(copy_bytes(bundle->cubin, bundle->cubin_bytes, &program->source.cubin));
  return check_code(program);
}

/* ---- Loading ---- */

static moe_rt_status_t check_target(const moe_rt_device_t *device,
                                    const moe__rt_manifest_t *manifest) {
  const moe_rt_device_info_t *info = &device->info;
  if (info->compute_major != 9 || info->compute_minor != 0) {
    return moe__rt_fail(MOE_RT_UNSUPPORTED,
                        "%s has compute capability %d.%d; the bundle is for %s, which needs 9.0",
                        device->name, info->compute_major, info->compute_minor, manifest->target);
  }
  for (int i = 0; i < manifest->kernel_count; i++) {
    const moe__rt_kernel_t *kernel = &manifest->kernels[i];
    if (kernel->shared_memory > info->shared_memory_per_block) {
      return moe__rt_fail(MOE_RT_UNSUPPORTED,
                          "kernel '%s' needs %u bytes of shared memory; %s has %lld", kernel->name,
                          kernel->shared_memory, device->name,
                          (long long)info->shared_memory_per_block);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t load_kernels(moe_rt_program_t *program) {
  const moe__rt_manifest_t *manifest = program->manifest;
  moe_rt_device_t *device = program->device;
  for (int i = 0; i < manifest->kernel_count; i++) {
    const moe__rt_kernel_t *kernel = &manifest->kernels[i];
    moe_rt_status_t status =
        device->backend->load_kernel(device, program->code, kernel, &program->kernels[i]);
    if (status == MOE_RT_OK && moe__rt_kernel_cluster_blocks(kernel) > 1)
      status = device->backend->count_clusters(device, kernel, program->kernels[i],
                                               &program->clusters[i]);
    if (status != MOE_RT_OK)
      return moe__rt_fail_in(status, "kernel '%s'", manifest->kernels[i].name);
  }
  return MOE_RT_OK;
}

/* Loads one kind of code with all of its kernels, or leaves nothing loaded. */
static moe_rt_status_t load_code(moe_rt_program_t *program, moe__rt_code_kind_t kind,
                                 const moe__rt_bytes_t *bytes) {
  const moe__rt_backend_t *backend = program->device->backend;
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

/* Whether an assembler of this version, which is what `what` names, makes right code of all
 * kernels: an older one than a kernel needs makes wrong code of it without a word. `remedy` ends
 * the message. */
static moe_rt_status_t check_assembler(const moe__rt_manifest_t *manifest, int version,
                                       const char *what, const char *remedy) {
  for (int i = 0; i < manifest->kernel_count; i++) {
    const moe__rt_kernel_t *kernel = &manifest->kernels[i];
    if (kernel->min_assembler > version)
      return moe__rt_fail(MOE_RT_OLD_ASSEMBLER,
                          "kernel '%s' needs an assembler of CUDA %d.%d or newer; %s is of %d.%d%s",
                          kernel->name, kernel->min_assembler / 1000,
                          kernel->min_assembler % 1000 / 10, what, version / 1000,
                          version % 1000 / 10, remedy);
  }
  return MOE_RT_OK;
}

/* The driver compiles PTX; a device without a driver runs it as it stands. */
static moe_rt_status_t check_compiler(const moe_rt_program_t *program) {
  int version = program->device->info.driver_version;
  if (!version)
    return MOE_RT_OK;
  return check_assembler(program->manifest, version, "the driver's compiler",
                         ". Compile the bundle where moe-opt finds such a ptxas, or take a newer "
                         "driver");
}

/* The cubin is the code that was tested; the driver's own compiler is the second choice. */
static moe_rt_status_t load_either(moe_rt_program_t *program, const moe__rt_bundle_code_t *code) {
  const moe__rt_manifest_t *manifest = program->manifest;
  char refusal[512] = "";
  if (code->cubin.data) {
    program->code_name = "cubin";
    moe_rt_status_t status =
        check_assembler(manifest, manifest->assembler, "that of the cubin", "");
    if (status == MOE_RT_OK)
      status = load_code(program, MOE__RT_CUBIN, &code->cubin);
    if (status == MOE_RT_OK)
      return MOE_RT_OK;
    if (status != MOE_RT_UNSUPPORTED && status != MOE_RT_OLD_ASSEMBLER)
      return moe__rt_fail_in(status, "%s", manifest->cubin.file);
    snprintf(refusal, sizeof refusal, "%s: %s; ", manifest->cubin.file, moe_rt_last_message());
  }
  program->code_name = "ptx";
  moe_rt_status_t status = check_compiler(program);
  if (status == MOE_RT_OK)
    status = load_code(program, MOE__RT_PTX, &code->ptx);
  if (status == MOE_RT_OK)
    return MOE_RT_OK;
  return moe__rt_fail_in(status, "%s%s", refusal, manifest->ptx.file);
}

uint64_t moe__rt_program_status_word(const moe_rt_program_t *program,
                                     const moe__rt_function_t *function) {
  if (function->status < 0 || !program->statuses)
    return 0;
  size_t index = (size_t)(function - program->manifest->functions);
  return (uint64_t)(uintptr_t)program->statuses + index * MOE__RT_ALIGNMENT;
}

/* The status words of runs, zero when it returns. */
static moe_rt_status_t make_statuses(moe_rt_program_t *program) {
  const moe__rt_manifest_t *manifest = program->manifest;
  moe_rt_device_t *device = program->device;
  bool is_any = false;
  for (int i = 0; i < manifest->function_count; i++)
    is_any |= manifest->functions[i].status >= 0;
  if (!is_any)
    return MOE_RT_OK;
  size_t bytes = (size_t)manifest->function_count * MOE__RT_ALIGNMENT;
  MOE__RT_TRY(device->backend->allocate(device, bytes, &program->statuses));
  MOE__RT_TRY(device->backend->fill(device, program->statuses, 0, bytes, NULL));
  return device->backend->stream_synchronize(device, NULL);
}

/* Loads code on a device for a program whose manifest is set. */
static moe_rt_status_t load_program(moe_rt_program_t *program, moe_rt_device_t *device,
                                    const moe__rt_bundle_code_t *code) {
  const moe__rt_manifest_t *manifest = program->manifest;
  MOE__RT_TRY(moe__rt_device_check(device));
  MOE__RT_TRY(check_target(device, manifest));
  program->device = device;
  program->kernels = moe__rt_arena_allocate(&program->arena, (size_t)manifest->kernel_count,
                                            sizeof *program->kernels);
  program->clusters = moe__rt_arena_allocate(&program->arena, (size_t)manifest->kernel_count,
                                             sizeof *program->clusters);
  program->runs = moe__rt_runs_make(manifest->function_count);
  if (!program->kernels || !program->clusters || !program->runs)
    return moe__rt_fail_memory();
  MOE__RT_TRY(load_either(program, code));
  moe_rt_status_t status = make_statuses(program);
  return status == MOE_RT_OK ? status : moe__rt_fail_in(status, "status words");
}

/* ---- Making programs ---- */

static moe_rt_program_t *new_program(const char *name) {
  moe_rt_program_t *program = calloc(1, sizeof *program);
  if (!program)
    return NULL;
  program->code_name = "none";
  program->name = moe__rt_arena_string(&program->arena, name);
  if (program->name)
    return program;
  moe_rt_program_destroy(program);
  return NULL;
}

/* Loads the program's source on the device, or keeps it for devices to come. */
static moe_rt_status_t settle(moe_rt_program_t *program, moe_rt_device_t *device) {
  if (!device) {
    program->loaded = calloc(1, sizeof *program->loaded);
    if (!program->loaded)
      return moe__rt_fail_memory();
    pthread_mutex_init(&program->loaded->mutex, NULL);
    return MOE_RT_OK;
  }
  moe_rt_status_t status = load_program(program, device, &program->source);
  free_code(&program->source);
  if (status == MOE_RT_OK || status == MOE_RT_DEVICE_LOST)
    return status;
  return moe__rt_fail_in(status, "%s", program->name);
}

/* Reads a folder, or a bundle in memory where there is one. */
static moe_rt_status_t make_program(moe_rt_device_t *device, const char *name,
                                    const moe_rt_bundle_t *bundle, moe_rt_program_t **out_program) {
  moe_rt_program_t *program = new_program(name);
  if (!program)
    return moe__rt_fail_memory();
  moe_rt_status_t status = bundle ? read_memory(program, bundle) : read_folder(program);
  if (status == MOE_RT_OK)
    status = settle(program, device);
  if (status != MOE_RT_OK) {
    moe_rt_program_destroy(program);
    return status;
  }
  *out_program = program;
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_program_read(const char *path, moe_rt_program_t **out_program) {
  if (!out_program)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_program is NULL", __func__);
  *out_program = NULL;
  if (!path || !*path)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: path is NULL or empty", __func__);
  return make_program(NULL, path, NULL, out_program);
}

moe_rt_status_t moe_rt_program_load(moe_rt_device_t *device, const char *path,
                                    moe_rt_program_t **out_program) {
  if (!out_program)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_program is NULL", __func__);
  *out_program = NULL;
  if (!device || !path || !*path)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: device is NULL, or path is NULL or empty",
                        __func__);
  return make_program(device, path, NULL, out_program);
}

static moe_rt_status_t check_bundle(const moe_rt_bundle_t *bundle, const char *function) {
  if (!bundle || !bundle->manifest || !bundle->ptx)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: bundle, its manifest or its ptx is NULL",
                        function);
  return MOE_RT_OK;
}

static const char *bundle_name(const moe_rt_bundle_t *bundle) {
  return bundle->name ? bundle->name : "bundle";
}

moe_rt_status_t moe_rt_program_read_memory(const moe_rt_bundle_t *bundle,
                                           moe_rt_program_t **out_program) {
  if (!out_program)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_program is NULL", __func__);
  *out_program = NULL;
  MOE__RT_TRY(check_bundle(bundle, __func__));
  return make_program(NULL, bundle_name(bundle), bundle, out_program);
}

moe_rt_status_t moe_rt_program_load_memory(moe_rt_device_t *device, const moe_rt_bundle_t *bundle,
                                           moe_rt_program_t **out_program) {
  if (!out_program)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_program is NULL", __func__);
  *out_program = NULL;
  if (!device)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: device is NULL", __func__);
  MOE__RT_TRY(check_bundle(bundle, __func__));
  return make_program(device, bundle_name(bundle), bundle, out_program);
}

void moe_rt_program_destroy(moe_rt_program_t *program) {
  if (!program)
    return;
  if (program->loaded) {
    for (moe_rt_program_t *loaded = program->loaded->first, *next; loaded; loaded = next) {
      next = loaded->next;
      moe_rt_program_destroy(loaded);
    }
    pthread_mutex_destroy(&program->loaded->mutex);
    free(program->loaded);
  }
  if (program->statuses)
    program->device->backend->free(program->device, program->statuses);
  if (program->code)
    program->device->backend->unload_code(program->device, program->code);
  if (program->runs)
    moe__rt_runs_destroy(program->runs, program->manifest->function_count);
  free_code(&program->source);
  moe__rt_arena_free(&program->arena);
  free(program);
}

/* ---- Programs on the devices of tensors ---- */

static bool is_for(const moe_rt_program_t *program, DLDevice place) {
  return program->device->backend->owns(program->device, place);
}

/* Managed memory is every device's; the number that it has says which device the first tensor is
 * for. */
static bool is_loaded_for(const moe_rt_program_t *program, DLDevice place) {
  return is_for(program, place) &&
         (place.device_type != kDLCUDAManaged || place.device_id == program->device->info.ordinal);
}

const moe_rt_program_t *moe__rt_program_loaded(const moe_rt_program_t *program, DLDevice place) {
  if (program->device)
    return is_for(program, place) ? program : NULL;
  const moe_rt_program_t *loaded = atomic_load(&program->loaded->first);
  while (loaded && !is_loaded_for(loaded, place))
    loaded = loaded->next;
  return loaded;
}

static moe_rt_status_t load_on(const moe_rt_program_t *program, moe_rt_device_t *device,
                               moe_rt_program_t **out_loaded) {
  moe_rt_program_t *loaded = new_program(program->name);
  if (!loaded)
    return moe__rt_fail_memory();
  loaded->manifest = program->manifest;
  moe_rt_status_t status = load_program(loaded, device, &program->source);
  if (status == MOE_RT_OK) {
    *out_loaded = loaded;
    return MOE_RT_OK;
  }
  moe_rt_program_destroy(loaded);
  return status == MOE_RT_DEVICE_LOST ? status : moe__rt_fail_in(status, "%s", program->name);
}

moe_rt_status_t moe_rt_program_on(const moe_rt_program_t *program, DLDevice place,
                                  const moe_rt_program_t **out_loaded) {
  if (!out_loaded)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_loaded is NULL", __func__);
  *out_loaded = NULL;
  if (!program)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: program is NULL", __func__);
  *out_loaded = moe__rt_program_loaded(program, place);
  if (*out_loaded)
    return MOE_RT_OK;
  if (!program->loaded) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "%s is on %s, which is not DLPack device (%d, %d); moe_rt_program_read "
                        "makes a program for all devices",
                        program->name, program->device->name, (int)place.device_type,
                        place.device_id);
  }
  moe_rt_device_t *device = NULL;
  MOE__RT_TRY(moe_rt_device_shared(place, &device));
  moe_rt_status_t status = MOE_RT_OK;
  pthread_mutex_lock(&program->loaded->mutex);
  *out_loaded = moe__rt_program_loaded(program, place); /* by another thread, meanwhile */
  if (!*out_loaded) {
    moe_rt_program_t *loaded = NULL;
    status = load_on(program, device, &loaded);
    if (loaded) {
      loaded->next = atomic_load(&program->loaded->first);
      atomic_store(&program->loaded->first, loaded);
      *out_loaded = loaded;
    }
  }
  pthread_mutex_unlock(&program->loaded->mutex);
  return status;
}

/* ---- Contents ---- */

int moe_rt_program_function_count(const moe_rt_program_t *program) {
  return program ? program->manifest->function_count : 0;
}

const moe_rt_function_info_t *moe_rt_program_function(const moe_rt_program_t *program, int index) {
  if (!program || index < 0 || index >= program->manifest->function_count)
    return NULL;
  return &program->manifest->functions[index].info;
}

const moe__rt_function_t *moe__rt_program_function(const moe_rt_program_t *program,
                                                   const moe_rt_function_info_t *info) {
  if (!program)
    return NULL;
  /* The information is the first member of the function. */
  const moe__rt_function_t *functions = program->manifest->functions;
  uintptr_t offset = (uintptr_t)info - (uintptr_t)functions;
  size_t index = offset / sizeof *functions;
  if (offset % sizeof *functions != 0 || index >= (size_t)program->manifest->function_count)
    return NULL;
  return &functions[index];
}

/* "'a', 'b'" in a text of fixed size; what does not fit is left out. */
static void list_functions(const moe__rt_manifest_t *manifest, char *text, size_t size) {
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
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_function is NULL", __func__);
  *out_function = NULL;
  if (!program)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: program is NULL", __func__);
  const moe__rt_manifest_t *manifest = program->manifest;
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
    return moe__rt_fail(MOE_RT_NOT_FOUND, "the program has several functions, name one: %s", list);
  return moe__rt_fail(MOE_RT_NOT_FOUND, "no function '%.64s'; there are: %s", name, list);
}

const char *moe_rt_program_code(const moe_rt_program_t *program) {
  return program ? program->code_name : "none";
}
