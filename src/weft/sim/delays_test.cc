// Message delays until a stored procedure is acknowledged, and the messages that it causes until its locks are
// released, in virtual time: a message takes 1,000 ns, and nothing else takes any time. `weft protocols` prints
// delays() and procedure_messages(), which must be what happens here.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/run/detached_task.h"
#include "weft/sim/events.h"
#include "weft/sim/network.h"
#include "weft/txn/node.h"
#include "weft/txn/procedure_testing.h"
#include "weft/txn/protocol.h"
#include "weft/txn/txn_testing.h"
#include "weft/txn/txn_worker.h"

namespace weft {
namespace {

constexpr uint64_t kDelayNs = 1000;

NetworkConfig without_jitter() {
  NetworkConfig network;
  network.base_ns = kDelayNs;
  network.jitter_ns = network.tail_permille = network.late_percent = 0;
  network.line_gap_ns = network.atomic_gap_ns = 0;
  return network;
}

class DelayCluster final : public Environment, public Wakeups, public EventSink {
 public:
  DelayCluster(std::string_view protocol, int nodes, int replicas)
      : network_(without_jitter(), nodes, 1, 1, &events_, nullptr), clock_(&events_) {
    spec_.options.protocol = protocol;
    spec_.options.nodes = nodes;
    spec_.options.replicas = replicas;
    spec_.tables = {{.name = "t", .value_bytes_max = 4096}};
    spec_.procedures = {words_procedure()};
    view_ = make_view(nodes, replicas, spec_.options.partition_count());
    network_.set_wakeups(this);
    due_ns_.assign(static_cast<size_t>(nodes), UINT64_MAX);
    for (const Member& member : view_.members) network_.set_incarnation(member.node, member.incarnation);
    for (int n = 0; n < nodes; ++n) {
      auto node = Node::create(NodeId(static_cast<uint8_t>(n)), spec_, view_, this);
      if (!node) ADD_FAILURE() << node.error().text();
      nodes_.push_back(std::move(*node));
    }
    for (uint64_t key = 0; key < kKeys; ++key) {
      for (const NodeId n : placement(key).in_sync) {
        EXPECT_TRUE(nodes_[n.value]->load(kProcedureTable, bytes_of(key), as_bytes("v")));
      }
    }
    run_for(10'000);
  }
  ~DelayCluster() override { run_for(100'000'000); }

  // A key with these replicas, the first of them its primary.
  std::string key_at(std::initializer_list<int> replicas) const {
    for (uint64_t key = 0; key < kKeys; ++key) {
      const Placement& place = placement(key);
      if (place.in_sync == node_set(replicas) && place.primary().value == *replicas.begin()) return std::to_string(key);
    }
    ADD_FAILURE() << "no such key";
    return "0";
  }

  struct Cost {
    uint64_t delays = 0;    // until it is acknowledged
    uint64_t messages = 0;  // until it is unlocked, answers included
  };
  // Calls it at node 0.
  Cost call(const std::string& arguments) {
    const uint64_t began_ns = events_.now_ns(), messages = messages_sent();
    uint64_t told_ns = 0;
    call(Session(nodes_[0]->txn_worker(WorkerId(0))), arguments, &told_ns);
    wake(NodeId(0), WorkerId(0));
    while (told_ns == 0 && events_.run_one()) {
    }
    EXPECT_EQ((told_ns - began_ns) % kDelayNs, 0U);
    run_for(100'000'000);
    return {(told_ns - began_ns) / kDelayNs, messages_sent() - messages};
  }

  Clock* clock(NodeId) override { return &clock_; }
  CostModel* cost_model(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId node, WorkerId worker) override { return network_.wire(node, worker); }
  LocalAtomics* local_atomics(NodeId node) override { return network_.local_atomics(node); }
  Regions* regions(NodeId node) override { return network_.regions(node); }
  uint64_t seed(NodeId node, WorkerId) override { return node.value; }

  void wake(NodeId node, WorkerId) override { schedule(node.value, events_.now_ns()); }
  void on_event(const Event& event) override {
    if (event.at_ns != due_ns_[event.a]) return;
    due_ns_[event.a] = UINT64_MAX;
    const NodeId node(static_cast<uint8_t>(event.a));
    Worker* const worker = nodes_[event.a]->worker(WorkerId(0));
    const bool busy = worker->step();
    network_.depart(node, WorkerId(0), events_.now_ns());
    if (busy || worker->pending()) {
      schedule(event.a, events_.now_ns());
      ASSERT_LT(++steps_at_once_, 1'000) << "a worker does not come to rest";
    } else {
      steps_at_once_ = 0;
      schedule(event.a, std::max(worker->deadline_ns(), events_.now_ns() + 1));
    }
  }

 private:
  static constexpr uint64_t kKeys = 400;

  static ByteView bytes_of(const uint64_t& key) { return {reinterpret_cast<const std::byte*>(&key), sizeof key}; }
  const Placement& placement(uint64_t key) const {
    return view_.placement(nodes_[0]->table(kProcedureTable)->hashed(bytes_of(key)).partition);
  }
  DetachedTask call(Session session, std::string arguments, uint64_t* told_ns) {
    Task<Outcome> task = session.call(ProcedureId(0), arguments);
    const Outcome outcome = co_await task;
    EXPECT_TRUE(committed(outcome));
    *told_ns = events_.now_ns();
  }
  void schedule(size_t node, uint64_t at_ns) {
    if (at_ns >= due_ns_[node]) return;
    due_ns_[node] = at_ns;
    events_.set(at_ns, EventKind::kStep, this, node);
  }
  void run_for(uint64_t ns) {
    for (size_t n = 0; n < nodes_.size(); ++n) schedule(n, events_.now_ns());
    events_.run_until(events_.now_ns() + ns);
  }
  // Without the notices that ride on others.
  uint64_t messages_sent() const {
    uint64_t all = 0;
    for (const auto& node : nodes_) {
      const Counters counters = node->txn_worker(WorkerId(0))->counters();
      for (const uint64_t n : counters.phase_messages) all += n;
    }
    return all;
  }

  Events events_;
  Network network_;
  SimClock clock_;
  ClusterSpec spec_;
  View view_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<uint64_t> due_ns_;  // by node: its next step
  int steps_at_once_ = 0;
};

struct Cost {
  const char* protocol;
  uint64_t delays, messages;  // called where there is no replica
  uint64_t delays_at_backup, messages_at_backup;
};
// One key is read and written, and has three replicas. Of the messages of rows with verbs only those that are messages.
constexpr Cost kCosts[] = {
    {"dnl4", 8, 10, 6, 6}, {"dnl2", 6, 12, 4, 8}, {"dnl1", 4, 14, 2, 8}, {"fasst", 6, 8, 6, 8}, {"hop", 3, 8, 3, 6}};

// The notices at the end, to each other node that has a record.
uint64_t notices(bool at_backup) { return at_backup ? 2 : 3; }

TEST(Delays, OfOneKeyThatIsReadAndWritten) {
  for (const Cost& cost : kCosts) {
    SCOPED_TRACE(cost.protocol);
    DelayCluster seven(cost.protocol, 7, 3);
    const DelayCluster::Cost remote = seven.call("u" + seven.key_at({1, 2, 3}));
    EXPECT_EQ(remote.delays, cost.delays);
    EXPECT_EQ(remote.messages, cost.messages + notices(false));
    DelayCluster three(cost.protocol, 3, 3);
    const DelayCluster::Cost at_backup = three.call("u" + three.key_at({1, 2, 0}));
    EXPECT_EQ(at_backup.delays, cost.delays_at_backup);
    EXPECT_EQ(at_backup.messages, cost.messages_at_backup + notices(true));
    const Protocol& row = *find_protocol(cost.protocol);
    EXPECT_EQ(cost.messages, static_cast<uint64_t>(procedure_messages(row, false)));
    EXPECT_EQ(cost.messages_at_backup, static_cast<uint64_t>(procedure_messages(row, true)));
  }
}

TEST(Delays, AreThoseThatAreComputedFromTheRow) {
  for (const Protocol& row : kProtocols) {
    SCOPED_TRACE(row.name);
    DelayCluster cluster(row.name, 7, 3);
    EXPECT_EQ(cluster.call("u" + cluster.key_at({1, 2, 3})).delays, static_cast<uint64_t>(delays(row, false)));
    EXPECT_EQ(cluster.call("u" + cluster.key_at({6, 0, 1})).delays, static_cast<uint64_t>(delays(row, true)));
  }
}

TEST(Delays, OfHop) {
  DelayCluster cluster("hop", 7, 3);
  const std::string own = cluster.key_at({0, 1, 2}), there = cluster.key_at({1, 2, 3}), far = cluster.key_at({4, 5, 6});
  EXPECT_EQ(cluster.call("u" + own).delays, 2U) << "all keys are here";
  EXPECT_EQ(cluster.call("r" + own).delays, 0U);
  EXPECT_EQ(cluster.call("u" + own + " p" + there).delays, 3U) << "shipped with what is here";
  EXPECT_EQ(cluster.call("r" + own + " p" + there).delays, 3U);
  EXPECT_EQ(cluster.call("r" + far).delays, 2U) << "it writes nothing";
  EXPECT_EQ(cluster.call("p" + there + " p" + far).delays, 4U) << "two primaries are asked";
  EXPECT_EQ(cluster.call("p" + there + " r" + far).delays, 6U) << "and what is only read there is validated";
  EXPECT_EQ(cluster.call("p" + there + " r" + far + " r" + own).delays, 6U);
  EXPECT_EQ(cluster.call("p" + own + " r" + far + " p" + there).delays, 6U);
  EXPECT_EQ(cluster.call("r" + far + " r" + cluster.key_at({3, 4, 5})).delays, 4U) << "read, and validated";
}

}  // namespace
}  // namespace weft
