// Shared by the tests of wires between hosts: interconnects on 127.0.0.1 that one thread, or a few, step through.
// Fabric defines which one: its types Options, Interconnect and Wire; options(node, workers, incarnation), which makes
// options for a test; and is_up(wire, peer), whether the worker's part of the set-up is done.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/clock.h"
#include "weft/fabric/region.h"
#include "weft/wires/interconnect.h"

namespace weft {

inline constexpr uint64_t kInterconnectTestDeadlineNs = 300'000'000'000;

inline NodeId node_id(size_t n) { return NodeId(static_cast<uint8_t>(n)); }
inline WorkerId worker_id(size_t w) { return WorkerId(static_cast<uint8_t>(w)); }

template <class Fabric>
struct InterconnectTestNode {
  std::unique_ptr<Region> region;
  Regions regions;
  RegionId region_id;
  std::unique_ptr<typename Fabric::Interconnect> interconnect;
  std::vector<InterconnectEvent> events;
};

template <class Fabric>
class InterconnectTestNet {
 public:
  using Options = typename Fabric::Options;
  using Node = InterconnectTestNode<Fabric>;

  // Nodes with a region of 2 MiB each; connect_all() makes every worker accept all peers.
  explicit InterconnectTestNet(
      size_t nodes, int workers = 1, const std::function<void(size_t, Options&)>& change = [](size_t, Options&) {}) {
    for (size_t n = 0; n < nodes; ++n) {
      Options options = Fabric::options(n, workers, 1);
      change(n, options);
      add(options);
    }
  }

  Node& add(const Options& options) {
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    auto region = Region::create(2 << 20);
    EXPECT_TRUE(region);
    node.region = std::move(*region);
    node.region_id = node.regions.add(node.region.get());
    auto interconnect = Fabric::Interconnect::create(options, &node.regions, &clock_);
    EXPECT_TRUE(interconnect) << interconnect.error().text();
    node.interconnect = std::move(*interconnect);
    workers_ = static_cast<size_t>(Fabric::workers(options));
    return node;
  }

  Node& node(size_t n) { return *nodes_[n]; }
  // A verb on that node's region.
  Verb verb_to(size_t n, VerbKind kind, uint64_t offset, void* local, uint32_t bytes, uint64_t tag) {
    Verb verb;
    verb.kind = kind;
    verb.region = node(n).region_id;
    verb.offset = offset;
    verb.bytes = bytes;
    verb.local = static_cast<std::byte*>(local);
    verb.tag = tag;
    return verb;
  }
  typename Fabric::Interconnect& interconnect(size_t n) { return *nodes_[n]->interconnect; }
  typename Fabric::Wire& wire(size_t n, size_t w = 0) { return *nodes_[n]->interconnect->wire(worker_id(w)); }
  size_t workers() const { return workers_; }
  Clock* clock() { return &clock_; }

  void join(size_t a, size_t b, uint32_t incarnation = 1) {
    interconnect(a).join({node_id(b), incarnation, interconnect(b).address()});
  }
  void accept_incarnation(size_t a, size_t b, uint32_t incarnation = 1) {
    for (size_t w = 0; w < workers_; ++w) wire(a, w).accept_incarnation(node_id(b), incarnation);
  }
  void grant(size_t a, size_t b) { nodes_[a]->regions.grant(node_id(b), Domain::kEngine); }

  // Connects both directions and waits until both are up, accepted and granted, and the workers have taken the
  // connections.
  void connect(size_t a, size_t b) {
    grant(a, b), grant(b, a);
    join(a, b), join(b, a);
    accept_incarnation(a, b), accept_incarnation(b, a);
    EXPECT_TRUE(until([&] { return is_up(a, b) && is_up(b, a); })) << "nodes " << a << " and " << b;
    for (size_t w = 0; w < workers_; ++w) receive(a, w), receive(b, w);
    EXPECT_TRUE(until_polling([&] { return links_up(a, b) && links_up(b, a); })) << "nodes " << a << " and " << b;
  }
  // Whether the workers' part of the set-up is done.
  bool links_up(size_t a, size_t b) {
    for (size_t w = 0; w < workers_; ++w) {
      if (!Fabric::is_up(wire(a, w), node_id(b))) return false;
    }
    return true;
  }

  void control() {
    for (const auto& node : nodes_) {
      if (node->interconnect == nullptr) continue;
      node->interconnect->control_step();
      for (InterconnectEvent& event : node->interconnect->take_events()) node->events.push_back(std::move(event));
    }
  }
  // Runs control steps of all nodes until it holds; false after a long time.
  bool until(const std::function<bool()>& holds) {
    const uint64_t deadline_ns = clock_.now_ns() + kInterconnectTestDeadlineNs;
    while (!holds()) {
      if (clock_.now_ns() > deadline_ns) return false;
      control();
      std::this_thread::yield();
    }
    return true;
  }
  // The same, and polls every wire; received packets are thrown away.
  bool until_polling(const std::function<bool()>& holds) {
    return until([&] {
      for (size_t n = 0; n < nodes_.size(); ++n) {
        for (size_t w = 0; w < workers_ && nodes_[n]->interconnect != nullptr; ++w) receive(n, w);
      }
      return holds();
    });
  }

  // Whether a worker with nothing left to do may sleep, after it has handled events of what it did before.
  bool settles(size_t n, size_t w = 0) {
    return until_polling([&] { return !wire(n, w).pending(); });
  }

  // Whether the last event about a peer says that it is up.
  bool is_up(size_t a, size_t b, uint32_t incarnation = 1) {
    bool up = false;
    for (const InterconnectEvent& event : nodes_[a]->events) {
      if (event.peer != node_id(b) || event.incarnation != incarnation) continue;
      if (event.kind == InterconnectEvent::Kind::kUp) up = true;
      if (event.kind == InterconnectEvent::Kind::kDown) up = false;
    }
    return up;
  }
  // The first event of a kind whose text contains `words`; nullptr if there is none.
  const InterconnectEvent* find(size_t a, InterconnectEvent::Kind kind, const std::string& words = {}) {
    for (const InterconnectEvent& event : nodes_[a]->events) {
      if (event.kind == kind && event.why.find(words) != std::string::npos) return &event;
    }
    return nullptr;
  }
  std::string all_events(size_t a) {
    std::string all;
    for (const InterconnectEvent& event : nodes_[a]->events) {
      all += std::to_string(static_cast<int>(event.kind)) + " of node " + std::to_string(event.peer.value) + ": " +
             event.why + "\n";
    }
    return all;
  }

  // One poll; copies of the packets.
  std::vector<std::pair<NodeId, std::string>> receive(size_t n, size_t w = 0) {
    std::vector<std::pair<NodeId, std::string>> got;
    Packet packets[16];
    const size_t count = wire(n, w).poll(packets);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(packets[i].bytes.data()) % 8, 0U);
      got.emplace_back(packets[i].source, as_text(packets[i].bytes));
    }
    wire(n, w).release();
    return got;
  }

 private:
  RealClock clock_;
  size_t workers_ = 1;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace weft
