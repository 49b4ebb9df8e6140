// For tests of single parts of a worker: a context with a port on the in-process wire, a table, a view and a clock that
// only the test advances. Nothing runs but what the test calls. Peers are bare ports: they keep what parts send them,
// and send whatever a test wants.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/fabric/local.h"
#include "weft/fabric/port.h"
#include "weft/fabric/region.h"
#include "weft/member/node_state.h"
#include "weft/member/view.h"
#include "weft/run/no_tasks_testing.h"
#include "weft/run/worker.h"
#include "weft/store/owner_testing.h"
#include "weft/store/table.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_tables.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/pool.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class PartTest : public ::testing::Test {
 protected:
  static constexpr NodeId kSelf{0};
  static constexpr WorkerId kWorker{0};
  static constexpr TableId kTable{0};
  static constexpr int kNodes = 3;
  static constexpr uint8_t kChokes = kKindsMax - 1;  // a kind that no part has

  // A message that a peer has received.
  struct Received {
    NodeId at;
    Kind kind;
    uint32_t tag;  // of the message's header
    std::vector<std::byte> body;

    uint8_t slot() const { return static_cast<uint8_t>(tag); }
    CommitRequest request(NodeId coordinator = kSelf) const {
      EXPECT_GE(body.size(), CommitRequest::bytes(kNodes));
      return CommitRequest::of(coordinator, tag, body.data(), kNodes);
    }
    GetRequest get() const {
      GetRequest out;
      ByteView key;
      EXPECT_TRUE(GetRequest::take(tag, body, &out, &key));
      return out;
    }
    // The acks in it.
    std::vector<PhaseAck> acks() const {
      EXPECT_EQ(kind, Kind::kAck);
      EXPECT_EQ(body.size() % sizeof(PhaseAck), 0U);
      std::vector<PhaseAck> out(body.size() / sizeof(PhaseAck));
      for (size_t i = 0; i < out.size(); ++i) out[i] = load<PhaseAck>(body.data() + i * sizeof(PhaseAck));
      return out;
    }
    template <class T>
    T as() const {
      EXPECT_GE(body.size(), sizeof(T));
      return load<T>(body.data());
    }
  };

  struct Setup {
    Limits limits = {};
    PlantedBugs bugs = {};
    bool recovers = true;
    int nodes = kNodes;  // of the cluster; those after the first kNodes are silent
    bool batching = true;
    uint32_t value_bytes_max = 64;
  };

  explicit PartTest(const Limits& limits = Limits(), PlantedBugs bugs = {}, bool recovers = true)
      : PartTest(Setup{.limits = limits, .bugs = bugs, .recovers = recovers}) {}
  explicit PartTest(const Setup& setup)
      : fabric_(LocalOptions{.nodes = kNodes, .workers = 1}),
        tables_(make_tables(setup.value_bytes_max)),
        view_(std::make_shared<const View>(make_view(kNodes, 2, kNodes))),
        state_(*view_, false, 1),
        worker_(&clock_, nullptr, 1024, 64),
        pool_(std::move(*Pool::create(64 << 20))),
        port_(port_options(kSelf, setup.batching), fabric_.wire(kSelf, kWorker), nullptr),
        ctx_{.self = kSelf,
             .id = kWorker,
             .worker = &worker_,
             .port = port_,
             .wire = fabric_.wire(kSelf, kWorker),
             .cost_model = nullptr,
             .observer = nullptr,
             .events = nullptr,
             .limits = setup.limits,
             .bugs = setup.bugs,
             .nodes = setup.nodes,
             .workers = 1,
             .owners = kOwners,
             .table_batching = true,
             .recovers = setup.recovers,
             .tables = tables_,
             .state = state_,
             .views = ViewState(kSelf, view_, true),
             .faults = PeerFaults(kSelf),
             .counters = {},
             .scratch = ScratchBuffer(std::max<size_t>(1024, setup.value_bytes_max))} {
    clock_.step = 0;
    worker_.set_tasks(&no_tasks_);
    port_.set_epoch(port_epoch(view_->epoch, true));
    for (uint8_t n = 1; n < kNodes; ++n) {
      peers_.push_back(std::make_unique<Port>(port_options(NodeId(n)), fabric_.wire(NodeId(n), kWorker), nullptr));
      Port& peer = *peers_.back();
      peer.set_epoch(port_epoch(view_->epoch, true));
      recorders_.push_back(std::make_unique<Recorder>(Recorder{this, NodeId(n)}));
      for (uint8_t kind = 0; kind < kKindsMax; ++kind) {
        peer.set_handler(
            kind, [](void* to, std::span<const Message> run) { static_cast<Recorder*>(to)->take(run); },
            recorders_.back().get());
      }
    }
  }

  // The worker's step begins at this time; it does nothing of its own.
  void at(uint64_t now_ns) {
    clock_.now = now_ns;
    worker_.step();
  }

  Port& peer(NodeId node) { return *peers_[node.value - 1U]; }
  Table& table() { return *tables_.at(kTable); }

  // Delivers everything that was sent: to peers, which keep it, and to the part under test, if it has handlers.
  void deliver() {
    for (int i = 0; i < 4; ++i) {
      port_.flush();
      for (const auto& one : peers_) {
        one->flush();
        one->poll();
      }
      port_.poll();
    }
  }
  // What peers have received since the last call.
  std::vector<Received> take_received() { return std::exchange(received_, {}); }

  // A peer sends a message, and the part gets it as from the dispatcher: parsed first. Returns whether it parses; if
  // not, nothing happens.
  template <auto Parse, auto Handler, class Part>
  static bool hand_over(Part& part, NodeId from, Kind kind, const std::vector<std::byte>& body) {
    Message message{from, static_cast<uint8_t>(kind), 0, body};
    message.ok = (part.*Parse)(message);
    (part.*Handler)(Batch(), {&message, 1});
    return message.ok;
  }
  template <class T>
  static std::vector<std::byte> bytes_with(const T& header, ByteView rest = {}) {
    std::vector<std::byte> bytes(sizeof header + rest.size());
    store(bytes.data(), header);
    if (!rest.empty()) std::memcpy(bytes.data() + sizeof header, rest.data(), rest.size());
    return bytes;
  }

  // Makes a peer receive nothing: more than this many bytes of each flow wait for the wire.
  void choke(NodeId to, size_t more_than) {
    for (const Flow flow : {Flow::kExecution, Flow::kCommit, Flow::kRecovery, Flow::kControl}) {
      while (port_.queued_bytes(to, flow) <= more_than) {
        port_.reserve(to, flow, kChokes, 4096);
        port_.flush();
      }
    }
  }
  // Makes it receive everything again. Returns the messages other than those of choke().
  std::vector<Received> unchoke() {
    std::vector<Received> beside;
    for (bool some = true; some;) {
      deliver();
      const std::vector<Received> got = take_received();
      some = !got.empty();
      for (const Received& r : got) {
        if (static_cast<uint8_t>(r.kind) != kChokes) beside.push_back(r);
      }
    }
    return beside;
  }

  // The worker has stopped and is in that view: active, or recovering.
  void enter(const View& next, bool active = true) {
    ctx_.views.stop(false);
    ctx_.views.adopt(std::make_shared<const View>(next));
    if (active) ctx_.views.activate(next.epoch.value);
    port_.set_epoch(port_epoch(next.epoch, active));
    for (const auto& one : peers_) one->set_epoch(port_epoch(next.epoch, active));
  }
  // The next view, in which one node has the only in-sync replica of this partition and another is catching up.
  View catching_up_view(PartitionId partition, NodeId primary, NodeId fills) const {
    View next = ctx_.view();
    next.epoch = Epoch(next.epoch.value + 1);
    Placement& placement = next.partitions[partition.value];
    placement.replicas = {primary};
    placement.count = 1;
    placement.in_sync = NodeSet::of(primary);
    placement.catching_up = NodeSet::of(fills);
    return next;
  }

  // The n-th integer key whose primary is that node.
  uint64_t key_at(NodeId primary, int n = 0) {
    for (uint64_t key = 1;; ++key) {
      if (view_->placement(hashed(key).partition).primary() == primary && n-- == 0) return key;
    }
  }
  HashedKey hashed(const uint64_t& key) {
    return table().hashed({reinterpret_cast<const std::byte*>(&key), sizeof key});
  }
  // Puts a committed record into the table, at version 1.
  void load_record(uint64_t key, const std::string& value) {
    const HashedKey name = hashed(key);
    const Owner loader = make_owner(kSelf, kWorker, 0);
    const LockResult lock =
        table().lock(name, loader, Write::kInsert, std::nullopt, static_cast<uint32_t>(value.size()));
    ASSERT_EQ(lock.code, Code::kOk);
    table().commit(name, loader, Write::kInsert, as_bytes(value), lock.locked);
  }
  std::string value_of(uint64_t key) {
    std::vector<std::byte> room(std::max<size_t>(256, table().spec().value_bytes_max));
    const ReadResult read = table().read(hashed(key), room.data(), room.size());
    return read.found ? std::string(reinterpret_cast<const char*>(room.data()), read.value_bytes) : "(absent)";
  }
  Word word_of(uint64_t key) { return table().read(hashed(key), nullptr, 0).word; }

  HandClock clock_;
  LocalFabric fabric_;
  NodeTables tables_;
  std::shared_ptr<const View> view_;
  NodeState state_;
  Worker worker_;
  std::unique_ptr<Pool> pool_;
  Port port_;
  WorkerContext ctx_;

 private:
  struct Recorder {
    PartTest* test;
    NodeId at;
    void take(std::span<const Message> run) const {
      for (const Message& m : run) {
        test->received_.push_back({at, static_cast<Kind>(m.kind), m.tag, {m.body.begin(), m.body.end()}});
      }
    }
  };

  static PortOptions port_options(NodeId node, bool batching = true) {
    PortOptions options;
    options.batching = batching;
    options.self = node;
    options.nodes = kNodes;
    return options;
  }
  static NodeTables make_tables(uint32_t value_bytes_max) {
    TableOptions options;
    options.spec = {.name = "t", .value_bytes_max = value_bytes_max, .capacity = 1000};
    options.partitions = options.partitions_held = kNodes;
    NodeTables tables;
    auto region = Region::create(Table::region_bytes(options));
    EXPECT_TRUE(region);
    auto table = Table::create(options, region->get());
    EXPECT_TRUE(table);
    tables.add(std::move(*region), std::move(*table));
    return tables;
  }

  NoTasks no_tasks_;
  std::vector<std::unique_ptr<Port>> peers_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  std::vector<Received> received_;
};

}  // namespace weft
