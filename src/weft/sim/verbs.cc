#include "weft/sim/verbs.h"

#include <algorithm>
#include <cstring>

#include "weft/base/hash.h"
#include "weft/base/marks.h"

namespace weft {

namespace {

constexpr uint64_t kLine = 64;

bool atomic(const Verb& verb) { return verb.kind == VerbKind::kCompareSwap || verb.kind == VerbKind::kFetchAdd; }

// The lines of the target's memory that a verb touches, counted from the first.
uint32_t lines_of(const Verb& verb) {
  if (verb.bytes == 0) return 1;  // its grant and offset are checked like those of any other verb
  return static_cast<uint32_t>((verb.offset + verb.bytes - 1) / kLine - verb.offset / kLine + 1);
}

}  // namespace

bool VerbQueue::post(std::span<const Verb> verbs) {
  if (verbs_.size() + verbs.size() > network()->config_.queue_verbs) return false;
  const Regions* const target = network()->regions(to_);
  const uint32_t grant = target->grant_of(wire_->node_, domain_);
  ++chains_;
  for (const Verb& verb : verbs) {
    if (!verb.ordered_after_previous) ++chains_;
    Posted& posted = verbs_.emplace_back();
    posted.verb = verb;
    posted.generation = generation_;
    posted.grant = grant;
    posted.target = target;
    posted.number = ++posted_;
    posted.chain = chains_;
    posted.flushed = generation_ <= broken_generation_;
    posted.hasty = verb.kind != VerbKind::kRead && network()->random_.below(100) < network()->config_.hasty_percent;
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
  const uint64_t number = event.b >> 8;
  switch (event.kind) {
    case EventKind::kRequest:
      arrive();
      break;
    case EventKind::kVerb:
      start(numbered(number));
      break;
    case EventKind::kLine:
      do_line(numbered(number));
      break;
    case EventKind::kSwap:
      end_atomic(numbered(number));
      break;
    default:
      respond();
  }
}

void VerbQueue::set(uint64_t in_ns, EventKind kind, const Posted& posted) {
  network()->events_->set(network()->events_->now_ns() + in_ns, kind, this, wire_->node_.value,
                          to_.value | posted.number << 8);
}

void VerbQueue::arrive() {
  Posted& posted = verbs_[arrived_++];
  const Verb& verb = posted.verb;
  {
    const Regions::Section section(*network()->regions(to_), wire_->node_, domain_);
    posted.bad = section.resolve(verb.region, verb.offset, atomic(verb) ? 8 : verb.bytes) == nullptr ||
                 (atomic(verb) && verb.offset % 8 != 0);
  }
  start_some(true);
}

bool VerbQueue::may_start(size_t index) const {
  const Posted& posted = verbs_[index];
  for (size_t i = answered_; i < index; ++i) {
    const Posted& before = verbs_[i];
    if (before.finished) continue;
    const bool ordered = before.verb.kind == VerbKind::kWrite || before.chain == posted.chain || before.bad;
    if (!posted.hasty || ordered) return false;
  }
  return true;
}

// Some READs and atomics are late, so that there is something to overtake.
void VerbQueue::start_some(bool at_once) {
  const NetworkConfig& config = network()->config_;
  for (size_t i = answered_; i < arrived_; ++i) {
    Posted& posted = verbs_[i];
    if (posted.started || !may_start(i)) continue;
    posted.started = true;
    uint64_t in_ns = at_once ? 0 : gap_ns();
    const bool late = posted.verb.kind != VerbKind::kWrite && network()->random_.below(100) < config.late_percent;
    if (late) in_ns += network()->random_.below(config.late_ns + 1);
    if (i > answered_) WEFT_MARK("a verb overtakes another of its queue");
    // The start is an event of its own, so that other events can come between two verbs.
    if (at_once && !late) return start(posted);  // nothing has arrived behind it
    set(in_ns, EventKind::kVerb, posted);
  }
}

void VerbQueue::start(Posted& posted) {
  ++network()->verbs_;
  const bool cut_off = posted.lost || network()->severed(wire_->node_, to_);
  if (posted.flushed || cut_off) {
    posted.status = VerbStatus::kFlushed;
    if (cut_off) break_behind(posted);  // also verbs that would start when the connection is back
    finish(posted);
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
    const Regions::Section section(*network()->regions(to_), wire_->node_, domain_);
    // The whole range is resolved for each line: a verb that ends outside its region writes nothing inside.
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
    finish(posted);
  } else {
    set(gap_ns(), EventKind::kLine, posted);
  }
}

// nullptr: the verb is refused.
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
    const Regions::Section section(*network()->regions(to_), wire_->node_, domain_);
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
    finish(posted);
    return;
  }
  posted.stored = verb.kind == VerbKind::kFetchAdd ? old + verb.operand : verb.operand;
  network()->atomics_[to_.value] = this;
  looked_ = posted.number;
  if (network()->config_.atomic_with_cpu) {
    end_atomic(posted);
  } else {
    set(network()->random_.below(network()->config_.atomic_gap_ns + 1), EventKind::kSwap, posted);
  }
}

