/* Reference.c - computes a function's launches with libmoe_ref.
 *
 * Why it exists: see Reference.h. What differs from op to op is in Launch.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Reference.h"

#include "tools/moe-run/Launch.h"
#include "tools/moe-run/Parallel.h"
#include "tools/moe-run/Report.h"

#include <stdlib.h>
#include <string.h>

static const moe__run_op_t *const tables[] = {moe__run_quantize_ops, moe__run_fp8_ops,
                                              moe__run_f16_ops,      moe__run_layout_ops,
                                              moe__run_product_ops,  moe__run_weight_ops};

static const moe__run_op_t *find_op(const char *name) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    for (const moe__run_op_t *op = tables[i]; op->name; op++)
      if (!strcmp(op->name, name))
        return op;
  return NULL;
}

static const moe__run_tensor_t *find(const moe__run_tensor_t *tensors, int count,
                                     const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(tensors[i].info->name, name))
      return &tensors[i];
  return NULL;
}

/* The tensor seen with its dimensions in another order. */
static moe_ref_tensor_t permuted(const moe_ref_tensor_t *tensor, const int *permutation) {
  moe_ref_tensor_t view = *tensor;
  for (int i = 0; i < view.rank; i++) {
    view.shape[i] = tensor->shape[permutation[i]];
    view.strides[i] = tensor->strides[permutation[i]];
  }
  return view;
}

/* Finds the launch's op and the tensors that it names. `results` and `temporaries` may be without
 * data. */
static int bind_tensors(moe__run_launch_t *launch, const moe_rt_launch_info_t *info,
                        const moe__run_call_t *call, const moe__run_tensor_t *results,
                        const moe__run_tensor_t *temporaries) {
  const moe_rt_function_info_t *function = call->function;
  launch->name = info->op;
  launch->op = find_op(info->op);
  launch->roles = info->roles;
  launch->operand_count = info->operand_count;
  launch->tensor_count = info->operand_count + info->result_count;
  const moe__run_op_t *op = launch->op;
  if (!op)
    return moe__run_input_error("function '%s': the C reference does not know the op '%s'",
                                function->name, info->op);
  if (!info->roles)
    return moe__run_input_error("%s: the manifest does not name the roles of its tensors",
                                info->op);
  if (launch->tensor_count > MOE__RUN_MAX_LAUNCH_TENSORS)
    return moe__run_input_error("%s: has %d tensors; the reference takes %d at most", info->op,
                                launch->tensor_count, MOE__RUN_MAX_LAUNCH_TENSORS);
  if (moe__run_check_roles(launch))
    return MOE__RUN_INPUT;
  for (int i = 0; i < launch->tensor_count; i++) {
    bool is_operand = i < info->operand_count;
    const char *name =
        is_operand ? info->operands[i].tensor : info->results[i - info->operand_count];
    const moe__run_tensor_t *tensor = find(temporaries, function->temporary_count, name);
    if (!tensor)
      tensor = find(results, function->result_count, name);
    if (!tensor && is_operand)
      tensor = find(call->arguments, function->argument_count, name);
    if (!tensor)
      return moe__run_input_error("%s: there is no tensor '%s' for it to %s", info->op, name,
                                  is_operand ? "read" : "write");
    if (moe_ref_dtype_from_name(tensor->info->dtype) < 0)
      return moe__run_input_error("%s: the C reference does not take %s, the dtype of '%s'",
                                  info->op, tensor->info->dtype, name);
    launch->tensors[i] = moe__run_tensor_view(tensor);
    if (is_operand)
      launch->tensors[i] = permuted(&launch->tensors[i], info->operands[i].permutation);
  }
  json_t *attributes = json_loads(info->attributes_json, 0, NULL);
  int rc = op->prepare(launch, attributes);
  json_decref(attributes);
  return rc;
}

