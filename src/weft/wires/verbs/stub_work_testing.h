// The work of StubVerbs: what is posted, carried out and completed.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/fabric/execute_verb.h"
#include "weft/wires/verbs/stub_verbs_testing.h"

namespace weft {

inline int StubVerbs::get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void**) {
  StubVerbs& stub = stub_of(channel->context);
  const std::scoped_lock lock(stub.mutex_);
  Channel* const of = static_cast<Channel*>(channel);
  uint64_t one = 0;
  if (of->events.empty() || read(of->fd, &one, sizeof one) != sizeof one) {
    errno = EAGAIN;
    return -1;
  }
  *cq = ibv_cq_ex_to_cq(of->events.front());
  of->events.pop_front();
  return 0;
}

inline int StubVerbs::poll_cq(ibv_cq* cq, int count, ibv_wc* out) {
  const std::scoped_lock lock(stub_of(cq->context).mutex_);
  Cq* const of = cq_of(cq);
  use(of->td);
  int polled = 0;
  for (; polled < count && !of->done.empty(); ++polled) {
    out[polled] = of->done.front();
    of->done.pop_front();
  }
  return polled;
}

inline int StubVerbs::req_notify_cq(ibv_cq* cq, int) {
  const std::scoped_lock lock(stub_of(cq->context).mutex_);
  use(cq_of(cq)->td);
  cq_of(cq)->armed = true;
  return 0;
}

inline int StubVerbs::post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** failed) {
  StubVerbs& stub = stub_of(qp->context);
  const std::scoped_lock lock(stub.mutex_);
  Qp& of = *qp_of(qp);
  use(of);
  for (ibv_send_wr* work = first; work != nullptr; work = work->next) {
    if (of.now != IBV_QPS_RTS && of.now != IBV_QPS_ERR) {
      *failed = work;
      return EINVAL;
    }
    stub.execute(of, *work);
  }
  return 0;
}

inline int StubVerbs::post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr**) {
  StubVerbs& stub = stub_of(qp->context);
  const std::scoped_lock lock(stub.mutex_);
  Qp& of = *qp_of(qp);
  use(of);
  for (const ibv_recv_wr* work = first; work != nullptr; work = work->next) {
    of.receives.push_back({work->wr_id, work->sg_list[0]});
  }
  if (of.now == IBV_QPS_ERR) stub.fail(of);
  if (Qp* const sender = stub.other_end(of); sender != nullptr) stub.drain(*sender);
  return 0;
}

// nullptr if it does not answer.
inline StubVerbs::Qp* StubVerbs::other_end(const Qp& qp) {
  const auto it = qps_.find(qp.to);
  if (it == qps_.end()) return nullptr;
  Qp* const other = it->second;
  return other->to == qp.qp_num && (other->now == IBV_QPS_RTR || other->now == IBV_QPS_RTS) ? other : nullptr;
}

inline const StubVerbs::Mr* StubVerbs::memory(uint32_t key, const Pd& domain, uint64_t at, uint64_t bytes,
                                              unsigned int access) const {
  const auto it = mrs_.find(key);
  if (it == mrs_.end()) return nullptr;
  const Mr* const mr = it->second;
  const auto base = reinterpret_cast<uint64_t>(mr->addr);
  const bool inside = at >= base && at - base <= mr->length && bytes <= mr->length - (at - base);
  return mr->pd == domain.base && inside && (mr->access & access) == access ? mr : nullptr;
}

inline void StubVerbs::execute(Qp& qp, const ibv_send_wr& work) {
  if (qp.now == IBV_QPS_ERR) return finish(qp, work, IBV_WC_WR_FLUSH_ERR);
  const bool sends = work.opcode == IBV_WR_SEND || work.opcode == IBV_WR_SEND_WITH_IMM;
  const bool in_line = (work.send_flags & IBV_SEND_INLINE) != 0;
  const bool writes = !sends && work.opcode != IBV_WR_RDMA_WRITE;
  for (int i = 0; i < work.num_sge && !in_line; ++i) {
    const ibv_sge& part = work.sg_list[i];
    if (memory(part.lkey, *qp.domain, part.addr, part.length, writes ? IBV_ACCESS_LOCAL_WRITE : 0) == nullptr) {
      ++mistakes_;
      return finish(qp, work, IBV_WC_LOC_PROT_ERR);
    }
  }
  if (!sends) return finish(qp, work, execute_one_sided(qp, work));
  Qp::Send send = {work, {}};
  if (work.num_sge != 0) {
    send.bytes.resize(work.sg_list[0].length);
    std::memcpy(send.bytes.data(), reinterpret_cast<const void*>(work.sg_list[0].addr), send.bytes.size());
  }
  qp.waiting.push_back(std::move(send));
  drain(qp);
}

