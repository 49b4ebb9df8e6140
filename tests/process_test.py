#!/usr/bin/env python3
"""A cluster of processes as the person sees it who starts it: how it begins, ends, refuses, and what it costs idle.

    process_test.py PATH-TO-WEFT
"""
import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import load
import process_rounds
import resp
from cluster import Cluster, free_ports

WEFT = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/weft"
SLOW = "debug" in WEFT or "tsan" in WEFT
DEADLINE_S = 60
VALUE_BYTES_MAX = 64 << 10
KEY_BYTES_MAX = 512
FABRICS = ["shm", "tcp"]


def eventually(condition, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            holds = condition()
        except OSError:  # a node that was slow for longer than a lease was removed, and comes back
            holds = False
        if holds:
            return True
        time.sleep(0.005)
    return condition()


def alive(pid):
    """It runs: a zombie does not."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def left_behind(name):
    """What a cluster could forget: files in shared memory and among the temporary ones."""
    places = [pathlib.Path("/dev/shm"), pathlib.Path(tempfile.gettempdir())]
    return [str(path) for place in places for path in place.glob(f"*{name}*")]


class ProcessTest(unittest.TestCase):
    def cluster(self, **options):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        cluster = self.enterContext(Cluster(WEFT, os.path.join(folder, "log"), **options))
        self.addCleanup(lambda: self.assertEqual(cluster.faults_in_log(), []))
        return cluster


class Ends(ProcessTest):
    def ends_cleanly(self, fabric, how):
        cluster = self.cluster(nodes=3, fabric=fabric)
        name = cluster.wait_whole()[0]["cluster"]
        pids = cluster.children()
        self.assertEqual(len(pids), 3)
        self.assertEqual(cluster.ask(0, "SET", "a", "b"), "OK")
        cluster.up.send_signal(how)
        self.assertEqual(cluster.up.wait(DEADLINE_S), 0)
        self.assertFalse([pid for pid in pids if alive(pid)])
        self.assertEqual(left_behind(name), [])
        self.assertIn("has ended", cluster.log_text())
        self.assertNotIn("starts again", cluster.log_text())

    def test_sigint_and_sigterm(self):
        for fabric, how in (("shm", signal.SIGINT), ("shm", signal.SIGTERM), ("tcp", signal.SIGTERM)):
            with self.subTest(fabric=fabric, how=how):
                self.ends_cleanly(fabric, how)

    def test_while_it_starts(self):
        """At any moment of the first second."""
        for wait_s in (0, 0.01, 0.03, 0.1, 0.3):
            cluster = self.cluster(nodes=3)
            time.sleep(wait_s)
            pids = cluster.children()
            cluster.up.terminate()
            status = cluster.up.wait(DEADLINE_S)
            # Before the command has taken the signals over they end it as they end any program.
            self.assertIn(status, (0, -signal.SIGTERM), f"after {wait_s} s: {cluster.log_text()}")
            self.assertTrue(eventually(lambda: not any(alive(pid) for pid in pids), 5))

    def test_with_a_stopped_node(self):
        cluster = self.cluster(nodes=3)
        cluster.wait_whole()
        pids = cluster.children()
        os.kill(pids[1], signal.SIGSTOP)
        cluster.up.terminate()
        self.assertEqual(cluster.up.wait(DEADLINE_S), 0)
        self.assertFalse([pid for pid in pids if alive(pid)])

    def test_killed_supervisor_takes_its_nodes_along(self):
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=3, fabric=fabric)
                name = cluster.wait_whole()[0]["cluster"]
                pids = cluster.children()
                cluster.up.kill()
                self.assertTrue(eventually(lambda pids=pids: not any(alive(pid) for pid in pids), 1))
                self.assertEqual(left_behind(name), [])

    def test_last_replica_of_a_partition(self):
        """The data is gone, and the cluster says of which partition."""
        cluster = self.cluster(nodes=5, replicas=2)
        partitions = cluster.wait_whole()[0]["view"]["partitions"]
        pids = cluster.pids()
        cluster.killed.update(pids.values())
        doomed = partitions[2]["replicas"]
        for node in doomed:
            os.kill(pids[node], signal.SIGKILL)
        self.assertEqual(cluster.up.wait(DEADLINE_S), 1)
        self.assertIn("partition 2 has lost its last whole replica", cluster.log_text())
        self.assertFalse([pid for pid in pids.values() if alive(pid)])


class Grows(ProcessTest):
    def test_nodes_join_under_load(self):
        """A cluster that begins with three of five nodes: the other two get their share, and all replicas agree."""
        for fabric in ("tcp", "shm"):
            with self.subTest(fabric=fabric):
                self.grows(fabric)

    def grows(self, fabric):
        cluster = self.cluster(nodes=5, replicas=3, fabric=fabric, extra=("--founders", "3"))
        self.assertTrue(eventually(lambda: cluster.status(0)["view"]["epoch"] >= 1))
        written = 0

        def settled():
            nonlocal written
            with cluster.connect(written % 3) as connection:
                for _ in range(50):
                    connection.ask("SET", f"key {written}", f"value {written}")
                    written += 1
            status = cluster.status(0)
            return status["whole"] and len(status["view"]["members"]) == 5

        self.assertTrue(eventually(settled))
        said = cluster.wait_whole()
        held = [0] * 5
        for partition in said[0]["view"]["partitions"]:
            self.assertEqual(len(partition["replicas"]), 3)
            for node in partition["replicas"]:
                held[node] += 1
        self.assertEqual(held, [3] * 5)

        def fault():
            return process_rounds.fault_of([cluster.digest(node) for node in range(5)])

        self.assertTrue(eventually(lambda: not fault()), fault())
        for node in range(5):
            with cluster.connect(node) as connection:
                for key in range(node, written, 5):
                    self.assertEqual(connection.ask("GET", f"key {key}"), f"value {key}".encode())


class Refuses(ProcessTest):
    def refused(self, *arguments, says):
        done = subprocess.run([WEFT, "up", *arguments], capture_output=True, text=True, timeout=DEADLINE_S,
                              check=False)
        self.assertIn(done.returncode, (1, 2), done.stderr)
        for part in says:
            self.assertIn(part, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_flags(self):
        self.refused("--fabric", "pigeon", says=["pigeon", "shm", "tcp"])
        self.refused("--protocol", "dnl3", says=["dnl3", "dnl4"])
        self.refused("--nodes", "0", says=["--nodes", "0"])
        self.refused("--nodes", "64", says=["--nodes", "64"])
        self.refused("--founders", "-1", says=["--founders", "-1", "1 to 63"])
        self.refused("--founders", "4", says=["founders", "4", "3"])
        self.refused("--nodes", "2", "--replicas", "3", says=["replicas", "3", "2"])
        self.refused("--replicas", "0", says=["replicas", "0"])
        self.refused("--workers", "0", says=["workers", "0"])
        self.refused("--port", "0", says=["--port 0"])
        self.refused("--port", "65534", says=["--port 65534", "65535"])
        self.refused("--port", "many", says=["--port", "many"])
        self.refused("--turbo", says=["--turbo"])

    def test_port_in_use(self):
        for which in (0, 2):
            with self.subTest(node=which), socket.socket() as taken:
                base = free_ports(3)
                taken.bind(("127.0.0.1", base + which))
                taken.listen()
                self.refused("--nodes", "3", "--port", str(base), says=[str(base + which)])


    def test_ports_of_another_cluster(self):
        """Started at the same time: at most one of them is up, on all its ports, and who is not says why."""
        port = free_ports(3)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        clusters = [self.enterContext(Cluster(WEFT, os.path.join(folder, f"log{n}"), nodes=3, port=port))
                    for n in range(2)]
        self.assertTrue(eventually(lambda: any(cluster.up.poll() is not None for cluster in clusters)))
        time.sleep(0.5)
        for cluster in clusters:
            if cluster.up.poll() is None:
                self.assertEqual([status["cluster"] for status in cluster.wait_whole()],
                                 [cluster.status(0)["cluster"]] * 3)
            else:
                self.assertEqual(cluster.up.returncode, 1)
                self.assertIn("Address already in use", cluster.log_text())


class Starts(ProcessTest):
    def test_fewer_nodes_than_replicas_by_default(self):
        port = free_ports(2)
        with subprocess.Popen([WEFT, "up", "--nodes", "2", "--port", str(port)], stdout=subprocess.PIPE,
                              text=True) as up:
            self.assertIn("2 nodes with 2 replicas", up.stdout.readline())
            up.terminate()
            self.assertEqual(up.wait(DEADLINE_S), 0)

    def test_who_comes_early_is_served(self):
        cluster = self.cluster(nodes=3)
        early = []
        while len(early) < 3:
            with contextlib.suppress(ConnectionRefusedError):
                early.append(self.enterContext(cluster.connect(len(early), DEADLINE_S)))
        for connection in early:
            self.assertEqual(connection.ask("SET", "a", "b"), "OK")


class Clients(ProcessTest):
    def setUp(self):
        self.one = self.cluster(nodes=3)
        self.one.wait_whole()

    def test_garbage(self):
        """Whatever is sent: the others are served, and no process ends."""
        pids = self.one.pids()
        with self.one.connect(0) as bystander:
            for data in (b"\0" * 1000, b"*", b"*-5\r\n", b"*1000000000\r\n", b"*1\r\n$-7\r\n", b"*1\r\n$99999999999\r\n",
                         b"*2\r\n$3\r\nGET\r\n:1\r\n", b"*2\r\n+GET\r\n+a\r\n", b"*1\r\n$3\r\nGET\r\n" * 50,
                         b"*x\r\n", b"*1\r\n$x\r\n", b"\r\n\r\n", b"'", b"GET \"\r\n", os.urandom(4096),
                         b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nabcXX\r\n", b"EXEC\r\nDISCARD\r\nMULTI\r\nMULTI\r\n",
                         b"*0\r\n", b"*1\r\n$0\r\n\r\n", b"a" * (1 << 20)):
                with self.one.connect(0) as rude, contextlib.suppress(OSError):
                    rude.socket.settimeout(0.1)
                    rude.send(data)
                    rude.socket.recv(1 << 16)
                self.assertEqual(bystander.ask("SET", "k", "v"), "OK", data[:40])
                self.assertEqual(bystander.ask("GET", "k"), b"v", data[:40])
        self.assertEqual(self.one.pids(), pids)

    def test_gone_in_the_middle(self):
        """A client that leaves within a command, or before its answer, leaves no lock behind."""
        whole = resp.transaction([("APPEND", "x", "1"), ("APPEND", "y", "2"), ("GET", "x")])
        for cut in range(1, len(whole) + 1, 7):
            connection = self.one.connect(cut % 3)
            connection.send(whole[:cut])
            connection.close()
        for _ in range(20):
            connection = self.one.connect(1)
            connection.send(whole)
            connection.close()
        self.assertTrue(eventually(lambda: all(self.one.digest(node)["locked"] == 0 for node in range(3))))
        replies = [self.one.ask(node, "GET", "x") for node in range(3)]
        self.assertEqual(len(set(replies)), 1)
        self.assertEqual(len(self.one.ask(0, "GET", "x")), len(self.one.ask(2, "GET", "y")))

    def test_who_does_not_read(self):
        """A client that asks for much and reads nothing is nobody else's trouble."""
        self.assertEqual(self.one.ask(0, "SET", "big", "x" * 60000), "OK")
        with self.one.connect(0) as lazy, self.one.connect(0) as other:
            lazy.socket.settimeout(0.5)
            with contextlib.suppress(OSError):
                for _ in range(200):
                    lazy.send(resp.encode("GET", "big") * 20)
            before = time.monotonic()
            for n in range(20):
                self.assertEqual(other.ask("SET", f"k{n}", "v"), "OK")
            self.assertLess(time.monotonic() - before, DEADLINE_S)

    def test_what_one_client_can_make_a_node_hold(self):
        """Replies and transactions that are too long are refused; the node stays, and stays small."""
        pids = self.one.pids()
        self.assertEqual(self.one.ask(0, "SET", "v", "x" * VALUE_BYTES_MAX), "OK")
        self.assertIn("limits.txn_keys_max is 64, asked for 30000", self.one.ask(0, "MGET", *["v"] * 30000))
        with self.one.connect(0) as connection:
            connection.send(resp.transaction([("MGET", *["v"] * 64)] * 100))
            self.assertIn("reply_bytes_max is", [connection.receive() for _ in range(102)][-1])
            self.assertEqual(connection.ask("MULTI"), "OK")
            for _ in range(20):
                self.assertIn("limits.txn_bytes_max is", connection.ask("SET", "k", b"x" * (16 << 20)))
            self.assertIn("EXECABORT", connection.ask("EXEC"))
        with self.one.connect(0) as lazy:
            lazy.socket.settimeout(0.5)
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    lazy.send(resp.encode("GET", "v") * 1000)
            self.assertEqual(self.one.ask(0, "PING"), "PONG")
        self.assertEqual(self.one.pids(), pids)
        with open(f"/proc/{pids[0]}/status", encoding="ascii") as file:
            peak_kib = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        if not SLOW:
            self.assertLess(peak_kib, 400 << 10)

    def test_many_commands_in_one_write(self):
        with self.one.connect(0) as connection:
            connection.send(resp.encode("INCR", "n") * 500)
            self.assertEqual([connection.receive() for _ in range(500)], list(range(1, 501)))

    def test_byte_by_byte(self):
        with self.one.connect(0) as connection:
            for byte in resp.transaction([("SET", "slow", "1"), ("INCR", "slow")]):
                connection.send(bytes([byte]))
            self.assertEqual([connection.receive() for _ in range(4)][-1], ["OK", 2])


class Values(ProcessTest):
    def test_up_to_the_limit(self):
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=3, fabric=fabric)
                cluster.wait_whole()
                for size in (0, 1, 1000, 4096, 32767, 60000, VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX):
                    value = os.urandom(size)
                    self.assertEqual(cluster.ask(size % 3, "SET", f"v{size}", value), "OK", size)
                    for node in range(3):
                        self.assertEqual(cluster.ask(node, "GET", f"v{size}"), value, size)
                key = b"k" * KEY_BYTES_MAX
                self.assertEqual(cluster.ask(0, "SET", key, "v"), "OK")
                self.assertEqual(cluster.ask(1, "GET", key), b"v")
                for reply, limit in ((cluster.ask(0, "SET", "v", b"x" * (VALUE_BYTES_MAX + 1)), VALUE_BYTES_MAX),
                                     (cluster.ask(0, "SET", key + b"k", "v"), KEY_BYTES_MAX)):
                    self.assertIsInstance(reply, resp.Error)
                    self.assertIn(str(limit), reply)
                    self.assertIn(str(limit + 1), reply)
                big = b"y" * VALUE_BYTES_MAX
                reply = cluster.ask(0, "MSET", *[text for n in range(12) for text in (f"m{n}", big)])
                self.assertEqual(reply, "OK")
                self.assertEqual(cluster.ask(2, "MGET", *[f"m{n}" for n in range(12)]), [big] * 12)


