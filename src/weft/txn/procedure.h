// What a stored procedure's functions say, and how it becomes part of a transaction: ProcedureKeys puts the keys that
// it announces into a slot, and StepOutput takes what `execute` wants. Both serve whoever executes the procedure: the
// node where it was called (session.cc), or one that holds its keys (ship_server.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/txn.h"
#include "weft/txn/slot.h"
#include "weft/txn/txn_keys.h"

namespace weft {

// What a get of this entry returns, once it is done.
Value value_of(const TxnSlot& slot, uint16_t entry);

// The keys of a call, in the order in which `execute` gets their values.
class ProcedureKeys {
 public:
  ProcedureKeys(TxnKeys& keys, TxnSlot& slot) : keys_(keys), slot_(slot) {}

  // Announces what the procedure names. If that exceeds a limit, the slot is rejected.
  void collect(const StoredProcedure& procedure, std::string_view arguments);
  void add(TableId table, const Key& key, Intent intent);
  void will_write(TableId table, const Key& key);
  // One more to read, if it is not one of them.
  void add_more(TableId table, const Key& key, Intent intent);

  size_t count() const { return count_; }
  uint16_t entry(size_t i) const { return entries_[i]; }
  // The values of all, once they are read. They are constructed in `room`.
  struct Room {
    alignas(Value) std::array<std::byte, StoredProcedure::kKeysMax * sizeof(Value)> bytes;
  };
  std::span<const Value> values(Room* room) const;

  // The same at every node where the procedure names the same keys.
  uint64_t digest() const;

 private:
  // What `keys` has named, to compare when it runs again (in builds with sanitizers).
  struct Named {
    uint16_t entry;
    uint8_t how;
    bool operator==(const Named&) const = default;
  };
  static constexpr uint8_t kWillWrite = 0xff;
  // True: nothing is to be added, since `keys` runs again.
  bool note(TableId table, const Key& key, uint8_t how);
  void run_again(const StoredProcedure& procedure, std::string_view arguments);
  Entry* find_or_add(TableId table, const Key& key);
  bool has_room();

  TxnKeys& keys_;
  TxnSlot& slot_;
  uint16_t count_ = 0;
  uint16_t announced_ = 0;  // with those that are not read
  std::vector<Named> named_, named_again_;
  bool again_ = false;
  std::array<uint16_t, StoredProcedure::kKeysMax> entries_;
};

// What one run of `execute` wants.
class StepOutput {
 public:
  enum class Kind : uint8_t { kPut, kInsert, kErase, kWillWrite, kReadMore };
  struct Wish {
    Kind kind;
    Intent intent;
    bool integer_key;
    TableId table;
    uint32_t at;  // of the key, in `bytes`; the value follows
    uint32_t key_bytes, value_bytes;
    friend bool operator==(const Wish&, const Wish&) = default;
  };

  // Runs it; in builds with sanitizers twice, to compare. Returns what it returned, kImpure, or kReplyTooLong.
  Code run(const StoredProcedure& procedure, std::string_view arguments, std::span<const Value> values);
  bool wants_more() const { return wants_more_; }
  std::string_view reply() const { return reply_; }
  // Adds the keys that it wants to read in addition.
  void add_more(ProcedureKeys* keys) const;
  // Notes the writes in the slot. f(table, key, Write, value) makes one of a key that was announced; if one was not,
  // the slot is rejected.
  template <class F>
  void write(TxnKeys& keys, TxnSlot& slot, F f) const;
  // kImpure: both runs, for a person.
  const std::string& first_run() const { return first_run_; }
  std::string text() const;

  void add(Kind kind, TableId table, const Key& key, std::string_view value, Intent intent);
  void set_reply(std::string_view bytes) { reply_.assign(bytes); }

 private:
  Code run_once(const StoredProcedure& procedure, std::string_view arguments, std::span<const Value> values);
  Key key_of(const Wish& wish) const;
  std::string_view value_of_wish(const Wish& wish) const {
    return {bytes_.data() + wish.at + wish.key_bytes, wish.value_bytes};
  }

  std::vector<Wish> wishes_;
  std::string bytes_;
  std::string reply_;
  std::string first_run_;
  bool wants_more_ = false;
};

// Rejects the slot because its procedure wrote this key without having announced it.
void reject_unannounced(TxnSlot& slot, TableId table, const Key& key);

template <class F>
void StepOutput::write(TxnKeys& keys, TxnSlot& slot, F f) const {
  for (const Wish& wish : wishes_) {
    if (slot.outcome.code != Code::kOk) return;
    const Key key = key_of(wish);
    if (wish.kind == Kind::kReadMore) continue;
    if (wish.kind == Kind::kWillWrite) {
      if (Entry* e = keys.find_or_add(slot, wish.table, key)) {
        e->may_write = true;
        if (!e->read) e->done = true;
      }
      continue;
    }
    const Entry* e = keys.find_known(slot, wish.table, key);
    if (e == nullptr || !e->may_write) {
      reject_unannounced(slot, wish.table, key);
      return;
    }
    f(wish.table, key, static_cast<Write>(static_cast<int>(wish.kind) + 1), value_of_wish(wish));
  }
}

}  // namespace weft
