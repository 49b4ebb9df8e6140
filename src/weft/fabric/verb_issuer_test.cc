// VerbIssuer on the local wire: bytes arrive, doorbells are shared, unsignalled requests are confirmed, refused ones
// are retried.
#include "weft/fabric/verb_issuer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/fabric/local.h"

namespace weft {
namespace {

constexpr NodeId kA(0);
constexpr NodeId kB(1);

class VerbIssuerTest : public ::testing::Test {
 protected:
  VerbIssuerTest() {
    target_ = std::move(*Region::create(1 << 20));
    buffers_ = std::move(*Region::create(1 << 20));
    regions_.add(target_.get());
    fabric_.set_regions(kB, &regions_);
    regions_.grant(kA, Domain::kEngine);
    make({2, Domain::kEngine, 8, true, true});
  }
  void make(const VerbIssuerOptions& options) {
    issuer_ = std::make_unique<VerbIssuer>(options, fabric_.wire(kA, WorkerId(0)), nullptr, buffers_->base(),
                                           buffers_->bytes());
  }
  VerbRequest* write(uint64_t offset, uint64_t value, bool passive = false) {
    VerbRequest* request = issuer_->make(kB, 3, 8);
    store(request->buffer, value);
    Verb verb;
    verb.kind = VerbKind::kWrite;
    verb.offset = offset;
    verb.bytes = 8;
    verb.local = request->buffer;
    request->add(verb);
    request->unsignalled = passive;
    issuer_->send(request);
    return request;
  }
  bool step(uint64_t now_ns = 0) {
    issuer_->flush(now_ns);
    return issuer_->poll(
        now_ns,
        [](void* self, VerbRequest& request) {
          static_cast<VerbIssuerTest*>(self)->answered_.push_back(request.index);
        },
        this);
  }
  uint64_t at(uint64_t offset) const { return load<uint64_t>(target_->base() + offset); }

