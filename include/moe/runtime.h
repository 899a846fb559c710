/* moe/runtime.h - loads what moe-opt wrote and launches it.
 *
 * Why it exists: a bundle (manifest.json, PTX, cubin) can be launched by any CUDA runtime, but
 * checking tensors against the manifest, encoding tensor maps and sizing grids is the same work
 * everywhere. This library does it once, correctly, and depends on neither LLVM nor CUDA: the
 * driver is opened with dlopen.
 *
 * Tensors that stay where they are, step after step:
 *   moe_rt_program_load    once per bundle and device
 *   moe_rt_call_prepare    once per set of tensors: every check, every allocation, every tensor map
 *   moe_rt_call_launch     per step: no allocation, no synchronization, legal under graph capture
 *
 * Tensors that change at every step, as frameworks have them:
 *   moe_rt_program_read    once per bundle, for all devices
 *   moe_rt_call_results    what results the arguments ask for, and how much workspace
 *   moe_rt_call_run        per step: checks and launches, legal under graph capture
 *
 * Errors: every function that can fail returns a moe_rt_status_t and never aborts. The reason, in
 * words, is moe_rt_last_message() of the same thread. Output pointers are set to NULL (or zero)
 * first.
 *
 * Threads: devices and programs may be shared between threads, and moe_rt_call_run may run in
 * several threads and on several streams at once. One moe_rt_call_t may be launched
 * from several threads at once. On different streams it may only where the function has no
 * temporaries, or the status word alone: all launches of a call share its workspace. It must not be
 * destroyed while another thread uses it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_H
#define MOE_RUNTIME_H

#include "moe/export.h"

#include <dlpack/dlpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if DLPACK_MAJOR_VERSION != 1 || DLPACK_MINOR_VERSION < 3
#error "moe/runtime.h needs dlpack.h 1.3 or newer, which has DLPackExchangeAPI"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(constant, number, text). The numbers are part of the ABI. */
#define MOE_RT_STATUSES(X)                                                                         \
  X(MOE_RT_OK, 0, "ok")                                                                            \
  X(MOE_RT_INVALID_ARGUMENT, 1, "invalid argument")                                                \
  X(MOE_RT_NOT_FOUND, 2, "not found")                                                              \
  X(MOE_RT_INVALID_BUNDLE, 3, "invalid bundle")                                                    \
  X(MOE_RT_UNSUPPORTED, 4, "not supported by this device")                                         \
  X(MOE_RT_NO_DRIVER, 5, "no CUDA driver")                                                         \
  X(MOE_RT_NO_DEVICE, 6, "no such device")                                                         \
  X(MOE_RT_OUT_OF_MEMORY, 7, "out of memory")                                                      \
  X(MOE_RT_DEVICE_ERROR, 8, "device error")                                                        \
  X(MOE_RT_DEVICE_LOST, 9, "device lost to an earlier error")                                      \
  X(MOE_RT_NOT_PREPARED, 10, "not prepared")                                                       \
  X(MOE_RT_IO_ERROR, 11, "input/output error")                                                     \
  X(MOE_RT_OLD_ASSEMBLER, 12, "assembler too old")                                                 \
  X(MOE_RT_LIMIT_REACHED, 13, "limit reached")

typedef enum moe_rt_status_t {
#define MOE_RT_STATUS(constant, number, text) constant = number,
  MOE_RT_STATUSES(MOE_RT_STATUS)
#undef MOE_RT_STATUS
} moe_rt_status_t;

/* The fixed text of a status. Static storage. */
MOE_API const char *moe_rt_status_text(moe_rt_status_t status);

/* What went wrong in the last failing call of this thread: one line without a newline that names
 * the place (file, manifest path, kernel, argument), the value found and the value allowed. Valid
 * until this thread's next call. Never NULL. */
MOE_API const char *moe_rt_last_message(void);

/* "0.1.0". Static storage. */
MOE_API const char *moe_rt_version(void);

/* ---- Devices ---- */

typedef struct moe_rt_device_t moe_rt_device_t;

