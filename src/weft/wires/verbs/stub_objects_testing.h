// The objects of StubVerbs: what is made, found out and freed.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "weft/wires/verbs/stub_verbs_testing.h"

namespace weft {

inline const VerbsLibrary& StubVerbs::library() {
  static const VerbsLibrary kLibrary = [] {
    VerbsLibrary all{};
    all.get_device_list = get_device_list;
    all.free_device_list = [](ibv_device** list) { delete[] list; };
    all.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
    all.open_device = open_device;
    all.close_device = close_device;
    all.query_device = query_device;
    all.query_port = query_port;
    all.query_gid = query_gid;
    all.alloc_pd = alloc_pd;
    all.dealloc_pd = dealloc_pd;
    all.reg_mr = reg_mr;
    all.dereg_mr = dereg_mr;
    all.create_comp_channel = create_comp_channel;
    all.destroy_comp_channel = destroy_comp_channel;
    all.create_cq = create_cq;
    all.destroy_cq = destroy_cq;
    all.get_cq_event = get_cq_event;
    all.ack_cq_events = [](ibv_cq*, unsigned int) {};
    all.create_qp = create_qp;
    all.modify_qp = modify_qp;
    all.destroy_qp = destroy_qp;
    all.wc_status_str = [](ibv_wc_status) { return "stub status"; };
    all.port_state_str = [](ibv_port_state) { return "PORT_ACTIVE"; };
    return all;
  }();
  return kLibrary;
}

inline ibv_device** StubVerbs::get_device_list(int* count) {
  *count = static_cast<int>(current_->devices_.size());
  auto** const list = new ibv_device*[current_->devices_.size() + 1]();
  for (size_t d = 0; d < current_->devices_.size(); ++d) list[d] = &current_->devices_[d];
  return list;
}

inline ibv_context* StubVerbs::open_device(ibv_device* device) {
  StubVerbs& stub = *current_;
  const std::scoped_lock lock(stub.mutex_);
  if (stub.refuses("device")) return nullptr;
  auto* const made = new Context();
  made->stub = &stub;
  made->device = static_cast<size_t>(device - stub.devices_.data());
  verbs_context& verbs = made->verbs;
  verbs.sz = sizeof verbs;
  verbs.context.device = device;
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs.context.ops.poll_cq = poll_cq;
  verbs.context.ops.req_notify_cq = req_notify_cq;
  verbs.context.ops.post_send = post_send;
  verbs.context.ops.post_recv = post_recv;
  if (stub.options_.thread_domains) {
    verbs.alloc_td = alloc_td;
    verbs.dealloc_td = dealloc_td;
    verbs.alloc_parent_domain = alloc_parent_domain;
  }
  if (stub.options_.cq_takes_flags) verbs.create_cq_ex = create_cq_ex;
  ++stub.live_["device"];
  return &verbs.context;
}

inline int StubVerbs::close_device(ibv_context* context) {
  StubVerbs& stub = stub_of(context);
  const std::scoped_lock lock(stub.mutex_);
  --stub.live_["device"];
  delete &context_of(context);
  return 0;
}

inline int StubVerbs::query_device(ibv_context* context, ibv_device_attr* out) {
  *out = {};
  out->max_qp = 1 << 16;
  out->max_qp_wr = 1 << 14;
  out->max_cqe = 1 << 22;
  out->max_pd = 1 << 10;
  out->max_qp_rd_atom = out->max_qp_init_rd_atom = 16;
  out->atomic_cap = stub_of(context).options_.atomics;
  out->phys_port_cnt = 1;
  return 0;
}

inline int StubVerbs::query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* out) {
  auto* const port = reinterpret_cast<ibv_port_attr*>(out);
  *port = {};
  port->state = IBV_PORT_ACTIVE;
  port->active_mtu = IBV_MTU_4096;
  port->gid_tbl_len = 1;
  port->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

inline int StubVerbs::query_gid(ibv_context* context, uint8_t, int, ibv_gid* out) {
  *out = {};
  out->raw[10] = out->raw[11] = 0xff;
  out->raw[12] = 10;
  out->raw[15] = static_cast<uint8_t>(context_of(context).device + 1);
  return 0;
}

inline ibv_pd* StubVerbs::alloc_pd(ibv_context* context) {
  StubVerbs& stub = stub_of(context);
  const std::scoped_lock lock(stub.mutex_);
  if (stub.refuses("pd")) return nullptr;
  Pd* const pd = stub.make<Pd>("pd", context);
  pd->base = pd;
  return pd;
}

inline int StubVerbs::dealloc_pd(ibv_pd* pd) {
  StubVerbs& stub = stub_of(pd->context);
  const std::scoped_lock lock(stub.mutex_);
  Pd* const freed = pd_of(pd);
  if (freed->users != 0) return stub.busy();
  if (freed->td != nullptr) --freed->td->users;
  if (freed->base != freed) --freed->base->users;
  --stub.live_[freed->base != freed ? "parent domain" : "pd"];
  delete freed;
  return 0;
}

inline ibv_td* StubVerbs::alloc_td(ibv_context* context, ibv_td_init_attr*) {
  StubVerbs& stub = stub_of(context);
  const std::scoped_lock lock(stub.mutex_);
  if (stub.refuses("td")) return nullptr;
  if (context_of(context).thread_domains == stub.options_.thread_domains_max) {
    errno = ENOENT;  // as mlx5
    return nullptr;
  }
  ++context_of(context).thread_domains;
  Td* const td = stub.make<Td>("td", context);
  stub.tds_.insert(td);
  return td;
}

inline int StubVerbs::dealloc_td(ibv_td* td) {
  StubVerbs& stub = stub_of(td->context);
  const std::scoped_lock lock(stub.mutex_);
  Td* const freed = static_cast<Td*>(td);
  if (freed->users != 0) return stub.busy();
  --context_of(td->context).thread_domains;
  --stub.live_["td"];
  stub.tds_.erase(freed);
  delete freed;
  return 0;
}

inline ibv_pd* StubVerbs::alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  StubVerbs& stub = stub_of(context);
  const std::scoped_lock lock(stub.mutex_);
  if (stub.refuses("parent domain")) return nullptr;
  Pd* const pd = stub.make<Pd>("parent domain", context);
  pd->base = pd_of(wanted->pd);
  pd->td = static_cast<Td*>(wanted->td);
  ++pd->base->users;
  ++pd->td->users;
  return pd;
}

