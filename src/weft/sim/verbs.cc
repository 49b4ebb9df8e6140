#include "weft/sim/verbs.h"

#include <algorithm>
#include <cstring>

#include "weft/base/hash.h"

namespace weft {

namespace {

constexpr uint64_t kLine = 64;

bool atomic(const Verb& verb) { return verb.kind == VerbKind::kCompareSwap || verb.kind == VerbKind::kFetchAdd; }

// The lines of the target's memory that a verb touches, counted from the first.
uint32_t lines_of(const Verb& verb) {
  if (verb.bytes == 0) return 1;  // its grant and offset are checked like any other's
  return static_cast<uint32_t>((verb.offset + verb.bytes - 1) / kLine - verb.offset / kLine + 1);
}

}  // namespace

bool VerbQueue::post(std::span<const Verb> verbs) {
  if (verbs_.size() + verbs.size() > network()->config_.queue_verbs) return false;
  const Regions* const target = network()->regions(to_);
  const uint32_t grant = target->grant_of(wire_->node_);
  for (const Verb& verb : verbs) {
    verbs_.push_back({verb, generation_, grant, target, VerbStatus::kDone, false, false, {}, {}, 0});
  }
  return true;
}

void VerbQueue::process_ended() {
  for (Posted& posted : verbs_) posted.muted = true;
  reset();
}

void VerbQueue::lose_unsent(size_t kept) {
  for (size_t i = arrived_ + kept; i < verbs_.size(); ++i) verbs_[i].lost = true;
}

void VerbQueue::depart(uint64_t at_ns) {
  if (departed_ == verbs_.size()) return;
  for (; departed_ < verbs_.size(); ++departed_) {
    Posted& posted = verbs_[departed_];
    if (posted.verb.kind == VerbKind::kWrite) {
      posted.data.assign(posted.verb.local, posted.verb.local + posted.verb.bytes);
    } else {
      posted.data.resize(atomic(posted.verb) ? 8 : posted.verb.bytes);
    }
    last_request_ns_ = std::max(last_request_ns_, at_ns + network()->latency(wire_->node_, to_, at_ns));
    network()->events_->set(last_request_ns_, EventKind::kRequest, this, wire_->node_.value, to_.value);
  }
}

void VerbQueue::on_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kRequest:
      ++arrived_;
      start_next();
      break;
    case EventKind::kVerb:
      start(verbs_[finished_]);
      break;
    case EventKind::kLine:
      do_line(verbs_[finished_]);
      break;
    case EventKind::kSwap:
      end_atomic(verbs_[finished_]);
      break;
    default:
      respond();
  }
}

void VerbQueue::start_next() {
  if (executing_ || finished_ == arrived_) return;
  executing_ = true;
  start(verbs_[finished_]);
}

void VerbQueue::start(Posted& posted) {
  ++network()->verbs_;
  const bool cut_off = posted.lost || network()->severed(wire_->node_, to_);
  if (posted.generation <= broken_generation_ || cut_off) {
    posted.status = VerbStatus::kFlushed;
    answer();
  } else if (atomic(posted.verb)) {
    do_atomic(posted);
  } else {
    posted.lines.resize(lines_of(posted.verb));
    for (uint32_t i = 0; i < posted.lines.size(); ++i) posted.lines[i] = i;
    for (size_t i = posted.lines.size(); i > 1; --i) {
      std::swap(posted.lines[i - 1], posted.lines[network()->random_.below(i)]);
    }
    do_line(posted);
  }
}

uint64_t VerbQueue::gap_ns() { return network()->random_.below(network()->config_.line_gap_ns + 1); }

void VerbQueue::do_line(Posted& posted) {
  const Verb& verb = posted.verb;
  const uint64_t line = posted.lines.back();
  posted.lines.pop_back();
  const uint64_t begin = std::max(verb.offset, (verb.offset / kLine + line) * kLine);
  const uint64_t end = std::min(verb.offset + verb.bytes, (verb.offset / kLine + line + 1) * kLine);
  {
    const Regions::Section section(*network()->regions(to_), wire_->node_);
    // The whole range is resolved for each line: a verb that ends outside its region leaves nothing inside.
    std::byte* memory = section.resolve(verb.region, verb.offset, verb.bytes);
    if (memory == nullptr || section.grant() != posted.grant || network()->regions(to_) != posted.target) {
      refuse(posted);
      return;
    }
    const uint64_t skip = begin - verb.offset;
    if (verb.bytes != 0) {
      if (verb.kind == VerbKind::kWrite) {
        std::memcpy(memory + skip, posted.data.data() + skip, end - begin);
      } else {
        std::memcpy(posted.data.data() + skip, memory + skip, end - begin);
      }
    }
  }
  if (posted.lines.empty()) {
    answer();
  } else {
    network()->events_->set(network()->events_->now_ns() + gap_ns(), EventKind::kLine, this, wire_->node_.value,
                            to_.value);
  }
}

