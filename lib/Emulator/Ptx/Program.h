/* Program.h - a PTX module, decoded.
 *
 * Why it exists: text is read once; what the machine runs is an array of small instructions whose
 * operands are offsets into a warp's register file. No string is looked at while a kernel runs,
 * except to report.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_PROGRAM_H
#define MOE_EMULATOR_PTX_PROGRAM_H

#include "lib/Emulator/Ptx/Error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  MOE__EMU_LANES = 32,
  MOE__EMU_MAX_CHOICES = 10,
  MOE__EMU_MAX_OPERANDS = 300,
  MOE__EMU_SINK_ROW = 0, /* the row of the operand _ */
  /* Shared memory starts here in its address space, as on Hopper: address 0 is never valid. */
  MOE__EMU_SHARED_BASE = 1024,
};

/* Where generic addresses of the small state spaces lie: outside of what a host pointer can be. */
#define MOE__EMU_SHARED_WINDOW UINT64_C(0xE000000000000000)
#define MOE__EMU_PARAM_WINDOW UINT64_C(0xC000000000000000)
#define MOE__EMU_WINDOW_BYTES UINT64_C(0x100000000)

typedef struct moe__emu_warp_t moe__emu_warp_t;
typedef struct moe__emu_instruction_t moe__emu_instruction_t;

/* What an instruction did to the lanes that ran it. */
typedef enum moe__emu_step_t {
  MOE__EMU_ADVANCE,   /* go on with the next instruction */
  MOE__EMU_JUMPED,    /* the instruction has set where they go on */
  MOE__EMU_REGROUPED, /* as JUMPED, and they are no longer the lanes they were */
  MOE__EMU_BLOCKED,   /* it cannot be done yet: try it again later */
  MOE__EMU_YIELD,     /* as ADVANCE, but let others run first */
  MOE__EMU_FAILED,    /* reported */
} moe__emu_step_t;

/* Runs the instruction for the lanes of `active`, which are at least one. */
typedef moe__emu_step_t (*moe__emu_execute_t)(moe__emu_warp_t *warp,
                                              const moe__emu_instruction_t *instruction,
                                              uint32_t active);

/* Computes all 32 lanes of a result from rows of operands. A predicate's row is one mask. */
typedef void (*moe__emu_compute_t)(void *restrict result, const void *a, const void *b,
                                   const void *c);

/* A value's place in a warp's register file. Registers, constants and special registers are all
 * rows of 32 lanes there, so that no instruction needs to tell them apart. */
typedef struct moe__emu_operand_t {
  uint32_t row;    /* byte offset */
  uint32_t shadow; /* number of the row, for the record of what is initialized */
  int32_t addend;  /* of an address: added to it; of an immediate: its value */
  uint8_t bytes; /* of a lane: 2 and 4 lie in 4 bytes, 8 in 8, 16 in two rows of 8; 1: predicate */
} moe__emu_operand_t;

struct moe__emu_instruction_t {
  moe__emu_execute_t execute;
  moe__emu_compute_t compute;
  const char *name; /* as written, owned by the program */
  uint32_t line;
  uint32_t operands; /* the first of them in the kernel's operands */
  uint16_t operand_count, result_count;
  uint8_t choice[MOE__EMU_MAX_CHOICES]; /* of each group of the opcode's pattern */
  int32_t guard;                        /* operand of the predicate, -1: none */
  bool guard_inverted;                  /* @!p */
  bool is_branch, is_exit;
  bool is_uniform;     /* bra.uni */
  bool is_result_used; /* of an atom: another instruction reads what it gives */
  bool is_pure;        /* computes registers from registers */
  uint32_t target;     /* of a branch */
  uint32_t reconverge; /* where the lanes that a branch separates meet again; MOE__EMU_NOWHERE */
};

#define MOE__EMU_NOWHERE UINT32_MAX

/* The elements of a lane's access, by its choice of "[.v2|.v4]". */
static inline uint32_t moe__emu_vector_length(uint8_t choice) {
  return 1u << choice;
}

/* What fills a row when a warp starts. */
typedef enum moe__emu_row_kind_t {
  MOE__EMU_ROW_REGISTER,
  MOE__EMU_ROW_CONSTANT,
  MOE__EMU_ROW_SHARED, /* an address of shared memory, to which the CTA's rank comes */
  MOE__EMU_ROW_SPECIAL,
} moe__emu_row_kind_t;

typedef struct moe__emu_row_t {
  moe__emu_row_kind_t kind;
  uint32_t offset;
  uint8_t bytes;    /* as in an operand */
  uint64_t value;   /* of a constant or address; of a special register: which */
  const char *name; /* of a register, for reports; owned by the program */
} moe__emu_row_t;

