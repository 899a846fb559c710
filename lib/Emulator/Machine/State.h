/* State.h - a cluster of CTAs that run: warps, their lanes and their registers.
 *
 * Why it exists: the state that instructions work on, and what they may ask of the machine.
 *
 * Lanes that go apart at a branch are a split each, with a program counter of its own, until they
 * meet again at the branch's postdominator. Splits run independently, as the lanes of a GPU do
 * since Volta: one that waits does not keep the others from going on.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_STATE_H
#define MOE_EMULATOR_MACHINE_STATE_H

#include "lib/Emulator/Checks/Global.h"
#include "lib/Emulator/Checks/Order.h"
#include "lib/Emulator/Machine/Memory.h"
#include "lib/Emulator/Ptx/Program.h"
#include "moe/emulator.h"

#include <stdatomic.h>

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

/* What matrix products have to do with a register. Most registers, and those that the warp has
 * accessed since its last wgmma.fence, are NO_MATRIX. */
typedef enum moe__emu_matrix_use_t {
  MOE__EMU_NO_MATRIX,
  MOE__EMU_FENCED,    /* a wgmma.fence has come since the warp's last access to it */
  MOE__EMU_WRITTEN,   /* a product in flight will write it */
  MOE__EMU_READ_ONLY, /* a product in flight reads it */
} moe__emu_matrix_use_t;

/* What a register's lanes went through. */
typedef struct moe__emu_shadow_t {
  uint32_t initialized; /* lanes */
  uint32_t poisoned; /* lanes that hold bits of uninitialized memory, and count as uninitialized */
  uint8_t matrix;    /* moe__emu_matrix_use_t */
  uint8_t shape;     /* of the product that wrote it since the last wgmma.fence; 0: none did */
  bool was_written;  /* by the access at `line`, the first one since the last wgmma.fence */
  uint32_t line;     /* 0: there was none */
} moe__emu_shadow_t;

typedef struct moe__emu_cta_t moe__emu_cta_t;
typedef struct moe__emu_cluster_t moe__emu_cluster_t;

/* What a CTA owns, each described where it is worked on. */
typedef struct moe__emu_named_barrier_t moe__emu_named_barrier_t; /* Instructions/Barrier.h */
typedef struct moe__emu_mbarriers_t moe__emu_mbarriers_t;         /* Instructions/Mbarrier.h */
typedef struct moe__emu_async_t moe__emu_async_t;                 /* Machine/Async.h */
typedef struct moe__emu_matrix_t moe__emu_matrix_t;               /* Instructions/Matrix.h */
typedef struct moe__emu_matrix_warp_t moe__emu_matrix_warp_t;

enum {
  MOE__EMU_MAX_CLUSTER = 8,
  /* An address of shared memory has the CTA's rank from this bit on, also in the CTA itself, as on
   * an H200: what is made of the lower bits has to cut it off. */
  MOE__EMU_RANK_SHIFT = 24,
};

/* barrier.cluster, whose threads are all of the cluster that have not exited. */
typedef struct moe__emu_cluster_barrier_t {
  uint32_t alive;      /* threads of the cluster */
  uint32_t arrived;    /* of them, in the phase that gathers */
  uint32_t generation; /* phases completed */
  moe__emu_view_t gathered, completed;
} moe__emu_cluster_barrier_t;

/* A CTA's shared memory, as the other CTAs use it. */
typedef struct moe__emu_residence_t {
  uint32_t alive;       /* threads of the CTA */
  moe__emu_view_t left; /* what the threads that have exited knew */
  uint32_t
      touched[MOE__EMU_MAX_AGENTS]; /* the clock of each agent of another CTA that touched it */
} moe__emu_residence_t;

/* A load of global memory whose value is chosen when it is used, so that later accesses of the
 * warp may come before it. Random schedules have some. */
typedef struct moe__emu_deferred_t moe__emu_deferred_t;
struct moe__emu_deferred_t {
  bool (*finish)(moe__emu_warp_t *warp, const moe__emu_deferred_t *deferred); /* false: a fault */
  const moe__emu_instruction_t *instruction;
  uint32_t active, bytes;
  uint64_t addresses[MOE__EMU_LANES];
};

enum { MOE__EMU_MAX_DEFERRED = 4, MOE__EMU_MAX_WAITED = 64 };

