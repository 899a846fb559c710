/* RecordAttribute.c - see Record.h: the record as an attribute, written and read.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Record.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* The types of scalar parameters. */
static const char *const SCALAR_TYPES[] = {"i32"};

/* The key of a requirement's value or other dimension. */
static const char *const REQUIREMENT_KEYS[] = {
    [MOE__MULTIPLE_OF] = "multiple_of", [MOE__AT_LEAST] = "at_least",
    [MOE__AT_MOST] = "at_most",         [MOE__SAME_AS] = "same_as",
    [MOE__QUOTIENT_OF] = "quotient_of",
};

static MlirStringRef string_ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

/* ---- Writing ---- */

static MlirAttribute integer(MlirContext context, int64_t value) {
  return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), value);
}

static MlirAttribute string(MlirContext context, const char *text) {
  return mlirStringAttrGet(context, string_ref(text));
}

static MlirNamedAttribute named(MlirContext context, const char *key, MlirAttribute value) {
  return mlirNamedAttributeGet(mlirIdentifierGet(context, string_ref(key)), value);
}

/* An array of what `write` makes of each element; they are `size` bytes apart. */
static MlirAttribute list(MlirContext context, int count, const void *elements, size_t size,
                          MlirAttribute (*write)(MlirContext context, const void *element)) {
  MlirAttribute *attributes = calloc((size_t)count + 1, sizeof *attributes);
  if (!attributes)
    abort();
  for (int i = 0; i < count; i++)
    attributes[i] = write(context, (const char *)elements + (size_t)i * size);
  MlirAttribute array = mlirArrayAttrGet(context, count, attributes);
  free(attributes);
  return array;
}
#define LIST(context, count, elements, write)                                                      \
  list((context), (count), (elements), sizeof *(elements), (write))

static MlirAttribute write_int(MlirContext context, const void *element) {
  return integer(context, *(const int *)element);
}

static MlirAttribute write_dim(MlirContext context, const moe__dim_t *dim) {
  return LIST(context, 2, ((const int[]){dim->tensor, dim->dimension}), write_int);
}

static MlirAttribute write_expression(MlirContext context, const void *element) {
  const moe__expression_t *expression = *(const moe__expression_t *const *)element;
  const char *name = moe__expression_names[expression->kind];
  if (!name)
    return integer(context, expression->constant);
  if (expression->kind < MOE__EXPRESSION_DIM)
    return string(context, name);
  MlirAttribute value =
      expression->kind == MOE__EXPRESSION_DIM
          ? write_dim(context, &expression->dim)
          : LIST(context, expression->count, expression->operands, write_expression);
  MlirNamedAttribute entry = named(context, name, value);
  return mlirDictionaryAttrGet(context, 1, &entry);
}

static MlirAttribute write_map(MlirContext context, const moe__tensor_map_t *map) {
  MlirNamedAttribute entries[] = {
      named(context, "kind", string(context, moe__parameter_names[MOE__PARAMETER_TENSOR_MAP])),
      named(context, "tensor", integer(context, map->tensor)),
      named(context, "element", string(context, moe__map_element_names[map->element])),
      named(context, "dims", LIST(context, map->rank, map->dims, write_expression)),
      named(context, "strides", LIST(context, map->rank - 1, map->strides, write_expression)),
      named(context, "box", LIST(context, map->rank, map->box, write_expression)),
      named(context, "swizzle", string(context, moe__swizzle_names[map->swizzle])),
      named(context, "l2_promotion", string(context, moe__l2_promotion_names[map->l2_promotion])),
      named(context, "fill", string(context, moe__map_fill_names[map->fill])),
  };
  return mlirDictionaryAttrGet(context, COUNT(entries), entries);
}

static MlirAttribute write_parameter(MlirContext context, const void *element) {
  const moe__parameter_t *parameter = element;
  if (parameter->kind == MOE__PARAMETER_TENSOR_MAP)
    return write_map(context, &parameter->map);
  MlirNamedAttribute entries[3] = {
      named(context, "kind", string(context, moe__parameter_names[parameter->kind]))};
  int count = 1;
  if (parameter->kind == MOE__PARAMETER_POINTER)
    entries[count++] = named(context, "tensor", integer(context, parameter->tensor));
  if (parameter->kind == MOE__PARAMETER_SCALAR) {
    entries[count++] = named(context, "type", string(context, *SCALAR_TYPES));
    entries[count++] = named(context, "value", write_expression(context, &parameter->value));
  }
  return mlirDictionaryAttrGet(context, count, entries);
}

