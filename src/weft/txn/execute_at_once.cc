#include "weft/txn/execute_at_once.h"

#include <algorithm>
#include <span>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/truncation.h"

namespace weft {

namespace {

// Headers of the request, of its answer and of the unlock, each in a packet of its own.
constexpr uint32_t kExecuteOverhead = 512;
constexpr uint32_t kUnlockBytes = 256;  // the unlock and its answer, of these

// Entry::asked is cleared by the answer.
bool is_asked_of(const Entry& e, NodeId primary) { return e.asked && e.placement->primary() == primary; }

}  // namespace

void ExecuteAtOnce::start(TxnSlot& slot) {
  if (slot.stage != TxnStage::kExecuting) return;
  if (!planner_.plan_reads(slot).at_once) {
    for (uint16_t i = 0; i < slot.count; ++i) {
      if (slot.entry(i).announced) reads_.begin_announced(slot, i, slot.entry(i).intent);
    }
    return;
  }
  const NodeSet primaries = begin_asking(slot);
  if (primaries.empty()) return;
  if (!ctx_.views.active() || slot.epoch != ctx_.view().epoch.value || slot.expired) {
    fail(slot, primaries, slot.expired ? Code::kNoAnswer : Code::kEpoch);
  } else if (send(slot, primaries)) {
    return;
  } else if (!slot.participants.empty()) {
    // It holds locks that others wait for, so it does not wait.
    WEFT_MARK("no credit to execute with locks held");
    fail(slot, primaries, Code::kBusy);
  } else {
    WEFT_MARK("what is executed at once waits for credit");
    without_credit_.push_back({&slot, slot.sequence, primaries});
  }
}

// Begins the reads of this node and those that go key by key, and returns the primaries of all the others.
NodeSet ExecuteAtOnce::begin_asking(TxnSlot& slot) {
  NodeSet primaries;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    const bool blind = e.may_write && !e.announced && !e.read;
    if (!e.announced && !blind) continue;
    const bool whole = e.intent == Intent::kRead || e.intent == Intent::kUpdate;
    const NodeId primary = e.placement->primary();
    if (e.announced && (!whole || e.read || reads_.is_here(e) || ctx_.views.is_lost(primary))) {
      reads_.begin_announced(slot, i, whole ? Intent::kRead : e.intent);  // what is here is locked by its commit
    } else if (primary != ctx_.self && !ctx_.views.is_lost(primary)) {
      primaries.add(primary);
      e.asked = true;
      e.head = blind;
    }
  }
  for (const NodeId primary : primaries) {
    if (bytes_needed(slot, primary) > credit_.limit() / 4) primaries.remove(primary);
  }
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (!e.asked || e.read) continue;
    if (primaries.contains(e.placement->primary())) {
      e.announced = e.done = false;
      e.read = true;
      e.locks = e.may_write;
      slot.done_upto = std::min(slot.done_upto, i);
      ++slot.reads_pending;
      continue;
    }
    WEFT_MARK("too much for one message is executed key by key");
    e.asked = e.head = false;
    if (e.announced) reads_.begin_announced(slot, i, e.intent);
  }
  return primaries;
}

// For the request, its answer, and the unlock.
uint32_t ExecuteAtOnce::bytes_needed(const TxnSlot& slot, NodeId primary) const {
  const auto is_one = [&](const Entry& e) { return is_asked_of(e, primary); };
  const auto entries = std::span(slot.entries, slot.count);
  const auto keys = static_cast<size_t>(std::count_if(entries.begin(), entries.end(), is_one));
  const uint32_t room = executed_room(ctx_.limits, keys);
  size_t bytes = kExecuteOverhead;
  for (const Entry& e : entries) {
    if (!is_one(e)) continue;
    bytes += kWideHeadBytes + padded(e.key.bytes.size()) + sizeof(ExecutedKey);
    bytes += padded(std::min(room, e.table->spec().value_bytes_max));
  }
  return static_cast<uint32_t>(bytes);
}

