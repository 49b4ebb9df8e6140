#!/usr/bin/env python3
"""Rounds of faults against a cluster of processes: five nodes, three replicas, append and token workloads from outside.

    process_rounds.py --weft PATH --fabric shm|tcp [--rounds N] [--seed S] [--protocol NAME|all] [--keep DIR]
                      [--memory M --compute C]

With --memory and --compute the cluster has memory nodes and compute nodes (docs/operations.md): clients are at compute
nodes only, and there are more scenarios.

In each round clients run transactions while one scenario (faults.py) is played: nodes are killed, stopped, cut off.
Afterwards the cluster is whole again by itself; the recorded history is strictly serializable; every acknowledged
append is there and no failed one; the tokens are all there, where their moves put them; all replicas of a partition are
equal, and no lock is left; where only compute nodes have come and gone no partition has moved (rule D2), and no data is
at a compute node (rule D4). The seed draws scenarios, moments, nodes and transactions; what the cluster makes of them is
its own. A round that fails names its seed and keeps its history and the cluster's log.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import faults
import load
import protocols
import resp
import workloads
from client import Violation
from cluster import Cluster

ROUNDS_A_CLUSTER = 5
WHOLE_S = 60  # to be whole again after a fault
ANSWER_S = 30  # for a transaction to be answered
QUIET_S = 10  # for locks to go and replicas to be equal
BALLAST_KEYS = 20000  # so that filling a replica takes a moment
KEYS_A_TXN = 32
SETTLE_TRIES = 10


def deck(seed, known, number):
    """The scenario of a round: every one comes once before any comes again."""
    cards = list(known)
    random.Random(f"{seed} deck {number // len(cards)}").shuffle(cards)
    return cards[number % len(cards)]


def data_members(view):
    """Which processes hold data."""
    return [(member["node"], member["incarnation"]) for member in view["members"] if "data" in member["roles"]]


def chunks(items, size):
    return [items[at:at + size] for at in range(0, len(items), size)]


class Session:
    """One cluster, and everything that it must still know."""

    def __init__(self, arguments, protocol, folder):
        self.weft = arguments.weft
        self.protocol = protocol
        self.cluster = Cluster(arguments.weft, folder / "log", fabric=arguments.fabric, protocol=protocol,
                               memory=arguments.memory, compute=arguments.compute,
                               extra=["--set", f"cluster.lease_ms={int(faults.LEASE_S * 1000)}"])
        self.known = {}  # key: value
        self.epoch = None  # of the view, when it was last whole
        self.removed = set()

    def whole(self):
        """Waits until the cluster is; the epoch."""
        return self.cluster.wait_whole(WHOLE_S)[0]["view"]["epoch"]

    def begin(self, ballast_keys):
        self.epoch = self.whole()
        keys = [f"ballast{n}" for n in range(ballast_keys)]
        for part in chunks(keys, KEYS_A_TXN):
            self.place({key: key * 16 for key in part})
        self.known.update((key, (key * 16).encode()) for key in keys)

    def ask(self, *arguments):
        """The answer to a command that may be done twice. A node that is removed meanwhile breaks the connection or
        answers with an error: then any node is asked again. An error without that is wrong."""
        deadline = time.monotonic() + WHOLE_S
        while True:
            try:
                reply = self.cluster.ask(random.choice(self.cluster.transaction_nodes), *arguments)
                if not isinstance(reply, resp.Error):
                    return reply
            except OSError as error:
                reply = error
            if time.monotonic() > deadline:
                raise Violation(f"{arguments[0]} was not done after {WHOLE_S} s: {reply}")
            time.sleep(0.01)
            epoch = self.whole()
            if isinstance(reply, resp.Error) and epoch == self.epoch:
                raise Violation(f"{arguments[0]} answered {reply}, and the view is the same")
            self.epoch = epoch

    def place(self, values):
        """Sets keys that nobody else writes yet."""
        reply = self.ask("MSET", *[text for pair in values.items() for text in pair])
        if reply != "OK":
            raise Violation(f"MSET answered {reply}")

    def read(self, keys):
        """[(invoke_ns, complete_ns, keys, values)], each a transaction."""
        answers = []
        for part in chunks(keys, KEYS_A_TXN):
            invoke_ns = time.monotonic_ns()
            values = self.ask("MGET", *part)
            answers.append((invoke_ns, time.monotonic_ns(), part, values))
        return answers

    def check_known(self):
        """Nothing of earlier rounds has changed."""
        keys = sorted(self.known)
        for _, _, part, values in self.read(keys):
            for key, value in zip(part, values):
                if value != self.known[key]:
                    raise Violation(f"{key} is {value!r}, and was {self.known[key]!r} when its round ended")

    def check_digests(self):
        """All whole replicas of each partition are equal and nothing is locked, within QUIET_S."""
        deadline = time.monotonic() + QUIET_S
        while True:
            digests = [self.cluster.digest(node) for node in range(self.cluster.nodes)]
            fault = fault_of(digests, self.cluster.replicas, len(self.cluster.data_nodes))
            if not fault:
                return
            if time.monotonic() > deadline:
                raise Violation(f"{fault}, {QUIET_S} s after the last transaction: {json.dumps(digests)}")
            time.sleep(0.01)

    def check_compute_nodes(self):
        """Rule D4."""
        for node in self.cluster.compute_nodes:
            records = self.cluster.status(node)["figures"]["records"]
            if records or self.cluster.digest(node)["partitions"]:
                raise Violation(f"D4: compute node {node} holds {records} records")


def fault_of(digests, replicas_of_each=3, partitions=5):
    for digest in digests:
        if digest["locked"] or digest["unreadable"]:
            return f"node {digest['node']} has {digest['locked']} locked and {digest['unreadable']} unreadable records"
    by_partition = collections.defaultdict(dict)
    for digest in digests:
        for partition, tables in digest["partitions"].items():
            by_partition[partition][digest["node"]] = json.dumps(tables, sort_keys=True)
    for partition, replicas in by_partition.items():
        if len(replicas) != replicas_of_each:
            return f"partition {partition} is at nodes {sorted(replicas)}"
        if len(set(replicas.values())) != 1:
            return f"the replicas of partition {partition} differ"
    return "" if len(by_partition) == partitions else f"{len(by_partition)} partitions answer"


def check_placements(between, before, after):
    """Rule D2: a member without data comes and goes without a change of any placement."""
    if data_members(before) == data_members(after) and before["partitions"] != after["partitions"]:
        raise Violation(f"D2: between {between} only compute nodes came and went, and partitions moved: "
                        f"{json.dumps(before)}, {json.dumps(after)}")


def about(view):
    filling = sorted({node for placement in view["partitions"] for node in placement["filling"]})
    return f"members {[member['node'] for member in view['members']]}, filling {filling}"


class Round:
    def __init__(self, session, number, arguments, folder):
        self.session = session
        self.cluster = session.cluster
        self.transactions = arguments.transactions
        self.folder = folder
        self.number = number
        self.random = random.Random(f"{arguments.seed} {arguments.fabric} {number}")
        known = arguments.scenario or faults.scenarios(arguments.fabric, arguments.memory)
        self.scenario = deck(arguments.seed, known, number)
        self.load = load.Load(self.cluster, self.random, f"r{number}")
        self.faults = faults.Faults(self.cluster, self.load, self.random)
        self.whole_ns = self.quiet_ns = 0
        self.surprises = 0  # nodes that were removed for their silence, and were not touched
        self.pause_s = self.pause_at_s = 0.0

    def script(self):
        before = self.random.randint(self.transactions // 5, self.transactions // 2)
        yield lambda: len(self.load.commits_ns) >= before and self.load.view() is not None
        before = self.load.whole_view()
        yield self.random.uniform(0, 0.01)
        yield from self.scenario(self.faults)
        over_ns = time.monotonic_ns()
        end = time.monotonic() + WHOLE_S
        yield lambda: self.load.whole_since(over_ns, self.faults.gone) or time.monotonic() > end
        if time.monotonic() > end:
            raise Violation(f"not whole after {WHOLE_S} s: {self.load.describe()}")
        self.whole_ns = time.monotonic_ns()
        if before:
            check_placements("the beginning and the end", before, self.load.view())
        yield self.random.uniform(0, 0.1)

    def run(self):
        self.session.place({key: token for token, key in self.load.tokens.start.items()})
        try:
            self.load.run(self.script(), lambda: len(self.load.commits_ns) >= self.transactions,
                          2 * WHOLE_S + ANSWER_S)
            self.quiet_ns = time.monotonic_ns()
            self.load.drain(ANSWER_S)
            self.measure()
            self.judge()
        finally:
            self.write()
            self.load.close()

    def measure(self):
        """The longest time without a commit, from the last one before the fault to the end of the load."""
        commits = [ns for ns in self.load.commits_ns if ns <= self.quiet_ns]
        at = next((n for n, ns in enumerate(commits) if ns >= self.faults.began_ns), len(commits))
        since = commits[max(0, at - 1):]
        longest_ns, from_ns = max(((b - a, a) for a, b in zip(since, since[1:])), default=(0, self.faults.began_ns))
        self.pause_s = longest_ns / 1e9
        self.pause_at_s = (from_ns - self.faults.began_ns) / 1e9

    def judge(self):
        if self.faults.in_flight == 0:
            raise Violation("no transaction was under way when the fault began")
        self.judge_views()
        values = self.settled_values()
        self.judge_appends(values)
        self.judge_tokens(values)
        self.write()
        done = subprocess.run([self.session.weft, "check", self.folder / "history"], capture_output=True, text=True,
                              timeout=300, check=False)
        if done.returncode != 0:
            raise Violation(f"weft check: {done.stdout}{done.stderr}")
        self.session.check_known()
        self.session.known.update(values)
        found = self.cluster.faults_in_log()
        if found:
            raise Violation(f"the log says: {found}")
        removed = self.cluster.removed() - self.session.removed
        self.session.removed |= removed
        self.surprises = len(removed - self.faults.touched)

    def settled_values(self):
        """What is there at the end, read while nothing changed. A node may still be removed now: one that was stopped
        for about the length of a lease, or on a machine that has much else to do."""
        for _ in range(SETTLE_TRIES):
            with contextlib.suppress(OSError):
                epochs = {status["view"]["epoch"] for status in self.cluster.wait_whole(WHOLE_S)}
                values = self.final_read()
                self.session.check_digests()
                self.session.check_compute_nodes()
                if {status["view"]["epoch"] for status in self.cluster.wait_whole(WHOLE_S)} == epochs:
                    return values
        raise Violation(f"views changed in each of {SETTLE_TRIES} final reads")

    def final_read(self):
        appends, tokens = self.load.appends, self.load.tokens
        process = appends.new_process()
        values = {}
        for invoke_ns, complete_ns, keys, got in self.session.read(sorted(appends.count)):
            values.update(zip(keys, got))
            ops = [("r", key, workloads.elements(value)) for key, value in zip(keys, got)]
            appends.record(process, invoke_ns, complete_ns, "ok", ops)
        for _, _, keys, got in self.session.read(tokens.keys):
            values.update(zip(keys, got))
        return values

    def judge_views(self):
        views = sorted(self.load.views.items())
        for (epoch, (_, before)), (next_epoch, (_, after)) in zip(views, views[1:]):
            if next_epoch == epoch + 1 and before["members"] != after["members"]:
                check_placements(f"epochs {epoch} and {next_epoch}", before, after)

    def judge_appends(self, values):
        appends = self.load.appends
        for key in appends.count:
            there = set(workloads.elements(values[key]))
            missing = appends.acknowledged.get(key, set()) - there
            if missing:
                raise Violation(f"acknowledged appends of {sorted(missing)} to {key} are gone; it is {values[key]!r}")
            extra = appends.failed.get(key, set()) & there
            if extra:
                raise Violation(f"failed appends of {sorted(extra)} to {key} are there; it is {values[key]!r}")

    def judge_tokens(self, values):
        tokens = self.load.tokens
        found = [(values[key], key) for key in tokens.keys if values[key] is not None]
        if len(found) != len(tokens.start):
            raise Violation(f"I1: at the end the tokens are {found}")
        tokens.judge(dict(found))

    def write(self):
        (self.folder / "history").write_text("\n".join(self.load.appends.lines) + "\n", encoding="utf-8")
        tokens = self.load.tokens
        said = {"start": {token.decode(): key for token, key in tokens.start.items()}, "unknown": tokens.unknown,
                "moves": [(token.decode(), source, target) for token, source, target in tokens.moves]}
        (self.folder / "tokens").write_text(json.dumps(said, indent=1), encoding="utf-8")

        did = [(at, what) for at, what in self.faults.did]
        did += [((ns - self.faults.began_ns) / 1e9, f"epoch {epoch}: {about(view)}")
                for epoch, (ns, view) in self.load.views.items()]
        (self.folder / "events").write_text("".join(f"{at:8.3f} {what}\n" for at, what in sorted(did)),
                                            encoding="utf-8")

    def line(self):
        appends = self.load.appends
        unknown = appends.types["info"] + self.load.unknowns
        did = ", ".join(f"{at:.3f} {what}" for at, what in self.faults.did)
        whole_s = (self.whole_ns - self.faults.began_ns) / 1e9 if self.whole_ns else float("nan")
        return (f"{self.number:4} {self.session.protocol:5} {self.scenario.__name__:28} {len(self.load.commits_ns):6} "
                f"committed, {unknown:3} unknown, pause {self.pause_s:6.3f} s from {self.pause_at_s:6.3f}, slowest {self.load.slowest_ns / 1e9:6.3f}, "
                f"whole {whole_s:6.3f} s: {did}{f', {self.surprises} surprises' if self.surprises else ''}")


class Summary:
    def __init__(self):
        self.rounds = self.committed = self.failed = self.unknown = self.kills = self.stops = self.cuts = 0
        self.surprises = self.token_reads = self.token_moves = 0
        self.nobody = 0  # views in which nobody ran transactions
        self.shipped = 0  # executed at another node (hop), as those processes count them that lived to the end
        self.times = collections.defaultdict(list)  # scenario: (pause, slowest, whole)

    def add(self, done):
        self.rounds += 1
        self.committed += len(done.load.commits_ns)
        self.failed += sum(done.load.failures.values())
        self.unknown += done.load.appends.types["info"] + done.load.unknowns
        self.kills += done.faults.kills
        self.stops += done.faults.stops
        self.cuts += done.faults.cuts
        self.surprises += done.surprises
        self.nobody += sum(not faults.runners(view) for _, view in done.load.views.values())
        self.token_reads += done.load.tokens.reads
        self.token_moves += len(done.load.tokens.moves)
        whole_s = (done.whole_ns - done.faults.began_ns) / 1e9
        self.times[done.scenario.__name__].append((done.pause_s, done.load.slowest_ns / 1e9, whole_s))

    def print(self):
        print(f"\n{self.rounds} rounds, {self.committed} transactions committed ({self.token_moves} token moves, "
              f"{self.token_reads} token readers), {self.failed} failed, {self.unknown} unknown, {self.kills} kills, "
              f"{self.stops} stops, {self.cuts} cuts, {self.surprises} nodes removed that nobody had touched, at least "
              f"{self.shipped} transactions shipped{f', {self.nobody} views without a compute node' if self.nobody else ''}")
        print("Seconds, p50 and max over the rounds: the longest time without a commit, the slowest transaction, whole again")
        print(f"{'scenario':30}{'rounds':>7}{'pause':>9}{'':8}{'slowest':>9}{'':8}{'whole':>9}")
        for name, times in sorted(self.times.items()):
            columns = [f"{statistics.median(column):9.3f}{max(column):8.3f}" for column in zip(*times)]
            print(f"{name:30}{len(times):7}{''.join(columns)}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", required=True, help="the command")
    parser.add_argument("--fabric", choices=["shm", "tcp"], default="shm")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--protocol", default="all", help="a name of `weft protocols`, or all")
    parser.add_argument("--memory", type=int, default=0, help="memory nodes; of more than one, some are killed")
    parser.add_argument("--compute", type=int, default=0, help="compute nodes")
    parser.add_argument("--scenario", nargs="+", help="play only these")
    parser.add_argument("--transactions", type=int, default=1000, help="committed in a round, at least")
    parser.add_argument("--ballast", type=int, default=BALLAST_KEYS, help="keys that are there beside the rounds'")
    parser.add_argument("--keep-all", action="store_true", help="keep what passed as well")
    parser.add_argument("--keep", type=pathlib.Path, help="where failed rounds are kept, else a temporary directory")
    arguments = parser.parse_args()
    if (arguments.memory > 0) != (arguments.compute > 0):
        parser.error("--memory goes with --compute")
    if arguments.scenario:
        known = {card.__name__: card for card in faults.scenarios(arguments.fabric, arguments.memory)}
        for name in arguments.scenario:
            if name not in known:
                parser.error(f"--scenario {name}: there are {', '.join(known)}")
        arguments.scenario = [known[name] for name in arguments.scenario]
    return arguments


def keep(arguments, folder, number):
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    kept = tempfile.mkdtemp(prefix=f"weft-round-{arguments.fabric}-{number}-", dir=arguments.keep)
    for name in os.listdir(folder):
        if (folder / name).is_file():
            shutil.copy(folder / name, kept)
    return kept


def run_session(arguments, protocol, numbers, folder, summary):
    """Some rounds with one cluster. Raises Violation with all that is needed to run it again."""
    number, current = numbers[0], None
    try:
        session = Session(arguments, protocol, folder)
        with session.cluster:
            session.begin(arguments.ballast)
            for number in numbers:
                current = None
                current = Round(session, number, arguments, folder)
                current.run()
                summary.add(current)
                print(current.line(), flush=True)
                if arguments.keep_all:
                    keep(arguments, folder, number)
            summary.shipped += sum(status["figures"]["shipped"] for status in session.cluster.wait_whole())
            status = session.cluster.end()
            found = session.cluster.faults_in_log()
            if status != 0 or found:
                raise Violation(f"weft up ended with status {status}; its log says: {found}")
    except (Violation, OSError, RuntimeError, subprocess.SubprocessError, ValueError) as error:
        what = current.line() if current else f"{number:4} {protocol}, between rounds"
        raise Violation(f"{what}\nFAILED: {type(error).__name__}: {error}\nseed {arguments.seed}, round {number}, "
                        f"kept in {keep(arguments, folder, number)}") from error


def main():
    arguments = parse_arguments()
    # Few rounds do not reach all: over shm, where verbs are accesses to memory, the rows that use most of them come first.
    known = protocols.names(arguments.weft)
    if arguments.protocol not in [*known, "all"]:
        sys.exit(f"--protocol {arguments.protocol}: there are {', '.join(known)} and all")
    rows = known if arguments.fabric == "tcp" else known[::-1]
    chosen = rows if arguments.protocol == "all" else [arguments.protocol]
    summary = Summary()
    of_roles = f", {arguments.memory} memory and {arguments.compute} compute nodes" if arguments.memory else ""
    print(f"{arguments.rounds} rounds over {arguments.fabric}{of_roles}, seed {arguments.seed}", flush=True)
    numbers = list(range(arguments.first, arguments.first + arguments.rounds))
    share = min(ROUNDS_A_CLUSTER, -(-len(numbers) // len(chosen)))
    failed = 0
    for turn, group in enumerate(chunks(numbers, share)):
        with tempfile.TemporaryDirectory(prefix="weft-rounds-") as folder:
            try:
                run_session(arguments, chosen[turn % len(chosen)], group, pathlib.Path(folder), summary)
            except Violation as error:
                print(error, flush=True)
                failed += 1
    with contextlib.suppress(ValueError):
        summary.print()
    if failed:
        print(f"{failed} FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
