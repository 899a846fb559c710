/* Kernel.c - see Kernel.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Kernel.h"

#include "lib/Builder/Inspect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>

/* One symbol per gpu.module for the dynamic shared memory of all its kernels. 1024 is what 128-byte
 * swizzles need. */
#define SHARED_SYMBOL "dynamic_shared_memory"

void moe__kernel_begin(moe__kernel_t *kernel, MlirContext context, MlirLocation location,
                       const moe__layout_t *layout) {
  *kernel = (moe__kernel_t){.builder = moe__builder_create(context, location),
                            .entry = mlirBlockCreate(0, NULL, NULL),
                            .layout = *layout,
                            .cluster_size = 1};
  kernel->builder.block = kernel->entry;
}

static MlirType parameter_type(const moe__kernel_t *kernel, moe__parameter_kind_t kind) {
  const moe__builder_t *b = &kernel->builder;
  if (kind == MOE__PARAMETER_TENSOR_MAP)
    return b->ptr;
  return kind == MOE__PARAMETER_SCALAR ? b->i32 : b->global_ptr;
}

static MlirValue add_parameter(moe__kernel_t *kernel, const moe__parameter_t *parameter) {
  moe__record_parameter(&kernel->record, parameter);
  return mlirBlockAddArgument(kernel->entry, parameter_type(kernel, parameter->kind),
                              kernel->builder.location);
}

MlirValue moe__kernel_pointer(moe__kernel_t *kernel, int tensor) {
  return add_parameter(kernel,
                       &(moe__parameter_t){.kind = MOE__PARAMETER_POINTER, .tensor = tensor});
}

MlirValue moe__kernel_tensor_map(moe__kernel_t *kernel, const moe__tensor_map_t *map) {
  return add_parameter(kernel, &(moe__parameter_t){.kind = MOE__PARAMETER_TENSOR_MAP, .map = *map});
}

moe__extent_t moe__kernel_constant_extent(moe__kernel_t *kernel, int64_t size) {
  return (moe__extent_t){.size = size,
                         .value = moe__i32(&kernel->builder, (int32_t)size),
                         .expression = moe__expression_constant(&kernel->record, size)};
}

/* An extent that is a parameter. */
static moe__extent_t extent_parameter(moe__kernel_t *kernel, const moe__expression_t *size) {
  moe__parameter_t parameter = {.kind = MOE__PARAMETER_SCALAR, .value = size};
  return (moe__extent_t){
      .size = -1, .value = add_parameter(kernel, &parameter), .expression = size};
}

moe__extent_t moe__kernel_extent(moe__kernel_t *kernel, int tensor, int dimension, MlirType type) {
  if (!mlirShapedTypeIsDynamicDim(type, dimension))
    return moe__kernel_constant_extent(kernel, mlirShapedTypeGetDimSize(type, dimension));
  return extent_parameter(kernel, moe__expression_dim(&kernel->record, tensor, dimension));
}

moe__extent_t moe__kernel_hidden_extent(moe__kernel_t *kernel, int tensor, int dimension,
                                        MlirType type) {
  if (mlirShapedTypeIsDynamicDim(type, dimension))
    return moe__kernel_extent(kernel, tensor, dimension, type);
  int64_t size = mlirShapedTypeGetDimSize(type, dimension);
  return extent_parameter(kernel, moe__expression_constant(&kernel->record, size));
}

void moe__kernel_matrices(moe__kernel_t *kernel, int tensor, MlirType type, moe__extent_t *count,
                          moe__extent_t *rows, moe__extent_t *columns) {
  int rank = (int)mlirShapedTypeGetRank(type);
  *count = rank == 3 ? moe__kernel_extent(kernel, tensor, 0, type)
                     : moe__kernel_constant_extent(kernel, 1);
  *rows = moe__kernel_extent(kernel, tensor, rank - 2, type);
  *columns = moe__kernel_extent(kernel, tensor, rank - 1, type);
}

MlirValue moe__kernel_status(moe__kernel_t *kernel) {
  return add_parameter(kernel, &(moe__parameter_t){.kind = MOE__PARAMETER_STATUS});
}

MlirValue moe__kernel_counters(moe__kernel_t *kernel) {
  return add_parameter(kernel, &(moe__parameter_t){.kind = MOE__PARAMETER_COUNTERS});
}

MlirValue moe__kernel_partials(moe__kernel_t *kernel) {
  return add_parameter(kernel, &(moe__parameter_t){.kind = MOE__PARAMETER_PARTIALS});
}

MlirValue moe__kernel_arrivals(moe__kernel_t *kernel) {
  return add_parameter(kernel, &(moe__parameter_t){.kind = MOE__PARAMETER_ARRIVALS});
}

void moe__kernel_require(moe__kernel_t *kernel, int tensor, int dimension,
                         moe__requirement_kind_t kind, int64_t value) {
  moe__record_require(
      &kernel->record,
      &(moe__requirement_t){.kind = kind, .dim = {tensor, dimension}, .value = value});
}

void moe__kernel_require_same(moe__kernel_t *kernel, int tensor, int dimension, int other_tensor,
                              int other_dimension) {
  moe__record_require(&kernel->record,
                      &(moe__requirement_t){.kind = MOE__SAME_AS,
                                            .dim = {tensor, dimension},
                                            .other = {other_tensor, other_dimension}});
}

