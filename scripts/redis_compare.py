#!/usr/bin/env python3
"""Weft beside Debian's redis-server: the same client, the same machine, by turns.

    scripts/redis_compare.py --weft build/release/weft --load build/release/redis_load [--seconds 2] [--rounds 3]
        [--protocol dnl4] [--client-cores 0 --server-cores 1,2,3]

The limit is what the same client gets from redis_ok, a server that only answers +OK; it stands beside --load. Redis
alone (no persistence) against Weft with one node; Redis with one replica and WAIT 1 against Weft with three
nodes and three replicas, whose every commit has reached all of them before it is answered. One server at a time is up.
A row shows the round with the median rate. Printed as Markdown.

On a machine with more than two cores the client and every node may have cores of their own: --client-cores for the
client, --server-cores for the servers' processes, one core each in turn (nodes of Weft, Redis and its replica).
"""
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

LOADS = [("set", 1), ("set", 16), ("set", 64), ("get", 1), ("get", 16), ("get", 64), ("incr", 1), ("incr", 16),
         ("incr", 64), ("mset", 1), ("mset", 16), ("mset", 64), ("transfer", 1)]
OK = "+OK"
SETUPS = [OK, "redis", "weft, 1 node", "redis + replica, WAIT 1", "weft, 3 nodes"]


def free_ports(count):
    """A run of free ports, for what listens on a port and those after it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        try:
            for port in range(first, first + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
            return list(range(first, first + count))
        except OSError:
            continue


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            s.sendall(b"PING\r\n")
            return s.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise SystemExit("a server did not come up")
        time.sleep(0.05)


def cores_of(text):
    return [int(core) for core in text.split(",")] if text else []


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


class Servers:
    def __init__(self, setup, args, folder):
        self.processes = []
        if setup == OK:
            self.ports = free_ports(1)
            ok = os.path.join(os.path.dirname(os.path.abspath(args.load)), "redis_ok")
            self.start([ok, "--port", str(self.ports[0])])
        elif setup.startswith("weft"):
            nodes = setup.split()[1]
            self.ports = free_ports(16)[:int(nodes)]
            self.start([os.path.abspath(args.weft), "up", "--nodes", nodes, "--replicas", nodes, "--port",
                        str(self.ports[0]), "--http-port", "0", *(["--protocol", args.protocol] if args.protocol else [])])
        else:
            self.ports = free_ports(2)
            redis = ["redis-server", "--save", "", "--appendonly", "no", "--dir", folder, "--port"]
            self.start(redis + [str(self.ports[0])])
            if "replica" in setup:
                wait_for(lambda: answers(self.ports[0]))
                self.start(redis + [str(self.ports[1]), "--replicaof", "127.0.0.1", str(self.ports[0])])
                wait_for(self.replica_is_up)
            self.ports = self.ports[:1]
        for port in self.ports:
            wait_for(lambda: answers(port))
        self.pin(cores_of(args.server_cores))
        time.sleep(0.5)

    def pin(self, cores):
        """Every process that serves, with all its threads, to a core of its own; a supervisor stays where it is."""
        if not cores:
            return
        pids = [child for process in self.processes for child in children_of(process.pid) or [process.pid]]
        for i, pid in enumerate(pids):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), {cores[i % len(cores)]})

    def start(self, command):
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def replica_is_up(self):
        text = subprocess.run(["redis-cli", "-p", str(self.ports[0]), "info", "replication"], capture_output=True,
                              text=True).stdout
        return "state=online" in text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            process.wait()


def measured(command, tries=3):
    """On a busy machine a node may be silent for longer than its lease, and its clients lose their connections."""
    for left in reversed(range(tries)):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
        print(f"{' '.join(command[1:])}: {done.stderr.strip()}, {left} tries left", file=sys.stderr)
        time.sleep(3)
    raise SystemExit("no figure")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--load", required=True, help="the program redis_load")
    parser.add_argument("--seconds", default="2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="50")
    parser.add_argument("--protocol", default="", help="the row that Weft serves (default: its own choice)")
    parser.add_argument("--client-cores", default="", help="cores for the client, as in 0,1 (default: any)")
    parser.add_argument("--server-cores", default="", help="cores for the servers, one for each process (default: any)")
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for setup in SETUPS:
                with Servers(setup, args, folder) as servers:
                    for load, pipeline in LOADS:
                        if setup == OK and load == "transfer":
                            continue  # its client needs balances
                        command = ["taskset", "-c", args.client_cores] if args.client_cores else []
                        command += [os.path.abspath(args.load), load, "--port", ",".join(map(str, servers.ports)), "--seconds",
                                   args.seconds, "--pipeline", str(pipeline), "--clients", args.clients]
                        command += ["--wait"] if "WAIT" in setup and load != "get" else []
                        results.setdefault((load, pipeline, setup), []).append(measured(command))

    def middle(load, pipeline, setup):
        return sorted(results[load, pipeline, setup], key=lambda r: r["tps"])[args.rounds // 2]

    print(f"{args.clients} connections of one client thread, 100,000 keys, median of {args.rounds} rounds of "
          f"{args.seconds} s; commands a second, p50/p99 of a batch in µs.\n")
    for left, right in ((SETUPS[1], SETUPS[2]), (SETUPS[3], SETUPS[4])):
        print(f"| command | pipeline | {left} | p50/p99 | {right} | p50/p99 | ratio | {OK} | of it |")
        print("|---|---|---|---|---|---|---|---|---|")
        for load, pipeline in LOADS:
            a, b = middle(load, pipeline, left), middle(load, pipeline, right)
            line = (f"| {load} | {pipeline} | {a['tps']:,.0f} | {a['p50_us']:.0f}/{a['p99_us']:.0f} "
                    f"| {b['tps']:,.0f} | {b['p50_us']:.0f}/{b['p99_us']:.0f} | {b['tps'] / a['tps']:.2f} ")
            if (load, pipeline, OK) in results:
                limit = middle(load, pipeline, OK)["tps"]
                print(line + f"| {limit:,.0f} | {100 * b['tps'] / limit:.0f} % |")
            else:
                print(line + "| – | – |")
        print()


if __name__ == "__main__":
    main()
