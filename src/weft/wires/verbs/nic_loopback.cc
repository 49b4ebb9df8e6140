#include "weft/wires/verbs/nic_loopback.h"

#include <sched.h>

#include <utility>

#include "weft/base/bytes.h"
#include "weft/base/os_random.h"

namespace weft {
namespace {

constexpr int kTriesMax = 3;
constexpr int kSpinsMax = 256;      // longer than a NIC takes; a software device may need this CPU
constexpr size_t kOldBytes = 4096;  // a page, although 8 bytes are used
constexpr size_t kCompletions = 8;  // one is outstanding
constexpr uint32_t kSequenceMask = 0xffffff;

uint32_t new_sequence() { return static_cast<uint32_t>(os_random()) & kSequenceMask; }

}  // namespace

Result<std::unique_ptr<NicLoopbackAtomics>> NicLoopbackAtomics::create(const VerbsNic& nic, const Regions* regions,
                                                                       const VerbsRegions* registered) {
  std::unique_ptr<NicLoopbackAtomics> loop(new NicLoopbackAtomics(nic, regions, registered));
  auto memory = VerbsMemory::create(nic, kOldBytes);
  if (!memory) return memory.error();
  loop->old_ = std::move(*memory);
  if (const auto opened = loop->open(); !opened) return opened.error();
  return loop;
}

Result<void> NicLoopbackAtomics::open() {
  posted_.reset();
  served_.reset();
  auto cq = VerbsCq::create(nic_, kCompletions);
  if (!cq) return cq.error();
  cq_ = std::move(*cq);
  VerbsQp::Options options;
  options.sequence = new_sequence();
  auto posted = VerbsQp::create(nic_, *cq_, options);
  if (!posted) return posted.error();
  options.sequence = new_sequence();
  options.remote_access = IBV_ACCESS_REMOTE_ATOMIC;
  options.protection = nic_.protection(Domain::kEngine);
  auto served = VerbsQp::create(nic_, *cq_, options);
  if (!served) return served.error();
  if (const auto connected = (*served)->connect((*posted)->address(), false); !connected) return connected.error();
  if (const auto connected = (*posted)->connect((*served)->address(), true); !connected) return connected.error();
  posted_ = std::move(*posted);
  served_ = std::move(*served);
  return {};
}

bool NicLoopbackAtomics::swap(RegionId region, uint64_t offset, uint64_t expected, uint64_t desired) {
  if (region.value >= registered_->registered()) {
    auto* const word = reinterpret_cast<uint64_t*>(regions_->find(region)->base() + offset);
    return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }
  const VerbsRegions::Entry entry = registered_->at(region.value);
  const std::scoped_lock lock(mutex_);
  swaps_.fetch_add(1, std::memory_order_relaxed);
  for (int tries = 0; tries < kTriesMax && !failed(); ++tries) {
    if (posted_ != nullptr && swap_once(entry, offset, expected, desired)) {
      const auto old = load<uint64_t>(old_.base());
      return old == expected ||
             (tries != 0 && old == desired);  // it may have been executed although it was reported as failed
    }
    static_cast<void>(open());
  }
  failed_.store(true, std::memory_order_release);
  return false;
}

bool NicLoopbackAtomics::swap_once(const VerbsRegions::Entry& region, uint64_t offset, uint64_t expected,
                                   uint64_t desired) {
  ibv_sge part{reinterpret_cast<uint64_t>(old_.base()), sizeof(uint64_t), old_.key()};
  ibv_send_wr work{};
  work.sg_list = &part;
  work.num_sge = 1;
  work.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.atomic.remote_addr = region.base + offset;
  work.wr.atomic.rkey = region.key;
  work.wr.atomic.compare_add = expected;
  work.wr.atomic.swap = desired;
  if (posted_->post(&work) != 0) return false;
  ibv_wc done{};
  int count = 0;
  for (int looks = 0; (count = cq_->poll({&done, 1})) == 0; ++looks) {
    if (looks < kSpinsMax) {
      __builtin_ia32_pause();
    } else {
      sched_yield();
    }
  }
  return count > 0 && done.status == IBV_WC_SUCCESS;
}

}  // namespace weft
