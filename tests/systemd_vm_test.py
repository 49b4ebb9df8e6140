#!/usr/bin/env python3
"""The Debian package under a real systemd, in a virtual machine: installed, started, killed, stopped, purged.

    systemd_vm_test.py SOURCE_DIR BUILD_DIR

The machine's file system is made of the packages that this one has installed (systemd, dpkg, redis-tools and what they
need), with dpkg's own records of them, so that `dpkg -i` finds the dependencies as on a small Debian. ZooKeeper and two
more nodes run beside the unit. The kernel is the one of rdma_vm.sh. Exit status 77: it cannot be done here, and why.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile

from cluster import die_with_parent

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 900
SEEDS = """systemd libnss-systemd dpkg bash dash coreutils diffutils findutils grep sed gzip tar hostname
    init-system-helpers libc-bin login perl-base util-linux procps debianutils base-files base-passwd redis-tools
    libzookeeper-mt2 libcpp-httplib0.11 libxxhash0 libssl3 libstdc++6 sysvinit-utils""".split()
NODE = """[cluster]
name = "vm"
nodes = 3
lease_ms = 4000
[node]
id = {node}
[fabric]
listen = "127.0.0.1:740{node}"
[membership]
kind = "zookeeper"
hosts = "127.0.0.1:2181"
auth = "vm:secret"
[client]
listen = "127.0.0.1:737{node}"
password = "hush-hush"
[store]
memory_bytes_max = "64MiB"
capacity = 1000
"""
JOB_SERVICE = """[Unit]
Description=The test
DefaultDependencies=no
Requires=basic.target
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /test/job
StandardOutput=file:/dev/ttyS0
StandardError=file:/dev/ttyS0
TimeoutStartSec=infinity
"""
ZOOKEEPER_SERVICE = """[Service]
ExecStart={java} -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dzookeeper.forceSync=no -cp \
/usr/share/java/zookeeper.jar org.apache.zookeeper.server.ZooKeeperServerMain /test/zoo.cfg
"""
ZOO_CFG = """tickTime=2000
dataDir=/var/tmp/zookeeper
clientPortAddress=127.0.0.1
clientPort=2181
admin.enableServer=false
"""
INIT = """#!/busybox sh
# The root of a service's name space must be a mount that is not the first one.
/busybox mount -o bind /system /system
cd /system
/busybox mount -o move . /
exec /busybox chroot . /lib/systemd/systemd
"""
JOB = r"""
export PATH=/usr/bin:/usr/sbin:/bin:/sbin REDISCLI_AUTH=hush-hush HOME=/root
unit() { systemctl show -p "$1" --value weft; }
ask() { redis-cli -p 7370 "$@" 2>&1; }
end() { echo "GUEST STATUS $1"; systemctl poweroff -ff; }
fail() {
  echo "FAILED: $*"
  systemctl status --no-pager --full weft
  journalctl --no-pager -o short-monotonic -n 80
  end 1
  sleep 1000
}
until_it() {  # WHAT COMMAND...
  what=$1
  shift
  for i in $(seq 200); do
    "$@" && return
    sleep 0.5
  done
  fail "in time: $what"
}
answers() { [ "$(ask PING)" = PONG ]; }
whole() { ask WEFT STATUS | grep -q '"whole":true'; }
list() { find /etc /usr /lib /opt /root /srv /home -xdev 2>/dev/null | sort; }

echo "systemd is up after $(cut -d' ' -f1 /proc/uptime) s: $(systemctl --version | head -n 1)"
zookeeper() { bash -c '</dev/tcp/127.0.0.1/2181' 2>/dev/null; }
systemctl start zookeeper-of-the-test
until_it "ZooKeeper listens" zookeeper
echo "ZooKeeper is up after $(cut -d' ' -f1 /proc/uptime) s"
cp /test/weft /run/weft-of-the-test
for n in 1 2; do
  systemd-run --quiet --unit="node-$n" /run/weft-of-the-test server --config "/test/node$n.toml"
done

echo "--- installed"
list >/run/before
dpkg -i /test/weft.deb >/run/dpkg.log 2>&1 || fail "dpkg -i: $(cat /run/dpkg.log)"
[ "$(systemctl is-enabled weft)" = disabled ] || fail "it is enabled"
systemctl start weft
[ "$(unit ActiveState)" = inactive ] || fail "it started without a file"
install -m 600 /test/node0.toml /etc/weft/node.toml

