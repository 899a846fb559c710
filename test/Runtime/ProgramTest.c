/* ProgramTest.c - bundles on disk: what is read, what is refused, what is loaded, and the shapes
 * that follow.
 *
 * A half-copied or edited bundle is the everyday accident; it must end in one sentence.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/FakeDevice.h"
#include "test/Runtime/Support.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char ptx_text[] = "// A comment\n.version 8.0\n.target sm_90a\n.address_size 64\n";
static const char *inputs;

/* A bundle of quantize.json in a folder of its own. */
typedef struct bundle_t {
  char *folder;
  json_t *manifest;
} bundle_t;

static int set_up(void **state) {
  static bundle_t bundle;
  char path[512];
  size_t size = 0;
  const void *cubin = empty_cubin(&size);
  snprintf(path, sizeof path, "%s/quantize.json", inputs);
  bundle.folder = folder_make();
  bundle.manifest = read_json(path);
  bundle_write(bundle.folder, bundle.manifest, ptx_text, cubin, size);
  *state = &bundle;
  return 0;
}

static int tear_down(void **state) {
  bundle_t *bundle = *state;
  folder_remove(bundle->folder);
  json_decref(bundle->manifest);
  return 0;
}

static void expect_read(const char *folder, moe_rt_status_t expected, const char *message) {
  moe_rt_program_t *program = (moe_rt_program_t *)&program;
  moe_rt_status_t status = moe_rt_program_read(folder, &program);
  if (status != expected || !strstr(moe_rt_last_message(), message)) {
    fail_msg("expected '%s', got status %d, '%s'", message, status,
             status == MOE_RT_OK ? "" : moe_rt_last_message());
  }
  assert_null(program);
}

/* ---- Reading ---- */

