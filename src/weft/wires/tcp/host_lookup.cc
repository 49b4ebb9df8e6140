#include "weft/wires/tcp/host_lookup.h"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace weft {

class HostLookup::Answer {
 public:
  void set(Result<SocketAddress> found) {
    const std::scoped_lock lock(mutex_);
    found_ = std::move(found);
  }
  std::optional<Result<SocketAddress>> get() {
    const std::scoped_lock lock(mutex_);
    return found_;
  }

 private:
  std::mutex mutex_;
  std::optional<Result<SocketAddress>> found_;
};

// Also takes the answers that nobody asks for any more.
void HostLookup::take_answers(uint64_t now_ns) {
  for (auto& [address, lookup] : lookups_) {
    // If nobody polled meanwhile, the time of the answer is unknown.
    if (lookup.known_ns == 0 && lookup.answer->get()) lookup.known_ns = std::min(now_ns, lookup.asked_ns + kStepNs);
  }
  std::erase_if(lookups_, [&](const auto& lookup) {
    return lookup.second.known_ns != 0 && now_ns - lookup.second.known_ns > kKeepNs;
  });
}

std::optional<Result<SocketAddress>> HostLookup::find(const std::string& address, uint64_t now_ns) {
  if (auto number = tcp_address_of_number(address)) return number;
  take_answers(now_ns);
  if (const auto it = lookups_.find(address); it != lookups_.end()) {
    it->second.asked_ns = now_ns;
    return it->second.answer->get();
  }
  const auto running =
      std::count_if(lookups_.begin(), lookups_.end(), [](const auto& lookup) { return lookup.second.known_ns == 0; });
  if (static_cast<size_t>(running) >= kLookupsMax) return std::nullopt;
  auto answer = std::make_shared<Answer>();
  try {
    std::thread([answer, address, resolve = resolve_] { answer->set(resolve(address)); }).detach();
  } catch (const std::system_error& e) {
    return Result<SocketAddress>(Error{Code::kOs, "address " + address + ": no thread to look it up: " + e.what()});
  }
  lookups_.emplace(address, Lookup{std::move(answer), now_ns});
  return std::nullopt;
}

}  // namespace weft
