// The stored procedures of tpce-cp.
#pragma once

#include <span>
#include <string_view>

#include "weft/txn.h"

namespace weft::bench::tpce {

void position_keys(std::string_view arguments, StoredProcedure::Keys& keys);
Code position_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes);
void trade_keys(std::string_view arguments, StoredProcedure::Keys& keys);
Code trade_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes);

}  // namespace weft::bench::tpce
