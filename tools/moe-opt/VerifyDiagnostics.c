/* VerifyDiagnostics.c - compares diagnostics with the expectations that stand in the source as
 * comments.
 *
 * Why: MLIR's own verifier of diagnostics cannot be reached from C.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/VerifyDiagnostics.h"

#include "lib/Driver/Render.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MARKER[] = "expected-";

/* The line of an expectation that waits for its line: @below. */
enum { PENDING = -1 };

static void report(verifier_t *verifier, int line, int column, const char *message) {
  moe_diagnostic_t diagnostic = {.severity = MOE_ERROR,
                                 .file = verifier->file,
                                 .line = line,
                                 .column = column,
                                 .message = message};
  moe__text_t rendered = {0};
  moe__render(&rendered, &diagnostic, verifier->text);
  fputs(rendered.data, stderr);
  moe__text_free(&rendered);
  verifier->failed = true;
}

/* Where a designator puts the diagnostic. */
typedef struct target_t {
  enum { AT_OFFSET, AT_ABOVE, AT_BELOW, AT_UNKNOWN } kind;
  long offset;
} target_t;

static bool skip_word(const char **at, const char *word) {
  size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0)
    return false;
  *at += length;
  return true;
}

static bool parse_severity(const char **at, moe_severity_t *out_severity) {
#define MOE_SEVERITY(constant, number, word)                                                       \
  if (skip_word(at, word)) {                                                                       \
    *out_severity = constant;                                                                      \
    return true;                                                                                   \
  }
  MOE_SEVERITIES(MOE_SEVERITY)
#undef MOE_SEVERITY
  return false;
}

static bool parse_target(const char **at, target_t *out_target) {
  *out_target = (target_t){.kind = AT_OFFSET};
  if (!skip_word(at, "@"))
    return true;
  if (skip_word(at, "above"))
    out_target->kind = AT_ABOVE;
  else if (skip_word(at, "below"))
    out_target->kind = AT_BELOW;
  else if (skip_word(at, "unknown"))
    out_target->kind = AT_UNKNOWN;
  else {
    char *end;
    bool is_signed = **at == '+' || **at == '-';
    out_target->offset = strtol(*at, &end, 10);
    if (!is_signed || end == *at + 1 || labs(out_target->offset) > INT_MAX / 2)
      return false;
    *at = end;
  }
  return true;
}

/* Reads `error@+1 {{message}}` behind the marker, up to the end of the line. */
static bool parse_expectation(const char *at, const char *end, expectation_t *expectation,
                              target_t *out_target) {
  if (!parse_severity(&at, &expectation->severity) || !parse_target(&at, out_target))
    return false;
  at += strspn(at, " \t");
  if (!skip_word(&at, "{{") || at > end)
    return false;
  while (end > at && strchr(" \t\r", end[-1]))
    end--;
  if (end - at < 2 || memcmp(end - 2, "}}", 2) != 0)
    return false;
  expectation->part = at;
  expectation->part_length = (size_t)(end - 2 - at);
  return true;
}

static void add(verifier_t *verifier, expectation_t expectation) {
  size_t size = (verifier->count + 1) * sizeof *verifier->expectations;
  expectation_t *grown = realloc(verifier->expectations, size);
  if (!grown)
    abort();
  verifier->expectations = grown;
  verifier->expectations[verifier->count++] = expectation;
}

/* The marker in a comment of this line, or NULL. */
static const char *find_marker(const char *line, const char *end) {
  for (const char *at = line; at + 1 < end; at++) {
    if (at[0] == '/' && at[1] == '/') {
      const char *marker = memmem(at, (size_t)(end - at), MARKER, strlen(MARKER));
      return marker;
    }
  }
  return NULL;
}

void verifier_begin(verifier_t *verifier, const char *file, const char *text) {
  *verifier = (verifier_t){.file = file, .text = text};
  int line_number = 1, last_plain_line = 0;
  size_t first_pending =
      0; /* expectations from here on with line -1 wait for a plain line: @below */
  for (const char *line = text; line; line_number++) {
    const char *end = line + strcspn(line, "\n");
    const char *marker = find_marker(line, end);
    if (marker) {
      target_t target;
      expectation_t expectation = {.own_line = line_number, .own_column = (int)(marker - line) + 1};
      bool ok = parse_expectation(marker + strlen(MARKER), end, &expectation, &target);
      if (!ok || line_number + target.offset < 1) {
        report(verifier, line_number, expectation.own_column,
               "malformed expectation; the form is expected-error@+1 {{message}}");
      } else {
        expectation.line = target.kind == AT_OFFSET  ? line_number + (int)target.offset
                           : target.kind == AT_ABOVE ? last_plain_line
                           : target.kind == AT_BELOW ? PENDING
                                                     : 0;
        add(verifier, expectation);
      }
    } else {
      last_plain_line = line_number;
      for (; first_pending < verifier->count; first_pending++) {
        if (verifier->expectations[first_pending].line == PENDING)
          verifier->expectations[first_pending].line = line_number;
      }
    }
    line = *end ? end + 1 : NULL;
  }
}

static bool matches(const expectation_t *expectation, const moe_diagnostic_t *diagnostic) {
  return !expectation->met && expectation->severity == diagnostic->severity &&
         expectation->line == diagnostic->line &&
         memmem(diagnostic->message, strlen(diagnostic->message), expectation->part,
                expectation->part_length);
}

/* MLIR appends the op as a note to most diagnostics of passes; it is not worth expecting. */
static bool is_operation_note(const moe_diagnostic_t *diagnostic) {
  static const char prefix[] = "see current operation";
  return diagnostic->severity == MOE_NOTE && !strncmp(diagnostic->message, prefix, strlen(prefix));
}

void verifier_take(verifier_t *verifier, const moe_diagnostic_t *diagnostic) {
  if (is_operation_note(diagnostic))
    return;
  for (size_t i = 0; i < verifier->count; i++) {
    if (matches(&verifier->expectations[i], diagnostic)) {
      verifier->expectations[i].met = true;
      return;
    }
  }
  moe__text_t message = {0};
  moe__text_printf(&message, "unexpected %s: %s", moe_severity_text(diagnostic->severity),
                   diagnostic->message);
  report(verifier, diagnostic->line, diagnostic->column, message.data);
  moe__text_free(&message);
}

bool verifier_end(verifier_t *verifier) {
  for (size_t i = 0; i < verifier->count; i++) {
    const expectation_t *expectation = &verifier->expectations[i];
    if (expectation->met)
      continue;
    moe__text_t message = {0};
    moe__text_printf(&message, "expected %s \"%.*s\" was not produced",
                     moe_severity_text(expectation->severity), (int)expectation->part_length,
                     expectation->part);
    report(verifier, expectation->own_line, expectation->own_column, message.data);
    moe__text_free(&message);
  }
  free(verifier->expectations);
  verifier->expectations = NULL;
  verifier->count = 0;
  return !verifier->failed;
}
