#include "weft/bench/tatp_txns.h"

#include <algorithm>
#include <cstring>

#include "weft/bench/tatp.h"
#include "weft/bench/tatp_rows.h"

namespace weft::bench::tatp {
namespace {

constexpr TableId kSubscriber = Tatp::kSubscriber, kSecondary = Tatp::kSecondary, kAccess = Tatp::kAccess;
constexpr TableId kFacility = Tatp::kFacility, kForwarding = Tatp::kForwarding;

// A read failed, or a row that every subscriber has is missing.
Outcome give_up(Txn& txn, Code code) {
  Outcome outcome;
  outcome.kind = OutcomeKind::kAborted;
  outcome.code = code == Code::kOk ? Code::kNotFound : code;
  outcome.id = txn.id();
  txn.abort();
  return outcome;
}

// The read was of an older copy, and the primary refused the write: the same answer, later.
void answered_at_primary(const Outcome& outcome, Effect& effect) {
  if (outcome.code == Code::kExists || outcome.code == Code::kNotFound) effect.refused = true;
}

}  // namespace

Task<Outcome> get_subscriber(Session& session, const Call& call, Effect&) {
  char out[sizeof(Subscriber)];
  Task<Session::GetResult> read = session.get_one(kSubscriber, call.a[0], out);
  Session::GetResult one = co_await read;
  if (one.outcome.committed() && !one.found) {
    one.outcome.kind = OutcomeKind::kAborted;
    one.outcome.code = Code::kNotFound;
  }
  co_return one.outcome;
}

Task<Outcome> get_access(Session& session, const Call& call, Effect& effect) {
  char out[sizeof(Access)];
  Task<Session::GetResult> read = session.get_one(kAccess, access_key(call.a[0], call.a[1]), out);
  const Session::GetResult one = co_await read;
  effect.refused = !one.found;
  co_return one.outcome;
}

// The facility and the forwardings that start no later are read together, in one round trip.
Task<Outcome> get_new_destination(Session& session, const Call& call, Effect& effect) {
  const uint64_t facility_id = facility_key(call.a[0], call.a[1]);
  Txn txn = co_await session.begin();
  const ReadHandle facility_read = txn.get_async(kFacility, facility_id);
  ReadHandle forwarding_reads[kStarts];
  const uint64_t slots = call.a[2] / 8 + 1;
  for (uint64_t slot = 0; slot < slots; ++slot) {
    forwarding_reads[slot] = txn.get_async(kForwarding, forwarding_key(facility_id, slot * 8));
  }
  co_await txn.wait_all();
  const Value facility = txn.value(facility_read);
  if (facility.code != Code::kOk) co_return give_up(txn, facility.code);
  bool forwarded = false;
  for (uint64_t slot = 0; slot < slots; ++slot) {
    const Value forwarding = txn.value(forwarding_reads[slot]);
    if (forwarding.code != Code::kOk) co_return give_up(txn, forwarding.code);
    forwarded |= forwarding.found && call.a[3] < row_of<Forwarding>(forwarding.bytes).end_time;
  }
  effect.refused = !facility.found || row_of<Facility>(facility.bytes).active == 0 || !forwarded;
  co_return co_await txn.commit();
}

void update_subscriber_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  const Call call = row_of<Call>(arguments);
  keys.add(kSubscriber, call.a[0], Intent::kUpdate);
  keys.add(kFacility, facility_key(call.a[0], call.a[1]), Intent::kUpdate);
}

Code update_subscriber_step(std::string_view arguments, std::span<const Value> values,
                            StoredProcedure::Writes& writes) {
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
  }
  if (!values[0].found) return Code::kNotFound;
  if (!values[1].found) return Code::kOk;
  const Call call = row_of<Call>(arguments);
  Subscriber subscriber = row_of<Subscriber>(values[0].bytes);
  Facility facility = row_of<Facility>(values[1].bytes);
  subscriber.bits = static_cast<uint16_t>((subscriber.bits & ~1U) | (call.a[3] & 1U));
  facility.data_a = static_cast<uint8_t>(call.a[3] >> 8);
  writes.put(kSubscriber, call.a[0], bytes_of(subscriber));
  writes.put(kFacility, facility_key(call.a[0], call.a[1]), bytes_of(facility));
  return Code::kOk;
}

// Interactive: the subscriber's id is known only once its number was looked up.
Task<Outcome> update_location(Session& session, const Call& call) {
  Txn txn = co_await session.begin();
  const Value secondary = co_await txn.get(kSecondary, number_of(call.a[0]));
  if (!secondary) co_return give_up(txn, secondary.code);
  const uint64_t id = row_of<Secondary>(secondary.bytes).subscriber;
  const Value value = co_await txn.get(kSubscriber, id, Intent::kUpdate);
  if (!value) co_return give_up(txn, value.code);
  Subscriber subscriber = row_of<Subscriber>(value.bytes);
  subscriber.vlr_location = static_cast<uint32_t>(call.a[3]);
  txn.put(kSubscriber, id, bytes_of(subscriber));
  co_return co_await txn.commit();
}

Task<Outcome> insert_forwarding(Session& session, const Call& call, Effect& effect) {
  Txn txn = co_await session.begin();
  const Value secondary = co_await txn.get(kSecondary, number_of(call.a[0]));
  if (!secondary) co_return give_up(txn, secondary.code);
  const uint64_t facility_id = facility_key(row_of<Secondary>(secondary.bytes).subscriber, call.a[1]);
  const uint64_t key = forwarding_key(facility_id, call.a[2]);
  const ReadHandle facility_read = txn.get_async(kFacility, facility_id);
  const ReadHandle forwarding_read = txn.get_async(kForwarding, key, Intent::kUpdate);
  co_await txn.wait_all();
  const Value facility = txn.value(facility_read);
  const Value there = txn.value(forwarding_read);
  if (facility.code != Code::kOk || there.code != Code::kOk) {
    co_return give_up(txn, facility.code != Code::kOk ? facility.code : there.code);
  }
  effect.refused = !facility.found || there.found;
  effect.net = effect.refused ? 0 : 1;
  if (!effect.refused) {
    Forwarding forwarding{};
    forwarding.end_time = static_cast<uint8_t>(call.a[3]);
    txn.insert(kForwarding, key, bytes_of(forwarding));
  }
  const Outcome outcome = co_await txn.commit();
  answered_at_primary(outcome, effect);
  co_return outcome;
}

Task<Outcome> delete_forwarding(Session& session, const Call& call, Effect& effect) {
  Txn txn = co_await session.begin();
  const Value secondary = co_await txn.get(kSecondary, number_of(call.a[0]));
  if (!secondary) co_return give_up(txn, secondary.code);
  const uint64_t facility_id = facility_key(row_of<Secondary>(secondary.bytes).subscriber, call.a[1]);
  const uint64_t key = forwarding_key(facility_id, call.a[2]);
  const Value there = co_await txn.get(kForwarding, key, Intent::kUpdate);
  if (there.code != Code::kOk) co_return give_up(txn, there.code);
  effect.refused = !there.found;
  effect.net = effect.refused ? 0 : -1;
  if (!effect.refused) txn.erase(kForwarding, key);
  const Outcome outcome = co_await txn.commit();
  answered_at_primary(outcome, effect);
  co_return outcome;
}

}  // namespace weft::bench::tatp
