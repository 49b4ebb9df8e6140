#!/usr/bin/env python3
"""WEFT SCAN in a cluster of processes that keeps its keys in order: what docs/redis.md shows; and pairs of keys that
several clients insert, replace and erase, one MULTI for both, while others scan all of them and a node is killed. A scan
sees both of a pair or neither, nothing older than what was acknowledged before it began, and everything in order. What
is there in the end is what a model says.

    redis_scan_test.py PATH-TO-WEFT
"""

import os
import random
import re
import threading
import time
import unittest

import resp
import workloads
from outcome_test import primary_of
from process_testing import ProcessTest, eventually

REDIS_MD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "redis.md")
NODES = 3
WRITERS = 4
SCANNERS = 2
PAIRS = 6  # that a writer works on at a time
WRITES = 100  # acknowledged, and
SCANS = 15  # before the node is killed, while it is away or comes back, and afterwards
AHEAD = 30  # writes to each scan: what is written all the time is seldom the same when a scan is checked again
SCAN = ("WEFT", "SCAN", "{s}", "{s~")
NOTHING_HAPPENED = ("TRYAGAIN", "ABORTED", "ERR rejected")


class Pair:
    """What its two keys may hold: the values that its writer gave them, one after the other; None: erased."""

    def __init__(self):
        self.values = [None]
        self.acknowledged = 0  # the newest of which its writer knows that it happened
        self.open = False  # nobody knows what became of the newest: the writer leaves it alone


class Model:
    def __init__(self):
        self.lock = threading.Lock()
        self.pairs = {}
        self.writes = self.scans = 0

    def add(self):
        with self.lock:
            name = f"{len(self.pairs):05}"
            self.pairs[name] = Pair()
            return name

    def floors(self):
        with self.lock:
            return {name: pair.acknowledged for name, pair in self.pairs.items()}

    def faults(self, reply, backward, floors):
        """Of a scan that began when so much was acknowledged."""
        keys, values = [key.decode() for key in reply[::2]], [value.decode() for value in reply[1::2]]
        if keys != sorted(set(keys), reverse=backward):
            return f"not in order: {keys}"
        found = dict(zip(keys, values))
        with self.lock:
            for name, pair in self.pairs.items():
                low, high = found.pop("{s}a" + name, None), found.pop("{s}b" + name, None)
                if low != high:
                    return f"one of a pair: {name} has {low} and {high}"
                if low not in pair.values[floors.get(name, 0):]:
                    return f"{name} has {low}, not one of {pair.values[floors.get(name, 0):]}"
        return f"keys that nobody wrote: {found}" if found else None


