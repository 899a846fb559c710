/* Record.h - what a launcher must know of a kernel: the attribute `moe.kernel` as structs.
 *
 * Why it exists: the kernel states these facts where it is built, and the manifest is written from
 * them. Between the two the record is an attribute of the kernel's function, so that each stage can
 * be printed and read again. The attribute is written and read here and nowhere else:
 *
 *   moe.kernel = {block = [288, 1, 1], cluster = [1, 1, 1], shared_memory = 98432,
 *                 grid = [<expression>, <expression>, <expression>],
 *                 parameters = [{kind = "tensor_map", tensor = 0, ...}, ...],
 *                 requires = [{dim = [0, 1], multiple_of = 32}, {dim = [1, 0], at_most = 1024},
 *                             {dim = [0, 0], same_as = [2, 0]},
 *                             {dim = [1, 1], quotient_of = [0, 1], divisor = 32},
 *                             {dim = [2, 0], quotient_of = [0, 1], divisor = 128, groups = [4, 0]},
 *                             ...],
 *                 zeroed = [5], programmatic = false, overlaps = false}
 *
 * `block` is the size of a CTA. An expression is an integer, "num_sms", "num_clusters" (in grids),
 * {dim = [tensor, dimension]}, or {ceildiv | mul | add | min = [<expression>, ...]}: those of
 * docs/manifest.md, with `dim` in the place of symbols.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_RECORD_H
#define MOE_DEVICE_RECORD_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stdint.h>

#define MOE__MAX_PARAMETERS 24
#define MOE__MAX_REQUIREMENTS 64
#define MOE__MAX_ZEROED 4
#define MOE__MAX_MAP_RANK 5

/* ---- Expressions ---- */

/* A dimension of a tensor of the op; tensors count its operands, then its results. */
typedef struct moe__dim_t {
  int tensor, dimension;
} moe__dim_t;

typedef enum moe__expression_kind_t {
  MOE__EXPRESSION_CONSTANT,
  MOE__EXPRESSION_NUM_SMS,
  MOE__EXPRESSION_NUM_CLUSTERS,
  MOE__EXPRESSION_DIM,
  MOE__EXPRESSION_CEILDIV, /* this and those behind it have operands */
  MOE__EXPRESSION_MUL,
  MOE__EXPRESSION_ADD,
  MOE__EXPRESSION_MIN,
} moe__expression_kind_t;

/* The name of the value or operator; NULL for constants. */
extern const char *const moe__expression_names[MOE__EXPRESSION_MIN + 1];

typedef struct moe__expression_t moe__expression_t;
struct moe__expression_t {
  moe__expression_t *next; /* of those that belong to the same record */
  moe__expression_kind_t kind;
  int64_t constant;
  moe__dim_t dim;
  int count;
  const moe__expression_t *operands[];
};

/* ---- Parameters ---- */

typedef enum moe__map_element_t { MOE__MAP_U8, MOE__MAP_BF16, MOE__MAP_F32 } moe__map_element_t;
typedef enum moe__swizzle_t {
  MOE__SWIZZLE_NONE,
  MOE__SWIZZLE_32B,
  MOE__SWIZZLE_64B,
  MOE__SWIZZLE_128B,
} moe__swizzle_t;
typedef enum moe__l2_promotion_t {
  MOE__L2_PROMOTION_256B,
  MOE__L2_PROMOTION_128B,
  MOE__L2_PROMOTION_64B,
  MOE__L2_PROMOTION_NONE,
} moe__l2_promotion_t;
typedef enum moe__map_fill_t { MOE__FILL_ZERO, MOE__FILL_NAN } moe__map_fill_t;

/* The names of these in the attribute and in the manifest. */
extern const char *const moe__map_element_names[MOE__MAP_F32 + 1];
extern const char *const moe__swizzle_names[MOE__SWIZZLE_128B + 1];
extern const char *const moe__l2_promotion_names[MOE__L2_PROMOTION_NONE + 1];
extern const char *const moe__map_fill_names[MOE__FILL_NAN + 1];

/* How memory is cut for the tensor memory accelerator; all lists are innermost first. */
typedef struct moe__tensor_map_t {
  int tensor;
  moe__map_element_t element;
  int rank;
  const moe__expression_t *dims[MOE__MAX_MAP_RANK];
  const moe__expression_t *strides[MOE__MAX_MAP_RANK]; /* bytes; strides[i] is of dims[i + 1] */
  const moe__expression_t *box[MOE__MAX_MAP_RANK]; /* elements, 1 to 256; box[0] is a constant */
  moe__swizzle_t swizzle;
  moe__l2_promotion_t l2_promotion;
  moe__map_fill_t fill; /* of what is outside the tensor */
} moe__tensor_map_t;

/* For each multiprocessor: f32 of partials, i32 of arrivals. */
#define MOE__PARTIAL_SUMS 32768
#define MOE__ARRIVALS 32

typedef enum moe__parameter_kind_t {
  MOE__PARAMETER_POINTER, /* the address of a tensor */
  MOE__PARAMETER_TENSOR_MAP,
  MOE__PARAMETER_SCALAR,   /* an i32 */
  MOE__PARAMETER_STATUS,   /* the address of the function's status word */
  MOE__PARAMETER_COUNTERS, /* the address of the function's counters */
  MOE__PARAMETER_PARTIALS, /* of the sums that CTAs hand on */
  MOE__PARAMETER_ARRIVALS, /* of the words that say which ones are there */
} moe__parameter_kind_t;

