/* VerifyDiagnostics.h - compares diagnostics with the expectations that stand in the source.
 *
 *   // expected-error {{part of the message}}   at this line; also -warning, -note, -remark
 *   // expected-error@+2 {{...}}                two lines below; @-2 above
 *   // expected-error@below {{...}}             at the next line that has no expectation
 *   // expected-error@above {{...}}             at the last line that had none
 *   // expected-error@unknown {{...}}           at no place
 *
 * One expectation a line. Each stands for exactly one diagnostic: a message reported twice must be
 * expected twice. MLIR's notes "see current operation" are passed over.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_OPT_VERIFY_DIAGNOSTICS_H
#define MOE_OPT_VERIFY_DIAGNOSTICS_H

#include "moe/compiler.h"

#include <stdbool.h>

typedef struct expectation_t {
  moe_severity_t severity;
  int line;         /* that the diagnostic must have; 0: none */
  const char *part; /* of the message; points into the text */
  size_t part_length;
  int own_line, own_column; /* where the expectation stands */
  bool met;
} expectation_t;

/* The expectations of one piece of the source. */
typedef struct verifier_t {
  const char *file, *text; /* borrowed */
  expectation_t *expectations;
  size_t count;
  bool failed; /* something has been said on stderr */
} verifier_t;

/* Reads the expectations. Malformed ones are reported and count as a failure. */
void verifier_begin(verifier_t *verifier, const char *file, const char *text);

/* Takes one diagnostic; an unexpected one is reported. */
void verifier_take(verifier_t *verifier, const moe_diagnostic_t *diagnostic);

/* Reports the expectations that were not met and frees them. Whether everything was as expected. */
bool verifier_end(verifier_t *verifier);

#endif /* MOE_OPT_VERIFY_DIAGNOSTICS_H */
