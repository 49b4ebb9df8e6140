#!/usr/bin/env python3
"""`weft server --config` over tcp with ZooKeeper: five nodes, three replicas, append and token workloads from outside.

    zookeeper_process_test.py --weft PATH [--tls] [--links] [--short] [--scenario NAME] [--seed S] [--keep DIR]

ZooKeeper is killed and stopped, nodes are killed with and without it and started again by hand. With --links nothing is
killed: connections break or are blocked between nodes that all go on running, and nobody fences who is removed. Only
leases keep it from telling what is not so any more. What must hold after
each is what process_rounds.py checks: the history is strictly serializable, every acknowledged append is there, the
tokens are where their moves put them, the replicas of a partition are equal, and no lock is left. And: a healthy
cluster does not need ZooKeeper, no node ends by itself, and who does not belong to the cluster does not disturb it.
"""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

import faults
import links
import process_rounds
import resp
import servers
import workloads
from client import Client, Violation

LEASE_S = 0.5
QUIET_S = 1  # without a commit: then the cluster waits
PATIENCE_S = 60
SOME = 200  # transactions
INFLIGHT = 200  # a reader that waits keeps a slot
READERS_AT_A_TIME = 3  # that come, fifty times a second
READERS_MAX = 170  # clients, all in all
SESSION_S = servers.SESSION_MS / 1000


class Reader(Client):
    """Reads one key after the other at one node, until an answer does not come: then the next one has to come."""

    def __init__(self, play, node):
        super().__init__(play.load, node)
        self.play = play
        self.appends = play.load.appends
        self.process = self.appends.new_process()
        self.key = ""

    def choose_node(self):
        return self.node

    def start(self):
        if self.play.readers_come:
            super().start()

    def request(self):
        self.key = self.play.random.choice(self.appends.active)
        return resp.encode("GET", self.key), 1

    def take(self, replies, now_ns):
        kind = workloads.outcome(replies[0])
        if kind == "ok":  # not for Load.commits_ns, which scenarios wait for: who is removed says nothing of the others
            ops = [("r", self.key, workloads.elements(replies[0]))]
            self.appends.record(self.process, self.invoke_ns, now_ns, "ok", ops)
        else:
            self.load.note_failure(str(replies[0]))

    def unknown(self):
        self.process = self.appends.new_process()


class Play(faults.Faults):
    """What can be done to this kind of cluster beside the rest."""

    def __init__(self, cluster, load, rng):
        super().__init__(cluster, load, rng)
        self.zookeeper = cluster.zookeeper
        self.readers_come = False

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

    def to_zookeeper(self, node):
        """Both ends of a node's connections to it, as far as they can be seen."""
        pid = self.cluster.pids()[node]
        own = [link for link in links.sockets_of(pid) if link.peer[1:2] == (self.zookeeper.port,)]
        ports = {link.name[1] for link in own}
        there = [link for link in links.sockets_of(self.zookeeper.process.pid) if link.peer[1:2] and link.peer[1] in ports]
        return own + there

    def blocked_while(self, choose, node, going_on):
        """Blocks what choose() names, connections that are made meanwhile too, while `going_on` goes on; and readers
        come to the node all the time."""
        held = []
        self.readers_come = True
        for wish in going_on:
            while True:
                known = {(link.name, link.peer) for link in held}
                new = [link for link in choose() if (link.name, link.peer) not in known]
                for link in new:
                    link.block()
                held += new
                for _ in range(min(READERS_AT_A_TIME, READERS_MAX - len(self.load.clients))):
                    self.load.clients.append(Reader(self, node))
                yield 0.02
                if not callable(wish) or wish():
                    break
        self.readers_come = False
        for link in held:
            link.unblock()
        self.act("unblock")

    def epoch(self):
        return self.load.view()["epoch"]

    def unchanged(self, epoch, doing):
        if self.epoch() != epoch:
            raise Violation(f"epoch {self.epoch()} after epoch {epoch}, {doing}")


def kill_and_restart(play, count):
    nodes = play.nodes(count)
    for node in nodes:
        play.kill(node)
    yield from play.wait_without(*nodes)
    yield from play.commits(SOME)
    play.start(*nodes)


def zookeeper_killed(play):
    """A healthy cluster goes on without it; when it is back views change as before."""
    yield from play.kill_zookeeper()
    epoch = play.epoch()
    yield from play.commits(SOME)
    play.unchanged(epoch, "while ZooKeeper was away")
    yield from play.start_zookeeper()
    yield from play.wait_back()
    yield from play.commits(SOME)
    yield from kill_and_restart(play, 1)


