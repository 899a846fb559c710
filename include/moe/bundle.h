/* moe/bundle.h - the fixed words of a bundle, for those that write one and those that read one.
 * docs/manifest.md describes it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_BUNDLE_H
#define MOE_BUNDLE_H

#define MOE_BUNDLE_MANIFEST "manifest.json" /* the file that names the others */

/* What the manifest says of itself: its `format`, `version` and `target`. */
#define MOE_BUNDLE_FORMAT "moe-opt-bundle"
#define MOE_BUNDLE_VERSION 1
#define MOE_BUNDLE_TARGET "sm_90a"

#endif /* MOE_BUNDLE_H */
