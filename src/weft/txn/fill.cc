// Filling: a replica that is becoming whole asks the primary for the records of its partition, a little at a time,
// while every transaction that writes to the partition replicates to it as well. It keeps whatever version is the newer
// one, so the two may come in any order:
// - what the primary has committed before it is asked, is in its answer;
// - what is committed later is in a record here before anybody was told or could see it: the partition was filling here
//   when that transaction began, and its commit point waits for this replica too. It is installed when it is finished;
// - a delete that comes before the older copy leaves a tombstone that stays until the replica is whole.
// So when all is copied, this replica has everything that anybody has seen, and a view may make it whole even if it is
// the only one that survives into that view. Absence words are copied first: they must never be below the primary's
// when the replica serves.
//
// A view change ends no copying for good: what is here stays, and the walk begins again. What was open then is decided,
// and carried out here as everywhere (recovery_apply.cc).
#include <algorithm>
#include <cstring>

#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

enum class FillStep : uint8_t { kAsk, kWords, kRecord, kNext };

constexpr uint64_t kRecords = uint64_t{1} << 63;  // of a cursor: past the absence words
constexpr uint64_t kAnswerBins = 1024;            // of one answer, more of a table that is mostly empty
constexpr uint64_t kAskAgainNsPerByte = 300;      // of a piece: whoever has much to send does not answer at all

struct FillHeader {
  uint64_t cursor;  // kAsk: from here on; kNext: ask from here on, 0: that was all; kWords: the first word's index
  uint64_t version;
  uint32_t epoch;
  uint16_t partition;
  uint16_t table;
  uint16_t key_bytes;
  uint8_t step;  // FillStep
  uint8_t spare[5];
  uint32_t value_bytes;
  uint32_t question;  // kAsk: its number, which comes back
};
static_assert(sizeof(FillHeader) == 40);

}  // namespace

void Engine::begin_filling() {
  fills_.clear();
  for (size_t p = 0; p < view_->partitions.size(); ++p) {
    if (!view_->partitions[p].filled_at(self_) || p % static_cast<size_t>(node_->workers()) != id_.value) continue;
    for (size_t t = 0; t < node_->tables(); ++t) {
      fills_.push_back({PartitionId(static_cast<uint16_t>(p)), TableId(static_cast<uint16_t>(t))});
    }
  }
  if (bugs_.has(Bug::kFillingServes)) fills_.clear();
  if (fills_.empty()) filled_epoch_.store(view_->epoch.value, std::memory_order_release);
}

// One partition of one table after the other.
bool Engine::fill_step() {
  Fill& fill = fills_.back();
  if (fill.question != 0) {
    if (worker_->now_ns() < fill.ask_again_ns) return false;
    WEFT_MARK("filling asks again");
    fill.patience_ns *= 2;  // the answer may only be slow
  } else {
    fill.first_question = questions_ + 1;
    fill.patience_ns = limits_.fill_bytes * kAskAgainNsPerByte;
  }
  fill.question = ++questions_;
  fill.ask_again_ns = worker_->now_ns() + fill.patience_ns;
  FillHeader header{};
  header.cursor = fill.cursor;
  header.epoch = view_->epoch.value;
  header.partition = fill.partition.value;
  header.table = fill.table.value;
  header.question = fill.question;
  header.step = static_cast<uint8_t>(FillStep::kAsk);
  const NodeId primary = view_->placement(fill.partition).primary();
  store(port_.reserve(primary, Flow::kRecovery, static_cast<uint8_t>(Kind::kFill), sizeof header), header);
  return true;
}

bool Engine::parse_fill(const Message& m) {
  if (m.body.size() < sizeof(FillHeader)) return false;
  const auto header = load<FillHeader>(m.body.data());
  if (header.step > static_cast<uint8_t>(FillStep::kNext) || header.table >= node_->tables() ||
      header.partition >= view_->partitions.size()) {
    return false;
  }
  const size_t rest = m.body.size() - sizeof header;
  const TableSpec& spec = node_->table(TableId(header.table))->spec();
  if (static_cast<FillStep>(header.step) == FillStep::kWords) return rest % sizeof(uint64_t) == 0;
  if (static_cast<FillStep>(header.step) != FillStep::kRecord) return rest == 0;
  return header.key_bytes <= limits_.key_bytes_max && (spec.keys == KeyKind::kBytes || header.key_bytes == 8) &&
         header.value_bytes <= spec.value_bytes_max && rest == padded(header.key_bytes) + padded(header.value_bytes);
}

void Engine::on_fill(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    const auto header = load<FillHeader>(m.body.data());
    // An answer from the epoch before, or a question of one that this node has not come to: asked again after activate.
    if (header.epoch != view_->epoch.value) continue;
    if (static_cast<FillStep>(header.step) == FillStep::kAsk) {
      give_copies(m);
    } else {
      take_copies(m);
    }
  }
}

