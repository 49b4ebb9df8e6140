// PeerFaults: peers that sent what no correct peer sends. Handlers and hooks report them while the port delivers; the
// worker closes their channels between two deliveries.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/status.h"
#include "weft/types.h"

namespace weft {

class PeerFaults {
 public:
  struct Fault {
    NodeId peer;
    Error error;
    bool closed;  // the port has closed it; else the worker has to close it
  };

  explicit PeerFaults(NodeId self) : self_(self) {}

  // A handler has found something wrong with a message.
  void report(NodeId from, const char* what) {
    WEFT_CHECK(from != self_, what);
    faults_.push_back({from, {Code::kBadPacket, "node " + std::to_string(from.value) + ": " + what}, false});
  }
  // The port has closed the channel.
  void closed(NodeId peer, const Error& error) { faults_.push_back({peer, error, true}); }

  bool empty() const { return faults_.empty(); }
  std::optional<Fault> take() {
    if (faults_.empty()) return std::nullopt;
    Fault fault = std::move(faults_.back());
    faults_.pop_back();
    return fault;
  }

 private:
  const NodeId self_;
  std::vector<Fault> faults_;
};

}  // namespace weft
