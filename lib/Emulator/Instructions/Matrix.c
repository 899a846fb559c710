/* Matrix.c - wgmma.
 *
 * Why it exists: see Matrix.h. The four warps of a warpgroup start a product one after the other;
 * when the last has, it is queued, and done in order. What the operands' bytes mean is Wgmma.h's.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Matrix.h"

#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Async.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Wgmma.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARPS = 4, ALL_WARPS = (1 << WARPS) - 1, FIRST_COMMON = 64 /* a power of two */ };

/* ---- State ---- */

static moe__emu_step_t product(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               uint32_t active);

/* Lists the rows of registers that products use, each once. */
static bool list_rows(moe__emu_matrix_t *matrix, const moe__emu_kernel_t *kernel) {
  bool *is_listed = calloc(kernel->row_count + 1, sizeof *is_listed);
  matrix->rows = calloc(kernel->row_count + 1, sizeof *matrix->rows);
  for (uint32_t i = 0; is_listed && matrix->rows && i < kernel->instruction_count; i++) {
    const moe__emu_instruction_t *instruction = &kernel->instructions[i];
    const moe__emu_operand_t *operands = moe__emu_operand(kernel, instruction, 0);
    for (int o = 0; instruction->execute == product && o < instruction->operand_count; o++) {
      /* D and A; what else a product has is no register of 32 bits. */
      if (operands[o].bytes != 4 || is_listed[operands[o].shadow])
        continue;
      is_listed[operands[o].shadow] = true;
      matrix->rows[matrix->row_count++] = operands[o].shadow;
    }
  }
  free(is_listed);
  return is_listed && matrix->rows;
}

bool moe__emu_matrix_create(moe__emu_cta_t *cta) {
  enum { A = MOE__EMU_WGMMA_M * MOE__EMU_WGMMA_MAX_K };
  enum { B = MOE__EMU_WGMMA_MAX_K * MOE__EMU_WGMMA_MAX_N };
  enum { D = MOE__EMU_WGMMA_M * MOE__EMU_WGMMA_MAX_N };
  uint32_t warps = cta->machine->warp_count;
  moe__emu_matrix_t *matrix = cta->matrix = calloc(1, sizeof *matrix);
  if (!matrix)
    return false;
  matrix->count = (warps + WARPS - 1) / WARPS;
  matrix->groups = calloc(matrix->count, sizeof *matrix->groups);
  matrix->warps = calloc(warps, sizeof *matrix->warps);
  matrix->a = malloc((A + B + D) * sizeof *matrix->a);
  matrix->b = matrix->a ? matrix->a + A : NULL;
  matrix->d = matrix->a ? matrix->b + B : NULL;
  for (uint32_t w = 0; matrix->warps && w < warps; w++)
    cta->warps[w].matrix = &matrix->warps[w];
  return matrix->groups && matrix->warps && matrix->a && list_rows(matrix, cta->machine->kernel);
}

void moe__emu_matrix_free(moe__emu_cta_t *cta) {
  moe__emu_matrix_t *matrix = cta->matrix;
  if (!matrix)
    return;
  for (uint32_t w = 0; matrix->warps && w < cta->machine->warp_count; w++)
    free(matrix->warps[w].ends);
  for (uint32_t i = 0; matrix->groups && i < matrix->count; i++)
    free((void *)matrix->groups[i].common);
  free(matrix->groups);
  free(matrix->warps);
  free(matrix->a);
  free(matrix->rows);
  free(matrix);
  cta->matrix = NULL;
}

void moe__emu_matrix_reset(moe__emu_cta_t *cta) {
  moe__emu_matrix_t *matrix = cta->matrix;
  for (uint32_t i = 0; i < matrix->count; i++) {
    matrix->groups[i].started = matrix->groups[i].done = 0;
    matrix->groups[i].common_count = 0;
    matrix->groups[i].agent = -1;
  }
  for (uint32_t w = 0; w < cta->machine->warp_count; w++) {
    moe__emu_matrix_warp_t *warp = &matrix->warps[w];
    *warp = (moe__emu_matrix_warp_t){.ends = warp->ends, .capacity = warp->capacity};
  }
}

