/* Kernel.c - see Kernel.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Kernel.h"

#include "lib/Builder/Inspect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
  kernel->parameters = open_memstream(&kernel->parameters_text, &kernel->parameters_length);
  kernel->requirements = open_memstream(&kernel->requirements_text, &kernel->requirements_length);
  if (!kernel->parameters || !kernel->requirements)
    abort();
}

/* A kernel that does not fit is a bug of this project, as in lib/Builder. */
static _Noreturn void overflow(const char *what) {
  fprintf(stderr, "moe: internal error: too many or too long: %s\n", what);
  abort();
}

static MlirValue add_parameter(moe__kernel_t *kernel, MlirType type, bool by_value) {
  if (kernel->parameter_count >= MOE__MAX_PARAMETERS)
    overflow("parameters");
  int index = kernel->parameter_count++;
  kernel->parameter_types[index] = type;
  kernel->by_value[index] = by_value;
  fputs(index ? ", " : "", kernel->parameters);
  return mlirBlockAddArgument(kernel->entry, type, kernel->builder.location);
}

MlirValue moe__kernel_pointer(moe__kernel_t *kernel, int tensor) {
  MlirValue value = add_parameter(kernel, kernel->builder.global_ptr, false);
  fprintf(kernel->parameters, "{kind = \"pointer\", tensor = %d}", tensor);
  return value;
}

MlirValue moe__kernel_tensor_map(moe__kernel_t *kernel, const moe__tensor_map_t *map) {
  MlirValue value = add_parameter(kernel, kernel->builder.ptr, true);
  FILE *out = kernel->parameters;
  fprintf(out, "{kind = \"tensor_map\", tensor = %d, element = \"%s\", dims = [", map->tensor,
          map->element);
  for (int i = 0; i < map->rank; i++)
    fprintf(out, "%s%s", i ? ", " : "", map->dims[i]);
  fputs("], strides = [", out);
  for (int i = 0; i + 1 < map->rank; i++)
    fprintf(out, "%s%s", i ? ", " : "", map->strides[i]);
  fputs("], box = [", out);
  for (int i = 0; i < map->rank; i++)
    fprintf(out, "%s%d", i ? ", " : "", map->box[i]);
  fprintf(out, "], swizzle = \"%s\", l2_promotion = \"256B\", fill = \"zero\"}", map->swizzle);
  return value;
}

moe__extent_t moe__kernel_extent(moe__kernel_t *kernel, int tensor, int dimension, MlirType type) {
  moe__extent_t extent = {.size = -1};
  if (!mlirShapedTypeIsDynamicDim(type, dimension)) {
    extent.size = mlirShapedTypeGetDimSize(type, dimension);
    extent.value = moe__i32(&kernel->builder, (int32_t)extent.size);
    snprintf(extent.expression, sizeof extent.expression, "%" PRId64, extent.size);
    return extent;
  }
  extent.value = add_parameter(kernel, kernel->builder.i32, false);
  snprintf(extent.expression, sizeof extent.expression, "{dim = [%d, %d]}", tensor, dimension);
  fprintf(kernel->parameters, "{kind = \"scalar\", type = \"i32\", value = %s}", extent.expression);
  return extent;
}

MlirValue moe__kernel_status(moe__kernel_t *kernel) {
  MlirValue value = add_parameter(kernel, kernel->builder.global_ptr, false);
  fputs("{kind = \"status\"}", kernel->parameters);
  return value;
}

MlirValue moe__kernel_counters(moe__kernel_t *kernel) {
  MlirValue value = add_parameter(kernel, kernel->builder.global_ptr, false);
  fputs("{kind = \"counters\"}", kernel->parameters);
  return value;
}

static const char *requirement_separator(moe__kernel_t *kernel) {
  return ftell(kernel->requirements) == 0 ? "" : ", ";
}

void moe__kernel_require(moe__kernel_t *kernel, int tensor, int dimension, const char *what,
                         int64_t value) {
  fprintf(kernel->requirements, "%s{dim = [%d, %d], %s = %" PRId64 "}",
          requirement_separator(kernel), tensor, dimension, what, value);
}

void moe__kernel_require_same(moe__kernel_t *kernel, int tensor, int dimension, int other_tensor,
                              int other_dimension) {
  fprintf(kernel->requirements, "%s{dim = [%d, %d], same_as = [%d, %d]}",
          requirement_separator(kernel), tensor, dimension, other_tensor, other_dimension);
}

void moe__kernel_require_quotient(moe__kernel_t *kernel, int tensor, int dimension,
                                  int other_tensor, int other_dimension, int64_t divisor) {
  fprintf(kernel->requirements, "%s{dim = [%d, %d], quotient_of = [%d, %d], divisor = %" PRId64 "}",
          requirement_separator(kernel), tensor, dimension, other_tensor, other_dimension, divisor);
}

