#!/bin/sh
# Makes a Debian package of a built tree, BUILD/package/weft_VERSION_ARCH.deb, and has lintian look at it.
# Run as: package.sh SOURCE_DIR BUILD_DIR
set -eu

source=$1
build=$2
out=$build/package
stage=$out/source

version=$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
packaged=$(sed -n '1s/^weft (\([^)]*\)).*/\1/p' "$source/packaging/debian/changelog")
if [ "$version" != "$packaged" ]; then
  echo "CMakeLists.txt says version $version, packaging/debian/changelog $packaged: add an entry there" >&2
  exit 1
fi

rm -rf "$out"
mkdir -p "$stage"
cp -r "$source/packaging/debian" "$source/packaging/weft.1" "$source/README.md" "$source/docs" "$source/examples" \
  "$build/weft" "$stage"
(cd "$stage" && DEB_BUILD_OPTIONS=noautodbgsym debian/rules binary) >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
rm -rf "$stage"
# There is no address yet that reaches its authors.
lintian --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog --fail-on error,warning "$out"/weft_*.deb
ls "$out"/weft_*.deb