static moe__emu_warpgroup_t *group_of(moe__emu_warp_t *warp) {
  return &warp->cta->matrix->groups[warp->number / WARPS];
}

static moe__emu_product_t *product_at(moe__emu_warpgroup_t *group, uint32_t number) {
  return &group->products[number % MOE__EMU_MAX_PRODUCTS];
}

/* ---- Instructions ---- */

enum { CHOICE_A = 1, CHOICE_B = 2 };

/* What follows the registers of D, by number of operand. */
typedef struct layout_t {
  moe__emu_wgmma_shape_t shape;
  int a, a_registers; /* 0: a descriptor */
  int b, scale_d, scale_a, scale_b;
  int transposes; /* immediates after scale_b */
} layout_t;

static layout_t read_layout(const moe__emu_kernel_t *kernel,
                            const moe__emu_instruction_t *instruction) {
  const moe__emu_operand_t *operands = moe__emu_operand(kernel, instruction, 0);
  int results = instruction->result_count, count = instruction->operand_count;
  layout_t layout = {.a = results};
  moe__emu_wgmma_shape_t *shape = &layout.shape;
  shape->a = (moe__emu_wgmma_type_t)instruction->choice[CHOICE_A];
  shape->b = (moe__emu_wgmma_type_t)instruction->choice[CHOICE_B];
  bool is_narrow = shape->a <= MOE__EMU_WGMMA_E5M2;
  shape->n = results * 2;
  shape->k = is_narrow ? 32 : 16;
  if (results < count && operands[results].bytes == 4)
    layout.a_registers = MOE__EMU_WGMMA_A_REGISTERS;
  layout.b = results + (layout.a_registers ? layout.a_registers : 1);
  layout.scale_d = layout.b + 1;
  layout.scale_a = layout.b + 2;
  layout.scale_b = layout.b + 3;
  /* Each operand in shared memory of 16-bit types has one more: whether it is transposed. */
  layout.transposes = is_narrow ? 0 : layout.a_registers ? 1 : 2;
  if (count == layout.scale_b + 1 + layout.transposes && layout.transposes) {
    shape->a_mn_major = layout.transposes == 2 && operands[layout.scale_b + 1].addend;
    shape->b_mn_major = operands[layout.scale_b + layout.transposes].addend;
  }
  return layout;
}

static bool verify(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                   moe__emu_error_t *error) {
  const moe__emu_operand_t *operands = moe__emu_operand(kernel, instruction, 0);
  int results = instruction->result_count, count = instruction->operand_count;
  const layout_t layout = read_layout(kernel, instruction);
  const moe__emu_wgmma_shape_t *shape = &layout.shape;
  char expected[32];
  int length = snprintf(expected, sizeof expected, ".m64n%dk%d.", shape->n, shape->k);
  const char *words = instruction->name + strlen("wgmma.mma_async.sync.aligned");
  if (strncmp(words, expected, (size_t)length) != 0)
    return moe__emu_error(error, "%d registers of D are those of %.*s", results, length - 2,
                          expected + 1);
  if (count != layout.scale_b + 1 + layout.transposes || operands[layout.b].bytes != 8)
    return moe__emu_error(error, "%d operands after D; %d are taken", count - results,
                          layout.scale_b + 1 + layout.transposes - results);
  for (int i = layout.scale_a; i < count; i++) {
    int32_t value = operands[i].addend;
    if (i <= layout.scale_b ? value != 1 && value != -1 : value != 0 && value != 1)
      return moe__emu_error(error, "an immediate of %d", value);
  }
  return moe__emu_wgmma_shape_check(shape, error);
}

/* The instruction is one of whole warps, and of whole warpgroups. */
static bool check_warp(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                       uint32_t active) {
  if (active != UINT32_MAX) {
    moe__emu_fault(warp, instruction, moe__emu_first_lane(active),
                   "executed by lanes 0x%08x: all of the warp must come together", active);
    return false;
  }
  if (warp->number / WARPS * WARPS + WARPS > warp->cta->machine->warp_count) {
    moe__emu_fault(warp, instruction, -1, "the warp is not one of four");
    return false;
  }
  return true;
}

