// The protocol table: each protocol is a row, and one coordinator executes it (coordinator.h). When a client may be
// acknowledged is not a column: it follows from the row by the rules (K2 and the table after it).
//
// Adding a protocol is adding a row. `illegal` is evaluated at compile time: a row that breaks a rule does not compile.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft {

enum class Replicas : uint8_t { kNone, kPrimary, kBackups, kAll };
enum class Keys : uint8_t { kNone, kWrites, kReadsAndWrites };

struct Where {
  Replicas at = Replicas::kNone;
  Keys of = Keys::kNone;
  friend constexpr bool operator==(const Where&, const Where&) = default;
};

// How a phase reaches the other node. One-sided: by verbs on its memory, without its workers. Hybrid, of execute: by a
// verb if the location of the record is remembered, else by a message that also brings the location. What a verb cannot
// do (a key of unknown location, insert, delete, a write that outgrows its block) goes by message in every row.
enum class Primitive : uint8_t { kNothing, kMessage, kOneSided, kHybrid };

// When a write is applied to a backup's table: when it arrives (the backup can undo it), when the transaction is
// finished and its record truncated (it can redo it), or when it is unlocked, at a backup that was locked with the
// value (redo).
enum class Apply : uint8_t { kOnArrival, kOnTruncate, kAtUnlock };

// What commits a transaction without its coordinator: that it was replicated anywhere, or that all participants have
// locked it.
enum class CommitRule : uint8_t { kReplicated, kUnanimous };

// When a participant that refuses, or is told to abort, knows that the transaction will never commit: at once, or only
// when all have acknowledged the abort.
enum class Refusal : uint8_t { kFinal, kFinalWhenAcknowledged };

// How the unlock of a commit is acknowledged: at once by a reply, or on later messages (DrTM+H's passive
// acknowledgement).
enum class UnlockAck : uint8_t { kReply, kPiggybacked };

enum class Phase : uint8_t { kExecute, kLock, kValidate, kReplicate, kUnlock, kDone };
inline constexpr int kPhases = 5;  // those with messages and answers
constexpr size_t index_of(Phase phase) { return static_cast<size_t>(phase); }
std::string_view phase_name(Phase phase);

struct Primitives {
  Primitive execute = Primitive::kMessage;
  Primitive lock = Primitive::kMessage;
  Primitive validate = Primitive::kMessage;
  Primitive log = Primitive::kMessage;
  Primitive commit = Primitive::kMessage;
  friend constexpr bool operator==(const Primitives&, const Primitives&) = default;
};

struct Protocol {
  std::string_view name;
  std::string_view source;          // where it comes from, human-readable
  Where lock{};                     // what is locked, and at which replicas
  bool lock_while_reading = false;  // a get with intent update locks the key at its primary
  bool lock_carries_value = false;  // the lock message brings the new value (rule K2 counts it)
  bool validate = false;            // keys only read are checked at their primaries
  Where replicate{};
  Apply apply = Apply::kOnArrival;
  CommitRule commits = CommitRule::kReplicated;
  Refusal refusal = Refusal::kFinal;
  UnlockAck unlock_ack = UnlockAck::kReply;
  Primitives by{};
  bool location_cache = false;  // execute remembers where records are
  // Of stored procedures: all of its keys at a node are locked and read by one message; and it may be executed at the
  // primary of its keys, whose backups answer the coordinator (rules H1 to H9).
  bool execute_at_once = false;
  bool ships_procedures = false;

  friend constexpr bool operator==(const Protocol&, const Protocol&) = default;
  constexpr bool locks_reads() const { return lock.of == Keys::kReadsAndWrites; }
  constexpr bool locks_backups() const { return lock.at == Replicas::kAll; }
  constexpr bool replicates() const { return replicate.at != Replicas::kNone; }
  constexpr bool replicates_to_primary() const { return replicate.at == Replicas::kAll; }
  constexpr bool verbs() const {
    return by.execute == Primitive::kOneSided || by.execute == Primitive::kHybrid || by.lock == Primitive::kOneSided ||
           by.validate == Primitive::kOneSided || by.log == Primitive::kOneSided || by.commit == Primitive::kOneSided;
  }
  // A backup's table is updated when the transaction is finished, so it cannot serve reads (rule G6).
  constexpr bool lazy_backups() const { return apply == Apply::kOnTruncate; }
};

