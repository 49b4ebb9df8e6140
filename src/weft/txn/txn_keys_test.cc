// The keys of a transaction: each is one entry, and what exceeds a limit is rejected and changes nothing.
#include "weft/txn/txn_keys.h"

#include "weft/txn/commit_testing.h"

namespace weft {
namespace {

Limits txn_keys_limits() {
  Limits limits;
  limits.txn_keys_max = 20;
  limits.key_bytes_max = 40;
  limits.txn_bytes_max = 4000;
  return limits;
}

class TxnKeysTest : public PartTest {
 protected:
  static constexpr TableId kStrings{1};

  TxnKeysTest() : PartTest(txn_keys_limits()) {
    TableOptions options;
    options.spec = {.name = "s", .keys = KeyKind::kBytes, .value_bytes_max = 2000, .capacity = 1000};
    options.partitions = options.partitions_held = kNodes;
    auto region = Region::create(Table::region_bytes(options));
    auto table = Table::create(options, region->get());
    tables_.add(std::move(*region), std::move(*table));
    at(1000);
    slot_ = slots_.acquire(0);
  }

  Entry* add(uint64_t key) { return keys_.find_or_add(*slot_, kTable, key); }
  Entry* add(std::string_view key) { return keys_.find_or_add(*slot_, kStrings, key); }
  Code write(Entry* e, Write what, std::string_view value = {}) { return keys_.write(*slot_, *e, what, value); }
  const Outcome& outcome() const { return slot_->outcome; }
  static std::string new_value(const Entry& e) { return {reinterpret_cast<const char*>(e.new_value), e.new_bytes}; }

