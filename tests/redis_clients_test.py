#!/usr/bin/env python3
"""Clients that others wrote drive a cluster of three nodes in their ordinary ways, and go on while a node is killed:
redis-cli, redis-benchmark, hiredis, and from npm ioredis and redis.

    redis_clients_test.py PATH-TO-WEFT [PATH-TO-HIREDIS-CLIENT]
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HIREDIS = sys.argv.pop(2) if len(sys.argv) > 2 else None

from process_testing import SLOW, ProcessTest, eventually  # noqa: E402  takes the first argument

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 6
INSTALL_S = 180


class Clients(ProcessTest):
    def setUp(self):
        self.one = self.cluster(nodes=3)
        self.one.wait_whole()
        self.ports = [self.one.port_of(node) for node in range(3)]

    def run_command(self, *command, text=None):
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout} {done.stderr}")
        return done.stdout

    def cli(self, *arguments, node=0, text=None):
        return self.run_command("redis-cli", "-p", str(self.ports[node]), *arguments, text=text)

    def test_redis_cli(self):
        self.assertEqual(self.cli("SET", "greeting", "hello"), "OK\n")
        self.assertEqual(self.cli("GET", "greeting", node=2), "hello\n")
        self.assertEqual(self.cli("-3", "GET", "none"), "\n")
        self.assertEqual(self.cli("-c", "GET", "greeting", node=1), "hello\n")
        self.assertEqual(self.cli(text="MULTI\nINCR a\nINCR b\nEXEC\n"), "OK\nQUEUED\nQUEUED\n1\n1\n")
        self.assertEqual(self.cli("--scan", "--pattern", "gree*"), "greeting\n")
        self.assertIn("redis_version:7.0", self.cli("INFO", "server"))
        self.assertIn("cluster_state:ok", self.cli("CLUSTER", "INFO"))
        pipe = "".join(f"SET pipe:{n} {n}\r\n" for n in range(5000))
        self.assertIn("errors: 0, replies: 5000", self.cli("--pipe", text=pipe))
        self.assertEqual(self.cli("DBSIZE", node=1), "5003\n")
        self.assertEqual(self.stat_rows(2)[-1][:1], ["5003"])
        self.assertIn("[OK] All 16384 slots covered",
                      self.run_command("redis-cli", "--cluster", "check", f"127.0.0.1:{self.ports[0]}"))

    def stat_rows(self, count):
        """Rows of `redis-cli --stat`: keys, memory, clients, blocked, requests, how many since, connections."""
        process = subprocess.Popen(["stdbuf", "-oL", "redis-cli", "-p", str(self.ports[0]), "--stat", "-i", "0.1"],
                                   stdout=subprocess.PIPE, text=True)
        rows = []
        with process, process.stdout:
            for line in process.stdout:
                if not line.startswith(("---", "keys")):
                    rows.append(line.split())
                if len(rows) == count:
                    break
            process.kill()
        self.assertEqual({len(row) for row in rows}, {7}, rows)
        return rows

    def test_what_tools_ask(self):
        """Of a node with several workers; what redis-cli adds up over the masters, and what it asks of every key."""
        cluster = self.cluster(nodes=3, extra=("--workers", "2"))
        cluster.wait_whole()
        self.ports = [cluster.port_of(node) for node in range(3)]
        names = {f"c{n}" for n in range(20)}
        with contextlib.ExitStack() as stack:
            for name in names:
                connection = stack.enter_context(cluster.connect(0))
                self.assertEqual(connection.ask("CLIENT", "SETNAME", name), "OK")
            listed = re.findall(r" name=(c\d+) ", self.cli("CLIENT", "LIST"))
            self.assertEqual(sorted(listed), sorted(names))
            self.assertEqual(self.cli("CLIENT", "KILL", "TYPE", "normal"), "20\n")
            self.assertEqual(len(self.cli("CLIENT", "LIST").splitlines()), 1)
        role = self.cli("ROLE").splitlines()
        self.assertEqual(role[0], "master")
        self.assertEqual({int(port) for port in role[3::3]}, set(self.ports[1:]))
        self.assertEqual(self.cli("WAIT", "5", "0"), "2\n")
        pipe = "".join(f"SET pipe:{n} {n}\r\n" for n in range(1000))
        self.assertIn("errors: 0", self.cli("--pipe", text=pipe))
        said = self.run_command("redis-cli", "--cluster", "info", f"127.0.0.1:{self.ports[0]}")
        self.assertIn("[OK] 1000 keys in 3 masters", said)
        self.assertIn("Sampled 1000 keys", self.cli("--bigkeys"))
        self.assertIn("Sampled 1000 keys", self.cli("--memkeys"))
        self.assertEqual(self.cli("SET", "soon", "gone", "PX", "1"), "OK\n")
        self.assertTrue(eventually(lambda: self.cli("DBSIZE") == "1000\n"))

    def test_redis_benchmark(self):
        requests = "500" if SLOW else "20000"
        tests = ["-t", "ping,set,get,incr,mset", "-n", requests, "-r", "1000", "--csv"]
        for extra in (["-P", "1", "-c", "20"], ["-P", "16"], ["-P", "64"], ["--cluster", "-P", "16"]):
            said = self.run_command("redis-benchmark", "-p", str(self.ports[1]), *tests, *extra)
            for name in ("SET", "GET", "INCR"):
                figure = re.search(rf'^"{name}","([\d.]+)"', said, re.MULTILINE)
                self.assertTrue(figure and float(figure.group(1)) > 0, said)

    def test_password_and_tls(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        certificate, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        self.run_command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                         "-keyout", key, "-out", certificate, "-days", "1", "-subj", "/CN=localhost")
        cluster = self.cluster(nodes=3, extra=("--password", "secret", "--tls-certificate", certificate, "--tls-key",
                                               key))
        cli = ["redis-cli", "-p", str(cluster.port_of(1)), "--tls", "--cacert", certificate, "--no-auth-warning"]

        def up():
            return subprocess.run([*cli, "-a", "secret", "PING"], capture_output=True, check=False).stdout == b"PONG\n"
        self.assertTrue(eventually(up))
        self.assertIn("NOAUTH", self.run_command(*cli, "GET", "a"))
        self.assertEqual(self.run_command(*cli, "-a", "secret", "SET", "a", "x" * 50_000), "OK\n")
        self.assertEqual(self.run_command(*cli, "-a", "secret", "GET", "a"), "x" * 50_000 + "\n")
        pipe = "AUTH secret\r\n" + "".join(f"SET pipe:{n} {n}\r\n" for n in range(5000))
        self.assertIn("errors: 0, replies: 5001", self.run_command(*cli, "--pipe", text=pipe))

    def drive(self, *command):
        """Runs a client that writes for SECONDS, kills two nodes meanwhile, one after the other; what it says."""
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        line = process.stdout.readline()
        if line != "ready\n":
            self.fail(line + process.stdout.read() + process.stderr.read())
        for node in (0, 2):
            time.sleep(SECONDS / 4)
            self.assertIsNotNone(self.one.kill(node))
            self.one.wait_whole()
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, out + err)
        said = json.loads(out.splitlines()[-1])
        self.assertEqual(said["lost"], 0)
        self.assertGreater(said["acknowledged"], 100, said)
        return said

    def test_hiredis(self):
        if HIREDIS is None:
            self.skipTest("it was built without hiredis")
        self.drive(HIREDIS, *map(str, self.ports))

    def node_modules(self):
        """Installs the libraries; a folder with the scripts and them."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for name in ("package.json", "package-lock.json", "client.mjs"):
            shutil.copy(os.path.join(HERE, "clients", name), folder)
        try:
            done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True,
                                  timeout=INSTALL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.skipTest(f"npm cannot install the clients: {error}")
        if done.returncode != 0:
            self.skipTest(f"npm cannot install the clients: {done.stderr[-500:]}")
        return folder

    def test_from_npm(self):
        folder = self.node_modules()
        for library in ("ioredis", "redis"):
            with self.subTest(library=library):
                self.drive("node", os.path.join(folder, "client.mjs"), library, ",".join(map(str, self.ports)),
                           str(SECONDS))


if __name__ == "__main__":
    unittest.main()