inline void StubVerbs::drain(Qp& qp) {
  while (!qp.waiting.empty()) {
    Qp* const to = other_end(qp);
    if (to != nullptr && to->receives.empty()) return;
    const Qp::Send send = std::move(qp.waiting.front());
    qp.waiting.pop_front();
    finish(qp, send.work, to == nullptr ? IBV_WC_RETRY_EXC_ERR : deliver(*to, send));
  }
}

inline ibv_wc_status StubVerbs::deliver(Qp& to, const Qp::Send& send) {
  const Qp::Receive receive = to.receives.front();
  to.receives.pop_front();
  ibv_wc wc{};
  wc.wr_id = receive.id;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = static_cast<uint32_t>(send.bytes.size());
  if (send.work.opcode == IBV_WR_SEND_WITH_IMM) wc.wc_flags = IBV_WC_WITH_IMM;
  const bool fits =
      send.bytes.size() <= receive.part.length &&
      memory(receive.part.lkey, *to.domain, receive.part.addr, send.bytes.size(), IBV_ACCESS_LOCAL_WRITE) != nullptr;
  wc.status = fits ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
  if (fits) std::memcpy(reinterpret_cast<void*>(receive.part.addr), send.bytes.data(), send.bytes.size());
  complete(to, wc);
  return fits ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR;
}

inline ibv_wc_status StubVerbs::execute_one_sided(Qp& qp, const ibv_send_wr& work) {
  Qp* const to = other_end(qp);
  if (to == nullptr) return IBV_WC_RETRY_EXC_ERR;
  Verb verb;
  unsigned int access = IBV_ACCESS_REMOTE_ATOMIC;
  if (work.opcode == IBV_WR_RDMA_READ || work.opcode == IBV_WR_RDMA_WRITE) {
    const bool read = work.opcode == IBV_WR_RDMA_READ;
    verb.kind = read ? VerbKind::kRead : VerbKind::kWrite;
    access = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  } else {
    const bool swap = work.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    verb.kind = swap ? VerbKind::kCompareSwap : VerbKind::kFetchAdd;
    verb.compare = swap ? work.wr.atomic.compare_add : 0;
    verb.operand = swap ? work.wr.atomic.swap : work.wr.atomic.compare_add;
  }
  verb.bytes = work.num_sge == 0 ? 0 : work.sg_list[0].length;
  verb.local = work.num_sge == 0 ? nullptr : reinterpret_cast<std::byte*>(work.sg_list[0].addr);
  const uint64_t at = is_atomic(verb.kind) ? work.wr.atomic.remote_addr : work.wr.rdma.remote_addr;
  const uint32_t key = is_atomic(verb.kind) ? work.wr.atomic.rkey : work.wr.rdma.rkey;
  const bool allowed = (to->access & access) != 0 && memory(key, *to->domain, at, reach(verb), access) != nullptr;
  if (allowed && execute_verb(verb, reinterpret_cast<std::byte*>(at))) return IBV_WC_SUCCESS;
  fail(*to);
  return IBV_WC_REM_ACCESS_ERR;
}

inline void StubVerbs::finish(Qp& qp, const ibv_send_wr& work, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && (work.send_flags & IBV_SEND_SIGNALED) == 0) return;
  ibv_wc wc{};
  wc.wr_id = work.wr_id;
  wc.status = status;
  complete(qp, wc);
  if (status != IBV_WC_SUCCESS) fail(qp);
}

inline void StubVerbs::complete(Qp& qp, ibv_wc wc) {
  wc.qp_num = qp.qp_num;
  Cq& cq = *qp.completes;
  cq.done.push_back(wc);
  if (cq.done.size() > static_cast<size_t>(cq.cqe)) ++mistakes_;
  if (!cq.armed) return;
  cq.armed = false;
  auto* const channel = static_cast<Channel*>(cq.channel);
  channel->events.push_back(&cq);
  const uint64_t one = 1;
  if (write(channel->fd, &one, sizeof one) != sizeof one) ++mistakes_;
}

// It is in the error state: what is posted comes back.
inline void StubVerbs::fail(Qp& qp) {
  qp.now = IBV_QPS_ERR;
  for (const Qp::Send& send : std::exchange(qp.waiting, {})) finish(qp, send.work, IBV_WC_WR_FLUSH_ERR);
  for (const Qp::Receive& receive : std::exchange(qp.receives, {})) {
    ibv_wc wc{};
    wc.wr_id = receive.id;
    wc.status = IBV_WC_WR_FLUSH_ERR;
    complete(qp, wc);
  }
}

}  // namespace weft
