// Compares the replicas of a cluster while nothing runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/member/view.h"
#include "weft/store/table.h"
#include "weft/txn/node.h"

namespace weft {

// Of one partition of a table at one node: equal for equal contents, whatever the order of the walk.
struct Digest {
  uint64_t records = 0;
  uint64_t sum = 0;      // over keys, values and versions
  uint64_t absence = 0;  // over the versions of absence
};

void add_record(Digest& digest, const HashedKey& key, ByteView value, Word word);
void add_absence(Digest& digest, uint32_t index, Version version);

std::vector<Digest> digests_of(const Table& table, size_t partitions);

// Checks that all replicas of every key are equal in value and version, no lock is left, every record is readable, and
// no node has data of a partition that it does not replicate. Returns the first violation, or an empty string.
std::string audit_replicas(const std::vector<Node*>& nodes, const View& view);

}  // namespace weft
