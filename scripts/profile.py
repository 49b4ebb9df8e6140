#!/usr/bin/env python3
"""Where a transaction's instructions go: counts them with callgrind and adds them up by what they are for.

    scripts/profile.py build/release/weft smallbank [tatp ...]

Instructions, not time: the same on a busy machine. Waiting for memory is not in it; tables are kept small.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

TRANSACTIONS = 64_000  # a fixed number, so that two commits do the same work

# The first pattern that fits a function's name says what it is for.
PARTS = [
    ("tables: index, records, locks", r"weft::(Table|Dlht|dlht|Blocks|PartitionUsage|IndexExtents|Quiesce)|record_|hash_|XXH"),
    ("messages: ports, rings, packets", r"weft::(Port|Sender|Receiver|Ring|LocalWire|LocalFabric|FrameQueue|Credit::)"),
    ("messages: writing and parsing", r"weft::(MessageTransport::(?!take_lock)|Dispatcher|CommitParser|NoticeQueue|AckQueue|put_key|take_key)"
                                      r"|weft::(Participant::reply|Reads::send_get)"),
    ("messages: answers at the coordinator", r"weft::(Coordinator::(on_ack|on_reply|on_unlocked)"
                                             r"|MessageTransport::take_lock_versions|Reads::on_get_reply|ReadServer)"),
    ("participants' records", r"weft::(Prepared(Table|Txn|Keys)|BackupWrites|Pool|Participant)"),
    ("the coordinator: reads, plan, driver", r"weft::(TxnWorker|Coordinator|OwnTransport|Truncation|Planner|Reads|TxnKeys|SlotTable|Client(Acks|Waits)"
                                             r"|CommitCredit|CreditGate|LocalCommits|Recovery|StateTransfer|Placement|fail)"),
    ("the client: coroutines, API, workload", r"weft::(Session|Txn::|StoredProcedure|bench|Worker|FramePool|Timers|Random|Task)"),
    ("copying and clearing", r"mem(cpy|move|set|cmp)"),
]


def run(weft, workload):
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "weft")  # callgrind is slow with debug information
        subprocess.run(["strip", "-g", weft, "-o", binary], check=True)
        out = os.path.join(folder, "out")
        bench = [binary, "bench", workload, "--nodes", "5", "--replicas", "3", "--threads", "1", "--keys", "50000",
                 "--transactions", str(TRANSACTIONS), "--clock-step-ns", "10000", "--json"]
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out,
                   "--toggle-collect=weft::Worker::step()"] + bench
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures = json.loads(done.stdout)
        text = subprocess.run(["callgrind_annotate", "--threshold=100", out], check=True, capture_output=True,
                              text=True).stdout
    counts = {}
    total = 0
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+\S+?:(.+)", line)
        if not found or "PROGRAM TOTALS" in line:
            continue
        n = int(found.group(1).replace(",", ""))
        total += n
        name = next((part for part, pattern in PARTS if re.search(pattern, found.group(2))), "the rest")
        counts[name] = counts.get(name, 0) + n
    transactions = figures["committed"] + figures["aborted"]
    print(f"\n### {workload}: {total / transactions:,.0f} instructions a transaction "
          f"({figures['messages_per_txn']:.1f} messages over rings)\n")
    print("| part | instructions | % |")
    print("|---|---|---|")
    for name, n in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"| {name} | {n / transactions:,.0f} | {100 * n / total:.0f} |")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for workload in sys.argv[2:]:
        run(sys.argv[1], workload)


if __name__ == "__main__":
    main()
