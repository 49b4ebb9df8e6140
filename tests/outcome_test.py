#!/usr/bin/env python3
"""A client whose node is killed learns from any other what became of its transaction.

    tests/outcome_test.py build/release/weft

Clients begin transactions with WEFT MULTI at one node and send EXEC; the node gets SIGKILL a moment later. What it
still answered, what the two survivors say to WEFT OUTCOME, and the data must agree.
"""

import random
import sys
import tempfile
import time

import cluster
import resp

NODES = 3
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


def one_round(up, number, draw):
    node = number % NODES
    survivors = [n for n in range(NODES) if n != node]
    keys = [f"{number}:{client}" for client in range(CLIENTS)]
    connections = [up.connect(node) for _ in keys]
    ids = [begin(connection, key) for connection, key in zip(connections, keys)]
    for connection in connections:
        connection.send(resp.encode("EXEC"))
        time.sleep(draw.uniform(0, 0.0002))
    time.sleep(draw.choice([0, 0, 0.0005, 0.005]))
    up.kill(node)
    counts = {}
    for connection, key, transaction in zip(connections, keys, ids):
        told = answer_of(connection)
        connection.close()
        fates = [up.ask(n, "WEFT", "OUTCOME", transaction) for n in survivors]
        values = [up.ask(n, "GET", name) for n in survivors for name in (key, key + "'")]
        what = f"{transaction}: told {told}, survivors say {fates}, the data is {values}"
        assert fates[0] == fates[1] and fates[0] in ("committed", "aborted", "forgotten"), what
        assert values == [key.encode() if fates[0] == "committed" else None] * 4, what
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
    draw = random.Random(1)
    total = {}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        with cluster.Cluster(weft, log.name, nodes=NODES, extra=["--workers", "2"]) as up:
            up.wait_whole()
            for number in range(ROUNDS):
                for what, count in one_round(up, number, draw).items():
                    total[what] = total.get(what, 0) + count
            assert not up.faults_in_log(), up.faults_in_log()
    for (fate, told), count in sorted(total.items()):
        print(f"{fate}, {told}: {count}")
    assert sum(count for (fate, _), count in total.items() if fate == "committed") > 0
    print("ok")


if __name__ == "__main__":
    main()
