#include "weft/member/supervised.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/check.h"
#include "weft/member/view_json.h"
#include "weft/wires/shm/socket.h"

namespace weft {

Result<std::unique_ptr<SupervisedMembership>> SupervisedMembership::connect(const std::string& address) {
  Result<Fd> socket = shm_connect(address, ShmSocket::kStream);
  if (!socket) return socket.error();
  return std::unique_ptr<SupervisedMembership>(new SupervisedMembership(std::move(*socket)));
}

SupervisedMembership::SupervisedMembership(Fd socket)
    : supervisor_(std::move(socket)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const int fd : {supervisor_.fd(), wakeup_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    WEFT_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
  }
}

SupervisedMembership::~SupervisedMembership() = default;

std::shared_ptr<const View> SupervisedMembership::latest() {
  const std::scoped_lock lock(mutex_);
  return view_;
}

void SupervisedMembership::propose(const View& next) {
  {
    const std::scoped_lock lock(mutex_);
    outgoing_.push_back("{\"propose\":" + to_json(next) + "}");
  }
  const uint64_t one = 1;
  if (write(wakeup_.get(), &one, sizeof one) != sizeof one) return;  // already signalled
}

bool SupervisedMembership::fenced(NodeId, uint32_t incarnation) {
  const std::scoped_lock lock(mutex_);
  return ended_incarnations_.contains(incarnation);
}

void SupervisedMembership::announce(const Member& self) {
  nlohmann::json message = {{"announce",
                             {{"node", self.node.value},
                              {"token", self.token},
                              {"address", self.address},
                              {"roles", roles_name(self.roles)}}}};
  if (!self.clients.empty()) message["announce"]["clients"] = self.clients;
  supervisor_.send(message.dump());
}

void SupervisedMembership::control_step() {
  uint64_t rung = 0;
  std::vector<std::string> outgoing;
  if (read(wakeup_.get(), &rung, sizeof rung) == sizeof rung) {
    const std::scoped_lock lock(mutex_);
    outgoing.swap(outgoing_);
  }
  for (const std::string& text : outgoing) supervisor_.send(text);
  supervisor_.flush();
  for (std::string text; supervisor_.receive(&text);) take(text);
  if (!supervisor_.open()) end("the supervisor has ended");
}

void SupervisedMembership::take(std::string_view text) {
  const auto message = nlohmann::json::parse(text, nullptr, false);
  if (message.is_object() && message.contains("view")) {
    Result<View> view = view_from_json(message["view"].dump());
    if (!view) return end("the supervisor sent a view that cannot be: " + view.error().detail);
    const std::scoped_lock lock(mutex_);
    if (view_ == nullptr || view_->epoch < view->epoch) view_ = std::make_shared<const View>(std::move(*view));
    return;
  }
  if (message.is_object() && message.contains("ended") && message["ended"].is_array()) {
    const std::scoped_lock lock(mutex_);
    for (const auto& incarnation : message["ended"]) {
      if (incarnation.is_number_unsigned()) ended_incarnations_.insert(incarnation.get<uint32_t>());
    }
    return;
  }
  end("the supervisor sent a message of an unknown kind");
}

std::string SupervisedMembership::termination_reason() {
  const std::scoped_lock lock(mutex_);
  return termination_reason_;
}

void SupervisedMembership::end(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (termination_reason_.empty()) termination_reason_ = why;
  supervisor_.close();
}

}  // namespace weft
