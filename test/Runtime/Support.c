/* Support.c - bundles made to measure, for the tests of the runtime.
 *
 * Setup that fails ends the test program: no test may pass because its bundle was not written.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/Support.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <dirent.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void require(bool condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "test setup: %s\n", what);
  exit(1);
}

/* ---- Files and JSON ---- */

char *read_text(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  require(file != NULL, path);
  fseek(file, 0, SEEK_END);
  *out_size = (size_t)ftell(file);
  rewind(file);
  char *text = calloc(1, *out_size + 1);
  require(text && fread(text, 1, *out_size, file) == *out_size, path);
  fclose(file);
  return text;
}

json_t *read_json(const char *path) {
  json_error_t error;
  json_t *json = json_load_file(path, 0, &error);
  require(json != NULL, path);
  return json;
}

static json_t *child(json_t *value, const json_t *key) {
  return json_is_string(key) ? json_object_get(value, json_string_value(key))
                             : json_array_get(value, (size_t)json_integer_value(key));
}

json_t *json_at(json_t *root, json_t *path, int up) {
  json_t *value = root;
  for (size_t i = 0; i + (size_t)up < json_array_size(path); i++)
    value = child(value, json_array_get(path, i));
  return value;
}

void json_damage(json_t *root, json_t *path, json_t *value) {
  json_t *parent = json_at(root, path, 1);
  const json_t *key = json_array_get(path, json_array_size(path) - 1);
  require(parent && child(parent, key), "a damage is to something that is not there");
  if (json_is_string(key) && value)
    json_object_set(parent, json_string_value(key), value);
  else if (json_is_string(key))
    json_object_del(parent, json_string_value(key));
  else if (value)
    json_array_set(parent, (size_t)json_integer_value(key), value);
  else
    json_array_remove(parent, (size_t)json_integer_value(key));
}

char *folder_make(void) {
  char *folder = strdup("/tmp/moe_rt_test_XXXXXX");
  require(folder && mkdtemp(folder), "mkdtemp");
  return folder;
}

void folder_remove(char *folder) {
  DIR *directory = opendir(folder);
  for (struct dirent *entry = NULL; directory && (entry = readdir(directory));) {
    if (entry->d_name[0] != '.')
      unlinkat(dirfd(directory), entry->d_name, 0);
  }
  if (directory)
    closedir(directory);
  rmdir(folder);
  free(folder);
}

void file_write(const char *folder, const char *name, const void *data, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0, path);
}

static void set_artifact(json_t *artifact, const void *data, size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
  char hash[33];
  for (int i = 0; i < 16; i++)
    snprintf(hash + 2 * i, 3, "%02x", canonical.digest[i]);
  json_object_set_new(artifact, "bytes", json_integer((json_int_t)size));
  json_object_set_new(artifact, "xxh3_128", json_string(hash));
}

void bundle_write(const char *folder, json_t *manifest, const char *ptx, const void *cubin,
                  size_t cubin_size) {
  json_t *artifacts = json_object_get(manifest, "artifacts");
  set_artifact(json_object_get(artifacts, "ptx"), ptx, strlen(ptx));
  file_write(folder, "kernels.ptx", ptx, strlen(ptx));
  if (cubin) {
    set_artifact(json_object_get(artifacts, "cubin"), cubin, cubin_size);
    file_write(folder, "kernels.cubin", cubin, cubin_size);
  } else {
    json_object_del(artifacts, "cubin");
  }
  char *text = json_dumps(manifest, JSON_INDENT(1));
  require(text != NULL, "json_dumps");
  file_write(folder, "manifest.json", text, strlen(text));
  free(text);
}

const void *empty_cubin(size_t *out_size) {
  static struct {
    Elf64_Ehdr header;
    Elf64_Shdr sections[2];
    Elf64_Phdr segment;
    char names[16];
  } file;
  file.header = (Elf64_Ehdr){
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
      .e_type = ET_EXEC,
      .e_machine = 190,
      .e_version = EV_CURRENT,
      .e_ehsize = sizeof file.header,
      .e_shoff = sizeof file.header,
      .e_shentsize = sizeof file.sections[0],
      .e_shnum = 2,
      .e_shstrndx = 1,
      .e_phoff = sizeof file.header + sizeof file.sections,
      .e_phentsize = sizeof file.segment,
      .e_phnum = 1,
  };
  file.sections[1] = (Elf64_Shdr){
      .sh_name = 1,
      .sh_type = SHT_STRTAB,
      .sh_offset = sizeof file - sizeof file.names,
      .sh_size = sizeof file.names,
  };
  file.segment = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof file};
  memcpy(file.names, "\0.shstrtab", 10);
  *out_size = sizeof file;
  return &file;
}
