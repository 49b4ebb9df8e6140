#!/usr/bin/env python3
"""Appends as clients of Redis do them, optimistically: WATCH, GET, MULTI, APPEND, EXEC; from several clients through
different nodes, while nodes are killed. `weft check` judges what they saw.

    redis_append_test.py PATH-TO-WEFT
"""

import os
import random
import subprocess
import tempfile
import threading
import time
import unittest

import workloads
from client import Violation
from process_testing import SLOW, WEFT, ProcessTest, eventually
from resp import Error

CLIENTS = 8
KILLS = 2 if SLOW else 6
BETWEEN_S = 0.7


class Appender(threading.Thread):
    """One client: goes on at another node when its connection breaks."""

    def __init__(self, cluster, appends, lock, number):
        super().__init__()
        self.cluster, self.appends, self.lock = cluster, appends, lock
        self.random = random.Random(number)
        self.node = number % cluster.nodes
        self.connection = None
        self.stopping = False
        self.fault = None
        self.nils = 0

    def run(self):
        process = self.new_process()
        while not self.stopping:
            try:
                if not self.transaction(process):
                    process = self.new_process()
            except Violation as violation:
                self.fault = violation
                return

    def new_process(self):
        with self.lock:
            return self.appends.new_process()

    def connected(self):
        while self.connection is None and not self.stopping:
            try:
                self.connection = self.cluster.connect(self.node, timeout_s=20)
            except OSError:
                self.node = self.random.randrange(self.cluster.nodes)
                time.sleep(0.005)
        return self.connection is not None

    def lose(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.node = self.random.randrange(self.cluster.nodes)

    def record(self, process, invoke_ns, complete_ns, kind, ops):
        with self.lock:
            self.appends.record(process, invoke_ns, complete_ns, kind, ops)

    def transaction(self, process):
        """False: nobody knows what became of it."""
        with self.lock:
            ops = self.appends.draw()
        if not self.connected():
            return True
        invoke_ns = time.monotonic_ns()
        reads = {key: None for op, key, _ in ops if op == "r"}
        writes = [op for op in ops if op[0] == "append"]
        try:
            answers = [self.connection.ask("WATCH", *{key for _, key, _ in ops})]
            for key in reads:
                answers.append(self.connection.ask("GET", key))
                reads[key] = answers[-1]
            answers.append(self.connection.ask("MULTI"))
            for _, key, element in writes:
                answers.append(self.connection.ask("APPEND", key, f"{element},"))
            if any(isinstance(answer, Error) for answer in answers):
                self.lose()
                self.record(process, invoke_ns, time.monotonic_ns(), "fail", ops)
                return True
        except OSError:  # nothing was asked to be done
            self.lose()
            self.record(process, invoke_ns, time.monotonic_ns(), "fail", ops)
            return True
        try:
            answer = self.connection.ask("EXEC")
        except OSError:
            self.lose()
            self.record(process, invoke_ns, None, "info", ops)
            return False
        now_ns = time.monotonic_ns()
        kind = "fail" if answer is None else workloads.outcome(answer)
        self.nils += answer is None
        if kind == "info":
            self.record(process, invoke_ns, None, "info", ops)
            return False
        if kind == "ok":
            # Reads came before the appends.
            ops = [("r", key, workloads.elements(value)) for key, value in reads.items()] + writes
        self.record(process, invoke_ns, now_ns, kind, ops)
        return True


class Append(ProcessTest):
    def test_appends_under_watch(self):
        cluster = self.cluster(nodes=3)
        cluster.wait_whole()
        lock = threading.Lock()
        appends = workloads.Appends(random.Random(time.time()), "a", active=6)
        clients = [Appender(cluster, appends, lock, number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for n in range(KILLS):
            time.sleep(BETWEEN_S)
            cluster.kill(n % 3)
            cluster.wait_whole()
        time.sleep(BETWEEN_S)

        def nils():
            return sum(client.nils for client in clients)
        # On a machine that has much else to do that takes longer than the kills.
        enough = eventually(lambda: appends.types["ok"] > 100 and nils() > 0)
        for client in clients:
            client.stopping = True
        for client in clients:
            client.join()
            client.lose()
            self.assertIsNone(client.fault)
        self.final_reads(cluster, appends)
        print({**appends.types, "nil": nils()})
        self.assertTrue(enough)
        self.judge(appends)

    def final_reads(self, cluster, appends):
        for key in appends.count:
            def read(key=key):
                # A node that was late is removed, and comes back, whenever the machine has no time for it.
                for node in range(cluster.nodes):
                    invoke_ns = time.monotonic_ns()
                    try:
                        value = cluster.ask(node, "GET", key)
                    except OSError:
                        continue
                    if not isinstance(value, Error):
                        appends.record(0, invoke_ns, time.monotonic_ns(), "ok", [("r", key, workloads.elements(value))])
                        return True
                return False
            self.assertTrue(eventually(read), key)

    def judge(self, appends):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "history")
            with open(path, "w", encoding="ascii") as file:
                file.write("\n".join(appends.lines) + "\n")
            done = subprocess.run([WEFT, "check", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])


if __name__ == "__main__":
    unittest.main()
