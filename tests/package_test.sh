#!/bin/sh
# Builds the Debian package, extracts it into an empty folder, and runs what is in it.
# Run as: package_test.sh SOURCE_DIR BUILD_DIR
set -eu

source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

"$source/scripts/package.sh" "$source" "$build"
package=$(ls "$build"/package/weft_*.deb)
root=$work/root
dpkg-deb --extract "$package" "$root"
dpkg-deb --control "$package" "$work/control"

for file in usr/bin/weft lib/systemd/system/weft.service etc/weft usr/share/doc/weft/examples/node.toml \
  usr/share/doc/weft/operations.md.gz usr/share/doc/weft/copyright usr/share/man/man1/weft.1.gz; do
  [ -e "$root/$file" ] || { echo "not in the package: $file"; exit 1; }
done
for library in libssl3 libzookeeper-mt2 libcpp-httplib libxxhash0; do
  grep -q "^Depends:.*$library" "$work/control/control" || { echo "the package does not depend on $library"; exit 1; }
done
(cd "$root" && md5sum --quiet --check "$work/control/md5sums")

echo "--- the command"
"$root/usr/bin/weft" protocols
"$root/usr/bin/weft" doctor --json >"$work/doctor.json"
python3 -m json.tool "$work/doctor.json" >"$work/doctor.txt"

echo "--- the example, as far as one machine goes: all is right with it but the address"
sed "s/127.0.0.1:[78]379/127.0.0.1:0/" "$root/usr/share/doc/weft/examples/node.toml" >"$work/node.toml"
status=0
timeout 60 "$root/usr/bin/weft" server --config "$work/node.toml" 2>"$work/said" || status=$?
cat "$work/said"
[ "$status" -eq 2 ] || { echo "status $status, expected 2"; exit 1; }
grep -q "10.0.0.1:7400: bind: Cannot assign requested address" "$work/said" || { echo "it does not say why"; exit 1; }

echo "--- the unit"
sed "s|^ExecStart=/usr/bin|ExecStart=$root/usr/bin|" "$root/lib/systemd/system/weft.service" >"$work/weft.service"
systemd-analyze verify --man=no "$work/weft.service"
systemd-analyze security --offline=true --no-pager --threshold=20 "$work/weft.service" >"$work/security" ||
  { cat "$work/security"; exit 1; }
tail -1 "$work/security"
