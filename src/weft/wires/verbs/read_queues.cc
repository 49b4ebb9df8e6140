#include "weft/wires/verbs/read_queues.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/check.h"

namespace weft {
namespace {

uint32_t sharers_of(const ReadQueuesOptions& options) {
  switch (options.policy) {
    case QueuePairPolicy::kShared:
      return options.threads;
    case QueuePairPolicy::kMultiplexed:
      return std::min(options.sharing, options.threads);
    case QueuePairPolicy::kWorker:
    case QueuePairPolicy::kDoorbell:
      return 1;
  }
  return 1;
}

}  // namespace

Result<std::unique_ptr<ReadQueues>> ReadQueues::create(const VerbsNic& nic, const VerbsNic& target,
                                                       const VerbsRegions::Entry& from,
                                                       const ReadQueuesOptions& options) {
  WEFT_CHECK(options.threads != 0 && options.sharing != 0 && options.depth != 0, "somebody reads something");
  std::unique_ptr<ReadQueues> queues(new ReadQueues(nic, from, options));
  auto memory = VerbsMemory::create(nic, size_t{options.threads} * options.depth * kReadBytes);
  if (!memory) return memory.error();
  queues->memory_ = std::move(*memory);
  const uint32_t sharers = sharers_of(options);
  for (uint32_t thread = 0; thread < options.threads; ++thread) {
    if (thread % sharers == 0) {
      if (auto added = queues->add_queue(target, std::min(sharers, options.threads - thread)); !added)
        return added.error();
    }
    queues->prepare(thread);
  }
  return queues;
}

Result<void> ReadQueues::add_queue(const VerbsNic& target, uint32_t sharers) {
  Queue& queue = queues_.emplace_back();
  queue.shared = sharers != 1;
  queue.domain = WorkerDomain::create(nic_, options_.policy == QueuePairPolicy::kDoorbell);
  if (!queue.domain->why().empty()) {
    return Error{Code::kBadOption, "device " + nic_.device().name + ": " + queue.domain->why()};
  }
  // After a failure everything that is posted comes back.
  auto cq = VerbsCq::create(nic_, size_t{sharers} * options_.depth, queue.domain.get());
  if (!cq) return cq.error();
  queue.cq = std::move(*cq);
  auto target_cq = VerbsCq::create(target, 1);
  if (!target_cq) return target_cq.error();
  queue.target_cq = std::move(*target_cq);
  VerbsQp::Options wanted;
  wanted.sends = sharers * options_.depth;
  auto qp = VerbsQp::create(nic_, *queue.cq, wanted);
  if (!qp) return qp.error();
  queue.qp = std::move(*qp);
  wanted.sends = 1;
  wanted.remote_access = IBV_ACCESS_REMOTE_READ;
  wanted.protection = target.protection(Domain::kEngine);
  auto other = VerbsQp::create(target, *queue.target_cq, wanted);
  if (!other) return other.error();
  queue.target = std::move(*other);
  if (auto connected = queue.target->connect(queue.qp->address(), false); !connected) return connected;
  return queue.qp->connect(queue.target->address(), true);
}

void ReadQueues::prepare(uint32_t thread) {
  Reader& reader = readers_[thread];
  reader.queue = &queues_.back();
  reader.works.resize(options_.depth);
  reader.parts.resize(options_.depth);
  for (size_t i = 0; i < options_.depth; ++i) {
    reader.parts[i] = {reinterpret_cast<uint64_t>(word(thread, i)), kReadBytes, memory_.key()};
    ibv_send_wr& work = reader.works[i];
    work = {};
    work.wr_id = thread;
    work.sg_list = &reader.parts[i];
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_READ;
    work.wr.rdma.rkey = from_.key;
  }
}

// Reads of one queue pair complete in order, so the last one of a post is signalled.
Result<void> ReadQueues::post(uint32_t thread, std::span<const uint64_t> offsets) {
  WEFT_CHECK(!offsets.empty() && offsets.size() <= options_.depth, "a thread posts up to `depth` READs");
  Reader& reader = readers_[thread];
  for (size_t i = 0; i < offsets.size(); ++i) {
    const bool last = i + 1 == offsets.size();
    reader.works[i].wr.rdma.remote_addr = from_.base + offsets[i];
    reader.works[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
    reader.works[i].next = last ? nullptr : &reader.works[i + 1];
  }
  const auto held = lock(*reader.queue);
  WEFT_CHECK(std::exchange(reader.done, false), "what it posted before is done");
  if (const int error = reader.queue->qp->post(reader.works.data()); error != 0) {
    return Error{Code::kOs, nic_.name() + ": READs are not taken: " + strerrordesc_np(error)};
  }
  return {};
}

Result<bool> ReadQueues::done(uint32_t thread) {
  Reader& reader = readers_[thread];
  Queue& queue = *reader.queue;
  const auto held = lock(queue);
  if (!reader.done) {
    std::array<ibv_wc, 16> completions;
    const int count = queue.cq->poll(completions);
    WEFT_CHECK(count >= 0, "the completion queue holds what is outstanding");
    for (const ibv_wc& wc : std::span(completions).first(static_cast<size_t>(count))) {
      if (queue.failed == IBV_WC_SUCCESS) queue.failed = wc.status;
      readers_[wc.wr_id].done = true;
    }
  }
  if (queue.failed != IBV_WC_SUCCESS) {
    return Error{Code::kOs, nic_.name() + ": READs: " + nic_.library().wc_status_str(queue.failed)};
  }
  return reader.done;
}

}  // namespace weft
