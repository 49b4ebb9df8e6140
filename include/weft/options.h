// Options of a cluster and its tables: plain data, checked when the cluster opens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/types.h"

namespace weft {

// Everything that is sized at start-up. Work that exceeds a limit waits or is rejected with the limit's name and value.
struct Limits {
  uint32_t transactions_in_flight_max = 64;  // transactions that a worker runs at a time, up to 200
  uint32_t key_bytes_max = 64 << 10;         // up to 65,536
  uint32_t value_bytes_max = 16 << 20;       // up to 16,778,240
  uint32_t txn_keys_max = 4096;              // keys read or written by one transaction, up to 4,096
  uint32_t txn_bytes_max = 64 << 20;         // that one transaction reads, and as much that it writes, up to 64 MiB
  uint32_t credit_bytes = 2 << 20;           // per worker and peer: messages and answers in flight
  uint32_t transfer_chunk_bytes = 64 << 10;  // what a primary sends at a time to a replica that is catching up
  uint32_t mailbox = 1024;                   // calls from other threads that wait for a worker
  uint32_t outcome_bytes = 16 << 20;  // per worker: outcomes of decided transactions, four per byte, kept for a minute
  uint32_t outcome_timeout_ms = 10'000;  // how long Session::query_outcome waits for an answer, up to 600,000
  uint32_t answer_ms = 10'000;           // how long a transaction waits for the other nodes (kNoAnswer), up to 600,000
  uint32_t ring_bytes = 256 << 10;       // rows that log by verbs: a worker's ring at each other node, 4 KiB to 64 MiB
  uint32_t location_bytes = 4 << 20;  // rows that read by verbs: size of a worker's cache of record locations; 0: none
};

// How rows that lock by one-sided verbs lock records where a NIC's atomics are not atomic with the processor's.
enum class RemoteLockMode : uint8_t {
  kMessages,     // the processor of the record's node takes every lock
  kNicLoopback,  // the NIC of the record's node takes every lock; the node itself uses a queue pair to itself
};

enum class KeyKind : uint8_t { kInteger, kBytes };  // 8-byte integers, or byte strings
enum class PartitionBy : uint8_t { kHash, kRedisSlot, kPrefix };
// Which bytes of an integer key are its prefix. kByOrder: the high ones in an ordered table, else the low ones.
enum class IntegerPrefix : uint8_t { kByOrder, kLowBytes, kHighBytes };

struct TableSpec {
  std::string name;
  KeyKind keys = KeyKind::kInteger;
  uint32_t value_bytes_max = 64;  // of one value; values may be shorter
  uint64_t capacity = 1 << 16;    // records in the cluster, replicas not counted
  uint64_t memory_bytes_max = 0;  // per node; 0: derived from capacity and value_bytes_max
  PartitionBy partition = PartitionBy::kHash;
  // For kPrefix: the first bytes of the key choose the partition. Of an integer key these are its low bytes, or in an
  // ordered table its high bytes, taken as a number; neighbouring numbers go to different partitions.
  uint32_t prefix_bytes = 0;
  IntegerPrefix integer_prefix = IntegerPrefix::kByOrder;
  // The keys are kept in order too: integers as numbers, byte strings as bytes. Keys of one prefix are together in one
  // partition, so the table must be partitioned by prefix (or, for byte strings, by the slot of Redis, where the tag
  // decides), and integers by their high bytes.
  bool ordered = false;
};
constexpr bool prefix_is_high(const TableSpec& spec) {
  return spec.integer_prefix == IntegerPrefix::kByOrder ? spec.ordered
                                                        : spec.integer_prefix == IntegerPrefix::kHighBytes;
}

// Certificate files for an encrypted fabric. All three, or none.
struct Tls {
  std::string ca;           // of the cluster's certificate authority
  std::string certificate;  // of this node
  std::string key;
};

// What a node does; each alone is possible. A node that holds no data keeps no tables, and one that runs no
// transactions answers those that do.
enum class NodeRoles : uint8_t { kBoth, kData, kTransactions };
constexpr bool holds_data(NodeRoles roles) { return roles != NodeRoles::kTransactions; }
constexpr bool runs_transactions(NodeRoles roles) { return roles != NodeRoles::kData; }
// Disaggregated memory: compute nodes, which have the lowest ids, and memory nodes after them.
inline std::vector<NodeRoles> memory_and_compute(int memory, int compute) {
  std::vector<NodeRoles> roles(static_cast<size_t>(compute), NodeRoles::kTransactions);
  roles.resize(static_cast<size_t>(compute) + static_cast<size_t>(memory), NodeRoles::kData);
  return roles;
}

struct Options {
  int nodes = 3;
  std::vector<NodeRoles> roles;  // of an embedded cluster's nodes, by id; empty: all have both
  int replicas = 3;
  int workers = 1;     // event loops per node
  int threads = 0;     // threads that run all workers; 0: one per worker index, at most as many as cores
  int partitions = 0;  // 0: one per node that holds data
  NodeRoles roles_of(int node) const { return roles.empty() ? NodeRoles::kBoth : roles[static_cast<size_t>(node)]; }
  int data_nodes() const { return nodes - nodes_of(NodeRoles::kTransactions); }
  int transaction_nodes() const { return nodes - nodes_of(NodeRoles::kData); }
  int nodes_of(NodeRoles which) const { return static_cast<int>(std::count(roles.begin(), roles.end(), which)); }
  int partition_count() const { return partitions > 0 ? partitions : data_nodes(); }
  // A row of `weft protocols`; or several compatible ones, joined by +: a transaction uses the first unless it says
  // otherwise (Txn::set_protocol).
  std::string protocol = "dnl4";
  std::string fabric = "local";  // of an embedded cluster: usually local; shm, tcp or verbs to measure them
  Tls tls;                       // for tcp
  uint64_t hash_seed = 0x5eed;
  Limits limits;
  bool network_batching = true;
  bool table_batching = true;
  bool local_reads = true;  // transactions read at this node's backup when it has one
  // For rows with one-sided verbs.
  bool doorbell_batching = true;  // verbs of one step to one peer share a doorbell
  bool pipelined_verbs = true;    // a transaction has several verbs in flight at a time
  bool piggyback_acks = true;     // commit acknowledgements that the row allows to be late come with later ones
  bool worker_doorbells = true;   // over RDMA each worker rings a doorbell register of its own, if the device has them
  // How many verbs a worker may have in flight: "auto" is what it measures to be best, a number that many, "off" any.
  // Empty: auto on fabric verbs, where a NIC slows down when it has more than it caches; elsewhere off.
  std::string verb_credit;
  RemoteLockMode remote_lock_mode = RemoteLockMode::kMessages;
  // Each worker learns from its retry rate how long transactions wait before they retry after a conflict, and how many
  // run at a time (SMART, section 4.3). Off: each waits as its RetryPolicy says. The next three are parts of it.
  bool conflict_avoidance = false;
  bool backoff = true;        // truncated exponential, in place of RetryPolicy's; off: RetryPolicy's
  bool backoff_limit = true;  // the longest backoff follows the retry rate; off: 32 units
  // So does the number of transactions that run at a time, down to one: a coroutine that holds one and wants another
  // begins that by Session::begin_without_credit.
  bool coroutine_credit = true;
  uint64_t backoff_unit_ns = 0;  // up to 1,000,000; 0: the fabric's round trip, as measured
  bool pin_threads = false;
  uint64_t clock_step_ns = 0;  // to count instructions: the clock advances by this when it is read; 0: real time
};

}  // namespace weft
