/* TvmFfi.c - functions of programs as functions of tvm-ffi.
 *
 * Why it exists: who speaks tvm-ffi needs no other binding, and no framework is linked for it.
 * The few parts of its ABI that are needed are declared here; test/python/tvm_ffi_test.py runs
 * them against the library.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/ManagedPool.h"
#include "moe/limits.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- The ABI of libtvm_ffi ---- */

enum { TYPE_NONE = 0, TYPE_DLTENSOR = 7, TYPE_TENSOR = 70 };

/* TVMFFIAny */
typedef struct any_t {
  int32_t type;
  uint32_t padding;
  union {
    int64_t integer;
    void *pointer;
  } value;
} any_t;

/* TVMFFIObject; a Tensor has its DLTensor behind it. */
typedef struct object_t {
  uint64_t references;
  int32_t type;
  uint32_t padding;
  void (*deleter)(void *self, int flags);
} object_t;

/* TVMFFIByteArray */
typedef struct byte_array_t {
  const char *data;
  size_t size;
} byte_array_t;

typedef int (*safe_call_t)(void *self, const any_t *args, int32_t count, any_t *result);

typedef struct library_t {
  void (*TVMFFIErrorSetRaisedFromCStr)(const char *kind, const char *message);
  void *(*TVMFFIEnvGetStream)(int32_t device_type, int32_t device_id);
  DLPackManagedTensorAllocator (*TVMFFIEnvGetDLPackManagedTensorAllocator)(void);
  int (*TVMFFIFunctionCreate)(void *self, safe_call_t call, void (*deleter)(void *self),
                              void **out_function);
  int (*TVMFFIFunctionSetGlobal)(const byte_array_t *name, void *function, int override);
  int (*TVMFFIObjectDecRef)(void *object);
} library_t;

static library_t library;
static bool is_found;

static void find_library(void) {
  /* It may be there without giving its symbols to everybody. Never closed. */
  void *handle = dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD);
  struct {
    const char *name;
    void *to;
  } symbols[] = {
#define SYMBOL(name) {#name, &library.name}
      SYMBOL(TVMFFIErrorSetRaisedFromCStr),
      SYMBOL(TVMFFIEnvGetStream),
      SYMBOL(TVMFFIEnvGetDLPackManagedTensorAllocator),
      SYMBOL(TVMFFIFunctionCreate),
      SYMBOL(TVMFFIFunctionSetGlobal),
      SYMBOL(TVMFFIObjectDecRef),
#undef SYMBOL
  };
  is_found = true;
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *address = dlsym(handle ? handle : RTLD_DEFAULT, symbols[i].name);
    memcpy(symbols[i].to, &address, sizeof address);
    is_found &= address != NULL;
  }
}

/* The library in this process; looked for again until it is there. */
static moe_rt_status_t open_library(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static _Atomic(bool) is_open;
  if (is_open)
    return MOE_RT_OK;
  pthread_mutex_lock(&mutex);
  if (!is_open) {
    find_library();
    is_open = is_found;
  }
  pthread_mutex_unlock(&mutex);
  return is_open ? MOE_RT_OK
                 : moe__rt_fail(MOE_RT_UNSUPPORTED,
                                "there is no libtvm_ffi.so of version 0.1 or newer in the process");
}

/* ---- Calling ---- */