static bool names_other(moe__requirement_kind_t kind) {
  return kind == MOE__SAME_AS || kind == MOE__QUOTIENT_OF;
}

static MlirAttribute write_requirement(MlirContext context, const void *element) {
  const moe__requirement_t *requirement = element;
  MlirNamedAttribute entries[4] = {
      named(context, "dim", write_dim(context, &requirement->dim)),
      named(context, REQUIREMENT_KEYS[requirement->kind],
            names_other(requirement->kind) ? write_dim(context, &requirement->other)
                                           : integer(context, requirement->value)),
      named(context, "divisor", integer(context, requirement->value)),
      named(context, "groups", write_dim(context, &requirement->groups)),
  };
  int count = requirement->kind == MOE__QUOTIENT_OF ? 3 + requirement->has_groups : 2;
  return mlirDictionaryAttrGet(context, count, entries);
}

MlirAttribute moe__record_attribute(MlirContext context, const moe__record_t *record) {
  MlirNamedAttribute entries[] = {
      named(context, "block", LIST(context, 3, record->cta, write_int)),
      named(context, "cluster", LIST(context, 3, record->cluster, write_int)),
      named(context, "shared_memory", integer(context, record->shared_memory)),
      named(context, "grid", LIST(context, 3, record->grid, write_expression)),
      named(context, "parameters",
            LIST(context, record->parameter_count, record->parameters, write_parameter)),
      named(context, "requires",
            LIST(context, record->requirement_count, record->requirements, write_requirement)),
      named(context, "zeroed", LIST(context, record->zeroed_count, record->zeroed, write_int)),
      named(context, "programmatic", mlirBoolAttrGet(context, record->programmatic)),
      named(context, "overlaps", mlirBoolAttrGet(context, record->overlaps)),
  };
  return mlirDictionaryAttrGet(context, COUNT(entries), entries);
}

/* ---- Reading ----
 *
 * Each function is false where the attribute, which may be null, is not what it reads. */

static MlirAttribute entry_of(MlirAttribute dictionary, const char *key) {
  return mlirDictionaryAttrGetElementByName(dictionary, string_ref(key));
}

static bool is_dictionary(MlirAttribute attribute, intptr_t count) {
  return !mlirAttributeIsNull(attribute) && mlirAttributeIsADictionary(attribute) &&
         mlirDictionaryAttrGetNumElements(attribute) == count;
}

static bool is_array(MlirAttribute attribute, intptr_t least, intptr_t most) {
  return !mlirAttributeIsNull(attribute) && mlirAttributeIsAArray(attribute) &&
         mlirArrayAttrGetNumElements(attribute) >= least &&
         mlirArrayAttrGetNumElements(attribute) <= most;
}

static bool read_integer(MlirAttribute attribute, int64_t least, int64_t most, int64_t *out) {
  *out = moe__attribute_is_integer(attribute) ? mlirIntegerAttrGetValueInt(attribute) : -1;
  return *out >= least && *out <= most;
}

/* The number of the name that the string is. */
static bool read_name(MlirAttribute attribute, int count, const char *const *names, int *out) {
  if (mlirAttributeIsNull(attribute) || !mlirAttributeIsAString(attribute))
    return false;
  MlirStringRef text = mlirStringAttrGetValue(attribute);
  for (*out = 0; *out < count; ++*out)
    if (names[*out] && mlirStringRefEqual(text, string_ref(names[*out])))
      return true;
  return false;
}

#define READ_NAME(attribute, names, out) read_name((attribute), COUNT(names), (names), (out))

/* Each element of an array; `out` has room for `most`, which are `size` bytes apart. */
static bool read_list(moe__record_t *record, MlirAttribute attribute, int least, int most,
                      void *out, size_t size, int *out_count,
                      bool (*read)(moe__record_t *record, MlirAttribute attribute, void *out)) {
  if (!is_array(attribute, least, most))
    return false;
  *out_count = (int)mlirArrayAttrGetNumElements(attribute);
  for (int i = 0; i < *out_count; i++)
    if (!read(record, mlirArrayAttrGetElement(attribute, i), (char *)out + (size_t)i * size))
      return false;
  return true;
}
#define READ_LIST(record, attribute, least, most, out, out_count, read)                            \
  read_list((record), (attribute), (least), (most), (out), sizeof *(out), (out_count), (read))

