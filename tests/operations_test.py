#!/usr/bin/env python3
"""What an operator sees of a cluster: metrics, status, logs, what `weft up` prints, `weft doctor`.

    operations_test.py PATH-TO-WEFT
"""

import base64
import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

from cluster import die_with_parent, events_in, free_ports
from process_testing import DEADLINE_S, WEFT, ProcessTest, eventually

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\S+)')


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode(), answer.headers


def make_certificate(folder, *more):
    """cert.pem, which signed itself, and key.pem."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost", *more],
                   cwd=folder, capture_output=True, check=True)


def parse_metrics(text):
    """{family: (type, {(name, labels): value})}, strictly: HELP, TYPE and the samples of a family stand together."""
    families, family = {}, None
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family, about = line[7:].split(" ", 1)
            if family in families or not about:
                raise ValueError(line)
            families[family] = [None, {}]
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            if name != family or families[family][0] or kind not in ("counter", "gauge", "histogram"):
                raise ValueError(line)
            families[family][0] = kind
        else:
            match = SAMPLE.fullmatch(line)
            if not match:
                raise ValueError(line)
            name, labels, value = match.groups()
            kind, samples = families[family]
            endings = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            if name not in [family + ending for ending in endings] or (name, labels) in samples:
                raise ValueError(line)
            samples[name, labels] = float(value)
    return families


class Http(ProcessTest):
    def setUp(self):
        self.one = self.cluster(nodes=3, http=True)
        self.one.wait_whole()

    def metrics(self, node):
        text, headers = get(self.one.http_port + node, "/metrics")
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        return parse_metrics(text)

    def status(self, node):
        return json.loads(get(self.one.http_port + node, "/status")[0])

    def test_metrics_count_what_happens(self):
        for n in range(100):
            self.one.ask(0, "SET", f"key {n}", "value")

        def committed(node):
            return self.metrics(node)["weft_transactions_total"][1]["weft_transactions_total", 'outcome="committed"']
        self.assertTrue(eventually(lambda: committed(0) >= 100, 10))
        before = self.metrics(0)
        self.assertLess(committed(1), 100)
        self.assertEqual(before["weft_records"][1]["weft_records", None], 100)
        self.assertEqual(before["weft_members"][1]["weft_members", None], 3)
        kind, latency = before["weft_transaction_seconds"]
        self.assertEqual(kind, "histogram")
        counts = [value for (name, _), value in latency.items() if name.endswith("_bucket")]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], latency["weft_transaction_seconds_count", None])
        self.assertGreater(latency["weft_transaction_seconds_sum", None], 0)
        self.one.ask(0, "SET", "one", "more")
        self.assertTrue(eventually(lambda: committed(0) >= 101, 10))
        after = self.metrics(0)
        for family, (kind, samples) in before.items():
            if kind != "gauge":
                for key, value in samples.items():
                    self.assertGreaterEqual(after[family][1][key], value, key)

    def test_every_metric_is_explained(self):
        page = (ROOT / "docs/operations.md").read_text().split("## Metrics")[1].split("\n## ")[0]
        said = set(self.metrics(0))
        explained = set(re.findall(r"^\| `((?:weft|process)_\w+)(?:\{[^`]*\})?` \|", page, re.MULTILINE))
        self.assertEqual(said, explained)

    def test_any_node_shows_all(self):
        self.assertEqual(self.one.ask(1, "SET", "a", "b"), "OK")

        def shown(node):
            return sorted(n for n, heard in self.status(node)["nodes"].items() if heard["age_ms"] < 3000)
        for node in range(3):
            self.assertTrue(eventually(lambda node=node: shown(node) == ["0", "1", "2"], 10), shown(node))
        status = self.status(2)
        self.assertTrue(eventually(lambda: self.status(2)["whole"], 30))
        self.assertEqual(len(status["view"]["members"]), 3)
        own, asked = self.one.status(2), {"now_ms", "nodes", "events", "nodes_max"}
        self.assertEqual(set(status), set(own) | asked)
        self.assertEqual({heard["sample"]["pid"] for heard in status["nodes"].values()}, set(self.one.pids().values()))

    def test_a_killed_node_turns_up(self):
        before = self.status(0)["view"]["epoch"]
        self.one.kill(1)
        self.assertTrue(eventually(lambda: self.status(0)["view"]["epoch"] > before, 5))
        self.assertTrue(eventually(lambda: any(event["event"] == "peer_disconnected" and event["peer"] == 1
                                               for event in self.status(0)["events"]), 5))
        self.one.wait_whole()
        pid = self.one.pids()[1]
        self.assertTrue(eventually(lambda: self.status(0)["nodes"].get("1", {}).get("sample", {}).get("pid") == pid, 10))

    def test_slow_and_rude_visitors(self):
        """Whoever stays, sends nonsense or reads nothing: the page is there for others, and the node does its work."""
        port = self.one.http_port
        with contextlib.ExitStack() as stack:
            for n in range(60):
                visitor = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                visitor.sendall([b"", b"GET /sta", b"GET /history HTTP/1.1\r\n\r\n", os.urandom(100)][n % 4])
            self.assertEqual(self.one.ask(0, "SET", "k", "v"), "OK")
            self.assertIn("weft_epoch", get(port, "/metrics")[0])
        with self.assertRaises(urllib.error.HTTPError) as refused:
            get(port, "/etc/passwd")
        self.assertEqual(refused.exception.code, 404)
        self.assertTrue(self.one.wait_whole()[0]["whole"])


class HttpGuarded(ProcessTest):
    """HTTP with TLS and a password."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        make_certificate(self.folder, "-addext", "subjectAltName=IP:127.0.0.1")
        pathlib.Path(self.folder, "password").write_text("hush-hush\n")
        self.one = self.cluster(nodes=1, replicas=1, http=True, extra=(
            "--set", f"http.password_file={self.folder}/password", "--set", f"http.tls.certificate={self.folder}/cert.pem", "--set",
            f"http.tls.key={self.folder}/key.pem"))
        self.one.wait_whole()
        self.node = f"https://127.0.0.1:{self.one.http_port}"

    def get(self, path, password=None):
        request = urllib.request.Request(self.node + path)
        if password:
            request.add_header("Authorization", "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode())
        trusts = ssl.create_default_context(cafile=f"{self.folder}/cert.pem")
        with urllib.request.urlopen(request, timeout=10, context=trusts) as answer:
            return answer.read().decode()

    def refused(self, path, password=None):
        with self.assertRaises(urllib.error.HTTPError) as error:
            self.get(path, password)
        return error.exception.code

    def doctor(self, *more):
        return subprocess.run([WEFT, "doctor", "--json", *more], capture_output=True, text=True, timeout=60, check=False)

    def test_who_has_the_password(self):
        for path in ("/", "/status", "/metrics", "/history", "/no_such"):
            self.assertEqual(self.refused(path), 401)
        self.assertEqual(self.refused("/metrics", "guess"), 401)
        self.assertIn("weft_http_wrong_passwords_total 1\n", self.get("/metrics", "hush-hush"))
        self.assertIn("<title>Weft</title>", self.get("/", "hush-hush"))
        self.assertTrue(eventually(lambda: any(event["event"] == "http_password_wrong" and event["count"] == 1
                                               for event in events_in(self.one.log_text()))))
        self.assertIn(f"{self.node}/ (", self.one.log_text())
        self.assertNotIn("hush-hush", self.one.log_text())

    def test_the_doctor(self):
        trusted = ["--node", self.node, "--ca", f"{self.folder}/cert.pem"]
        done = self.doctor(*trusted, "--password-file", f"{self.folder}/password")
        self.assertIn("the cluster is whole", done.stdout, done.stderr)
        for arguments, why in ((trusted, "it wants a password (--password-file)"),
                               (["--node", self.node], "its certificate is not signed by who is trusted (--ca)"),
                               (["--node", self.node[8:]], "begin with https://"),
                               ([*trusted, "--password-file", f"{self.folder}/cert.pem"], "the password is wrong")):
            done = self.doctor(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(why, done.stderr)


class Logs(ProcessTest):
    def test_json_lines_in_a_file(self):
        cluster = self.cluster(nodes=3)
        cluster.wait_whole()
        cluster.kill(2)
        cluster.wait_whole()
        cluster.end()
        lines = [line for line in cluster.log_text().splitlines() if line.startswith("{")]
        events = [json.loads(line) for line in lines]
        for event in events:
            self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(event["level"], ("info", "warn", "error"))
            self.assertIn(event["node"], range(3))
        names = {event["event"] for event in events}
        self.assertLessEqual({"process_started", "started", "view", "process_ended", "member_suspected", "ended"}, names)
        self.assertEqual("running_as_root" in names, os.geteuid() == 0)
        page = (ROOT / "docs/operations.md").read_text()
        self.assertEqual([name for name in names if f"`{name}`" not in page], [])

    def test_a_fabric_that_others_reach(self):
        """It is said at start, whatever comes of it."""
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('cluster.name = "x"\nnode.id = 0\nmembership.socket = "@nobody is there"\n'
                       'fabric = {listen = "0.0.0.0:0", advertise = "127.0.0.1:1"}\n')
            file.flush()
            done = subprocess.run([WEFT, "server", "--config", file.name], capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
        said = {event["event"]: event for event in events_in(done.stderr)}
        self.assertEqual(said["exposed"]["level"], "warn")
        self.assertIn("cannot_start", said)

    def test_clients_of_a_node_that_is_outside_have_answers(self):
        """Nobody lets it in: they are told, and do not wait for ever."""
        port = free_ports(3)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(f'cluster = {{name = "x", lease_ms = 100}}\nnode.id = 0\nlimits.answer_ms = 200\n'
                       f'membership = {{kind = "zookeeper", hosts = "127.0.0.1:{port + 2}"}}\n'
                       f'fabric.listen = "127.0.0.1:{port}"\nclient.listen = "127.0.0.1:{port + 1}"\n')
            file.flush()
            process = subprocess.Popen([WEFT, "server", "--config", file.name], stderr=subprocess.DEVNULL)
            with process:
                try:
                    self.assertTrue(eventually(lambda: self.says(port + 1).startswith("-CLUSTERDOWN ")), "no answer")
                finally:
                    process.terminate()
                self.assertEqual(process.wait(timeout=DEADLINE_S), 0)

    def says(self, port):
        """To who connects and asks nothing."""
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
                return connection.recv(4096).decode()
        except ConnectionError:
            return ""


class Terminal:
    """A command on a terminal of its own; what it has written so far is `said`."""

    def __init__(self, *command, cwd=None):
        self.said = ""
        self.end, inner = pty.openpty()
        self.process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, preexec_fn=die_with_parent,
                                        cwd=cwd)
        os.close(inner)

    def read(self, seconds=0.1):
        if select.select([self.end], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.said += os.read(self.end, 1 << 16).decode(errors="replace")
        return self.said

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
            self.process.kill()
        os.close(self.end)


def commands_of(text):
    """The tour: the lines that are indented, behind the sentence that announces it."""
    tour = text.split("A short tour")[1]
    return [line.strip() for line in tour.splitlines() if line.startswith("  ")]


class Up(ProcessTest):
    def up(self, *more, cwd=None):
        port = free_ports(6)
        http_port = port + 3
        terminal = Terminal(os.path.abspath(WEFT), "up", "--port", str(port), "--http-port", str(http_port), *more, cwd=cwd)
        self.addCleanup(terminal.close)
        self.assertTrue(eventually(lambda: "Ctrl-C ends" in terminal.read()), terminal.said)
        return terminal, port, http_port

    def test_on_a_terminal(self):
        terminal, port, http_port = self.up()
        self.assertIn(f"redis-cli -p {port}", terminal.said)
        self.assertIn(f"http://127.0.0.1:{http_port}/", terminal.said)
        self.assertEqual("it runs as root" in terminal.said, os.geteuid() == 0)
        line = re.compile(r"epoch \d+, 3 of 3 nodes, whole \| [0-9,]+ txn/s \| p50 \S+ p99 \S+ \| [0-9,]+ aborts/s")
        self.assertTrue(eventually(lambda: line.search(terminal.read()), 15), terminal.said)
        # Events are for people there.
        self.assertRegex(terminal.said, r"\d\d:\d\d:\d\d\.\d{3} info  node 0: started pid=\d+ ")
        self.assertEqual(events_in(terminal.said), [])
        page, _ = get(http_port, "/")
        self.assertIn("<title>Weft</title>", page)
        terminal.process.send_signal(signal.SIGINT)
        self.assertTrue(eventually(lambda: "The cluster has ended." in terminal.read(), 30), terminal.said)
        self.assertEqual(terminal.process.wait(DEADLINE_S), 0)

    def test_the_tour(self):
        """Every command as it is printed, one after the other."""
        terminal, _, _ = self.up()
        self.take_tour(terminal)

    def test_the_tour_with_password_and_tls(self):
        """Files by relative paths; the password is nowhere in it."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weft with space "))
        make_certificate(folder)
        terminal, port, _ = self.up("--tls-certificate", "cert.pem", "--tls-key", "key.pem", "--password", "hush-hush",
                                    cwd=folder)
        self.assertIn(f"redis-cli --tls --cacert '{folder}/cert.pem' -p {port}", terminal.said)
        self.assertIn("# Before: export REDISCLI_AUTH=", terminal.said)
        self.assertNotIn("hush-hush", terminal.said)
        self.take_tour(terminal, REDISCLI_AUTH="hush-hush")

    def test_paths_begin_at_the_file_that_gives_them(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        pathlib.Path(folder, "all.toml").write_text('[client.tls]\ncertificate = "c.pem"\nkey = "k.pem"\n')
        done = subprocess.run([os.path.abspath(WEFT), "up", "--nodes", "1", "--config", f"{folder}/all.toml"], text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False, cwd="/")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'client.tls.certificate is "{folder}/c.pem" (No such file or directory)', done.stderr)

    def take_tour(self, terminal, **environment):
        commands = commands_of(terminal.said.replace("\r\n", "\n"))
        self.assertEqual(len([command for command in commands if not command.startswith("#")]), 7, commands)
        done = []
        for command in commands:
            ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False,
                                 env={**os.environ, **environment})
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), command)
            done += [] if command.startswith("#") else [ran.stdout.split()]
            terminal.read(0)
        self.assertEqual(done, [["OK"], ["hello"], ["OK", "QUEUED", "QUEUED", "QUEUED", "1", "1", "1"], [], ["hello"], [],
                                ["hello"]])
        self.assertTrue(eventually(lambda: "process_ended" in terminal.read(), 10), terminal.said)

    def test_no_http(self):
        port = free_ports(2)
        with subprocess.Popen([WEFT, "up", "--nodes", "2", "--port", str(port), "--http-port", "0"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as up:
            said = ""
            while "Ctrl-C" not in said:
                said += up.stdout.readline()
            self.assertNotIn("http", said)
            up.terminate()
            self.assertEqual(up.wait(DEADLINE_S), 0)

    def test_http_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            number = taken.getsockname()[1]
            done = subprocess.run([WEFT, "up", "--nodes", "1", "--port", str(free_ports(1)), "--http-port", str(number)],
                                  capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"http on 127.0.0.1:{number}: Address already in use", done.stderr)


class Doctor(unittest.TestCase):
    SUBJECTS = ["kernel", "processor", "cores", "pinning", "memory", "swap", "huge pages", "huge pages of shared memory",
                "open files", "locked memory", "clock source", "backlog", "RDMA", "ports"]

    def doctor(self, *arguments):
        return subprocess.run([WEFT, "doctor", *arguments], capture_output=True, text=True, timeout=60, check=False)

    def test_json(self):
        port = free_ports(4)
        http_port = port + 2
        arguments = ["--json", "--nodes", "2", "--port", str(port), "--http-port", str(http_port)]
        done = self.doctor(*arguments)
        said = json.loads(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0 if said["runs"] else 1, ""))
        self.assertEqual([finding["subject"] for finding in said["findings"]], self.SUBJECTS)
        for finding in said["findings"]:
            self.assertIn(finding["verdict"], ("good", "note", "poor", "bad"))
            self.assertTrue(finding["found"])
            self.assertTrue(finding["advice"] or finding["verdict"] in ("good", "note"), finding)
        self.assertEqual(said["findings"][-1]["verdict"], "good", said["findings"][-1])
        with socket.create_server(("127.0.0.1", http_port + 1)):
            ports = json.loads(self.doctor(*arguments).stdout)["findings"][-1]
        self.assertEqual(ports["verdict"], "poor")
        self.assertTrue(ports["found"].startswith(f"{http_port + 1} taken"), ports)

    def test_text(self):
        done = self.doctor("--port", str(free_ports(3)))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        for subject in self.SUBJECTS:
            self.assertRegex(done.stdout, rf"(?m)^(good|note|poor|bad) +{subject}  ")

    def test_bad_requests(self):
        for arguments in (["--nodes", "0"], ["--port", "70000"], ["--port", "65535"], ["--turbo"]):
            done = self.doctor(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(arguments[-1], done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
