/* SafePasses.c - see SafePasses.h.
 *
 * Why a list of what may run: MLIR has hundreds of passes, and the next version has more. One
 * that nobody has looked at is refused.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/SafePasses.h"

#include "moe/compiler.h"

#include <string.h>

/* Passes of MLIR that take neither a file nor a program nor another pipeline, besides those of
 * the stages. */
static const char *const upstream[] = {
    "arith-expand",
    "arith-unsigned-when-equivalent",
    "control-flow-sink",
    "convert-func-to-llvm",
    "convert-gpu-to-nvvm",
    "convert-index-to-llvm",
    "convert-math-to-llvm",
    "convert-vector-to-llvm",
    "expand-strided-metadata",
    "int-range-optimizations",
    "lift-cf-to-scf",
    "linalg-fold-unit-extent-dims",
    "linalg-generalize-named-ops",
    "loop-invariant-code-motion",
    "loop-invariant-subset-hoisting",
    "lower-affine",
    "mem2reg",
    "remove-dead-values",
    "scf-for-loop-canonicalization",
    "sccp",
    "sroa",
    "strip-debuginfo",
    "symbol-dce",
    "symbol-privatize",
    "topological-sort",
};

static const char punctuation[] = ",(){} \t\r\n";

/* Whether a word of the text is the name. */
static bool has_word(const char *text, const char *name, size_t length) {
  while (*text) {
    text += strspn(text, punctuation);
    size_t word = strcspn(text, punctuation);
    if (word == length && !memcmp(text, name, length))
      return true;
    text += word;
  }
  return false;
}

static bool is_safe(const char *name, size_t length) {
  size_t count;
  const moe_pass_info_t *own = moe_compiler_passes(&count);
  for (size_t i = 0; i < count; i++)
    if (has_word(own[i].argument, name, length))
      return true;
  const moe_stage_info_t *stages = moe_compiler_stages(&count);
  for (size_t i = 0; i < count; i++)
    if (stages[i].passes && has_word(stages[i].passes, name, length))
      return true;
  for (size_t i = 0; i < sizeof upstream / sizeof upstream[0]; i++)
    if (has_word(upstream[i], name, length))
      return true;
  return false;
}

/* From "{" to behind its "}", or to the end of the text. */
static const char *behind_options(const char *text) {
  int depth = 0;
  do {
    depth += (*text == '{') - (*text == '}');
    text += *text != '\0';
  } while (depth && *text);
  return text;
}

bool safe_passes_are_all(const char *pipeline, moe__text_t *out_name) {
  const char *at = pipeline;
  while (*at) {
    if (*at == '{') {
      at = behind_options(at);
      continue;
    }
    size_t length = strcspn(at, punctuation);
    const char *next = at + length + strspn(at + length, " \t\r\n");
    /* What has a list in parentheses is an operation. */
    if (length && *next != '(' && !is_safe(at, length)) {
      moe__text_append(out_name, at, length);
      return false;
    }
    at += length ? length : 1;
  }
  return true;
}
