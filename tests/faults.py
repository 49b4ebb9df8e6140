"""What is done to a cluster of processes while clients use it. A scenario is a generator that acts, and yields seconds
to wait or a function to wait for.

At most two nodes are without their data at a time, fewer if there are fewer than three replicas, and another one is
touched only if the view shows that every partition keeps a live whole replica: to lose the last one stops the cluster,
by design. Compute nodes have none to lose: all of them may be gone.
"""

import contextlib
import os
import signal
import time

import links

# Of the clusters that this is done to: longer than a busy machine keeps a process waiting, shorter than the faults.
LEASE_S = 1.0


def runners(view):
    """The members that run clients' transactions."""
    return [member["node"] for member in view["members"] if "transactions" in member["roles"]]


class Faults:
    def __init__(self, cluster, load, rng):
        self.cluster = cluster
        self.load = load
        self.random = rng
        self.began_ns = 0
        self.in_flight = 0  # transactions, when it began
        self.did = []  # for people: (seconds after the beginning, what)
        self.gone = set()  # processes that were killed
        self.touched = set()  # processes that something was done to
        self.dead = {}  # node: its newest incarnation that was killed or stopped
        self.kills = 0
        self.stops = 0
        self.cuts = 0

    def act(self, what):
        now_ns = time.monotonic_ns()
        if self.began_ns == 0:
            self.began_ns = now_ns
            self.in_flight = self.load.in_flight()
        self.did.append((round((now_ns - self.began_ns) / 1e9, 3), what))

    def holders(self):
        """Who has data: a node that came back may have none."""
        return sorted({node for placement in self.load.view()["partitions"] for node in placement["replicas"]})

    def holder(self):
        return self.random.sample(self.holders(), 1)[0]

    def nodes(self, count):
        """Some that have data, or never hold any; of those that have, fewer than there are replicas."""
        holders = self.holders()
        pool = sorted(holders + self.cluster.compute_nodes)
        while True:
            chosen = self.random.sample(pool, count)
            if len(set(chosen).intersection(holders)) < self.cluster.replicas:
                return chosen

    def mark_dead(self, node):
        view = self.load.view()
        incarnations = [member["incarnation"] for member in view["members"] if member["node"] == node] if view else []
        self.dead[node] = max([self.dead.get(node, 0), *incarnations])

    def kill(self, node):
        self.mark_dead(node)
        self.act(f"kill {node}")
        pid = self.cluster.kill(node)
        if pid is not None:
            self.gone.add(pid)
            self.touched.add(pid)
            self.kills += 1

    def stop(self, node):
        self.mark_dead(node)
        self.act(f"stop {node}")
        pid = self.cluster.pids().get(node)
        if pid is not None:
            self.touched.add(pid)
            os.kill(pid, signal.SIGSTOP)
            self.stops += 1
        return pid

    def go_on(self, node, pid):
        self.act(f"continue {node}")
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(pid, signal.SIGCONT)

    def filling(self):
        """Nodes that the newest view has filling."""
        view = self.load.view()
        return sorted({node for placement in view["partitions"] for node in placement["filling"]}) if view else []

    def expendable(self, nodes):
        """Those without which every partition of the newest view still has a live whole replica."""
        view = self.load.view()
        incarnation = {member["node"]: member["incarnation"] for member in view["members"]}
        alive = {node for node in incarnation if incarnation[node] > self.dead.get(node, 0)}
        return [node for node in nodes
                if all((set(placement["replicas"]) & alive) - {node} for placement in view["partitions"])]

    def wait_filling(self):
        self.load.watching = True
        end = time.monotonic() + 5
        yield lambda: self.filling() or time.monotonic() > end
        self.load.watching = False
        self.did.append((round((time.monotonic_ns() - self.began_ns) / 1e9, 3), f"filling {self.filling()}"))

    def wait_nobody_runs(self):
        """Until no member of the newest view runs transactions. Compute nodes that died are soon started again."""
        self.load.watching = True
        end = time.monotonic() + 5
        yield lambda: not runners(self.load.view()) or time.monotonic() > end
        self.load.watching = False
        self.did.append((round((time.monotonic_ns() - self.began_ns) / 1e9, 3),
                         f"running {runners(self.load.view())}"))

    def wait_returned(self, node, pid):
        """Until the node has a process again."""
        end = time.monotonic() + 10
        yield lambda: self.cluster.pids().get(node, pid) != pid or time.monotonic() > end

    def wait_noticed(self):
        """Until a view answers what was done; members that have lost a connection do not stay together."""
        before = self.load.view()["epoch"]
        end = time.monotonic() + 5
        yield lambda: self.load.view()["epoch"] > before or time.monotonic() > end
        noticed = self.load.view()["epoch"] > before
        self.did.append((round((time.monotonic_ns() - self.began_ns) / 1e9, 3), "noticed" if noticed else "unnoticed"))


