#include "weft/bench/queue_pairs.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/random.h"
#include "weft/bench/machine.h"
#include "weft/bench/report.h"
#include "weft/fabric/region.h"
#include "weft/wires/verbs/doorbells.h"
#include "weft/wires/verbs/read_queues.h"

namespace weft::bench {
namespace {

constexpr int kRounds = 3;
constexpr std::array kAllPolicies = {QueuePairPolicy::kShared, QueuePairPolicy::kMultiplexed, QueuePairPolicy::kWorker,
                                     QueuePairPolicy::kDoorbell};

// The threads of one run.
class Readers {
 public:
  Readers(ReadQueues& queues, const QueuePairOptions& options, uint64_t seed)
      : queues_(queues), options_(options), seed_(seed) {}

  // READs a second.
  Result<double> run(uint32_t threads, double seconds, Clock& clock) {
    std::vector<std::thread> running;
    for (uint32_t t = 0; t < threads; ++t) running.emplace_back([this, t] { read(t); });
    const uint64_t begin_ns = clock.now_ns();
    const uint64_t end_ns = begin_ns + static_cast<uint64_t>(seconds * 1e9);
    while (clock.now_ns() < end_ns && !failed_) std::this_thread::yield();
    stop_ = true;
    for (std::thread& thread : running) thread.join();
    if (failed_) return why_;
    return static_cast<double>(reads_.load()) * 1e9 / static_cast<double>(clock.now_ns() - begin_ns);
  }

 private:
  void read(uint32_t thread) {
    Random random(seed_ + thread);
    std::vector<uint64_t> offsets(options_.depth);
    uint64_t reads = 0;
    while (!stop_) {
      for (uint64_t& offset : offsets) {
        offset = ReadQueues::kReadBytes * random.below(options_.region_bytes / ReadQueues::kReadBytes);
      }
      if (const auto posted = queues_.post(thread, offsets); !posted) return fail(posted.error());
      for (bool is_done = false; !is_done;) {
        const auto done = queues_.done(thread);
        if (!done) return fail(done.error());
        is_done = *done;
        if (!is_done) std::this_thread::yield();  // there may be more threads than cores
      }
      reads += offsets.size();
    }
    reads_ += reads;
  }
  void fail(const Error& why) {
    const std::scoped_lock lock(mutex_);
    why_ = why;
    failed_ = true;
  }

  ReadQueues& queues_;
  const QueuePairOptions& options_;
  const uint64_t seed_;
  std::atomic<bool> stop_{false}, failed_{false};
  std::atomic<uint64_t> reads_{0};
  std::mutex mutex_;
  Error why_{};
};

class Comparison {
 public:
  Comparison(const QueuePairOptions& options, std::ostream& out, Progress& progress)
      : options_(options), out_(out), progress_(progress) {}

  Result<void> run() {
    if (auto opened = open(); !opened) return opened;
    heading();
    for (const uint32_t threads : numbers_of_threads(options_.threads)) {
      if (auto measured = measure(threads); !measured) return measured;
    }
    for (const std::string& note : notes_) fmt::print(out_, "\n{}\n", note);
    return {};
  }

 private:
  Result<void> open() {
    const VerbsLibrary* library = options_.library;
    if (library == nullptr) {
      const auto loaded = VerbsLibrary::load();
      if (!loaded) return loaded.error();
      library = *loaded;
    }
    auto region = Region::create(options_.region_bytes);
    if (!region) return region.error();
    region_ = std::move(*region);
    regions_.add(region_.get());
    auto nic = VerbsNic::open(*library, options_.device);
    if (!nic) return nic.error();
    nic_ = std::move(*nic);
    registered_ = std::make_unique<VerbsRegions>(*nic_, &regions_);
    const auto count = registered_->refresh();
    return count ? Result<void>() : count.error();
  }

  void heading() {
    print_heading(out_, "Queue pairs", "weft bench queue-pairs", options_.label);
    fmt::print(
        out_,
        "- {}, which reads from itself: {} bytes from random places of {} MiB, {} READs of a thread in flight.\n"
        "- Policies take turns, {} rounds of {:.1f} seconds each; the figures are READs a second of the median "
        "round. `shared`: one queue pair; `multiplexed`: one for {} threads; `worker`: one each; `doorbell`: "
        "with a doorbell register each. `meet`: on mlx5 without thread domains, so many threads of `worker` ring "
        "the same register.\n\n"
        "| threads | {} | meet |\n|---|---|---|---|---|---|\n",
        nic_->name(), ReadQueues::kReadBytes, options_.region_bytes >> 20, options_.depth, kRounds,
        options_.seconds / kRounds, ReadQueuesOptions().sharing, fmt::join(kQueuePairPolicies, " | "));
  }

  Result<void> measure(uint32_t threads) {
    std::array<std::vector<double>, kAllPolicies.size()> rates;
    for (int round = 0; round < kRounds; ++round) {
      for (size_t p = 0; p < kAllPolicies.size(); ++p) {
        progress_.say(fmt::format("{} threads, {}", threads, kQueuePairPolicies[p]));
        if (auto measured = measure(threads, kAllPolicies[p], round, &rates[p]); !measured) return measured;
      }
    }
    progress_.clear();
    fmt::print(out_, "| {} |", threads);
    for (std::vector<double>& of : rates) {
      std::sort(of.begin(), of.end());
      fmt::print(out_, " {} |", of.empty() ? "–" : millions(of[of.size() / 2]));
    }
    fmt::print(out_, " {} |\n", threads_on_one_doorbell({}, threads, 1));
    out_.flush();
    return {};
  }

  // Nothing for a policy that the device cannot have.
  Result<void> measure(uint32_t threads, QueuePairPolicy policy, int round, std::vector<double>* rates) {
    ReadQueuesOptions wanted;
    wanted.policy = policy;
    wanted.threads = threads;
    wanted.depth = options_.depth;
    const auto queues = ReadQueues::create(*nic_, *nic_, registered_->at(0), wanted);
    if (!queues && policy == QueuePairPolicy::kDoorbell && queues.error().code == Code::kBadOption) {
      const std::string note = fmt::format("–: {}.", queues.error().detail);
      if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
      return {};
    }
    if (!queues) return queues.error();
    Readers readers(**queues, options_, static_cast<uint64_t>(round) << 32);
    const auto rate = readers.run(threads, options_.seconds / kRounds, clock_);
    if (!rate) return rate.error();
    rates->push_back(*rate);
    return {};
  }

  const QueuePairOptions& options_;
  std::ostream& out_;
  Progress& progress_;
  RealClock clock_;
  std::unique_ptr<Region> region_;
  Regions regions_;
  std::unique_ptr<VerbsNic> nic_;
  std::unique_ptr<VerbsRegions> registered_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<uint32_t> numbers_of_threads(uint32_t most) {
  std::vector<uint32_t> all;
  for (uint32_t threads = 1; threads < most; threads *= 2) all.push_back(threads);
  all.push_back(most);
  return all;
}

Result<void> run_queue_pairs(const QueuePairOptions& options, std::ostream& out, Progress& progress) {
  return Comparison(options, out, progress).run();
}

}  // namespace weft::bench
