/* export.h - marks what a library of the project exports.
 *
 * All libraries are built with hidden symbols, so that two of them in one process never bind to
 * each other's internals.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EXPORT_H
#define MOE_EXPORT_H

#define MOE_API __attribute__((visibility("default")))

#endif /* MOE_EXPORT_H */