def zookeeper_stopped(play):
    """Past its sessions' time-out: they are ended when it goes on."""
    play.act("stop ZooKeeper")
    play.zookeeper.stop()
    epoch = play.epoch()
    yield from play.wait_away()
    yield 2 * SESSION_S
    yield from play.commits(SOME)
    play.unchanged(epoch, "while ZooKeeper was away")
    play.act("continue ZooKeeper")
    play.zookeeper.go_on()
    yield from play.wait_back()
    yield from play.commits(SOME)
    yield from kill_and_restart(play, 1)


def wait_quiet(play):
    """A member gives no lease any more: nothing can be acknowledged."""
    def quiet():
        return time.monotonic_ns() - play.load.commits_ns[-1] > QUIET_S * 1e9
    yield from play.until(quiet, "nothing is acknowledged without a lease")


def node_killed_without_zookeeper(play):
    """The cluster waits, and goes on when ZooKeeper is back."""
    yield from play.kill_zookeeper()
    epoch = play.epoch()
    node, = play.nodes(1)
    play.kill(node)
    yield from wait_quiet(play)
    play.unchanged(epoch, "without ZooKeeper")
    yield from play.start_zookeeper()
    yield from play.wait_without(node)
    yield from play.commits(SOME)
    play.start(node)


def node_restarted_without_zookeeper(play):
    """It is started again before ZooKeeper is: it waits for it, too."""
    yield from play.kill_zookeeper()
    node, = play.nodes(1)
    play.kill(node)
    yield from wait_quiet(play)
    play.start(node)
    yield from play.start_zookeeper()
    yield from play.wait_without(node)
    yield from play.commits(SOME)


def zookeeper_killed_in_a_change(play):
    """About when the view is proposed: its answer may be lost, and reading decides whether it was written."""
    node, = play.nodes(1)
    play.kill(node)
    yield play.random.choice([0, 0.002, 0.005, 0.01, 0.03, play.random.uniform(0, 0.6)])
    play.act("kill ZooKeeper")
    play.zookeeper.kill()
    play.start(node)
    yield from play.start_zookeeper()
    yield from play.wait_without(node)
    yield from play.commits(SOME)


def node_stopped_without_zookeeper(play):
    """Longer than a lease: nothing is acknowledged meanwhile, and nobody can remove it. It goes on as if nothing was."""
    yield from play.kill_zookeeper()
    epoch = play.epoch()
    node, = play.nodes(1)
    pid = play.stop(node)
    yield from wait_quiet(play)
    play.go_on(node, pid)
    yield from play.commits(SOME)
    play.unchanged(epoch, "without ZooKeeper")
    yield from play.start_zookeeper()
    yield from play.wait_back()


def one_killed(play):
    yield from kill_and_restart(play, 1)


def two_killed(play):
    yield from kill_and_restart(play, 2)


def two_replaced_at_once(play):
    """Killed, and started again before anybody has proposed a view: four changes race."""
    a, b = play.nodes(2)
    play.kill(a)
    play.kill(b)
    play.start(a, b)
    yield from play.wait_without(a, b)


def one_leaves_one_returns(play):
    """A view takes one in while another is lost."""
    a, b = play.nodes(2)
    play.kill(a)
    yield from play.wait_without(a)
    yield from play.until(lambda: play.load.view() and not play.filling(), "its replicas are made again")
    play.start(a)
    play.kill(b)
    yield from play.wait_without(b)
    play.start(b)


def rolling_restart(play):
    """SIGTERM and the same command again, one node after the other."""
    for node in play.random.sample(range(play.cluster.nodes), 2):
        play.mark_dead(node)
        play.act(f"terminate {node}")
        play.gone.add(play.cluster.running[node].pid)
        status = play.cluster.terminate(node)
        if status != 0:
            raise Violation(f"SIGTERM ended node {node} with status {status}")
        play.start(node)
        over_ns = time.monotonic_ns()
        yield from play.until(lambda since=over_ns: play.load.whole_since(since, play.gone), "whole again")


