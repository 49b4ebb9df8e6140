#!/bin/sh
# Installs into an empty prefix and builds the examples against the installed copy, once as a CMake package and
# once through pkg-config, with the system's default compiler. Run as: install_test.sh SOURCE_DIR BUILD_DIR
set -eu

source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
for file in include/weft/status.h lib/libweft.a share/doc/weft/LICENSE share/doc/weft/README.md; do
  [ -f "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done

# Moved on purpose: nothing installed may remember where it was put first.
mv "$prefix" "$work/moved"
prefix=$work/moved

echo "--- as a CMake package"
mkdir "$work/package"
cp "$source/examples/bank.cc" "$source/examples/procedure.cc" "$work/package"
cat >"$work/package/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(bank LANGUAGES CXX)
find_package(weft 0.1 REQUIRED)
foreach(example bank procedure)
  add_executable(${example} ${example}.cc)
  target_link_libraries(${example} PRIVATE weft::weft)
endforeach()
END
cmake -S "$work/package" -B "$work/package/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/package/build"
"$work/package/build/bank"
"$work/package/build/procedure"

echo "--- through pkg-config"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
# shellcheck disable=SC2046  # flags are meant to split
c++ -std=c++20 -O2 "$source/examples/bank.cc" $(pkg-config --cflags --libs weft) -o "$work/bank"
"$work/bank"

echo "--- the command"
"$prefix/bin/weft" protocols
