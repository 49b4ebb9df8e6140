// The slots of a worker's transactions: who gets one, what a transaction reads and writes, and who is told when.
#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

TxnSlot* Engine::acquire(uint64_t until_ns) {
  if (until_ns != 0 && worker_->now_ns() >= until_ns) return &refused_;
  if (free_slots_.empty() || in_use_ >= limits_.inflight || (!active_ && !retired_)) return nullptr;
  TxnSlot& slot = *slots_[free_slots_.back()];
  free_slots_.pop_back();
  ++in_use_;
  slot.state = SlotState::kExecuting;
  slot.attached = true;
  slot.single = slot.commit_wanted = slot.committing = slot.told = slot.expired = slot.left = false;
  slot.until_ns = until_ns;
  slot.rejected = Code::kOk;
  slot.begun_ns = worker_->now_ns();
  slot.incarnation = incarnation_;
  slot.epoch = view_->epoch.value;
  slot.sequence = ++sequence_;
  slot.count = slot.done_upto = slot.reads_pending = slot.wait_upto = 0;
  slot.capacity = TxnSlot::kInlineEntries;
  slot.entries = slot.inline_entries.data();
  slot.places = nullptr;
  slot.last_entry = 0;
  slot.waiter = {};
  slot.row = nullptr;
  slot.phase = Phase::kExecute;
  slot.writes = slot.round_trips = 0;
  slot.dones_pending = 0;
  slot.waiting = slot.locked_nodes = slot.record_nodes = slot.participants = slot.fill_nodes = slot.fill_only = 0;
  slot.targets = {};
  slot.ring_nodes = 0;
  slot.ring_bytes = 0;
  slot.posts_waiting = 0;
  slot.outcome = Outcome();
  slot.outcome.id = slot.id(id_);
  slot.bytes_used = slot.inline_used = slot.chunk_left = 0;
  slot.chunks = 0;
  if (retired_) reject(slot, Code::kClosed, nullptr, {});
  return &slot;
}

void Engine::wait_for_slot(Session::BeginAwaiter* waiter) {
  waiter->due_ns = waiter->until_ns != 0 ? waiter->until_ns : worker_->now_ns() + answer_ns_;
  due_ns_ = std::min(due_ns_, waiter->due_ns);
  waiter->next = nullptr;
  (begin_last_ != nullptr ? begin_last_->next : begin_first_) = waiter;
  begin_last_ = waiter;
}

void Engine::let_go(TxnSlot* slot) {
  if (slot == &refused_) return;
  slot->attached = false;
  slot->waiter = {};
  --in_use_;
  if (slot->state == SlotState::kExecuting) {
    if (slot->locked_nodes != 0 || slot->reads_pending != 0) WEFT_MARK("dropped_half_way");
    give_up(*slot, Code::kApplication);
  }
  maybe_free(*slot);
  give_slot_to_waiter();
}

void Engine::free_slot(TxnSlot& slot) {
  for (int i = 0; i < slot.chunks; ++i) {
    const TxnSlot::Chunk& chunk = slot.chunk[static_cast<size_t>(i)];
    pool_->free(chunk.block, chunk.bytes);
  }
  slot.state = SlotState::kFree;
  free_slots_.push_back(slot.index);
  give_slot_to_waiter();
}

void Engine::give_slot_to_waiter() {
  if (!active_ && !retired_) return;
  for (bool refused = true; refused;) {
    if (begin_first_ == nullptr || in_use_ >= limits_.inflight || free_slots_.empty()) return;
    Session::BeginAwaiter* waiter = begin_first_;
    begin_first_ = waiter->next;
    if (begin_first_ == nullptr) begin_last_ = nullptr;
    waiter->slot = acquire(waiter->until_ns);
    refused = waiter->slot == &refused_;
    worker_->ready(waiter->waiter);
  }
}

void Engine::wake(TxnSlot& slot) {
  if (!slot.waiter) return;
  worker_->ready(slot.waiter);
  slot.waiter = {};
}

void Engine::wake_leased(TxnSlot& slot) {
  if (!slot.waiter) return;
  if (slot.outcome.code == Code::kOk && node_->leased() && !bugs_.has(Bug::kNoLeaseCheck)) {
    told_.push_back({&slot, slot.sequence});
  } else {
    wake(slot);
  }
}

// The epoch ends before this worker could be sure of its lease again: what it read may not have been current.
void Engine::refuse_untold(TxnSlot& slot) {
  if (!slot.waiter || slot.row != &kReadOnly || (retired_ && bugs_.has(Bug::kToldRemoved))) return;
  fail(slot, Code::kEpoch, nullptr, Owner());
  wake(slot);
}

