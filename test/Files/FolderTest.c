/* FolderTest.c - a folder that is staged, or a file that is written, when a signal arrives.
 *
 * Why it exists: a tool cannot be told from outside to be interrupted just then. Here a child
 * process sends the signal to itself.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Files/Files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const moe__file_t files[] = {{"a", "one", 3}, {"b", "four", 4}};
enum { FILES = sizeof files / sizeof *files, FAILED = 99 };

/* The folder that each test has for itself, which is empty. */
static char folder[] = "folder-test-XXXXXX";

static int set_up(void **state) {
  (void)state;
  strcpy(folder, "folder-test-XXXXXX");
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  remove("bundle/a");
  remove("bundle/b");
  remove("bundle");
  return chdir("..") == 0 && rmdir(folder) == 0 ? 0 : -1; /* so nothing else was left */
}

/* How many names a folder has, and whether it is there. */
static int count_names(const char *path) {
  DIR *listing = opendir(path);
  int count = 0;
  if (!listing)
    return -1;
  for (const struct dirent *entry; (entry = readdir(listing));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(listing);
  return count;
}

/* What a child does: stages the folder, gets the signal, and commits or not. */
static void be_interrupted(int number, bool commits) {
  moe__folder_t staged;
  if (!moe__folder_stage("bundle", files, FILES, &staged) || raise(number) != 0)
    _exit(FAILED);
  /* It has a name of its own until it is committed. */
  if (count_names(".") != 1 || count_names("bundle") != -1)
    _exit(FAILED);
  if (commits && !moe__folder_commit(&staged))
    _exit(FAILED);
  moe__folder_discard(&staged);
  _exit(FAILED); /* the signal has come before */
}

/* The signal that ended the child. */
static int signal_of(int number, bool commits) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0)
    be_interrupted(number, commits);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  return WTERMSIG(status);
}

static void test_signals_wait_for_the_commit(void **state) {
  (void)state;
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    assert_int_equal(signal_of(numbers[i], true), numbers[i]);
    assert_int_equal(count_names("."), 1);
    assert_int_equal(count_names("bundle"), FILES);
    tear_down(state);
    assert_int_equal(set_up(state), 0);
  }
}

static void test_nothing_is_left_without_one(void **state) {
  (void)state;
  assert_int_equal(signal_of(SIGTERM, false), SIGTERM);
  assert_int_equal(count_names("."), 0);
}

/* Signals that were blocked before are so afterwards, also with two folders at a time. */
static void test_masks_come_back(void **state) {
  (void)state;
  sigset_t blocked, now;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGHUP);
  assert_int_equal(sigprocmask(SIG_SETMASK, &blocked, NULL), 0);
  moe__folder_t first, second;
  assert_true(moe__folder_stage("bundle", files, FILES, &first));
  assert_true(moe__folder_stage("other", files, FILES, &second));
  sigprocmask(SIG_SETMASK, NULL, &now);
  assert_true(sigismember(&now, SIGTERM) && sigismember(&now, SIGINT));
  moe__folder_discard(&second);
  sigprocmask(SIG_SETMASK, NULL, &now);
  assert_true(sigismember(&now, SIGTERM));
  assert_true(moe__folder_commit(&first));
  moe__folder_discard(&first);
  sigprocmask(SIG_SETMASK, NULL, &now);
  assert_true(sigismember(&now, SIGHUP));
  assert_false(sigismember(&now, SIGTERM) || sigismember(&now, SIGINT));
}

static volatile sig_atomic_t has_come;

static void on_signal(int number) {
  (void)number;
  has_come = 1;
}

static bool write_interrupted(int file, const void *user) {
  return raise(SIGTERM) == 0 && !has_come && moe__file_write_bytes(file, user, strlen(user));
}

/* One that comes while a file is written waits until the file is in its place. */
static void test_signals_wait_for_a_file(void **state) {
  (void)state;
  struct sigaction action = {.sa_handler = on_signal}, before;
  assert_int_equal(sigaction(SIGTERM, &action, &before), 0);
  assert_true(moe__file_replace_held("bundle", write_interrupted, "one"));
  sigaction(SIGTERM, &before, NULL);
  assert_true(has_come);

  int file = open("bundle", O_RDONLY | O_CLOEXEC);
  char *data;
  size_t length;
  assert_true(file >= 0 && moe__file_read_bytes(file, &data, &length));
  close(file);
  assert_int_equal(length, 3);
  assert_memory_equal(data, "one", 3);
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_signals_wait_for_the_commit, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_nothing_is_left_without_one, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_masks_come_back, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_signals_wait_for_a_file, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
