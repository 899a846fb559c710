/* LoadStore.c - ld and st, ldmatrix and stmatrix, and the conversion of addresses.
 *
 * Why it exists: see LoadStore.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Poison.h"
#include "lib/Emulator/Machine/Random.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <string.h>

/* ---- ld and st ---- */

enum { MAX_BYTES = 16 }; /* of a lane */
enum { LOAD_SPACE = 2, LOAD_CONSTANT = 4, LOAD_L1 = 5, LOAD_VECTOR = 6, LOAD_TYPE = 7 };

enum { L1_NO_ALLOCATE = 5 };
enum { STORE_SPACE = 2, STORE_VECTOR = 5, STORE_TYPE = 6 };

#define TYPES ".b8|.b16|.b32|.b64|.b128|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64|.f16|.bf16|.f32|.f64"

static const struct {
  uint8_t bytes;
  bool is_signed;
} types[] = {{1, false}, {2, false}, {4, false}, {8, false}, {16, false}, {1, false},
             {2, false}, {4, false}, {8, false}, {1, true},  {2, true},   {4, true},
             {8, true},  {2, false}, {2, false}, {4, false}, {8, false}};

static uint64_t extend(uint64_t value, uint32_t bytes, bool is_signed) {
  if (!is_signed || bytes >= 8 || !(value >> (bytes * 8 - 1) & 1))
    return value;
  return value | UINT64_MAX << (bytes * 8);
}

/* How the words of ld and st are meant: .weak, .volatile, .relaxed, and .acquire or .release. */
enum { SEMANTICS_NONE, SEMANTICS_WEAK, SEMANTICS_VOLATILE, SEMANTICS_RELAXED, SEMANTICS_ORDERED };

/* The scope of an access: weak ones have none, volatile ones the widest. */
static moe__emu_scope_t scope_of(const moe__emu_instruction_t *instruction) {
  static const moe__emu_scope_t scopes[] = {MOE__EMU_GPU, MOE__EMU_CTA, MOE__EMU_CLUSTER,
                                            MOE__EMU_GPU, MOE__EMU_GPU};
  return instruction->choice[0] <= SEMANTICS_WEAK ? MOE__EMU_WEAK : scopes[instruction->choice[1]];
}

static bool is_ordered(const moe__emu_instruction_t *instruction) {
  return instruction->choice[0] == SEMANTICS_ORDERED;
}

static uint32_t choose(void *context, uint32_t limit) {
  return moe__emu_random(context, limit);
}

/* A copy of few bytes; those that are usual without a call. */
static void copy_bytes(void *to, const void *from, uint32_t bytes) {
  if (bytes == 4)
    memcpy(to, from, 4);
  else if (bytes == 8)
    memcpy(to, from, 8);
  else
    memcpy(to, from, bytes);
}

/* Puts loaded bytes into a lane of the results. `missing` are those that nobody has written. */
static bool put(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, uint32_t lane,
                const uint8_t *from, uint32_t missing) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  uint32_t bytes = types[instruction->choice[LOAD_TYPE]].bytes;
  bool is_signed = types[instruction->choice[LOAD_TYPE]].is_signed;
  uint32_t count = moe__emu_vector_length(instruction->choice[LOAD_VECTOR]);
  for (uint32_t i = 0; i < count; i++, from += bytes, missing >>= bytes) {
    uint8_t *row = moe__emu_row(warp, &operands[i]);
    if (bytes == 4 && operands[i].bytes < 8 && !missing) { /* most of them */
      memcpy(row + (size_t)lane * 4, from, 4);
      continue;
    }
    uint64_t value = 0, undefined = 0;
    copy_bytes(&value, from, bytes < 8 ? bytes : 8);
    value = extend(value, bytes, is_signed);
    if (operands[i].bytes >= 8)
      memcpy(row + (size_t)lane * 8, &value, 8);
    else
      memcpy(row + (size_t)lane * 4, &value, 4);
    if (bytes == 16)
      memcpy(row + (size_t)(MOE__EMU_LANES + lane) * 8, from + 8, 8);
    if (!missing)
      continue;
    for (uint32_t b = 0; b < bytes && b < 8; b++)
      undefined |= missing >> b & 1 ? UINT64_C(0xFF) << 8 * b : 0;
    if (!moe__emu_poison(warp, &operands[i], lane, extend(undefined, bytes, is_signed)))
      return false;
  }
  return true;
}

/* Whether no two lanes have one address, as far as that is quickly seen: each lies behind that of
 * the lane before, or all differ in the last bits of their numbers. */
