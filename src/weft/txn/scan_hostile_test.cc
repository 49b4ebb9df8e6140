// A peer that asks for pages, checks scans or answers them as no correct peer does: it is closed, nothing was locked or
// written, and the others go on. Nodes 0 and 2 are real; node 1 is a bare port that the test controls.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/scan_messages.h"
#include "weft/txn/scan_testing.h"
#include "weft/txn/txn_scan.h"

namespace weft {
namespace {

class ScanHostile : public testing::Test, public HandNodes {
 protected:
  void SetUp() override { start(); }

  void start() {
    spec_ = three_nodes();
    spec_.tables = {ordered_numbers("t", 16), {.name = "plain", .value_bytes_max = 16}, ordered_texts("texts", 16)};
    make_network();
    for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) start_node(NodeId(n), view_);
    start_enemy();
    heard_.clear();
  }
  void enemy_hears(std::span<const Message> run) override {
    for (const Message& m : run) heard_.push_back({static_cast<Kind>(m.kind), m.tag, {m.body.begin(), m.body.end()}});
  }
  void send(NodeId to, Kind kind, uint32_t tag, const std::vector<std::byte>& body) {
    std::byte* at = enemy_->reserve(to, Flow::kCommit, static_cast<uint8_t>(kind), body.size(), tag);
    if (!body.empty()) std::memcpy(at, body.data(), body.size());
    steps(20);
  }
  static void append(std::vector<std::byte>* to, const auto& what) {
    const size_t at = to->size();
    to->resize(at + sizeof what);
    store(to->data() + at, what);
  }
  bool closed(size_t at) { return txn_worker(at)->context().port.closed(enemy_id_); }
  void expect_alive() {
    std::vector<Outcome> outcomes;
    put(Session(txn_worker(0)), key_at(NodeId(2)), &outcomes);
    steps(60);
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
  }

  // Bounds in the table of numbers.
  static std::vector<std::byte> bounds(uint64_t from, uint64_t to) {
    std::vector<std::byte> out;
    append(&out, from);
    append(&out, to);
    return out;
  }
  struct Range {
    ScanRequest request{};
    std::vector<std::byte> bounds;
    uint32_t tag = 0;
  };
  Range range() const {
    const uint64_t first = key_at(NodeId(2));
    Range out;
    out.request.items_max = 10;
    out.request.room = 4096;
    out.request.from_bytes = 8;
    out.request.to_bytes = 8;
    out.bounds = bounds(first, first + 50);
    return out;
  }
  void ask(const Range& what) {
    std::vector<std::byte> body;
    append(&body, what.request);
    body.insert(body.end(), what.bounds.begin(), what.bounds.end());
    send(NodeId(2), Kind::kScanRange, what.tag, body);
  }

  struct Check {
    ScanCheckHead head{};
    std::vector<std::byte> bounds;
    uint64_t size = 0;
    bool twice = false;
    size_t more = 0;
    uint8_t slot = 0;
    bool request = true;
  };
  Check check() const {
    const uint64_t first = key_at(NodeId(2));
    Check out;
    out.head.from_bytes = 8;
    out.head.to_bytes = 8;
    out.bounds = bounds(first, first + 50);
    out.size = sizeof out.head + 16;
    return out;
  }
  void ask(const Check& what) {
    CommitRequest request{};
    request.slot = what.slot;
    request.sequence = 1;
    std::vector<std::byte> body;
    append(&body, what.twice ? 2 * what.size : what.size);
    for (int i = 0; i < (what.twice ? 2 : 1); ++i) {
      append(&body, what.head);
      body.insert(body.end(), what.bounds.begin(), what.bounds.end());
    }
    const size_t at = body.size();
    if (what.request) {
      body.resize(at + CommitRequest::bytes(spec_.options.nodes));
      request.put(body.data() + at, spec_.options.nodes);
    }
    body.resize(body.size() + what.more);
    send(NodeId(2), Kind::kCheckScans, request.tag(spec_.options.nodes), body);
  }