/* Exactly `count` of them. */
static bool read_exactly(moe__record_t *record, MlirAttribute attribute, int count, void *out,
                         size_t size,
                         bool (*read)(moe__record_t *record, MlirAttribute attribute, void *out)) {
  int ignored = 0;
  return read_list(record, attribute, count, count, out, size, &ignored, read);
}
#define READ_EXACTLY(record, attribute, count, out, read)                                          \
  read_exactly((record), (attribute), (count), (out), sizeof *(out), (read))

static bool read_int(moe__record_t *record, MlirAttribute attribute, void *out) {
  (void)record;
  int64_t value = 0;
  bool ok = read_integer(attribute, 0, INT32_MAX, &value);
  *(int *)out = (int)value;
  return ok;
}

static bool read_dim(MlirAttribute attribute, moe__dim_t *out) {
  int dim[2];
  if (!READ_EXACTLY(NULL, attribute, 2, dim, read_int))
    return false;
  *out = (moe__dim_t){dim[0], dim[1]};
  return true;
}

/* {dim = [...]} or {<operator> = [<expression>, ...]} */
static bool read_expression(moe__record_t *record, MlirAttribute attribute, void *out);
static bool read_operation(moe__record_t *record, MlirNamedAttribute entry,
                           const moe__expression_t **out) {
  MlirStringRef name = mlirIdentifierStr(entry.name);
  int kind = MOE__EXPRESSION_DIM;
  while (kind <= MOE__EXPRESSION_MIN &&
         !mlirStringRefEqual(name, string_ref(moe__expression_names[kind])))
    kind++;
  int least = kind == MOE__EXPRESSION_CEILDIV ? 2 : 1,
      most = kind == MOE__EXPRESSION_CEILDIV ? 2 : INT32_MAX;
  if (kind > MOE__EXPRESSION_MIN || !is_array(entry.attribute, least, most))
    return false;
  bool is_dim = kind == MOE__EXPRESSION_DIM;
  int count = is_dim ? 0 : (int)mlirArrayAttrGetNumElements(entry.attribute);
  moe__expression_t *expression =
      moe__expression_create(record, (moe__expression_kind_t)kind, count);
  *out = expression;
  return is_dim
             ? read_dim(entry.attribute, &expression->dim)
             : READ_EXACTLY(record, entry.attribute, count, expression->operands, read_expression);
}

static bool read_expression(moe__record_t *record, MlirAttribute attribute, void *out) {
  const moe__expression_t **expression = out;
  int64_t constant = 0;
  int name = 0;
  if (is_dictionary(attribute, 1))
    return read_operation(record, mlirDictionaryAttrGetElement(attribute, 0), expression);
  if (read_integer(attribute, 0, INT64_MAX, &constant))
    *expression = moe__expression_constant(record, constant);
  else if (read_name(attribute, MOE__EXPRESSION_DIM, moe__expression_names, &name))
    *expression = moe__expression_create(record, (moe__expression_kind_t)name, 0);
  else
    return false;
  return true;
}

static bool read_map(moe__record_t *record, MlirAttribute attribute, moe__tensor_map_t *out) {
  int element = 0, swizzle = 0, l2_promotion = 0, fill = 0;
  if (!is_dictionary(attribute, 9) ||
      !read_int(record, entry_of(attribute, "tensor"), &out->tensor) ||
      !READ_NAME(entry_of(attribute, "element"), moe__map_element_names, &element) ||
      !READ_NAME(entry_of(attribute, "swizzle"), moe__swizzle_names, &swizzle) ||
      !READ_NAME(entry_of(attribute, "l2_promotion"), moe__l2_promotion_names, &l2_promotion) ||
      !READ_NAME(entry_of(attribute, "fill"), moe__map_fill_names, &fill) ||
      !READ_LIST(record, entry_of(attribute, "dims"), 1, MOE__MAX_MAP_RANK, out->dims, &out->rank,
                 read_expression))
    return false;
  out->element = (moe__map_element_t)element;
  out->swizzle = (moe__swizzle_t)swizzle;
  out->l2_promotion = (moe__l2_promotion_t)l2_promotion;
  out->fill = (moe__map_fill_t)fill;
  return READ_EXACTLY(record, entry_of(attribute, "strides"), out->rank - 1, out->strides,
                      read_expression) &&
         READ_EXACTLY(record, entry_of(attribute, "box"), out->rank, out->box, read_expression) &&
         out->box[0]->kind == MOE__EXPRESSION_CONSTANT;
}

