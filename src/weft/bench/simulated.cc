#include "weft/bench/simulated.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/bench/tpcc_full.h"
#include "weft/bench/workload.h"

namespace weft::bench {
namespace {

constexpr uint64_t kAuditPercent = 10;  // of what a client does
constexpr uint64_t kLoadSeed = 1;
constexpr int kLastAudits = 10;  // of each node
constexpr RetryPolicy kTries{.attempts = 20, .backoff_us = 1, .backoff_us_max = 100};
constexpr RetryPolicy kMeasured{.attempts = 1'000'000, .backoff_us = 1, .backoff_us_max = 128};
constexpr uint64_t kBusyNs = 1'000;

class Simulated final : public sim::Workload {
 public:
  Simulated(sim::WorkloadContext* context, std::unique_ptr<bench::Workload> workload, SimulatedFigures* figures)
      : sim::Workload(context), workload_(std::move(workload)), figures_(figures) {}

  void declare(ClusterSpec& spec) override {
    spec.tables = workload_->tables();
    spec.procedures = workload_->procedures();
  }
  void load(const std::vector<std::unique_ptr<Node>>& nodes) override {
    Random random(kLoadSeed);
    const bench::Workload::Put put = [&](TableId table, Key key, std::string_view value) {
      sim::load_everywhere(nodes, table, key, value);
      return Result<void>();
    };
    WEFT_CHECK(workload_->load(put, random), "it fits");
  }
  Task<void> run(sim::Client* client, Session session) override;
  Task<void> finish(sim::Client* client, Session session) override;
  void check(const std::vector<Node*>& nodes, const View& view) override;

 private:
  Task<void> one(sim::Client* client, Session session, Call call);
  Task<Outcome> audit(sim::Client* client, Session session, RetryPolicy policy);
  void note(const Call& call, const Effect& effect, const Outcome& outcome);
  void measure(const Outcome& outcome, uint64_t started_ns, uint64_t now_ns);