  LocalFabric fabric_{LocalOptions{.nodes = 2, .workers = 1}};
  std::unique_ptr<Region> target_, buffers_;
  Regions regions_;
  std::unique_ptr<VerbIssuer> issuer_;
  std::vector<uint32_t> answered_;
};

TEST_F(VerbIssuerTest, HowLongRequestsTakeIsNoted) {
  ConflictAvoidance conflicts({.backoff = true, .coroutine_credit = true});
  VerbIssuerOptions options{2, Domain::kEngine, 8, true, true};
  options.conflicts = &conflicts;
  make(options);
  conflicts.step(0);
  const auto unit_ns = [&](uint64_t at_ns) {
    conflicts.step(at_ns);
    return conflicts.unit_ns();
  };
  write(0, 1);
  step(1'000);
  EXPECT_EQ(unit_ns(1'000'000), ConflictAvoidance::kUnknownUnitNs) << "posted and complete in one step: not measured";
  write(0, 2);
  issuer_->flush(2'000'000);
  write(8, 3, true);
  issuer_->flush(2'001'000);
  step(2'007'000);
  EXPECT_EQ(unit_ns(3'000'000), 7'000U) << "of the request that is signalled";
}

TEST_F(VerbIssuerTest, PostsOfOneStepShareADoorbell) {
  for (uint64_t i = 0; i < 10; ++i) write(i * 8, i + 1);
  EXPECT_TRUE(issuer_->pending());
  step();
  EXPECT_EQ(answered_.size(), 10U);
  EXPECT_EQ(issuer_->doorbells(), 1U);
  EXPECT_EQ(issuer_->in_flight_count(), 0U);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(at(i * 8), i + 1);
}

TEST_F(VerbIssuerTest, WithoutDoorbellBatchingEachHasItsOwn) {
  make({2, Domain::kEngine, 8, false, true});
  for (uint64_t i = 0; i < 10; ++i) write(i * 8, i + 1);
  step();
  EXPECT_EQ(issuer_->doorbells(), 10U);
}

TEST_F(VerbIssuerTest, WithoutOutstandingRequestsATransactionHasOneUnderWay) {
  make({2, Domain::kEngine, 8, true, false});
  for (uint64_t i = 0; i < 3; ++i) write(i * 8, i + 1);
  step();
  EXPECT_EQ(answered_.size(), 1U);
  step();
  step();
  EXPECT_EQ(answered_.size(), 3U);
}

TEST_F(VerbIssuerTest, APassivePostIsConfirmedByALaterOne) {
  write(0, 1, true);
  step();
  EXPECT_EQ(at(0), 1U);
  EXPECT_TRUE(answered_.empty());
  write(8, 2);
  step();
  EXPECT_EQ(answered_.size(), 2U);
}

TEST_F(VerbIssuerTest, OrAskedForAfterAMillisecond) {
  write(0, 1, true);
  step(1000);
  EXPECT_EQ(issuer_->deadline_ns(), 1000 + VerbIssuer::kUnsignalledNs);
  step(1000 + VerbIssuer::kUnsignalledNs - 1);
  EXPECT_TRUE(answered_.empty());
  step(1000 + VerbIssuer::kUnsignalledNs);
  EXPECT_EQ(answered_.size(), 1U);
  write(8, 2, true);
  step(2'000'000);
  EXPECT_EQ(answered_.size(), 1U);
  issuer_->flush_unsignalled_now();
  step(2'000'001);
  EXPECT_EQ(answered_.size(), 2U);
}

// Records how large posts are, and how many of their verbs are ordered after others.
class MeasuringWire final : public Wire {
 public:
  explicit MeasuringWire(Wire* wire) : wire_(wire) {}
  bool send(NodeId, Flow, ByteView) override { return false; }
  size_t poll(std::span<Packet>) override { return 0; }
  void release() override {}
  bool post(NodeId to, Domain domain, std::span<const Verb> verbs) override {
    size_t bytes = 0;
    for (const Verb& verb : verbs) bytes += verb.bytes, follow += verb.ordered_after_previous ? 1 : 0;
    most = std::max(most, bytes);
    return wire_->post(to, domain, verbs);
  }
  size_t poll_completions(Domain domain, std::span<Completion> out) override {
    return wire_->poll_completions(domain, out);
  }
  void reset(NodeId to, Domain domain) override { wire_->reset(to, domain); }
  bool pending() const override { return wire_->pending(); }
  size_t most = 0;
  size_t follow = 0;

 private:
  Wire* const wire_;
};

TEST_F(VerbIssuerTest, ADoorbellStaysWithinWhatEveryWireTakes) {
  MeasuringWire wire(fabric_.wire(kA, WorkerId(0)));
  buffers_ = std::move(*Region::create(64 << 20));
  issuer_ = std::make_unique<VerbIssuer>(VerbIssuerOptions{2, Domain::kEngine, 8, true, true}, &wire, nullptr,
                                         buffers_->base(), buffers_->bytes());
  for (const size_t bytes : {size_t{8}, kVerbBytesMax / 4, kVerbBytesMax}) {
    for (int i = 0; i < 100; ++i) {
      VerbRequest* request = issuer_->make(kB, 3, VerbRequest::kVerbsMax * bytes);
      for (size_t v = 0; v < VerbRequest::kVerbsMax; ++v) {
        Verb verb;
        verb.kind = VerbKind::kRead;
        verb.bytes = static_cast<uint32_t>(bytes);
        verb.local = request->buffer + v * bytes;
        request->add(verb);
      }
      issuer_->send(request);
    }
    step();
  }
  EXPECT_EQ(answered_.size(), 300U);
  EXPECT_GE(wire.most, VerbRequest::kVerbsMax * kVerbBytesMax);
  EXPECT_LE(wire.most, kPostBytesMax / 2);
  // The requests of one doorbell are independent: no verb of one waits for another's.
  EXPECT_EQ(wire.follow, 300 * (VerbRequest::kVerbsMax - 1));
}

TEST_F(VerbIssuerTest, WhatIsRefusedIsTriedAgainInOrder) {
  regions_.revoke(kA, Domain::kEngine);
  write(0, 1);
  write(0, 2);
  step(0);
  write(0, 3);
  step(1);
  EXPECT_TRUE(answered_.empty());
  EXPECT_EQ(at(0), 0U);
  regions_.grant(kA, Domain::kEngine);
  step(VerbIssuer::kRetryNs);
  EXPECT_EQ(answered_.size(), 3U);
  EXPECT_EQ(at(0), 3U);
  EXPECT_EQ(issuer_->in_flight_count(), 0U);
}

TEST_F(VerbIssuerTest, WhatIsDroppedIsNotAnswered) {
  regions_.revoke(kA, Domain::kEngine);
  write(0, 1);
  step(0);
  write(8, 2);
  issuer_->drop();
  regions_.grant(kA, Domain::kEngine);
  step(VerbIssuer::kRetryNs);
  EXPECT_TRUE(answered_.empty());
  EXPECT_EQ(issuer_->in_flight_count(), 0U);
  write(16, 3);
  step(VerbIssuer::kRetryNs + 1);
  EXPECT_EQ(at(16), 3U);
  EXPECT_EQ(at(0), 0U);
  EXPECT_EQ(at(8), 0U);
}

}  // namespace
}  // namespace weft
