/* Schedule.c - see Schedule.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Schedule.h"

#include "lib/Builder/Builder.h"
#include "lib/Builder/Inspect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* What one block may have on sm_90: 227 KB, less room for barriers. Per SM 228 KB, 1 KB of it
 * reserved per block. */
#define SHARED_PER_BLOCK (227 * 1024)
#define SHARED_PER_SM (228 * 1024)
#define SHARED_RESERVED 1024
#define SHARED_BARRIERS 256

/* Registers of a multiprocessor, and what a thread needs where x is bf16: below it, ptxas spills.
 * They come in portions of 8. With fp32 a thread needs 56, and every schedule that fits into shared
 * memory leaves as many. */
#define REGISTERS_PER_SM 65536
#define REGISTERS_BF16 64

static bool is_column_major(MlirType type) {
  int order[MOE__MAX_RANK];
  return moe__memory_order(type, order) && order[0] == 0 && order[1] == 2 && order[2] == 1;
}

static bool is_row_major(MlirType type) {
  int order[MOE__MAX_RANK];
  return moe__memory_order(type, order) && order[0] == 0 && order[1] == 1 && order[2] == 2;
}

bool moe__quantize_has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType q = mlirValueGetType(mlirOperationGetResult(op, 0));
  MlirType scales = mlirValueGetType(mlirOperationGetResult(op, 1));
  if (mlirShapedTypeGetRank(x) != 3 || moe__op_integer(op, "axis") != 1)
    return moe__error(
        op,
        "no kernel quantizes a tensor of rank %d along axis %d yet; there is one for rank 3 "
        "along axis 1",
        (int)mlirShapedTypeGetRank(x), (int)moe__op_integer(op, "axis"));
  int64_t k = mlirShapedTypeIsDynamicDim(x, 2) ? 0 : mlirShapedTypeGetDimSize(x, 2);
  if (k % 16)
    return moe__error(op,
                      "operand 'x' has dimension 2 of size %lld; the kernel needs a multiple of 16",
                      (long long)k);
  if (!is_row_major(x) || !is_row_major(scales))
    return moe__error(op, "the kernel takes x and scales row-major; remove their encoding");
  if (!is_column_major(q))
    return moe__error(op, "the kernel writes q column-major per expert; give q the encoding "
                          "affine_map<(e, n, k) -> (e, k, n)>");
  return true;
}

static bool known_field(MlirStringRef name) {
#define MOE__FIELD(field, attribute, least, most)                                                  \
  if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(attribute)))                         \
    return true;
  MOE__QUANTIZE_SCHEDULE(MOE__FIELD)
#undef MOE__FIELD
  return false;
}

bool moe__quantize_schedule_read(MlirOperation op, int element_bytes,
                                 moe__quantize_schedule_t *out) {
  MlirAttribute dictionary = moe__op_attribute(op, "schedule");
  if (mlirAttributeIsNull(dictionary) || !mlirAttributeIsADictionary(dictionary))
    return moe__error(op, "'schedule' must be a dictionary of integers");
  for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(dictionary); i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(dictionary, i);
    MlirStringRef name = mlirIdentifierStr(entry.name);
    if (!known_field(name))
      return moe__error(op, "'schedule' has no field '%.*s'", (int)name.length, name.data);
    if (!mlirAttributeIsAInteger(entry.attribute))
      return moe__error(op, "'schedule.%.*s' must be an integer", (int)name.length, name.data);
  }
#define MOE__FIELD(field, attribute, least, most)                                                  \
  int64_t field = moe__dictionary_integer(dictionary, attribute, INT64_MIN);                       \
  if (field == INT64_MIN)                                                                          \
    return moe__error(op, "'schedule' lacks the field '" attribute "'");                           \
  if (field < (least) || field > (most))                                                           \
    return moe__error(op, "'schedule." attribute "' is %lld; it must be between %d and %d",        \
                      (long long)field, least, most);                                              \
  out->field = (int)field;
  MOE__QUANTIZE_SCHEDULE(MOE__FIELD)
#undef MOE__FIELD
  int box_k = 128 / element_bytes;
  if (out->tile_n % 128)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of 128", out->tile_n);
  if (out->tile_k % box_k)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", out->tile_k,
                      box_k);
  int items = out->tile_n / 32 * (out->tile_k / box_k);
  if (items % out->warps)
    return moe__error(
        op, "'schedule.warps' is %d; it must divide the tile's %d strips of 32 rows and 128 bytes",
        out->warps, items);
  int shared = out->tile_n * out->tile_k * (out->stages * element_bytes + out->output_stages) +
               SHARED_BARRIERS;
  if (shared > SHARED_PER_BLOCK || out->blocks_per_sm * (shared + SHARED_RESERVED) > SHARED_PER_SM)
    return moe__error(
        op,
        "'schedule' needs %d bytes of shared memory in each of %d blocks; a multiprocessor has %d",
        shared, out->blocks_per_sm, SHARED_PER_SM);
  int threads = (out->warps + 1) * 32 * out->blocks_per_sm;
  int registers = REGISTERS_PER_SM / threads / 8 * 8;
  if (element_bytes == 2 && registers < REGISTERS_BF16)
    return moe__error(op,
                      "'schedule' leaves %d registers to each of %d threads; the kernel needs %d",
                      registers, threads, REGISTERS_BF16);
  return true;
}

void moe__quantize_schedule_write(MlirOperation op, const moe__quantize_schedule_t *schedule) {
  moe__op_set_attribute(
      op, "schedule",
      moe__attribute(mlirOperationGetContext(op),
                     "{tile_n = %d, tile_k = %d, stages = %d, output_stages = %d, warps = %d, "
                     "blocks_per_sm = %d, band = %d}",
                     schedule->tile_n, schedule->tile_k, schedule->stages, schedule->output_stages,
                     schedule->warps, schedule->blocks_per_sm, schedule->band));
}
