/* Differentiate.c - makes two functions of one: NAME_forward, which also returns what
 * NAME_backward needs, and NAME_backward, which computes the gradients of the arguments from
 * those of the results.
 *
 * In three steps. First the gradients are appended to the function itself, by the rules of
 * Gradients.def, from its end to its start. The products among them are grouped_mm,
 * as people write them. Then moe-expand-recipes turns all products into quantizers and products
 * of what these make; tensors that two products quantize in the same way are quantized once,
 * whether the products belong to the function or to a gradient. At last the function is cut in
 * two (CutFunction.h): what the gradients of results flow into is backward, everything else is
 * forward. What crosses the cut is saved. No product reads a tensor of the source any more, so that
 * quantized tensors and their scales cross it, or rounded ones.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Views.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "passes/CutFunction.h"
#include "passes/ExpandRecipes.h"
#include "passes/Passes.h"
#include "passes/Values.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>

#define WANTED MOE__DIFFERENTIABLE

/* ---- The function with its gradients ---- */

/* The gradient of a value is the sum of these. */
typedef struct gradient_t {
  MlirValue of;
  moe__values_t summands;
} gradient_t;

typedef struct joint_t {
  MlirOperation function;
  MlirBlock body;
  moe__builder_t b;
  intptr_t argument_count; /* of the function as it was written */
  moe__values_t results;   /* what it returned */
  moe__values_t active;    /* that depend on an argument whose gradient is wanted */
  gradient_t *gradients;   /* owned */
  size_t gradient_count;
  moe__values_t outgoing; /* gradients of arguments */
  /* Operands of products, and these with their last two dimensions swapped: of each there is one
   * view, so that it is seen to be quantized twice. */
  moe__values_t operands, swapped;
  moe__cut_t cut; /* its names are owned */
} joint_t;

static void free_joint(joint_t *joint) {
  for (size_t i = 0; i < joint->gradient_count; i++)
    moe__values_clear(&joint->gradients[i].summands);
  free(joint->gradients);
  moe__values_clear(&joint->results);
  moe__values_clear(&joint->active);
  moe__values_clear(&joint->outgoing);
  moe__values_clear(&joint->operands);
  moe__values_clear(&joint->swapped);
  moe__cut_free(&joint->cut);
}

static const moe__values_t *gradients_of(const joint_t *joint, MlirValue value) {
  static const moe__values_t none = {0};
  for (size_t i = 0; i < joint->gradient_count; i++)
    if (mlirValueEqual(joint->gradients[i].of, value))
      return &joint->gradients[i].summands;
  return &none;
}

static void add_gradient(joint_t *joint, MlirValue of, MlirValue summand) {
  size_t i = 0;
  while (i < joint->gradient_count && !mlirValueEqual(joint->gradients[i].of, of))
    i++;
  if (i == joint->gradient_count) {
    joint->gradients = realloc(joint->gradients, (i + 1) * sizeof *joint->gradients);
    if (!joint->gradients)
      abort();
    joint->gradients[joint->gradient_count++] = (gradient_t){.of = of};
  }
  moe__values_push(&joint->gradients[i].summands, summand);
}

static bool is_active(const joint_t *joint, MlirValue value) {
  return moe__values_contain(&joint->active, value);
}

/* ---- Rules ---- */

typedef bool (*rule_function_t)(joint_t *joint, MlirOperation op);

/* The only summand of the gradient of the op's result, null after an error. */
static MlirValue one_gradient(joint_t *joint, MlirOperation op) {
  const moe__values_t *summands = gradients_of(joint, mlirOperationGetResult(op, 0));
  if (summands->count == 1)
    return summands->at[0];
  moe__error(
      op,
      "the gradient of this result is a sum of %d, and no kernel adds; end the function here, "
      "take the result as an argument of another one, and add the gradients between them",
      (int)summands->count);
  return (MlirValue){NULL};
}

/* The product of two bf16 tensors, as `op` computes one, of this row-major type. */
static MlirValue product(joint_t *joint, MlirOperation op, MlirValue left, MlirValue right,
                         MlirType type) {
  MlirValue operands[3] = {left, right, moe__operand(op, MOE__OFFS)};
  MlirOperation made = moe__op(&joint->b, "scaled_grouped_mm.grouped_mm", 1, &type,
                               mlirValueIsNull(operands[2]) ? 2 : 3, operands, NULL, 0, NULL);
  static const char *const names[] = {"recipe", "accumulate"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!mlirAttributeIsNull(moe__op_attribute(op, names[i])))
      moe__op_set_attribute(made, names[i], moe__op_attribute(op, names[i]));
  return mlirOperationGetResult(made, 0);
}

