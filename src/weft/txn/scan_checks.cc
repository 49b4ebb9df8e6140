#include "weft/txn/scan_checks.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/scan_messages.h"
#include "weft/txn/txn_scan.h"

namespace weft {

namespace {

// Whether one scan is all that the transaction validates: then the moment at which that holds needs no others.
bool is_alone(const TxnSlot& slot) {
  if (slot.scans->next != nullptr) return false;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!e.at[index_of(Phase::kValidate)].empty()) return false;
    if ((e.by_verb >> static_cast<int>(Phase::kValidate) & 1U) != 0) return false;
  }
  return true;
}

}  // namespace

NodeSet ScanChecks::plan(TxnSlot& slot) const {
  if (!slot.read_only && scans_of(rows_.at(slot.row)) != RowScans::kYes) {
    reject(slot, Code::kNotInThisRow, nullptr, {});
    return {};
  }
  NodeSet nodes;
  for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) nodes.add(scan->placement->primary());
  PlanStep& step = slot.steps[index_of(Phase::kValidate)];
  step.send_to |= nodes;
  step.await_from |= nodes;
  return nodes;
}

void ScanChecks::begin(TxnSlot& slot) const {
  const bool alone = is_alone(slot) || ctx_.bugs.has(PlantedBug::kScansOfTwoMoments);
  for (TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
    ScanCheck& check = scan->check;
    scan->backup_erases_count = false;
    if (alone) {
      check.has_erases = false;  // its primary counts for itself
      continue;
    }
    if (!scan->at_replica) continue;  // the first page came with its primary's count
    const uint64_t erases = scan->table->erases(scan->partition);
    if (scan->placement->primary() == ctx_.self) {
      check.has_erases = true;
      check.erases = erases;
    } else {
      scan->backup_erases_count = true;
      scan->backup_erases = erases;
    }
  }
}

void ScanChecks::check_own(TxnSlot& slot) {
  const Owner owner = ctx_.owner(ctx_.self, slot.index);
  for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
    if (scan->placement->primary() != ctx_.self) continue;
    Owner holder;
    const Code code = tables_.check(scan->check, owner, &holder);
    if (code != Code::kOk) return fail_scan(slot, scan, code, holder);
  }
}

NodeSet ScanChecks::nodes_with_scans(const TxnSlot& slot, NodeSet nodes) {
  NodeSet with;
  for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) with.add(scan->placement->primary());
  return with & nodes;
}

void ScanChecks::send(const TxnSlot& slot, NodeSet nodes) {
  for (const NodeId node : nodes) {
    size_t checks = 0;
    for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
      if (scan->placement->primary() == node) checks += check_bytes(scan->check);
    }
    const size_t bytes = sizeof(uint64_t) + checks + messages_.phase_bytes(slot, Phase::kValidate, node);
    std::byte* to = ctx_.port.reserve(node, bytes <= kPacketBytesMax / 2 ? Flow::kCommit : Flow::kExecution,
                                      static_cast<uint8_t>(Kind::kCheckScans), bytes, messages_.tag(slot));
    store(to, uint64_t{checks});
    to += sizeof(uint64_t);
    for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
      if (scan->placement->primary() == node) to = put_check(to, scan->check, scan->index);
    }
    messages_.encode_phase(to, slot, Phase::kValidate, node);
  }
  ctx_.counters.phase_messages[index_of(Phase::kValidate)] +=
      static_cast<uint64_t>((nodes - NodeSet::of(ctx_.self)).size());
}

void ScanChecks::end(TxnSlot& slot) const {
  for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
    if (!scan->backup_erases_count || scan->table->erases(scan->partition) == scan->backup_erases) continue;
    WEFT_MARK("a backup has erased while a scan was checked");
    return fail_scan(slot, scan, Code::kVersionMoved, Owner());
  }
}

}  // namespace weft