// Takes the credit for all, or for none, and sends.
bool ExecuteAtOnce::send(TxnSlot& slot, NodeSet primaries) {
  NodeSet taken;
  for (const NodeId n : primaries) {
    const uint32_t need = bytes_needed(slot, n);
    if (!credit_.take(n, need)) {
      for (const NodeId back : taken) {
        credit_.put_back(back, slot.need[back.value]);
        slot.credit[back.value] -= slot.need[back.value];
      }
      return false;
    }
    if (!slot.credit_nodes.contains(n) && !taken.contains(n)) slot.credit[n.value] = 0;
    taken.add(n);
    slot.need[n.value] = need;
    slot.credit[n.value] += need;
  }
  slot.credit_nodes |= taken;
  for (const NodeId n : primaries) send_to(slot, n);
  return true;
}

void ExecuteAtOnce::send_to(TxnSlot& slot, NodeId primary) {
  CommitRequest request{};
  request.coordinator = ctx_.self;
  request.slot = slot.index;
  request.flags = kRefusalIsFinal;
  request.sequence = slot.sequence;
  size_t bytes = CommitRequest::bytes(ctx_.nodes);
  bool locks = false;
  const auto part_of_key = [&](const Entry& e, uint16_t i) {
    KeyPart part{};
    part.table = e.table_id.value;
    part.index = i;
    part.key_bytes = static_cast<uint32_t>(e.key.bytes.size());
    part.write = static_cast<uint8_t>(e.locks ? Write::kPut : Write::kNone);
    part.flags = e.head ? kBlind : 0;
    return part;
  };
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!is_asked_of(e, primary)) continue;
    bytes += key_part_bytes(part_of_key(e, i));
    locks |= e.locks;
  }
  std::byte* to = ctx_.port.reserve(primary, bytes <= kPacketBytesMax ? Flow::kCommit : Flow::kExecution,
                                    static_cast<uint8_t>(Kind::kExecute), bytes, request.tag(ctx_.nodes));
  to = request.put(to, ctx_.nodes);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (is_asked_of(e, primary)) to = put_key(to, part_of_key(e, i), e.key.bytes.data(), nullptr);
  }
  slot.waiting.add(primary);
  if (locks) {
    slot.participants.add(primary);
    Truncation::opens_records(slot, NodeSet::of(primary));
  }
  ++ctx_.counters.remote_gets;
  ++ctx_.counters.phase_messages[index_of(Phase::kExecute)];
}

bool ExecuteAtOnce::retry() {
  size_t kept = 0;
  const size_t count = without_credit_.size();
  for (size_t i = 0; i < count; ++i) {
    const Waiting waiting = without_credit_[i];
    if (waiting.slot->sequence != waiting.sequence) continue;  // its peer was lost, and it has ended since
    const NodeSet lost = waiting.primaries & ctx_.views.lost_peers();
    if (!lost.empty()) {
      fail(*waiting.slot, waiting.primaries, Code::kPeerLost);
    } else if (send(*waiting.slot, waiting.primaries)) {
      continue;
    } else if (!waiting.slot->participants.empty()) {
      fail(*waiting.slot, waiting.primaries, Code::kBusy);  // a get of it has locked meanwhile
    } else {
      without_credit_[kept++] = waiting;
    }
  }
  without_credit_.resize(kept);
  return kept != count;
}

// Nothing was sent to these, or nothing will come back.
void ExecuteAtOnce::fail(TxnSlot& slot, NodeSet primaries, Code code) {
  const auto is_one = [&](const Entry& e) { return e.asked && primaries.contains(e.placement->primary()); };
  auto left = std::count_if(slot.entries, slot.entries + slot.count, is_one);
  for (uint16_t i = 0; left != 0; ++i) {
    if (!is_one(slot.entry(i))) continue;
    slot.entry(i).asked = false;
    --left;
    reads_.fail_read(slot, i, code);
  }
}

void ExecuteAtOnce::on_peer_lost(TxnSlot& slot, NodeId peer) {
  if (slot.in_phases() || !slot.waiting.contains(peer)) return;
  slot.waiting.remove(peer);
  fail(slot, NodeSet::of(peer), Code::kPeerLost);
}

