#!/usr/bin/env python3
"""The judges of the rounds: what they are for they find, and nothing else."""

import random
import unittest

import process_rounds
import workloads
from client import Violation


class Judges(unittest.TestCase):
    """The rounds' own checks find what they are for."""

    def tokens(self):
        tokens = workloads.Tokens(random.Random(1), "k", tokens=2, keys=5)
        return tokens, {b"token0": "k0", b"token1": "k1"}

    def refuses(self, tokens, end, rule):
        with self.assertRaisesRegex(Violation, rule):
            tokens.judge(end)

    def test_tokens_where_their_moves_put_them(self):
        tokens, end = self.tokens()
        tokens.judge(end)
        tokens.moved(b"token0", "k0", "k2", 10)
        tokens.moved(b"token1", "k1", "k0", 10)
        tokens.lost_sight("k2", "k3", 10)
        tokens.judge({b"token0": "k2", b"token1": "k0"})
        tokens.judge({b"token0": "k3", b"token1": "k0"})

    def test_tokens_elsewhere(self):
        tokens, end = self.tokens()
        self.refuses(tokens, {b"token0": "k0"}, "I1")
        self.refuses(tokens, {**end, b"token0": "k4"}, "I2")
        tokens.moved(b"token0", "k0", "k2", 10)
        self.refuses(tokens, end, "I3")  # an acknowledged move is lost
        tokens.lost_sight("k2", "k0", 10)
        tokens.judge(end)
        tokens.moved(b"token1", "k1", "k2", 10)
        self.refuses(tokens, {b"token0": "k0", b"token1": "k0"}, "I3")  # one unknown move cannot carry both

    def test_readers_of_tokens(self):
        tokens, _ = self.tokens()
        with self.assertRaisesRegex(Violation, "I1"):
            tokens.read([b"token0", None, None, None, None], 5)
        with self.assertRaisesRegex(Violation, "I1"):
            tokens.read([b"token0", b"token1", b"token1", None, None], 5)
        tokens.read([None, b"token1", b"token0", None, None], 5)
        tokens.moved(b"token0", "k0", "k2", 10)
        self.refuses(tokens, {b"token0": "k2", b"token1": "k1"}, "I2")  # seen before the move was asked for

    def test_digests(self):
        def digests(**changes):
            replicas = [[p % 5, (p + 1) % 5, (p + 2) % 5] for p in range(5)]
            return [{"node": n, "locked": 0, "unreadable": 0, **(changes if n == 1 else {}),
                     "partitions": {str(p): {"sum": changes.get("sum", 7) if n == 1 else 7}
                                    for p in range(5) if n in replicas[p]}} for n in range(5)]
        self.assertEqual(process_rounds.fault_of(digests()), "")
        self.assertIn("differ", process_rounds.fault_of(digests(sum=8)))
        self.assertIn("1 locked", process_rounds.fault_of(digests(locked=1)))
        self.assertIn("1 unreadable", process_rounds.fault_of(digests(unreadable=1)))
        self.assertIn("is at nodes", process_rounds.fault_of(digests()[:4]))

    def test_digests_of_memory_nodes(self):
        def digests(*holders):
            return [{"node": n, "locked": 0, "unreadable": 0, "partitions": {"0": {"sum": 7}} if n in holders else {}}
                    for n in range(4)]
        self.assertEqual(process_rounds.fault_of(digests(2, 3), 2, 1), "")
        self.assertIn("is at nodes [3]", process_rounds.fault_of(digests(3), 2, 1))

    def test_placements(self):
        def view(replicas, **incarnations):
            members = [{"node": n, "incarnation": incarnations.get(f"node{n}", n + 1),
                        "roles": ["transactions"] if n == 0 else ["data"]} for n in range(3)]
            return {"members": members, "partitions": [{"replicas": replicas, "filling": []}]}
        process_rounds.check_placements("two", view([1, 2]), view([1, 2], node0=9))
        process_rounds.check_placements("two", view([1, 2]), view([2, 1], node1=9))  # a memory node came back
        with self.assertRaisesRegex(Violation, "D2"):
            process_rounds.check_placements("two", view([1, 2]), view([2, 1], node0=9))


if __name__ == "__main__":
    unittest.main(verbosity=2)
