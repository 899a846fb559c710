# moe_library(NAME ...): one public library of the project, with the flags, the header and the install rules they share.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

add_library(moe_options INTERFACE)
target_compile_options(moe_options INTERFACE -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes)
target_compile_definitions(moe_options INTERFACE _GNU_SOURCE MOE_VERSION="${PROJECT_VERSION}")
target_include_directories(moe_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
target_include_directories(moe_options SYSTEM INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/third_party>)
if(MOE_WERROR)
  target_compile_options(moe_options INTERFACE -Werror)
endif()
if(MOE_SANITIZE)
  target_compile_options(moe_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(moe_options INTERFACE -fsanitize=address,undefined)
endif()

# moe_library(moe_rt HEADER moe/runtime.h DESCRIPTION "..." SOURCES a.c ... [PRIVATE_LIBRARIES ...])
#
# A shared library with hidden symbols. Its public functions are marked MOE_API in include/<HEADER>.
function(moe_library name)
  cmake_parse_arguments(ARG "" "HEADER;DESCRIPTION" "SOURCES;PRIVATE_LIBRARIES" ${ARGN})
  add_library(${name} SHARED ${ARG_SOURCES})
  add_library(moe::${name} ALIAS ${name})
  set_target_properties(${name} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    INSTALL_RPATH "$ORIGIN" # the libraries that one depends on lie beside it
    MOE_HEADER "${ARG_HEADER}" MOE_DESCRIPTION "${ARG_DESCRIPTION}")
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:moe_options> ${ARG_PRIVATE_LIBRARIES})
  target_link_options(${name} PRIVATE -Wl,--no-undefined)
  set_property(GLOBAL APPEND PROPERTY MOE_LIBRARIES ${name})
endfunction()
