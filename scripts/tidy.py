#!/usr/bin/env python3
"""Runs clang-tidy over sources: tidy.py --commands DIR [--recent N] [--jobs N] [-- ARGUMENT...] [FILE...]

  --recent N   the N sources that were changed last: what is not committed yet, then what the newest commits changed; a
               header stands for the source of its name
  FILE...      these; with neither, all of src and examples but tests and benchmarks
  --checks C   as clang-tidy takes them, beside those of .clang-tidy

DIR has compile_commands.json in which every source stands by itself: what a source or its header does not include is
found here too. A source that was clean is not looked at again while it, our headers that it includes, .clang-tidy and
the checks are the same; the user's cache keeps that, for other clones too.
"""

import argparse
import hashlib
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TIDY = "clang-tidy-16"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "weft" / "tidy"
INCLUDE = re.compile(rb'^#include ["<](weft/[^">]+)[">]', re.M)


def is_product(name):
    return re.match(r"(src|examples)/.*\.cc$", name) and not re.search(r"_(test|bench)\.cc$", name)


def recent(count):
    def git(*arguments):
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
        return done.stdout.split("\n") if done.returncode == 0 else []

    found = []
    for name in git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard") + git("log", "--name-only", "--format="):
        source = re.sub(r"\.h$", ".cc", name)
        if is_product(source) and source not in found and (ROOT / source).exists():
            found.append(source)
        if len(found) == count:
            break
    return found


def everything():
    return sorted(str(path.relative_to(ROOT)) for folder in ("src", "examples") for path in (ROOT / folder).rglob("*.cc")
                  if is_product(str(path.relative_to(ROOT))))


class Contents:
    """What our files include, and what they hold."""

    def __init__(self):
        self.known = {}

    def read(self, path):
        if path not in self.known:
            text = path.read_bytes()
            includes = [at for name in INCLUDE.findall(text) for at in (ROOT / "src" / name.decode(), ROOT / "include" / name.decode()) if at.exists()]
            self.known[path] = (hashlib.sha256(text).digest(), includes)
        return self.known[path]

    def key(self, source, beside):
        seen, todo = {}, [ROOT / source]
        while todo:
            path = todo.pop()
            if path not in seen:
                seen[path], includes = self.read(path)
                todo += includes
        key = hashlib.sha256(beside)
        for path in sorted(seen):
            key.update(str(path.relative_to(ROOT)).encode() + b"\0" + seen[path])
        return key.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", required=True)
    parser.add_argument("--recent", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--checks", default="")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    files = arguments.files or (recent(arguments.recent) if arguments.recent else everything())
    if not files:
        print("clang-tidy: git does not tell what was changed last; `make tidy` looks at everything")
        return 0
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    version = b"\n".join(line for line in version.split(b"\n") if b"CPU" not in line)
    beside = version + (ROOT / ".clang-tidy").read_bytes() + arguments.checks.encode()
    contents = Contents()
    stamps = {name: CACHE / contents.key(name, beside) for name in files}
    todo = [name for name in files if not stamps[name].exists()]
    print(f"clang-tidy over {len(todo)} of {len(files)} sources; the others were clean before", flush=True)
    command = [TIDY, "-quiet", "-p", arguments.commands] + ([f"-checks={arguments.checks}"] if arguments.checks else [])

    def look(name):
        return name, subprocess.run([*command, ROOT / name], capture_output=True, text=True, check=False)

    failed = 0
    CACHE.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for name, done in pool.map(look, todo):
            if done.returncode == 0 and not done.stdout.strip():
                stamps[name].touch()
                continue
            failed += 1
            errors = [line for line in done.stderr.split("\n") if not re.match(r"\d+ warnings? generated", line)]
            print(f"{name}:\n{done.stdout}" + ("\n".join(errors) if done.returncode != 0 else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
