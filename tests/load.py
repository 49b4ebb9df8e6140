"""Clients of a cluster of processes, and what they saw: the append and the token workload from outside.

One thread and one epoll for all clients, each with one transaction under way. A client whose connection breaks does not
know what became of its transaction, records that, and goes on at another node as a new process of the history. Times
are those of one monotonic clock, read before the first byte is sent and after the last one has come.
"""

import collections
import json
import random
import select
import socket
import time

import resp

NS = 1_000_000_000
KEY_APPENDS = 64  # then the key is retired
STATUS_EVERY_S = 0.02


class Violation(Exception):
    """The cluster did what it must not."""


class Client:
    """One connection; subclasses say what to ask and take the answers."""

    move_after = None  # answers, then it goes to another node

    def __init__(self, load, node):
        self.load = load
        self.node = node
        self.socket = None
        self.fd = -1
        self.buffer = bytearray()
        self.expected = 0  # replies
        self.replies = []
        self.invoke_ns = 0
        self.retry_at = 0.0
        self.answered = 0

    @property
    def busy(self):
        return self.expected > 0

    def choose_node(self):
        return self.load.random.randrange(self.load.cluster.nodes)

    def connect(self):
        sock = socket.socket()
        sock.settimeout(1)
        try:
            sock.connect(("127.0.0.1", self.load.cluster.port_of(self.node)))
        except OSError:
            sock.close()
            self.node = self.choose_node()
            self.retry_at = time.monotonic() + 0.005
            return False
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.socket, self.fd = sock, sock.fileno()
        self.load.watch(self)
        return True

    def disconnect(self):
        if self.socket is None:
            return
        self.load.forget(self)
        self.socket.close()
        self.socket, self.fd = None, -1
        self.buffer.clear()
        self.replies = []

    def start(self):
        if self.socket is None and not self.connect():
            return
        data, self.expected = self.request()
        self.invoke_ns = time.monotonic_ns()
        try:
            if self.socket.send(data) == len(data):
                return
        except OSError:
            pass
        self.broken()

    def broken(self):
        """The connection ended. What was asked may or may not have happened."""
        was_busy, self.expected = self.busy, 0
        self.disconnect()
        self.node = self.choose_node()
        if was_busy:
            self.unknown()

    def readable(self):
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        now_ns = time.monotonic_ns()
        if not data:
            self.broken()
            return
        self.buffer += data
        at = 0
        try:
            while self.expected > 0:
                reply, at = resp.parse(self.buffer, at)
                self.replies.append(reply)
                self.expected -= 1
        except resp.Incomplete:
            del self.buffer[:at]
            return
        del self.buffer[:at]
        if self.buffer:
            raise Violation(f"node {self.node} answered more than it was asked: {bytes(self.buffer[:200])!r}")
        replies, self.replies = self.replies, []
        self.answered += 1
        self.take(replies, now_ns)
        if self.move_after and self.answered % self.move_after == 0:
            self.disconnect()
            self.node = self.choose_node()

    def request(self):
        """(bytes, how many replies)"""
        raise NotImplementedError

    def take(self, replies, now_ns):
        raise NotImplementedError

    def unknown(self):
        raise NotImplementedError


def outcome(reply):
    """ok, fail (it did not happen) or info (nobody knows), of the reply to EXEC or to a command that is one."""
    if not isinstance(reply, resp.Error):
        return "ok"
    if reply.startswith("UNKNOWN"):
        return "info"
    if reply.startswith(("ABORTED", "ERR", "EXECABORT")):
        return "fail"
    raise Violation(f"an error reply of no known kind: {reply}")


class Appends:
    """The keys of the append workload and its history, in the format of `weft check`."""

    def __init__(self, rng, prefix, active=20):
        self.random = rng
        self.prefix = prefix
        self.made = 0
        self.element = 0
        self.count = {}  # key: appends tried
        self.active = [self.new_key() for _ in range(active)]
        self.lines = []
        self.processes = 0
        self.acknowledged = {}  # key: elements
        self.failed = {}
        self.types = {"ok": 0, "fail": 0, "info": 0}

    def new_key(self):
        key = f"{self.prefix}{self.made}"
        self.made += 1
        self.count[key] = 0
        return key

    def new_process(self):
        self.processes += 1
        return self.processes

    def draw(self):
        ops = []
        for _ in range(self.random.randint(1, 4)):
            place = self.random.randrange(len(self.active))
            key = self.active[place]
            if self.random.random() < 0.5:
                ops.append(("r", key, None))
                continue
            self.element += 1
            ops.append(("append", key, self.element))
            self.count[key] += 1
            if self.count[key] == KEY_APPENDS:
                self.active[place] = self.new_key()
        return ops

    def record(self, process, invoke_ns, complete_ns, kind, ops):
        self.types[kind] += 1
        into = {"ok": self.acknowledged, "fail": self.failed}.get(kind)
        if into is not None:
            for op, key, element in ops:
                if op == "append":
                    into.setdefault(key, set()).add(element)
        complete = "null" if complete_ns is None else complete_ns
        self.lines.append(f'{{"process":{process},"invoke":{invoke_ns},"complete":{complete},"type":"{kind}",'
                          f'"ops":{json.dumps(ops, separators=(",", ":"))}}}')


