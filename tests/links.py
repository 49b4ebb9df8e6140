"""The connections between a cluster's processes, seen and cut from outside.

pidfd_getfd (Linux 5.6) gives a test its own descriptor of another process's socket: what is done to it there is done to
the connection. Shutting it down closes the link; a filter that lets nothing through blocks it without closing it.
A test may do that to its own descendants.
"""

import contextlib
import ctypes
import os
import socket
import struct

SYS_PIDFD_GETFD = 438  # on every architecture
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
BPF_RET_K = 0x06

libc = ctypes.CDLL(None, use_errno=True)
drop_all = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RET_K, 0, 0, 0))


class Link:
    """One socket of a process, and the names of its two ends."""

    def __init__(self, sock):
        self.socket = sock
        self.name = sock.getsockname()
        self.peer = sock.getpeername()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def block(self):
        """Nothing that is sent to this end arrives, until unblock()."""
        program = struct.pack("HxxxxxxP", 1, ctypes.addressof(drop_all))
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    def unblock(self):
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def sockets_of(pid):
    """Every connected stream or packet socket of the process."""
    found = []
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                        continue
                    fd = libc.syscall(SYS_PIDFD_GETFD, pidfd, int(name), 0)
                    if fd < 0:
                        if ctypes.get_errno() == 1:
                            raise PermissionError("pidfd_getfd is not permitted here")
                        continue
                    sock = socket.socket(fileno=fd)
                    try:
                        found.append(Link(sock))
                    except OSError:
                        sock.close()  # it listens
        finally:
            os.close(pidfd)
    return found


def of_process(pid, fabric, client_ports):
    """Its links to other nodes, without its clients and its supervisor."""
    chosen = []
    for link in sockets_of(pid):
        family, kind = link.socket.family, link.socket.type
        on_shm = family == socket.AF_UNIX and kind == socket.SOCK_SEQPACKET  # its supervisor's is a stream
        on_tcp = family == socket.AF_INET and link.name[1] not in client_ports
        if on_shm if fabric == "shm" else on_tcp:
            chosen.append(link)
        else:
            link.socket.close()
    return chosen


def supervisor_of(pid):
    """Its connection to the supervisor."""
    return [link for link in sockets_of(pid)
            if link.socket.family == socket.AF_UNIX and link.socket.type == socket.SOCK_STREAM]


def between(links_a, b, links_b):
    """Both ends, as far as they can be seen, of what connects node a to node b."""
    found = []
    for link in links_a:
        if link.socket.family == socket.AF_UNIX:
            if isinstance(link.peer, bytes) and link.peer.endswith(b"-%d" % b):
                found.append(link)
        else:
            others = [other for other in links_b if other.name == link.peer and other.peer == link.name]
            found += [link, *others] if others else []
    return found


def hello_filter(node):
    """A program for a listening socket, which those that it accepts inherit: the first segment of a hello that this node
    says (tcp_hello.h: "weft-tcp", and its id behind 16 bytes) is dropped, everything else passes. Not under TLS."""
    code = [(0x30, 0, 0, 12),  # A = the byte with the length of the TCP header
            (0x74, 0, 0, 2), (0x54, 0, 0, 0x3c), (0x07, 0, 0, 0),  # X = that length in bytes
            (0x80, 0, 0, 0), (0x1c, 0, 0, 0), (0x35, 0, 5, 17),  # fewer than 17 bytes behind it: pass
            (0x40, 0, 0, 0), (0x15, 0, 3, 0x77656674),  # not "weft": pass
            (0x50, 0, 0, 16), (0x15, 0, 1, node),  # of another node: pass
            (BPF_RET_K, 0, 0, 0), (BPF_RET_K, 0, 0, 0xffffffff)]
    return len(code), ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))


def new_listener_of(pid, port, known):
    """(its inode, the process's socket that listens on the port) if it is none of those known; else None. Whoever has it
    keeps the port taken: close it at once."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{name}")
                    if not target.startswith("socket:") or target in known:
                        continue
                    fd = libc.syscall(SYS_PIDFD_GETFD, pidfd, int(name), 0)
                    if fd < 0:
                        continue
                    sock = socket.socket(fileno=fd)
                    if (sock.family == socket.AF_INET and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                            and sock.getsockname()[1] == port):
                        return target, sock
                    sock.close()
        finally:
            os.close(pidfd)
    return None


class DownLink:
    """The link between two nodes of a cluster over tcp is down from now on until mend(): what connects them is closed, and
    no hello of one reaches the other, whatever processes they have."""

    def __init__(self, cluster, a, b, port_of):
        self.cluster, self.a, self.b, self.port_of = cluster, a, b, port_of
        self.filtered = set()  # inodes of listening sockets
        self.hold()

    def hold(self):
        """Again and again: a node that was removed listens anew."""
        pids = self.cluster.pids()
        new = False
        for node, other in ((self.a, self.b), (self.b, self.a)):
            found = new_listener_of(pids[node], self.port_of(node), self.filtered) if node in pids else None
            if found is None:
                continue
            inode, sock = found
            count, program = hello_filter(other)
            sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", count, ctypes.addressof(program)))
            sock.close()
            self.filtered.add(inode)
            new = True
        if not new:
            return
        own = {node: self.cluster.links(node) for node in (self.a, self.b)}
        for link in between(own[self.a], self.b, own[self.b]):
            link.close()
        for link in own[self.a] + own[self.b]:
            link.socket.close()

    def mend(self):
        for node, pid in self.cluster.pids().items():
            found = new_listener_of(pid, self.port_of(node), ()) if node in (self.a, self.b) else None
            if found is not None:
                with contextlib.suppress(OSError):
                    found[1].setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
                found[1].close()
        self.filtered.clear()
