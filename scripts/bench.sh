#!/bin/sh
# The workloads, phases by verbs and by messages, a crash, then the benchmarks beside the code: docs/performance.md.
# Run as: bench.sh BUILD_DIR WEFT. Each benchmark is a process of its own, so that none measures another's memory.
set -eu

build=$1
weft=$2

label=$(git describe --always --dirty 2>/dev/null || echo unknown)
"$weft" bench all --markdown --label "$label"
echo
"$weft" bench phases --markdown --label "$label"
echo
"$weft" bench crash --markdown --label "$label"

for program in "$build"/*_bench; do
  [ -x "$program" ] || continue
  echo
  echo "## $(basename "$program")"
  echo
  "$program"
done

echo
echo "## dlht_bench, 100 M keys"
echo
"$build"/dlht_bench --keys 100000000

echo
echo "## order_bench, 20 M keys"
echo
"$build"/order_bench --keys 20000000