/* The operand of a product with its last two dimensions swapped. The view stands where the
 * operand comes from, before all that reads it. */
static MlirValue swapped_operand(joint_t *joint, MlirValue operand) {
  size_t i = moe__values_find(&joint->operands, operand);
  if (i < joint->operands.count)
    return joint->swapped.at[i];
  moe__builder_t b = joint->b;
  b.before = mlirValueIsAOpResult(operand)
                 ? mlirOperationGetNextInBlock(mlirOpResultGetOwner(operand))
                 : mlirBlockGetFirstOperation(joint->body);
  MlirValue view = moe__swapped_view(&b, operand);
  moe__values_push(&joint->operands, operand);
  moe__values_push(&joint->swapped, view);
  return view;
}

/* Of out = a times b, whose gradient is g, with ' for the last two dimensions swapped: */

/* a: g times b'; in memory the other way round, b times g'. */
static MlirValue product_for_a(joint_t *joint, MlirOperation op, MlirValue g, bool swapped,
                               MlirType type) {
  MlirValue b = mlirOperationGetOperand(op, 1);
  MlirValue right = swapped ? moe__swapped_view(&joint->b, g) : swapped_operand(joint, b);
  return product(joint, op, swapped ? b : g, right, type);
}

/* b: a' times g; in memory the other way round, g' times a. */
static MlirValue product_for_b(joint_t *joint, MlirOperation op, MlirValue g, bool swapped,
                               MlirType type) {
  MlirValue a = mlirOperationGetOperand(op, 0);
  MlirValue left = swapped ? moe__swapped_view(&joint->b, g) : swapped_operand(joint, a);
  return product(joint, op, left, swapped ? a : g, type);
}

/* Refuses a size that the product for the gradient of operand `i` sums over and no kernel does:
 * that of a is over the columns of b, that of b over the rows of a, which forward are in groups of
 * any size. */
static bool check_summed(MlirOperation op, int i) {
  static const moe__role_t OPERANDS[] = {MOE__A, MOE__B};
  if (i == 1 && moe__mm_case(op) == MOE__FORWARD)
    return true;
  MlirType other = moe__tensor_type(op, OPERANDS[1 - i]);
  int dimension = (int)mlirShapedTypeGetRank(other) - (i == 0 ? 1 : 2);
  int64_t size = moe__static_dimension(other, dimension);
  int multiple = moe__recipe_summed_multiple(op);
  return size < 0 || size % multiple == 0 ||
         moe__error(op,
                    "the gradient of operand '%s' sums over dimension %d of operand '%s', of size "
                    "%lld; it must be a multiple of %d",
                    moe__role_name(OPERANDS[i]), dimension, moe__role_name(OPERANDS[1 - i]),
                    (long long)size, multiple);
}

/* It holds in all three cases of a product: each has products of the others for its gradients. The
 * gradient of an operand lies in memory as the operand does. */
static bool differentiate_product(joint_t *joint, MlirOperation op) {
  MlirValue g = one_gradient(joint, op);
  if (mlirValueIsNull(g))
    return false;
  if (!mlirTypeIsABF16(mlirShapedTypeGetElementType(mlirValueGetType(g))))
    return moe__error(op, "the gradient of 'out' has the element type of 'out', and products take "
                          "bf16 only; give 'out' the element type bf16");
  for (int i = 0; i < 2; i++) {
    MlirValue operand = mlirOperationGetOperand(op, i);
    if (!is_active(joint, operand))
      continue;
    if (!check_summed(op, i))
      return false;
    MlirType type = mlirValueGetType(operand);
    moe__permutation_t swap = moe__swap_last_two((int)mlirShapedTypeGetRank(type));
    bool swapped = !moe__is_row_major(type);
    MlirValue made = (i == 0 ? product_for_a : product_for_b)(
        joint, op, g, swapped, swapped ? moe__transposed(type, &swap, true) : type);
    add_gradient(joint, operand, swapped ? moe__transpose(&joint->b, made, type, &swap) : made);
  }
  return true;
}

