/* Target.h - from the LLVM dialect to what a launcher loads: PTX, cubin, manifest, bundle.
 *
 * Errors are emitted at the location of the module or kernel they concern; a MOE_INTERNAL status
 * means that this project, not its user, is at fault.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TARGET_TARGET_H
#define MOE_TARGET_TARGET_H

#include "lib/Files/Files.h"
#include "moe/compiler.h"

#include "mlir-c/IR.h"

#include <jansson.h>
#include <stddef.h>
#include <string.h>

/* Bytes owned by whoever holds the struct (malloc). NULL data: there are none. */
typedef struct moe__bytes_t {
  char *data;
  size_t length;
} moe__bytes_t;

typedef struct moe__target_options_t {
  const char *chip;      /* "sm_90a" */
  int opt_level;         /* of LLVM, 0..3 */
  const char *ptxas;     /* path, "none", NULL: search */
  const char *line_info; /* NULL: none */
} moe__target_options_t;

/* PTX of the kernels of a module in stage llvm; all gpu.modules go into one text. */
moe_status_t moe__target_emit_ptx(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t *out_ptx);

/* Whether this path of the options says that no ptxas is to run. */
static inline bool moe__target_is_no_ptxas(const char *path) {
  return path && !strcmp(path, "none");
}

/* The ptxas to use: `path` if given and executable, else the first of the project's own, PATH and
 * the CUDA toolkit. The thread's own storage; NULL if there is none, or `path` is "none". */
const char *moe__target_find_ptxas(const char *path);

/* Kernels with a wgmma operand in registers need this ptxas or a newer one. */
#define MOE__REGISTER_A_ASSEMBLER "13.3"

/* The kernels of the PTX that not every ptxas assembles rightly: an object from their names to the
 * oldest version that does. The caller owns it. */
json_t *moe__target_min_assemblers(moe__bytes_t ptx);

/* Whether a version, "13.0.88", is before another, "13.3". */
bool moe__target_is_older(const char *version, const char *least);

/* The cubin of the PTX, by a ptxas subprocess. MOE_OK with NULL data where none is
 * found, or none is wanted.
 * *out_assembler: its version; *out_log: what it said; owned by the caller. Warnings that mean
 * wrong or slow code (C75xx, spills, local memory) are errors, and so is a ptxas that is too old
 * for one of the kernels. */
moe_status_t moe__target_assemble(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t *out_cubin, char **out_assembler,
                                  char **out_log);

/* What the kernels of the module take, from the cubin and from what ptxas said of it. False after
 * an error: a kernel's record is malformed. The caller frees the list and the names in it. */
bool moe__target_resources(MlirOperation module, moe__bytes_t cubin, const char *log,
                           moe_kernel_resources_t **out_kernels, size_t *out_count);

/* The manifest (docs/manifest.md) of a module in stage llvm and its artifacts. */
moe_status_t moe__target_manifest(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t cubin, const char *assembler,
                                  moe__bytes_t *out_json);

/* A bundle that is complete, but not yet in its place. It borrows the bytes. */
typedef struct moe__staged_bundle_t {
  moe__file_t files[4];
  moe__folder_t folder;
} moe__staged_bundle_t;

/* Writes the bundle beside `directory`. A cubin of an earlier bundle goes away where there is none
 * now. source: IR that goes with it as source.mlir; its data is NULL where there is none. Then puts
 * it into its place; false after an error, which has been emitted. moe__target_discard_bundle comes
 * after both, also where they failed. */
bool moe__target_stage_bundle(MlirOperation module, const char *directory, moe__bytes_t ptx,
                              moe__bytes_t cubin, moe__bytes_t source, moe__bytes_t manifest,
                              moe__staged_bundle_t *out_bundle);
bool moe__target_commit_bundle(MlirOperation module, const char *directory,
                               moe__staged_bundle_t *bundle);
void moe__target_discard_bundle(moe__staged_bundle_t *bundle);

/* Whether the folder is a candidate of an earlier run, a bundle with source.mlir, and holds nothing
 * else; false after an error, which has been emitted. */
bool moe__target_check_candidate(MlirOperation module, const char *directory);

/* Removes such a folder with its files. */
moe_status_t moe__target_remove_candidate(MlirOperation module, const char *directory);

#endif /* MOE_TARGET_TARGET_H */
