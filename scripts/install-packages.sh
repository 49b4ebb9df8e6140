#!/bin/sh
# Installs the Debian packages of packages.txt that are missing, and does nothing when none is.
# Works as root or through sudo. With --check it installs nothing, says what is missing and then fails.
set -eu

list=$(dirname "$0")/../packages.txt
wanted=$(sed -e 's/#.*//' "$list")

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This is not a Debian system (no dpkg and apt-get): install what packages.txt names by hand," >&2
  echo "then build with: cmake --preset release && cmake --build --preset release" >&2
  exit 1
fi

# A package counts as installed when another one that is installed provides it: a nodejs from elsewhere brings npm along
# and refuses Debian's beside it.
installed=$(dpkg-query -W -f='${db:Status-Status}, ${Package}, ${Provides}\n' |
  sed -n 's/^installed, //p' | sed -e 's/([^)]*)//g' | tr ',' '\n' | tr -d ' ')
missing=
for package in $wanted; do
  printf '%s\n' "$installed" | grep -xF -e "$package" >/dev/null || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "${1:-}" = --check ]; then
  echo "missing packages:$missing" >&2
  exit 1
fi

if [ "$(id -u)" -eq 0 ]; then
  as_root=env
elif command -v sudo >/dev/null; then
  as_root='sudo env'
else
  echo "These packages are missing, and installing them needs root or sudo. As root, run:" >&2
  echo "  apt-get update && apt-get install --no-install-recommends$missing" >&2
  exit 1
fi

echo "Installing:$missing"
# A machine that has just booted may still hold apt's lock for its own updates: wait for it.
wait_for_lock='-o DPkg::Lock::Timeout=300'
# shellcheck disable=SC2086  # the lists are meant to split
{
  $as_root apt-get $wait_for_lock -qq update
  $as_root DEBIAN_FRONTEND=noninteractive apt-get $wait_for_lock -qq -y --no-install-recommends install $missing
}
