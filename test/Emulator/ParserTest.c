/* ParserTest.c - texts that are not PTX, or not PTX that the emulator knows.
 *
 * Why it exists: what is not understood must be an error with its line, never skipped.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/Support.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n"
#define KERNEL(body)                                                                               \
  HEAD ".visible .entry k()\n{\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<4>;\n.reg .b64 " \
       "%d<4>;\n" body "\n}\n"

static void test_directives(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"", "line 1: the module has no kernel"},
      {HEAD, "line 4: the module has no kernel"},
      {"hello", "line 1: unknown directive 'hello'"},
      {".version x\n", "line 1: 'x' where a version should be"},
      {HEAD ".func f() {}\n", "line 4: unknown directive '.func'"},
      {".address_size 32\n", "line 1: 32 is not from 64 to 64"},
      {".version 8.0\n.target sm_80\n",
       "line 2: 'sm_80' where the target sm_90 or sm_90a should be"},
      {".target sm_90\n.visible .entry k() { ret; }\n", "line 2: there is no .version before this"},
      {".version 8.0\n.global .b8 x[4];\n", "line 2: there is no .target before this"},
      {".visible .entry k() { ret; }\n" HEAD, "line 1: there is no .version before this"},
      {HEAD ".visible .entry k(.param .u32)\n",
       "line 4: ')' where the name of a parameter should be"},
      {HEAD ".visible .entry k(.param .b8 x[5000]) { ret; }\n",
       "line 4: parameter 'x' does not fit the 4096 bytes there are"},
      {HEAD ".visible .entry k()\n.noreturn\n{ ret; }\n", "line 5: unknown directive '.noreturn'"},
      {HEAD ".visible .entry k() { ret; }\n.visible .entry k() { ret; }\n",
       "line 5: kernel 'k' is defined twice"},
      {HEAD ".visible .entry k() {\nret;\n", "line 6: the text ends inside of kernel 'k'"},
      {HEAD ".global .b8 x[];\n", "line 4: 'x' has no size"},
      {HEAD ".global .align 3 .b8 x[4];\n", "line 4: an alignment must be a power of two"},
      {HEAD ".shared .b8 x[300000];\n.visible .entry k() { ret; }\n",
       "line 4: shared memory has at most 262144 bytes"},
      {HEAD "/* no end", "line 4: unknown directive ''"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    emu_expect_refused(rows[i][0], rows[i][1]);
}

static void test_statements(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {KERNEL(".local .b8 x[4];"), "line 10: unknown directive '.local'"},
      {KERNEL(".reg .b8 %x;"), "line 10: there are no 8-bit registers"},
      {KERNEL(".reg .b32 %r1;"), "line 10: '%r1' is declared twice"},
      {KERNEL("A:\nA:"), "line 11: 'A' is declared twice"},
      {KERNEL("bra A;"), "line 10: no label 'A'"},
      {KERNEL("bra A;\n{\nA:\n}"), "line 10: no label 'A'"},
      {KERNEL("bra %r1;"), "line 10: no label '%r1'"},
      {KERNEL("frobnicate.b32 %r1;"), "line 10: unknown instruction 'frobnicate.b32'"},
      {KERNEL("add.s33 %r1, %r1, %r1;"), "line 10: unknown instruction 'add.s33'"},
      {KERNEL("add.sat.s32 %r1, %r1, %r1;"), "line 10: unknown instruction 'add.sat.s32'"},
      {KERNEL("add %r1, %r1, %r1;"), "line 10: unknown instruction 'add'"},
      {KERNEL("add.s32.s32 %r1, %r1, %r1;"), "line 10: unknown instruction 'add.s32.s32'"},
      {KERNEL("ld.shared.volatile.b32 %r1, [%d1];"),
       "line 10: unknown instruction 'ld.shared.volatile.b32'"},
      {KERNEL("add.s32 %r1, %r1;"), "line 10: ';' where ',' should be"},
      {KERNEL("add.s32 %r1, %r1, %r1, %r1;"), "line 10: ',' where ';' should be"},
      {KERNEL("add.s32 %r1, %r1, %d1;"),
       "line 10: '%d1' is 64 bits wide; the instruction takes 32 bits"},
      {KERNEL("add.s32 1, %r1, %r1;"), "line 10: '1' where a register should be"},
      {KERNEL("add.s32 %r1, %r1, %x;"), "line 10: unknown register '%x'"},
      {KERNEL("mov.u32 %tid.x, %r1;"),
       "line 10: '%tid.x' where a register that can be written should be"},
      {KERNEL("add.s32 %r1, %r1, 4294967296;"), "line 10: a number that does not fit 32 bits"},
      {KERNEL("mul.f32 %r1, %r1, %r1;"),
       "line 10: mul.f32: no rounding is given, so that ptxas may contract it: .rn is needed"},
      {KERNEL("add.rn.f32 %r1, %r1, 0d3FF0000000000000;"),
       "line 10: a 64 bits number where 32 bits are taken"},
      {KERNEL("add.s32 %r1, %r1, 0f3F8;"), "line 10: '0f3F8' where a number should be"},
      {KERNEL("add.s32 %r1, %r1, 99999999999999999999;"),
       "line 10: '99999999999999999999' where a number should be"},
      {KERNEL("@%r1 ret;"), "line 10: '%r1' is 32 bits wide; the instruction takes a predicate"},
      {KERNEL("mov.pred %p1, ];"), "line 10: ']' where a predicate should be"},
      {KERNEL("mov.pred %p1, 0f3F800000;"), "line 10: '0f3F800000' where an integer should be"},
      {KERNEL("ld.global.b32 %r1, %d1;"), "line 10: '%d1' where '[' should be"},
      {KERNEL("ld.global.b32 %r1, [%h1];"),
       "line 10: '%h1' where a register of 32 or 64 bits should be"},
      {KERNEL("ld.global.v4.b64 {%d1, %d1, %d1, %d1}, [%d1];"),
       "line 10: ld.global.v4.b64: a lane can load 16 bytes at most"},
      {KERNEL("ld.global.v2.b32 {%r1, %r1, %r1}, [%d1];"),
       "line 10: a list of 3 where 2 are taken"},
      {KERNEL("mov.b32 %r1, {%h1, %h1, %h1};"), "line 10: a list of 3 does not make up 32 bits"},
      {KERNEL("setp.lt.s32 %p1, %r1, %r2, %p2;"),
       "line 10: setp.lt.s32: a predicate to combine with comes with .and, .or or .xor"},
      {KERNEL("setmaxnreg.inc.sync.aligned.u32 33;"),
       "line 10: setmaxnreg.inc.sync.aligned.u32: 33 registers; a multiple of 8 from 24 to 256 is "
       "taken"},
      {KERNEL("atom.global.and.f32 %r1, [%d1], %r1;"),
       "line 10: atom.global.and.f32: no such operation of this type"},
      {KERNEL("wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%r0, %r1, %r2, %r3}, %d1, "
              "%d1, %p1, 1, 1;"),
       "line 10: wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3: 4 registers of D are those "
       "of m64n8k32"},
      {KERNEL("mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, "
              "%r2, %r3}, {%r0, %r1}, {%r0, %r1, %r2, %r3};"),
       "line 10: mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32: A and B have different types"},
      {KERNEL("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, "
              "%r2, %r3}, {%r0}, {%r0, %r1, %r2, %r3};"),
       "line 10: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: 4 registers of D and 13 "
       "operands; 4 and 14 are taken"},
      {KERNEL("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%d1];"),
       "line 10: ldmatrix.sync.aligned.m8n8.x4.shared.b16: 2 registers; 4 are taken"},
      {KERNEL("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%d1, {%r1, %r1}], [%d1];"),
       "line 10: cp.async.bulk.tensor.3d.global.shared::cta.bulk_group: 4 operands and "
       "coordinates; 5 are taken"},
      {KERNEL("cp.async.bulk.global.shared::cta.bulk_group [%d1], [%d1], 16, %d1;"),
       "line 10: cp.async.bulk.global.shared::cta.bulk_group: 4 operands; 3 are taken"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    emu_expect_refused(rows[i][0], rows[i][1]);
}

/* A predicate may be a number. */
static void test_constant_predicates(void **state) {
  (void)state;
  uint32_t out[1] = {0}, in[1] = {0};
  emu_expect_ok(&(emu_kernel_t){.body = "mov.b32 %r1, 0;\nmov.pred %p1, -1;\nmov.pred %p2, 0;\n"
                                        "@%p1 add.s32 %r1, %r1, 1;\n@%p2 add.s32 %r1, %r1, 2;\n"
                                        "@!%p2 add.s32 %r1, %r1, 4;\n"
                                        "setp.ne.b32 %p1, %tid, 0;\n@%p1 ret;\n"
                                        "st.global.b32 [%out], %r1;"},
                in, sizeof in, out, sizeof out);
  assert_int_equal(out[0], 5);
}

