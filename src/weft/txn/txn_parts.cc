#include "weft/txn/txn_parts.h"

#include <algorithm>
#include <utility>

#include "weft/txn/piece.h"
#include "weft/txn/protocol.h"

namespace weft {

namespace {

size_t pool_bytes(const Options& options) {
  const Limits& limits = options.limits;
  const size_t held = size_t{limits.credit_bytes} * static_cast<size_t>(options.nodes) * 2 +
                      size_t{limits.txn_bytes_max} * static_cast<size_t>(SlotTable::slots_for(limits)) * 2;
  // Blocks stay in their size class, and undo logs hold old values of any size: reserve plenty, since only touched
  // pages cost memory. Not every slot has the largest transaction at a time.
  return std::min(held * 8, size_t{8} << 30) + (256U << 20);
}

// A commit message can carry all bytes of a transaction and a description of each of its keys; an answer carries one
// value.
size_t message_bytes_max(const Limits& limits) {
  return size_t{limits.txn_bytes_max} + size_t{limits.txn_keys_max} * 64 + limits.value_bytes_max + 4096;
}

uint32_t piece_bytes(const ClusterSpec& spec) { return spec.piece_bytes != 0 ? spec.piece_bytes : kPieceBytesMax; }

// Rows with verbs have no large commits: what they log is in order with what verbs write.
uint32_t large_commit_bytes(const Node& node) {
  if (node.rows().uses_verbs()) return UINT32_MAX;
  return node.spec().piece_bytes != 0 ? node.spec().piece_bytes : kLargeCommitBytes;
}

PortOptions port_options(const Node& node, WorkerId id) {
  const Options& options = node.spec().options;
  PortOptions port;
  port.self = node.id();
  port.worker = id;
  port.nodes = options.nodes;
  port.message_bytes_max = message_bytes_max(options.limits);
  // Requests under this node's credit, and answers under the peer's; the message of the commit that has the turn, the
  // answer to the peer's, and the large value that the peer may read. Recovery sends without credit, as long as less
  // than half of it is queued; its messages carry complete transactions.
  port.queued_bytes_max = size_t{options.limits.credit_bytes} * 4 + 8 * kPacketBytesMax +
                          wire_bytes_max(port.message_bytes_max) +
                          wire_bytes_max(size_t{options.limits.txn_keys_max} * 16 + 64) +
                          wire_bytes_max(size_t{options.limits.value_bytes_max} + 64);
  // The same value with its key, or the bounds of the scan that asks for it.
  port.queued_bytes_max += wire_bytes_max(size_t{options.limits.key_bytes_max} * 2 + 128);
  // Pieces take more packets than fragments if they are small; few wait at a time.
  port.queued_bytes_max +=
      piece_overhead(port.message_bytes_max + options.limits.credit_bytes, piece_bytes(node.spec())) +
      2 * kPieceWindowBytes;
  if (node.spec().recovers) port.queued_bytes_max += wire_bytes_max(port.message_bytes_max);
  port.batching = options.network_batching;
  return port;
}

size_t largest_value(const ClusterSpec& spec) {
  size_t bytes = 0;
  for (const TableSpec& table : spec.tables) bytes = std::max<size_t>(bytes, table.value_bytes_max);
  return bytes;
}

uint64_t answer_ns(const ClusterSpec& spec) {
  return spec.answer_ns != 0 ? spec.answer_ns : spec.options.limits.answer_ms * uint64_t{1'000'000};
}

ConflictAvoidanceOptions avoidance_options(const Options& options) {
  if (!options.conflict_avoidance) return {};
  return {.depth = options.limits.transactions_in_flight_max,
          .unit_ns = options.backoff_unit_ns,
          .backoff = options.backoff,
          .backoff_limit = options.backoff_limit,
          .coroutine_credit = options.coroutine_credit};
}

ReadRules read_rules(const Node& node) {
  const bool local = node.spec().options.local_reads;
  return {local && node.rows().backups_answer_reads(), local && node.rows().backups_answer_single_reads()};
}

}  // namespace

Result<TxnMemory> TxnMemory::create(const Node& node) {
  auto pool = Pool::create(pool_bytes(node.spec().options));
  if (!pool) return pool.error();
  const bool remembers = node.rows().remembers_locations();
  auto locations = LocationCache::create(remembers ? node.spec().options.limits.location_bytes : 0);
  if (!locations) return locations.error();
  return TxnMemory{std::move(*pool), std::move(*locations)};
}

TxnParts::TxnParts(TxnWorker* self, Node* node, WorkerId id, Worker* worker, Environment* env, TxnMemory memory)
    : random_(env->seed(node->id(), id)),
      pool_(std::move(memory.pool)),
      port_(port_options(*node, id), env->wire(node->id(), id), env->cost_model(node->id(), id)),
      node_(node),
      ctx_{.self = node->id(),
           .id = id,
           .worker = worker,
           .port = port_,
           .wire = env->wire(node->id(), id),
           .cost_model = env->cost_model(node->id(), id),
           .observer = env->observer(),
           .events = env->events(),
           .limits = node->spec().options.limits,
           .bugs = node->spec().bugs,
           .nodes = node->spec().options.nodes,
           .workers = node->spec().options.workers,
           .owners = OwnerFormat(node->spec().options.workers, SlotTable::slots_for(node->spec().options.limits)),
           .table_batching = node->spec().options.table_batching,
           .recovers = node->spec().recovers,
           .tables = node->tables(),
           .state = node->state(),
           .views = ViewState(node->id(), node->state().views.first(), !node->state().views.joins()),
           .faults = PeerFaults(node->id()),
           .counters = {},
           .conflicts = ConflictAvoidance(avoidance_options(node->spec().options)),
           .scratch = ScratchBuffer(padded(largest_value(node->spec())) + 8),
           .large_commit_bytes = large_commit_bytes(*node)},
      slots_(ctx_, pool_.get(), self, answer_ns(node->spec()), node->last_sequence(),
             node->spec().rotates_rows ? node->rows().size() : 0, node->spec().sequence_gap),
      keys_(ctx_, pool_.get()),
      outcomes_(ctx_.limits.outcome_bytes),
      acks_(ctx_, outcomes_, slots_.size()),
      credit_(ctx_.nodes, ctx_.limits.credit_bytes - CommitCredit::small_bytes(ctx_.limits)),
      planner_(node->rows(), ctx_.self, ctx_.bugs, ctx_.wire->atomic_with_cpu() || node->local_atomics() != nullptr),
      records_(ctx_.nodes, static_cast<int>(slots_.size()), pool_.get()),
      participant_(ctx_, records_, outcomes_, node->rows().marks_readable()),
      messages_(ctx_),
      own_(ctx_, participant_),
      piece_sender_(ctx_, piece_bytes(node->spec())),
      table_scans_(ctx_),
      scan_checks_(ctx_, node->rows(), table_scans_, messages_),
      verbs_(node->rows().uses_verbs()
                 ? std::make_unique<OneSided>(ctx_, node->rows(), node->spec().options, *node->verb_memory(),
                                              std::move(memory.locations), planner_, messages_, slots_,
                                              node->spec().verb_credit_period_ns)
                 : nullptr),
      coordinator_(ctx_, node->rows().truncates_by_next_use(), slots_, acks_, credit_, planner_,
                   {messages_, verbs_ == nullptr ? &own_ : nullptr, verbs_ != nullptr ? &verbs_->transport() : nullptr,
                    &piece_sender_, &scan_checks_}),
      client_waits_(ctx_, slots_, acks_, coordinator_),
      interrupted_(ctx_, slots_, acks_, coordinator_),
      reads_(ctx_, read_rules(*node), planner_, slots_, keys_, credit_, acks_, coordinator_),
      execute_(ctx_, planner_, slots_, keys_, credit_, reads_),
      range_scans_(ctx_, node->spec().options.local_reads && node->rows().backups_answer_scans(),
                   {slots_, keys_, credit_, acks_, coordinator_, reads_, table_scans_}),
      shipped_(ctx_, planner_, slots_, keys_, credit_, participant_, acks_, coordinator_),
      parser_(ctx_, records_),
      piece_receiver_(ctx_, parser_, records_, participant_, message_bytes_max(node->spec().options.limits)),
      read_server_(ctx_, records_, participant_),
      execute_server_(ctx_, participant_),
      scan_server_(ctx_, table_scans_, participant_, records_.slots()),
      ship_server_(make_ship_server()),
      dispatcher_(ctx_, parser_, slots_),
      transfer_(ctx_),
      gc_(ctx_, node->sweep()),
      queries_(ctx_, outcomes_, slots_, records_),
      scans_(ctx_, node->rows().backups_answer_reads()),
      control_(ctx_),
      recovery_(ctx_,
                {slots_, reads_, coordinator_, interrupted_, acks_, credit_, participant_, records_, verbs_.get(), gc_,
                 node->barrier(), verbs_ ? node->verb_memory() : nullptr},
                node->rows().locks_by_verb()) {
  if (verbs_ != nullptr) {
    verbs_->connect(reads_, keys_, parser_, participant_);
    reads_.set_verbs(&verbs_->reads());
    participant_.set_log(verbs_->log_receiver());
    dispatcher_.set_log(verbs_->log_receiver());
  }
  register_handlers();
  services_ = {&recovery_, &transfer_, &gc_, &queries_};
  if (verbs_ != nullptr && verbs_->log_receiver() != nullptr) services_.push_back(verbs_->log_receiver());
  for (Service* service : services_) recovery_.add_service(service);
  recovery_.add_service(&piece_receiver_);
  recovery_.add_service(&execute_);
  recovery_.add_service(&range_scans_);
  if (ship_server_ != nullptr) {
    services_.push_back(ship_server_.get());
    recovery_.add_service(ship_server_.get());
    participant_.set_ship_server(ship_server_.get());
  }
  if (ctx_.views.active()) recovery_.start_active();
}

TxnParts::~TxnParts() = default;

std::unique_ptr<ShipServer> TxnParts::make_ship_server() {
  const RowSet& rows = node_->rows();
  for (size_t row = 0; row < rows.size(); ++row) {
    if (!rows.at(row).ships_procedures) continue;
    return std::make_unique<ShipServer>(ctx_, pool_.get(), planner_, static_cast<uint8_t>(row), keys_, credit_,
                                        participant_, own_, messages_, node_->spec().procedures, records_.slots(),
                                        step_output_);
  }
  return nullptr;
}

void TxnParts::register_handlers() {
  dispatcher_.handle<&ReadServer::on_get>(Kind::kGet, &read_server_);
  dispatcher_.handle<&Reads::on_get_reply>(Kind::kGetReply, &reads_);
  dispatcher_.handle<&Participant::on_lock>(Kind::kLock, &participant_);
  dispatcher_.handle<&Participant::on_validate>(Kind::kValidate, &participant_);
  dispatcher_.handle<&Participant::on_replicate>(Kind::kReplicate, &participant_);
  dispatcher_.handle<&Participant::on_unlock>(Kind::kUnlock, &participant_);
  dispatcher_.handle<&ExecuteServer::on_execute>(Kind::kExecute, &execute_server_);
  dispatcher_.handle<&ExecuteAtOnce::parse, &ExecuteAtOnce::on_executed>(Kind::kExecuted, &execute_);
  dispatcher_.handle<&ScanServer::parse_range, &ScanServer::on_range>(Kind::kScanRange, &scan_server_);
  dispatcher_.handle<&Scans::parse, &Scans::on_scanned>(Kind::kScanned, &range_scans_);
  dispatcher_.handle<&ScanServer::on_check>(Kind::kCheckScans, &scan_server_);
  if (ship_server_ != nullptr) {
    dispatcher_.handle<&ShipServer::parse, &ShipServer::on_ship>(Kind::kShip, ship_server_.get());
    dispatcher_.handle<&ShippedTxns::on_shipped>(Kind::kShipped, &shipped_);
    dispatcher_.handle<&Participant::on_replicate_for>(Kind::kReplicateFor, &participant_);
  }
  dispatcher_.handle<&Coordinator::on_ack>(Kind::kAck, &coordinator_);
  dispatcher_.handle<&Coordinator::on_reply>(Kind::kReply, &coordinator_);
  dispatcher_.handle<&Participant::on_done>(Kind::kDone, &participant_);
  dispatcher_.handle<&Coordinator::on_unlocked>(Kind::kUnlocked, &coordinator_);
  dispatcher_.handle<&Recovery::parse, &Recovery::on_message>(Kind::kRecovery, &recovery_);
  dispatcher_.handle<&StateTransfer::parse, &StateTransfer::on_message>(Kind::kTransfer, &transfer_);
  dispatcher_.handle<&ControlChannel::parse, &ControlChannel::on_message>(Kind::kControl, &control_);
  dispatcher_.handle<&KeyScans::parse, &KeyScans::on_message>(Kind::kScan, &scans_);
  dispatcher_.handle<&OutcomeQueries::parse_ask, &OutcomeQueries::on_ask>(Kind::kOutcomeQuery, &queries_);
  dispatcher_.handle<&OutcomeQueries::parse_answer, &OutcomeQueries::on_answer>(Kind::kOutcomeReply, &queries_);
  if (verbs_ != nullptr && verbs_->log_writer() != nullptr) {
    dispatcher_.handle<&LogWriter::parse, &LogWriter::on_ring_read>(Kind::kRingRead, verbs_->log_writer());
  }
  if (verbs_ == nullptr) {
    dispatcher_.handle<&PieceReceiver::parse, &PieceReceiver::on_piece>(Kind::kPiece, &piece_receiver_);
  }
  port_.set_bad_peer([](void* self, NodeId peer,
                        const Error& error) { static_cast<TxnParts*>(self)->ctx_.faults.closed(peer, error); },
                     this);
}

}  // namespace weft
