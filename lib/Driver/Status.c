/* Status.c - the texts of the enumerations in moe/compiler.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/compiler.h"

const char *moe_status_text(moe_status_t status) {
  switch (status) {
#define MOE_STATUS(constant, number, text)                                                         \
  case constant:                                                                                   \
    return text;
    MOE_STATUSES(MOE_STATUS)
#undef MOE_STATUS
  }
  return "unknown status";
}

const char *moe_severity_text(moe_severity_t severity) {
  switch (severity) {
#define MOE_SEVERITY(constant, number, word)                                                       \
  case constant:                                                                                   \
    return word;
    MOE_SEVERITIES(MOE_SEVERITY)
#undef MOE_SEVERITY
  }
  return "unknown severity";
}

const char *moe_compiler_version(void) {
  return MOE_VERSION;
}