class Nodes(ProcessTest):
    def test_killed_node_is_replaced(self):
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=3, fabric=fabric)
                cluster.wait_whole()
                for n in range(50):
                    self.assertEqual(cluster.ask(n % 3, "SET", f"k{n}", f"v{n}"), "OK")
                for victim in (0, 2):
                    pid = cluster.kill(victim)
                    self.assertTrue(eventually(lambda v=victim, p=pid, c=cluster: c.pids().get(v, p) != p))
                    status = cluster.wait_whole()[victim]
                    self.assertNotEqual(status["pid"], pid)
                    for n in range(50):
                        self.assertEqual(cluster.ask(victim, "GET", f"k{n}"), f"v{n}".encode())

    def test_idle_costs_little(self):
        """Three idle processes and their supervisor, with one idle client each: a few percent of one core."""
        per_second = os.sysconf("SC_CLK_TCK")
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=3, fabric=fabric)
                cluster.wait_whole()
                idle = [self.enterContext(cluster.connect(node)) for node in range(3)]
                self.assertEqual([connection.ask("SET", "a", "b") for connection in idle], ["OK"] * 3)
                time.sleep(0.5)
                pids = [cluster.up.pid, *cluster.children()]
                before = sum(ticks(pid) for pid in pids)
                time.sleep(3)
                percent = 100 * (sum(ticks(pid) for pid in pids) - before) / per_second / 3
                print(f"\nidle over {fabric}: {percent:.1f} % of a core for the whole cluster", flush=True)
                if not SLOW:
                    self.assertLess(percent, 5)


class Judges(unittest.TestCase):
    """The rounds' own checks find what they are for."""

    def tokens(self):
        tokens = load.Tokens(random.Random(1), "k", tokens=2, keys=5)
        return tokens, {b"token0": "k0", b"token1": "k1"}

    def refuses(self, tokens, end, rule):
        with self.assertRaisesRegex(load.Violation, rule):
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
        with self.assertRaisesRegex(load.Violation, "I1"):
            tokens.read([b"token0", None, None, None, None], 5)
        with self.assertRaisesRegex(load.Violation, "I1"):
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
