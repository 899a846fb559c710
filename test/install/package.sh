#!/usr/bin/env bash
# package.sh - makes the packages as ./dev package does, and looks into them.
#
# Why beside install.sh: a package has a prefix, owners, dependencies and a contact, which a folder has not. What its files must
# say install.sh tests.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
set -euo pipefail

work=$BUILD/test/package
failed=0

fail() {
  echo "package: $*" >&2
  failed=1
}

for tool in dpkg-deb dpkg-shlibdeps file; do
  command -v $tool > /dev/null || {
    echo "skipped: there is no $tool"
    exit 77
  }
done

rm -rf "$work"
mkdir -p "$work/deb" "$work/tar"
"$CPACK" --config "$BUILD/CPackConfig.cmake" -B "$work" > "$work/cpack.log" 2>&1 || {
  cat "$work/cpack.log"
  exit 1
}
deb=$(echo "$work"/moe-opt_"$VERSION"_*.deb) tar=$(echo "$work"/moe-opt-"$VERSION"-*.tar.gz)
[[ -s $deb ]] || fail "no .deb of this name: $(ls "$work")"
[[ -s $tar ]] || fail "no .tar.gz of this name: $(ls "$work")"

# The same files in both, below usr/, owned by root, and not writable by others.
dpkg-deb -x "$deb" "$work/deb"
tar -xzf "$tar" -C "$work/tar"
unpacked=$(dirname "$(find "$work/tar" -maxdepth 2 -name usr)")
diff -r --no-dereference "$work/deb" "$unpacked" || fail "the packages differ"
[[ $(ls "$work/deb") == usr ]] || fail "files outside of usr: $(ls "$work/deb")"
foreign=$(dpkg-deb -c "$deb" | grep -v ' root/root ' || true)
[[ -z $foreign ]] || fail "other owners than root: $foreign"
foreign=$(dpkg-deb -c "$deb" | grep -E '^[d-].{4}w|^[d-].{7}w' || true)
[[ -z $foreign ]] || fail "others may write: $foreign"

for file in bin/moe-run lib/libmoe_rt.so.0 include/moe/runtime.h include/dlpack/dlpack.h lib/pkgconfig/moe_rt.pc \
  lib/cmake/moe-opt/moe-opt-config.cmake share/man/man1/moe-run.1 share/bash-completion/completions/moe-run \
  share/zsh/vendor-completions/_moe-run share/fish/vendor_completions.d/moe-run.fish share/doc/moe-opt/README.md \
  share/doc/moe-opt/copyright share/doc/moe-opt/LICENSE.xxhash share/doc/moe-opt/docs/manifest.md share/doc/moe-opt/examples/launch_bundle.c; do
  [[ -s $work/deb/usr/$file ]] || fail "the package has no $file"
done
! grep -rlaF -e "$SOURCE" "$work/deb" > "$work/paths" || fail "these name $SOURCE: $(cat "$work/paths")"

# What a reader of `apt show` sees.
field() { dpkg-deb -f "$deb" "$1"; }
[[ $(field Version) == "$VERSION" ]] || fail "Version: $(field Version)"
[[ $(field Maintainer) =~ ^[^\<]+\ \<[^@\ ]+@[^@\ ]+\>$ && $(field Maintainer) != *@localhost* ]] ||
  fail "Maintainer: $(field Maintainer)"
[[ $(field Depends) == *libc6* && $(field Depends) == *libjansson4* && $(field Depends) != *libmoe* ]] || fail "Depends: $(field Depends)"
[[ $COMPILER != ON || $(field Depends) == *libmlir-22* ]] || fail "Depends: $(field Depends)"
[[ $(field Description) == *$'\n'* ]] || fail "the description has one line only: $(field Description)"

# The tools run from where the .tar.gz was unpacked, and from nowhere else.
for tool in "$unpacked"/usr/bin/*; do
  env -u LD_LIBRARY_PATH "$tool" --version | grep -qF "$VERSION" || fail "$tool does not run"
  ! env -u LD_LIBRARY_PATH ldd "$tool" | grep -F "$BUILD/lib" || fail "$tool takes libraries of the build"
done

exit $failed