// A commit may be acknowledged after the answers of this phase:
// - unanimous locks with values: one survivor without the lock would force an abort, so all lock answers are the proof;
// - replication to primary and backups: REPLICATED is on f + 1 nodes when all have answered;
// - replication to backups only: it is on f nodes, or f + 1 with the coordinator unless that is itself a backup; the
//   rows are judged by their worst case, so the primaries' unlock answers are needed;
// - nothing locked: validation.
constexpr Phase ack_phase(const Protocol& row) {
  if (row.lock.at == Replicas::kNone) return Phase::kValidate;
  if (row.locks_backups()) return Phase::kLock;
  if (row.replicates_to_primary()) return Phase::kReplicate;
  return Phase::kUnlock;
}

// Why a row is illegal, or an empty string.
constexpr std::string_view illegal(const Protocol& row) {
  if (row.name.empty()) return "a row has a name";
  if (row.lock.at != Replicas::kNone) {
    if (row.lock.at == Replicas::kBackups) return "a lock is taken at the primary, or at all replicas";
    if (row.lock.of == Keys::kNone) return "a lock phase locks something";
    if (!row.validate && !row.locks_reads()) return "keys only read must be validated or locked";
    if (!row.replicates() && !row.locks_backups()) return "a write must reach the backups (K2)";
  } else if (row.replicates()) {
    return "what is not locked cannot be replicated";
  } else if (!row.validate) {
    return "a row locks or validates";
  }
  const Primitives& by = row.by;
  if (by.execute == Primitive::kNothing || (row.lock.at != Replicas::kNone && by.lock == Primitive::kNothing) ||
      (row.validate && by.validate == Primitive::kNothing) || (row.replicates() && by.log == Primitive::kNothing) ||
      (row.lock.at != Replicas::kNone && by.commit == Primitive::kNothing)) {
    return "a phase that has work needs a primitive that reaches the other node";
  }
  if (row.replicates()) {
    if (row.replicate.at == Replicas::kPrimary) return "replication reaches the backups (K2)";
    if (row.replicate.of != Keys::kWrites) return "replication carries the writes";
    if (by.log == Primitive::kMessage && row.apply != Apply::kOnArrival)
      return "what is logged by message is applied on arrival";
    if (by.log == Primitive::kOneSided && row.apply != Apply::kOnTruncate) {
      return "what a verb logs is applied when its record is truncated";
    }
    if (row.locks_backups()) return "a row replicates or locks the backups, not both";
  }
  if (row.locks_backups()) {
    if (!row.lock_carries_value) return "without a replicate phase the lock carries the value (K2)";
    if (!row.locks_reads()) return "commit by unanimity needs a record of the reads too (dnl1's rule)";
    if (row.apply != Apply::kAtUnlock) return "a backup that is locked with the value applies it at unlock";
  }
  if (by.execute != Primitive::kHybrid && (by.lock == Primitive::kHybrid || by.validate == Primitive::kHybrid ||
                                           by.log == Primitive::kHybrid || by.commit == Primitive::kHybrid)) {
    return "hybrid is a way to execute";
  }
  const bool finds_places = by.execute == Primitive::kOneSided || by.execute == Primitive::kHybrid;
  if (by.execute == Primitive::kHybrid && !row.location_cache) return "hybrid goes by the location cache";
  if (row.location_cache && !finds_places) return "who executes by message has nothing to remember";
  if ((by.lock == Primitive::kOneSided || by.validate == Primitive::kOneSided) && !finds_places) {
    return "a verb needs the place of the record, which execution finds";
  }
  if (by.lock == Primitive::kOneSided) {
    if (row.lock_carries_value) return "a one-sided lock does not carry the value (K2)";
    if (row.lock.at != Replicas::kPrimary || row.locks_reads()) return "a one-sided lock is a primary's, of a write";
    if (row.lock_while_reading) return "a lock taken while reading is taken by message";
    if (!row.replicates_to_primary()) return "a one-sided lock leaves nothing at the primary: the log goes there (K2)";
    if (by.log != Primitive::kOneSided) return "who locks by verbs logs by verbs";
  }
  if (row.lock.at != Replicas::kNone && (by.commit == Primitive::kOneSided) != (by.lock == Primitive::kOneSided)) {
    return "a message unlocks what one locked, a verb what one locked";
  }
  if (row.locks_backups() != (row.commits == CommitRule::kUnanimous)) {
    return "a row commits by unanimity if it locks the backups, and only then";
  }
  if ((row.commits == CommitRule::kUnanimous) != (row.refusal == Refusal::kFinalWhenAcknowledged)) {
    return "where locks alone commit, a refusal is final when it is acknowledged, and only there";
  }
  if (row.unlock_ack == UnlockAck::kPiggybacked && ack_phase(row) >= Phase::kUnlock)
    return "a commit that is acknowledged after the unlock waits for it";
  if (row.lock_while_reading) {
    if (row.lock_carries_value) return "a lock taken while reading cannot carry the new value";
    if (row.lock.at != Replicas::kPrimary) return "a lock taken while reading is taken at the primary";
  }
  if (row.execute_at_once) {
    if (!row.lock_while_reading) return "what is executed at once is locked while it is read";
    if (row.verbs()) return "what is executed at once goes by message";
  }
  if (row.ships_procedures) {
    if (!row.execute_at_once) return "who ships procedures executes the others at once";
    if (!row.replicates_to_primary()) return "who executes a shipped procedure keeps its writes (K2)";
  }
  return {};
}

