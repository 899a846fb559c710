/* Machine.h - a cluster of blocks that run: warps, their lanes and their registers.
 *
 * Why it exists: the state that instructions work on, and what they may ask of the machine.
 *
 * Lanes that go apart at a branch are a split each, with a program counter of its own, until they
 * meet again at the branch's postdominator. Splits run independently, as the lanes of a GPU do
 * since Volta: one that waits does not keep the others from going on.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_H
#define MOE_EMULATOR_MACHINE_H

#include "lib/Emulator/Async.h"
#include "lib/Emulator/Barrier.h"
#include "lib/Emulator/Cluster.h"
#include "lib/Emulator/Matrix.h"
#include "lib/Emulator/Memory.h"
#include "lib/Emulator/Order.h"
#include "lib/Emulator/Program.h"
#include "moe/emulator.h"

#include <stdatomic.h>
#include <string.h>

/* Lanes of a warp that run together. */
typedef struct moe__emu_split_t {
  uint32_t lanes;
  uint32_t pc;
  int meeting;     /* where they meet others, -1: nowhere */
  bool is_blocked; /* at an instruction that could not be done */
  uint64_t
      blocked_at; /* the cluster's count of events then: nothing has changed while it is the same */
  /* What a blocked instruction keeps between its tries. */
  bool has_arrived;
  uint32_t generation;
  /* The try_wait that failed last: the next time it waits. */
  uint32_t failed_pc;
  uint32_t failed_phase;
} moe__emu_split_t;

/* A branch's postdominator, waiting for all lanes that the branch separated. */
typedef struct moe__emu_meeting_t {
  bool is_used;
  uint32_t pc;
  uint32_t expected, arrived; /* lanes; those that exit are expected no more */
  int outer;                  /* the meeting that the lanes go on to, -1: none */
} moe__emu_meeting_t;

enum { MOE__EMU_WRITTEN = 1, MOE__EMU_READ_ONLY = 2 }; /* values of in_flight */

/* What a register's lanes went through; a word each, so that the fast path looks at one. */
typedef struct moe__emu_shadow_t {
  uint32_t initialized; /* lanes */
  uint8_t in_flight;    /* a matrix product will write, or still reads, it */
  uint8_t is_dirty;     /* written since the last wgmma.fence, not by a matrix product */
} moe__emu_shadow_t;

typedef struct moe__emu_block_t moe__emu_block_t;
typedef struct moe__emu_cluster_t moe__emu_cluster_t;

struct moe__emu_warp_t {
  moe__emu_block_t *block;
  const moe__emu_kernel_t *kernel;
  uint32_t number;            /* in the block */
  uint32_t agent;             /* in the cluster's order */
  uint32_t alive;             /* lanes that have not exited */
  uint32_t first_lanes;       /* lanes that the warp began with */
  uint8_t *file;              /* the register file */
  moe__emu_shadow_t *shadows; /* of each row */
  moe__emu_split_t splits[MOE__EMU_LANES];
  uint32_t split_count, next_split;
  moe__emu_split_t *split; /* the one that runs */
  moe__emu_meeting_t meetings[2 * MOE__EMU_LANES];
  moe__emu_matrix_warp_t matrix;
  uint32_t came[2]; /* lanes that have come to the cluster's barrier and not waited: by the phase's
                     * parity */
  uint32_t registers; /* of each thread, for setmaxnreg */
  moe__emu_global_cache_t cache;
};

/* What all blocks of a launch share. */
typedef struct moe__emu_machine_t {
  const moe__emu_kernel_t *kernel;
  const moe_emu_launch_t *launch;
  moe_emu_options_t options;
  moe__emu_global_t global;
  uint8_t parameters[4096];
  uint32_t thread_count, warp_count; /* of a block */
  uint32_t cluster_size;             /* blocks of a cluster, along x */
  uint32_t shared_bytes;
  uint32_t register_pool, first_registers; /* of a block; of a thread */
  double deadline;                         /* seconds of the monotonic clock; 0: none */
  atomic_uint_least64_t next_cluster;
  uint64_t cluster_count;
  atomic_uint_least64_t failed_cluster; /* the lowest one, cluster_count: none */
} moe__emu_machine_t;

struct moe__emu_block_t {
  moe__emu_machine_t *machine;
  moe__emu_cluster_t *cluster;
  uint32_t rank; /* in the cluster */
  uint64_t number;
  uint32_t index[3];
  moe__emu_warp_t *warps;
  uint8_t *files;
  moe__emu_shadow_t *shadows;
  uint8_t *shared; /* the first byte is MOE__EMU_SHARED_BASE's */
  uint32_t shared_bytes;
  moe__emu_order_t *order; /* the cluster's */
  moe__emu_barriers_t barriers;
  moe__emu_async_t async;
  moe__emu_matrix_t matrix;
  uint32_t registers_used;
  bool has_waited; /* for the launches before this one */
  moe__emu_residence_t residence;
  uint64_t resumes; /* the turn until which a random schedule holds it back */
};

/* Blocks that run together and reach each other's shared memory. Most clusters are of one. */
struct moe__emu_cluster_t {
  moe__emu_machine_t *machine;
  uint64_t number;
  moe__emu_block_t *blocks; /* machine->cluster_size of them, by rank */
  moe__emu_order_t order;
  moe__emu_cluster_barrier_t barrier;
  uint64_t random;
  uint64_t now;    /* turns so far */
  uint64_t events; /* things that something may have waited for */
  moe_emu_status_t status;
  moe_emu_report_t report;
};

