/* Status.c - status texts and the thread's last message.
 *
 * A C status alone cannot say which argument was wrong; the message can, and keeping it per thread
 * needs no lock.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_message[MOE__RT_MESSAGE_SIZE];

const char *moe_rt_status_text(moe_rt_status_t status) {
  switch (status) {
#define MOE_RT_STATUS(constant, number, text)                                                      \
  case constant:                                                                                   \
    return text;
    MOE_RT_STATUSES(MOE_RT_STATUS)
#undef MOE_RT_STATUS
  }
  return "unknown status";
}

const char *moe_rt_last_message(void) {
  return last_message;
}

const char *moe_rt_version(void) {
  return MOE_VERSION;
}

/* Names in a message come from untrusted files; the message stays one line all the same. */
static void set_message(const char *text) {
  size_t length = 0;
  for (; text[length] && length < MOE__RT_MESSAGE_SIZE - 1; length++) {
    bool is_control = (unsigned char)text[length] < 0x20 || text[length] == 0x7f;
    last_message[length] = is_control ? '?' : text[length];
  }
  last_message[length] = '\0';
}

void moe__rt_message_keep(moe__rt_message_t *out) {
  memcpy(out->text, last_message, sizeof out->text);
}

void moe__rt_message_restore(const moe__rt_message_t *message) {
  memcpy(last_message, message->text, sizeof last_message);
}

moe_rt_status_t moe__rt_fail(moe_rt_status_t status, const char *format, ...) {
  char text[MOE__RT_MESSAGE_SIZE] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  set_message(text);
  return status;
}

moe_rt_status_t moe__rt_fail_in(moe_rt_status_t status, const char *format, ...) {
  char context[MOE__RT_MESSAGE_SIZE] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context, sizeof context, format, arguments);
  va_end(arguments);
  char text[2 * MOE__RT_MESSAGE_SIZE + 2];
  snprintf(text, sizeof text, "%s: %s", context, last_message);
  set_message(text);
  return status;
}

moe_rt_status_t moe__rt_fail_after(moe_rt_status_t status, const char *format, ...) {
  char advice[MOE__RT_MESSAGE_SIZE] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(advice, sizeof advice, format, arguments);
  va_end(arguments);
  char text[2 * MOE__RT_MESSAGE_SIZE + 2];
  snprintf(text, sizeof text, "%s; %s", last_message, advice);
  set_message(text);
  return status;
}

moe_rt_status_t moe__rt_fail_memory(void) {
  return moe__rt_fail(MOE_RT_OUT_OF_MEMORY, "the host has no memory left");
}
