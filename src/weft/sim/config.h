// What a seed decides before its run starts: the cluster, the network, the faults, the workload. This is swarm testing:
// each seed turns every feature on or off, so that rare combinations occur often.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/options.h"
#include "weft/sim/faults.h"
#include "weft/sim/network.h"
#include "weft/status.h"

namespace weft {

namespace sim {
class Workload;
class WorkloadContext;
}  // namespace sim

// kTpcc is no part of this room: whoever asks for it brings it (SimOptions::workload_of). No seed draws it.
enum class SimWorkload : uint8_t { kAppend, kToken, kSmallBank, kTatp, kTpcc };
inline constexpr int kSimWorkloads = 4;  // that a seed draws
std::string_view workload_name(SimWorkload workload);
std::optional<SimWorkload> workload_named(std::string_view name);

struct WorkloadConfig {
  SimWorkload kind = SimWorkload::kAppend;
  int clients = 4;           // per worker
  int txns = 30;             // per client
  uint32_t keys = 10;        // live keys, places for tokens, accounts or subscribers
  uint32_t hot_percent = 0;  // of the choices, those that fall on the first tenth of the keys
  uint32_t keys_per_txn = 4;
  uint32_t read_percent = 50;       // of operations
  uint32_t single_key_percent = 0;  // transactions that are a single-key operation (get_one, insert_one)
  uint32_t declared_percent = 0;    // transactions that call a stored procedure
  bool declared_reads = false;      // which reads some of its keys only, and whose outcome others ask for
  uint32_t snapshot_percent = 0;    // append, of the others: transactions that read several keys and write none
  uint32_t scan_percent = 0;        // append, token: of the others, those that scan; 0: no table is ordered
  bool scans_read_only = false;     // the row's: transactions that write do not scan
  uint32_t retire_after = 64;       // append: appends to a key; then its place gets a new key, which does not exist yet
  uint32_t think_percent = 0;       // operations followed by a sleep
  uint64_t think_ns = 0;            // up to this long
  uint32_t drop_percent = 0;        // transactions that the application abandons half-way
  uint32_t blind_percent = 0;       // writes of new keys that are not read first
  uint32_t large_percent = 0;       // keys with large values
  uint32_t large_bytes = 0;         // their size
  uint64_t capacity = 1024;         // append: of each table; a small one fills up
  bool byte_keys = false;           // half of the keys are byte strings
  bool until_enough = false;        // clients continue until the run has enough transactions; txns is ignored
  bool conserving = false;  // smallbank: only transactions that keep the total, so that every reader can check it
};

struct SimConfig {
  Options options;
  NetworkConfig network;
  FaultMask faults;
  uint64_t fault_horizon_ns = 0;
  uint64_t step_jitter_ns = 0;  // at most this is added to each step
  WorkloadConfig workload;
  uint64_t lease_ns = 400'000;
  uint32_t piece_bytes = 0;                // commits of more bytes travel in pieces of so many; 0: as usual
  uint64_t verb_credit_period_ns = 0;      // how long workers measure a limit of verbs in flight; 0: as usual
  uint64_t answer_ns = 0;                  // how long clients wait (Limits::answer_ms); 0: longer than any run
  int initial_members = 1;                 // nodes of the first view; the others join later
  bool supervised = false;                 // the membership sees when a process ends
  uint64_t drift_permille = 5;             // with skew: the most that clocks drift apart
  uint64_t margin_permille = 10;           // drift that the granter of a lease allows for
  bool visitors = false;                   // new clients arrive at nodes whose links fail, while they fail
  uint64_t transactions = 0;               // at least this many; 0: each client runs workload.txns
  bool aimed = false;                      // also crashes at chosen moments (crash_injector.h)
  bool aimed_links = false;                // and breaks of connections at chosen moments
  bool leader_crashes_after_ack = false;   // of the crashes, only CrashInjector::leader_crashes_after_ack_
  bool leader_crashes_activating = false;  // or only CrashInjector::leader_crashes_activating_
  uint64_t limit_ns = 2'000'000'000;       // a run without progress for this much virtual time is stuck
  std::string text() const;                // one line for a person
};

// What the caller fixes. The seed draws the rest, and draws it as if nothing were fixed.
struct SimOptions {
  uint64_t seed = 1;
  std::optional<std::string> protocol;
  std::optional<FaultMask> faults;
  std::optional<SimWorkload> workload;
  std::function<std::unique_ptr<sim::Workload>(sim::WorkloadContext*)> workload_of;  // instead of the one of that kind
  std::optional<bool> local_reads;
  std::optional<int> nodes;
  std::optional<int> replicas;
  std::optional<uint32_t> keys;
  std::optional<uint32_t> single_key_percent;
  std::optional<uint64_t> limit_ns;
  std::optional<bool> impatient;           // SimConfig::answer_ns is short
  std::optional<uint32_t> piece_bytes;     // SimConfig::piece_bytes
  std::optional<std::string> verb_credit;  // Options::verb_credit
  std::optional<bool> scans;               // whether tables are ordered, and scanned
  std::optional<bool> divided;             // whether some nodes hold no data, and some run no transactions
  std::vector<NodeRoles> roles;            // of the nodes; empty: as the seed draws
  std::optional<bool> loopback;            // atomic verbs are not atomic with the processor's, and verbs take all locks
  // A run of a campaign: at least this many transactions, at least one fault, and aimed crashes. 0: as the seed draws.
  uint64_t transactions = 0;
  std::function<void(SimConfig&)> change;  // of what was drawn, last of all
  bool leader_crashes_after_ack = false;   // test only: SimConfig::leader_crashes_after_ack
  bool leader_crashes_activating = false;  // test only: SimConfig::leader_crashes_activating
  PlantedBugs bugs;                        // test only
};

SimConfig draw_config(const SimOptions& options);

}  // namespace weft
