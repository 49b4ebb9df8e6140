// StubVerbs: libibverbs and an RDMA driver in this process, for tests of the verbs wire without a device. It carries
// out what the wire uses: reliable connections, SEND and RECEIVE, one-sided verbs with the checks of protection
// domains, and completion channels. Work is executed where it is posted, in order; a SEND without a receive buffer
// waits.
//
// What it is strict about, as drivers are: what is in use is not freed (EBUSY), a completion queue does not overflow,
// and destroying a queue pair walks its completion queues. mistakes() counts the violations. Of each thread domain it
// knows which threads have used what is created with it.
//
// Any thread may use it. The last one that was made is the one whose devices library() opens.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/check.h"
#include "weft/wires/verbs/library.h"

namespace weft {

struct StubOptions {
  size_t devices = 2;  // "stub0", "stub1", ...
  bool thread_domains = true;
  size_t thread_domains_max = SIZE_MAX;  // of an open device at a time
  bool cq_takes_flags = true;            // ibv_create_cq_ex
  bool cq_takes_domain = true;
  ibv_atomic_cap atomics = IBV_ATOMIC_GLOB;
};

class StubVerbs {
 public:
  struct Td : ibv_td {
    int users = 0;
    std::set<std::thread::id> threads;  // that used what is created with it, since forget_threads()
  };
  struct Pd : ibv_pd {
    Pd* base = nullptr;  // itself, or of a parent domain the one below
    Td* td = nullptr;
    int users = 0;
  };
  struct Cq : ibv_cq_ex {
    Td* td = nullptr;
    bool single_threaded = false;
    bool armed = false;
    int users = 0;
    std::deque<ibv_wc> done;
  };
  struct Qp : ibv_qp {
    Pd* domain = nullptr;
    Cq* completes = nullptr;
    ibv_qp_state now = IBV_QPS_RESET;
    uint32_t to = 0;
    unsigned int access = 0;
    struct Receive {
      uint64_t id;
      ibv_sge part;
    };
    struct Send {
      ibv_send_wr work;
      std::vector<std::byte> bytes;
    };
    std::deque<Receive> receives;
    std::deque<Send> waiting;  // for a receive of the other end
  };

  explicit StubVerbs(const StubOptions& options = {}) : options_(options), devices_(options.devices), outer_(current_) {
    for (size_t d = 0; d < devices_.size(); ++d) std::snprintf(devices_[d].name, sizeof devices_[d].name, "stub%zu", d);
    current_ = this;
  }
  ~StubVerbs() {
    WEFT_CHECK(current_ == this, "they end in the opposite order");
    current_ = outer_;
  }
  StubVerbs(const StubVerbs&) = delete;
  StubVerbs& operator=(const StubVerbs&) = delete;

  static const VerbsLibrary& library();

  // The allocation that is the n-th from now, counted from 1, is refused (ENOMEM); 0: none.
  void refuse(size_t nth) {
    const std::scoped_lock lock(mutex_);
    refuse_ = nth == 0 ? 0 : allocations_ + nth;
  }
  // By what has just been refused: "td", "cq", ...; empty: nothing was.
  std::string refused() const { return refused_; }

  size_t live(const std::string& kind) const {
    const std::scoped_lock lock(mutex_);
    const auto it = live_.find(kind);
    return it == live_.end() ? 0 : it->second;
  }
  size_t live() const {
    const std::scoped_lock lock(mutex_);
    size_t all = 0;
    for (const auto& [kind, count] : live_) all += count;
    return all;
  }
  size_t mistakes() const { return mistakes_; }
  // While nobody uses the wires.
  std::vector<const Qp*> queue_pairs() const {
    std::vector<const Qp*> all;
    for (const auto& [number, qp] : qps_) all.push_back(qp);
    return all;
  }
  const std::set<Cq*>& completion_queues() const { return cqs_; }
  const std::set<Td*>& thread_domains() const { return tds_; }
  void forget_threads() {
    const std::scoped_lock lock(mutex_);
    for (Td* td : tds_) td->threads.clear();
  }