def strangers(play):
    """Who is configured otherwise is told what differs, changes no view, and takes nobody's place."""
    cluster = play.cluster
    expected = {"replicas": "cluster.replicas is ", "protocol": f"protocol {cluster.protocol} is ", "lease": "lease_ms is ",
                "name": 'cluster is \\"', "store": "capacity is ", "newcomer": "cluster.nodes is ",
                "double": "it runs there already"}
    play.act("start strangers")
    before = play.epoch(), cluster.removed()
    cluster.start_stranger("replicas", 0, replicas=2)
    cluster.start_stranger("protocol", 1, protocol="dnl1" if cluster.protocol != "dnl1" else "dnl4")
    cluster.start_stranger("lease", 2, lease_ms=400)
    cluster.start_stranger("name", 3, name="toys")
    cluster.start_stranger("store", 4, capacity=5000)
    cluster.start_stranger("newcomer", 5, nodes=6)
    cluster.start_stranger("double", 2)
    yield from judge_strangers(play, expected, before)


def wrong_authority(play):
    """The same of who has other certificates, or none."""
    cluster = play.cluster
    servers.Authority(cluster.folder, "foreign").sign("forged", *range(5))
    cluster.authority.sign("client")
    play.act("start strangers")
    before = play.epoch(), cluster.removed()
    cluster.start_stranger("wrong-ca", 0, ca="foreign")  # it believes nobody
    cluster.start_stranger("wrong-certificate", 1, tls="forged")  # nobody believes it
    cluster.start_stranger("another-ca", 4, ca="foreign", tls="forged")
    cluster.start_stranger("without", 3, tls="")
    cluster.start_stranger("another-node", 2, tls="node1", any_node="true")  # it has no scruples, the others do
    cluster.start_stranger("a-client", 2, tls="client", any_node="true")
    expected = {"wrong-ca": "certificate verify failed", "wrong-certificate": "unknown ca",
                "another-ca": "certificate verify failed", "without": "does it expect TLS?",
                "another-node": "its certificate names weft://shop/node/1, expected weft://shop/node/2",
                "a-client": "its certificate names no node, expected weft://shop/node/2"}
    yield from judge_strangers(play, expected, before)


def judge_strangers(play, expected, before):
    cluster = play.cluster
    ours = {f"127.0.0.1:{cluster.port + cluster.nodes + node}" for node in range(cluster.nodes)}
    end = time.monotonic() + PATIENCE_S

    def told():
        return all(text in cluster.log_of(name) for name, text in expected.items())
    yield lambda: told() or play.load.addresses - ours or time.monotonic() > end
    yield from play.commits(SOME)
    yield 2 * LEASE_S
    said = {name: cluster.log_of(name)[-300:] for name in expected}
    # On a machine that has much else to do one of ours may be removed for its silence, and then says so.
    surprised = cluster.removed() != before[1]
    if play.load.addresses - ours or (play.epoch() != before[0] and not surprised):
        raise Violation(f"strangers have changed the view: {play.load.addresses - ours}, epoch {play.epoch()} after "
                        f"{before[0]}: {said}")
    if not told():
        raise Violation(f"not every stranger was told what is in its way: {said}")
    ended = {name: process.returncode for name, process in cluster.strangers.items() if process.poll() is not None}
    if ended:
        raise Violation(f"strangers have ended: {ended}: {said}")
    cluster.end_strangers()


def break_link(play, a, b):
    """What connects them is closed at both ends."""
    cut = faults.links_of(play, a, [b])
    play.act(f"close {len(cut)} ends of the link of {a} and {b}")
    play.cuts += 1
    for link in cut:
        link.close()


def link_broken(play):
    """One of the two must go. It hears of that from ZooKeeper."""
    a, b = play.nodes(2)
    epoch = play.epoch()
    break_link(play, a, b)
    yield from play.until(lambda: play.epoch() > epoch, "a view without one of them")
    yield from play.commits(SOME)


def link_broken_unseen(play):
    """The one that goes does not hear of it: it reads on until its lease is over, and tells nothing then, whoever asks,
    and also not when it hears at last."""
    a, b = play.nodes(2)
    play.mark_dead(b)

    def goes_on():
        yield 0
        break_link(play, a, b)
        yield from play.wait_without(b)
        yield from play.commits(SOME)
        end = time.monotonic() + 2 * LEASE_S
        yield lambda: time.monotonic() > end
        yield from play.commits(SOME)
    play.act(f"block {b} and ZooKeeper")
    yield from play.blocked_while(lambda: play.to_zookeeper(b), b, goes_on())