/* The same memory in the order of dimensions that the operand has. */
static bool differentiate_transpose(joint_t *joint, MlirOperation op) {
  const moe__values_t *summands = gradients_of(joint, mlirOperationGetResult(op, 0));
  MlirValue x = mlirOperationGetOperand(op, 0);
  moe__permutation_t p;
  if (!moe__permutation_of(op, &p))
    abort(); /* can_be_cut has refused it */
  moe__permutation_t inverse = moe__inverse(&p);
  for (size_t i = 0; i < summands->count; i++) {
    MlirValue g = summands->at[i];
    MlirType type = moe__transposed(mlirValueGetType(g), &inverse, true);
    add_gradient(joint, x, moe__transpose(&joint->b, g, type, &inverse));
    summands = gradients_of(joint, mlirOperationGetResult(op, 0)); /* they may have moved */
  }
  return true;
}

/* Adds the gradient of `from` to that of `to`. */
static void pass_on(joint_t *joint, MlirValue from, MlirValue to) {
  for (size_t i = 0; i < gradients_of(joint, from)->count; i++)
    add_gradient(joint, to, gradients_of(joint, from)->at[i]);
}

/* Rounding is passed straight through. The gradient of q is that of what q and its scales stand
 * for; scales have none of their own. */
static bool differentiate_quantizer(joint_t *joint, MlirOperation op) {
  bool is_pair = moe__is(op, MOE__OP_QUANTIZE_FP8_PAIR);
  for (int i = 0; i < mlirOperationGetNumResults(op); i += 2) {
    MlirValue q = mlirOperationGetResult(op, i);
    MlirValue x = mlirOperationGetOperand(op, is_pair ? i / 2 : 0);
    const moe__values_t *summands = gradients_of(joint, q);
    moe__shape_t shape;
    moe__result_shape(op, i, &shape);
    if (summands->count > 0 && shape.sizes[0].multiple != 1)
      return moe__error(op,
                        "result %d has room for more tokens than the operand, and its gradient "
                        "too; quantize along the last dimension",
                        i);
    for (size_t j = 0; j < summands->count; j++)
      if (!mlirTypeEqual(mlirShapedTypeGetElementType(mlirValueGetType(summands->at[j])),
                         mlirShapedTypeGetElementType(mlirValueGetType(x))))
        return moe__error(op, "the gradient of operand 'x' has another element type than 'x', and "
                              "no kernel converts it");
    pass_on(joint, q, x);
  }
  return true;
}

/* Of dequantizers and rounding: passed straight through. */
static bool differentiate_straight(joint_t *joint, MlirOperation op) {
  for (int i = 0; i < mlirOperationGetNumResults(op); i++)
    pass_on(joint, mlirOperationGetResult(op, i), mlirOperationGetOperand(op, 0));
  return true;
}

typedef struct rule_t {
  const char *op;
  int operands; /* that have a gradient: the first ones */
  rule_function_t differentiate;
} rule_t;

static const rule_t RULES[] = {
#define MOE_GRADIENT(op, operands, rule) {op, operands, differentiate_##rule},
#include "passes/Gradients.def"
#undef MOE_GRADIENT
};

static const rule_t *find_rule(MlirOperation op) {
  for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
    if (moe__op_is(op, RULES[i].op))
      return &RULES[i];
  return NULL;
}

/* ---- What has a gradient ---- */

static bool is_float_tensor(MlirType type, bool fp8_too) {
  if (!mlirTypeIsARankedTensor(type))
    return false;
  MlirType element = mlirShapedTypeGetElementType(type);
  return mlirTypeIsABF16(element) || mlirTypeIsAF16(element) || mlirTypeIsAF32(element) ||
         (fp8_too && (mlirTypeIsAFloat8E4M3FN(element) || mlirTypeIsAFloat8E5M2(element)));
}

/* Whether the gradient of an argument is asked for: as `moe.differentiable` says, else that of each
 * argument that could have one. */
static bool read_wanted(MlirOperation function, intptr_t i, MlirType type, bool *out) {
  MlirAttribute wanted = moe__port_attribute(function, "arg_attrs", i, WANTED);
  *out = is_float_tensor(type, false);
  if (mlirAttributeIsNull(wanted))
    return true;
  if (!mlirAttributeIsABool(wanted))
    return moe__error(function, "argument %d: " WANTED " must be true or false", (int)i);
  if (mlirBoolAttrGetValue(wanted) && !*out)
    return moe__error(function,
                      "argument %d: " WANTED " is true, but only tensors of bf16, f16 and f32 have "
                      "a gradient",
                      (int)i);
  *out = mlirBoolAttrGetValue(wanted);
  return true;
}

/* Of what an op computes from active values all tensors are active that may have a gradient; of a
 * quantizer not the scales. */