def kill_one(faults):
    faults.kill(faults.nodes(1)[0])
    yield 0


def kill_two(faults):
    a, b = faults.nodes(2)
    faults.kill(a)
    faults.kill(b)
    yield 0


def kill_two_of_a_partition(faults):
    placement = faults.random.choice(faults.load.view()["partitions"])
    for node in faults.random.sample(placement["replicas"], min(2, faults.cluster.replicas - 1)):
        faults.kill(node)
    yield 0


def kill_during_recovery(faults):
    a, b = faults.nodes(2)
    faults.kill(a)
    yield faults.random.uniform(0, 0.15)
    faults.kill(b)


def kill_while_filling(faults):
    faults.kill(faults.holder())
    yield from faults.wait_filling()
    yield faults.random.choice([0, 0.002, 0.01])
    others = faults.expendable([n for n in range(faults.cluster.nodes) if n not in faults.filling()])
    others = [n for n in others if n not in faults.dead]
    if others:
        faults.kill(faults.random.choice(others))


def kill_who_fills(faults):
    faults.kill(faults.holder())
    yield from faults.wait_filling()
    yield faults.random.choice([0, 0.002, 0.01])
    who = faults.expendable([n for n in faults.filling() if n not in faults.dead])
    if who:
        faults.kill(faults.random.choice(who))


def kill_who_returns(faults):
    """The same node again: while it starts, joins or fills."""
    node = faults.nodes(1)[0]
    pid = faults.cluster.pids().get(node)
    faults.kill(node)
    yield from faults.wait_returned(node, pid)
    yield faults.random.uniform(0, 0.3)
    if faults.expendable([node]):
        faults.kill(node)


def stop_one(faults):
    node = faults.nodes(1)[0]
    pid = faults.stop(node)
    yield LEASE_S * faults.random.uniform(0.4, 4)
    faults.go_on(node, pid)


def stop_briefly(faults):
    """Around the length of a lease: removed or not is a matter of milliseconds."""
    node = faults.nodes(1)[0]
    pid = faults.stop(node)
    yield LEASE_S * faults.random.uniform(0.8, 1.4)
    faults.go_on(node, pid)


def stop_two(faults):
    a, b = faults.nodes(2)
    pids = {a: faults.stop(a), b: faults.stop(b)}
    for node in (a, b):
        yield LEASE_S * faults.random.uniform(0.4, 2)
        faults.go_on(node, pids[node])


def stop_one_kill_another(faults):
    a, b = faults.nodes(2)
    pid = faults.stop(a)
    yield LEASE_S * faults.random.uniform(0, 1.2)
    faults.kill(b)
    yield LEASE_S * faults.random.uniform(0, 2)
    faults.go_on(a, pid)


def links_of(faults, a, others):
    """Both ends of what connects node a to the others."""
    own = {n: faults.cluster.links(n) for n in {a, *others}}
    faults.touched.update(pid for node, pid in faults.cluster.pids().items() if node in own)
    found = []
    for b in others:
        found += links.between(own[a], b, own[b]) + links.between(own[b], a, own[a])
    return found


def close_links(faults):
    node = faults.nodes(1)[0]
    cut = links_of(faults, node, [n for n in range(faults.cluster.nodes) if n != node])
    faults.act(f"close {len(cut)} ends of the links of {node}")
    faults.cuts += 1
    for link in cut:
        link.close()
    yield from faults.wait_noticed()


def close_one_link(faults):
    a, b = faults.nodes(2)
    cut = links_of(faults, a, [b])
    faults.act(f"close {len(cut)} ends of the link of {a} and {b}")
    faults.cuts += 1
    for link in cut[:faults.random.randint(1, 2)]:
        link.close()
    yield from faults.wait_noticed()


