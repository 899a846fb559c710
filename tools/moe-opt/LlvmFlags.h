/* LlvmFlags.h - hands flags to LLVM.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_OPT_LLVM_FLAGS_H
#define MOE_OPT_LLVM_FLAGS_H

/* Gives LLVM flags that are separated by spaces. Exits with EXIT_USAGE where LLVM has no flag of
 * that name; --help among them prints LLVM's flags and exits. A value that LLVM does not like goes
 * unnoticed: its C API says nothing. */
void llvm_flags_parse(const char *text);

#endif /* MOE_OPT_LLVM_FLAGS_H */
