/* Verify.c - checks what the ops of the project's dialects mean; IRDL has checked how they are
 * built. The rules are in lib/Dialect.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Verify.h"
#include "lib/Builder/Inspect.h"
#include "passes/Passes.h"

static bool verify(MlirOperation op, void *user) {
  (void)user;
  return moe__verify_op(op);
}

bool moe__pass_verify(MlirOperation module, const moe__pass_t *pass) {
  (void)pass;
  return moe__walk(module, verify, NULL);
}