def elements(value):
    if value is None:
        return []
    if not value.endswith(b","):
        raise Violation(f"a list that no append wrote: {value!r}")
    return [int(element) for element in value[:-1].split(b",")]


class AppendClient(Client):
    move_after = 150

    def __init__(self, load, node, appends):
        super().__init__(load, node)
        self.appends = appends
        self.process = appends.new_process()
        self.ops = []

    def request(self):
        self.ops = self.appends.draw()
        commands = [("GET", key) if op == "r" else ("APPEND", key, f"{element},") for op, key, element in self.ops]
        return resp.transaction(commands), len(commands) + 2

    def take(self, replies, now_ns):
        if replies[0] != "OK" or any(reply != "QUEUED" for reply in replies[1:-1]):
            raise Violation(f"node {self.node} did not queue a transaction: {replies}")
        kind = outcome(replies[-1])
        if kind == "info":
            self.unknown()
            return
        ops = self.ops
        if kind == "ok":
            answers = replies[-1]
            if len(answers) != len(ops) or any(isinstance(answer, resp.Error) for answer in answers):
                raise Violation(f"node {self.node} answered {answers} to {ops}")
            ops = [(op, key, elements(answer)) if op == "r" else (op, key, element)
                   for (op, key, element), answer in zip(ops, answers)]
            self.load.acknowledge(self, now_ns)
        else:
            self.load.note_failure(str(replies[-1]))
        self.appends.record(self.process, self.invoke_ns, now_ns, kind, ops)

    def unknown(self):
        self.appends.record(self.process, self.invoke_ns, None, "info", self.ops)
        self.process = self.appends.new_process()


class Tokens:
    """N tokens on keys, at most one on each. What must hold (the numbers are those of check/token.h):

    I1  every committed reader finds each of the N tokens once, and no other;
    I2  it finds a token only where it began or where a move that did not fail put it, invoked before the reader ended;
    I3  the committed moves of a token, and as few of the unknown ones as it takes, explain its final key.
    """

    def __init__(self, rng, prefix, tokens=8, keys=24):
        self.random = rng
        self.keys = [f"{prefix}{n}" for n in range(keys)]
        self.start = {f"token{n}".encode(): self.keys[n] for n in range(tokens)}
        self.moves = []  # (token, from, to)
        self.unknown = []  # (from, to): of a token that nobody knows
        self.arrivals = {}  # (token, key): when the first move there was invoked
        self.unknown_arrivals = {}  # key: the same of the unknown
        self.reads = 0
        self.readers = []  # (complete_ns, found): I2 is judged when all moves are known

    def moved(self, token, source, target, invoke_ns):
        self.moves.append((token, source, target))
        self.arrivals[token, target] = min(invoke_ns, self.arrivals.get((token, target), invoke_ns))

    def lost_sight(self, source, target, invoke_ns):
        self.unknown.append((source, target))
        self.unknown_arrivals[target] = min(invoke_ns, self.unknown_arrivals.get(target, invoke_ns))

    def read(self, values, now_ns):
        found = [(value, key) for value, key in zip(values, self.keys) if value is not None]
        if sorted(value for value, _ in found) != sorted(self.start):
            raise Violation(f"I1: a reader found the tokens {sorted(found)}, expected {sorted(self.start)}")
        self.reads += 1
        self.readers.append((now_ns, found))

    def judge(self, end):
        """`end` is the final {token: key}."""
        if set(end) != set(self.start):
            raise Violation(f"I1: at the end the tokens are {end}")
        for now_ns, found in [*self.readers, (time.monotonic_ns(), list(end.items()))]:
            for token, key in found:
                since = min(self.arrivals.get((token, key), now_ns + 1), self.unknown_arrivals.get(key, now_ns + 1))
                if self.start[token] != key and since > now_ns:
                    raise Violation(f"I2: {token} was found at {key}, where nothing had put it")
        rests = []
        for token, begin in self.start.items():
            balance = collections.Counter({begin: 1})
            for moved, source, target in self.moves:
                if moved == token:
                    balance[source] -= 1
                    balance[target] += 1
            balance[end[token]] -= 1
            rests.append({key: n for key, n in balance.items() if n != 0})
        if not explained(rests, self.unknown):
            wrong = {token.decode(): rest for token, rest in zip(self.start, rests) if rest}
            raise Violation(f"I3: moves do not explain where tokens are: {wrong} with unknown moves {self.unknown}")