static bool are_apart(const uint64_t *addresses, uint32_t active, uint32_t bytes) {
  uint64_t seen = 0, last = 0;
  bool ascends = true, differs = true;
  int shift = __builtin_ctz(bytes);
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t bit = UINT64_C(1) << (addresses[lane] >> shift & 63);
    differs &= !(seen & bit);
    seen |= bit;
    ascends &= lane == (uint32_t)moe__emu_first_lane(active) || addresses[lane] > last;
    last = addresses[lane];
  }
  return ascends || differs;
}

/* Those of some lanes that load from the same place as the first one, and know the same. */
static uint32_t lanes_of_place(const moe__emu_warp_t *warp, const uint64_t *addresses,
                               uint32_t lanes) {
  uint32_t first = (uint32_t)moe__emu_first_lane(lanes), same = 0;
  for (uint32_t lane = 0; lane < MOE__EMU_LANES; lane++)
    same |= (uint32_t)(addresses[lane] == addresses[first]) << lane;
  return same & lanes & moe__emu_order_party(warp->cta->order, warp->agent, first)->lanes;
}

/* Reads the value of a lane that other threads may have written. */
static bool read_contested(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                           uint32_t lane, uint64_t address, uint32_t bytes) {
  uint8_t value[MAX_BYTES];
  moe__emu_toucher_t toucher =
      moe__emu_toucher(warp, instruction, (int)lane, scope_of(instruction));
  moe__emu_races_read(warp->cta->machine->races, &toucher, is_ordered(instruction), address, bytes,
                      value, choose, warp->cta);
  return put(warp, instruction, lane, value, 0);
}

static bool finish_load(moe__emu_warp_t *warp, const moe__emu_deferred_t *deferred) {
  MOE__EMU_FOR_LANES(lane, deferred->active) {
    if (!read_contested(warp, deferred->instruction, lane, deferred->addresses[lane],
                        deferred->bytes))
      return false;
  }
  return true;
}

/* Whether the schedule lets later accesses come before a load. */
static bool is_deferred(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction) {
  return warp->cta->machine->races->keeps_values && !is_ordered(instruction) &&
         warp->deferred_count < MOE__EMU_MAX_DEFERRED && instruction->result_count == 1 &&
         moe__emu_random(warp->cta, 2);
}

static moe__emu_step_t load(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  uint32_t bytes = types[instruction->choice[LOAD_TYPE]].bytes;
  uint32_t count = moe__emu_vector_length(instruction->choice[LOAD_VECTOR]);
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, (moe__emu_space_t)instruction->choice[LOAD_SPACE],
                     bytes * count, MOE__EMU_READ, active);
  reach.is_constant = instruction->choice[LOAD_CONSTANT];
  reach.scope = scope_of(instruction);
  reach.is_ordered = is_ordered(instruction);
  uint64_t addresses[MOE__EMU_LANES];
  uint32_t contested = 0;
  for (int lane = 0; lane < MOE__EMU_LANES; lane++)
    addresses[lane] = moe__emu_lane_address(warp, &operands[count], lane);
  if (reach.space == MOE__EMU_GLOBAL && instruction->choice[LOAD_L1] == L1_NO_ALLOCATE)
    warp->cta->order->warps[warp->agent].has_streamed = true;
  bool is_apart = are_apart(addresses, active, reach.bytes);
  for (uint32_t i = 0; i < count; i++)
    moe__emu_written(warp, &operands[i], active);
  for (uint32_t rest = active, lanes; rest; rest &= ~lanes) {
    lanes = is_apart ? rest & -rest : lanes_of_place(warp, addresses, rest);
    int first = moe__emu_first_lane(lanes);
    const uint8_t *from = moe__emu_resolve(&reach, lanes, addresses[first]);
    if (!from)
      return MOE__EMU_FAILED;
    if (reach.missing) {
      warp->poison_line = instruction->line;
      warp->poison_address = (uint32_t)(addresses[first] & ((1U << MOE__EMU_RANK_SHIFT) - 1)) +
                             (uint32_t)__builtin_ctz(reach.missing);
      if (bytes == MAX_BYTES)
        return moe__emu_fault(warp, instruction, first,
                              "the load reads uninitialized shared memory at 0x%x",
                              warp->poison_address);
    }
    MOE__EMU_FOR_LANES(lane, lanes) {
      if (reach.is_contested)
        contested |= 1U << lane;
      else if (!put(warp, instruction, lane, from, reach.missing))
        return MOE__EMU_FAILED;
    }
  }
  if (!contested)
    return MOE__EMU_ADVANCE;
  moe__emu_deferred_t deferred = {finish_load, instruction, contested, reach.bytes, {0}};
  memcpy(deferred.addresses, addresses, sizeof addresses);
  if (is_deferred(warp, instruction))
    warp->deferred[warp->deferred_count++] = deferred;
  else if (!finish_load(warp, &deferred))
    return MOE__EMU_FAILED;
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t store(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  uint32_t bytes = types[instruction->choice[STORE_TYPE]].bytes;
  uint32_t count = moe__emu_vector_length(instruction->choice[STORE_VECTOR]);
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, (moe__emu_space_t)instruction->choice[STORE_SPACE],
                     bytes * count, MOE__EMU_WRITE, active);
  reach.scope = scope_of(instruction);
  reach.is_ordered = is_ordered(instruction);
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t address = moe__emu_lane_address(warp, &operands[0], (int)lane);
    uint8_t value[MAX_BYTES], *at = value;
    for (uint32_t i = 1; i <= count; i++, at += bytes) {
      const uint8_t *row = moe__emu_row(warp, &operands[i]);
      copy_bytes(at, row + (size_t)lane * (operands[i].bytes >= 8 ? 8 : 4), bytes < 8 ? bytes : 8);
      if (bytes == MAX_BYTES)
        memcpy(at + 8, row + (size_t)(MOE__EMU_LANES + lane) * 8, 8);
    }
    reach.value = value;
    uint8_t *to = moe__emu_resolve(&reach, 1U << lane, address);
    if (!to)
      return MOE__EMU_FAILED;
    if (reach.is_contested) {
      moe__emu_toucher_t toucher = moe__emu_toucher(warp, instruction, (int)lane, reach.scope);
      moe__emu_races_write(warp->cta->machine->races, &toucher, is_ordered(instruction), address,
                           reach.bytes, value, choose, warp->cta);
    } else {
      copy_bytes(to, value, reach.bytes);
    }
  }
  /* Another lane may spin on it. */
  warp->cta->cluster->events++;
  return MOE__EMU_ADVANCE;
}

