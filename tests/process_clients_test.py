#!/usr/bin/env python3
"""What clients may send to a cluster of processes, and what becomes of those who send too much, or nothing sensible.

    process_clients_test.py PATH-TO-WEFT
"""

import contextlib
import os
import pathlib
import socket
import ssl
import tempfile
import time
import unittest

import resp
from cluster import events_in
from process_testing import DEADLINE_S, FABRICS, SLOW, ProcessTest, eventually
from servers import Authority

VALUE_BYTES = 64 << 10
KEY_BYTES_MAX = 64 << 10


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

        def settled():
            """What the last ones sent may still be queued: until it has run the answers differ."""
            replies = {self.one.ask(node, "GET", "x") for node in range(3)}
            both = b"1" * len(self.one.ask(2, "GET", "y") or b"")
            return replies == {both} and all(self.one.digest(node)["locked"] == 0 for node in range(3))
        self.assertTrue(eventually(settled))

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
        self.assertEqual(self.one.ask(0, "SET", "v", "x" * VALUE_BYTES), "OK")
        self.assertIn("reply_bytes_max is", self.one.ask(0, "MGET", *["v"] * 30000))
        self.assertIn("limits.txn_keys_max is 4096, asked for 5000", self.one.ask(0, "MSET", *["k", "v"] * 5000))
        with self.one.connect(0) as connection:
            for commands, limit in [(20, "reply_bytes_max is"), (100, "client.exec_us_max is")]:
                connection.send(resp.transaction([("MGET", *["v"] * 64)] * commands))
                self.assertIn(limit, [connection.receive() for _ in range(commands + 2)][-1])
            self.assertEqual(connection.ask("MULTI"), "OK")
            replies = [connection.ask("SET", "k", b"x" * (16 << 20)) for _ in range(20)]
            self.assertTrue(any("limits.txn_bytes_max is" in reply for reply in replies))
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
                for size in (0, 1, 1000, 4096, 32767, 60000, VALUE_BYTES - 1, VALUE_BYTES):
                    value = os.urandom(size)
                    self.assertEqual(cluster.ask(size % 3, "SET", f"v{size}", value), "OK", size)
                    for node in range(3):
                        self.assertEqual(cluster.ask(node, "GET", f"v{size}"), value, size)
                key = b"k" * KEY_BYTES_MAX
                self.assertEqual(cluster.ask(0, "SET", key, "v"), "OK")
                self.assertEqual(cluster.ask(1, "GET", key), b"v")
                reply = cluster.ask(0, "SET", key + b"k", "v")
                self.assertIsInstance(reply, resp.Error)
                self.assertIn(str(KEY_BYTES_MAX), reply)
                self.assertIn(str(KEY_BYTES_MAX + 1), reply)
                big = b"y" * VALUE_BYTES
                reply = cluster.ask(0, "MSET", *[text for n in range(12) for text in (f"m{n}", big)])
                self.assertEqual(reply, "OK")
                self.assertEqual(cluster.ask(2, "MGET", *[f"m{n}" for n in range(12)]), [big] * 12)


class Strangers(ProcessTest):
    """Connections that say nothing, where TLS and a password are asked for."""
    PASSWORD = "a password that nobody else has"

    def guarded(self, **settings):
        """A node with TLS and a password; what clients need to talk to it."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        Authority(folder).sign("server")
        secret = pathlib.Path(folder, "password")
        secret.write_text(self.PASSWORD + "\n", encoding="utf-8")
        secret.chmod(0o600)
        sets = [word for key, value in settings.items() for word in ("--set", f"client.{key}={value}")]
        cluster = self.cluster(nodes=1, replicas=1, extra=(
            "--password-file", str(secret), "--tls-certificate", os.path.join(folder, "server.pem"), "--tls-key",
            os.path.join(folder, "server.key"), *sets))
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
        context.check_hostname = False
        return cluster, context

    def let_in(self, cluster, context):
        """A client that has given the password."""
        connection = resp.Connection(cluster.port_of(0), DEADLINE_S)
        connection.socket = context.wrap_socket(connection.socket)
        self.addCleanup(connection.close)
        self.assertEqual(connection.ask("AUTH", self.PASSWORD), "OK")
        return connection

    def up(self, cluster, context):
        connections = []

        def answers():
            connections.append(self.let_in(cluster, context))
            return True
        self.assertTrue(eventually(answers))
        return connections[-1]

    def test_they_keep_nobody_out(self):
        cluster, context = self.guarded(clients_max=8, handshake_ms=3_600_000)
        good = self.up(cluster, context)
        with contextlib.ExitStack() as stack:
            for n in range(40):
                stranger = stack.enter_context(socket.create_connection(("127.0.0.1", cluster.port_of(0))))
                if n % 2:
                    with contextlib.suppress(OSError):  # it was closed for another already
                        stranger.sendall(b"\x16\x03\x01\x02\x00")  # the begin of a handshake
            self.assertEqual(self.let_in(cluster, context).ask("SET", "a", "1"), "OK")
            self.assertEqual(good.ask("GET", "a"), b"1")
            self.assertIn("WRONGPASS", good.ask("AUTH", "nonsense"))
            self.assertIn("acl_access_denied_auth:1", good.ask("INFO", "stats").decode())
        self.assertTrue(eventually(lambda: {"client_evicted", "wrong_password"} <= {
            event["event"] for event in events_in(cluster.log_text())}))
        self.assertNotIn("nonsense", cluster.log_text())

    def test_they_have_a_deadline(self):
        cluster, _ = self.guarded(handshake_ms=100)
        self.assertTrue(eventually(lambda: socket.create_connection(("127.0.0.1", cluster.port_of(0))).close() is None))
        with socket.create_connection(("127.0.0.1", cluster.port_of(0)), timeout=DEADLINE_S) as stranger:
            self.assertEqual(stranger.recv(100), b"")
        self.assertTrue(eventually(lambda: "client_late" in cluster.log_text()))

    def test_the_password_stands_on_no_command_line(self):
        cluster, context = self.guarded()
        self.up(cluster, context)
        for pid in (cluster.up.pid, *cluster.pids().values()):
            for file in ("cmdline", "environ"):
                self.assertNotIn(self.PASSWORD.encode(), pathlib.Path(f"/proc/{pid}/{file}").read_bytes())
        self.assertNotIn(self.PASSWORD, cluster.log_text())
        self.assertNotIn("config_warning", cluster.log_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
