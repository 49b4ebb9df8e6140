// A stored procedure: a counter that every node may add to. In the row `hop` it runs where its key is.
#include <cstdio>

#include "weft/cluster.h"

const weft::TableId kCounters(0);
void add_keys(std::string_view name, weft::StoredProcedure::Keys& keys) {
  keys.add(kCounters, name, weft::Intent::kUpdate);  // it is read, and may be written
}
weft::Code add(std::string_view name, std::span<const weft::Value> values, weft::StoredProcedure::Writes& writes) {
  const std::string sum = std::to_string((values[0].found ? std::stol(std::string(values[0].bytes)) : 0) + 1);
  writes.put(kCounters, name, sum);
  writes.reply(sum);
  return weft::Code::kOk;
}
int main() {
  weft::Options options;
  options.protocol = "hop";
  auto cluster = weft::Cluster::open(options);
  if (!cluster || !(*cluster)->create_table({.name = "counters", .keys = weft::KeyKind::kBytes})) return 1;
  const auto procedure = (*cluster)->declare({.name = "add", .keys = add_keys, .execute = add, .reply_bytes_max = 20});
  if (!procedure || !(*cluster)->start()) return 1;
  std::string sum;
  for (uint8_t node = 0; node < 3; ++node) {
    while (weft::code_retryable((*cluster)->call(weft::NodeId(node), *procedure, "visits", &sum).code)) {
    }  // it met another call: again
    std::printf("node %d: visits %s\n", node, sum.c_str());
  }
  return sum == "3" ? 0 : 1;
}
