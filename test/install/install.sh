#!/usr/bin/env bash
# install.sh - installs the build, moves it, and uses it as a stranger would.
#
# Why the move: an installation that works only where it was built has its build folder somewhere in it.
# CMakeLists.txt beside it hands over the tools and folders, in capitals.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
set -euo pipefail

work=$BUILD/test/install
prefix=$work/moved
inputs=$SOURCE/test/tools/moe-run/Inputs
failed=0

fail() {
  echo "install: $*" >&2
  failed=1
}

# expect TEXT COMMAND...: the command succeeds and prints a line that contains the text.
expect() {
  local text=$1 output
  shift
  output=$("$@" 2>&1) || fail "$* exited with $?: $output"
  [[ $output == *"$text"* ]] || fail "$* printed no '$text': ${output:0:400}"
}

rm -rf "$work/staged" "$prefix" "$work/cmake" "$work/pkg-config" "$work/by-docs" "$work/bundle"
"$CMAKE" --install "$BUILD" --prefix "$work/staged" > "$work/install.log"
mv "$work/staged" "$prefix"
export LD_LIBRARY_PATH=

# ---- Files ----

for file in include/dlpack/dlpack.h share/moe-opt/manifest.schema.json share/doc/moe-opt/LICENSE share/doc/moe-opt/LICENSE.xxhash \
  share/moe-opt/dialects/mx_quantize.mlir share/moe-opt/dialects/scaled_grouped_mm.mlir; do
  [[ -s $prefix/$file ]] || fail "$file is not installed"
done

# Documents lie as in the source; no link of theirs is broken.
for file in README.md CHANGELOG.md docs/manifest.md docs/performance/quantize.md examples/grouped_mm.mlir; do
  [[ -s $prefix/share/doc/moe-opt/$file ]] || fail "share/doc/moe-opt/$file is not installed"
done
find "$prefix/share/doc/moe-opt" -name '*.md' | while read -r page; do
  { grep -oE '\]\([A-Za-z0-9_./:-]+[)#]' "$page" || true; } | sed 's/^](//; s/[)#]$//' | { grep -v '^[a-z]*:' || true; } | while read -r link; do
    [[ -z $link || -e $(dirname "$page")/$link ]] || echo "$page: $link"
  done
done > "$work/broken-links"
[[ ! -s $work/broken-links ]] || fail "broken links: $(cat "$work/broken-links")"

# Man pages and completions know the flags of --help.
for tool in moe-opt moe-run; do
  for page in man/man1/$tool.1 bash-completion/completions/$tool zsh/vendor-completions/_$tool fish/vendor_completions.d/$tool.fish; do
    "$prefix/bin/$tool" --help | grep -oE '^ +(-., )?--[a-z][a-z-]*' | grep -o '[a-z][a-z-]*$' | while read -r flag; do
      grep -qF -e "$flag" <(sed 's/\\-/-/g' "$prefix/share/$page") || echo "$page has no --$flag"
    done
  done
done > "$work/missing-flags"
[[ ! -s $work/missing-flags ]] || fail "$(cat "$work/missing-flags")"
bash -n "$prefix/share/bash-completion/completions/moe-opt" || fail "the completion of bash does not parse"
# A value is needed also where only its end may be left out.
grep -qF -e '--shape=ARG=SHAPE' <(sed 's/\\-/-/g' "$prefix/share/man/man1/moe-run.1") || fail "the man page calls the value of --shape optional"
grep -qF -e ' --shape= ' "$prefix/share/bash-completion/completions/moe-run" || fail "the completion of bash calls the value of --shape optional"

