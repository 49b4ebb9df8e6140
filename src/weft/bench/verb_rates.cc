#include "weft/bench/verb_rates.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "weft/bench/report.h"
#include "weft/bench/verb_client.h"
#include "weft/cluster/embedded_fabric.h"
#include "weft/run/thread.h"
#include "weft/txn/one_sided.h"

namespace weft::bench {
namespace {

constexpr std::string_view kKindNames[] = {"read", "write", "cas", "faa"};
constexpr auto kSlice = std::chrono::milliseconds(5);  // between steps of the connections, and looks at the time

std::string_view name_of(VerbKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Error bad_verbs(std::string detail) { return {Code::kBadOption, std::move(detail)}; }

Result<void> check_options(const VerbRatesOptions& options) {
  const bool atomic = options.kind == VerbKind::kCompareSwap || options.kind == VerbKind::kFetchAdd;
  if (atomic && options.bytes != 8) {
    return bad_verbs(fmt::format("--bytes {}: a verb of kind {} is of 8 bytes", options.bytes, name_of(options.kind)));
  }
  if (options.bytes < 8 || options.bytes > static_cast<int64_t>(kVerbBytesMax)) {
    return bad_verbs(fmt::format("--bytes {}: there can be 8 to {}", options.bytes, kVerbBytesMax));
  }
  if (options.depth < 1 || options.depth > kVerbDepthMax) {
    return bad_verbs(fmt::format("--depth {}: there can be 1 to {}", options.depth, kVerbDepthMax));
  }
  static_assert(kVerbDepthMax <= VerbPlaces::kPlaces);
  const Options& cluster = options.cluster;
  if (cluster.fabric != "local" && cluster.fabric != "shm" && cluster.fabric != "tcp" && cluster.fabric != "verbs") {
    return bad_verbs("--fabric " + cluster.fabric + ": there are local, shm, tcp and verbs");
  }
  return {};
}

// Two nodes without an engine, and the threads that run their workers.
class VerbRun {
 public:
  VerbRun(const VerbRatesOptions& options, Clock& clock)
      : options_(options),
        clock_(clock),
        workers_(static_cast<size_t>(options.cluster.workers)),
        places_(options.kind, static_cast<uint32_t>(options.bytes), workers_),
        depth_(static_cast<uint32_t>(options.depth)) {}
  ~VerbRun() {
    for (const auto& thread : threads_) thread->stop();
  }
  VerbRun(const VerbRun&) = delete;
  VerbRun& operator=(const VerbRun&) = delete;

  Result<void> make() {
    const RegionSharing sharing = options_.cluster.fabric == "shm" ? RegionSharing::kShared : RegionSharing::kPrivate;
    auto region = Region::create(places_.region_bytes(), RegionKind::kHost, sharing);
    if (!region) return region.error();
    region_ = std::move(*region);
    places_.fill(region_->base());
    for (int n = 0; n < 2; ++n) regions_.push_back(std::make_unique<Regions>());
    const RegionId id = regions_[kVerbTarget.value]->add(region_.get(), Domain::kFar);
    Options cluster = options_.cluster;
    cluster.nodes = 2;
    auto fabric = EmbeddedFabric::create(cluster, regions_, &clock_);
    if (!fabric) return fabric.error();
    fabric_ = std::move(*fabric);
    regions_[kVerbTarget.value]->grant(kVerbClients, Domain::kFar);
    for (size_t w = 0; w < workers_; ++w) {
      if (auto made = make_workers(w, id); !made) return made;
    }
    return {};
  }

  VerbRates measure() {
    for (const auto& thread : threads_) thread->start();
    for (const auto& client : clients_) {
      while (!client->answered() && !interrupted()) step();
    }
    wait(options_.warmup_seconds);
    const uint64_t begin_ns = clock_.now_ns();
    phase_ = VerbPhase::kMeasure;
    wait(options_.seconds);
    const uint64_t end_ns = clock_.now_ns();
    phase_ = VerbPhase::kDrain;
    for (const auto& client : clients_) {
      while (!client->ended()) step();
    }
    for (const auto& thread : threads_) thread->stop();
    return rates(static_cast<double>(end_ns - begin_ns) / 1e9);
  }

 private:
  Result<void> make_workers(size_t index, RegionId region) {
    const WorkerId id(static_cast<uint8_t>(index));
    auto buffers = Region::create(VerbClient::buffer_bytes(places_.bytes(), depth_));
    if (!buffers) return buffers.error();
    auto credit = verb_credit_of(options_.cluster);
    if (!credit) return credit.error();
    for (int node = 0; node < 2; ++node) loops_.push_back(std::make_unique<Worker>(&clock_, nullptr, 1, 1));
    Worker* const own = loops_[loops_.size() - 2].get();
    Worker* const other = loops_.back().get();
    Wire* const from = fabric_->wire(kVerbClients, id);
    Wire* const to = fabric_->wire(kVerbTarget, id);
    from->accept_incarnation(kVerbTarget, kVerbTarget.value + 1);
    to->accept_incarnation(kVerbClients, kVerbClients.value + 1);
    const VerbClient::Setup setup{places_, region, depth_, *credit, clock_, phase_};
    clients_.push_back(std::make_unique<VerbClient>(setup, index, from, own, std::move(*buffers)));
    targets_.push_back(std::make_unique<VerbTasks>(to, other));
    threads_.push_back(std::make_unique<Thread>(&clock_));
    threads_.back()->add(own);
    threads_.back()->add(other);
    for (WakeupSource* source : fabric_->wakeup_sources(id)) threads_.back()->add_wakeup_source(source);
    return {};
  }

  void step() {
    fabric_->control_step();
    std::this_thread::sleep_for(kSlice);
  }
  void wait(double seconds) {
    const uint64_t end_ns = clock_.now_ns() + static_cast<uint64_t>(seconds * 1e9);
    while (clock_.now_ns() < end_ns && !interrupted()) step();
  }
  bool interrupted() const { return options_.interrupted != nullptr && *options_.interrupted; }

  VerbRates rates(double seconds) const {
    VerbRates out;
    out.kind = name_of(options_.kind);
    out.fabric = fabric_->name();
    out.bytes = places_.bytes();
    out.depth = depth_;
    out.threads = static_cast<int>(workers_);
    out.seconds = seconds;
    Histogram latency;
    VerbTally all;
    uint64_t doorbells = 0, limits = 0, lost = 0;
    for (const auto& client : clients_) {
      latency.merge(client->latency_ns());
      all.done += client->tally().done;
      all.swaps += client->tally().swaps;
      all.wrong += client->tally().wrong;
      doorbells += client->issuer().doorbells();
      limits += client->issuer().limits_sum();
      out.refused += client->issuer().refused();
      if (options_.kind == VerbKind::kWrite) lost += client->lost_writes(region_->base());
    }
    out.operations = latency.count();
    if (seconds > 0) out.ops_per_second = static_cast<double>(out.operations) / seconds;
    out.gb_per_second = out.ops_per_second * out.bytes / 1e9;
    const auto us = [&](double q) { return static_cast<double>(latency.quantile(q)) / 1e3; };
    out.p50_us = us(0.5);
    out.p99_us = us(0.99);
    out.p999_us = us(0.999);
    if (all.done != 0) out.doorbells_per_op = static_cast<double>(doorbells) / static_cast<double>(all.done);
    if (doorbells != 0) out.verb_limit = static_cast<double>(limits) / static_cast<double>(doorbells);
    if (options_.kind == VerbKind::kCompareSwap) {
      out.swaps = all.swaps;
      out.swaps_failed = all.done - all.swaps;
    }
    out.wrong = check(all, lost);
    return out;
  }

  std::string check(const VerbTally& all, uint64_t lost) const {
    if (all.done == 0) return "no verb was completed";
    if (all.wrong != 0) return fmt::format("{} of {} READs brought other bytes than are there", all.wrong, all.done);
    if (lost != 0) return fmt::format("{} places do not hold the last WRITE to them", lost);
    if (!places_.shared()) return {};
    uint64_t sum = 0;
    for (uint64_t place = 0; place < VerbPlaces::kPlaces; ++place) {
      sum += load<uint64_t>(region_->base() + places_.offset(0, place));
    }
    const uint64_t expected = options_.kind == VerbKind::kFetchAdd ? all.done : all.swaps;
    if (sum == expected) return {};
    return fmt::format("the words' sum is {} after {} verbs that added 1", sum, expected);
  }

  const VerbRatesOptions& options_;
  Clock& clock_;
  const size_t workers_;
  const VerbPlaces places_;
  const uint32_t depth_;
  std::unique_ptr<Region> region_;
  std::vector<std::unique_ptr<Regions>> regions_;  // by node
  std::unique_ptr<EmbeddedFabric> fabric_;
  std::atomic<VerbPhase> phase_{VerbPhase::kWarmUp};
  std::vector<std::unique_ptr<Worker>> loops_;
  std::vector<std::unique_ptr<VerbClient>> clients_;
  std::vector<std::unique_ptr<VerbTasks>> targets_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace

Result<VerbKind> verb_kind_of(std::string_view name) {
  for (size_t kind = 0; kind < std::size(kKindNames); ++kind) {
    if (name == kKindNames[kind]) return static_cast<VerbKind>(kind);
  }
  return bad_verbs(fmt::format("--kind {}: there are read, write, cas and faa", name));
}

Result<VerbRates> measure_verbs(const VerbRatesOptions& options, Clock& clock) {
  if (auto good = check_options(options); !good) return good.error();
  VerbRun run(options, clock);
  if (auto made = run.make(); !made) return made.error();
  return run.measure();
}

void print_text(std::ostream& out, const VerbRates& r) {
  fmt::print(out, "verbs, {}, {} fabric: {} bytes, {} threads, {} in flight a thread, {:.1f} s\n", r.kind, r.fabric,
             r.bytes, r.threads, r.depth, r.seconds);
  fmt::print(out, "  operations   {}\n", with_commas(r.operations));
  fmt::print(out, "  rate         {} op/s, {} a thread, {:.3f} GB/s\n", millions(r.ops_per_second),
             millions(r.ops_per_second / r.threads), r.gb_per_second);
  fmt::print(out, "  latency      p50 {} us, p99 {} us, p99.9 {} us\n", micros(r.p50_us), micros(r.p99_us),
             micros(r.p999_us));
  fmt::print(out, "  doorbells    {:.2f} an operation\n", r.doorbells_per_op);
  if (r.verb_limit != 0) fmt::print(out, "  verb credit  {:.1f} in flight a thread at most\n", r.verb_limit);
  if (r.swaps + r.swaps_failed != 0) {
    fmt::print(out, "  swaps        {}, {} others found another value\n", with_commas(r.swaps),
               with_commas(r.swaps_failed));
  }
  if (r.wrong.empty()) {
    const std::string_view holds = r.kind == "read"    ? "every READ brought the bytes that are there"
                                   : r.kind == "write" ? "the last WRITE to every place is there"
                                   : r.kind == "cas"   ? "the words' sum is the number of swaps"
                                                       : "the words' sum is the number of operations";
    fmt::print(out, "  check        {}\n", holds);
  }
}

}  // namespace weft::bench
