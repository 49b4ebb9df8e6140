// Messages as bytes: what is put is what is taken, in the tag and in the body, and what is not there is not taken.
#include "weft/txn/messages.h"

#include <gtest/gtest.h>

#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

// Copies the bytes, so that a sanitizer sees what is read behind them.
std::vector<std::byte> messages_test_cut(const std::vector<std::byte>& bytes, size_t count) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(GetRequestCodec, AllOfItIsInTheTagWhereItFits) {
  for (const int table : {0, 1, 254}) {
    for (const int entry : {0, 1, 255, 256, 4095}) {
      for (const int slot : {0, 1, 255}) {
        for (const uint8_t flags :
             {uint8_t{0}, uint8_t{kGetSingle}, uint8_t{kGetWhere}, static_cast<uint8_t>(kGetSingle | kGetWhere)}) {
          const GetRequest put{.slot = static_cast<uint8_t>(slot),
                               .flags = flags,
                               .entry = static_cast<uint16_t>(entry),
                               .table = static_cast<uint16_t>(table),
                               .sequence = 99};
          EXPECT_EQ(put.bytes(), 0U);
          std::byte none;
          EXPECT_EQ(put.put(&none), &none) << "nothing is written";
          GetRequest got;
          ByteView key;
          const std::vector<std::byte> body(3);
          ASSERT_TRUE(GetRequest::take(put.tag(), body, &got, &key));
          EXPECT_EQ(got.slot, put.slot);
          EXPECT_EQ(got.flags, put.flags);
          EXPECT_EQ(got.entry, put.entry);
          EXPECT_EQ(got.table, put.table);
          EXPECT_EQ(got.sequence, 0U) << "who does not lock does not say it";
          EXPECT_EQ(key.data(), body.data());
          EXPECT_EQ(key.size(), 3U);
        }
      }
    }
  }
}

TEST(GetRequestCodec, TheRestComesBeforeTheKey) {
  struct Case {
    int table;
    uint8_t flags;
    size_t bytes;
  };
  for (const Case& c : {Case{254, kGetLocks, 8}, Case{255, 0, 8}, Case{255, kGetLocks, 16}, Case{256, kGetSingle, 8},
                        Case{UINT16_MAX, kGetLocks | kGetWhere, 16}}) {
    const GetRequest put{.slot = 200,
                         .flags = c.flags,
                         .entry = 249,
                         .table = static_cast<uint16_t>(c.table),
                         .sequence = 0x1234'5678'9abc};
    ASSERT_EQ(put.bytes(), c.bytes);
    std::vector<std::byte> body(c.bytes + 8, std::byte{0xee});
    EXPECT_EQ(put.put(body.data()), body.data() + c.bytes);
    EXPECT_EQ(body[c.bytes], std::byte{0xee}) << "nothing is written behind it";
    GetRequest got;
    ByteView key;
    ASSERT_TRUE(GetRequest::take(put.tag(), body, &got, &key));
    EXPECT_EQ(got.slot, 200U);
    EXPECT_EQ(got.flags, c.flags);
    EXPECT_EQ(got.entry, 249U);
    EXPECT_EQ(got.table, c.table);
    EXPECT_EQ(got.sequence, (c.flags & kGetLocks) != 0 ? put.sequence : 0U);
    EXPECT_EQ(key.data(), body.data() + c.bytes);
    EXPECT_EQ(key.size(), 8U);
    for (size_t cut = 0; cut < c.bytes; ++cut) {
      EXPECT_FALSE(GetRequest::take(put.tag(), messages_test_cut(body, cut), &got, &key)) << cut;
    }
    ASSERT_TRUE(GetRequest::take(put.tag(), messages_test_cut(body, c.bytes), &got, &key));
    EXPECT_TRUE(key.empty());
  }
}

