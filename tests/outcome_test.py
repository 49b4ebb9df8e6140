#!/usr/bin/env python3
"""A client whose node is killed learns from any other what became of its transaction.

    tests/outcome_test.py build/release/weft [PROTOCOL]

Clients begin transactions with WEFT MULTI at one node and send EXEC; then nodes get SIGKILL a moment later: that node,
the primary of the keys, which in the row hop executes the transaction, or both. What was still answered, what the
survivors say to WEFT OUTCOME, and the data must agree.
"""

import random
import sys
import tempfile
import time

import cluster
import resp

NODES = 5
CLIENTS = 12
ROUNDS = 9


def begin(connection, key):
    """The transaction's id; all is sent but EXEC."""
    transaction = connection.ask("WEFT", "MULTI")
    assert isinstance(transaction, bytes), transaction
    for name in (key, key + "'"):
        queued = connection.ask("SET", name, key)
        assert queued == "QUEUED", queued
    return transaction.decode()


def answer_of(connection):
    """What the node said before it died, or None."""
    try:
        return connection.receive()
    except OSError:
        return None


def primary_of(up, asked, key):
    slot = up.ask(asked, "CLUSTER", "KEYSLOT", key)
    for first, last, primary, *_ in up.ask(asked, "CLUSTER", "SLOTS"):
        if first <= slot <= last:
            return primary[1] - up.port_of(0)
    raise AssertionError(f"no node has slot {slot}")


def keys_of(up, number, node, executor):
    """Names with a tag, so that a transaction's keys are together; at this primary."""
    names = (f"{{{number}:{n}}}" for n in range(1000))
    found = (name for name in names if primary_of(up, node, name) == executor)
    return [next(found) for _ in range(CLIENTS)]


def one_round(up, number, draw):
    node = number % NODES
    executor = (node + 1 + number // NODES) % NODES
    victims = [[node], [executor], [node, executor]][number % 3]
    survivors = [n for n in range(NODES) if n not in victims]
    keys = keys_of(up, number, node, executor)
    connections = [up.connect(node) for _ in keys]
    ids = [begin(connection, key) for connection, key in zip(connections, keys)]
    for connection in connections:
        connection.send(resp.encode("EXEC"))
        time.sleep(draw.uniform(0, 0.0002))
    time.sleep(draw.choice([0, 0, 0.0005, 0.005]))
    for victim in victims:
        up.kill(victim)
    counts = {}
    for connection, key, transaction in zip(connections, keys, ids):
        told = answer_of(connection)
        connection.close()
        fates = [up.ask(n, "WEFT", "OUTCOME", transaction) for n in survivors]
        values = [up.ask(n, "GET", name) for n in survivors for name in (key, key + "'")]
        what = f"{transaction}: told {told}, survivors {survivors} say {fates}, the data is {values}"
        assert len(set(fates)) == 1 and fates[0] in ("committed", "aborted", "forgotten"), what
        assert values == [key.encode() if fates[0] == "committed" else None] * len(values), what
        if isinstance(told, list):
            assert fates[0] == "committed", what
        if isinstance(told, resp.Error) and told.startswith(("ABORTED", "TRYAGAIN")):
            assert fates[0] != "committed", what
        counts[fates[0], "told" if told is not None else "not told"] = counts.get(
            (fates[0], "told" if told is not None else "not told"), 0) + 1
    up.wait_whole()
    return counts


def main():
    weft = sys.argv[1]
    protocol = sys.argv[2] if len(sys.argv) > 2 else None
    draw = random.Random(1)
    total = {}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        with cluster.Cluster(weft, log.name, nodes=NODES, protocol=protocol, extra=["--workers", "2"]) as up:
            up.wait_whole()
            for number in range(ROUNDS):
                for what, count in one_round(up, number, draw).items():
                    total[what] = total.get(what, 0) + count
            shipped = sum(up.ask_json(n, "WEFT", "STATUS")["figures"]["shipped"] for n in range(NODES))
            assert not up.faults_in_log(), up.faults_in_log()
    for (fate, told), count in sorted(total.items()):
        print(f"{fate}, {told}: {count}")
    print(f"shipped, by processes that are still there: {shipped}")
    assert sum(count for (fate, _), count in total.items() if fate == "committed") > 0
    assert (shipped > 0) == (protocol == "hop"), shipped
    print("ok")


if __name__ == "__main__":
    main()
