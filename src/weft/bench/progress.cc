#include "weft/bench/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "weft/bench/report.h"

namespace weft::bench {

Progress::Progress(std::FILE* to) : to_(to), shown_(isatty(fileno(to)) == 1) {}

void Progress::say(const std::string& text) {
  if (!shown_) return;
  fmt::print(to_, "\r\x1b[K{}", text);
  std::fflush(to_);
  dirty_ = true;
}

void Progress::clear() {
  if (!dirty_) return;
  fmt::print(to_, "\r\x1b[K");
  std::fflush(to_);
  dirty_ = false;
}

std::string Progress::line(const LiveStats& live) {
  return fmt::format(
      "{:5.1f} s  {:>8} txn/s  p50 {} us  p99 {} us  aborts {:.1f} %  {:.1f} messages a packet  {:.1f} keys a batch",
      live.seconds, millions(live.tps), micros(live.p50_us), micros(live.p99_us), 100 * live.abort_share, live.nw_batch,
      live.ht_batch);
}

}  // namespace weft::bench
