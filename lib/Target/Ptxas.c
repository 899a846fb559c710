/* Ptxas.c - PTX to cubin, by a ptxas subprocess.
 *
 * Why its warnings are errors: ptxas returns success where it dropped a setmaxnreg, serialized
 * wgmma or spilled registers, and says so in text only. Such code is wrong or slow, and nobody
 * reads the text of a build.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A folder may have the permission too. */
static bool is_executable(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* Where ./dev puts the ptxas that the kernels are tested with, seen from a library in the build: no
 * path of the build stands in what is installed. Empty where that is not known. */
static void own_folder(char *out, size_t size) {
  Dl_info info;
  *out = '\0';
  if (!dladdr((void *)own_folder, &info) || !info.dli_fname)
    return;
  const char *slash = strrchr(info.dli_fname, '/');
  snprintf(out, size, "%.*s/../../.deps/ptxas/bin", slash ? (int)(slash - info.dli_fname) : 1,
           slash ? info.dli_fname : ".");
}

const char *moe__target_find_ptxas(const char *path) {
  static _Thread_local char found[PATH_MAX];
  if (moe__target_is_no_ptxas(path))
    return NULL;
  if (path)
    return is_executable(path) ? path : NULL;
  const char *search = getenv("PATH");
  char own[PATH_MAX], folders[PATH_MAX + 8192];
  own_folder(own, sizeof own);
  snprintf(folders, sizeof folders, "%s:%s:/usr/local/cuda/bin", own, search ? search : "");
  char *state = NULL;
  for (char *folder = strtok_r(folders, ":", &state); folder; folder = strtok_r(NULL, ":", &state))
    if (snprintf(found, sizeof found, "%s/ptxas", folder) < (int)sizeof found &&
        is_executable(found))
      return found;
  return NULL;
}

/* Runs argv with stdout and stderr into *out_text (owned by the caller); of this process's files it
 * gets `files` and no other. Its exit status; -1 if it could not run, then errno says why, or if it
 * was killed. */
static int run(char *const argv[], const int *files, int file_count, char **out_text) {
  *out_text = NULL;
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC))
    return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  for (int i = 0; i < file_count; i++) /* onto itself: it loses its O_CLOEXEC, in the child */
    posix_spawn_file_actions_adddup2(&actions, files[i], files[i]);
  pid_t child = 0;
  int error = posix_spawn(&child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (error) {
    close(pipe_ends[0]);
    errno = error;
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
  pid_t ended = 0;
  do
    ended = waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  if (ended < 0) /* a program that ignores SIGCHLD never hears how its children end */
    return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* "ptxas 13.3.73" from its --version; owned by the caller. */
static char *assembler_version(const char *ptxas) {
  char *text = NULL, *version = NULL;
  const char *number = NULL;
  if (run((char *[]){(char *)ptxas, "--version", NULL}, NULL, 0, &text) == 0 && text)
    number = strstr(text, ", V");
  int length = number ? (int)strcspn(number + 3, "\n") : 0;
  if (asprintf(&version, "ptxas %.*s", length, number ? number + 3 : "") < 0)
    version = NULL;
  free(text);
  return version;
}

/* "13.3.73" */
static const char *version_of(const char *assembler) {
  return assembler + strlen("ptxas ");
}

/* What to do about a ptxas that is too old; its argument is the oldest that will do. */
#define ADVICE "; take ptxas %s or newer (--ptxas=FILE), or --ptxas=none for a bundle of PTX alone"

/* Whether the assembler is new enough for every kernel. */
static bool fits(MlirOperation module, moe__bytes_t ptx, const char *ptxas, const char *assembler) {
  json_t *kernels = moe__target_min_assemblers(ptx), *least;
  const char *name;
  bool ok = true;
  json_object_foreach(kernels, name, least) {
    if (moe__target_is_older(version_of(assembler), json_string_value(least))) {
      ok = moe__error(module,
                      "kernel '%s' has wgmma operands in registers and needs ptxas %s or newer, "
                      "because older ones make wrong code of it without a word; '%s' is %s" ADVICE,
                      name, json_string_value(least), ptxas, assembler, json_string_value(least));
      break;
    }
  }
  json_decref(kernels);
  return ok;
}

/* A line of ptxas's output that makes the code unfit, NULL if there is none. The lines that name a
 * kernel say nothing else. */
static const char *unfit(const char *text) {
  static const char *const signs[] = {"(C75", "warning", "error"};
  static const char *const names[] = {"Compiling entry function '", "Function properties for "};
  for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    size_t length = strcspn(line, "\n");
    bool is_name = false, is_unfit = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      is_name |= memmem(line, length, names[i], strlen(names[i])) != NULL;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
      is_unfit |= memmem(line, length, signs[i], strlen(signs[i])) != NULL;
    if (is_unfit && !is_name)
      return line;
  }
  return NULL;
}

/* Whether what ptxas says is about registers that it does not have. */
static bool is_about_registers(const char *reason, size_t length) {
  static const char *const signs[] = {"egisters", "register resources", "setmaxnreg",
                                      "Local memory", "spill"};
  bool is = false;
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
    is |= length && memmem(reason, length, signs[i], strlen(signs[i]));
  return is;
}

/* The error of a ptxas that says no, with the `length` bytes that it gives as a reason. One that is
 * older than what the kernels are tested with says no to some that a newer one takes; and a kernel
 * that has no registers may have them with another schedule, or where LLVM does not know its sizes:
 * docs/rationale/static-sizes.md. */
static void rejected(MlirOperation module, const char *ptxas, const char *assembler,
                     const char *reason, size_t length) {
  static const char tested[] = "13.3";
  char advice[160] = "";
  const char *version = version_of(assembler);
  if (moe__target_is_older(version, tested))
    snprintf(advice, sizeof advice, "; it is %s%.10s" ADVICE,
             *version ? "ptxas " : "of no known version", version, tested);
  while (length && reason[length - 1] == '\n')
    length--;
  const char *fewer = is_about_registers(reason, length)
                          ? "; another schedule, or `?` for static sizes, may take fewer registers"
                          : "";
  moe__error(module, "%s rejects the generated PTX: %.*s%s%s", ptxas,
             length ? (int)length : INT_MAX, length ? reason : "it says nothing", fewer, advice);
}

/* files[0] holds the PTX; ptxas writes to files[1]. */
static moe_status_t assemble(MlirOperation module, const char *ptxas, const char *assembler,
                             const moe__target_options_t *options, const int files[2],
                             moe__bytes_t *out_cubin, char **out_log) {
  char input[32], output[32], arch[32];
  snprintf(input, sizeof input, "/proc/self/fd/%d", files[0]);
  snprintf(output, sizeof output, "/proc/self/fd/%d", files[1]);
  snprintf(arch, sizeof arch, "-arch=%s", options->chip);
  char *text = NULL;
  char *arguments[12] = {(char *)ptxas,      arch, "-v",   "-Werror", "-warn-spills",
                         "-warn-lmem-usage", "-o", output, input};
  int count = 9;
  if (options->line_info)
    arguments[count++] = "-lineinfo";
  if (!moe__target_is_older(version_of(assembler), "13.0"))
    arguments[count++] = "-split-compile=0"; /* as many threads as processors; the same code */
  int code = run(arguments, files, 2, &text);
  const char *line = text ? unfit(text) : NULL;
  /* Whichever it is, another ptxas may do, or another schedule: no bug of this compiler. */
  moe_status_t status = MOE_INVALID_INPUT;
  if (code < 0 && !text)
    moe__error(module, "ptxas '%s' cannot be run: %s", ptxas, strerror(errno));
  else if (line)
    rejected(module, ptxas, assembler, line, strcspn(line, "\n"));
  else if (code != 0)
    rejected(module, ptxas, assembler, text, text ? strlen(text) : 0);
  else if (!moe__file_read_bytes(files[1], &out_cubin->data, &out_cubin->length) ||
           !out_cubin->data)
    moe__error(module, "%s wrote no cubin", ptxas);
  else
    status = MOE_OK;
  *out_log = text;
  return status;
}

/* A file in memory: there is nothing to clean up where the process is interrupted. A process
 * without stdin or stdout would have it in their place, and ptxas not at all. */
static int create_file(const char *name) {
  int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || file > STDERR_FILENO)
    return file;
  int other = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int error = errno;
  close(file);
  errno = error;
  return other;
}

