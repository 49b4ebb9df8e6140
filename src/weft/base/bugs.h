// Planted bugs: test-only switches that break the protocol on purpose, so that a campaign can show that it would detect
// it. Only sim/ and tests set them; every other caller leaves the mask at 0.
#pragma once

#include <cstdint>

namespace weft {

enum class PlantedBug : uint64_t {
  kSkipValidation = 1U << 0,        // reads are not validated
  kUnlockEarly = 1U << 1,           // primaries are unlocked before the backups have acknowledged
  kIgnoreVersion = 1U << 2,         // a lock is granted although the version changed
  kReadUnreadableBackup = 1U << 3,  // GetOne at a backup ignores the readable flag
  kRaiseWithoutVersion = 1U << 4,   // marking a record readable ignores the version
  kInsertAtZero = 1U << 5,          // a new record starts at version 0, not above its absence word
  kDropReadRecords = 1U << 6,       // dnl1 keeps no record of keys only read
  kLockWithoutValue = 1U << 7,      // the lock message omits the new value
  kNoLeaseCheck = 1U << 8,          // outcomes are acknowledged without checking the lease
  kNoRaiseOnPromotion = 1U << 9,    // records that recovery commits at a backup stay unreadable
  kNotWritten = 1U << 10,           // decisions are applied, and records dropped, before all members persist them
  kFillingServes = 1U << 11,        // a replica that is catching up counts as in sync at once
  kOldEpochAccepted = 1U << 12,     // packets of a view that ended are handled while recovering from it
  kToldEarly = 1U << 13,            // a commit is acknowledged when it is locked and validated
  kOpenIsAborted = 1U << 14,        // a participant answers "aborted" for a transaction that is not decided
  kForgetsDecisions = 1U << 15,     // a later recovery does not learn of persisted decisions
  kKeepsStale = 1U << 16,           // a removed replica is not dropped, not even before it catches up again
  kLogMissesPrimary = 1U << 17,     // what was locked by a verb is not logged at the primary
  kRingNotDrained = 1U << 18,       // recovery reads the records but not what is still in the log rings
  kRevokeLate = 1U << 19,           // peers can access the memory until the next view is about to be active
  kReusedBlock = 1U << 20,          // whatever a verb finds at a record's old address is taken for that record
  kLocksByCpu = 1U << 21,           // a node's CPU locks although its NIC's atomics are not atomic with it
  kNoFenceWait = 1U << 22,          // recovery does not wait for the leases of removed members
  kToldRemoved = 1U << 23,          // a read that waits for the lease is acknowledged when its node is removed
  kToldLate = 1U << 24,             // outcomes are acknowledged until two milliseconds after the lease
  kNoDriftMargin = 1U << 25,        // the grantor of a lease ignores clock drift
  kFillsStale = 1U << 26,           // a replica dropped in a view that its node missed catches up over its old data
  kOldIncarnation = 1U << 27,       // recovery takes a restarted coordinator for its earlier incarnation
  kDecisionAgain = 1U << 28,        // a decision that was applied in an earlier epoch is persisted again
  kForgetsOpen = 1U << 29,          // a recovering worker has forgotten open transactions
  kAbsenceOnce = 1U << 30,          // an absence word is not read again after the index
  kNothingTooLate = 1U << 31,       // a transaction past its commit point is reported as aborted
  kHastyJoin = 1UL << 32,           // a node joins the view without the members' consent, and at once if removed
  kUnfitRows = 1UL << 33,           // incompatible rows run in one cluster
  kReusedUnacked = 1UL << 34,       // a slot is used again when its aborts are sent, before they are acknowledged
  kHiddenReads = 1UL << 35,         // a read-only commit at a replica ignores the readable flag
  kReadsOfTwoMoments = 1UL << 36,   // a read-only commit at a replica does not look whether its reads still hold
  kFirstPieceIsAll = 1UL << 37,     // a replica acknowledges a large message when its first piece is there
  kToldBeforeShipped = 1UL << 38,   // a shipped commit is acknowledged before its executor has answered
  kAbortsShipped = 1UL << 39,       // a shipped transaction whose client has waited too long is aborted
  kReadsNotLocked = 1UL << 40,      // what the coordinator of a shipped transaction only reads is not locked
  kExecutorForgets = 1UL << 41,     // an executor's record does not count what is written elsewhere
  kLogFinishesNothing = 1UL << 42,  // a log from an executor does not finish the slot's last record
  kCreditAtOnce = 1UL << 43,        // an executor has its credit back when its logs are sent
  kScanWithoutBound = 1UL << 44,    // a scan is checked up to as many keys as it found, not up to its end
  kScansOfTwoMoments = 1UL << 45,   // what is erased before a primary checks a scan, and was not seen, does not count
  kMoreThanAllCredit = 1UL << 46,   // a request with more verbs than may be in flight waits for credit for all of them
};

struct PlantedBugs {
  uint64_t mask = 0;
  constexpr bool has(PlantedBug bug) const { return (mask & static_cast<uint64_t>(bug)) != 0; }
};

}  // namespace weft
