// WorkerDomain: one worker's part of the device. Its completion queue and the queue pairs that it posts to are created
// with it. They then ring a doorbell register that no other worker rings, and the driver takes no locks for them.
//
// It is a thread domain of the device (ibv_alloc_td), and a parent domain that joins it with the NIC's protection
// domain (ibv_alloc_parent_domain), so that memory stays registered once. A device without thread domains (Soft-RoCE),
// or one whose registers are used up, gives the worker none: protection() is the NIC's own then, and why() says what
// the device answered. Nothing else differs.
//
// I1: what is created with it is used by the worker's thread only; or by the control thread while the worker does not
//     run: at creation, and at the end, when the threads have been joined. This includes being destroyed: destroying a
//     queue pair removes its completions from the completion queue.
//     - Packets and initiator queues: VerbsWire makes and drops them in the functions of Wire.
//     - arm() and disarm() are the worker's, too: its thread calls them before and after it sleeps.
//     - leave() ends a connection by TcpWire; the worker drops the queue pairs at its next poll.
//     - Target queues are destroyed by whoever ends a grant, and by withdraw(). Nobody posts to them and nothing
//       completes there, so they ring no doorbell: they have the plain protection domain of their access domain, and a
//       completion queue without a thread domain.
//     - The queue pairs of NicLoopbackAtomics are used by all threads, under a mutex: likewise plain.
// I2: it outlives what is created with it, and the NIC outlives it. Drivers refuse another order (EBUSY).
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "weft/wires/verbs/nic.h"

namespace weft {

class WorkerDomain {
 public:
  // `own_doorbell` false: it asks the device for nothing.
  static std::unique_ptr<WorkerDomain> create(const VerbsNic& nic, bool own_doorbell);
  ~WorkerDomain();
  WorkerDomain(const WorkerDomain&) = delete;
  WorkerDomain& operator=(const WorkerDomain&) = delete;

  bool own_doorbell() const { return parent_ != nullptr; }
  ibv_pd* protection() const { return own_doorbell() ? parent_ : nic_.protection(); }
  const std::string& why() const { return why_; }  // not; empty if it has one, or none was asked for

 private:
  explicit WorkerDomain(const VerbsNic& nic) : nic_(nic) {}

  const VerbsNic& nic_;
  ibv_td* thread_ = nullptr;
  ibv_pd* parent_ = nullptr;
  std::string why_;
};

// How many of a node's workers have a doorbell register of their own.
struct WorkerDoorbells {
  int workers = 0;
  int own = 0;
  std::string why;  // the others have none, as the first of them was told; empty: none was asked for

  void add(const WorkerDomain& domain);
  // What to say if they share although they were not told to; else empty.
  std::string text(const VerbsNic& nic) const;
};

}  // namespace weft