/* Opens a device by its name.
 *
 * "cuda" and "cuda:N": CUDA device 0 or N. It uses the device's primary context, which PyTorch and
 * CuPy use too.
 *
 * "emu" and "emu:N": the emulator of libmoe_emu, with schedule 0 or N. It runs the PTX on the CPU
 * and checks it. Its memory is this process's, DLPack device kDLCPU; a launch returns when the
 * kernel has ended.
 *
 * MOE_RT_NO_DRIVER where libcuda.so.1 cannot be loaded, MOE_RT_NO_DEVICE where N does not exist,
 * MOE_RT_INVALID_ARGUMENT for any other name. *out_device is owned by the caller; close it with
 * moe_rt_device_close. */
MOE_API moe_rt_status_t moe_rt_device_open(const char *name, moe_rt_device_t **out_device);

typedef struct moe_rt_emulator_options_t {
  uint64_t schedule;   /* 0: warps in turn; otherwise the seed of a random order of warps and of
                        asynchronous work */
  int threads;         /* CTAs at once, or clusters of them, to 1024; 0: one per processor */
  uint64_t step_limit; /* instructions that all warps of a cluster together may execute, each
                          counted once for a warp; a CTA without a cluster is one of its own; 0: no
                          limit. A launch that reaches it fails with MOE_RT_LIMIT_REACHED */
} moe_rt_emulator_options_t;

/* Opens the emulator with options. MOE_RT_INVALID_ARGUMENT for a number of threads that is not
 * allowed. */
MOE_API moe_rt_status_t moe_rt_device_open_emulator(const moe_rt_emulator_options_t *options,
                                                    moe_rt_device_t **out_device);

/* The process's own device for tensors with this DLPack device: "cuda:N" for kDLCUDA,
 * kDLCUDAManaged and number N, "emu" for kDLCPU and kDLCUDAHost, whose number does not matter.
 * Opened when first asked for, and never closed: *out_device is borrowed. MOE_RT_UNSUPPORTED for
 * any other kind, else the errors of moe_rt_device_open. */
MOE_API moe_rt_status_t moe_rt_device_shared(DLDevice place, moe_rt_device_t **out_device);

/* Gives the process's own emulator other options, for every launch that begins from now on. All
 * zeros are what it starts with. MOE_RT_INVALID_ARGUMENT as moe_rt_device_open_emulator. */
MOE_API moe_rt_status_t moe_rt_emulator_configure(const moe_rt_emulator_options_t *options);

/* Closes the device. Programs and calls made on it must be gone. NULL is allowed. */
MOE_API void moe_rt_device_close(moe_rt_device_t *device);

typedef struct moe_rt_device_info_t {
  char name[256]; /* "NVIDIA H200" */
  int ordinal;    /* N of cuda:N */
  int compute_major, compute_minor;
  int num_sms;
  int64_t l2_bytes;
  int64_t shared_memory_per_block; /* largest opt-in, bytes */
  int64_t total_memory;            /* bytes */
  int driver_version;              /* 13000 is CUDA 13.0 */
} moe_rt_device_info_t;

/* Fills *out_info. */
MOE_API moe_rt_status_t moe_rt_device_info(moe_rt_device_t *device, moe_rt_device_info_t *out_info);

/* Memory, copies and events, for tools and tests that have no CUDA runtime of their own. A stream
 * is a CUstream (NULL is the default stream). */

/* Device memory of `bytes` > 0, aligned to 256 at least. Owned by the caller. */
MOE_API moe_rt_status_t moe_rt_memory_allocate(moe_rt_device_t *device, size_t bytes,
                                               void **out_pointer);
/* NULL is allowed. */
MOE_API void moe_rt_memory_free(moe_rt_device_t *device, void *pointer);

/* Copies between host and device; done when they return. They wait for no stream but the default
 * stream: synchronize the one whose kernels use the memory first. */
MOE_API moe_rt_status_t moe_rt_memory_to_device(moe_rt_device_t *device, void *to, const void *from,
                                                size_t bytes);
MOE_API moe_rt_status_t moe_rt_memory_from_device(moe_rt_device_t *device, void *to,
                                                  const void *from, size_t bytes);

/* Sets device memory to a byte, and copies it. Asynchronous on `stream`. */
MOE_API moe_rt_status_t moe_rt_memory_fill(moe_rt_device_t *device, void *to, uint8_t byte,
                                           size_t bytes, void *stream);
MOE_API moe_rt_status_t moe_rt_memory_copy(moe_rt_device_t *device, void *to, const void *from,
                                           size_t bytes, void *stream);

