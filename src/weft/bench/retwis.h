// Retwis, a small Twitter, in TAPIR's mix and with the sizes of Xenic: half of the transactions read a timeline of 1 to
// 10 keys, the others update 2 to 5 keys, some of them without reading them. Values have 64 bytes; keys are distinct
// within a transaction, and by default drawn by Zipf's distribution with an exponent of 0.5. All are stored procedures.
//
//   add-user     5 %   1 get, 3 puts
//   follow      15 %   2 gets, 2 puts
//   post-tweet  30 %   3 gets, 5 puts
//   timeline    50 %   1 to 10 gets
//
// The first of the keys that are put are those that are got; the rest is put blindly.
//
// The check: the sum of version increments equals the number of committed puts, every record still has its own key and
// the rest of the value that belongs to its last writer, and if that writer had read it, the version that it read was
// the one before: no update was lost. Transactions verify the records that they read, too.
#pragma once

#include "weft/base/zipf.h"
#include "weft/bench/workload.h"

namespace weft::bench {

class Retwis final : public Workload {
 public:
  enum Kind : uint64_t { kAddUser, kFollow, kPostTweet, kTimeline };
  static constexpr TableId kRecords{0};
  static constexpr uint32_t kKeysMax = 10;  // of a transaction
  static constexpr uint32_t kPutsMax = 5;
  static constexpr double kAlpha = 0.5;
  using KeyList = std::array<uint64_t, kKeysMax>;

  Retwis(uint64_t records, Skew skew);

  std::string name() const override { return "retwis"; }
  std::span<const TxnKind> kinds() const override;
  std::vector<TableSpec> tables() const override;
  std::vector<StoredProcedure> procedures() const override;
  Result<void> load(const Put& put, Random& random) override;
  Call draw(Random& random) const override;
  Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const override;
  std::string check(const VisitTable& visit_table, const Tally& tally) const override;

  // The distinct keys of a transaction. The call determines them.
  uint32_t keys_of(const Call& call, KeyList& keys) const;

 private:
  Task<Outcome> run(Session& session, Call call) const;

  const uint64_t records_;
  const Zipf zipf_;  // record 0 is the hottest; the hash spreads them over the nodes
};

}  // namespace weft::bench