/* X(constant, name in PTX). Each is 32 bits wide. */
#define MOE__EMU_SPECIALS(X)                                                                       \
  X(TID_X, "%tid.x")                                                                               \
  X(TID_Y, "%tid.y")                                                                               \
  X(TID_Z, "%tid.z")                                                                               \
  X(NTID_X, "%ntid.x")                                                                             \
  X(NTID_Y, "%ntid.y")                                                                             \
  X(NTID_Z, "%ntid.z")                                                                             \
  X(CTAID_X, "%ctaid.x")                                                                           \
  X(CTAID_Y, "%ctaid.y")                                                                           \
  X(CTAID_Z, "%ctaid.z")                                                                           \
  X(NCTAID_X, "%nctaid.x")                                                                         \
  X(NCTAID_Y, "%nctaid.y")                                                                         \
  X(NCTAID_Z, "%nctaid.z")                                                                         \
  X(CLUSTERID_X, "%clusterid.x")                                                                   \
  X(CLUSTERID_Y, "%clusterid.y")                                                                   \
  X(CLUSTERID_Z, "%clusterid.z")                                                                   \
  X(NCLUSTERID_X, "%nclusterid.x")                                                                 \
  X(NCLUSTERID_Y, "%nclusterid.y")                                                                 \
  X(NCLUSTERID_Z, "%nclusterid.z")                                                                 \
  X(CLUSTER_CTAID_X, "%cluster_ctaid.x")                                                           \
  X(CLUSTER_CTAID_Y, "%cluster_ctaid.y")                                                           \
  X(CLUSTER_CTAID_Z, "%cluster_ctaid.z")                                                           \
  X(CLUSTER_NCTAID_X, "%cluster_nctaid.x")                                                         \
  X(CLUSTER_NCTAID_Y, "%cluster_nctaid.y")                                                         \
  X(CLUSTER_NCTAID_Z, "%cluster_nctaid.z")                                                         \
  X(CLUSTER_CTARANK, "%cluster_ctarank")                                                           \
  X(CLUSTER_NCTARANK, "%cluster_nctarank")                                                         \
  X(LANEID, "%laneid")                                                                             \
  X(WARPID, "%warpid")                                                                             \
  X(NWARPID, "%nwarpid")                                                                           \
  X(SMID, "%smid")                                                                                 \
  X(NSMID, "%nsmid")                                                                               \
  X(LANEMASK_EQ, "%lanemask_eq")                                                                   \
  X(LANEMASK_LT, "%lanemask_lt")                                                                   \
  X(LANEMASK_LE, "%lanemask_le")                                                                   \
  X(LANEMASK_GT, "%lanemask_gt")                                                                   \
  X(LANEMASK_GE, "%lanemask_ge")                                                                   \
  X(DYNAMIC_SMEM_SIZE, "%dynamic_smem_size")                                                       \
  X(TOTAL_SMEM_SIZE, "%total_smem_size")

typedef enum moe__emu_special_t {
#define MOE__EMU_SPECIAL(constant, name) MOE__EMU_##constant,
  MOE__EMU_SPECIALS(MOE__EMU_SPECIAL)
#undef MOE__EMU_SPECIAL
      MOE__EMU_SPECIAL_COUNT
} moe__emu_special_t;

typedef struct moe__emu_parameter_t {
  const char *name;
  uint32_t offset, bytes;
} moe__emu_parameter_t;

typedef struct moe__emu_kernel_t {
  const char *name;
  moe__emu_parameter_t *parameters;
  uint32_t parameter_count, parameter_bytes;
  uint32_t required_block[3]; /* .reqntid; 0: not given */
  uint32_t max_threads;       /* .maxntid, or of .reqntid; 0: not given */
  uint32_t min_ctas_per_sm;   /* .minnctapersm; 0: not given */
  uint32_t max_registers;     /* .maxnreg; 0: not given */
  uint32_t cluster[3];        /* .reqnctapercluster; 0: not given */

  moe__emu_instruction_t *instructions;
  uint32_t instruction_count;
  moe__emu_operand_t *operands;
  uint32_t operand_count;
  moe__emu_row_t *rows;
  uint32_t row_count;
  uint32_t file_bytes; /* of a warp's register file */

  uint32_t static_shared_bytes; /* of .shared variables with a size */
  uint32_t dynamic_shared;      /* where the dynamic part begins, an address */
  uint32_t dynamic_padding;     /* bytes before it that no device has */
} moe__emu_kernel_t;

/* A .global or .const variable. */
typedef struct moe__emu_variable_t {
  const char *name;
  uint8_t *data; /* owned */
  uint64_t bytes;
  bool is_constant;
} moe__emu_variable_t;

/* A kernel's place in the module, to be found by its name. */
typedef struct moe__emu_kernel_name_t {
  const char *name;
  uint32_t kernel;
} moe__emu_kernel_name_t;

typedef struct moe__emu_text_t moe__emu_text_t;

typedef struct moe__emu_module_t {
  moe__emu_kernel_t *kernels;
  uint32_t kernel_count;
  void *kernel_names; /* a tree (search.h) of moe__emu_kernel_name_t, owned */
  moe__emu_variable_t *variables;
  uint32_t variable_count;
  moe__emu_text_t *texts; /* every string above lies here */
} moe__emu_module_t;

static inline const moe__emu_operand_t *moe__emu_operand(const moe__emu_kernel_t *kernel,
                                                         const moe__emu_instruction_t *instruction,
                                                         int index) {
  /* A kernel in which no instruction has an operand has no array of them. */
  return kernel->operands ? &kernel->operands[instruction->operands + (uint32_t)index] : NULL;
}

/* Whether the name of an instruction begins with a word. */
static inline bool moe__emu_begins(const char *name, const char *word) {
  return strncmp(name, word, strlen(word)) == 0;
}

#endif /* MOE_EMULATOR_PTX_PROGRAM_H */