TEST(GetReplyCodec, WhatIsPutIsTaken) {
  for (const Code code : {Code::kOk, Code::kLocked, Code::kPeerLost}) {
    for (const int entry : {0, 255, 256, 4095}) {
      for (const bool found : {false, true}) {
        for (const bool has_where : {false, true}) {
          const GetReply put{.slot = 255,
                             .code = code,
                             .entry = static_cast<uint16_t>(entry),
                             .found = found,
                             .has_where = has_where,
                             .word = 0xfedc'ba98'7654'3210};
          ASSERT_EQ(put.bytes(), has_where ? 8 + sizeof(GetWhere) : 8U);
          std::vector<std::byte> body(put.bytes());
          store(body.data(), put.word);
          GetReply got;
          ASSERT_TRUE(GetReply::take(put.tag(), body, &got));
          EXPECT_EQ(got.slot, 255U);
          EXPECT_EQ(got.code, code);
          EXPECT_EQ(got.entry, entry);
          EXPECT_EQ(got.found, found);
          EXPECT_EQ(got.has_where, has_where);
          EXPECT_EQ(got.word, put.word);
          for (size_t cut = 0; cut < body.size(); ++cut) {
            EXPECT_FALSE(GetReply::take(put.tag(), messages_test_cut(body, cut), &got)) << cut;
          }
        }
      }
    }
  }
}

TEST(GetReplyCodec, ACodeThatThereIsNotIsRefused) {
  const std::vector<std::byte> body(8);
  GetReply got;
  for (uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(GetReply::take(code << 8, body, &got), code <= static_cast<uint32_t>(Code::kPeerLost)) << code;
  }
}

TEST(CommitRequestCodec, WhatIsPutIsTakenInAClusterOfAnySize) {
  Random random(1);
  for (const int nodes : {1, 2, 3, 15, 16, 17, 32, 33, 63}) {
    for (int round = 0; round < 100; ++round) {
      const NodeSet all = NodeSet::below(NodeId(static_cast<uint8_t>(nodes)));
      const CommitRequest put{.coordinator = NodeId(9),
                              .slot = static_cast<uint8_t>(random.next()),
                              .flags = static_cast<uint8_t>(random.below(kCommitFlagsMax + 1)),
                              .writes = static_cast<uint16_t>(round == 0 ? UINT16_MAX : random.next()),
                              .sequence = round == 0 ? CommitRequest::kSequenceMax : random.below(uint64_t{1} << 48),
                              .participants = round == 0 ? all : NodeSet::from_bits(random.next()) & all};
      const size_t bytes = CommitRequest::bytes(nodes);
      EXPECT_EQ(bytes, nodes <= 16 ? 8U : 16U) << "where they fit, the participants are in the tag";
      std::vector<std::byte> body(bytes + 1, std::byte{0xee});
      EXPECT_EQ(put.put(body.data(), nodes), body.data() + bytes);
      EXPECT_EQ(body[bytes], std::byte{0xee}) << "nothing is written behind it";
      const std::vector<std::byte> there = messages_test_cut(body, bytes);
      const CommitRequest got = CommitRequest::of(NodeId(9), put.tag(nodes), there.data(), nodes);
      EXPECT_EQ(got.coordinator, NodeId(9));
      EXPECT_EQ(got.slot, put.slot);
      EXPECT_EQ(got.flags, put.flags);
      EXPECT_EQ(got.commits(), (put.flags & kCommits) != 0);
      EXPECT_EQ(got.writes, put.writes);
      EXPECT_EQ(got.sequence, put.sequence);
      EXPECT_EQ(got.participants, put.participants);
    }
  }
}

TEST(CommitRequestCodec, ATagHasTheSlotInItsLowByteAndTheFlagsInTheNext) {
  for (const int nodes : {16, 17}) {
    CommitRequest request{};
    request.slot = 0x5a;
    request.flags = 0x0c;
    request.participants = NodeSet::from_bits(0x8001);
    EXPECT_EQ(request.tag(nodes), nodes == 16 ? 0x8001'0c5aU : 0x0c5aU);
  }
}

TEST(MessageVersions, NoneIsAboveTheLast) {
  std::vector<std::byte> words(3 * sizeof(uint64_t));
  EXPECT_TRUE(are_versions(words.data(), 3));
  for (size_t i = 0; i < 3; ++i) {
    for (const uint64_t version : {kVersionMax, kVersionMax + 1, UINT64_MAX}) {
      store(words.data() + i * sizeof(uint64_t), version);
      EXPECT_EQ(are_versions(words.data(), 3), version == kVersionMax) << i;
      EXPECT_TRUE(are_versions(words.data(), i)) << "what is not one of them does not count";
    }
    store(words.data() + i * sizeof(uint64_t), uint64_t{0});
  }
}

}  // namespace
}  // namespace weft