// An abort of unanimous locks must first reach all participants that locked; elsewhere nothing was replicated and
// nobody can commit it.
constexpr bool aborts_acked_after_unlock(const Protocol& row) { return row.refusal == Refusal::kFinalWhenAcknowledged; }

// Whether a backup may answer single-key reads (which nobody validates).
//
// A row that validates its reads is serialized no later than its validation, but its backups hide the old value only
// from the replicate phase on. In between, a backup would still serve the old value although a third transaction has
// overwritten what was validated, and a fourth, acknowledged before the single read began, has followed that one: the
// single read would have to come before the first and after the fourth. (Found by simulation, seed 254 on dnl4; strict
// serializability breaks, linearizability of the key does not.) A row that keeps its reads locked until the backups
// have answered may be serialized at that moment, so nothing can slip in between.
constexpr bool backups_serve_single_reads(const Protocol& row) { return row.locks_reads(); }

// Which transactions of a row may scan ranges of ordered tables (rule G8).
//
// A scan is checked again before the commit point, when all locks are taken, and the transaction is serialized no later
// than that check: nothing locks what is not there, so a range may change right after it. Where all locks are the
// commit point there is no such moment. Where backups serve reads that nobody validates, a transaction that writes must
// be serialized when its backups have hidden the old values, which is after the check, as above: in such rows only
// transactions that write nothing may scan.
enum class RowScans : uint8_t { kYes, kReadOnly };
constexpr RowScans scans_of(const Protocol& row) {
  return row.commits == CommitRule::kUnanimous || backups_serve_single_reads(row) ? RowScans::kReadOnly
                                                                                  : RowScans::kYes;
}

// Whether commits of a row have the phase. (While a replica of a partition is catching up, every row replicates.)
constexpr bool has_phase(const Protocol& row, Phase phase) {
  if (phase == Phase::kLock) return row.lock.at != Replicas::kNone;
  if (phase == Phase::kValidate) return row.validate;
  if (phase == Phase::kReplicate) return row.replicates();
  return phase == Phase::kUnlock;
}

// Round trips until a commit is acknowledged, for a transaction that reads one key, writes another, and holds neither.
constexpr int round_trips(const Protocol& row) {
  const Phase acked = ack_phase(row);
  int trips = 0;
  if (row.lock.at != Replicas::kNone && !row.lock_while_reading) ++trips;
  if (row.validate) ++trips;
  if (acked >= Phase::kReplicate && row.replicates()) ++trips;
  if (acked >= Phase::kUnlock) ++trips;
  return trips;
}

// Message delays until a stored procedure that reads and writes one key is acknowledged, called at a node that has no
// replica of it, or at one of its backups. Each request and each answer is one.
constexpr int delays(const Protocol& row, bool at_backup) {
  if (row.lock.at == Replicas::kNone) return 4;  // a read, and its validation
  if (row.ships_procedures) return 3;            // to the executor, to the other replicas, back
  const bool reads_here = at_backup && !row.lock_while_reading && !row.lazy_backups();
  const Phase acked = ack_phase(row);
  int trips = reads_here ? 0 : 1;
  if (!row.lock_while_reading) ++trips;
  if (acked >= Phase::kReplicate && row.replicates()) ++trips;
  if (acked >= Phase::kUnlock) ++trips;
  return 2 * trips;
}

