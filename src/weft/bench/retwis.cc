#include "weft/bench/retwis.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/bench/retwis_rows.h"

namespace weft::bench {

using namespace retwis;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

constexpr TxnKind kMix[] = {{"add-user", 5}, {"follow", 15}, {"post-tweet", 30}, {"timeline", 50}};

// By kind; a timeline has as many gets as are drawn for it.
struct Shape {
  uint32_t gets, puts;
};
constexpr Shape kShapes[] = {{1, 3}, {2, 2}, {3, 5}, {Retwis::kKeysMax, 0}};

// kApplication: a record that a transaction read was not as any transaction wrote it.
Code verify(const Arguments& arguments, std::span<const Value> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].code != Code::kOk) return values[i].code;
    if (!values[i].found) return Code::kNotFound;  // none is ever deleted
    if (!intact(arguments.keys[i], values[i].bytes)) return Code::kApplication;
  }
  return Code::kOk;
}

template <Retwis::Kind kKind>
void update_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto arguments = row_of<Arguments>(bytes);
  for (uint32_t i = 0; i < kShapes[kKind].puts; ++i) {
    if (i < kShapes[kKind].gets) {
      keys.add(Retwis::kRecords, arguments.keys[i], Intent::kUpdate);
    } else {
      keys.will_write(Retwis::kRecords, arguments.keys[i]);
    }
  }
}

template <Retwis::Kind kKind>
Code update_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes& writes) {
  const auto arguments = row_of<Arguments>(bytes);
  if (const Code code = verify(arguments, values); code != Code::kOk) return code;
  for (uint32_t i = 0; i < kShapes[kKind].puts; ++i) {
    const uint64_t version = i < kShapes[kKind].gets ? values[i].version.value + 1 : 0;
    writes.put(Retwis::kRecords, arguments.keys[i], bytes_of(record_of(arguments.keys[i], arguments.writer, version)));
  }
  return Code::kOk;
}

void timeline_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto arguments = row_of<Arguments>(bytes);
  for (uint32_t i = 0; i < keys_in(bytes); ++i) keys.add(Retwis::kRecords, arguments.keys[i]);
}

Code timeline_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes&) {
  return verify(row_of<Arguments>(bytes), values);
}

}  // namespace

Retwis::Retwis(uint64_t records, Skew skew) : records_(records), zipf_(records, skew == Skew::kHot ? kAlpha : 0) {
  WEFT_CHECK(records_ >= kKeysMax, "make_workload checks it");
}

std::span<const TxnKind> Retwis::kinds() const { return kMix; }

std::vector<TableSpec> Retwis::tables() const {
  TableSpec spec;
  spec.name = "records";
  spec.value_bytes_max = sizeof(Record);
  spec.capacity = records_;
  return {spec};
}

std::vector<StoredProcedure> Retwis::procedures() const {  // in the order of Kind
  return {{"add-user", update_keys<kAddUser>, update_step<kAddUser>},
          {"follow", update_keys<kFollow>, update_step<kFollow>},
          {"post-tweet", update_keys<kPostTweet>, update_step<kPostTweet>},
          {"timeline", timeline_keys, timeline_step}};
}

Result<void> Retwis::load(const Put& put, Random&) {
  for (uint64_t key = 0; key < records_; ++key) {
    if (auto done = put(kRecords, key, bytes_of(record_of(key, 0, kLoadedVersion))); !done) return done;
  }
  return {};
}

// a[0] seed of the keys, a[1] how many there are.
Call Retwis::draw(Random& random) const {
  Call call;
  call.kind = pick_kind(kMix, random.below(100));
  call.a[0] = random.next();
  call.a[1] = call.kind == kTimeline ? random.between(1, kKeysMax) : kShapes[call.kind].puts;
  return call;
}

uint32_t Retwis::keys_of(const Call& call, KeyList& keys) const {
  Random random(call.a[0]);
  const auto count = static_cast<uint32_t>(call.a[1]);
  for (uint32_t i = 0; i < count; ++i) {
    do {
      keys[i] = zipf_.draw(random);
    } while (std::find(keys.begin(), keys.begin() + i, keys[i]) != keys.begin() + i);
  }
  return count;
}

Task<Outcome> Retwis::attempt(Session& session, const Call& call, Effect& effect) const {
  effect.net = kShapes[call.kind].puts;
  return run(session, call);
}

Task<Outcome> Retwis::run(Session& session, Call call) const {
  Arguments arguments{};
  arguments.writer = call.a[0];
  const uint32_t count = keys_of(call, arguments.keys);
  Task<Outcome> work = session.call(ProcedureId(static_cast<uint16_t>(call.kind)),
                                    bytes_of(arguments).substr(0, (1 + size_t{count}) * sizeof(uint64_t)));
  co_return co_await work;
}

std::string Retwis::check(const VisitTable& visit_table, const Tally& tally) const {
  uint64_t records = 0, moved = 0, broken = 0, lost = 0;
  visit_table(kRecords, [&](NodeId, bool primary, std::string_view key, std::string_view value, uint64_t version) {
    if (!primary) return;
    ++records;
    moved += version - kLoadedVersion;
    if (!intact(row_of<uint64_t>(key), value)) {
      ++broken;
      return;
    }
    const auto record = row_of<Record>(value);
    lost += record.version != 0 && record.version != version ? 1 : 0;
  });
  if (records != records_) {
    return "retwis: " + std::to_string(records_) + " records were loaded, " + std::to_string(records) + " are there";
  }
  if (broken != 0) return "retwis: " + std::to_string(broken) + " records are not as a transaction wrote them";
  if (lost != 0) {
    return "retwis: " + std::to_string(lost) + " records were written by a transaction that had not read the last one";
  }
  // A transaction whose outcome is not known may have written.
  const auto puts = static_cast<uint64_t>(tally.net);
  if (moved < puts || moved > puts + tally.failed * kPutsMax) {
    return "retwis: versions moved " + std::to_string(moved) + " times, " + std::to_string(puts) +
           " puts were committed and " + std::to_string(tally.failed) + " transactions had no outcome";
  }
  return {};
}

}  // namespace weft::bench
