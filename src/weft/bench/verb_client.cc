#include "weft/bench/verb_client.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "weft/base/check.h"

namespace weft::bench {

static_assert(std::has_single_bit(VerbPlaces::kPlaces), "so that an odd number leads through all places");

void VerbPlaces::stamp(std::byte* at, uint64_t value) const {
  if (bytes_ >= 16) store(at, value);
  store(at + bytes_ - 8, value);
}

bool VerbPlaces::stamped(const std::byte* at, uint64_t value) const {
  return (bytes_ < 16 || load<uint64_t>(at) == value) && load<uint64_t>(at + bytes_ - 8) == value;
}

void VerbPlaces::fill(std::byte* region) const {
  if (kind_ != VerbKind::kRead) return;
  for (size_t client = 0; client < clients_; ++client) {
    for (uint64_t place = 0; place < kPlaces; ++place) {
      stamp(region + offset(client, place), initial(client, place));
    }
  }
}

bool VerbTasks::poll() {
  std::array<Packet, 16> packets;
  const size_t count = wire_->poll(packets);
  wire_->release();
  return count != 0;
}

size_t VerbClient::buffer_bytes(uint32_t bytes, uint32_t depth) {
  return VerbIssuer::kSmallest + depth * std::max<size_t>(std::bit_ceil(bytes), VerbIssuer::kSmallest);
}

VerbClient::VerbClient(const Setup& setup, size_t index, Wire* wire, Worker* worker, std::unique_ptr<Region> buffers)
    : VerbTasks(wire, worker),
      places_(setup.places),
      region_(setup.region),
      depth_(setup.depth),
      clock_(setup.clock),
      phase_(setup.phase),
      index_(index),
      buffers_(std::move(buffers)),
      credit_(setup.credit ? std::make_optional<VerbCredit>(*setup.credit) : std::nullopt),
      issuer_({.nodes = 2, .domain = Domain::kFar, .credit = credit_ ? &*credit_ : nullptr}, wire, nullptr,
              buffers_->base(), buffers_->bytes()),
      known_(VerbPlaces::kPlaces) {}

bool VerbClient::may_send() const {
  return sent_ - tally_.done < depth_ && phase_.load(std::memory_order_relaxed) != VerbPhase::kDrain;
}

void VerbClient::send() {
  VerbRequest* const request = issuer_.make(kVerbTarget, 0, places_.bytes());
  WEFT_CHECK(request != nullptr, "there are buffers for as many as may be in flight");
  request->user_as<uint64_t>() = sent_;
  const uint64_t place = VerbPlaces::place_of(sent_++);
  Verb verb;
  verb.kind = places_.kind();
  verb.region = region_;
  verb.offset = places_.offset(index_, place);
  verb.bytes = places_.bytes();
  verb.local = request->buffer;
  if (verb.kind == VerbKind::kWrite) places_.stamp(request->buffer, sent_);
  if (verb.kind == VerbKind::kFetchAdd) verb.operand = 1;
  if (verb.kind == VerbKind::kCompareSwap) {
    verb.compare = known_[place];
    verb.operand = known_[place] + 1;
  }
  request->add(verb);
  issuer_.send(request);
}

void VerbClient::on_done(const VerbRequest& request) {
  const auto operation = request.user_as<uint64_t>();
  const uint64_t place = VerbPlaces::place_of(operation);
  if (phase_.load(std::memory_order_relaxed) == VerbPhase::kMeasure) latency_ns_.record(now_ns_ - request.posted_ns);
  if (tally_.done++ == 0) answered_.store(true, std::memory_order_release);
  switch (places_.kind()) {
    case VerbKind::kRead:
      if (!places_.stamped(request.buffer, VerbPlaces::initial(index_, place))) ++tally_.wrong;
      break;
    case VerbKind::kWrite:
      known_[place] = operation + 1;
      break;
    case VerbKind::kCompareSwap: {
      const auto found = load<uint64_t>(request.buffer);
      const bool swapped = found == known_[place];
      tally_.swaps += swapped ? 1 : 0;
      known_[place] = found + (swapped ? 1 : 0);
      break;
    }
    case VerbKind::kFetchAdd:
      break;
  }
}

bool VerbClient::flush() {
  while (may_send()) send();
  return issuer_.flush(clock_.now_ns());
}

bool VerbClient::poll() {
  bool any = VerbTasks::poll();
  now_ns_ = clock_.now_ns();
  any |= issuer_.poll(
      now_ns_, [](void* self, VerbRequest& request) { static_cast<VerbClient*>(self)->on_done(request); }, this);
  const bool drains = phase_.load(std::memory_order_relaxed) == VerbPhase::kDrain;
  if (drains && sent_ == tally_.done) ended_.store(true, std::memory_order_release);
  return any;
}

uint64_t VerbClient::lost_writes(const std::byte* region) const {
  uint64_t lost = 0;
  for (uint64_t place = 0; place < VerbPlaces::kPlaces; ++place) {
    const bool written = known_[place] != 0;
    if (written && !places_.stamped(region + places_.offset(index_, place), known_[place])) ++lost;
  }
  return lost;
}

}  // namespace weft::bench
