#!/usr/bin/env python3
"""With which protocol and roles a cluster is founded, and what nodes that join later make of it.

    founding_test.py WEFT

`weft server` over tcp, with a ZooKeeper server of its own, and `weft up`.
"""
import contextlib
import json
import pathlib
import sys
import tempfile
import unittest

import cluster
import resp
import servers

WEFT = sys.argv.pop(1)


def protocol_at(port):
    """How the node that answers there commits; None if none does yet."""
    with contextlib.suppress(OSError, ValueError, TypeError), resp.Connection(port, 5) as connection:
        return json.loads(connection.ask("WEFT", "STATUS"))["protocol"]
    return None


class FoundingTest(unittest.TestCase):
    def servers(self, nodes=2, replicas=2, **how):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        zookeeper = servers.ZooKeeper(folder.name)
        self.addCleanup(zookeeper.end)
        servers.wait_for(zookeeper.answers, "ZooKeeper")
        made = servers.Servers(WEFT, folder.name, zookeeper, nodes=nodes, replicas=replicas, **how)
        self.addCleanup(made.end)
        return made

    def expect(self, protocol, port):
        servers.wait_for(lambda: protocol_at(port) is not None, f"an answer on port {port}")
        self.assertEqual(protocol_at(port), protocol)

    def test_nodes_that_have_every_key(self):
        made = self.servers(protocol="auto")
        for node in range(2):
            self.expect("dnl1", made.port_of(node))

    def test_who_joins_takes_the_protocol_or_stays_outside(self):
        made = self.servers(protocol="fasst", spare=1)
        for node in range(2):
            self.expect("fasst", made.port_of(node))
        client = cluster.free_ports(1)
        # By itself it would found a cluster with another row.
        made.start_stranger("other", 2, protocol="dnl4")
        servers.wait_for(lambda: "view_not_taken" in made.log_of("other"), "it says why it stays outside")
        self.assertIn('founded with cluster.protocol \\"fasst\\", and here it is \\"dnl4\\"', made.log_of("other"))
        self.assertEqual(made.end_strangers(), {"other": 0})
        made.start_stranger("joiner", 2, protocol="auto", client=f"127.0.0.1:{client}")
        self.expect("fasst", client)
        self.assertIn("protocol_taken", made.log_of("joiner"))

    def test_too_few_hold_data(self):
        """Who would be the last initial member says so, until one of them has another role."""
        made = self.servers(roles=["transactions", "data"])
        self.expect_trouble(made, "1 of 2 hold data (node.roles), and 2 replicas (cluster.replicas) need as many")
        self.start_anew(made, 0, roles="both")
        for node in range(2):
            servers.wait_for(lambda n=node: self.roles_at(made, n) == [["data", "transactions"], ["data"]], "the roles")
        self.assertEqual(made.ask(0, "SET", "k", "v"), "OK")

    def test_nobody_runs_transactions(self):
        made = self.servers(roles=["data", "data"])
        self.expect_trouble(made, "none of them runs transactions (node.roles)")
        self.start_anew(made, 1, roles="both")
        servers.wait_for(lambda: self.roles_at(made, 1) == [["data"], ["data", "transactions"]], "the roles")
        self.assertEqual(made.ask(1, "SET", "k", "v"), "OK")

    def test_a_node_alone_does_both(self):
        for roles, says in (("data", "none of them runs transactions"), ("transactions", "0 of 1 hold data")):
            with self.subTest(roles=roles):
                made = self.servers(nodes=1, replicas=1, roles=[roles])
                self.expect_trouble(made, says)
                self.assertIsNone(made.poll())

    def test_memory_nodes_and_compute_nodes(self):
        """A compute node ends and comes back; nothing else has changed."""
        made = self.servers(nodes=4, roles=["transactions", "transactions", "data", "data"])
        before = made.wait_whole()[0]["view"]
        self.assertEqual([member["roles"] for member in before["members"]], [["transactions"]] * 2 + [["data"]] * 2)
        self.assertEqual(made.ask(0, "SET", "k", "v"), "OK")
        self.assertEqual(made.ask(1, "GET", "k"), b"v")
        for node in (0, 1):
            self.assertEqual(made.terminate(node), 0)
        servers.wait_for(lambda: len(made.status(2)["view"]["members"]) == 2, "a view without compute nodes")
        self.assertIn("no node of the view runs transactions", made.status(2)["stopped"])
        for node in (0, 1):
            made.start(node)
        after = made.wait_whole()[0]["view"]
        self.assertEqual(after["partitions"], before["partitions"])
        for node in (0, 1):
            self.assertEqual(made.ask(node, "GET", "k"), b"v")

    def expect_trouble(self, made, says):
        servers.wait_for(lambda: says in made.log_text(), says)
        said = [event for event in cluster.events_in(made.log_text()) if says in event.get("why", "")]
        self.assertEqual({event["event"] for event in said}, {"membership_trouble"})

    def start_anew(self, made, node, **changes):
        made.terminate(node)
        (made.folder / f"node{node}.toml").write_text(made.config(node, **changes), encoding="utf-8")
        made.start(node)

    def roles_at(self, made, node):
        with contextlib.suppress(OSError):
            return [member["roles"] for member in made.status(node)["view"]["members"]]
        return None

    def test_weft_up(self):
        for nodes, replicas, expected in ((1, 1, "dnl4"), (2, 2, "dnl1"), (3, 2, "hop")):
            with (self.subTest(nodes=nodes), tempfile.TemporaryDirectory() as folder,
                  cluster.Cluster(WEFT, pathlib.Path(folder) / "log", nodes=nodes, replicas=replicas,
                                  protocol="auto") as made):
                for node in range(nodes):
                    self.expect(expected, made.port_of(node))


if __name__ == "__main__":
    unittest.main()