static void test_read(void **state) {
  const bundle_t *bundle = *state;
  moe_rt_program_t *program = NULL;
  if (moe_rt_program_read(bundle->folder, &program) != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
  assert_string_equal(moe_rt_program_code(program), "none");
  assert_int_equal(moe_rt_program_function_count(program), 2);
  assert_string_equal(moe_rt_program_function(program, 1)->name, "scale_tile");
  assert_null(moe_rt_program_function(program, 2));
  assert_null(moe_rt_program_function(program, -1));

  const moe_rt_function_info_t *function = NULL;
  assert_int_equal(moe_rt_program_find(program, "scale_tile", &function), MOE_RT_OK);
  assert_ptr_equal(function, moe_rt_program_function(program, 1));
  assert_int_equal(moe_rt_program_find(program, "scale", &function), MOE_RT_NOT_FOUND);
  assert_null(function);
  assert_string_equal(moe_rt_last_message(), "no function 'scale'; there are: "
                                             "'quantize_expert_weights', 'scale_tile'");
  assert_int_equal(moe_rt_program_find(program, NULL, &function), MOE_RT_NOT_FOUND);
  assert_non_null(strstr(moe_rt_last_message(), "several functions"));

  moe_rt_call_t *call = NULL;
  function = moe_rt_program_function(program, 0);
  assert_int_equal(moe_rt_call_prepare(program, function, NULL, 0, &call), MOE_RT_NOT_PREPARED);
  moe_rt_program_destroy(program);
}

static void test_find_the_only_function(void **state) {
  const bundle_t *bundle = *state;
  json_array_remove(json_object_get(bundle->manifest, "functions"), 0);
  bundle_write(bundle->folder, bundle->manifest, ptx_text, NULL, 0);
  moe_rt_program_t *program = NULL;
  const moe_rt_function_info_t *function = NULL;
  assert_int_equal(moe_rt_program_read(bundle->folder, &program), MOE_RT_OK);
  assert_int_equal(moe_rt_program_find(program, NULL, &function), MOE_RT_OK);
  assert_string_equal(function->name, "scale_tile");
  moe_rt_program_destroy(program);
}

static void test_missing_files(void **state) {
  const bundle_t *bundle = *state;
  static const char *const names[] = {"kernels.cubin", "kernels.ptx", "manifest.json"};
  expect_read("/nonexistent", MOE_RT_IO_ERROR,
              "/nonexistent/manifest.json: No such file or directory; a bundle is a folder that "
              "moe-opt --emit=bundle writes");
  for (int i = 0; i < 3; i++) {
    char path[512];
    char message[600];
    snprintf(path, sizeof path, "%s/%s", bundle->folder, names[i]);
    snprintf(message, sizeof message, "%s: No such file", path);
    assert_int_equal(unlink(path), 0);
    expect_read(bundle->folder, MOE_RT_IO_ERROR, message);
  }
  char path[512];
  snprintf(path, sizeof path, "%s/manifest.json", bundle->folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_read(bundle->folder, MOE_RT_IO_ERROR, "manifest.json: is not a regular file");
}

static void test_changed_files(void **state) {
  const bundle_t *bundle = *state;
  size_t size = 0;
  const void *cubin = empty_cubin(&size);
  char *changed = malloc(size);
  memcpy(changed, cubin, size);
  changed[size - 1] ^= 1;
  file_write(bundle->folder, "kernels.cubin", changed, size);
  expect_read(bundle->folder, MOE_RT_INVALID_BUNDLE, "kernels.cubin: has the hash ");
  file_write(bundle->folder, "kernels.cubin", cubin, size - 1);
  expect_read(bundle->folder, MOE_RT_INVALID_BUNDLE,
              "kernels.cubin: has 263 bytes; the manifest says 264");
  file_write(bundle->folder, "kernels.ptx", ptx_text, sizeof ptx_text - 2);
  expect_read(bundle->folder, MOE_RT_INVALID_BUNDLE, "kernels.ptx: has ");
  file_write(bundle->folder, "kernels.ptx", "", 0);
  expect_read(bundle->folder, MOE_RT_INVALID_BUNDLE, "kernels.ptx: has 0 bytes");
  file_write(bundle->folder, "manifest.json", "{\"format\":", 10);
  expect_read(bundle->folder, MOE_RT_INVALID_BUNDLE, "/manifest.json:1:");
  file_write(bundle->folder, "manifest.json", "", 0);
  expect_read(bundle->folder, MOE_RT_INVALID_BUNDLE, "/manifest.json:1:");
  free(changed);
}

static void test_ptx_contents(void **state) {
  const bundle_t *bundle = *state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"hello", "kernels.ptx: has no .version where it must be"},
      {"// only a comment", "has no .version"},
      {"/* never ends .version 8.0", "has no .version"},
      {".version", "has .version ; the manifest says 8.0"},
      {".version 8.1\n.target sm_90a\n", "has .version 8.1; the manifest says 8.0"},
      {".version 8.0\n", "has no .target where it must be"},
      {".version 8.0\n.target sm_90\n", "has .target sm_90; the manifest says sm_90a"},
      {".version 8.0 // x\n/* y */ .target sm_100a, debug\n", "has .target sm_100a"},
      {".version 8.0\n\x01.target sm_90a\n", "is not text: byte 13 is 0x01"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bundle_write(bundle->folder, bundle->manifest, cases[i].text, NULL, 0);
    expect_read(bundle->folder, MOE_RT_INVALID_BUNDLE, cases[i].message);
  }
  bundle_write(bundle->folder, bundle->manifest, "/* a */.version 8.0 // b\n.target sm_90a, debug",
               NULL, 0);
  moe_rt_program_t *program = NULL;
  assert_int_equal(moe_rt_program_read(bundle->folder, &program), MOE_RT_OK);
  moe_rt_program_destroy(program);

  static const char with_nul[] = ".version 8.0\n\0.target sm_90a";
  moe__rt_bytes_t bytes = {.data = (char *)with_nul, .size = sizeof with_nul - 1};
  assert_int_equal(moe__rt_ptx_check(&bytes, "8.0", "sm_90a"), MOE_RT_INVALID_BUNDLE);
  assert_string_equal(moe_rt_last_message(), "is not text: byte 13 is 0x00");
}

/* Each damage is the new value of one field of the ELF. */
static void test_cubin_contents(void **state) {
  (void)state;
  enum {
    SECTION = sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr),
    SEGMENT = SECTION + sizeof(Elf64_Shdr)
  };
  static const struct {
    size_t offset, bytes;
    uint64_t value;
    const char *message;
  } cases[] = {
      {0, 1, 0x7e, "is not an ELF file"},
      {EI_CLASS, 1, ELFCLASS32, "not one of CUDA"},
      {EI_DATA, 1, ELFDATA2MSB, "not one of CUDA"},
      {offsetof(Elf64_Ehdr, e_machine), 2, EM_X86_64, "not one of CUDA"},
      {offsetof(Elf64_Ehdr, e_shoff), 8, 300, "the section table reaches past"},
      {offsetof(Elf64_Ehdr, e_shoff), 8, UINT64_MAX - 8, "the section table reaches past"},
      {offsetof(Elf64_Ehdr, e_shnum), 2, 0, "the section table reaches past"},
      {offsetof(Elf64_Ehdr, e_shnum), 2, 0xffff, "the section table reaches past"},
      {offsetof(Elf64_Ehdr, e_shentsize), 2, 32, "the section table reaches past"},
      {offsetof(Elf64_Ehdr, e_shstrndx), 2, 2, "the section of names does not exist"},
      {SECTION + offsetof(Elf64_Shdr, sh_offset), 8, 264, "section 1 reaches past"},
      {SECTION + offsetof(Elf64_Shdr, sh_offset), 8, UINT64_MAX, "section 1 reaches past"},
      {SECTION + offsetof(Elf64_Shdr, sh_size), 8, UINT64_MAX, "section 1 reaches past"},
      {SECTION + offsetof(Elf64_Shdr, sh_size), 8, 5, "section 1 of strings does not end"},
      {offsetof(Elf64_Ehdr, e_phoff), 8, 300, "the segment table reaches past"},
      {offsetof(Elf64_Ehdr, e_phentsize), 2, 8, "the segment table reaches past"},
      {SEGMENT + offsetof(Elf64_Phdr, p_filesz), 8, 265, "segment 0 reaches past"},
      {SEGMENT + offsetof(Elf64_Phdr, p_offset), 8, UINT64_MAX, "segment 0 reaches past"},
  };
  size_t size = 0;
  const void *valid = empty_cubin(&size);
  assert_int_equal(size, 264);
  moe__rt_bytes_t bytes = {.data = malloc(size), .size = size};
  memcpy(bytes.data, valid, size);
  assert_int_equal(moe__rt_cubin_check(&bytes), MOE_RT_OK);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    memcpy(bytes.data, valid, size);
    memcpy(bytes.data + cases[i].offset, &cases[i].value, cases[i].bytes);
    assert_int_equal(moe__rt_cubin_check(&bytes), MOE_RT_INVALID_BUNDLE);
    if (!strstr(moe_rt_last_message(), cases[i].message))
      fail_msg("case %zu: expected '%s', got '%s'", i, cases[i].message, moe_rt_last_message());
  }
  free(bytes.data);
  for (size_t cut = 0; cut < size; cut++) {
    moe__rt_bytes_t part = {.data = malloc(cut + 1), .size = cut};
    memcpy(part.data, valid, cut);
    assert_int_equal(moe__rt_cubin_check(&part), MOE_RT_INVALID_BUNDLE);
    free(part.data);
  }
}

