// All protocols to choose from, for tests that run every one: a row that is added to the table is in all of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/txn/protocol.h"

namespace weft {

inline std::vector<const char*> all_rows() {
  std::vector<const char*> names;
  for (const Protocol& row : kProtocols) names.push_back(row.name.data());
  return names;
}

inline std::vector<const char*> rows_that_lock_by_verbs() {
  std::vector<const char*> names;
  for (const Protocol& row : kProtocols) {
    if (row.by.lock == Primitive::kOneSided) names.push_back(row.name.data());
  }
  return names;
}

// The name of a test whose parameter is a row's name.
inline std::string row_test_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace weft
