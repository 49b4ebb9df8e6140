#!/usr/bin/env python3
"""What a node that cannot be reached, and a link that is down, cost the others (printed as Markdown).

    scripts/links_bench.py --weft build/release/weft [--seconds 20] [--clients 24]

Five `weft server` over tcp, three replicas, ZooKeeper for the view. Clients at nodes 2, 3 and 4 move money between
10,000 accounts, as fast as they can; all of it shares the machine's cores.

  whole     nothing is wrong
  joiner    a sixth node asks for a place in the view all the time; the address that it advertises is wrong
  down      nodes 0 and 1 reach all the others and not each other
  flaps     the same for a second, and then they do for a second, again and again

ops/s are transfers that were committed, views/s changes of the view, ratio is to what was measured just before with
everything whole. The sum of all accounts is checked at the end.
"""
import argparse
import os
import pathlib
import sys
import tempfile
import time

import failover

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
import links  # noqa: E402
import servers  # noqa: E402

CLIENTS_AT = [2, 3, 4]
LOOK_S = 0.1


class Mover(failover.Mover):
    """Stays with the nodes that have no part in it."""

    def lost(self):
        super().lost()
        self.node = self.load.random.choice(CLIENTS_AT)


class Load(failover.Load):
    def __init__(self, cluster, clients):
        super().__init__(cluster, 0)
        for n in range(clients):
            Mover(self, CLIENTS_AT[n % len(CLIENTS_AT)]).begin()


def epoch(cluster):
    while True:
        for node in CLIENTS_AT:
            try:
                return cluster.status(node)["view"]["epoch"]
            except (OSError, ValueError):
                continue


def measure(cluster, load, seconds, meanwhile=lambda: None):
    """(transfers a second, views a second)"""
    before, begin = epoch(cluster), time.monotonic()
    while time.monotonic() < begin + seconds:
        meanwhile()
        load.run(LOOK_S)
    end = time.monotonic()
    return load.rate(begin, end), (epoch(cluster) - before) / (end - begin)


def wait_whole(cluster, load):
    end = time.monotonic() + 180
    while not failover.whole(cluster):
        load.run(LOOK_S)
        if time.monotonic() > end:
            raise SystemExit("not whole again after three minutes")


def joiner(cluster, load, seconds):
    cluster.start_stranger("joiner", cluster.nodes, advertise="127.0.0.1:1")
    said = measure(cluster, load, seconds)
    cluster.end_strangers()
    return said


def down(cluster, load, seconds):
    link = links.DownLink(cluster, 0, 1, cluster.fabric_port)
    said = measure(cluster, load, seconds, link.hold)
    link.mend()
    return said


def flaps(cluster, load, seconds):
    state = {"link": None, "at": time.monotonic()}

    def meanwhile():
        if state["link"] is not None:
            state["link"].hold()
        if time.monotonic() < state["at"]:
            return
        state["at"] = time.monotonic() + 1
        if state["link"] is None:
            state["link"] = links.DownLink(cluster, 0, 1, cluster.fabric_port)
        else:
            state["link"].mend()
            state["link"] = None
    said = measure(cluster, load, seconds, meanwhile)
    if state["link"] is not None:
        state["link"].mend()
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--only", nargs="*", default=["joiner", "down", "flaps"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-links-") as folder:
        zookeeper = servers.ZooKeeper(pathlib.Path(folder))
        cluster = servers.Servers(os.path.abspath(args.weft), pathlib.Path(folder), zookeeper, spare=1)
        try:
            servers.wait_for(lambda: failover.whole(cluster), "the cluster is whole")
            failover.fill_accounts(cluster)
            load = Load(cluster, args.clients)
            load.run(2)
            print("| | whole, ops/s | ops/s | ratio | views/s |\n|---|--:|--:|--:|--:|", flush=True)
            for case in [case for case in (joiner, down, flaps) if case.__name__ in args.only]:
                wait_whole(cluster, load)
                whole, calm = measure(cluster, load, args.seconds / 2)
                if calm != 0:
                    print(f"(views changed while all was whole: {calm:.2f}/s)")
                ops, views = case(cluster, load, args.seconds)
                print(f"| {case.__name__} | {whole:,.0f} | {ops:,.0f} | {ops / whole:.2f} | {views:.2f} |", flush=True)
            wait_whole(cluster, load)
            load.drain()
            failover.check_sum(cluster)
        finally:
            cluster.end()
            zookeeper.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
