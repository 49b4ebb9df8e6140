// The progress line: rewritten in place on a terminal; nothing is written to a pipe.
#pragma once

#include <cstdio>
#include <string>

#include "weft/bench/driver.h"

namespace weft::bench {

class Progress {
 public:
  explicit Progress(std::FILE* to);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const { return shown_; }
  void say(const std::string& text);
  void show(const std::string& label, const LiveStats& live) {
    say(label.empty() ? line(live) : label + "  " + line(live));
  }
  void clear();

  static std::string line(const LiveStats& live);

 private:
  std::FILE* const to_;
  const bool shown_;
  bool dirty_ = false;
};

}  // namespace weft::bench