/* At most 16 bytes a lane. */
static bool verify_load(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                        moe__emu_error_t *error) {
  (void)kernel;
  uint32_t bytes = types[instruction->choice[LOAD_TYPE]].bytes;
  return bytes * moe__emu_vector_length(instruction->choice[LOAD_VECTOR]) <= 16 ||
         moe__emu_error(error, "a lane can load 16 bytes at most");
}

static bool verify_store(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                         moe__emu_error_t *error) {
  (void)kernel;
  uint32_t bytes = types[instruction->choice[STORE_TYPE]].bytes;
  if (bytes * moe__emu_vector_length(instruction->choice[STORE_VECTOR]) > 16)
    return moe__emu_error(error, "a lane can store 16 bytes at most");
  return true;
}

/* ---- ldmatrix and stmatrix ---- */

enum { MATRIX_ROWS = 8, MATRIX_ROW_BYTES = 16 };
static const uint32_t matrices[] = {1, 2, 4};

static bool verify_matrices(const moe__emu_kernel_t *kernel,
                            const moe__emu_instruction_t *instruction, moe__emu_error_t *error) {
  (void)kernel;
  uint32_t count = matrices[instruction->choice[0]];
  return instruction->operand_count == 1 + count ||
         moe__emu_error(error, "%u registers; %u are taken", instruction->operand_count - 1U,
                        count);
}

/* Element (row, column) of a matrix of which the lanes hold a register each. */
static uint16_t matrix_element(const moe__emu_warp_t *warp, const moe__emu_operand_t *elements,
                               uint32_t row, uint32_t column) {
  uint32_t pair = (uint32_t)moe__emu_lane_value(warp, elements, (int)(row * 4 + column / 2));
  return (uint16_t)(pair >> column % 2 * 16);
}

/* What both want of their lanes. */
static bool check_matrices(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                           uint32_t active) {
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return false;
  if (active == UINT32_MAX)
    return true;
  moe__emu_fault(warp, instruction, -1, "executed by lanes 0x%08x: all 32 must come together",
                 active);
  return false;
}

/* 8 x 8 matrices of 16-bit elements: lane 8 * i + r names where row r of matrix i goes, or column r
 * if it is transposed; lane 4 * r + c holds elements 2 * c and 2 * c + 1 of row r in register i. */
static moe__emu_step_t store_matrix(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  bool is_transposed = instruction->choice[1] != 0;
  if (!check_matrices(warp, instruction, active))
    return MOE__EMU_FAILED;
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, MOE__EMU_SHARED, MATRIX_ROW_BYTES, MOE__EMU_WRITE, active);
  for (uint32_t lane = 0; lane < matrices[instruction->choice[0]] * MATRIX_ROWS; lane++) {
    uint8_t *to =
        moe__emu_resolve(&reach, 1U << lane, moe__emu_lane_address(warp, &operands[0], (int)lane));
    if (!to)
      return MOE__EMU_FAILED;
    const moe__emu_operand_t *elements = &operands[1 + lane / MATRIX_ROWS];
    uint32_t own = lane % MATRIX_ROWS;
    for (uint32_t other = 0; other < MATRIX_ROWS; other++) {
      uint16_t element = is_transposed ? matrix_element(warp, elements, other, own)
                                       : matrix_element(warp, elements, own, other);
      memcpy(to + sizeof element * other, &element, sizeof element);
    }
  }
  warp->cta->cluster->events++;
  return MOE__EMU_ADVANCE;
}

