"""Debian's redis-server, for tests that compare with it. It dies with the test."""

import os
import time

from cluster import free_ports, launch, status_at_end
import resp


class RedisServer:
    def __init__(self, folder, extra=()):
        self.port = free_ports(1)
        self.process = launch(["redis-server", "--port", str(self.port), "--save", "", "--appendonly", "no",
                               "--dir", folder, "--bind", "127.0.0.1", "--enable-debug-command", "yes", *extra],
                              os.path.join(folder, "redis.log"))
        end = time.monotonic() + 30
        while True:
            try:
                with self.connect() as connection:
                    connection.ask("PING")
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def connect(self):
        return resp.Connection(self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        status_at_end(self.process)
