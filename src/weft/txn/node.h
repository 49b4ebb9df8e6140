// Node: one server's tables and its workers' engines. Whoever assembles a cluster (cluster/embedded.h in real time,
// sim/ in virtual time) makes one per server and gives it time, randomness and a network through an Environment.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/base/clock.h"
#include "weft/base/event_log.h"
#include "weft/fabric/own_words.h"
#include "weft/fabric/region.h"
#include "weft/fabric/view.h"
#include "weft/fabric/wire.h"
#include "weft/options.h"
#include "weft/run/worker.h"
#include "weft/store/table.h"
#include "weft/txn.h"
#include "weft/txn/change.h"
#include "weft/txn/log_ring.h"
#include "weft/txn/witness.h"

namespace weft {

class TxnWorker;
struct Protocol;

// What all nodes of a cluster agree on.
struct ClusterSpec {
  Options options;
  std::vector<TableSpec> tables;
  std::vector<Declared> procedures;
  Bugs bugs;                   // test only
  bool recovers = false;       // views change, so that a node may come to hold any partition
  bool shares_memory = false;  // with other processes of the host, so that their verbs reach it
  uint64_t answer_ns = 0;      // test only: in the place of limits.answer_ms
};

// What is wrong with it, or nothing: names the option and its value.
Result<void> check_spec(const ClusterSpec& spec);
// Whether engines of these options are sized for the view: what another configuration has made is not taken.
Result<void> check_view(const View& view, const Options& options);

// Where a node's time, randomness and network come from. Outlives the node.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual Clock* clock(NodeId node) = 0;
  virtual Charges* charges(NodeId node, WorkerId worker) = 0;  // may be nullptr
  virtual Wire* wire(NodeId node, WorkerId worker) = 0;
  // nullptr: the node's processor swaps (Mesh::own_words).
  virtual OwnWords* own_words(NodeId node) {
    (void)node;
    return nullptr;
  }
  virtual Regions* regions(NodeId node) = 0;  // the node adds its tables' regions
  virtual uint64_t seed(NodeId node, WorkerId worker) = 0;
  virtual Witness* witness() { return nullptr; }
  virtual EventLog* events() { return nullptr; }  // who wants to be told; nullptr: nobody
};

class Node {
 public:
  // A node's tables, empty. To make them takes long if they are large, and needs no view.
  struct Tables {
    std::vector<std::unique_ptr<Region>> regions;
    std::vector<std::unique_ptr<Table>> tables;
  };
  // `held`: partitions of which the node may have a replica.
  static Result<Tables> make_tables(const ClusterSpec& spec, int partitions, int held);

