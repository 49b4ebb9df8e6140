// One queue of one-sided verbs, from a worker to a peer: what a reliable queue pair does, in virtual time.
//
// I1: a READ takes effect after all that was posted before it, and a WRITE after every WRITE before it: one starts when
//     all lines of those are done. But a READ or an atomic may be late at the target, by chance, and then a WRITE or an
//     atomic behind it may overtake it (also in its middle), unless it follows it in its post (Verb::follows). That is
//     what a reliable connection allows without a fence (wire.h). Answers keep the order of posting.
// I2: a READ or WRITE acts line by line (64 bytes of the target's memory), the lines in random order, each an event of
//     its own with other events in between; within a line it is whole. CAS and FAA are one event, or, where they are
//     not atomic with the processor's, two: one looks, the other stores. Between the two no other CAS or FAA looks.
// I3: the grant is looked up at the target for every line, inside a Regions::Section. Without it the verb is refused,
//     nothing more of it lands, and the queue is broken: what is behind it and was posted before the sender resets it
//     is flushed, and said to be also if it had overtaken it.
// I4: what was posted to a process does not reach the next one of its name; what a process has posted goes on when it
//     ends, but for some of the last that had not arrived (lose_unsent), and nobody hears of it.
// I5: a WRITE's bytes are taken when its step ends, as a NIC does after the doorbell; what a READ or an atomic returns
//     is in *local when its completion, or that of a later verb, is reported, and not before.
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
  void land_atomic();  // the one that has looked last
  size_t outstanding() const { return verbs_.size(); }

 private:
  struct Posted {
    Verb verb;
    uint64_t generation;
    uint32_t grant;         // under which it was posted
    const Regions* target;  // of the process that it was posted to
    uint64_t number;        // counts what was posted to this queue
    uint64_t chain;         // the same for verbs of a post that follow each other
    bool hasty = false;     // overtakes what it may
    bool bad = false;       // it goes nowhere: seen when it arrives, so nothing overtakes it
    bool flushed = false;   // it is behind one that was refused
    bool started = false;   // or it has a time to start
    bool finished = false;  // at the target
    VerbStatus status = VerbStatus::kDone;
    bool lost = false;            // with its poster, before it arrived
    bool muted = false;           // its poster has ended
    std::vector<std::byte> data;  // a WRITE's bytes, or what comes back
    std::vector<uint32_t> lines;  // still to do, the next one at the end
    uint64_t stored = 0;          // by an atomic that has looked
  };

  Network* network() const { return wire_->network_; }
  Posted& numbered(uint64_t number) { return verbs_[number - verbs_.front().number]; }
  void arrive();
  bool may_start(size_t index) const;
  void start_some(bool at_once);
  void start(Posted& posted);
  void do_line(Posted& posted);
  void do_atomic(Posted& posted);
  void end_atomic(Posted& posted);
  std::byte* reached(const Posted& posted, const Regions::Section& section) const;
  void refuse(Posted& posted);
  void break_behind(const Posted& posted);
  void finish(Posted& posted);
  void respond();
  void set(uint64_t in_ns, EventKind kind, const Posted& posted);
  uint64_t gap_ns();

  SimWire* const wire_;
  const NodeId to_;
  std::deque<Posted> verbs_;  // posted, not yet completed
  size_t departed_ = 0;       // of them, from the front
  size_t arrived_ = 0;
  size_t answered_ = 0;  // finished, and all before them
  uint64_t posted_ = 0;  // ever
  uint64_t chains_ = 0;
  uint64_t looked_ = 0;  // number of the atomic that has looked last
  uint64_t generation_ = 1;
  uint64_t broken_generation_ = 0;  // what is posted in this one, or was in one before, is flushed
  uint64_t failed_generation_ = 0;  // the sender was told that one failed: so have all behind it
  uint64_t last_request_ns_ = 0;
  uint64_t last_response_ns_ = 0;
};

}  // namespace weft
