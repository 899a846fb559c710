/* launch_from_manifest.c - launches a function of a bundle with its manifest, jansson and the CUDA
 * driver alone, as docs/manifest.md says. It trusts the bundle; that page says what to check.
 *
 *   cc launch_from_manifest.c -I/usr/local/cuda/include -ljansson -lcuda -o launch_from_manifest
 *   ./launch_from_manifest bundle quantize_expert_weights w=2x128x256=w.raw > q_and_s.raw
 *
 * Arguments are NAME=SHAPE=FILE; files and stdout hold tensors as they lie in memory.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <cuda.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of shape symbols, "num_sms" and "num_clusters"; device addresses of tensors. */
static json_t *symbols, *memory;
static void require(int ok, const char *what) {
  if (!ok && fprintf(stderr, "launch_from_manifest: %s\n", what))
    exit(1);
}
#define get json_object_get
#define item json_array_get
#define count json_array_size
#define text(object, key) json_string_value(get(object, key))
#define address(tensor) ((CUdeviceptr)json_integer_value(get(memory, tensor)))
#define CHECK(call) require((call) == CUDA_SUCCESS, #call)
/* 0 for "none", 1 to 3 for three words such as "64B", "128B", "256B": CUDA's order. */
#define LEVEL(word, first) (atoi(word) / first - (atoi(word) / first == 4))

static json_t *find(const json_t *list, const char *name) {
  size_t i = 0;
  while (i < count(list) && strcmp(text(item(list, i), "name"), name) != 0)
    i++;
  require(i < count(list), name);
  return item(list, i);
}

static int64_t evaluate(json_t *expression) {
  if (json_is_string(expression))
    expression = get(symbols, json_string_value(expression));
  if (!json_is_object(expression))
    return json_integer_value(expression);
  const char *operation = json_object_iter_key(json_object_iter(expression));
  const json_t *operands = get(expression, operation);
  int64_t value = evaluate(item(operands, 0));
  for (size_t i = 1; i < count(operands); i++) {
    int64_t next = evaluate(item(operands, i));
    value = !strcmp(operation, "mul")   ? value * next
            : !strcmp(operation, "add") ? value + next
            : *operation == 'm'         ? (next < value ? next : value) /* min */
                                        : (value + next - 1) / next;            /* ceildiv */
  }
  return value;
}

static char *read_file(const char *folder, const char *name, size_t *out_size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", *name == '/' ? "" : folder, name);
  FILE *file = fopen(path, "rb");
  require(file && !fseek(file, 0, SEEK_END), path);
  *out_size = (size_t)ftell(file);
  char *data = calloc(*out_size + 1, 1); /* PTX ends with a zero */
  rewind(file);
  require(data && fread(data, 1, *out_size, file) == *out_size && !fclose(file), path);
  return data;
}

/* Gives each tensor of a list memory; a tensor without elements needs none. */
static void allocate(const json_t *tensors) {
  for (size_t i = 0; i < count(tensors); i++) {
    json_t *tensor = item(tensors, i), *shape = get(tensor, "shape");
    const char *dtype = text(tensor, "dtype"), *initial = text(tensor, "initial");
    size_t bytes = strstr(dtype, "32") ? 4 : strstr(dtype, "16") ? 2 : 1;
    CUdeviceptr pointer = 0;
    for (size_t d = 0; d < count(shape); d++)
      bytes *= (size_t)evaluate(item(shape, d));
    if (bytes)
      CHECK(cuMemAlloc(&pointer, bytes));
    if (initial && !strcmp(initial, "zero"))
      CHECK(cuMemsetD8Async(pointer, 0, bytes, NULL));
    json_object_set_new(tensor, "bytes", json_integer((json_int_t)bytes));
    json_object_set_new(memory, text(tensor, "name"), json_integer((json_int_t)pointer));
  }
}

/* Binds the symbols in the shape of the argument NAME=SHAPE=FILE, and puts zeros for both '='. */
static void bind(const json_t *function, char *given) {
  char *at = given + strcspn(given, "=");
  *at = '\0';
  const json_t *shape = get(find(get(function, "arguments"), given), "shape");
  for (size_t d = 0; d < count(shape); d++) {
    json_int_t size = strtoll(at + 1, &at, 10); /* behind '=' or 'x' */
    if (json_is_string(item(shape, d)))
      json_object_set_new(symbols, json_string_value(item(shape, d)), json_integer(size));
  }
  *at = '\0';
}

