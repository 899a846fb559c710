# Finds LLVM and MLIR 22 and makes the target moe_mlir: MLIR's C API over the shared libMLIR and libLLVM.
#
# Why not the imported MLIRCAPI* targets: they pull in the static MLIR libraries, a second copy of MLIR and 139 MB. The
# archives of the C API link against the shared libraries just as well.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

enable_language(CXX) # LLVM's CMake package asks for it; nothing here is written in C++.
find_program(LLVM_CONFIG NAMES llvm-config-22 llvm-config DOC "llvm-config of LLVM 22")
if(NOT MLIR_DIR AND LLVM_CONFIG)
  execute_process(COMMAND ${LLVM_CONFIG} --libdir OUTPUT_VARIABLE llvm_libdir OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(MLIR_DIR ${llvm_libdir}/cmake/mlir)
endif()
# Not find_package(MLIR 22): the package accepts only its exact minor version.
find_package(MLIR CONFIG QUIET)
if(NOT MLIR_FOUND)
  message(FATAL_ERROR "LLVM and MLIR 22 are needed, and MLIR_DIR (${MLIR_DIR}) has no MLIRConfig.cmake. Debian's packages are "
    "llvm-22-dev and libmlir-22-dev; -DMLIR_DIR=FOLDER names another MLIR; -DMOE_BUILD_COMPILER=OFF builds the runtime alone, "
    "which needs none: docs/building.md.")
endif()
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "LLVM and MLIR 22 are needed; ${MLIR_DIR} is version ${LLVM_VERSION_MAJOR}")
endif()

add_library(moe_mlir INTERFACE)
target_include_directories(moe_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
set(archives "")
foreach(part IR RegisterEverything IRDL Transforms Target Linalg Func GPU LLVM NVVM)
  list(APPEND archives $<TARGET_FILE:MLIRCAPI${part}>)
endforeach()
target_link_libraries(moe_mlir INTERFACE
  -Wl,--start-group ${archives} -Wl,--end-group $<TARGET_FILE:MLIR> $<TARGET_FILE:LLVM> stdc++ m)
# The symbols of MLIR's C API are visible in its archives; they are not ours to export.
target_link_options(moe_mlir INTERFACE -Wl,--exclude-libs,ALL)
