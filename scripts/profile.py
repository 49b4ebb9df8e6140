#!/usr/bin/env python3
"""Where a transaction's instructions go: counts them with callgrind and adds them up by what they are for.

    scripts/profile.py build/release/weft smallbank [tatp ...]
    scripts/profile.py --line build/release/weft smallbank [tatp ...]     one line each, beside what was recorded last
    scripts/profile.py --record build/release/weft smallbank [tatp ...]   and record it

Instructions, not time: the same on a busy machine. Waiting for memory is not in it; tables are kept small. A commit
that changes what a transaction costs records its figures (instructions.json, beside this script), so that the next one
is compared with them.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

TRANSACTIONS = 64_000  # a fixed number, so that two commits do the same work
KEYS = 50_000
LINE_TRANSACTIONS, LINE_KEYS = 8_000, 8_000  # where the sum alone is wanted, and soon
RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")

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


def profile(weft, workload, transactions, keys):
    """Runs it; returns the benchmark's figures and the instructions of each function."""
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "weft")  # callgrind is slow with debug information
        subprocess.run(["strip", "-g", weft, "-o", binary], check=True)
        out = os.path.join(folder, "out")
        bench = [binary, "bench", workload, "--nodes", "5", "--replicas", "3", "--threads", "1", "--keys", str(keys),
                 "--transactions", str(transactions), "--clock-step-ns", "10000", "--json"]
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out,
                   "--toggle-collect=weft::Worker::step()"] + bench
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        text = subprocess.run(["callgrind_annotate", "--threshold=100", out], check=True, capture_output=True,
                              text=True).stdout
    functions = []
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+\S+?:(.+)", line)
        if found and "PROGRAM TOTALS" not in line:
            functions.append((found.group(2), int(found.group(1).replace(",", ""))))
    return json.loads(done.stdout), functions


def table(weft, workload):
    figures, functions = profile(weft, workload, TRANSACTIONS, KEYS)
    counts = {}
    for function, n in functions:
        name = next((part for part, pattern in PARTS if re.search(pattern, function)), "the rest")
        counts[name] = counts.get(name, 0) + n
    total = sum(counts.values())
    transactions = figures["committed"] + figures["aborted"]
    print(f"\n### {workload}: {total / transactions:,.0f} instructions a transaction "
          f"({figures['messages_per_txn']:.1f} messages over rings)\n")
    print("| part | instructions | % |")
    print("|---|---|---|")
    for name, n in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"| {name} | {n / transactions:,.0f} | {100 * n / total:.0f} |")


def line(weft, workload, recorded):
    figures, functions = profile(weft, workload, LINE_TRANSACTIONS, LINE_KEYS)
    now = round(sum(n for _, n in functions) / (figures["committed"] + figures["aborted"]))
    before = recorded.get(workload)
    change = f"{before:,} recorded, {100 * (now - before) / before:+.1f} %" if before else "none recorded"
    print(f"{workload}: {now:,} instructions a transaction ({change})", flush=True)
    recorded[workload] = now


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(names) < 2 or options not in ([], ["--line"], ["--record"]):
        sys.exit(__doc__)
    if not options:
        for workload in names[1:]:
            table(names[0], workload)
        return
    recorded = {}
    if os.path.exists(RECORDED):
        with open(RECORDED, encoding="utf-8") as file:
            recorded = json.load(file)
    for workload in names[1:]:
        line(names[0], workload, recorded)
    if options == ["--record"]:
        with open(RECORDED, "w", encoding="utf-8") as file:
            file.write(json.dumps(recorded, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
