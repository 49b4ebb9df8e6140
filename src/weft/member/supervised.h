// SupervisedMembership: a node's end of the membership that the supervisor of a one-host cluster keeps
// (server/supervisor.h). They exchange JSON over a unix socket:
//
//   node to supervisor   {"announce": {"node", "token", "address", "clients"}}, {"propose": VIEW},
//                        {"sample": FIGURES}
//   supervisor to node   {"view": VIEW}, {"ended": [incarnation, ...]}
//
// The supervisor sees processes end. Before it announces a view without a member it kills that member's process, so
// every removed member is fenced by the time its removal is known. When the supervisor ends, so does the cluster.
//
// latest, propose and fenced may be called on any thread; the control thread owns the socket.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "weft/member/framed_socket.h"
#include "weft/member/membership.h"

namespace weft {

class SupervisedMembership final : public Membership {
 public:
  // `address`: '@' and an abstract name, or the path of a socket.
  static Result<std::unique_ptr<SupervisedMembership>> connect(const std::string& address);
  ~SupervisedMembership() override;

  std::shared_ptr<const View> latest() override;
  void propose(const View& next) override;
  bool fenced(NodeId node, uint32_t incarnation) override;
  void announce(const Member& self) override;
  int control_fd() const override { return epoll_.get(); }
  void control_step() override;
  void take_sample(const std::string& sample) override { supervisor_.send(R"({"sample":)" + sample + "}"); }
  std::string termination_reason() override;

 private:
  explicit SupervisedMembership(Fd socket);
  void take(std::string_view text);
  void end(const std::string& why);

  FramedSocket supervisor_;
  Fd epoll_;
  Fd wakeup_;  // readable when there is something to propose
  std::mutex mutex_;
  std::shared_ptr<const View> view_;
  std::vector<std::string> outgoing_;
  std::unordered_set<uint32_t> ended_incarnations_;
  std::string termination_reason_;
};

}  // namespace weft