  struct Heard {
    Kind kind;
    uint32_t tag;
    std::vector<std::byte> body;
  };
  std::vector<Heard> heard_;
};

TEST_F(ScanHostile, WhatAPeerMayAskIsAnswered) {
  ask(range());
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_EQ(heard_[0].kind, Kind::kScanned);
  const auto reply = load<ScanReply>(heard_[0].body.data());
  EXPECT_EQ(static_cast<Code>(reply.code), Code::kOk);
  EXPECT_EQ(reply.items + reply.more, 0U);
  heard_.clear();
  ask(check());
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_EQ(heard_[0].kind, Kind::kAck) << "an empty range has the empty digest";
  heard_.clear();
  Check other = check();
  other.head.items = 1;
  ask(other);
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_EQ(heard_[0].kind, Kind::kReply);
  EXPECT_EQ(static_cast<Code>(load<PhaseReply>(heard_[0].body.data()).code), Code::kVersionMoved);
  EXPECT_FALSE(closed(2));
}

TEST_F(ScanHostile, RangesThatMakeNoSense) {
  const uint64_t here = key_at(NodeId(2));
  const struct {
    const char* what;
    std::function<void(Range&)> change;
  } wrongs[] = {
      {"a slot that no worker has", [](Range& r) { r.tag = 250; }},
      {"a table that is not there", [](Range& r) { r.request.table = 77; }},
      {"a table that is not ordered", [](Range& r) { r.request.table = 1; }},
      {"no items", [](Range& r) { r.request.items_max = 0; }},
      {"a bound longer than the message", [](Range& r) { r.request.to_bytes = 1 << 20; }},
      {"bounds of all bits", [](Range& r) { r.request.from_bytes = UINT32_MAX, r.request.to_bytes = 0x7fffffff; }},
      {"bytes after the bounds", [](Range& r) { r.bounds.resize(r.bounds.size() + 8); }},
      {"a short integer", [](Range& r) { r.request.from_bytes = 4; }},
      {"an empty range", [&](Range& r) { r.bounds = bounds(here, here); }},
      {"a range that ends before it begins", [&](Range& r) { r.bounds = bounds(here + 1, here); }},
      {"a range in two partitions", [&](Range& r) { r.bounds = bounds(here, here + 300); }},
      {"a range of another primary", [&](Range& r) { r.bounds = bounds(key_at(NodeId(0)), key_at(NodeId(0)) + 9); }},
      {"a text that is too long",
       [&](Range& r) {
         r.request.table = 2;
         r.request.from_bytes = spec_.options.limits.key_bytes_max + 2;
         r.bounds.assign(padded(r.request.from_bytes) + 8, std::byte{'a'});
       }},
      {"nothing", [](Range& r) { r.bounds.clear(); }},
  };
  for (const auto& wrong : wrongs) {
    SCOPED_TRACE(wrong.what);
    start();
    Range what = range();
    wrong.change(what);
    ask(what);
    EXPECT_TRUE(closed(2));
    EXPECT_TRUE(heard_.empty());
    ASSERT_NO_FATAL_FAILURE(expect_alive());
  }
}

TEST_F(ScanHostile, ARangeForMoreThanThereIsRoomFor) {
  Range what = range();
  what.request.room = UINT32_MAX;
  what.request.items_max = UINT32_MAX;
  ask(what);
  EXPECT_FALSE(closed(2));
  ASSERT_EQ(heard_.size(), 1U);
  what.request.room = 0;
  std::vector<Outcome> outcomes;
  put(Session(txn_worker(0)), key_at(NodeId(2)), &outcomes);
  steps(60);
  heard_.clear();
  ask(what);
  ASSERT_EQ(heard_.size(), 1U);
  const auto reply = load<ScanReply>(heard_[0].body.data());
  EXPECT_EQ(reply.items, 0U);
  EXPECT_EQ(reply.needed, page_item_bytes(8, 5));
}

TEST_F(ScanHostile, ChecksThatMakeNoSense) {
  const uint64_t here = key_at(NodeId(2));
  const struct {
    const char* what;
    std::function<void(Check&)> change;
  } wrongs[] = {
      {"a slot that no worker has", [](Check& c) { c.slot = 250; }},
      {"a table that is not there", [](Check& c) { c.head.table = 77; }},
      {"a table that is not ordered", [](Check& c) { c.head.table = 1; }},
      {"a scan that no transaction has", [](Check& c) { c.head.scan = TxnScan::kScansMax; }},
      {"more items than scans may bring",
       [this](Check& c) { c.head.items = TxnScan::kItemsFactor * spec_.options.limits.txn_keys_max + 1; }},
      {"a scan twice", [](Check& c) { c.twice = true; }},
      {"no scans", [](Check& c) { c.size = 0; }},
      {"half a scan", [](Check& c) { c.size = 24; }},
      {"more scans than bytes", [](Check& c) { c.size = 1 << 20; }},
      {"scans of all bits", [](Check& c) { c.size = UINT64_MAX; }},
      {"scans that are not whole words", [](Check& c) { c.size -= 4; }},
      {"a bound longer than the scans", [](Check& c) { c.head.from_bytes = 64; }},
      {"no request", [](Check& c) { c.request = false; }},
      {"half a key", [](Check& c) { c.more = 4; }},
      {"an empty range", [&](Check& c) { c.bounds = bounds(here, here); }},
      {"a range in two partitions", [&](Check& c) { c.bounds = bounds(here, here + 300); }},
      {"a range of another primary", [&](Check& c) { c.bounds = bounds(key_at(NodeId(0)), key_at(NodeId(0)) + 9); }},
  };
  for (const auto& wrong : wrongs) {
    SCOPED_TRACE(wrong.what);
    start();
    Check what = check();
    wrong.change(what);
    ask(what);
    EXPECT_TRUE(closed(2));
    EXPECT_TRUE(heard_.empty());
    ASSERT_NO_FATAL_FAILURE(expect_alive());
  }
}

TEST_F(ScanHostile, AnswersThatNobodyAskedFor) {
  for (const uint32_t tag : {0U, 250U}) {
    start();
    std::vector<std::byte> body;
    append(&body, ScanReply{});
    send(NodeId(0), Kind::kScanned, tag, body);
    EXPECT_TRUE(closed(0));
    expect_alive();
  }
  start();
  send(NodeId(0), Kind::kScanned, 0, {});
  EXPECT_TRUE(closed(0));
  expect_alive();
}

DetachedTask scan_at(Session session, uint64_t from, std::vector<Outcome>* outcomes) {
  Txn txn = co_await session.begin();
  co_await txn.scan(kT, from, from + 50, 2);
  outcomes->push_back(co_await txn.commit());
}

DetachedTask drop_scans_at(Session session, uint64_t from) {
  Txn txn = co_await session.begin();
  for (uint64_t i = 0; i < 3; ++i) txn.scan_async(kT, from + i, from + 50, 2);
}

// Nobody waits for these scans any more when their peer is closed: their transaction ends with the last of them.
TEST_F(ScanHostile, APeerIsClosedThatSeveralScansWaitFor) {
  for (int round = 0; round < 3; ++round) {
    start();
    for (int i = 0; i < 4; ++i) drop_scans_at(Session(txn_worker(0)), key_at(enemy_id_));
    steps(20);
    EXPECT_EQ(heard_.size(), 12U);
    send(NodeId(0), Kind::kScanned, 0, {});
    EXPECT_TRUE(closed(0));
    EXPECT_TRUE(txn_worker(0)->slots().all_free());
    expect_alive();
  }
}

// Node 0 has asked the enemy, which lies: the scan fails, and its transaction with it.
TEST_F(ScanHostile, WrongAnswersToWhatWasAsked) {
  struct Answer {
    ScanReply reply{};
    std::vector<std::byte> items;
    void item(uint64_t key, uint64_t version = 1, uint32_t value_bytes = 8, uint32_t key_bytes = 8) {
      append(&items, PageItemHead{version, key_bytes, value_bytes});
      append(&items, key);
      items.resize(items.size() + padded(value_bytes));
      ++reply.items;
    }
  };
  using Lie = std::function<void(Answer&, uint64_t first)>;
  const struct {
    const char* what;
    Lie lie;
  } lies[] = {
      {"another transaction", [](Answer& a, uint64_t) { ++a.reply.sequence; }},
      {"another scan", [](Answer& a, uint64_t) { a.reply.scan = 1; }},
      {"a code that is none", [](Answer& a, uint64_t) { a.reply.code = 200; }},
      {"a code that no peer can mean", [](Answer& a, uint64_t) { a.reply.code = static_cast<uint8_t>(Code::kOs); }},
      {"items that do not follow", [](Answer& a, uint64_t) { a.reply.items = 3; }},
      {"items that it does not count", [](Answer& a, uint64_t k) { a.item(k), a.reply.items = 0; }},
      {"more items than were asked for", [](Answer& a, uint64_t k) { a.item(k), a.item(k + 1), a.item(k + 2); }},
      {"a key before the range", [](Answer& a, uint64_t k) { a.item(k - 1); }},
      {"a key behind the range", [](Answer& a, uint64_t k) { a.item(k + 50); }},
      {"keys in no order", [](Answer& a, uint64_t k) { a.item(k + 2), a.item(k + 1); }},
      {"a key twice", [](Answer& a, uint64_t k) { a.item(k), a.item(k); }},
      {"a version of too many bits", [](Answer& a, uint64_t k) { a.item(k, UINT64_MAX); }},
      {"a value that is too long", [](Answer& a, uint64_t k) { a.item(k, 1, 24); }},
      {"a value longer than the message", [](Answer& a, uint64_t k) { a.item(k, 1, 8), a.items.resize(24); }},
      {"a key of no table", [](Answer& a, uint64_t k) { a.item(k, 1, 8, 4); }},
      {"more, and nothing", [](Answer& a, uint64_t) { a.reply.more = 1; }},
      {"an item of no size", [](Answer& a, uint64_t) { a.reply.more = 1, a.reply.needed = UINT64_MAX; }},
      {"an item that there was room for", [](Answer& a, uint64_t) { a.reply.more = 1, a.reply.needed = 24; }},
      {"a refusal with items", [](Answer& a, uint64_t k) { a.item(k), a.reply.code = 1; }},
  };
  for (const auto& lie : lies) {
    SCOPED_TRACE(lie.what);
    start();
    const uint64_t first = key_at(enemy_id_) + 1;
    std::vector<Outcome> outcomes;
    scan_at(Session(txn_worker(0)), first, &outcomes);
    steps(20);
    ASSERT_EQ(heard_.size(), 1U);
    EXPECT_EQ(heard_[0].kind, Kind::kScanRange);
    EXPECT_TRUE(outcomes.empty());
    Answer answer;
    answer.reply.sequence = load<ScanRequest>(heard_[0].body.data()).sequence;
    lie.lie(answer, first);
    std::vector<std::byte> body;
    append(&body, answer.reply);
    body.insert(body.end(), answer.items.begin(), answer.items.end());
    send(NodeId(0), Kind::kScanned, heard_[0].tag, body);
    EXPECT_TRUE(closed(0));
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].kind, OutcomeKind::kAborted) << outcomes[0].text();
    EXPECT_EQ(outcomes[0].code, Code::kPeerLost);
    expect_alive();
  }
}

}  // namespace
}  // namespace weft
