/* Reproducer.h - what moe-opt does when it fails through a fault of its own: a file that shows
 * it again, and exit code 70.
 *
 * A reproducer is MLIR text that begins with comments:
 *   // moe-opt reproducer
 *   // argument: --emit=ptx
 *   // end
 * Only arguments that say what to compile are taken from it: a file from elsewhere must not
 * choose what is run or written. The assembler, LLVM's flags and the file of line information stand
 * in it as a comment, `// with:`, and in the command that is printed. Behind the comments may be
 * bytecode instead of text.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_OPT_REPRODUCER_H
#define MOE_OPT_REPRODUCER_H

#include "lib/Driver/Text.h"
#include "tools/moe-opt/Options.h"

/* From now on a crash of the process, or a fatal error of LLVM, ends it with a reproducer. */
void reproducer_install(const options_t *options);

/* Names the source at work and what is done to it: `pipeline`, or the stage `emit`, or nothing. All
 * borrowed until the next call; name NULL: no source. */
void reproducer_watch(const char *name, const moe__text_t *text, const char *pipeline,
                      const char *emit);

/* Says that the source at work has kernels of its own. A fatal error of LLVM is then the fault
 * of the input. */
void reproducer_blame_kernels(bool has_kernels);

/* Says whether MLIR's parser has reported an error of the source. On its way back from one it may
 * crash (docs/toolchain.md): the process then says so and ends with EXIT_INPUT. */
void reproducer_excuse_parser(bool has_error);

/* Writes the reproducer of the source at work, says where it is, and exits with EXIT_BUG. */
_Noreturn void reproducer_fail(const char *what);

/* Takes the arguments of a reproducer over into the options; pipeline and stage point into
 * *storage, which the caller frees. The text becomes what is to be compiled. False: it is not a
 * reproducer, or may not do what it says, which has been said on stderr. */
bool reproducer_read(const char *name, moe__text_t *text, options_t *options, moe__text_t *storage);

#endif /* MOE_OPT_REPRODUCER_H */
