/* Ptxas.c - PTX to cubin, by a ptxas subprocess.
 *
 * Why its warnings are errors: ptxas returns success where it dropped a setmaxnreg, serialized
 * wgmma or spilled registers, and says so in text only. Such code is wrong or slow, and nobody
 * reads the text of a build.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *moe__ptxas_find(const char *path) {
  static _Thread_local char found[PATH_MAX];
  if (path)
    return access(path, X_OK) == 0 ? path : NULL;
  const char *search = getenv("PATH");
  char folders[8192];
  snprintf(folders, sizeof folders, "%s:%s:/usr/local/cuda/bin", MOE_PTXAS_DIR,
           search ? search : "");
  char *state = NULL;
  for (char *folder = strtok_r(folders, ":", &state); folder; folder = strtok_r(NULL, ":", &state))
    if (snprintf(found, sizeof found, "%s/ptxas", folder) < (int)sizeof found &&
        access(found, X_OK) == 0)
      return found;
  return NULL;
}

/* Runs argv with stdout and stderr into *out_text (owned by the caller). Its exit status, -1 if it
 * could not run. */
static int run(char *const argv[], char **out_text) {
  *out_text = NULL;
  int pipe_ends[2];
  if (pipe(pipe_ends))
    return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  pid_t child = 0;
  int error = posix_spawn(&child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (error) {
    close(pipe_ends[0]);
    return -1;
  }
  size_t length = 0;
  FILE *out = open_memstream(out_text, &length);
  char chunk[4096];
  ssize_t count = 0;
  while ((count = read(pipe_ends[0], chunk, sizeof chunk)) > 0 || (count < 0 && errno == EINTR))
    if (out && count > 0)
      fwrite(chunk, 1, (size_t)count, out);
  if (out)
    fclose(out);
  close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* "ptxas 13.3.73" from its --version; owned by the caller. */
static char *assembler_version(const char *ptxas) {
  char *text = NULL, *version = NULL;
  const char *number = NULL;
  if (run((char *[]){(char *)ptxas, "--version", NULL}, &text) == 0 && text)
    number = strstr(text, ", V");
  int length = number ? (int)strcspn(number + 3, "\n") : 0;
  if (asprintf(&version, "ptxas %.*s", length, number ? number + 3 : "") < 0)
    version = NULL;
  free(text);
  return version;
}

static bool write_all(int file, const char *data, size_t length) {
  while (length) {
    ssize_t count = write(file, data, length);
    if (count < 0 && errno != EINTR)
      return false;
    if (count > 0) {
      data += count;
      length -= (size_t)count;
    }
  }
  return true;
}

static bool read_all(const char *path, moe__bytes_t *out) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return false;
  bool ok = fseek(file, 0, SEEK_END) == 0;
  long length = ok ? ftell(file) : -1;
  ok = length > 0 && fseek(file, 0, SEEK_SET) == 0 && (out->data = malloc((size_t)length)) != NULL;
  ok = ok && fread(out->data, 1, (size_t)length, file) == (size_t)length;
  out->length = ok ? (size_t)length : 0;
  fclose(file);
  if (!ok) {
    free(out->data);
    out->data = NULL;
  }
  return ok;
}

/* A line of ptxas's output that makes the code unfit, NULL if there is none. */
static const char *unfit(const char *text) {
  static const char *const signs[] = {"(C75", "warning", "error"};
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
    if (strstr(text, signs[i]))
      return strstr(text, signs[i]);
  return NULL;
}

moe_status_t moe__target_assemble(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t *out_cubin, char **out_assembler) {
  *out_cubin = (moe__bytes_t){0};
  *out_assembler = NULL;
  const char *ptxas = moe__ptxas_find(options->ptxas);
  if (!ptxas) {
    if (!options->ptxas)
      return MOE_OK;
    moe__error(module, "ptxas '%s' is not an executable file", options->ptxas);
    return MOE_INVALID_INPUT;
  }
  const char *folder = getenv("TMPDIR");
  char input[PATH_MAX], output[PATH_MAX + 8], arch[32];
  snprintf(input, sizeof input, "%s/moe-opt-XXXXXX", folder ? folder : "/tmp");
  int file = mkstemp(input);
  if (file < 0) {
    moe__error(module, "cannot create '%s': %s", input, strerror(errno));
    return MOE_IO_ERROR;
  }
  snprintf(output, sizeof output, "%s.cubin", input);
  snprintf(arch, sizeof arch, "-arch=%s", options->chip);
  bool written = write_all(file, ptx.data, ptx.length);
  written = close(file) == 0 && written;

  moe_status_t status = MOE_INTERNAL;
  char *text = NULL;
  int code = -1;
  if (!written) {
    moe__error(module, "cannot write '%s': %s", input, strerror(errno));
    status = MOE_IO_ERROR;
  } else {
    code = run((char *[]){(char *)ptxas, arch, "-Werror", "-warn-spills", "-warn-lmem-usage", "-o",
                          output, input, NULL},
               &text);
    if (code != 0 || (text && unfit(text)))
      moe__error(module, "%s rejects the generated PTX: %s", ptxas, text ? text : "(no output)");
    else if (!read_all(output, out_cubin))
      moe__error(module, "%s wrote no cubin", ptxas);
    else
      status = MOE_OK;
  }
  if (status == MOE_OK)
    *out_assembler = assembler_version(ptxas);
  free(text);
  unlink(input);
  unlink(output);
  return status;
}
