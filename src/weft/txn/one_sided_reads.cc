#include "weft/txn/one_sided_reads.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/verb_requests.h"

namespace weft {

namespace {

constexpr size_t kBinBytes = 64;
// Tries at a half-written record in one place. Then the index is read, if the place was a remembered one: what is torn
// may be another key's by now. If the index leads to one that is torn as often, the primary is asked.
constexpr uint8_t kLooksMax = 3;

}  // namespace

OneSidedReads::OneSidedReads(WorkerContext& ctx, VerbIssuer& verb_issuer, LocationCache& locations,
                             const Planner& planner, SlotTable& slots, TxnKeys& keys, Reads& reads)
    : ctx_(ctx),
      verb_issuer_(verb_issuer),
      locations_(locations),
      planner_(planner),
      slots_(slots),
      keys_(keys),
      reads_(reads),
      indexes_(static_cast<size_t>(ctx.nodes) * ctx.tables.count()) {}

RemoteIndexAddress& OneSidedReads::index_of(NodeId node, const Entry& e) {
  WEFT_CHECK(node.value < ctx_.nodes && ctx_.tables.has(e.table_id.value), "a table of a node");
  return indexes_[node.value * ctx_.tables.count() + e.table_id.value];
}

void OneSidedReads::forget_indexes() {
  for (RemoteIndexAddress& index : indexes_) index = RemoteIndexAddress();
}

void OneSidedReads::on_posted(VerbRequest& request) {
  const auto& of = request.user_as<TxnRequest>();
  TxnSlot& slot = slots_.at(of.slot);
  if (slot.stage == TxnStage::kFree || slot.sequence != of.sequence) return;
  if (of.entry >= slot.count || slot.entry(of.entry).done) return;
  WEFT_CHECK(slot.reads_pending != 0, "an entry that is not done is counted in reads_pending");
  if (of.purpose == TxnRequest::Purpose::kRecord) {
    on_record_read(slot, request);
  } else if (of.purpose == TxnRequest::Purpose::kBin) {
    on_bin_read(slot, request);
  } else {
    on_links_read(slot, request);
  }
}

void OneSidedReads::remember_location(const Entry& e, NodeId from, const GetWhere& where) {
  index_of(from, e) = {where.index, where.bins};
  if (where.record != 0) {
    locations_.put(from, e.table_id, e.key.hash, RecordSlot(where.record));
  }
}

bool OneSidedReads::read(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const NodeId primary = e.placement->primary();
  WEFT_CHECK(e.read && !e.done, "what has its answer is not read again");
  if (primary == ctx_.self) return false;
  const Planner::ReadPlan plan = planner_.plan_reads(slot);
  if (plan.remembered) {
    const RecordSlot where = locations_.find(primary, e.table_id, e.key.hash);
    if (where) {
      ++ctx_.counters.places_known;
      return post_record(slot, index, where, true);
    }
  }
  return plan.through_index && post_bin(slot, index);
}

bool OneSidedReads::post_record(TxnSlot& slot, uint16_t index, RecordSlot where, bool cached) {
  Entry& e = slot.entry(index);
  if (where.block_class() >= kBlockClasses || where.bytes() > kVerbBytesMax) return false;
  VerbRequest* request =
      make_request(verb_issuer_, TxnRequest::Purpose::kRecord, slot, e.placement->primary(), index, where.bytes());
  if (request == nullptr) return false;
  e.where = where;
  request->user_as<TxnRequest>().where = where;
  request->user_as<TxnRequest>().cached = cached;
  Verb verb = verb_on(e, VerbKind::kRead, request->buffer);
  verb.bytes = static_cast<uint32_t>(where.bytes());
  request->add(verb);
  count_verbs(ctx_, Phase::kExecute, *request);
  verb_issuer_.send(request);
  return true;
}

bool OneSidedReads::post_bin(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const NodeId primary = e.placement->primary();
  const RemoteIndexAddress& place = index_of(primary, e);
  if (place.bins == 0) return false;
  VerbRequest* request = make_request(verb_issuer_, TxnRequest::Purpose::kBin, slot, primary, index, kBinBytes);
  if (request == nullptr) return false;
  Verb verb;
  verb.kind = VerbKind::kRead;
  verb.region = NodeTables::region_of(e.table_id);
  verb.offset = Table::bin_offset(place, e.key.hash);
  verb.bytes = kBinBytes;
  verb.local = request->buffer;
  request->add(verb);
  count_verbs(ctx_, Phase::kExecute, *request);
  verb_issuer_.send(request);
  return true;
}

void OneSidedReads::on_bin_read(TxnSlot& slot, const VerbRequest& request) {
  const auto& of = request.user_as<TxnRequest>();
  const Entry& e = slot.entry(of.entry);
  const RemoteIndexAddress& place = index_of(request.peer, e);
  if (const RecordSlot where = Table::find_in_bin_copy(request.buffer, place, e.key.hash)) {
    if (post_record(slot, of.entry, where, false)) return;
  } else if (const Dlht::LinkedSlots links = Dlht::linked_slots(request.buffer, place.bins)) {
    if (post_links(slot, of.entry, links)) return;
  }
  WEFT_MARK("a bin leads nowhere");
  read_via_fallback(slot, of.entry, false);
}

bool OneSidedReads::post_links(TxnSlot& slot, uint16_t index, const Dlht::LinkedSlots& links) {
  const Entry& e = slot.entry(index);
  const NodeId primary = e.placement->primary();
  VerbRequest* request = make_request(verb_issuer_, TxnRequest::Purpose::kLinks, slot, primary, index,
                                      Dlht::kSingleBytes + Dlht::kPairBytes);
  if (request == nullptr) return false;
  request->user_as<TxnRequest>().links = links;
  const auto read = [&](uint32_t link, size_t at, size_t bytes) {
    if (link == 0) return;
    Verb verb;
    verb.kind = VerbKind::kRead;
    verb.region = NodeTables::region_of(e.table_id);
    verb.offset = Table::link_offset(index_of(primary, e), link);
    verb.bytes = static_cast<uint32_t>(bytes);
    verb.local = request->buffer + at;
    request->add(verb);
  };
  read(links.single, 0, Dlht::kSingleBytes);
  read(links.pair, Dlht::kSingleBytes, Dlht::kPairBytes);
  count_verbs(ctx_, Phase::kExecute, *request);
  verb_issuer_.send(request);
  return true;
}

void OneSidedReads::on_links_read(TxnSlot& slot, const VerbRequest& request) {
  const auto& of = request.user_as<TxnRequest>();
  const Entry& e = slot.entry(of.entry);
  const RecordSlot where(Dlht::find_in_link_copies(request.buffer, request.buffer + Dlht::kSingleBytes, of.links,
                                                   e.key.hash, index_of(request.peer, e).bins));
  WEFT_MARK_OUTSIDE("a key is looked for in link buckets");
  if (where && post_record(slot, of.entry, where, false)) return;
  WEFT_MARK("a bin leads nowhere");
  read_via_fallback(slot, of.entry, false);
}

void OneSidedReads::read_via_fallback(TxnSlot& slot, uint16_t index, bool into_the_index) {
  Entry& e = slot.entry(index);
  e.where = RecordSlot();
  if (into_the_index && planner_.plan_reads(slot).through_index && post_bin(slot, index)) return;
  if (ctx_.views.is_lost(e.placement->primary())) {
    reads_.fail_read(slot, index, Code::kPeerLost);
  } else {
    reads_.ask_primary(slot, index);
  }
}

void OneSidedReads::on_record_read(TxnSlot& slot, VerbRequest& request) {
  auto& of = request.user_as<TxnRequest>();
  Entry& e = slot.entry(of.entry);
  ctx_.charge(CostStep::kLookup, 1);
  WEFT_CHECK(of.where.bytes() <= request.bytes, "the copy is of the whole block");
  RecordView view;
  const bool whole = parse_record_copy(request.buffer, of.where.bytes(), &view);
  if (!whole && ++of.torn_reads < kLooksMax) {
    WEFT_MARK("a record is read while it is written");
    ++ctx_.counters.reads_torn;
    count_verbs(ctx_, Phase::kExecute, request);
    verb_issuer_.repeat(request);
    return;
  }
  const bool here = whole && !view.word.deleted() && !view.word.moved() &&
                    (as_text(view.key) == as_text(e.key.bytes) || ctx_.bugs.has(PlantedBug::kReusedBlock));
  if (!here) {
    if (of.cached) {
      WEFT_MARK("a record is not where it was");
      ++ctx_.counters.places_stale;
      locations_.forget(request.peer, e.table_id, e.key.hash);
    }
    read_via_fallback(slot, of.entry, of.cached);
    return;
  }
  ++ctx_.counters.remote_gets;
  locations_.put(request.peer, e.table_id, e.key.hash, of.where);
  if (slot.single && view.word.write_locked()) {
    e.code = Code::kLocked;
    fail(slot, Code::kLocked, &e, view.word.owner());
  }
  Reads::check_again(slot, e, true, view.word.version());
  e.found = true;
  e.version = view.word.version();
  const bool cut = e.head && view.value.size() > kHeadBytes;  // what a message would bring
  keys_.keep_value(slot, e, cut ? view.value.first(kHeadBytes) : view.value);
  if (cut && e.value != nullptr) {
    e.value_length = static_cast<uint32_t>(view.value.size());
    e.partial = true;
  }
  reads_.complete_read(slot, of.entry);
}

}  // namespace weft
