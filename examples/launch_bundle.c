/* launch_bundle.c - quantizes expert weights with the three calls of libmoe_rt, and reads an
 * element back.
 *
 *   moe-opt quantize_expert_weights.mlir --emit=bundle -o bundle
 *   cc launch_bundle.c $(pkg-config --cflags --libs moe_rt moe_ref) -o launch_bundle
 *   ./launch_bundle bundle quantize_expert_weights cuda
 *
 * The device is cuda, cuda:N, or emu, the emulator, which runs anywhere.
 *
 * A framework already has the tensors on the device and a stream of its own; it needs only load,
 * prepare and launch. libmoe_ref is here to make bf16 and to read the 8-bit formats.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/reference.h"
#include "moe/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Experts, then the two sizes of a weight matrix; MX blocks along N. */
enum { E = 2, N = 128, K = 64, BLOCK = 32, WEIGHTS = E * N * K, SCALES = WEIGHTS / BLOCK };

static void check(moe_rt_status_t status) {
  if (status == MOE_RT_OK)
    return;
  fprintf(stderr, "launch_bundle: %s\n", moe_rt_last_message());
  exit(EXIT_FAILURE);
}

static void *allocate(moe_rt_device_t *device, size_t bytes) {
  void *pointer = NULL;
  check(moe_rt_memory_allocate(device, bytes, &pointer));
  return pointer;
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: launch_bundle BUNDLE [FUNCTION [DEVICE]]\n");
    return 2;
  }
  const char *name = argc == 4 ? argv[3] : "cuda";
  moe_rt_device_t *device = NULL;
  check(moe_rt_device_open(name, &device));

  /* Once per bundle and device. */
  moe_rt_program_t *program = NULL;
  check(moe_rt_program_load(device, argv[1], &program));
  const moe_rt_function_info_t *function = NULL;
  check(moe_rt_program_find(program, argc > 2 ? argv[2] : NULL, &function));

  static uint16_t weights[WEIGHTS];
  for (int i = 0; i < WEIGHTS; i++)
    weights[i] = moe_ref_bf16_from_f32((float)(i % 1000) / 1000 - 0.5F);

  /* Once per set of tensors. q is column-major per expert: its strides say so. */
  moe_rt_device_info_t info;
  check(moe_rt_device_info(device, &info));
  /* The emulator's memory is this process's. */
  DLDevice place = {strncmp(name, "emu", 3) ? kDLCUDA : kDLCPU, info.ordinal};
  int64_t shape[] = {E, N, K}, column_major[] = {(int64_t)N * K, 1, N};
  int64_t scales_shape[] = {E, N / BLOCK, K};
  DLTensor w = {allocate(device, sizeof weights), place, 3, {kDLBfloat, 16, 1}, shape, NULL, 0};
  DLTensor q = {
      allocate(device, WEIGHTS), place, 3, {kDLFloat8_e4m3fn, 8, 1}, shape, column_major, 0};
  DLTensor scales = {
      allocate(device, SCALES), place, 3, {kDLFloat8_e8m0fnu, 8, 1}, scales_shape, NULL, 0};
  check(moe_rt_memory_to_device(device, w.data, weights, sizeof weights));
  moe_rt_call_t *call = NULL;
  check(moe_rt_call_prepare(program, function, (const DLTensor *[]){&w, &q, &scales}, 3, &call));

  /* As often as wanted, on any stream; NULL is the default stream. */
  check(moe_rt_call_launch(call, NULL));
  check(moe_rt_stream_synchronize(device, NULL));

  static uint8_t q_bytes[WEIGHTS], scale_bytes[SCALES];
  check(moe_rt_memory_from_device(device, q_bytes, q.data, sizeof q_bytes));
  check(moe_rt_memory_from_device(device, scale_bytes, scales.data, sizeof scale_bytes));
  const int e = 1, n = 70, k = 9;
  float value = moe_ref_f32_from_e4m3(q_bytes[(e * K + k) * N + n]);
  float scale = moe_ref_f32_from_e8m0(scale_bytes[(e * (N / BLOCK) + n / BLOCK) * K + k]);
  float weight = moe_ref_f32_from_bf16(weights[(e * N + n) * K + k]);
  printf("w[%d,%d,%d] = %g became %g * %g = %g\n", e, n, k, weight, value, scale, value * scale);

  moe_rt_call_destroy(call);
  moe_rt_memory_free(device, scales.data);
  moe_rt_memory_free(device, q.data);
  moe_rt_memory_free(device, w.data);
  moe_rt_program_destroy(program);
  moe_rt_device_close(device);
  return EXIT_SUCCESS;
}
