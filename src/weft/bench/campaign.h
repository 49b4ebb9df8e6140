// A campaign runs simulations seed after seed, checks their histories, and reports violations and coverage. `weft sim`
// runs it.
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

// One simulation and its checked history.
struct CheckedRun {
  SimResult result;  // its violations include what the checkers found
  History history;   // of the list-append workload
  TokenRun tokens;   // of the token workload
};
CheckedRun run_checked(const SimOptions& options);

// Removes kinds of faults as long as the run still fails; `failing` must fail.
SimOptions with_fewest_faults(const SimOptions& failing);

// The command line that repeats this run.
std::string command_for(const SimOptions& options);

inline constexpr uint64_t kTransactionsDefault = 300;

struct CampaignOptions {
  std::optional<uint64_t> seed;   // one seed, in detail
  std::optional<uint64_t> seeds;  // number of seeds; without minutes the default is 100
  uint64_t from = 1;
  std::string protocol;  // empty: the seed chooses; "all": every seed runs with each protocol and each mix
  std::string workload;  // empty: the seed chooses; else the name of one, also of one that no seed chooses
  std::string faults;    // empty: the seed chooses; "none", or a list
  // At least this many in each run, with at least one fault and aimed crashes (sim/crash_injector.h); 0: as the seed
  // draws, without aimed crashes.
  uint64_t transactions = kTransactionsDefault;
  std::vector<NodeRoles> roles;  // of the nodes; empty: the seed chooses
  double minutes = 0;            // stop after this long
  std::string history;           // with seed: write its history to this file
  bool planted = false;          // instead of a campaign: look for each planted bug, in at most `seeds` seeds
  int threads = 2;
};

// Returns 0: all clean, 1: a violation, 2: an invalid option.
int run_campaign(const CampaignOptions& options, std::ostream& out);

// A bug planted on purpose, and a configuration that shows it in few seeds.
struct BugPin {
  PlantedBug bug;
  std::string_view name;
  SimOptions where;  // its seed finds the bug: `weft sim --planted` says which seeds do
  std::optional<std::string>
      sound_protocol{};  // replaces a protocol that is itself the bug, for the run without the bug
};
const std::vector<BugPin>& planted_bugs();

struct BugFound {
  std::optional<uint64_t> seed;  // the first that shows the bug
  std::string violation;
  std::vector<std::string> false_alarms;  // violations of the same seeds without the bug
};
// Tries seeds from `from` on. Stops at the first false alarm, too.
BugFound find_bug(const BugPin& bug, uint64_t from, uint64_t seeds);

}  // namespace weft::bench
