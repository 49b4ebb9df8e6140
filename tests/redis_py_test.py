#!/usr/bin/env python3
"""redis-py drives a cluster in its ordinary ways. Debian's (python3-redis), so it is run by Debian's Python.

    redis_py_test.py PATH-TO-WEFT
"""

import os
import unittest

import redis
from process_testing import SLOW, ProcessTest


class RedisPy(ProcessTest):
    def test_redis_py(self):
        """Its default pipeline, which is a MULTI of all its commands; large values; many keys at a time."""
        # On a busy machine copying takes long: no lease and no answer is missed for that.
        cluster = self.cluster(nodes=3, extra=["--set", "cluster.lease_ms=60000", "--set", "limits.answer_ms=120000"])
        cluster.wait_whole()
        one, other = (redis.Redis(port=port, socket_timeout=120) for port in map(cluster.port_of, range(2)))
        self.addCleanup(one.close)
        self.addCleanup(other.close)
        count = 200 if SLOW else 2000
        with one.pipeline() as pipe:
            for n in range(count):
                pipe.set(f"py:{n % 700}", n)
            pipe.incrby("py:sum", count)
            self.assertEqual(pipe.execute(), [True] * count + [count])
        with other.pipeline(transaction=False) as pipe:
            for n in range(count):
                pipe.get(f"py:{n % 700}")
            newest = [range(n % 700, count, 700)[-1] for n in range(count)]
            self.assertEqual([int(value) for value in pipe.execute()], newest)
        value = os.urandom(1 << 20) * (2 if SLOW else 16)
        self.assertTrue(one.set("py:large", value))
        self.assertTrue(other.get("py:large") == value)
        self.assertEqual(other.strlen("py:large"), len(value))
        self.assertTrue(one.mset({f"py:m{n}": value[:1 << 20] for n in range(5 if SLOW else 50)}))
        self.assertTrue(other.mget("py:m0", "py:m4") == [value[:1 << 20]] * 2)
        names = [f"py:{n}" for n in range(10_000)]
        self.assertEqual(other.exists(*names), min(700, count))
        self.assertEqual(sum(found is not None for found in one.mget(names)), min(700, count))
        self.assertEqual(one.delete(*names), min(700, count))
        self.assertTrue(other.expire("py:large", 1000) and other.ttl("py:large") > 900)

        def transfer(pipe):
            amount = int(pipe.get("py:sum"))
            pipe.multi()
            pipe.set("py:sum", amount - 1)
            pipe.incr("py:other")

        self.assertEqual(one.transaction(transfer, "py:sum"), [True, 1])
        self.assertEqual(other.mget("py:sum", "py:other"), [str(count - 1).encode(), b"1"])


if __name__ == "__main__":
    unittest.main()
