"""What the tests of a cluster of processes share: the command's path is their only argument."""

import contextlib
import os
import sys
import tempfile
import time
import unittest

from cluster import Cluster

WEFT = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/weft"
SLOW = "debug" in WEFT or "tsan" in WEFT
DEADLINE_S = 60
FABRICS = ["shm", "tcp"]


def eventually(condition, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            holds = condition()
        except OSError:  # a node that was slow for longer than a lease was removed, and comes back
            holds = False
        if holds:
            return True
        time.sleep(0.005)
    return condition()


def alive(pid):
    """It runs: a zombie does not."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    return False


class ProcessTest(unittest.TestCase):
    def cluster(self, **options):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        cluster = self.enterContext(Cluster(WEFT, os.path.join(folder, "log"), **options))
        self.addCleanup(lambda: self.assertEqual(cluster.faults_in_log(), []))
        return cluster
