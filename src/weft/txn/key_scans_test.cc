// Scans of a partition's keys, here and at its primary.
#include "weft/txn/key_scans.h"

#include <algorithm>
#include <string>
#include <vector>

#include "weft/store/owner_testing.h"
#include "weft/txn/part_testing.h"

namespace weft {
namespace {

// As on the wire (key_scans.cc).
struct ScanBytes {
  uint64_t cursor;
  uint64_t records;
  uint32_t question;
  uint32_t keys_max;
  uint32_t key_bytes;
  uint16_t table;
  uint16_t partition;
  uint8_t prefix_bytes;
  uint8_t step;
  uint8_t unused[6];
};
static_assert(sizeof(ScanBytes) == 40);
enum ScanSteps : uint8_t { kScanAsk, kScanItem, kScanEnd };

class KeyScansTest : public PartTest {
 protected:
  static Limits scan_limits() {
    Limits limits;
    limits.credit_bytes = 64 << 10;
    return limits;
  }
  KeyScansTest() : PartTest(scan_limits()) {}

  bool hear(const ScanBytes& m, ByteView rest = {}, NodeId from = NodeId(1)) {
    return hand_over<&KeyScans::parse, &KeyScans::on_message>(scans_, from, Kind::kScan, bytes_with(m, rest));
  }
  ScanBytes question(uint32_t keys_max, uint64_t cursor = 0) const {
    ScanBytes m{};
    m.cursor = cursor;
    m.question = 55;
    m.keys_max = keys_max;
    m.partition = partition_.value;
    return m;
  }
  static ScanBytes item(uint32_t question, uint16_t key_bytes, uint8_t prefix_bytes) {
    ScanBytes m{};
    m.question = question;
    m.key_bytes = key_bytes;
    m.prefix_bytes = prefix_bytes;
    m.step = kScanItem;
    return m;
  }
  static ScanBytes end(uint32_t question, uint64_t cursor, uint64_t records) {
    ScanBytes m{};
    m.question = question;
    m.cursor = cursor;
    m.records = records;
    m.step = kScanEnd;
    return m;
  }
  std::vector<uint64_t> load_keys(int count) {
    std::vector<uint64_t> keys;
    for (int i = 0; i < count; ++i) {
      keys.push_back(key_at(kSelf, i));
      load_record(keys.back(), "a value that is longer than what a page shows of it");
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  static uint64_t key_of(const std::string& key) { return load<uint64_t>(as_bytes(key).data()); }

  const uint64_t key_ = key_at(kSelf);
  const PartitionId partition_ = hashed(key_).partition;
  const uint64_t foreign_ = key_at(NodeId(1));  // of a partition whose primary is node 1
  const PartitionId theirs_ = hashed(foreign_).partition;
  // Of a partition that this node is a backup of.
  uint64_t key_at_backup() {
    for (const NodeId primary : {NodeId(1), NodeId(2)}) {
      const uint64_t key = key_at(primary);
      if (view_->placement(hashed(key).partition).is_in_sync(kSelf)) return key;
    }
    return 0;
  }
  const uint64_t backed_key_ = key_at_backup();
  const PartitionId backed_ = hashed(backed_key_).partition;
  KeyScans scans_{ctx_, true};
};

TEST_F(KeyScansTest, PagesHaveEveryKeyOnceWhateverTheirSize) {
  const std::vector<uint64_t> keys = load_keys(100);
  for (const uint32_t keys_max : {1U, 7U, 1000U}) {
    std::vector<uint64_t> found;
    uint64_t cursor = 0;
    int pages = 0;
    do {
      KeyPage page;
      ASSERT_TRUE(scans_.scan_here(kTable, partition_, cursor, keys_max, &page));
      EXPECT_TRUE(page.done);
      EXPECT_EQ(page.records, 100U);
      for (const KeyItem& one : page.items) {
        found.push_back(key_of(one.key));
        EXPECT_EQ(one.value_prefix, std::string("a value that is longer").substr(0, KeyItem::kPrefixBytes));
      }
      cursor = page.next;
      EXPECT_EQ(cursor % (uint64_t{1} << kScanCursorSpare), 0U);
      ASSERT_LT(++pages, 200);
    } while (cursor != 0);
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, keys) << keys_max;
  }
}

TEST_F(KeyScansTest, OnlyAWholeReplicaIsScannedHere) {
  KeyPage page;
  enter(catching_up_view(partition_, NodeId(1), kSelf));
  EXPECT_FALSE(scans_.scan_here(kTable, partition_, 0, 10, &page));
  EXPECT_FALSE(page.done);
}

TEST_F(KeyScansTest, ABackupWithAnUnfinishedDeleteIsNotScanned) {
  ASSERT_TRUE(ctx_.view().placement(backed_).is_in_sync(kSelf) && ctx_.view().placement(backed_).primary() != kSelf);
  load_record(backed_key_, "value");
  KeyPage page;
  ASSERT_TRUE(scans_.scan_here(kTable, backed_, 0, 10, &page));
  EXPECT_EQ(page.items.size(), 1U);
  std::vector<std::byte> old(64);
  const HashedKey key = hashed(backed_key_);
  const Undo undo = table().apply(key, Write::kErase, {}, Version(2), old.data());
  page = {};
  EXPECT_FALSE(scans_.scan_here(kTable, backed_, 0, 10, &page)) << "the key that may come back is its only one";
  EXPECT_TRUE(page.items.empty() && !page.done);
  EXPECT_TRUE(scans_.scan_here(kTable, backed_, 0, 0, &page)) << "that only counts";
  EXPECT_EQ(page.records, 0U);
  table().undo(key, Version(2), undo, as_bytes("value"));
  page = {};
  EXPECT_TRUE(scans_.scan_here(kTable, backed_, 0, 10, &page));
  EXPECT_EQ(page.items.size(), 1U);
}

TEST_F(KeyScansTest, WhereBackupsAreBehindThePrimaryIsAsked) {
  KeyScans scans(ctx_, false);
  KeyPage page;
  EXPECT_FALSE(scans.scan_here(kTable, backed_, 0, 10, &page));
  EXPECT_TRUE(scans.scan_here(kTable, backed_, 0, 0, &page)) << "that only counts";
  EXPECT_TRUE(scans.scan_here(kTable, partition_, 0, 10, &page));
}

// An insert that is acknowledged may not be unlocked yet.
TEST_F(KeyScansTest, AKeyThatIsBeingInsertedIsServed) {
  ASSERT_EQ(table().lock(hashed(key_), make_owner(kSelf, kWorker, 1), Write::kInsert, std::nullopt, 8).code, Code::kOk);
  hear(question(10));
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].as<ScanBytes>().key_bytes, 8U);
  EXPECT_EQ(got[0].as<ScanBytes>().prefix_bytes, 0U);
}

TEST_F(KeyScansTest, OnlyThePrimaryServes) {
  load_record(backed_key_, "value");
  ScanBytes m = question(10);
  m.partition = backed_.value;
  EXPECT_TRUE(hear(m));
  deliver();
  EXPECT_TRUE(take_received().empty());
}

TEST_F(KeyScansTest, AnEmptyPartitionAndAPageOfNoKeysEndAtOnce) {
  KeyPage page;
  page.next = 1;
  ASSERT_TRUE(scans_.scan_here(kTable, partition_, 0, 10, &page));
  EXPECT_TRUE(page.done && page.items.empty());
  EXPECT_EQ(page.next, 0U);
  load_keys(3);
  ASSERT_TRUE(scans_.scan_here(kTable, partition_, 0, 0, &page));
  EXPECT_EQ(page.next, 0U);
  EXPECT_TRUE(page.items.empty());
  EXPECT_EQ(page.records, 3U) << "only how many there are";
}

TEST_F(KeyScansTest, APrimaryServesAPage) {
  const std::vector<uint64_t> keys = load_keys(3);
  EXPECT_TRUE(hear(question(1000)));
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 4U);
  std::vector<uint64_t> found;
  for (size_t i = 0; i < 3; ++i) {
    const auto m = got[i].as<ScanBytes>();
    EXPECT_EQ(m.step, kScanItem);
    EXPECT_EQ(m.question, 55U);
    EXPECT_EQ(m.key_bytes, 8U);
    found.push_back(load<uint64_t>(got[i].body.data() + sizeof m));
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, keys);
  const auto last = got[3].as<ScanBytes>();
  EXPECT_EQ(last.step, kScanEnd);
  EXPECT_EQ(last.cursor, 0U);
  EXPECT_EQ(last.records, 3U);
}