static bool read_parameter(moe__record_t *record, MlirAttribute attribute, void *out) {
  moe__parameter_t *parameter = out;
  int kind = 0, type = 0;
  if (!mlirAttributeIsADictionary(attribute) ||
      !READ_NAME(entry_of(attribute, "kind"), moe__parameter_names, &kind))
    return false;
  *parameter = (moe__parameter_t){.kind = (moe__parameter_kind_t)kind};
  switch (parameter->kind) {
  case MOE__PARAMETER_POINTER:
    return is_dictionary(attribute, 2) &&
           read_int(record, entry_of(attribute, "tensor"), &parameter->tensor);
  case MOE__PARAMETER_TENSOR_MAP:
    return read_map(record, attribute, &parameter->map);
  case MOE__PARAMETER_SCALAR:
    return is_dictionary(attribute, 3) &&
           READ_NAME(entry_of(attribute, "type"), SCALAR_TYPES, &type) &&
           read_expression(record, entry_of(attribute, "value"), &parameter->value);
  case MOE__PARAMETER_STATUS:
  case MOE__PARAMETER_COUNTERS:
  case MOE__PARAMETER_PARTIALS:
  case MOE__PARAMETER_ARRIVALS:
    return is_dictionary(attribute, 1);
  }
  return false;
}

static bool read_requirement(moe__record_t *record, MlirAttribute attribute, void *out) {
  (void)record;
  moe__requirement_t *requirement = out;
  if (!mlirAttributeIsADictionary(attribute) ||
      !read_dim(entry_of(attribute, "dim"), &requirement->dim))
    return false;
  int kind = 0;
  while (kind < COUNT(REQUIREMENT_KEYS) &&
         mlirAttributeIsNull(entry_of(attribute, REQUIREMENT_KEYS[kind])))
    kind++;
  if (kind == COUNT(REQUIREMENT_KEYS))
    return false;
  requirement->kind = (moe__requirement_kind_t)kind;
  MlirAttribute value = entry_of(attribute, REQUIREMENT_KEYS[kind]);
  switch (requirement->kind) {
  case MOE__MULTIPLE_OF:
    return is_dictionary(attribute, 2) && read_integer(value, 1, INT32_MAX, &requirement->value);
  case MOE__AT_LEAST:
  case MOE__AT_MOST:
    return is_dictionary(attribute, 2) && read_integer(value, 0, INT32_MAX, &requirement->value);
  case MOE__SAME_AS:
    return is_dictionary(attribute, 2) && read_dim(value, &requirement->other);
  case MOE__QUOTIENT_OF:
    requirement->has_groups = !mlirAttributeIsNull(entry_of(attribute, "groups"));
    if (requirement->has_groups && !read_dim(entry_of(attribute, "groups"), &requirement->groups))
      return false;
    return is_dictionary(attribute, 3 + requirement->has_groups) &&
           read_dim(value, &requirement->other) &&
           read_integer(entry_of(attribute, "divisor"), 1, INT32_MAX, &requirement->value);
  }
  return false;
}

static bool read_bool(MlirAttribute attribute, bool *out) {
  if (mlirAttributeIsNull(attribute) || !mlirAttributeIsABool(attribute))
    return false;
  *out = mlirBoolAttrGetValue(attribute);
  return true;
}

bool moe__record_read(MlirOperation op, MlirAttribute attribute, moe__record_t *out) {
  *out = (moe__record_t){0};
  if (!mlirAttributeIsADictionary(attribute))
    return moe__error(op, "the kernel's 'moe.kernel' must be a dictionary");
  const char *wrong = NULL;
  if (!READ_EXACTLY(out, entry_of(attribute, "block"), 3, out->cta, read_int))
    wrong = "block";
  else if (!READ_EXACTLY(out, entry_of(attribute, "cluster"), 3, out->cluster, read_int))
    wrong = "cluster";
  else if (!READ_EXACTLY(out, entry_of(attribute, "grid"), 3, out->grid, read_expression))
    wrong = "grid";
  else if (!read_int(out, entry_of(attribute, "shared_memory"), &out->shared_memory))
    wrong = "shared_memory";
  else if (!READ_LIST(out, entry_of(attribute, "parameters"), 0, MOE__MAX_PARAMETERS,
                      out->parameters, &out->parameter_count, read_parameter))
    wrong = "parameters";
  else if (!READ_LIST(out, entry_of(attribute, "requires"), 0, MOE__MAX_REQUIREMENTS,
                      out->requirements, &out->requirement_count, read_requirement))
    wrong = "requires";
  else if (!READ_LIST(out, entry_of(attribute, "zeroed"), 0, MOE__MAX_ZEROED, out->zeroed,
                      &out->zeroed_count, read_int))
    wrong = "zeroed";
  else if (!read_bool(entry_of(attribute, "programmatic"), &out->programmatic))
    wrong = "programmatic";
  else if (!read_bool(entry_of(attribute, "overlaps"), &out->overlaps) ||
           (out->overlaps && !out->programmatic))
    wrong = "overlaps";
  return !wrong ||
         moe__error(op, "'%s' of the kernel's 'moe.kernel' is missing or malformed", wrong);
}