# No path of the build, but in debug information.
for file in "$prefix"/bin/* "$prefix/$LIBDIR"/lib*.so; do
  strip -o "$work/stripped" "$file"
  ! grep -qF -e "$SOURCE" "$work/stripped" || fail "$(basename "$file") names $SOURCE"
done

# Every public header compiles alone, in the oldest languages we promise.
for header in "$prefix"/include/moe/*.h; do
  name=moe/$(basename "$header")
  for language in "$CC -std=c11 -x c" "$CXX -std=c++17 -x c++"; do
    # Not quoted: a compiler with its flags.
    # shellcheck disable=SC2086
    printf "#include \"%s\"\nextern int not_empty;\n" "$name" | $language -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" - ||
      fail "$name does not compile alone with: $language"
  done
done

# ---- Libraries ----

for library in "$prefix/$LIBDIR"/lib*.so; do
  name=$(basename "$library")
  exported=$("$NM" --dynamic --defined-only --format=posix "$library" | cut -d' ' -f1)
  [[ $exported == *moe_* ]] || fail "$name exports nothing"
  foreign=$(grep -vE '^moe_[a-z0-9]' <<< "$exported" || true)
  [[ -z $foreign ]] || fail "$name exports more than moe_*:" "${foreign//$'\n'/ }"
  "$READELF" -d "$library" | grep "SONAME.*\[$name\.[0-9]*\]" > /dev/null || fail "$name has no soname with a version"
done
for library in moe_rt moe_emu moe_ref; do
  needed=$("$READELF" -d "$prefix/$LIBDIR/lib$library.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  foreign=$(grep -vE '^(libc|libm|libdl|libpthread|libjansson|libmoe_emu|libmoe_ref|ld-linux.*)\.so' <<< "$needed" || true)
  [[ -z $foreign ]] || fail "lib$library.so links ${foreign//$'\n'/ }"
done
for binary in "$prefix"/bin/* "$prefix/$LIBDIR"/lib*.so; do
  ! "$READELF" -d "$binary" | grep -E 'R(UN)?PATH' | grep -F "$BUILD" || fail "$binary looks into the build folder"
done

# ---- Tools ----

expect moe-run "$prefix/bin/moe-run" --version
if [[ $COMPILER == ON ]]; then
  "$prefix/bin/moe-opt" "$SOURCE/examples/quantize_expert_weights.mlir" --emit=bundle -o "$work/bundle"
  expect "w=1x32x16" "$prefix/bin/moe-run" "$work/bundle" --random 1 --shape w=1x32x16 --check --device reference
fi

# ---- Users: the examples, by CMake's package and by pkg-config ----

# uses DIR: what the examples that were built there do.
uses() {
  # On the stand-in for the driver, which computes what the C reference does; then on what is here.
  expect "w[1,70,9] = 0.180664 became 96 * 0.00195312 = 0.1875" \
    env LD_LIBRARY_PATH="$FAKE_CUDA" "$1/launch_bundle" "$inputs/sample.bundle" quantize
  local output
  expect "w[1,70,9] = 0.180664 became 96 * 0.00195312 = 0.1875" "$1/launch_bundle" "$work/bundle" quantize_expert_weights emu
  if ! output=$("$1/launch_bundle" "$work/bundle" 2>&1) && [[ $output != "launch_bundle: "*CUDA* ]]; then
    fail "launch_bundle failed without naming CUDA: $output"
  fi
  [[ $COMPILER == ON ]] || return 0
  expect ".target sm_90a" "$1/embed_compiler"
  expect ".entry quantize" "$1/embed_compiler"
}

"$CMAKE" -G "$GENERATOR" -S "$SOURCE/examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" > "$work/cmake.log"
"$CMAKE" --build "$work/cmake" >> "$work/cmake.log"
uses "$work/cmake"

export PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
mkdir "$work/pkg-config"
# build EXAMPLE LIBRARY...
build() {
  local example=$1 flags
  shift
  flags=$("$PKG_CONFIG" --cflags --libs "$@")
  # shellcheck disable=SC2086
  "$CC" -std=c11 "$SOURCE/examples/$example.c" $flags -Wl,-rpath,"$prefix/$LIBDIR" -o "$work/pkg-config/$example"
}
build launch_bundle moe_rt moe_ref
[[ $COMPILER != ON ]] || build embed_compiler moe_compiler
uses "$work/pkg-config"
# The line of docs/building.md, as it stands there.
line=$(grep '^cc program\.c ' "$SOURCE/docs/building.md") || fail "docs/building.md has no line that compiles program.c"
cp "$SOURCE/examples/launch_bundle.c" "$work/pkg-config/program.c"
(cd "$work/pkg-config" && eval "$line") || fail "the line of docs/building.md does not compile: $line"
mkdir "$work/by-docs" && mv "$work/pkg-config/a.out" "$work/by-docs/launch_bundle"
expect "w[1,70,9] = 0.180664 became 96 * 0.00195312 = 0.1875" "$work/by-docs/launch_bundle" "$work/bundle" quantize_expert_weights emu
expect "$("$prefix/bin/moe-run" --version | grep -oE '[0-9.]+$')" "$PKG_CONFIG" --modversion moe_rt

exit $failed
