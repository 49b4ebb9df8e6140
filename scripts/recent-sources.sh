#!/bin/sh
# The sources, without tests and benchmarks, that were changed last: what is not committed yet, then what the newest
# commits changed. recent-sources.sh FILES_MAX
set -eu

{
  git diff --name-only HEAD
  git log --name-only --format=
} | grep -E '^(src|examples)/.*\.cc$' | grep -vE '_(test|bench)\.cc$' | awk '!seen[$0]++' |
  while read -r file; do [ ! -e "$file" ] || echo "$file"; done | head -n "$1"
