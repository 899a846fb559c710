/* Launch.c - the public functions: modules, and launches over threads.
 *
 * Why it exists: a launch is checked as a driver would check it, then its CTAs run on as many
 * threads as wanted.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Tma.h"
#include "lib/Emulator/Ptx/Parser.h"
#include "lib/Emulator/Scheduler.h"
#include "moe/limits.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  MAX_CTA_THREADS = 1024, /* and of its rows, along x and y */
  MAX_REGISTERS = 255,
  REGISTER_UNIT = 8,
};

static const size_t ORDER_BYTES = (size_t)1 << 30;

struct moe_emu_module_t {
  moe__emu_module_t module;
};

static moe_emu_status_t fail(moe_emu_report_t *report, moe_emu_status_t status, const char *format,
                             ...) __attribute__((format(printf, 3, 4)));

static moe_emu_status_t fail(moe_emu_report_t *report, moe_emu_status_t status, const char *format,
                             ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(report->text, sizeof report->text, format, arguments);
  va_end(arguments);
  return status;
}

static moe_emu_status_t fail_null(moe_emu_report_t *report, const char *what) {
  return fail(report, MOE_EMU_INVALID_ARGUMENT, "%s is NULL", what);
}

/* ---- Modules ---- */

moe_emu_status_t moe_emu_module_load(const char *text, size_t size, moe_emu_module_t **out_module,
                                     moe_emu_report_t *out_report) {
  if (out_module)
    *out_module = NULL;
  if (!out_report)
    return MOE_EMU_INVALID_ARGUMENT;
  out_report->text[0] = '\0';
  if (!text || !out_module)
    return fail_null(out_report, "text or out_module");
  moe_emu_module_t *module = calloc(1, sizeof *module);
  if (!module)
    return fail(out_report, MOE_EMU_OUT_OF_MEMORY, "out of memory");
  moe__emu_error_t error = {""};
  if (!moe__emu_module_parse(text, size, &module->module, &error)) {
    moe_emu_module_destroy(module);
    return fail(out_report, MOE_EMU_INVALID_PTX, "%s", error.text);
  }
  *out_module = module;
  return MOE_EMU_OK;
}

void moe_emu_module_destroy(moe_emu_module_t *module) {
  if (module)
    moe__emu_module_free(&module->module);
  free(module);
}

bool moe_emu_module_has(const moe_emu_module_t *module, const char *kernel) {
  return module && kernel && moe__emu_find_kernel(&module->module, kernel) != NULL;
}

/* ---- Checks of a launch ---- */

static moe_emu_status_t check_cta(const moe__emu_kernel_t *kernel, const moe_emu_launch_t *launch,
                                  moe_emu_report_t *report) {
  static const char axes[] = "xyz";
  static const uint32_t max_grid[] = {INT32_MAX, UINT16_MAX, UINT16_MAX};
  static const uint32_t max_block[] = {MAX_CTA_THREADS, MAX_CTA_THREADS, 64};
  uint64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    uint32_t required = kernel->required_block[i];
    if (launch->grid[i] == 0 || launch->grid[i] > max_grid[i] || launch->block[i] == 0 ||
        launch->block[i] > max_block[i])
      return fail(report, MOE_EMU_INVALID_ARGUMENT,
                  "kernel '%s': grid.%c is %u and block.%c is %u; they must be 1 to %u and 1 to %u",
                  kernel->name, axes[i], launch->grid[i], axes[i], launch->block[i], max_grid[i],
                  max_block[i]);
    if (required && launch->block[i] != required)
      return fail(report, MOE_EMU_INVALID_ARGUMENT, "kernel '%s': block.%c is %u; .reqntid says %u",
                  kernel->name, axes[i], launch->block[i], required);
    threads *= launch->block[i];
  }
  if (threads > MAX_CTA_THREADS || (kernel->max_threads && threads > kernel->max_threads))
    return fail(report, MOE_EMU_INVALID_ARGUMENT,
                "kernel '%s': a CTA of %llu threads; the limit is %u", kernel->name,
                (unsigned long long)threads,
                kernel->max_threads ? kernel->max_threads : MAX_CTA_THREADS);
  return MOE_EMU_OK;
}