  SlotTable slots_{ctx_, pool_.get(), nullptr, 500, 0};
  TxnKeys keys_{ctx_, pool_.get()};
  TxnSlot* slot_ = nullptr;
};

TEST_F(TxnKeysTest, AKeyIsOneEntry) {
  Entry* one = add(7);
  EXPECT_NE(add(8), one);
  EXPECT_EQ(add(7), one);
  EXPECT_EQ(slot_->count, 2);
  EXPECT_EQ(one->table, &table());
  EXPECT_EQ(one->placement, &view_->placement(one->key.partition));
}

TEST_F(TxnKeysTest, KeysOfTwoTablesAreTwoEntries) {
  const uint64_t integer = 7;
  const std::string_view bytes(reinterpret_cast<const char*>(&integer), sizeof integer);
  Entry* one = add(integer);
  Entry* other = add(bytes);
  EXPECT_NE(one, other);
  EXPECT_EQ(add(integer), one);
  EXPECT_EQ(add(bytes), other);
}

TEST_F(TxnKeysTest, AKeyIsKeptWhenTheCallersBytesAreGone) {
  std::string key = "first";
  const Entry* e = add(std::string_view(key));
  key = "other";
  EXPECT_EQ(as_text(e->key.bytes), "first");
  EXPECT_EQ(add("first"), e);
}

TEST_F(TxnKeysTest, StringsAreFoundAgainInAnyOrder) {
  std::vector<Entry*> entries;
  for (const char* key : {"a", "b", "c", "d"}) entries.push_back(add(std::string_view(key)));
  EXPECT_EQ(add("a"), entries[0]) << "from the beginning again";
  EXPECT_EQ(add("b"), entries[1]) << "the next one";
  EXPECT_EQ(add("b"), entries[1]) << "the same one";
  EXPECT_EQ(add("d"), entries[3]);
  EXPECT_EQ(add("c"), entries[2]);
  EXPECT_EQ(slot_->count, 4);
}

TEST_F(TxnKeysTest, MoreKeysThanASlotHoldsAreFoundAgainWithWhatWasNotedOfThem) {
  for (uint64_t key = 0; key < 20; ++key) {
    Entry* e = add(key);
    ASSERT_NE(e, nullptr);
    e->version = Version(key + 100);
  }
  EXPECT_EQ(slot_->count, 20);
  EXPECT_NE(slot_->entries, slot_->inline_entries.data());
  for (uint64_t key = 20; key-- > 0;) {
    const Entry* e = add(key);
    ASSERT_NE(e, nullptr);
    EXPECT_EQ(e->version, Version(key + 100));
  }
  EXPECT_EQ(slot_->count, 20);
  EXPECT_EQ(outcome().code, Code::kOk);
}

TEST_F(TxnKeysTest, OneKeyMoreThanTheLimitIsRejected) {
  for (uint64_t key = 0; key < 20; ++key) add(key);
  EXPECT_EQ(add(20), nullptr);
  EXPECT_EQ(outcome().code, Code::kTxnTooLarge);
  EXPECT_STREQ(outcome().limit_name, "limits.txn_keys_max");
  EXPECT_EQ(outcome().asked, 21U);
  EXPECT_NE(add(19), nullptr) << "those it has are still there";
  EXPECT_EQ(slot_->count, 20);
}

TEST_F(TxnKeysTest, ATableThatIsNotThereIsRejected) {
  EXPECT_EQ(keys_.find_or_add(*slot_, TableId(2), 1), nullptr);
  EXPECT_EQ(outcome().code, Code::kNoSuchTable);
  EXPECT_EQ(slot_->count, 0);
}

TEST_F(TxnKeysTest, AnIntegerKeyHasEightBytes) {
  EXPECT_EQ(keys_.find_or_add(*slot_, kTable, "seven b"), nullptr);
  EXPECT_EQ(outcome().code, Code::kInvalidArgument);
}

TEST_F(TxnKeysTest, AKeyMayBeAsLongAsTheLimitAndNoLonger) {
  const std::string longest(40, 'k');
  const std::string longer(41, 'k');
  EXPECT_NE(add(std::string_view(longest)), nullptr);
  EXPECT_EQ(outcome().code, Code::kOk);
  EXPECT_EQ(add(std::string_view(longer)), nullptr);
  EXPECT_EQ(outcome().code, Code::kKeyTooLong);
  EXPECT_EQ(outcome().asked, 41U);
}

TEST_F(TxnKeysTest, BytesAreTheSlotsOwnAndThenThePools) {
  std::byte* first = keys_.take_bytes(*slot_, TxnSlot::kInlineBytes - 8);
  std::byte* second = keys_.take_bytes(*slot_, 5);
  EXPECT_EQ(first, slot_->bytes.data());
  EXPECT_EQ(second, first + TxnSlot::kInlineBytes - 8);
  EXPECT_EQ(slot_->chunks, 0);
  std::byte* third = keys_.take_bytes(*slot_, 1);
  EXPECT_EQ(slot_->chunks, 1);
  EXPECT_EQ(keys_.take_bytes(*slot_, 1), third + 8) << "the rest of the block is used";
  EXPECT_EQ(slot_->chunks, 1);
  EXPECT_EQ(slot_->bytes_taken, TxnSlot::kInlineBytes + 16U);
}

TEST_F(TxnKeysTest, WhatPadsAPieceIsZero) {
  std::fill(slot_->bytes.begin(), slot_->bytes.end(), std::byte{0xff});
  const std::byte* piece = keys_.take_bytes(*slot_, 9);
  for (int i = 8; i < 16; ++i) EXPECT_EQ(piece[i], std::byte{0});
  EXPECT_EQ(piece[16], std::byte{0xff}) << "and nothing behind it is touched";
}

TEST_F(TxnKeysTest, BytesBeyondTheLimitAreRefusedAndNotCounted) {
  EXPECT_NE(keys_.take_bytes(*slot_, 7992), nullptr);
  EXPECT_EQ(keys_.take_bytes(*slot_, 9), nullptr);
  EXPECT_EQ(slot_->bytes_taken, 7992U);
  EXPECT_NE(keys_.take_bytes(*slot_, 8), nullptr) << "to the last byte";
  EXPECT_NE(keys_.take_bytes(*slot_, 0), nullptr);
  EXPECT_EQ(keys_.take_bytes(*slot_, 1), nullptr);
}

TEST_F(TxnKeysTest, AKeyWithoutBytesLeftIsRejected) {
  slot_->bytes_used = 4000;
  EXPECT_EQ(add("k"), nullptr);
  EXPECT_EQ(outcome().code, Code::kTxnTooLarge);
  EXPECT_STREQ(outcome().limit_name, "limits.txn_bytes_max");
  EXPECT_EQ(slot_->count, 0);
}

TEST_F(TxnKeysTest, AKeyWithoutMemoryLeftIsRejected) {
  keys_.take_bytes(*slot_, 8000);
  EXPECT_EQ(add("k"), nullptr);
  EXPECT_EQ(outcome().code, Code::kTxnTooLarge);
  EXPECT_EQ(outcome().limit, 8000U);
  EXPECT_EQ(slot_->count, 0);
}

// What was overwritten does not count, up to the limit of memory; what is read counts by itself.
TEST_F(TxnKeysTest, ATransactionHoldsWhatItWritesAndWhatItReads) {
  Entry* e = add("k");
  const std::string value(1000, 'v');
  for (int i = 0; i < 4; ++i) EXPECT_EQ(write(e, Write::kPut, value), Code::kOk) << i;
  EXPECT_EQ(slot_->bytes_used, 1008U);
  EXPECT_EQ(write(add("l"), Write::kPut, value), Code::kOk);
  Entry* read = add("m");
  read->read = true;
  const std::vector<std::byte> bytes(1600);
  keys_.keep_value(*slot_, *read, bytes);
  EXPECT_EQ(read->code, Code::kOk);
  EXPECT_EQ(slot_->bytes_read, 1600U);
  EXPECT_EQ(write(e, Write::kErase, {}), Code::kOk);
  EXPECT_EQ(slot_->bytes_used, 3 * 8 + 1000U);
  EXPECT_EQ(write(e, Write::kPut, value), Code::kOk);
  EXPECT_EQ(write(e, Write::kPut, value), Code::kTxnTooLarge) << "eight times as much was taken";
  EXPECT_EQ(outcome().limit, 8000U);
  EXPECT_EQ(new_value(*e), value);
}

TEST_F(TxnKeysTest, TheFirstWriteOfAKeySaysWhatItDemands) {
  Entry* put = add(1);
  Entry* insert = add(2);
  Entry* erase = add(3);
  EXPECT_EQ(write(put, Write::kPut, "v"), Code::kOk);
  EXPECT_EQ(write(insert, Write::kInsert, "v"), Code::kOk);
  EXPECT_EQ(write(erase, Write::kErase), Code::kOk);
  EXPECT_EQ(put->precondition, Precondition::kNothing);
  EXPECT_EQ(insert->precondition, Precondition::kAbsent);
  EXPECT_EQ(erase->precondition, Precondition::kPresent);
  EXPECT_EQ(insert->write, Write::kPut) << "until commit it is what the key shall come to";
}

TEST_F(TxnKeysTest, ALaterWriteChangesTheValueButNotTheDemand) {
  Entry* e = add(1);
  write(e, Write::kInsert, "one");
  EXPECT_EQ(write(e, Write::kErase), Code::kOk);
  EXPECT_EQ(e->write, Write::kErase);
  EXPECT_EQ(e->new_bytes, 0U);
  EXPECT_EQ(write(e, Write::kInsert, "three"), Code::kOk) << "it is gone for this transaction";
  EXPECT_EQ(new_value(*e), "three");
  EXPECT_EQ(e->precondition, Precondition::kAbsent);
}

TEST_F(TxnKeysTest, AnInsertOfWhatTheTransactionHasWrittenFails) {
  Entry* e = add(1);
  write(e, Write::kPut, "one");
  EXPECT_EQ(write(e, Write::kInsert, "two"), Code::kExists);
  EXPECT_EQ(outcome().code, Code::kExists);
  EXPECT_EQ(outcome().kind, OutcomeKind::kAborted);
  EXPECT_EQ(new_value(*e), "one");
}

TEST_F(TxnKeysTest, AnEraseOfWhatTheTransactionHasErasedFails) {
  Entry* e = add(1);
  write(e, Write::kErase);
  EXPECT_EQ(write(e, Write::kErase), Code::kNotFound);
  EXPECT_EQ(outcome().code, Code::kNotFound);
}

TEST_F(TxnKeysTest, AValueMayBeAsLongAsTheTableAllowsAndNoLonger) {
  Entry* e = add(1);
  EXPECT_EQ(write(e, Write::kPut, std::string(64, 'v')), Code::kOk);
  EXPECT_EQ(write(e, Write::kPut, std::string(65, 'w')), Code::kValueTooLong);
  EXPECT_EQ(outcome().kind, OutcomeKind::kRejected);
  EXPECT_EQ(outcome().limit, 64U);
  EXPECT_EQ(new_value(*e), std::string(64, 'v'));
}

TEST_F(TxnKeysTest, AnEmptyValueIsAValue) {
  Entry* e = add(1);
  EXPECT_EQ(write(e, Write::kPut, ""), Code::kOk);
  EXPECT_EQ(e->write, Write::kPut);
  EXPECT_EQ(e->new_bytes, 0U);
  EXPECT_NE(e->new_value, nullptr);
}

TEST_F(TxnKeysTest, AWriteWithoutBytesLeftIsRejectedAndTheOneBeforeStays) {
  Entry* e = add("k");
  write(e, Write::kPut, "before");
  slot_->bytes_used += 3000;
  EXPECT_EQ(write(e, Write::kPut, std::string(1000, 'v')), Code::kTxnTooLarge);
  EXPECT_EQ(outcome().kind, OutcomeKind::kRejected);
  EXPECT_EQ(new_value(*e), "before");
}

TEST_F(TxnKeysTest, AValueThatWasReadIsCopied) {
  Entry* e = add(1);
  e->read = true;
  alignas(8) char value[8] = "value";
  keys_.keep_value(*slot_, *e, {reinterpret_cast<const std::byte*>(value), 5});
  value[0] = 'X';
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(e->value), e->value_bytes), "value");
}

TEST_F(TxnKeysTest, AReadWithoutBytesLeftRejectsTheTransaction) {
  Entry* e = add(1);
  e->read = true;
  slot_->bytes_read = 3992;
  const std::vector<std::byte> value(16);
  keys_.keep_value(*slot_, *e, value);
  EXPECT_EQ(e->code, Code::kTxnTooLarge);
  EXPECT_EQ(outcome().kind, OutcomeKind::kRejected);
}

TEST_F(TxnKeysTest, OnlyWhatExecutesNamesKeys) {
  slot_->stage = TxnStage::kCommitting;
  EXPECT_DEATH(add(1), "only what executes names keys");
}

}  // namespace
}  // namespace weft
