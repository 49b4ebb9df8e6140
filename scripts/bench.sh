#!/bin/sh
# Every figure from one command: the machine and the commit, then the benchmarks beside the code, then the workloads.
# Run as: bench.sh BUILD_DIR WEFT. Each benchmark is a process of its own, so that none measures another's memory.
set -eu

build=$1
weft=$2

echo "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores," \
  "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo | awk '{ printf "%.0f GiB", $1 / 1048576 }')"
echo "commit:  $(git describe --always --dirty 2>/dev/null || echo unknown)"

for program in "$build"/*_bench; do
  [ -x "$program" ] || continue
  echo
  echo "--- $(basename "$program")"
  "$program"
done

for workload in smallbank tatp; do
  echo
  echo "--- $workload"
  "$weft" bench "$workload" --nodes 5 --replicas 3
done
