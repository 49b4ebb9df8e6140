#!/usr/bin/env python3
"""`weft server --config` over tcp with ZooKeeper: five nodes, three replicas, append and token workloads from outside.

    zookeeper_process_test.py --weft PATH [--tls] [--short] [--scenario NAME] [--seed S] [--keep DIR]

ZooKeeper is killed and stopped, nodes are killed with and without it and started again by hand. What must hold after
each is what process_rounds.py checks: the history is strictly serializable, every acknowledged append is there, the
tokens are where their moves put them, the replicas of a partition are equal, and no lock is left. And: a healthy
cluster does not need ZooKeeper, no node ends by itself, and who does not belong to the cluster does not disturb it.
"""

import sys
import time

import servers
import zookeeper_rounds
from client import Violation
from zookeeper_rounds import LEASE_S, PATIENCE_S, SOME

QUIET_S = 1  # without a commit: then the cluster waits
SESSION_S = servers.SESSION_MS / 1000


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
    expected = {"replicas": "cluster.replicas is ", "protocol": "founded with cluster.protocol ", "lease": "lease_ms is ",
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


PLAIN = [strangers, zookeeper_killed, one_killed, node_killed_without_zookeeper, two_killed, zookeeper_stopped,
         node_restarted_without_zookeeper, two_replaced_at_once, one_leaves_one_returns, zookeeper_killed_in_a_change,
         node_stopped_without_zookeeper]
TLS = [wrong_authority, rolling_restart, two_killed, node_killed_without_zookeeper]
SHORT = [zookeeper_killed, node_killed_without_zookeeper, two_replaced_at_once]
SHORT_TLS = [wrong_authority, one_killed]


def main():
    parser = zookeeper_rounds.parser(__doc__.splitlines()[0])
    parser.add_argument("--tls", action="store_true", help="the nodes talk TLS")
    arguments = parser.parse_args()
    scenarios = (SHORT_TLS if arguments.tls else SHORT) if arguments.short else (TLS if arguments.tls else PLAIN)
    return zookeeper_rounds.main(arguments, scenarios, [*PLAIN, *TLS])


if __name__ == "__main__":
    sys.exit(main())
