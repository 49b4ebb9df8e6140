#!/usr/bin/env python3
"""With which protocol a cluster is founded, and what nodes that join later make of it.

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
    def servers(self, **how):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        zookeeper = servers.ZooKeeper(folder.name)
        self.addCleanup(zookeeper.end)
        servers.wait_for(zookeeper.answers, "ZooKeeper")
        made = servers.Servers(WEFT, folder.name, zookeeper, nodes=2, replicas=2, **how)
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

    def test_weft_up(self):
        for nodes, replicas, expected in ((1, 1, "dnl4"), (2, 2, "dnl1"), (3, 2, "hop")):
            with (self.subTest(nodes=nodes), tempfile.TemporaryDirectory() as folder,
                  cluster.Cluster(WEFT, pathlib.Path(folder) / "log", nodes=nodes, replicas=replicas,
                                  protocol="auto") as made):
                for node in range(nodes):
                    self.expect(expected, made.port_of(node))


if __name__ == "__main__":
    unittest.main()
