/* LoadStore.c - ld and st, and the conversion of addresses.
 *
 * Why it exists: see LoadStore.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/LoadStore.h"

#include "lib/Emulator/Lanes.h"
#include "lib/Emulator/Opcodes.h"

#include <inttypes.h>

/* ---- Addresses ---- */

moe__emu_reach_t moe__emu_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                moe__emu_space_t space, uint32_t bytes, moe__emu_access_kind_t kind,
                                uint32_t active) {
  return (moe__emu_reach_t){
      .warp = warp,
      .instruction = instruction,
      .space = space,
      .bytes = bytes,
      .access = moe__emu_access_begin(warp->block->order, warp->agent, active, kind, 0),
  };
}

static bool is_read(const moe__emu_reach_t *reach) {
  return reach->access.kind == MOE__EMU_READ;
}

bool moe__emu_shared_offset(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, uint64_t address, uint32_t bytes, uint32_t alignment,
                            uint32_t *out_address) {
  const moe__emu_block_t *block = warp->block;
  uint64_t end = MOE__EMU_SHARED_BASE + block->shared_bytes;
  *out_address = (uint32_t)address;
  if (address < MOE__EMU_SHARED_BASE || address > end || bytes > end - address) {
    moe__emu_fault(warp, instruction, lane,
                   "%u bytes at shared address 0x%" PRIx64
                   " are outside of the block's [0x%x, 0x%" PRIx64 ")",
                   bytes, address, MOE__EMU_SHARED_BASE, end);
    return false;
  }
  if (address % alignment) {
    moe__emu_fault(warp, instruction, lane, "shared address 0x%" PRIx64 " is not a multiple of %u",
                   address, alignment);
    return false;
  }
  return true;
}

moe__emu_block_t *moe__emu_shared_find(moe__emu_warp_t *warp,
                                       const moe__emu_instruction_t *instruction, int lane,
                                       uint64_t address, uint32_t bytes, uint32_t alignment,
                                       uint32_t *out_address) {
  moe__emu_block_t *block = warp->block;
  uint64_t rank = (address >> MOE__EMU_RANK_SHIFT) - 1;
  if (rank < block->machine->cluster_size) {
    block = &block->cluster->blocks[rank];
    address -= moe__emu_cluster_address((uint32_t)rank, 0);
  }
  /* All blocks have as much. */
  return moe__emu_shared_offset(warp, instruction, lane, address, bytes, alignment, out_address) &&
                 moe__emu_cluster_reach(warp, instruction, lane, block)
             ? block
             : NULL;
}

static uint8_t *resolve_shared(moe__emu_reach_t *reach, int lane, uint64_t address,
                               bool is_cluster) {
  moe__emu_warp_t *warp = reach->warp;
  moe__emu_block_t *block = warp->block;
  uint32_t at, bytes = reach->bytes;
  if (is_cluster)
    block = moe__emu_shared_find(warp, reach->instruction, lane, address, bytes, bytes, &at);
  else if (!moe__emu_shared_offset(warp, reach->instruction, lane, address, bytes, bytes, &at))
    block = NULL;
  if (!block)
    return NULL;
  moe__emu_cluster_touch(block, warp->block, reach->access.as);
  if (!moe__emu_access_bytes(&reach->access, moe__emu_order_address(block, at), bytes)) {
    moe__emu_fault_order(reach->warp, reach->instruction, lane,
                         is_read(reach) ? "the load" : "the store", &reach->access.finding);
    return NULL;
  }
  return block->shared + (at - MOE__EMU_SHARED_BASE);
}

static uint8_t *resolve_parameter(moe__emu_reach_t *reach, int lane, uint64_t address) {
  moe__emu_machine_t *machine = reach->warp->block->machine;
  uint32_t end = machine->kernel->parameter_bytes;
  if (!is_read(reach) || address > end || reach->bytes > end - address) {
    moe__emu_fault(reach->warp, reach->instruction, lane,
                   "%u bytes at 0x%" PRIx64 " of the parameters, which have %u and are read only",
                   reach->bytes, address, end);
    return NULL;
  }
  return machine->parameters + address;
}

bool moe__emu_may_touch(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                        const moe__emu_region_t *region) {
  if (!region->pending || warp->block->has_waited)
    return true;
  moe__emu_fault(warp, instruction, lane,
                 "touches '%s', which a launch before this one uses, without a griddepcontrol.wait",
                 region->name ? region->name : "a buffer");
  return false;
}

