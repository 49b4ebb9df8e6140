// What access domains promise on every wire, for the tests of each: that the queues, grants and regions of two domains
// have nothing to do with each other.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "weft/base/bytes.h"
#include "weft/fabric/region.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

// A target whose region `engine` is granted to `initiator`, and how the initiator reaches it.
struct DomainsUnderTest {
  Regions& regions;
  NodeId initiator;
  RegionId engine;
  std::unique_ptr<Region>& far;  // made here; outlives the wire
  RegionSharing sharing = RegionSharing::kPrivate;
  std::function<VerbStatus(Domain, const Verb&)> one;  // posts it and waits for its completion in that domain
  std::function<void(Domain)> reset;
  std::function<bool(const std::function<bool()>&)> until;  // lets both sides work until it holds
};

inline void expect_domains_are_apart(const DomainsUnderTest& wire) {
  auto memory = Region::create(2 << 20, RegionKind::kHost, wire.sharing);
  ASSERT_TRUE(memory);
  wire.far = std::move(*memory);
  const RegionId far = wire.regions.add(wire.far.get(), Domain::kFar);
  uint64_t word = 42;
  const auto write = [&](Domain domain, RegionId region) {
    Verb verb;
    verb.kind = VerbKind::kWrite;
    verb.region = region;
    verb.offset = 64;
    verb.bytes = 8;
    verb.local = reinterpret_cast<std::byte*>(&word);
    return wire.one(domain, verb);
  };
  // A new grant may have to be announced first.
  const auto works = [&](Domain domain, RegionId region) {
    return wire.until([&] {
      if (write(domain, region) == VerbStatus::kDone) return true;
      wire.reset(domain);
      return false;
    });
  };
  ASSERT_TRUE(works(Domain::kEngine, wire.engine));
  EXPECT_EQ(write(Domain::kFar, far), VerbStatus::kRefused) << "only the engine's domain is granted";
  wire.reset(Domain::kFar);
  wire.regions.grant(wire.initiator, Domain::kFar);
  ASSERT_TRUE(works(Domain::kFar, far));
  EXPECT_EQ(load_shared(wire.far->base() + 64), 42U);

  word = 43;
  EXPECT_EQ(write(Domain::kEngine, far), VerbStatus::kRefused) << "a region of another domain";
  EXPECT_EQ(load_shared(wire.far->base() + 64), 42U);
  EXPECT_EQ(write(Domain::kEngine, wire.engine), VerbStatus::kFlushed) << "its own queue is broken,";
  EXPECT_EQ(write(Domain::kFar, far), VerbStatus::kDone) << "and no other";
  wire.reset(Domain::kEngine);
  ASSERT_TRUE(works(Domain::kEngine, wire.engine));
  EXPECT_EQ(write(Domain::kFar, wire.engine), VerbStatus::kRefused) << "a region of another domain";
  EXPECT_EQ(write(Domain::kEngine, wire.engine), VerbStatus::kDone);
  wire.reset(Domain::kFar);
  ASSERT_TRUE(works(Domain::kFar, far));

  // A view ends: what has nothing to do with it goes on.
  wire.regions.revoke(wire.initiator, Domain::kEngine);
  EXPECT_EQ(write(Domain::kEngine, wire.engine), VerbStatus::kRefused);
  EXPECT_EQ(write(Domain::kFar, far), VerbStatus::kDone);
  wire.regions.grant(wire.initiator, Domain::kEngine);
  wire.reset(Domain::kEngine);
  EXPECT_EQ(write(Domain::kFar, far), VerbStatus::kDone);
  ASSERT_TRUE(works(Domain::kEngine, wire.engine));
  wire.regions.revoke(wire.initiator, Domain::kFar);
  EXPECT_EQ(write(Domain::kFar, far), VerbStatus::kRefused);
  EXPECT_EQ(write(Domain::kEngine, wire.engine), VerbStatus::kDone);
}

}  // namespace weft
