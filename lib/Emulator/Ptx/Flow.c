/* Flow.c - where the lanes of a warp that a branch separates meet again.
 *
 * Why it exists: the answer, the branch's immediate postdominator, depends on the kernel alone, so
 * it is computed once. It is the iterative algorithm of Cooper, Harvey and Kennedy on the reversed
 * control flow graph.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Flow.h"

#include <stdlib.h>
#include <string.h>

/* Blocks are numbered in the order of the text; one more is the exit. */
typedef struct graph_t {
  const moe__emu_kernel_t *kernel;
  uint32_t count, exit;
  uint32_t *block_of;  /* of each instruction */
  uint32_t *first;     /* instruction of each block; one past the end for the exit */
  uint32_t (*next)[2]; /* successors of each block; MOE__EMU_NOWHERE where there is none */
  uint32_t *before, *before_first; /* predecessors of all blocks, and where each block's begin */
  uint32_t *order, *rank;          /* reverse postorder of the reversed graph, and its inverse */
  uint32_t *dominator;
  uint32_t *stack;
} graph_t;

static bool is_conditional(const moe__emu_instruction_t *instruction) {
  return instruction->guard >= 0;
}

static bool ends_block(const moe__emu_instruction_t *instruction) {
  return instruction->is_branch || instruction->is_exit;
}

/* Splits the instructions into blocks. */
static void make_blocks(graph_t *graph) {
  const moe__emu_kernel_t *kernel = graph->kernel;
  for (uint32_t i = 0; i < kernel->instruction_count; i++)
    graph->block_of[i] = 0;
  graph->block_of[0] = 1;
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    const moe__emu_instruction_t *instruction = &kernel->instructions[i];
    if (instruction->is_branch)
      graph->block_of[instruction->target] = 1;
    if (ends_block(instruction) && i + 1 < kernel->instruction_count)
      graph->block_of[i + 1] = 1;
  }
  graph->count = 0;
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    if (graph->block_of[i])
      graph->first[graph->count++] = i;
    graph->block_of[i] = graph->count - 1;
  }
  graph->exit = graph->count++;
  graph->first[graph->exit] = kernel->instruction_count;
}

static void connect(graph_t *graph) {
  for (uint32_t b = 0; b < graph->exit; b++) {
    uint32_t last = graph->first[b + 1] - 1;
    const moe__emu_instruction_t *end = &graph->kernel->instructions[last];
    uint32_t *next = graph->next[b];
    next[0] = next[1] = MOE__EMU_NOWHERE;
    if (end->is_branch)
      next[0] = graph->block_of[end->target];
    else if (end->is_exit)
      next[0] = graph->exit;
    if (!ends_block(end) || is_conditional(end))
      next[1] = b + 1; /* of the last block: the exit */
  }
  graph->next[graph->exit][0] = graph->next[graph->exit][1] = MOE__EMU_NOWHERE;

  /* Predecessors: count, add up, fill. */
  memset(graph->before_first, 0, (graph->count + 2) * sizeof *graph->before_first);
  for (uint32_t b = 0; b < graph->count; b++) {
    for (int i = 0; i < 2; i++) {
      if (graph->next[b][i] != MOE__EMU_NOWHERE)
        graph->before_first[graph->next[b][i] + 2]++;
    }
  }
  for (uint32_t b = 0; b < graph->count; b++)
    graph->before_first[b + 2] += graph->before_first[b + 1];
  for (uint32_t b = 0; b < graph->count; b++) {
    for (int i = 0; i < 2; i++) {
      if (graph->next[b][i] != MOE__EMU_NOWHERE)
        graph->before[graph->before_first[graph->next[b][i] + 1]++] = b;
    }
  }
}

/* Numbers the blocks that reach the exit, from the exit backwards, each after all of its own
 * successors where there is no loop. Returns how many there are. */
