#include "weft/bench/tatp.h"

#include <algorithm>
#include <vector>

#include "weft/base/check.h"
#include "weft/bench/tatp_rows.h"
#include "weft/bench/tatp_txns.h"

namespace weft::bench {

using namespace tatp;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

constexpr TxnKind kMix[] = {{"get-subscriber", 35},   {"get-access", 35},      {"get-new-destination", 10},
                            {"update-subscriber", 2}, {"update-location", 14}, {"insert-forwarding", 2},
                            {"delete-forwarding", 2}};

constexpr uint32_t kActivePercent = 85;

// 1 to 4 of the types 1 .. 4, as a bit mask (bit 0 is type 1).
uint64_t draw_types(Random& random) {
  const uint64_t wanted = random.between(1, kTypes);
  uint64_t mask = 0;
  for (uint64_t have = 0; have < wanted;) {
    const uint64_t bit = uint64_t{1} << random.below(kTypes);
    if ((mask & bit) != 0) continue;
    mask |= bit;
    ++have;
  }
  return mask;
}

}  // namespace

Tatp::Tatp(uint64_t subscribers) : subscribers_(subscribers) {
  WEFT_CHECK(subscribers_ >= 1, "make_workload checks it");
}

std::span<const TxnKind> Tatp::kinds() const { return kMix; }

std::vector<TableSpec> Tatp::tables() const {
  const auto spec = [](const char* name, size_t value_bytes, uint64_t capacity) {
    TableSpec out;
    out.name = name;
    out.value_bytes_max = static_cast<uint32_t>(value_bytes);
    out.capacity = capacity;
    return out;
  };
  // A subscriber has 2.5 access rows and facilities on average; the forwardings stay around half of the 7.5 that are
  // possible, where inserts and deletes balance. The rest is headroom.
  const uint64_t rows = subscribers_ * 3 + 16;
  return {spec("subscriber", sizeof(Subscriber), subscribers_), spec("secondary", sizeof(Secondary), subscribers_),
          spec("access", sizeof(Access), rows), spec("facility", sizeof(Facility), rows),
          spec("forwarding", sizeof(Forwarding), subscribers_ * 5 + 64)};
}

std::vector<StoredProcedure> Tatp::procedures() const {
  return {{"update-subscriber", update_subscriber_keys, update_subscriber_step}};
}

Result<void> Tatp::load(const Put& put, Random& random) {
  for (uint64_t subscriber = 0; subscriber < subscribers_; ++subscriber) {
    if (auto done = load_one(put, random, subscriber); !done) return done;
  }
  return {};
}

Result<void> Tatp::load_one(const Put& put, Random& random, uint64_t subscriber) {
  Subscriber row{};
  row.number = number_of(subscriber);
  row.bits = static_cast<uint16_t>(random.next());
  row.msc_location = static_cast<uint32_t>(random.next());
  row.vlr_location = static_cast<uint32_t>(random.next());
  if (auto done = put(kSubscriber, subscriber, bytes_of(row)); !done) return done;
  if (auto done = put(kSecondary, row.number, bytes_of(Secondary{subscriber})); !done) return done;

  const uint64_t access = draw_types(random);
  const uint64_t facilities = draw_types(random);
  for (uint64_t type = 1; type <= kTypes; ++type) {
    if ((access >> (type - 1) & 1) != 0) {
      Access right{};
      right.data1 = static_cast<uint8_t>(random.next());
      if (auto done = put(kAccess, access_key(subscriber, type), bytes_of(right)); !done) return done;
      ++loaded_access_;
    }
    if ((facilities >> (type - 1) & 1) == 0) continue;
    const uint64_t key = facility_key(subscriber, type);
    Facility facility{};
    facility.active = random.chance(kActivePercent) ? 1 : 0;
    if (auto done = put(kFacility, key, bytes_of(facility)); !done) return done;
    ++loaded_facilities_;
    // 0 to 3 forwardings, starts distinct.
    uint64_t left = random.between(0, kStarts);
    for (uint64_t slot = 0; slot < kStarts && left > 0; ++slot) {
      if (random.below(kStarts - slot) >= left) continue;
      Forwarding forwarding{};
      forwarding.end_time = static_cast<uint8_t>(slot * 8 + random.between(1, 8));
      if (auto done = put(kForwarding, forwarding_key(key, slot * 8), bytes_of(forwarding)); !done) return done;
      ++loaded_forwardings_;
      --left;
    }
  }
  return {};
}