def link_blocked_one_way(play):
    """What a node sends to another does not arrive: one of them goes."""
    a, b = play.nodes(2)
    epoch = play.epoch()

    def choose():
        own, others = play.cluster.links(b), play.cluster.links(a)
        faced = {other.name for other in others if other.peer in {link.name for link in own}}
        return [link for link in own if link.peer in faced]

    def goes_on():
        yield from play.until(lambda: play.epoch() > epoch, "a view without one of them")
        yield from play.commits(SOME)
    play.touched.update(play.cluster.pids().values())
    play.act(f"block what {a} sends to {b}")
    yield from play.blocked_while(choose, b, goes_on())


def zookeeper_unseen(play):
    """By one node, longer than its session: the others tell it what is new, as far as it has to know."""
    a, b = play.nodes(2)

    def goes_on():
        yield from play.commits(SOME)
        play.kill(a)
        yield from play.wait_without(a)
        yield from play.commits(SOME)
    play.act(f"block {b} and ZooKeeper")
    play.touched.update(play.cluster.pids().values())
    yield from play.blocked_while(lambda: play.to_zookeeper(b), b, goes_on())
    play.start(a)


LINKS = [link_broken_unseen, link_broken, link_blocked_one_way, zookeeper_unseen]
PLAIN = [strangers, zookeeper_killed, one_killed, node_killed_without_zookeeper, two_killed, zookeeper_stopped,
         node_restarted_without_zookeeper, two_replaced_at_once, one_leaves_one_returns, zookeeper_killed_in_a_change,
         node_stopped_without_zookeeper]
TLS = [wrong_authority, rolling_restart, two_killed, node_killed_without_zookeeper]
SHORT = [zookeeper_killed, node_killed_without_zookeeper, two_replaced_at_once]
SHORT_TLS = [wrong_authority, one_killed]


class Session(process_rounds.Session):
    def __init__(self, weft, cluster):
        self.weft = weft
        self.protocol = cluster.protocol
        self.cluster = cluster
        self.known = {}
        self.removed = set()


class Round(process_rounds.Round):
    def __init__(self, session, number, arguments, folder, scenario):
        arguments.scenario = scenario
        super().__init__(session, number, arguments, folder)
        self.faults = Play(self.cluster, self.load, self.random)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", required=True, help="the command")
    parser.add_argument("--tls", action="store_true", help="the nodes talk TLS")
    parser.add_argument("--links", action="store_true", help="connections fail, and nothing else")
    parser.add_argument("--short", action="store_true", help="fewer scenarios, for builds that are slow")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", choices=process_rounds.PROTOCOLS, default="dnl4")
    parser.add_argument("--scenario", help="play only this one")
    parser.add_argument("--transactions", type=int, default=1000, help="committed in a round, at least")
    parser.add_argument("--ballast", type=int, default=2000, help="keys that are there beside the rounds'")
    parser.add_argument("--keep", type=pathlib.Path, help="where a failed run is kept, else a temporary directory")
    arguments = parser.parse_args()
    arguments.fabric = "tcp"
    return arguments


def run(arguments, scenarios, folder):
    zookeeper = servers.ZooKeeper(folder)
    cluster = servers.Servers(arguments.weft, folder, zookeeper, protocol=arguments.protocol, tls=arguments.tls,
                              inflight=INFLIGHT if arguments.links else 64)
    number, current = 0, None
    try:
        session = Session(arguments.weft, cluster)
        session.begin(arguments.ballast)
        fabric = cluster.status(0)["fabric"]
        if fabric != ("tcp+tls" if arguments.tls else "tcp"):
            raise Violation(f"the fabric is {fabric}")
        if '"event":"exposed","key":"membership.auth"' not in cluster.log_of("node0"):
            raise Violation("ZooKeeper has no password, and nobody said so")
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


def main():
    arguments = parse_arguments()
    scenarios = (SHORT_TLS if arguments.tls else SHORT) if arguments.short else (TLS if arguments.tls else PLAIN)
    if arguments.links:
        scenarios = LINKS[:1] if arguments.short else LINKS
    if arguments.scenario:
        scenarios = [scenario for scenario in [*PLAIN, *TLS, *LINKS] if scenario.__name__ == arguments.scenario][:1]
    with tempfile.TemporaryDirectory(prefix="weft-zookeeper-") as folder:
        try:
            run(arguments, scenarios, pathlib.Path(folder))
        except Violation as error:
            print(error, flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
