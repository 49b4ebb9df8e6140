#!/usr/bin/env python3
"""Keys, values and transactions of Redis's ordinary sizes, through every node of a cluster.

    redis_sizes_test.py PATH-TO-WEFT
"""

import time
import unittest

from process_testing import FABRICS, SLOW, ProcessTest
from resp import Error, encode, transaction

LONGEST = 16 << 20
MANY = 500 if SLOW else 4096


class Sizes(ProcessTest):
    def ask(self, connection, *command):
        """The reply. Commands of other connections may conflict: then it is asked again."""
        for _ in range(50):
            connection.send(encode(*command))
            reply = connection.receive()
            if not (isinstance(reply, Error) and reply.startswith(("TRYAGAIN", "ABORTED"))):
                return reply
            time.sleep(0.1)
        return reply

    def test_sizes(self):
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                # On a busy machine copying takes long: no lease and no answer is missed for that.
                cluster = self.cluster(nodes=3, fabric=fabric, extra=["--set", "cluster.lease_ms=60000",
                                                                      "--set", "limits.answer_ms=120000"])
                cluster.wait_whole()
                nodes = [self.enterContext(cluster.connect(node, timeout_s=120)) for node in range(3)]
                self.values(nodes)
                self.keys(nodes)
                self.transactions(nodes)
                self.many(nodes)

    def values(self, nodes):
        for size in [1000, 3000, 70_000, 1 << 20, LONGEST]:
            value = bytes([97 + size % 26]) * size
            self.assertEqual(self.ask(nodes[size % 3], "SET", "v", value), "OK", size)
            for node in nodes:
                self.assertTrue(self.ask(node, "GET", "v") == value, size)
                self.assertEqual(self.ask(node, "STRLEN", "v"), size)
                self.assertEqual(self.ask(node, "EXISTS", "v", "v", "w"), 2)
                self.assertEqual(self.ask(node, "TYPE", "v"), "string")
        self.assertIn("store.value_bytes_max", self.ask(nodes[0], "APPEND", "v", "x"))
        self.assertEqual(self.ask(nodes[1], "EXPIRE", "v", 1000), 1)
        self.assertGreater(self.ask(nodes[2], "TTL", "v"), 900)
        self.assertEqual(self.ask(nodes[1], "DEL", "v"), 1)
        self.assertIsNone(self.ask(nodes[2], "GET", "v"))
        # Heads and values of one key in one transaction.
        self.ask(nodes[0], "SET", "v", b"x" * 50_000)
        for node in nodes:
            node.send(transaction([("STRLEN", "v"), ("GET", "v"), ("TTL", "v")]))
            replies = [node.receive() for _ in range(5)]
            self.assertEqual(replies[-1], [50_000, b"x" * 50_000, -1])

    def keys(self, nodes):
        longest = "k" * (64 << 10)
        self.assertEqual(self.ask(nodes[0], "SET", longest, "v"), "OK")
        self.assertEqual(self.ask(nodes[1], "GET", longest), b"v")
        self.assertEqual(self.ask(nodes[2], "DEL", longest), 1)
        too_long = longest + "k"
        self.assertIn("limits.key_bytes_max", self.ask(nodes[0], "SET", too_long, "v"))
        self.assertIsNone(self.ask(nodes[0], "GET", too_long))
        self.assertEqual(self.ask(nodes[0], "MGET", too_long, "none"), [None, None])
        for command in ["EXISTS", "DEL", "UNLINK", "TOUCH", "STRLEN"]:
            self.assertEqual(self.ask(nodes[0], command, too_long), 0, command)
        self.assertEqual(self.ask(nodes[0], "TTL", too_long), -2)

    def transactions(self, nodes):
        names = [f"n{i}" for i in range(MANY)]
        pairs = [part for i, name in enumerate(names) for part in (name, i)]
        self.assertEqual(self.ask(nodes[0], "MSET", *pairs), "OK")
        self.assertEqual(self.ask(nodes[1], "MGET", *names), [str(i).encode() for i in range(MANY)])
        self.assertEqual(self.ask(nodes[2], "EXISTS", *names), MANY)
        # As redis-py's pipeline() does.
        for _ in range(50):
            nodes[1].send(transaction([("INCR", f"n{i % MANY}") for i in range(2000)]))
            replies = [nodes[1].receive() for _ in range(2002)]
            if not isinstance(replies[-1], Error):
                break
        self.assertEqual(len(replies[-1]), 2000, str(replies[-1])[:200])
        self.assertEqual(self.ask(nodes[2], "DEL", *names), MANY)
        value = b"x" * (1 << 20)
        large = [("SET", f"l{i}", value) for i in range(10 if SLOW else 60)]
        nodes[0].send(transaction(large))
        replies = [nodes[0].receive() for _ in range(len(large) + 2)]
        self.assertEqual(replies[-1], ["OK"] * len(large), str(replies[-1])[:200])
        self.assertEqual(self.ask(nodes[1], "MGET", *[f"l{i}" for i in range(len(large))]), [value] * len(large))
        # More values than are copied in one turn, and the last of one key counts.
        twice = [part for _ in range(2) for i in range(8) for part in (f"t{i}", bytes([97 + i]) * (1 << 20))]
        self.assertEqual(self.ask(nodes[2], "MSET", *twice, "t0", "last"), "OK")
        self.assertEqual(self.ask(nodes[0], "MGET", "t0", "t7"), [b"last", b"h" * (1 << 20)])

    def many(self, nodes):
        """More keys than a transaction may have: reads and deletes are split, writes are refused."""
        most = 4096
        names = [f"many{i}" for i in range(2 * most + 100)]
        for first in range(0, len(names), most):
            pairs = [part for name in names[first:first + most] for part in (name, name)]
            self.assertEqual(self.ask(nodes[0], "MSET", *pairs), "OK")
        self.assertEqual(self.ask(nodes[1], "MGET", "none", *names), [None] + [name.encode() for name in names])
        for command in ["EXISTS", "TOUCH"]:
            self.assertEqual(self.ask(nodes[2], command, *names, names[0], "none"), len(names) + 1, command)
        pairs = [part for name in names for part in (name, "x")]
        for command, arguments in [("MSET", pairs), ("MSETNX", pairs)]:
            reply = self.ask(nodes[0], command, *arguments)
            self.assertIn("limits.txn_keys_max", reply)
            self.assertIn(str(len(names)), reply)
        # The commands before and after it are answered in their order; in MULTI it is refused.
        nodes[1].send(encode("SET", "a", 1) + encode("UNLINK", *names[:most + 1]) + encode("GET", "a"))
        self.assertEqual([nodes[1].receive() for _ in range(3)], ["OK", most + 1, b"1"])
        nodes[1].send(encode("MULTI") + encode("DEL", *names) + encode("EXEC"))
        replies = [nodes[1].receive() for _ in range(3)]
        self.assertIn("limits.txn_keys_max", replies[1])
        self.assertTrue(replies[2].startswith("EXECABORT"), replies[2])
        self.assertEqual(self.ask(nodes[2], "DEL", *names), len(names) - most - 1)


if __name__ == "__main__":
    unittest.main()
