/* LlvmFlags.c - hands flags to LLVM.
 *
 * Why a child process: LLVM's C API swallows unknown flags without a word, and the only list of the
 * known ones is what --help-list-hidden prints before it ends the process. A typo must not pass
 * silently.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/LlvmFlags.h"

#include "lib/Driver/Text.h"
#include "tools/moe-opt/Options.h"

#include <llvm-c/Support.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Name of the program in LLVM's help. */
static const char PROGRAM[] = "moe-opt --llvm";

static _Noreturn void print_flags(int pipe_end) {
  dup2(pipe_end, STDOUT_FILENO);
  const char *const arguments[] = {PROGRAM, "--help-list-hidden"};
  LLVMParseCommandLineOptions(2, arguments, "");
  _exit(EXIT_BUG); /* LLVM has ended the process by now */
}

/* What --help-list-hidden prints; empty where the child cannot be run. */
static void read_flags(moe__text_t *out_list) {
  int ends[2];
  moe__text_put(out_list, "");
  fflush(stdout);
  if (pipe(ends) != 0)
    return;
  pid_t child = fork();
  if (child == 0)
    print_flags(ends[1]);
  close(ends[1]);
  char buffer[1 << 14];
  for (ssize_t length; child > 0 && (length = read(ends[0], buffer, sizeof buffer)) > 0;)
    moe__text_append(out_list, buffer, (size_t)length);
  close(ends[0]);
  if (child > 0)
    waitpid(child, NULL, 0);
}

/* Whether the list has the flag; else *out_nearest, which the caller frees, is one like it, or
 * NULL. Lines look like "  --name=<uint> - What it does". */
static bool has_flag(const moe__text_t *list, const char *name, char **out_nearest) {
  char *copy = moe__copy(list->data, list->length);
  moe__nearest_t nearest = {.word = name};
  char *rest = NULL;
  bool found = false;
  for (char *line = strtok_r(copy, "\n", &rest); line && !found;
       line = strtok_r(NULL, "\n", &rest)) {
    line += strspn(line, " ");
    if (*line != '-')
      continue;
    line += strspn(line, "-");
    line[strcspn(line, "=[< ")] = '\0';
    moe__nearest_offer(&nearest, line);
    found = !strcmp(line, name);
  }
  *out_nearest = moe__copy_string(nearest.best);
  free(copy);
  return found;
}

static void check_flag(const moe__text_t *list, const char *word) {
  size_t dashes = strspn(word, "-");
  char *name = moe__copy(word + dashes, strcspn(word + dashes, "="));
  char *nearest;
  bool found = has_flag(list, name, &nearest);
  if (!found && dashes)
    options_fail("--llvm: LLVM has no flag '%s'%s%s%s", word, nearest ? "; did you mean '--" : "",
                 nearest ? nearest : "", nearest ? "'?" : "");
  if (!dashes)
    options_fail("--llvm: '%s' is not a flag; write values as --flag=value", word);
  free(nearest);
  free(name);
}

void llvm_flags_parse(const char *text) {
  char *words = moe__copy_string(text);
  const char **arguments = moe__allocate((strlen(text) + 2) * sizeof *arguments);
  int count = 0;
  arguments[count++] = PROGRAM;
  char *rest = NULL;
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    arguments[count++] = word;

  moe__text_t list = {0};
  read_flags(&list);
  for (int i = 1; i < count && list.length; i++)
    check_flag(&list, arguments[i]);
  LLVMParseCommandLineOptions(count, arguments, "");
  moe__text_free(&list);
  free(arguments);
  free(words);
}
