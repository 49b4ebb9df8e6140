#include "weft/wires/verbs/qp.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft {
namespace {

// A packet that is not acknowledged is sent again after 4.096 us * 2^15 (134 ms), six times: a dead host is detected
// after a second. Seven means forever on some devices. Leases are shorter and detect most deaths earlier.
constexpr uint8_t kAckTimeout = 15;
constexpr uint8_t kRetries = 6;
// A receiver without a free buffer makes its sender wait, as long as it lives: this is the back-pressure.
constexpr uint8_t kReceiverRetries = 7;    // forever
constexpr uint8_t kReceiverWait = 8;       // 160 us
constexpr uint8_t kReadsOutstanding = 16;  // READs and atomics in flight; more wait in the queue

Error os_error(const VerbsNic& nic, const std::string& what, int error) {
  return {Code::kOs, nic.name() + ": " + what + ": " + strerrordesc_np(error)};
}

// Without the lock of the completion queue, where the device can do that. Drivers that take no parent domain here
// refuse the attribute, and are asked without it.
ibv_cq* create_worker_cq(const VerbsNic& nic, uint32_t entries, ibv_comp_channel* channel, const WorkerDomain& worker) {
  constexpr uint32_t kFlags = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  for (const uint32_t attributes : {kFlags | IBV_CQ_INIT_ATTR_MASK_PD, kFlags}) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = entries;
    wanted.channel = channel;
    wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
    wanted.comp_mask = attributes;
    wanted.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    wanted.parent_domain = worker.protection();
    if (ibv_cq_ex* const made = ibv_create_cq_ex(nic.context(), &wanted); made != nullptr) return ibv_cq_ex_to_cq(made);
  }
  return nullptr;
}

uint8_t reads_of(int device_limit) { return static_cast<uint8_t>(std::clamp<int>(device_limit, 1, kReadsOutstanding)); }

}  // namespace

Result<std::unique_ptr<VerbsCq>> VerbsCq::create(const VerbsNic& nic, size_t entries, const WorkerDomain* worker) {
  const int limit = nic.device().attributes.max_cqe;
  if (entries > static_cast<size_t>(limit)) {
    return Error{Code::kBadOption, nic.name() + ": a worker's completion queue needs " + std::to_string(entries) +
                                       " entries, and the device's limit is " + std::to_string(limit) +
                                       ": have fewer nodes (cluster.nodes)"};
  }
  std::unique_ptr<VerbsCq> cq(new VerbsCq(nic.library(), worker != nullptr ? worker->protection() : nic.protection()));
  cq->channel_ = nic.library().create_comp_channel(nic.context());
  if (cq->channel_ == nullptr) return os_error(nic, "no completion channel", errno);
  fcntl(cq->channel_->fd, F_SETFL, fcntl(cq->channel_->fd, F_GETFL) | O_NONBLOCK);
  if (worker != nullptr && worker->own_doorbell()) {
    cq->queue_ = create_worker_cq(nic, static_cast<uint32_t>(entries), cq->channel_, *worker);
  }
  if (cq->queue_ == nullptr) {
    cq->queue_ = nic.library().create_cq(nic.context(), static_cast<int>(entries), nullptr, cq->channel_, 0);
  }
  if (cq->queue_ == nullptr) return os_error(nic, "no completion queue", errno);
  return cq;
}

VerbsCq::~VerbsCq() {
  if (queue_ != nullptr) library_.destroy_cq(queue_);
  if (channel_ != nullptr) library_.destroy_comp_channel(channel_);
}

void VerbsCq::disarm() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned int events = 0;
  while (library_.get_cq_event(channel_, &queue, &context) == 0) ++events;
  if (events != 0) library_.ack_cq_events(queue_, events);
}

Result<std::unique_ptr<VerbsQp>> VerbsQp::create(const VerbsNic& nic, const VerbsCq& cq, const Options& options) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq.queue();
  wanted.cap.max_send_wr = options.sends;
  wanted.cap.max_recv_wr = options.receives;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.qp_type = IBV_QPT_RC;
  ibv_qp* made = nullptr;
  // No call tells how many inline bytes a device supports, so we try fewer until it accepts.
  for (uint32_t bytes = options.inline_bytes; made == nullptr; bytes /= 2) {
    ibv_qp_init_attr attributes = wanted;
    attributes.cap.max_inline_data = bytes;
    made = nic.library().create_qp(options.protection != nullptr ? options.protection : cq.protection(), &attributes);
    if (made != nullptr) wanted.cap.max_inline_data = std::min(attributes.cap.max_inline_data, options.inline_bytes);
    if (made == nullptr && bytes == 0) {
      return os_error(nic,
                      "no queue pair for " + std::to_string(options.sends) + " sends and " +
                          std::to_string(options.receives) + " receives (the device's limit is " +
                          std::to_string(nic.device().attributes.max_qp_wr) + " each, and " +
                          std::to_string(nic.device().attributes.max_qp) + " queue pairs)",
                      errno);
    }
  }
  std::unique_ptr<VerbsQp> qp(new VerbsQp(nic, made, options, wanted.cap.max_inline_data));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = 0;
  attributes.port_num = static_cast<uint8_t>(nic.port().number);
  attributes.qp_access_flags = static_cast<unsigned int>(options.remote_access);
  const auto ready =
      qp->modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "a new queue pair");
  if (!ready) return ready.error();
  return qp;
}

VerbsQp::~VerbsQp() {
  // Some devices complete the work in progress before they destroy a queue pair that is not in the error state.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  nic_.library().modify_qp(qp_, &attributes, IBV_QP_STATE);
  nic_.library().destroy_qp(qp_);
}

QpAddress VerbsQp::address() const {
  QpAddress address;
  address.number = qp_->qp_num;
  address.sequence = sequence_;
  address.lid = nic_.port().attributes.lid;
  address.mtu = static_cast<uint8_t>(nic_.port().attributes.active_mtu);
  address.gid = nic_.gid().gid;
  return address;
}

Result<void> VerbsQp::modify(ibv_qp_attr& attributes, int mask, const char* what) const {
  const int error = nic_.library().modify_qp(qp_, &attributes, mask);
  if (error != 0) return os_error(nic_, what, error);
  return {};
}

Result<void> VerbsQp::connect(const QpAddress& peer, bool sends) {
  const ibv_device_attr& limits = nic_.device().attributes;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu =
      static_cast<ibv_mtu>(std::min<int>(peer.mtu, static_cast<int>(nic_.port().attributes.active_mtu)));
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.sequence;
  attributes.max_dest_rd_atomic = reads_of(limits.max_qp_rd_atom);
  attributes.min_rnr_timer = kReceiverWait;
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.port_num = static_cast<uint8_t>(nic_.port().number);
  if (nic_.port().is_ethernet() || peer.lid == 0) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = peer.gid;
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(nic_.gid().index);
    attributes.ah_attr.grh.hop_limit = 64;
  }
  auto reached = modify(attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                        "a queue pair to the peer (is its GID reachable from this one?)");
  if (!reached || !sends) return reached;
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kReceiverRetries;
  attributes.sq_psn = sequence_;
  attributes.max_rd_atomic = reads_of(limits.max_qp_init_rd_atom);
  return modify(
      attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
      "a queue pair that sends");
}

}  // namespace weft
