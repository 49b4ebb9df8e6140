#!/usr/bin/env python3
"""Connections that break, are blocked or cannot be made between nodes of a cluster that all go on running: `weft server
--config` over tcp with ZooKeeper, as in zookeeper_process_test.py.

    zookeeper_links_test.py --weft PATH [--short] [--scenario NAME] [--seed S] [--keep DIR]

Nothing is killed, and nobody fences who is removed: only leases keep it from telling what is not so any more. And what
one node cannot do costs that one, not everybody: the view changes for it once, and not again and again.
"""

import sys
import time

import cluster
import faults
import links
import resp
import workloads
import zookeeper_rounds
from client import Client, Violation
from zookeeper_rounds import LEASE_S, SOME

INFLIGHT = 200  # a reader that waits keeps a slot
READERS_AT_A_TIME = 3  # that come, fifty times a second
READERS_MAX = 170  # clients, all in all
NOWHERE = "127.0.0.1:1"  # nobody listens there


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


class Play(zookeeper_rounds.Play):
    """What can be done to links beside the rest."""

    def __init__(self, cluster_of_it, load, rng):
        super().__init__(cluster_of_it, load, rng)
        self.readers_come = False

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

    def settled(self, *without):
        """Until the view is without these nodes and every partition has all its replicas; its epoch then."""
        def whole():
            view = self.load.view()
            members = {member["node"] for member in view["members"]} if view else set()
            return members and not members & set(without) and not self.filling()
        yield from self.until(whole, f"whole without {without}")

    def said(self, event, **fields):
        """Whether some log has such an event."""
        found = cluster.events_in(self.cluster.log_text())
        return any(one["event"] == event and all(one.get(name) == value for name, value in fields.items()) for one in found)

    def stays(self, epoch, before, doing):
        """No view was changed meanwhile; but one of ours may be removed for its silence on a machine that is busy."""
        if self.cluster.removed() == before:
            self.unchanged(epoch, doing)


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


def joiner_unreached(play):
    """A node that was started again where the others do not reach it knocks in vain: it and they say who, where and why,
    and the view does not change for it."""
    node, = play.nodes(1)
    play.kill(node)
    yield from play.settled(node)
    epoch, before = play.epoch(), play.cluster.removed()
    play.act(f"start {node} at a wrong address")
    play.cluster.start_stranger("mute", node, advertise=NOWHERE)
    others = [other for other in range(play.cluster.nodes) if other != node]

    def told():
        log = play.cluster.log_of("mute")
        return (all(f"node {other} does not reach node {node} at {NOWHERE}" in log for other in others)
                and play.said("joiner_unreached", peer=node, address=NOWHERE)
                and play.said("joiner_waits", peer=node, address=NOWHERE))
    yield from play.until(told, "who cannot be reached is told, and named by the others")
    yield from play.commits(SOME)
    yield 6 * LEASE_S
    yield from play.commits(SOME)
    play.stays(epoch, before, "while a node knocked that nobody reaches")
    play.cluster.end_strangers()
    play.start(node)


def link_down(play):
    """Two reach all the others and not each other, for long: one of them goes and stays outside, the view changes no more;
    when the link is there again it comes back."""
    a, b = play.nodes(2)
    play.touched.update(play.cluster.pids().values())
    play.act(f"the link of {a} and {b} goes down")
    play.cuts += 1
    link = links.DownLink(play.cluster, a, b, play.cluster.fabric_port)

    def members():
        view = play.load.view()
        return {member["node"] for member in view["members"]} if view else set()

    def held(going_on):
        for wish in going_on:
            while True:
                link.hold()
                yield 0.1
                if not callable(wish) or wish():
                    break

    def goes_on():
        yield from play.until(lambda: members() and not {a, b} <= members(), "a view without one of them")
        yield from play.settled()
        out = a if a not in members() else b
        other = b if out == a else a
        yield from play.until(lambda: play.said("join_refused", node=out, peer=other), "it says who does not answer")
        epoch, before = play.epoch(), play.cluster.removed()
        end = time.monotonic() + 10 * LEASE_S
        yield lambda: time.monotonic() > end
        # Of the clients more and more wait at the node that is outside: somebody else asks.
        if play.cluster.ask(other, "GET", "nobody has set this") is not None:
            raise Violation(f"node {other} does not answer")
        play.stays(epoch, before, f"while the link of {a} and {b} was down")
        if out in members():
            raise Violation(f"node {out} is a member, and does not reach node {other}")
        yield from play.until(lambda: play.said("joiner_waits", peer=out), "the members say who waits outside")
    yield from held(goes_on())
    link.mend()
    play.act("it is up")


LINKS = [link_broken_unseen, link_down, joiner_unreached, link_broken, link_blocked_one_way, zookeeper_unseen]
SHORT = LINKS[:3]


def main():
    parser = zookeeper_rounds.parser(__doc__.splitlines()[0])
    parser.set_defaults(play=Play, inflight=INFLIGHT)
    arguments = parser.parse_args()
    return zookeeper_rounds.main(arguments, SHORT if arguments.short else LINKS, LINKS)


if __name__ == "__main__":
    sys.exit(main())