/* A stream that does not wait for the default stream. Owned by the caller. */
MOE_API moe_rt_status_t moe_rt_stream_create(moe_rt_device_t *device, void **out_stream);
/* NULL is allowed. */
MOE_API void moe_rt_stream_destroy(moe_rt_device_t *device, void *stream);
/* Waits for all work on the stream. An error of a kernel shows here. */
MOE_API moe_rt_status_t moe_rt_stream_synchronize(moe_rt_device_t *device, void *stream);

/* An event with a time. Owned by the caller. */
MOE_API moe_rt_status_t moe_rt_event_create(moe_rt_device_t *device, void **out_event);
/* NULL is allowed. */
MOE_API void moe_rt_event_destroy(moe_rt_device_t *device, void *event);
/* Puts the event behind the work that is on the stream now. */
MOE_API moe_rt_status_t moe_rt_event_record(moe_rt_device_t *device, void *event, void *stream);
/* Waits for `end`, then gives the milliseconds between the two. */
MOE_API moe_rt_status_t moe_rt_event_elapsed(moe_rt_device_t *device, void *begin, void *end,
                                             float *out_milliseconds);

/* ---- Programs ---- */

typedef struct moe_rt_program_t moe_rt_program_t;

/* Reads and validates the bundle in directory `path` (docs/manifest.md), without a device. The
 * manifest is untrusted: every field is checked, artifact names may not leave the directory, and
 * sizes and hashes of the artifacts must match. MOE_RT_IO_ERROR where a file cannot be read,
 * MOE_RT_INVALID_BUNDLE where one is damaged, MOE_RT_INVALID_ARGUMENT where the path is empty.
 *
 * The program keeps the code. moe_rt_call_run loads it on the device of the tensors when it first
 * needs it there, and moe_rt_program_on does so in advance. */
MOE_API moe_rt_status_t moe_rt_program_read(const char *path, moe_rt_program_t **out_program);

/* A bundle in memory. Borrowed for the time of the call only. */
typedef struct moe_rt_bundle_t {
  const char *name;     /* stands for the path in messages; NULL: "bundle" */
  const char *manifest; /* the text of manifest.json */
  size_t manifest_bytes;
  const void *ptx; /* the file that the manifest names */
  size_t ptx_bytes;
  const void *cubin; /* NULL where the manifest names none */
  size_t cubin_bytes;
} moe_rt_bundle_t;

/* moe_rt_program_read of a bundle in memory. The same checks and errors; a cubin that the manifest
 * names and the caller does not give, or the other way round, is MOE_RT_INVALID_BUNDLE. */
MOE_API moe_rt_status_t moe_rt_program_read_memory(const moe_rt_bundle_t *bundle,
                                                   moe_rt_program_t **out_program);

/* moe_rt_program_read, then loads the code on `device`: the cubin when it fits the device, else
 * the PTX through the driver's compiler. MOE_RT_UNSUPPORTED where the device is not of the
 * bundle's target. MOE_RT_OLD_ASSEMBLER where neither the assembler of the cubin nor the
 * driver's compiler is as new as a kernel needs: the code would be wrong. The device must
 * outlive the program. */
MOE_API moe_rt_status_t moe_rt_program_load(moe_rt_device_t *device, const char *path,
                                            moe_rt_program_t **out_program);

/* moe_rt_program_load of a bundle in memory. */
MOE_API moe_rt_status_t moe_rt_program_load_memory(moe_rt_device_t *device,
                                                   const moe_rt_bundle_t *bundle,
                                                   moe_rt_program_t **out_program);

/* The program on the process's device for tensors with this DLPack device
 * (moe_rt_device_shared), loaded there if it was not. *out_loaded belongs to `program` and lives
 * as long; its functions are those of `program`. A program of moe_rt_program_load gives itself
 * where the tensors are on its device, else MOE_RT_INVALID_ARGUMENT. Errors as of
 * moe_rt_program_load.
 *
 * Loading allocates and waits. It is not legal while a stream of the device is captured, so call
 * this before a capture. */
MOE_API moe_rt_status_t moe_rt_program_on(const moe_rt_program_t *program, DLDevice place,
                                          const moe_rt_program_t **out_loaded);