/* A source of all lanes alike; false after a fault. */
static bool uniform(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                    const moe__emu_operand_t *operand, uint64_t *out_value) {
  *out_value = moe__emu_lane_value(warp, operand, 0);
  for (int lane = 1; lane < MOE__EMU_LANES; lane++) {
    if (moe__emu_lane_value(warp, operand, lane) != *out_value) {
      moe__emu_fault(warp, instruction, lane, "lanes give different descriptors");
      return false;
    }
  }
  return true;
}

/* What the accumulators of two products that need no wgmma.fence between them have in common. */
static uint8_t shape_of(const layout_t *layout) {
  enum { WIDE = 128 };
  return (uint8_t)(layout->shape.n / 8 | (layout->shape.k == 16 ? WIDE : 0));
}

/* A register must be fenced: since the last wgmma.fence the warp has not accessed it, and no
 * product has written it, but one of the same shape that had the same accumulator. */
static bool check_fence(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                        const moe__emu_operand_t *operand, uint8_t shape) {
  const moe__emu_shadow_t *shadow = &warp->shadows[operand->shadow];
  const char *name = warp->kernel->rows[operand->shadow].name;
  if (shadow->matrix == MOE__EMU_NO_MATRIX && shadow->line)
    moe__emu_fault(warp, instruction, -1,
                   "register %s was %s before it, at line %u, without a wgmma.fence in between",
                   name, shadow->was_written ? "written" : "read", shadow->line);
  else if (shadow->matrix == MOE__EMU_NO_MATRIX)
    moe__emu_fault(warp, instruction, -1,
                   "register %s: a product of the warp comes without a wgmma.fence before it",
                   name);
  else if (shadow->shape && shadow->shape != shape)
    moe__emu_fault(warp, instruction, -1,
                   "register %s was written by a product %s, without a wgmma.fence in between",
                   name, shape ? "of another shape" : "before it");
  else
    return true;
  return false;
}

/* The registers of D and A must be at rest, or belong to products before this one. */
static bool check_registers(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            const layout_t *layout, bool accumulate) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  int end = layout->a + layout->a_registers;
  for (int i = 0; i < end; i++) {
    const moe__emu_shadow_t *shadow = &warp->shadows[operands[i].shadow];
    bool is_d = i < layout->a;
    bool is_in_flight = shadow->matrix > MOE__EMU_FENCED;
    if (shadow->matrix == (is_d ? MOE__EMU_READ_ONLY : MOE__EMU_WRITTEN) ||
        (!is_in_flight && (!is_d || accumulate) && shadow->initialized != UINT32_MAX)) {
      moe__emu_fault_operand(warp, instruction, &operands[i], UINT32_MAX);
      return false;
    }
    if (!check_fence(warp, instruction, &operands[i], is_d ? shape_of(layout) : 0))
      return false;
  }
  return true;
}

static void mark_registers(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                           const layout_t *layout) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  for (int i = 0; i < layout->a; i++)
    warp->shadows[operands[i].shadow].matrix = MOE__EMU_WRITTEN;
  for (int i = layout->a; i < layout->a + layout->a_registers; i++)
    warp->shadows[operands[i].shadow].matrix = MOE__EMU_READ_ONLY;
}

/* Decodes a descriptor, checks that its bytes are there and, for this warp, in order. */
static bool check_operand(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                          const layout_t *layout, bool is_b, uint64_t descriptor,
                          moe__emu_event_t as) {
  moe__emu_wgmma_operand_t operand;
  moe__emu_error_t why;
  if (!moe__emu_wgmma_descriptor(&layout->shape, is_b, descriptor, &operand, &why)) {
    moe__emu_fault(warp, instruction, -1, "%s: %s", is_b ? "B" : "A", why.text);
    return false;
  }
  moe__emu_access_t access =
      moe__emu_access_begin(warp->cta->order, warp->agent, UINT32_MAX, MOE__EMU_ASYNC_READ, as);
  access.is_collective = true;
  int chunks = moe__emu_wgmma_chunk_count(&operand);
  for (int c = 0; c < chunks; c++) {
    uint32_t at, address = moe__emu_cluster_address(warp->cta->rank,
                                                    moe__emu_wgmma_chunk_address(&operand, c));
    if (!moe__emu_shared_offset(warp, instruction, -1, address, MOE__EMU_CHUNK, 1, &at))
      return false;
    if (!moe__emu_access_bytes(&access, 1, moe__emu_order_address(warp->cta, at), MOE__EMU_CHUNK,
                               NULL)) {
      moe__emu_fault_order(warp, instruction, -1, is_b ? "wgmma's B" : "wgmma's A",
                           &access.finding);
      return false;
    }
  }
  return true;
}