echo "--- started"
systemctl start weft || fail "systemctl start"
until_it "it answers" answers
until_it "the cluster is whole" whole
[ "$(ask SET k v)" = OK ] || fail "SET: $(ask SET k v)"
[ "$(ask GET k)" = v ] || fail "GET"
pid=$(unit MainPID)
[ "$(stat -c %U "/proc/$pid")" = weft ] || fail "it runs as $(stat -c %U "/proc/$pid")"
grep -q '^CapEff:.*0000000000000000$' "/proc/$pid/status" || fail "it has capabilities"
grep -q '^Seccomp:.*2$' "/proc/$pid/status" || fail "no filter of system calls"
id weft && systemd-analyze security --no-pager weft | tail -n 1

echo "--- killed"
kill -9 "$pid"
other() { [ "$(unit MainPID)" != "$pid" ] && [ "$(unit MainPID)" != 0 ]; }
until_it "it is started again" other
until_it "it answers again" answers
until_it "the cluster is whole again" whole
[ "$(ask GET k)" = v ] || fail "GET after a crash: $(ask GET k)"
[ "$(unit NRestarts)" = 1 ] || fail "$(unit NRestarts) restarts"

echo "--- stopped"
systemctl stop weft || fail "systemctl stop"
[ "$(unit ActiveState) $(unit Result) $(unit ExecMainStatus)" = "inactive success 0" ] || fail "it did not end well"
journalctl --sync
journalctl --no-pager -o cat -u weft | grep -q '"event":"ended"' || fail "it did not say that it ended"
journalctl --no-pager -o cat -u weft | grep hush-hush && fail "the password is in the log"
id weft 2>/dev/null && fail "its user is still there"
systemctl enable --now weft || fail "systemctl enable"
until_it "it answers" answers