/* A launch that names no cluster of more than one CTA gets the kernel's. */
static moe_emu_status_t check_cluster(const moe__emu_kernel_t *kernel,
                                      const moe_emu_launch_t *launch, uint32_t *out_size,
                                      moe_emu_report_t *report) {
  static const char axes[] = "xyz";
  const uint32_t *given = launch->cluster;
  bool is_given = given[0] > 1 || given[1] > 1 || given[2] > 1;
  uint32_t size[3];
  for (int i = 0; i < 3; i++) {
    uint32_t required = kernel->cluster[i];
    size[i] = is_given ? given[i] : required ? required : 1;
    if (required && size[i] != required)
      return fail(report, MOE_EMU_INVALID_ARGUMENT,
                  "kernel '%s': cluster.%c is %u; .reqnctapercluster says %u", kernel->name,
                  axes[i], size[i], required);
  }
  if (size[0] == 0 || size[0] > MOE__EMU_MAX_CLUSTER || size[1] != 1 || size[2] != 1)
    return fail(report, MOE_EMU_INVALID_ARGUMENT,
                "kernel '%s': clusters of %u x %u x %u CTAs; 1 to %d along x are modeled",
                kernel->name, size[0], size[1], size[2], MOE__EMU_MAX_CLUSTER);
  if (launch->grid[0] % size[0])
    return fail(report, MOE_EMU_INVALID_ARGUMENT,
                "kernel '%s': grid.x is %u; it must be a multiple of the cluster's %u",
                kernel->name, launch->grid[0], size[0]);
  *out_size = size[0];
  return MOE_EMU_OK;
}

static moe_emu_status_t check_shared(const moe__emu_kernel_t *kernel,
                                     const moe_emu_launch_t *launch, uint32_t *out_bytes,
                                     moe_emu_report_t *report) {
  uint32_t end = MOE__EMU_SHARED_BASE + kernel->static_shared_bytes;
  uint32_t dynamic = kernel->dynamic_shared ? kernel->dynamic_shared : end;
  uint64_t bytes =
      (uint64_t)dynamic - kernel->dynamic_padding - MOE__EMU_SHARED_BASE + launch->dynamic_shared;
  if (bytes > MOE_CTA_SHARED_MEMORY)
    return fail(report, MOE_EMU_INVALID_ARGUMENT,
                "kernel '%s': %llu bytes of shared memory; the limit is %d", kernel->name,
                (unsigned long long)bytes, MOE_CTA_SHARED_MEMORY);
  *out_bytes = (uint32_t)bytes + kernel->dynamic_padding;
  return MOE_EMU_OK;
}

static moe_emu_status_t copy_parameters(moe__emu_machine_t *machine, moe_emu_report_t *report) {
  const moe__emu_kernel_t *kernel = machine->kernel;
  if ((uint32_t)machine->launch->parameter_count != kernel->parameter_count)
    return fail(report, MOE_EMU_INVALID_ARGUMENT, "kernel '%s': %d parameters given; it has %u",
                kernel->name, machine->launch->parameter_count, kernel->parameter_count);
  for (uint32_t i = 0; i < kernel->parameter_count; i++) {
    const moe__emu_parameter_t *parameter = &kernel->parameters[i];
    const uint32_t *bytes = machine->launch->parameter_bytes;
    if (!machine->launch->parameters[i])
      return fail(report, MOE_EMU_INVALID_ARGUMENT, "kernel '%s': parameter %u is NULL",
                  kernel->name, i);
    if (bytes && bytes[i] != parameter->bytes)
      return fail(report, MOE_EMU_INVALID_ARGUMENT,
                  "kernel '%s': parameter %u has %u bytes; the PTX declares %u", kernel->name, i,
                  bytes[i], parameter->bytes);
    memcpy(machine->parameters + parameter->offset, machine->launch->parameters[i],
           parameter->bytes);
  }
  return MOE_EMU_OK;
}