typedef struct walk_t {
  void (*visit)(MlirOperation kernel, const moe__record_t *record, void *user);
  void *user;
} walk_t;

static bool visit_record(MlirOperation op, void *user) {
  const walk_t *walk = user;
  MlirAttribute attribute = moe__op_attribute(op, "moe.kernel");
  if (!moe__op_is(op, "llvm.func") || mlirAttributeIsNull(attribute))
    return true;
  moe__record_t record;
  bool ok = moe__record_read(op, attribute, &record);
  if (ok)
    walk->visit(op, &record, walk->user);
  moe__record_destroy(&record);
  return ok;
}

bool moe__walk_records(MlirOperation module,
                       void (*visit)(MlirOperation kernel, const moe__record_t *record, void *user),
                       void *user) {
  walk_t walk = {visit, user};
  return moe__walk(module, visit_record, &walk);
}

/* ---- Checking ---- */

/* The type of tensor number n: operands of the launch, then results; null where there is none. */
static MlirType tensor_type(MlirOperation launch, int n) {
  intptr_t operands = mlirOperationGetNumOperands(launch);
  if (n >= operands + mlirOperationGetNumResults(launch))
    return (MlirType){NULL};
  return mlirValueGetType(n < operands ? mlirOperationGetOperand(launch, n)
                                       : mlirOperationGetResult(launch, n - operands));
}

static bool has_tensor(MlirOperation launch, int n) {
  return !mlirTypeIsNull(tensor_type(launch, n));
}

static bool has_dim(MlirOperation launch, const moe__dim_t *dim) {
  return has_tensor(launch, dim->tensor) &&
         dim->dimension < mlirShapedTypeGetRank(tensor_type(launch, dim->tensor));
}

static bool has_all(MlirOperation launch, int count, const moe__expression_t *const *expressions) {
  for (int i = 0; i < count; i++) {
    const moe__expression_t *expression = expressions[i];
    if (expression->kind == MOE__EXPRESSION_DIM
            ? !has_dim(launch, &expression->dim)
            : !has_all(launch, expression->count, expression->operands))
      return false;
  }
  return true;
}

static bool parameter_fits(MlirOperation launch, const moe__parameter_t *parameter) {
  const moe__tensor_map_t *map = &parameter->map;
  switch (parameter->kind) {
  case MOE__PARAMETER_POINTER:
    return has_tensor(launch, parameter->tensor);
  case MOE__PARAMETER_TENSOR_MAP:
    return has_tensor(launch, map->tensor) && has_all(launch, map->rank, map->dims) &&
           has_all(launch, map->rank - 1, map->strides) && has_all(launch, map->rank, map->box);
  case MOE__PARAMETER_SCALAR:
    return has_all(launch, 1, &parameter->value);
  case MOE__PARAMETER_STATUS:
  case MOE__PARAMETER_COUNTERS:
  case MOE__PARAMETER_PARTIALS:
  case MOE__PARAMETER_ARRIVALS:
    return true;
  }
  return false;
}

bool moe__record_check(MlirOperation launch, const moe__record_t *record) {
  const char *wrong = has_all(launch, 3, record->grid) ? NULL : "grid";
  for (int i = 0; i < record->parameter_count; i++)
    if (!parameter_fits(launch, &record->parameters[i]))
      wrong = "parameters";
  for (int i = 0; i < record->requirement_count; i++) {
    const moe__requirement_t *requirement = &record->requirements[i];
    if (!has_dim(launch, &requirement->dim) ||
        (names_other(requirement->kind) && !has_dim(launch, &requirement->other)) ||
        (requirement->has_groups && !has_dim(launch, &requirement->groups)))
      wrong = "requires";
  }
  for (int i = 0; i < record->zeroed_count; i++) {
    if (record->zeroed[i] < mlirOperationGetNumOperands(launch))
      return moe__error(launch, "'zeroed' of the kernel's 'moe.kernel' names an operand; only "
                                "results can be state of a kernel");
    if (!has_tensor(launch, record->zeroed[i]))
      wrong = "zeroed";
  }
  return !wrong || moe__error(launch,
                              "'%s' of the kernel's 'moe.kernel' names a tensor or a dimension "
                              "that the launch does not have",
                              wrong);
}
