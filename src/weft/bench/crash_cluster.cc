#include "weft/bench/crash_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "weft/base/bytes.h"
#include "weft/base/cpu_clock.h"
#include "weft/base/random.h"
#include "weft/txn/replicas.h"
#include "weft/txn/txn_worker.h"

namespace weft::bench {
namespace {

constexpr TableId kCrashTable{0};
constexpr int64_t kBalance = 1000;     // of each account at the beginning
constexpr int kLongestWaits = 60'000;  // of a millisecond each

std::string_view balance_bytes(const int64_t& balance) {
  return {reinterpret_cast<const char*>(&balance), sizeof balance};
}
int64_t load_balance(const Value& value) { return load<int64_t>(as_bytes(value.bytes).data()); }

void raise_to(std::atomic<uint64_t>& at, uint64_t ns) {
  for (uint64_t seen = at.load(); seen < ns && !at.compare_exchange_weak(seen, ns);) {
  }
}

// How much processor time a thread takes from its first start to its first stop.
class CpuMeter {
 public:
  void start() {
    if (began_ns_ == 0) began_ns_ = clock_.now_ns();
  }
  bool runs() const { return began_ns_ != 0 && !stopped_; }
  uint64_t stop() {
    stopped_ = true;
    return clock_.now_ns() - began_ns_;
  }

