// Scans that ask for what no scan can get, and scans at their limits: each is refused by name, or gets it all, and what
// comes after goes on as if nothing had happened.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "weft/txn/scan_testing.h"

namespace weft {
namespace {

constexpr TableId kTexts(1), kSlots(2), kPlain(3);

Key text(const std::string& key) { return std::string_view(key); }

TableSpec redis_slots() {
  TableSpec spec = ordered_texts("slots");
  spec.partition = PartitionBy::kRedisSlot;
  return spec;
}

class ScanLimits : public testing::Test {
 protected:
  static Options options(const std::function<void(Options&)>& change = {}) {
    Options o;
    o.nodes = 3;
    o.replicas = 1;
    o.limits.key_bytes_max = 40;
    o.limits.txn_keys_max = 20;
    o.limits.txn_bytes_max = 200'000;
    if (change) change(o);
    return o;
  }
  void open(const std::function<void(Options&)>& change = {}) {
    cluster_ = std::make_unique<SteppedCluster>(
        options(change),
        std::vector<TableSpec>{
            ordered_numbers("numbers", 60'000), ordered_texts("texts"), redis_slots(), {.name = "plain"}});
  }

  // Scans in a transaction that has also written. If the scan is refused, so is the commit, and nothing is written.
  Outcome refused(TableId table, Key from, Key to, uint32_t limit = Txn::kNoLimit) {
    Outcome outcome;
    cluster_->on(0, [&](Session& session) -> Task<void> {
      Txn txn = co_await session.begin();
      txn.put(kPlain, 1, "must not stay");
      const Scan scan = co_await txn.scan(table, from, to, limit);
      EXPECT_TRUE(scan.items.empty());
      outcome = co_await txn.commit();
      EXPECT_EQ(scan.code, outcome.code);
    });
    EXPECT_FALSE(cluster_->get_one(NodeId(0), kPlain, 1).found);
    EXPECT_EQ(outcome.kind, OutcomeKind::kRejected) << outcome.text();
    return outcome;
  }
  ScannedText scan(NodeId node, TableId table, Key from, Key to, uint32_t limit = Txn::kNoLimit) {
    ScannedText out;
    cluster_->on(node, [&](Session& session) -> Task<void> {
      Txn txn = co_await session.begin();
      out = text_of(co_await txn.scan(table, from, to, limit));
      EXPECT_TRUE(committed(co_await txn.commit()));
    });
    return out;
  }

  std::unique_ptr<SteppedCluster> cluster_;
};

TEST_F(ScanLimits, BadInputIsRefusedByName) {
  open();
  EXPECT_EQ(refused(TableId(9), 1, 2).code, Code::kNoSuchTable);
  EXPECT_EQ(refused(kPlain, 1, 2).code, Code::kNotOrdered);
  EXPECT_EQ(refused(kT, text("abc"), 2).code, Code::kInvalidArgument);
  EXPECT_EQ(refused(kTexts, text("ab"), text("ab" + std::string(39, 'x'))).code, Code::kKeyTooLong);
  const Outcome none = refused(kT, 1, 2, 0);
  EXPECT_EQ(none.code, Code::kScanEmpty);
  EXPECT_NE(none.text().find("the least limit of a scan is 1"), std::string::npos) << none.text();
  EXPECT_EQ(refused(kT, 2, 2).code, Code::kScanEmpty);
  EXPECT_EQ(refused(kT, 3, 2).code, Code::kScanEmpty);
}

TEST_F(ScanLimits, AScanLiesInOnePartition) {
  open();
  EXPECT_EQ(scan(NodeId(0), kT, 256, 512).code, Code::kOk);
  EXPECT_EQ(refused(kT, 256, 513).code, Code::kScanTwoPartitions);
  EXPECT_EQ(refused(kT, 255, 257).code, Code::kScanTwoPartitions);
  EXPECT_EQ(scan(NodeId(0), kT, UINT64_MAX - 255, UINT64_MAX).code, Code::kOk);

  EXPECT_EQ(scan(NodeId(0), kTexts, text("ab"), text("ac")).code, Code::kOk);
  EXPECT_EQ(scan(NodeId(0), kTexts, text("ab1"), text("ab2")).code, Code::kOk);
  EXPECT_EQ(refused(kTexts, text("ab"), text("ad")).code, Code::kScanTwoPartitions);
  EXPECT_EQ(refused(kTexts, text("ab"), text(std::string("ac\0", 3))).code, Code::kScanTwoPartitions);
  EXPECT_EQ(refused(kTexts, text("a"), text("ab")).code, Code::kScanTwoPartitions) << "shorter than its prefix";
  EXPECT_EQ(scan(NodeId(0), kTexts, text("a\xff"), text("b")).code, Code::kOk);
  EXPECT_EQ(refused(kTexts, text("a\xff"), text(std::string("b\0", 2))).code, Code::kScanTwoPartitions);
  EXPECT_EQ(scan(NodeId(0), kTexts, text("\xff\xff"), text("\xff\xff\xff")).code, Code::kOk);

  EXPECT_EQ(scan(NodeId(0), kSlots, text("{tag}1"), text("{tag}2")).code, Code::kOk);
  EXPECT_EQ(scan(NodeId(0), kSlots, text("{tag}"), text("{tag~")).code, Code::kOk);
  EXPECT_EQ(refused(kSlots, text("{tag}1"), text("{tah}")).code, Code::kScanTwoPartitions);
  EXPECT_EQ(refused(kSlots, text("a"), text("b")).code, Code::kScanTwoPartitions) << "no tag";
  EXPECT_EQ(refused(kSlots, text("{}a"), text("{}b")).code, Code::kScanTwoPartitions) << "an empty tag is none";
}

TEST_F(ScanLimits, AsManyItemsAsTheLimitAndNotOneMore) {
  open();
  for (uint64_t low = 0; low < 20; ++low) EXPECT_TRUE(cluster_->load(kT, 256 + low, "v"));
  for (uint8_t node = 0; node < 3; ++node) {
    const ScannedText all = scan(NodeId(node), kT, 256, 512);
    EXPECT_EQ(all.items.size(), 20U);
    EXPECT_FALSE(all.limited);
  }
  EXPECT_TRUE(cluster_->load(kT, 300, "one more"));
  for (uint8_t node = 0; node < 3; ++node) {
    const ScannedText some = scan(NodeId(node), kT, 256, 512, 20);
    EXPECT_EQ(some.items.size(), 20U);
    EXPECT_TRUE(some.limited);
  }
  const Outcome outcome = refused(kT, 256, 512);
  EXPECT_EQ(outcome.code, Code::kTxnTooLarge);
  EXPECT_NE(outcome.text().find("limits.txn_keys_max is 20, asked for 21"), std::string::npos) << outcome.text();
}

TEST_F(ScanLimits, ItemsCountAsBytesThatAreRead) {
  open();
  for (uint64_t low = 0; low < 4; ++low) EXPECT_TRUE(cluster_->load(kT, 256 + low, std::string(60'000, 'v')));
  EXPECT_EQ(scan(NodeId(1), kT, 256, 259).items.size(), 3U);
  for (const uint64_t first : {uint64_t{256}, uint64_t{512}, uint64_t{768}}) {  // here, and elsewhere
    for (uint64_t low = 0; low < 4 && first != 256; ++low) {
      EXPECT_TRUE(cluster_->load(kT, first + low, std::string(60'000, 'v')));
    }
    const Outcome outcome = refused(kT, first, first + 200);
    EXPECT_EQ(outcome.code, Code::kTxnTooLarge);
    EXPECT_NE(outcome.text().find("limits.txn_bytes_max is 200000"), std::string::npos) << outcome.text();
  }
}

TEST_F(ScanLimits, ATransactionHasSoManyScans) {
  open();
  EXPECT_TRUE(cluster_->load(kT, 256, "v"));
  cluster_->on(0, [](Session& session) -> Task<void> {
    for (const int scans : {64, 65}) {
      Txn txn = co_await session.begin();
      std::vector<ScanHandle> handles;
      for (int i = 0; i < scans; ++i) handles.push_back(txn.scan_async(kT, 256, 512, 1));
      for (const ScanHandle handle : handles) {
        EXPECT_EQ((co_await txn.wait(handle)).code, scans == 64 ? Code::kOk : Code::kTxnTooLarge);
      }
      const Outcome outcome = co_await txn.commit();
      EXPECT_TRUE(scans == 64 ? committed(outcome) : rejected(outcome, Code::kTxnTooLarge));
    }
  });
}

// Their primaries look at all of them in one step when it commits.
TEST_F(ScanLimits, AllScansOfATransactionBringSoManyItems) {
  open();
  for (uint64_t low = 0; low < 20; ++low) EXPECT_TRUE(cluster_->load(kT, 256 + low, "v"));
  for (const int node : {0, 1, 2}) {
    cluster_->on(node, [](Session& session) -> Task<void> {
      for (const int scans : {4, 5}) {
        Txn txn = co_await session.begin();
        Scan last{};
        for (int i = 0; i < scans; ++i) last = co_await txn.scan(kT, 256, 512);
        EXPECT_EQ(last.code, scans == 4 ? Code::kOk : Code::kTxnTooLarge);
        const Outcome outcome = co_await txn.commit();
        EXPECT_TRUE(scans == 4 ? committed(outcome) : rejected(outcome, Code::kTxnTooLarge));
        if (scans == 4) continue;
        const std::string limit = "the items that the scans of one transaction bring is 80, asked for 100";
        EXPECT_NE(outcome.text().find(limit), std::string::npos) << outcome.text();
      }
    });
  }
}

// Values that are longer than the credit there is come by turns, and so do pages of them.
TEST_F(ScanLimits, ValuesOfAllSizesWithLittleCredit) {
  open([](Options& o) {
    o.limits.credit_bytes = 4096;
    o.limits.txn_bytes_max = 1 << 20;
  });
  std::vector<std::pair<std::string, std::string>> expected;
  const size_t sizes[] = {0, 1, 60'000, 8, 300, 5000, 2000, 100, 60'000, 700};
  uint64_t low = 0;
  for (const size_t size : sizes) {
    const uint64_t key = 512 + low++ * 3;
    expected.emplace_back(bytes_of(key), std::string(size, static_cast<char>('a' + low)));
    EXPECT_TRUE(cluster_->load(kT, key, expected.back().second));
  }
  for (uint8_t node = 0; node < 3; ++node) EXPECT_TRUE(scan(NodeId(node), kT, 512, 768).items == expected);
  // Several at a time, of one worker.
  std::vector<SteppedCluster::Handle> handles;
  for (int i = 0; i < 8; ++i) {
    handles.push_back(cluster_->spawn(NodeId(0), WorkerId(0), [&](Session& session) -> Task<void> {
      const auto body = [&](Txn& txn) -> Task<Code> {
        const ScanHandle one = txn.scan_async(kT, 512, 600), other = txn.scan_async(kT, 512, 768, 20);
        const Value point = co_await txn.get(kT, 512 + 6);
        const Scan first = co_await txn.wait(one), second = co_await txn.wait(other);
        if (!first || !second || !point) co_return Code::kBusy;
        EXPECT_TRUE(text_of(first).items == expected);
        EXPECT_TRUE(text_of(second).items == expected);
        co_return txn.put(kPlain, 5, "v");
      };
      Task<Outcome> task = session.run({}, body);
      EXPECT_TRUE(committed(co_await task));
    }));
  }
  for (const auto& handle : handles) EXPECT_TRUE(cluster_->wait(handle));
}

TEST_F(ScanLimits, AScanThatIsNotAwaited) {
  open();
  EXPECT_TRUE(cluster_->load(kT, 256, "v"));
  for (const uint64_t prefix : {uint64_t{256}, uint64_t{512}, uint64_t{768}}) {
    cluster_->on(0, [&](Session& session) -> Task<void> {
      {
        Txn txn = co_await session.begin();
        const ScanHandle handle = txn.scan_async(kT, prefix, prefix + 9);
        EXPECT_FALSE(txn.is_ready(handle));
        EXPECT_EQ(txn.scanned(handle).code, Code::kInvalidArgument) << "not ready";
        EXPECT_TRUE(committed(co_await txn.commit())) << "the commit waits for it, and checks it";
        EXPECT_EQ(txn.scanned(handle).code, Code::kOk);
      }
      {
        Txn txn = co_await session.begin();
        txn.scan_async(kT, prefix, prefix + 9);
        txn.abort();
      }
      Txn txn = co_await session.begin();
      txn.scan_async(kT, prefix, prefix + 9);  // dropped while it is under way
    });
  }
}

}  // namespace
}  // namespace weft
