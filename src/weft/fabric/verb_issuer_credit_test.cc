// VerbIssuer with a VerbCredit: who waits for whom, that nothing waits for ever, and that all credit comes back.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/fabric/local.h"
#include "weft/fabric/verb_issuer.h"

namespace weft {
namespace {

// Keeps the completions of a peer back while it is silent, and notes who verbs go to.
class NotingWire final : public Wire {
 public:
  explicit NotingWire(Wire* wire) : wire_(wire) {}
  bool send(NodeId, Flow, ByteView) override { return false; }
  size_t poll(std::span<Packet>) override { return 0; }
  void release() override {}
  bool post(NodeId to, Domain domain, std::span<const Verb> verbs) override {
    if (full || !wire_->post(to, domain, verbs)) return false;
    for (const Verb& verb : verbs) posted.push_back({to.value, verb.offset});
    return true;
  }
  size_t poll_completions(Domain domain, std::span<Completion> out) override {
    const size_t count = wire_->poll_completions(domain, out);
    for (size_t i = 0; i < count; ++i) waiting_.push_back(out[i]);
    std::vector<Completion> later;
    size_t given = 0;
    for (const Completion& done : waiting_) {
      if (done.peer == silent || given == out.size()) {
        later.push_back(done);
      } else {
        out[given++] = done;
      }
    }
    waiting_ = std::move(later);
    return given;
  }
  void reset(NodeId to, Domain domain) override { wire_->reset(to, domain); }
  bool pending() const override { return wire_->pending(); }

  NodeId silent{255};
  bool full = false;
  std::vector<std::pair<int, uint64_t>> posted;

 private:
  Wire* const wire_;
  std::vector<Completion> waiting_;
};

class VerbIssuerCreditTest : public ::testing::Test {
 protected:
  static constexpr NodeId kA{0}, kB{1}, kC{2};
  using Posted = std::vector<std::pair<int, uint64_t>>;

  VerbIssuerCreditTest() {
    for (const NodeId peer : {kB, kC}) {
      targets_[peer.value] = std::move(*Region::create(1 << 20));
      regions_[peer.value].add(targets_[peer.value].get());
      fabric_.set_regions(peer, &regions_[peer.value]);
      regions_[peer.value].grant(kA, Domain::kEngine);
    }
    buffers_ = std::move(*Region::create(1 << 20));
  }
  void limit(uint32_t verbs) {
    credit_ = std::make_unique<VerbCredit>(VerbCreditOptions{.limit = verbs});
    issuer_ = make(buffers_->bytes());
  }
  std::unique_ptr<VerbIssuer> make(size_t bytes) {
    return std::make_unique<VerbIssuer>(VerbIssuerOptions{3, Domain::kEngine, 8, true, true, credit_.get()}, &wire_,
                                        nullptr, buffers_->base(), bytes);
  }
  // A request of `verbs` WRITEs, of ascending offsets.
  VerbRequest* request(NodeId peer, uint64_t offset, size_t verbs = 1, uint64_t value = 1) {
    VerbRequest* request = issuer_->make(peer, 3, 8);
    store(request->buffer, value);
    Verb verb;
    verb.kind = VerbKind::kWrite;
    verb.bytes = 8;
    verb.local = request->buffer;
    for (size_t i = 0; i < verbs; ++i) {
      verb.offset = offset + i * 8;
      request->add(verb);
    }
    return request;
  }
  void send(NodeId peer, uint64_t offset, size_t verbs = 1) { issuer_->send(request(peer, offset, verbs)); }
  void send_unsignalled(NodeId peer, uint64_t offset) {
    VerbRequest* made = request(peer, offset);
    made->unsignalled = true;
    issuer_->send(made);
  }
  void send_urgent(NodeId peer, uint64_t offset, uint64_t value = 1) {
    VerbRequest* made = request(peer, offset, 1, value);
    made->urgent = true;
    issuer_->send(made);
  }
  void poll(uint64_t now_ns = 0) {
    issuer_->poll(
        now_ns, [](void* self, VerbRequest&) { ++static_cast<VerbIssuerCreditTest*>(self)->answered_; }, this);
  }
  // What a flush posts.
  Posted flush(uint64_t now_ns = 0) {
    wire_.posted.clear();
    issuer_->flush(now_ns);
    return wire_.posted;
  }
  uint64_t at(NodeId peer, uint64_t offset) const { return load<uint64_t>(targets_[peer.value]->base() + offset); }

