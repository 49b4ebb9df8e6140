#include "weft/server/doctor.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/bytes.h"
#include "weft/types.h"
#include "weft/wires/verbs/doorbells.h"

namespace weft {

namespace {

constexpr uint64_t kFilesWanted = 4096;
constexpr int kBacklogWanted = 512;  // of the clients' socket, server.cc

std::string size_of(uint64_t bytes) {
  char text[32];
  const bool large = bytes >= kGiB;
  std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(bytes) / static_cast<double>(large ? kGiB : kMiB),
                large ? "GiB" : "MiB");
  return text;
}

std::string limit_text(uint64_t limit) { return limit == UINT64_MAX ? "no limit" : std::to_string(limit); }

template <class List, class Text>
std::string joined(const List& list, const Text& text) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + text(item);
  return out;
}

Finding kernel(const MachineFacts& f) {
  if (f.pidfd && f.memfd) return {"kernel", Grade::kGood, f.kernel, ""};
  return {"kernel", Grade::kBad, f.kernel + " without " + (f.pidfd ? "memfd_create" : "pidfd_open"),
          "use Linux 5.3 or newer, and allow the call where a sandbox forbids it"};
}

Finding processor(const MachineFacts& f) {
  if (f.cpu_missing.empty()) return {"processor", Grade::kGood, "has what x86-64-v3 asks for", ""};
  return {"processor", Grade::kBad, "is without " + joined(f.cpu_missing, [](const std::string& s) { return s; }),
          "use a machine, or a kind of virtual processor, with AVX2 (Haswell, Zen or newer)"};
}

Finding cores(const MachineFacts& f) {
  std::string found = std::to_string(f.cores_allowed) + " of " + std::to_string(f.cores) + " cores";
  if (f.cores_quota) {
    char quota[48];
    std::snprintf(quota, sizeof quota, ", with a quota of %.1f cores", *f.cores_quota);
    found += quota;
    return {"cores", Grade::kPoor, found,
            "a quota stops threads in the middle of work, for longer than a lease if it is small: give the node whole "
            "cores instead (cpuset), or raise cluster.lease_ms"};
  }
  if (f.cores_allowed < 2) {
    return {"cores", Grade::kNote, found, "one core runs workers and clients in turns; two or more are better"};
  }
  return {"cores", Grade::kGood, found, ""};
}

Finding pinning(const MachineFacts& f) {
  if (!f.can_pin) {
    return {"pinning", Grade::kNote, "threads cannot be pinned here", "leave node.pin_threads = false"};
  }
  if (!f.governor.empty() && f.governor != "performance") {
    return {"pinning", Grade::kNote, "threads can be pinned; the cores' frequency is governed by " + f.governor,
            "for steady latency: cpupower frequency-set -g performance"};
  }
  return {"pinning", Grade::kGood, "threads can be pinned (node.pin_threads)", ""};
}

Finding memory(const MachineFacts& f) {
  const std::string found = size_of(f.memory_available_bytes) + " of " + size_of(f.memory_bytes) + " available";
  if (f.overcommit == "2") {
    return {"memory", Grade::kPoor, found + "; vm.overcommit_memory is 2",
            "tables reserve addresses for the most they may hold: sysctl vm.overcommit_memory=0"};
  }
  if (f.memory_quota_bytes && *f.memory_quota_bytes < f.memory_available_bytes) {
    return {"memory", Grade::kNote, found + ", at most " + size_of(*f.memory_quota_bytes) + " for this control group",
            "keep store.memory_bytes_max well below that: over it the process is killed"};
  }
  if (f.memory_available_bytes < kGiB) {
    return {"memory", Grade::kPoor, found,
            "store.memory_bytes_max is 1 GiB unless the file says otherwise: set it to what is there"};
  }
  return {"memory", Grade::kGood, found, ""};
}

Finding swap(const MachineFacts& f) {
  if (f.swap_bytes == 0) return {"swap", Grade::kGood, "none", ""};
  return {"swap", Grade::kNote, size_of(f.swap_bytes),
          "a node that swaps is slower than its lease and is removed: swapoff -a, or MemorySwapMax=0 in its unit"};
}

