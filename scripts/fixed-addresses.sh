#!/bin/sh
# Runs a program without address randomisation where that is allowed. The sanitizers of Debian 12's compilers do not
# start on kernels that randomise more bits of an address than they reserved room for (vm.mmap_rnd_bits above 28).
if setarch -R true 2>/dev/null; then
  exec setarch -R "$@"
fi
exec "$@"
