// VerbsQp: one reliable-connected queue pair. It is connected once and never reused after a failure: make a new one
// instead, so that nothing of the old one can be taken for something of the new one.
//
// VerbsCq: a completion queue and the descriptor that becomes readable with it: of one worker, created with its domain
// (worker_domain.h), or one that several threads use. Queue pairs that complete there get the same domain.
//
// Destroying a queue pair is the fence of this wire: when it returns, the device has released it, and nothing that was
// posted to it or arrives for it accesses memory any more.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/status.h"
#include "weft/wires/verbs/nic.h"
#include "weft/wires/verbs/worker_domain.h"

namespace weft {

// The address of a queue pair, for the one that connects to it.
struct QpAddress {
  uint32_t number = 0;    // of the queue pair, 24 bits
  uint32_t sequence = 0;  // of the first packet that it sends, 24 bits
  uint16_t lid = 0;       // InfiniBand only
  uint8_t mtu = 0;        // ibv_mtu
  ibv_gid gid{};
};

class VerbsCq {
 public:
  // `worker` outlives it; nullptr: any thread may use it.
  static Result<std::unique_ptr<VerbsCq>> create(const VerbsNic& nic, size_t entries,
                                                 const WorkerDomain* worker = nullptr);
  ~VerbsCq();
  VerbsCq(const VerbsCq&) = delete;
  VerbsCq& operator=(const VerbsCq&) = delete;

  ibv_cq* queue() const { return queue_; }
  ibv_pd* protection() const { return protection_; }
  int fd() const { return channel_->fd; }
  // Returns how many were polled; negative if the queue is broken.
  int poll(std::span<ibv_wc> out) const { return ibv_poll_cq(queue_, static_cast<int>(out.size()), out.data()); }
  // The descriptor becomes readable with the next completion.
  void arm() const { ibv_req_notify_cq(queue_, 0); }
  // Consumes the event that made it readable.
  void disarm();

 private:
  VerbsCq(const VerbsLibrary& library, ibv_pd* protection) : library_(library), protection_(protection) {}
  const VerbsLibrary& library_;
  ibv_pd* const protection_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
};

class VerbsQp {
 public:
  struct Options {
    uint32_t sends = 1;
    uint32_t receives = 1;
    uint32_t inline_bytes = 0;     // at most; fewer if the device supports fewer
    int remote_access = 0;         // IBV_ACCESS_REMOTE_*: what the other end may do here
    uint32_t sequence = 0;         // of the first packet it sends
    ibv_pd* protection = nullptr;  // nullptr: that of the completion queue
  };
  // The new queue pair accepts receives, and is not connected.
  static Result<std::unique_ptr<VerbsQp>> create(const VerbsNic& nic, const VerbsCq& cq, const Options& options);
  ~VerbsQp();
  VerbsQp(const VerbsQp&) = delete;
  VerbsQp& operator=(const VerbsQp&) = delete;

  QpAddress address() const;
  uint32_t number() const { return qp_->qp_num; }
  uint32_t inline_bytes() const { return inline_bytes_; }
  // Called once. From now on it responds to the other end, and with `sends` it can send.
  Result<void> connect(const QpAddress& peer, bool sends);

  // Posts the chain from `first` with one doorbell; returns 0 or an errno.
  int post(ibv_send_wr* first) const {
    ibv_send_wr* failed = nullptr;
    return ibv_post_send(qp_, first, &failed);
  }
  int post(ibv_recv_wr* first) const {
    ibv_recv_wr* failed = nullptr;
    return ibv_post_recv(qp_, first, &failed);
  }

 private:
  VerbsQp(const VerbsNic& nic, ibv_qp* qp, const Options& options, uint32_t inline_bytes)
      : nic_(nic), qp_(qp), sequence_(options.sequence), inline_bytes_(inline_bytes) {}
  Result<void> modify(ibv_qp_attr& attributes, int mask, const char* what) const;

  const VerbsNic& nic_;
  ibv_qp* const qp_;
  const uint32_t sequence_;
  const uint32_t inline_bytes_;
};

}  // namespace weft
