/* Backend.h - what the runtime asks of a kind of device.
 *
 * Checks, layouts and policies are the same on every device and live above this table; below it is
 * only what differs.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_BACKEND_H
#define MOE_RUNTIME_BACKEND_H

#include "lib/Runtime/Artifact.h"

#include <pthread.h>
#include <stdatomic.h>

/* A kernel parameter map as the driver wants it. 128-byte alignment serves every version of the
 * driver's header. */
typedef struct moe__rt_encoded_map_t {
  _Alignas(128) unsigned char bytes[128];
} moe__rt_encoded_map_t;

/* Memory that a launch may touch. */
typedef struct moe__rt_ready_buffer_t {
  uint64_t address, bytes;
  bool is_written;
  uint64_t used_by; /* launches of the call before this one, bit by bit */
  bool is_settled;  /* what is before the call on the stream does not write it */
  const char *name;
} moe__rt_ready_buffer_t;

/* One launch, ready. Everything it points to lives in the call. */
typedef struct moe__rt_ready_launch_t {
  const char *kernel_name;
  void *kernel; /* from load_kernel */
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_memory;
  int number;        /* in the call */
  bool programmatic; /* may start before the launch before it on the stream has ended */
  int parameter_count;
  void **parameters;               /* parameter i is the value at parameters[i] */
  const uint32_t *parameter_bytes; /* of each */
  int buffer_count;
  const moe__rt_ready_buffer_t
      *buffers; /* the tensors of its pointers and tensor maps, each once */
} moe__rt_ready_launch_t;

typedef enum moe__rt_code_kind_t {
  MOE__RT_CUBIN,
  MOE__RT_PTX,
} moe__rt_code_kind_t;

/* Functions of a kind of device. Messages of a failure begin with what was done ("cuMemAlloc ...");
 * the caller adds where. void functions cannot fail in a way that a caller could act on. */
typedef struct moe__rt_backend_t {
  void (*close)(moe_rt_device_t *device);

  /* Whether a tensor with this DLPack device lives where the device's kernels can reach it. */
  bool (*owns)(const moe_rt_device_t *device, DLDevice place);

  moe_rt_status_t (*allocate)(moe_rt_device_t *device, size_t bytes, void **out_pointer);
  void (*free)(moe_rt_device_t *device, void *pointer);
  moe_rt_status_t (*to_device)(moe_rt_device_t *device, void *to, const void *from, size_t bytes);
  moe_rt_status_t (*from_device)(moe_rt_device_t *device, void *to, const void *from, size_t bytes);
  moe_rt_status_t (*fill)(moe_rt_device_t *device, void *to, uint8_t byte, size_t bytes,
                          void *stream);
  moe_rt_status_t (*copy)(moe_rt_device_t *device, void *to, const void *from, size_t bytes,
                          void *stream);

  /* Memory for use on a stream, taken and given back in the stream's order. */
  moe_rt_status_t (*allocate_on)(moe_rt_device_t *device, size_t bytes, void *stream,
                                 void **out_pointer);
  moe_rt_status_t (*free_on)(moe_rt_device_t *device, void *pointer, void *stream);

  moe_rt_status_t (*stream_create)(moe_rt_device_t *device, void **out_stream);
  void (*stream_destroy)(moe_rt_device_t *device, void *stream);
  moe_rt_status_t (*stream_synchronize)(moe_rt_device_t *device, void *stream);
  /* Whether what is put on the stream goes into a graph instead of being done. */
  moe_rt_status_t (*stream_is_capturing)(moe_rt_device_t *device, void *stream,
                                         bool *out_capturing);
  moe_rt_status_t (*event_create)(moe_rt_device_t *device, void **out_event);
  void (*event_destroy)(moe_rt_device_t *device, void *event);
  moe_rt_status_t (*event_record)(moe_rt_device_t *device, void *event, void *stream);
  moe_rt_status_t (*event_elapsed)(moe_rt_device_t *device, void *begin, void *end,
                                   float *out_milliseconds);

  /* Loads checked code, which need not outlive the call. MOE_RT_UNSUPPORTED where the device does
   * not take this code: the caller then tries the other kind. */
  moe_rt_status_t (*load_code)(moe_rt_device_t *device, moe__rt_code_kind_t kind,
                               const moe__rt_bytes_t *bytes, void **out_code);
  void (*unload_code)(moe_rt_device_t *device, void *code);

  /* Finds a kernel and sets all of its attributes; after this a launch needs nothing but its
   * parameters. */
  moe_rt_status_t (*load_kernel)(moe_rt_device_t *device, void *code,
                                 const moe__rt_kernel_t *kernel, void **out_kernel);

  /* How many clusters of a kernel that has some the device holds at once. */
  moe_rt_status_t (*count_clusters)(moe_rt_device_t *device, const moe__rt_kernel_t *kernel,
                                    void *loaded, int64_t *out_count);

  /* Encodes a map that passed moe__rt_tensor_map_check. */
  moe_rt_status_t (*encode_map)(moe_rt_device_t *device, const moe__rt_tensor_map_t *map,
                                moe__rt_encoded_map_t *out_encoded);

  /* Called from any thread. On a GPU it allocates nothing, waits for nothing, takes no lock. */
  moe_rt_status_t (*launch)(moe_rt_device_t *device, const moe__rt_ready_launch_t *launch,
                            void *stream);
} moe__rt_backend_t;

/* The part of a device that every kind has. A backend puts it first in a struct of its own. */
struct moe_rt_device_t {
  const moe__rt_backend_t *backend;
  moe_rt_device_info_t info;
  char name[32]; /* "cuda:0" */

  struct moe__rt_map_cache_t *maps; /* of runs */

  /* Set once, by the first error that leaves the device unusable. */
  atomic_bool lost;
  pthread_mutex_t lost_mutex;
  char lost_message[512];
};

/* Sets up the common part. A device whose `maps` stay NULL, for want of memory, remembers none. */
void moe__rt_device_init(moe_rt_device_t *device, const moe__rt_backend_t *backend,
                         const char *kind, int ordinal);

/* Takes down the common part. */
void moe__rt_device_fini(moe_rt_device_t *device);

/* Marks the device as lost, for the reason in the thread's message, and returns MOE_RT_DEVICE_LOST.
 * The first reason stays. */
moe_rt_status_t moe__rt_device_lose(moe_rt_device_t *device);

/* MOE_RT_DEVICE_LOST, with the first reason, when the device is lost. */
moe_rt_status_t moe__rt_device_check(moe_rt_device_t *device);

/* Waits for the stream, reads a status word in memory of the device, and zeroes it where it is not.
 * `word` may be NULL: then only waits. */
moe_rt_status_t moe__rt_device_take_status(moe_rt_device_t *device, void *word, void *stream,
                                           uint32_t *out_bits);

/* Opens CUDA device `ordinal` (Cuda.c). */
moe_rt_status_t moe__rt_cuda_open(int ordinal, moe_rt_device_t **out_device);

/* Opens the emulator (Emulator.c). */
moe_rt_status_t moe__rt_emulator_open(const moe_rt_emulator_options_t *options,
                                      moe_rt_device_t **out_device);

/* Gives an emulator other options; other threads may launch on it. */
void moe__rt_emulator_configure(moe_rt_device_t *device, const moe_rt_emulator_options_t *options);

#endif /* MOE_RUNTIME_BACKEND_H */
