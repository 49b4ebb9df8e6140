#include "weft/txn/procedure.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/base/sanitized.h"

namespace weft {

namespace {

std::string_view bytes_text(const std::byte* bytes, size_t n) { return {reinterpret_cast<const char*>(bytes), n}; }

}  // namespace

Value value_of(const TxnSlot& slot, uint16_t entry) {
  const Entry& e = slot.entry(entry);
  Value out;
  out.code = slot.expired && !e.done ? Code::kNoAnswer : e.code;
  out.version = e.version;
  out.epoch = Epoch(slot.epoch);
  if (e.new_value != nullptr && e.write != Write::kErase) {
    out.found = true;
    out.bytes = bytes_text(e.new_value, e.new_bytes);
    out.length = e.new_bytes;
  } else if (e.write == Write::kNone && e.found && e.code == Code::kOk) {
    out.found = true;
    out.bytes = bytes_text(e.value, e.value_bytes);
    out.length = e.value_length;
  }
  return out;
}

// The keys.

void StoredProcedure::Keys::add(TableId table, Key key, Intent intent) { to_.add(table, key, intent); }
void StoredProcedure::Keys::will_write(TableId table, Key key) { to_.will_write(table, key); }

void ProcedureKeys::collect(const StoredProcedure& procedure, std::string_view arguments) {
  StoredProcedure::Keys keys(*this);
  procedure.keys(arguments, keys);
  constexpr uint64_t kMax = StoredProcedure::kKeysMax;
  if (announced_ > kMax) {
    reject(slot_, Code::kTxnTooLarge, nullptr, {"the keys that a stored procedure announces", kMax, announced_});
  }
  if constexpr (kSanitized) run_again(procedure, arguments);
}

void ProcedureKeys::run_again(const StoredProcedure& procedure, std::string_view arguments) {
  named_again_.clear();
  again_ = true;
  StoredProcedure::Keys keys(*this);
  procedure.keys(arguments, keys);
  again_ = false;
  if (slot_.outcome.code == Code::kOk && named_again_ != named_) reject(slot_, Code::kImpure, nullptr, {});
}

bool ProcedureKeys::note(TableId table, const Key& key, uint8_t how) {
  if constexpr (!kSanitized) return false;
  if (slot_.outcome.code != Code::kOk) return again_;
  if (again_) {
    const Entry* const e = keys_.find_known(slot_, table, key);
    named_again_.push_back({static_cast<uint16_t>(e == nullptr ? UINT16_MAX : e - slot_.entries), how});
  }
  return again_;
}

uint64_t ProcedureKeys::digest() const {
  uint64_t sum = slot_.count;
  for (uint16_t i = 0; i < slot_.count; ++i) {
    const Entry& e = slot_.entry(i);
    const uint64_t how =
        uint64_t{e.table_id.value} << 16 | static_cast<uint64_t>(e.intent) << 8 | (e.may_write ? 1 : 0);
    sum = mix64(sum ^ e.key.hash) ^ mix64(how ^ uint64_t{e.key.bytes.size()} << 32);
  }
  return sum;
}

bool ProcedureKeys::has_room() {
  if (announced_ <= StoredProcedure::kKeysMax) ++announced_;
  return announced_ <= StoredProcedure::kKeysMax;
}

Entry* ProcedureKeys::find_or_add(TableId table, const Key& key) {
  if (slot_.outcome.code != Code::kOk || !has_room()) return nullptr;
  return keys_.find_or_add(slot_, table, key);
}

void ProcedureKeys::add(TableId table, const Key& key, Intent intent) {
  if (note(table, key, static_cast<uint8_t>(intent))) return;
  Entry* e = find_or_add(table, key);
  if (e == nullptr) return;
  if constexpr (kSanitized) named_.push_back({static_cast<uint16_t>(e - slot_.entries), static_cast<uint8_t>(intent)});
  entries_[count_++] = static_cast<uint16_t>(e - slot_.entries);
  // A key that is named twice is read by the stronger intent.
  const auto strength = [](Intent i) {
    return i == Intent::kHint ? 0 : i == Intent::kHead ? 1 : i == Intent::kRead ? 2 : 3;
  };
  if (!e->announced || strength(intent) > strength(e->intent)) e->intent = intent;
  e->announced = true;
  e->may_write |= intent == Intent::kUpdate;
}

void ProcedureKeys::will_write(TableId table, const Key& key) {
  if (note(table, key, kWillWrite)) return;
  Entry* e = find_or_add(table, key);
  if (e == nullptr) return;
  if constexpr (kSanitized) named_.push_back({static_cast<uint16_t>(e - slot_.entries), kWillWrite});
  e->may_write = true;
  if (!e->read) e->done = true;
}

void ProcedureKeys::add_more(TableId table, const Key& key, Intent intent) {
  if (const Entry* known = keys_.find_known(slot_, table, key)) {
    const auto index = static_cast<uint16_t>(known - slot_.entries);
    const auto end = entries_.begin() + count_;
    if (std::find(entries_.begin(), end, index) != end) return;
  }
  add(table, key, intent);
  if (announced_ > StoredProcedure::kKeysMax) {
    reject(slot_, Code::kTxnTooLarge, nullptr,
           {"the keys that a stored procedure announces", StoredProcedure::kKeysMax, announced_});
  }
}

std::span<const Value> ProcedureKeys::values(Room* room) const {
  auto* const values = reinterpret_cast<Value*>(room->bytes.data());
  for (size_t i = 0; i < count_; ++i) new (values + i) Value(value_of(slot_, entries_[i]));
  return {values, count_};
}

// What a run wants.

void StoredProcedure::Writes::put(TableId table, Key key, std::string_view value) {
  to_.add(StepOutput::Kind::kPut, table, key, value, Intent::kUpdate);
}
void StoredProcedure::Writes::insert(TableId table, Key key, std::string_view value) {
  to_.add(StepOutput::Kind::kInsert, table, key, value, Intent::kUpdate);
}
void StoredProcedure::Writes::erase(TableId table, Key key) {
  to_.add(StepOutput::Kind::kErase, table, key, {}, Intent::kUpdate);
}
void StoredProcedure::Writes::will_write(TableId table, Key key) {
  to_.add(StepOutput::Kind::kWillWrite, table, key, {}, Intent::kUpdate);
}
void StoredProcedure::Writes::reply(std::string_view bytes) { to_.set_reply(bytes); }
void StoredProcedure::Writes::read_more(TableId table, Key key, Intent intent) {
  to_.add(StepOutput::Kind::kReadMore, table, key, {}, intent);
}

void StepOutput::add(Kind kind, TableId table, const Key& key, std::string_view value, Intent intent) {
  const auto at = static_cast<uint32_t>(bytes_.size());
  wishes_.push_back({kind, intent, key.is_integer(), table, at, static_cast<uint32_t>(key.size()),
                     static_cast<uint32_t>(value.size())});
  bytes_.append(key.data(), key.size());
  bytes_.append(value);
  wants_more_ |= kind == Kind::kReadMore;
}

Key StepOutput::key_of(const Wish& wish) const {
  if (!wish.integer_key) return std::string_view(bytes_.data() + wish.at, wish.key_bytes);
  uint64_t integer = 0;
  std::memcpy(&integer, bytes_.data() + wish.at, sizeof integer);
  return integer;
}

Code StepOutput::run_once(const StoredProcedure& procedure, std::string_view arguments, std::span<const Value> values) {
  wishes_.clear();
  bytes_.clear();
  reply_.clear();
  wants_more_ = false;
  StoredProcedure::Writes writes(*this);
  return procedure.execute(arguments, values, writes);
}

Code StepOutput::run(const StoredProcedure& procedure, std::string_view arguments, std::span<const Value> values) {
  Code code = run_once(procedure, arguments, values);
  if constexpr (kSanitized) {
    const std::vector<Wish> wishes = wishes_;
    const std::string bytes = bytes_;
    const std::string reply = reply_;
    first_run_ = text();
    const Code again = run_once(procedure, arguments, values);
    if (again != code || wishes != wishes_ || bytes != bytes_ || reply != reply_) return Code::kImpure;
  }
  if (static_cast<int>(code) >= kCodes) return Code::kInvalidArgument;
  if (code == Code::kOk && !wants_more_ && reply_.size() > procedure.reply_bytes_max) code = Code::kReplyTooLong;
  return code;
}

void StepOutput::add_more(ProcedureKeys* keys) const {
  for (const Wish& wish : wishes_) {
    if (wish.kind == Kind::kReadMore) keys->add_more(wish.table, key_of(wish), wish.intent);
  }
}

std::string StepOutput::text() const {
  static constexpr std::string_view kNames[] = {"put", "insert", "erase", "will write", "read more"};
  std::string out;
  for (const Wish& wish : wishes_) {
    const Key key = key_of(wish);
    out += (out.empty() ? "" : "; ") + std::string(kNames[static_cast<int>(wish.kind)]);
    out += " table " + std::to_string(wish.table.value) + " key ";
    if (wish.integer_key) {
      uint64_t integer = 0;
      std::memcpy(&integer, key.data(), sizeof integer);
      out += std::to_string(integer);
    } else {
      out.append(key.data(), key.size());
    }
    if (wish.value_bytes != 0) out.append(" value ").append(value_of_wish(wish));
  }
  if (!reply_.empty()) out += (out.empty() ? "reply " : "; reply ") + reply_;
  return out;
}

void reject_unannounced(TxnSlot& slot, TableId table, const Key& key) {
  reject(slot, Code::kNotAnnounced, nullptr, {});
  if (slot.outcome.code != Code::kNotAnnounced || slot.outcome.key_bytes != 0) return;
  Outcome& out = slot.outcome;
  out.table = table;
  out.key_bytes = static_cast<uint32_t>(key.size());
  out.integer_key = key.is_integer();
  std::memcpy(out.key_start, key.data(), std::min(key.size(), sizeof out.key_start));
}

}  // namespace weft
