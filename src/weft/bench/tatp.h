// TATP: a telephone company's subscribers, their access rights, special facilities and call forwardings. Seven kinds of
// transactions in the mix of FaSST; 70 % read one key. Subscribers are drawn by the benchmark's NURand.
//
// Tables (all keys are integers, values are plain structs of tatp_rows.h):
//   subscriber        subscriber id                        40 bytes
//   secondary         telephone number                      8 bytes: the subscriber id
//   access            subscriber id, type 1..4             16 bytes; a subscriber has 1 to 4 of them
//   facility          subscriber id, type 1..4              8 bytes; likewise
//   forwarding        facility's key, start 0, 8 or 16     16 bytes; a facility has 0 to 3
//
// The check: every access row, facility and telephone number has its subscriber and every forwarding its facility, rows
// contain their keys, and there are as many forwardings as were loaded and inserted, less those deleted.
#pragma once

#include "weft/bench/workload.h"

namespace weft::bench {

class Tatp final : public Workload {
 public:
  enum Kind : uint64_t {
    kGetSubscriber,
    kGetAccess,
    kGetNewDestination,
    kUpdateSubscriber,
    kUpdateLocation,
    kInsertForwarding,
    kDeleteForwarding,
  };
  static constexpr TableId kSubscriber{0}, kSecondary{1}, kAccess{2}, kFacility{3}, kForwarding{4};

  explicit Tatp(uint64_t subscribers);

  std::string name() const override { return "tatp"; }
  std::span<const TxnKind> kinds() const override;
  std::vector<TableSpec> tables() const override;
  std::vector<StoredProcedure> procedures() const override;
  Result<void> load(const Put& put, Random& random) override;
  Call draw(Random& random) const override;
  Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const override;
  std::string check(const VisitTable& visit_table, const Tally& tally) const override;

  // NURand's A, by the number of subscribers.
  static uint64_t spread(uint64_t subscribers);
  uint64_t draw_subscriber(Random& random) const;

 private:
  Result<void> load_one(const Put& put, Random& random, uint64_t subscriber);

  const uint64_t subscribers_;
  uint64_t loaded_access_ = 0, loaded_facilities_ = 0, loaded_forwardings_ = 0;
};

}  // namespace weft::bench
