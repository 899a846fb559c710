/* Report.c - says what went wrong, and where.
 *
 * Why it exists: see Report.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void append_list(moe__emu_cta_t *cta, const char *format, va_list arguments) {
  moe_emu_report_t *report = &cta->cluster->report;
  char *text = report->text;
  size_t used = strlen(text);
  vsnprintf(text + used, sizeof report->text - used, format, arguments);
}

void moe__emu_report_append(moe__emu_cta_t *cta, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  append_list(cta, format, arguments);
  va_end(arguments);
}

bool moe__emu_report_begin(moe__emu_cta_t *cta, moe_emu_status_t status) {
  if (cta->cluster->status != MOE_EMU_OK)
    return false;
  cta->cluster->status = status;
  moe__emu_report_append(cta, "kernel '%s', ", cta->machine->kernel->name);
  return true;
}

void moe__emu_report_cta(moe__emu_cta_t *cta) {
  moe__emu_report_append(cta, "CTA (%u,%u,%u)", cta->index[0], cta->index[1], cta->index[2]);
}

moe__emu_step_t moe__emu_fault(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               int lane, const char *format, ...) {
  moe__emu_cta_t *cta = warp->cta;
  va_list arguments;
  if (!moe__emu_report_begin(cta, MOE_EMU_FAULT))
    return MOE__EMU_FAILED;
  moe__emu_report_append(cta, "line %u (%s), ", instruction->line, instruction->name);
  moe__emu_report_cta(cta);
  moe__emu_report_append(cta, ", warp %u", warp->number);
  if (lane >= 0)
    moe__emu_report_append(cta, ", lane %d", lane);
  moe__emu_report_append(cta, ": ");
  va_start(arguments, format);
  append_list(cta, format, arguments);
  va_end(arguments);
  return MOE__EMU_FAILED;
}

void moe__emu_fault_cta(moe__emu_cta_t *cta, moe_emu_status_t status, const char *format, ...) {
  va_list arguments;
  if (!moe__emu_report_begin(cta, status))
    return;
  moe__emu_report_cta(cta);
  moe__emu_report_append(cta, ": ");
  va_start(arguments, format);
  append_list(cta, format, arguments);
  va_end(arguments);
}

/* ---- Order ---- */

const char *moe__emu_describe_address(const moe__emu_warp_t *warp, const moe__emu_cta_t *cta,
                                      uint32_t address, char *text, size_t size) {
  const uint32_t *index = cta->index;
  if (cta == warp->cta)
    snprintf(text, size, "0x%x", address);
  else
    snprintf(text, size, "0x%x of CTA (%u,%u,%u)", address, index[0], index[1], index[2]);
  return text;
}

void moe__emu_describe_event(const moe__emu_cta_t *cta, moe__emu_event_t event, char *text,
                             size_t size) {
  const moe__emu_order_t *order = cta->order;
  uint32_t agent = MOE__EMU_EVENT_AGENT(event), owner = order->owners[agent];
  const uint32_t *index = cta->cluster->ctas[order->ranks[agent]].index;
  if (order->ranks[agent] != cta->rank) {
    int used = snprintf(text, size, "CTA (%u,%u,%u), ", index[0], index[1], index[2]);
    text += used, size -= (size_t)used;
  }
  switch (order->kinds[agent]) {
  case MOE__EMU_AGENT_WARP:
    snprintf(text, size, "warp %u", owner);
    break;
  case MOE__EMU_AGENT_MBARRIER:
    snprintf(text, size,
             "a bulk load of phase %u of the mbarrier at 0x%x, which has not been waited for",
             MOE__EMU_EVENT_CLOCK(event) - 1, owner);
    break;
  case MOE__EMU_AGENT_BULK:
    snprintf(text, size,
             "bulk group %u of warp %u, lane %u, whose wait_group has not been seen by this warp",
             MOE__EMU_EVENT_CLOCK(event) - 1, owner / MOE__EMU_LANES, owner % MOE__EMU_LANES);
    break;
  case MOE__EMU_AGENT_MATRIX:
    snprintf(text, size, "a wgmma of warpgroup %u that has not been waited for", owner);
    break;
  case MOE__EMU_AGENT_PROXY: /* has no accesses of its own */
    break;
  }
}

moe__emu_step_t moe__emu_fault_order(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, int lane,
                                     const char *what, const moe__emu_finding_t *finding) {
  moe__emu_cta_t *cta = warp->cta;
  char who[192] = "", where[48];
  bool is_own = MOE__EMU_EVENT_AGENT(finding->other) == warp->agent;
  if (finding->conflict >= MOE__EMU_AFTER_WRITE && finding->conflict <= MOE__EMU_LATE_READ)
    moe__emu_describe_event(cta, finding->other, who, sizeof who);
  if (is_own &&
      (finding->conflict == MOE__EMU_AFTER_WRITE || finding->conflict == MOE__EMU_AFTER_READ))
    snprintf(who, sizeof who, "lane %u of the same warp: no bar.warp.sync is in between",
             MOE__EMU_EVENT_LANE(finding->other));
  uint32_t offset = finding->address - MOE__EMU_SHARED_BASE, bytes = cta->shared_bytes;
  moe__emu_describe_address(warp, &cta->cluster->ctas[bytes ? offset / bytes : 0],
                            MOE__EMU_SHARED_BASE + (bytes ? offset % bytes : 0), where,
                            sizeof where);
  switch (finding->conflict) {
  case MOE__EMU_UNINITIALIZED:
    return moe__emu_fault(warp, instruction, lane, "%s reads uninitialized shared memory at %s",
                          what, where);
  case MOE__EMU_OBJECT:
    return moe__emu_fault(warp, instruction, lane, "%s touches an mbarrier at shared address %s",
                          what, where);
  case MOE__EMU_AFTER_WRITE:
    return moe__emu_fault(warp, instruction, lane,
                          "%s races at shared address %s with a write by %s", what, where, who);
  case MOE__EMU_AFTER_READ:
    return moe__emu_fault(warp, instruction, lane,
                          "%s races at shared address %s with a read by %s", what, where, who);
  case MOE__EMU_NOT_FENCED:
    return moe__emu_fault(warp, instruction, lane,
                          "%s at shared address %s comes after an ordinary write by %s without a "
                          "fence.proxy.async in between",
                          what, where, who);
  case MOE__EMU_LATE_READ:
    return moe__emu_fault(warp, instruction, lane,
                          "%s at shared address %s comes after an ordinary read by %s, which may "
                          "wait behind what the warp streams from global memory, without a "
                          "fence.proxy.async in between",
                          what, where, who);
  default:
    moe__emu_fault_cta(warp->cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
    return MOE__EMU_FAILED;
  }
}
