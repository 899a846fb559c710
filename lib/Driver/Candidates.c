/* Candidates.c - compiles a module once for each schedule worth measuring.
 *
 * Why no stage: a stage makes one module of one; and a module of every candidate is what
 * moe-run --tune chooses from.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"
#include "passes/Schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A copy of the module's IR. Its name and text are borrowed. */
static moe_module_t copy_module(const moe_module_t *module) {
  MlirOperation copy = mlirOperationClone(mlirModuleGetOperation(module->ir));
  return (moe_module_t){.compiler = module->compiler,
                        .name = module->name,
                        .text = module->text,
                        .ir = mlirModuleFromOperation(copy)};
}

static void drop_copy(moe_module_t *copy) {
  if (!mlirModuleIsNull(copy->ir))
    mlirModuleDestroy(copy->ir);
  moe__module_drop_artifacts(copy);
  moe__text_free(&copy->printed);
}

/* How many candidates the module has, which is in stage "fused". */
static moe_status_t count_candidates(const moe_module_t *module, int *out_count) {
  moe_module_t copy = copy_module(module);
  bool ok = moe__select_schedules(mlirModuleGetOperation(copy.ir), 0, out_count);
  drop_copy(&copy);
  return ok ? MOE_OK : MOE_INVALID_INPUT;
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

static moe_status_t write_copy(const moe_module_t *copy, const char *directory) {
  moe__bytes_t source = {copy->printed.data, copy->printed.length};
  return moe__target_write_bundle(mlirModuleGetOperation(copy->ir), directory, copy->ptx,
                                  copy->cubin, source, copy->manifest);
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

static moe_status_t write_all(const moe_module_t *copies, int count, const char *directory) {
  moe_status_t status = MOE_OK;
  moe__text_t path = {0};
  for (int i = 0; i < count && status == MOE_OK; i++) {
    moe__text_clear(&path);
    moe__text_printf(&path, "%s/%d", directory, i);
    status = write_copy(&copies[i], path.data);
  }
  moe__text_free(&path);
  return status == MOE_OK ? remove_stale(&copies[0], count, directory) : status;
}

moe_status_t moe_module_write_candidates(moe_module_t *module, const char *directory) {
  int count = 0;
  moe_status_t status = moe_module_lower(module, "fused");
  if (status == MOE_OK)
    status = count_candidates(module, &count);
  if (status != MOE_OK)
    return status;
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