  LocalFabric fabric_{LocalOptions{.nodes = 3, .workers = 1}};
  std::array<std::unique_ptr<Region>, 3> targets_;
  std::array<Regions, 3> regions_;
  std::unique_ptr<Region> buffers_;
  NotingWire wire_{fabric_.wire(kA, WorkerId(0))};
  std::unique_ptr<VerbCredit> credit_;
  std::unique_ptr<VerbIssuer> issuer_;
  size_t answered_ = 0;
};

TEST_F(VerbIssuerCreditTest, VerbsWaitUntilFewerAreInFlight) {
  limit(4);
  for (uint64_t i = 0; i < 6; ++i) send(kB, i * 8);
  EXPECT_EQ(flush(), (Posted{{1, 0}, {1, 8}, {1, 16}, {1, 24}}));
  EXPECT_FALSE(issuer_->pending()) << "only completions help";
  EXPECT_EQ(flush(), Posted{});
  poll();
  EXPECT_EQ(answered_, 4U);
  EXPECT_TRUE(issuer_->pending());
  EXPECT_EQ(flush(), (Posted{{1, 32}, {1, 40}}));
  poll();
  EXPECT_FALSE(issuer_->pending());
  EXPECT_EQ(credit_->in_flight(), 0U);
  EXPECT_EQ(credit_->waits(), 2U);
}

TEST_F(VerbIssuerCreditTest, WhatFitsSharesADoorbell) {
  limit(4);
  send(kB, 0);
  send_urgent(kB, 8);
  send(kB, 16);
  flush();
  EXPECT_EQ(issuer_->doorbells(), 1U);
  EXPECT_EQ(issuer_->limits_sum(), 4U);
  EXPECT_EQ(credit_->waits(), 0U);
}

TEST_F(VerbIssuerCreditTest, MoreVerbsThanTheLimitGoWhenNothingIsInFlight) {
  limit(2);
  send(kB, 0);
  EXPECT_EQ(flush(), (Posted{{1, 0}}));
  send(kC, 8, 3);
  send(kB, 32);
  EXPECT_EQ(flush(), (Posted{{1, 32}})) << "one still fits";
  send(kB, 40);
  EXPECT_EQ(flush(), Posted{});
  poll();
  EXPECT_EQ(flush(), (Posted{{2, 8}, {2, 16}, {2, 24}})) << "its turn came first";
  EXPECT_EQ(flush(), Posted{});
  poll();
  EXPECT_EQ(flush(), (Posted{{1, 40}}));
}

TEST_F(VerbIssuerCreditTest, UnsignalledOnesThatHaveAllCreditAreProbedAtOnce) {
  limit(2);
  send_unsignalled(kB, 0);
  send_unsignalled(kB, 8);
  flush();
  poll();
  EXPECT_EQ(answered_, 0U);
  send(kC, 16);
  EXPECT_EQ(flush(), (Posted{{1, 0}})) << "the probe, which needs no credit";
  EXPECT_FALSE(issuer_->pending());
  poll();
  EXPECT_EQ(answered_, 2U);
  EXPECT_EQ(flush(), (Posted{{2, 16}}));
}

TEST_F(VerbIssuerCreditTest, TheProbeNeedsNoMemoryThatRequestsWait) {
  credit_ = std::make_unique<VerbCredit>(VerbCreditOptions{.limit = 1});
  issuer_ = make(4 * VerbIssuer::kSmallest);
  send_unsignalled(kB, 0);
  flush();
  send(kB, 8);
  send(kB, 16);
  EXPECT_EQ(issuer_->make(kB, 3, 8), nullptr);
  for (int i = 0; i < 4; ++i) flush(), poll();
  EXPECT_EQ(answered_, 3U);
}

TEST_F(VerbIssuerCreditTest, AProbeThatFindsNoRoomIsTriedAgain) {
  limit(1);
  send_unsignalled(kB, 0);
  flush();
  send(kB, 8);
  wire_.full = true;
  EXPECT_EQ(flush(), Posted{});
  EXPECT_TRUE(issuer_->pending()) << "no completion will come";
  wire_.full = false;
  EXPECT_EQ(flush(), (Posted{{1, 0}}));
}

TEST_F(VerbIssuerCreditTest, UrgentOnesGoFirstAndOverdrawByABatch) {
  limit(2);
  for (uint64_t i = 0; i < 3; ++i) send(kB, i * 8);
  EXPECT_EQ(flush(), (Posted{{1, 0}, {1, 8}}));
  for (uint64_t i = 0; i < 3; ++i) send_urgent(kC, i * 8);
  EXPECT_EQ(flush(), (Posted{{2, 0}, {2, 8}, {2, 16}}));
  EXPECT_EQ(credit_->in_flight(), 5U);
  send_urgent(kB, 64);
  EXPECT_EQ(flush(), Posted{}) << "in debt";
  poll();
  EXPECT_EQ(flush(), (Posted{{1, 64}, {1, 16}}));
}

TEST_F(VerbIssuerCreditTest, ToOnePeerEachKindKeepsItsOrder) {
  limit(1);
  send(kB, 0);
  send(kB, 8);
  send_urgent(kB, 16);
  send_urgent(kB, 24);
  Posted all;
  for (int i = 0; i < 5; ++i) {
    for (const auto& one : flush()) all.push_back(one);
    poll();
  }
  EXPECT_EQ(all, (Posted{{1, 16}, {1, 24}, {1, 0}, {1, 8}}));
}

TEST_F(VerbIssuerCreditTest, RefusedOnesGiveBackAndAreRetriedInOrder) {
  limit(3);
  regions_[kB.value].revoke(kA, Domain::kEngine);
  issuer_->send(request(kB, 0, 1, 1));
  send_urgent(kB, 0, 2);
  flush();
  EXPECT_EQ(credit_->in_flight(), 2U);
  poll();
  EXPECT_EQ(credit_->in_flight(), 0U);
  send_urgent(kB, 0, 3);
  issuer_->send(request(kB, 8, 1, 4));
  EXPECT_EQ(flush(1), Posted{}) << "not yet";
  regions_[kB.value].grant(kA, Domain::kEngine);
  EXPECT_EQ(flush(VerbIssuer::kRetryNs), (Posted{{1, 0}, {1, 0}, {1, 0}}));
  poll(VerbIssuer::kRetryNs);
  flush(VerbIssuer::kRetryNs);
  poll(VerbIssuer::kRetryNs);
  EXPECT_EQ(answered_, 4U);
  EXPECT_EQ(at(kB, 0), 3U);
  EXPECT_EQ(at(kB, 8), 4U);
}

TEST_F(VerbIssuerCreditTest, WhatIsDroppedGivesBackOnce) {
  limit(2);
  regions_[kC.value].revoke(kA, Domain::kEngine);
  send(kC, 0);
  flush();
  poll();  // failed, to be retried
  send(kB, 0);
  send(kB, 8);
  send(kB, 16);
  send_urgent(kB, 24);
  flush();
  EXPECT_GT(credit_->in_flight(), 0U);
  issuer_->drop();
  EXPECT_EQ(credit_->in_flight(), 0U);
  EXPECT_FALSE(issuer_->pending());
  poll();
  EXPECT_EQ(credit_->in_flight(), 0U);
  EXPECT_EQ(answered_, 0U);
  EXPECT_EQ(issuer_->in_flight_count(), 0U);
  send(kB, 32);
  EXPECT_EQ(flush(), (Posted{{1, 32}}));
}

TEST_F(VerbIssuerCreditTest, PeersTakeTurns) {
  limit(2);
  for (uint64_t i = 0; i < 4; ++i) send(kB, i * 8);
  for (uint64_t i = 0; i < 3; ++i) send(kC, i * 8);
  std::vector<Posted> turns;
  for (int i = 0; i < 4; ++i) turns.push_back(flush()), poll();
  EXPECT_EQ(turns, (std::vector<Posted>{{{1, 0}, {1, 8}}, {{2, 0}, {2, 8}}, {{1, 16}, {1, 24}}, {{2, 16}}}));
}

TEST_F(VerbIssuerCreditTest, ASilentPeerGivesUpItsCredit) {
  limit(2);
  wire_.silent = kB;
  for (uint64_t i = 0; i < 3; ++i) send(kB, i * 8);
  flush(1000);
  send(kC, 0);
  poll(1000);
  EXPECT_EQ(flush(1000 + VerbIssuer::kSilentNs - 1), Posted{});
  EXPECT_EQ(issuer_->deadline_ns(), 1000 + VerbIssuer::kSilentNs);
  EXPECT_EQ(flush(1000 + VerbIssuer::kSilentNs), Posted{});
  EXPECT_TRUE(issuer_->pending());
  EXPECT_EQ(credit_->in_flight(), 0U);
  EXPECT_EQ(flush(1000 + VerbIssuer::kSilentNs), (Posted{{1, 16}, {2, 0}})) << "all fit now";
  for (uint64_t i = 0; i < 4; ++i) send(kB, i * 8);
  send(kC, 8);
  EXPECT_EQ(flush(1001 + VerbIssuer::kSilentNs), Posted{});
  poll(1001 + VerbIssuer::kSilentNs);
  EXPECT_EQ(flush(1002 + VerbIssuer::kSilentNs), (Posted{{2, 8}})) << "not more to the one that is silent";
  wire_.silent = NodeId(255);
  for (uint64_t i = 0; i < 6; ++i) poll(), flush(1003 + VerbIssuer::kSilentNs);
  poll();
  EXPECT_EQ(answered_, 9U);
  EXPECT_EQ(credit_->in_flight(), 0U);
}

TEST_F(VerbIssuerCreditTest, TheIssuersOfAWorkerShareIt) {
  limit(2);
  auto other_buffers = std::move(*Region::create(1 << 20));
  LocalFabric fabric(LocalOptions{.nodes = 3, .workers = 1});
  fabric.set_regions(kB, &regions_[kB.value]);
  VerbIssuer other({3, Domain::kEngine, 8, true, true, credit_.get()}, fabric.wire(kA, WorkerId(0)), nullptr,
                   other_buffers->base(), other_buffers->bytes());
  send(kB, 0);
  send(kB, 8);
  flush();
  VerbRequest* request = other.make(kB, 3, 8);
  Verb verb;
  verb.bytes = 8;
  verb.local = request->buffer;
  request->add(verb);
  other.send(request);
  EXPECT_FALSE(other.flush(0)) << "the first has all";
  poll();
  EXPECT_TRUE(other.flush(0));
  other.drop();
  EXPECT_EQ(credit_->in_flight(), 0U);
}

}  // namespace
}  // namespace weft
