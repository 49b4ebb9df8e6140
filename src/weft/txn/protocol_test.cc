// The protocol table against Dandelion's Table 4, the rules K1 and K2, and the table of when a commit is acknowledged.
#include "weft/txn/protocol.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace weft {
namespace {

bool is(Where w, Replicas at, Keys of) { return w.at == at && w.of == of; }

TEST(Protocol, RowsAreThoseOfDandelionsTable4) {
  EXPECT_TRUE(is(kDnl4.lock, Replicas::kPrimary, Keys::kWrites));
  EXPECT_TRUE(kDnl4.validate);
  EXPECT_TRUE(is(kDnl4.replicate, Replicas::kBackups, Keys::kWrites));

  EXPECT_TRUE(is(kDnl2.lock, Replicas::kPrimary, Keys::kReadsAndWrites));
  EXPECT_FALSE(kDnl2.validate);
  EXPECT_TRUE(is(kDnl2.replicate, Replicas::kAll, Keys::kWrites));

  EXPECT_TRUE(is(kDnl1.lock, Replicas::kAll, Keys::kReadsAndWrites));
  EXPECT_FALSE(kDnl1.validate);
  EXPECT_TRUE(is(kDnl1.replicate, Replicas::kNone, Keys::kNone));
  EXPECT_EQ(kDnl1.apply, Apply::kAtUnlock);
  EXPECT_EQ(kDnl1.commits, CommitRule::kUnanimous);
  EXPECT_EQ(kDnl1.refusal, Refusal::kFinalWhenAcknowledged);

  EXPECT_TRUE(is(kReadOnly.lock, Replicas::kNone, Keys::kNone));
  EXPECT_TRUE(kReadOnly.validate);
  EXPECT_TRUE(is(kReadOnly.replicate, Replicas::kNone, Keys::kNone));

  EXPECT_TRUE(kFasst.lock_while_reading);
  EXPECT_TRUE(is(kFasst.replicate, Replicas::kBackups, Keys::kWrites));
}

// Computed, never chosen: these are the paper's figures, and the rules' table.
static_assert(round_trips(kDnl4) == 4 && round_trips(kDnl2) == 2 && round_trips(kDnl1) == 1);
static_assert(round_trips(kFasst) == 3 && round_trips(kReadOnly) == 1);
static_assert(ack_phase(kDnl4) == Phase::kUnlock && ack_phase(kFasst) == Phase::kUnlock);
static_assert(ack_phase(kDnl2) == Phase::kReplicate && ack_phase(kDnl1) == Phase::kLock);
static_assert(ack_phase(kFarm) == Phase::kUnlock && ack_phase(kDrtmr) == Phase::kReplicate);
static_assert(round_trips(kFarm) == 4 && round_trips(kDrtmr) == 3 && round_trips(kDrtmh) == 3);
static_assert(kFarm.lazy_backups() && kDrtmr.lazy_backups() && !kDnl4.lazy_backups() && !kDnl1.lazy_backups());
static_assert(ack_phase(kReadOnly) == Phase::kValidate);
static_assert(aborts_acked_after_unlock(kDnl1));
static_assert(!aborts_acked_after_unlock(kDnl4) && !aborts_acked_after_unlock(kDnl2) &&
              !aborts_acked_after_unlock(kFasst));

TEST(Protocol, IsFoundByName) {
  std::set<std::string_view> names;
  for (const Protocol& row : kRows) {
    EXPECT_EQ(find_protocol(row.name), &row);
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    EXPECT_TRUE(illegal(row).empty()) << row.name << ": " << illegal(row);
  }
  EXPECT_EQ(find_protocol("dnl3"), nullptr);
  EXPECT_EQ(find_protocol("dnl"), nullptr) << "a prefix is no name";
  EXPECT_EQ(find_protocol(""), nullptr);
}

TEST(Protocol, EveryPhaseHasAName) {
  std::set<std::string_view> names;
  for (int p = 0; p <= static_cast<int>(Phase::kDone); ++p) {
    EXPECT_FALSE(phase_name(static_cast<Phase>(p)).empty());
    names.insert(phase_name(static_cast<Phase>(p)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Phase::kDone) + 1);
}

struct Broken {
  std::string_view what;
  Protocol row;
  std::string_view reason;  // a part of the reason that must be given
};

constexpr Protocol changed(Protocol row, void (*change)(Protocol&)) {
  change(row);
  return row;
}

TEST(Protocol, ABrokenRuleHasAReason) {
  const Broken all[] = {
      {"no name", changed(kDnl4, [](Protocol& r) { r.name = ""; }), "name"},
      {"lock at backups only", changed(kDnl4, [](Protocol& r) { r.lock.at = Replicas::kBackups; }), "primary"},
      {"lock of nothing", changed(kDnl4, [](Protocol& r) { r.lock.of = Keys::kNone; }), "locks something"},
      {"reads unprotected", changed(kDnl4, [](Protocol& r) { r.validate = false; }), "validated or locked"},
      {"write stays at the primary", changed(kDnl4, [](Protocol& r) { r.replicate = {}; }), "K2"},
      {"replicates to the primary only", changed(kDnl4, [](Protocol& r) { r.replicate.at = Replicas::kPrimary; }),
       "K2"},
      {"replicates without lock",
       changed(kReadOnly,
               [](Protocol& r) {
                 r.replicate = {Replicas::kBackups, Keys::kWrites};
               }),
       "not locked"},
      {"replicates reads", changed(kDnl4, [](Protocol& r) { r.replicate.of = Keys::kReadsAndWrites; }), "the writes"},
      {"replicates nothing", changed(kDnl4, [](Protocol& r) { r.replicate.of = Keys::kNone; }), "the writes"},
      {"a log by message that is applied late", changed(kDnl2, [](Protocol& r) { r.apply = Apply::kOnTruncate; }),
       "on arrival"},
      {"locks backups and replicates",
       changed(kDnl1,
               [](Protocol& r) {
                 r.replicate = {Replicas::kAll, Keys::kWrites};
                 r.apply = Apply::kOnArrival;
               }),
       "not both"},
      {"unanimous lock without the value", changed(kDnl1, [](Protocol& r) { r.lock_carries_value = false; }), "K2"},
      {"unanimous lock without the reads",
       changed(kDnl1,
               [](Protocol& r) {
                 r.lock.of = Keys::kWrites;
                 r.validate = true;
               }),
       "reads"},
      {"unanimous lock that is applied on arrival", changed(kDnl1, [](Protocol& r) { r.apply = Apply::kOnArrival; }),
       "at unlock"},
      {"locks of all replicas that do not commit",
       changed(kDnl1, [](Protocol& r) { r.commits = CommitRule::kReplicated; }), "unanimity"},
      {"locks of primaries that commit", changed(kDnl4, [](Protocol& r) { r.commits = CommitRule::kUnanimous; }),
       "unanimity"},
      {"a refusal that others can overrule", changed(kDnl1, [](Protocol& r) { r.refusal = Refusal::kFinal; }),
       "refusal"},
      {"a refusal that waits for nothing",
       changed(kDnl4, [](Protocol& r) { r.refusal = Refusal::kFinalWhenAcknowledged; }), "refusal"},
      {"a verb that carries the value", changed(kDrtmr, [](Protocol& r) { r.lock_carries_value = true; }), "K2"},
      {"a verb's lock that is logged at backups only",
       changed(kDrtmr,
               [](Protocol& r) {
                 r.replicate.at = Replicas::kBackups;
                 r.unlock_ack = UnlockAck::kReply;
               }),
       "K2"},
      {"a verb's lock of reads", changed(kDrtmr, [](Protocol& r) { r.lock.of = Keys::kReadsAndWrites; }), "of a write"},
      {"a verb's lock that is logged by message",
       changed(kDrtmr,
               [](Protocol& r) {
                 r.by.log = Primitive::kMessage;
                 r.apply = Apply::kOnArrival;
               }),
       "logs by verbs"},
      {"a verb's log that is applied on arrival", changed(kFarm, [](Protocol& r) { r.apply = Apply::kOnArrival; }),
       "truncated"},
      {"a verb that unlocks what a message locked",
       changed(kFarm, [](Protocol& r) { r.by.commit = Primitive::kOneSided; }), "unlocks"},
      {"a message that unlocks what a verb locked",
       changed(kDrtmr, [](Protocol& r) { r.by.commit = Primitive::kMessage; }), "unlocks"},
      {"a verb without a place", changed(kDnl4, [](Protocol& r) { r.by.validate = Primitive::kOneSided; }), "place"},
      {"hybrid without a cache", changed(kDrtmh, [](Protocol& r) { r.location_cache = false; }), "cache"},
      {"a cache of nothing", changed(kDnl4, [](Protocol& r) { r.location_cache = true; }), "remember"},
      {"hybrid to commit", changed(kDnl4, [](Protocol& r) { r.by.commit = Primitive::kHybrid; }), "hybrid"},
      {"passive where the client waits", changed(kFarm, [](Protocol& r) { r.unlock_ack = UnlockAck::kPiggybacked; }),
       "waits"},
      {"the value before it is known", changed(kFasst, [](Protocol& r) { r.lock_carries_value = true; }),
       "cannot carry"},
      {"executed at once, locked later", changed(kHop, [](Protocol& r) { r.lock_while_reading = false; }),
       "locked while it is read"},
      {"executed at once by a verb", changed(kHop, [](Protocol& r) { r.by.validate = Primitive::kOneSided; }), "place"},
      {"executed at once by verbs",
       changed(kHop, [](Protocol& r) { r.by.execute = r.by.validate = Primitive::kOneSided; }), "goes by message"},
      {"ships some, and asks for the others key by key", changed(kHop, [](Protocol& r) { r.execute_at_once = false; }),
       "at once"},
      {"an executor that forgets its writes",
       changed(kHop,
               [](Protocol& r) {
                 r.replicate.at = Replicas::kBackups;
                 r.unlock_ack = UnlockAck::kReply;
               }),
       "keeps its writes"},
  };
  for (const Broken& broken : all) {
    const std::string_view why = illegal(broken.row);
    EXPECT_FALSE(why.empty()) << broken.what << " is taken for legal";
    EXPECT_NE(why.find(broken.reason), std::string_view::npos) << broken.what << ": " << why;
  }
}

// Rows that no driver or rule covers must not slip through. None of these protects what is read.
TEST(Protocol, NothingUnsafeIsLegalByOmission) {
  EXPECT_FALSE(illegal(Protocol{.name = "nothing", .source = "nowhere"}).empty()) << "neither locks nor validates";
  EXPECT_FALSE(illegal(changed(kReadOnly, [](Protocol& r) { r.validate = false; })).empty());
  EXPECT_FALSE(illegal(changed(kDnl4, [](Protocol& r) { r.by.lock = Primitive::kNothing; })).empty())
      << "a phase that has work must reach the other node";
  EXPECT_FALSE(illegal(changed(kFasst, [](Protocol& r) {
                 r.lock = {Replicas::kAll, Keys::kReadsAndWrites};
                 r.replicate = {};
                 r.apply = Apply::kAtUnlock;
                 r.lock_carries_value = true;
               })).empty());
}

// An illegal row does not compile: protocol_table() throws at compile time, so the table is no constant expression.
template <bool kLegal>
struct Pick {};

template <Replicas kAt>
constexpr bool compiles = requires {
  typename Pick<(protocol_table(Protocol{.name = "x",
                                         .source = "nowhere",
                                         .lock = {kAt, Keys::kWrites},
                                         .lock_carries_value = true,
                                         .validate = true,
                                         .replicate = {Replicas::kBackups, Keys::kWrites}}),
                 true)>;
};
static_assert(compiles<Replicas::kPrimary>);
static_assert(!compiles<Replicas::kBackups>);
static_assert(!compiles<Replicas::kNone>);

}  // namespace
}  // namespace weft
