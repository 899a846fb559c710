/* CustomForm.c - explains parse errors about our dialects that MLIR leaves unexplained.
 *
 * Why: a dialect defined in IRDL has no custom syntax. MLIR's parser rejects `mx_quantize.quantize
 * %w` without a word, and everybody who has read MLIR writes that first.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Dialects.h"
#include "lib/Driver/Driver.h"
#include "lib/Driver/Render.h"

#include <ctype.h>
#include <string.h>

static bool is_name_character(char c) {
  return isalnum((unsigned char)c) || strchr("_$.-", c);
}

static size_t name_length(const char *text) {
  size_t length = 0;
  while (text[length] && is_name_character(text[length]))
    length++;
  return length;
}

/* Whether `name` begins with the name of one of our dialects and a dot. */
static const moe_dialect_info_t *find_dialect(const char *name, size_t length) {
  for (size_t i = 0; i < moe__num_dialects; i++) {
    size_t prefix = strlen(moe__dialects[i].name);
    if (length > prefix + 1 && name[prefix] == '.' && !memcmp(name, moe__dialects[i].name, prefix))
      return &moe__dialects[i];
  }
  return NULL;
}

void moe__explain_silent_failure(moe_compiler_t *compiler) {
  const moe__source_t *source = &compiler->source;
  const char *text = source->text;
  for (size_t i = 0; text[i];) {
    if (text[i] == '/' && text[i + 1] == '/') {
      i += strcspn(text + i, "\n");
    } else if (text[i] == '"') {
      for (i++; text[i] && text[i] != '"' && text[i] != '\n'; i++)
        i += text[i] == '\\' && text[i + 1];
      i += text[i] == '"';
    } else if (strchr("%@#!^", text[i])) {
      i += 1 + name_length(text + i + 1);
    } else if (is_name_character(text[i])) {
      size_t length = name_length(text + i);
      if (find_dialect(text + i, length) &&
          mlirContextIsRegisteredOperation(compiler->context,
                                           mlirStringRefCreate(text + i, length))) {
        moe__report_at(compiler, MOE_ERROR, source, i,
                       "'%.*s' has no custom syntax; write the generic form: "
                       "\"%.*s\"(operands) {attributes} : (operand types) -> (result types)",
                       (int)length, text + i, (int)length, text + i);
        return;
      }
      i += length;
    } else {
      i++;
    }
  }
  moe__report(compiler, MOE_ERROR, source, 0, 0, "MLIR cannot parse this and does not say why");
}

/* Appends the full names of a dialect's ops, each with its NUL. */
static void list_ops(const moe_dialect_info_t *dialect, moe__text_t *out_names) {
  static const char marker[] = "irdl.operation @";
  for (const char *op = dialect->text; (op = strstr(op, marker));) {
    op += strlen(marker);
    moe__text_printf(out_names, "%s.%.*s", dialect->name, (int)name_length(op), op);
    moe__text_append(out_names, "", 1);
  }
}

/* The dialect whose name is nearest to that of an op; NULL where none is near. */
static const moe_dialect_info_t *nearest_dialect(const char *name, size_t length) {
  const char *dot = memchr(name, '.', length);
  if (!dot)
    return NULL;
  moe__text_t word = {0};
  moe__text_append(&word, name, (size_t)(dot - name));
  moe__nearest_t nearest = {.word = word.data};
  const moe_dialect_info_t *found = NULL;
  for (size_t i = 0; i < moe__num_dialects; i++) {
    moe__nearest_offer(&nearest, moe__dialects[i].name);
    if (nearest.best == moe__dialects[i].name)
      found = &moe__dialects[i];
  }
  moe__text_free(&word);
  return found;
}

