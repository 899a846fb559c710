/* Idioms.c - prints a module whose kernel is made of idioms that no kernel of its own tests show.
 *
 * Why it exists: what becomes of them in PTX matters, and that is LLVM's; idioms.test reads it
 * there.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"
#include "lib/Device/Wgmma.h"

#include "mlir-c/RegisterEverything.h"

#include <stdio.h>

static void print_text(MlirStringRef text, void *user) {
  (void)user;
  fwrite(text.data, 1, text.length, stdout);
}

/* Tensors: 0, the input; 1, the result; 2, state. */
static const moe__expression_t *build_body(moe__kernel_t *kernel) {
  moe__builder_t *b = &kernel->builder;
  MlirValue in = moe__kernel_pointer(kernel, 0), out = moe__kernel_pointer(kernel, 1);
  MlirValue state = moe__kernel_pointer(kernel, 2), status = moe__kernel_status(kernel);
  moe__kernel_zeroed(kernel, 2);
  moe__kernel_programmatic(kernel);
  moe__kernel_prologue(kernel);
  moe__ring_t ring = moe__ring_reserve(&kernel->layout, 1, 1024);
  moe__ring_initialize(kernel, &ring, 1);

  moe__grid_launch_dependents(b);
  moe__grid_wait(b);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue bytes = moe__load(b, moe__offset_by(b, in, 4096), b->i32);
  MlirValue barrier = moe__ring_acquire(kernel, &ring, cursor, bytes);
  moe__bulk_load(b, moe__ring_buffer(kernel, &ring, cursor), in, bytes, barrier);
  moe__ring_wait(kernel, &ring, cursor);

  MlirValue all = moe__warp_or(b, kernel->thread);
  moe__atomic_umax(b, out, all, MOE__RELAXED);
  moe__store(b, all, moe__offset_by(b, out, 4));
  moe__fence_device(b);
  MlirValue count = moe__atomic_add(b, state, moe__i32(b, 1), MOE__ACQUIRE_RELEASE);
  moe__store(b, count, moe__offset_by(b, out, 8));
  moe__atomic_or(b, status, moe__i32(b, 4), MOE__RELAXED);
  moe__record_t *record = &kernel->record;
  const moe__expression_t *rows = moe__expression_dim(record, 0, 0);
  return moe__expression_add(record, MOE__EXPRESSIONS(rows, moe__expression_constant(record, 3)));
}

/* In clusters of two. Tensor 0: a matrix of bytes. */
static const moe__expression_t *build_cluster_body(moe__kernel_t *kernel) {
  moe__builder_t *b = &kernel->builder;
  moe__record_t *record = &kernel->record;
  const moe__expression_t *size = moe__expression_constant(record, 64);
  MlirValue map = moe__kernel_tensor_map(
      kernel, &(moe__tensor_map_t){.element = MOE__MAP_U8,
                                   .rank = 2,
                                   .dims = {size, size},
                                   .strides = {size},
                                   .box = {size, moe__expression_constant(record, 16)},
                                   .swizzle = MOE__SWIZZLE_NONE});
  moe__kernel_cluster(kernel, 2);
  moe__kernel_prologue(kernel);
  moe__ring_t ring = moe__ring_reserve(&kernel->layout, 1, 1024);
  int32_t word = moe__layout_shared(&kernel->layout, 4, 4);
  moe__ring_initialize(kernel, &ring, 2);
  moe__cluster_arrive(b);
  moe__cluster_wait(b);

  MlirValue other = moe__xor(b, kernel->cluster_rank, 1);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue barrier = moe__ring_acquire(kernel, &ring, cursor, moe__i32(b, 1024));
  MlirValue both = moe__trunc(b, moe__i32(b, 3), b->i16);
  moe__tma_load_multicast(b, map, moe__ring_buffer(kernel, &ring, cursor), barrier, 2,
                          (MlirValue[]){moe__i32(b, 0), moe__i32(b, 0)}, both);
  moe__ring_wait(kernel, &ring, cursor);
  moe__store(b, kernel->cluster,
             moe__shared_of_rank(b, moe__offset_by(b, kernel->shared, word), other));
  moe__ring_release_remote(kernel, &ring, cursor, other);
  moe__cluster_barrier(b);
  return moe__expression_persistent_clusters(record, moe__expression_dim(record, 0, 0), 2);
}

/* How many stages the tile takes. */
static MlirValue stages_of(moe__builder_t *b, MlirValue in, MlirValue tile) {
  MlirValue at = moe__offset(b, in, moe__shl(b, moe__zext(b, tile, b->i64), 2));
  return moe__warp_uniform(b, moe__load(b, at, b->i32));
}

/* A loop over tiles, each of which takes several stages of a ring; what a warp has in common; a
 * transposed matrix. Tensors: 0, how many stages each tile takes, 0 behind the last one; 1, the
 * result. */