/* Of a launch that the reference refuses, or cannot compute. */
static int refused(const moe_rt_launch_info_t *info, int status) {
  if (status == MOE_REF_OUT_OF_MEMORY)
    return moe__run_input_error("%s: out of memory in the C reference", info->op);
  return moe__run_input_error(
      "%s: the C reference does not take these dtypes, shapes and attributes %s", info->op,
      info->attributes_json);
}

static void note(moe__run_launch_t *launch, moe_ref_status_t status) {
  if (status != MOE_REF_OK)
    atomic_store(&launch->status, (int)status);
}

static void run_slice(void *context, int64_t slice) {
  moe__run_launch_t *launch = context;
  note(launch, launch->op->run(launch, slice));
}

/* ---- Judging ---- */

typedef struct judging_t {
  moe__run_launch_t *launch;
  const moe_ref_tensor_t *factors; /* what the operands were before they were quantized, or NULL */
  moe_ref_score_t *scores, *qualities; /* of each slice */
} judging_t;

static void judge_slice(void *context, int64_t slice) {
  judging_t *judging = context;
  const moe__run_launch_t *launch = judging->launch;
  moe_ref_status_t status = launch->op->judge(launch, slice, &judging->scores[slice]);
  if (!status && judging->factors)
    status = launch->op->compare(launch, judging->factors, slice, &judging->qualities[slice]);
  note(judging->launch, status);
}

/* The operand of this role, which is there. */
static const moe_rt_operand_t *operand_of(const moe_rt_launch_info_t *info, const char *role) {
  int i = 0;
  while (strcmp(info->roles[i], role))
    i++;
  return &info->operands[i];
}

/* Finds what the operand `role` of launch number `number` was before an earlier launch quantized
 * it. */
static bool find_unquantized(const moe__run_call_t *call, const moe__run_tensor_t *results,
                             const moe__run_tensor_t *temporaries, int number, const char *role,
                             moe_ref_tensor_t *out) {
  const moe_rt_launch_info_t *launches = call->function->launches;
  const moe_rt_operand_t *wanted = operand_of(&launches[number], role);
  for (int i = 0; i < number; i++)
    for (int j = 0; j < launches[i].result_count; j++) {
      moe__run_launch_t maker = {0};
      if (strcmp(launches[i].results[j], wanted->tensor) ||
          bind_tensors(&maker, &launches[i], call, results, temporaries))
        continue;
      const char *made = maker.roles[maker.operand_count + j];
      const char *from = maker.op->quantized_from ? maker.op->quantized_from(&maker, made) : NULL;
      if (from)
        *out = permuted(moe__run_tensor(&maker, from), wanted->permutation);
      return from != NULL;
    }
  return false;
}

/* Judges what was found as the launch's result, if it is a result of the function. */
static int judge(moe__run_launch_t *launch, const moe_rt_launch_info_t *info,
                 const moe__run_call_t *call, const moe__run_tensor_t *found,
                 const moe_ref_tensor_t *factors, int threads, moe__run_judgment_t *judgments) {
  const moe__run_tensor_t *result = find(found, call->function->result_count, info->results[0]);
  if (!result)
    return MOE__RUN_OK;
  moe__run_judgment_t *judgment = &judgments[result - found];
  moe_ref_score_t *scores = calloc(2 * (size_t)launch->slices, sizeof *scores);
  if (!scores)
    return moe__run_input_error("out of memory");
  judging_t judging = {launch, factors, scores, scores + launch->slices};
  launch->tensors[launch->operand_count] = moe__run_tensor_view(result);
  moe__run_parallel("judging by the C reference", threads, launch->slices, judge_slice, &judging);
  judgment->is_product = true;
  judgment->is_empty = launch->op->flops && launch->op->flops(launch) == 0;
  judgment->is_quantized = factors != NULL;
  for (int64_t i = 0; i < launch->slices; i++) {
    moe_ref_score_add(&judgment->score, &judging.scores[i]);
    moe_ref_score_add(&judgment->quality, &judging.qualities[i]);
  }
  free(scores);
  return atomic_load(&launch->status) ? refused(info, atomic_load(&launch->status)) : MOE__RUN_OK;
}