moe_status_t moe__target_assemble(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t *out_cubin, char **out_assembler,
                                  char **out_log) {
  *out_cubin = (moe__bytes_t){0};
  *out_assembler = *out_log = NULL;
  const char *ptxas = moe__target_find_ptxas(options->ptxas);
  if (!ptxas) {
    if (!options->ptxas || moe__target_is_no_ptxas(options->ptxas))
      return MOE_OK;
    moe__error(module, "ptxas '%s' is not an executable file", options->ptxas);
    return MOE_INVALID_INPUT;
  }
  char *assembler = assembler_version(ptxas);
  if (!assembler)
    abort();
  if (!fits(module, ptx, ptxas, assembler)) {
    free(assembler);
    return MOE_INVALID_INPUT;
  }
  int files[] = {create_file("ptx"), create_file("cubin")};
  moe_status_t status = MOE_IO_ERROR;
  if (files[0] < 0 || files[1] < 0 || !moe__file_write_bytes(files[0], ptx.data, ptx.length))
    moe__error(module, "cannot write the PTX for ptxas: %s", strerror(errno));
  else
    status = assemble(module, ptxas, assembler, options, files, out_cubin, out_log);
  for (int i = 0; i < 2; i++)
    if (files[i] >= 0)
      close(files[i]);
  if (status == MOE_OK)
    *out_assembler = assembler;
  else
    free(assembler);
  return status;
}
