// What each worker of the verbs wire takes from a device, on the stub of stub_device_testing.h.
#include "weft/wires/verbs/worker_domain.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/fabric/names_testing.h"
#include "weft/wires/verbs/verbs_testing.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;

void use_stub(VerbsOptions& options, const std::string& device) {
  options.library = &StubVerbs::library();
  options.device.device = device;
}

class WorkerDomainTest : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 3;

  // Two nodes on a device each, connected, and with a verb of every worker behind them, so that all queues are there.
  void connect(const StubOptions& device, const std::function<void(size_t, VerbsOptions&)>& change = {}) {
    stub_ = std::make_unique<StubVerbs>(device);
    net_ = std::make_unique<VerbsTestNet>(2, kWorkers, [&](size_t n, VerbsOptions& options) {
      use_stub(options, "stub" + std::to_string(n));
      if (change) change(n, options);
    });
    net_->connect(0, 1);
    net_->grant(0, 0);
    for (size_t w = 0; w < kWorkers; ++w) {
      EXPECT_EQ(add(w, kB), VerbStatus::kDone);
      EXPECT_EQ(add(w, kA), VerbStatus::kDone) << "the loopback";
    }
  }
  // A FETCH_ADD of node 0's worker.
  VerbStatus add(size_t worker, NodeId to) {
    uint64_t old = 0;
    Verb verb = net_->verb_to(to.value, VerbKind::kFetchAdd, 0, &old, 8, 1);
    verb.operand = 1;
    Completion done{};
    EXPECT_TRUE(net_->until_polling([&] { return net_->wire(0, worker).post(to, Domain::kEngine, {&verb, 1}); }));
    EXPECT_TRUE(net_->until_polling([&] {
      return net_->wire(0, worker).poll_completions(Domain::kEngine, {&done, 1}) == 1;
    }));
    return done.status;
  }
  void expect_freed() {
    net_.reset();
    EXPECT_EQ(stub_->live(), 0U);
    EXPECT_EQ(stub_->mistakes(), 0U);
    stub_.reset();
  }
  std::string said(size_t node) {
    net_->control();
    std::string all;
    for (const InterconnectEvent& event : net_->node(node).events) {
      if (event.kind == Kind::kDoorbellsShared) all += event.why + "\n";
    }
    return all;
  }

  std::unique_ptr<StubVerbs> stub_;
  std::unique_ptr<VerbsTestNet> net_;
};

TEST_F(WorkerDomainTest, EveryWorkerHasItsOwn) {
  connect({});
  ASSERT_EQ(stub_->thread_domains().size(), 2 * kWorkers);
  EXPECT_EQ(stub_->live("parent domain"), 2 * kWorkers);
  std::map<const StubVerbs::Td*, std::set<const StubVerbs::Cq*>> queues;
  for (const StubVerbs::Cq* cq : stub_->completion_queues()) {
    EXPECT_EQ(cq->single_threaded, cq->td != nullptr);
    if (cq->td != nullptr) queues[cq->td].insert(cq);
  }
  EXPECT_EQ(stub_->completion_queues().size(), 2 * (kWorkers + 1)) << "and one of each node's target queues";
  std::map<const StubVerbs::Td*, size_t> posting;
  size_t targets = 0;
  for (const StubVerbs::Qp* qp : stub_->queue_pairs()) {
    if (qp->access != 0) {
      ++targets;
      EXPECT_TRUE(qp->domain->td == nullptr && qp->completes->td == nullptr) << "others than the worker destroy it";
      continue;
    }
    ASSERT_NE(qp->domain->td, nullptr) << "a worker posts to it";
    EXPECT_EQ(qp->domain->td, qp->completes->td);
    ++posting[qp->domain->td];
  }
  for (const StubVerbs::Td* td : stub_->thread_domains()) {
    EXPECT_EQ(queues[td].size(), 1U);
    EXPECT_GE(posting[td], 2U) << "packets, and verbs of the engine's domain";
  }
  EXPECT_GE(targets, 2 * kWorkers) << "of the peer, and of the loopback";
  for (const size_t node : {0, 1}) {
    EXPECT_EQ(net_->interconnect(node).own_doorbells(), kWorkers);
    EXPECT_EQ(said(node), "");
  }
  expect_freed();
}

// I1 of worker_domain.h: while the workers run, the control thread ends grants and connections.
TEST_F(WorkerDomainTest, NothingOfAWorkerIsUsedByAnotherThread) {
  connect({});
  stub_->forget_threads();
  std::atomic<bool> stop{false};
  std::array<std::atomic<uint64_t>, kWorkers> rounds{};
  std::vector<std::thread> workers;
  for (size_t w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      uint64_t old = 0;
      Verb verb = net_->verb_to(1, VerbKind::kFetchAdd, 8 * w, &old, 8, 1);
      verb.operand = 1;
      std::vector<Completion> out(64);
      for (; !stop.load(); rounds[w].fetch_add(1)) {
        for (const size_t node : {0, 1}) {
          net_->receive(node, w);
          net_->interconnect(node).set_sleeping(worker_id(w), true);
          net_->wire(node, w).pending();
          net_->interconnect(node).set_sleeping(worker_id(w), false);
        }
        net_->wire(0, w).reset(kB, Domain::kEngine);
        net_->wire(0, w).post(kB, Domain::kEngine, {&verb, 1});
        net_->wire(0, w).poll_completions(Domain::kEngine, out);
      }
    });
  }
  const auto let_them_work = [&] {
    for (auto& of : rounds) {
      for (const uint64_t until = of.load() + 10; of.load() < until;) net_->control();
    }
  };
  for (int i = 0; i < 20; ++i) {
    let_them_work();
    net_->node(1).regions.revoke(kA, Domain::kEngine);
    let_them_work();
    net_->node(1).regions.grant(kA, Domain::kEngine);
  }
  net_->interconnect(0).leave(kB);
  let_them_work();
  stop = true;
  for (std::thread& worker : workers) worker.join();
  for (const StubVerbs::Td* td : stub_->thread_domains()) {
    EXPECT_EQ(td->threads.size(), 1U);
    EXPECT_FALSE(td->threads.contains(std::this_thread::get_id()));
  }
  expect_freed();
}

