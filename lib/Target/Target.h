/* Target.h - from the LLVM dialect to what a launcher loads: PTX, cubin, manifest, bundle.
 *
 * Errors are emitted at the location of the module or kernel they concern; a MOE_INTERNAL status
 * means that this project, not its user, is at fault.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TARGET_TARGET_H
#define MOE_TARGET_TARGET_H

#include "moe/compiler.h"

#include "mlir-c/IR.h"

#include <stddef.h>

/* Bytes owned by whoever holds the struct (malloc). NULL data: there are none. */
typedef struct moe__bytes_t {
  char *data;
  size_t length;
} moe__bytes_t;

typedef struct moe__target_options_t {
  const char *chip;  /* "sm_90a" */
  int opt_level;     /* of LLVM, 0..3 */
  const char *ptxas; /* path, NULL: search */
} moe__target_options_t;

/* PTX of the kernels of a module in stage llvm; all gpu.modules go into one text. */
moe_status_t moe__target_emit_ptx(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t *out_ptx);

/* The cubin of the PTX, by a ptxas subprocess. MOE_OK with NULL data where there is none.
 * *out_assembler: its version, owned by the caller. Warnings that mean wrong or slow code (C75xx,
 * spills, local memory) are errors. */
moe_status_t moe__target_assemble(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t *out_cubin, char **out_assembler);

/* The ptxas to use: `path` if given and executable, else the first of the project's own, PATH and
 * the CUDA toolkit. Static storage; NULL if there is none. */
const char *moe__ptxas_find(const char *path);

/* The manifest (docs/manifest.md) of a module in stage llvm and its artifacts. */
moe_status_t moe__target_manifest(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t cubin, const char *assembler,
                                  moe__bytes_t *out_json);

/* Writes the bundle. The files appear complete or not at all; a cubin of an earlier bundle is
 * removed where there is none now. source: IR that goes with it as source.mlir; its data is NULL where
 * there is none. */
moe_status_t moe__target_write_bundle(MlirOperation module, const char *directory, moe__bytes_t ptx,
                                      moe__bytes_t cubin, moe__bytes_t source,
                                      moe__bytes_t manifest);

/* Removes the files that moe__target_write_bundle writes, and the folder. What is not there is no
 * error; what else is there is. */
moe_status_t moe__target_remove_bundle(MlirOperation module, const char *directory);

#endif /* MOE_TARGET_TARGET_H */
