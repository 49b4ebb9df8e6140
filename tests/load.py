"""Load on a cluster of processes: the clients of the workloads (workloads.py), and who watches the views.

One thread and one epoll for all of them.
"""

import json
import random
import select
import time

import resp
import workloads
from client import Client, Violation

NS = 1_000_000_000
STATUS_EVERY_S = 0.02


class Watcher(Client):
    """Keeps asking one node for its status."""

    def __init__(self, load, node):
        super().__init__(load, node)
        self.status = None
        self.asked_ns = 0  # when the last answer was asked for
        self.due = 0.0

    def choose_node(self):
        return self.node

    def request(self):
        self.due = time.monotonic() + (0.001 if self.load.watching else STATUS_EVERY_S)
        return resp.encode("WEFT", "STATUS"), 1

    def take(self, replies, now_ns):
        if isinstance(replies[0], resp.Error):  # it is outside of the cluster
            return self.unknown()
        self.status = json.loads(replies[0])
        self.asked_ns = self.invoke_ns
        self.load.note_view(self.status["view"], now_ns)
        return None

    def unknown(self):
        self.status = None


class Load:
    """Runs the clients; `script` is a generator that yields seconds to wait or a function to wait for."""

    def __init__(self, cluster, rng, prefix, appenders=10, movers=3, readers=2):
        self.cluster = cluster
        self.random = rng
        self.epoll = select.epoll()
        self.by_fd = {}
        self.appends = workloads.Appends(random.Random(rng.random()), f"{prefix}a")
        self.tokens = workloads.Tokens(random.Random(rng.random()), f"{prefix}t")
        self.watchers = [Watcher(self, node) for node in range(cluster.nodes)]
        kinds = [(workloads.AppendClient, self.appends)] * appenders
        kinds += [(workloads.TokenMover, self.tokens)] * movers + [(workloads.TokenReader, self.tokens)] * readers
        at = cluster.transaction_nodes
        self.clients = [kind(self, at[n % len(at)], about) for n, (kind, about) in enumerate(kinds)]
        self.watching = False  # closely
        self.commits_ns = []
        self.slowest_ns = 0  # transaction that committed
        self.unknowns = 0  # of the tokens' transactions
        self.failures = {}
        self.views = {}  # epoch: (when it was first seen, the view)
        self.addresses = set()  # of all who were in a view

    def watch(self, client):
        self.by_fd[client.fd] = client
        self.epoll.register(client.fd, select.EPOLLIN)

    def forget(self, client):
        del self.by_fd[client.fd]
        self.epoll.unregister(client.fd)

    def acknowledge(self, client, now_ns):
        self.commits_ns.append(now_ns)
        self.slowest_ns = max(self.slowest_ns, now_ns - client.invoke_ns)

    def note_failure(self, text):
        self.failures[text] = self.failures.get(text, 0) + 1

    def note_view(self, view, now_ns):
        if view["epoch"] not in self.views:
            self.addresses.update(member["address"] for member in view["members"])
            self.views[view["epoch"]] = (now_ns, view)

    def whole_view(self):
        """The newest view, if every node says that all are there; else None."""
        return self.view() if self.whole_since(0, set()) else None

    def in_flight(self):
        return sum(client.busy for client in self.clients)

    def view(self):
        """The newest one that a node has told."""
        views = [watcher.status["view"] for watcher in self.watchers if watcher.status]
        return max(views, key=lambda view: view["epoch"]) if views else None

    def whole_since(self, since_ns, gone):
        """Every node was asked after since_ns and says that all are there; none is a process of `gone`."""
        said = [watcher.status for watcher in self.watchers]
        if any(status is None or not status["whole"] or status["pid"] in gone for status in said):
            return False
        return (all(watcher.asked_ns > since_ns for watcher in self.watchers) and
                len({status["view"]["epoch"] for status in said}) == 1)

    def ask(self):
        """Every client that has no transaction under way starts one."""
        now = time.monotonic()
        for client in self.clients:
            if not client.busy and now >= client.retry_at:
                client.start()

    def hear(self):
        now = time.monotonic()
        for watcher in self.watchers:
            if not watcher.busy and now >= max(watcher.due, watcher.retry_at):
                watcher.start()
        for fd, _ in self.epoll.poll(0.002):
            client = self.by_fd.get(fd)
            if client is not None:
                client.readable()

    def run(self, script, enough, deadline_s):
        """Until the script is over and enough() says so. The script acts while transactions are under way."""
        deadline = time.monotonic() + deadline_s
        waits_for, resume_at, over = None, 0.0, False
        while not (over and enough()):
            self.ask()
            now = time.monotonic()
            if now > deadline:
                raise Violation(f"not done after {deadline_s} s: {self.describe()}")
            if self.cluster.up.poll() is not None:
                raise Violation(f"weft up ended with status {self.cluster.up.returncode}")
            if not over and now >= resume_at and (waits_for is None or waits_for()):
                try:
                    wish = next(script)
                    waits_for, resume_at = (wish, 0.0) if callable(wish) else (None, now + wish)
                except StopIteration:
                    over = True
            self.hear()

    def drain(self, deadline_s):
        deadline = time.monotonic() + deadline_s
        while self.in_flight():
            self.hear()
            if time.monotonic() > deadline:
                raise Violation(f"transactions without an answer after {deadline_s} s: {self.describe()}")

    def describe(self):
        waiting = [f"{type(client).__name__} at node {client.node} for "
                   f"{(time.monotonic_ns() - client.invoke_ns) / NS:.1f} s" for client in self.clients if client.busy]
        return json.dumps({"waiting": waiting, "status": [watcher.status for watcher in self.watchers],
                           "failures": self.failures})

    def close(self):
        for client in [*self.clients, *self.watchers]:
            client.disconnect()
        self.epoll.close()
