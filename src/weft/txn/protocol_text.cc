#include "weft/txn/protocol_text.h"

#include <iomanip>
#include <string>
#include <vector>

#include "weft/txn/protocol.h"

namespace weft {

namespace {

std::string where(const Where& w) {
  static constexpr std::string_view kAt[] = {"-", "P", "B", "P&B"};
  static constexpr std::string_view kOf[] = {"", " W", " R&W"};
  return std::string(kAt[static_cast<int>(w.at)]) + std::string(kOf[static_cast<int>(w.of)]);
}

// The cost of one commit, for a transaction that reads key r and writes key w, neither held by the coordinator, on
// disjoint replicas, with n replicas each.
struct Costs {
  int messages = 0;  // answers included
  int verbs = 0;
};

Costs costs(const Protocol& row, int replicas) {
  Costs out;
  const auto phase = [&](Primitive by, int times, int verbs) {
    if (by == Primitive::kMessage) out.messages += 2 * times;
    if (by == Primitive::kOneSided) out.verbs += verbs * times;
  };
  const int locked = (row.locks_backups() ? replicas : 1) * (row.locks_reads() ? 2 : 1);
  const bool locks = row.lock.at != Replicas::kNone;
  if (locks && !row.lock_while_reading) phase(row.by.lock, locked, 2);  // CAS, READ
  if (row.validate) phase(row.by.validate, 1, 1);
  if (row.replicates()) phase(row.by.log, replicas - (row.replicates_to_primary() ? 0 : 1), 1);
  if (locks) phase(row.by.commit, locked, 2);  // WRITE of the value, WRITE of the word
  return out;
}

// Execute, lock, validate, log, commit.
std::string primitives(const Protocol& row) {
  static constexpr std::string_view kNames[] = {"-", "II", "I", "I/II"};
  const bool locks = row.lock.at != Replicas::kNone;
  std::string out;
  const auto add = [&](Primitive by, bool has_it) {
    out += (out.empty() ? "" : " ") + std::string(kNames[has_it ? static_cast<int>(by) : 0]);
  };
  add(row.by.execute, true);
  add(row.by.lock, locks);
  add(row.by.validate, row.validate);
  add(row.by.log, row.replicates());
  add(row.by.commit, locks);
  return out;
}

std::string lock_text(const Protocol& row) {
  if (row.lock.at == Replicas::kNone) return "-";
  return where(row.lock) + (row.lock_while_reading ? ", while reading" : "") +
         (row.lock_carries_value ? ", with value" : "");
}

std::string delays_text(const Protocol& row) {
  return std::to_string(delays(row, false)) + ", " + std::to_string(delays(row, true));
}

std::string procedure_text(const Protocol& row) {
  if (row.verbs()) return "-";
  return std::to_string(procedure_messages(row, false)) + ", " + std::to_string(procedure_messages(row, true));
}

void line(std::ostream& out, const std::vector<std::string>& cells) {
  static constexpr int kWidth[] = {9, 19, 8, 9, 8, 4, 11, 10, 5, 8, 5, 6, 9, 9, 14};
  for (size_t i = 0; i < cells.size(); ++i) {
    out << std::left << std::setw(kWidth[i]) << cells[i] << (i + 1 < cells.size() ? " " : "");
  }
  out << '\n';
}

void row_text(std::ostream& out, const Protocol& row) {
  const bool writes = row.lock.at != Replicas::kNone;
  line(out,
       {std::string(row.name), lock_text(row), row.validate ? "reads" : "-", where(row.replicate),
        writes ? where(row.lock) : "-", writes ? (row.apply == Apply::kOnArrival ? "undo" : "redo") : "-",
        std::string(phase_name(ack_phase(row))), aborts_acked_after_unlock(row) ? "all acks" : "at once",
        std::to_string(round_trips(row)), std::to_string(costs(row, 3).messages), std::to_string(costs(row, 3).verbs),
        delays_text(row), procedure_text(row), scans_of(row) == RowScans::kYes ? "yes" : "read-only", primitives(row)});
}

}  // namespace

void print_protocols(std::ostream& out) {
  line(out, {"name", "lock", "validate", "replicate", "unlock", "log", "commit ack", "abort ack", "trips", "messages",
             "verbs", "delays", "procedure", "scans", "by"});
  for (const Protocol& row : kProtocols) row_text(out, row);
  row_text(out, kReadOnly);
  out << "\nOne phase apart from those, for `weft bench phases`:\n";
  for (const Protocol& row : kComparedRows) row_text(out, row);
  out << "\nP primary, B backups, R keys only read, W written keys.\n"
         "by: execute, lock, validate, log, commit; I one-sided verbs, II messages, I/II verbs where the place is "
         "known.\n"
         "commit ack: after the answers of that phase; follows from the row (docs/protocols.md).\n"
         "trips: round trips until the acknowledgement; messages (with answers), verbs: of one commit, 3 replicas; all "
         "for\n"
         "a transaction that reads one key and writes another, all remote. Fewer where steps are local.\n"
         "delays: message delays until a stored procedure that updates one key is acknowledged, called where no "
         "replica "
         "is,\n"
         "and at a backup; procedure: its messages until it is unlocked, with answers, in rows without verbs.\n"
         "hop sends a procedure whose keys have one remote primary there, and its backups answer.\n"
         "scans: which transactions may scan ordered tables: all, or those that write nothing.\n";
}

}  // namespace weft