extern const char *const moe__parameter_names[MOE__PARAMETER_ARRIVALS + 1];

typedef struct moe__parameter_t {
  moe__parameter_kind_t kind;
  int tensor;                     /* of a pointer */
  moe__tensor_map_t map;          /* of a tensor map */
  const moe__expression_t *value; /* of a scalar */
} moe__parameter_t;

/* ---- Requirements ---- */

typedef enum moe__requirement_kind_t {
  MOE__MULTIPLE_OF, /* of value */
  MOE__AT_LEAST,
  MOE__AT_MOST,
  MOE__SAME_AS,     /* as other */
  MOE__QUOTIENT_OF, /* other / value, rounded up, and with has_groups one more for each of groups */
} moe__requirement_kind_t;

/* What a dimension must be; a launcher refuses other sizes. */
typedef struct moe__requirement_t {
  moe__requirement_kind_t kind;
  moe__dim_t dim, other, groups;
  bool has_groups;
  int64_t value;
} moe__requirement_t;

/* ---- The record ---- */

typedef struct moe__record_t {
  int32_t cta[3];        /* threads */
  int32_t cluster[3];    /* CTAs */
  int32_t shared_memory; /* bytes of a CTA */
  const moe__expression_t *grid[3];
  int parameter_count, requirement_count, zeroed_count;
  moe__parameter_t parameters[MOE__MAX_PARAMETERS];
  moe__requirement_t requirements[MOE__MAX_REQUIREMENTS];
  int zeroed[MOE__MAX_ZEROED]; /* numbers of the tensors that are state of the kernel */
  bool programmatic;           /* may start before the launch of its function before it has ended */
  bool overlaps; /* and, as the first one, before what is before it on the stream has */
  moe__expression_t *expressions;
} moe__record_t;

/* Frees the expressions. */
void moe__record_destroy(moe__record_t *record);

/* Adds to the record; more than there is room for is a bug of this project, and aborts. */
void moe__record_parameter(moe__record_t *record, const moe__parameter_t *parameter);
void moe__record_require(moe__record_t *record, const moe__requirement_t *requirement);
void moe__record_zeroed(moe__record_t *record, int tensor);

/* Makes expressions that belong to the record; the first one's operands are still to be set. */
moe__expression_t *moe__expression_create(moe__record_t *record, moe__expression_kind_t kind,
                                          int count);
const moe__expression_t *moe__expression_constant(moe__record_t *record, int64_t value);
const moe__expression_t *moe__expression_dim(moe__record_t *record, int tensor, int dimension);
const moe__expression_t *moe__expression_num_sms(moe__record_t *record);
const moe__expression_t *moe__expression_ceildiv(moe__record_t *record, const moe__expression_t *x,
                                                 int64_t divisor);
const moe__expression_t *moe__expression_min(moe__record_t *record, const moe__expression_t *x,
                                             const moe__expression_t *y);
const moe__expression_t *moe__expression_mul(moe__record_t *record, int count,
                                             const moe__expression_t *const *factors);
const moe__expression_t *moe__expression_add(moe__record_t *record, int count,
                                             const moe__expression_t *const *terms);

/* Lists of expressions: MOE__EXPRESSIONS(x, y) expands to the two arguments count, expressions. */
#define MOE__EXPRESSIONS(...)                                                                      \
  (int)(sizeof((const moe__expression_t *[]){__VA_ARGS__}) / sizeof(moe__expression_t *)),         \
      (const moe__expression_t *[]) {                                                              \
    __VA_ARGS__                                                                                    \
  }

/* The CTAs that are resident at once, and as many of them as there is work for: grids of
 * persistent kernels. */
const moe__expression_t *moe__expression_resident(moe__record_t *record, int ctas_per_sm);
const moe__expression_t *moe__expression_persistent(moe__record_t *record,
                                                    const moe__expression_t *work, int ctas_per_sm);
/* The same, or where the kernel is not persistent a CTA for each piece of work. */
const moe__expression_t *moe__expression_ctas(moe__record_t *record, const moe__expression_t *work,
                                              bool persistent, int ctas_per_sm);
/* As many as there is work for where `work` is for clusters of so many CTAs, and as the device
 * holds at once. */
const moe__expression_t *moe__expression_persistent_clusters(moe__record_t *record,
                                                             const moe__expression_t *work,
                                                             int32_t cluster_size);

/* ---- The attribute ---- */

MlirAttribute moe__record_attribute(MlirContext context, const moe__record_t *record);

/* Reads the attribute; emits an error at `op` and returns false where it is malformed. A stage may
 * have been edited by hand. moe__record_destroy comes after it, also where it failed. */
bool moe__record_read(MlirOperation op, MlirAttribute attribute, moe__record_t *out);

/* Calls visit for each kernel in the module, with its record. False after a record that is
 * malformed, for which there has been an error. */
bool moe__walk_records(MlirOperation module,
                       void (*visit)(MlirOperation kernel, const moe__record_t *record, void *user),
                       void *user);

/* Whether the launch has all tensors and dimensions that the record names; an error at the launch
 * where it has not. */
bool moe__record_check(MlirOperation launch, const moe__record_t *record);

#endif /* MOE_DEVICE_RECORD_H */