/* Frees the program. Calls prepared from it must be gone, launches of moe_rt_call_run must have
 * finished. NULL is allowed. */
MOE_API void moe_rt_program_destroy(moe_rt_program_t *program);

/* ---- What a program contains (borrowed from the program, immutable) ---- */

#define MOE_RT_MAX_RANK 5

/* A dimension of a tensor in a function's signature. */
typedef struct moe_rt_dimension_t {
  int64_t size;       /* >= 0 when static; -1 when it depends on a symbol or the device */
  const char *symbol; /* the symbol when the dimension is exactly one, else NULL */
} moe_rt_dimension_t;

typedef struct moe_rt_tensor_info_t {
  const char *name;
  const char *dtype; /* MLIR's name: "bf16", "f32", "f8E4M3FN", ... */
  int dtype_bits;
  int rank;
  moe_rt_dimension_t shape[MOE_RT_MAX_RANK]; /* logical */
  int order[MOE_RT_MAX_RANK]; /* the logical dimension at memory position i, outermost first */
  int64_t alignment;          /* bytes */
  bool is_constant; /* an argument that launches may read before what is before them on the stream
                     * has ended: see moe_rt_call_launch */
} moe_rt_tensor_info_t;

/* A tensor as a launch reads it: dimension i of the operand is dimension permutation[i] of the
 * tensor, in the same memory. */
typedef struct moe_rt_operand_t {
  const char *tensor; /* name of an argument, result or temporary */
  int rank;
  int permutation[MOE_RT_MAX_RANK]; /* i for most */
} moe_rt_operand_t;

/* One launch, described so that a caller can compute the same thing by other means. */
typedef struct moe_rt_launch_info_t {
  const char *kernel;
  const char *op;              /* "mx_quantize.quantize" */
  const char *attributes_json; /* the op's attributes as a JSON object */
  int operand_count, result_count;
  const moe_rt_operand_t *operands;
  const char *const *results; /* names of results or temporaries */
  /* What the op calls its operands, then its results: "x", "offs", "q", "scales". NULL where the
   * manifest does not say. */
  const char *const *roles;
} moe_rt_launch_info_t;

typedef struct moe_rt_function_info_t {
  const char *name;
  int argument_count, result_count, temporary_count, launch_count;
  const moe_rt_tensor_info_t *arguments;
  const moe_rt_tensor_info_t *results;
  const moe_rt_tensor_info_t *temporaries; /* intermediate tensors, kept in the workspace */
  const moe_rt_launch_info_t *launches;
} moe_rt_function_info_t;

/* How many functions the program has; 0 for NULL. */
MOE_API int moe_rt_program_function_count(const moe_rt_program_t *program);
/* Function `index`; NULL where there is none. */
MOE_API const moe_rt_function_info_t *moe_rt_program_function(const moe_rt_program_t *program,
                                                              int index);

/* The function of this name, or the only function when name is NULL. MOE_RT_NOT_FOUND names those
 * there are. */
MOE_API moe_rt_status_t moe_rt_program_find(const moe_rt_program_t *program, const char *name,
                                            const moe_rt_function_info_t **out_function);

/* Binds the function's shape symbols to the shapes of its arguments and gives the shapes of its
 * results, then of its temporaries. argument_shapes[i] has the argument's rank. out_result_shapes
 * and out_temporary_shapes may be NULL. MOE_RT_INVALID_ARGUMENT where a shape does not fit: rank is
 * the caller's duty, sizes and divisibility are checked. */
MOE_API moe_rt_status_t moe_rt_function_shapes(const moe_rt_program_t *program,
                                               const moe_rt_function_info_t *function,
                                               const int64_t *const *argument_shapes,
                                               int64_t (*out_result_shapes)[MOE_RT_MAX_RANK],
                                               int64_t (*out_temporary_shapes)[MOE_RT_MAX_RANK]);

/* "cubin" or "ptx": what moe_rt_program_load gave to the driver; "none" after moe_rt_program_read.
 */
MOE_API const char *moe_rt_program_code(const moe_rt_program_t *program);

/* ---- Calls ---- */

typedef struct moe_rt_call_t moe_rt_call_t;