/* Which rows of the launch's results are written, of those that are results of the function. */
static void judge_rows(const moe__run_launch_t *launch, const moe_rt_launch_info_t *info,
                       const moe__run_call_t *call, const moe__run_tensor_t *found,
                       moe__run_judgment_t *judgments) {
  for (int i = 0; i < info->result_count; i++) {
    const moe__run_tensor_t *result = find(found, call->function->result_count, info->results[i]);
    const char *const role = launch->roles[info->operand_count + i];
    const int64_t rows = launch->op->written_rows(launch, role);
    if (result && launch->op->has_gaps)
      judgments[result - found].has_gaps = launch->op->has_gaps(launch, role);
    if (!result || rows < 0)
      continue;
    judgments[result - found].has_groups = true;
    judgments[result - found].written_rows = rows;
  }
}

int moe__run_reference_judge(const moe__run_call_t *call, moe__run_tensor_t *results,
                             const moe__run_tensor_t *found, int threads,
                             moe__run_judgment_t *judgments) {
  const moe_rt_function_info_t *function = call->function;
  for (int i = 0; found && i < function->result_count; i++)
    judgments[i].written_rows = found[i].shape[0];
  moe__run_tensor_t *temporaries =
      moe__run_tensors_like(call->temporaries, function->temporary_count);
  if (!temporaries)
    return MOE__RUN_INPUT;
  int rc = MOE__RUN_OK;
  for (int i = 0; i < function->launch_count && !rc; i++) {
    const moe_rt_launch_info_t *info = &function->launches[i];
    moe__run_launch_t launch = {0};
    rc = bind_tensors(&launch, info, call, results, temporaries);
    if (rc)
      break;
    if (launch.op->begin)
      note(&launch, launch.op->begin(&launch));
    launch.op->cut(&launch, threads);
    moe__run_parallel("computing with the C reference", threads, launch.slices, run_slice, &launch);
    if (atomic_load(&launch.status))
      rc = refused(info, atomic_load(&launch.status));
    if (!rc && found && launch.op->written_rows)
      judge_rows(&launch, info, call, found, judgments);
    if (!rc && found && launch.op->judge) {
      moe_ref_tensor_t factors[2];
      const bool are_known =
          launch.op->compare &&
          find_unquantized(call, results, temporaries, i, launch.op->factors[0], &factors[0]) &&
          find_unquantized(call, results, temporaries, i, launch.op->factors[1], &factors[1]);
      rc = judge(&launch, info, call, found, are_known ? factors : NULL, threads, judgments);
    }
  }
  moe__run_tensors_free(temporaries, function->temporary_count);
  return rc;
}

int moe__run_reference_run(const moe__run_call_t *call, moe__run_tensor_t *results, int threads) {
  return moe__run_reference_judge(call, results, NULL, threads, NULL);
}

/* ---- What can be told from shapes ---- */

/* What operand `operand` of launch `number` is to it, in the dimensions of the tensor that it
 * names. *out_use: what the tensor is if the launch does not say. */
static int use_of(const moe__run_call_t *call, int number, int operand, moe__run_use_t *out_use) {
  const moe_rt_launch_info_t *info = &call->function->launches[number];
  const moe_rt_operand_t *named = &info->operands[operand];
  moe__run_launch_t launch = {0};
  moe__run_use_t use = *out_use;
  int rc = bind_tensors(&launch, info, call, call->results, call->temporaries);
  if (rc)
    return rc;
  launch.op->use(&launch, launch.roles[operand], &use);
  *out_use = use;
  for (int d = 0; d < launch.tensors[operand].rank; d++)
    out_use->cell[named->permutation[d]] = use.cell[d];
  out_use->nan_dimension = named->permutation[use.nan_dimension];
  return MOE__RUN_OK;
}

