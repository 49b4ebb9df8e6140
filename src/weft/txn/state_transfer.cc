#include "weft/txn/state_transfer.h"

#include <algorithm>
#include <cstring>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/store/table.h"
#include "weft/txn/messages.h"

namespace weft {

namespace {

enum class TransferStep : uint8_t { kAsk, kWords, kRecord, kNext };

constexpr uint64_t kRecords = uint64_t{1} << 63;  // bit of a cursor: past the absence words
constexpr uint64_t kAnswerBins = 1024;            // bins in one answer; more for a table that is mostly empty
constexpr uint64_t kAskAgainNsPerByte = 300;      // per byte of a chunk: a node that has much to send does not answer
                                                  // at all

struct TransferHeader {
  uint64_t cursor;  // kAsk: start here; kNext: ask from here on, 0: the end; kWords: the first word's index
  uint64_t version;
  uint32_t epoch;
  uint16_t partition;
  uint16_t table;
  uint32_t key_bytes;
  uint8_t step;  // TransferStep
  uint8_t unused[3];
  uint32_t value_bytes;
  uint32_t question;  // kAsk: its number, returned with the answers
};
static_assert(sizeof(TransferHeader) == 40);

}  // namespace

void StateTransfer::on_view_active() {
  WEFT_CHECK(ctx_.views.active(), "copies are asked for in an active view");
  cursors_.clear();
  for (size_t p = 0; p < ctx_.view().partitions.size(); ++p) {
    if (!ctx_.view().partitions[p].is_catching_up(ctx_.self) || p % static_cast<size_t>(ctx_.workers) != ctx_.id.value)
      continue;
    for (size_t t = 0; t < ctx_.tables.count(); ++t) {
      cursors_.push_back({PartitionId(static_cast<uint16_t>(p)), TableId(static_cast<uint16_t>(t))});
    }
  }
  answered_ask_ns_ = patience_ns_ = 0;  // of other primaries, and maybe long ago
  if (ctx_.bugs.has(PlantedBug::kFillingServes)) cursors_.clear();
  if (cursors_.empty()) note_caught_up();
}

void StateTransfer::note_caught_up() {
  WEFT_CHECK(cursors_.empty(), "a replica has caught up when nothing is left to copy");
  caught_up_epoch_.store(ctx_.view().epoch.value, std::memory_order_release);
}

uint64_t StateTransfer::deadline_ns() const { return cursors_.empty() ? UINT64_MAX : cursors_.back().ask_again_ns; }

// Copies one partition of one table after the other.
bool StateTransfer::step(uint64_t now_ns) {
  if (cursors_.empty() || !ctx_.views.active()) return false;
  Cursor& transfer = cursors_.back();
  if (transfer.question != 0) {
    if (now_ns < transfer.ask_again_ns) return false;
    WEFT_MARK("state transfer: asks again");
    patience_ns_ *= 2;  // the answer may only be slow
  } else {
    // The next answer may take as long as the last: whoever asks again too early gets it twice, and then every answer
    // waits behind the copy of another.
    const uint64_t took_ns = answered_ask_ns_ == 0 ? 0 : now_ns - answered_ask_ns_;
    patience_ns_ = std::max({ctx_.limits.transfer_chunk_bytes * kAskAgainNsPerByte, 2 * took_ns, patience_ns_ / 2});
    transfer.first_question = questions_ + 1;
    transfer.first_asked_ns = now_ns;
  }
  transfer.question = ++questions_;
  transfer.asked_ns = now_ns;
  transfer.ask_again_ns = now_ns + patience_ns_;
  TransferHeader header{};
  header.cursor = transfer.cursor;
  header.epoch = ctx_.view().epoch.value;
  header.partition = transfer.partition.value;
  header.table = transfer.table.value;
  header.question = transfer.question;
  header.step = static_cast<uint8_t>(TransferStep::kAsk);
  const NodeId primary = ctx_.view().placement(transfer.partition).primary();
  WEFT_CHECK(primary != ctx_.self, "nobody copies from itself");
  store(ctx_.port.reserve(primary, Flow::kRecovery, static_cast<uint8_t>(Kind::kTransfer), sizeof header), header);
  return true;
}

bool StateTransfer::parse(const Message& m) const {
  if (m.body.size() < sizeof(TransferHeader)) return false;
  const auto header = load<TransferHeader>(m.body.data());
  if (header.step > static_cast<uint8_t>(TransferStep::kNext) || header.table >= ctx_.tables.count() ||
      header.partition >= ctx_.view().partitions.size()) {
    return false;
  }
  const size_t rest = m.body.size() - sizeof header;
  const TableSpec& spec = ctx_.tables.at(TableId(header.table))->spec();
  if (static_cast<TransferStep>(header.step) == TransferStep::kWords) {
    return rest % sizeof(uint64_t) == 0 && are_versions(m.body.data() + sizeof header, rest / sizeof(uint64_t));
  }
  if (static_cast<TransferStep>(header.step) != TransferStep::kRecord) return rest == 0;
  return header.version <= kVersionMax && header.key_bytes <= ctx_.limits.key_bytes_max &&
         (spec.keys == KeyKind::kBytes || header.key_bytes == 8) && header.value_bytes <= spec.value_bytes_max &&
         rest == padded(header.key_bytes) + padded(header.value_bytes);
}

void StateTransfer::on_message(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const auto header = load<TransferHeader>(m.body.data());
    // An answer from the epoch before, or a request of an epoch that this node has not come to: asked again after
    // activate.
    if (header.epoch != ctx_.view().epoch.value) continue;
    if (static_cast<TransferStep>(header.step) == TransferStep::kAsk) {
      serve_chunk(m);
    } else {
      apply_chunk(m);
    }
  }
}