/* Checks the tensors against the function, allocates workspace, zeroes what must start as zero,
 * encodes tensor maps. `tensors` are the function's arguments, then its results, in order. They are
 * borrowed for the time of this call; the memory they point to must stay valid as long as the call
 * is launched.
 *
 * Each tensor is memory of the program's device and has the manifest's element type; 8-bit floats
 * may also come as uint8. Its strides are compact in the manifest's memory order (NULL: compact
 * row-major); a dimension of size 1 may have any. No result overlaps another tensor.
 *
 * A call may be launched any number of times. The program must outlive it. *out_call is owned by
 * the caller.
 *
 * MOE_RT_INVALID_ARGUMENT where a tensor does not fit, or the function is not of this program;
 * MOE_RT_NOT_PREPARED where the program is on no device; MOE_RT_OUT_OF_MEMORY; MOE_RT_DEVICE_ERROR,
 * and MOE_RT_DEVICE_LOST after one. */
MOE_API moe_rt_status_t moe_rt_call_prepare(const moe_rt_program_t *program,
                                            const moe_rt_function_info_t *function,
                                            const DLTensor *const *tensors, int tensor_count,
                                            moe_rt_call_t **out_call);

/* Launches the kernels of the call on `stream` (CUstream; NULL is the default stream), in order.
 * Asynchronous.
 *
 * Where the manifest calls the first launch programmatic it may start while what is before it on
 * the stream still runs. It waits for that before it touches anything but arguments that are
 * constant: nothing that may still run may write these. Kernels of others that are launched so
 * must wait for what is before them, too, as ours do. Where one of this is not known,
 * moe_rt_call_run_in_order is right.
 *
 * MOE_RT_NOT_PREPARED for NULL; MOE_RT_DEVICE_ERROR where the driver refuses a launch, and
 * MOE_RT_DEVICE_LOST after an error of a kernel. On the emulator errors of the kernels show here,
 * with MOE_RT_LIMIT_REACHED and MOE_RT_OUT_OF_MEMORY. */
MOE_API moe_rt_status_t moe_rt_call_launch(const moe_rt_call_t *call, void *stream);

/* What kernels found wrong with values that only the device can see. They go on with a defined
 * result (docs/manifest.md). X(constant, number, text). The numbers are part of the ABI. */
#define MOE_RT_REPORTS(X)                                                                          \
  X(MOE_RT_OFFSETS_DECREASE, 1, "an offset is below the one before it, or the first is negative")  \
  X(MOE_RT_OFFSETS_BEYOND, 2, "an offset is beyond the rows")

typedef enum moe_rt_report_t {
#define MOE_RT_REPORT(constant, number, text) constant = number,
  MOE_RT_REPORTS(MOE_RT_REPORT)
#undef MOE_RT_REPORT
} moe_rt_report_t;

/* Waits for the stream and gives what the call's launches have reported since the last time:
 * bits of moe_rt_report_t, 0 where all was well or the function reports nothing. Then clears it.
 * Not while the call is launched elsewhere; never needed for a right result, and not legal under
 * graph capture, because it waits. MOE_RT_NOT_PREPARED for a call that is NULL; MOE_RT_DEVICE_ERROR
 * or MOE_RT_DEVICE_LOST where a kernel has failed. */
MOE_API moe_rt_status_t moe_rt_call_status(const moe_rt_call_t *call, void *stream,
                                           uint32_t *out_bits);

/* Waits for the stream and looks at the temporaries that start as zero, which each launch of the
 * call must leave zero: *out_name is that of the first one that is not, NULL where all are;
 * *out_count, how many there are. Copies them from the device: for tests. Errors are those of
 * moe_rt_call_status, and MOE_RT_OUT_OF_MEMORY. */
MOE_API moe_rt_status_t moe_rt_call_check_zeroed(const moe_rt_call_t *call, void *stream,
                                                 const char **out_name, int *out_count);

/* Frees the call. Its launches must have finished. NULL is allowed. */
MOE_API void moe_rt_call_destroy(moe_rt_call_t *call);

/* ---- Calls whose tensors change at every step ---- */

/* A result that a call would write: a tensor without data. */
typedef struct moe_rt_result_t {
  DLTensor tensor; /* data is NULL; shape and strides point to the two arrays below */
  int64_t shape[MOE_RT_MAX_RANK];
  int64_t strides[MOE_RT_MAX_RANK]; /* elements; compact in the manifest's memory order */
} moe_rt_result_t;

