// A campaign: runs simulations seed after seed, checks their histories, and says what it found and what it reached.
// `weft sim` is this.
//
// Simulations share nothing, so a campaign runs several at a time; call it from one thread.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/check/history.h"
#include "weft/check/token.h"
#include "weft/sim/simulation.h"

namespace weft::bench {

// One simulation and its history, checked.
struct CheckedRun {
  SimResult result;  // its violations include what the checkers found
  History history;   // of the list-append workload
  TokenRun tokens;   // of the token workload
};
CheckedRun run_checked(const SimOptions& options);

// The same failure with as few kinds of faults as it needs; `failing` must fail.
SimOptions with_fewest_faults(const SimOptions& failing);

// The command line that runs this again.
std::string command_for(const SimOptions& options);

inline constexpr uint64_t kTransactionsDefault = 300;

struct CampaignOptions {
  std::optional<uint64_t> seed;   // one seed, in detail
  std::optional<uint64_t> seeds;  // so many; without minutes the default is 100
  uint64_t from = 1;
  std::string protocol;  // empty: the seed chooses; "all": every seed with each
  std::string faults;    // empty: the seed chooses; "none", or a list
  // Of each run, at least, with a fault or more and aimed crashes (sim/crash_injector.h); 0: as the seed draws, no
  // aims.
  uint64_t transactions = kTransactionsDefault;
  double minutes = 0;    // stop after this long
  std::string history;   // with seed: write its history to this file
  bool planted = false;  // in place of a campaign: look for each planted bug, in at most so many seeds
  int threads = 2;
};

// 0: all clean, 1: a violation, 2: an option that makes no sense.
int run_campaign(const CampaignOptions& options, std::ostream& out);

// A bug planted on purpose, and where it shows: what is fixed so that few seeds are needed.
struct BugPin {
  PlantedBug bug;
  std::string_view name;
  SimOptions where;  // its seed is the one that finds it: `weft sim --planted` says which ones do
  std::optional<std::string> sound_protocol{};  // in the place of one that is the bug, when there is none
};
const std::vector<BugPin>& planted_bugs();

struct BugFound {
  std::optional<uint64_t> seed;  // the first that shows it
  std::string violation;
  std::vector<std::string> false_alarms;  // of the same seeds without the bug
};
// From this seed on. Stops at the first false alarm, too.
BugFound find_bug(const BugPin& bug, uint64_t from, uint64_t seeds);

}  // namespace weft::bench