/* The registers of a thread as ptxas would choose them, and of all threads of a CTA: what
 * setmaxnreg can move between warps. 0 where the PTX does not fix them. */
static void count_registers(moe__emu_machine_t *machine) {
  const moe__emu_kernel_t *kernel = machine->kernel;
  uint32_t registers = kernel->max_registers;
  if (!registers && kernel->max_threads && kernel->min_ctas_per_sm) {
    uint32_t warps = (kernel->max_threads + MOE__EMU_LANES - 1) / MOE__EMU_LANES;
    registers = MOE_SM_REGISTERS / (kernel->min_ctas_per_sm * warps * MOE__EMU_LANES);
    registers = registers > MAX_REGISTERS ? MAX_REGISTERS : registers;
  }
  machine->first_registers = registers / REGISTER_UNIT * REGISTER_UNIT;
  machine->register_pool = machine->first_registers * machine->warp_count;
}

/* ---- Threads ---- */

static void *run_clusters(void *argument) {
  moe__emu_cluster_t *cluster = argument;
  moe__emu_machine_t *machine = cluster->machine;
  for (;;) {
    uint64_t number = atomic_fetch_add(&machine->next_cluster, 1);
    if (number >= machine->cluster_count || number > atomic_load(&machine->failed_cluster))
      return NULL;
    moe__emu_cluster_run(cluster, number);
    if (cluster->status == MOE_EMU_OK)
      continue;
    /* Clusters before this one may still fail and then are the first. */
    uint64_t failed = atomic_load(&machine->failed_cluster);
    while (number < failed &&
           !atomic_compare_exchange_weak(&machine->failed_cluster, &failed, number))
      continue;
    return NULL;
  }
}

static int choose_threads(const moe__emu_machine_t *machine) {
  long wanted = machine->options.threads;
  if (machine->races)
    wanted = MOE__EMU_MAX_RUNNING;
  else if (wanted <= 0)
    wanted = sysconf(_SC_NPROCESSORS_ONLN);
  if (wanted > MOE_MAX_EMULATOR_THREADS)
    wanted = MOE_MAX_EMULATOR_THREADS;
  if (wanted > 0 && (uint64_t)wanted > machine->cluster_count)
    wanted = (long)machine->cluster_count;
  return wanted < 1 ? 1 : (int)wanted;
}

/* Runs clusters that may learn of each other: in turns, on this thread. */
static moe_emu_status_t run_in_turns(moe__emu_machine_t *machine, moe__emu_cluster_t *clusters,
                                     int count, moe_emu_report_t *report) {
  const moe__emu_cluster_t *failed =
      moe__emu_clusters_run(clusters, (uint32_t)count, machine->cluster_count);
  const moe__emu_arena_t *arena = &machine->races->arena;
  if (arena->is_full) /* what was forgotten may be what a failure is about */
    return fail(report, MOE_EMU_OUT_OF_MEMORY,
                "kernel '%s': what clusters know of one another needs more than %zu bytes",
                machine->kernel->name, arena->limit);
  if (arena->is_exhausted)
    return MOE_EMU_OUT_OF_MEMORY;
  if (!failed)
    return MOE_EMU_OK;
  *report = failed->report;
  return failed->status;
}