/* Describes the results that `arguments` ask for, out_results[function->result_count], and how much
 * workspace the call takes, 0 where it takes none. Either may be NULL. The arguments are checked as
 * moe_rt_call_run checks them, but need no data. Results have the device of the first argument and
 * the element type of the manifest, 8-bit floats as DLPack's own types.
 *
 * The size of the workspace depends on the shapes and on the device. No code is loaded, so this may
 * be called while a stream is captured. */
MOE_API moe_rt_status_t moe_rt_call_results(const moe_rt_program_t *program,
                                            const moe_rt_function_info_t *function,
                                            const DLTensor *const *arguments, int argument_count,
                                            moe_rt_result_t *out_results,
                                            size_t *out_workspace_bytes);

/* Where a call has its temporaries. Either memory of the tensors' device, or a function that
 * gives some: it is called at most once by moe_rt_call_run, in the calling thread, when the size
 * is known and is not 0.
 *
 * The memory is aligned to 256 bytes, and the call's alone until its launches have ended. An
 * allocator that orders its memory by streams, such as PyTorch's, may have it back as soon as
 * moe_rt_call_run has returned. */
typedef struct moe_rt_workspace_t {
  void *data; /* NULL: ask `allocate` */
  size_t bytes;
  /* `bytes` of memory for use on `stream`; NULL where there is none left. */
  void *(*allocate)(void *context, size_t bytes, void *stream);
  void *context; /* given to `allocate` */
} moe_rt_workspace_t;

/* Checks the tensors, then launches the function's kernels on `stream` (CUstream; NULL is the
 * default stream), in order. Asynchronous on a GPU; on the emulator the results are there when
 * it returns.
 *
 * Tensors are as for moe_rt_call_prepare: the arguments, then the results. They, their shapes
 * and strides are borrowed for the time of this call; the memory they point to must stay valid
 * until the launches have ended. The first one's number decides the device, that of managed
 * memory too, which some producers leave 0; all are on one. A program without a device is loaded
 * there by the first call; MOE_RT_NOT_PREPARED where that call is made while `stream` is
 * captured.
 *
 * The workspace has at least the bytes that moe_rt_call_results gives, else
 * MOE_RT_INVALID_ARGUMENT. NULL: the runtime takes memory from the device's own stream-ordered
 * pool and gives it back behind the last launch. MOE_RT_OUT_OF_MEMORY where an allocator has
 * none.
 *
 * Nothing waits for the device, and the only things put on the stream are the kernels and, where
 * the function has temporaries that start as zero, one memset of them before the first. So each
 * call has a state of its own: calls may run on several streams at once and may be captured into
 * graphs, and a graph may be replayed while others run, as long as each has its own workspace.
 *
 * What follows from shapes and strides, and tensor maps by address, are remembered for the next
 * call with the same (the last 64 shapes of a function, and some thousand maps). Any thread may
 * call; the context that is current before is current after.
 *
 * The first launch may start early, as moe_rt_call_launch says. */
MOE_API moe_rt_status_t moe_rt_call_run(const moe_rt_program_t *program,
                                        const moe_rt_function_info_t *function,
                                        const DLTensor *const *tensors, int tensor_count,
                                        const moe_rt_workspace_t *workspace, void *stream);

/* The same, but the first launch waits for all that is before it on the stream: whatever wrote the
 * arguments, it sees them. */
MOE_API moe_rt_status_t moe_rt_call_run_in_order(const moe_rt_program_t *program,
                                                 const moe_rt_function_info_t *function,
                                                 const DLTensor *const *tensors, int tensor_count,
                                                 const moe_rt_workspace_t *workspace, void *stream);

enum { MOE_RT_MAX_OBJECTS = 32 };

/* What all calls of a function with tensors of one Python framework share. */
typedef struct moe_rt_object_call_t {
  const moe_rt_program_t *program;
  const moe_rt_function_info_t *function;
  /* The framework's own C functions, from the capsule type(tensor).__dlpack_c_exchange_api__
   * (DLPack 1.3). */
  const DLPackExchangeAPI *framework;
  bool in_order; /* as moe_rt_call_run_in_order */
} moe_rt_object_call_t;

