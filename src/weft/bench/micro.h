// micro-G-P, the papers' O(G,P): a transaction with G gets and P puts on records of 16 bytes, keys distinct, and
// uniform or by Zipf's distribution. The first P of the keys read are the ones written (so that micro-4-2 has keys that
// are only read and keys that are read and written); puts beyond the gets are blind. micro-1-0 and micro-0-1 are the
// single-key operations.
//
// A record holds a counter, to which a transaction that reads and writes the key adds 1, and its own key. The check:
// the sum of version increments equals the number of committed puts, every record still has its key, and (without blind
// puts) the counters have the same sum.
#pragma once

#include "weft/base/zipf.h"
#include "weft/bench/workload.h"

namespace weft::bench {

class Micro final : public Workload {
 public:
  static constexpr uint32_t kKeysMax = 32;  // gets and puts of one transaction
  static constexpr TableId kRecords{0};

  Micro(uint32_t gets, uint32_t puts, uint64_t records, double zipf = 0);

  std::string name() const override;
  std::span<const TxnKind> kinds() const override;
  std::vector<TableSpec> tables() const override;
  Result<void> load(const Put& put, Random& random) override;
  Call draw(Random& random) const override;
  Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const override;
  std::string check(const VisitTable& visit_table, const Tally& tally) const override;

  // The distinct keys of a transaction: first those that are read, then those that are put blindly. The call determines
  // them.
  uint32_t keys_of(const Call& call, std::array<uint64_t, kKeysMax>& keys) const;

 private:
  Task<Outcome> get_single(Session& session, uint64_t key) const;
  Task<Outcome> put_single(Session& session, uint64_t key) const;
  Task<Outcome> many(Session& session, const Call& call) const;

  const uint32_t gets_;
  const uint32_t puts_;
  const uint64_t records_;
  const Zipf zipf_;  // record 0 is the hottest; the hash spreads them over the nodes
};

}  // namespace weft::bench