void VerbQueue::land_atomic() {
  Posted& posted = numbered(looked_);
  const Regions::Section section(*network()->regions(to_), wire_->node_, domain_);
  std::byte* const memory = reached(posted, section);
  if (memory == nullptr) {
    posted.status = VerbStatus::kRefused;
  } else {
    store(memory, posted.stored);
  }
}

void VerbQueue::end_atomic(Posted& posted) {
  if (network()->atomics_[to_.value] == this && looked_ == posted.number) network()->finish_atomic(to_);
  if (posted.status == VerbStatus::kRefused) {
    refuse(posted);
  } else {
    finish(posted);
  }
}

void VerbQueue::refuse(Posted& posted) {
  posted.status = VerbStatus::kRefused;
  posted.lines.clear();
  break_behind(posted);
  finish(posted);
}

// Nothing posted behind it takes effect until the queue is reset.
void VerbQueue::break_behind(const Posted& posted) {
  broken_generation_ = std::max(broken_generation_, posted.generation);
  for (Posted& behind : verbs_) {
    if (behind.number > posted.number && behind.generation <= posted.generation) behind.flushed = true;
  }
}

void VerbQueue::finish(Posted& posted) {
  posted.finished = true;
  const uint64_t now_ns = network()->events_->now_ns();
  for (; answered_ < arrived_ && verbs_[answered_].finished; ++answered_) {
    last_response_ns_ = std::max(last_response_ns_, now_ns + network()->latency(to_, wire_->node_, now_ns));
    network()->events_->set(last_response_ns_, EventKind::kResponse, this, wire_->node_.value, to_.value);
  }
  start_some(false);
}

void VerbQueue::respond() {
  Posted& posted = verbs_.front();
  const Verb& verb = posted.verb;
  // The verb may have taken effect; its completion is lost.
  const bool lost = network()->severed(wire_->node_, to_) || posted.generation <= failed_generation_;
  if (lost && posted.status == VerbStatus::kDone) posted.status = VerbStatus::kFlushed;
  if (posted.status != VerbStatus::kDone) failed_generation_ = std::max(failed_generation_, posted.generation);
  const bool returns = verb.kind != VerbKind::kWrite && posted.status == VerbStatus::kDone && !posted.muted;
  if (returns && !posted.data.empty()) std::memcpy(verb.local, posted.data.data(), posted.data.size());
  const Completion completion{to_, posted.status, verb.tag};
  network()->events_->trace().fold(hash_bytes(posted.data.data(), posted.data.size(), verb.tag));
  const bool reported = (verb.signalled || posted.status != VerbStatus::kDone) && !posted.muted;
  verbs_.pop_front();
  --departed_;
  --arrived_;
  --answered_;
  if (reported) wire_->complete(domain_, completion);
}

}  // namespace weft
