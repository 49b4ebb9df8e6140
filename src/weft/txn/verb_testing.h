// For tests of the parts that use one-sided verbs: three nodes with tables and log rings that verbs reach, and this
// node's parts around the one under test. The local wire executes verbs when they are flushed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/fabric/region.h"
#include "weft/fabric/verb_issuer.h"
#include "weft/store/owner_testing.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/locations.h"
#include "weft/txn/log_ring.h"
#include "weft/txn/log_writer.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/participant.h"
#include "weft/txn/participant_testing.h"
#include "weft/txn/plan.h"
#include "weft/txn/reads.h"
#include "weft/txn/row_set.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_keys.h"
#include "weft/txn/verb_memory.h"
#include "weft/txn/verb_requests.h"
#include "weft/txn/verb_transport.h"

namespace weft {

class VerbPartTest : public CommitPartTest {
 protected:
  static constexpr RegionId kRings{1};  // after the table's
  static constexpr uint32_t kRingBytes = 4096;

  explicit VerbPartTest(PlantedBugs bugs = {}) : CommitPartTest(small_limits(), bugs) {
    for (size_t n = 0; n < kNodes; ++n) {
      const NodeId node(static_cast<uint8_t>(n));
      fabric_.set_regions(node, &regions_[n]);
      if (node == kSelf) {
        tables_.register_at(&regions_[n]);
      } else {
        add_table(n);
      }
      memory_[n] = std::make_unique<VerbMemory>(options_, bugs, false, &regions_[n], kRings);
      EXPECT_TRUE(memory_[n]->make(options_));
      memory_[n]->grant_access(*view_);
    }
    issuer_ = std::make_unique<VerbIssuer>(VerbIssuerOptions{kNodes, Domain::kEngine, kSlotsMax, true, true}, ctx_.wire,
                                           nullptr, memory_[0]->request_buffers(kWorker), memory_[0]->request_bytes());
    writer_ = std::make_unique<LogWriter>(ctx_, *memory_[0], *issuer_, messages_);
    transport_ = std::make_unique<VerbTransport>(ctx_, *issuer_, cache_, writer_.get(), slots_);
  }

  static Limits small_limits() {
    Limits limits;
    limits.transactions_in_flight_max = 4;
    limits.txn_bytes_max = 1 << 16;
    limits.ring_bytes = kRingBytes;
    return limits;
  }
  static Options verb_options() {
    Options options;
    options.nodes = kNodes;
    options.replicas = 2;
    options.protocol = "drtmr";
    options.limits = small_limits();
    return options;
  }

  Table& table_at(NodeId node) { return node == kSelf ? table() : *peer_tables_[node.value]; }
  void load_at(NodeId node, uint64_t key, const std::string& value) {
    const HashedKey name = hashed(key);
    const LockResult lock = table_at(node).lock(name, make_owner(node, kWorker, 0), Write::kPut, std::nullopt,
                                                static_cast<uint32_t>(value.size()));
    ASSERT_EQ(lock.code, Code::kOk);
    table_at(node).commit(name, make_owner(node, kWorker, 0), Write::kPut, as_bytes(value), lock.locked);
  }
  std::string value_at(NodeId node, uint64_t key) {
    std::vector<std::byte> room(256);
    const ReadResult read = table_at(node).read(hashed(key), room.data(), room.size());
    return read.found ? std::string(reinterpret_cast<const char*>(room.data()), read.value_bytes) : "(absent)";
  }
  Word word_at(NodeId node, uint64_t key) { return table_at(node).read(hashed(key), nullptr, 0).word; }
  // The bytes of the record in place, whatever is in them.
  std::byte* record_at(NodeId node, uint64_t key) {
    return regions_[node.value].find(RegionId(0))->base() + table_at(node).locate(hashed(key)).offset();
  }
  std::byte* ring_at(NodeId node, NodeId writer) {
    return regions_[node.value].find(kRings)->base() + memory_[node.value]->ring_offset(kWorker, writer);
  }

  TxnSlot& begin() { return *slots_.acquire(0); }
  // A key of the transaction, as read at its primary now.
  Entry& read_entry(TxnSlot& slot, uint64_t key) {
    Entry& e = *keys_.find_or_add(slot, kTable, key);
    Table& at = table_at(e.placement->primary());
    std::vector<std::byte> room(256);
    const ReadResult read = at.read(e.key, room.data(), room.size());
    e.read = true;
    e.found = read.found;
    e.version = read.word.version();
    e.where = at.locate(hashed(key));
    if (read.found) keys_.keep_value(slot, e, {room.data(), read.value_bytes});
    e.done = true;
    return e;
  }

  Options options_ = verb_options();
  RowSet rows_ = RowSet::of(options_);
  std::array<Regions, kNodes> regions_;
  std::array<std::unique_ptr<Region>, kNodes> peer_regions_;
  std::array<std::unique_ptr<Table>, kNodes> peer_tables_;
  std::array<std::unique_ptr<VerbMemory>, kNodes> memory_;
  SlotTable slots_{ctx_, pool_.get(), nullptr, 1'000'000'000, 0};
  TxnKeys keys_{ctx_, pool_.get()};
  OutcomeLog outcomes_{64 << 10};
  ClientAcks acks_{ctx_, outcomes_, slots_.size()};
  CreditGate credit_{kNodes, ctx_.limits.credit_bytes};
  Planner planner_{rows_, kSelf, ctx_.bugs, true};
  MessageTransport messages_{ctx_};
  Participant participant_{ctx_, records_, outcomes_, true};
  LocationCache cache_ = std::move(*LocationCache::create(1 << 16));
  std::unique_ptr<VerbIssuer> issuer_;
  std::unique_ptr<LogWriter> writer_;
  std::unique_ptr<VerbTransport> transport_;

 private:
  void add_table(size_t node) {
    TableOptions options;
    options.spec = table().spec();
    options.partitions = options.partitions_held = kNodes;
    peer_regions_[node] = std::move(*Region::create(Table::region_bytes(options)));
    peer_tables_[node] = std::move(*Table::create(options, peer_regions_[node].get()));
    regions_[node].add(peer_regions_[node].get());
  }
};

}  // namespace weft
