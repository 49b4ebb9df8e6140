#!/usr/bin/env python3
"""The same commands to Debian's redis-server and to a cluster of ours: the replies are the same, byte for byte.

    redis_compare_test.py PATH-TO-WEFT

What may differ is said where it is sent: a time that passes, the order of keys in a walk.
"""

import os
import random
import re
import tempfile
import time
import unittest

import resp
import redis_commands
from process_testing import SLOW, ProcessTest
from redis_server import RedisServer

SEED = int(os.environ.get("SEED", "0")) or int(time.time())
RANDOM_COMMANDS = 1_000 if SLOW else 20_000


class Raw:
    """A connection whose replies are taken as they come over the wire."""

    def __init__(self, port):
        self.connection = resp.Connection(port)

    def ask(self, *arguments):
        self.connection.send(resp.encode(*arguments))
        return self.receive()

    def receive(self):
        while True:
            end = whole_reply(self.connection.buffer)
            if end is not None:
                data = bytes(self.connection.buffer[:end])
                del self.connection.buffer[:end]
                return data
            data = self.connection.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self.connection.buffer += data


def whole_reply(data, at=0):
    """Where the reply of RESP2 or RESP3 ends; None if there is more to come."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, line, at = data[at:at + 1], data[at + 1:end], end + 2
    if kind in b"$=" and int(line) >= 0:
        return at + int(line) + 2 if len(data) >= at + int(line) + 2 else None
    if kind in b"*~%>" and int(line) > 0:
        for _ in range(int(line) * (2 if kind == b"%" else 1)):
            at = whole_reply(data, at)
            if at is None:
                return None
    return at


def commandstats(info):
    """(name, calls, rejected, failed) of each line."""
    found = re.findall(r"cmdstat_([^:]+):calls=(\d+),usec=\d+,usec_per_call=[\d.]+,rejected_calls=(\d+),"
                       r"failed_calls=(\d+)\r", info.decode())
    return [row for row in found if row[0] != "info"]


def close_enough(command, theirs, ours, passed_s):
    """A time that passed between the two answers, or between setting the two deadlines: both at most `passed_s`."""
    name = command[0].upper()
    second = {"TTL": 1, "EXPIRETIME": 1, "PTTL": 1000, "PEXPIRETIME": 1000}.get(name)
    if second is None or theirs[:1] != b":" or ours[:1] != b":":
        return False
    theirs, ours = int(theirs[1:-2]), int(ours[1:-2])
    slack = 1 if second == 1 else 2000  # answers are rounded to seconds
    # The far ones were set as points in time, some of them close to each other: they are the same or wrong.
    if name.endswith("TIME") and max(theirs, ours) > (redis_commands.FAR - 100) * second:
        return False
    return (theirs < 0) == (ours < 0) and abs(theirs - ours) <= slack + 2 * passed_s * second


class Compare(ProcessTest):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.redis = self.enterContext(RedisServer(folder))
        self.weft = self.cluster(nodes=3)
        self.weft.wait_whole()
        self.passed_s = 0  # the longest that a pair of questions took
        self.theirs = self.raw(self.redis.port)
        self.ours = [self.raw(self.weft.port_of(node)) for node in range(3)]

    def raw(self, port):
        connection = Raw(port)
        self.addCleanup(connection.connection.close)
        return connection

    def same(self, *command, ours=None):
        began_s = time.monotonic()
        their_reply = self.theirs.ask(*command)
        our_reply = (ours or self.ours[0]).ask(*command)
        self.passed_s = max(self.passed_s, time.monotonic() - began_s)
        if their_reply == our_reply or close_enough(command, their_reply, our_reply, self.passed_s):
            return
        self.fail(f"seed {SEED}: {command}\n  Redis answers {their_reply[:300]!r}\n  Weft answers  {our_reply[:300]!r}")

    def clear(self):
        for connection in (self.theirs, self.ours[0]):
            self.assertEqual(connection.ask("FLUSHALL"), b"+OK\r\n")

    def test_scripts(self):
        for protocol in ("2", "3"):
            for connection in (self.theirs, self.ours[0]):
                connection.ask("HELLO", protocol)
            for name, script in redis_commands.SCRIPTS.items():
                self.clear()
                for line in script:
                    with self.subTest(script=name, command=line, protocol=protocol):
                        self.same(*line)

    def test_random_commands(self):
        """Through any node; the state is compared now and then."""
        source = random.Random(SEED)
        self.clear()
        for n in range(RANDOM_COMMANDS):
            self.same(*redis_commands.random_command(source), ours=source.choice(self.ours))
            if n % 200 == 199:
                self.same_state()

    def test_pipelined(self):
        """Many at once, which run together here, and one after the other there."""
        source = random.Random(SEED + 1)
        self.clear()
        for _ in range(RANDOM_COMMANDS // 50):
            commands = [redis_commands.random_command(source) for _ in range(source.randrange(1, 150))]
            data = b"".join(resp.encode(*command) for command in commands)
            ours = source.choice(self.ours)
            began_s = time.monotonic()
            self.theirs.connection.send(data)
            ours.connection.send(data)
            for command in commands:
                their_reply, our_reply = self.theirs.receive(), ours.receive()
                self.passed_s = max(self.passed_s, time.monotonic() - began_s)
                if their_reply != our_reply and not close_enough(command, their_reply, our_reply, self.passed_s):
                    self.fail(f"seed {SEED}: {command} in {commands}\n  {their_reply[:300]!r}\n  {our_reply[:300]!r}")
        self.same_state()

    def test_transactions(self):
        source = random.Random(SEED + 2)
        self.clear()
        for _ in range(RANDOM_COMMANDS // 20):
            if source.random() < 0.3:
                self.same("WATCH", *redis_commands.keys(source, source.randrange(1, 3)))
            if source.random() < 0.2:
                self.same(*redis_commands.random_command(source))
            self.same("MULTI")
            for _ in range(source.randrange(6)):
                self.same(*redis_commands.random_command(source, timed=False))
            self.same(source.choice(["EXEC", "EXEC", "EXEC", "DISCARD"]))
        self.same_state()

    def same_state(self):
        keys = {}
        for name, connection in (("redis", self.theirs), ("weft", self.ours[0])):
            found = connection.ask("KEYS", "*")
            keys[name] = sorted(resp.parse(found)[0])
        self.assertEqual(keys["redis"], keys["weft"], f"seed {SEED}")
        for key in keys["redis"]:
            for command in ("GET", "TYPE", "PEXPIRETIME"):
                self.same(command, key)

    def test_what_monitoring_sees(self):
        """Counts, the slow log and MONITOR: without times and addresses they are the same."""
        seen = []
        for connection in (self.theirs, self.ours[1]):
            port = connection.connection.socket.getpeername()[1]
            monitor = self.raw(port)
            connection.ask("FLUSHALL")
            connection.ask("CONFIG", "SET", "slowlog-log-slower-than", "0")
            connection.ask("SLOWLOG", "RESET")
            connection.ask("CONFIG", "RESETSTAT")
            self.assertEqual(monitor.ask("MONITOR"), b"+OK\r\n")
            for command in redis_commands.MONITORED:
                connection.ask(*command)
            lines = []
            while not lines or "last" not in lines[-1]:
                lines.append(monitor.receive().decode().split("] ", 1)[1])
            log = resp.parse(connection.ask("SLOWLOG", "GET", "-1"))[0]
            stats = sorted(commandstats(connection.ask("INFO", "commandstats")))
            seen.append((lines, [entry[3] for entry in log], stats, connection.ask("INFO", "errorstats")))
            connection.ask("CONFIG", "SET", "slowlog-log-slower-than", "10000")
        for theirs, ours in zip(*seen):
            self.assertEqual(theirs, ours)

    def test_a_client_as_a_line(self):
        """The same fields in the same order; what they say is each server's own."""
        fields = [[word.split(b"=")[0] for word in connection.ask("CLIENT", command).split(b"\r\n")[1].split()]
                  for connection in (self.theirs, self.ours[0]) for command in ("INFO", "LIST")]
        self.assertGreater(len(fields[0]), 20)
        self.assertEqual([fields[0]] * 4, fields)

    def test_every_key_is_scanned(self):
        self.clear()
        names = {f"key:{n}" for n in range(2000)}
        with self.weft.connect(1) as connection:
            for name in names:
                connection.ask("SET", name, "v")
        for node in range(3):
            for options in ((), ("COUNT", 1), ("COUNT", 1000), ("MATCH", "key:1*"), ("TYPE", "string")):
                seen, cursor = set(), "0"
                with self.weft.connect(node) as connection:
                    while True:
                        cursor, page = connection.ask("SCAN", cursor, *options)
                        seen.update(key.decode() for key in page)
                        if cursor == b"0":
                            break
                wanted = {name for name in names if "MATCH" not in options or name.startswith("key:1")}
                self.assertEqual(seen, wanted, options)


if __name__ == "__main__":
    unittest.main()
