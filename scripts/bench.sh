#!/bin/sh
# Every figure of docs/performance.md from one command: the workloads, then the benchmarks beside the code.
# Run as: bench.sh BUILD_DIR WEFT. Each benchmark is a process of its own, so that none measures another's memory.
set -eu

build=$1
weft=$2

"$weft" bench all --markdown --label "$(git describe --always --dirty 2>/dev/null || echo unknown)"

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
