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

// Messages of one commit, answers included, for a transaction that reads key r and writes key w, neither held by the
// coordinator, on disjoint replicas, with n replicas each.
int messages(const Protocol& row, int replicas) {
  const int backups = replicas - 1;
  int pairs = 0;
  if (row.lock.at != Replicas::kNone && !row.lock_while_reading) {
    const int at = row.locks_backups() ? replicas : 1;
    pairs += at * (row.locks_reads() ? 2 : 1);
  }
  if (row.validate) ++pairs;
  if (row.replicates()) pairs += backups + (row.replicates_to_primary() ? 1 : 0);
  if (row.lock.at != Replicas::kNone) pairs += (row.locks_backups() ? replicas : 1) * (row.locks_reads() ? 2 : 1);
  return pairs * 2;
}

std::string lock_text(const Protocol& row) {
  if (row.lock.at == Replicas::kNone) return "-";
  return where(row.lock) + (row.lock_while_reading ? ", while reading" : "") +
         (row.lock_carries_value ? ", with value" : "");
}

void line(std::ostream& out, const std::vector<std::string>& cells) {
  static constexpr int kWidth[] = {8, 21, 10, 11, 21, 6, 12, 13, 6, 10};
  for (size_t i = 0; i < cells.size(); ++i) {
    out << std::left << std::setw(kWidth[i]) << cells[i] << (i + 1 < cells.size() ? " " : "");
  }
  out << '\n';
}

void row_text(std::ostream& out, const Protocol& row) {
  const bool writes = row.lock.at != Replicas::kNone;
  line(out, {std::string(row.name), lock_text(row), row.validate ? "reads" : "-", where(row.replicate),
             writes ? where(row.lock) : "-", writes ? (row.log == Log::kUndo ? "undo" : "redo") : "-",
             std::string(phase_name(told_after(row))), abort_told_after_acks(row) ? "all acks" : "at once",
             std::to_string(round_trips(row)), std::to_string(messages(row, 3))});
}

}  // namespace

void print_protocols(std::ostream& out) {
  line(out,
       {"name", "lock", "validate", "replicate", "unlock", "log", "commit told", "abort told", "trips", "messages"});
  for (const Protocol& row : kProtocols) row_text(out, row);
  row_text(out, kReadOnly);
  out << "\nP primary, B backups, R keys only read, W written keys. Every phase goes by message.\n"
         "commit told: after the answers of that phase; follows from the row (docs/protocols.md).\n"
         "trips: round trips until the commit is told; messages: of one commit with answers, 3 replicas; both for a\n"
         "transaction that reads one key and writes another, all remote. Fewer where steps are local.\n";
}

}  // namespace weft
