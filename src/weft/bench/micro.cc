#include "weft/bench/micro.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft::bench {
namespace {

constexpr TxnKind kMix[] = {{"transaction", 100}};

struct Record {
  uint64_t counter = 0;
  uint64_t key = 0;
  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};
static_assert(sizeof(Record) == 16);

Record record_of(std::string_view bytes) {
  Record record;
  std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof record));
  return record;
}

}  // namespace

Micro::Micro(uint32_t gets, uint32_t puts, uint64_t records, double zipf)
    : gets_(gets), puts_(puts), records_(records), zipf_(records, zipf) {
  WEFT_CHECK(gets + puts >= 1 && gets + puts <= kKeysMax && records >= kKeysMax, "make_workload checks them");
}

std::string Micro::name() const { return "micro-" + std::to_string(gets_) + "-" + std::to_string(puts_); }
std::span<const TxnKind> Micro::kinds() const { return kMix; }

std::vector<TableSpec> Micro::tables() const {
  TableSpec spec;
  spec.name = "records";
  spec.value_bytes_max = sizeof(Record);
  spec.capacity = records_;
  return {spec};
}

Result<void> Micro::load(const Put& put, Random&) {
  for (uint64_t key = 0; key < records_; ++key) {
    if (auto done = put(kRecords, key, Record{0, key}.bytes()); !done) return done;
  }
  return {};
}

// A call has a seed instead of its keys, since there may be more keys than a call has room for.
Call Micro::draw(Random& random) const {
  Call call;
  call.a[0] = random.next();
  return call;
}

uint32_t Micro::keys_of(const Call& call, std::array<uint64_t, kKeysMax>& keys) const {
  Random random(call.a[0]);
  const uint32_t count = std::max(gets_, puts_);
  for (uint32_t i = 0; i < count; ++i) {
    do {
      keys[i] = zipf_.draw(random);
    } while (std::find(keys.begin(), keys.begin() + i, keys[i]) != keys.begin() + i);
  }
  return count;
}

Task<Outcome> Micro::attempt(Session& session, const Call& call, Effect& effect) const {
  effect.net = puts_;
  if (gets_ + puts_ > 1) return many(session, call);
  std::array<uint64_t, kKeysMax> keys;
  keys_of(call, keys);
  if (gets_ == 1) return get_single(session, keys[0]);
  return put_single(session, keys[0]);
}

Task<Outcome> Micro::get_single(Session& session, uint64_t key) const {
  char out[sizeof(Record)];
  Task<Session::GetResult> read = session.get_one(kRecords, key, out);
  Session::GetResult one = co_await read;
  if (one.outcome.committed() && !one.found) {
    one.outcome.kind = OutcomeKind::kAborted;
    one.outcome.code = Code::kNotFound;
  }
  co_return one.outcome;
}

Task<Outcome> Micro::put_single(Session& session, uint64_t key) const {
  const Record record{0, key};
  Task<Outcome> write = session.put_one(kRecords, key, record.bytes());
  co_return co_await write;
}

Task<Outcome> Micro::many(Session& session, const Call& call) const {
  std::array<uint64_t, kKeysMax> keys;
  const uint32_t count = keys_of(call, keys);
  Txn txn = co_await session.begin();
  std::array<ReadHandle, kKeysMax> handles;
  for (uint32_t i = 0; i < gets_; ++i) {
    handles[i] = txn.get_async(kRecords, keys[i], i < puts_ ? Intent::kUpdate : Intent::kRead);
  }
  if (gets_ > 0) co_await txn.wait_all();
  for (uint32_t i = 0; i < count; ++i) {
    Record record{0, keys[i]};
    if (i < gets_) {
      const Value value = txn.value(handles[i]);
      if (!value) {
        Outcome outcome;
        outcome.kind = OutcomeKind::kAborted;
        outcome.code = value.code == Code::kOk ? Code::kNotFound : value.code;
        outcome.id = txn.id();
        txn.abort();
        co_return outcome;
      }
      record.counter = record_of(value.bytes).counter + 1;
    }
    if (i < puts_) txn.put(kRecords, keys[i], record.bytes());
  }
  co_return co_await txn.commit();
}

std::string Micro::check(const VisitTable& visit_table, const Tally& tally) const {
  uint64_t records = 0, moved = 0, counted = 0, misplaced = 0;
  visit_table(kRecords, [&](NodeId, bool primary, std::string_view key, std::string_view value, uint64_t version) {
    if (!primary) return;
    const Record record = record_of(value);
    uint64_t own = 0;
    std::memcpy(&own, key.data(), std::min(key.size(), sizeof own));
    ++records;
    moved += version - 1;  // loaded records are at version 1
    counted += record.counter;
    misplaced += record.key != own ? 1 : 0;
  });
  const uint64_t puts = static_cast<uint64_t>(tally.net);
  const std::string after = ", " + std::to_string(puts) + " puts were committed";
  if (records != records_) {
    return name() + ": " + std::to_string(records_) + " records were loaded, " + std::to_string(records) + " are there";
  }
  if (misplaced != 0) return name() + ": " + std::to_string(misplaced) + " records hold another record's value";
  if (moved != puts) return name() + ": versions moved " + std::to_string(moved) + " times" + after;
  if (puts_ <= gets_ && counted != puts) return name() + ": the counters add up to " + std::to_string(counted) + after;
  return {};
}

}  // namespace weft::bench
