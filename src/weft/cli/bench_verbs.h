// `weft bench verbs` (bench/verb_rates.h).
#pragma once

#include <cstdint>
#include <string>

#include "weft/bench/verb_rates.h"
#include "weft/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace weft::cli {

struct VerbFlags {
  std::string kind = "read";
  int64_t bytes = 8, depth = 16;
  void add_to(CLI::App& command);
};

// The rest of the options is the command's. kBadOption names the flag that is wrong, or does not go with verbs.
Result<bench::VerbRatesOptions> verb_options_of(const VerbFlags& flags, const bench::VerbRatesOptions& others,
                                                const CLI::App& command);
// Returns the exit status.
int run_bench_verbs(bench::VerbRatesOptions options, bool json);

}  // namespace weft::cli