  const std::unique_ptr<bench::Workload> workload_;
  SimulatedFigures* const figures_;  // may be nullptr
  // Of transactions with an outcome; the others, also those that a crash has ended, are `failed`.
  Tally tally_;
};

// Whether to try again, and after how long.
bool again(Session& session, const Outcome& outcome, const RetryPolicy& policy, uint32_t attempt, uint64_t began_ns,
           uint64_t* wait_ns) {
  *wait_ns = kBusyNs;
  const bool busy = outcome.kind == OutcomeKind::kRejected && code_retryable(outcome.code);
  if (busy && attempt < policy.attempts) return true;
  return session.should_retry(outcome, policy, attempt, began_ns, wait_ns);
}

void Simulated::note(const Call& call, const Effect& effect, const Outcome& outcome) {
  context_->count(outcome);
  if (outcome.committed()) {
    ++tally_.committed[call.kind];
    tally_.refused[call.kind] += effect.refused ? 1 : 0;
    tally_.net += effect.net;
    if (!effect.wrong.empty()) context_->violation(effect.wrong);
  }
  // Delivery is several transactions: when it ends without a commit, some of them may have happened.
  const bool no = outcome.kind == OutcomeKind::kAborted && effect.refused && !code_retryable(outcome.code);
  if (outcome.committed() || no) --tally_.failed;
}

void Simulated::measure(const Outcome& outcome, uint64_t started_ns, uint64_t now_ns) {
  if (figures_ == nullptr || started_ns < figures_->from_ns) return;
  figures_->committed += outcome.committed() ? 1 : 0;
  figures_->aborted += outcome.kind == OutcomeKind::kAborted ? 1 : 0;
  if (outcome.committed()) figures_->latency_ns.record(now_ns - started_ns);
}

Task<void> Simulated::one(sim::Client* client, Session session, Call call) {
  context_->doing(client, workload_->kinds()[call.kind].name.data());  // of a literal
  ++tally_.failed;  // until it has ended: a crash may end this coroutine anywhere
  const uint64_t started_ns = session.now_ns();
  const RetryPolicy& policy = figures_ != nullptr ? kMeasured : kTries;
  for (uint32_t attempt = 1;; ++attempt) {
    const uint64_t began_ns = session.now_ns();
    Effect effect;
    Task<Outcome> work = workload_->attempt(session, call, effect);
    const Outcome outcome = co_await work;
    measure(outcome, started_ns, session.now_ns());
    uint64_t wait_ns = 0;
    const bool no = outcome.kind == OutcomeKind::kAborted && effect.refused && !code_retryable(outcome.code);
    if (outcome.committed() || no || !again(session, outcome, policy, attempt, began_ns, &wait_ns)) {
      note(call, effect, outcome);
      co_return;
    }
    if (wait_ns > 0) co_await session.sleep_ns(wait_ns);
  }
}

Task<Outcome> Simulated::audit(sim::Client* client, Session session, RetryPolicy policy) {
  context_->doing(client, "in an audit");
  const uint64_t seed = client->random.next();
  for (uint32_t attempt = 1;; ++attempt) {
    const uint64_t began_ns = session.now_ns();
    Effect effect;
    Task<Outcome> work = workload_->audit(session, seed, effect);
    const Outcome outcome = co_await work;
    if (!effect.wrong.empty()) context_->violation(effect.wrong);
    uint64_t wait_ns = 0;
    if (outcome.committed() || !again(session, outcome, policy, attempt, began_ns, &wait_ns)) {
      context_->count(outcome);
      co_return outcome;
    }
    if (wait_ns > 0) co_await session.sleep_ns(wait_ns);
  }
}

Task<void> Simulated::run(sim::Client* client, Session session) {
  for (int i = 0; context_->another(*client, i); ++i) {
    if (workload_->audits() && client->random.chance(kAuditPercent)) {
      Task<Outcome> work = audit(client, session, kTries);
      co_await work;
      continue;
    }
    Task<void> work = one(client, session, workload_->draw(client->random));
    co_await work;
  }
}

Task<void> Simulated::finish(sim::Client* client, Session session) {
  for (int i = 0; i < kLastAudits && workload_->audits(); ++i) {
    Task<Outcome> work = audit(client, session, sim::kInsist);
    const Outcome outcome = co_await work;
    if (outcome.code == Code::kPeerUnreachable) co_return;  // the node was removed just now
    if (!outcome.committed()) context_->violation("final audit never commits: " + outcome.text());
  }
}

void Simulated::check(const std::vector<Node*>& nodes, const View& view) {
  const auto visit_table = [&](TableId table, const Cluster::Visit& visit) {
    struct Context {
      const Node& node;
      const View& view;
      const Table& table;
      const Cluster::Visit& visit;
    };
    for (const Node* node : nodes) {
      Context of{*node, view, *node->table(table), visit};
      of.table.visit(
          [](void* p, ByteView key, ByteView value, Word word) {
            const auto* c = static_cast<const Context*>(p);
            const bool primary = c->view.placement(c->table.hashed(key).partition).primary() == c->node.id();
            c->visit(c->node.id(), primary, as_text(key), as_text(value), word.version().value);
          },
          &of);
    }
  };
  if (const std::string wrong = workload_->check(visit_table, tally_); !wrong.empty()) context_->violation(wrong);
}

}  // namespace

std::unique_ptr<sim::Workload> simulated(sim::WorkloadContext* context, std::unique_ptr<Workload> workload,
                                         SimulatedFigures* figures) {
  return std::make_unique<Simulated>(context, std::move(workload), figures);
}

std::unique_ptr<sim::Workload> simulated_tpcc(sim::WorkloadContext* context) {
  const tpcc::Sizes sizes{.warehouses = 2, .items = 20, .customers = 3, .orders_max = 400};
  return simulated(context, std::make_unique<TpccFull>(sizes));
}

}  // namespace weft::bench
