// One queue of one-sided verbs, from a worker to a peer: what a reliable queue pair does, in virtual time.
//
// I1: verbs of a queue take effect in the order they were posted: one starts when all lines of the one before are done.
// I2: a READ or WRITE acts line by line (64 bytes of the target's memory), the lines in random order, each an event of
//     its own with other events in between; within a line it is whole. CAS and FAA are one event, or, where they are
//     not atomic with the processor's, two: one looks, the other stores. Between the two no other CAS or FAA looks.
// I3: the grant is looked up at the target for every line, inside a Regions::Section. Without it the verb is refused,
//     nothing more of it lands, and the queue is broken: what was posted before the sender resets it is flushed.
// I4: what was posted to a process does not reach the next one of its name; what a process has posted goes on when it
//     ends, but for some of the last that had not arrived (lose_unsent), and nobody hears of it.
// I5: a WRITE's bytes are taken when its step ends, as a NIC does after the doorbell; what a READ or an atomic returns
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
  void process_ended();
  void lose_unsent(size_t kept);  // of those that have not arrived
  size_t not_arrived() const { return departed_ - arrived_; }
  void on_event(const Event& event) override;
  void land_atomic();  // of the verb under way
  size_t outstanding() const { return verbs_.size(); }

 private:
  struct Posted {
    Verb verb;
    uint64_t generation;
    uint32_t grant;         // under which it was posted
    const Regions* target;  // of the process that it was posted to
    VerbStatus status = VerbStatus::kDone;
    bool lost = false;            // with its poster, before it arrived
    bool muted = false;           // its poster has ended
    std::vector<std::byte> data;  // a WRITE's bytes, or what comes back
    std::vector<uint32_t> lines;  // still to do, the next one at the end
    uint64_t stored = 0;          // by an atomic that has looked
  };

  Network* network() const { return wire_->network_; }
  void start_next();
  void start(Posted& posted);
  void do_line(Posted& posted);
  void do_atomic(Posted& posted);
  void end_atomic(Posted& posted);
  std::byte* reached(const Posted& posted, const Regions::Section& section) const;
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
