// HostLookup: resolves host names without blocking the caller. A name server that does not respond blocks a call for
// tens of seconds; so each name is looked up by a separate thread, which ends with the answer, and the caller polls
// until it is there. A numeric host needs no thread.
//
// Only the control thread calls it. Threads that still wait when the object is destroyed end on their own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "weft/status.h"
#include "weft/wires/tcp/stream.h"

namespace weft {

class HostLookup {
 public:
  static constexpr size_t kLookupsMax = 16;           // at a time
  static constexpr uint64_t kKeepNs = 5'000'000'000;  // of an answer, so that the connections of a peer share it
  static constexpr uint64_t kStepNs = 1'000'000'000;  // a caller that waits for an answer polls more often
  using Resolve = std::function<Result<SocketAddress>(const std::string& address)>;

  explicit HostLookup(Resolve resolve) : resolve_(std::move(resolve)) {}

  // `address` is "host:port". Empty: not known yet, or too many other lookups are in progress.
  std::optional<Result<SocketAddress>> find(const std::string& address, uint64_t now_ns);

 private:
  class Answer;  // of a thread
  struct Lookup {
    std::shared_ptr<Answer> answer;
    uint64_t asked_ns = 0;  // most recently
    uint64_t known_ns = 0;  // when the answer was first seen; 0: not yet
  };
  void take_answers(uint64_t now_ns);

  const Resolve resolve_;
  std::map<std::string, Lookup> lookups_;
};

}  // namespace weft
