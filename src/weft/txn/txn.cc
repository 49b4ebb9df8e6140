// Txn: the application's handle of a slot.
#include "weft/txn.h"

#include "weft/base/check.h"
#include "weft/txn/procedure.h"
#include "weft/txn/txn_worker.h"

namespace weft {

Txn::Txn(Txn&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

Txn& Txn::operator=(Txn&& other) noexcept {
  if (this != &other) {
    if (slot_ != nullptr) slot_->txn_worker->coordinator().detach(*slot_);
    slot_ = std::exchange(other.slot_, nullptr);
  }
  return *this;
}

Txn::~Txn() {
  if (slot_ != nullptr) slot_->txn_worker->coordinator().detach(*slot_);
}

ReadHandle Txn::get_async(TableId table, Key key, Intent intent) {
  return slot_->txn_worker->reads().get_async(*slot_, table, key, intent);
}

bool Txn::WaitAwaiter::await_ready() const noexcept {
  if (upto == UINT16_MAX || slot->expired) return true;
  while (slot->done_upto < slot->count && slot->entry(slot->done_upto).done) ++slot->done_upto;
  return slot->done_upto > upto;
}

void Txn::WaitAwaiter::await_suspend(std::coroutine_handle<> h) const noexcept {
  WEFT_CHECK(!slot->waiter, "one coroutine at a time waits for a transaction");
  slot->wait_upto = upto;
  slot->txn_worker->client_waits().begin(*slot, h);
}

bool Txn::is_ready(ReadHandle handle) const { return wait(handle).await_ready(); }
bool Txn::all_ready() const { return wait_all().await_ready(); }

Txn::WaitAwaiter Txn::wait_all() const {
  return {slot_, slot_->count == 0 ? uint16_t{UINT16_MAX} : static_cast<uint16_t>(slot_->count - 1)};
}

Value Txn::value(ReadHandle handle) const {
  if (handle.index < slot_->count) return value_of(*slot_, handle.index);
  Value out;
  out.code = slot_->rejected != Code::kOk ? slot_->rejected : Code::kInvalidArgument;
  return out;
}

Value Txn::GetAwaiter::await_resume() const noexcept {
  Txn view(wait.slot);
  const Value value = view.value(handle);
  view.slot_ = nullptr;
  return value;
}

ScanHandle Txn::scan_async(TableId table, Key from, Key to, uint32_t limit, Direction direction) {
  return slot_->txn_worker->range_scans().start(*slot_, table, from, to, limit, direction);
}

bool Txn::is_ready(ScanHandle handle) const { return Scans::is_ready(*slot_, handle); }
Scan Txn::scanned(ScanHandle handle) const { return Scans::result(*slot_, handle); }

bool Txn::ScanAwaiter::await_ready() const noexcept { return Scans::is_ready(*slot, handle); }

void Txn::ScanAwaiter::await_suspend(std::coroutine_handle<> h) const noexcept {
  WEFT_CHECK(!slot->waiter, "one coroutine at a time waits for a transaction");
  slot->wait_upto = UINT16_MAX;  // no read ends this wait
  slot->awaited_scan = find_scan(*slot, handle.index);
  slot->txn_worker->client_waits().begin(*slot, h);
}

Scan Txn::ScanAwaiter::await_resume() const noexcept {
  slot->awaited_scan = nullptr;
  return Scans::result(*slot, handle);
}

Code Txn::put(TableId table, Key key, std::string_view value) {
  return slot_->txn_worker->reads().write(*slot_, table, key, Write::kPut, value);
}
Code Txn::insert(TableId table, Key key, std::string_view value) {
  return slot_->txn_worker->reads().write(*slot_, table, key, Write::kInsert, value);
}
Code Txn::erase(TableId table, Key key) {
  return slot_->txn_worker->reads().write(*slot_, table, key, Write::kErase, {});
}

Txn::CommitAwaiter Txn::commit() { return {slot_}; }

void Txn::CommitAwaiter::await_suspend(std::coroutine_handle<> h) const noexcept {
  WEFT_CHECK(!slot->waiter, "one coroutine at a time waits for a transaction");
  slot->txn_worker->client_waits().begin(*slot, h);
  slot->txn_worker->coordinator().start_commit(*slot);
}

Outcome Txn::CommitAwaiter::await_resume() const noexcept {
  if (!slot->left) return slot->outcome;
  Outcome unknown;
  unknown.kind = ClientWaits::abandoned_kind(slot->txn_worker->context().bugs);
  unknown.code = Code::kNoAnswer;
  unknown.id = slot->outcome.id;
  unknown.silent = slot->silent.bits();
  return unknown;
}

Outcome Txn::abort(Code why) {
  if (slot_->stage == TxnStage::kExecuting) slot_->txn_worker->coordinator().abort_by_client(*slot_, why);
  return slot_->outcome;
}

TxnId Txn::id() const { return slot_->id(slot_->txn_worker->context().id); }

bool Txn::refused() const { return slot_->stage == TxnStage::kFinished && slot_->sequence == 0; }
Code Txn::set_protocol(std::string_view name) {
  const std::optional<uint8_t> row = slot_->txn_worker->node()->rows().find(name);
  if (!row || slot_->stage != TxnStage::kExecuting || slot_->count != 0 || slot_->scans != nullptr)
    return Code::kInvalidArgument;
  slot_->row = *row;
  return Code::kOk;
}
void Txn::set_until(uint64_t until_ns) {
  if (!refused()) slot_->until_ns = until_ns;
}

std::string Outcome::text() const {
  static constexpr std::string_view kKinds[] = {"committed", "aborted", "rejected", "unknown"};
  std::string out(kKinds[static_cast<int>(kind)]);
  if (code == Code::kOk) return out;
  out += ": ";
  out += code_text(code);
  if (key_bytes != 0) {
    out += ", table " + std::to_string(table.value) + " key ";
    if (integer_key) {
      uint64_t integer;
      std::memcpy(&integer, key_start, sizeof integer);
      out += std::to_string(integer);
    } else {
      out.append(key_start, std::min<size_t>(key_bytes, sizeof key_start));
      if (key_bytes > sizeof key_start) out += "...";
    }
  }
  if (limit_name != nullptr) {
    out += ", " + std::string(limit_name) + " is " + std::to_string(limit);
    if (asked != 0) out += ", asked for " + std::to_string(asked);
  }
  if (silent != 0) {
    std::string nodes;
    for (const NodeId node : NodeSet::from_bits(silent)) {
      nodes += (nodes.empty() ? "" : " and ") + std::to_string(node.value);
    }
    out += (code == Code::kPeerLost ? ", node " : ", waited for node ") + nodes;
  }
  if (has_holder) {
    out += ", held by node " + std::to_string(holder_node.value) + " worker " + std::to_string(holder_worker.value);
  }
  return out;
}

}  // namespace weft
