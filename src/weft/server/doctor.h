// The knowledge of `weft doctor`: what a machine offers a node, how good that is, and what to do about it. The facts
// are collected in one place and judged in another, so that every judgement can be tested without such a machine.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct MachineFacts {
  std::string kernel;
  std::vector<std::string> cpu_missing;  // of what the program is built for
  int cores = 0;                         // of the machine
  int cores_allowed = 0;                 // to this process
  std::optional<double> cores_quota;     // of its control group
  bool can_pin = false;
  std::string governor;  // of core 0's frequency; empty: unknown
  uint64_t memory_bytes = 0, memory_available_bytes = 0, swap_bytes = 0;
  std::optional<uint64_t> memory_quota_bytes;  // of its control group
  std::string overcommit;                      // vm.overcommit_memory
  std::string huge_pages;                      // transparent ones, of plain memory: always, madvise, never
  std::string shared_huge_pages;               // of shared memory: always, within_size, advise, never
  uint64_t open_files_max = 0;                 // hard limit; UINT64_MAX: none
  uint64_t locked_bytes_max = 0;               // likewise
  std::string clock_source;
  int backlog_max = 0;  // net.core.somaxconn
  bool pidfd = false, memfd = false;
  std::vector<std::string> rdma_devices;
  bool verbs_library = false;
  bool rdma_works = false;              // a device has a working port
  std::vector<std::string> rdma_lines;  // devices, ports and GIDs, what is in the way, and how to fix it
  std::vector<int> ports, ports_taken;  // the requested ones, and those of them in use
};

// `root`: where /proc and /sys are; empty except in tests.
MachineFacts gather_facts(const std::string& root, const std::vector<int>& ports);

enum class Grade : uint8_t { kGood, kNote, kPoor, kBad };  // kBad: it will not run
std::string_view grade_name(Grade grade);                  // "good", "note", "poor", "bad"

struct Finding {
  std::string subject;
  Grade grade = Grade::kGood;
  std::string found;
  std::string advice;  // what to do; empty: nothing
};
std::vector<Finding> diagnose(const MachineFacts& facts);

// For a running node: `status` is the content of its /status.
std::vector<Finding> diagnose_node(const nlohmann::json& status);

}  // namespace weft
