#include "weft/wires/verbs/worker_domain.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace weft {

std::unique_ptr<WorkerDomain> WorkerDomain::create(const VerbsNic& nic, bool own_doorbell) {
  std::unique_ptr<WorkerDomain> domain(new WorkerDomain(nic));
  if (!own_doorbell) return domain;
  ibv_td_init_attr thread{};
  domain->thread_ = ibv_alloc_td(nic.context(), &thread);
  if (domain->thread_ == nullptr) {
    domain->why_ = std::string("no thread domain: ") + strerrordesc_np(errno);
    return domain;
  }
  ibv_parent_domain_init_attr parent{};
  parent.pd = nic.protection();
  parent.td = domain->thread_;
  domain->parent_ = ibv_alloc_parent_domain(nic.context(), &parent);
  if (domain->parent_ == nullptr) {
    domain->why_ = std::string("no parent domain: ") + strerrordesc_np(errno);
    ibv_dealloc_td(std::exchange(domain->thread_, nullptr));
  }
  return domain;
}

WorkerDomain::~WorkerDomain() {
  if (parent_ != nullptr) nic_.library().dealloc_pd(parent_);
  if (thread_ != nullptr) ibv_dealloc_td(thread_);
}

void WorkerDoorbells::add(const WorkerDomain& domain) {
  ++workers;
  if (domain.own_doorbell()) {
    ++own;
  } else if (why.empty()) {
    why = domain.why();
  }
}

std::string WorkerDoorbells::text(const VerbsNic& nic) const {
  if (why.empty()) return {};
  return "device " + nic.device().name + ": " + std::to_string(own) + " of " + std::to_string(workers) +
         " workers have a doorbell register of their own, the others share the driver's (" + why + ")";
}

}  // namespace weft