static void find_active_results(joint_t *joint, MlirOperation op) {
  const rule_t *rule = find_rule(op);
  bool reads_active = false;
  for (int i = 0; i < mlirOperationGetNumOperands(op); i++)
    reads_active |=
        (!rule || i < rule->operands) && is_active(joint, mlirOperationGetOperand(op, i));
  for (int i = 0; reads_active && i < mlirOperationGetNumResults(op); i++) {
    MlirValue result = mlirOperationGetResult(op, i);
    bool is_scale = rule && rule->differentiate == differentiate_quantizer && i % 2 == 1;
    if (!is_scale && is_float_tensor(mlirValueGetType(result), true))
      moe__values_push(&joint->active, result);
  }
}

static bool find_active(joint_t *joint) {
  for (intptr_t i = 0; i < joint->argument_count; i++) {
    MlirValue argument = mlirBlockGetArgument(joint->body, i);
    bool wanted = false;
    if (!read_wanted(joint->function, i, mlirValueGetType(argument), &wanted))
      return false;
    if (wanted)
      moe__values_push(&joint->active, argument);
  }
  for (MlirOperation op = mlirBlockGetFirstOperation(joint->body); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    find_active_results(joint, op);
  return true;
}

/* ---- From the end to the start ---- */

/* "grad_NAME"; owned. */
static char *gradient_name(MlirOperation function, const char *list, intptr_t i) {
  char *name = moe__cut_name_of(function, list, i), *text = NULL;
  if (asprintf(&text, "grad_%s", name) < 0)
    abort();
  free(name);
  return text;
}

/* Gives each result that has a gradient an argument for it. */
static bool add_incoming(joint_t *joint) {
  for (size_t i = 0; i < joint->results.count; i++) {
    MlirValue result = joint->results.at[i];
    MlirType type = mlirValueGetType(result);
    if (!is_active(joint, result) || !is_float_tensor(type, false) ||
        gradients_of(joint, result)->count > 0)
      continue;
    MlirLocation location = mlirOperationGetLocation(joint->function);
    add_gradient(joint, result, mlirBlockAddArgument(joint->body, type, location));
    moe__cut_name_argument(&joint->cut, gradient_name(joint->function, "res_attrs", (intptr_t)i));
  }
  return joint->cut.argument_count > 0 ||
         moe__error(
             joint->function,
             "no result of bf16, f16 or f32 depends on an argument whose gradient is wanted");
}

static bool has_gradient(const joint_t *joint, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (gradients_of(joint, mlirOperationGetResult(op, i))->count > 0)
      return true;
  return false;
}

static bool reads_active(const joint_t *joint, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (is_active(joint, mlirOperationGetOperand(op, i)))
      return true;
  return false;
}

/* The gradients of all that stands before `end`. */
static bool differentiate_ops(joint_t *joint, MlirOperation end) {
  moe__values_t ops = {0}; /* by a result each */
  bool ok = true;
  for (MlirOperation op = mlirBlockGetFirstOperation(joint->body); !mlirOperationEqual(op, end);
       op = mlirOperationGetNextInBlock(op))
    if (mlirOperationGetNumResults(op) > 0)
      moe__values_push(&ops, mlirOperationGetResult(op, 0));
  for (size_t i = ops.count; ok && i-- > 0;) {
    MlirOperation op = mlirOpResultGetOwner(ops.at[i]);
    if (!has_gradient(joint, op) || !reads_active(joint, op))
      continue;
    const rule_t *rule = find_rule(op);
    MlirStringRef name = moe__op_name(op);
    joint->b.location = mlirOperationGetLocation(op);
    ok = rule ? rule->differentiate(joint, op)
              : moe__error(op,
                           "'%.*s' has no rule by which to differentiate it; take what it reads or "
                           "makes as an argument of the function, and differentiate it outside",
                           (int)name.length, name.data);
  }
  moe__values_clear(&ops);
  return ok;
}

/* A gradient is returned as the kernel makes it: its argument's memory, row-major. */
static bool add_outgoing(joint_t *joint, intptr_t i) {
  MlirValue argument = mlirBlockGetArgument(joint->body, i);
  MlirAttribute wanted = moe__port_attribute(joint->function, "arg_attrs", i, WANTED);
  const moe__values_t *summands = gradients_of(joint, argument);
  if (!is_active(joint, argument))
    return true;
  if (summands->count == 0)
    return mlirAttributeIsNull(wanted) ||
           moe__error(joint->function,
                      "argument %d: " WANTED " is true, but no result depends on it", (int)i);
  for (size_t j = 0; j < summands->count; j++) {
    moe__permutation_t p;
    int order[MOE__MAX_RANK];
    MlirValue made = moe__view_source(summands->at[j], &p);
    if (mlirValueIsABlockArgument(made))
      return moe__error(joint->function,
                        "argument %d: its gradient is that of a result, as it is; there is nothing "
                        "to compute",
                        (int)i);
    bool same = moe__memory_order(mlirValueGetType(argument), order);
    for (int d = 0; d < p.rank; d++)
      same &= p.at[order[d]] == d;
    if (!same)
      return moe__error(
          joint->function,
          "argument %d: its gradient does not lie in memory as the argument does, and "
          "would have to be copied",
          (int)i);
    moe__values_push(&joint->outgoing, made);
    moe__cut_name_result(&joint->cut, gradient_name(joint->function, "arg_attrs", i));
  }
  return true;
}

/* Appends the gradients to the function, which returns them behind its own results. */
static bool append_gradients(joint_t *joint) {
  MlirOperation end = mlirBlockGetTerminator(joint->body);
  joint->argument_count = mlirBlockGetNumArguments(joint->body);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++)
    moe__values_push(&joint->results, mlirOperationGetOperand(end, i));
  joint->b = moe__builder_before(end);
  if (!find_active(joint) || !add_incoming(joint) || !differentiate_ops(joint, end))
    return false;
  for (intptr_t i = 0; i < joint->argument_count; i++)
    if (!add_outgoing(joint, i))
      return false;
  for (size_t i = 0; i < joint->outgoing.count; i++)
    moe__values_push(&joint->results, joint->outgoing.at[i]);
  joint->b.location = mlirOperationGetLocation(end);
  moe__op0(&joint->b, "func.return", (intptr_t)joint->results.count, joint->results.at, NULL);
  mlirOperationDestroy(end);
  return true;
}