static const moe__expression_t *build_loop_body(moe__kernel_t *kernel) {
  moe__builder_t *b = &kernel->builder;
  MlirValue in = moe__kernel_pointer(kernel, 0), out = moe__kernel_pointer(kernel, 1);
  moe__kernel_prologue(kernel);
  moe__ring_t ring = moe__ring_reserve(&kernel->layout, 3, 1024);

  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue tile = moe__i32(b, 0);
  MOE__WHILE (b, moe__ne(b, stages_of(b, in, tile), 0), &tile, MOE__CARRY_CURSOR(cursor)) {
    cursor = moe__cursor_advance(b, &ring, cursor, stages_of(b, in, tile));
    tile = moe__add(b, tile, 1);
  }
  moe__store(b, cursor.stage, out);
  moe__store(b, cursor.phase, moe__offset_by(b, out, 4));

  MlirValue words[] = {tile, cursor.stage, cursor.phase, tile};
  moe__store_matrix(b, moe__offset(b, kernel->shared, moe__shl(b, kernel->thread, 4)), words, true);
  return moe__expression_constant(&kernel->record, 1);
}

enum { COLUMNS = 16, GROUPS = 6, STEPS = 4 }; /* a group: 64 of K, 4 products */

/* Loads the fragments of a group: 16 words of a thread, side by side. */
static void load_fragments(moe__kernel_t *kernel, MlirValue a, MlirValue group,
                           MlirValue words[STEPS * MOE__WGMMA_A_REGISTERS]) {
  enum { BYTES = 4 * STEPS * MOE__WGMMA_A_REGISTERS };
  moe__builder_t *b = &kernel->builder;
  MlirValue row = moe__add(b, moe__mul(b, group, 128), kernel->thread);
  MlirValue first = moe__offset(b, a, moe__mul(b, row, BYTES));
  for (int i = 0; i < STEPS * MOE__WGMMA_A_REGISTERS; i++)
    words[i] = moe__xor(b, moe__load(b, moe__offset_by(b, first, 4 * i), b->i32), 0x1C1C1C1C);
}

/* Sums of groups of 64 of K: bf16 fragments of a, which pass through an XOR, times b in shared
 * memory; each sum is multiplied by the number of its group and added up. The sum of a group is
 * awaited when the products of the next one have begun. Tensors: 0, the fragments; 1, b, a K-major
 * tile of 128-byte rows with its swizzle applied, for all groups; 2, the result, 64 x 16. */
static const moe__expression_t *build_fragments_body(moe__kernel_t *kernel) {
  moe__builder_t *b = &kernel->builder;
  MlirValue a = moe__kernel_pointer(kernel, 0), x = moe__kernel_pointer(kernel, 1);
  MlirValue out = moe__kernel_pointer(kernel, 2);
  moe__kernel_prologue(kernel);
  moe__layout_shared(&kernel->layout, COLUMNS * 128, 1024);
  MlirValue at = moe__shl(b, kernel->thread, 4); /* 128 threads, 16 bytes each: all of the tile */
  MlirType words4 = moe__vector_type(b, 4, b->i32);
  moe__store_aligned(b, moe__load(b, moe__offset(b, x, at), words4),
                     moe__offset(b, kernel->shared, at), 16);
  moe__fence_shared_to_async(b);
  moe__cta_barrier(b);

  MlirType bf16 = moe__type(b, "bf16");
  MlirValue tile = moe__wgmma_descriptor(b, kernel->shared);
  MlirValue sums[COLUMNS / 2], words[2][STEPS * MOE__WGMMA_A_REGISTERS];
  moe__accumulator_t parts[2];
  for (int i = 0; i < COLUMNS / 2; i++)
    sums[i] = moe__f32(b, 0.0F);
  for (int group = 0; group <= GROUPS; group++) {
    int now = group % 2, before = 1 - now;
    if (group < GROUPS) {
      load_fragments(kernel, a, moe__i32(b, group), words[now]);
      parts[now] = moe__wgmma_zero(b, COLUMNS);
      moe__wgmma_fence_through(b, 1, &parts[now], STEPS * MOE__WGMMA_A_REGISTERS, words[now]);
      for (int i = 0; i < STEPS; i++)
        parts[now] =
            moe__wgmma_k16_fragment(b, parts[now], i == 0, words[now] + i * MOE__WGMMA_A_REGISTERS,
                                    moe__wgmma_advance(b, tile, i * 32), bf16, false);
      moe__wgmma_commit(b);
    }
    if (group == 0)
      continue;
    MlirValue part[MOE__WGMMA_MAX_N / 2];
    moe__wgmma_wait_through(b, group < GROUPS, 1, &parts[before], STEPS * MOE__WGMMA_A_REGISTERS,
                            words[before]);
    moe__accumulator_unpack(b, parts[before], part);
    for (int i = 0; i < COLUMNS / 2; i++)
      sums[i] = moe__fma(b, part[i], moe__f32(b, (float)group), sums[i]);
  }
  MlirValue row = moe__offset(b, out, moe__mul(b, kernel->thread, COLUMNS / 2 * 4));
  for (int i = 0; i < COLUMNS / 2; i++)
    moe__store(b, sums[i], moe__offset_by(b, row, 4 * i));
  return moe__expression_constant(&kernel->record, 1);
}

