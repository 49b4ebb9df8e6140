#!/usr/bin/env python3
"""What a cluster takes that nobody uses: processor time and wake-ups of every process of an idle `weft up`.

    scripts/idle.py --weft build/release/weft [--nodes 3] [--fabric shm tcp] [--seconds 20] [--runs 3]

Percent of a core, by the kernel's own account (/proc/PID/task/*/schedstat, in ns), and how often a second the threads
of a process went to sleep (voluntary_ctxt_switches). Printed as Markdown, the median of the runs and their spread.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
import cluster as processes  # noqa: E402

SETTLE_S = 3  # after it is up: what start-up left to do


def cpu_s(pid):
    return sum(int((task / "schedstat").read_text(encoding="utf-8").split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def sleeps(pid):
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


def measure(arguments, fabric, folder):
    """Of the supervisor, then of the nodes together: percent of a core, wake-ups a second."""
    with processes.Cluster(arguments.weft, os.path.join(folder, "log"), nodes=arguments.nodes,
                           replicas=min(3, arguments.nodes), fabric=fabric, http=True,
                           extra=["--workers", str(arguments.workers)]) as cluster:
        cluster.wait_whole()
        time.sleep(SETTLE_S)
        groups = [[cluster.up.pid], list(cluster.pids().values())]
        before = [(sum(map(cpu_s, pids)), sum(map(sleeps, pids))) for pids in groups]
        began = time.monotonic()
        time.sleep(arguments.seconds)
        took = time.monotonic() - began
        after = [(sum(map(cpu_s, pids)), sum(map(sleeps, pids))) for pids in groups]
        return [(100 * (now[0] - then[0]) / took, (now[1] - then[1]) / took) for then, now in zip(before, after)]


def text_of(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fabric", nargs="+", default=["shm", "tcp"])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{arguments.nodes} nodes with {arguments.workers} worker(s), idle for {arguments.seconds:g} s, "
          f"{arguments.runs} runs: median (least to most)\n")
    print("| fabric | all processes, % of a core | of it the supervisor | wake-ups a second |")
    print("|---|---|---|---|")
    for fabric in arguments.fabric:
        runs = []
        for _ in range(arguments.runs):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(measure(arguments, fabric, folder))
        print(f"| {fabric} | {text_of([sum(cpu for cpu, _ in run) for run in runs])} "
              f"| {text_of([run[0][0] for run in runs])} "
              f"| {statistics.median([sum(wakes for _, wakes in run) for run in runs]):.0f} |", flush=True)


if __name__ == "__main__":
    main()
