// Planted bugs: test-only switches that break the protocol on purpose, so that a campaign can show that it would
// notice. Only sim/ and tests set them; every other caller leaves the mask at 0.
#pragma once

#include <cstdint>

namespace weft {

enum class PlantedBug : uint64_t {
  kSkipValidation = 1U << 0,        // reads are not validated
  kUnlockEarly = 1U << 1,           // primaries are unlocked before the backups have acknowledged
  kIgnoreVersion = 1U << 2,         // a lock is granted although the version moved
  kReadUnreadableBackup = 1U << 3,  // GetOne at a backup ignores the readable flag
  kRaiseWithoutVersion = 1U << 4,   // raising the flag does not look at the version
  kInsertAtZero = 1U << 5,          // a new record starts at version 0, not above its absence word
  kDropReadRecords = 1U << 6,       // dnl1 keeps no record of keys only read
  kLockWithoutValue = 1U << 7,      // the lock message leaves the new value out
  kNoLeaseCheck = 1U << 8,          // outcomes are told without a look at the lease
  kNoRaiseOnPromotion = 1U << 9,    // recovery leaves what it commits at a backup unreadable
  kNotWritten = 1U << 10,           // decisions are carried out, and records dropped, before all have written them down
  kFillingServes = 1U << 11,        // a replica that is filling counts as whole at once
  kOldEpochAccepted = 1U << 12,     // packets of a view that ended are handled while recovering from it
  kToldEarly = 1U << 13,            // a commit is told when it is locked and validated
  kOpenIsAborted = 1U << 14,        // asked for a transaction that is not decided, a participant says aborted
  kForgetsDecisions = 1U << 15,     // a later recovery does not hear of decisions that were written down
  kKeepsStale = 1U << 16,           // a replica that left is not discarded, also not before it fills again
  kLogMissesPrimary = 1U << 17,     // what was locked by a verb is not logged at the primary
  kRingNotDrained = 1U << 18,       // recovery reads the records and not what is still in the log rings
  kRevokeLate = 1U << 19,           // peers reach the memory until the next view is about to be active
  kReusedBlock = 1U << 20,          // what a verb finds where a record was is taken for that record
  kLocksByCpu = 1U << 21,           // a node's processor locks although its NIC's atomics do not go with it
  kNoFenceWait = 1U << 22,          // recovery does not wait for leases that were given to removed members
  kToldRemoved = 1U << 23,          // a read that waits for the lease is told when its node is removed
  kToldLate = 1U << 24,             // outcomes are told until two milliseconds after the lease
  kNoDriftMargin = 1U << 25,        // who gives a lease does not reckon with clocks that run apart
  kFillsStale = 1U << 26,           // a replica that was dropped in a view its node missed fills over what it has
  kOldIncarnation = 1U << 27,       // recovery takes a coordinator that has come back for the one that is gone
  kDecisionAgain = 1U << 28,        // a decision that was carried out in an earlier epoch is written down again
  kForgetsOpen = 1U << 29,          // a worker that recovers has forgotten what is open
  kAbsenceOnce = 1U << 30,          // an absence word is not looked at again when the index has been
  kNothingTooLate = 1U << 31,       // "it did not happen" is said of what has passed its commit point
  kHastyJoin = 1UL << 32,           // a node asks for a place in the view with nobody's word, and at once if removed
  kUnfitRows = 1UL << 33,           // rows run in one cluster that do not fit
};

struct PlantedBugs {
  uint64_t mask = 0;
  constexpr bool has(PlantedBug bug) const { return (mask & static_cast<uint64_t>(bug)) != 0; }
};

}  // namespace weft
