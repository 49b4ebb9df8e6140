#!/usr/bin/env python3
"""Memory nodes and compute nodes as processes: what each answers, and what is there when all compute nodes were killed.

    roles_test.py PATH-TO-WEFT
"""

import json
import unittest
import urllib.request

import process_rounds
import resp
from cluster import events_in
from process_testing import FABRICS, ProcessTest, eventually

KEYS = [f"key {n}" for n in range(60)]
REFUSED = "ERR rejected: this node holds data and runs no transactions (node.roles)"
NOBODY = "no node of the view runs transactions; one that joins finds all that was committed"
SWEPT_S = 180  # a round of the sweeper takes a minute


class RolesTest(ProcessTest):
    def started(self, memory=2, compute=2, **options):
        cluster = self.cluster(memory=memory, compute=compute, http=True, **options)
        cluster.wait_whole()
        return cluster

    def get(self, cluster, node, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{cluster.http_port + node}{path}", timeout=10) as answer:
            return answer.read().decode()

    def metric(self, cluster, node, name):
        lines = [line for line in self.get(cluster, node, "/metrics").splitlines() if line.startswith(name + " ")]
        self.assertEqual(len(lines), 1, name)
        return float(lines[0].split()[-1])

    def fill(self, cluster):
        at = cluster.transaction_nodes
        for n, key in enumerate(KEYS):
            self.assertEqual(cluster.ask(at[n % len(at)], "SET", key, f"value of {key}"), "OK")

    def expect_all(self, cluster):
        for node in cluster.transaction_nodes:
            self.assertTrue(eventually(lambda n=node: not isinstance(cluster.ask(n, "GET", KEYS[0]), resp.Error)))
            self.assertEqual(cluster.ask(node, "MGET", *KEYS), [f"value of {key}".encode() for key in KEYS])


class Answers(RolesTest):
    def test_clients_find_compute_nodes_and_all_keys(self):
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.started(fabric=fabric)
                self.fill(cluster)
                self.expect_all(cluster)
                self.assertEqual(cluster.ask(0, "DBSIZE"), len(KEYS))
                for node in cluster.data_nodes:
                    self.assertEqual(self.metric(cluster, node, "weft_records"), len(KEYS))
                for node in cluster.compute_nodes:
                    self.assertEqual(self.metric(cluster, node, "weft_records"), 0)

    def test_clients_of_a_cluster_are_sent_to_compute_nodes(self):
        cluster = self.started(memory=3, compute=2)
        answering = [cluster.port_of(node) for node in cluster.compute_nodes]
        for node in range(cluster.nodes):  # a client may ask any node first
            slots = cluster.ask(node, "CLUSTER", "SLOTS")
            covered = sorted(slot for first, last, *_ in slots for slot in range(first, last + 1))
            self.assertEqual(covered, list(range(16384)))
            self.assertEqual({at[1] for _, _, *served in slots for at in served}, set(answering))
            shards = [dict(zip(shard[::2], shard[1::2])) for shard in cluster.ask(node, "CLUSTER", "SHARDS")]
            nodes = [dict(zip(at[::2], at[1::2])) for shard in shards for at in shard[b"nodes"]]
            self.assertEqual([at[b"port"] for at in nodes], answering)
            of_shards = sorted(slot for shard in shards for first, last in zip(shard[b"slots"][::2], shard[b"slots"][1::2])
                               for slot in range(first, last + 1))
            self.assertEqual(of_shards, list(range(16384)))
            lines = cluster.ask(node, "CLUSTER", "NODES").decode().splitlines()
            self.assertEqual([line.split()[1].split("@")[0] for line in lines], [f"127.0.0.1:{port}" for port in answering])

    def test_a_memory_node_refuses_and_says_whom_to_ask(self):
        cluster = self.started()
        self.fill(cluster)
        says = f"{REFUSED}; ask 127.0.0.1:{cluster.port_of(0)}"
        for node in cluster.data_nodes:
            for command in (["SET", "a", "b"], ["GET", KEYS[0]], ["DEL", KEYS[0]], ["MGET", *KEYS], ["INCR", "n"]):
                self.assertEqual(cluster.ask(node, *command), says)
            with cluster.connect(node) as connection:
                connection.send(resp.transaction([("GET", KEYS[0]), ("SET", "a", "b")]))
                self.assertEqual([connection.receive() for _ in range(4)], ["OK", "QUEUED", "QUEUED", says])
            self.assertEqual(cluster.ask(node, "PING"), "PONG")
            self.assertIn(f"tcp_port:{cluster.port_of(node)}", cluster.ask(node, "INFO").decode())
            self.assertEqual(cluster.status(node)["node"], node)
            self.assertEqual(cluster.ask(node, "DBSIZE"), len(KEYS))
        self.expect_all(cluster)

    def test_what_is_seen_of_roles(self):
        cluster = self.started()
        for node in range(cluster.nodes):
            holds, runs = node in cluster.data_nodes, node in cluster.transaction_nodes
            self.assertEqual(self.metric(cluster, node, 'weft_role{role="data"}'), holds)
            self.assertEqual(self.metric(cluster, node, 'weft_role{role="transactions"}'), runs)
            self.assertEqual(self.metric(cluster, node, "weft_unavailable"), 0)
            view = json.loads(self.get(cluster, node, "/status"))["view"]
            self.assertEqual([member["roles"] for member in view["members"]], [["transactions"]] * 2 + [["data"]] * 2)
            self.assertEqual(bool(cluster.digest(node)["partitions"]), holds)
        self.assertEqual(process_rounds.fault_of([cluster.digest(node) for node in range(cluster.nodes)], 2, 2), "")


class Loses(RolesTest):
    def test_all_compute_nodes(self):
        """Rule D1, and D2: the data is there, and where it was."""
        for fabric in FABRICS:
            with self.subTest(fabric=fabric):
                cluster = self.started(fabric=fabric)
                self.fill(cluster)
                before = cluster.status(2)["view"]
                with cluster.connect(0) as connection:
                    asked = connection.ask("WEFT", "MULTI")
                    self.assertEqual([connection.ask("APPEND", "log", "line"), connection.ask("EXEC")], ["QUEUED", [4]])
                self.see_nobody(cluster)
                said = cluster.wait_whole()
                self.assertEqual(said[2]["stopped"], "")
                self.assertEqual(self.metric(cluster, 2, "weft_unavailable"), 0)
                self.expect_all(cluster)
                self.assertEqual(cluster.ask(1, "WEFT", "OUTCOME", asked), "committed")
                if process_rounds.data_members(before) == process_rounds.data_members(said[2]["view"]):
                    self.assertEqual(said[2]["view"]["partitions"], before["partitions"])

    def see_nobody(self, cluster):
        """Kills all compute nodes until a memory node was asked while there was none: each time they die young, they
        stay away for longer."""
        def killed_and_seen():
            pids = cluster.pids()
            for node in cluster.compute_nodes:
                cluster.kill(node)
            return eventually(lambda: self.says_nobody(cluster) or self.back(cluster, pids)) and self.says_nobody(cluster)
        self.assertTrue(eventually(killed_and_seen))

    def back(self, cluster, before):
        now = cluster.pids()
        return all(now.get(node, before.get(node)) != before.get(node) for node in cluster.compute_nodes)

    def says_nobody(self, cluster):
        """Of one view: what the status, the metrics and a refused command say."""
        status = json.loads(self.get(cluster, 2, "/status"))
        refused = cluster.ask(2, "SET", "a", "b")
        unavailable = self.metric(cluster, 2, "weft_unavailable")
        if "stopped" not in status or json.loads(self.get(cluster, 2, "/status"))["view"] != status["view"]:
            return False
        if any("transactions" in member["roles"] for member in status["view"]["members"]):
            return False
        self.assertEqual((status["stopped"], status["whole"], unavailable), (NOBODY, False, 1))
        self.assertEqual(refused, REFUSED)  # there is nobody to ask
        return True

    def test_a_memory_node(self):
        cluster = self.started()
        self.fill(cluster)
        for victim in cluster.data_nodes:
            pid = cluster.kill(victim)
            self.assertTrue(eventually(lambda v=victim, p=pid: cluster.pids().get(v, p) != p))
            cluster.wait_whole()
            self.expect_all(cluster)
            self.assertEqual(self.metric(cluster, victim, "weft_records"), len(KEYS))

    def test_who_holds_the_last_replica(self):
        """One memory node, and it is killed: the cluster ends and names the partition, as without roles."""
        cluster = self.started(memory=1, compute=2)
        cluster.kill(2)
        self.assertEqual(cluster.up.wait(60), 1)
        said = [event["why"] for event in events_in(cluster.log_text()) if event["event"] == "cluster_stops"]
        self.assertEqual(len(said), 1)
        self.assertIn("partition 0 has lost its last whole replica", said[0])


class Expires(RolesTest):
    def test_what_nobody_reads_is_swept_from_memory_nodes(self):
        """The only node that knew of the deadlines is killed before they are due. In a small table: a large one takes
        the sweeper its minute."""
        cluster = self.started(memory=2, compute=1, extra=["--capacity", "20000"])
        self.fill(cluster)
        due = [f"due {n}" for n in range(300)]
        with cluster.connect(0) as connection:
            connection.send(b"".join(resp.encode("SET", key, "v", "PX", "1000") for key in due))
            self.assertEqual([connection.receive() for _ in due], ["OK"] * len(due))
        pid = cluster.kill(0)
        self.assertTrue(eventually(lambda: cluster.pids().get(0, pid) != pid))
        cluster.wait_whole()
        self.assertTrue(eventually(lambda: cluster.ask(0, "DBSIZE") == len(KEYS), SWEPT_S), cluster.ask(0, "DBSIZE"))
        for node in cluster.data_nodes:
            self.assertTrue(eventually(lambda n=node: self.metric(cluster, n, "weft_records") == len(KEYS)))
        self.expect_all(cluster)

    def test_what_was_set_for_a_moment(self):
        cluster = self.started(memory=2, compute=1)
        self.assertEqual(cluster.ask(0, "SET", "k", "v", "PX", "100"), "OK")
        cluster.kill(0)
        cluster.wait_whole()
        self.assertTrue(eventually(lambda: cluster.ask(0, "DBSIZE") == 0, SWEPT_S))


if __name__ == "__main__":
    unittest.main(verbosity=2)
