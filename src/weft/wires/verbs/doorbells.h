// Which doorbell register a queue pair rings that was created without a thread domain. A driver has a few registers for
// an open device and hands them out in order of creation, whoever creates: mlx5 gives each of the first queue pairs a
// low-latency register of its own, and the others the medium ones by turns. Threads whose queue pairs have come to one
// register wait for each other at its lock, although they share nothing else (SMART, ASPLOS '24, section 3.1).
//
// Plain data, no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

struct DoorbellRegisters {
  size_t low_latency = 4;  // mlx5, unless MLX5_NUM_LOW_LAT_UUARS and MLX5_TOTAL_UUARS say otherwise
  size_t medium = 12;

  constexpr size_t count() const { return low_latency + medium; }
  // The register of the queue pair that is created after `earlier` others.
  constexpr size_t of(size_t earlier) const {
    return earlier < low_latency ? earlier : low_latency + (earlier - low_latency) % medium;
  }
};

// The most threads that ring one register. `threads` has the thread of each queue pair, in order of creation.
size_t threads_on_one_doorbell(const DoorbellRegisters& registers, std::span<const uint32_t> threads);

// The same where each of `threads` threads has a queue pair for each of `peers` peers, created peer by peer and for
// each of them thread by thread.
size_t threads_on_one_doorbell(const DoorbellRegisters& registers, uint32_t threads, uint32_t peers);

}  // namespace weft