/* ---- Machine.c ---- */

/* Allocates what a cluster needs; it can run many clusters one after the other. */
bool moe__emu_cluster_create(moe__emu_cluster_t *cluster, moe__emu_machine_t *machine);
void moe__emu_cluster_free(moe__emu_cluster_t *cluster);
/* Runs cluster `number` to its end. Its status and report say how it ended. */
void moe__emu_cluster_run(moe__emu_cluster_t *cluster, uint64_t number);

/* A number below `limit` from the cluster's schedule; 0 in schedule 0. */
uint32_t moe__emu_random(moe__emu_block_t *block, uint32_t limit);

/* ---- Warp.c ---- */

void moe__emu_warp_begin(moe__emu_warp_t *warp, moe__emu_block_t *block, uint32_t number);
/* Runs a split of the warp for at most `limit` instructions; whether anything was done. */
bool moe__emu_warp_run(moe__emu_warp_t *warp, uint32_t limit);
/* Separates the lanes of the running split at a branch, or moves them. */
moe__emu_step_t moe__emu_warp_branch(moe__emu_warp_t *warp, const moe__emu_instruction_t *branch,
                                     uint32_t taken);
/* Ends lanes of the running split. */
moe__emu_step_t moe__emu_warp_exit(moe__emu_warp_t *warp, uint32_t lanes);

/* ---- Report.c ---- */

/* Reports a fault at an instruction; lane -1 where it is not of one lane. Always
 * MOE__EMU_FAILED. */
moe__emu_step_t moe__emu_fault(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports a fault of the block as a whole. */
void moe__emu_fault_block(moe__emu_block_t *block, moe_emu_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports that no warp of the cluster can go on, and what each waits for. */
void moe__emu_fault_deadlock(moe__emu_cluster_t *cluster);
/* Who made an event, as this block sees it: "warp 3", "a bulk load that completes on ...". */
void moe__emu_describe_event(const moe__emu_block_t *block, moe__emu_event_t event, char *text,
                             size_t size);
/* "0x440", or "0x440 of block (1,0,0)" where the block is not the warp's. */
const char *moe__emu_describe_address(const moe__emu_warp_t *warp, const moe__emu_block_t *block,
                                      uint32_t address, char *text, size_t size);
/* Reports what a check of shared memory found; `what` did it: "the load". */
moe__emu_step_t moe__emu_fault_order(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, int lane,
                                     const char *what, const moe__emu_finding_t *finding);
/* Reports an operand whose lanes are not all initialized. */
moe__emu_step_t moe__emu_fault_operand(moe__emu_warp_t *warp,
                                       const moe__emu_instruction_t *instruction,
                                       const moe__emu_operand_t *operand, uint32_t active);

/* ---- Registers ---- */

static inline void *moe__emu_row(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand) {
  return warp->file + operand->row;
}

static inline bool moe__emu_is_ready(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand,
                                     uint32_t active) {
  return !(active & ~warp->shadows[operand->shadow].initialized);
}

static inline uint64_t moe__emu_lane_value(const moe__emu_warp_t *warp,
                                           const moe__emu_operand_t *operand, int lane) {
  const uint8_t *row = warp->file + operand->row;
  return operand->bytes >= 8 ? ((const uint64_t *)(const void *)row)[lane]
                             : ((const uint32_t *)(const void *)row)[lane];
}

/* The address that a lane gives. */
static inline uint64_t moe__emu_lane_address(const moe__emu_warp_t *warp,
                                             const moe__emu_operand_t *operand, int lane) {
  return moe__emu_lane_value(warp, operand, lane) + (uint64_t)(int64_t)operand->addend;
}

/* The lowest lane. */
static inline int moe__emu_first_lane(uint32_t lanes) {
  return __builtin_ctz(lanes);
}

/* For each lane of a mask. */
#define MOE__EMU_FOR_LANES(lane, mask)                                                             \
  for (uint32_t lane##_rest = (mask), lane = 0;                                                    \
       lane##_rest && (lane = (uint32_t)__builtin_ctz(lane##_rest), true);                         \
       lane##_rest &= lane##_rest - 1)

/* Checks that sources are initialized, and that results may be written. */
moe__emu_step_t moe__emu_check_operands(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction, uint32_t active);
/* Notes that the lanes of a result have been written. */
void moe__emu_written(moe__emu_warp_t *warp, const moe__emu_operand_t *result, uint32_t active);
/* Writes a lane of a result, and notes it. */
void moe__emu_set_lane(moe__emu_warp_t *warp, const moe__emu_operand_t *result, int lane,
                       uint64_t value);
/* Writes the lanes of a predicate, and notes it. */
void moe__emu_set_predicate(moe__emu_warp_t *warp, const moe__emu_operand_t *result,
                            uint32_t active, uint32_t value);

/* Runs an instruction that has a compute function (Compute.c). */
moe__emu_step_t moe__emu_execute_compute(moe__emu_warp_t *warp,
                                         const moe__emu_instruction_t *instruction,
                                         uint32_t active);

#endif /* MOE_EMULATOR_MACHINE_H */
