/* Names.c - the names of roles and element types. Apart from Dialect.c, since the program that
 * prints the IRDL text is built without MLIR.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Row.h"

const char *moe__role_name(moe__role_t role) {
  static const char *const NAMES[] = {[MOE__NO_ROLE] = NULL,
#define MOE__ROLE(symbol, name) [MOE__##symbol] = (name),
                                      MOE__ROLES(MOE__ROLE)
#undef MOE__ROLE
  };
  return NAMES[role];
}

const char *moe__dtype_name(moe__dtype_t dtype) {
  static const char *const NAMES[] = {
      [MOE__NO_DTYPE] = NULL,
#define MOE_DTYPE(symbol, name, bits, dlpack, safetensors) [MOE__DTYPE_##symbol] = (name),
#include "moe/dtypes.def"
  };
  return NAMES[dtype];
}
