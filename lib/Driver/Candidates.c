/* Candidates.c - compiles a module once for each schedule worth measuring.
 *
 * Why no stage: a stage makes one module of one; and a module of every candidate is what
 * moe-run --tune chooses from.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"
#include "lib/Files/Bundle.h"
#include "lib/Kernels/Kernels.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of the module's IR. Its name and text are borrowed. */
static moe_module_t copy_module(const moe_module_t *module) {
  MlirOperation copy = mlirOperationClone(mlirModuleGetOperation(module->ir));
  return (moe_module_t){.compiler = module->compiler,
                        .name = module->name,
                        .text = module->text,
                        .has_kernels = module->has_kernels,
                        .ir = mlirModuleFromOperation(copy)};
}

static void drop_copy(moe_module_t *copy) {
  if (!mlirModuleIsNull(copy->ir))
    mlirModuleDestroy(copy->ir);
  moe__module_drop_artifacts(copy);
  moe__text_free(&copy->printed);
}

/* Takes the copy to stage "bundle"; its text is that of stage "scheduled", which is to be parsed
 * again, however the user wants IR printed. */
static moe_status_t compile(moe_module_t *copy, int candidate) {
  char pipeline[96];
  snprintf(pipeline, sizeof pipeline, "builtin.module(moe-select-schedule{candidate=%d})",
           candidate);
  moe_status_t status = moe_module_run(copy, pipeline);
  if (status == MOE_OK)
    moe__module_print_as(copy, &(moe_printing_t){0});
  return status == MOE_OK ? moe_module_lower(copy, "bundle") : status;
}

static char *candidate_path(const char *directory, int number) {
  moe__text_t path = {0};
  moe__text_printf(&path, "%s/%d", directory, number);
  return path.data;
}

/* ---- What an earlier run left ---- */

/* Numbers of candidates that this run does not have. */
typedef struct stale_t {
  int *numbers; /* owned */
  int count;
} stale_t;

static void add_stale(stale_t *stale, int number) {
  int *grown = realloc(stale->numbers, ((size_t)stale->count + 1) * sizeof *grown);
  if (!grown)
    abort();
  stale->numbers = grown;
  stale->numbers[stale->count++] = number;
}

/* They go only where all of them can: what moe-opt has not written stays, and is an error before
 * anything is written. */
static bool find_stale(const moe_module_t *copy, int count, const char *directory, stale_t *out) {
  DIR *list = opendir(directory);
  if (!list && (errno == ENOENT || errno == ENOTDIR))
    return true;
  if (!list) {
    moe__report(copy->compiler, MOE_ERROR, NULL, 0, 0, "cannot read the folder '%s': %s", directory,
                strerror(errno));
    return false;
  }
  bool ok = true;
  for (struct dirent *entry; ok && (entry = readdir(list));) {
    int number = moe__candidate_number(entry->d_name);
    if (number < count)
      continue;
    char *path = candidate_path(directory, number);
    ok = moe__target_check_candidate(mlirModuleGetOperation(copy->ir), path);
    free(path);
    add_stale(out, number);
  }
  closedir(list);
  return ok;
}

static bool remove_stale(MlirOperation module, const stale_t *stale, const char *directory) {
  bool ok = true;
  for (int i = 0; ok && i < stale->count; i++) {
    char *path = candidate_path(directory, stale->numbers[i]);
    ok = moe__target_remove_candidate(module, path) == MOE_OK;
    free(path);
  }
  return ok;
}

/* ---- What this run makes ---- */

/* All are staged before the first is put into its place: a disk that is full leaves the old
 * ones. */
static moe_status_t write_all(const moe_module_t *copies, int count, const char *directory) {
  MlirOperation module = mlirModuleGetOperation(copies[0].ir);
  moe__staged_bundle_t *bundles = moe__allocate((size_t)count * sizeof *bundles);
  stale_t stale = {0};
  int staged = 0;
  bool ok = find_stale(&copies[0], count, directory, &stale);
  while (ok && staged < count) {
    const moe_module_t *copy = &copies[staged];
    char *path = candidate_path(directory, staged);
    ok = moe__target_stage_bundle(mlirModuleGetOperation(copy->ir), path, copy->ptx, copy->cubin,
                                  (moe__bytes_t){copy->printed.data, copy->printed.length},
                                  copy->manifest, &bundles[staged]);
    staged++;
    free(path);
  }
  for (int i = 0; ok && i < count; i++) {
    char *path = candidate_path(directory, i);
    ok = moe__target_commit_bundle(mlirModuleGetOperation(copies[i].ir), path, &bundles[i]);
    free(path);
  }
  ok = ok && remove_stale(module, &stale, directory); /* an interrupt waits until all is done */
  while (staged > 0)
    moe__target_discard_bundle(&bundles[--staged]);
  free(bundles);
  free(stale.numbers);
  return ok ? MOE_OK : MOE_IO_ERROR;
}

/* Behind stage "scheduled" no schedule can be chosen any more. A source may have kernels of its own
 * beside ops that have none yet. */
static moe_status_t check_stage(const moe_module_t *module) {
  MlirOperation kernels = moe__find_kernels(module);
  if (mlirOperationIsNull(kernels) ||
      !moe__kernels_are_outlined(mlirModuleGetOperation(module->ir)))
    return MOE_OK;
  module->compiler->source = (moe__source_t){module->name, module->text};
  mlirEmitError(mlirOperationGetLocation(kernels),
                "the schedules of these kernels are chosen; candidates are made of a module in "
                "stage 'source' to 'scheduled'");
  return module->has_kernels ? MOE_INVALID_INPUT : MOE_USAGE;
}

moe_status_t moe_module_write_candidates(moe_module_t *module, const char *directory) {
  if (!module || !directory)
    return MOE_USAGE;
  if (module->compiler->options.line_info) {
    moe__report(module->compiler, MOE_ERROR, NULL, 0, 0,
                "'%s' holds the lines of one module, and each candidate has its own; compile the "
                "source.mlir of one for line information",
                module->compiler->options.line_info);
    return MOE_USAGE;
  }
  moe_status_t status = check_stage(module); /* wrong usage leaves the module as it is */
  if (status == MOE_OK)
    status = moe_module_lower(module, "fused");
  if (status != MOE_OK)
    return status;
  int count = moe__kernels_count_candidates(mlirModuleGetOperation(module->ir));
  /* All before the first is written: a candidate that fails leaves nothing behind. */
  moe_module_t *copies = moe__allocate((size_t)count * sizeof *copies);
  int made = 0;
  while (made < count && status == MOE_OK) {
    copies[made] = copy_module(module);
    status = compile(&copies[made], made);
    made++;
  }
  if (status == MOE_OK)
    status = write_all(copies, count, directory);
  while (made > 0)
    drop_copy(&copies[--made]);
  free(copies);
  return status;
}