void moe__kernel_zeroed(moe__kernel_t *kernel, int tensor) {
  if (kernel->zeroed_count >= MOE__MAX_ZEROED)
    overflow("zeroed tensors");
  kernel->zeroed[kernel->zeroed_count++] = tensor;
}

void moe__kernel_programmatic(moe__kernel_t *kernel) {
  kernel->programmatic = true;
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

void moe__kernel_end(moe__kernel_t *kernel, MlirBlock gpu_module_body, MlirStringRef name,
                     const char *const grid[3]) {
  moe__builder_t *b = &kernel->builder;
  moe__op0(b, "llvm.return", MOE__NO_VALUES, NULL);
  fclose(kernel->parameters);
  fclose(kernel->requirements);

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
  fprintf(out, "sym_name = \"%.*s\", function_type = !llvm.func<void (", (int)name.length,
          name.data);
  for (int i = 0; i < kernel->parameter_count; i++) {
    MlirType type = kernel->parameter_types[i];
    bool pointer = mlirTypeEqual(type, b->ptr), global = mlirTypeEqual(type, b->global_ptr);
    fprintf(out, "%s%s", i ? ", " : "", pointer ? "ptr" : global ? "ptr<1>" : "i32");
  }
  fputs(")>, arg_attrs = [", out);
  for (int i = 0; i < kernel->parameter_count; i++)
    fprintf(out, "%s%s", i ? ", " : "",
            kernel->by_value[i] ? "{llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant, "
                                  "llvm.align = 64 : i64}"
                                : "{}");
  fprintf(out,
          "], linkage = #llvm.linkage<external>, CConv = #llvm.cconv<ccc>, visibility_ = 0 : i64, "
          "nvvm.kernel, nvvm.reqntid = array<i32: %d>, nvvm.minctasm = %d : i32, ",
          kernel->layout.threads, kernel->layout.ctas_per_sm);
  if (kernel->cluster_size > 1)
    fprintf(out, "nvvm.cluster_dim = array<i32: %d>, ", kernel->cluster_size);
  fprintf(out,
          "moe.kernel = {block = [%d, 1, 1], cluster = [%d, 1, 1], shared_memory = %d, "
          "grid = [%s, %s, %s], parameters = [%s], requires = [%s], zeroed = [",
          kernel->layout.threads, kernel->cluster_size, kernel->layout.shared_bytes, grid[0],
          grid[1], grid[2], kernel->parameters_text, kernel->requirements_text);
  for (int i = 0; i < kernel->zeroed_count; i++)
    fprintf(out, "%s%d", i ? ", " : "", kernel->zeroed[i]);
  fprintf(out, "], programmatic = %s}", kernel->programmatic ? "true" : "false");
  fclose(out);
  MlirRegion body = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(body, kernel->entry);
  moe__op(b, "llvm.func", 0, NULL, MOE__NO_VALUES, text, 1, &body);
  free(text);
  free(kernel->parameters_text);
  free(kernel->requirements_text);
}

static void write_expression(char *out, const char *name, int count, const char *const *values) {
  int length = snprintf(out, MOE__EXPRESSION_SIZE, "{%s = [", name);
  for (int i = 0; i < count && length < MOE__EXPRESSION_SIZE; i++)
    length += snprintf(out + length, MOE__EXPRESSION_SIZE - (size_t)length, "%s%s", i ? ", " : "",
                       values[i]);
  if (length + (int)sizeof "]}" > MOE__EXPRESSION_SIZE)
    overflow("expression");
  memcpy(out + length, "]}", sizeof "]}");
}

void moe__expression_ceildiv(char *out, const char *value, int64_t divisor) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, divisor);
  write_expression(out, "ceildiv", 2, (const char *[]){value, text});
}

void moe__expression_mul(char *out, int count, const char *const *factors) {
  write_expression(out, "mul", count, factors);
}

void moe__expression_add(char *out, int count, const char *const *terms) {
  write_expression(out, "add", count, terms);
}

void moe__expression_min(char *out, const char *x, const char *y) {
  write_expression(out, "min", 2, (const char *[]){x, y});
}

void moe__expression_resident(char *out, int ctas_per_sm) {
  char ctas[16];
  snprintf(ctas, sizeof ctas, "%d", ctas_per_sm);
  moe__expression_mul(out, 2, (const char *[]){"\"num_sms\"", ctas});
}

void moe__expression_persistent(char *out, const char *work, int ctas_per_sm) {
  char resident[MOE__EXPRESSION_SIZE];
  moe__expression_resident(resident, ctas_per_sm);
  moe__expression_min(out, work, resident);
}

void moe__expression_persistent_clusters(char *out, const char *work, int32_t cluster_size) {
  char clusters[MOE__EXPRESSION_SIZE], ctas[16];
  moe__expression_min(clusters, work, "\"num_clusters\"");
  snprintf(ctas, sizeof ctas, "%d", cluster_size);
  moe__expression_mul(out, 2, (const char *[]){clusters, ctas});
}