static moe_rt_status_t take_tensors(const moe_rt_function_info_t *function, const any_t *args,
                                    int32_t count, const DLTensor **out_tensors) {
  if (count != function->argument_count + function->result_count) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "function '%s': got %d tensors; it takes %d arguments and %d results",
                        function->name, (int)count, function->argument_count,
                        function->result_count);
  }
  for (int32_t i = 0; i < count; i++) {
    if (args[i].type == TYPE_DLTENSOR) {
      out_tensors[i] = args[i].value.pointer;
    } else if (args[i].type == TYPE_TENSOR) {
      out_tensors[i] = (const DLTensor *)((const object_t *)args[i].value.pointer + 1);
    } else {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                          "function '%s': value %d is no tensor; its type is %d of tvm-ffi",
                          function->name, (int)i, (int)args[i].type);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t call(const moe_rt_program_t *program, const moe_rt_function_info_t *function,
                            const any_t *args, int32_t count, any_t *result) {
  const DLTensor *tensors[MOE_MAX_TENSORS] = {NULL};
  *result = (any_t){.type = TYPE_NONE};
  MOE__RT_TRY(take_tensors(function, args, count, tensors));
  DLDevice device = count > 0 && tensors[0] ? tensors[0]->device : (DLDevice){kDLCPU, 0};
  moe__rt_managed_pool_t pool = {.allocator = library.TVMFFIEnvGetDLPackManagedTensorAllocator(),
                                 .device = device,
                                 .in_order = true};
  void *stream = device.device_type == kDLCPU
                     ? NULL
                     : library.TVMFFIEnvGetStream((int32_t)device.device_type, device.device_id);
  return moe__rt_managed_pool_run(&pool, program, function, tensors, count, stream);
}

/* Raises the thread's message where there is something to raise. */
static int raise(moe_rt_status_t status) {
  if (status == MOE_RT_OK)
    return 0;
  library.TVMFFIErrorSetRaisedFromCStr(
      status == MOE_RT_INVALID_ARGUMENT ? "ValueError" : "RuntimeError", moe_rt_last_message());
  return -1;
}

/* ---- Global functions ---- */

typedef struct registered_t {
  const moe_rt_program_t *program;
  const moe_rt_function_info_t *function;
} registered_t;

static int call_registered(void *self, const any_t *args, int32_t count, any_t *result) {
  const registered_t *registered = self;
  return raise(call(registered->program, registered->function, args, count, result));
}

moe_rt_status_t moe_rt_tvm_ffi_register(const moe_rt_program_t *program,
                                        const moe_rt_function_info_t *function, const char *name) {
  if (!program || !function || !name)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: program, function or name is NULL", __func__);
  MOE__RT_TRY(open_library());
  registered_t *self = malloc(sizeof *self);
  if (!self)
    return moe__rt_fail_memory();
  *self = (registered_t){program, function};
  void *object = NULL;
  if (library.TVMFFIFunctionCreate(self, call_registered, free, &object) != 0) {
    free(self);
    return moe__rt_fail(MOE_RT_UNSUPPORTED, "tvm-ffi made no function for '%s'", name);
  }
  byte_array_t text = {name, strlen(name)};
  int refused = library.TVMFFIFunctionSetGlobal(&text, object, true);
  library.TVMFFIObjectDecRef(object);
  return refused ? moe__rt_fail(MOE_RT_UNSUPPORTED, "tvm-ffi registered no function '%s'", name)
                 : MOE_RT_OK;
}

/* ---- Bundles in a library of their own ---- */

static moe_rt_status_t open_embedded(moe_rt_embedded_t *embedded,
                                     const moe_rt_program_t **out_program) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  *out_program = __atomic_load_n(&embedded->program, __ATOMIC_ACQUIRE);
  if (*out_program)
    return MOE_RT_OK;
  moe_rt_status_t status = MOE_RT_OK;
  pthread_mutex_lock(&mutex);
  if (!embedded->program) {
    moe_rt_program_t *program = NULL;
    status = moe_rt_program_read_memory(&embedded->bundle, &program);
    __atomic_store_n(&embedded->program, program, __ATOMIC_RELEASE);
  }
  *out_program = embedded->program;
  pthread_mutex_unlock(&mutex);
  return status;
}

static moe_rt_status_t call_embedded(moe_rt_embedded_t *embedded, const char *name,
                                     const any_t *args, int32_t count, any_t *result) {
  const moe_rt_program_t *program = NULL;
  const moe_rt_function_info_t *function = NULL;
  MOE__RT_TRY(open_embedded(embedded, &program));
  MOE__RT_TRY(moe_rt_program_find(program, name, &function));
  return call(program, function, args, count, result);
}

int moe_rt_tvm_ffi_call_embedded(moe_rt_embedded_t *embedded, const char *name, const void *args,
                                 int32_t num_args, void *result) {
  if (open_library() != MOE_RT_OK)
    return -1; /* there is nobody to tell why */
  return raise(call_embedded(embedded, name, args, num_args, result));
}