echo "--- purged"
dpkg --purge weft >/run/dpkg.log 2>&1 || fail "dpkg --purge: $(cat /run/dpkg.log)"
[ "$(unit ActiveState)" = inactive ] || fail "it runs without its package"
list >/run/after
diff /run/before /run/after || fail "purge leaves something"
end 0
"""


def cannot(why):
    print(f"skipped: {why}")
    sys.exit(77)


def installed():
    """{package: its fields} of this machine."""
    found = {}
    for block in pathlib.Path("/var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", block, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = {**fields, "": block}
    return found


def closure(packages, seeds):
    """The seeds and what they need."""
    providers = {}
    for name, fields in packages.items():
        for provided in fields.get("Provides", "").split(","):
            providers.setdefault(provided.strip().split(" ")[0], name)
    todo, found = list(seeds), set()
    while todo:
        name = todo.pop()
        if name in found or name not in packages:
            continue
        found.add(name)
        for clause in (packages[name].get("Depends", "") + "," + packages[name].get("Pre-Depends", "")).split(","):
            names = [re.sub(r"[ :(].*", "", one.strip()) for one in clause.split("|")]
            known = [one if one in packages else providers[one] for one in names if one in packages or one in providers]
            todo += known[:1]
    return sorted(found)


def copy_files(root, files):
    there = [file.lstrip("/") for file in files if os.path.lexists(file) and os.access(file, os.R_OK)]
    pack = ["tar", "-C", "/", "--no-recursion", "-cf", "-", "-T", "-"]
    packed = subprocess.run(pack, input="\n".join(there).encode(), capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", root, "--keep-directory-symlink", "-xf", "-"], input=packed, check=True)


def copy_packages(root):
    packages = installed()
    missing = [name for name in ("systemd", "redis-tools", "libnss-systemd") if name not in packages]
    if missing:
        cannot(f"the packages {', '.join(missing)} are not installed (packages.txt)")
    names = closure(packages, SEEDS)
    records = root / "var/lib/dpkg"
    (records / "info").mkdir(parents=True)
    for folder in ("updates", "triggers", "alternatives"):
        (records / folder).mkdir()
    (records / "status").write_text("\n\n".join(packages[name][""] for name in names) + "\n\n", encoding="utf-8")
    files = []
    for name in names:
        for lists in (f"{name}.list", f"{name}:amd64.list"):
            path = pathlib.Path("/var/lib/dpkg/info", lists)
            if path.exists():
                shutil.copy(path, records / "info")
                files += [file for file in path.read_text(encoding="utf-8").splitlines()
                          if not file.startswith(("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/"))]
    copy_files(root, files)


def copy_java(root):
    java = pathlib.Path("/usr/bin/java").resolve()
    jar = pathlib.Path("/usr/share/java/zookeeper.jar")
    if not java.exists() or not jar.exists():
        cannot("there is no ZooKeeper here (packages zookeeper and default-jre-headless)")
    home = java.parent.parent
    files = [str(path) for path in home.rglob("*")] + [str(path) for path in pathlib.Path("/etc/java-17-openjdk").rglob("*")]
    with zipfile.ZipFile(jar) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode().replace("\r", "").replace("\n ", "")
    jars = re.search(r"^Class-Path: (.*)$", manifest, re.MULTILINE)
    names = [jar, *(jar.parent / name for name in (jars.group(1).split() if jars else []))]
    files += [str(name) for name in names] + [str(name.resolve()) for name in names]
    for binary in [java, *home.rglob("*.so")]:
        said = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+\.so\S*)", said):
            files += [library, os.path.realpath(library)]
    copy_files(root, dict.fromkeys(files))
    return java


def make_root(root, package, weft):
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "run", "tmp", "var/tmp", "root", "test", "etc/systemd/system"):
        (root / name).mkdir(parents=True, exist_ok=True)
    copy_packages(root)
    java = copy_java(root)
    for name in ("passwd", "group"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    (root / "etc/nsswitch.conf").write_text("passwd: files systemd\ngroup: files systemd\nhosts: files\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (root / "etc/fstab").write_text("")
    units = root / "etc/systemd/system"
    (units / "job.service").write_text(JOB_SERVICE)
    (units / "zookeeper-of-the-test.service").write_text(ZOOKEEPER_SERVICE.format(java=java))
    (units / "default.target").write_text("[Unit]\nRequires=basic.target job.service\nAllowIsolate=yes\n")
    test = root / "test"
    (test / "job").write_text(JOB)
    (test / "zoo.cfg").write_text(ZOO_CFG)
    for node in range(3):
        (test / f"node{node}.toml").write_text(NODE.format(node=node))
    shutil.copy(package, test / "weft.deb")
    shutil.copy(weft, test / "weft")


def make_initrd(work, root):
    top = work / "top"
    top.mkdir()
    shutil.copy(shutil.which("busybox"), top / "busybox")
    (top / "init").write_text(INIT)
    (top / "init").chmod(0o755)
    os.rename(root, top / "system")
    names = subprocess.run(["find", "."], cwd=top, capture_output=True, check=True).stdout
    with open(work / "initrd", "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=top, input=names, stdout=out, check=True)
    return work / "initrd"


def accelerator():
    """KVM only where the processor shows it: elsewhere the device may be there and the guest hangs."""
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii"), re.MULTILINE)
    if flags and os.access("/dev/kvm", os.W_OK):
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi", "-cpu", "max"]


def boot(kernel, initrd):
    """What the guest said."""
    command = ["qemu-system-x86_64", "-M", "q35", *accelerator(), "-smp", "2", "-m", "3072",
               "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", kernel,
               "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable "
               "systemd.show_status=0 systemd.log_target=kmsg systemd.log_level=notice"]
    said = ""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
                          preexec_fn=die_with_parent) as guest:
        end = threading.Timer(SECONDS, guest.kill)
        end.start()
        for line in guest.stdout:
            print(line.rstrip(), flush=True)
            said += line
        end.cancel()
    return said


def main():
    source, build = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    for tool in ("qemu-system-x86_64", "busybox", "cpio"):
        if not shutil.which(tool):
            cannot(f"there is no {tool} here (packages.txt names the package)")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weft/vm"
    prepared = subprocess.run([HERE / "rdma_vm.sh", "--cache", cache, "--prepare"], check=False).returncode
    if prepared != 0:
        sys.exit(prepared)
    subprocess.run([source / "scripts/package.sh", source, build], check=True, stdout=subprocess.DEVNULL)
    package, = (build / "package").glob("weft_*.deb")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        root = work / "root"
        root.mkdir()
        make_root(root, package, build / "weft")
        said = boot(cache / "vmlinux", make_initrd(work, root))
    status = re.findall(r"^GUEST STATUS (\d+)", said, re.MULTILINE)
    if not status:
        print(f"the guest did not report within {SECONDS} s")
        sys.exit(99)
    sys.exit(int(status[-1]))


if __name__ == "__main__":
    main()
