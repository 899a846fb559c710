/* Diagnostics.c - takes MLIR's diagnostics, and ours, to the callback of the compiler.
 *
 * Why: MLIR's C API hands diagnostics to a handler and prints nothing itself; and errors in a
 * pipeline or an option should look the same.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"
#include "lib/Driver/Render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char moe__text_name[] = "-";

typedef struct place_t {
  MlirStringRef file;
  int line, column;
} place_t;

void moe__append_ref(MlirStringRef string, void *text) {
  moe__text_append(text, string.data, string.length);
}

/* Finds the first file location inside a location. */
static bool find_place(MlirLocation location, place_t *out_place) {
  if (mlirLocationIsAFileLineColRange(location)) {
    *out_place = (place_t){
        mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(location)),
        mlirLocationFileLineColRangeGetStartLine(location),
        mlirLocationFileLineColRangeGetStartColumn(location),
    };
    return true;
  }
  if (mlirLocationIsAName(location))
    return find_place(mlirLocationNameGetChildLoc(location), out_place);
  if (mlirLocationIsACallSite(location))
    return find_place(mlirLocationCallSiteGetCallee(location), out_place) ||
           find_place(mlirLocationCallSiteGetCaller(location), out_place);
  if (!mlirLocationIsAFused(location))
    return false;
  unsigned count = mlirLocationFusedGetNumLocations(location);
  MlirLocation *parts = moe__allocate(count * sizeof *parts);
  mlirLocationFusedGetLocations(location, parts);
  bool found = false;
  for (unsigned i = 0; i < count && !found; i++)
    found = find_place(parts[i], out_place);
  free(parts);
  return found;
}

static bool is_named(MlirStringRef file, const char *name) {
  return mlirStringRefEqual(file, moe__ref(name));
}

bool moe__is_in_file(MlirLocation location, const char *file) {
  return mlirLocationIsAFileLineColRange(location) &&
         is_named(mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(location)), file);
}

const char *moe__text_at(const moe__source_t *source, MlirLocation location, moe__line_t *line) {
  place_t place;
  if (!source->name || !find_place(location, &place) || !is_named(place.file, moe__text_name))
    return NULL;
  if (line->number != place.line) {
    bool goes_on = line->number && line->number < place.line;
    const char *start = goes_on ? moe__find_line(line->start, place.line - line->number + 1)
                                : moe__find_line(source->text, place.line);
    if (!start)
      return NULL;
    *line = (moe__line_t){place.line, start, strcspn(start, "\n")};
  }
  if (place.column < 1 || (size_t)place.column > line->length + 1)
    return NULL;
  return line->start + place.column - 1;
}

/* `text` is what the place points into, or NULL. */
static void deliver(moe_compiler_t *compiler, moe_diagnostic_t diagnostic, const char *text) {
  moe__text_t rendered = {0};
  moe__render(&rendered, &diagnostic, text);
  diagnostic.rendered = rendered.data;
  if (diagnostic.severity == MOE_ERROR)
    compiler->num_errors++;
  if (compiler->options.on_diagnostic)
    compiler->options.on_diagnostic(&diagnostic, compiler->options.user);
  else
    fputs(rendered.data, stderr);
  moe__text_free(&rendered);
}

static void report_list(moe_compiler_t *compiler, moe_severity_t severity,
                        const moe__source_t *source, int line, int column, const char *format,
                        va_list arguments) {
  moe__text_t message = {0};
  moe__text_vprintf(&message, format, arguments);
  moe_diagnostic_t diagnostic = {.severity = severity,
                                 .file = source ? source->name : NULL,
                                 .line = line,
                                 .column = line ? column : 0,
                                 .message = message.data};
  deliver(compiler, diagnostic, source ? source->text : NULL);
  moe__text_free(&message);
}

void moe__report(moe_compiler_t *compiler, moe_severity_t severity, const moe__source_t *source,
                 int line, int column, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  report_list(compiler, severity, source, line, column, format, arguments);
  va_end(arguments);
}

void moe__report_at(moe_compiler_t *compiler, moe_severity_t severity, const moe__source_t *source,
                    size_t offset, const char *format, ...) {
  int line = 1, column = 1;
  for (size_t i = 0; i < offset && source->text[i]; i++) {
    column = source->text[i] == '\n' ? 1 : column + 1;
    line += source->text[i] == '\n';
  }
  va_list arguments;
  va_start(arguments, format);
  report_list(compiler, severity, source, line, column, format, arguments);
  va_end(arguments);
}

static moe_severity_t severity_of(MlirDiagnostic diagnostic) {
  switch (mlirDiagnosticGetSeverity(diagnostic)) {
  case MlirDiagnosticWarning:
    return MOE_WARNING;
  case MlirDiagnosticNote:
    return MOE_NOTE;
  case MlirDiagnosticRemark:
    return MOE_REMARK;
  case MlirDiagnosticError:
    break;
  }
  return MOE_ERROR;
}

/* MLIR's verifier repeats the op in a note. While the source is parsed its line has just been
 * shown. */
static bool repeats_operation(const char *message) {
  static const char prefix[] = "see current operation";
  return !strncmp(message, prefix, strlen(prefix));
}

/* Finds where a diagnostic points. A line of line information is no place: its file is written only
 * when all went well. */
static bool find_shown_place(const moe_compiler_t *compiler, MlirLocation location,
                             place_t *out_place) {
  const char *lines = compiler->options.line_info;
  return find_place(location, out_place) && !(lines && is_named(out_place->file, lines));
}

MlirLogicalResult moe__handle_diagnostic(MlirDiagnostic mlir_diagnostic, void *user) {
  moe_compiler_t *compiler = user;
  moe__text_t message = {0}, file = {0};
  moe__text_put(&message, "");
  mlirDiagnosticPrint(mlir_diagnostic, moe__append_ref, &message);
  while (message.length && strchr(" \n", message.data[message.length - 1]))
    message.data[--message.length] = '\0';

  moe_diagnostic_t diagnostic = {.severity = severity_of(mlir_diagnostic), .message = message.data};
  const char *text = NULL;
  place_t place;
  if (find_shown_place(compiler, mlirDiagnosticGetLocation(mlir_diagnostic), &place)) {
    bool in_source = compiler->source.name && is_named(place.file, moe__text_name);
    if (in_source)
      moe__text_put(&file, compiler->source.name);
    else
      moe__text_append(&file, place.file.data, place.file.length);
    text = in_source ? compiler->source.text : NULL;
    diagnostic.file = file.data;
    diagnostic.line = place.line;
    diagnostic.column = place.column;
  } else {
    diagnostic.file = compiler->source.name;
  }
  if (!(compiler->parsing && diagnostic.severity == MOE_NOTE && repeats_operation(message.data))) {
    deliver(compiler, diagnostic, text);
    if (compiler->parsing && diagnostic.severity == MOE_ERROR) {
      moe__explain_unknown_op(compiler, message.data, diagnostic.line, diagnostic.column);
      moe__explain_missing_attribute(compiler, message.data, diagnostic.line, diagnostic.column);
    }
  }
  moe__text_free(&message);
  moe__text_free(&file);

  for (intptr_t i = 0; i < mlirDiagnosticGetNumNotes(mlir_diagnostic); i++)
    moe__handle_diagnostic(mlirDiagnosticGetNote(mlir_diagnostic, i), user);
  return mlirLogicalResultSuccess();
}
