#include "weft/txn/txn_worker.h"

#include <algorithm>
#include <utility>

namespace weft {

Result<std::unique_ptr<TxnWorker>> TxnWorker::create(Node* node, WorkerId id, Worker* worker, Environment* env) {
  Result<TxnMemory> memory = TxnMemory::create(*node);
  if (!memory) return memory.error();
  return std::unique_ptr<TxnWorker>(new TxnWorker(node, id, worker, env, std::move(*memory)));
}

TxnWorker::TxnWorker(Node* node, WorkerId id, Worker* worker, Environment* env, TxnMemory memory)
    : TxnParts(this, node, id, worker, env, std::move(memory)) {
  worker->set_tasks(this);
}

TxnWorker::~TxnWorker() = default;

// The loop.

bool TxnWorker::commit_steps() {
  const uint64_t now_ns = ctx_.now_ns();
  bool busy = false;
  if (!ctx_.faults.empty()) handle_peer_faults();
  if (control_.agent() != nullptr) busy |= control_.agent()->step(now_ns);
  for (Service* service : services_) busy |= service->step(now_ns);
  busy |= coordinator_.run_local_commits();
  if (!piece_receiver_.empty()) busy |= piece_receiver_.step(now_ns);
  if (!piece_sender_.empty()) busy |= piece_sender_.step();
  if (credit_.take_came_back()) {
    busy |= reads_.retry();
    busy |= execute_.retry();
    busy |= range_scans_.retry();
    busy |= coordinator_.retry_commits();
  }
  if (verbs_ != nullptr && slots_.runs_short()) verbs_->verb_issuer().flush_unsignalled_now();
  participant_.flush();  // notices ride on acks
  busy |= coordinator_.truncate();
  busy |= participant_.send_notices();
  busy |= client_waits_.expire();
  return busy;
}

bool TxnWorker::flush() {
  const bool posted = verbs_ != nullptr && verbs_->verb_issuer().flush(ctx_.now_ns());
  participant_.flush();
  return port_.flush() || posted;
}

bool TxnWorker::poll() {
  const bool posted = verbs_ != nullptr && verbs_->poll(coordinator_);
  return port_.poll() || posted;
}

void TxnWorker::between_steps() {
  // Not in every step: a quiescent mark is a store to a line that other workers read.
  if ((ctx_.worker->steps() & 15U) != 0) return;
  quiesce();
  if (board_.due(ctx_.now_ns())) publish_stats();
}

void TxnWorker::quiesce() {
  ctx_.tables.for_each([&](Table& table) { table.quiesce(ctx_.id); });
}

void TxnWorker::before_sleep() {
  publish_stats();
  ctx_.tables.for_each([&](Table& table) { table.offline(ctx_.id); });
}

bool TxnWorker::pending() const {
  return reads_.pending() || range_scans_.pending() || coordinator_.pending() || participant_.has_acks() ||
         credit_.came_back() || !piece_sender_.empty() || !piece_receiver_.empty() ||
         ctx_.state.views.published_epoch() > ctx_.view().epoch.value || !ctx_.faults.empty() || port_.pending() ||
         (verbs_ != nullptr && verbs_->verb_issuer().pending());
}

uint64_t TxnWorker::deadline_ns() const {
  uint64_t deadline = control_.agent() != nullptr ? control_.agent()->deadline_ns() : UINT64_MAX;
  for (const Service* service : services_) deadline = std::min(deadline, service->deadline_ns());
  deadline = std::min({deadline, slots_.due_ns(), coordinator_.deadline_ns(), participant_.deadline_ns()});
  if (slots_.has_waiters()) deadline = std::min(deadline, ctx_.conflicts.due_ns());
  if (acks_.waiting()) deadline = std::min(deadline, ctx_.now_ns() + 1);
  if (verbs_ != nullptr) deadline = std::min(deadline, verbs_->verb_issuer().deadline_ns());
  return deadline;
}

// Closes the channels of peers that sent what no correct peer sends; transactions that wait for them get an outcome.
void TxnWorker::handle_peer_faults() {
  while (auto fault = ctx_.faults.take()) {
    if (fault->closed) {
      lose_peer(fault->peer, fault->error);
    } else {
      port_.reject(fault->peer, fault->error);  // reported as closed later, once
    }
  }
}

void TxnWorker::lose_peer(NodeId peer, const Error& error) {
  if (ctx_.events != nullptr) {
    ctx_.events->emit_of(ctx_.self.value, Level::kError, "peer_closed",
                         {{"worker", ctx_.id.value}, {"peer", peer.value}, {"why", error.text()}});
  }
  ctx_.views.mark_lost(peer);
  ctx_.state.links.set_closed(peer, ctx_.views.peer_incarnation(peer));
  credit_.retry_waiters();  // transactions that wait for credit there retry, and are refused
  slots_.for_each([&](TxnSlot& slot) {
    reads_.on_peer_lost(slot, peer);
    execute_.on_peer_lost(slot, peer);
    range_scans_.on_peer_lost(slot, peer);
    interrupted_.on_peer_lost(slot, peer);
  });
}

// What others see of it.

bool TxnWorker::idle() const {
  if (!ctx_.views.lost_peers().empty()) return !reads_.pending();
  if (verbs_ != nullptr && !verbs_->idle()) return false;
  return slots_.all_free() && records_.open_records() == 0 && !coordinator_.has_notices() &&
         !participant_.has_notices() && !reads_.pending() && range_scans_.idle() && piece_receiver_.empty();
}

void TxnWorker::drain_rings() {
  if (verbs_ != nullptr && verbs_->log_receiver() != nullptr) verbs_->log_receiver()->drain();
}

std::string TxnWorker::unavailable_reason() const {
  if (ctx_.views.removed()) return "this node was removed from the view";
  if (!ctx_.views.active()) return "the view is not active: not all of its nodes answer";
  if (ctx_.state.lease.in_use() && ctx_.now_ns() >= ctx_.state.lease.until_ns()) {
    return "this node has no lease: it does not reach all nodes of the view";
  }
  return {};
}

Counters TxnWorker::counters() const {
  Counters all = ctx_.counters;
  const PortCounters& port = port_.counters();
  all.packets_sent = port.packets_sent;
  all.messages_sent = port.messages_sent;
  all.bytes_sent = port.bytes_sent;
  all.packets_received = port.packets_received;
  all.messages_received = port.messages_received;
  all.steps = ctx_.worker->steps();
  if (verbs_ != nullptr) {
    all.doorbells = verbs_->verb_issuer().doorbells();
    all.verb_limits = verbs_->verb_issuer().limits_sum();
    if (verbs_->credit() != nullptr) all.verb_credit_waits = verbs_->credit()->waits();
  }
  const LocalAtomics* const own = node_->local_atomics();
  if (ctx_.id.value == 0 && own != nullptr) all.own_swaps = own->swaps();  // counted per node
  return all;
}

}  // namespace weft