/* The number of the first launch that reads the tensor, and of the operand; false if none does. */
static bool find_reader(const moe_rt_function_info_t *function, const char *tensor, int *out_number,
                        int *out_operand) {
  for (int i = 0; i < function->launch_count; i++)
    for (int j = 0; j < function->launches[i].operand_count; j++)
      if (!strcmp(function->launches[i].operands[j].tensor, tensor) &&
          find_op(function->launches[i].op)) {
        *out_number = i;
        *out_operand = j;
        return true;
      }
  return false;
}

/* Where launch `number` passes its numbers on to a product, its operands are that product's; those
 * behind the first are scales. Of a launch without groups, what may be NaN is the product's too. */
static int follow(const moe__run_call_t *call, int number, int operand, moe__run_use_t *use) {
  const moe_rt_launch_info_t *info = &call->function->launches[number];
  const moe__run_op_t *op = find_op(info->op);
  int reader, read;
  if (!op->passed_on || use->role == MOE__RUN_OFFSETS ||
      !find_reader(call->function, info->results[0], &reader, &read))
    return MOE__RUN_OK;
  moe__run_use_t of = *use;
  of.role = MOE__RUN_CELLS;
  of.nan = MOE__RUN_NAN_NONE;
  int rc = use_of(call, reader, read, &of);
  if (rc || (of.role != MOE__RUN_OPERAND && of.role != MOE__RUN_SELECTOR))
    return rc;
  /* The result has the dimensions of the operand that the launch names, not of its tensor. */
  of.nan_dimension = info->operands[operand].permutation[of.nan_dimension];
  of.role = operand ? MOE__RUN_SCALES : of.role;
  if (use->nan != MOE__RUN_NAN_NONE)
    use->role = of.role;
  else
    *use = of;
  return MOE__RUN_OK;
}

/* Ends of groups that several launches read lie among the fewest tokens that one of these has. */
static int limit_tokens(const moe__run_call_t *call, const char *offsets, moe__run_use_t *use) {
  const moe_rt_function_info_t *function = call->function;
  for (int i = 0; i < function->launch_count; i++)
    for (int j = 0; j < function->launches[i].operand_count; j++) {
      moe__run_use_t other = *use;
      if (strcmp(function->launches[i].operands[j].tensor, offsets) != 0 ||
          !find_op(function->launches[i].op))
        continue;
      int rc = use_of(call, i, j, &other);
      if (rc)
        return rc;
      if (other.role == MOE__RUN_OFFSETS && other.tokens < use->tokens)
        use->tokens = other.tokens;
    }
  return MOE__RUN_OK;
}

int moe__run_reference_use(const moe__run_call_t *call, const moe_rt_tensor_info_t *argument,
                           moe__run_use_t *out_use) {
  int number, operand;
  *out_use = (moe__run_use_t){.role = MOE__RUN_CELLS};
  for (int d = 0; d < argument->rank; d++)
    out_use->cell[d] = d == argument->rank - 1 ? MOE_MX_BLOCK : 1;
  if (!find_reader(call->function, argument->name, &number, &operand))
    return MOE__RUN_OK;
  int rc = use_of(call, number, operand, out_use);
  if (!rc && out_use->role == MOE__RUN_OFFSETS)
    return limit_tokens(call, argument->name, out_use);
  return rc ? rc : follow(call, number, operand, out_use);
}

int moe__run_reference_flops(const moe__run_call_t *call, bool *out_known, double *out_flops) {
  *out_known = false;
  *out_flops = 0;
  int rc = MOE__RUN_OK;
  for (int i = 0; i < call->function->launch_count && !rc; i++) {
    const moe_rt_launch_info_t *info = &call->function->launches[i];
    const moe__run_op_t *op = find_op(info->op);
    if (!op || !op->flops)
      continue;
    moe__run_launch_t launch = {0};
    rc = bind_tensors(&launch, info, call, call->results, call->temporaries);
    const double flops = rc ? 0 : op->flops(&launch);
    if (flops < 0)
      rc = refused(info, MOE_REF_INVALID_ARGUMENT);
    *out_known = true;
    *out_flops += flops;
  }
  return rc;
}
