// The membership that ZooKeeper keeps: the view is the data of one of its nodes, as text (view_json.h), and is written
// only at the version that the view before it was read at.
//
// Z1: of the changes that are proposed to one view at most one becomes the next view, and that once, whoever proposes,
//     and whichever answers are lost: after every answer, and every lost one, reading decides.
// Z2: latest() never goes back. Data that is no view, has an older epoch, or says something else about the same epoch,
//     changes nothing and is not written over; status() says what is wrong. The same if the node is removed.
// Z3: while ZooKeeper is away latest() stays what it is, and proposals are dropped, not kept for later.
//
// Any thread may call; nobody waits for ZooKeeper. Calls go through the mailbox of a control thread that this object
// has for itself, and that alone calls the C client; the client's two threads only post to it. The destructor waits for
// the client's threads, not for an answer. (Both can wait for a name server, if `hosts` has names.)
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
  std::string hosts;              // host:port of its servers, with commas between them
  std::string path;               // of the node that has the view, for example /weft/shop/view
  std::string auth{};             // user:password for its digest scheme: what is created is then for that user only
  BootstrapOptions bootstrap{};   // of a process that may be in the first view
  int session_timeout_ms = 6000;  // a server that is silent for two thirds of it is left for another
};

Result<void> check_options(const ZookeeperOptions& options);  // an error names the option and the value

struct ZookeeperStatus {
  bool connected = false;
  uint64_t since_ns = 0;    // by the clock that was given
  uint64_t sessions = 0;    // begun so far: one, if none expired
  uint64_t accepted = 0;    // proposals that became the view
  uint64_t superseded = 0;  // that came too late: somebody else was faster
  uint64_t dropped = 0;     // that were not sent: ZooKeeper away, a view that is none, or a newer proposal
  std::string error;        // what is wrong with the view or the access to it; empty if nothing is
  std::string text;         // state and error, in a line for people
};

class ZookeeperMembership final : public Membership {
 public:
  // An error names the option and its value. ZooKeeper need not be there yet. The clock outlives the object.
  static Result<std::unique_ptr<ZookeeperMembership>> open(const ZookeeperOptions& options, Clock* clock);
  ~ZookeeperMembership() override;
  ZookeeperMembership(const ZookeeperMembership&) = delete;
  ZookeeperMembership& operator=(const ZookeeperMembership&) = delete;

  std::shared_ptr<const View> latest() override;
  void propose(const View& next) override;
  bool fenced(NodeId /*node*/, uint32_t /*incarnation*/) override { return false; }  // it does not see processes

  // The initial_members' list (initial_members.h) is kept where the view will be. Nothing without options.founding.
  void announce(const Member& self) override;
  std::string state() override { return status().text; }
  std::string status_error() override { return status().error; }
  // Makes `first` the view if there is none, as soon as ZooKeeper can be reached. Whoever is first wins; latest() says
  // who it was.
  void bootstrap(const View& first);
  ZookeeperStatus status();

 private:
  friend struct ZookeeperCallbacks;

  enum class Operation : uint8_t { kNone, kRead, kExists, kCreate, kJoinInitial, kSet };
  struct Answer {
    int code = 0;
    int32_t version = 0;  // of the node, where the answer has it
    std::string text;     // the node's data, of kRead
  };

  ZookeeperMembership(const ZookeeperOptions& options, Clock* clock);

  // From the client's threads: to the control thread, and forgotten if the session was ended meanwhile.
  void post(std::function<void()> call);

  // All that follows: on the control thread.
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

  // The control thread's.
  _zhandle* handle_ = nullptr;
  uint64_t connect_ns_ = 0;                 // when to try again, if there is no handle
  Operation operation_ = Operation::kNone;  // on its way; one at a time
  bool stale_ = true;                       // something happened since the last read began
  uint64_t read_ns_ = 0;                    // when to read though nothing did
  int32_t version_ = 0;                     // of the node, when it had latest_
  std::string first_;                       // what bootstrap() wants, as text; empty when there is a view
  std::optional<Member> self_;              // that is to be a initial_member
  std::string updated_initial_members_;     // what the list of initial_members becomes
  size_t creating_ = 0;                     // kCreate: so many names of the path
  std::string next_;                        // kSet: the view, as text
  std::string read_error_, write_error_;

  std::mutex mutex_;                    // of what follows
  std::shared_ptr<const View> latest_;  // only the control thread writes these two, but for the count of the dropped
  ZookeeperStatus status_;
  std::optional<View> proposal_;  // the newest, until it is looked at
};

}  // namespace weft