/* ---- The pass ---- */

/* The functions to differentiate: that have a body and are not what this pass has made. */
static bool is_to_differentiate(MlirOperation op) {
  return moe__op_is(op, "func.func") && !mlirBlockIsNull(moe__body(op)) &&
         mlirAttributeIsNull(moe__op_attribute(op, MOE__FORWARD_FUNCTION)) &&
         mlirAttributeIsNull(moe__op_attribute(op, MOE__BACKWARD_FUNCTION));
}

/* The two functions have what their results need. An op that nothing needs, and that is neither one
 * of ours nor a transpose, may do something else, and would be lost. Transposes are made again,
 * those without a gradient too. */
static bool can_be_cut(MlirOperation op) {
  moe__permutation_t p;
  if (moe__op_is(op, "linalg.transpose") && !moe__permutation_of(op, &p))
    return moe__error(op,
                      "a function with a transpose of more than %d dimensions cannot be "
                      "differentiated",
                      MOE__MAX_RANK);
  if (moe__op_id(op) || moe__op_is(op, "linalg.transpose") || moe__op_is(op, "func.return") ||
      moe__makes_destination(op) || moe__has_uses(op))
    return true;
  MlirStringRef name = moe__op_name(op);
  return moe__error(op, "'%.*s' makes nothing that a result needs, and would be lost; remove it",
                    (int)name.length, name.data);
}

static bool differentiate(MlirOperation function, joint_t *joint) {
  joint->function = joint->cut.function = function;
  joint->body = moe__body(function);
  if (!mlirBlockIsNull(mlirBlockGetNextInRegion(joint->body)))
    return moe__error(function, "a function to differentiate must be one block");
  return moe__cut_is_possible(function) && moe__walk_block(joint->body, can_be_cut) &&
         append_gradients(joint);
}

bool moe__pass_differentiate(MlirOperation module, const moe__pass_t *pass) {
  if (!moe__pass_verify(module, pass)) /* the rest relies on it */
    return false;
  joint_t *joints = NULL;
  size_t count = 0;
  bool ok = true;
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(module));
       ok && !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!is_to_differentiate(op))
      continue;
    joints = realloc(joints, (count + 1) * sizeof *joints);
    if (!joints)
      abort();
    joints[count] = (joint_t){0};
    ok = differentiate(op, &joints[count++]);
  }
  ok = ok && moe__pass_expand_recipes(module, pass);
  for (size_t i = 0; i < count; i++) {
    if (ok)
      moe__cut(&joints[i].cut);
    free_joint(&joints[i]);
  }
  free(joints);
  return ok;
}
