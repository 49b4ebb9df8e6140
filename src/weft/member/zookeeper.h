// The membership kept in ZooKeeper: the view is the data of one of its nodes, as text (view_json.h), and is written
// only at the version at which the previous view was read.
//
// Z1: of the changes proposed to one view at most one becomes the next view, and only once, whoever proposes and
//     whichever answers are lost: after every answer, and every lost one, a read decides.
// Z2: latest() never goes back. Data that is not a view, has an older epoch, or contradicts the known view of the same
//     epoch, changes nothing and is not overwritten; status() says what is wrong. The same holds if the node is
//     removed.
// Z3: while ZooKeeper is unavailable latest() stays what it is, and proposals are dropped, not kept for later.
//
// Any thread may call; nobody waits for ZooKeeper. Calls go through the mailbox of this object's own control thread,
// which alone calls the C client; the client's two threads only post to it. The destructor waits for the client's
// threads, not for an answer. (Both can wait for a name server, if `hosts` has names.)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "weft/base/clock.h"
#include "weft/member/initial_members.h"
#include "weft/member/membership.h"
#include "weft/run/control.h"
#include "weft/status.h"

struct _zhandle;  // a session of the C client

namespace weft {

struct ZookeeperOptions {
  std::string hosts;  // host:port of its servers, separated by commas
  std::string path;   // of the node that holds the view, for example /weft/shop/view
  // user:password for its digest scheme: what is created is accessible to that user only
  std::string auth{};
  BootstrapOptions bootstrap{};   // for a process that may be in the first view
  int session_timeout_ms = 6000;  // a server that is silent for two thirds of it is abandoned for another
};

Result<void> check_options(const ZookeeperOptions& options);  // an error names the option and the value

struct ZookeeperStatus {
  bool connected = false;
  uint64_t since_ns = 0;    // by the given clock
  uint64_t sessions = 0;    // begun so far: one, if none expired
  uint64_t accepted = 0;    // proposals that became the view
  uint64_t superseded = 0;  // proposals that came too late: another one won
  // proposals that were not sent: ZooKeeper unavailable, an invalid view, or a newer proposal
  uint64_t dropped = 0;
  std::string error;  // what is wrong with the view or the access to it; empty if nothing
  std::string text;   // state and error, in a line for people
};

class ZookeeperMembership final : public Membership {
 public:
  // An error names the option and its value. ZooKeeper need not be up yet. The clock outlives the object.
  static Result<std::unique_ptr<ZookeeperMembership>> open(const ZookeeperOptions& options, Clock* clock);
  ~ZookeeperMembership() override;
  ZookeeperMembership(const ZookeeperMembership&) = delete;
  ZookeeperMembership& operator=(const ZookeeperMembership&) = delete;

  std::shared_ptr<const View> latest() override;
  void propose(const View& next) override;
  bool fenced(NodeId /*node*/, uint32_t /*incarnation*/) override { return false; }  // it does not see processes

  // The list of initial members (initial_members.h) is kept where the view will be. Does nothing without
  // options.bootstrap.
  void announce(const Member& self) override;
  std::string state() override { return status().text; }
  std::string status_error() override { return status().error; }
  // Makes `first` the view if there is none, as soon as ZooKeeper can be reached. The first such call wins; latest()
  // shows which it was.
  void bootstrap(const View& first);
  ZookeeperStatus status();

 private:
  friend struct ZookeeperCallbacks;

  enum class Operation : uint8_t { kNone, kRead, kExists, kCreate, kJoinInitial, kSet };
  struct Answer {
    int code = 0;
    int32_t version = 0;  // of the node, where the answer has it
    std::string text;     // the node's data, for kRead
  };

  ZookeeperMembership(const ZookeeperOptions& options, Clock* clock);

  // From the client's threads: posts to the control thread; dropped if the session has ended meanwhile.
  void post(std::function<void()> call);

  // All of the following runs on the control thread.
  void advance();
  void connect();
  void disconnect(uint64_t again_in_ns);
  void on_session(int state);
  void submit(const View& next);
  void start(Operation operation);
  int send(Operation operation);
  void on_answer(const Answer& answer);
  void on_read(const Answer& answer);
  void on_exists(const Answer& answer);
  void on_create(const Answer& answer);
  void on_set(const Answer& answer);
  void accept(const Answer& answer);
  void create_first();
  void join_initial_members(const Answer& answer);
  void retry(const std::string& what, int code);
  std::string first_names(size_t count) const;  // of the path
  void set_connected(bool connected);
  void count(uint64_t ZookeeperStatus::*counter);
  void report(std::string& error, const std::string& text);

  const ZookeeperOptions options_;
  const size_t names_;  // in the path
  Clock* const clock_;
  Control control_;
  std::atomic<uint64_t> generation_{0};  // of the session: changes when one has been closed

  // Owned by the control thread.
  _zhandle* handle_ = nullptr;
  uint64_t connect_ns_ = 0;                 // when to retry, if there is no handle
  Operation operation_ = Operation::kNone;  // in flight; one at a time
  bool stale_ = true;                       // something happened since the last read began
  uint64_t read_ns_ = 0;                    // when to read again though nothing happened
  int32_t version_ = 0;                     // of the node when it held latest_
  std::string first_;                       // what bootstrap() wants, as text; empty when there is a view
  std::optional<Member> self_;              // that is to be an initial member
  std::string updated_initial_members_;     // the list to write next
  size_t creating_ = 0;                     // kCreate: how many names of the path
  std::string next_;                        // kSet: the view, as text
  std::string read_error_, write_error_;

  std::mutex mutex_;  // guards the following
  // written only by the control thread, as is status_ except for its count of dropped proposals
  std::shared_ptr<const View> latest_;
  ZookeeperStatus status_;
  std::optional<View> proposal_;  // the newest, until it is handled
};

}  // namespace weft
