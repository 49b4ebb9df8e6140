#!/usr/bin/env python3
"""What a hostile client costs the others: the same load against one node, three nodes and redis-server.

A hostile process sends one kind of load at full rate to every node; an innocent client does PING, GET and SET in turn,
one at a time, and ten more do nothing. Printed: the innocent's latencies, how many connections of the eleven broke,
whether a node was fenced, and the memory of the fullest process before, at its peak and afterwards (where answers were
not read: five seconds after the end). Loopback only; every load lasts SECONDS.
"""

import argparse
import multiprocessing
import os
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))

from cluster import Cluster, die_with_parent, events_in  # noqa: E402
from redis_server import RedisServer  # noqa: E402
import resp  # noqa: E402

VALUE = b"v" * 65536
IDLE_CLIENTS = 10
PATIENCE_S = 8  # who has no answer by then has waited so long


def prepare(connection):
    noise = bytes((i * 7919 >> 3) % 251 for i in range(4095))
    connection.ask("SET", "lcs:a", noise)
    connection.ask("SET", "lcs:b", noise[::-1])
    connection.ask("SET", "large", VALUE)
    for i in range(14):
        connection.ask("SET", f"large:{i}", VALUE)
    connection.ask("SET", "small", "x" * 32)


def lcs():
    return resp.encode("LCS", "lcs:a", "lcs:b") * 4


def bitop():
    one = resp.encode("BITOP", "XOR", "bits", *["large"] * 63)
    return resp.encode("MULTI") + one * 200 + resp.encode("EXEC")


def bitop_different():
    one = resp.encode("BITOP", "OR", "bits", *[f"large:{i}" for i in range(14)])
    return resp.encode("MULTI") + one * 200 + resp.encode("EXEC")


def setbit():
    return b"".join(resp.encode("SETBIT", "large:0", 8 * (i % 65536), i % 2) for i in range(500))


def flood():
    return resp.encode("PING") * 2000


LOADS = {
    "4 LCS of 4095 x 4095 in one write": (lcs, 4, 4),
    "MULTI, 200 BITOP of 63 x the same 64 KiB": (bitop, 4, 202),
    "MULTI, 200 BITOP of 14 x 64 KiB": (bitop_different, 4, 202),
    "500 SETBIT of 64 KiB in one write": (setbit, 4, 500),
    "2000 PING in one write": (flood, 4, 2000),
}


def send_and_read(port, data, seconds):
    """At full rate: the next write when the answers to the one before have come."""
    die_with_parent()
    end = time.monotonic() + seconds
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            reader = multiprocessing.Process(target=drain, args=(s,), daemon=False)
            reader.start()
            try:
                while time.monotonic() < end:
                    s.sendall(data)
            finally:
                s.shutdown(socket.SHUT_RDWR)
                reader.join()
    except OSError:
        pass


def drain(s):
    die_with_parent()
    room = bytearray(1 << 18)
    try:
        while s.recv_into(room):
            pass
    except OSError:
        pass


def send_and_never_read(port, clients, seconds):
    """Many clients that ask for 64 KiB each time and read nothing."""
    die_with_parent()
    asks = resp.encode("GET", "large") * 350
    sockets = []
    end = time.monotonic() + seconds
    for _ in range(clients):
        s = socket.create_connection(("127.0.0.1", port), timeout=60)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        s.setblocking(False)
        sockets.append(s)
    while time.monotonic() < end:
        for s in sockets:
            try:
                s.send(asks)
            except OSError:
                pass
        time.sleep(0.01)
    for s in sockets:
        s.close()


def innocent(port, seconds):
    """Latencies in ms, and how often it had to connect again."""
    latencies, again = [], 0
    end = time.monotonic() + seconds
    connection = None
    turn = 0
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            if connection is None:
                connection = resp.Connection(port, PATIENCE_S)
            command = [("PING",), ("GET", "small"), ("SET", f"mine:{turn % 100}", turn)][turn % 3]
            connection.ask(*command)
        except TimeoutError:
            connection = None
        except OSError:
            connection, again = None, again + 1
            time.sleep(0.001)
            continue
        latencies.append((time.monotonic() - began) * 1000)
        turn += 1
        time.sleep(0.001)
    if connection is not None:
        connection.close()
    return sorted(latencies), again


