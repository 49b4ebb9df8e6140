// A queue of one-sided verbs from a worker to an access domain of a peer: it does in virtual time what a reliable queue
// pair does.
//
// I1: a READ takes effect after everything posted before it, and a WRITE after every WRITE before it: it starts when
//     all lines of those are done. But a READ or an atomic may be late at the target, by chance, and then a WRITE or an
//     atomic behind it may overtake it (also in the middle), unless it is ordered after it in one post (Verb::follows).
//     That is what a reliable connection allows without a fence (wire.h). Answers keep the order of posting.
// I2: a READ or WRITE acts line by line (64 bytes of the target's memory), in random order. Each line is an event, with
//     other events in between; a line is never torn. CAS and FAA are one event, or, where they are not atomic with the
//     processor's, two: one loads, the other stores. No other CAS or FAA loads between the two.
// I3: the target checks the grant for every line, inside a Regions::Section. Without a grant the verb is refused,
//     nothing more of it lands, and the queue is broken: everything behind it that was posted before the sender resets
//     the queue is flushed, and is reported as flushed even if it had overtaken the refused verb.
// I4: what was posted to a process does not reach the node's next process. What a process has posted continues after
//     the process ends, except for some of the most recent that had not arrived (lose_unsent); nobody receives its
//     completions.
// I5: a WRITE's bytes are copied when its step ends, as a NIC does after the doorbell. What a READ or an atomic returns
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
  VerbQueue(SimWire* wire, NodeId to, Domain domain) : wire_(wire), to_(to), domain_(domain) {}

  bool post(std::span<const Verb> verbs);
  void depart(uint64_t at_ns);
  void reset() { ++generation_; }
  void process_ended();
  void lose_unsent(size_t kept);  // keeps the first `kept` of those that have not arrived
  size_t not_arrived() const { return departed_ - arrived_; }
  void on_event(const Event& event) override;
  void land_atomic();  // the one that has loaded last
  size_t outstanding() const { return verbs_.size(); }

 private:
  struct Posted {
    Verb verb;
    uint64_t generation;
    uint32_t grant;         // the grant under which it was posted
    const Regions* target;  // regions of the process that it was posted to
    uint64_t number;        // position in this queue, counted from its start
    uint64_t chain;         // equal for verbs of a post that are ordered after each other
    bool hasty = false;     // overtakes where it may
    bool bad = false;       // its target does not resolve: known when it arrives, so nothing overtakes it
    bool flushed = false;   // it is behind one that was refused
    bool started = false;   // or its start is scheduled
    bool finished = false;  // at the target
    VerbStatus status = VerbStatus::kDone;
    bool lost = false;            // before it arrived, with its poster or the connection
    bool muted = false;           // its poster has ended
    std::vector<std::byte> data;  // a WRITE's bytes, or what comes back
    std::vector<uint32_t> lines;  // lines still to do; the next one is at the end
    uint64_t stored = 0;          // the value that an atomic will store
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
  const Domain domain_;
  std::deque<Posted> verbs_;  // posted, not yet completed
  size_t departed_ = 0;       // of them, from the front
  size_t arrived_ = 0;
  size_t answered_ = 0;  // finished, with all before them
  uint64_t posted_ = 0;  // ever
  uint64_t chains_ = 0;
  uint64_t looked_ = 0;  // number of the atomic that has loaded last
  uint64_t generation_ = 1;
  uint64_t broken_generation_ = 0;  // what was posted in this generation or an earlier one is flushed
  uint64_t failed_generation_ = 0;  // a failure in it was reported to the sender: all behind it have failed too
  uint64_t last_request_ns_ = 0;
  uint64_t last_response_ns_ = 0;
};

}  // namespace weft
