/* ScopeTest.c - loops and branches of lib/Builder: what they build, and that none stays open.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Builder.h"

#include "mlir-c/RegisterEverything.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct fixture_t {
  MlirContext context;
  MlirModule module;
  moe__builder_t b;
} fixture_t;

static int setup(void **state) {
  fixture_t *f = calloc(1, sizeof *f);
  f->context = mlirContextCreate();
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  mlirRegisterAllDialects(registry);
  mlirContextAppendDialectRegistry(f->context, registry);
  mlirContextLoadAllAvailableDialects(f->context);
  mlirDialectRegistryDestroy(registry);
  MlirLocation location = mlirLocationUnknownGet(f->context);
  f->module = mlirModuleCreateEmpty(location);
  f->b = moe__builder_create(f->context, location);
  f->b.block = mlirModuleGetBody(f->module);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture_t *f = *state;
  mlirModuleDestroy(f->module);
  mlirContextDestroy(f->context);
  free(f);
  return 0;
}

static void append(MlirStringRef text, void *user) {
  strncat(user, text.data, text.length);
}

static void expect(fixture_t *f, const char *body) {
  char text[4096] = "";
  mlirOperationPrint(mlirModuleGetOperation(f->module), append, text);
  assert_non_null(strstr(text, body));
}

static void carries_by_reference(void **state) {
  fixture_t *f = *state;
  moe__builder_t *b = &f->b;
  MlirValue sum = moe__i32(b, 7), fixed = sum;
  MOE__FOR (b, i, 0, 5, 1, &sum, NULL) {
    assert_false(mlirValueEqual(sum, fixed));
    sum = moe__add(b, sum, i);
  }
  moe__mul(b, sum, 3);
  assert_true(mlirOperationVerify(mlirModuleGetOperation(f->module)));
  expect(f, "iter_args(%arg1 = %c7_i32) -> (i32)");
  expect(f, "arith.addi %arg1, %arg0 : i32\n    scf.yield %");
  expect(f, "arith.muli %0, %c3_i32");
}

/* With a loop the index is its argument; without one it is the lower bound, under a comparison. */
static void loops_or_not(void **state) {
  fixture_t *f = *state;
  moe__builder_t *b = &f->b;
  MlirValue lower = moe__i32(b, 2), upper = moe__i32(b, 9), step = moe__i32(b, 4);
  MOE__FOR_OR_ONCE (b, true, i, lower, upper, step) {
    moe__mul(b, i, 3);
  }
  MOE__FOR_OR_ONCE (b, false, i, lower, upper, step) {
    moe__mul(b, i, 5);
  }
  assert_true(mlirOperationVerify(mlirModuleGetOperation(f->module)));
  expect(f, "scf.for %arg0 = %c2_i32 to %c9_i32 step %c4_i32");
  expect(f, "arith.muli %arg0, %c3_i32");
  expect(f, "arith.cmpi ult, %c2_i32, %c9_i32 : i32\n  scf.if %");
  expect(f, "arith.muli %c2_i32, %c5_i32");
}

static void tests_before_the_body(void **state) {
  fixture_t *f = *state;
  moe__builder_t *b = &f->b;
  MlirValue left = moe__i32(b, 9);
  MOE__WHILE (b, moe__ne(b, left, 0), &left) {
    left = moe__sub(b, left, 1);
  }
  assert_true(mlirOperationVerify(mlirModuleGetOperation(f->module)));
  expect(f, "scf.condition(%1) %arg0 : i32\n  } do {");
}

static void branches_where_there_is_a_condition(void **state) {
  fixture_t *f = *state;
  moe__builder_t *b = &f->b;
  MlirValue one = moe__i32(b, 1);
  MOE__IF (b, (MlirValue){NULL}) {
    one = moe__add(b, one, one);
  }
  expect(f, "arith.addi %c1_i32, %c1_i32");
  MOE__IF (b, moe__eq(b, one, 2)) {
    moe__add(b, one, 3);
  }
  MOE__ELSE (b) {
    moe__add(b, one, 4);
  }
  assert_true(mlirOperationVerify(mlirModuleGetOperation(f->module)));
  expect(f, "arith.addi %0, %c3_i32 : i32\n  } else {");
}

/* ---- What is left open ---- */

static void leave_by_return(moe__builder_t *b) {
  MOE__IF (b, moe__eq(b, 1, 1)) {
    return;
  }
}

static void leave_by_break(moe__builder_t *b) {
  MOE__FOR (b, i, 0, 5, 1) {
    break;
  }
}

static void else_behind_nothing(moe__builder_t *b) {
  MOE__IF (b, moe__eq(b, 1, 1)) {
    moe__i32(b, 1);
  }
  moe__i32(b, 2);
  MOE__ELSE (b) {
    moe__i32(b, 3);
  }
}

static void aborts(void **state) {
  fixture_t *f = *state;
  void (*const bugs[])(moe__builder_t *) = {leave_by_return, leave_by_break, else_behind_nothing};
  for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
    pid_t child = fork();
    if (child == 0) {
      signal(SIGABRT, SIG_DFL);
      close(2); /* it says why */
      bugs[i](&f->b);
      _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(carries_by_reference, setup, teardown),
      cmocka_unit_test_setup_teardown(loops_or_not, setup, teardown),
      cmocka_unit_test_setup_teardown(tests_before_the_body, setup, teardown),
      cmocka_unit_test_setup_teardown(branches_where_there_is_a_condition, setup, teardown),
      cmocka_unit_test_setup_teardown(aborts, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