// Rule E4: the data here is current only with a lease.
TEST_F(KeyScansTest, WithoutALeaseOrAWholeReplicaNobodyIsServed) {
  load_keys(3);
  clock_.now = 1000;
  state_.lease.set_until(1000);
  EXPECT_TRUE(hear(question(10)));
  deliver();
  EXPECT_TRUE(take_received().empty());
  state_.lease.set_until(1001);
  hear(question(10));
  deliver();
  EXPECT_FALSE(take_received().empty());
  enter(catching_up_view(partition_, NodeId(1), kSelf));
  hear(question(10));
  deliver();
  EXPECT_TRUE(take_received().empty());
}

TEST_F(KeyScansTest, WhoTakesNothingIsNotServedUntilItDoes) {
  load_keys(3);
  choke(NodeId(1), ctx_.limits.credit_bytes / 2);
  hear(question(10));
  EXPECT_TRUE(unchoke().empty());
  hear(question(10));
  deliver();
  EXPECT_EQ(take_received().size(), 4U);
}

TEST_F(KeyScansTest, ACursorThatNobodyWasGivenDoesNoHarm) {
  load_keys(3);
  for (const uint64_t cursor : {uint64_t{1}, uint64_t{4095}, UINT64_MAX, UINT64_MAX << kScanCursorSpare}) {
    EXPECT_TRUE(hear(question(10, cursor)));
    deliver();
    const std::vector<Received> got = take_received();
    ASSERT_FALSE(got.empty());
    EXPECT_EQ(got.back().as<ScanBytes>().step, kScanEnd);
  }
}