def close_supervisor(faults):
    """A node that does not talk to its supervisor is killed by it, unless it sees first that it has none and ends."""
    node = faults.nodes(1)[0]
    pid = faults.cluster.pids()[node]
    faults.cluster.killed.add(pid)
    faults.cluster.orphaned.add(pid)
    faults.gone.add(pid)
    faults.touched.add(pid)
    faults.act(f"close the connection of {node} to its supervisor")
    faults.cuts += 1
    for link in links.supervisor_of(pid):
        link.close()
    yield from faults.wait_noticed()


def blocked(faults, choose, seconds):
    """Blocks what choose() names for some time, connections that are made meanwhile too."""
    held = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = choose()
        known = {(link.name, link.peer) for link in held}
        for link in now:
            if (link.name, link.peer) not in known:
                link.block()
                held.append(link)
        yield 0.02
    for link in held:
        link.unblock()
    faults.act("unblock")


def block_links(faults):
    node = faults.nodes(1)[0]
    others = [n for n in range(faults.cluster.nodes) if n != node]
    faults.act(f"block the links of {node}")
    faults.cuts += 1
    yield from blocked(faults, lambda: links_of(faults, node, others), LEASE_S * faults.random.uniform(0.4, 4))


def block_one_link(faults):
    a, b = faults.nodes(2)
    faults.act(f"block the link of {a} and {b}")
    faults.cuts += 1
    yield from blocked(faults, lambda: links_of(faults, a, [b]), LEASE_S * faults.random.uniform(0.4, 4))


def block_one_way(faults):
    """Nothing reaches a node; what it sends arrives."""
    node = faults.nodes(1)[0]
    faults.act(f"block what is sent to {node}")
    faults.touched.update(faults.cluster.pids().values())
    faults.cuts += 1
    yield from blocked(faults, lambda: faults.cluster.links(node), LEASE_S * faults.random.uniform(0.4, 4))


def kill_compute(faults):
    faults.kill(faults.random.choice(faults.cluster.compute_nodes))
    yield 0


def kill_memory(faults):
    faults.kill(faults.holder())
    yield 0


def kill_memory_and_compute(faults):
    victims = [faults.holder(), faults.random.choice(faults.cluster.compute_nodes)]
    faults.random.shuffle(victims)
    for node in victims:
        faults.kill(node)
    yield 0


def kill_all_compute(faults):
    for node in faults.cluster.compute_nodes:
        faults.kill(node)
    yield from faults.wait_nobody_runs()


def kill_all_compute_then_memory(faults):
    """The memory nodes that are left decide what was open, with nobody to tell."""
    yield from kill_all_compute(faults)
    faults.kill(faults.holder())


def kill_all_compute_again(faults):
    """The same before those that were started again are members, or soon after."""
    yield from kill_all_compute(faults)
    yield faults.random.uniform(0.05, 0.4)
    yield from kill_all_compute(faults)


def stop_all_compute(faults):
    """They hang for longer than their leases."""
    pids = {node: faults.stop(node) for node in faults.cluster.compute_nodes}
    yield LEASE_S * faults.random.uniform(1.5, 3)
    for node, pid in pids.items():
        faults.go_on(node, pid)


EVERYWHERE = [
    kill_one, kill_two, kill_two_of_a_partition, kill_during_recovery, kill_while_filling, kill_who_fills,
    kill_who_returns, stop_one, stop_briefly, stop_two, stop_one_kill_another, close_links, close_one_link,
    close_supervisor,
]
SCENARIOS = {"shm": EVERYWHERE, "tcp": [*EVERYWHERE, block_links, block_one_link, block_one_way]}
# Of clusters of memory nodes and compute nodes, beside those.
OF_COMPUTE = [kill_compute, kill_all_compute, kill_all_compute_again, stop_all_compute]
ROLES = [*OF_COMPUTE, kill_memory, kill_memory_and_compute, kill_all_compute_then_memory]


def scenarios(fabric, memory):
    """`memory`: how many memory nodes there are; one alone has the last replicas, and is left alone."""
    if memory == 1:
        return OF_COMPUTE
    return SCENARIOS[fabric] + (ROLES if memory > 0 else [])
