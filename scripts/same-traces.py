#!/usr/bin/env python3
"""Do two commits run the simulator's seeds alike? A refactoring must: a run's trace hash folds every event, its time and
the bytes of every packet.

    scripts/same-traces.py BASE [HEAD] [--seeds N] [--from SEED] [--protocol ROW]

BASE and HEAD are commits (HEAD: what is checked out, with its changes, unless named) or paths of a built `weft`. A commit
is built in build/traces/HASH, once. Each seed runs with every protocol on both; the exit status is 1 if one differs.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUN = re.compile(r"^seed \d+: \S+ on (\S+):", re.M)
TRACE = re.compile(r"^  trace ([0-9a-f]{1,16})$", re.M)


def build(tree):
    subprocess.run(["cmake", "--preset", "release"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "weft_cli", "-j", str(os.cpu_count())],
                   cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(tree, "build", "release", "weft")


def binary_of(name):
    """The command of a commit, of a path, or of the working tree (no name)."""
    if not name:
        return build(ROOT)
    if os.path.isfile(name) and os.access(name, os.X_OK):
        return os.path.abspath(name)
    commit = subprocess.run(["git", "rev-parse", "--verify", name + "^{commit}"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()
    tree = os.path.join(ROOT, "build", "traces", commit)
    if not os.path.isdir(tree):
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", tree, commit], cwd=ROOT, check=True)
    return build(tree)


def traces(binary, seed, protocol):
    """The (protocol, hash) pairs of a seed; a run that fails keeps its hash, and says so itself."""
    done = subprocess.run([binary, "sim", "--seed", str(seed), "--protocol", protocol], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{binary} sim --seed {seed}: exit status {done.returncode}\n{done.stderr}")
    found = list(zip(RUN.findall(done.stdout), TRACE.findall(done.stdout)))
    if not found:
        sys.exit(f"{binary} sim --seed {seed}: no trace in what it printed\n{done.stdout}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("head", nargs="?")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--protocol", default="all")
    options = parser.parse_args()
    base, head = binary_of(options.base), binary_of(options.head)
    seeds = range(options.first, options.first + options.seeds)
    runs = different = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        before = pool.map(lambda seed: traces(base, seed, options.protocol), seeds)
        after = pool.map(lambda seed: traces(head, seed, options.protocol), seeds)
        for seed, old, new in zip(seeds, before, after):
            runs += len(new)
            for (row, was), (also, now) in zip(old, new):
                if (row, was) != (also, now):
                    different += 1
                    print(f"seed {seed}: {row} {was}, now {also} {now}")
            if len(old) != len(new):
                different += 1
                print(f"seed {seed}: {len(old)} runs, now {len(new)}")
    print(f"{runs} runs of {len(seeds)} seeds, {different} different")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