class Client(threading.Thread):
    """Goes on at another node when its connection breaks."""

    def __init__(self, cluster, model, number):
        super().__init__()
        self.cluster, self.model = cluster, model
        self.random = random.Random(number)
        self.node = number % NODES
        self.connection = None
        self.stopping = False
        self.fault = None

    def run(self):
        while not self.stopping and self.fault is None:
            try:
                if self.connection is None:
                    self.connection = self.cluster.connect(self.node)
                self.act()
            except OSError:
                self.lose()
                time.sleep(0.005)
            except Exception as exception:  # a thread does not end without a word
                self.fault = repr(exception)
        self.lose()

    def lose(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.node = self.random.randrange(NODES)

    def act(self):
        raise NotImplementedError


class Writer(Client):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.names = [self.model.add() for _ in range(PAIRS)]
        self.count = 0

    def act(self):
        if self.model.writes > AHEAD * (self.model.scans + 1):
            time.sleep(0.001)
            return
        place = self.random.randrange(PAIRS)
        name = self.names[place]
        pair = self.model.pairs[name]
        keys = ["{s}a" + name, "{s}b" + name]
        self.random.shuffle(keys)
        self.count += 1
        # Values are never given twice, so that a scan which sees an old one is noticed.
        value = f"{name}:{self.count}" if pair.values[-1] is None or self.random.random() < 0.5 else None
        commands = [("SET", key, value) if value is not None else ("DEL", key) for key in keys]
        with self.model.lock:
            pair.values.append(value)
            pair.open = True
        try:
            self.connection.send(resp.transaction(commands))
            reply = [self.connection.receive() for _ in range(len(commands) + 2)][-1]
            kind = workloads.outcome(reply)
        except OSError:
            kind = "info"
        with self.model.lock:
            if kind == "info":  # it may happen yet
                pass
            elif kind == "ok":
                pair.acknowledged = len(pair.values) - 1
                self.model.writes += 1
            else:
                pair.values.pop()
            pair.open = kind == "info"
        if kind == "info":
            self.names[place] = self.model.add()
        if kind != "ok":
            self.lose()


class Scanner(Client):
    def act(self):
        backward = self.random.random() < 0.5
        floors = self.model.floors()
        reply = self.connection.ask(*SCAN, *(["REV"] if backward else []))
        if isinstance(reply, resp.Error):
            if not reply.startswith(NOTHING_HAPPENED):
                self.fault = f"a scan was answered with {reply}"
            return self.lose()
        self.fault = self.model.faults(reply, backward, floors)
        with self.model.lock:
            self.model.scans += 1
        return None


class Scan(ProcessTest):
    def ordered(self, protocol):
        cluster = self.cluster(nodes=NODES, replicas=2, protocol=protocol, extra=["--set", "store.ordered=true"])
        cluster.wait_whole()
        return cluster

    def test_pairs_while_a_node_is_killed(self):
        for protocol in ("dnl1", "hop"):
            with self.subTest(protocol=protocol):
                self.pairs(self.ordered(protocol))

    def pairs(self, cluster):
        primary = primary_of(cluster, 0, "{s}")
        model = Model()
        clients = [Writer(cluster, model, number) for number in range(WRITERS)]
        clients += [Scanner(cluster, model, number) for number in range(WRITERS, WRITERS + SCANNERS)]
        for client in clients:
            client.start()

        def faults():
            return [client.fault for client in clients if client.fault is not None]

        def goes_on():
            with model.lock:
                writes, scans = model.writes + WRITES, model.scans + SCANS
            self.assertTrue(eventually(lambda: faults() or (model.writes >= writes and model.scans >= scans)))
        try:
            goes_on()
            self.assertIsNotNone(cluster.kill(primary))
            goes_on()
            cluster.wait_whole()
            goes_on()
        finally:
            for client in clients:
                client.stopping = True
            for client in clients:
                client.join()
        self.assertEqual(faults(), [])
        whole = [self.scan(cluster, node) for node in range(NODES)]
        self.assertEqual(whole, [whole[0]] * NODES)
        self.assertIsNone(model.faults(whole[0], False, model.floors()))
        known = {name for name, pair in model.pairs.items() if not pair.open}
        expected = {half + name: model.pairs[name].values[-1] for name in known for half in ("{s}a", "{s}b")}
        found = dict(zip(map(bytes.decode, whole[0][::2]), map(bytes.decode, whole[0][1::2])))
        self.assertEqual({key: found.get(key) for key in expected}, expected)
        self.assertEqual(self.pages(cluster), whole[0])
        print(f"{model.writes} writes, {model.scans} scans, {len(model.pairs)} pairs, {len(model.pairs) - len(known)} "
              f"with a write that nobody knows of, {len(whole[0]) // 2} keys in the end")

    def scan(self, cluster, node, *arguments):
        """A node that was late is removed, and comes back, whenever the machine has no time for it."""
        replies = []

        def answered():
            replies.append(cluster.ask(node, *(arguments or SCAN)))
            return not isinstance(replies[-1], resp.Error)
        self.assertTrue(eventually(answered), replies[-1:])
        return replies[-1]

    def pages(self, cluster):
        items, first = [], b"{s}"
        while True:
            page = self.scan(cluster, 0, "WEFT", "SCAN", first, "{s~", "LIMIT", 5)
            items += page
            if len(page) < 2 * 5:
                return items
            first = page[-2] + b"\0"

    def test_what_the_documentation_shows(self):
        with open(REDIS_MD, encoding="utf-8") as file:
            shown = re.search(r"## Keys in order\n.*?```\n(.*?)```", file.read(), re.DOTALL).group(1)
        cluster = self.ordered("dnl4")
        said = []
        with cluster.connect(1) as connection:
            for command in re.findall(r"^> (.*)$", shown, re.MULTILINE):
                connection.send(command.encode() + b"\r\n")
                reply = connection.receive()
                said.append(f"> {command}")
                said += [reply] if isinstance(reply, str) else [f'{n}) "{item.decode()}"'
                                                                for n, item in enumerate(reply, 1)]
        self.assertEqual("\n".join(said) + "\n", shown)


if __name__ == "__main__":
    unittest.main()