/* ---- The product ---- */

static void gather(const moe__emu_cta_t *cta, const layout_t *layout, bool is_b,
                   uint64_t descriptor, float *matrix) {
  moe__emu_wgmma_operand_t operand;
  moe__emu_error_t ignored; /* checked when the product was started */
  moe__emu_wgmma_descriptor(&layout->shape, is_b, descriptor, &operand, &ignored);
  int chunks = moe__emu_wgmma_chunk_count(&operand);
  for (int c = 0; c < chunks; c++) {
    uint32_t address = moe__emu_wgmma_chunk_address(&operand, c);
    moe__emu_wgmma_unpack_chunk(&operand, is_b, c, cta->shared + (address - MOE__EMU_SHARED_BASE),
                                matrix);
  }
}

/* Where the element of D lies that a register of a thread holds. */
static int d_offset(int thread, int index, int n) {
  int row, column;
  moe__emu_wgmma_d_element(thread, index, &row, &column);
  return row * n + column;
}

/* Moves D between the registers of the four warps and a matrix. */
static void move_d(moe__emu_cta_t *cta, uint32_t warpgroup,
                   const moe__emu_instruction_t *instruction, const layout_t *layout,
                   bool to_registers) {
  float *d = cta->matrix->d;
  int offsets[MOE__EMU_LANES]; /* of a register's elements, from that of lane 0 */
  for (int lane = 0; lane < MOE__EMU_LANES; lane++)
    offsets[lane] = d_offset(lane, 0, layout->shape.n);
  for (int w = 0; w < WARPS; w++) {
    moe__emu_warp_t *warp = &cta->warps[warpgroup * WARPS + (uint32_t)w];
    const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
    for (int r = 0; r < layout->a; r++) {
      float *row = moe__emu_row(warp, &operands[r]);
      float *first = d + d_offset(w * MOE__EMU_LANES, r, layout->shape.n);
      for (int lane = 0; to_registers && lane < MOE__EMU_LANES; lane++)
        row[lane] = first[offsets[lane]];
      for (int lane = 0; !to_registers && lane < MOE__EMU_LANES; lane++)
        first[offsets[lane]] = row[lane];
    }
  }
}

static void gather_registers(moe__emu_cta_t *cta, uint32_t warpgroup,
                             const moe__emu_instruction_t *instruction, const layout_t *layout) {
  for (int thread = 0; thread < MOE__EMU_WGMMA_THREADS; thread++) {
    const moe__emu_warp_t *warp =
        &cta->warps[warpgroup * WARPS + (uint32_t)thread / MOE__EMU_LANES];
    uint32_t registers[MOE__EMU_WGMMA_A_REGISTERS];
    for (int i = 0; i < MOE__EMU_WGMMA_A_REGISTERS; i++)
      registers[i] = (uint32_t)moe__emu_lane_value(
          warp, moe__emu_operand(warp->kernel, instruction, layout->a + i),
          thread % MOE__EMU_LANES);
    moe__emu_wgmma_unpack_registers(layout->shape.a, thread, registers, cta->matrix->a);
  }
}

