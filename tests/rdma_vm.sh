#!/bin/sh
# Runs a script as root in a throw-away virtual machine that has two software RDMA devices (Soft-RoCE): rxe0 and rxe1,
# at the two ends of one virtual cable, 10.9.0.1 and 10.9.0.2.
#
#   rdma_vm.sh --cache DIR [--seconds N] [--memory MIB] SCRIPT FILE...
#   rdma_vm.sh --cache DIR --prepare        only the kernel, DIR/vmlinux, and what it needs there
#
# The kernel is Debian's own, downloaded into DIR and not installed; the rest of the machine is an initial file system
# in memory with busybox. SCRIPT is read by its shell. Each FILE, with the libraries it needs, is in /test there.
# Ends with the script's exit status; 77 says that this machine cannot do it, and why; 99 that the guest did not report.
# Needs no root. Of the host nothing is changed, and the guest has no network and no disk.
set -eu

cannot() {
  echo "skipped: $*"
  exit 77
}

seconds=240
memory=1536
cache=
prepare=
while [ $# -gt 0 ]; do
  case $1 in
    --cache) cache=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --memory) memory=$2; shift 2 ;;
    --prepare) prepare=yes; shift ;;
    *) break ;;
  esac
done
script=${1:-}
[ $# -eq 0 ] || shift

PATH=$PATH:/usr/sbin:/sbin
for tool in qemu-system-x86_64 busybox cpio xz depmod modprobe ip rdma apt-get dpkg-deb strip; do
  command -v "$tool" >/dev/null || cannot "there is no $tool here (packages.txt names the package)"
done
provider=$(find /usr/lib/x86_64-linux-gnu/libibverbs -name 'librxe-*.so' 2>/dev/null | head -n 1)
[ -n "$provider" ] || cannot "the user-space driver of Soft-RoCE is not installed (package ibverbs-providers)"
mkdir -p "$cache"
cache=$(realpath "$cache")
base=$cache/base-$(cksum <"$0" | cut -d' ' -f1).cpio  # as this script makes it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# put ROOT TO FILE: a copy without debug information, and the libraries it needs where it looks for them.
put() {
  mkdir -p "$1$2"
  strip --strip-debug -o "$1$2/$(basename "$3")" "$3" 2>/dev/null || cp "$3" "$1$2/"
  ldd "$3" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
    place=$1$(realpath "$(dirname "$library")")
    mkdir -p "$place"
    [ -e "$place/$(basename "$library")" ] || cp -L "$library" "$place/"
  done
}

fetch_kernel() {
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
  [ -n "$package" ] || cannot "apt knows no linux-image-amd64 (apt-get update)"
  (cd "$cache" && ls "$package"_*.deb >/dev/null 2>&1 || apt-get -qq download "$package" 2>"$work/apt.log") ||
    cannot "the kernel package $package cannot be downloaded: $(cat "$work/apt.log")"
  dpkg-deb -x "$cache/$package"_*.deb "$work/kernel"
  version=$(ls "$work/kernel/lib/modules")
  depmod -b "$work/kernel" "$version"
  # The kernel inside its image, so that the guest does not spend seconds on uncompressing itself. What follows the
  # compressed stream is no part of it, hence no exit status to look at, but the result.
  image=$work/kernel/boot/vmlinuz-$version
  at=$(LC_ALL=C grep -abo "$(printf '\375')7zXZ" "$image" | head -n 1 | cut -d: -f1)
  tail -c "+$((${at:-0} + 1))" "$image" | xz -dc --single-stream >"$work/vmlinux" 2>/dev/null || true
  [ "$(head -c 4 "$work/vmlinux" | tail -c 3)" = ELF ] || cp "$image" "$work/vmlinux"
}

# The part of the file system that is the same each time.
make_base() {
  root=$work/base
  mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/etc/libibverbs.d" \
    "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64"
  rmdir "$root/bin"
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
  mkdir -p "$root/busybox"
  cp "$(command -v busybox)" "$root/busybox/"
  ln -s /busybox/busybox "$root/usr/bin/sh"  # what system() runs
  echo 'root:x:0:0::/:/bin/sh' >"$root/etc/passwd"
  echo 'driver rxe' >"$root/etc/libibverbs.d/rxe.driver"
  put "$root" /usr/bin "$(command -v ip)"
  put "$root" /usr/bin "$(command -v rdma)"
  put "$root" /usr/lib/x86_64-linux-gnu "$(realpath /usr/lib/x86_64-linux-gnu/libibverbs.so.1)"
  cp -L /usr/lib/x86_64-linux-gnu/libibverbs.so.1 "$root/usr/lib/x86_64-linux-gnu/"
  put "$root" /usr/lib/x86_64-linux-gnu/libibverbs "$provider"
  # Nothing loads crc32_generic by itself, and without it no device can be made.
  for module in crc32_generic rdma_rxe ib_uverbs veth; do
    modprobe -d "$work/kernel" -S "$version" --show-depends "$module"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$work/modules"
  while read -r file; do
    name=$(basename "$file" .xz)
    case $file in *.xz) xz -dc "$file" >"$root/modules/$name" ;; *) cp "$file" "$root/modules/$name" ;; esac
    echo "$name" >>"$root/modules.order"
  done <"$work/modules"
  cat >"$root/init" <<'INIT'
#!/busybox/busybox sh
export PATH=/usr/bin:/usr/sbin:/busybox
/busybox/busybox --install -s /busybox
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
while read -r module; do insmod "/modules/$module" || echo "no module $module"; done </modules.order
ip=/usr/bin/ip  # busybox has one that knows no veth, and prefers it
$ip link set lo up
$ip link add v0 mtu 4200 type veth peer name v1 mtu 4200
# The two ends are in one machine: each must take what comes from an address that is its own.
echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
for n in 0 1; do
  $ip addr add "10.9.0.$((n + 1))/24" dev "v$n"
  $ip link set "v$n" up
  rdma link add "rxe$n" type rxe netdev "v$n" || echo "no device rxe$n"
done
echo "the guest is up after $(cut -d' ' -f1 /proc/uptime) s"
cd /tmp
sh /job
echo "GUEST STATUS $?"
poweroff -f
INIT
  chmod +x "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$work/base.cpio"
}

if [ ! -e "$base" ]; then
  fetch_kernel
  make_base
  mv "$work/vmlinux" "$cache/vmlinux"
  mv "$work/base.cpio" "$base"  # last: its being there says that all is
fi

[ -z "$prepare" ] || exit 0

mkdir -p "$work/job/test"
cp "$script" "$work/job/job"
for file; do put "$work/job" /test "$file"; done
(cd "$work/job" && find . | cpio -o -H newc --quiet) | cat "$base" - >"$work/initrd"

# KVM only where the processor shows it: elsewhere the device may be there and the guest hangs.
accelerator="-accel tcg,thread=multi -cpu max"
if grep -qwE 'vmx|svm' /proc/cpuinfo && [ -w /dev/kvm ]; then accelerator="-accel kvm -cpu host"; fi
# shellcheck disable=SC2086  # two options
timeout --foreground "$seconds" qemu-system-x86_64 -M q35 $accelerator -smp 2 -m "$memory" -nodefaults -no-user-config \
  -display none -serial stdio -no-reboot -kernel "$cache/vmlinux" -initrd "$work/initrd" \
  -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable" </dev/null |
  tr -d '\r' | tee "$work/log" || true
status=$(sed -n 's/^GUEST STATUS //p' "$work/log" | tail -n 1)
[ -n "$status" ] || echo "the guest did not report within $seconds s"
exit "${status:-99}"
