/* Pipeline.c - pipeline text to pass manager, with passes of ours and of MLIR mixed at any depth.
 *
 * Why: passes made through MLIR's C API cannot be registered for MLIR's own pipeline parser. This
 * one builds the nesting and our passes, and hands every other element to MLIR.
 *
 *   pipeline := "builtin.module" "(" [list] ")"
 *   list     := element { "," element }
 *   element  := pass [ "{" options "}" ]  |  op "(" [list] ")"
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"

#include <mlir-c/RegisterEverything.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Nobody nests operations deeper; the parser recurses. */
enum { DEEPEST_NESTING = 64 };

static const char ROOT[] = "builtin.module";

typedef struct parser_t {
  moe_compiler_t *compiler;
  moe__source_t source;
  size_t at; /* offset of what is read next */
  int depth;
} parser_t;

void moe__register_upstream_passes(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, mlirRegisterAllPasses);
}

static void skip_spaces(parser_t *parser) {
  parser->at += strspn(parser->source.text + parser->at, " \t\r\n");
}

static bool peek(const parser_t *parser, char c) {
  return parser->source.text[parser->at] == c;
}

/* Reads a name and the spaces around it. *out_start is its offset. The caller frees. */
static char *read_name(parser_t *parser, size_t *out_start) {
  skip_spaces(parser);
  *out_start = parser->at;
  const char *name = parser->source.text + parser->at;
  size_t length = strcspn(name, ",(){} \t\r\n");
  parser->at += length;
  skip_spaces(parser);
  return moe__copy(name, length);
}

/* Moves behind the options, from "{" to its "}". */
static bool skip_options(parser_t *parser) {
  size_t start = parser->at;
  int depth = 0;
  do {
    char c = parser->source.text[parser->at];
    if (!c) {
      moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start,
                     "this '{' is never closed");
      return false;
    }
    depth += (c == '{') - (c == '}');
    parser->at++;
  } while (depth);
  return true;
}

static size_t find_own_pass(const char *name) {
  size_t pass = 0;
  while (pass < moe__num_passes && strcmp(moe__passes[pass].argument, name) != 0)
    pass++;
  return pass;
}

/* Offers the passes that we know by name: ours, and those of the stages. */
static const char *nearest_pass(const char *word, char **out_storage) {
  moe__text_t names = {0};
  for (size_t i = 0; i < moe__num_passes; i++)
    moe__text_printf(&names, "%s,", moe__passes[i].argument);
  for (size_t i = 0; i < moe__num_stages; i++) {
    if (moe__stages[i].passes)
      moe__text_printf(&names, "%s,", moe__stages[i].passes);
  }
  moe__nearest_t nearest = {.word = word};
  char *rest = NULL;
  for (char *name = strtok_r(names.data, ",()", &rest); name; name = strtok_r(NULL, ",()", &rest))
    moe__nearest_offer(&nearest, name);
  *out_storage = names.data;
  return nearest.best;
}

static void report_unknown_pass(parser_t *parser, size_t start, const char *name) {
  char *storage;
  const char *nearest = nearest_pass(name, &storage);
  moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start, "'%s' is not a pass%s%s%s",
                 name, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                 nearest ? "'?" : "");
  free(storage);
}

static size_t find_option(size_t pass, const char *name, size_t length) {
  size_t i = 0;
  for (; i < moe__num_pass_options; i++) {
    const moe_pass_option_info_t *option = &moe__pass_options[i];
    if (option->pass == pass && strlen(option->name) == length &&
        !memcmp(option->name, name, length))
      break;
  }
  return i;
}