void StateTransfer::serve_chunk(const Message& m) {
  auto header = load<TransferHeader>(m.body.data());
  const PartitionId partition(header.partition);
  const Table* table = ctx_.tables.at(TableId(header.table));
  if (ctx_.view().placement(partition).primary() != ctx_.self ||
      !ctx_.view().placement(partition).is_catching_up(m.source))
    return;
  if (ctx_.port.queued_bytes(m.source, Flow::kRecovery) > ctx_.limits.credit_bytes)
    return;  // a correct peer has one request open
  const auto send = [&](TransferStep step, size_t bytes) {
    header.step = static_cast<uint8_t>(step);
    std::byte* at =
        ctx_.port.reserve(m.source, Flow::kRecovery, static_cast<uint8_t>(Kind::kTransfer), sizeof header + bytes);
    store(at, header);
    return at + sizeof header;
  };
  const size_t piece = std::min(ctx_.limits.transfer_chunk_bytes, ctx_.limits.credit_bytes);
  if ((header.cursor & kRecords) == 0) {
    const uint64_t all = table->absence_words();
    const uint64_t end = std::min<uint64_t>(all, header.cursor + piece / sizeof(uint64_t));
    const uint64_t first = std::min(header.cursor, end);
    std::byte* at = send(TransferStep::kWords, (end - first) * sizeof(uint64_t));
    for (uint64_t i = first; i < end; ++i) {
      store(at + (i - first) * sizeof(uint64_t), table->absence_version(partition, static_cast<uint32_t>(i)).value);
    }
    header.cursor = end == all ? kRecords : end;
    send(TransferStep::kNext, 0);
    return;
  }
  // A cursor of the index uses all 64 bits: the lowest one is given up for kRecords.
  const int bins = static_cast<int>(std::min<uint64_t>(std::max(kAnswerBins, table->spec().capacity / 128), 1 << 14));
  const uint64_t next =
      table->export_records(partition, header.cursor << 1, piece, bins, ctx_.scratch.data(),
                            [&](ByteView key, ByteView value, Version version) {
                              header.version = version.value;
                              header.key_bytes = static_cast<uint32_t>(key.size());
                              header.value_bytes = static_cast<uint32_t>(value.size());
                              std::byte* at = send(TransferStep::kRecord, padded(key.size()) + padded(value.size()));
                              // Padding goes over the wire: never what was in the buffer before.
                              std::memset(at, 0, padded(key.size()) + padded(value.size()));
                              std::memcpy(at, key.data(), key.size());
                              if (!value.empty()) std::memcpy(at + padded(key.size()), value.data(), value.size());
                            });
  header.version = 0;
  header.key_bytes = header.value_bytes = 0;
  header.cursor = next == 0 ? 0 : next >> 1 | kRecords;
  send(TransferStep::kNext, 0);
}

void StateTransfer::apply_chunk(const Message& m) {
  const auto header = load<TransferHeader>(m.body.data());
  if (cursors_.empty()) return;
  Cursor& transfer = cursors_.back();
  if (m.source != ctx_.view().placement(transfer.partition).primary()) return;
  if (header.partition != transfer.partition.value || header.table != transfer.table.value) return;
  Table* table = ctx_.tables.at(transfer.table);
  const std::byte* at = m.body.data() + sizeof header;
  switch (static_cast<TransferStep>(header.step)) {
    case TransferStep::kWords:
      for (size_t i = 0; i < (m.body.size() - sizeof header) / sizeof(uint64_t); ++i) {
        const uint64_t index = header.cursor + i;
        if (index >= table->absence_words()) break;
        table->bump_absence_version(transfer.partition, static_cast<uint32_t>(index),
                                    Version(load<uint64_t>(at + i * sizeof(uint64_t))));
      }
      break;
    case TransferStep::kRecord: {
      const HashedKey key = table->hashed({at, header.key_bytes});
      if (key.partition != transfer.partition) return;
      table->install_if_newer(key, Write::kPut, {at + padded(header.key_bytes), header.value_bytes},
                              Version(header.version), ctx_.scratch.data());
      break;
    }
    case TransferStep::kNext:
      // The first answer counts; a late answer to an earlier request does not.
      if (transfer.question == 0 ||
          header.question - transfer.first_question > transfer.question - transfer.first_question)
        break;
      answered_ask_ns_ = header.question == transfer.question ? transfer.asked_ns : transfer.first_asked_ns;
      transfer.question = 0;
      transfer.cursor = header.cursor;
      if (header.cursor != 0) break;
      cursors_.pop_back();
      if (cursors_.empty()) note_caught_up();
      break;
    case TransferStep::kAsk:
      break;
  }
}

}  // namespace weft