/* The name of the op that an error is about, of *out_length; NULL where there is none. */
static const char *unknown_op(const moe_compiler_t *compiler, const char *message, int line,
                              int column, size_t *out_length) {
  static const char *const before[] = {"custom op '", "unregistered operation '",
                                       "not found for custom op '"};
  for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
    const char *found = strstr(message, before[i]);
    if (found) {
      *out_length = name_length(found + strlen(before[i]));
      return found + strlen(before[i]);
    }
  }
  /* This one does not say the name; it stands in quotes before the place. */
  static const char dialect[] = "operation being parsed with an unregistered dialect";
  const char *text = compiler->source.text ? moe__find_line(compiler->source.text, line) : NULL;
  if (strncmp(message, dialect, strlen(dialect)) != 0 || !text || column < 1 ||
      (size_t)column > strcspn(text, "\n"))
    return NULL;
  const char *end = text + column - 1;
  while (end > text && *end != '"')
    end--;
  const char *start = end;
  while (start > text && start[-1] != '"')
    start--;
  *out_length = (size_t)(end - start);
  return start;
}

void moe__explain_unknown_op(moe_compiler_t *compiler, const char *message, int line, int column) {
  size_t length = 0;
  const char *op = unknown_op(compiler, message, line, column, &length);
  const moe_dialect_info_t *dialect = op ? find_dialect(op, length) : NULL;
  if (op && !dialect)
    dialect = nearest_dialect(op, length);
  if (!dialect)
    return;

  moe__text_t word = {0}, names = {0}, list = {0};
  const char *dot = memchr(op, '.', length);
  moe__text_printf(&word, "%s%.*s", dialect->name, (int)(op + length - dot), dot);
  list_ops(dialect, &names);
  moe__nearest_t nearest = {.word = word.data};
  for (size_t i = 0; i < names.length; i += strlen(names.data + i) + 1) {
    moe__nearest_offer(&nearest, names.data + i);
    moe__text_printf(&list, "%s%s", list.length ? ", " : "", names.data + i);
  }
  if (nearest.best)
    moe__report(compiler, MOE_NOTE, &compiler->source, line, column, "did you mean \"%s\"(...)?",
                nearest.best);
  else
    moe__report(compiler, MOE_NOTE, &compiler->source, line, column, "the ops of %s are %s",
                dialect->name, list.length ? list.data : "none");
  moe__text_free(&word);
  moe__text_free(&names);
  moe__text_free(&list);
}

/* The names of attributes in the braces that follow the op at `text`, each with its NUL. */
static void list_attributes(const char *text, moe__text_t *out_names) {
  int depth = 0;
  for (size_t i = 0; text[i] && !(depth == 0 && text[i] == ':'); i++) {
    if (text[i] == '"') {
      for (i++; text[i] && text[i] != '"'; i++)
        i += text[i] == '\\' && text[i + 1];
      if (!text[i])
        return;
    }
    depth += (text[i] == '{') - (text[i] == '}');
    bool begins = isalpha((unsigned char)text[i]) && !is_name_character(text[i - 1]);
    size_t length = begins ? name_length(text + i) : 0;
    if (depth == 1 && length && text[i + length + strspn(text + i + length, " ")] == '=') {
      moe__text_append(out_names, text + i, length);
      moe__text_append(out_names, "", 1);
    }
    i += length ? length - 1 : 0;
  }
}

void moe__explain_missing_attribute(moe_compiler_t *compiler, const char *message, int line,
                                    int column) {
  static const char before[] = "op attribute \"", after[] = "\" is expected but not provided";
  const char *name = strstr(message, before);
  const char *end = name ? strstr(name, after) : NULL;
  const char *text = compiler->source.text ? moe__find_line(compiler->source.text, line) : NULL;
  if (!end || !text || column < 1 || (size_t)column > strcspn(text, "\n"))
    return;
  name += strlen(before);
  moe__text_t word = {0}, names = {0};
  moe__text_append(&word, name, (size_t)(end - name));
  moe__nearest_t nearest = {.word = word.data};
  list_attributes(text + column - 1, &names);
  for (size_t i = 0; i < names.length; i += strlen(names.data + i) + 1)
    moe__nearest_offer(&nearest, names.data + i);
  if (nearest.best)
    moe__report(compiler, MOE_NOTE, &compiler->source, line, column, "did you mean '%s' by '%s'?",
                word.data, nearest.best);
  moe__text_free(&word);
  moe__text_free(&names);
}