TEST_F(KeyScansTest, AsksThePrimaryAndTakesWhatItAnswers) {
  auto page = std::make_shared<KeyPage>();
  page->items.push_back({"left over", ""});
  const uint32_t number = scans_.ask(kTable, theirs_, 1 << kScanCursorSpare, 20, page);
  EXPECT_TRUE(page->items.empty());
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, NodeId(1));
  const auto asked = got[0].as<ScanBytes>();
  EXPECT_EQ(asked.step, kScanAsk);
  EXPECT_EQ(asked.question, number);
  EXPECT_EQ(asked.keys_max, 20U);
  EXPECT_EQ(asked.cursor, uint64_t{1} << kScanCursorSpare);
  EXPECT_EQ(asked.partition, theirs_.value);
  EXPECT_TRUE(hear(item(number, 8, 3), as_bytes(std::string_view("12345678abc\0\0\0\0\0", 16))));
  EXPECT_FALSE(page->done);
  EXPECT_TRUE(hear(end(number, 4096, 9)));
  EXPECT_TRUE(page->done);
  EXPECT_EQ(page->next, 4096U);
  EXPECT_EQ(page->records, 9U);
  ASSERT_EQ(page->items.size(), 1U);
  EXPECT_EQ(page->items[0].key, "12345678");
  EXPECT_EQ(page->items[0].value_prefix, "abc");
  hear(item(number, 8, 0), as_bytes("12345678"));
  EXPECT_EQ(page->items.size(), 1U) << "the question is answered";
}

TEST_F(KeyScansTest, AnswersToOtherQuestionsAreIgnored) {
  auto first = std::make_shared<KeyPage>();
  auto second = std::make_shared<KeyPage>();
  const uint32_t a = scans_.ask(kTable, theirs_, 0, 20, first);
  const uint32_t b = scans_.ask(kTable, theirs_, 0, 20, second);
  ASSERT_NE(a, b);
  EXPECT_TRUE(hear(end(b + 1, 0, 9)));
  EXPECT_FALSE(first->done || second->done);
  hear(end(b, 0, 9));
  EXPECT_FALSE(first->done);
  EXPECT_TRUE(second->done);
  scans_.forget(a);
  hear(end(a, 0, 9));
  EXPECT_FALSE(first->done) << "it was given up";
}