/* ---- Loading ---- */

static void test_load_policy(void **state) {
  const bundle_t *bundle = *state;
  static const struct {
    moe_rt_status_t cubin, ptx, expected;
    const char *text; /* the code, or a part of the message */
  } cases[] = {
      {MOE_RT_OK, MOE_RT_OK, MOE_RT_OK, "cubin"},
      {MOE_RT_UNSUPPORTED, MOE_RT_OK, MOE_RT_OK, "ptx"},
      {MOE_RT_UNSUPPORTED, MOE_RT_UNSUPPORTED, MOE_RT_UNSUPPORTED,
       "kernels.cubin: fake refusal of cubin; kernels.ptx: fake refusal of ptx"},
      {MOE_RT_OUT_OF_MEMORY, MOE_RT_OK, MOE_RT_OUT_OF_MEMORY, "kernels.cubin: fake refusal"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fake_device_t fake;
    fake_device_init(&fake);
    fake.cubin_status = cases[i].cubin;
    fake.ptx_status = cases[i].ptx;
    moe_rt_program_t *program = NULL;
    assert_int_equal(moe_rt_program_load(&fake.base, bundle->folder, &program), cases[i].expected);
    if (cases[i].expected == MOE_RT_OK) {
      assert_string_equal(moe_rt_program_code(program), cases[i].text);
      assert_int_equal(fake.live_code, 1);
      assert_int_equal(fake.kernel_count, 2);
    } else {
      assert_null(program);
      assert_non_null(strstr(moe_rt_last_message(), cases[i].text));
      assert_ptr_equal(strstr(moe_rt_last_message(), bundle->folder), moe_rt_last_message());
    }
    moe_rt_program_destroy(program);
    assert_int_equal(fake.live_code, 0);
    moe_rt_device_close(&fake.base);
  }
}

/* Kernels that older assemblers make wrong code of: an old cubin is not loaded, and PTX is not
 * given to a driver that is as old. */
static void test_load_needs_a_new_assembler(void **state) {
  const bundle_t *bundle = *state;
  static const struct {
    const char *assembler; /* of the cubin; NULL: there is none */
    int driver;
    moe_rt_status_t expected;
    const char *text; /* the code, or a part of the message */
  } cases[] = {
      {"ptxas 13.3.73", 13000, MOE_RT_OK, "cubin"},
      {"ptxas 14.0.1", 12000, MOE_RT_OK, "cubin"},
      {"ptxas 13.0.88", 13030, MOE_RT_OK, "ptx"},
      {"ptxas 13.0.88", 13020, MOE_RT_OLD_ASSEMBLER,
       "kernels.cubin: kernel 'clear' needs an assembler of CUDA 13.3 or newer; that of the "
       "cubin "
       "is of 13.0; kernels.ptx: kernel 'clear' needs an assembler of CUDA 13.3 or newer; the "
       "driver's compiler is of 13.2. Compile the bundle where moe-opt finds such a ptxas, or take "
       "a newer driver"},
      {"mine", 13020, MOE_RT_OLD_ASSEMBLER, "that of the cubin is of 0.0"},
      {NULL, 13020, MOE_RT_OLD_ASSEMBLER, "the driver's compiler is of 13.2"},
      {NULL, 13030, MOE_RT_OK, "ptx"},
      {NULL, 0, MOE_RT_OK, "ptx"}, /* the emulator has no compiler */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fake_device_t fake;
    fake_device_init(&fake);
    fake.base.info.driver_version = cases[i].driver;
    size_t size = 0;
    const void *cubin = empty_cubin(&size);
    json_t *manifest = json_deep_copy(bundle->manifest);
    json_object_set_new(json_array_get(json_object_get(manifest, "kernels"), 0), "min_assembler",
                        json_string("13.3"));
    if (cases[i].assembler)
      json_object_set_new(json_object_get(json_object_get(manifest, "artifacts"), "cubin"),
                          "assembler", json_string(cases[i].assembler));
    else
      json_object_del(json_object_get(manifest, "artifacts"), "cubin");
    char *folder = folder_make();
    bundle_write(folder, manifest, ptx_text, cases[i].assembler ? cubin : NULL, size);
    moe_rt_program_t *program = NULL;
    assert_int_equal(moe_rt_program_load(&fake.base, folder, &program), cases[i].expected);
    if (cases[i].expected == MOE_RT_OK)
      assert_string_equal(moe_rt_program_code(program), cases[i].text);
    else if (!strstr(moe_rt_last_message(), cases[i].text))
      fail_msg("%s", moe_rt_last_message());
    moe_rt_program_destroy(program);
    assert_int_equal(fake.live_code, 0);
    moe_rt_device_close(&fake.base);
    folder_remove(folder);
    json_decref(manifest);
  }
}

static void test_load_needs_the_target(void **state) {
  const bundle_t *bundle = *state;
  fake_device_t fake;
  fake_device_init(&fake);
  moe_rt_program_t *program = NULL;
  fake.base.info.compute_major = 10;
  assert_int_equal(moe_rt_program_load(&fake.base, bundle->folder, &program), MOE_RT_UNSUPPORTED);
  assert_non_null(strstr(moe_rt_last_message(), "fake:0 has compute capability 10.0; the bundle is "
                                                "for sm_90a, which needs 9.0"));
  fake.base.info.compute_major = 9;
  fake.base.info.shared_memory_per_block = 98303;
  assert_int_equal(moe_rt_program_load(&fake.base, bundle->folder, &program), MOE_RT_UNSUPPORTED);
  assert_non_null(strstr(moe_rt_last_message(),
                         "kernel 'quantize' needs 98304 bytes of shared memory; fake:0 has 98303"));
  assert_int_equal(fake.live_code, 0);
  moe_rt_device_close(&fake.base);
}

/* ---- Shapes ---- */

static void test_shapes(void **state) {
  const bundle_t *bundle = *state;
  moe_rt_program_t *program = NULL;
  assert_int_equal(moe_rt_program_read(bundle->folder, &program), MOE_RT_OK);
  const moe_rt_function_info_t *function = moe_rt_program_function(program, 0);
  int64_t shape[] = {8, 160, 5120};
  const int64_t *shapes[] = {shape};
  int64_t results[2][MOE_RT_MAX_RANK];
  int64_t temporaries[3][MOE_RT_MAX_RANK];
  assert_int_equal(moe_rt_function_shapes(program, function, shapes, results, NULL), MOE_RT_OK);
  assert_int_equal(results[0][1], 160);
  assert_int_equal(results[1][0], 8);
  assert_int_equal(results[1][1], 5);
  assert_int_equal(results[1][2], 5120);
  assert_int_equal(moe_rt_function_shapes(program, function, shapes, results, temporaries),
                   MOE_RT_NOT_PREPARED);
  assert_string_equal(moe_rt_last_message(),
                      "function 'quantize_expert_weights': temporary 'count': dimension 0: depends "
                      "on num_sms; load the program on a device first");
  moe_rt_program_destroy(program);

  fake_device_t fake;
  fake_device_init(&fake);
  assert_int_equal(moe_rt_program_load(&fake.base, bundle->folder, &program), MOE_RT_OK);
  const moe_rt_function_info_t *loaded = moe_rt_program_function(program, 0);
  assert_int_equal(moe_rt_function_shapes(program, loaded, shapes, NULL, temporaries), MOE_RT_OK);
  assert_int_equal(temporaries[0][0], 396);
  assert_int_equal(temporaries[1][0], 8);
  assert_int_equal(temporaries[1][1], 64);
  assert_int_equal(temporaries[2][0], 1);

  static const struct {
    int64_t shape[3];
    const char *message;
  } bad[] = {
      {{8, 100, 5120}, "argument 'w': dimension 1 is 100; it must be a multiple of 32"},
      {{8, 96, 5128}, "argument 'w': dimension 2 is 5128; it must be a multiple of 16"},
      {{-1, 96, 16}, "argument 'w': dimension 0 is -1; it must be at least 0"},
      {{1048577, 96, 16}, "argument 'w': dimension 0 is 1048577; it must be 0 to 1048576"},
      {{1048576, 4294967296, 4294967296}, "result 'q': the size in bytes does not fit 63 bits"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    shapes[0] = bad[i].shape;
    assert_int_equal(moe_rt_function_shapes(program, loaded, shapes, results, NULL),
                     MOE_RT_INVALID_ARGUMENT);
    if (!strstr(moe_rt_last_message(), bad[i].message))
      fail_msg("expected '%s', got '%s'", bad[i].message, moe_rt_last_message());
    if (i < 4)
      assert_int_equal(results[1][1], 0);
  }
  shapes[0] = NULL;
  assert_int_equal(moe_rt_function_shapes(program, loaded, shapes, results, NULL),
                   MOE_RT_INVALID_ARGUMENT);
  moe_rt_function_info_t copy = *loaded;
  assert_int_equal(moe_rt_function_shapes(program, &copy, shapes, results, NULL),
                   MOE_RT_INVALID_ARGUMENT);
  assert_non_null(strstr(moe_rt_last_message(), "function is not of this program"));
  moe_rt_program_destroy(program);
  moe_rt_device_close(&fake.base);
}

/* One symbol in two places has one value. */
static void test_shared_symbol(void **state) {
  const bundle_t *bundle = *state;
  json_t *function = json_array_get(json_object_get(bundle->manifest, "functions"), 1);
  json_t *argument = json_array_get(json_object_get(function, "arguments"), 0);
  json_object_set_new(
      function, "symbols",
      json_pack("[{s:s,s:i,s:i,s:i}]", "name", "n", "multiple_of", 8, "min", 8, "max", 64));
  json_object_set_new(argument, "shape", json_pack("[s,s]", "n", "n"));
  bundle_write(bundle->folder, bundle->manifest, ptx_text, NULL, 0);
  moe_rt_program_t *program = NULL;
  if (moe_rt_program_read(bundle->folder, &program) != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
  const moe_rt_function_info_t *info = moe_rt_program_function(program, 1);
  int64_t shape[] = {64, 64};
  const int64_t *shapes[] = {shape};
  assert_int_equal(moe_rt_function_shapes(program, info, shapes, NULL, NULL), MOE_RT_OK);
  shape[1] = 32;
  assert_int_equal(moe_rt_function_shapes(program, info, shapes, NULL, NULL),
                   MOE_RT_INVALID_ARGUMENT);
  assert_string_equal(moe_rt_last_message(), "function 'scale_tile': argument 'x': dimension 1 is "
                                             "32; it must be 64, the value of 'n'");
  moe_rt_program_destroy(program);
}

int main(int argc, char **argv) {
  require(argc == 2, "usage: program_test INPUTS");
  inputs = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_read, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_find_the_only_function, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_missing_files, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_changed_files, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_ptx_contents, set_up, tear_down),
      cmocka_unit_test(test_cubin_contents),
      cmocka_unit_test_setup_teardown(test_load_policy, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_load_needs_a_new_assembler, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_load_needs_the_target, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_shapes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_shared_symbol, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
