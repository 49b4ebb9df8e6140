#!/usr/bin/env python3
"""How long a kill -9 stops the others, for every row of the protocol table, in one table (printed as Markdown).

    scripts/failover_rows.py --weft build/release/weft [--kills 7] [--fabric shm] [--protocols dnl4 drtmr] [--stop]
                             [--memory M --compute C] [-- OPTIONS OF UP]

Five processes started by `weft up` with its defaults, three replicas. Clients move money between 10,000 accounts at an
easy pace (about a thousand transfers a second in all), so that the cores are there for the nodes; one node after the
other is killed, and the next one when everything is whole again. Times are the nodes' own (WEFT STATUS: change), by the
host's monotonic clock:

  detection  from the kill until the first node has stopped for the view without the dead one
  stopped    from then until the last worker of the last node is active. If another view follows before that (the dead
             node comes back), it counts until they are active in that one
  whole      from the kill until every partition has all its replicas again

With --memory and --compute there are memory nodes and compute nodes in place of the five (up to three replicas), and of
each kind as many are killed, each kind in a cluster of its own.

With --stop a node is stopped (SIGSTOP) in place of killed: it hangs, and only its lease tells.

The sum of all accounts is checked at the end of each row.
"""
import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

import failover

PAUSE_S = 0.01  # of a client between two transfers
LOOK_S = 0.01


def row_names(weft):
    """The rows that a cluster runs: those of the first table but for the read-only one."""
    text = subprocess.run([weft, "protocols"], check=True, capture_output=True, text=True).stdout
    first = text.split("\n\n")[0].splitlines()[1:]
    return [line.split()[0] for line in first if line.split()[0] != "dnl-ro"]


class StatusAsker:
    """Asks one node for its status, again and again on one connection. None: it does not answer."""

    def __init__(self, cluster, node):
        self.cluster, self.node, self.connection = cluster, node, None

    def ask(self):
        try:
            if self.connection is None:
                self.connection = self.cluster.connect(self.node, timeout_s=5)
            return json.loads(self.connection.ask("WEFT", "STATUS"))
        except (OSError, ValueError, TypeError):
            self.close()
            return None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Watch:
    """Asks all nodes but one for their last change; connections stay open, so that looking costs little."""

    def __init__(self, cluster, without):
        self.askers = {n: StatusAsker(cluster, n) for n in range(cluster.nodes) if n != without}

    def changes(self):
        return [status["change"] for asker in self.askers.values() if (status := asker.ask()) is not None]

    def close(self):
        for asker in self.askers.values():
            asker.close()


def stop(cluster, node):
    """The supervisor kills it when the view is without it."""
    pid = cluster.pids()[node]
    cluster.killed.add(pid)
    os.kill(pid, signal.SIGSTOP)


def one_kill(cluster, load, victim, how):
    """Seconds: detection, stopped, whole. None if the change could not be read."""
    load.run(0.3)
    said = cluster.wait_whole()
    while any(s["change"]["adopted_ns"] and not s["change"]["active_ns"] for s in said):
        load.run(LOOK_S)
        said = cluster.wait_whole()
    epoch = said[0]["view"]["epoch"]
    watch = Watch(cluster, victim)
    killed = time.monotonic()
    how(cluster, victim)
    stopped, active = [], None
    while active is None and time.monotonic() < killed + 30:
        load.run(LOOK_S)
        changes = [c for c in watch.changes() if c["epoch"] > epoch]
        stopped += [c["adopted_ns"] / 1e9 for c in changes]
        if len(changes) == cluster.nodes - 1 and all(c["active_ns"] for c in changes):
            active = max(c["active_ns"] for c in changes) / 1e9
    watch.close()
    while not failover.whole(cluster):
        load.run(0.02)
        if time.monotonic() > killed + 120:
            raise SystemExit("not whole again after two minutes")
    if active is None:
        return None
    return min(stopped) - killed, active - min(stopped), time.monotonic() - killed


def measure(args, protocol, victims):
    """`victims`: the list of the cluster's nodes that are killed in turn."""
    with tempfile.TemporaryDirectory() as folder:
        with failover.processes.Cluster(args.weft, os.path.join(folder, "log"), nodes=5, replicas=3,
                                        fabric=args.fabric, protocol=protocol, memory=args.memory,
                                        compute=args.compute, extra=args.up) as cluster:
            cluster.wait_whole()
            failover.fill_accounts(cluster)
            failover.fill(cluster, [b"filler:%d" % n for n in range(args.records)], b"v" * 100)
            load = failover.Load(cluster, args.clients, pause_s=PAUSE_S)
            how = stop if args.stop else failover.processes.Cluster.kill
            nodes = getattr(cluster, victims)
            samples = [one_kill(cluster, load, nodes[kill % len(nodes)], how) for kill in range(args.kills)]
            load.drain()
            cluster.wait_whole()
            failover.check_sum(cluster)
            return [s for s in samples if s is not None]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--fabric", default="shm")
    parser.add_argument("--protocols", nargs="+", help="(default: all rows)")
    parser.add_argument("--kills", type=int, default=7, help="of each row")
    parser.add_argument("--records", type=int, default=0, help="of 100 bytes, beside the accounts")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--memory", type=int, default=0, help="memory nodes")
    parser.add_argument("--compute", type=int, default=0, help="compute nodes")
    parser.add_argument("--stop", action="store_true", help="SIGSTOP, not SIGKILL")
    parser.add_argument("up", nargs="*", help="options for `weft up`, after --")
    args = parser.parse_args()
    if (args.memory > 1) != (args.compute > 0):
        parser.error("--memory, at least 2, goes with --compute")

    of = (f"{args.memory} memory and {args.compute} compute nodes, {min(3, args.memory)} replicas" if args.memory else
          "five, three replicas")
    print(f"### {'SIGSTOP' if args.stop else 'kill -9'} of one node of {of}, {args.fabric}\n")
    print("Milliseconds (whole: seconds), median and longest.\n")
    print("| row | kills | detection | stopped | whole |\n" + "|---" * 5 + "|", flush=True)
    kinds = {", a compute node": "compute_nodes", ", a memory node": "data_nodes"} if args.memory else {"": "data_nodes"}
    for protocol, kind in itertools.product(args.protocols or row_names(args.weft), kinds):
        samples = measure(args, protocol, kinds[kind])

        def two(column, scale, digits, samples=samples):
            values = [s[column] * scale for s in samples]
            return f"{statistics.median(values):.{digits}f} / {max(values):.{digits}f}" if values else ""

        print(f"| {protocol}{kind} | {len(samples)} | {two(0, 1000, 1)} | {two(1, 1000, 1)} | {two(2, 1, 2)} |", flush=True)


if __name__ == "__main__":
    main()
