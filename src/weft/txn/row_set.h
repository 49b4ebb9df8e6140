// RowSet: the protocol rows that one cluster runs, and what they mean together for its nodes: the memory they need,
// what backups may answer, what their records have to show. A cluster's option `protocol` names one row, or several
// that fit (protocol.h, unfit) joined by +; transactions use the first unless they say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/options.h"
#include "weft/status.h"
#include "weft/txn/protocol.h"

namespace weft {

class RowSet {
 public:
  // Returns what is wrong with the names or the set, if anything. `any_mix`: test only, allows rows that do not fit.
  static Result<RowSet> parse(std::string_view names, bool any_mix = false);
  // The same for options that were checked before, with the switches that change rows applied.
  static RowSet of(const Options& options);

  // The names of the largest sets of protocols that fit. Fitting is an equivalence: a protocol is in at most one of
  // them.
  static std::vector<std::string> mixes();

  size_t size() const { return rows_.size(); }
  const Protocol& at(size_t index) const { return rows_[index]; }
  const Protocol& first() const { return rows_.front(); }
  // The index of the row of that name in this set.
  std::optional<uint8_t> find(std::string_view name) const;
  std::string names() const;

  bool uses_verbs() const {
    return any([](const Protocol& row) { return row.verbs(); });
  }
  bool locks_by_verb() const {
    return any([](const Protocol& row) { return row.by.lock == Primitive::kOneSided; });
  }
  bool logs_by_verb() const {
    return any([](const Protocol& row) { return row.by.log == Primitive::kOneSided; });
  }
  bool ships_procedures() const {
    return any([](const Protocol& row) { return row.ships_procedures; });
  }
  bool remembers_locations() const {
    return any([](const Protocol& row) { return row.location_cache; });
  }
  // Whether backups may answer reads that are validated: their tables are no older than what is committed (rule G6).
  bool backups_answer_reads() const { return !first().lazy_backups(); }
  // And scans, which are checked by what a backup counts: it applies every erase before its primary does (rule G8).
  bool backups_answer_scans() const { return first().apply == Apply::kOnArrival; }
  bool backups_answer_single_reads() const {
    return backups_answer_reads() && any([](const Protocol& row) { return backups_serve_single_reads(row); });
  }
  // Whether backups hide what they apply until it is finished everywhere (rule G4): where it may be read there, and
  // where rows use verbs, so that no verb takes an unfinished word for a finished one (rule W1).
  bool marks_readable() const { return backups_answer_single_reads() || uses_verbs(); }

  // Whether a participant's record may be truncated by the slot's next use (truncation.h): nobody waits for it.
  bool truncates_by_next_use() const {
    const bool applies_early = any([](const Protocol& row) { return row.apply == Apply::kOnArrival; });
    return backups_answer_reads() && !(marks_readable() && applies_early);
  }

 private:
  template <class F>
  bool any(F f) const {
    for (const Protocol& row : rows_) {
      if (f(row)) return true;
    }
    return false;
  }

  std::vector<Protocol> rows_;
};

}  // namespace weft