static bool multiply(moe__emu_cta_t *cta, moe__emu_task_t *task) {
  moe__emu_matrix_t *matrix = cta->matrix;
  moe__emu_warpgroup_t *group = &matrix->groups[task->warpgroup];
  const moe__emu_product_t *product = product_at(group, task->product);
  const moe__emu_instruction_t *instruction = product->instruction;
  const moe__emu_kernel_t *kernel = cta->machine->kernel;
  if (task->product != group->done) {
    /* The ones before come first. */
    return moe__emu_async_add(cta, task);
  }
  const layout_t layout = read_layout(kernel, instruction);
  if (layout.a_registers)
    gather_registers(cta, task->warpgroup, instruction, &layout);
  else
    gather(cta, &layout, false, product->a, matrix->a);
  gather(cta, &layout, true, product->b, matrix->b);
  if (product->accumulate)
    move_d(cta, task->warpgroup, instruction, &layout, false);
  moe__emu_wgmma_multiply(&layout.shape, MOE__EMU_WGMMA_M, matrix->a, matrix->b,
                          product->accumulate,
                          moe__emu_operand(kernel, instruction, layout.scale_a)->addend,
                          moe__emu_operand(kernel, instruction, layout.scale_b)->addend, matrix->d);
  move_d(cta, task->warpgroup, instruction, &layout, true);
  group->done++;
  return true;
}

/* Starts the warp's part of a product; queues it when all four warps have. */
static bool start(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                  const moe__emu_product_t *mine) {
  moe__emu_warpgroup_t *group = group_of(warp);
  uint32_t number = warp->matrix->started;
  moe__emu_product_t *product = product_at(group, number);
  if (number == group->started) {
    *product = *mine;
    group->started++;
  } else if (product->instruction != mine->instruction || product->a != mine->a ||
             product->b != mine->b || product->accumulate != mine->accumulate) {
    moe__emu_fault(warp, instruction, -1,
                   "the warps of a warpgroup start different products (line %u, or other "
                   "descriptors)",
                   product->instruction->line);
    return false;
  }
  product->warps |= mine->warps;
  warp->matrix->started++;
  if (product->warps != ALL_WARPS)
    return true;
  moe__emu_task_t task = {
      .run = multiply,
      .warp = warp,
      .instruction = instruction,
      .lane = -1,
      .warpgroup = warp->number / WARPS,
      .product = number,
  };
  return moe__emu_async_add(warp->cta, &task);
}

static moe__emu_step_t product(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  moe__emu_warpgroup_t *group = group_of(warp);
  if (!check_warp(warp, instruction, active))
    return MOE__EMU_FAILED;
  const layout_t layout = read_layout(warp->kernel, instruction);
  for (int i = layout.a_registers ? layout.b : layout.a; i < instruction->operand_count; i++) {
    if (!moe__emu_is_ready(warp, &operands[i], active))
      return moe__emu_fault_operand(warp, instruction, &operands[i], active);
  }
  if (warp->matrix->started - warp->matrix->waited == MOE__EMU_MAX_PRODUCTS)
    return moe__emu_fault(warp, instruction, -1, "more than %d products without a wait",
                          MOE__EMU_MAX_PRODUCTS);
  uint32_t scale = *(const uint32_t *)moe__emu_row(warp, &operands[layout.scale_d]);
  if (scale != 0 && scale != UINT32_MAX)
    return moe__emu_fault(warp, instruction, -1, "lanes give different scales of D");
  moe__emu_product_t mine = {
      .instruction = instruction, .warps = 1U << warp->number % WARPS, .accumulate = scale != 0};
  if ((!layout.a_registers && !uniform(warp, instruction, &operands[layout.a], &mine.a)) ||
      !uniform(warp, instruction, &operands[layout.b], &mine.b) ||
      !check_registers(warp, instruction, &layout, mine.accumulate))
    return MOE__EMU_FAILED;
  if (group->agent < 0) {
    group->agent = moe__emu_order_agent(warp->cta->order, MOE__EMU_AGENT_MATRIX, warp->cta->rank,
                                        warp->number / WARPS);
    if (group->agent < 0)
      return moe__emu_fault(warp, instruction, -1, "too many warps, mbarriers and bulk groups");
  }
  moe__emu_event_t as = MOE__EMU_EVENT(group->agent, warp->matrix->started + 1);
  if ((!layout.a_registers && !check_operand(warp, instruction, &layout, false, mine.a, as)) ||
      !check_operand(warp, instruction, &layout, true, mine.b, as) ||
      !start(warp, instruction, &mine) || !moe__emu_warpgroup_execute(warp, instruction))
    return MOE__EMU_FAILED;
  mark_registers(warp, instruction, &layout);
  for (int i = 0; i < layout.a; i++)
    warp->shadows[operands[i].shadow].shape = shape_of(&layout);
  return MOE__EMU_ADVANCE;
}