bool ExecuteAtOnce::parse(const Message& m) const {
  if (m.tag >= slots_.size() || m.body.size() < sizeof(ExecutedReply)) return false;
  const auto reply = load<ExecutedReply>(m.body.data());
  if (!is_answer(static_cast<Code>(reply.code))) return false;
  const std::byte* at = m.body.data() + sizeof reply;
  const std::byte* const end = m.body.data() + m.body.size();
  for (uint32_t i = 0; i < reply.keys; ++i) {
    if (static_cast<size_t>(end - at) < sizeof(ExecutedKey)) return false;
    const auto key = load<ExecutedKey>(at);
    at += sizeof key;
    if (key.version > kVersionMax || static_cast<size_t>(end - at) < padded(key.bytes)) return false;
    if (key.bytes != 0 && (key.found == 0 || key.bytes != key.length)) return false;
    at += padded(key.bytes);
  }
  return at == end;
}

void ExecuteAtOnce::on_executed(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    TxnSlot& slot = slots_.at(m.tag);
    const auto reply = load<ExecutedReply>(m.body.data());
    ++ctx_.counters.phase_messages[index_of(Phase::kExecute)];
    const bool executes = slot.stage == TxnStage::kExecuting || slot.stage == TxnStage::kDraining ||
                          slot.stage == TxnStage::kAwaitingReads;
    uint32_t asked = 0;
    for (uint16_t i = 0; executes && i < slot.count; ++i) asked += is_asked_of(slot.entry(i), m.source) ? 1 : 0;
    const bool refused = static_cast<Code>(reply.code) != Code::kOk;
    if (!executes || static_cast<uint32_t>(slot.sequence) != reply.sequence || !slot.waiting.contains(m.source) ||
        asked == 0 || reply.keys != (refused ? 0 : asked)) {
      ctx_.faults.report(m.source, "an answer to what was not asked to be executed");
      continue;
    }
    take(slot, m);
  }
}

// Has been answered: all but `kept`. Its commit may wait for more credit, which then is not held by others that wait.
void ExecuteAtOnce::give_back(TxnSlot& slot, NodeId node, uint32_t kept) {
  const uint32_t back = slot.need[node.value] - kept;
  slot.credit[node.value] -= back;
  credit_.give(node, back);
}

void ExecuteAtOnce::take(TxnSlot& slot, const Message& m) {
  const auto reply = load<ExecutedReply>(m.body.data());
  const auto code = static_cast<Code>(reply.code);
  slot.waiting.remove(m.source);
  bool locks = false;
  uint16_t left = 0;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!is_asked_of(e, m.source)) continue;
    ++left;
    locks |= e.locks;
  }
  if (code != Code::kOk) {
    weft::fail(slot, code, reply.index < slot.count ? &slot.entry(reply.index) : nullptr, Owner(reply.holder));
  } else if (locks) {
    slot.locked_nodes.add(m.source);
    slot.record_nodes.add(m.source);
  }
  give_back(slot, m.source, code == Code::kOk && locks ? kUnlockBytes : 0);
  const std::byte* at = m.body.data() + sizeof reply;
  for (uint16_t i = 0; left != 0; ++i) {
    Entry& e = slot.entry(i);
    if (!is_asked_of(e, m.source)) continue;
    --left;
    e.asked = false;
    e.code = code;
    bool more = false;
    if (code == Code::kOk) {
      const auto key = load<ExecutedKey>(at);
      at += sizeof key;
      e.version = e.base = Version(key.version);
      e.found = key.found != 0;
      e.locked = e.locks;
      if (e.locks && key.version >= kVersionMax) weft::fail(slot, Code::kVersionLimit, &e, Owner());
      if (key.torn != 0) {
        e.code = Code::kLocked;
        weft::fail(slot, Code::kLocked, &e, Owner());
      } else if (e.head) {
        e.partial = e.found;  // it may be asked for later
      } else if (e.found && key.bytes == key.length && key.length <= e.table->spec().value_bytes_max) {
        keys_.keep_value(slot, e, {at, key.bytes});
      } else if (e.found) {
        e.value_length = key.length;
        more = slot.outcome.code == Code::kOk && key.length <= e.table->spec().value_bytes_max;
        if (!more) e.code = slot.outcome.code != Code::kOk ? slot.outcome.code : Code::kBadPacket;
      }
      at += padded(key.bytes);
    }
    if (more) {
      WEFT_MARK("a value too long for an answer of several keys");
      reads_.ask_again(slot, i);
    } else {
      reads_.complete_read(slot, i);
    }
  }
}

}  // namespace weft
