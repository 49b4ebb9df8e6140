"""A cluster as an operator runs it: one `weft server --config FILE` for each node, with ZooKeeper for the view.

ZooKeeper is a real server of Debian's package, one Java process with its data in a folder of the test. Nothing restarts
what ends but the test itself, and nothing outlives it: every process dies with the one that started it.
"""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time

import cluster

CAPACITY = 100_000
SESSION_MS = 2000  # at most: how long ZooKeeper waits for a client before it ends its session


def reserve(port):
    """Bound and not listening: nobody takes the port by chance while its server is down."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", port))
    return holder


class ZooKeeper:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.port = cluster.free_ports(1)
        self.reserved = reserve(self.port)
        self.process = None
        (self.folder / "zoo.cfg").write_text(
            f"tickTime=500\nmaxSessionTimeout={SESSION_MS}\ndataDir={self.folder}/zookeeper\n"
            f"clientPortAddress=127.0.0.1\nclientPort={self.port}\nadmin.enableServer=false\n"
            f"4lw.commands.whitelist=srvr\n", encoding="utf-8")
        self.start()

    def start(self):
        """With the data it had before. It is there when it answers."""
        self.process = cluster.launch(
            ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no", "-cp",
             "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.ZooKeeperServerMain",
             str(self.folder / "zoo.cfg")], self.folder / "zookeeper.log")

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError("ZooKeeper ended: are the packages zookeeper and default-jre-headless installed? " +
                               cluster.text_of(self.folder / "zookeeper.log")[-2000:])
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=0.3) as asks:
            asks.sendall(b"srvr")
            answer = b""
            while data := asks.recv(4096):
                answer += data
            return b"Mode: standalone" in answer
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        self.kill()
        self.reserved.close()


class Authority:
    """Signs certificates; its own is `NAME.pem`."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def sign(self, name, *nodes):
        """A certificate and its key, `NAME.pem` and `NAME.key`, for these nodes of the cluster `shop`."""
        names = ",".join(f"URI:weft://shop/node/{node}" for node in nodes) or "DNS:localhost"
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                     "-addext", f"subjectAltName={names}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key",
                     "-CAcreateserial", "-copy_extensions", "copyall", "-days", "2", "-out", f"{name}.pem")


