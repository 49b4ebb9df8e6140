// `weft bench verbs` on the fabrics that every machine has: each kind runs, ends, and its check holds; and it finds
// what is wrong.
#include "weft/bench/verb_rates.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/bench/verb_client.h"

namespace weft::bench {
namespace {

VerbRatesOptions some(VerbKind kind, const std::string& fabric) {
  VerbRatesOptions options;
  options.kind = kind;
  options.cluster.fabric = fabric;
  options.cluster.workers = 2;
  options.warmup_seconds = 0;
  options.seconds = 0.05;
  return options;
}

TEST(VerbRates, EachKindRunsOnEachFabricAndItsCheckHolds) {
  RealClock clock;
  for (const char* fabric : {"local", "shm", "tcp"}) {
    for (const VerbKind kind : {VerbKind::kRead, VerbKind::kWrite, VerbKind::kCompareSwap, VerbKind::kFetchAdd}) {
      const auto rates = measure_verbs(some(kind, fabric), clock);
      ASSERT_TRUE(rates) << rates.error().text();
      EXPECT_EQ(rates->wrong, "") << fabric << " " << rates->kind;
      EXPECT_EQ(rates->fabric, fabric);
      EXPECT_EQ(rates->threads, 2);
      EXPECT_EQ(rates->swaps != 0, kind == VerbKind::kCompareSwap);
    }
  }
}

TEST(VerbRates, AnySizeAndDepthWithAndWithoutCredit) {
  RealClock clock;
  for (const auto& [bytes, depth, credit] :
       {std::tuple{9, 1, "off"}, std::tuple{15, 1024, "auto"}, std::tuple{100, 3, "1"}, std::tuple{65536, 64, "off"}}) {
    for (const VerbKind kind : {VerbKind::kRead, VerbKind::kWrite}) {
      VerbRatesOptions options = some(kind, "local");
      options.bytes = bytes;
      options.depth = depth;
      options.cluster.verb_credit = credit;
      const auto rates = measure_verbs(options, clock);
      ASSERT_TRUE(rates) << rates.error().text();
      EXPECT_EQ(rates->wrong, "") << bytes << " bytes";
      EXPECT_EQ(rates->verb_limit != 0, std::string_view(credit) != "off");
    }
  }
}

TEST(VerbRates, WhatItCannotDoIsRefusedWithTheLimit) {
  RealClock clock;
  const auto refused = [&](auto change) {
    VerbRatesOptions options = some(VerbKind::kRead, "local");
    change(options);
    const auto rates = measure_verbs(options, clock);
    return rates ? "" : rates.error().detail;
  };
  EXPECT_EQ(refused([](auto& o) { o.bytes = 7; }), "--bytes 7: there can be 8 to 65536");
  EXPECT_EQ(refused([](auto& o) { o.bytes = 65537; }), "--bytes 65537: there can be 8 to 65536");
  EXPECT_EQ(refused([](auto& o) { o.bytes = -1; }), "--bytes -1: there can be 8 to 65536");
  EXPECT_EQ(refused([](auto& o) { o.depth = 0; }), "--depth 0: there can be 1 to 1024");
  EXPECT_EQ(refused([](auto& o) { o.depth = int64_t{1} << 40; }), "--depth 1099511627776: there can be 1 to 1024");
  EXPECT_EQ(refused([](auto& o) { o.cluster.fabric = "air"; }), "--fabric air: there are local, shm, tcp and verbs");
  EXPECT_EQ(refused([](auto& o) {
              o.kind = VerbKind::kFetchAdd;
              o.bytes = 16;
            }),
            "--bytes 16: a verb of kind faa is of 8 bytes");
  EXPECT_EQ(verb_kind_of("swap").error().detail, "--kind swap: there are read, write, cas and faa");
  EXPECT_EQ(*verb_kind_of("cas"), VerbKind::kCompareSwap);
}

TEST(VerbPlaces, AClientVisitsAllBeforeItComesBack) {
  std::vector<int> visits(VerbPlaces::kPlaces);
  for (uint64_t i = 0; i < VerbPlaces::kPlaces; ++i) ++visits[VerbPlaces::place_of(1'000'000 + i)];
  EXPECT_EQ(visits, std::vector<int>(VerbPlaces::kPlaces, 1));
}

TEST(VerbPlaces, AStampShowsWhatIsNotWholeOrNotItsOwn) {
  for (const uint32_t bytes : {8U, 9U, 15U, 16U, 24U, 65536U}) {
    const VerbPlaces places(VerbKind::kRead, bytes, 2);
    std::vector<std::byte> region(places.region_bytes());
    places.fill(region.data());
    std::byte* const at = region.data() + places.offset(1, 7);
    EXPECT_TRUE(places.stamped(at, VerbPlaces::initial(1, 7)));
    EXPECT_FALSE(places.stamped(at, VerbPlaces::initial(0, 7)));
    EXPECT_FALSE(places.stamped(at, VerbPlaces::initial(1, 6)));
    at[bytes - 1] ^= std::byte{1};
    EXPECT_FALSE(places.stamped(at, VerbPlaces::initial(1, 7)));
  }
}

}  // namespace
}  // namespace weft::bench