TEST_F(KeyScansTest, APageOfWhoWasNotAskedIsAFaultOfThePeer) {
  auto page = std::make_shared<KeyPage>();
  const uint32_t number = scans_.ask(kTable, theirs_, 0, 20, page);
  for (const bool item_first : {true, false}) {
    hear(item_first ? item(number, 8, 0) : end(number, 0, 9), as_bytes(item_first ? "12345678" : ""), NodeId(2));
    const auto fault = ctx_.faults.take();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->peer, NodeId(2));
    EXPECT_TRUE(page->items.empty() && !page->done);
  }
  hear(end(number, 0, 9));
  EXPECT_TRUE(page->done);
  hear(end(number, 0, 9), {}, NodeId(2));
  EXPECT_TRUE(ctx_.faults.empty()) << "nothing is asked any more";
}

TEST_F(KeyScansTest, AQuestionToWhoTakesNothingIsNotSentAndCanBeForgotten) {
  choke(NodeId(1), ctx_.limits.credit_bytes / 2);
  const std::weak_ptr<KeyPage> seen = [&] {
    auto page = std::make_shared<KeyPage>();
    scans_.forget(scans_.ask(kTable, theirs_, 0, 20, page));
    return std::weak_ptr<KeyPage>(page);
  }();
  EXPECT_TRUE(seen.expired());
  EXPECT_TRUE(unchoke().empty());
}

TEST_F(KeyScansTest, APageTakesNoMoreThanItsShareWhateverIsSent) {
  auto page = std::make_shared<KeyPage>();
  const uint32_t number = scans_.ask(kTable, theirs_, 0, 20, page);
  for (int i = 0; i < (32 << 10) + 5; ++i) hear(item(number, 0, 0));
  EXPECT_EQ(page->items.size(), size_t{32} << 10);
  hear(end(number, 0, 1));
  EXPECT_TRUE(page->done);
}

TEST_F(KeyScansTest, WhatIsMalformedIsRefusedAndChangesNothing) {
  auto page = std::make_shared<KeyPage>();
  const uint32_t number = scans_.ask(kTable, theirs_, 0, 20, page);
  const auto refused = [&](const ScanBytes& m, ByteView rest, const char* what) {
    EXPECT_FALSE(hear(m, rest)) << what;
    EXPECT_TRUE(page->items.empty() && !page->done) << what;
  };
  const std::string text = "12345678abc" + std::string(5, '\0');
  const ScanBytes good = item(number, 8, 3);
  ScanBytes m = good;
  m.step = kScanEnd + 1;
  refused(m, as_bytes(text), "step");
  m = good;
  m.table = 1;
  refused(m, as_bytes(text), "table");
  m = good;
  m.partition = 3;
  refused(m, as_bytes(text), "partition");
  m = good;
  m.key_bytes = 16;
  refused(m, as_bytes(text), "a longer key than there are bytes");
  const std::string large(padded(ctx_.limits.key_bytes_max + 1), 'x');
  refused(item(number, static_cast<uint16_t>(ctx_.limits.key_bytes_max + 1), 0), as_bytes(large), "a key too long");
  const std::string prefix(padded(8 + KeyItem::kPrefixBytes + 1), 'x');
  refused(item(number, 8, KeyItem::kPrefixBytes + 1), as_bytes(prefix), "a prefix too long");
  refused(good, as_bytes(text).subspan(0, 8), "too short");
  refused(end(number, 0, 0), as_bytes(text), "an end with something behind it");
  const std::vector<std::byte> half(sizeof(ScanBytes) - 1);
  EXPECT_FALSE((hand_over<&KeyScans::parse, &KeyScans::on_message>(scans_, NodeId(1), Kind::kScan, half)));
  EXPECT_TRUE(hear(good, as_bytes(text))) << "and this one is whole";
  EXPECT_EQ(page->items.size(), 1U);
}

}  // namespace
}  // namespace weft
