// The statistics of a node: the single source of WEFT STATUS, /status and /metrics. They are collected from what
// workers publish (txn/worker_stats.h) and from atomic counters, without disturbing anybody: any thread may collect
// them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/event_log.h"
#include "weft/base/histogram.h"
#include "weft/member/view.h"
#include "weft/txn/node.h"
#include "weft/txn/view_change_timing.h"
#include "weft/txn/worker_stats.h"

namespace weft {

// The names of a transaction's phases, by Phase.
inline constexpr std::array<std::string_view, 5> kPhaseNames = {"execute", "lock", "validate", "replicate", "unlock"};

// Reasons of aborts and rejections that metrics count: those that a transaction can have.
inline constexpr Code kLastReason = Code::kPeerLost;

// Of this process, as reported by the kernel.
struct ProcessStats {
  uint64_t resident_bytes = 0;
  double cpu_seconds = 0;
  uint64_t open_files = 0;
  uint64_t open_files_max = 0;
};
ProcessStats process_stats();
uint64_t resident_bytes();  // only this one, which is cheap

struct NodeStats {
  std::string cluster;
  NodeId node;
  std::string fabric;                // the one actually in use
  std::string protocol;              // a row of `weft protocols`
  std::string membership;            // its state
  std::string unavailable_reason;    // what the node waits for; empty if nothing
  bool fully_replicated = false;     // and connected to all members
  uint64_t cut_off_ns = 0;           // how long it has had no lease, and claims nothing to be current
  NodeSet suspects;                  // members that were silent for too long
  std::shared_ptr<const View> view;  // never nullptr
  ViewChange change;

  WorkerStats workers;  // the sum of all
  int worker_count = 0;
  int own_doorbells = 0;  // workers that ring a doorbell register of their own on an RDMA device
  uint64_t in_flight_max = 0;
  Histogram latency_ns;
  uint64_t clients = 0, clients_max = 0;
  uint64_t commands = 0;  // of clients
  uint64_t clients_output_bytes = 0, clients_input_bytes = 0;
  uint64_t turns_too_long = 0, turn_longest_ns = 0;
  uint64_t clients_unauthenticated = 0;  // not authenticated yet
  uint64_t clients_late = 0, clients_idle = 0, clients_evicted = 0, clients_refused = 0;
  uint64_t wrong_passwords = 0;
  uint64_t records = 0, records_max = 0;
  uint64_t memory_bytes = 0, memory_bytes_max = 0;

  // Partitions of this node, by its role.
  struct Roles {
    uint64_t primary = 0, backup = 0, catching_up = 0;
  };
  Roles roles() const;
};

// What the node knows by itself; the caller fills in the rest.
NodeStats node_stats_of(const Node& node);

// The first part of WEFT STATUS and of /status.
nlohmann::json status_json(const NodeStats& node_stats);

// A node's statistics of its last second, for people and for the other nodes: rates and levels, by name. The rows of
// kSampleKeys; `aborts` is an object from reason to rate.
inline constexpr std::array<std::string_view, 30> kSampleKeys = {
    "at_ms",         "pid",        "epoch",        "committed_s",   "aborted_s",        "rejected_s",
    "p50_us",        "p90_us",     "p99_us",       "p999_us",       "packet_messages",  "table_batch",
    "round_trips",   "rt_execute", "rt_lock",      "rt_validate",   "rt_replicate",     "rt_unlock",
    "msg_execute",   "msg_lock",   "msg_validate", "msg_replicate", "msg_unlock",       "in_flight",
    "in_flight_max", "records",    "records_max",  "memory_bytes",  "memory_bytes_max", "resident_bytes"};

nlohmann::json sample_of(const NodeStats& before, const NodeStats& now, double seconds);
// A sample from elsewhere: only those of its rows that are numbers. Null if it is not an object.
nlohmann::json checked_sample(const nlohmann::json& sample);

}  // namespace weft