enum { WIDE = 128, BLOCK_BYTES = 64 * 128 }; /* columns of b; a tile, or a block of 64 columns */

/* A product of f16 in shared memory over 64 of K: a is K-major, b MN-major, in two blocks. Tensors:
 * 0, a, 64 rows of 128 bytes; 1, b, for each block 64 rows of 128 bytes, one for each k; both with
 * the swizzle applied; 2, the result, 64 x 128. */
static const moe__expression_t *build_transposed_body(moe__kernel_t *kernel) {
  moe__builder_t *b = &kernel->builder;
  MlirValue sources[] = {moe__kernel_pointer(kernel, 0), moe__kernel_pointer(kernel, 1)};
  MlirValue out = moe__kernel_pointer(kernel, 2);
  moe__kernel_prologue(kernel);
  moe__layout_shared(&kernel->layout, 3 * BLOCK_BYTES, 1024);
  MlirType words4 = moe__vector_type(b, 4, b->i32);
  for (int32_t i = 0; i < 3 * BLOCK_BYTES; i += 128 * 16) {
    MlirValue at = moe__add(b, moe__shl(b, kernel->thread, 4), i);
    MlirValue from = i < BLOCK_BYTES ? moe__offset(b, sources[0], at)
                                     : moe__offset(b, sources[1], moe__sub(b, at, BLOCK_BYTES));
    moe__store_aligned(b, moe__load(b, from, words4), moe__offset(b, kernel->shared, at), 16);
  }
  moe__fence_shared_to_async(b);
  moe__cta_barrier(b);

  MlirValue rows = moe__wgmma_descriptor(b, kernel->shared);
  MlirValue columns = moe__wgmma_descriptor_mn(b, moe__offset_by(b, kernel->shared, BLOCK_BYTES),
                                               BLOCK_BYTES, false);
  moe__accumulator_t sum = moe__wgmma_fence_fresh(b, moe__wgmma_zero(b, WIDE));
  for (int i = 0; i < STEPS; i++)
    sum = moe__wgmma_k16(b, sum, i == 0, moe__wgmma_advance(b, rows, i * 32),
                         moe__wgmma_advance(b, columns, i * 16 * 128), moe__type(b, "f16"), true);
  moe__wgmma_commit(b);
  MlirValue registers[MOE__WGMMA_MAX_N / 2];
  moe__wgmma_finish(b, sum, registers);
  MlirValue row = moe__offset(b, out, moe__mul(b, kernel->thread, WIDE / 2 * 4));
  for (int i = 0; i < WIDE / 2; i++)
    moe__store(b, registers[i], moe__offset_by(b, row, 4 * i));
  return moe__expression_constant(&kernel->record, 1);
}

static void build_kernel(MlirBlock module_body, MlirContext context, MlirLocation location,
                         const char *name, int32_t threads,
                         const moe__expression_t *(*build)(moe__kernel_t *)) {
  moe__kernel_t kernel;
  moe__kernel_begin(&kernel, context, location,
                    &(moe__layout_t){.threads = threads, .ctas_per_sm = 1});
  const moe__expression_t *grid = build(&kernel);
  moe__kernel_end(&kernel, module_body, mlirStringRefCreateFromCString(name), grid);
}

int main(void) {
  MlirContext context = mlirContextCreate();
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  mlirRegisterAllDialects(registry);
  mlirContextAppendDialectRegistry(context, registry);
  mlirContextLoadAllAvailableDialects(context);
  mlirDialectRegistryDestroy(registry);
  MlirLocation location = mlirLocationUnknownGet(context);
  MlirModule module = mlirModuleCreateEmpty(location);
  moe__builder_t b = moe__builder_create(context, location);
  b.block = mlirModuleGetBody(module);
  MlirRegion region = mlirRegionCreate();
  MlirBlock body = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(region, body);
  moe__op(&b, "gpu.module", 0, NULL, MOE__NO_VALUES, "sym_name = \"kernels\"", 1, &region);

  build_kernel(body, context, location, "idioms", 32, build_body);
  build_kernel(body, context, location, "clusters", 32, build_cluster_body);
  build_kernel(body, context, location, "loops", 32, build_loop_body);
  build_kernel(body, context, location, "fragments", 128, build_fragments_body);
  build_kernel(body, context, location, "transposed", 128, build_transposed_body);
  mlirOperationPrint(mlirModuleGetOperation(module), print_text, NULL);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  return 0;
}
