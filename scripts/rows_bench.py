#!/usr/bin/env python3
"""Rows of the protocol table beside each other, as clients of Redis see them: processes on this machine, by turns.

    scripts/rows_bench.py --weft build/release/weft --load build/release/redis_load [--nodes 3,5,7] [--replicas 3]
        [--rows dnl4,dnl1,hop] [--fabric tcp] [--seconds 2] [--rounds 3]

For each number of nodes and each row a cluster is up at a time. The loads are redis_load's. "away": one connection, one
command in flight, of keys that its node has no replica of; where each node has a replica of every key there are none.
"hot": INCR of one key from all nodes. The others: 50 connections over all nodes. A cell has the round with the median
rate: commands a second, p50 in µs. Printed as Markdown.
"""
import argparse
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from redis_compare import answers, free_ports, measured, wait_for  # noqa: E402

AWAY = ["--clients", "1", "--away"]
MANY = ["--clients", "50"]
LOADS = [("incr, away", ["incr", *AWAY]), ("set, away", ["set", *AWAY]), ("get, away", ["get", *AWAY]),
         ("hot", ["hot", *MANY]), ("get", ["get", *MANY]), ("mget of ten", ["mget", *MANY]), ("set", ["set", *MANY]),
         ("incr", ["incr", *MANY]), ("mset of ten", ["mset", *MANY]), ("watch, exec", ["transfer", *MANY]),
         ("a key that all read", ["share", *MANY])]


class Cluster:
    def __init__(self, args, nodes, row):
        self.ports = free_ports(16)[:nodes]
        self.process = subprocess.Popen(
            [os.path.abspath(args.weft), "up", "--nodes", str(nodes), "--replicas", str(min(args.replicas, nodes)),
             "--port", str(self.ports[0]), "--http-port", "0", "--protocol", row, "--fabric", args.fabric,
             "--memory-bytes", "256MiB"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for port in self.ports:
            wait_for(lambda at=port: answers(at))
        time.sleep(0.5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def print_table(args, nodes, rows, results):
    print(f"\n{nodes} nodes, {min(args.replicas, nodes)} replicas, {args.fabric}, median of {args.rounds} rounds of "
          f"{args.seconds} s; commands a second, p50 in µs; beside it, of {rows[0]}'s.\n")
    print("| command | " + " | ".join(rows) + " |")
    print("|---" * (1 + len(rows)) + "|")
    for load, _ in LOADS:
        cells = []
        first = None
        for row in rows:
            of = sorted(results.get((nodes, row, load), []), key=lambda r: r["tps"])
            if not of:
                cells.append("–")
                continue
            middle = of[len(of) // 2]
            first = first or middle
            cells.append(f"{middle['tps']:,.0f} {middle['p50_us']:.0f} ({middle['tps'] / first['tps']:.2f}, "
                         f"{middle['p50_us'] / first['p50_us']:.2f})")
        print(f"| {load} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--load", required=True, help="the program redis_load")
    parser.add_argument("--nodes", default="3,5,7")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--rows", default="dnl4,dnl1,hop")
    parser.add_argument("--fabric", default="tcp")
    parser.add_argument("--seconds", default="2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="loads whose name begins with this")
    args = parser.parse_args()
    rows = args.rows.split(",")
    sizes = [int(nodes) for nodes in args.nodes.split(",")]
    results = {}
    for _ in range(args.rounds):
        for nodes in sizes:
            for row in rows:
                with Cluster(args, nodes, row) as cluster:
                    for load, flags in LOADS:
                        if not load.startswith(args.only) or ("--away" in flags and nodes <= args.replicas):
                            continue
                        command = [os.path.abspath(args.load), *flags, "--port", ",".join(map(str, cluster.ports)),
                                   "--seconds", args.seconds]
                        results.setdefault((nodes, row, load), []).append(measured(command))
    for nodes in sizes:
        print_table(args, nodes, rows, results)


if __name__ == "__main__":
    main()