static void report_unknown_option(parser_t *parser, size_t pass, const char *name, size_t length) {
  moe__text_t word = {0}, list = {0};
  moe__text_append(&word, name, length);
  moe__nearest_t nearest = {.word = word.data};
  for (size_t i = 0; i < moe__num_pass_options; i++) {
    if (moe__pass_options[i].pass != pass)
      continue;
    moe__nearest_offer(&nearest, moe__pass_options[i].name);
    moe__text_printf(&list, "%s%s", list.length ? ", " : "", moe__pass_options[i].name);
  }
  size_t offset = (size_t)(name - parser->source.text);
  const char *argument = moe__passes[pass].argument;
  if (nearest.best)
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, offset,
                   "%s has no option '%s'; did you mean '%s'?", argument, word.data, nearest.best);
  else if (list.length)
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, offset,
                   "%s has no option '%s'; it has %s", argument, word.data, list.data);
  else
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, offset, "%s has no options",
                   argument);
  moe__text_free(&word);
  moe__text_free(&list);
}

/* Reads "name=value name=value" between two offsets into values, which the caller frees. */
static bool parse_options(parser_t *parser, size_t pass, size_t from, size_t to, char **values) {
  const char *text = parser->source.text;
  for (size_t at = from; at < to;) {
    at += strspn(text + at, " \t\r\n");
    if (at >= to)
      break;
    size_t name_length = strcspn(text + at, "= \t\r\n}");
    size_t option = find_option(pass, text + at, name_length);
    if (option == moe__num_pass_options) {
      report_unknown_option(parser, pass, text + at, name_length);
      return false;
    }
    size_t equals = at + name_length;
    size_t value_length = text[equals] == '=' ? strcspn(text + equals + 1, " \t\r\n}") : 0;
    if (!value_length || values[option]) {
      moe__report_at(parser->compiler, MOE_ERROR, &parser->source, at,
                     values[option] ? "option '%s' is given twice"
                                    : "option '%s' needs a value: name=value",
                     moe__pass_options[option].name);
      return false;
    }
    values[option] = moe__copy(text + equals + 1, value_length);
    at = equals + 1 + value_length;
  }
  return true;
}

static bool add_own_pass(parser_t *parser, MlirOpPassManager manager, const char *anchor,
                         size_t pass, size_t start, size_t options_from, size_t options_to) {
  if (strcmp(anchor, ROOT) != 0) {
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start, "%s runs on %s, not on %s",
                   moe__passes[pass].argument, ROOT, anchor);
    return false;
  }
  char **values = calloc(moe__num_pass_options + 1, sizeof *values);
  if (!values)
    abort();
  bool ok = parse_options(parser, pass, options_from, options_to, values);
  if (ok)
    mlirOpPassManagerAddOwnedPass(
        manager, moe__pass_create(parser->compiler, pass, (const char *const *)values));
  for (size_t i = 0; i < moe__num_pass_options; i++)
    free(values[i]);
  free(values);
  return ok;
}

/* What MLIR says, without the words around it: "MLIR Textual PassPipeline Parser:1:1: error:
 * MESSAGE\n...". */
static char *tidy_message(const char *message) {
  static const char marker[] = "error: ", options[] = "<Pass-Options-Parser>: ";
  const char *found = strstr(message, marker);
  if (found)
    message = found + strlen(marker);
  if (!strncmp(message, options, strlen(options)))
    message += strlen(options);
  message += strspn(message, "\n");
  return moe__copy(message, strcspn(message, "\n"));
}

static bool add_upstream_pass(parser_t *parser, MlirOpPassManager manager, const char *name,
                              size_t start) {
  moe__register_upstream_passes();
  moe__text_t message = {0};
  moe__text_put(&message, "");
  MlirStringRef element = mlirStringRefCreate(parser->source.text + start, parser->at - start);
  if (mlirLogicalResultIsSuccess(
          mlirOpPassManagerAddPipeline(manager, element, moe__append_ref, &message))) {
    moe__text_free(&message);
    return true;
  }
  if (strstr(message.data, "does not refer to a registered pass")) {
    report_unknown_pass(parser, start, name);
  } else {
    char *tidy = tidy_message(message.data);
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start, "%s",
                   *tidy ? tidy : "MLIR does not accept this");
    free(tidy);
  }
  moe__text_free(&message);
  return false;
}