Finding huge_pages(const MachineFacts& f) {
  if (f.huge_pages == "always" || f.huge_pages == "madvise") {
    return {"huge pages", Grade::kGood, f.huge_pages, ""};
  }
  return {"huge pages", Grade::kPoor, f.huge_pages.empty() ? "unknown" : f.huge_pages,
          "large tables are faster with them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding shared_huge_pages(const MachineFacts& f) {
  constexpr const char* kSubject = "huge pages of shared memory";
  if (f.shared_huge_pages == "always" || f.shared_huge_pages == "within_size" || f.shared_huge_pages == "advise") {
    return {kSubject, Grade::kGood, f.shared_huge_pages, ""};
  }
  return {
      kSubject, Grade::kNote, f.shared_huge_pages.empty() ? "unknown" : f.shared_huge_pages,
      "matters for fabric.kind = \"shm\" alone, which asks for them page by page at the start, slowly: echo advise > "
      "/sys/kernel/mm/transparent_hugepage/shmem_enabled"};
}

Finding open_files(const MachineFacts& f) {
  const std::string found = limit_text(f.open_files_max);
  if (f.open_files_max >= kFilesWanted) return {"open files", Grade::kGood, found, ""};
  return {
      "open files", Grade::kPoor, found,
      "every client is one; a node takes fewer than 1000 a worker then: LimitNOFILE=65536 in its unit, or ulimit -n"};
}

Finding locked_memory(const MachineFacts& f) {
  const std::string found =
      f.locked_bytes_max == UINT64_MAX ? limit_text(f.locked_bytes_max) : size_of(f.locked_bytes_max);
  if (f.locked_bytes_max == UINT64_MAX || f.rdma_devices.empty()) return {"locked memory", Grade::kGood, found, ""};
  return {"locked memory", Grade::kPoor, found,
          "RDMA locks what it registers, all tables: LimitMEMLOCK=infinity in its unit, or ulimit -l unlimited"};
}

Finding clock_source(const MachineFacts& f) {
  constexpr std::array<std::string_view, 5> kFast = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
                                                     "arch_sys_counter", "xen"};
  const std::string found = f.clock_source.empty() ? "unknown" : f.clock_source;
  if (f.clock_source.empty()) return {"clock source", Grade::kNote, found, ""};
  if (std::find(kFast.begin(), kFast.end(), f.clock_source) != kFast.end()) {
    return {"clock source", Grade::kGood, found, ""};
  }
  return {"clock source", Grade::kPoor, found,
          "a worker reads the clock every turn, and this one needs a system call: boot with clocksource=tsc if the "
          "machine's is stable"};
}

Finding backlog(const MachineFacts& f) {
  const std::string found = "net.core.somaxconn is " + std::to_string(f.backlog_max);
  if (f.backlog_max >= kBacklogWanted) return {"backlog", Grade::kGood, found, ""};
  return {"backlog", Grade::kNote, found,
          "many clients that connect at once may have to try again: sysctl net.core.somaxconn=4096"};
}

Finding rdma(const MachineFacts& f) {
  const std::string devices = joined(f.rdma_devices, [](const std::string& s) { return s; });
  if (f.rdma_devices.empty()) {
    return {"RDMA", Grade::kNote,
            std::string("no device; libibverbs is ") + (f.verbs_library ? "installed" : "not installed"),
            "nothing to do: fabric.kind = \"tcp\" and \"shm\" need none"};
  }
  if (!f.verbs_library) {
    return {"RDMA", Grade::kPoor, devices + ", and no libibverbs", "apt install libibverbs1 ibverbs-providers"};
  }
  if (!f.rdma_works) return {"RDMA", Grade::kPoor, devices + ", and no port that works", "see below"};
  return {"RDMA", Grade::kGood, devices, ""};
}

Finding free_ports(const MachineFacts& f) {
  const auto text = [](int port) { return std::to_string(port); };
  if (f.ports_taken.empty()) return {"ports", Grade::kGood, joined(f.ports, text) + " are free", ""};
  return {"ports", Grade::kPoor, joined(f.ports_taken, text) + " taken, of " + joined(f.ports, text),
          "end what listens there (ss -ltnp), or use others: weft up --port and --http-port, client.listen and "
          "http.listen"};
}

}  // namespace

std::string_view grade_name(Grade grade) {
  constexpr std::array<std::string_view, 4> kNames = {"good", "note", "poor", "bad"};
  return kNames[static_cast<size_t>(grade)];
}