void moe__kernel_require_quotient(moe__kernel_t *kernel, int tensor, int dimension,
                                  int other_tensor, int other_dimension, int64_t divisor,
                                  int groups) {
  moe__record_require(&kernel->record,
                      &(moe__requirement_t){.kind = MOE__QUOTIENT_OF,
                                            .dim = {tensor, dimension},
                                            .other = {other_tensor, other_dimension},
                                            .groups = {groups < 0 ? 0 : groups, 0},
                                            .has_groups = groups >= 0,
                                            .value = divisor});
}

void moe__kernel_zeroed(moe__kernel_t *kernel, int tensor) {
  moe__record_zeroed(&kernel->record, tensor);
}

void moe__kernel_programmatic(moe__kernel_t *kernel) {
  kernel->record.programmatic = true;
}

void moe__kernel_overlaps(moe__kernel_t *kernel) {
  moe__kernel_programmatic(kernel);
  kernel->record.overlaps = true;
}

void moe__kernel_cluster(moe__kernel_t *kernel, int32_t ctas) {
  kernel->cluster_size = ctas;
}

static MlirValue special_register(moe__kernel_t *kernel, const char *name) {
  return moe__op1(&kernel->builder, name, kernel->builder.i32, MOE__NO_VALUES, NULL);
}

void moe__kernel_prologue(moe__kernel_t *kernel) {
  moe__builder_t *b = &kernel->builder;
  kernel->thread = special_register(kernel, "nvvm.read.ptx.sreg.tid.x");
  kernel->cta = special_register(kernel, "nvvm.read.ptx.sreg.ctaid.x");
  kernel->cta_count = special_register(kernel, "nvvm.read.ptx.sreg.nctaid.x");
  if (kernel->cluster_size > 1) {
    kernel->cluster_rank = special_register(kernel, "nvvm.read.ptx.sreg.cluster.ctarank");
    kernel->cluster = special_register(kernel, "nvvm.read.ptx.sreg.clusterid.x");
    kernel->cluster_count = special_register(kernel, "nvvm.read.ptx.sreg.nclusterid.x");
  }
  kernel->shared = moe__op1(b, "llvm.mlir.addressof", b->shared_ptr, MOE__NO_VALUES,
                            "global_name = @" SHARED_SYMBOL);
}

static bool declares_shared_memory(MlirBlock body) {
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (moe__op_is(op, "llvm.mlir.global") &&
        mlirStringRefEqual(moe__symbol(op), mlirStringRefCreateFromCString(SHARED_SYMBOL)))
      return true;
  return false;
}

/* The types of the parameters, and their attributes. */
static void print_parameters(const moe__kernel_t *kernel, FILE *out) {
  const moe__record_t *record = &kernel->record;
  fputs("function_type = !llvm.func<void (", out);
  for (int i = 0; i < record->parameter_count; i++) {
    moe__parameter_kind_t kind = record->parameters[i].kind;
    bool map = kind == MOE__PARAMETER_TENSOR_MAP, scalar = kind == MOE__PARAMETER_SCALAR;
    fprintf(out, "%s%s", i ? ", " : "", map ? "ptr" : scalar ? "i32" : "ptr<1>");
  }
  fputs(")>, arg_attrs = [", out);
  for (int i = 0; i < record->parameter_count; i++)
    fprintf(out, "%s%s", i ? ", " : "",
            record->parameters[i].kind == MOE__PARAMETER_TENSOR_MAP
                ? "{llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant, llvm.align = 64 : i64}"
                : "{}");
  fputs("], ", out);
}

void moe__kernel_end(moe__kernel_t *kernel, MlirBlock gpu_module_body, MlirStringRef name,
                     const moe__expression_t *grid) {
  moe__builder_t *b = &kernel->builder;
  moe__op0(b, "llvm.return", MOE__NO_VALUES, NULL);

  b->block = gpu_module_body;
  if (!declares_shared_memory(gpu_module_body)) {
    MlirRegion initializer = mlirRegionCreate();
    moe__op(b, "llvm.mlir.global", 0, NULL, MOE__NO_VALUES,
            "sym_name = \"" SHARED_SYMBOL "\", global_type = !llvm.array<0 x i8>, "
            "linkage = #llvm.linkage<external>, addr_space = 3 : i32, alignment = 1024 : i64",
            1, &initializer);
  }

  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (!out)
    abort();
  fprintf(out, "sym_name = \"%.*s\", ", (int)name.length, name.data);
  print_parameters(kernel, out);
  if (kernel->cluster_size > 1)
    fprintf(out, "nvvm.cluster_dim = array<i32: %d>, ", kernel->cluster_size);
  fprintf(out,
          "linkage = #llvm.linkage<external>, CConv = #llvm.cconv<ccc>, visibility_ = 0 : i64, "
          "nvvm.kernel, nvvm.reqntid = array<i32: %d>, nvvm.minctasm = %d : i32",
          kernel->layout.threads, kernel->layout.ctas_per_sm);
  fclose(out);
  MlirRegion body = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(body, kernel->entry);
  MlirOperation function = moe__op(b, "llvm.func", 0, NULL, MOE__NO_VALUES, text, 1, &body);
  free(text);

  moe__record_t *record = &kernel->record;
  record->cta[0] = kernel->layout.threads;
  record->cluster[0] = kernel->cluster_size;
  record->shared_memory = kernel->layout.shared_bytes;
  record->grid[0] = grid;
  for (int i = 1; i < 3; i++) {
    record->cta[i] = record->cluster[i] = 1;
    record->grid[i] = moe__expression_constant(record, 1);
  }
  moe__op_set_attribute(function, "moe.kernel", moe__record_attribute(b->context, record));
  moe__record_destroy(record);
}
