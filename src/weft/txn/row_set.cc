#include "weft/txn/row_set.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft {

namespace {

Error bad(std::string_view names, const std::string& why) {
  return {Code::kBadOption, "protocol is \"" + std::string(names) + "\", " + why};
}

std::string all_names() {
  std::string names;
  for (const Protocol& row : kProtocols) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace

Result<RowSet> RowSet::parse(std::string_view names, bool any_mix) {
  RowSet set;
  for (std::string_view left = names;;) {
    const size_t end = left.find('+');
    const std::string_view name = left.substr(0, end);
    const Protocol* row = find_protocol(name);
    if (row == nullptr) return bad(names, "must be one of " + all_names() + ", or several that fit, joined by +");
    for (const Protocol& other : set.rows_) {
      if (other.name == row->name) return bad(names, "which names " + std::string(name) + " twice");
      const std::string_view why = unfit(other, *row);
      if (why.empty() || any_mix) continue;
      return bad(names, "but " + std::string(other.name) + " and " + std::string(name) +
                            " cannot run in one cluster: " + std::string(why));
    }
    set.rows_.push_back(*row);
    if (end == std::string_view::npos) return set;
    left.remove_prefix(end + 1);
  }
}

RowSet RowSet::of(const Options& options) {
  Result<RowSet> set = parse(options.protocol, true);
  WEFT_CHECK(bool{set}, "options are checked before they are used");
  if (!options.piggyback_acks) {
    for (Protocol& row : set->rows_) row.unlock_ack = UnlockAck::kReply;
  }
  return std::move(*set);
}

std::vector<std::string> RowSet::mixes() {
  std::vector<RowSet> sets;
  for (const Protocol& row : kProtocols) {
    const auto fits = [&](const RowSet& set) { return unfit(set.first(), row).empty(); };
    auto set = std::find_if(sets.begin(), sets.end(), fits);
    if (set == sets.end()) set = sets.emplace(sets.end());
    set->rows_.push_back(row);
  }
  std::vector<std::string> names;
  for (const RowSet& set : sets) {
    if (set.size() > 1) names.push_back(set.names());
  }
  return names;
}

std::optional<uint8_t> RowSet::find(std::string_view name) const {
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].name == name) return static_cast<uint8_t>(i);
  }
  return std::nullopt;
}

std::string RowSet::names() const {
  std::string names;
  for (const Protocol& row : rows_) names += (names.empty() ? "" : "+") + std::string(row.name);
  return names;
}

}  // namespace weft
