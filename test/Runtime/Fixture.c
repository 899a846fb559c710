/* Fixture.c - see Fixture.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/Fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fixture_ptx[] = ".version 8.0\n.target sm_90a\n";

json_t *fixture_manifest(const char *inputs) {
  char path[512];
  snprintf(path, sizeof path, "%s/quantize.json", inputs);
  return read_json(path);
}

void fixture_load(fixture_t *fixture, json_t *manifest) {
  if (fixture->folder)
    folder_remove(fixture->folder);
  fixture->folder = folder_make();
  bundle_write(fixture->folder, manifest, fixture_ptx, NULL, 0);
  moe_rt_status_t status =
      moe_rt_program_load(&fixture->fake.base, fixture->folder, &fixture->program);
  require(status == MOE_RT_OK, moe_rt_last_message());
  fixture->function = moe_rt_program_function(fixture->program, 0);
}

static void set_tensor(fixture_t *fixture, int index, uintptr_t address, DLDataType dtype,
                       const int64_t shape[3], const int64_t strides[3]) {
  memcpy(fixture->shapes[index], shape, sizeof fixture->shapes[index]);
  memcpy(fixture->strides[index], strides, sizeof fixture->strides[index]);
  fixture->tensors[index] = (DLTensor){
      .data = (void *)address,
      .device = {kDLCUDA, 0},
      .ndim = 3,
      .dtype = dtype,
      .shape = fixture->shapes[index],
      .strides = fixture->strides[index],
  };
  fixture->pointers[index] = &fixture->tensors[index];
}

void fixture_set_tensors(fixture_t *fixture, uintptr_t address, int64_t e, int64_t n, int64_t k) {
  set_tensor(fixture, 0, address, (DLDataType){kDLBfloat, 16, 1}, (int64_t[]){e, n, k},
             (int64_t[]){n * k, k, 1});
  address += (uintptr_t)(2 * e * n * k);
  set_tensor(fixture, 1, address, (DLDataType){kDLFloat8_e4m3fn, 8, 1}, (int64_t[]){e, n, k},
             (int64_t[]){n * k, 1, n});
  address += (uintptr_t)(e * n * k);
  set_tensor(fixture, 2, address, (DLDataType){kDLFloat8_e8m0fnu, 8, 1}, (int64_t[]){e, n / 32, k},
             (int64_t[]){n / 32 * k, k, 1});
}

void fixture_without_workspace(fixture_t *fixture) {
  fixture->function = moe_rt_program_function(fixture->program, 1);
  fixture->shapes[0][0] = 128;
  fixture->shapes[0][1] = 64;
  fixture->tensors[0] = (DLTensor){.data = (void *)0x1001,
                                   .device = {kDLCUDA, 0},
                                   .ndim = 2,
                                   .dtype = {kDLFloat8_e5m2, 8, 1},
                                   .shape = fixture->shapes[0]};
  fixture->tensors[1] = fixture->tensors[0];
  fixture->tensors[1].data = (void *)0x9002;
  fixture->tensors[1].dtype = (DLDataType){kDLBfloat, 16, 1};
}

fixture_t *fixture_create(const char *inputs) {
  fixture_t *fixture = calloc(1, sizeof *fixture);
  require(fixture != NULL, "calloc");
  fake_device_init(&fixture->fake);
  json_t *manifest = fixture_manifest(inputs);
  fixture_load(fixture, manifest);
  json_decref(manifest);
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  return fixture;
}

void fixture_destroy(fixture_t *fixture) {
  moe_rt_program_destroy(fixture->program);
  require(fixture->fake.live_allocations == 0, "memory was not freed");
  require(fixture->fake.live_code == 0, "code was not unloaded");
  moe_rt_device_close(&fixture->fake.base);
  folder_remove(fixture->folder);
  free(fixture);
}