void Engine::give_copies(const Message& m) {
  auto header = load<FillHeader>(m.body.data());
  const PartitionId partition(header.partition);
  const Table* table = node_->table(TableId(header.table));
  if (view_->placement(partition).primary() != self_ || !view_->placement(partition).filled_at(m.source)) return;
  if (port_.backlog(m.source, Flow::kRecovery) > limits_.credit_bytes) return;  // a correct one has one question open
  const auto send = [&](FillStep step, size_t bytes) {
    header.step = static_cast<uint8_t>(step);
    std::byte* at = port_.reserve(m.source, Flow::kRecovery, static_cast<uint8_t>(Kind::kFill), sizeof header + bytes);
    store(at, header);
    return at + sizeof header;
  };
  const size_t piece = std::min(limits_.fill_bytes, limits_.credit_bytes);
  if ((header.cursor & kRecords) == 0) {
    const uint64_t all = table->absence_words();
    const uint64_t end = std::min<uint64_t>(all, header.cursor + piece / sizeof(uint64_t));
    const uint64_t first = std::min(header.cursor, end);
    std::byte* at = send(FillStep::kWords, (end - first) * sizeof(uint64_t));
    for (uint64_t i = first; i < end; ++i) {
      store(at + (i - first) * sizeof(uint64_t), table->absence_version(partition, static_cast<uint32_t>(i)).value);
    }
    header.cursor = end == all ? kRecords : end;
    send(FillStep::kNext, 0);
    return;
  }
  // A cursor of the index has 64 bits, all in use: the lowest one is given up for kRecords.
  const int bins = static_cast<int>(std::min<uint64_t>(std::max(kAnswerBins, table->spec().capacity / 128), 1 << 14));
  const uint64_t next = table->copy_out(
      partition, header.cursor << 1, piece, bins, scratch_.data(), [&](ByteView key, ByteView value, Version version) {
        header.version = version.value;
        header.key_bytes = static_cast<uint16_t>(key.size());
        header.value_bytes = static_cast<uint32_t>(value.size());
        std::byte* at = send(FillStep::kRecord, padded(key.size()) + padded(value.size()));
        // Padding goes over the wire: never what was in the buffer before.
        std::memset(at, 0, padded(key.size()) + padded(value.size()));
        std::memcpy(at, key.data(), key.size());
        if (!value.empty()) std::memcpy(at + padded(key.size()), value.data(), value.size());
      });
  header.version = header.key_bytes = 0;
  header.value_bytes = 0;
  header.cursor = next == 0 ? 0 : next >> 1 | kRecords;
  send(FillStep::kNext, 0);
}

void Engine::take_copies(const Message& m) {
  const auto header = load<FillHeader>(m.body.data());
  if (fills_.empty()) return;
  Fill& fill = fills_.back();
  if (m.source != view_->placement(fill.partition).primary()) return;
  if (header.partition != fill.partition.value || header.table != fill.table.value) return;
  Table* table = node_->table(fill.table);
  const std::byte* at = m.body.data() + sizeof header;
  switch (static_cast<FillStep>(header.step)) {
    case FillStep::kWords:
      for (size_t i = 0; i < (m.body.size() - sizeof header) / sizeof(uint64_t); ++i) {
        const uint64_t index = header.cursor + i;
        if (index >= table->absence_words()) break;
        table->raise_absence(fill.partition, static_cast<uint32_t>(index),
                             Version(load<uint64_t>(at + i * sizeof(uint64_t))));
      }
      break;
    case FillStep::kRecord: {
      const HashedKey key = table->hashed({at, header.key_bytes});
      if (key.partition != fill.partition) return;
      table->install(key, Write::kPut, {at + padded(header.key_bytes), header.value_bytes}, Version(header.version),
                     scratch_.data());
      break;
    }
    case FillStep::kNext:
      // Whichever answer comes first counts; a late one to a question before it does not.
      if (fill.question == 0 || header.question - fill.first_question > fill.question - fill.first_question) break;
      fill.question = 0;
      fill.cursor = header.cursor;
      if (header.cursor != 0) break;
      fills_.pop_back();
      if (fills_.empty()) filled_epoch_.store(view_->epoch.value, std::memory_order_release);
      break;
    case FillStep::kAsk:
      break;
  }
}

void Engine::on_control(std::span<const Message> run) {
  for (const Message& m : run) {
    if (chore_ != nullptr) chore_->hear(m.source, m.body);
  }
}

void Engine::send_control(NodeId to, ByteView message) {
  if (port_.backlog(to, Flow::kControl) > limits_.credit_bytes / 2) return;  // it takes nothing: it will be removed
  std::byte* at = port_.reserve(to, Flow::kControl, static_cast<uint8_t>(Kind::kControl), message.size());
  std::memcpy(at, message.data(), message.size());
}

}  // namespace weft
