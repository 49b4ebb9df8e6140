"""The Redis protocol (RESP2), as much as the process tests speak of it."""

import socket


class Error(str):
    """An error reply, without its '-'."""


class Incomplete(Exception):
    pass


def encode(*arguments):
    out = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(out)


def transaction(commands):
    """MULTI, the commands, EXEC: one buffer to send. The last of its len(commands) + 2 replies is the outcome."""
    return b"".join([b"*1\r\n$5\r\nMULTI\r\n", *(encode(*command) for command in commands), b"*1\r\n$4\r\nEXEC\r\n"])


def parse(data, at=0):
    """(value, position after it). Integers, bytes, None, lists, Error; a simple string is a str."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise Incomplete
    kind, line, at = data[at:at + 1], data[at + 1:end], end + 2
    if kind == b"+":
        return line.decode(), at
    if kind == b"-":
        return Error(line.decode()), at
    if kind == b":":
        return int(line), at
    if kind == b"$":
        size = int(line)
        if size < 0:
            return None, at
        if len(data) < at + size + 2:
            raise Incomplete
        return bytes(data[at:at + size]), at + size + 2
    if kind == b"*":
        if int(line) < 0:
            return None, at
        items = []
        for _ in range(int(line)):
            item, at = parse(data, at)
            items.append(item)
        return items, at
    raise ValueError(f"not a reply: {bytes(data[:64])!r}")


class Connection:
    """A blocking client: one command, one reply."""

    def __init__(self, port, timeout_s=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        while True:
            try:
                value, at = parse(self.buffer)
                del self.buffer[:at]
                return value
            except Incomplete:
                pass
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the node closed the connection")
            self.buffer += data

    def ask(self, *arguments):
        self.send(encode(*arguments))
        return self.receive()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
