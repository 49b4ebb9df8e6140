// ShipServer: from the plan of what was executed to the logs and the answer.
#include <algorithm>
#include <new>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"
#include "weft/txn/ship_server.h"

namespace weft {

namespace {

constexpr uint32_t kLogOverhead = 256;  // headers of a packet of its own

}  // namespace

bool ShipServer::plan(const CommitRequest& request) {
  guest_->locked_nodes = locked_ ? NodeSet::of(ctx_.self) : NodeSet{};
  const NodeSet nodes = planner_.plan(*guest_);
  if (guest_->outcome.code != Code::kOk) return refuse_failed();
  if (guest_->writes != 0 && !writes_) {
    WEFT_MARK_OUTSIDE("a shipped procedure writes and has not announced it");
    return ask_instead();  // its coordinator expects no writes
  }
  if (!lock_rest(request)) return false;
  guest_->participants = nodes | NodeSet::of(ctx_.self) | NodeSet::of(request.coordinator);
  guest_->stage = TxnStage::kCommitting;
  CommitRequest commit = MessageTransport::request_of(request.coordinator, *guest_);
  if (guest_->writes == 0) {
    answer(request, {}, locked_);
    return true;
  }
  const NodeSet logs = guest_->steps[index_of(Phase::kReplicate)].send_to;
  const NodeSet others = logs - NodeSet::of(ctx_.self) - NodeSet::of(request.coordinator);
  if (!take_credit(request, others)) return false;
  if (ctx_.bugs.has(PlantedBug::kExecutorForgets)) {
    commit.writes = 0;
    for (uint16_t i = 0; i < guest_->count; ++i) {
      const Entry& e = guest_->entry(i);
      if (e.write != Write::kNone && e.placement->primary() == ctx_.self) ++commit.writes;
    }
  }
  own_.replicate_for(commit, *guest_);
  send_logs(request, others);
  answer(request, others, true);
  if (ctx_.bugs.has(PlantedBug::kCreditAtOnce)) on_unlocked(request.coordinator, request.slot);
  return true;
}

// Keys that the procedure named when it ran, and those whose lock is not enough for what it writes.
bool ShipServer::lock_rest(const CommitRequest& request) {
  refs_.cut(0);
  KeyRef* to = refs_.begin_adding(guest_->count);
  for (uint16_t i = 0; i < guest_->count; ++i) {
    const Entry& e = guest_->entry(i);
    if (e.write == Write::kNone) continue;
    if (e.locked && !e.locks) return ask_instead();  // it is locked to be read, and was named when the procedure ran
    if (e.at[index_of(Phase::kLock)].empty()) continue;
    if (e.placement->primary() != ctx_.self) {
      return ask_instead();  // a key elsewhere is not locked for what is written: an erase needs its absence word too
    }
    const KeyPart part = MessageTransport::key_part(*guest_, e, i, Phase::kLock);
    KeyRef& ref = *new (to++) KeyRef();
    ref.key = e.key;
    ref.table = e.table;
    ref.table_id = e.table_id;
    ref.index = i;
    ref.write = e.write;
    ref.version = Version(part.version);
    ref.room = part.value_bytes;
    ref.flags = part.flags;
  }
  refs_.end_adding(to);
  const bool fresh = std::any_of(refs_.begin(), refs_.end(), [](const KeyRef& ref) { return !ref.has(kHeld); });
  return lock_refs(request) && (!fresh || check_reads(request));
}

bool ShipServer::take_credit(const CommitRequest& request, NodeSet nodes) {
  if (!(nodes - request.participants).empty()) return ask_instead();     // the coordinator has no credit with a replica
  if (!(nodes & ctx_.views.lost_peers()).empty()) return ask_instead();  // a replica is lost
  size_t most = messages_.phase_bytes(*guest_, Phase::kReplicate, request.coordinator) + sizeof(ShippedReply) +
                padded(output_.reply().size());
  for (const NodeId n : nodes) most = std::max(most, messages_.phase_bytes(*guest_, Phase::kReplicate, n) + 8);
  if (most > kShipBytesMax) return ask_instead();  // it writes too much
  const auto bytes = static_cast<uint32_t>(most + kLogOverhead);
  NodeSet taken;
  for (const NodeId n : nodes) {
    if (!credit_.take(n, bytes)) {
      WEFT_MARK("no credit to log a shipped transaction");
      for (const NodeId back : taken) credit_.put_back(back, bytes);
      return ask_instead();  // no credit
    }
    taken.add(n);
  }
  held(request.coordinator, request.slot) = {nodes, bytes};
  return true;
}

void ShipServer::on_unlocked(NodeId coordinator, uint8_t slot) {
  Held& held_credit = held(coordinator, slot);
  for (const NodeId n : held_credit.nodes) credit_.give(n, held_credit.bytes);
  held_credit = {};
}

void ShipServer::release(const CommitRequest& request) {
  if (!locked_) {
    participant_.note_outcome(guest_->incarnation, request.sequence, false);
    return;
  }
  CommitRequest abort = request;
  abort.flags = kRefusalIsFinal;
  const bool released = participant_.unlock(abort, {});
  WEFT_CHECK(released || ctx_.bugs.mask != 0, "what was locked here is released here");
}

void ShipServer::send_logs(const CommitRequest& request, NodeSet nodes) {
  const uint32_t tag = messages_.tag(*guest_);
  for (const NodeId n : nodes) {
    const size_t bytes = messages_.phase_bytes(*guest_, Phase::kReplicate, n);
    std::byte* const to =
        ctx_.port.reserve(n, Flow::kCommit, static_cast<uint8_t>(Kind::kReplicateFor), sizeof(uint64_t) + bytes, tag);
    store(to, uint64_t{request.coordinator.value});
    messages_.encode_phase(to + sizeof(uint64_t), *guest_, Phase::kReplicate, n);
    ++ctx_.counters.phase_messages[index_of(Phase::kReplicate)];
  }
}

void ShipServer::answer(const CommitRequest& request, NodeSet logged, bool holds) {
  const std::string_view said = output_.reply();
  ShippedReply reply{};
  reply.sequence = static_cast<uint32_t>(request.sequence);
  reply.holds = holds ? 1 : 0;
  reply.writes = guest_->writes;
  reply.reply_bytes = static_cast<uint32_t>(said.size());
  reply.logged = logged;
  size_t logs = 0;
  if (guest_->steps[index_of(Phase::kReplicate)].send_to.contains(request.coordinator)) {
    for (uint16_t i = 0; i < guest_->count; ++i) {
      if (guest_->entry(i).at[index_of(Phase::kReplicate)].contains(request.coordinator)) ++reply.keys;
    }
    logs = messages_.phase_bytes(*guest_, Phase::kReplicate, request.coordinator);
  }
  const size_t bytes = sizeof reply + padded(said.size()) + logs;
  std::byte* to =
      ctx_.port.reserve(request.coordinator, Flow::kCommit, static_cast<uint8_t>(Kind::kShipped), bytes, request.slot);
  store(to, reply);
  to += sizeof reply;
  if (!said.empty()) {
    store(to + padded(said.size()) - 8, uint64_t{0});
    std::copy(said.begin(), said.end(), reinterpret_cast<char*>(to));
    to += padded(said.size());
  }
  if (logs != 0) messages_.encode_phase(to, *guest_, Phase::kReplicate, request.coordinator);
}

void ShipServer::answer_refusal(const CommitRequest& request) {
  WEFT_CHECK(refusal_.code != Code::kOk, "who refuses says why");
  ShippedReply reply{};
  reply.sequence = static_cast<uint32_t>(request.sequence);
  reply.code = static_cast<uint8_t>(refusal_.code);
  reply.index = refusal_.index;
  reply.holder = refusal_.holder.bits;
  store(ctx_.port.reserve(request.coordinator, Flow::kCommit, static_cast<uint8_t>(Kind::kShipped), sizeof reply,
                          request.slot),
        reply);
}

}  // namespace weft
