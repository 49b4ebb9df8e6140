// Bugs planted on purpose, and where each shows.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "weft/base/check.h"
#include "weft/bench/campaign.h"
#include "weft/bench/small_pages.h"

namespace weft::bench {
namespace {

constexpr int kFoundSome = 2;  // exit status of a run's process

// The first violation of a run with a bug in it, or empty. A failed WEFT_CHECK counts as finding the bug, too: the run
// has a process of its own, which writes the violation or the failed check to a pipe. Any other end of the process is
// an error of the test.
std::string run_broken(const SimOptions& options) {
  std::array<int, 2> ends{};
  WEFT_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, "a pipe");
  const pid_t child = fork();
  WEFT_CHECK(child >= 0, "a process for the run");
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    const CheckedRun run = run_checked(options);
    const std::string said = run.result.violations.empty() ? "" : run.result.violations.front();
    if (said.empty()) _exit(0);
    _exit(write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? kFoundSome : 1);
  }
  close(ends[1]);
  std::string said;
  std::array<char, 4096> some{};
  for (ssize_t got = 0; (got = read(ends[0], some.data(), some.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    WEFT_CHECK(got > 0, "what the run says");
    said.append(some.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) WEFT_CHECK(errno == EINTR, "the end of the run");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const bool checked = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  const bool found = WIFEXITED(status) && WEXITSTATUS(status) == kFoundSome;
  WEFT_CHECK((checked || found) && !said.empty(), "a run with a bug ends by itself, or in a check");
  return said.substr(0, said.find('\n'));
}

}  // namespace

const std::vector<BugPin>& planted_bugs() {
  // All data at each of three nodes: most bugs need contention, not a complex cluster.
  const auto bug = [](PlantedBug which, std::string_view name, const char* protocol, SimWorkload workload) {
    BugPin planted{which, name, {}};
    planted.where.protocol = protocol;
    planted.where.workload = workload;
    planted.where.nodes = 3;
    planted.where.replicas = 3;
    planted.where.impatient = false;
    planted.where.piece_bytes = 0;
    planted.where.scans = false;
    planted.where.divided = false;
    planted.where.verb_credit = "off";
    planted.where.bugs.mask = static_cast<uint64_t>(which);
    return planted;
  };
  const auto pinned = [](uint64_t seed, BugPin planted) {
    planted.where.seed = seed;
    return planted;
  };
  // Bugs that only single-key reads at backups can see need many such reads, on few keys with many backups.
  const auto seen_at_backups = [&](PlantedBug which, std::string_view name) {
    BugPin planted = bug(which, name, "dnl2", SimWorkload::kAppend);
    planted.where.local_reads = true;
    planted.where.nodes = 5;
    planted.where.replicas = 5;
    planted.where.keys = 3;
    planted.where.single_key_percent = 60;
    return planted;
  };
  // Some node must hold only keys that are read.
  BugPin reads = bug(PlantedBug::kDropReadRecords, "drop dnl1's read records", "dnl1", SimWorkload::kAppend);
  reads.where.nodes = 5;
  reads.where.replicas = 2;
  // Bugs of recovery.
  const auto at_crash = [&](PlantedBug which, std::string_view name, const char* protocol, int nodes, int replicas) {
    BugPin planted = bug(which, name, protocol, SimWorkload::kAppend);
    planted.where.nodes = nodes;
    planted.where.replicas = replicas;
    FaultMask faults;
    faults.add(Fault::kCrash);
    planted.where.faults = faults;
    return planted;
  };
  // A crash must interrupt a recovery after it has decided, and take away the evidence for the decision.
  BugPin not_written = at_crash(PlantedBug::kNotWritten, "apply what is not written", "dnl1", 5, 5);
  not_written.where.transactions = kTransactionsDefault;
  BugPin forgets = at_crash(PlantedBug::kForgetsDecisions, "forget what an earlier recovery has written", "dnl4", 5, 5);
  forgets.where.transactions = kTransactionsDefault;
  forgets.where.leader_crashes_after_ack = true;
  // A node that is cut off continues to read its own copy.
  BugPin lease = at_crash(PlantedBug::kNoLeaseCheck, "no look at the lease", "dnl4", 2, 2);
  lease.where.faults = FaultMask{};
  lease.where.faults->add(Fault::kCut);
  lease.where.single_key_percent = 60;
  lease.where.keys = 3;
  // Bugs in the recovery of what verbs have done.
  BugPin misses = at_crash(PlantedBug::kLogMissesPrimary, "log what a verb has locked at backups only", "drtmr", 5, 2);
  misses.where.transactions = kTransactionsDefault;
  BugPin drained = at_crash(PlantedBug::kRingNotDrained, "leave the rings undrained", "drtmh", 4, 3);
  drained.where.transactions = kTransactionsDefault;
  BugPin late = at_crash(PlantedBug::kRevokeLate, "revoke too late", "drtmr", 4, 3);
  late.where.transactions = kTransactionsDefault;
  // Blocks are reused where keys come and go.
  BugPin reused = bug(PlantedBug::kReusedBlock, "take a reused block for the record", "drtmh", SimWorkload::kToken);
  // Needs a key that its own node and its peers lock.
  BugPin by_cpu = bug(PlantedBug::kLocksByCpu, "lock beside a NIC that does not mind", "drtmr", SimWorkload::kAppend);
  by_cpu.where.loopback = true;
  by_cpu.where.keys = 3;
  // Bugs that show only when a link fails between two running nodes: the removed one does not hear of it and continues
  // to read.
  const auto at_links = [&](PlantedBug which, std::string_view name, int nodes, std::string_view list) {
    BugPin planted = at_crash(which, name, "dnl4", nodes, nodes);
    planted.where.faults = *parse_faults(list);
    planted.where.local_reads = true;
    planted.where.single_key_percent = 60;
    planted.where.keys = 3;
    return planted;
  };
  // A node must miss a view, or another view must come during the recovery into one.
  const auto overtaken = [&](PlantedBug which, std::string_view name, int nodes, int replicas, std::string_view list) {
    BugPin planted = at_crash(which, name, "dnl4", nodes, replicas);
    planted.where.faults = *parse_faults(list);
    planted.where.transactions = kTransactionsDefault;
    return planted;
  };
  // Some nodes were active and have deleted what a decision put; another was not active and still has the written
  // decision.
  BugPin again = overtaken(PlantedBug::kDecisionAgain, "write a decision of an earlier epoch again", 7, 2, "crash");
  again.where.workload = SimWorkload::kToken;
  again.where.leader_crashes_activating = true;
  // Clients that do not wait for ever, at nodes whose links fail; with rows whose commit points differ.
  const auto too_late = [&](std::string_view name, const char* protocol) {
    BugPin planted = at_crash(PlantedBug::kNothingTooLate, name, protocol, 3, 3);
    planted.where.faults = *parse_faults("cut,break,one-way,alone");
    planted.where.impatient = true;
    planted.where.transactions = kTransactionsDefault;
    return planted;
  };
  // One row locks primaries and applies at backups on arrival, the other locks all replicas: a reader by one row finds
  // at a backup what the other has not finished.
  BugPin unfit =
      bug(PlantedBug::kUnfitRows, "run rows in one cluster that do not fit", "dnl4+dnl1", SimWorkload::kAppend);
  unfit.sound_protocol = "dnl4+fasst";
  BugPin two_moments = bug(PlantedBug::kReadsOfTwoMoments, "commit reads of two moments", "dnl1", SimWorkload::kAppend);
  // Every node has all keys.
  two_moments.where.nodes = two_moments.where.replicas = 3;
  two_moments.where.keys = 5;
  two_moments.where.local_reads = true;
  two_moments.where.single_key_percent = 0;
  two_moments.where.transactions = kTransactionsDefault;
  // A replica must be lost whose others have a few pieces only, or be read where they are missing.
  BugPin first_piece =
      at_crash(PlantedBug::kFirstPieceIsAll, "acknowledge a large message at its first piece", "dnl4", 3, 3);
  first_piece.where.piece_bytes = 64;
  first_piece.where.transactions = kTransactionsDefault;
  // Bugs of shipped transactions: more nodes than replicas, so that keys have their primaries elsewhere.
  const auto shipped = [&](PlantedBug which, std::string_view name, int replicas) {
    BugPin planted = at_crash(which, name, "hop", 4, replicas);
    planted.where.transactions = kTransactionsDefault;
    return planted;
  };
  BugPin aborts = shipped(PlantedBug::kAbortsShipped, "abort what was shipped", 3);
  aborts.where.impatient = true;
  aborts.where.faults = *parse_faults("cut,break,one-way,alone");
  // Bugs of scans, which keys that come and go show.
  const auto scanned = [&](PlantedBug which, std::string_view name) {
    BugPin planted = bug(which, name, "dnl4", SimWorkload::kToken);
    planted.where.scans = true;
    planted.where.single_key_percent = 0;
    return planted;
  };
  // Requests have up to three verbs.
  BugPin more_than_all =
      bug(PlantedBug::kMoreThanAllCredit, "wait for more credit than there is", "drtmr", SimWorkload::kAppend);
  more_than_all.where.verb_credit = "1";
  BugPin scan_moments = scanned(PlantedBug::kScansOfTwoMoments, "check scans at several moments");
  scan_moments.where.transactions = kTransactionsDefault;
  static const std::vector<BugPin> kBugs{
      pinned(1, bug(PlantedBug::kSkipValidation, "skip validation", "dnl4", SimWorkload::kAppend)),
      pinned(1, bug(PlantedBug::kUnlockEarly, "unlock early", "dnl4", SimWorkload::kAppend)),
      pinned(2, bug(PlantedBug::kIgnoreVersion, "ignore the version", "dnl4", SimWorkload::kAppend)),
      pinned(2, seen_at_backups(PlantedBug::kReadUnreadableBackup, "read an unreadable backup")),
      pinned(3, seen_at_backups(PlantedBug::kRaiseWithoutVersion, "raise without version check")),
      pinned(2, bug(PlantedBug::kInsertAtZero, "insert at version 0", "dnl4", SimWorkload::kToken)),
      pinned(1, reads),
      pinned(1, bug(PlantedBug::kLockWithoutValue, "lock without the value", "dnl1", SimWorkload::kAppend)),
      pinned(15, at_crash(PlantedBug::kToldEarly, "tell before it is replicated", "dnl4", 3, 2)),
      pinned(3, at_crash(PlantedBug::kNoRaiseOnPromotion, "leave a promoted value unreadable", "dnl2", 3, 3)),
      pinned(1, at_crash(PlantedBug::kFillingServes, "serve while catching up", "dnl2", 4, 3)),
      pinned(1, at_crash(PlantedBug::kOldEpochAccepted, "accept an old epoch", "dnl4", 4, 3)),
      pinned(89, not_written),
      pinned(11, forgets),
      pinned(5, lease),
      pinned(3, at_crash(PlantedBug::kOpenIsAborted, "call an open transaction aborted", "dnl4", 3, 3)),
      pinned(1, at_crash(PlantedBug::kKeepsStale, "keep what has moved away", "dnl4", 5, 2)),
      pinned(3, misses),
      pinned(13, drained),
      pinned(1, late),
      pinned(1, reused),
      pinned(19, by_cpu),
      pinned(29, at_links(PlantedBug::kNoFenceWait, "do not wait for a removed member's leases", 3, "break")),
      pinned(77, at_links(PlantedBug::kToldRemoved, "tell a held-back read when its node is removed", 2, "break")),
      pinned(108, at_links(PlantedBug::kToldLate, "tell outcomes after the lease", 3, "break")),
      pinned(7, overtaken(PlantedBug::kOldIncarnation, "take a new incarnation for the old one", 4, 3,
                          "crash,break,one-way,unseen")),
      pinned(18, again),
      pinned(4, too_late("say too late that nothing happened", "dnl4")),
      pinned(11, too_late("say too late that nothing happened, by locks alone", "dnl1")),
      pinned(4, too_late("say too late that nothing happened, by verbs", "drtmh")),
      pinned(2, unfit),
      pinned(9, seen_at_backups(PlantedBug::kHiddenReads, "commit reads that a backup hides")),
      pinned(40, two_moments),
      pinned(1, first_piece),
      pinned(1, shipped(PlantedBug::kToldBeforeShipped, "tell a commit before its executor has answered", 3)),
      pinned(42, aborts),
      pinned(28, shipped(PlantedBug::kReadsNotLocked, "ship what is read without locking it", 3)),
      pinned(955, shipped(PlantedBug::kExecutorForgets, "forget at the executor what is written elsewhere", 2)),
      pinned(1, shipped(PlantedBug::kLogFinishesNothing, "let a log wait for the notice that it overtakes", 3)),
      pinned(8, scanned(PlantedBug::kScanWithoutBound, "check a scan up to as many keys as it found")),
      pinned(378, scan_moments),
      pinned(1, more_than_all),
      pinned(3, at_crash(PlantedBug::kReusedUnacked, "use a slot again before all know of its abort", "dnl4", 4, 3)),
  };
  return kBugs;
}

BugFound find_bug(const BugPin& bug, uint64_t from, uint64_t seeds) {
  const SmallPages small_pages;
  BugFound found;
  for (uint64_t seed = from; seed - from < seeds && !found.seed && found.false_alarms.empty(); ++seed) {
    SimOptions options = bug.where;
    options.seed = seed;
    found.violation = run_broken(options);
    if (!found.violation.empty()) found.seed = seed;
    options.bugs = {};
    if (bug.sound_protocol) options.protocol = *bug.sound_protocol;
    const CheckedRun sound = run_checked(options);
    for (const std::string& violation : sound.result.violations) {
      found.false_alarms.push_back("seed " + std::to_string(seed) + ": " + violation);
    }
  }
  return found;
}

}  // namespace weft::bench