// nullptr: refused.
std::byte* VerbQueue::reached(const Posted& posted, const Regions::Section& section) const {
  std::byte* const memory = section.resolve(posted.verb.region, posted.verb.offset, 8);
  const bool granted = section.grant() == posted.grant && network()->regions(to_) == posted.target;
  return granted && posted.verb.offset % 8 == 0 ? memory : nullptr;
}

void VerbQueue::do_atomic(Posted& posted) {
  const Verb& verb = posted.verb;
  network()->finish_atomic(to_);
  uint64_t old = 0;
  {
    const Regions::Section section(*network()->regions(to_), wire_->node_);
    const std::byte* const memory = reached(posted, section);
    if (memory == nullptr) {
      refuse(posted);
      return;
    }
    old = load<uint64_t>(memory);
  }
  store(posted.data.data(), old);
  const bool stores = verb.kind == VerbKind::kFetchAdd || old == verb.compare;
  if (!stores) {
    answer();
    return;
  }
  posted.stored = verb.kind == VerbKind::kFetchAdd ? old + verb.operand : verb.operand;
  network()->atomics_[to_.value] = this;
  if (network()->config_.atomic_with_cpu) {
    end_atomic(posted);
  } else {
    const uint64_t gap_ns = network()->random_.below(network()->config_.atomic_gap_ns + 1);
    network()->events_->set(network()->events_->now_ns() + gap_ns, EventKind::kSwap, this, wire_->node_.value,
                            to_.value);
  }
}

void VerbQueue::land_atomic() {
  Posted& posted = verbs_[finished_];
  const Regions::Section section(*network()->regions(to_), wire_->node_);
  std::byte* const memory = reached(posted, section);
  if (memory == nullptr) {
    posted.status = VerbStatus::kRefused;
  } else {
    store(memory, posted.stored);
  }
}

void VerbQueue::end_atomic(Posted& posted) {
  if (network()->atomics_[to_.value] == this) network()->finish_atomic(to_);
  if (posted.status == VerbStatus::kRefused) {
    refuse(posted);
  } else {
    answer();
  }
}

void VerbQueue::refuse(Posted& posted) {
  posted.status = VerbStatus::kRefused;
  posted.lines.clear();
  broken_generation_ = posted.generation;
  answer();
}

void VerbQueue::answer() {
  ++finished_;
  executing_ = false;
  const uint64_t now_ns = network()->events_->now_ns();
  last_response_ns_ = std::max(last_response_ns_, now_ns + network()->latency(to_, wire_->node_, now_ns));
  network()->events_->set(last_response_ns_, EventKind::kResponse, this, wire_->node_.value, to_.value);
  // An event of its own, so that others can come between two verbs.
  if (finished_ < arrived_) {
    executing_ = true;
    network()->events_->set(now_ns + gap_ns(), EventKind::kVerb, this, wire_->node_.value, to_.value);
  }
}

void VerbQueue::respond() {
  Posted& posted = verbs_.front();
  const Verb& verb = posted.verb;
  // It may have landed; that it did is lost.
  if (network()->severed(wire_->node_, to_) && posted.status == VerbStatus::kDone) posted.status = VerbStatus::kFlushed;
  const bool returns = verb.kind != VerbKind::kWrite && posted.status == VerbStatus::kDone && !posted.muted;
  if (returns && !posted.data.empty()) std::memcpy(verb.local, posted.data.data(), posted.data.size());
  const Completion completion{to_, posted.status, verb.tag};
  network()->events_->trace().fold(hash_bytes(posted.data.data(), posted.data.size(), verb.tag));
  const bool reported = (verb.signalled || posted.status != VerbStatus::kDone) && !posted.muted;
  verbs_.pop_front();
  --departed_;
  --arrived_;
  --finished_;
  if (reported) wire_->complete(completion);
}

}  // namespace weft
