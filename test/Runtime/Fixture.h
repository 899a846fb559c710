/* Fixture.h - quantize.json loaded on a fake device, and tensors that fit it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_RUNTIME_FIXTURE_H
#define MOE_TEST_RUNTIME_FIXTURE_H

#include "test/Runtime/FakeDevice.h"
#include "test/Runtime/Support.h"

/* The PTX of its bundle, and where its tensors lie at first. */
extern const char fixture_ptx[];
#define FIXTURE_BASE (UINT64_C(1) << 32)

typedef struct fixture_t {
  fake_device_t fake;
  char *folder; /* the bundle */
  moe_rt_program_t *program;
  const moe_rt_function_info_t *function;
  int64_t shapes[3][3];
  int64_t strides[3][3];
  DLTensor tensors[3];
  const DLTensor *pointers[3];
  moe_rt_workspace_t workspace;
} fixture_t;

/* quantize.json, for the caller to change and free. */
json_t *fixture_manifest(const char *inputs);

/* Loads a bundle with this manifest. */
void fixture_load(fixture_t *fixture, json_t *manifest);

/* Makes the tensors those of this size, one after the other from an address on. */
void fixture_set_tensors(fixture_t *fixture, uintptr_t address, int64_t e, int64_t n, int64_t k);

/* Makes the second function of the manifest, which needs no workspace, the fixture's, and its two
 * tensors of (128, 64) the first ones. */
void fixture_without_workspace(fixture_t *fixture);

/* A fixture with E = 3, N = 96, K = 416. destroy requires that nothing is left on the device. */
fixture_t *fixture_create(const char *inputs);
void fixture_destroy(fixture_t *fixture);

#endif /* MOE_TEST_RUNTIME_FIXTURE_H */
