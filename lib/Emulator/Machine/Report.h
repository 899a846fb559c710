/* Report.h - says what went wrong, and where.
 *
 * Why it exists: a report that names kernel, line, CTA, warp, lane and address is found in
 * minutes; "launch failed" is not. The first fault of a cluster is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_REPORT_H
#define MOE_EMULATOR_MACHINE_REPORT_H

#include "lib/Emulator/Checks/Shadow.h"
#include "lib/Emulator/Machine/State.h"

/* Reports a fault at an instruction; lane -1 where it is not of one lane. Always
 * MOE__EMU_FAILED. */
moe__emu_step_t moe__emu_fault(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports a fault of the CTA as a whole. */
void moe__emu_fault_cta(moe__emu_cta_t *cta, moe_emu_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Who made an event, as this CTA sees it: "warp 3", "a bulk load that completes on ...". */
void moe__emu_describe_event(const moe__emu_cta_t *cta, moe__emu_event_t event, char *text,
                             size_t size);
/* "0x440", or "0x440 of CTA (1,0,0)" where the CTA is not the warp's. */
const char *moe__emu_describe_address(const moe__emu_warp_t *warp, const moe__emu_cta_t *cta,
                                      uint32_t address, char *text, size_t size);
/* Reports what a check of shared memory found; `what` did it: "the load". */
moe__emu_step_t moe__emu_fault_order(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, int lane,
                                     const char *what, const moe__emu_finding_t *finding);

/* Begins the report of a CTA, with the kernel's name. False where there is one already. */
bool moe__emu_report_begin(moe__emu_cta_t *cta, moe_emu_status_t status);
/* Adds text to it, as printf. */
void moe__emu_report_append(moe__emu_cta_t *cta, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds "CTA (x,y,z)". */
void moe__emu_report_cta(moe__emu_cta_t *cta);

#endif /* MOE_EMULATOR_MACHINE_REPORT_H */