/* A pass manager nested under the name of an op that no dialect has would never run. */
static bool check_anchor(parser_t *parser, size_t start, const char *name) {
  size_t prefix = strcspn(name, ".");
  mlirContextGetOrLoadDialect(parser->compiler->context, mlirStringRefCreate(name, prefix));
  if (!strcmp(name, "any") ||
      mlirContextIsRegisteredOperation(parser->compiler->context, moe__ref(name)))
    return true;
  moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start,
                 "'%s' is not an operation that passes could run on", name);
  return false;
}

static bool parse_list(parser_t *parser, MlirOpPassManager manager, const char *anchor);

static bool parse_nest(parser_t *parser, MlirOpPassManager manager, size_t start,
                       const char *name) {
  if (parser->depth == DEEPEST_NESTING) {
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start, "nested deeper than %d",
                   DEEPEST_NESTING);
    return false;
  }
  if (!check_anchor(parser, start, name))
    return false;
  parser->depth++;
  bool ok = parse_list(parser, mlirOpPassManagerGetNestedUnder(manager, moe__ref(name)), name);
  parser->depth--;
  return ok;
}

static bool parse_element(parser_t *parser, MlirOpPassManager manager, const char *anchor) {
  size_t start;
  char *name = read_name(parser, &start);
  bool ok = false;
  if (!*name) {
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start,
                   "the name of a pass is missing");
  } else if (peek(parser, '(')) {
    ok = parse_nest(parser, manager, start, name);
  } else {
    size_t options = parser->at;
    ok = !peek(parser, '{') || skip_options(parser);
    bool has_options = parser->at > options;
    size_t pass = find_own_pass(name);
    if (ok && pass < moe__num_passes)
      ok = add_own_pass(parser, manager, anchor, pass, start, options + has_options,
                        parser->at - has_options);
    else if (ok)
      ok = add_upstream_pass(parser, manager, name, start);
    skip_spaces(parser);
  }
  free(name);
  return ok;
}

/* Reads "(list)". */
static bool parse_list(parser_t *parser, MlirOpPassManager manager, const char *anchor) {
  size_t open = parser->at++;
  skip_spaces(parser);
  if (!peek(parser, ')')) {
    while (true) {
      if (!parse_element(parser, manager, anchor))
        return false;
      if (!peek(parser, ','))
        break;
      parser->at++;
    }
  }
  if (!peek(parser, ')')) {
    if (peek(parser, '\0'))
      moe__report_at(parser->compiler, MOE_ERROR, &parser->source, open,
                     "this '(' is never closed");
    else
      moe__report_at(parser->compiler, MOE_ERROR, &parser->source, parser->at,
                     "expected ',' or ')'");
    return false;
  }
  parser->at++;
  skip_spaces(parser);
  return true;
}

static bool parse_root(parser_t *parser, MlirPassManager manager) {
  size_t start;
  char *root = read_name(parser, &start);
  bool is_root = !strcmp(root, ROOT) && peek(parser, '(');
  free(root);
  if (!is_root) {
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, start,
                   "a pipeline has the form %s(pass,pass{option=value},op(pass))", ROOT);
    return false;
  }
  if (!parse_list(parser, mlirPassManagerGetAsOpPassManager(manager), ROOT))
    return false;
  if (!peek(parser, '\0')) {
    moe__report_at(parser->compiler, MOE_ERROR, &parser->source, parser->at,
                   "text behind the end of the pipeline");
    return false;
  }
  return true;
}

MlirPassManager moe__pipeline_parse(moe_compiler_t *compiler, const char *pipeline) {
  parser_t parser = {.compiler = compiler, .source = {"<pipeline>", pipeline}};
  MlirPassManager manager = mlirPassManagerCreateOnOperation(compiler->context, moe__ref(ROOT));
  if (!parse_root(&parser, manager)) {
    mlirPassManagerDestroy(manager);
    return (MlirPassManager){NULL};
  }
  return manager;
}
