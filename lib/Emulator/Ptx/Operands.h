/* Operands.h - reads one instruction.
 *
 * Why it exists: an instruction's row in the table of opcodes says what operands it takes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_OPERANDS_H
#define MOE_EMULATOR_PTX_OPERANDS_H

#include "lib/Emulator/Ptx/Cursor.h"

/* Reads one instruction, its guard included, up to its semicolon. False after an error. */
bool moe__emu_parse_instruction(moe__emu_parser_t *parser);

#endif /* MOE_EMULATOR_PTX_OPERANDS_H */
