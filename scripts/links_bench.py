#!/usr/bin/env python3
"""What a node that cannot be reached, and a link that is down, cost the others (printed as Markdown).

    scripts/links_bench.py --weft build/release/weft [--seconds 20] [--clients 24]

Five `weft server` over tcp, three replicas, ZooKeeper for the view. Clients at nodes 2, 3 and 4 move money between
10,000 accounts, as fast as they can; all of it shares the machine's cores.

  whole     nothing is wrong
  joiner    a sixth node asks for a place in the view all the time; the address that it advertises is wrong
  down      nodes 0 and 1 reach all the others and not each other
  flaps     the same for a second, and then they do for a second, again and again
  port      so do all links of one node, the younger of 0 and 1

ops/s are transfers that were committed, views/s changes of the view, ratio is to what was measured just before with
everything whole; others are nodes that were removed and have no part in it. The sum of all accounts is
checked at the end.
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


def view_of(cluster):
    while True:
        for node in CLIENTS_AT:
            try:
                return cluster.status(node)["view"]
            except (OSError, ValueError):
                continue


def epoch(cluster):
    return view_of(cluster)["epoch"]


def incarnations(cluster):
    return {member["node"]: member["incarnation"] for member in view_of(cluster)["members"]}


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


# Each case returns what measure() does, and the nodes that have a part in what fails.


def joiner(cluster, load, seconds):
    cluster.start_stranger("joiner", cluster.nodes, advertise="127.0.0.1:1")
    said = measure(cluster, load, seconds)
    cluster.end_strangers()
    return said, []


def down(cluster, load, seconds):
    link = links.DownLink(cluster, 0, 1, cluster.fabric_port)
    said = measure(cluster, load, seconds, link.hold)
    link.mend()
    return said, [0, 1]


def flap(cluster, load, seconds, pairs):
    down_now, at = [], time.monotonic()

    def meanwhile():
        nonlocal at
        for link in down_now:
            link.hold()
        if time.monotonic() < at:
            return
        at = time.monotonic() + 1
        if not down_now:
            down_now.extend(links.DownLink(cluster, a, b, cluster.fabric_port) for a, b in pairs)
            return
        for link in down_now:
            link.mend()
        down_now.clear()
    said = measure(cluster, load, seconds, meanwhile)
    for link in down_now:
        link.mend()
    return said


def flaps(cluster, load, seconds):
    return flap(cluster, load, seconds, [(0, 1)]), [0, 1]


def port(cluster, load, seconds):
    age = incarnations(cluster)
    young = max((0, 1), key=lambda node: age[node])
    pairs = [(young, other) for other in range(cluster.nodes) if other != young]
    return flap(cluster, load, seconds, pairs), [young]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--only", nargs="*", default=["joiner", "down", "flaps", "port"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-links-") as folder:
        zookeeper = servers.ZooKeeper(pathlib.Path(folder))
        cluster = servers.Servers(os.path.abspath(args.weft), pathlib.Path(folder), zookeeper, spare=1)
        try:
            servers.wait_for(lambda: failover.whole(cluster), "the cluster is whole")
            failover.fill_accounts(cluster)
            load = Load(cluster, args.clients)
            load.run(2)
            print("| | whole, ops/s | ops/s | ratio | views/s | others |\n|---|--:|--:|--:|--:|--:|", flush=True)
            for case in [case for case in (joiner, down, flaps, port) if case.__name__ in args.only]:
                wait_whole(cluster, load)
                whole, calm = measure(cluster, load, args.seconds / 2)
                if calm != 0:
                    print(f"(views changed while all was whole: {calm:.2f}/s)")
                before = incarnations(cluster)
                (ops, views), part = case(cluster, load, args.seconds)
                after = incarnations(cluster)
                others = sum(after.get(node) != before[node] for node in before if node not in part)
                print(f"| {case.__name__} | {whole:,.0f} | {ops:,.0f} | {ops / whole:.2f} | {views:.2f} | {others} |",
                      flush=True)
            wait_whole(cluster, load)
            load.drain()
            failover.check_sum(cluster)
        finally:
            cluster.end()
            zookeeper.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
