#!/usr/bin/env python3
"""What the loss of a node costs: detection, the pause, catching up again, and throughput before, during and after.

    scripts/failover.py --weft build/release/weft [--kills 40] [--fabric shm tcp]

Three experiments for each fabric, on clusters of processes started by `weft up` (printed as Markdown):
  kill    kill -9 of a node, again and again, while clients move money between accounts
  open    the same with as many transactions open as --open says (10,000)
  fill    a node that loses --gib of records and gets them back, with and without clients

Times of the change are the nodes' own (WEFT STATUS: change), by the host's monotonic clock. Nodes and clients share the
machine's cores. The sum of all accounts is checked at the end of each.
"""
import argparse
import itertools
import os
import random
import resource
import select
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
import cluster as processes  # noqa: E402
import resp  # noqa: E402

ACCOUNTS = 10_000
BALANCE = 1_000
EXEC_REPLIES = 4  # of MULTI, two commands, EXEC
BIN_S = 0.01


def account(number):
    return b"account:%d" % number


class Mover:
    """A client that has one transfer under way, always; when its node dies it goes to another."""

    def __init__(self, load, node):
        self.load, self.node, self.connection, self.replies = load, node, None, 0

    def begin(self):
        self.load.busy.discard(self)
        if self.load.stopping:
            return
        self.load.busy.add(self)
        try:
            if self.connection is None:
                self.connection = self.load.cluster.connect(self.node, timeout_s=5)
                self.connection.socket.setblocking(False)
                self.load.watch(self)
            a, b = self.load.random.sample(range(ACCOUNTS), 2)
            self.replies = 0
            self.connection.send(resp.transaction([("INCRBY", account(a), b"-1"), ("INCRBY", account(b), b"1")]))
        except OSError:
            self.lost()

    def lost(self):
        if self.connection is not None:
            self.load.forget(self)
            self.connection.close()
            self.connection = None
        self.node = self.load.random.choice(self.load.cluster.transaction_nodes)
        if self in self.load.busy:  # else it pauses, and begins by itself
            self.load.later.append((time.monotonic() + 0.05, self))

    def readable(self):
        try:
            data = self.connection.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.lost()
            return
        buffer = self.connection.buffer
        buffer += data
        while self.replies < EXEC_REPLIES:
            try:
                value, end = resp.parse(buffer)
            except resp.Incomplete:
                return
            del buffer[:end]
            self.replies += 1
        if isinstance(value, list):
            self.load.committed()
        else:
            self.load.failed += 1
        self.load.next_of(self)


class Load:
    """Clients in one thread; each waits for `pause_s` between two transfers."""

    def __init__(self, cluster, clients, seed=1, pause_s=0.0):
        self.cluster = cluster
        self.pause_s = pause_s
        self.random = random.Random(seed)
        self.poller = select.epoll()
        self.by_fd = {}
        self.later = []
        self.bins = {}  # commits by time
        self.failed = 0
        self.busy = set()  # with a transfer under way
        self.stopping = False
        at = cluster.transaction_nodes
        for n in range(clients):
            Mover(self, at[n % len(at)]).begin()

    def watch(self, mover):
        self.by_fd[mover.connection.socket.fileno()] = mover
        self.poller.register(mover.connection.socket, select.EPOLLIN)

    def forget(self, mover):
        self.poller.unregister(mover.connection.socket)
        del self.by_fd[mover.connection.socket.fileno()]

    def committed(self):
        at = int(time.monotonic() / BIN_S)
        self.bins[at] = self.bins.get(at, 0) + 1

    def next_of(self, mover):
        if self.pause_s == 0:
            mover.begin()
            return
        self.busy.discard(mover)
        self.later.append((time.monotonic() + self.pause_s, mover))

    def step(self, timeout_s=0.002):
        for fd, _ in self.poller.poll(timeout_s):
            mover = self.by_fd.get(fd)
            if mover is not None:
                mover.readable()
        now = time.monotonic()
        due = [mover for at, mover in self.later if at <= now]
        self.later = [(at, mover) for at, mover in self.later if at > now]
        for mover in due:
            mover.begin()

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()

    def drain(self):
        """Until no transfer is under way: sums are of several reads."""
        self.stopping = True
        end = time.monotonic() + 30
        while self.busy and time.monotonic() < end:
            self.step()
        if self.busy:
            raise SystemExit(f"{len(self.busy)} transfers without an answer")

    def rate(self, begin, end):
        first, last = int(begin / BIN_S) + 1, int(end / BIN_S)
        if last <= first:
            return None
        return sum(self.bins.get(i, 0) for i in range(first, last)) / ((last - first) * BIN_S)


