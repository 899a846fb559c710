/* Opcodes.h - the table of instructions.
 *
 * Why it exists: one row says how a family of instructions is spelled, what operands it takes and
 * which function runs it. An instruction, or a modifier, that no row spells is an error; there is
 * no way to read one and do something else.
 *
 * Patterns
 *   add{.s32|.u32}       one of the words must be there
 *   ld[.volatile]{.b32}  this may be there
 *   ld[.ca|.cg]{.b32}    one of these may be there
 *   {*}                  any one word; the row's verify reads it
 * Every group is a choice: its number is kept in the instruction, from 0 for {..}; for [..] 0 says
 * that nothing is there.
 *
 * Operands: a letter each. Upper case is a result, lower case a source.
 *   H h R r L l Q q  a register of 16, 32, 64, 128 bits; sources may be immediates
 *   P p              a predicate; c: a predicate or !predicate
 *   D                a predicate, or two: p|q
 *   S                a 32-bit register, or one with a predicate: r|p
 *   E<n> e<n>        a register of the type in group n; T<n> t<n>: it may be wider
 *   V<n> v<n>        the same; where group n-1 is .v2 or .v4, a list {..}
 *   U<n> u<n>        a register of the type in group n, or a list of narrower ones that fill it
 *   a                an address: [register], [symbol+12]
 *   m                a tensor: [map, {c0, c1}], an address, then 32-bit coordinates
 *   G                a list of 32-bit registers that are both read and written; g: read only
 *   w                a 64-bit register, or a list of 32-bit ones
 *   n                an integer immediate
 *   b                a label
 *   ?                the next operand may be missing
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_OPCODES_H
#define MOE_EMULATOR_PTX_OPCODES_H

#include "lib/Emulator/Ptx/Program.h"

/* Checks what the pattern and the operands' letters cannot say. */
typedef bool (*moe__emu_verify_t)(const moe__emu_kernel_t *kernel,
                                  const moe__emu_instruction_t *instruction,
                                  moe__emu_error_t *error);

enum {
  MOE__EMU_BRANCH = 1,  /* takes a label */
  MOE__EMU_EXIT = 2,    /* ends its lanes */
  MOE__EMU_UNIFORM = 4, /* a branch that all lanes take, or none */
  MOE__EMU_PURE = 8,    /* computes registers from registers; so does what has a compute function */
};

typedef struct moe__emu_opcode_t {
  const char *pattern; /* NULL ends a table */
  const char *operands;
  moe__emu_execute_t execute;
  moe__emu_compute_t compute; /* where execute is moe__emu_execute_compute */
  int flags;
  moe__emu_verify_t verify;
} moe__emu_opcode_t;

/* A choice's words in the spelling of an instruction. */
typedef struct moe__emu_match_t {
  const moe__emu_opcode_t *opcode;
  uint8_t choice[MOE__EMU_MAX_CHOICES];
  const char *text[MOE__EMU_MAX_CHOICES]; /* with its dot; "" where nothing is there */
  int length[MOE__EMU_MAX_CHOICES];
} moe__emu_match_t;

/* Finds the row that spells an instruction. */
bool moe__emu_match(const char *name, size_t length, moe__emu_match_t *out_match);

/* Bytes of a register of the type that is a word of an instruction, ".b32"; 0 where it is none. */
uint8_t moe__emu_type_bytes(const char *word, int length);

/* The families, each in the file that runs it. */
extern const moe__emu_opcode_t moe__emu_integer_opcodes[];
extern const moe__emu_opcode_t moe__emu_bit_opcodes[];
extern const moe__emu_opcode_t moe__emu_float_opcodes[];
extern const moe__emu_opcode_t moe__emu_convert_opcodes[];
extern const moe__emu_opcode_t moe__emu_compare_opcodes[];
extern const moe__emu_opcode_t moe__emu_memory_opcodes[];
extern const moe__emu_opcode_t moe__emu_atomic_opcodes[];
extern const moe__emu_opcode_t moe__emu_control_opcodes[];
extern const moe__emu_opcode_t moe__emu_warp_opcodes[];
extern const moe__emu_opcode_t moe__emu_barrier_opcodes[];
extern const moe__emu_opcode_t moe__emu_mbarrier_opcodes[];
extern const moe__emu_opcode_t moe__emu_bulk_opcodes[];
extern const moe__emu_opcode_t moe__emu_matrix_opcodes[];
extern const moe__emu_opcode_t moe__emu_product_opcodes[];
extern const moe__emu_opcode_t moe__emu_cluster_opcodes[];

#endif /* MOE_EMULATOR_PTX_OPCODES_H */