void Engine::release_told(bool now) {
  const uint64_t late_ns = bugs_.has(Bug::kToldLate) ? 2'000'000 : 0;
  if (!now && worker_->now_ns() >= node_->lease_until_ns() + late_ns) {
    WEFT_MARK("an outcome waits for the lease");
    return;
  }
  if (!now && !told_.empty()) change_.told(worker_->now_ns());
  for (const auto& [slot, sequence] : told_) {
    if (slot->sequence == sequence) wake(*slot);  // else the application has gone, and the slot is another's
  }
  told_.clear();
}

std::byte* Engine::take_chunk_bytes(TxnSlot& slot, size_t need) {
  if (need > slot.chunk_left) {
    // Each block at least doubles the last, so that their number stays small.
    const size_t room = Pool::room(std::max(need, size_t{4096} << std::min<int>(slot.chunks, 8)));
    WEFT_CHECK(slot.chunks < TxnSlot::kChunksMax, "blocks double");
    slot.chunk_next = pool_->allocate(room);
    slot.chunk_left = static_cast<uint32_t>(room);
    slot.chunk[slot.chunks++] = {slot.chunk_next, static_cast<uint32_t>(room)};
  }
  std::byte* at = slot.chunk_next;
  slot.chunk_next += need;
  slot.chunk_left -= static_cast<uint32_t>(need);
  return at;
}

namespace {

size_t home_of(uint64_t hash) { return hash % TxnSlot::kPlaces; }
size_t next_place(size_t place) { return (place + 1) % TxnSlot::kPlaces; }

void index_entry(TxnSlot& slot, uint16_t index) {
  size_t place = home_of(slot.entry(index).key.hash);
  while (slot.places[place] != 0) place = next_place(place);
  slot.places[place] = static_cast<uint8_t>(index + 1);
}

bool is_entry(const Entry& e, const Table* table, const HashedKey& key) {
  if (e.key.hash != key.hash || e.table != table) return false;
  // The hash of an integer is as good as the integer.
  return table->integer_keys() || as_text(e.key.bytes) == as_text(key.bytes);
}

}  // namespace

// Applications come back to the key they had last, or go over their keys again in order: a look at these two is cheaper
// than the hash of a byte string.
Entry* Engine::guess_entry(TxnSlot& slot, const Table* table, std::string_view key) {
  if (slot.count == 0) return nullptr;
  const auto following = static_cast<uint16_t>(slot.last_entry + 1U < slot.count ? slot.last_entry + 1U : 0U);
  for (const uint16_t i : {slot.last_entry, following}) {
    Entry& e = slot.entry(i);
    if (e.table != table || as_text(e.key.bytes) != key) continue;
    slot.last_entry = i;
    return &e;
  }
  return nullptr;
}

Entry* Engine::find_entry(TxnSlot& slot, const Table* table, const HashedKey& key) {
  if (slot.places != nullptr) {
    for (size_t place = home_of(key.hash); slot.places[place] != 0; place = next_place(place)) {
      Entry& e = slot.entry(slot.places[place] - 1U);
      if (is_entry(e, table, key)) return &e;
    }
    return nullptr;
  }
  for (uint16_t i = 0; i < slot.count; ++i) {
    if (is_entry(slot.entry(i), table, key)) return &slot.entry(i);
  }
  return nullptr;
}

