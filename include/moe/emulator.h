/* moe/emulator.h - executes PTX for Hopper on the CPU.
 *
 * Why it exists: a GPU turns a missing fence, a wrong transaction count or a misplaced wait into a
 * hang or into numbers that are right most of the time. The emulator runs the very PTX that a GPU
 * would load, asynchronous copies and matrix products included, and says what is wrong and where.
 * docs/emulator.md tells what it models.
 *
 * libmoe_rt has it as the device "emu"; this header is for tools and tests that bring PTX of their
 * own.
 *
 * Errors: a status, and a report: one line without a newline that names kernel, line of the PTX,
 * instruction, CTA, warp, lane and address, as far as they are known. A pointer that must not be
 * NULL and is, is MOE_EMU_INVALID_ARGUMENT, out_report too.
 *
 * Threads: a module may be launched from several threads at once.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_H
#define MOE_EMULATOR_H

#include "moe/export.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum moe_emu_status_t {
  MOE_EMU_OK = 0,
  MOE_EMU_INVALID_PTX,      /* the text is not PTX that the emulator knows */
  MOE_EMU_INVALID_ARGUMENT, /* a launch that no device would take */
  MOE_EMU_FAULT,            /* the kernel did something wrong */
  MOE_EMU_LIMIT,            /* a cluster has reached the limit of steps */
  MOE_EMU_OUT_OF_MEMORY,
} moe_emu_status_t;

#define MOE_EMU_REPORT_BYTES 1536

/* What went wrong; empty after MOE_EMU_OK. */
typedef struct moe_emu_report_t {
  char text[MOE_EMU_REPORT_BYTES];
} moe_emu_report_t;

typedef struct moe_emu_module_t moe_emu_module_t;

/* Reads the PTX in text[0..size), for sm_90 or sm_90a. *out_module is owned by the caller. */
MOE_API moe_emu_status_t moe_emu_module_load(const char *text, size_t size,
                                             moe_emu_module_t **out_module,
                                             moe_emu_report_t *out_report);

/* Frees the module. Its launches must have finished. NULL is allowed. */
MOE_API void moe_emu_module_destroy(moe_emu_module_t *module);

/* Whether the module has a kernel of this name; false where either is NULL. */
MOE_API bool moe_emu_module_has(const moe_emu_module_t *module, const char *kernel);

/* Whether the launches before a launch that may start early still use a buffer. */
typedef enum moe_emu_pending_t {
  MOE_EMU_NOT_PENDING,
  MOE_EMU_PENDING,        /* until griddepcontrol.wait: a thread must know that one of its CTA has
                           * come back from it before it touches the buffer */
  MOE_EMU_PENDING_BEYOND, /* and longer: the launch that uses it is not one that griddepcontrol.wait
                           * waits for, and so is any touch an error */
} moe_emu_pending_t;

/* Global memory that a launch may touch: [address, address + bytes), memory of this process.
 * Nothing outside of all buffers is ever read or written. Buffers must not overlap, and none that
 * has bytes is at address 0. */
typedef struct moe_emu_buffer_t {
  uint64_t address;
  uint64_t bytes;
  bool writable;
  const char *name; /* for reports; borrowed; NULL: none */
  moe_emu_pending_t pending;
} moe_emu_buffer_t;

typedef struct moe_emu_launch_t {
  const char *kernel;
  uint32_t grid[3], block[3]; /* grids to 2^31 - 1, 65535, 65535; CTAs to 1024, 1024, 64 */
  uint32_t cluster[3];     /* up to 8, 1, 1; 1, 1, 1: what .reqnctapercluster says, or no cluster */
  uint32_t dynamic_shared; /* bytes of shared memory beyond what the PTX declares */
  const void *const *parameters; /* parameters[i], not NULL: the value of parameter i, as many bytes
                                  * as the PTX declares */
  const uint32_t *parameter_bytes; /* of each value; NULL: not checked against the PTX */
  int parameter_count;
  const moe_emu_buffer_t *buffers;
  int buffer_count;
  bool *out_has_waited; /* NULL, or set: whether a thread has executed griddepcontrol.wait */
} moe_emu_launch_t;

typedef struct moe_emu_options_t {
  uint64_t schedule;   /* 0: warps in turn, asynchronous work done soon. Otherwise the seed of a
                      * random schedule: warps in any order, asynchronous work late and out of
                      * order. A right kernel gives the same results. */
  int threads;         /* clusters at once, to 1024; 0: one per processor */
  uint64_t step_limit; /* instructions that all warps of a cluster together may execute, each
                        * counted once for a warp; a CTA without a cluster is one of its own; 0: no
                        * limit */
  bool skip_order;     /* do not check that accesses are ordered and fenced */
  /* Clusters take turns on one thread, and reads may return any value that the memory model allows,
   * also where nothing in the kernel could order CTAs. */
  bool interleave;
  /* Memory for what clusters know of one another, which grows with how often they meet; 0: 1 GiB.
   * Where it does not suffice the launch ends with MOE_EMU_OUT_OF_MEMORY. */
  size_t order_bytes;
} moe_emu_options_t;

/* Runs all CTAs and returns when they are done, or at the first error: that of the cluster
 * with the lowest number. Shared memory of each CTA starts filled with 0xFF. options may be
 * NULL: all zero. */
MOE_API moe_emu_status_t moe_emu_launch(const moe_emu_module_t *module,
                                        const moe_emu_launch_t *launch,
                                        const moe_emu_options_t *options,
                                        moe_emu_report_t *out_report);

/* ---- Tensor maps ---- */

#define MOE_EMU_TENSOR_MAP_BYTES 128
#define MOE_EMU_MAX_RANK 5

typedef enum moe_emu_map_type_t { /* numbers of CUtensorMapDataType */
                                  MOE_EMU_MAP_U8 = 0,
                                  MOE_EMU_MAP_U16 = 1,
                                  MOE_EMU_MAP_U32 = 2,
                                  MOE_EMU_MAP_F16 = 6,
                                  MOE_EMU_MAP_F32 = 7,
                                  MOE_EMU_MAP_BF16 = 9,
} moe_emu_map_type_t;

/* A tiled map, innermost dimension first, as cuTensorMapEncodeTiled takes it (no interleave,
 * element strides of 1). */
typedef struct moe_emu_tensor_map_t {
  moe_emu_map_type_t type;
  int rank;
  uint64_t address;
  uint64_t dims[MOE_EMU_MAX_RANK];        /* elements */
  uint64_t strides[MOE_EMU_MAX_RANK - 1]; /* bytes, of dims 1.. */
  uint32_t box[MOE_EMU_MAX_RANK];         /* elements */
  int swizzle;                            /* 0 none, 1 32B, 2 64B, 3 128B */
  bool fill_nan;                          /* what lies outside of the tensor is NaN, not 0 */
} moe_emu_tensor_map_t;

/* Writes the 128 bytes of a kernel parameter. They mean nothing to a GPU. MOE_EMU_INVALID_ARGUMENT,
 * with the rule that the map breaks, where the driver would refuse it. */
MOE_API moe_emu_status_t moe_emu_tensor_map_encode(const moe_emu_tensor_map_t *map,
                                                   uint8_t out_bytes[MOE_EMU_TENSOR_MAP_BYTES],
                                                   moe_emu_report_t *out_report);

#ifdef __cplusplus
}
#endif

#endif /* MOE_EMULATOR_H */
