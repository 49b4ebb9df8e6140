// Shared by the tests of agents: three nodes over a local fabric with an agent each, stepped by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/event_log.h"
#include "weft/member/node_agent.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"

namespace weft {

inline constexpr uint64_t kLeaseNs = 1'000'000;

class FakeMembership final : public Membership {
 public:
  std::shared_ptr<const View> latest() override { return view; }
  void propose(const View& next) override {
    if (away || (view != nullptr && next.epoch.value != view->epoch.value + 1)) return;
    view = std::make_shared<const View>(next);
    ++changes;
  }
  bool fenced(NodeId node, uint32_t) override { return node == ended; }
  NodeId ended{kNodesMax};  // whose process has ended
  std::shared_ptr<const View> view;
  int changes = 0;
  bool away = false;
};

class AgentTest : public testing::Test, public HandNodes {
 protected:
  // Time advances only between steps, and began long ago.
  AgentTest() {
    clock_.now = 5'000'000'000;
    clock_.step = 0;
  }

  // Without the enemy's agent and worker if `enemy`.
  void start(bool enemy, int workers = 1) {
    spec_ = three_nodes();
    spec_.options.workers = workers;
    spec_.recovers = true;
    spec_.bugs = bugs_;
    make_network();
    for (Member& member : view_.members) member.token = 100 + member.node.value;
    membership_.view = slow_membership_.view = std::make_shared<const View>(view_);
    for (uint8_t n = 0; n < 3; ++n) {
      if (enemy && NodeId(n) == enemy_id_) continue;
      start_with_agent(NodeId(n), view_, 100U + n, false);
    }
    if (enemy) start_enemy();
  }

  void start_with_agent(NodeId id, const View& view, uint64_t token, bool joins) {
    ASSERT_NO_FATAL_FAILURE(start_node(id, view, joins));
    NodeAgentOptions options;
    options.lease_ns = lease_ns_;
    options.self.node = id;
    options.self.token = token;
    FakeMembership* const membership = id == slow_ ? &slow_membership_ : &membership_;
    agents_[id.value] = std::make_unique<NodeAgent>(options, nodes_[id.value]->agent_host(), membership);
  }

  // The enemy keeps its leases, and follows the protocol up to the unlock.
  void enemy_hears(std::span<const Message> run) override {
    for (const Message& m : run) {
      const auto kind = static_cast<Kind>(m.kind);
      if (kind == Kind::kControl) {
        std::byte* at = enemy_->reserve(m.source, Flow::kControl, m.kind, m.body.size());
        std::memcpy(at, m.body.data(), m.body.size());
        store(at + 12, uint32_t{1});
      }
      if (kind != Kind::kLock && kind != Kind::kReplicate && kind != Kind::kValidate) continue;
      const int nodes = spec_.options.nodes;
      const CommitRequest request = CommitRequest::of(m.source, m.tag, m.body.data(), nodes);
      size_t bases = 0;
      if (kind == Kind::kLock) {
        const std::byte* at = m.body.data() + CommitRequest::bytes(nodes);
        for (KeyPartView view; take_key(&at, m.body.data() + m.body.size(), &view);) ++bases;
      }
      std::byte* at = enemy_->reserve(m.source, Flow::kCommit, static_cast<uint8_t>(Kind::kReply),
                                      sizeof(PhaseReply) + bases * sizeof(uint64_t), request.slot);
      PhaseReply reply{};
      reply.sequence = static_cast<uint32_t>(request.sequence);
      if (kind == Kind::kValidate) reply.phase = static_cast<uint8_t>(Phase::kValidate);
      if (kind == Kind::kLock) reply.phase = static_cast<uint8_t>(Phase::kLock);
      if (kind == Kind::kReplicate) reply.phase = static_cast<uint8_t>(Phase::kReplicate);
      reply.bases = static_cast<uint16_t>(bases);
      store(at, reply);
      for (size_t i = 0; i < bases; ++i) store(at + sizeof reply + i * sizeof(uint64_t), uint64_t{0});
    }
  }

  void run_for(uint64_t ns) {
    for (const uint64_t end = clock_.now + ns; clock_.now < end; clock_.now += kLeaseNs / 64) steps(4);
  }

  DetachedTask read(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    Txn txn = co_await session.begin();
    co_await txn.get(kTable, key);
    outcomes->push_back(co_await txn.commit());
  }

  DetachedTask get(Session session, uint64_t key, std::vector<bool>* found) {
    char room[16];
    Task<Session::GetResult> task = session.get_one(kTable, key, room);
    const Session::GetResult one = co_await task;
    found->push_back(one.outcome.committed() && one.found);
  }

  EventLog* events() override { return &events_; }
  std::vector<std::string> suspected() const {
    std::vector<std::string> out;
    for (const LoggedEvent& event : events_.since(0)) {
      if (event.name == "member_suspected") out.push_back(event.text());
    }
    return out;
  }

  bool gone_on(size_t node) {
    return txn_worker(node)->active() && txn_worker(node)->view().epoch == membership_.view->epoch;
  }

  // The connection of nodes 0 and 2 breaks; node 2 is removed, and does not learn of it.
  void lose_node_2() {
    lease_ns_ = 10 * kLeaseNs;  // a leader retries after 2 ms
    slow_ = NodeId(2);
    slow_membership_.away = true;
    membership_.changes = 0;
    ASSERT_NO_FATAL_FAILURE(start(false));
    run_for(2 * lease_ns_);
    ASSERT_EQ(membership_.changes, 0);
    ASSERT_GT(nodes_[2]->state().lease.until_ns(), clock_.now + lease_ns_ / 2);
    nodes_[0]->state().links.set_closed(NodeId(2), membership_.view->find(NodeId(2))->incarnation);
    agents_[0]->notify();
    run_for(lease_ns_ / 16);
    ASSERT_EQ(membership_.view->find(NodeId(2)), nullptr);
  }

  PlantedBugs bugs_;
  uint64_t lease_ns_ = kLeaseNs;
  EventLog events_{-1, EventLog::Form::kJson, &clock_};
  FakeMembership membership_;
  NodeId slow_{kNodesMax};  // whose membership does not see changes
  FakeMembership slow_membership_;
  std::unique_ptr<NodeAgent> agents_[3];
};

}  // namespace weft