inline ibv_mr* StubVerbs::reg_mr(ibv_pd* pd, void* base, size_t bytes, int access) {
  StubVerbs& stub = stub_of(pd->context);
  const std::scoped_lock lock(stub.mutex_);
  if (stub.refuses("mr")) return nullptr;
  Mr* const mr = stub.make<Mr>("mr", pd->context);
  mr->pd = pd;
  mr->addr = base;
  mr->length = bytes;
  mr->access = static_cast<unsigned int>(access);
  mr->lkey = mr->rkey = ++stub.last_number_;
  stub.mrs_[mr->lkey] = mr;
  ++pd_of(pd)->users;
  return mr;
}

inline int StubVerbs::dereg_mr(ibv_mr* mr) {
  StubVerbs& stub = stub_of(mr->context);
  const std::scoped_lock lock(stub.mutex_);
  --pd_of(mr->pd)->users;
  stub.mrs_.erase(mr->lkey);
  --stub.live_["mr"];
  delete static_cast<Mr*>(mr);
  return 0;
}

inline ibv_comp_channel* StubVerbs::create_comp_channel(ibv_context* context) {
  StubVerbs& stub = stub_of(context);
  const std::scoped_lock lock(stub.mutex_);
  if (stub.refuses("channel")) return nullptr;
  Channel* const channel = stub.make<Channel>("channel", context);
  channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return channel;
}

inline int StubVerbs::destroy_comp_channel(ibv_comp_channel* channel) {
  StubVerbs& stub = stub_of(channel->context);
  const std::scoped_lock lock(stub.mutex_);
  Channel* const freed = static_cast<Channel*>(channel);
  if (freed->users != 0) return stub.busy();
  close(freed->fd);
  --stub.live_["channel"];
  delete freed;
  return 0;
}