// The messages of the same until its locks are released, answers included, with three replicas. Of rows without verbs.
constexpr int procedure_messages(const Protocol& row, bool at_backup) {
  if (row.lock.at == Replicas::kNone) return 4;
  const int backups = at_backup ? 1 : 2;  // other than this node
  const int locked = row.locks_backups() ? 1 + backups : 1;
  // To the primary too, where nothing else brings the value to more than the backups (K2).
  const bool to_primary = row.replicates_to_primary() || (at_backup && !row.lock_carries_value);
  const int logged = row.replicates() ? backups + (to_primary && !row.ships_procedures ? 1 : 0) : 0;
  const bool reads_here = at_backup && !row.lock_while_reading && !row.lazy_backups();
  const int phases = (reads_here ? 0 : 1) + (row.lock_while_reading ? 0 : locked) + logged + locked;
  return 2 * phases;
}

template <class... Rows>
consteval auto protocol_table(Rows... rows) {
  ((illegal(rows).empty() ? void() : throw "illegal protocol row"), ...);
  return std::array<Protocol, sizeof...(Rows)>{rows...};
}

inline constexpr Protocol kDnl4{.name = "dnl4",
                                .source = "Dandelion (FaRM's OCC by messages)",
                                .lock = {Replicas::kPrimary, Keys::kWrites},
                                .lock_carries_value = true,
                                .validate = true,
                                .replicate = {Replicas::kBackups, Keys::kWrites}};
inline constexpr Protocol kDnl2{.name = "dnl2",
                                .source = "Dandelion",
                                .lock = {Replicas::kPrimary, Keys::kReadsAndWrites},
                                .replicate = {Replicas::kAll, Keys::kWrites}};
inline constexpr Protocol kDnl1{.name = "dnl1",
                                .source = "Dandelion",
                                .lock = {Replicas::kAll, Keys::kReadsAndWrites},
                                .lock_carries_value = true,
                                .apply = Apply::kAtUnlock,
                                .commits = CommitRule::kUnanimous,
                                .refusal = Refusal::kFinalWhenAcknowledged};
inline constexpr Protocol kFasst{.name = "fasst",
                                 .source = "FaSST, all two-sided, locks while it reads",
                                 .lock = {Replicas::kPrimary, Keys::kWrites},
                                 .lock_while_reading = true,
                                 .validate = true,
                                 .replicate = {Replicas::kBackups, Keys::kWrites}};
inline constexpr Protocol kHop{.name = "hop",
                               .source = "Xenic's multi-hop OCC, between hosts",
                               .lock = {Replicas::kPrimary, Keys::kWrites},
                               .lock_while_reading = true,
                               .validate = true,
                               .replicate = {Replicas::kAll, Keys::kWrites},
                               .unlock_ack = UnlockAck::kPiggybacked,
                               .execute_at_once = true,
                               .ships_procedures = true};
// DrTM+H's table 4: one-sided (I) or two-sided (II) to execute, lock, validate, log, commit.
inline constexpr Protocol kFarm{.name = "farm",  // I II I I II
                                .source = "FaRM",
                                .lock = {Replicas::kPrimary, Keys::kWrites},
                                .lock_carries_value = true,
                                .validate = true,
                                .replicate = {Replicas::kBackups, Keys::kWrites},
                                .apply = Apply::kOnTruncate,
                                .by = {.execute = Primitive::kOneSided,
                                       .lock = Primitive::kMessage,
                                       .validate = Primitive::kOneSided,
                                       .log = Primitive::kOneSided,
                                       .commit = Primitive::kMessage},
                                .location_cache = true};
inline constexpr Protocol kDrtmr{.name = "drtmr",  // I I I I I
                                 .source = "DrTM+R, all one-sided",
                                 .lock = {Replicas::kPrimary, Keys::kWrites},
                                 .validate = true,
                                 .replicate = {Replicas::kAll, Keys::kWrites},
                                 .apply = Apply::kOnTruncate,
                                 .unlock_ack = UnlockAck::kPiggybacked,
                                 .by = {.execute = Primitive::kOneSided,
                                        .lock = Primitive::kOneSided,
                                        .validate = Primitive::kOneSided,
                                        .log = Primitive::kOneSided,
                                        .commit = Primitive::kOneSided},
                                 .location_cache = true};
