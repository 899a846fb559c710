/* Status.h - how the runtime reports a failure: a status to the caller, a sentence to the thread.
 *
 * Every failing path of the library ends in one of these functions, so that no failure is without
 * its message.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_STATUS_H
#define MOE_RUNTIME_STATUS_H

#include "moe/runtime.h"

/* Returns from the calling function when `expression` is not MOE_RT_OK. */
#define MOE__RT_TRY(expression)                                                                    \
  do {                                                                                             \
    moe_rt_status_t moe__rt_status = (expression);                                                 \
    if (moe__rt_status != MOE_RT_OK)                                                               \
      return moe__rt_status;                                                                       \
  } while (0)

/* Sets the thread's message and returns `status`. The arguments may point into the current message.
 */
__attribute__((format(printf, 2, 3))) moe_rt_status_t moe__rt_fail(moe_rt_status_t status,
                                                                   const char *format, ...);

/* Puts "CONTEXT: " before the thread's message and returns `status`. */
__attribute__((format(printf, 2, 3))) moe_rt_status_t moe__rt_fail_in(moe_rt_status_t status,
                                                                      const char *format, ...);

/* Puts "; ADVICE" behind the thread's message and returns `status`. */
__attribute__((format(printf, 2, 3))) moe_rt_status_t moe__rt_fail_after(moe_rt_status_t status,
                                                                         const char *format, ...);

enum { MOE__RT_MESSAGE_SIZE = 2048 };

/* A message of the thread, while something else may fail. */
typedef struct moe__rt_message_t {
  char text[MOE__RT_MESSAGE_SIZE];
} moe__rt_message_t;

void moe__rt_message_keep(moe__rt_message_t *out);
void moe__rt_message_restore(const moe__rt_message_t *message);

/* Evaluates an expression whose failure nobody hears of: the thread's message stays as it is. */
#define MOE__RT_QUIETLY(expression)                                                                \
  do {                                                                                             \
    moe__rt_message_t moe__rt_message;                                                             \
    moe__rt_message_keep(&moe__rt_message);                                                        \
    (void)(expression);                                                                            \
    moe__rt_message_restore(&moe__rt_message);                                                     \
  } while (0)

/* The host has no memory left. */
moe_rt_status_t moe__rt_fail_memory(void);

#endif /* MOE_RUNTIME_STATUS_H */