// nullptr: rejected, and the slot's outcome says why.
Entry* Engine::lookup_or_add(TxnSlot& slot, TableId table_id, Key key) {
  if (table_id.value >= node_->tables()) {
    reject(slot, Code::kNoSuchTable, nullptr, {"the number of tables", node_->tables(), table_id.value});
    return nullptr;
  }
  Table* table = node_->table(table_id);
  if (table->integer_keys() && key.size() != 8) {
    reject(slot, Code::kMisuse, nullptr, {"the bytes of an integer key", 8, key.size()});
    return nullptr;
  }
  if (key.size() > limits_.key_bytes_max) {
    reject(slot, Code::kKeyTooLong, nullptr, {"limits.key_bytes_max", limits_.key_bytes_max, key.size()});
    return nullptr;
  }
  if (!table->integer_keys()) {
    if (Entry* e = guess_entry(slot, table, {key.data(), key.size()})) return e;
  }
  const HashedKey hashed = table->hashed({reinterpret_cast<const std::byte*>(key.data()), key.size()});
  if (Entry* e = find_entry(slot, table, hashed)) {
    slot.last_entry = static_cast<uint16_t>(e - slot.entries);
    return e;
  }
  if (slot.count >= limits_.txn_keys_max) {
    reject(slot, Code::kTxnTooLarge, nullptr, {"limits.txn_keys_max", limits_.txn_keys_max, slot.count + 1U});
    return nullptr;
  }
  if (slot.count == slot.capacity) grow_entries(slot);
  std::byte* bytes = take_bytes(slot, key.size());
  if (bytes == nullptr) {
    reject(slot, Code::kTxnTooLarge, nullptr, bytes_limit(slot, key.size()));
    return nullptr;
  }
  copy_bytes(bytes, key.data(), key.size());
  Entry* e = new (slot.entries + slot.count) Entry();
  slot.last_entry = slot.count++;
  e->key = hashed;
  e->key.bytes = {bytes, key.size()};
  e->table = table;
  e->table_id = table_id;
  e->placement = &view_->placement(hashed.partition);
  if (slot.places != nullptr) index_entry(slot, static_cast<uint16_t>(slot.count - 1));
  return e;
}

void Engine::grow_entries(TxnSlot& slot) {
  const auto capacity = static_cast<uint16_t>(limits_.txn_keys_max);
  const size_t room = Pool::room(capacity * sizeof(Entry) + TxnSlot::kPlaces);
  auto* grown = reinterpret_cast<Entry*>(pool_->allocate(room));
  slot.chunk[slot.chunks++] = {reinterpret_cast<std::byte*>(grown), static_cast<uint32_t>(room)};
  for (uint16_t i = 0; i < slot.count; ++i) new (grown + i) Entry(slot.entry(i));
  slot.entries = grown;
  slot.capacity = capacity;
  slot.places = reinterpret_cast<uint8_t*>(grown + capacity);
  std::memset(slot.places, 0, TxnSlot::kPlaces);
  for (uint16_t i = 0; i < slot.count; ++i) index_entry(slot, i);
}

Code Engine::reject(TxnSlot& slot, Code code, const Entry* entry, const Limit& limit) {
  if (slot.rejected == Code::kOk && slot.outcome.code == Code::kOk) {
    slot.rejected = code;
    fail(slot, code, entry, Owner());
    slot.outcome.limit_name = limit.name;
    slot.outcome.limit = limit.is;
    slot.outcome.asked = limit.asked;
  }
  return code;
}

Code Engine::write(TxnSlot& slot, TableId table_id, Key key, Write write, std::string_view value) {
  if (slot.state != SlotState::kExecuting) return Code::kMisuse;
  Entry* e = lookup_or_add(slot, table_id, key);
  if (e == nullptr) return slot.outcome.code;
  if (!e->read) e->done = true;
  const uint32_t value_max = std::min(e->table->spec().value_bytes_max, limits_.value_bytes_max);
  if (value.size() > value_max) {
    return reject(slot, Code::kValueTooLong, e, {"the table's value_bytes_max", value_max, value.size()});
  }
  // What this transaction has written is there for it, or is not.
  if (e->write == Write::kNone) {
    e->demand = write == Write::kInsert  ? Demand::kAbsent
                : write == Write::kErase ? Demand::kPresent
                                         : Demand::kNothing;
  } else if (write == Write::kInsert && e->write == Write::kPut) {
    fail(slot, Code::kExists, e, Owner());
    return Code::kExists;
  } else if (write == Write::kErase && e->write == Write::kErase) {
    fail(slot, Code::kNotFound, e, Owner());
    return Code::kNotFound;
  }
  const Write before = e->write;
  if (write == Write::kErase) {
    e->write = Write::kErase;
    e->new_bytes = 0;
  } else {
    std::byte* bytes = take_bytes(slot, value.size());
    if (bytes == nullptr) return reject(slot, Code::kTxnTooLarge, e, bytes_limit(slot, value.size()));
    copy_bytes(bytes, value.data(), value.size());
    e->new_value = bytes;
    e->new_bytes = static_cast<uint32_t>(value.size());
    e->write = Write::kPut;
  }
  // A key that changes sides within the transaction: whether it was there decides what is to be done, so look.
  if (before != Write::kNone && before != e->write && !e->read) {
    WEFT_MARK("written_both_ways_without_a_read");
    begin_read(slot, static_cast<uint16_t>(e - slot.entries), Intent::kRead);
  }
  return Code::kOk;
}

}  // namespace weft
