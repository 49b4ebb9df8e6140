// What one seed decides before its run starts: the cluster, the network, the faults, the workload. Swarm style: each
// feature is on or off per seed, so that rare combinations meet often.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/base/bugs.h"
#include "weft/options.h"
#include "weft/sim/faults.h"
#include "weft/sim/network.h"
#include "weft/status.h"

namespace weft {

enum class SimWorkload : uint8_t { kAppend, kToken, kSmallBank, kTatp };
inline constexpr int kSimWorkloads = 4;
std::string_view workload_name(SimWorkload workload);

struct WorkloadConfig {
  SimWorkload kind = SimWorkload::kAppend;
  int clients = 4;           // per worker
  int txns = 30;             // per client
  uint32_t keys = 10;        // live keys, token places, accounts or subscribers
  uint32_t hot_percent = 0;  // of choices that fall on the first tenth of the keys
  uint32_t keys_per_txn = 4;
  uint32_t read_percent = 50;       // of operations
  uint32_t single_key_percent = 0;  // transactions that are a single-key fast path
  uint32_t declared_percent = 0;    // transactions that are declared
  uint32_t think_percent = 0;       // operations that are followed by a sleep
  uint64_t think_ns = 0;            // up to this long
  uint32_t drop_percent = 0;        // transactions that the application drops half-way
  uint32_t blind_percent = 0;       // writes of new keys without a read before
  uint32_t large_percent = 0;       // keys with large values
  uint32_t large_bytes = 0;         // their size
  uint64_t capacity = 1024;         // append: of each table; a small one gets full
  bool byte_keys = false;           // half of the keys are byte strings
  bool until_enough = false;        // clients go on until the run has enough transactions, whatever txns says
  bool conserving = false;          // smallbank: only what keeps the total, so that any reader can check it
};

struct SimConfig {
  Options options;
  NetworkConfig network;
  FaultMask faults;
  uint64_t fault_horizon_ns = 0;
  uint64_t step_jitter_ns = 0;  // added to each step, at most
  WorkloadConfig workload;
  uint64_t lease_ns = 400'000;
  uint64_t answer_ns = 0;                  // that clients wait (Limits::answer_ms); 0: longer than any run
  int initial_members = 1;                 // nodes of the first view; the others join later
  bool supervised = false;                 // the membership sees processes end
  uint64_t drift_permille = 5;             // with skew: clocks run apart by so much, at most
  uint64_t margin_permille = 10;           // what who gives a lease reckons with
  bool visitors = false;                   // clients come to nodes whose links fail, while they do
  uint64_t transactions = 0;               // at least so many; 0: each client does workload.txns
  bool aimed = false;                      // crashes at chosen moments too (crash_injector.h)
  bool aimed_links = false;                // and broken connections
  bool leader_crashes_after_ack = false;   // of these, only CrashInjector::leader_crashes_after_ack_
  bool leader_crashes_activating = false;  // or only CrashInjector::leader_crashes_activating_
  uint64_t limit_ns = 2'000'000'000;       // virtual time without progress after which a run counts as stuck
  std::string text() const;                // one line a person can read
};

// What is fixed from outside; the seed draws the rest, and draws the same rest.
struct SimOptions {
  uint64_t seed = 1;
  std::optional<std::string> protocol;
  std::optional<FaultMask> faults;
  std::optional<SimWorkload> workload;
  std::optional<bool> local_reads;
  std::optional<int> nodes;
  std::optional<int> replicas;
  std::optional<uint32_t> keys;
  std::optional<uint32_t> single_key_percent;
  std::optional<uint64_t> limit_ns;
  std::optional<bool> impatient;  // SimConfig::answer_ns is short
  std::optional<bool> loopback;   // atomic verbs do not go with the processor's, and all locks are by verbs
  // A run of a campaign: at least so many transactions and one fault, and crashes that are aimed. 0: as drawn.
  uint64_t transactions = 0;
  bool leader_crashes_after_ack = false;   // test only: SimConfig::leader_crashes_after_ack
  bool leader_crashes_activating = false;  // test only: SimConfig::leader_crashes_activating
  PlantedBugs bugs;                        // test only
};

SimConfig draw_config(const SimOptions& options);

}  // namespace weft