static moe_emu_status_t run_all(moe__emu_machine_t *machine, moe_emu_report_t *report) {
  int wanted = choose_threads(machine), count = 0;
  moe__emu_cluster_t *clusters = calloc((size_t)wanted, sizeof *clusters);
  pthread_t *threads = calloc((size_t)wanted, sizeof *threads);
  moe_emu_status_t status = MOE_EMU_OUT_OF_MEMORY;
  if (!clusters || !threads)
    goto done;
  /* With less memory or fewer threads than wanted it works too, down to one. */
  while (count < wanted && moe__emu_cluster_create(&clusters[count], machine))
    count++;
  if (count == 0)
    goto done;
  if (machine->races) {
    status = run_in_turns(machine, clusters, count, report);
    goto done;
  }
  int started = 1;
  while (started < count &&
         !pthread_create(&threads[started], NULL, run_clusters, &clusters[started]))
    started++;
  run_clusters(&clusters[0]);
  for (int i = 1; i < started; i++)
    pthread_join(threads[i], NULL);
  status = MOE_EMU_OK;
  for (int i = 0; i < started; i++) {
    if (clusters[i].status != MOE_EMU_OK &&
        clusters[i].number == atomic_load(&machine->failed_cluster)) {
      status = clusters[i].status;
      *report = clusters[i].report;
    }
  }
done:
  for (int i = 0; i < count; i++)
    moe__emu_cluster_free(&clusters[i]);
  free(clusters);
  free(threads);
  if (status == MOE_EMU_OUT_OF_MEMORY && !report->text[0])
    return fail(report, status, "out of memory");
  return status;
}

/* Whether CTAs of a kernel may learn of each other through global memory: it has a fence, an
 * access that is ordered or strong, or an atomic whose result it uses. */
static bool may_communicate(const moe__emu_kernel_t *kernel) {
  static const char *const words[] = {".volatile", ".relaxed", ".acquire", ".release", ".acq_rel"};
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    const moe__emu_instruction_t *instruction = &kernel->instructions[i];
    const char *name = instruction->name;
    bool is_shared = strstr(name, ".shared") != NULL;
    if (moe__emu_begins(name, "membar.") ||
        (moe__emu_begins(name, "fence.") && !moe__emu_begins(name, "fence.proxy") &&
         !moe__emu_begins(name, "fence.mbarrier")))
      return true;
    if (is_shared || !(moe__emu_begins(name, "ld.") || moe__emu_begins(name, "st.") ||
                       moe__emu_begins(name, "atom.") || moe__emu_begins(name, "red.")))
      continue;
    if (instruction->is_result_used)
      return true;
    for (size_t w = moe__emu_begins(name, "atom.") || moe__emu_begins(name, "red.") ? 2 : 0;
         w < sizeof words / sizeof words[0]; w++) {
      if (strstr(name, words[w]))
        return true;
    }
  }
  return false;
}

/* Makes the record of global memory where clusters may learn of each other, or all is looked at. */
static moe_emu_status_t make_races(moe__emu_machine_t *machine, moe_emu_report_t *report) {
  const moe_emu_options_t *options = &machine->options;
  uint64_t ctas = machine->cluster_count * machine->cluster_size;
  if (!options->interleave && !machine->is_second_run && !may_communicate(machine->kernel))
    return MOE_EMU_OK;
  if (machine->cluster_count >> MOE__EMU_CLUSTER_BITS)
    return fail(report, MOE_EMU_INVALID_ARGUMENT,
                "kernel '%s': %llu clusters that may communicate; the limit is %d",
                machine->kernel->name, (unsigned long long)machine->cluster_count,
                1 << MOE__EMU_CLUSTER_BITS);
  machine->races = calloc(1, sizeof *machine->races);
  if (!machine->races ||
      !moe__emu_races_create(machine->races, ctas, machine->cluster_count, options->schedule != 0,
                             options->order_bytes ? options->order_bytes : ORDER_BYTES))
    return fail(report, MOE_EMU_OUT_OF_MEMORY, "out of memory");
  return MOE_EMU_OK;
}

/* Whether a kernel has bulk copies from or to global memory. */
static bool has_bulk(const moe__emu_kernel_t *kernel) {
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    const char *name = kernel->instructions[i].name;
    if (moe__emu_begins(name, "cp.async.bulk.") && strstr(name, ".global"))
      return true;
  }
  return false;
}