 private:
  struct Mr : ibv_mr {
    unsigned int access = 0;
  };
  struct Channel : ibv_comp_channel {
    std::deque<Cq*> events;
    int users = 0;
  };
  struct Context {
    verbs_context verbs;  // first: a context is found by it
    StubVerbs* stub;
    size_t thread_domains;
    size_t device;
  };
  static constexpr uint32_t kInlineMax = 128;

  static Context& context_of(ibv_context* context) { return *reinterpret_cast<Context*>(verbs_get_ctx(context)); }
  static StubVerbs& stub_of(ibv_context* context) { return *context_of(context).stub; }
  static Pd* pd_of(ibv_pd* pd) { return static_cast<Pd*>(pd); }
  static Cq* cq_of(ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
  static Qp* qp_of(ibv_qp* qp) { return static_cast<Qp*>(qp); }
  static void use(Td* td) {
    if (td != nullptr) td->threads.insert(std::this_thread::get_id());
  }
  static void use(const Qp& qp) {
    use(qp.domain->td);
    use(qp.completes->td);
  }

  bool refuses(const std::string& kind) {
    if (++allocations_ != refuse_) return false;
    refused_ = kind;
    errno = ENOMEM;
    return true;
  }
  template <class Made>
  Made* make(const std::string& kind, ibv_context* context) {
    auto* const made = new Made();
    made->context = context;
    ++live_[kind];
    return made;
  }
  int busy() {
    ++mistakes_;
    return EBUSY;
  }

  // The library.
  static ibv_device** get_device_list(int* count);
  static ibv_context* open_device(ibv_device* device);
  static int close_device(ibv_context* context);
  static int query_device(ibv_context* context, ibv_device_attr* out);
  static int query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* out);
  static int query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* out);
  static ibv_pd* alloc_pd(ibv_context* context);
  static int dealloc_pd(ibv_pd* pd);
  static ibv_mr* reg_mr(ibv_pd* pd, void* base, size_t bytes, int access);
  static int dereg_mr(ibv_mr* mr);
  static ibv_comp_channel* create_comp_channel(ibv_context* context);
  static int destroy_comp_channel(ibv_comp_channel* channel);
  static ibv_cq* create_cq(ibv_context* context, int entries, void*, ibv_comp_channel* channel, int);
  static int destroy_cq(ibv_cq* cq);
  static int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context);
  static ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted);
  static int modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask);
  static int destroy_qp(ibv_qp* qp);
  // The driver, through the context.
  static ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr*);
  static int dealloc_td(ibv_td* td);
  static ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted);
  static ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted);
  static int poll_cq(ibv_cq* cq, int count, ibv_wc* out);
  static int req_notify_cq(ibv_cq* cq, int);
  static int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** failed);
  static int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** failed);

  Cq* make_cq(ibv_context* context, int entries, ibv_comp_channel* channel);
  Qp* other_end(const Qp& qp);
  const Mr* memory(uint32_t key, const Pd& domain, uint64_t at, uint64_t bytes, unsigned int access) const;
  void execute(Qp& qp, const ibv_send_wr& work);
  ibv_wc_status deliver(Qp& to, const Qp::Send& send);
  ibv_wc_status execute_one_sided(Qp& qp, const ibv_send_wr& work);
  void drain(Qp& qp);
  void finish(Qp& qp, const ibv_send_wr& work, ibv_wc_status status);
  void complete(Qp& qp, ibv_wc wc);
  void fail(Qp& qp);

  static inline StubVerbs* current_ = nullptr;

  const StubOptions options_;
  std::vector<ibv_device> devices_;
  StubVerbs* const outer_;
  mutable std::mutex mutex_;
  std::map<std::string, size_t> live_;
  size_t allocations_ = 0, refuse_ = 0, mistakes_ = 0;
  std::string refused_;
  uint32_t last_number_ = 0;
  std::map<uint32_t, Qp*> qps_;
  std::map<uint32_t, Mr*> mrs_;
  std::set<Cq*> cqs_;
  std::set<Td*> tds_;
};

}  // namespace weft