  // A node that joins starts stopped, with a view that it is not in, and waits for one that it is (TxnWorker::adopt).
  static Result<std::unique_ptr<Node>> create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                              bool joins = false);
  // The same with tables that were made before, for all partitions.
  static Result<std::unique_ptr<Node>> create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                              bool joins, Tables tables);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  NodeId id() const { return id_; }
  const View& view() const { return *view_; }  // the first; each engine has its own newest
  std::shared_ptr<const View> shared_view() const { return view_; }
  bool joins() const { return joins_; }
  // By which this process finds itself in a view (Member::token). Set before the workers run, by whoever lets it join.
  void set_token(uint64_t token) { token_ = token; }
  uint64_t token() const { return token_; }
  // A new view for all workers: each adopts it in its next step.
  void publish(std::shared_ptr<const View> view);
  uint32_t published_epoch() const { return published_epoch_.load(std::memory_order_acquire); }
  std::shared_ptr<const View> published() const;
  ViewChange last_change() const;  // of all workers together
  // Wakes the threads that run this node's workers; publish() does that too. Set before they run.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }
  void wake() const {
    if (wake_) wake_();
  }

  // The lease (rule E1): until when this node may say that something is current. Without set_lease, always.
  void set_lease(uint64_t until_ns) { lease_until_ns_.store(until_ns, std::memory_order_release); }
  uint64_t lease_until_ns() const { return lease_until_ns_.load(std::memory_order_acquire); }
  bool leased() const { return lease_until_ns() != UINT64_MAX; }
  // Leases that this node gave to members that are removed have run out then (rule E2).
  void set_fenced_after(uint64_t at_ns) { fenced_after_ns_.store(at_ns, std::memory_order_release); }
  uint64_t fenced_after_ns() const { return fenced_after_ns_.load(std::memory_order_acquire); }
  // A worker has closed its channel to this peer for what it sent: it must be removed. From any thread.
  void peer_closed(NodeId peer, uint32_t incarnation) {
    closed_[peer.value].store(incarnation, std::memory_order_release);
  }
  // The connection to this peer is lost. One of the two must be removed; if neither can be, they are connected again
  // for a view that has both. From any thread.
  void peer_lost(NodeId peer, uint32_t incarnation) { lost_[peer.value].store(incarnation, std::memory_order_release); }
  bool has_lost(NodeId peer, uint32_t incarnation) const {
    return lost_[peer.value].load(std::memory_order_acquire) == incarnation && incarnation != 0;
  }
  bool has_closed(NodeId peer, uint32_t incarnation) const {
    return closed_[peer.value].load(std::memory_order_acquire) == incarnation && incarnation != 0;
  }
  // Before that view is published: the workers begin anew with the peer when they adopt it, and only when all of them
  // have may there be a connection again (may_reconnect): both ends of one count packets from 0.
  void reconnect(NodeId peer, Epoch epoch) {
    reconnects_[peer.value].store(epoch.value, std::memory_order_release);
    lost_[peer.value].store(0, std::memory_order_release);
  }
  uint32_t reconnects(NodeId peer) const { return reconnects_[peer.value].load(std::memory_order_acquire); }
  bool may_reconnect(NodeId peer, uint32_t incarnation) const {
    return !has_lost(peer, incarnation) &&
           std::all_of(adopted_.begin(), adopted_.begin() + workers(),
                       [&](const auto& at) { return at.load(std::memory_order_acquire) >= reconnects(peer); });
  }
  void worker_adopted(Epoch epoch, WorkerId worker) {
    adopted_[worker.value].store(epoch.value, std::memory_order_release);
  }
  // How far the node's workers are with what a view change leaves to do in the tables (partition_gc.h), one at a time.
  struct Sweep {
    std::mutex mutex;
    uint32_t epoch = 0;
    enum class Stage : uint8_t { kDiscard, kSettle, kReady } stage = Stage::kDiscard;
    std::vector<bool> partitions;  // that this stage is about
    size_t table = 0;              // the next one
    bool words = false;            // of it, the absence words; else the records
    size_t partition = 0;          // whose words
    uint64_t cursor = 0;
  };
  Sweep& sweep() { return sweep_; }
  // Partitions of which this node may still have what another view gave it: they are discarded, and before it fills one
  // of them again. From any thread.
  std::vector<bool> stale() const;
  bool has_stale() const { return stale_count_.load(std::memory_order_acquire) != 0; }
  void discarded(const std::vector<bool>& partitions);
  // One-sided access (rows with verbs). The regions of the tables are numbered as the tables are, at every node; then
  // comes the verb region, with the log rings that peers write and the memory that the workers' own verbs use.
  RegionId table_region(TableId table) const { return RegionId(table.value); }
  RegionId verb_region() const { return RegionId(static_cast<uint16_t>(tables_.size())); }
  size_t ring_bytes() const { return spec_.options.limits.ring_bytes / kRingAlign * kRingAlign; }
  uint64_t ring_offset(WorkerId worker, NodeId writer) const {
    return (uint64_t{worker.value} * static_cast<uint64_t>(spec_.options.nodes) + writer.value) * ring_bytes();
  }
  const std::byte* ring_memory(WorkerId worker, NodeId writer) const {
    return verb_memory_->base() + ring_offset(worker, writer);
  }
  // By which records are locked, here and by peers; nullptr: by the processor.
  const OwnWords* own_words() const { return own_words_; }
  size_t post_bytes() const;  // of each worker
  std::byte* post_memory(WorkerId worker) const;
  // Rule O3: no verb that a peer has posted so far, or posts before the view `epoch` is about to be active, lands after
  // this. By the first worker that adopts it. For all peers: what a member that stays has posted belongs to the view
  // that ends, too.
  void stop_access(Epoch epoch);
  // Recovery into `view` goes on by steps that all workers of this node take together. Says that this one is ready for
  // a step, and returns whether all are. At the first all members have stopped; where they use verbs, they get access
  // again.
  enum class Together : uint8_t { kApply, kCommit, kFree };
  bool together(Together step, const View& view, WorkerId worker);
  // The last view in which a worker of this node was active, nullptr: none was. Between kApply, when all of them have
  // stopped, and the moment the first is active in the new view it does not change, and every worker finds the same:
  // what one has copied while it filled a partition, decisions of another must know of.
  void went_active(std::shared_ptr<const View> view);
  std::shared_ptr<const View> last_active() const;
  // At the leader: the workers that have carried everything out wait for each other.
  void worker_recovered(Epoch epoch, WorkerId worker) {
    recovered_[worker.value].store(epoch.value, std::memory_order_release);
  }
  bool workers_recovered(Epoch epoch) const {
    return std::all_of(recovered_.begin(), recovered_.begin() + workers(),
                       [&](const auto& at) { return at.load(std::memory_order_acquire) >= epoch.value; });
  }
  const ClusterSpec& spec() const { return spec_; }
  const Protocol& protocol() const { return *protocol_; }
  Table* table(TableId id) const { return tables_[id.value].get(); }
  size_t tables() const { return tables_.size(); }
  Worker* worker(WorkerId id) const { return workers_[id.value].get(); }
  TxnWorker* engine(WorkerId id) const { return engines_[id.value].get(); }
  int workers() const { return static_cast<int>(workers_.size()); }

  // While the workers do not run: makes them and their engines anew, with other switches, over the same tables.
  void drop_engines();
  // The last one that a worker of this node has given: those made anew go on from there, so that no id comes twice.
  uint64_t last_sequence() const { return last_sequence_; }
  Result<void> make_engines(const Options& options, Environment* env);

  // Puts a record into this node's copy without a transaction, readable, at version 1: for loading before the start.
  Result<void> load(TableId table, ByteView key, ByteView value);

 private:
  Node(NodeId id, const ClusterSpec& spec, const View& view, bool joins);
  void note_stale(const View& before, const View& now);
  Result<void> make_verb_memory();
  void grant_access(const View& view);
  const NodeId id_;
  ClusterSpec spec_;
  const std::shared_ptr<const View> view_;
  const bool joins_;
  uint64_t token_ = 0;
  std::function<void()> wake_;
  mutable std::mutex published_mutex_;
  std::shared_ptr<const View> published_;
  std::shared_ptr<const View> last_active_;  // under the same mutex
  std::atomic<uint32_t> published_epoch_{0};
  std::atomic<uint64_t> lease_until_ns_{UINT64_MAX};
  std::atomic<uint64_t> fenced_after_ns_{0};
  std::array<std::atomic<uint32_t>, kWorkersMax> recovered_{};
  std::array<std::array<std::atomic<uint32_t>, kWorkersMax>, 3> together_{};  // by step: the epoch
  Regions* regions_ = nullptr;
  OwnWords* own_words_ = nullptr;
  std::unique_ptr<Region> verb_memory_;  // rings that peers write
  std::unique_ptr<Region> post_memory_;  // for the local ends of verbs: no peer reaches it
  std::mutex access_mutex_;
  Epoch access_epoch_;                                             // access belongs to this view, or was stopped for it
  bool access_ = false;                                            // is granted
  std::array<std::atomic<uint32_t>, kNodesMax + 1> closed_{};      // by peer: the incarnation
  std::array<std::atomic<uint32_t>, kNodesMax + 1> lost_{};        // the same
  std::array<std::atomic<uint32_t>, kNodesMax + 1> reconnects_{};  // by peer: the epoch
  std::array<std::atomic<uint32_t>, kWorkersMax> adopted_{};
  Sweep sweep_;
  std::vector<bool> stale_;  // by partition; with published_mutex_
  std::atomic<size_t> stale_count_{0};
  const Protocol* protocol_ = nullptr;
  std::vector<std::unique_ptr<Region>> table_regions_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<TxnWorker>> engines_;
  uint64_t last_sequence_ = 0;
};

}  // namespace weft