inline constexpr Protocol kDrtmh{.name = "drtmh",  // I/II I I I I
                                 .source = "DrTM+H, hybrid",
                                 .lock = kDrtmr.lock,
                                 .validate = true,
                                 .replicate = kDrtmr.replicate,
                                 .apply = Apply::kOnTruncate,
                                 .unlock_ack = UnlockAck::kPiggybacked,
                                 .by = {.execute = Primitive::kHybrid,
                                        .lock = Primitive::kOneSided,
                                        .validate = Primitive::kOneSided,
                                        .log = Primitive::kOneSided,
                                        .commit = Primitive::kOneSided},
                                 .location_cache = true};
inline constexpr Protocol kDrtmhNc{.name = "drtmh-nc",  // two READs for every record
                                   .source = "DrTM+H without a location cache",
                                   .lock = kDrtmr.lock,
                                   .validate = true,
                                   .replicate = kDrtmr.replicate,
                                   .apply = Apply::kOnTruncate,
                                   .unlock_ack = UnlockAck::kPiggybacked,
                                   .by = kDrtmr.by};
// Read-only transactions of every protocol.
inline constexpr Protocol kReadOnly{.name = "dnl-ro", .source = "Dandelion", .validate = true};
static_assert(illegal(kReadOnly).empty());

// Rows between dnl4, farm and drtmr, one phase apart, so that `weft bench phases` can measure what each phase is worth.
constexpr Protocol with(Protocol row, std::string_view name, std::string_view source, const Primitives& by) {
  row.name = name;
  row.source = source;
  row.by = by;
  return row;
}
constexpr Protocol with_cache(Protocol row) {
  row.location_cache = true;
  return row;
}
inline constexpr Protocol kDnl4ExecuteNc =
    with(kDnl4, "dnl4-e-nc", "dnl4 that executes by READs, without a cache", {.execute = Primitive::kOneSided});
inline constexpr Protocol kDnl4Execute =
    with_cache(with(kDnl4, "dnl4-e", "dnl4 that executes by READs", {.execute = Primitive::kOneSided}));
inline constexpr Protocol kDnl4Validate =
    with_cache(with(kDnl4, "dnl4-ev", "dnl4 that executes and validates by READs",
                    {.execute = Primitive::kOneSided, .validate = Primitive::kOneSided}));
inline constexpr Protocol kDrtmrMessages =
    with(kDrtmr, "drtmr-m", "drtmr that locks and commits by message",
         {.execute = Primitive::kOneSided, .validate = Primitive::kOneSided, .log = Primitive::kOneSided});

// The protocols to choose from. Adding one is adding its row here.
inline constexpr auto kProtocolTable =
    protocol_table(kDnl4, kDnl2, kDnl1, kFasst, kFarm, kDrtmr, kDrtmh, kDrtmhNc, kHop);
// The rows that are there for comparison only.
inline constexpr auto kComparedTable = protocol_table(kDnl4ExecuteNc, kDnl4Execute, kDnl4Validate, kDrtmrMessages);

template <size_t A, size_t B>
consteval std::array<Protocol, A + B> concatenated(const std::array<Protocol, A>& a, const std::array<Protocol, B>& b) {
  std::array<Protocol, A + B> all;
  std::copy(b.begin(), b.end(), std::copy(a.begin(), a.end(), all.begin()));
  return all;
}

// All rows. The two spans are parts of it, so a row has one address, whichever way it was found.
inline constexpr auto kRows = concatenated(kProtocolTable, kComparedTable);
inline constexpr std::span<const Protocol> kProtocols = std::span(kRows).first<kProtocolTable.size()>();
inline constexpr std::span<const Protocol> kComparedRows = std::span(kRows).last<kComparedTable.size()>();

// Searches all rows; nullptr if there is none of that name.
const Protocol* find_protocol(std::string_view name);

// Why two rows cannot run in one cluster, or an empty string. A participant does what a message says, so rows may
// differ in everything that messages say, but not in the state that transactions of one row expect the other to leave.
constexpr std::string_view unfit(const Protocol& a, const Protocol& b) {
  if (a.lock.at != b.lock.at) return "one locks primaries only, the other all replicas";
  if (a.apply != b.apply) return "their backups apply at different times";
  if (backups_serve_single_reads(a) != backups_serve_single_reads(b)) {
    return "only one of them lets backups answer reads that nobody validates";
  }
  return {};
}

}  // namespace weft