/* What a warp has waited for last at an mbarrier, by parity. */
typedef struct moe__emu_waited_t {
  uint32_t agent;  /* the mbarrier's */
  uint32_t phases; /* so many were complete when the wait came back */
  uint32_t clock;  /* of the warp then */
  uint32_t line;   /* of the wait */
} moe__emu_waited_t;

struct moe__emu_warp_t {
  moe__emu_cta_t *cta;
  const moe__emu_kernel_t *kernel;
  uint32_t number;            /* in the CTA */
  uint32_t agent;             /* in the cluster's order */
  uint32_t alive;             /* lanes that have not exited */
  uint32_t first_lanes;       /* lanes that the warp began with */
  uint8_t *file;              /* the register file */
  moe__emu_shadow_t *shadows; /* of each row */
  moe__emu_split_t splits[MOE__EMU_LANES];
  uint32_t split_count, next_split;
  moe__emu_split_t *split; /* the one that runs */
  moe__emu_meeting_t meetings[2 * MOE__EMU_LANES];
  moe__emu_matrix_warp_t *matrix; /* the CTA owns it */
  uint32_t came[2]; /* lanes that have come to the cluster's barrier and not waited: by the phase's
                     * parity */
  uint32_t registers; /* of each thread, for setmaxnreg */
  moe__emu_global_cache_t cache;
  moe__emu_deferred_t deferred[MOE__EMU_MAX_DEFERRED];
  uint32_t deferred_count;
  moe__emu_waited_t waited[MOE__EMU_MAX_WAITED];
  uint32_t waited_count;
  uint8_t *poison;      /* as the register file: its undefined bits; NULL: there never were any */
  bool has_poison;      /* some may be there now */
  uint32_t poison_line; /* of the load that brought the last of them */
  uint32_t poison_address; /* in shared memory */
};

/* What all CTAs of a launch share. */
typedef struct moe__emu_machine_t {
  const moe__emu_kernel_t *kernel;
  const moe_emu_launch_t *launch;
  moe_emu_options_t options;
  moe__emu_global_t global;
  uint8_t parameters[4096];
  uint32_t thread_count, warp_count; /* of a CTA */
  uint32_t cluster_size;             /* CTAs of a cluster, along x */
  uint32_t shared_bytes;
  uint32_t register_pool, first_registers; /* of a CTA; of a thread */
  moe__emu_races_t *races; /* NULL: clusters cannot learn of each other, and run on their own */
  bool has_bulk;           /* the kernel has bulk copies from or to global memory */
  bool is_second_run;      /* in which all accesses to global memory are looked at */
  atomic_bool wants_again; /* the first run has seen that there should be a second one */
  atomic_bool has_waited;  /* a thread has waited for the launches before this one */
  atomic_uint_least64_t next_cluster;
  uint64_t cluster_count;
  atomic_uint_least64_t failed_cluster; /* the lowest one, cluster_count: none */
} moe__emu_machine_t;

struct moe__emu_cta_t {
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
  moe__emu_order_t *order;            /* the cluster's */
  moe__emu_named_barrier_t *barriers; /* MOE__EMU_NAMED_BARRIERS of them */
  moe__emu_mbarriers_t *mbarriers;
  moe__emu_async_t *async;
  moe__emu_matrix_t *matrix;
  uint32_t registers_used;
  moe__emu_residence_t residence;
  uint64_t resumes; /* the turn until which a random schedule holds it back */
};

/* CTAs that run together and reach each other's shared memory. Most clusters are of one. */
struct moe__emu_cluster_t {
  moe__emu_machine_t *machine;
  uint64_t number;
  moe__emu_cta_t *ctas; /* machine->cluster_size of them, by rank */
  moe__emu_order_t order;
  moe__emu_cluster_barrier_t barrier;
  uint64_t random;
  uint64_t now;    /* turns so far */
  uint64_t events; /* things that something may have waited for */
  uint64_t steps;  /* instructions of a warp */
  moe_emu_status_t status;
  moe_emu_report_t report;
};

/* The lowest lane. */
static inline int moe__emu_first_lane(uint32_t lanes) {
  return __builtin_ctz(lanes);
}

/* For each lane of a mask. */
#define MOE__EMU_FOR_LANES(lane, mask)                                                             \
  for (uint32_t lane##_rest = (mask), lane = 0;                                                    \
       lane##_rest && (lane = (uint32_t)__builtin_ctz(lane##_rest), true);                         \
       lane##_rest &= lane##_rest - 1)

#endif /* MOE_EMULATOR_MACHINE_STATE_H */
