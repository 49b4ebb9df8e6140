#!/usr/bin/env python3
"""The status page in a real browser: it shows the cluster, a node that is killed turns up as such, and heals.

    browser_test.py PATH-TO-WEFT [--screenshots FOLDER]
"""

import pathlib
import re
import sys
import threading
import time
import unittest
import urllib.request

SCREENSHOTS = None
if "--screenshots" in sys.argv:
    at = sys.argv.index("--screenshots")
    SCREENSHOTS = pathlib.Path(sys.argv[at + 1])
    del sys.argv[at:at + 2]

from process_testing import ProcessTest, eventually  # noqa: E402: they take what is left of the arguments
from webdriver import Browser  # noqa: E402

SECONDS = 15  # for the page to show something: it asks once a second, and the machine may be busy

STATES = """
  const out = {};
  for (const card of document.querySelectorAll(".node")) {
    out[card.dataset.node] = [card.dataset.state, card.dataset.lost === undefined ? null : Number(card.dataset.lost)];
  }
  return out;"""
INKED = """
  return [...document.querySelectorAll("canvas")].map(canvas => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
    for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 128) seen.add(pixels.slice(i, i + 3).join());
    return seen.size;
  });"""


class Load(threading.Thread):
    """One client at each node, until told to stop."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.ends = threading.Event()

    def run(self):
        n = 0
        while not self.ends.is_set():
            node = n % self.cluster.nodes
            try:
                with self.cluster.connect(node, 5) as connection:
                    for _ in range(50):
                        connection.ask("INCR", f"counter {n % 100}")
                        n += 1
            except OSError:  # the node is just being replaced
                n += 1
                time.sleep(0.05)

    def stop(self):
        self.ends.set()
        self.join()


class StatusPage(ProcessTest):
    def setUp(self):
        self.one = self.cluster(nodes=3, http=True)
        self.one.wait_whole()
        load = Load(self.one)
        load.start()
        self.addCleanup(load.stop)
        self.browser = self.enterContext(Browser())

    def states(self):
        return {int(node): state for node, (state, _) in self.browser.run(STATES).items()}

    def lost(self, node):
        return self.browser.run(STATES)[str(node)][1]

    def note(self, node):
        """What the node's card says of its loss."""
        return self.browser.run("return document.querySelector(arguments[0])?.textContent ?? ''",
                                f".node[data-node='{node}'] .lost")

    def text(self, selector):
        return self.browser.run("return document.querySelector(arguments[0]).textContent", selector)

    def shot(self, name):
        if SCREENSHOTS:
            self.browser.screenshot(SCREENSHOTS / f"{name}.png")

    def test_killed_node_turns_up_and_heals(self):
        self.browser.open(f"http://127.0.0.1:{self.one.http_port}/")
        up = {0: "up", 1: "up", 2: "up"}
        self.assertTrue(eventually(lambda: self.states() == up, SECONDS), self.states())
        self.assertEqual(self.text("#state"), "whole")
        self.assertIn("3 of 3", self.text("#about"))
        cells = self.browser.run("return [...document.querySelectorAll('#partitions .cell')].map(c => c.textContent)")
        self.assertEqual(sorted(cells), ["B"] * 6 + ["P"] * 3)
        # Figures, drawn: more than one colour of ink in every chart but that of aborts.
        self.assertTrue(eventually(lambda: float(self.text("#tps").replace(",", "")) > 0, SECONDS), self.text("#tps"))
        self.assertRegex(self.text("#p50"), r"^[0-9.]+$")
        self.assertRegex(self.text("#memory-more"), r"% of 3.0 GiB")
        self.assertTrue(eventually(lambda: min(self.browser.run(INKED)[i] for i in (0, 1, 3)) > 1, SECONDS))
        self.shot("whole")

        # Killed again and again, it stays away long enough to be seen; at last it is left alone.
        epoch = int(self.browser.run("return document.body.dataset.epoch"))
        seen = set()

        def gone():
            self.one.kill(1)
            seen.add(self.states().get(1))
            return "gone" in seen
        self.assertTrue(eventually(gone, 60), seen)
        self.shot("killed")
        self.assertTrue(eventually(lambda: self.lost(1) is not None, SECONDS))
        self.assertIsNone(self.lost(0))
        notes = set()  # it says so for a while only

        def healed():
            whole = self.states() == up and self.text("#state") == "whole"
            notes.add(self.note(1))
            return whole
        self.assertTrue(eventually(healed, 60), self.states())
        self.assertGreater(int(self.browser.run("return document.body.dataset.epoch")), epoch)
        self.assertTrue(any("lost and back" in note for note in notes), notes)
        self.assertTrue(eventually(lambda: "peer_disconnected" in self.text("#events"), SECONDS), self.text("#events"))
        self.shot("healed")
        self.browser.prefer("dark")
        time.sleep(1.5)
        self.shot("dark")
        self.assertEqual(self.browser.console(), [])

    def test_the_node_whose_page_it_is(self):
        """It is killed; the page says that it does not answer, and goes on when it does again."""
        self.browser.open(f"http://127.0.0.1:{self.one.http_port + 2}/")
        self.assertTrue(eventually(lambda: self.text("#state") == "whole", SECONDS))
        said = set()

        def no_answer():
            self.one.kill(2)
            said.add(self.text("#state"))
            return "no answer" in said
        self.assertTrue(eventually(no_answer, 30), said)
        self.assertTrue(eventually(lambda: self.text("#state") == "whole", 60), self.text("#state"))
        self.assertEqual(self.browser.console(), [])

    def test_it_is_one_file(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.one.http_port}/", timeout=10) as answer:
            page = answer.read().decode()
        self.assertEqual(re.findall(r"""(?:src|href|action)\s*=|url\(|@import|import\s*\(|https?://""", page), [])
        self.browser.open(f"http://127.0.0.1:{self.one.http_port}/")
        self.assertTrue(eventually(lambda: len(self.states()) == 3, SECONDS))
        asked = self.browser.run("return performance.getEntriesByType('resource').map(entry => new URL(entry.name).pathname)")
        self.assertLessEqual(set(asked), {"/status", "/history", "/favicon.ico"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
