/* Candidates.c - compiles a module once for each schedule worth measuring.
 *
 * Why no stage: a stage makes one module of one; and a module of every candidate is what
 * moe-run --tune chooses from.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"
#include "lib/Kernels/Kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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

/* Takes the copy to stage "bundle"; its text is that of stage "scheduled". */
static moe_status_t compile(moe_module_t *copy, int candidate) {
  char pipeline[96];
  snprintf(pipeline, sizeof pipeline, "builtin.module(moe-select-schedule{candidate=%d})",
           candidate);
  moe_status_t status = moe_module_run(copy, pipeline);
  const char *text;
  size_t length;
  if (status == MOE_OK)
    status = moe_module_print(copy, false, &text, &length);
  return status == MOE_OK ? moe_module_lower(copy, "bundle") : status;
}

/* What another source left there is no candidate of this one. */
static moe_status_t remove_stale(const moe_module_t *module, int count, const char *directory) {
  moe_status_t status = MOE_OK;
  moe__text_t path = {0};
  struct stat info;
  for (int i = count; status == MOE_OK; i++) {
    moe__text_clear(&path);
    moe__text_printf(&path, "%s/%d", directory, i);
    if (stat(path.data, &info))
      break;
    status = moe__target_remove_bundle(mlirModuleGetOperation(module->ir), path.data);
  }
  moe__text_free(&path);
  return status;
}

static char *candidate_path(const char *directory, int number) {
  moe__text_t path = {0};
  moe__text_printf(&path, "%s/%d", directory, number);
  return path.data;
}

/* All are staged before the first is put into its place: a disk that is full leaves the old
 * ones. */
static moe_status_t write_all(const moe_module_t *copies, int count, const char *directory) {
  moe__staged_bundle_t *bundles = moe__allocate((size_t)count * sizeof *bundles);
  int staged = 0;
  bool ok = true;
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
  while (staged > 0)
    moe__target_discard_bundle(&bundles[--staged]);
  free(bundles);
  return ok ? remove_stale(&copies[0], count, directory) : MOE_IO_ERROR;
}

moe_status_t moe_module_write_candidates(moe_module_t *module, const char *directory) {
  if (!module || !directory)
    return MOE_USAGE;
  moe_status_t status = moe_module_lower(module, "fused");
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
