/* Artifact.c - reads and checks the files of a bundle.
 *
 * A half-copied or edited file must end in a sentence, not in the driver's memory.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Artifact.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files ---- */

static moe_rt_status_t read_whole(int file, const char *path, int64_t limit,
                                  moe__rt_bytes_t *out_bytes) {
  struct stat status;
  if (fstat(file, &status) != 0)
    return moe__rt_fail(MOE_RT_IO_ERROR, "%s: %s", path, strerror(errno));
  if (!S_ISREG(status.st_mode))
    return moe__rt_fail(MOE_RT_IO_ERROR, "%s: is not a regular file", path);
  if (status.st_size > limit) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "%s: has %lld bytes; the limit is %lld", path,
                        (long long)status.st_size, (long long)limit);
  }
  size_t size = (size_t)status.st_size;
  char *data = malloc(size + 1);
  if (!data)
    return moe__rt_fail_memory();
  size_t done = 0;
  while (done < size) {
    ssize_t got = read(file, data + done, size - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      const char *reason = got < 0 ? strerror(errno) : "became shorter while it was read";
      free(data);
      return moe__rt_fail(MOE_RT_IO_ERROR, "%s: %s", path, reason);
    }
    done += (size_t)got;
  }
  data[size] = '\0';
  *out_bytes = (moe__rt_bytes_t){data, size};
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_file_read(const char *directory, const char *name, int64_t limit,
                                  moe__rt_bytes_t *out_bytes) {
  *out_bytes = (moe__rt_bytes_t){0};
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/%s", directory, name);
  if (length < 0 || length >= (int)sizeof path)
    return moe__rt_fail(MOE_RT_IO_ERROR, "%.64s...: %s", directory, strerror(ENAMETOOLONG));
  /* O_NONBLOCK: a pipe in the place of the file must not hang the caller. */
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return moe__rt_fail(MOE_RT_IO_ERROR, "%s: %s", path, strerror(errno));
  moe_rt_status_t status = read_whole(file, path, limit, out_bytes);
  close(file);
  return status;
}

moe_rt_status_t moe__rt_artifact_check(const moe__rt_artifact_t *artifact,
                                       const moe__rt_bytes_t *bytes) {
  if ((int64_t)bytes->size != artifact->bytes) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "has %zu bytes; the manifest says %lld", bytes->size,
                        (long long)artifact->bytes);
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes->data, bytes->size));
  char hash[2 * sizeof canonical.digest + 1];
  for (size_t i = 0; i < sizeof canonical.digest; i++)
    snprintf(hash + 2 * i, 3, "%02x", canonical.digest[i]);
  if (strcmp(hash, artifact->hash) != 0) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "has the hash %s; the manifest says %s", hash,
                        artifact->hash);
  }
  return MOE_RT_OK;
}

/* ---- Cubin ---- */

/* Whether `count` entries of `size` bytes at `offset` lie inside a file of `total` bytes. */
static bool inside(uint64_t offset, uint64_t count, uint64_t size, uint64_t total) {
  uint64_t bytes = 0;
  uint64_t end = 0;
  return !__builtin_mul_overflow(count, size, &bytes) &&
         !__builtin_add_overflow(offset, bytes, &end) && end <= total;
}

static moe_rt_status_t check_sections(const moe__rt_bytes_t *bytes, const Elf64_Ehdr *header) {
  if (header->e_shnum == 0 || header->e_shentsize != sizeof(Elf64_Shdr) ||
      !inside(header->e_shoff, header->e_shnum, sizeof(Elf64_Shdr), bytes->size))
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE,
                        "the section table reaches past the end of the file");
  if (header->e_shstrndx >= header->e_shnum)
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "the section of names does not exist");
  for (size_t i = 0; i < header->e_shnum; i++) {
    Elf64_Shdr section;
    memcpy(&section, bytes->data + header->e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS)
      continue;
    if (!inside(section.sh_offset, 1, section.sh_size, bytes->size))
      return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "section %zu reaches past the end of the file", i);
    bool is_strings = section.sh_type == SHT_STRTAB && section.sh_size > 0;
    if (is_strings && bytes->data[section.sh_offset + section.sh_size - 1] != '\0')
      return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "section %zu of strings does not end", i);
  }
  return MOE_RT_OK;
}

static moe_rt_status_t check_segments(const moe__rt_bytes_t *bytes, const Elf64_Ehdr *header) {
  if (header->e_phnum == 0)
    return MOE_RT_OK;
  if (header->e_phentsize != sizeof(Elf64_Phdr) ||
      !inside(header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr), bytes->size))
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE,
                        "the segment table reaches past the end of the file");
  for (size_t i = 0; i < header->e_phnum; i++) {
    Elf64_Phdr segment;
    memcpy(&segment, bytes->data + header->e_phoff + i * sizeof segment, sizeof segment);
    if (!inside(segment.p_offset, 1, segment.p_filesz, bytes->size))
      return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "segment %zu reaches past the end of the file", i);
  }
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_cubin_check(const moe__rt_bytes_t *bytes) {
  enum { MACHINE_CUDA = 190 };
  Elf64_Ehdr header;
  if (bytes->size < sizeof header || memcmp(bytes->data, ELFMAG, SELFMAG) != 0)
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "is not an ELF file");
  memcpy(&header, bytes->data, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != MACHINE_CUDA)
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "is an ELF file, but not one of CUDA");
  MOE__RT_TRY(check_sections(bytes, &header));
  return check_segments(bytes, &header);
}

/* ---- PTX ---- */

/* The first character at or after `text` that is neither space nor comment. */
static const char *skip_space(const char *text) {
  for (;;) {
    text += strspn(text, " \t\r\n");
    if (strncmp(text, "//", 2) == 0) {
      text += strcspn(text, "\n");
    } else if (strncmp(text, "/*", 2) == 0) {
      const char *end = strstr(text + 2, "*/");
      text = end ? end + 2 : text + strlen(text);
    } else {
      return text;
    }
  }
}

/* Takes "DIRECTIVE VALUE" from *text; VALUE must be `value`, up to a comma or white space. */
static moe_rt_status_t take_directive(const char **text, const char *directive, const char *value) {
  *text = skip_space(*text);
  size_t length = strlen(directive);
  if (strncmp(*text, directive, length) != 0 || !strchr(" \t", (*text)[length]))
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "has no %s where it must be", directive);
  *text = skip_space(*text + length);
  size_t size = strcspn(*text, " \t\r\n,/");
  if (size != strlen(value) || strncmp(*text, value, size) != 0) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "has %s %.*s; the manifest says %s", directive,
                        size > 32 ? 32 : (int)size, *text, value);
  }
  *text += size;
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_ptx_check(const moe__rt_bytes_t *bytes, const char *isa,
                                  const char *target) {
  for (size_t i = 0; i < bytes->size; i++) {
    unsigned char c = (unsigned char)bytes->data[i];
    if ((c < 0x20 && !strchr("\t\r\n", c)) || c == 0x7f || c == 0)
      return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "is not text: byte %zu is 0x%02x", i, c);
  }
  const char *text = bytes->data;
  MOE__RT_TRY(take_directive(&text, ".version", isa));
  return take_directive(&text, ".target", target);
}
