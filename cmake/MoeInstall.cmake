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

install(FILES include/moe/export.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moe)
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
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
