"""One client of a cluster of processes: a connection with one transaction under way.

A client whose connection breaks does not know what became of its transaction, and goes on at another node. Times are
those of one monotonic clock, read before the first byte is sent and after the last one has come.
"""

import socket
import time

import resp


class Violation(Exception):
    """The cluster did what it must not."""


class Client:
    """One connection; subclasses say what to ask and take the answers."""

    move_after = None  # answers, then it goes to another node

    def __init__(self, load, node):
        self.load = load
        self.node = node
        self.socket = None
        self.fd = -1
        self.buffer = bytearray()
        self.expected = 0  # replies
        self.replies = []
        self.invoke_ns = 0
        self.retry_at = 0.0
        self.answered = 0

    @property
    def busy(self):
        return self.expected > 0

    def choose_node(self):
        return self.load.random.choice(self.load.cluster.transaction_nodes)

    def connect(self):
        sock = socket.socket()
        sock.settimeout(1)
        try:
            sock.connect(("127.0.0.1", self.load.cluster.port_of(self.node)))
        except OSError:
            sock.close()
            self.node = self.choose_node()
            self.retry_at = time.monotonic() + 0.005
            return False
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.socket, self.fd = sock, sock.fileno()
        self.load.watch(self)
        return True

    def disconnect(self):
        if self.socket is None:
            return
        self.load.forget(self)
        self.socket.close()
        self.socket, self.fd = None, -1
        self.buffer.clear()
        self.replies = []

    def start(self):
        if self.socket is None and not self.connect():
            return
        data, self.expected = self.request()
        self.invoke_ns = time.monotonic_ns()
        try:
            if self.socket.send(data) == len(data):
                return
        except OSError:
            pass
        self.broken()

    def broken(self):
        """The connection ended. What was asked may or may not have happened."""
        was_busy, self.expected = self.busy, 0
        self.disconnect()
        self.node = self.choose_node()
        if was_busy:
            self.unknown()

    def readable(self):
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        now_ns = time.monotonic_ns()
        if not data:
            self.broken()
            return
        self.buffer += data
        at = 0
        try:
            while self.expected > 0:
                reply, at = resp.parse(self.buffer, at)
                self.replies.append(reply)
                self.expected -= 1
        except resp.Incomplete:
            del self.buffer[:at]
            return
        del self.buffer[:at]
        if self.buffer:
            raise Violation(f"node {self.node} answered more than it was asked: {bytes(self.buffer[:200])!r}")
        replies, self.replies = self.replies, []
        self.answered += 1
        self.take(replies, now_ns)
        if self.move_after and self.answered % self.move_after == 0:
            self.disconnect()
            self.node = self.choose_node()

    def request(self):
        """(bytes, how many replies)"""
        raise NotImplementedError

    def take(self, replies, now_ns):
        raise NotImplementedError

    def unknown(self):
        raise NotImplementedError
