"""The append and the token workload from outside: what their clients ask, what they saw, and what must hold of it.

A client that does not know what became of its transaction records that, and goes on as a new process of the history.
"""

import collections
import json
import time

import resp
from client import Client, Violation

KEY_APPENDS = 64  # then the key is retired


def outcome(reply):
    """ok, fail (it did not happen) or info (nobody knows), of the reply to EXEC or to a command that is one."""
    if not isinstance(reply, resp.Error):
        return "ok"
    if reply.startswith("UNKNOWN"):
        return "info"
    if reply.startswith(("ABORTED", "ERR", "EXECABORT", "TRYAGAIN", "CLUSTERDOWN")):
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