/* Inline assembly has scopes of its own: the same names stand for other things. */
static void test_scopes(void **state) {
  (void)state;
  uint32_t out[1] = {0}, in[1] = {0};
  emu_expect_ok(&(emu_kernel_t){.body = "mov.b32 %r1, 1;\n"
                                        "{\n.reg .b32 %r1;\nmov.b32 %r1, 5;\nbra DONE;\nDONE:\n}\n"
                                        "{\n.reg .pred P;\nbra DONE;\nmov.b32 %r1, 7;\nDONE:\n}\n"
                                        "setp.ne.b32 %p1, %tid, 0;\n@%p1 ret;\n"
                                        "st.global.b32 [%out], %r1;"},
                in, sizeof in, out, sizeof out);
  assert_int_equal(out[0], 1);
}

/* Variables of the module: initialized, kept from launch to launch, constants not writable. */
static void test_variables(void **state) {
  (void)state;
  static const char ptx[] = HEAD
      ".const .align 4 .b8 table[8] = {1, 2, 3, 4, 0xFF, 6, 7, 8};\n.global .u32 counter = 40;\n"
      ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<3>;\n"
      "ld.param.u64 %d1, [out];\natom.global.add.u32 %r1, [counter], 1;\n"
      "ld.const.u8 %r2, [table+4];\nadd.s32 %r1, %r1, %r2;\nst.global.u32 [%d1], %r1;\n}\n"
      ".visible .entry w()\n{\nst.global.b32 [table], 1;\n}\n";
  moe_emu_module_t *module = NULL;
  moe_emu_report_t report;
  uint32_t out = 0;
  uint64_t address = (uint64_t)(uintptr_t)&out;
  const void *parameters[] = {&address};
  const moe_emu_buffer_t buffer = {address, sizeof out, true, "out", false};
  moe_emu_launch_t launch = {.kernel = "k",
                             .grid = {1, 1, 1},
                             .block = {1, 1, 1},
                             .cluster = {1, 1, 1},
                             .parameters = parameters,
                             .parameter_count = 1,
                             .buffers = &buffer,
                             .buffer_count = 1};
  assert_int_equal(moe_emu_module_load(ptx, strlen(ptx), &module, &report), MOE_EMU_OK);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(moe_emu_launch(module, &launch, NULL, &report), MOE_EMU_OK);
    assert_int_equal(out, 40 + i + 0xFF);
  }
  launch.kernel = "w";
  launch.parameter_count = 0;
  assert_int_equal(moe_emu_launch(module, &launch, NULL, &report), MOE_EMU_FAULT);
  assert_non_null(strstr(report.text, "is in 'table', which is read only"));
  moe_emu_module_destroy(module);
}

/* Each of many kernels is found by its name, and no other. */
static void test_many_kernels(void **state) {
  (void)state;
  enum { KERNELS = 4000 };
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  fputs(HEAD, out);
  for (int i = 0; i < KERNELS; i++)
    fprintf(out, ".visible .entry k%d() { ret; }\n", i);
  fclose(out);
  moe_emu_module_t *module;
  moe_emu_report_t report;
  assert_int_equal(moe_emu_module_load(text, size, &module, &report), MOE_EMU_OK);
  for (int i = 0; i < KERNELS; i++) {
    char name[16];
    snprintf(name, sizeof name, "k%d", i);
    assert_true(moe_emu_module_has(module, name));
  }
  assert_false(moe_emu_module_has(module, "k"));
  assert_false(moe_emu_module_has(module, "k4000"));
  moe_emu_module_destroy(module);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_directives),          cmocka_unit_test(test_statements),
      cmocka_unit_test(test_constant_predicates), cmocka_unit_test(test_scopes),
      cmocka_unit_test(test_variables),           cmocka_unit_test(test_many_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
