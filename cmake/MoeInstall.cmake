# What `cmake --install` writes: tools, libraries, headers, dialects, documents, a CMake package and a pkg-config file per
# library.
#
# Why everything hangs on MOE_LIBRARIES: moe_library() is the only place that knows a library's header and description.
# The installed tree may be moved: nothing in it names its prefix.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include(CMakePackageConfigHelpers)
option(MOE_INSTALL_DLPACK "Install dlpack.h, which moe/runtime.h includes" ON)

get_property(libraries GLOBAL PROPERTY MOE_LIBRARIES)
set(tools moe-run)
if(MOE_BUILD_COMPILER)
  list(APPEND tools moe-opt)
endif()

# ---- Binaries ----

file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(${tools} PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
# libmoe_rt needs libmoe_emu, which needs libmoe_ref; a program's own RPATH does not count for these.
set_target_properties(${libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")
# Debian's libMLIR lies in a folder of LLVM's own, where the loader does not look.
set_target_properties(${tools} ${libraries} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS ${libraries} EXPORT moe-opt-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ${tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# ---- Headers, dialects, documents ----

file(GLOB shared_tables CONFIGURE_DEPENDS include/moe/*.def)
install(FILES include/moe/bundle.h include/moe/export.h include/moe/limits.h ${shared_tables} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moe)
foreach(library IN LISTS libraries)
  get_target_property(header ${library} MOE_HEADER)
  install(FILES include/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moe)
endforeach()
if(MOE_INSTALL_DLPACK)
  install(FILES third_party/dlpack/dlpack.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlpack)
  install(FILES third_party/dlpack/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.dlpack)
endif()
install(DIRECTORY dialects DESTINATION ${CMAKE_INSTALL_DATADIR}/moe-opt FILES_MATCHING PATTERN "*.mlir")
install(FILES docs/manifest.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/moe-opt)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Of what is compiled into the libraries.
install(FILES third_party/xxhash/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.xxhash)
if(MOE_STATIC_JANSSON)
  install(FILES third_party/jansson/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.jansson)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright) # where Debian looks
# The pages lie as in the source, so that their links hold; README.md is the first.
file(GLOB_RECURSE documents RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  docs/*.md docs/*.json docs/*.svg examples/*.c examples/*.mlir examples/*.py examples/*.safetensors examples/CMakeLists.txt)
list(PREPEND documents README.md CHANGELOG.md LICENSE)
# They, and man pages and completions from what --help prints, need Python.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  string(REPLACE ";" " " document_words "${documents}")
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" ${CMAKE_SOURCE_DIR}/packaging/install_documents.py
    ${CMAKE_SOURCE_DIR} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\" ${document_words}
    COMMAND_ERROR_IS_FATAL ANY)")
  set(pages ${CMAKE_BINARY_DIR}/packaging)
  foreach(tool IN LISTS tools)
    add_custom_command(OUTPUT ${pages}/${tool}.1 ${pages}/${tool}.bash ${pages}/_${tool} ${pages}/${tool}.fish
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/packaging/documents.py $<TARGET_FILE:${tool}> ${pages}
      DEPENDS ${tool} ${CMAKE_SOURCE_DIR}/packaging/documents.py
      COMMENT "Writing the man page and the completions of ${tool}" VERBATIM)
    add_custom_target(${tool}-documents ALL DEPENDS ${pages}/${tool}.1)
    install(FILES ${pages}/${tool}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${pages}/${tool}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${tool})
    install(FILES ${pages}/_${tool} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
    install(FILES ${pages}/${tool}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endforeach()
endif()

# ---- find_package(moe-opt) ----

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/moe-opt)
install(EXPORT moe-opt-targets NAMESPACE moe:: DESTINATION ${package_dir})
configure_package_config_file(cmake/moe-opt-config.cmake.in ${CMAKE_BINARY_DIR}/moe-opt-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may break its users.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/moe-opt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/moe-opt-config.cmake ${CMAKE_BINARY_DIR}/moe-opt-config-version.cmake
  DESTINATION ${package_dir})

# ---- pkg-config ----

# A folder of an installation may also be absolute; APPEND takes it as it is then.
foreach(dir INCLUDEDIR LIBDIR)
  set(pc_${dir} "\${prefix}")
  cmake_path(APPEND pc_${dir} "${CMAKE_INSTALL_${dir}}")
endforeach()
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
foreach(library IN LISTS libraries)
  get_target_property(description ${library} MOE_DESCRIPTION)
  configure_file(cmake/library.pc.in ${CMAKE_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# ---- cpack ----

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME moe-opt)
set(CPACK_PACKAGE_VENDOR moe-opt)
# Who makes a package answers for it: by default, whoever git says is at work here.
find_package(Git QUIET)
foreach(key name email)
  set(packager_${key} "")
  if(Git_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${CMAKE_SOURCE_DIR} config user.${key}
      OUTPUT_VARIABLE packager_${key} OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endforeach()
set(packager "")
if(packager_name AND packager_email)
  set(packager "${packager_name} <${packager_email}>")
endif()
set(MOE_PACKAGE_CONTACT "${packager}" CACHE STRING "Who makes the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT "${MOE_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler and runtime for low-precision mixture-of-experts kernels")
set(CPACK_PACKAGE_DESCRIPTION "moe-opt compiles MLIR over the dialects mx_quantize and scaled_grouped_mm to PTX, machine code and a manifest for NVIDIA Hopper.
moe-run runs, checks and times what it wrote, on a GPU or on an emulator. The libraries are for programs that do the same.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON) # debug information names the build's folders
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/PackageConfig.cmake)
include(CPack)
