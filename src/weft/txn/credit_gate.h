// CreditGate: a worker's credit with its peers, and whether some came back since it last checked who waits for it.
#pragma once

#include <cstdint>
#include <utility>

#include "weft/fabric/credit.h"
#include "weft/types.h"

namespace weft {

class CreditGate {
 public:
  CreditGate(int nodes, uint64_t limit) : credit_(nodes, limit) {}

  uint64_t limit() const { return credit_.limit(); }
  [[nodiscard]] bool take(NodeId peer, uint32_t bytes) { return credit_.take(peer, bytes); }
  // Returns credit for what could not be sent after all. It wakes nobody.
  void put_back(NodeId peer, uint32_t bytes) { credit_.give(peer, bytes); }
  // Returns credit for what was answered.
  void give(NodeId peer, uint32_t bytes) {
    credit_.give(peer, bytes);
    came_back_ = true;
  }
  // Waiting transactions retry in the next step.
  void retry_waiters() { came_back_ = true; }
  bool came_back() const { return came_back_; }
  bool take_came_back() { return std::exchange(came_back_, false); }
  void reset() { credit_.reset(); }

 private:
  Credit credit_;
  bool came_back_ = false;
};

}  // namespace weft