static moe_emu_status_t make_global(moe__emu_machine_t *machine, const moe_emu_module_t *module,
                                    moe_emu_report_t *report) {
  moe__emu_error_t error = {""};
  moe_emu_status_t status =
      moe__emu_global_create(&machine->global, &module->module, machine->launch, &error);
  return status == MOE_EMU_OK
             ? make_races(machine, report)
             : fail(report, status, "kernel '%s': %s", machine->launch->kernel,
                    status == MOE_EMU_OUT_OF_MEMORY ? "out of memory" : error.text);
}

static moe_emu_status_t prepare(moe__emu_machine_t *machine, const moe_emu_module_t *module,
                                moe_emu_report_t *report) {
  const moe_emu_launch_t *launch = machine->launch;
  machine->kernel = moe__emu_find_kernel(&module->module, launch->kernel);
  if (!machine->kernel)
    return fail(report, MOE_EMU_INVALID_ARGUMENT, "the module has no kernel '%s'", launch->kernel);
  moe_emu_status_t status = check_cta(machine->kernel, launch, report);
  if (status == MOE_EMU_OK)
    status = check_cluster(machine->kernel, launch, &machine->cluster_size, report);
  if (status == MOE_EMU_OK)
    status = check_shared(machine->kernel, launch, &machine->shared_bytes, report);
  if (status == MOE_EMU_OK)
    status = copy_parameters(machine, report);
  if (status == MOE_EMU_OK && launch->buffer_count < 0)
    status = fail(report, MOE_EMU_INVALID_ARGUMENT, "kernel '%s': %d buffers", launch->kernel,
                  launch->buffer_count);
  if (status != MOE_EMU_OK)
    return status;
  machine->thread_count = launch->block[0] * launch->block[1] * launch->block[2];
  machine->warp_count = (machine->thread_count + MOE__EMU_LANES - 1) / MOE__EMU_LANES;
  machine->cluster_count =
      (uint64_t)launch->grid[0] / machine->cluster_size * launch->grid[1] * launch->grid[2];
  machine->has_bulk = has_bulk(machine->kernel);
  count_registers(machine);
  return make_global(machine, module, report);
}

static void free_global(moe__emu_machine_t *machine) {
  moe__emu_global_free(&machine->global);
  if (machine->races)
    moe__emu_races_free(machine->races);
  free(machine->races);
  machine->races = NULL;
}

static moe_emu_status_t run(moe__emu_machine_t *machine, moe_emu_report_t *report) {
  atomic_store(&machine->next_cluster, 0);
  atomic_store(&machine->failed_cluster, machine->cluster_count);
  return run_all(machine, report);
}

/* ---- A second run ---- */

/* Whether the launch's buffers can be put back, which only those with marks are. */
static bool may_run_twice(const moe__emu_machine_t *machine) {
  const moe__emu_global_t *global = &machine->global;
  for (uint32_t i = 0; i < global->count; i++) {
    if (global->regions[i].writable && !global->regions[i].use)
      return false;
  }
  return (machine->has_bulk || !machine->races) && !machine->options.skip_order &&
         !(machine->cluster_count >> MOE__EMU_CLUSTER_BITS);
}

/* What may be written, one region after the other; NULL when there is no memory. */
static uint8_t *save_global(const moe__emu_global_t *global) {
  size_t total = 1, at = 0;
  for (uint32_t i = 0; i < global->count; i++)
    total += global->regions[i].writable ? global->regions[i].bytes : 0;
  uint8_t *saved = malloc(total);
  for (uint32_t i = 0; saved && i < global->count; i++) {
    const moe__emu_region_t *region = &global->regions[i];
    if (!region->writable)
      continue;
    memcpy(saved + at, (const void *)(uintptr_t)region->address, region->bytes);
    at += region->bytes;
  }
  return saved;
}

static void restore_global(const moe__emu_global_t *global, const uint8_t *saved) {
  for (uint32_t i = 0; i < global->count; i++) {
    const moe__emu_region_t *region = &global->regions[i];
    if (!region->writable)
      continue;
    memcpy((void *)(uintptr_t)region->address, saved, region->bytes);
    saved += region->bytes;
  }
}