static void encode(const json_t *map, CUtensorMap *out) {
  char element = *text(map, "element"); /* u8, bf16, f32 */
  CUtensorMapDataType type = element == 'u'   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                             : element == 'b' ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  cuuint64_t dims[5], strides[5];
  cuuint32_t box[5], steps[5] = {1, 1, 1, 1, 1}, rank = (cuuint32_t)count(get(map, "dims"));
  for (cuuint32_t i = 0; i < rank; i++) {
    dims[i] = (cuuint64_t)evaluate(item(get(map, "dims"), i));
    strides[i] = (cuuint64_t)evaluate(item(get(map, "strides"), i)); /* one less: then 0 */
    box[i] = (cuuint32_t)evaluate(item(get(map, "box"), i));
  }
  CHECK(cuTensorMapEncodeTiled(out, type, rank, (void *)address(text(map, "tensor")), dims, strides,
                               box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                               (CUtensorMapSwizzle)LEVEL(text(map, "swizzle"), 32),
                               (CUtensorMapL2promotion)LEVEL(text(map, "l2_promotion"), 64),
                               (CUtensorMapFloatOOBfill)!strcmp(text(map, "fill"), "nan")));
}

/* Evaluates a size in x, y and z, which follow each other in the driver's structs. */
static int extent(const json_t *object, const char *key, unsigned *out) {
  for (size_t d = 0; d < 3; d++)
    out[d] = (unsigned)evaluate(item(get(object, key), d));
  return out[0] && out[1] && out[2];
}

static void launch(const json_t *kernel, CUlibrary library, const json_t *launch) {
  static CUtensorMap maps[512]; /* parameters are at most 4096 bytes */
  static void *parameters[512];
  static uint64_t values[512];
  CUkernel function;
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  int clusters = 0, shared = (int)json_integer_value(get(kernel, "shared_memory"));
  CUlaunchConfig config = {.attrs = &attribute, .sharedMemBytes = (unsigned)shared};
  unsigned *cluster = &attribute.value.clusterDim.x;
  CHECK(cuLibraryGetKernel(&function, library, text(kernel, "name")));
  CHECK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared, function, 0));
  extent(kernel, "block", &config.blockDimX);
  extent(kernel, "cluster", cluster);
  extent(kernel, "cluster", &config.gridDimX);
  if ((config.numAttrs = cluster[0] * cluster[1] * cluster[2] > 1))
    CHECK(cuOccupancyMaxActiveClusters(&clusters, (CUfunction)function, &config));
  json_object_set_new(symbols, "num_clusters", json_integer(clusters > 1 ? clusters : 1));
  if (!extent(launch, "grid", &config.gridDimX))
    return; /* nothing to launch */
  for (size_t i = 0; i < count(get(launch, "parameters")); i++) {
    const json_t *p = item(get(launch, "parameters"), i);
    const char kind = *text(p, "kind"); /* tensor_map, pointer, scalar */
    parameters[i] = kind == 't' ? (void *)&maps[i] : (void *)&values[i];
    if (kind == 't')
      encode(p, &maps[i]);
    else /* of an i32, the driver reads the first four bytes */
      values[i] = kind == 'p' ? address(text(p, "tensor")) : (uint64_t)evaluate(get(p, "value"));
  }
  CHECK(cuLaunchKernelEx(&config, (CUfunction)function, parameters, NULL));
}

int main(int argc, char **argv) {
  CUcontext context;
  CUlibrary library;
  int sms = 0, loaded = 0;
  size_t size;
  require(argc > 2, "usage: BUNDLE FUNCTION NAME=SHAPE=FILE ...");
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  json_t *manifest = json_loads(read_file(argv[1], "manifest.json", &size), 0, NULL);
  for (int i = 0; i < 2 && !loaded; i++) { /* the cubin first */
    const json_t *code = get(get(manifest, "artifacts"), i ? "ptx" : "cubin");
    loaded = code && !cuLibraryLoadData(&library, read_file(argv[1], text(code, "file"), &size),
                                        NULL, NULL, 0, NULL, NULL, 0);
  }
  require(loaded, "the driver takes neither cubin nor PTX");
  const json_t *function = find(get(manifest, "functions"), argv[2]);
  symbols = json_pack("{si}", "num_sms", sms);
  memory = json_object();
  for (int i = 3; i < argc; i++)
    bind(function, argv[i]);
  allocate(get(function, "arguments"));
  allocate(get(function, "results"));
  allocate(get(function, "temporaries"));
  for (int i = 3; i < argc; i++) { /* NAME, SHAPE and FILE, each with its zero */
    const char *shape = argv[i] + strlen(argv[i]) + 1;
    void *data = read_file(".", shape + strlen(shape) + 1, &size);
    CHECK(cuMemcpyHtoD(address(argv[i]), data, size));
  }
  for (size_t i = 0; i < count(get(function, "launches")); i++) {
    const json_t *one = item(get(function, "launches"), i);
    launch(find(get(manifest, "kernels"), text(one, "kernel")), library, one);
  }
  CHECK(cuStreamSynchronize(NULL));
  for (size_t i = 0; i < count(get(function, "results")); i++) {
    json_t *result = item(get(function, "results"), i);
    size = (size_t)json_integer_value(get(result, "bytes"));
    void *data = malloc(size + 1);
    CHECK(cuMemcpyDtoH(data, address(text(result, "name")), size));
    require(fwrite(data, 1, size, stdout) == size, "stdout cannot be written");
  }
  return 0;
}