class Watch:
    """Asks the nodes for their status without waiting for an answer."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.changes = {}  # (node, epoch): the change

    def look(self, without):
        statuses = []
        for node in range(self.cluster.nodes):
            if node == without:
                continue
            try:
                status = self.cluster.status(node)
            except (OSError, ValueError):
                continue
            statuses.append(status)
            change = status["change"]
            if change["acknowledged_ns"]:
                self.changes[node, change["epoch"]] = change
        return statuses


def whole(cluster):
    try:
        said = [cluster.status(node) for node in range(cluster.nodes)]
    except (OSError, ValueError):
        return False
    return all(s["whole"] for s in said) and len({s["view"]["epoch"] for s in said}) == 1


class Asker:
    """Commands that may be repeated, one after the other; another node is asked when one is lost."""

    def __init__(self, cluster):
        self.cluster, self.connection = cluster, None
        self.nodes = itertools.cycle(cluster.transaction_nodes)
        self.node = next(self.nodes)

    def ask(self, *arguments):
        end = time.monotonic() + 30
        while True:
            try:
                if self.connection is None:
                    self.connection = self.cluster.connect(self.node)
                reply = self.connection.ask(*arguments)
                if not isinstance(reply, resp.Error):
                    return reply
                if time.monotonic() > end:
                    raise SystemExit(f"{arguments[0]}: {reply}")
            except OSError as error:
                if time.monotonic() > end:
                    raise SystemExit(f"{arguments[0]}: {error}") from error
                self.connection = None
                self.node = next(self.nodes)
            time.sleep(0.01)


def fill(cluster, keys, value):
    """keys of the form account:N or filler:N, fifty at a time."""
    asker = Asker(cluster)
    for first in range(0, len(keys), 50):
        asker.ask("MSET", *(part for key in keys[first:first + 50] for part in (key, value)))


def fill_accounts(cluster):
    fill(cluster, [account(n) for n in range(ACCOUNTS)], b"%d" % BALANCE)


def check_sum(cluster):
    asker = Asker(cluster)
    total = 0
    for first in range(0, ACCOUNTS, 50):
        total += sum(int(v) for v in asker.ask("MGET", *(account(n) for n in range(first, first + 50))))
    if total != ACCOUNTS * BALANCE:
        raise SystemExit(f"money was lost or made: {total}, expected {ACCOUNTS * BALANCE}")


def one_kill(cluster, load, settle_s):
    """The figures of one kill -9 in seconds; those of the change only if no other view hid it before it was read."""
    load.run(settle_s)
    victim = load.random.randrange(cluster.nodes)
    epoch = cluster.wait_whole()[0]["view"]["epoch"]
    watch = Watch(cluster)
    load.run(0.1)
    killed = time.monotonic()
    cluster.kill(victim)
    survivors = cluster.nodes - 1
    end = killed + 30
    while load.by_fd and time.monotonic() < end:  # without clients nothing is acknowledged
        load.run(0.004)
        said = watch.look(victim)
        if len(said) == survivors and all(s["change"]["epoch"] > epoch and s["change"]["acknowledged_ns"] for s in said):
            break
    while not whole(cluster):
        load.run(0.02)
        if time.monotonic() > killed + 120:
            raise SystemExit("not whole again after two minutes")
    healed = time.monotonic()
    load.run(settle_s)
    rates = {
        "whole": healed - killed,
        "before": load.rate(killed - settle_s, killed),
        "during": load.rate(killed, healed),
        "after": load.rate(healed, healed + settle_s),
    }
    changes = [c for (node, e), c in watch.changes.items() if e == epoch + 1]
    if len(changes) < survivors:
        return rates
    adopted = [c["adopted_ns"] / 1e9 for c in changes]
    active = max(c["active_ns"] / 1e9 for c in changes)
    return {
        "detect": min(adopted) - killed,
        "recover": active - min(adopted),
        "pause": min(c["acknowledged_ns"] for c in changes) / 1e9 - min(adopted),
        "all": max(c["acknowledged_ns"] for c in changes) / 1e9 - min(adopted),
        "open": sum(c["open"] for c in changes),
        **rates,
    }


def table(rows):
    print("| fabric | clients | kills | open, median | detection ms | recovery ms | first commit ms | last node's first commit ms "
          "| whole s | txn/s before | while catching up | after |")
    print("|" + "---|" * 12)
    for fabric, clients, samples in rows:
        def two(name, scale=1000, digits=1):
            values = [s[name] * scale for s in samples]
            return f"{statistics.median(values):.{digits}f} / {max(values):.{digits}f}"

        def middle(name):
            values = [s[name] for s in samples if s[name] is not None]
            return f"{statistics.median(values):,.0f}" if values else ""

        print(f"| {fabric} | {clients} | {len(samples)} | {middle('open')} | {two('detect')} | {two('recover')} "
              f"| {two('pause')} | {two('all')} | {two('whole', 1, 2)} | {middle('before')} | {middle('during')} "
              f"| {middle('after')} |")
    print(flush=True)


def kills(args, fabric, clients, count, workers):
    with tempfile.TemporaryDirectory() as folder:
        extra = ["--workers", str(workers)]
        with processes.Cluster(args.weft, os.path.join(folder, "log"), nodes=5, replicas=3, fabric=fabric,
                               protocol=args.protocol, extra=extra) as cluster:
            cluster.wait_whole()
            fill_accounts(cluster)
            load = Load(cluster, clients)
            samples = []
            missed = 0
            while len(samples) < count and missed <= count:
                sample = one_kill(cluster, load, args.settle)
                if "pause" not in sample:
                    missed += 1
                else:
                    samples.append(sample)
            load.drain()
            cluster.wait_whole()
            check_sum(cluster)
            if missed:
                print(f"({missed} kills were followed by another view too soon to be read)", file=sys.stderr)
            return samples


def refill(args, fabric, clients):
    """Seconds from a kill until everything is whole, and the bytes that were copied."""
    value = os.urandom(1024)
    keys = int(args.gib * (1 << 30) / len(value))
    with tempfile.TemporaryDirectory() as folder:
        with processes.Cluster(args.weft, os.path.join(folder, "log"), nodes=3, replicas=3, fabric=fabric,
                               protocol=args.protocol) as cluster:
            cluster.wait_whole()
            fill_accounts(cluster)
            fill(cluster, [b"filler:%d" % n for n in range(keys)], value)
            load = Load(cluster, clients)
            sample = one_kill(cluster, load, max(args.settle, 1) if clients else 0.2)
            load.drain()
            check_sum(cluster)
            digests = [cluster.digest(node) for node in range(3)] if not clients else []
            for digest in digests:
                digest.pop("node", None)
                digest.pop("epoch", None)
            if any(d != digests[0] for d in digests):
                raise SystemExit(f"replicas differ: {digests}")
            return sample


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--fabric", nargs="+", default=["shm", "tcp"])
    parser.add_argument("--protocol", default="dnl4")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--open", type=int, default=10_000)
    parser.add_argument("--open-kills", type=int, default=10)
    parser.add_argument("--gib", type=float, default=0.5)
    parser.add_argument("--settle", type=float, default=0.5, help="seconds of load before a kill and after")
    args = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))

    print("### kill -9 of one node of five, three replicas\n")
    print("Median and longest. Detection: from the kill until the first node has the view without it. Recovery: until the "
          "last worker is active again. Commits: the first acknowledged in the new view, by the first and by the last node.\n")
    rows = []
    for fabric in args.fabric:
        rows.append((fabric, args.clients, kills(args, fabric, args.clients, args.kills, workers=1)))
        if args.open:
            rows.append((fabric, args.open, kills(args, fabric, args.open, args.open_kills,
                                                  workers=max(1, args.open // (5 * 200)))))
    table(rows)

    if args.gib:
        print(f"### Filling {args.gib:g} GiB of 1 KiB values, one node of three, three replicas\n")
        print("| fabric | clients | whole s | s per GiB | txn/s before | while catching up | after |")
        print("|" + "---|" * 7)
        for fabric in args.fabric:
            for clients in (0, args.clients):
                s = refill(args, fabric, clients)
                rates = [f"{s[n]:,.0f}" if clients and s[n] else "" for n in ("before", "during", "after")]
                print(f"| {fabric} | {clients} | {s['whole']:.2f} | {s['whole'] / args.gib:.1f} | " + " | ".join(rates)
                      + " |", flush=True)


if __name__ == "__main__":
    main()