/* Runs the launch; and once more, from what was there before, where threads of a CTA have met in
 * global memory, or a bulk copy and a later write. That is seldom, and to look at every access
 * costs much. */
static moe_emu_status_t run_launch(moe__emu_machine_t *machine, const moe_emu_module_t *module,
                                   moe_emu_report_t *report) {
  bool may_repeat = may_run_twice(machine);
  uint8_t *saved = may_repeat ? save_global(&machine->global) : NULL;
  if (may_repeat && !saved)
    return fail(report, MOE_EMU_OUT_OF_MEMORY, "out of memory");
  moe_emu_status_t status = run(machine, report);
  if (status == MOE_EMU_OK && saved && atomic_load(&machine->wants_again)) {
    restore_global(&machine->global, saved);
    free_global(machine);
    machine->is_second_run = true;
    status = make_global(machine, module, report);
    if (status == MOE_EMU_OK)
      status = run(machine, report);
  }
  free(saved);
  return status;
}

moe_emu_status_t moe_emu_launch(const moe_emu_module_t *module, const moe_emu_launch_t *launch,
                                const moe_emu_options_t *options, moe_emu_report_t *out_report) {
  if (!out_report)
    return MOE_EMU_INVALID_ARGUMENT;
  out_report->text[0] = '\0';
  if (!module || !launch || !launch->kernel ||
      (!launch->parameters && launch->parameter_count > 0) ||
      (!launch->buffers && launch->buffer_count > 0))
    return fail_null(out_report, "module, launch, or its kernel, parameters or buffers");
  if (options && (options->threads < 0 || options->threads > MOE_MAX_EMULATOR_THREADS))
    return fail(out_report, MOE_EMU_INVALID_ARGUMENT, "threads is %d; it must be 0 to %d",
                options->threads, MOE_MAX_EMULATOR_THREADS);
  moe__emu_machine_t *machine = calloc(1, sizeof *machine);
  if (!machine)
    return fail(out_report, MOE_EMU_OUT_OF_MEMORY, "out of memory");
  machine->launch = launch;
  machine->cluster_size = 1;
  if (options)
    machine->options = *options;
  moe_emu_status_t status = prepare(machine, module, out_report);
  if (status == MOE_EMU_OK)
    status = run_launch(machine, module, out_report);
  if (launch->out_has_waited)
    *launch->out_has_waited = atomic_load(&machine->has_waited);
  free_global(machine);
  free(machine);
  return status;
}

/* ---- Tensor maps ---- */

moe_emu_status_t moe_emu_tensor_map_encode(const moe_emu_tensor_map_t *map,
                                           uint8_t out_bytes[MOE_EMU_TENSOR_MAP_BYTES],
                                           moe_emu_report_t *out_report) {
  if (!out_report)
    return MOE_EMU_INVALID_ARGUMENT;
  out_report->text[0] = '\0';
  if (!map || !out_bytes)
    return fail_null(out_report, "map or out_bytes");
  moe__emu_tma_map_t encoded = {
      .type = (moe__emu_tma_type_t)map->type,
      .rank = map->rank,
      .address = map->address,
      .swizzle = (moe__emu_swizzle_t)map->swizzle,
      .fill = map->fill_nan ? MOE__EMU_TMA_FILL_NAN : MOE__EMU_TMA_FILL_ZERO,
  };
  memcpy(encoded.dims, map->dims, sizeof encoded.dims);
  memcpy(encoded.strides, map->strides, sizeof encoded.strides);
  memcpy(encoded.box, map->box, sizeof encoded.box);
  moe__emu_error_t error = {""};
  if (!moe__emu_tma_encode(&encoded, out_bytes, &error))
    return fail(out_report, MOE_EMU_INVALID_ARGUMENT, "%s", error.text);
  return MOE_EMU_OK;
}
