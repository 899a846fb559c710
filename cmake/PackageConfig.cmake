# Read by cpack for each package: a .deb without somebody to write to is none.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
if(NOT CPACK_PACKAGE_CONTACT MATCHES "^[^<]+ <[^@ ]+@[^@ ]+>$")
  message(FATAL_ERROR "who makes this package? Set user.name and user.email of git, or configure with -DMOE_PACKAGE_CONTACT='NAME <ADDRESS>'")
endif()
