#!/usr/bin/env python3
"""A cluster of processes as the person sees it who starts it: how it begins, ends, refuses, and what it costs idle.

    process_test.py PATH-TO-WEFT
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import links
import process_rounds
import resp
from cluster import Cluster, free_ports
from process_testing import DEADLINE_S, FABRICS, SLOW, WEFT, ProcessTest, alive, eventually


def ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def idle_percent(cluster, seconds=3):
    """What the cluster takes of a core, half a second after its last command; without end if a process was replaced
    meanwhile."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        idle = [stack.enter_context(cluster.connect(node)) for node in range(cluster.nodes)]
        if [connection.ask("SET", "a", "b") for connection in idle] != ["OK"] * cluster.nodes:
            return float("inf")
        time.sleep(0.5)
        pids = [cluster.up.pid, *cluster.children()]
        before = sum(ticks(pid) for pid in pids)
        time.sleep(seconds)
        return 100 * (sum(ticks(pid) for pid in pids) - before) / os.sysconf("SC_CLK_TCK") / seconds
    return float("inf")


def left_behind(name):
    """What a cluster could forget: files in shared memory and among the temporary ones."""
    places = [pathlib.Path("/dev/shm"), pathlib.Path(tempfile.gettempdir())]
    return [str(path) for place in places for path in place.glob(f"*{name}*")]


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
        self.assertNotIn("process_ended", cluster.log_text())

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
                self.assertTrue(eventually(lambda pids=pids: not any(alive(pid) for pid in pids)))
                self.assertEqual(left_behind(name), [])

    def test_last_replica_of_a_partition(self):
        """The data is gone, and the cluster says of which partition."""
        cluster = self.cluster(nodes=5, replicas=2)
        partitions = cluster.wait_whole()[0]["view"]["partitions"]
        pids = cluster.pids()
        cluster.killed.update(pids.values())
        doomed = [pids[node] for node in partitions[2]["replicas"]]
        # The supervisor learns of both at once: after the first alone the partition would be copied elsewhere.
        os.kill(cluster.up.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, cluster.up.pid, os.WSTOPPED)
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(eventually(lambda: not any(alive(pid) for pid in doomed)))
        os.kill(cluster.up.pid, signal.SIGCONT)
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
        cluster = self.cluster(nodes=5, replicas=3, fabric=fabric, extra=("--initial-members", "3"))
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
        self.refused("--initial-members", "-1", says=["--initial-members", "-1", "1 to 63"])
        self.refused("--initial-members", "4", says=["initial_members", "4", "3"])
        self.refused("--nodes", "2", "--replicas", "3", says=["replicas", "3", "2"])
        self.refused("--replicas", "0", says=["replicas", "0"])
        self.refused("--workers", "0", says=["workers", "0"])
        self.refused("--port", "0", says=["--port 0"])
        self.refused("--port", "65534", says=["--port 65534", "65535"])
        self.refused("--port", "many", says=["--port", "many"])
        self.refused("--turbo", says=["--turbo"])
        self.refused("--password", "a", "--password-file", "b", says=["--password and --password-file"])
        self.refused("--password-file", "/no/such/file", says=["client.password_file", "/no/such/file", "No such file"])
        self.refused("--set", "cluster.lease_ms=0", says=["--set", "cluster.lease_ms", "1 to 60000"])
        self.refused("--set", "cluster.nodes=5", says=["cluster.nodes", "--nodes"])
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("[cluster]\nleese_ms = 5\n")
            file.flush()
            self.refused("--config", file.name, says=[file.name + ":2:1", "cluster.lease_ms"])

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

        def decided(cluster):
            """It has ended, or its own processes answer at all ports: one that is about to end has lost some."""
            pids = cluster.pids()
            return cluster.up.poll() is not None or all(cluster.status(n)["pid"] == pids.get(n) for n in range(3))
        for cluster in clusters:
            self.assertTrue(eventually(lambda c=cluster: decided(c)))
            if cluster.up.poll() is None:
                cluster.wait_whole()
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

    def test_a_stall_of_the_machine_removes_nobody(self):
        """Nothing runs for four leases, then everything again: nobody has been silent."""
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=3, fabric=fabric, extra=["--set", "cluster.lease_ms=500"])
                cluster.wait_whole()
                before = cluster.pids()
                everybody = [cluster.up.pid, *cluster.children()]
                for what, seconds in ((signal.SIGSTOP, 2), (signal.SIGCONT, 2)):
                    for pid in everybody:
                        os.kill(pid, what)
                    time.sleep(seconds)
                self.assertEqual(cluster.pids(), before)
                self.assertEqual([cluster.ask(node, "SET", "a", "b") for node in range(3)], ["OK"] * 3)

    def test_clients_of_a_node_that_is_cut_off_have_answers(self):
        """Nobody runs but one node, and nobody can change the view: every command ends, and says what is so."""
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=3, fabric=fabric, extra=["--set", "cluster.lease_ms=500", "--set",
                                                                      "limits.answer_ms=1000"])
                cluster.wait_whole()
                keys = [f"k{n}" for n in range(12)]
                for key in keys:
                    self.assertEqual(cluster.ask(0, "SET", key, "before"), "OK")
                pids = cluster.pids()
                others = [cluster.up.pid, pids[1], pids[2]]
                for pid in others:
                    os.kill(pid, signal.SIGSTOP)
                said = self.cut_off_says(cluster, keys)
                for pid in others:
                    with contextlib.suppress(ProcessLookupError):  # the supervisor may be faster, and start it anew
                        os.kill(pid, signal.SIGCONT)
                cluster.wait_whole()
                for key, answer in zip(keys, said):
                    found = cluster.ask(1, "GET", key)
                    if answer.startswith("TRYAGAIN"):
                        self.assertEqual(found, b"before", answer)
                    else:
                        self.assertTrue(answer.startswith("UNKNOWN "), answer)
                        self.assertIn(found, (b"before", b"after"), answer)

    def cut_off_says(self, cluster, keys):
        """What node 0 answers to SETs of the keys, when it has no lease any more."""
        with cluster.connect(0, timeout_s=DEADLINE_S) as watcher:
            def status():
                return json.loads(watcher.ask("WEFT", "STATUS"))
            self.assertTrue(eventually(lambda: status()["cut_off_ms"] > 0), status())
            self.assertFalse(status()["whole"])
            self.assertTrue(eventually(lambda: status()["suspects"] == [1, 2]), status())
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(cluster.connect(0, timeout_s=DEADLINE_S)) for _ in keys]
            writers = [stack.enter_context(cluster.connect(0, timeout_s=DEADLINE_S)) for _ in keys]
            for key, reader, writer in zip(keys, readers, writers):
                reader.send(resp.encode("GET", key) + resp.encode("MGET", *keys) +
                            resp.transaction([("EXISTS", key), ("GET", key)]))
                writer.send(resp.encode("SET", key, "after"))
            for reader in readers:
                answers = [reader.receive() for _ in range(6)]  # of MULTI and what is queued, too
                for answer in (answers[0], answers[1], answers[5]):
                    self.assertIsInstance(answer, resp.Error)
                    self.assertTrue(str(answer).startswith("TRYAGAIN nothing happened within 1000 ms"), answer)
            return [str(writer.receive()) for writer in writers]

    def test_two_that_have_lost_each_other_and_must_both_stay(self):
        """Each has the only replica of half the data: they are connected again, in a view that is the same."""
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=2, replicas=1, fabric=fabric)
                before = cluster.wait_whole()[0]["view"]
                keys = [f"key{n}" for n in range(40)]
                for n, key in enumerate(keys):
                    self.assertEqual(cluster.ask(n % 2, "SET", key, str(n)), "OK")
                for round_of_it in range(2):
                    own = [cluster.links(node) for node in range(2)]
                    cut = links.between(own[0], 1, own[1]) + links.between(own[1], 0, own[0])
                    self.assertTrue(cut)
                    for link in cut:
                        link.close()
                    for link in own[0] + own[1]:
                        link.socket.close()
                    epoch = before["epoch"] + round_of_it
                    self.assertTrue(eventually(lambda e=epoch, c=cluster: c.status(0)["view"]["epoch"] > e))
                    expected = [str(n).encode() for n in range(len(keys))]
                    for node in range(2):
                        self.assertTrue(eventually(
                            lambda n=node, c=cluster, e=expected: [c.ask(n, "GET", key) for key in keys] == e))
                after = cluster.wait_whole()[0]["view"]
                self.assertEqual(after["members"], before["members"])
                self.assertEqual(after["partitions"], before["partitions"])

    def test_idle_costs_little(self):
        """Three idle processes and their supervisor, with one idle client each: a few percent of one core."""
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.cluster(nodes=3, fabric=fabric)
                cluster.wait_whole()
                percent = idle_percent(cluster)
                for _ in range(0 if SLOW else 2):  # what else the machine does can only make it more
                    percent = percent if percent < 5 else min(percent, idle_percent(cluster))
                print(f"\nidle over {fabric}: {percent:.1f} % of a core for the whole cluster", flush=True)
                if not SLOW:
                    self.assertLess(percent, 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
