// One queue of one-sided verbs, from a worker to a peer: what a reliable queue pair does, in virtual time.
//
// I1: verbs of a queue take effect in the order they were posted: one starts when all lines of the one before are done.
// I2: a READ or WRITE acts line by line (64 bytes of the target's memory), the lines in random order, each an event of
//     its own with other events in between; within a line it is whole. CAS and FAA are one event.
// I3: the grant is looked up at the target for every line, inside a Regions::Section. Without it the verb is refused,
//     nothing more of it lands, and the queue is broken: what was posted before the sender resets it is flushed.
// I4: a WRITE's bytes are taken when its step ends, as a NIC does after the doorbell; what a READ or an atomic returns
//     is in *local when its completion, or that of a later verb, is reported.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "weft/fabric/wire.h"
#include "weft/sim/events.h"
#include "weft/sim/network.h"
#include "weft/types.h"

namespace weft {

class VerbQueue final : public EventSink {
 public:
  VerbQueue(SimWire* wire, NodeId to) : wire_(wire), to_(to) {}

  bool post(std::span<const Verb> verbs);
  void depart(uint64_t at_ns);
  void reset() { ++generation_; }
  void on_event(const Event& event) override;
  size_t outstanding() const { return verbs_.size(); }

 private:
  struct Posted {
    Verb verb;
    uint64_t generation;
    uint32_t grant;  // under which it was posted
    VerbStatus status = VerbStatus::kDone;
    std::vector<std::byte> data;  // a WRITE's bytes, or what comes back
    std::vector<uint32_t> lines;  // still to do, the next one at the end
  };

  Network* network() const { return wire_->network_; }
  void start_next();
  void start(Posted& posted);
  void do_line(Posted& posted);
  void do_atomic(Posted& posted);
  void refuse(Posted& posted);
  void answer();
  void respond();
  uint64_t gap_ns();

  SimWire* const wire_;
  const NodeId to_;
  std::deque<Posted> verbs_;  // posted, not yet completed
  size_t departed_ = 0;       // of them, from the front
  size_t arrived_ = 0;
  size_t finished_ = 0;     // at the target
  bool executing_ = false;  // the one after the finished
  uint64_t generation_ = 1;
  uint64_t broken_generation_ = 0;  // this one and all before are flushed
  uint64_t last_request_ns_ = 0;
  uint64_t last_response_ns_ = 0;
};

}  // namespace weft