def memory(pids, field):
    sizes = [0]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                sizes += [int(line.split()[1]) for line in file if line.startswith(field)]
        except OSError:
            pass
    return max(sizes) / 1024


def still_there(connection):
    try:
        return connection.ask("PING") == "PONG"
    except OSError:
        return False


def measure(name, ports, pids, processes, seconds, at_end=None):
    idle = [resp.Connection(ports[0], 60) for _ in range(IDLE_CLIENTS)]
    assert all(still_there(connection) for connection in idle)
    before = memory(pids(), "VmRSS")
    for process in processes:
        process.start()
    time.sleep(0.2)
    peak = before
    latencies, again = [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        some, more = innocent(ports[0], 0.5)
        latencies += some
        again += more
        peak = max(peak, memory(pids(), "VmRSS"))
    if at_end is not None:
        at_end()
    for process in processes:
        process.join()
    time.sleep(5 if "unread" in name else 0)
    latencies.sort()
    lost = sum(not still_there(connection) for connection in idle) if at_end is None else 0
    for connection in idle:
        connection.close()
    at = lambda q: latencies[min(int(len(latencies) * q), len(latencies) - 1)] if latencies else float("nan")
    print(f"  {name:44} {len(latencies):6} {at(0.5):9.2f} {at(0.99):9.2f} {at(1):9.2f} {again + lost:6} "
          f"{before:7.0f} {peak:7.0f} {memory(pids(), 'VmRSS'):7.0f}", flush=True)


def head():
    print(f"  {'load':44} {'asked':>6} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9} {'broken':>6} "
          f"{'MiB':>7} {'peak':>7} {'after':>7}")


def all_loads(ports, pids, flags, only, at_end=None):
    """at_end: ends the server before the load, which it would be busy with for a long time."""
    seconds = flags.seconds
    with resp.Connection(ports[0], 60) as connection:
        prepare(connection)
    if not only:
        measure("none", ports, pids, [], seconds)
    for name, (make, clients, _) in LOADS.items():
        if only and only not in name:
            continue
        processes = [multiprocessing.Process(target=send_and_read, args=(port, make(), seconds))
                     for port in ports for _ in range(clients)]
        measure(name, ports, pids, processes, seconds, at_end)
    name = f"GET of 64 KiB, unread, {flags.unread_clients} clients"
    if only in name:
        measure(name, ports, pids,
                [multiprocessing.Process(target=send_and_never_read, args=(port, flags.unread_clients, seconds))
                 for port in ports], seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--targets", default="redis,1,3")
    parser.add_argument("--unread-clients", type=int, default=100, help="that ask and do not read")
    parser.add_argument("--only", default="", help="loads whose name has this in it")
    flags = parser.parse_args()
    fenced = False
    with tempfile.TemporaryDirectory() as folder:
        for target in flags.targets.split(","):
            if target == "redis":
                print("redis-server")
                head()
                for load in [*LOADS, "unread"]:
                    with RedisServer(folder) as server:
                        end = server.process.kill if load in LOADS else None
                        if flags.only in load:
                            all_loads([server.port], lambda server=server: [server.process.pid], flags, load,
                                      end)
                continue
            nodes = int(target)
            print(f"weft, {nodes} node{'s' if nodes > 1 else ''}")
            with Cluster(flags.weft, os.path.join(folder, f"weft{nodes}.log"), nodes, min(nodes, 3)) as cluster:
                cluster.wait_whole()
                head()
                all_loads([cluster.port_of(n) for n in range(nodes)], lambda cluster=cluster: cluster.pids().values(),
                          flags, flags.only)
                removed = cluster.removed()
                fenced |= bool(removed)
                events = events_in(cluster.log_text())
                late = [event for event in events if event["event"] == "turn_too_long"]
                closed = [event for event in events if event["event"] == "client_closed"]
                print(f"  fenced: {len(removed)}; turns too long, said: {len(late)} "
                      f"{sorted({event['command'] for event in late})}; clients closed: {len(closed)}")
                for fault in cluster.faults_in_log():
                    print("  " + fault)
    return 1 if fenced else 0


if __name__ == "__main__":
    sys.exit(main())
