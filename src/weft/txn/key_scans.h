// KeyScans: reads the keys of a partition that may be at another node, a page at a time. Outside any transaction: a key
// that is there throughout a scan is in it, whatever else happens, and others may be.
//
// A cursor is a position in the order of the keys' hashes, which is the same at every node and does not depend on the
// size of any index: a scan goes on where it was at another replica, through a resize and through a change of the view.
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
  explicit KeyScans(WorkerContext& ctx) : ctx_(ctx) {}

  // False if this node has no whole replica of the partition.
  bool scan_here(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max, KeyPage* page);
  // Asks the partition's primary. The question's number, by which it is forgotten if the answer does not come.
  uint32_t ask(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max,
               const std::shared_ptr<KeyPage>& page);
  void forget(uint32_t question);

  bool parse(const Message& message) const;
  void on_message(const Batch& batch, std::span<const Message> run);

 private:
  struct Scan {
    uint32_t question;
    std::shared_ptr<KeyPage> page;
  };
  template <class F>
  uint64_t read_page(const Table& table, PartitionId partition, uint64_t cursor, uint32_t keys_max, F f);
  void serve_page(const Message& message);
  void receive_page(const Message& message);

  WorkerContext& ctx_;
  std::vector<Scan> scans_;
  uint32_t questions_ = 0;
};

}  // namespace weft