 private:
  ThreadCpuClock clock_;
  uint64_t began_ns_ = 0;
  bool stopped_ = false;
};

}  // namespace

CrashCluster::CrashCluster(const CrashOptions& options, const std::string& protocol, uint64_t seed)
    : options_(options), seed_(seed), logs_(worker_count()) {
  spec_.options = options.cluster;
  spec_.options.protocol = protocol;
  spec_.recovers = true;
  spec_.tables.push_back({.name = "accounts", .value_bytes_max = sizeof(int64_t), .capacity = options.accounts * 2});
}

CrashCluster::~CrashCluster() {
  end_threads();
  logs_.clear();  // clients before the slots that they hold
}

void CrashCluster::on_recovery(Recovered step, WorkerId, NodeId, NodeSet) {
  if (step == Recovered::kDecided) raise_to(decided_ns_, clock_.now_ns());
  if (step == Recovered::kWritten) raise_to(written_ns_, clock_.now_ns());
}

Result<void> CrashCluster::load() {
  const Options& o = spec_.options;
  fabric_ = std::make_unique<LocalFabric>(LocalOptions{.nodes = o.nodes, .workers = o.workers});
  view_ = make_view(o);
  for (int n = 0; n < o.nodes; ++n) {
    regions_.push_back(std::make_unique<Regions>());
    fabric_->set_regions(NodeId(static_cast<uint8_t>(n)), regions_.back().get());
    auto node = Node::create(NodeId(static_cast<uint8_t>(n)), spec_, view_, this);
    if (!node) return node.error();
    nodes_.push_back(std::move(*node));
  }
  for (uint64_t account = 0; account < options_.accounts; ++account) {
    const ByteView key{reinterpret_cast<const std::byte*>(&account), sizeof account};
    const Placement& placement = view_.placement(nodes_[0]->table(kCrashTable)->hashed(key).partition);
    for (int r = 0; r < placement.count; ++r) {
      Node& node = *nodes_[placement.replicas[static_cast<size_t>(r)].value];
      if (auto loaded = node.load(kCrashTable, key, as_bytes(balance_bytes(kBalance))); !loaded) return loaded;
    }
  }
  return {};
}

bool CrashCluster::start() {
  for (int n = 0; n < spec_.options.nodes; ++n) {
    for (int w = 0; w < workers(); ++w) {
      const NodeId node(static_cast<uint8_t>(n));
      const WorkerId worker(static_cast<uint8_t>(w));
      nodes_[node.value]->worker(worker)->mailbox().post([this, node, worker] { start_clients(node, worker); });
    }
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = spec_.options.threads > 0 ? spec_.options.threads : std::min(cores, workers());
  for (int t = 0; t < threads; ++t) threads_.emplace_back([this, t, threads] { run_thread(t, threads); });
  return wait_for(
      [&] { return std::all_of(logs_.begin(), logs_.end(), [](const ClientLog& log) { return log.running != 0; }); });
}

// Worker i of every node is on thread i mod threads, as in an embedded cluster.
void CrashCluster::run_thread(int thread, int threads) {
  bool knows = false;
  CpuMeter meter;
  while (!ending_.load(std::memory_order_relaxed)) {
    if (published_ns_.load(std::memory_order_acquire) != 0) meter.start();
    if (!knows && dead_.load(std::memory_order_acquire)) {
      knows = true;
      know_.fetch_add(1);
    }
    bool busy = false;
    for (int w = thread; w < workers(); w += threads) {
      for (const auto& node : nodes_) {
        if (knows && node->id() == victim()) continue;
        busy |= node->worker(WorkerId(static_cast<uint8_t>(w)))->step();
      }
    }
    if (meter.runs() && gone_on(thread, threads)) raise_to(cpu_ns_, meter.stop());
    if (!busy) std::this_thread::yield();
  }
}

// Whether all workers of the thread are active in the new view.
bool CrashCluster::gone_on(int thread, int threads) const {
  for (int w = thread; w < workers(); w += threads) {
    for (const auto& node : nodes_) {
      const TxnWorker& worker = *node->txn_worker(WorkerId(static_cast<uint8_t>(w)));
      if (node->id() != victim() && !(worker.active() && worker.view().epoch == next_->epoch)) return false;
    }
  }
  return true;
}

void CrashCluster::start_clients(NodeId node, WorkerId worker) {
  ClientLog& log = logs_[log_index(node, worker)];
  Random random(mix64(seed_ + 77 + log_index(node, worker)));
  const uint32_t count = spec_.options.limits.transactions_in_flight_max;
  log.running = count;
  for (uint32_t i = 0; i < count; ++i) {
    log.clients.push_back(OwnedTask::of(client(Session(nodes_[node.value]->txn_worker(worker)), &log, random.next())));
    log.clients.back().start();
  }
}

Task<void> CrashCluster::client(Session session, ClientLog* log, uint64_t seed) {
  Random random(seed);
  while (!stopping_.load(std::memory_order_relaxed)) {
    const uint64_t from = random.below(options_.accounts);
    const uint64_t to = (from + 1 + random.below(options_.accounts - 1)) % options_.accounts;
    Txn txn = co_await session.begin();
    const uint64_t began_ns = session.now_ns();
    const ReadHandle first = txn.get_async(kCrashTable, from, Intent::kUpdate);
    const ReadHandle second = txn.get_async(kCrashTable, to, Intent::kUpdate);
    co_await txn.wait_all();
    const Value a = txn.value(first), b = txn.value(second);
    if (a && b) {
      const int64_t less = load_balance(a) - 1, more = load_balance(b) + 1;
      txn.put(kCrashTable, from, balance_bytes(less));
      txn.put(kCrashTable, to, balance_bytes(more));
    }
    const Outcome outcome = co_await txn.commit();
    note(*log, outcome, began_ns, session.now_ns());
  }
  log->running.fetch_sub(1);
}

void CrashCluster::note(ClientLog& log, const Outcome& outcome, uint64_t began_ns, uint64_t now_ns) const {
  const uint64_t published = published_ns_.load(std::memory_order_relaxed);
  if (published == 0 || now_ns < published) return;
  if (began_ns < published) {
    ++log.interrupted;
    log.committed += outcome.committed() ? 1 : 0;
    log.answered_ns = now_ns;
  } else if (outcome.committed() && log.first_ns.load(std::memory_order_relaxed) == 0) {
    log.first_ns.store(now_ns, std::memory_order_release);
  }
}

void CrashCluster::kill() {
  dead_.store(true, std::memory_order_release);
  while (know_.load() < static_cast<int>(threads_.size())) std::this_thread::yield();
  for (int w = 0; w < workers(); ++w) {
    open_dead_ += nodes_[victim().value]->txn_worker(WorkerId(static_cast<uint8_t>(w)))->slots().in_use();
  }
}

Result<void> CrashCluster::publish() {
  auto next = without_members(view_, NodeSet::of(victim()));
  if (!next) return next.error();
  next_ = std::make_shared<const View>(std::move(*next));
  published_ns_.store(clock_.now_ns(), std::memory_order_release);
  for (const auto& node : nodes_) {
    if (node->id() != victim()) node->state().views.publish(next_);
  }
  return {};
}

bool CrashCluster::wait_for(const std::function<bool()>& done) {
  for (int i = 0; i < kLongestWaits; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

bool CrashCluster::wait_until_gone_on() const {
  return wait_for([&] {
    for (const auto& node : nodes_) {
      if (node->id() == victim()) continue;
      const ViewChange change = node->last_change();
      if (change.epoch != next_->epoch.value || change.active_ns == 0) return false;
      for (int w = 0; w < workers(); ++w) {
        const WorkerId worker(static_cast<uint8_t>(w));
        if (logs_[log_index(node->id(), worker)].first_ns.load(std::memory_order_acquire) == 0) return false;
      }
    }
    return true;
  });
}

bool CrashCluster::stop() {
  stopping_ = true;
  const bool clients_ended = wait_for([&] {
    return std::all_of(logs_.begin(), logs_.end(), [&](const ClientLog& log) {
      const auto node = static_cast<size_t>(&log - logs_.data()) / static_cast<size_t>(workers());
      return node == victim().value || log.running == 0;
    });
  });
  const bool idle = clients_ended && wait_for([&] {
                      std::atomic<int> busy{0};
                      std::atomic<int> left{0};
                      for (const auto& node : nodes_) {
                        if (node->id() == victim()) continue;
                        for (int w = 0; w < workers(); ++w) {
                          const WorkerId id(static_cast<uint8_t>(w));
                          ++left;
                          const TxnWorker* const worker = node->txn_worker(id);
                          node->worker(id)->mailbox().post([worker, &busy, &left] {
                            if (!worker->idle()) ++busy;
                            --left;
                          });
                        }
                      }
                      while (left != 0) std::this_thread::yield();
                      return busy == 0;
                    });
  end_threads();
  return idle;
}

void CrashCluster::end_threads() {
  ending_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Crash CrashCluster::result() const {
  Crash out;
  out.open = open_dead_;
  uint64_t stopped_ns = 0, active_ns = 0, answered_ns = 0, first_ns = UINT64_MAX, last_first_ns = 0;
  for (const auto& node : nodes_) {
    if (node->id() == victim()) continue;
    uint64_t node_first_ns = UINT64_MAX;
    for (int w = 0; w < workers(); ++w) {
      const WorkerId worker(static_cast<uint8_t>(w));
      const ViewChange change = node->txn_worker(worker)->acks().change().read();
      const ClientLog& log = logs_[log_index(node->id(), worker)];
      out.open += change.open;
      out.interrupted += log.interrupted;
      out.committed += log.committed;
      stopped_ns = std::max(stopped_ns, change.adopted_ns);
      active_ns = std::max(active_ns, change.active_ns);
      answered_ns = std::max(answered_ns, log.answered_ns);
      node_first_ns = std::min(node_first_ns, log.first_ns.load());
    }
    first_ns = std::min(first_ns, node_first_ns);
    last_first_ns = std::max(last_first_ns, node_first_ns);
  }
  out.cpu_ms = static_cast<double>(cpu_ns_.load()) / 1e6;
  out.stopped_ms = ms_after(stopped_ns);
  out.decided_ms = ms_after(decided_ns_);
  out.written_ms = ms_after(written_ns_);
  out.active_ms = ms_after(active_ns);
  out.answered_ms = ms_after(answered_ns);
  out.first_ms = ms_after(first_ns);
  out.last_first_ms = ms_after(last_first_ns);
  return out;
}

// Replicas that are catching up are left out: nobody waits for them here.
std::string CrashCluster::check() const {
  struct Context {
    const Node* node = nullptr;
    const View& view;
    int64_t sum = 0;
    uint64_t locked = 0;
  } context{.view = *next_};
  const size_t partitions = next_->partitions.size();
  std::vector<std::vector<Digest>> digests;
  for (size_t n = 0; n < victim().value; ++n) {
    context.node = nodes_[n].get();
    const Table& table = *nodes_[n]->table(kCrashTable);
    digests.push_back(digests_of(table, partitions));
    table.visit(
        [](void* p, ByteView key, ByteView value, Word word) {
          auto* c = static_cast<Context*>(p);
          const Placement& placement = c->view.placement(c->node->table(kCrashTable)->hashed(key).partition);
          if (placement.is_in_sync(c->node->id()) && word.owner() != Owner()) ++c->locked;
          if (placement.primary() == c->node->id()) c->sum += weft::load<int64_t>(value.data());
        },
        &context);
  }
  if (context.locked != 0) return fmt::format("{} records are locked", context.locked);
  for (size_t p = 0; p < partitions; ++p) {
    const Placement& placement = next_->partitions[p];
    const Digest& primary = digests[placement.primary().value][p];
    for (int r = 1; r < placement.count; ++r) {
      const Digest& copy = digests[placement.replicas[static_cast<size_t>(r)].value][p];
      if (copy.records != primary.records || copy.sum != primary.sum || copy.absence != primary.absence) {
        return fmt::format("the replicas of partition {} differ", p);
      }
    }
  }
  const int64_t expected = static_cast<int64_t>(options_.accounts) * kBalance;
  if (context.sum == expected) return {};
  return fmt::format("the accounts' sum is {}, must be {}", context.sum, expected);
}

}  // namespace weft::bench