def explained(rests, unknown):
    """Can unknown moves, each used once at most, make all balances 0? A balance above 0 is a token that came and was
    not seen to leave: then it left by an unknown move."""
    rests = [rest for rest in rests if rest]
    if not rests:
        return True
    rest = rests[0]
    surplus = next((key for key, n in sorted(rest.items()) if n > 0), None)
    for at, (source, target) in enumerate(unknown):
        if source != surplus:
            continue
        after = collections.Counter(rest)
        after[source] -= 1
        after[target] += 1
        after = {key: n for key, n in after.items() if n != 0}
        if explained([after, *rests[1:]], unknown[:at] + unknown[at + 1:]):
            return True
    return False


class TokenMover(Client):
    move_after = 150

    def __init__(self, load, node, tokens):
        super().__init__(load, node)
        self.tokens = tokens
        self.pair = ("", "")

    def request(self):
        self.pair = tuple(self.tokens.random.sample(self.tokens.keys, 2))
        return resp.transaction([("GET", self.pair[0]), ("RENAMENX", *self.pair)]), 4

    def take(self, replies, now_ns):
        reply = replies[-1]
        kind = outcome(reply)
        if kind == "info":
            self.unknown()
        elif kind == "fail":
            self.load.note_failure(str(reply))
        else:
            self.load.acknowledge(self, now_ns)
            token, result = reply
            if token is None:
                if not isinstance(result, resp.Error) or "no such key" not in result:
                    raise Violation(f"RENAMENX of a key that is not there answered {result!r}")
            elif result == 1:
                self.tokens.moved(token, *self.pair, self.invoke_ns)
            elif result != 0:
                raise Violation(f"RENAMENX of {token} answered {result!r}")

    def unknown(self):
        self.tokens.lost_sight(*self.pair, self.invoke_ns)
        self.load.unknowns += 1


class TokenReader(Client):
    move_after = 50

    def __init__(self, load, node, tokens):
        super().__init__(load, node)
        self.tokens = tokens

    def request(self):
        return resp.encode("MGET", *self.tokens.keys), 1

    def take(self, replies, now_ns):
        if outcome(replies[0]) == "ok":
            self.load.acknowledge(self, now_ns)
            self.tokens.read(replies[0], now_ns)
        else:
            self.load.note_failure(str(replies[0]))

    def unknown(self):
        self.load.unknowns += 1


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
        self.status = json.loads(replies[0])
        self.asked_ns = self.invoke_ns
        self.load.note_view(self.status["view"], now_ns)

    def unknown(self):
        self.status = None


class Load:
    """Runs the clients; `script` is a generator that yields seconds to wait or a function to wait for."""

    def __init__(self, cluster, rng, prefix, appenders=10, movers=3, readers=2):
        self.cluster = cluster
        self.random = rng
        self.epoll = select.epoll()
        self.by_fd = {}
        self.appends = Appends(random.Random(rng.random()), f"{prefix}a")
        self.tokens = Tokens(random.Random(rng.random()), f"{prefix}t")
        self.watchers = [Watcher(self, node) for node in range(cluster.nodes)]
        kinds = [(AppendClient, self.appends)] * appenders
        kinds += [(TokenMover, self.tokens)] * movers + [(TokenReader, self.tokens)] * readers
        self.clients = [kind(self, n % cluster.nodes, about) for n, (kind, about) in enumerate(kinds)]
        self.watching = False  # closely
        self.commits_ns = []
        self.slowest_ns = 0  # transaction that committed
        self.unknowns = 0  # of the tokens' transactions
        self.failures = {}
        self.views = {}  # epoch: (when it was first seen, who is there, who is filling)
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
            filling = sorted({node for placement in view["partitions"] for node in placement["filling"]})
            self.views[view["epoch"]] = (now_ns, [member["node"] for member in view["members"]], filling)

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