TEST_F(WorkerDomainTest, ADeviceWithoutThreadDomainsIsSharedAndSaysSoOnce) {
  connect({.thread_domains = false});
  EXPECT_EQ(said(0),
            "device stub0: 0 of 3 workers have a doorbell register of their own, the others share the driver's (no "
            "thread domain: Operation not supported)\n");
  EXPECT_EQ(net_->interconnect(0).own_doorbells(), 0);
  EXPECT_FALSE(stub_->completion_queues().empty() || stub_->queue_pairs().empty());
  for (const StubVerbs::Cq* cq : stub_->completion_queues()) EXPECT_FALSE(cq->single_threaded);
  for (const StubVerbs::Qp* qp : stub_->queue_pairs()) EXPECT_EQ(qp->domain->td, nullptr);
  expect_freed();
}

TEST_F(WorkerDomainTest, WhenTheRegistersAreUsedUpTheOtherWorkersShare) {
  connect({.thread_domains_max = 2});
  EXPECT_EQ(said(1),
            "device stub1: 2 of 3 workers have a doorbell register of their own, the others share the driver's (no "
            "thread domain: No such file or directory)\n");
  EXPECT_EQ(net_->interconnect(1).own_doorbells(), 2);
  EXPECT_TRUE(net_->wire(0, 1).worker_domain().own_doorbell());
  EXPECT_FALSE(net_->wire(0, 2).worker_domain().own_doorbell());
  expect_freed();
}

TEST_F(WorkerDomainTest, SwitchedOffAsksForNothing) {
  connect({}, [](size_t, VerbsOptions& options) { options.worker_doorbells = false; });
  EXPECT_TRUE(stub_->thread_domains().empty());
  EXPECT_EQ(stub_->live("parent domain"), 0U);
  EXPECT_EQ(said(0), "");
  EXPECT_EQ(net_->interconnect(0).own_doorbells(), 0);
  expect_freed();
}

// What a driver may lack of the completion queue; the doorbell is the worker's own all the same.
TEST_F(WorkerDomainTest, ACompletionQueueWithoutTheDomain) {
  connect({.cq_takes_domain = false});
  size_t single = 0;
  for (const StubVerbs::Cq* cq : stub_->completion_queues()) single += cq->single_threaded ? 1 : 0;
  EXPECT_EQ(single, 2 * kWorkers);
  EXPECT_EQ(net_->interconnect(0).own_doorbells(), kWorkers);
  expect_freed();
  connect({.cq_takes_flags = false});
  EXPECT_EQ(stub_->completion_queues().size(), 2 * (kWorkers + 1));
  for (const StubVerbs::Cq* cq : stub_->completion_queues()) EXPECT_FALSE(cq->single_threaded);
  EXPECT_EQ(net_->interconnect(0).own_doorbells(), kWorkers);
  expect_freed();
}

// All threads swap by one queue pair under a mutex: it is nobody's own.
TEST_F(WorkerDomainTest, TheLoopOfTheNodeIsPlain) {
  connect({.atomics = IBV_ATOMIC_HCA},
          [](size_t, VerbsOptions& options) { options.remote_lock_mode = RemoteLockMode::kNicLoopback; });
  EXPECT_EQ(stub_->completion_queues().size(), 2 * (kWorkers + 2));
  stub_->forget_threads();
  LocalAtomics* const words = net_->interconnect(0).local_atomics();
  ASSERT_NE(words, nullptr);
  EXPECT_TRUE(words->swap(net_->node(0).region_id, 64, 0, 1));
  EXPECT_EQ(words->swaps(), 1U);
  for (const StubVerbs::Td* td : stub_->thread_domains()) EXPECT_TRUE(td->threads.empty());
  expect_freed();
}

// Whatever allocation is refused, in turn: the node starts without it, or does not start and says why. Nothing is left.
TEST_F(WorkerDomainTest, ARefusedAllocationLeavesNothing) {
  RealClock clock;
  std::set<std::string> refused, survived;
  for (size_t nth = 1;; ++nth) {
    StubVerbs stub({.devices = 1, .atomics = IBV_ATOMIC_HCA});
    VerbsOptions options;
    options.tcp = tcp_test_options(0, kWorkers, 1);
    use_stub(options, "stub0");
    options.remote_lock_mode = RemoteLockMode::kNicLoopback;
    Regions regions;
    stub.refuse(nth);
    {
      const auto made = VerbsInterconnect::create(options, &regions, &clock);
      if (stub.refused().empty()) {
        EXPECT_TRUE(made);
        break;
      }
      refused.insert(stub.refused());
      if (made) survived.insert(stub.refused());
      EXPECT_TRUE(made || made.error().text().find("stub0") != std::string::npos) << made.error().text();
    }
    EXPECT_EQ(stub.live(), 0U) << "after a refused " << stub.refused();
    EXPECT_EQ(stub.mistakes(), 0U) << "after a refused " << stub.refused();
  }
  const std::set<std::string> all = {"channel", "cq", "cq_ex", "device", "mr", "parent domain", "pd", "qp", "td"};
  EXPECT_EQ(refused, all);
  const std::set<std::string> done_without = {"cq_ex", "parent domain", "td"};
  EXPECT_EQ(survived, done_without);
}

}  // namespace
}  // namespace weft
