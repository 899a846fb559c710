#!/bin/sh
# ptxas.sh - stands in for ptxas where a test wants it to fail, or to be quick. How it behaves follows from the name that it is
# called by.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
if [ "$1" = --version ]; then
  case ${0##*/} in
  v*) echo "Cuda compilation tools, release, V${0##*/v}" ;;
  *) echo "Cuda compilation tools, release 0.0, V0.0.1" ;;
  esac
  exit 0
fi
while [ $# -gt 0 ]; do
  [ "$1" = -o ] && output=$2
  shift
done
case ${0##*/} in
dropped) echo "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored" && echo code >"$output" ;;
serial) echo "ptxas info    : (C7512) wgmma.mma_async instructions are serialized due to insufficient register resources" && echo code >"$output" ;;
spills) echo "ptxas warning : Registers are spilled to local memory" && echo code >"$output" ;;
fails) echo "ptxas fatal   : out of ideas" && exit 255 ;;
silent) ;;
*) echo code >"$output" ;;
esac
