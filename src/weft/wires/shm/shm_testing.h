// Shared by the tests of the shm interconnect: a node, stepped by hand, and waiting with a generous deadline.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/clock.h"
#include "weft/wires/shm/shm.h"

namespace weft {

inline constexpr uint64_t kShmTestNs = 300'000'000'000;

// Every test has its own names, also when the same program runs twice at once.
inline std::string shm_test_address(int node) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return "@weft/" + std::to_string(getpid()) + "/" + std::string(test->name()).substr(0, 60) + "/" +
         std::to_string(node);
}

// Steps until it holds; false after five minutes, which means a hang.
inline bool shm_wait(const std::function<bool()>& holds, const std::function<void()>& step) {
  RealClock clock;
  for (const uint64_t end = clock.now_ns() + kShmTestNs; !holds();) {
    if (clock.now_ns() > end) return false;
    step();
    sched_yield();
  }
  return true;
}

struct ShmNode {
  explicit ShmNode(ShmOptions options) : ShmNode(std::move(options), true) {}
  ShmNode(ShmOptions options, bool with_region) {
    options.params.cluster = options.params.cluster.empty() ? "test" : options.params.cluster;
    if (with_region) {
      auto made = Region::create(2 << 20, RegionKind::kHost, RegionSharing::kShared);
      EXPECT_TRUE(made);
      region = std::move(*made);
      regions.add(region.get());
      options.regions = &regions;
    }
    who = {options.node, options.incarnation, options.address};
    auto made = ShmInterconnect::create(options, &clock);
    if (!made) ADD_FAILURE() << made.error().detail;
    interconnect = std::move(*made);
  }

  // A control step; keeps the events.
  void step() {
    interconnect->control_step();
    for (InterconnectEvent& event : interconnect->take_events()) events.push_back(std::move(event));
  }
  const InterconnectEvent* find(InterconnectEvent::Kind kind, NodeId peer) const {
    for (const InterconnectEvent& event : events) {
      if (event.kind == kind && event.peer == peer) return &event;
    }
    return nullptr;
  }
  size_t count(InterconnectEvent::Kind kind) const {
    size_t n = 0;
    for (const InterconnectEvent& event : events) n += event.kind == kind;
    return n;
  }
  ShmWire* wire(int worker = 0) { return interconnect->wire(WorkerId(static_cast<uint8_t>(worker))); }

  RealClock clock;
  std::unique_ptr<Region> region;
  Regions regions;
  InterconnectPeer who;
  std::unique_ptr<ShmInterconnect> interconnect;
  std::vector<InterconnectEvent> events;
};

inline ShmOptions shm_test_options(int node) {
  ShmOptions options;
  options.address = shm_test_address(node);
  options.node = NodeId(static_cast<uint8_t>(node));
  return options;
}

// Joins all, waits until each is connected to all others, and accepts them at every worker.
inline void shm_connect_all(const std::vector<ShmNode*>& nodes, int workers = 1) {
  for (ShmNode* a : nodes) {
    for (ShmNode* b : nodes) {
      if (a == b) continue;
      a->interconnect->join(b->who);
      for (int w = 0; w < workers; ++w) a->wire(w)->accept_incarnation(b->who.node, b->who.incarnation);
    }
  }
  const auto all_up = [&] {
    for (const ShmNode* a : nodes) {
      for (const ShmNode* b : nodes) {
        if (a != b && a->find(InterconnectEvent::Kind::kUp, b->who.node) == nullptr) return false;
      }
    }
    return true;
  };
  EXPECT_TRUE(shm_wait(all_up, [&] {
    for (ShmNode* node : nodes) node->step();
  })) << "all are connected";
  // The workers take their links.
  for (ShmNode* node : nodes) {
    for (int w = 0; w < workers; ++w) {
      node->wire(w)->poll({});
      node->wire(w)->release();
    }
  }
}

// Counts what this process has open and mapped: the "fd" and "map" lines that a leak would add to.
struct ShmLeakCounts {
  size_t fds = 0;
  size_t maps = 0;
  static ShmLeakCounts now() {
    ShmLeakCounts traces;
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) traces.fds += !fd.path().empty();
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) traces.maps += line.find("weft ") != std::string::npos;
    return traces;
  }
  friend bool operator==(const ShmLeakCounts&, const ShmLeakCounts&) = default;
};

inline std::vector<std::byte> shm_text(std::string_view s) {
  const ByteView v = as_bytes(s);
  return {v.begin(), v.end()};
}

}  // namespace weft