/* moe_rt_call_run of such a call, or moe_rt_call_run_in_order. `objects` are PyObject pointers, the
 * arguments and then the results; what is behind them is not read. The framework says where the
 * tensors are and which stream of their device is current, and its allocator gives the workspace.
 *
 * The caller holds Python's global lock and keeps the objects alive. When the framework refuses
 * an object, its Python exception is set and the status is MOE_RT_INVALID_ARGUMENT, which is
 * also that of a table without views of tensors or of another major version of DLPack. Other
 * errors are those of moe_rt_call_run. */
MOE_API moe_rt_status_t moe_rt_call_run_objects(const moe_rt_object_call_t *call,
                                                void *const *objects, int object_count);

/* The same as a function of CPython with the calling convention METH_FASTCALL, for
 * PyCFunction_NewEx: Python calls it without ctypes in between. `self` is a Python integer, the
 * address of a moe_rt_object_call_t that lives as long as the function; `objects` and their count
 * are Python's. Returns a new Python integer, the status; NULL where the framework has set a
 * Python exception. Only for processes that Python runs in. */
MOE_API void *moe_rt_python_run(void *self, void *const *objects, intptr_t object_count);

/* ---- tvm-ffi ---- */

/* The functions below are for libtvm_ffi 0.1 and newer, which is neither linked nor opened: it
 * has to be in the process already, as it is when somebody asks for a function of it. A tvm-ffi
 * function of a program takes tensors (DLTensor pointers or tvm-ffi's Tensor), the arguments and
 * then the results, and returns nothing. It runs on the stream that tvm-ffi's environment has
 * for the device of the first tensor, as moe_rt_call_run_in_order does. Workspace comes from the
 * environment's allocator, or where there is none from the device's own pool. Errors are raised as
 * tvm-ffi raises them: ValueError for tensors that do not fit, else RuntimeError, with the text of
 * moe_rt_last_message. */

/* Registers a function of a program as a global function of tvm-ffi, say "my.grouped_mm", and
 * replaces one of that name. The program must live as long as the process. MOE_RT_UNSUPPORTED
 * where there is no tvm-ffi in the process. */
MOE_API moe_rt_status_t moe_rt_tvm_ffi_register(const moe_rt_program_t *program,
                                                const moe_rt_function_info_t *function,
                                                const char *name);

/* A bundle that is part of a program's own data, for code that python -m moe_opt.tvm_ffi writes. */
typedef struct moe_rt_embedded_t {
  moe_rt_bundle_t bundle;
  moe_rt_program_t *program; /* NULL; set by the first call, for the rest of the process */
} moe_rt_embedded_t;

/* Calls the function `name` of the bundle as a TVMFFISafeCallType does: `args` are num_args
 * values of type TVMFFIAny, `result` is one. 0, or -1 with an error raised. */
MOE_API int moe_rt_tvm_ffi_call_embedded(moe_rt_embedded_t *embedded, const char *name,
                                         const void *args, int32_t num_args, void *result);

/* Handlers of XLA's typed FFI, for the platforms "cpu" (the emulator) and "CUDA": they take an
 * XLA_FFI_CallFrame and give an XLA_FFI_Error, NULL where all is well, as XLA's ffi/api/c_api.h
 * declares them. The attributes `bundle`, the folder of a bundle, and `function` say what runs;
 * the arguments and results are the function's, each with the layout of its memory order. A
 * bundle is read once in the process, and the workspace comes from the device's own
 * stream-ordered pool. They run as moe_rt_call_run_in_order does. */
MOE_API void *moe_rt_xla_cpu(void *call_frame);
MOE_API void *moe_rt_xla_cuda(void *call_frame);

/* Waits for the stream and gives what runs of the function on the device of `place` have
 * reported since the last time, as moe_rt_call_status does for a call. All runs of a function on
 * a device, on whatever stream, report in one word, which is read and then cleared: not while a
 * run is under way on another stream. 0 where the program was not loaded there.
 * MOE_RT_INVALID_ARGUMENT where the function is not of this program, else the errors of
 * moe_rt_call_status. */
MOE_API moe_rt_status_t moe_rt_function_status(const moe_rt_program_t *program,
                                               const moe_rt_function_info_t *function,
                                               DLDevice place, void *stream, uint32_t *out_bits);

#ifdef __cplusplus
}
#endif

#endif /* MOE_RUNTIME_H */
