#!/usr/bin/env python3
"""Records what Debian's redis-server answers to the scripts of redis_commands.py, for the unit tests.

    redis_record.py > src/weft/redis/commands_script.txt

Each command is a line, as one types it; its reply the line behind it, indented, with its bytes escaped. `# name` begins
with an empty store, `## 3` chooses the protocol. Times that pass are as if none had.
"""

import re
import tempfile

import redis_commands
from redis_compare_test import Raw
from redis_server import RedisServer

# What depends on who answers, not on the command.
LEFT_OUT = ("TIME",)


def quoted(word):
    data = word if isinstance(word, bytes) else word.encode()
    if data and re.fullmatch(rb"[!#-&(-~]+", data) and b"\\" not in data:
        return data.decode()
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in data) + '"'


def escaped(reply):
    text = reply.replace(b"\\", b"\\\\").replace(b"\r", b"\\r").replace(b"\n", b"\\n")
    return "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in text)


def settled(command, reply):
    """A moment has passed since the deadline was set."""
    if command[0] == "PTTL" and 99_000 <= int(reply[1:-2]) <= 100_000:
        return b":100000\r\n"
    return reply


def main():
    with tempfile.TemporaryDirectory() as folder, RedisServer(folder) as server:
        connection = Raw(server.port)
        for protocol in "23":
            print(f"## {protocol}")
            connection.ask("HELLO", protocol)
            for name, script in redis_commands.SCRIPTS.items():
                connection.ask("FLUSHALL")
                print(f"# {name}")
                for command in script:
                    reply = settled(command, connection.ask(*command))
                    if command[0] not in LEFT_OUT:
                        print(" ".join(map(quoted, command)))
                        print("  " + escaped(reply))


if __name__ == "__main__":
    main()