uint64_t Tatp::spread(uint64_t subscribers) {
  if (subscribers <= 1'000'000) return 65'535;
  return subscribers <= 10'000'000 ? 1'048'575 : 2'097'151;
}

uint64_t Tatp::draw_subscriber(Random& random) const {
  return (random.between(0, spread(subscribers_)) | random.below(subscribers_)) % subscribers_;
}

// a[0] subscriber, a[1] type, a[2] start hour, a[3] end hour or a new value.
Call Tatp::draw(Random& random) const {
  Call call;
  call.kind = pick_kind(kMix, random.below(100));
  call.a[0] = draw_subscriber(random);
  call.a[1] = random.between(1, kTypes);
  call.a[2] = random.below(kStarts) * 8;
  call.a[3] = call.kind == kUpdateSubscriber || call.kind == kUpdateLocation ? random.next() : random.between(1, 24);
  return call;
}

Task<Outcome> Tatp::attempt(Session& session, const Call& call, Effect& effect) const {
  switch (call.kind) {
    case kGetSubscriber:
      return get_subscriber(session, call, effect);
    case kGetAccess:
      return get_access(session, call, effect);
    case kGetNewDestination:
      return get_new_destination(session, call, effect);
    case kUpdateSubscriber:
      return session.call(ProcedureId(0), bytes_of(call));
    case kUpdateLocation:
      return update_location(session, call);
    case kInsertForwarding:
      return insert_forwarding(session, call, effect);
    default:
      return delete_forwarding(session, call, effect);
  }
}

std::string Tatp::check(const VisitTable& visit_table, const Tally& tally) const {
  std::vector<bool> subscribers(subscribers_), facilities(subscribers_ * kTypes);
  uint64_t count[5] = {};
  std::string wrong;
  // Counts a table's rows at their primaries and calls `row(key, value)`, which says whether the row may be there.
  const auto each = [&](TableId table, const char* what, const auto& row) {
    visit_table(table, [&](NodeId, bool primary, std::string_view key_bytes, std::string_view value, uint64_t) {
      if (!primary) return;
      ++count[table.value];
      const uint64_t key = row_of<uint64_t>(key_bytes);
      if (!row(key, value) && wrong.empty()) wrong = "tatp: " + std::string(what) + ", key " + std::to_string(key);
    });
  };
  each(kSubscriber, "a subscriber row that is not its own", [&](uint64_t key, std::string_view value) {
    if (key >= subscribers_ || row_of<Subscriber>(value).number != number_of(key)) return false;
    subscribers[key] = true;
    return true;
  });
  each(kSecondary, "a telephone number without its subscriber", [&](uint64_t key, std::string_view value) {
    const uint64_t id = row_of<Secondary>(value).subscriber;
    return id < subscribers_ && subscribers[id] && number_of(id) == key;
  });
  each(kAccess, "an access row without its subscriber",
       [&](uint64_t key, std::string_view) { return key < facilities.size() && subscribers[key / kTypes]; });
  each(kFacility, "a facility without its subscriber", [&](uint64_t key, std::string_view) {
    if (key >= facilities.size() || !subscribers[key / kTypes]) return false;
    facilities[key] = true;
    return true;
  });
  each(kForwarding, "a forwarding without its facility", [&](uint64_t key, std::string_view value) {
    const uint8_t end = row_of<Forwarding>(value).end_time;
    return key / kStarts < facilities.size() && facilities[key / kStarts] && end >= 1 && end <= 24;
  });
  if (!wrong.empty()) return wrong;

  const uint64_t forwardings = loaded_forwardings_ + static_cast<uint64_t>(tally.net);
  const uint64_t expected[5] = {subscribers_, subscribers_, loaded_access_, loaded_facilities_, forwardings};
  const std::vector<TableSpec> specs = tables();
  for (size_t i = 0; i < std::size(expected); ++i) {
    if (count[i] == expected[i]) continue;
    return "tatp: table " + specs[i].name + " has " + std::to_string(count[i]) + " rows, loaded and committed were " +
           std::to_string(expected[i]);
  }
  return {};
}

}  // namespace weft::bench