static uint8_t *resolve_global(moe__emu_reach_t *reach, int lane, uint64_t address) {
  moe__emu_warp_t *warp = reach->warp;
  const moe__emu_global_t *global = &warp->block->machine->global;
  const moe__emu_region_t *region =
      moe__emu_global_find(global, &warp->cache, address, reach->bytes);
  moe__emu_error_t why;
  if (!region) {
    moe__emu_global_explain(global, address, reach->bytes, &why);
    moe__emu_fault(warp, reach->instruction, lane, "global address 0x%" PRIx64 " %s", address,
                   why.text);
    return NULL;
  }
  if (!moe__emu_may_touch(warp, reach->instruction, lane, region))
    return NULL;
  if (!is_read(reach) && !region->writable) {
    moe__emu_fault(warp, reach->instruction, lane,
                   "global address 0x%" PRIx64 " is in '%s', which is read only", address,
                   region->name ? region->name : "a buffer");
    return NULL;
  }
  if (reach->access.kind == MOE__EMU_WRITE &&
      !moe__emu_global_mark(region, address, reach->bytes, warp->block->number)) {
    moe__emu_fault(warp, reach->instruction, lane,
                   "global address 0x%" PRIx64 " in '%s' was written by another block too", address,
                   region->name ? region->name : "a buffer");
    return NULL;
  }
  return (uint8_t *)(uintptr_t)address;
}

uint8_t *moe__emu_resolve(moe__emu_reach_t *reach, int lane, uint64_t address) {
  moe__emu_space_t space = reach->space;
  if (space == MOE__EMU_GENERIC) {
    space = MOE__EMU_GLOBAL;
    if (address - MOE__EMU_SHARED_WINDOW < MOE__EMU_WINDOW_BYTES)
      space = MOE__EMU_SHARED_CLUSTER, address -= MOE__EMU_SHARED_WINDOW;
    else if (address - MOE__EMU_PARAM_WINDOW < MOE__EMU_WINDOW_BYTES)
      space = MOE__EMU_PARAM, address -= MOE__EMU_PARAM_WINDOW;
  }
  if (space >= MOE__EMU_SHARED)
    return resolve_shared(reach, lane, address, space == MOE__EMU_SHARED_CLUSTER);
  if (address % reach->bytes) {
    moe__emu_fault(reach->warp, reach->instruction, lane,
                   "address 0x%" PRIx64 " is not a multiple of %u", address, reach->bytes);
    return NULL;
  }
  return space == MOE__EMU_PARAM ? resolve_parameter(reach, lane, address)
                                 : resolve_global(reach, lane, address);
}

/* ---- ld and st ---- */

enum { LOAD_SPACE = 2, LOAD_VECTOR = 6, LOAD_TYPE = 7 };
enum { STORE_SPACE = 2, STORE_VECTOR = 5, STORE_TYPE = 6 };

#define TYPES ".b8|.b16|.b32|.b64|.b128|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64|.f16|.bf16|.f32|.f64"

static const struct {
  uint8_t bytes;
  bool is_signed;
} types[] = {{1, false}, {2, false}, {4, false}, {8, false}, {16, false}, {1, false},
             {2, false}, {4, false}, {8, false}, {1, true},  {2, true},   {4, true},
             {8, true},  {2, false}, {2, false}, {4, false}, {8, false}};

static const uint8_t vectors[] = {1, 2, 4};

static uint64_t extend(uint64_t value, uint32_t bytes, bool is_signed) {
  if (!is_signed || bytes >= 8 || !(value >> (bytes * 8 - 1) & 1))
    return value;
  return value | UINT64_MAX << (bytes * 8);
}