std::vector<Finding> diagnose(const MachineFacts& facts) {
  std::vector<Finding> out;
  for (const auto check : {kernel, processor, cores, pinning, memory, swap, huge_pages, shared_huge_pages, open_files,
                           locked_memory, clock_source, backlog, rdma, free_ports}) {
    out.push_back(check(facts));
  }
  for (const std::string& line : facts.rdma_lines) out.push_back({"RDMA", Grade::kNote, line, ""});
  return out;
}

namespace {

Finding turns(const nlohmann::json& status) {
  const nlohmann::json figures = status.value("figures", nlohmann::json::object());
  const auto too_long = figures.value("turns_too_long", uint64_t{0});
  char longest[64];
  std::snprintf(longest, sizeof longest, "the longest took %.1f ms",
                static_cast<double>(figures.value("turn_longest_us", uint64_t{0})) / 1000);
  if (too_long == 0) return {"turns", Grade::kGood, std::string("none was too long; ") + longest, ""};
  std::string last;
  for (const nlohmann::json& event : status.value("events", nlohmann::json::array())) {
    if (event.value("event", "") != "turn_too_long" || event.value("node", -1) != status.value("node", -1)) continue;
    last = "; the last one that was said: " + event.value("command", "?") + " took " +
           std::to_string(event.value("command_took_us", uint64_t{0})) + " us, estimated " +
           std::to_string(event.value("command_estimated_us", uint64_t{0})) + " us";
  }
  return {"turns", Grade::kPoor, std::to_string(too_long) + " were too long; " + longest + last,
          "far above the estimate: the machine had no core for the node, see above; else lower client.turn_us and "
          "client.command_us_max"};
}

// Over RDMA: do the workers share doorbell registers?
void add_doorbells(const nlohmann::json& status, std::vector<Finding>& out) {
  if (status.value("fabric", "") != "verbs") return;
  const nlohmann::json figures = status.value("figures", nlohmann::json::object());
  const auto workers = std::min<uint32_t>(figures.value("workers", uint32_t{0}), kWorkersMax);
  const auto own = figures.value("own_doorbells", uint32_t{0});
  const std::string found =
      std::to_string(own) + " of " + std::to_string(workers) + " workers have a register of their own";
  if (own >= workers) return out.push_back({"doorbells", Grade::kGood, found, ""});
  const nlohmann::json view = status.value("view", nlohmann::json::object());
  const size_t members = std::clamp<size_t>(view.value("members", nlohmann::json::array()).size(), 2, kNodesMax);
  constexpr DoorbellRegisters kUsual;
  const uint64_t most = threads_on_one_doorbell(kUsual, workers - own, static_cast<uint32_t>(members - 1));
  out.push_back({"doorbells", Grade::kNote, found,
                 "the others share the driver's, and wait for each other there: of the " +
                     std::to_string(kUsual.count()) + " that mlx5 has, up to " + std::to_string(most) +
                     " workers ring one. A device and an rdma-core with thread domains give each its own; else use "
                     "fewer workers (cluster.workers)"});
}

}  // namespace

// The library throws if a value has another type than expected.
std::vector<Finding> diagnose_node(const nlohmann::json& status) try {
  const std::string stopped = status.value("stopped", "");
  const bool fully_replicated = status.value("whole", false);
  const uint64_t cut_off_ms = status.value("cut_off_ms", uint64_t{0});
  const nlohmann::json suspects = status.value("suspects", nlohmann::json::array());
  std::string found = fully_replicated ? "the cluster is whole" : "a partition has fewer replicas than it should";
  if (!suspects.empty()) found = "it suspects nodes that it does not hear: " + suspects.dump();
  if (cut_off_ms != 0) {
    found =
        "it is cut off since " + std::to_string(cut_off_ms) + " ms: it has no lease, and does not reach all members";
  }
  if (!stopped.empty()) found = stopped;
  std::vector<Finding> out = {{"node", fully_replicated ? Grade::kGood : Grade::kPoor, found, ""}, turns(status)};
  add_doorbells(status, out);
  return out;
} catch (const nlohmann::json::exception&) {
  return {{"node", Grade::kPoor, "what it says is no node's /status", "give the host:port of its HTTP (http.listen)"}};
}

}  // namespace weft
