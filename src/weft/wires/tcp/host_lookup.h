// HostLookup: the addresses of named hosts, found without holding up who asks. A name server that does not answer holds
// a call up for tens of seconds; so each name is looked up by a thread of its own, which ends with the answer, and who
// asked asks again until it is there. A host given as a number needs no thread.
//
// The thread that asks is one: the control thread. Threads that still wait when the object goes end on their own.
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
  static constexpr uint64_t kKeepNs = 5'000'000'000;  // an answer, so that the connections of a peer share it
  static constexpr uint64_t kStepNs = 1'000'000'000;  // who waits for an answer asks more often
  using Resolve = std::function<Result<SocketAddress>(const std::string& address)>;

  explicit HostLookup(Resolve resolve) : resolve_(std::move(resolve)) {}

  // "host:port"; nothing: not known yet, or too many others are being looked up.
  std::optional<Result<SocketAddress>> find(const std::string& address, uint64_t now_ns);

 private:
  class Answer;  // of a thread
  struct Lookup {
    std::shared_ptr<Answer> answer;
    uint64_t asked_ns = 0;  // for the last time
    uint64_t known_ns = 0;  // when the answer was first seen; 0: not yet
  };
  void take_answers(uint64_t now_ns);

  const Resolve resolve_;
  std::map<std::string, Lookup> lookups_;
};

}  // namespace weft
