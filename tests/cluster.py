"""A cluster of processes started by `weft up`, and what can be done to it from outside.

Nothing outlives the test: the supervisor dies with the thread that started it (PR_SET_PDEATHSIG), its nodes die with
the supervisor.
"""

import contextlib
import ctypes
import json
import os
import random
import re
import signal
import socket
import subprocess
import time

import links
import resp

PR_SET_PDEATHSIG = 1
# Below what the kernel gives to connections by itself: nobody takes the port of a node that is just being restarted.
# Tests that run side by side have ranges of their own, FIRST-LAST.
PORTS = range(*map(int, os.environ.get("WEFT_TEST_PORTS", "20000-32000").split("-")))
# What a node or a sanitizer says of a bug.
REPORTS = re.compile(r"Sanitizer|runtime error:|check failed|terminate called|Assertion|\bSUMMARY:")

libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


given_ports = set()  # in this process: who got one may not listen on it yet


def free_ports(count):
    """The first of `count` ports in a row that nobody listens on, or was given before."""
    entropy = random.SystemRandom()
    for _ in range(1000):
        base = entropy.randrange(PORTS.start, PORTS.stop - count)
        if given_ports.intersection(range(base, base + count)):
            continue
        with contextlib.ExitStack() as stack:
            try:
                for port in range(base, base + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            given_ports.update(range(base, base + count))
            return base
    raise RuntimeError(f"no {count} free ports in a row")


def launch(command, log, mode="ab"):
    """A process that dies with this one; what it says goes to the file `log`."""
    with open(log, mode) as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                preexec_fn=die_with_parent)


def status_at_end(process):
    """Of a process that was asked to end: its exit status, or None if it had to be killed."""
    try:
        return process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def events_in(text):
    """The events of a log: its lines that are JSON objects. A line may be half written."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def text_of(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read()


class Cluster:
    def __init__(self, weft, log, nodes=5, replicas=3, fabric="shm", protocol=None, port=None, http=False,
                 memory=0, compute=0, extra=()):
        """`memory` and `compute`: so many nodes of either kind, in place of `nodes` that are both."""
        protocol = protocol or os.environ.get("WEFT_TEST_PROTOCOL", "dnl4")
        self.take_roles(["transactions"] * compute + ["data"] * memory if memory else ["both"] * nodes)
        self.replicas = replicas = min(replicas, len(self.data_nodes))
        nodes = self.nodes
        self.fabric = fabric
        self.port = port or free_ports(2 * nodes)
        self.http_port = self.port + nodes if http else 0
        self.log = log
        self.killed = set()  # process ids that the test killed
        self.orphaned = set()  # process ids whose connection to the supervisor the test closed: they end by themselves
        of_roles = ["--memory", str(memory), "--compute", str(compute)] if self.divided else ["--nodes", str(nodes)]
        self.up = launch([weft, "up", *of_roles, "--replicas", str(replicas), "--port", str(self.port), "--http-port",
                          str(self.http_port), "--fabric", fabric, "--protocol", protocol, *extra], log, "wb")

    def take_roles(self, roles):
        """`roles`: of each node, as node.roles has them."""
        self.nodes = len(roles)
        self.roles = roles
        self.divided = set(roles) != {"both"}
        self.transaction_nodes = [node for node, of_it in enumerate(roles) if of_it != "data"]
        self.data_nodes = [node for node, of_it in enumerate(roles) if of_it != "transactions"]
        self.compute_nodes = [node for node, of_it in enumerate(roles) if of_it == "transactions"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Ends it whatever state it is in. The exit status, or None if it had to be killed."""
        if self.up.poll() is None:
            for pid in self.pids().values():  # a stopped process does not end by itself
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            self.up.terminate()
        return status_at_end(self.up)

    def port_of(self, node):
        return self.port + node

    def connect(self, node, timeout_s=30):
        return resp.Connection(self.port_of(node), timeout_s)

    def ask(self, node, *arguments):
        with self.connect(node) as connection:
            return connection.ask(*arguments)

    def ask_json(self, node, *arguments):
        """ConnectionError: it is outside of the cluster, and says so."""
        said = self.ask(node, *arguments)
        if isinstance(said, resp.Error):
            raise ConnectionError(f"node {node} answers {arguments}: {said}")
        return json.loads(said)

    def status(self, node):
        return self.ask_json(node, "WEFT", "STATUS")

    def digest(self, node):
        return self.ask_json(node, "WEFT", "DIGEST")

    def children(self):
        pids = []
        with contextlib.suppress(OSError), open(f"/proc/{self.up.pid}/task/{self.up.pid}/children",
                                                encoding="ascii") as file:
            pids = [int(pid) for pid in file.read().split()]
        return pids

    def pids(self):
        """The process of each node, also of those that do not answer yet: the file it was started with names it."""
        found = {}
        for pid in self.children():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    config = file.read().split(b"\0")[3].decode()
                with open(config.replace("/proc/self/", f"/proc/{pid}/"), encoding="utf-8") as file:
                    match = re.search(r"^\s*(?:node|id)\s*=\s*(\d+)", file.read(), re.MULTILINE)
                if match:
                    found[int(match.group(1))] = pid
        return found

    def kill(self, node):
        """SIGKILL to the node's process. Its id, or None if there is none."""
        pid = self.pids().get(node)
        if pid is None:
            return None
        self.killed.add(pid)
        os.kill(pid, signal.SIGKILL)
        return pid

    def links(self, node):
        """The node's connections to other nodes: {the other's socket address or name: ...}, see links.py."""
        pid = self.pids().get(node)
        clients = set(range(self.port, self.port + self.nodes))
        return [] if pid is None else links.of_process(pid, self.fabric, clients)

    def wait_whole(self, deadline_s=60):
        """Until every node says so of the same view; what they say."""
        end = time.monotonic() + deadline_s
        last = "nobody answers"
        while time.monotonic() < end:
            if self.up.poll() is not None:
                raise RuntimeError(f"weft up ended with status {self.up.returncode}: {self.log_text()[-2000:]}")
            try:
                said = [self.status(node) for node in range(self.nodes)]
                last = json.dumps(said)
                if all(s["whole"] for s in said) and len({s["view"]["epoch"] for s in said}) == 1:
                    return said
            except (OSError, ValueError) as error:
                last = str(error)
            time.sleep(0.02)
        raise RuntimeError(f"not whole after {deadline_s} s: {last}")

    def log_text(self):
        return text_of(self.log)

    def faults_in_log(self):
        """What should not be there: reports of bugs, and processes that ended without being killed."""
        text = self.log_text()
        return [line for line in text.splitlines() if REPORTS.search(line)] + self.deaths(text)

    def deaths(self, text):
        """Processes that ended and should not have; `text` is what the log says."""
        removed = self.removed()
        faults = []
        for event in events_in(text):
            if event["event"] != "process_ended":
                continue
            node, pid, how = event["node"], event["pid"], event["how"]
            if how == "was ended by SIGKILL" and (pid in self.killed or pid in removed):
                continue
            if how == "exited with status 0" and pid in self.orphaned:
                continue
            faults.append(f"node {node} (process {pid}) {how}, and nobody killed it")
        return faults

    def removed(self):
        """Processes that the others took for dead."""
        return {event["pid"] for event in events_in(self.log_text()) if event["event"] == "process_fenced"}