static uint32_t number_blocks(graph_t *graph) {
  uint32_t depth = 0, done = 0;
  for (uint32_t b = 0; b < graph->count; b++)
    graph->rank[b] = MOE__EMU_NOWHERE;
  uint32_t *position = graph->dominator; /* free until the search is over */
  graph->stack[depth++] = graph->exit;
  graph->rank[graph->exit] = 0;
  position[graph->exit] = graph->before_first[graph->exit];
  while (depth > 0) {
    uint32_t b = graph->stack[depth - 1];
    if (position[b] < graph->before_first[b + 1]) {
      uint32_t predecessor = graph->before[position[b]++];
      if (graph->rank[predecessor] == MOE__EMU_NOWHERE) {
        graph->rank[predecessor] = 0;
        position[predecessor] = graph->before_first[predecessor];
        graph->stack[depth++] = predecessor;
      }
    } else {
      graph->order[done++] = b;
      depth--;
    }
  }
  for (uint32_t i = 0; i < done / 2; i++) {
    uint32_t other = graph->order[done - 1 - i];
    graph->order[done - 1 - i] = graph->order[i];
    graph->order[i] = other;
  }
  for (uint32_t i = 0; i < done; i++)
    graph->rank[graph->order[i]] = i;
  return done;
}

static uint32_t intersect(const graph_t *graph, uint32_t a, uint32_t b) {
  while (a != b) {
    while (graph->rank[a] > graph->rank[b])
      a = graph->dominator[a];
    while (graph->rank[b] > graph->rank[a])
      b = graph->dominator[b];
  }
  return a;
}

static void find_dominators(graph_t *graph) {
  uint32_t reached = number_blocks(graph);
  for (uint32_t b = 0; b < graph->count; b++)
    graph->dominator[b] = MOE__EMU_NOWHERE;
  graph->dominator[graph->exit] = graph->exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 1; i < reached; i++) {
      uint32_t b = graph->order[i], found = MOE__EMU_NOWHERE;
      for (int n = 0; n < 2; n++) {
        uint32_t next = graph->next[b][n];
        if (next == MOE__EMU_NOWHERE || graph->dominator[next] == MOE__EMU_NOWHERE)
          continue;
        found = found == MOE__EMU_NOWHERE ? next : intersect(graph, found, next);
      }
      changed |= graph->dominator[b] != found;
      graph->dominator[b] = found;
    }
  }
}

/* Whether a result of the instruction is read by another one. */
static bool is_used(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction) {
  if (!instruction->result_count)
    return false;
  uint32_t row = moe__emu_operand(kernel, instruction, 0)->shadow;
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    const moe__emu_instruction_t *other = &kernel->instructions[i];
    const moe__emu_operand_t *operands = moe__emu_operand(kernel, other, 0);
    for (int o = other->result_count; o < other->operand_count; o++) {
      if (operands[o].shadow == row)
        return true;
    }
    if (other->guard >= 0 && kernel->operands[other->guard].shadow == row)
      return true;
  }
  return false;
}

void moe__emu_find_uses(moe__emu_kernel_t *kernel) {
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    moe__emu_instruction_t *instruction = &kernel->instructions[i];
    if (moe__emu_begins(instruction->name, "atom."))
      instruction->is_result_used = is_used(kernel, instruction);
  }
}

bool moe__emu_flow(moe__emu_kernel_t *kernel) {
  uint32_t size = kernel->instruction_count + 4;
  uint32_t *memory = calloc(size, 11 * sizeof *memory);
  if (!memory)
    return false;
  graph_t graph = {
      .kernel = kernel,
      .block_of = memory,
      .first = memory + size,
      .next = (uint32_t(*)[2])(memory + (size_t)size * 2),
      .before = memory + (size_t)size * 4,
      .before_first = memory + (size_t)size * 6,
      .order = memory + (size_t)size * 7,
      .rank = memory + (size_t)size * 8,
      .dominator = memory + (size_t)size * 9,
      .stack = memory + (size_t)size * 10,
  };
  make_blocks(&graph);
  connect(&graph);
  find_dominators(&graph);
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    moe__emu_instruction_t *instruction = &kernel->instructions[i];
    if (!instruction->is_branch)
      continue;
    uint32_t dominator = graph.dominator[graph.block_of[i]];
    bool is_inside = dominator != MOE__EMU_NOWHERE && dominator != graph.exit;
    instruction->reconverge = is_inside ? graph.first[dominator] : MOE__EMU_NOWHERE;
  }
  free(memory);
  return true;
}
