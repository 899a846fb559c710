# PkgConfig::JANSSON as an archive inside of the libraries, which then need no libjansson.so and export nothing of it.
#
# Why it exists: a wheel brings what it needs. JANSSON_INCLUDE_DIR is a folder with jansson's headers and nothing else: a compiler for
# another libc must not find the rest of /usr/include.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
find_path(JANSSON_INCLUDE_DIR jansson.h REQUIRED)
find_file(JANSSON_ARCHIVE libjansson.a PATH_SUFFIXES lib lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu REQUIRED)
find_program(OBJCOPY objcopy REQUIRED)
set(jansson ${CMAKE_BINARY_DIR}/libjansson.a)
execute_process(COMMAND ${OBJCOPY} --redefine-sym stdin=moe__jansson_stdin ${JANSSON_ARCHIVE} ${jansson} COMMAND_ERROR_IS_FATAL ANY)
add_library(PkgConfig::JANSSON INTERFACE IMPORTED)
target_include_directories(PkgConfig::JANSSON INTERFACE ${JANSSON_INCLUDE_DIR})
target_sources(PkgConfig::JANSSON INTERFACE ${CMAKE_SOURCE_DIR}/cmake/jansson_stdin.c)
target_link_libraries(PkgConfig::JANSSON INTERFACE ${jansson})
target_link_options(PkgConfig::JANSSON INTERFACE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map)
