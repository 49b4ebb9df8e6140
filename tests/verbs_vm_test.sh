#!/bin/sh
# The verbs wire on Soft-RoCE, in one boot of a virtual machine: the unit tests of the wire, what `weft doctor` says of
# the devices, reads over shared queue pairs, then the append workload with every row of the protocol table, or with
# those that are named, over three nodes, one of them killed and one stopped, and the number of CAS verbs of each row.
#
#   verbs_vm_test.sh BUILD_DIR [PROTOCOL...]
#
# The machine's kernel is kept in the user's cache, for other clones too.
# Exit status 77: this machine cannot do it; rdma_vm.sh says why.
set -eu

build=$1
shift
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/weft/vm
here=$(dirname "$0")
job=$(mktemp)
trap 'rm -f "$job"' EXIT INT TERM
echo "ROWS='$*'" >"$job"
cat >>"$job" <<'JOB'
/test/weft_wires_test --gtest_color=no --gtest_brief=1 --gtest_filter='Verbs*:*/Verbs.*' >tests.log 2>&1
status=$?
tail -n 40 tests.log
[ $status -eq 0 ] || exit 1
# Nothing may be left out where there are devices.
! grep -q SKIPPED tests.log || exit 1
grep -q 'PASSED.* [1-9][0-9]* tests' tests.log || exit 1
# The machine's doctor knows the devices.
/test/weft doctor >doctor.log
grep -q 'device rxe0 port 1: GID .* is ' doctor.log || exit 1
grep 'device rxe0: no thread domains (.*): workers share' doctor.log || exit 1
# Queue pairs arranged in other ways, all but the one for which it has no registers.
/test/weft bench queue-pairs --threads 2 --seconds 0.3 >queue_pairs.log 2>&1
status=$?
cat queue_pairs.log
[ $status -eq 0 ] && grep -q '^| 2 | .* | – | 1 |$' queue_pairs.log || exit 1
mkdir load
if /test/weft_verbs_load /test/weft load $ROWS; then
  # Every node says once that its workers share doorbell registers.
  grep -h '"event":"doorbells_shared"' load/*.log | head -n 1 | grep 'device rxe[01]: 0 of ' && exit 0
  echo 'nobody said that doorbells are shared'
fi
tail -n 30 load/*.log
exit 1
JOB
"$here/rdma_vm.sh" --cache "$cache" --seconds 1000 "$job" "$build/weft_wires_test" "$build/weft_verbs_load" "$build/weft"
