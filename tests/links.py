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
