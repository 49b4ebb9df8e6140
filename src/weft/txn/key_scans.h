// KeyScans: reads the keys of a partition that may be at another node, a page at a time. It runs outside any
// transaction: a key that exists throughout a scan is in it, whatever else happens; other keys may be.
//
// A backup is read only where that holds: not where its values may be older than what is committed (rule G6), and not
// for a page in which it has a delete that is not finished and may be undone. Then the primary is asked.
//
// A cursor is a position in the order of the keys' hashes, which is the same at every node and does not depend on the
// size of any index: a scan continues at another replica, through a resize and through a view change.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/txn.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"

namespace weft {

class Table;

class KeyScans {
 public:
  // `backups_answer`: RowSet::backups_answer_reads.
  KeyScans(WorkerContext& ctx, bool backups_answer) : ctx_(ctx), backups_answer_(backups_answer) {}

  // Returns false if the primary has to be asked. A page of no keys only counts.
  bool scan_here(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max, KeyPage* page);
  // Asks the partition's primary. Returns the query's number, by which the caller forgets it if no answer comes.
  uint32_t ask(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max,
               const std::shared_ptr<KeyPage>& page);
  void forget(uint32_t question);

  bool parse(const Message& message) const;
  void on_message(const Batch& batch, std::span<const Message> run);

 private:
  struct Scan {
    uint32_t question;
    NodeId asked;
    std::shared_ptr<KeyPage> page;
  };
  template <class F>
  uint64_t read_page(const Table& table, PartitionId partition, uint64_t cursor, uint32_t keys_max, bool* met_tombstone,
                     F f);
  void serve_page(const Message& message);
  void receive_page(const Message& message);

  WorkerContext& ctx_;
  const bool backups_answer_;
  std::vector<Scan> scans_;
  uint32_t questions_ = 0;
};

}  // namespace weft
