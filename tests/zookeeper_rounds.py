"""Rounds of a cluster of `weft server --config` processes over tcp with ZooKeeper: what the tests that play scenarios
with it share.
"""

import argparse
import contextlib
import pathlib
import subprocess
import tempfile
import time

import faults
import process_rounds
import servers
from client import Violation

LEASE_S = 0.5
PATIENCE_S = 60
SOME = 200  # transactions


class Play(faults.Faults):
    """What can be done to this kind of cluster beside the rest."""

    def __init__(self, cluster, load, rng):
        super().__init__(cluster, load, rng)
        self.zookeeper = cluster.zookeeper

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        yield lambda: condition() or time.monotonic() > end
        if not condition():
            raise Violation(f"{what}: not after {PATIENCE_S} s")

    def commits(self, count):
        """So many more: they began after this."""
        before = len(self.load.commits_ns) + self.load.in_flight()
        yield from self.until(lambda: len(self.load.commits_ns) >= before + count, f"{count} more commits")

    def statuses(self):
        return [self.load.watchers[node].status for node in self.cluster.pids()]

    def wait_away(self):
        yield from self.until(lambda: all(s and "is away" in s["membership"] for s in self.statuses()),
                              "every node knows that ZooKeeper is away")

    def wait_back(self):
        yield from self.until(lambda: all(s and s["membership"].startswith("connected") for s in self.statuses()),
                              "every node is connected to ZooKeeper")

    def kill_zookeeper(self):
        self.act("kill ZooKeeper")
        self.zookeeper.kill()
        yield from self.wait_away()

    def start_zookeeper(self):
        self.act("start ZooKeeper")
        self.zookeeper.start()
        yield from self.until(self.zookeeper.answers, "ZooKeeper answers")
        self.act("it answers")

    def start(self, *nodes):
        self.act(f"start {nodes}")
        for node in nodes:
            self.cluster.start(node)

    def wait_without(self, *nodes):
        """Until the newest view is without the processes of these nodes that were killed."""
        def gone():
            view = self.load.view()
            return view and all(member["incarnation"] > self.dead[member["node"]]
                                for member in view["members"] if member["node"] in nodes)
        yield from self.until(gone, f"a view without {nodes}")

    def epoch(self):
        return self.load.view()["epoch"]

    def unchanged(self, epoch, doing):
        if self.epoch() != epoch:
            raise Violation(f"epoch {self.epoch()} after epoch {epoch}, {doing}")


class Session(process_rounds.Session):
    def __init__(self, weft, cluster):
        self.weft = weft
        self.protocol = cluster.protocol
        self.cluster = cluster
        self.known = {}
        self.removed = set()


class Round(process_rounds.Round):
    def __init__(self, session, number, arguments, folder, scenario):
        arguments.scenario = [scenario]
        super().__init__(session, number, arguments, folder)
        self.faults = arguments.play(self.cluster, self.load, self.random)


def parser(about):
    """What all of these tests are asked with."""
    arguments = argparse.ArgumentParser(description=about)
    arguments.add_argument("--weft", required=True, help="the command")
    arguments.add_argument("--short", action="store_true", help="fewer scenarios, for builds that are slow")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--protocol", default="dnl4", help="a name of `weft protocols`")
    arguments.add_argument("--scenario", help="play only this one")
    arguments.add_argument("--transactions", type=int, default=1000, help="committed in a round, at least")
    arguments.add_argument("--ballast", type=int, default=2000, help="keys that are there beside the rounds'")
    arguments.add_argument("--keep", type=pathlib.Path, help="where a failed run is kept, else a temporary directory")
    arguments.set_defaults(fabric="tcp", tls=False, play=Play, inflight=64)
    return arguments


def run(arguments, scenarios, folder):
    zookeeper = servers.ZooKeeper(folder)
    cluster = servers.Servers(arguments.weft, folder, zookeeper, protocol=arguments.protocol, tls=arguments.tls,
                              inflight=arguments.inflight)
    number, current = 0, None
    try:
        session = Session(arguments.weft, cluster)
        session.begin(arguments.ballast)
        fabric = cluster.status(0)["fabric"]
        if fabric != ("tcp+tls" if arguments.tls else "tcp"):
            raise Violation(f"the fabric is {fabric}")
        said = '"event":"exposed","key":"membership.auth"' in cluster.log_of("node0")
        if said == arguments.tls:
            raise Violation("nodes that talk TLS give ZooKeeper a password; those that give none say so")
        for number, scenario in enumerate(scenarios):
            current = Round(session, number, arguments, folder, scenario)
            current.run()
            print(current.line(), flush=True)
            current = None
        status = cluster.end()
        if status != 0 or cluster.faults_in_log():
            raise Violation(f"a node ended with status {status}; the logs say: {cluster.faults_in_log()}")
    except (Violation, OSError, RuntimeError, subprocess.SubprocessError, ValueError) as error:
        what = current.line() if current else f"{number:4}, between rounds"
        kept = process_rounds.keep(arguments, folder, number)
        raise Violation(f"{what}\nFAILED: {type(error).__name__}: {error}\nseed {arguments.seed}, kept in {kept}") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            zookeeper.go_on()
        cluster.end()
        zookeeper.end()


def main(arguments, scenarios, every):
    """The exit status. `every`: what --scenario chooses from."""
    if arguments.scenario:
        scenarios = [scenario for scenario in every if scenario.__name__ == arguments.scenario][:1]
    with tempfile.TemporaryDirectory(prefix="weft-zookeeper-") as folder:
        try:
            run(arguments, scenarios, pathlib.Path(folder))
        except Violation as error:
            print(error, flush=True)
            return 1
    return 0