class Servers(cluster.Cluster):
    """What a Cluster is, for the load and the rounds; but who is killed stays dead until start()."""

    def __init__(self, weft, folder, zookeeper, nodes=5, replicas=3, protocol="dnl4", tls=False, inflight=64, spare=0,
                 roles=None):
        """`spare`: so many more nodes could join. `roles`: node.roles of each node."""
        self.weft = weft
        self.folder = pathlib.Path(folder)
        self.zookeeper = zookeeper
        self.take_roles(roles or ["both"] * nodes)
        self.initial_members = nodes
        self.spare = spare
        self.replicas = replicas
        self.protocol = protocol
        self.fabric = "tcp"
        self.inflight = inflight
        self.port = cluster.free_ports(2 * nodes)
        self.reserved = [reserve(self.port + n) for n in range(2 * nodes)]
        self.tls = tls
        self.killed = set()
        self.orphaned = set()
        self.running = {}  # node: its process
        self.strangers = {}  # name: a process that does not belong to it
        self.up = self  # nobody else runs it
        self.returncode = None
        if tls:
            authority = self.authority = Authority(self.folder)
            for node in range(nodes):
                authority.sign(f"node{node}", node)
        for node in range(nodes):
            (self.folder / f"node{node}.toml").write_text(self.config(node), encoding="utf-8")
        for node in range(nodes):
            self.start(node)

    def config(self, node, **changes):
        """The text of a node's file. `changes` are values of its keys, by their last name."""
        value = {"name": "shop", "nodes": self.nodes + self.spare, "replicas": self.replicas, "protocol": self.protocol,
                 "lease_ms": 500, "id": node, "fabric": f"127.0.0.1:{self.fabric_port(node)}",
                 "client": f"127.0.0.1:{self.port_of(node)}", "hosts": f"127.0.0.1:{self.zookeeper.port}",
                 "capacity": CAPACITY, "inflight": self.inflight, "tls": f"node{node}" if self.tls else "", "ca": "ca",
                 "roles": self.roles[node] if node < self.nodes else "both", "any_node": "false", "advertise": "", "initial_members": self.initial_members,
                 "auth": 'auth = "shop:secret"' if self.tls else "", **changes}
        text = '''[cluster]
name = "{name}"
nodes = {nodes}
initial_members = {initial_members}
replicas = {replicas}
protocol = "{protocol}"
lease_ms = {lease_ms}
[node]
id = {id}
roles = "{roles}"
[fabric]
kind = "tcp"
listen = "{fabric}"
[membership]
kind = "zookeeper"
hosts = "{hosts}"
path = "/weft/shop/view"
{auth}
[client]
listen = "{client}"
[store]
capacity = {capacity}
memory_bytes_max = "256MiB"
[limits]
transactions_in_flight_max = {inflight}
'''.format(**value)
        if value["advertise"]:
            text = text.replace("[membership]", f'advertise = "{value["advertise"]}"\n[membership]')
        if value["tls"]:
            text += '''[fabric.tls]
ca = "{ca}.pem"
certificate = "{tls}.pem"
key = "{tls}.key"
any_node = {any_node}
'''.format(**value)
        return text

    def fabric_port(self, node):
        return self.port + self.nodes + node

    def launch(self, name):
        """`weft server` with the file NAME.toml; what it says goes to NAME.log."""
        return cluster.launch([self.weft, "server", "--config", self.folder / f"{name}.toml"],
                              self.folder / f"{name}.log")

    def start(self, node):
        """As an operator does: the same command with the same file."""
        self.running[node] = self.launch(f"node{node}")

    def start_stranger(self, who, node, **changes):
        """A process whose file is not as those of the others."""
        port = cluster.free_ports(2)
        ports = {"fabric": f"127.0.0.1:{port}", "client": f"127.0.0.1:{port + 1}"}
        (self.folder / f"{who}.toml").write_text(self.config(node, **{**ports, **changes}), encoding="utf-8")
        self.strangers[who] = self.launch(who)

    def end_strangers(self):
        """{name: exit status}"""
        for process in self.strangers.values():
            process.terminate()
        said = {name: process.wait(timeout=60) for name, process in self.strangers.items()}
        self.strangers.clear()
        return said

    def poll(self):
        """None, or the status of a node that ended and should not have."""
        for process in self.running.values():
            status = process.poll()
            if status is not None and process.pid not in self.killed:
                self.returncode = status
                return status
        return None

    def pids(self):
        return {node: process.pid for node, process in self.running.items() if process.poll() is None}

    def kill(self, node):
        process = self.running[node]
        self.killed.add(process.pid)
        process.kill()
        process.wait()
        return process.pid

    def terminate(self, node):
        """SIGTERM, and its exit status."""
        process = self.running[node]
        self.killed.add(process.pid)
        process.terminate()
        return process.wait(timeout=60)

    def end(self):
        """Ends it whatever state it is in. 0, or the status of a node that ended otherwise than SIGTERM ends it."""
        said = []
        processes = [*self.running.values(), *self.strangers.values()]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in processes:
            status = cluster.status_at_end(process)
            if process.pid not in self.killed:
                said.append(status)
                self.killed.add(process.pid)
        for holder in self.reserved:
            holder.close()
        return next((status for status in said if status != 0), 0)

    def log_of(self, name):
        with contextlib.suppress(FileNotFoundError):
            return cluster.text_of(self.folder / f"{name}.log")
        return ""

    def log_text(self):
        return "".join(self.log_of(f"node{node}") for node in range(self.nodes))

    def deaths(self, text):
        if self.poll() is None:
            return []
        ended = {node: process.returncode for node, process in self.running.items()
                 if process.returncode is not None and process.pid not in self.killed}
        return [f"nodes ended, and nobody ended them: {ended}: {text[-2000:]}"]

    def removed(self):
        """(node, how often it has found itself removed)."""
        found = [event["node"] for event in cluster.events_in(self.log_text()) if event["event"] == "removed"]
        return {(node, n) for node in set(found) for n in range(found.count(node))}

    def memberships(self):
        """What each running node says of ZooKeeper."""
        return [self.status(node)["membership"] for node in self.pids()]


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not after {seconds} s")
        time.sleep(0.01)
