// The clients of `weft bench verbs`, one per worker, and what they access.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/clock.h"
#include "weft/base/histogram.h"
#include "weft/fabric/region.h"
#include "weft/fabric/verb_credit.h"
#include "weft/fabric/verb_issuer.h"
#include "weft/fabric/wire.h"
#include "weft/run/worker.h"

namespace weft::bench {

inline constexpr NodeId kVerbClients{0}, kVerbTarget{1};

// The target's region: READs and WRITEs go to places of the client's own, swaps and additions to places of all clients.
// Each place is visited once in a round of all, so that no two requests of a client for one are in flight.
class VerbPlaces {
 public:
  static constexpr uint64_t kPlaces = 4096;

  VerbPlaces(VerbKind kind, uint32_t bytes, size_t clients)
      : kind_(kind), bytes_(bytes), stride_(align_up(bytes, 64)), clients_(clients) {}
  size_t region_bytes() const { return (shared() ? 1 : clients_) * kPlaces * stride_; }
  bool shared() const { return kind_ == VerbKind::kCompareSwap || kind_ == VerbKind::kFetchAdd; }
  VerbKind kind() const { return kind_; }
  uint32_t bytes() const { return bytes_; }

  static uint64_t place_of(uint64_t operation) { return operation * 1365 % kPlaces; }
  uint64_t offset(size_t client, uint64_t place) const { return ((shared() ? 0 : client * kPlaces) + place) * stride_; }
  // A value at the first and the last bytes of a place, or of a request for it.
  void stamp(std::byte* at, uint64_t value) const;
  bool stamped(const std::byte* at, uint64_t value) const;
  // What READs find.
  static uint64_t initial(size_t client, uint64_t place) { return (uint64_t{client} << 32 | place) + 1; }
  void fill(std::byte* region) const;

 private:
  const VerbKind kind_;
  const uint32_t bytes_;
  const uint64_t stride_;
  const size_t clients_;
};

enum class VerbPhase : uint8_t { kWarmUp, kMeasure, kDrain };

// What a client has done; others read it when the client has ended.
struct VerbTally {
  uint64_t done = 0;
  uint64_t swaps = 0;  // that succeeded
  uint64_t wrong = 0;  // READs that brought something else
};

// Both clients and the target's workers poll their wire, which moves its bytes.
class VerbTasks : public WorkerTasks {
 public:
  VerbTasks(Wire* wire, Worker* worker) : wire_(wire) { worker->set_tasks(this); }
  bool table_batch() override { return false; }
  bool commit_steps() override { return false; }
  bool flush() override { return false; }
  bool poll() override;
  void between_steps() override {}
  void before_sleep() override {}
  void after_sleep() override {}
  bool pending() const override { return wire_->pending(); }
  uint64_t deadline_ns() const override { return UINT64_MAX; }

 private:
  Wire* const wire_;
};

class VerbClient final : public VerbTasks {
 public:
  struct Setup {
    const VerbPlaces& places;
    RegionId region;
    uint32_t depth;
    std::optional<VerbCreditOptions> credit;
    Clock& clock;
    const std::atomic<VerbPhase>& phase;
  };
  VerbClient(const Setup& setup, size_t index, Wire* wire, Worker* worker, std::unique_ptr<Region> buffers);
  static size_t buffer_bytes(uint32_t bytes, uint32_t depth);

  bool answered() const { return answered_.load(std::memory_order_acquire); }  // once at least
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // Once it has ended.
  const VerbTally& tally() const { return tally_; }
  const Histogram& latency_ns() const { return latency_ns_; }
  const VerbIssuer& issuer() const { return issuer_; }
  // How many places do not hold the client's last WRITE.
  uint64_t lost_writes(const std::byte* region) const;

  bool flush() override;
  bool poll() override;
  bool pending() const override { return !ended() && (VerbTasks::pending() || issuer_.pending() || may_send()); }
  uint64_t deadline_ns() const override { return issuer_.deadline_ns(); }
  bool waits() const override { return !ended(); }

 private:
  bool may_send() const;
  void send();
  void on_done(const VerbRequest& request);

  const VerbPlaces& places_;
  const RegionId region_;
  const uint32_t depth_;
  Clock& clock_;
  const std::atomic<VerbPhase>& phase_;
  const size_t index_;
  const std::unique_ptr<Region> buffers_;
  std::optional<VerbCredit> credit_;
  VerbIssuer issuer_;
  uint64_t sent_ = 0;
  uint64_t now_ns_ = 0;
  VerbTally tally_;
  std::vector<uint64_t> known_;  // by place: the last WRITE, or the value that a swap expects
  Histogram latency_ns_;
  std::atomic<bool> answered_{false}, ended_{false};
};

}  // namespace weft::bench