inline StubVerbs::Cq* StubVerbs::make_cq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  Cq* const cq = make<Cq>("cq", context);
  cq->cqe = entries;
  cq->channel = channel;
  if (channel != nullptr) ++static_cast<Channel*>(channel)->users;
  cqs_.insert(cq);
  return cq;
}

inline ibv_cq* StubVerbs::create_cq(ibv_context* context, int entries, void*, ibv_comp_channel* channel, int) {
  StubVerbs& stub = stub_of(context);
  const std::scoped_lock lock(stub.mutex_);
  return stub.refuses("cq") ? nullptr : ibv_cq_ex_to_cq(stub.make_cq(context, entries, channel));
}

inline ibv_cq_ex* StubVerbs::create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  StubVerbs& stub = stub_of(context);
  const std::scoped_lock lock(stub.mutex_);
  if (stub.refuses("cq_ex")) return nullptr;
  const bool with_domain = (wanted->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
  if (with_domain && !stub.options_.cq_takes_domain) {
    errno = EINVAL;
    return nullptr;
  }
  Cq* const cq = stub.make_cq(context, static_cast<int>(wanted->cqe), wanted->channel);
  cq->single_threaded = (wanted->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  if (with_domain) {
    cq->td = pd_of(wanted->parent_domain)->td;
    ++cq->td->users;
  }
  return cq;
}

inline int StubVerbs::destroy_cq(ibv_cq* cq) {
  StubVerbs& stub = stub_of(cq->context);
  const std::scoped_lock lock(stub.mutex_);
  Cq* const freed = cq_of(cq);
  if (freed->users != 0) return stub.busy();
  use(freed->td);
  if (freed->td != nullptr) --freed->td->users;
  if (freed->channel != nullptr) {
    auto* const channel = static_cast<Channel*>(freed->channel);
    --channel->users;
    std::erase(channel->events, freed);
  }
  stub.cqs_.erase(freed);
  --stub.live_["cq"];
  delete freed;
  return 0;
}

inline ibv_qp* StubVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  StubVerbs& stub = stub_of(pd->context);
  const std::scoped_lock lock(stub.mutex_);
  if (wanted->cap.max_inline_data > kInlineMax) {
    errno = EINVAL;
    return nullptr;
  }
  if (stub.refuses("qp")) return nullptr;
  Qp* const qp = stub.make<Qp>("qp", pd->context);
  qp->pd = pd;
  qp->domain = pd_of(pd);
  qp->send_cq = qp->recv_cq = wanted->send_cq;
  qp->completes = cq_of(wanted->send_cq);
  qp->qp_num = ++stub.last_number_;
  ++qp->domain->users;
  ++qp->completes->users;
  stub.qps_[qp->qp_num] = qp;
  return qp;
}

inline int StubVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
  StubVerbs& stub = stub_of(qp->context);
  const std::scoped_lock lock(stub.mutex_);
  Qp& of = *qp_of(qp);
  use(of);
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) of.access = wanted->qp_access_flags;
  if ((mask & IBV_QP_DEST_QPN) != 0) of.to = wanted->dest_qp_num;
  if (wanted->qp_state == IBV_QPS_ERR) {
    stub.fail(of);
  } else {
    of.now = wanted->qp_state;
  }
  return 0;
}

inline int StubVerbs::destroy_qp(ibv_qp* qp) {
  StubVerbs& stub = stub_of(qp->context);
  const std::scoped_lock lock(stub.mutex_);
  Qp* const freed = qp_of(qp);
  use(*freed);
  std::erase_if(freed->completes->done, [&](const ibv_wc& wc) { return wc.qp_num == freed->qp_num; });
  --freed->domain->users;
  --freed->completes->users;
  stub.qps_.erase(freed->qp_num);
  --stub.live_["qp"];
  delete freed;
  return 0;
}

}  // namespace weft
