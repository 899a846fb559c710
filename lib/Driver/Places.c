/* Places.c - gives the locations of a parsed module the name of its source.
 *
 * Why: MLIR's C API parses a text without a name, and calls its places "-". Diagnostics know better
 * (Diagnostics.c); IR that is printed with its locations must say it itself.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"

#include <stdlib.h>

static MlirLocation named(MlirLocation location, MlirStringRef name) {
  MlirContext context = mlirLocationGetContext(location);
  if (moe__is_in_text(location))
    return mlirLocationFileLineColRangeGet(context, name,
                                           mlirLocationFileLineColRangeGetStartLine(location),
                                           mlirLocationFileLineColRangeGetStartColumn(location),
                                           mlirLocationFileLineColRangeGetEndLine(location),
                                           mlirLocationFileLineColRangeGetEndColumn(location));
  if (mlirLocationIsAName(location))
    return mlirLocationNameGet(context, mlirIdentifierStr(mlirLocationNameGetName(location)),
                               named(mlirLocationNameGetChildLoc(location), name));
  if (mlirLocationIsACallSite(location))
    return mlirLocationCallSiteGet(named(mlirLocationCallSiteGetCallee(location), name),
                                   named(mlirLocationCallSiteGetCaller(location), name));
  if (!mlirLocationIsAFused(location))
    return location;
  unsigned count = mlirLocationFusedGetNumLocations(location);
  MlirLocation *parts = moe__allocate(count * sizeof *parts);
  mlirLocationFusedGetLocations(location, parts);
  for (unsigned i = 0; i < count; i++)
    parts[i] = named(parts[i], name);
  location =
      mlirLocationFusedGet(context, (intptr_t)count, parts, mlirLocationFusedGetMetadata(location));
  free(parts);
  return location;
}

static MlirWalkResult name_places(MlirOperation op, void *user) {
  const MlirStringRef *name = user;
  mlirOperationSetLocation(op, named(mlirOperationGetLocation(op), *name));
  for (intptr_t region = 0; region < mlirOperationGetNumRegions(op); region++)
    for (MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, region));
         !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
        MlirValue argument = mlirBlockGetArgument(block, i);
        mlirBlockArgumentSetLocation(argument, named(mlirValueGetLocation(argument), *name));
      }
  return MlirWalkResultAdvance;
}

void moe__name_places(const moe_module_t *module) {
  MlirStringRef name = moe__ref(module->name);
  mlirOperationWalk(mlirModuleGetOperation(module->ir), name_places, &name, MlirWalkPreOrder);
}