static moe__emu_step_t load(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  uint32_t bytes = types[instruction->choice[LOAD_TYPE]].bytes;
  bool is_signed = types[instruction->choice[LOAD_TYPE]].is_signed;
  uint32_t count = vectors[instruction->choice[LOAD_VECTOR]];
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, (moe__emu_space_t)instruction->choice[LOAD_SPACE],
                     bytes * count, MOE__EMU_READ, active);
  MOE__EMU_FOR_LANES(lane, active) {
    const uint8_t *from = moe__emu_resolve(
        &reach, (int)lane, moe__emu_lane_address(warp, &operands[count], (int)lane));
    if (!from)
      return MOE__EMU_FAILED;
    for (uint32_t i = 0; i < count; i++, from += bytes) {
      uint8_t *row = moe__emu_row(warp, &operands[i]);
      uint64_t value = 0;
      memcpy(&value, from, bytes < 8 ? bytes : 8);
      value = extend(value, bytes, is_signed);
      if (operands[i].bytes >= 8)
        memcpy(row + (size_t)lane * 8, &value, 8);
      else
        memcpy(row + (size_t)lane * 4, &value, 4);
      if (bytes == 16)
        memcpy(row + (size_t)(MOE__EMU_LANES + lane) * 8, from + 8, 8);
    }
  }
  for (uint32_t i = 0; i < count; i++)
    moe__emu_written(warp, &operands[i], active);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t store(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  uint32_t bytes = types[instruction->choice[STORE_TYPE]].bytes;
  uint32_t count = vectors[instruction->choice[STORE_VECTOR]];
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, (moe__emu_space_t)instruction->choice[STORE_SPACE],
                     bytes * count, MOE__EMU_WRITE, active);
  MOE__EMU_FOR_LANES(lane, active) {
    uint8_t *to =
        moe__emu_resolve(&reach, (int)lane, moe__emu_lane_address(warp, &operands[0], (int)lane));
    if (!to)
      return MOE__EMU_FAILED;
    for (uint32_t i = 1; i <= count; i++, to += bytes) {
      const uint8_t *row = moe__emu_row(warp, &operands[i]);
      memcpy(to, row + (size_t)lane * (operands[i].bytes >= 8 ? 8 : 4), bytes < 8 ? bytes : 8);
      if (bytes == 16)
        memcpy(to + 8, row + (size_t)(MOE__EMU_LANES + lane) * 8, 8);
    }
  }
  /* Another lane may spin on it. */
  warp->block->cluster->events++;
  return MOE__EMU_ADVANCE;
}

/* At most 16 bytes a lane. */
static bool verify_load(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                        moe__emu_error_t *error) {
  (void)kernel;
  uint32_t bytes = types[instruction->choice[LOAD_TYPE]].bytes;
  return bytes * vectors[instruction->choice[LOAD_VECTOR]] <= 16 ||
         moe__emu_error(error, "a lane can load 16 bytes at most");
}

static bool verify_store(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                         moe__emu_error_t *error) {
  (void)kernel;
  uint32_t bytes = types[instruction->choice[STORE_TYPE]].bytes;
  if (bytes * vectors[instruction->choice[STORE_VECTOR]] > 16)
    return moe__emu_error(error, "a lane can store 16 bytes at most");
  return true;
}

/* ---- stmatrix ---- */

enum { MATRIX_ROWS = 8, MATRIX_ROW_BYTES = 16 };
static const uint32_t matrices[] = {1, 2, 4};

static bool verify_store_matrix(const moe__emu_kernel_t *kernel,
                                const moe__emu_instruction_t *instruction,
                                moe__emu_error_t *error) {
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

/* 8 x 8 matrices of 16-bit elements: lane 8 * i + r names where row r of matrix i goes, or column r
 * if it is transposed; lane 4 * r + c holds elements 2 * c and 2 * c + 1 of row r in register i. */
static moe__emu_step_t store_matrix(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  bool is_transposed = instruction->choice[1] != 0;
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  if (active != UINT32_MAX)
    return moe__emu_fault(warp, instruction, -1,
                          "executed by lanes 0x%08x: all 32 must come together", active);
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, MOE__EMU_SHARED, MATRIX_ROW_BYTES, MOE__EMU_WRITE, active);
  for (uint32_t lane = 0; lane < matrices[instruction->choice[0]] * MATRIX_ROWS; lane++) {
    uint8_t *to =
        moe__emu_resolve(&reach, (int)lane, moe__emu_lane_address(warp, &operands[0], (int)lane));
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
  warp->block->cluster->events++;
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
                      "ag", store_matrix, verify_store_matrix),
    MOE__EMU_COMPUTE("cvta{.shared|.shared::cta|.shared::cluster}.u64", "Ll", from_shared),
    MOE__EMU_COMPUTE("cvta.to{.shared|.shared::cta|.shared::cluster}.u64", "Ll", to_shared),
    MOE__EMU_COMPUTE("cvta.param.u64", "Ll", from_param),
    MOE__EMU_COMPUTE("cvta.to.param.u64", "Ll", to_param),
    MOE__EMU_END_OF_TABLE,
};