/* ---- What all warps of a warpgroup execute ---- */

/* The warps of a warp's warpgroup; returns the first one. */
static moe__emu_matrix_warp_t *warps_of(const moe__emu_warp_t *warp, uint32_t *out_count) {
  uint32_t first = warp->number / WARPS * WARPS, all = warp->cta->machine->warp_count;
  *out_count = all - first < WARPS ? all - first : WARPS;
  return &warp->cta->matrix->warps[first];
}

static const moe__emu_instruction_t *common_at(const moe__emu_warpgroup_t *group, uint32_t number) {
  return group->common[number & (group->common_capacity - 1)];
}

/* Makes room for one more: what the slowest warp has yet to execute must be kept. */
static bool reserve_common(moe__emu_warpgroup_t *group, uint32_t slowest) {
  if (group->common_count - slowest < group->common_capacity)
    return true;
  uint32_t capacity = group->common_capacity ? group->common_capacity * 2 : FIRST_COMMON;
  const moe__emu_instruction_t **grown =
      (const moe__emu_instruction_t **)calloc(capacity, sizeof *grown);
  if (!grown)
    return false;
  for (uint32_t i = slowest; i < group->common_count; i++)
    grown[i & (capacity - 1)] = common_at(group, i);
  free((void *)group->common);
  group->common = grown;
  group->common_capacity = capacity;
  return true;
}