/* The same the other way. */
static moe__emu_step_t load_matrix(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  uint32_t count = matrices[instruction->choice[0]];
  bool is_transposed = instruction->choice[1] != 0;
  uint16_t elements[MOE__EMU_LANES][MATRIX_ROWS] = {{0}};
  if (!check_matrices(warp, instruction, active))
    return MOE__EMU_FAILED;
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, MOE__EMU_SHARED, MATRIX_ROW_BYTES, MOE__EMU_READ, active);
  for (uint32_t lane = 0; lane < count * MATRIX_ROWS; lane++) {
    uint64_t address = moe__emu_lane_address(warp, &operands[count], (int)lane);
    const uint8_t *from = moe__emu_resolve(&reach, 1U << lane, address);
    if (!from)
      return MOE__EMU_FAILED;
    if (reach.missing)
      return moe__emu_fault(warp, instruction, (int)lane,
                            "the load reads uninitialized shared memory at 0x%x",
                            (uint32_t)(address + (uint32_t)__builtin_ctz(reach.missing)));
    memcpy(elements[lane], from, MATRIX_ROW_BYTES);
  }
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t lane = 0; lane < MOE__EMU_LANES; lane++) {
      uint32_t pair = 0, line = lane / 4, first = lane % 4 * 2;
      for (uint32_t j = 0; j < 2; j++)
        pair |= (uint32_t)(is_transposed ? elements[i * MATRIX_ROWS + first + j][line]
                                         : elements[i * MATRIX_ROWS + line][first + j])
                << 16 * j;
      moe__emu_set_lane(warp, &operands[i], (int)lane, pair);
    }
  }
  return MOE__EMU_ADVANCE;
}

/* ---- cvta ---- */

MOE__EMU_LANES1(from_shared, uint64_t, uint64_t, x + MOE__EMU_SHARED_WINDOW)
MOE__EMU_LANES1(to_shared, uint64_t, uint64_t, x - MOE__EMU_SHARED_WINDOW)
MOE__EMU_LANES1(from_param, uint64_t, uint64_t, x + MOE__EMU_PARAM_WINDOW)
MOE__EMU_LANES1(to_param, uint64_t, uint64_t, x - MOE__EMU_PARAM_WINDOW)

const moe__emu_opcode_t moe__emu_memory_opcodes[] = {
    MOE__EMU_VERIFIED(
        "ld[.weak|.volatile|.relaxed|.acquire][.cta|.cluster|.gpu|.sys]" MOE__EMU_SPACES
        "[.ca|.cg|.cs|.lu|.cv][.nc][.L1::evict_normal|.L1::evict_first|.L1::evict_"
        "last|.L1::evict_unchanged|.L1::no_allocate][.v2|.v4]{" TYPES "}",
        "V7a", load, verify_load),
    MOE__EMU_VERIFIED(
        "st[.weak|.volatile|.relaxed|.release][.cta|.cluster|.gpu|.sys]" MOE__EMU_SPACES
        "[.wb|.cg|.cs|.wt][.L1::evict_normal|.L1::evict_first|.L1::evict_last|.L1::"
        "evict_unchanged|.L1::no_allocate][.v2|.v4]{" TYPES "}",
        "av6", store, verify_store),
    MOE__EMU_VERIFIED("stmatrix.sync.aligned.m8n8{.x1|.x2|.x4}[.trans]{.shared|.shared::cta}.b16",
                      "ag", store_matrix, verify_matrices),
    MOE__EMU_VERIFIED("ldmatrix.sync.aligned.m8n8{.x1|.x2|.x4}[.trans]{.shared|.shared::cta}.b16",
                      "Ga", load_matrix, verify_matrices),
    MOE__EMU_COMPUTE("cvta{.shared|.shared::cta|.shared::cluster}.u64", "Ll", from_shared),
    MOE__EMU_COMPUTE("cvta.to{.shared|.shared::cta|.shared::cluster}.u64", "Ll", to_shared),
    MOE__EMU_COMPUTE("cvta.param.u64", "Ll", from_param),
    MOE__EMU_COMPUTE("cvta.to.param.u64", "Ll", to_param),
    MOE__EMU_END_OF_TABLE,
};
