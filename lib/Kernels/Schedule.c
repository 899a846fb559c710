/* Schedule.c - see Schedule.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Schedule.h"

#include "lib/Builder/Inspect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <string.h>

/* The field of this name; NULL where there is none. */
static const moe__schedule_field_t *find_field(const moe__schedule_kind_t *kind,
                                               MlirStringRef name) {
  for (int i = 0; i < kind->count; i++)
    if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(kind->fields[i].name)))
      return &kind->fields[i];
  return NULL;
}

static int get(const moe__schedule_field_t *field, const void *schedule) {
  int value;
  memcpy(&value, (const char *)schedule + field->offset, sizeof value);
  return value;
}

static void set(const moe__schedule_field_t *field, void *schedule, int value) {
  memcpy((char *)schedule + field->offset, &value, sizeof value);
}

void moe__schedule_candidate(const moe__schedule_kind_t *kind, moe__candidates_t candidates,
                             int number, void *out) {
  size_t index = number < candidates.count ? (size_t)number : 0;
  memcpy(out, (const char *)candidates.schedules + index * kind->size, kind->size);
  for (int i = 0; i < kind->count; i++)
    if (get(&kind->fields[i], out) == 0)
      set(&kind->fields[i], out, kind->fields[i].initial);
}

static bool report_unknown_field(MlirOperation op, const moe__schedule_kind_t *kind,
                                 MlirStringRef name) {
  char fields[MOE__MAX_FIELDS * 32] = "";
  size_t length = 0;
  for (int i = 0; i < kind->count && length < sizeof fields; i++)
    length += (size_t)snprintf(fields + length, sizeof fields - length, "%s%s", i ? ", " : "",
                               kind->fields[i].name);
  return moe__error(op, "'schedule' has no field '%.*s'; the fields here are %s", (int)name.length,
                    name.data, fields);
}

bool moe__schedule_read(MlirOperation op, const moe__schedule_kind_t *kind, void *out) {
  MlirAttribute dictionary = moe__op_attribute(op, "schedule");
  if (mlirAttributeIsNull(dictionary) || !mlirAttributeIsADictionary(dictionary))
    return moe__error(op, "'schedule' must be a dictionary of integers");
  for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(dictionary); i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(dictionary, i);
    MlirStringRef name = mlirIdentifierStr(entry.name);
    const moe__schedule_field_t *field = find_field(kind, name);
    if (!field)
      return report_unknown_field(op, kind, name);
    if (!moe__attribute_is_integer(entry.attribute))
      return moe__error(op, "'schedule.%.*s' must be an integer of at most 64 bits",
                        (int)name.length, name.data);
    int64_t value = mlirIntegerAttrGetValueInt(entry.attribute);
    if (value < field->least || value > field->most)
      return moe__error(op, "'schedule.%.*s' is %lld; it must be between %d and %d: %s",
                        (int)name.length, name.data, (long long)value, field->least, field->most,
                        field->text);
    set(field, out, (int)value);
  }
  return true;
}

void moe__schedule_write(MlirOperation op, const moe__schedule_kind_t *kind, const void *schedule) {
  MlirContext context = mlirOperationGetContext(op);
  MlirType i64 = mlirIntegerTypeGet(context, 64);
  MlirNamedAttribute entries[MOE__MAX_FIELDS];
  for (int i = 0; i < kind->count; i++) {
    const moe__schedule_field_t *field = &kind->fields[i];
    entries[i] = mlirNamedAttributeGet(
        mlirIdentifierGet(context, mlirStringRefCreateFromCString(field->name)),
        mlirIntegerAttrGet(i64, get(field, schedule)));
  }
  moe__op_set_attribute(op, "schedule", mlirDictionaryAttrGet(context, kind->count, entries));
}