bool moe__emu_warpgroup_execute(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction) {
  moe__emu_warpgroup_t *group = group_of(warp);
  uint32_t count, number = warp->matrix->common, slowest = number;
  const moe__emu_matrix_warp_t *warps = warps_of(warp, &count);
  if (number < group->common_count) {
    const moe__emu_instruction_t *other = common_at(group, number);
    if (other != instruction) {
      moe__emu_fault(warp, instruction, -1,
                     "another warp of its warpgroup has executed line %u (%s) in its place: all "
                     "four must execute the same",
                     other->line, other->name);
      return false;
    }
    warp->matrix->common++;
    return true;
  }
  for (uint32_t w = 0; w < count; w++) {
    slowest = warps[w].common < slowest ? warps[w].common : slowest;
    if (!warps[w].has_left)
      continue;
    moe__emu_fault(warp, instruction, -1,
                   "warp %u of its warpgroup has exited without it: all four must execute the same",
                   warp->number / WARPS * WARPS + w);
    return false;
  }
  if (!reserve_common(group, slowest)) {
    moe__emu_fault_cta(warp->cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
    return false;
  }
  group->common[group->common_count++ & (group->common_capacity - 1)] = instruction;
  warp->matrix->common++;
  return true;
}

/* ---- fence, commit, wait ---- */

static moe__emu_step_t fence(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  if (!check_warp(warp, instruction, active) || !moe__emu_warpgroup_execute(warp, instruction))
    return MOE__EMU_FAILED;
  const moe__emu_matrix_t *matrix = warp->cta->matrix;
  for (uint32_t r = 0; r < matrix->row_count; r++) {
    moe__emu_shadow_t *shadow = &warp->shadows[matrix->rows[r]];
    shadow->shape = 0;
    if (shadow->matrix == MOE__EMU_NO_MATRIX)
      shadow->matrix = MOE__EMU_FENCED;
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t commit(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                              uint32_t active) {
  moe__emu_matrix_warp_t *matrix = warp->matrix;
  if (!check_warp(warp, instruction, active) || !moe__emu_warpgroup_execute(warp, instruction))
    return MOE__EMU_FAILED;
  if (matrix->groups == matrix->capacity) {
    uint32_t capacity = matrix->capacity * 2 + 16;
    uint32_t *grown = realloc(matrix->ends, capacity * sizeof *grown);
    if (!grown) {
      moe__emu_fault_cta(warp->cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
      return MOE__EMU_FAILED;
    }
    matrix->ends = grown;
    matrix->capacity = capacity;
  }
  matrix->ends[matrix->groups++] = matrix->committed = matrix->started;
  return MOE__EMU_ADVANCE;
}

/* The registers of products [first, end) are the warp's again, unless a later one has them too. */
static void release_registers(moe__emu_warp_t *warp, uint32_t first, uint32_t end) {
  moe__emu_warpgroup_t *group = group_of(warp);
  for (uint32_t p = first; p < end; p++) {
    const moe__emu_instruction_t *instruction = product_at(group, p)->instruction;
    const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
    const layout_t layout = read_layout(warp->kernel, instruction);
    for (int i = 0; i < layout.a + layout.a_registers; i++) {
      moe__emu_shadow_t *shadow = &warp->shadows[operands[i].shadow];
      *shadow = (moe__emu_shadow_t){
          .initialized = UINT32_MAX, .matrix = MOE__EMU_FENCED, .shape = shadow->shape};
    }
  }
  for (uint32_t p = end; p < warp->matrix->started; p++) {
    const moe__emu_instruction_t *instruction = product_at(group, p)->instruction;
    const layout_t layout = read_layout(warp->kernel, instruction);
    mark_registers(warp, instruction, &layout);
  }
}

static moe__emu_step_t wait_groups(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  moe__emu_matrix_warp_t *matrix = warp->matrix;
  moe__emu_warpgroup_t *group = group_of(warp);
  uint32_t pending = (uint32_t)moe__emu_operand(warp->kernel, instruction, 0)->addend;
  if (!check_warp(warp, instruction, active))
    return MOE__EMU_FAILED;
  if (matrix->groups <= pending)
    return MOE__EMU_ADVANCE;
  uint32_t end = matrix->ends[matrix->groups - pending - 1];
  if (end <= matrix->waited)
    return MOE__EMU_ADVANCE;
  if (group->done < end)
    return MOE__EMU_BLOCKED;
  release_registers(warp, matrix->waited, end);
  matrix->waited = end;
  moe__emu_order_learn(warp->cta->order, warp->agent, active, warp->alive, (uint32_t)group->agent,
                       end, false);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t wait(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  moe__emu_step_t step = wait_groups(warp, instruction, active);
  bool is_same = step != MOE__EMU_ADVANCE || moe__emu_warpgroup_execute(warp, instruction);
  return is_same ? step : MOE__EMU_FAILED;
}

moe__emu_step_t moe__emu_matrix_exit(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction) {
  moe__emu_matrix_warp_t *matrix = warp->matrix;
  const moe__emu_warpgroup_t *group = group_of(warp);
  matrix->has_left = true;
  if (matrix->common < group->common_count) {
    const moe__emu_instruction_t *other = common_at(group, matrix->common);
    return moe__emu_fault(warp, instruction, -1,
                          "the warp exits without line %u (%s), which another warp of its "
                          "warpgroup has executed: all four must execute the same",
                          other->line, other->name);
  }
  if (matrix->waited == matrix->started)
    return MOE__EMU_ADVANCE;
  return moe__emu_fault(warp, instruction, -1,
                        "the warp exits with %u products that it has not waited for",
                        matrix->started - matrix->waited);
}

#define TYPES "{.e4m3|.e5m2|.bf16|.f16}"

const moe__emu_opcode_t moe__emu_matrix_opcodes[] = {
    MOE__EMU_VERIFIED("wgmma.mma_async.sync.aligned{*}.f32" TYPES TYPES, "Gwlpnn?n?n", product,
                      verify),
    MOE__EMU_EXECUTE("wgmma.fence.sync.aligned", "", fence),
    MOE__EMU_EXECUTE("wgmma.commit_group.sync.aligned", "", commit),
    MOE__EMU_EXECUTE("wgmma.wait_group.sync.aligned", "n", wait),
    MOE__EMU_END_OF_TABLE,
};
