/* Places.c - gives the files in the locations of a module other names.
 *
 * Why: MLIR's C API parses a text without a name, and calls its places "-". Diagnostics know better
 * (Diagnostics.c); IR that is printed with its locations must say it itself. And the lines of line
 * information are found before their file is written (LineInfo.c).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"

#include <stdlib.h>

typedef struct names_t {
  const char *from, *to;
} names_t;

static MlirLocation renamed(MlirLocation location, const names_t *names) {
  MlirContext context = mlirLocationGetContext(location);
  if (moe__is_in_file(location, names->from))
    return mlirLocationFileLineColRangeGet(context, moe__ref(names->to),
                                           mlirLocationFileLineColRangeGetStartLine(location),
                                           mlirLocationFileLineColRangeGetStartColumn(location),
                                           mlirLocationFileLineColRangeGetEndLine(location),
                                           mlirLocationFileLineColRangeGetEndColumn(location));
  if (mlirLocationIsAName(location))
    return mlirLocationNameGet(context, mlirIdentifierStr(mlirLocationNameGetName(location)),
                               renamed(mlirLocationNameGetChildLoc(location), names));
  if (mlirLocationIsACallSite(location))
    return mlirLocationCallSiteGet(renamed(mlirLocationCallSiteGetCallee(location), names),
                                   renamed(mlirLocationCallSiteGetCaller(location), names));
  if (!mlirLocationIsAFused(location))
    return location;
  unsigned count = mlirLocationFusedGetNumLocations(location);
  MlirLocation *parts = moe__allocate(count * sizeof *parts);
  mlirLocationFusedGetLocations(location, parts);
  for (unsigned i = 0; i < count; i++)
    parts[i] = renamed(parts[i], names);
  location =
      mlirLocationFusedGet(context, (intptr_t)count, parts, mlirLocationFusedGetMetadata(location));
  free(parts);
  return location;
}

static MlirWalkResult rename_places(MlirOperation op, void *user) {
  const names_t *names = user;
  mlirOperationSetLocation(op, renamed(mlirOperationGetLocation(op), names));
  for (intptr_t region = 0; region < mlirOperationGetNumRegions(op); region++)
    for (MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, region));
         !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
        MlirValue argument = mlirBlockGetArgument(block, i);
        mlirBlockArgumentSetLocation(argument, renamed(mlirValueGetLocation(argument), names));
      }
  return MlirWalkResultAdvance;
}

void moe__rename_places(const moe_module_t *module, const char *from, const char *to) {
  names_t names = {from, to};
  mlirOperationWalk(mlirModuleGetOperation(module->ir), rename_places, &names, MlirWalkPreOrder);
}
