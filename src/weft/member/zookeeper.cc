#include "weft/member/zookeeper.h"

#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "weft/member/view_json.h"

namespace weft {

// Called by the C client's threads: they post and return.
struct ZookeeperCallbacks {
  static ZookeeperMembership* self(const void* context) {
    return static_cast<ZookeeperMembership*>(const_cast<void*>(context));
  }

  static void answer(const void* context, int code, const Stat* stat, std::string text) {
    ZookeeperMembership* const m = self(context);
    const int32_t version = code == ZOK && stat != nullptr ? stat->version : 0;
    m->post([m, code, version, text = std::move(text)] { m->on_answer({code, version, text}); });
  }

  // A session begins or ends, or the node has changed.
  static void watched(_zhandle* /*handle*/, int type, int state, const char* /*path*/, void* context) {
    ZookeeperMembership* const m = self(context);
    m->post([m, type, state] {
      if (type == ZOO_SESSION_EVENT) {
        m->on_session(state);
      } else {
        m->stale_ = true;
      }
    });
  }
  static void got(int code, const char* data, int bytes, const Stat* stat, const void* context) {
    const bool has_data = code == ZOK && data != nullptr && bytes > 0;
    answer(context, code, stat, has_data ? std::string(data, static_cast<size_t>(bytes)) : std::string());
  }
  static void done(int code, const Stat* stat, const void* context) { answer(context, code, stat, {}); }
  static void created(int code, const char* /*path*/, const void* context) { answer(context, code, nullptr, {}); }
};

namespace {

constexpr uint32_t kTickMs = 100;                 // precision of the following
constexpr uint64_t kRetryNs = 250'000'000;        // after an error that no event will end
constexpr uint64_t kRecheckNs = 10'000'000'000;   // between reads without an event
constexpr uint64_t kReconnectNs = 1'000'000'000;  // after a session could not be made

// The connection was lost, and with it the answer: status() reports ZooKeeper as unavailable.
bool of_connection(int code) {
  return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == ZSESSIONEXPIRED || code == ZCLOSING ||
         code == ZINVALIDSTATE || code == ZSESSIONMOVED;
}

std::string seconds(uint64_t ns) {
  return std::to_string(ns / 1'000'000'000) + "." + std::to_string(ns / 100'000'000 % 10) + " s";
}

}  // namespace

Result<std::unique_ptr<ZookeeperMembership>> ZookeeperMembership::open(const ZookeeperOptions& options, Clock* clock) {
  if (auto r = check_options(options); !r) return r.error();
  static std::once_flag once;
  std::call_once(once, [] { zoo_set_debug_level(static_cast<ZooLogLevel>(0)); });  // 0: it writes nothing to stderr
  return std::unique_ptr<ZookeeperMembership>(new ZookeeperMembership(options, clock));
}

ZookeeperMembership::ZookeeperMembership(const ZookeeperOptions& options, Clock* clock)
    : options_(options),
      names_(static_cast<size_t>(std::count(options.path.begin(), options.path.end(), '/'))),
      clock_(clock),
      control_(clock) {
  status_.since_ns = clock_->now_ns();
  control_.every_ms(kTickMs, [this] { advance(); });
  control_.post([this] { advance(); });
  control_.start();
}

ZookeeperMembership::~ZookeeperMembership() {
  control_.stop();
  if (handle_ != nullptr) zookeeper_close(handle_);  // what its threads post meanwhile is not run
}

std::shared_ptr<const View> ZookeeperMembership::latest() {
  const std::scoped_lock lock(mutex_);
  return latest_;
}

void ZookeeperMembership::propose(const View& next) {
  {
    const std::scoped_lock lock(mutex_);
    const bool waiting = proposal_.has_value();
    if (waiting) ++status_.dropped;
    proposal_ = next;
    if (waiting) return;
  }
  control_.post([this] { advance(); });
}

void ZookeeperMembership::announce(const Member& self) {
  if (self.node.value >= options_.bootstrap.nodes) return;  // it joins later
  control_.post([this, self] {
    if (latest_ != nullptr) return;
    self_ = self;
    stale_ = true;
    advance();
  });
}

void ZookeeperMembership::bootstrap(const View& first) {
  control_.post([this, first] {
    if (latest_ != nullptr) return;
    std::string text = to_json(first);
    if (const Result<View> back = view_from_json(text); !back) {
      return report(write_error_, "the first view: " + back.error().detail);
    }
    first_ = std::move(text);
    stale_ = true;
    advance();
  });
}

ZookeeperStatus ZookeeperMembership::status() {
  const std::scoped_lock lock(mutex_);
  ZookeeperStatus status = status_;
  const std::string age = seconds(clock_->now_ns() - status.since_ns);
  status.text = status.connected ? "connected to " + options_.hosts + " for " + age
                                 : options_.hosts + " is away for " + age + ": the view cannot change";
  if (!status.error.empty()) status.text += "; " + status.error;
  return status;
}

void ZookeeperMembership::post(std::function<void()> call) {
  control_.post([this, generation = generation_.load(), call = std::move(call)] {
    if (generation != generation_) return;
    call();
    advance();
  });
}

// Runs after every event and every tick, and decides what to do next.
void ZookeeperMembership::advance() {
  const uint64_t now_ns = clock_->now_ns();
  if (handle_ == nullptr && now_ns >= connect_ns_) connect();
  if (operation_ != Operation::kNone) return;
  if (status_.connected && (stale_ || now_ns >= read_ns_)) {
    start(Operation::kRead);
    return;
  }
  std::optional<View> proposal;
  {
    const std::scoped_lock lock(mutex_);
    proposal.swap(proposal_);
  }
  if (proposal) submit(*proposal);
}

void ZookeeperMembership::connect() {
  handle_ = zookeeper_init2(options_.hosts.c_str(), &ZookeeperCallbacks::watched, options_.session_timeout_ms, nullptr,
                            this, ZOO_NO_LOG_CLIENTENV, nullptr);
  if (handle_ == nullptr) {
    report(read_error_, "no session with " + options_.hosts + ": " + std::generic_category().message(errno));
    connect_ns_ = clock_->now_ns() + kReconnectNs;
    return;
  }
  count(&ZookeeperStatus::sessions);
  zoo_set_servers_resolution_delay(handle_, -1);  // names are resolved when a server is lost, not every time
  if (!options_.auth.empty()) {
    zoo_add_auth(handle_, "digest", options_.auth.data(), static_cast<int>(options_.auth.size()), nullptr, nullptr);
  }
}

void ZookeeperMembership::disconnect(uint64_t again_in_ns) {
  zookeeper_close(handle_);
  handle_ = nullptr;
  ++generation_;
  operation_ = Operation::kNone;
  set_connected(false);
  connect_ns_ = clock_->now_ns() + again_in_ns;
}

void ZookeeperMembership::on_session(int state) {
  stale_ = true;
  if (state == ZOO_EXPIRED_SESSION_STATE) {
    disconnect(0);
  } else if (state == ZOO_AUTH_FAILED_STATE) {
    report(read_error_, "the authentication was refused");
    disconnect(kReconnectNs);
  } else {
    set_connected(state == ZOO_CONNECTED_STATE);
  }
}

void ZookeeperMembership::submit(const View& next) {
  if (!status_.connected || latest_ == nullptr || !read_error_.empty()) return count(&ZookeeperStatus::dropped);
  if (next.epoch.value != latest_->epoch.value + 1) return count(&ZookeeperStatus::superseded);
  next_ = to_json(next);
  if (const Result<View> back = view_from_json(next_); !back) {  // an unreadable text would be the last view
    count(&ZookeeperStatus::dropped);
    return report(write_error_,
                  "the proposal of epoch " + std::to_string(next.epoch.value) + ": " + back.error().detail);
  }
  start(Operation::kSet);
}

void ZookeeperMembership::start(Operation operation) {
  operation_ = operation;
  if (operation == Operation::kRead) stale_ = false;
  if (const int code = send(operation); code != ZOK) on_answer({code, 0, {}});
}

int ZookeeperMembership::send(Operation operation) {
  using To = ZookeeperCallbacks;
  const char* const path = options_.path.c_str();
  switch (operation) {
    case Operation::kRead:
      return zoo_aget(handle_, path, 1, &To::got, this);
    case Operation::kExists:
      return zoo_aexists(handle_, path, 1, &To::done, this);
    case Operation::kCreate: {
      const std::string data = creating_ == names_ ? first_ : "";
      const ACL_vector* const acl = options_.auth.empty() ? &ZOO_OPEN_ACL_UNSAFE : &ZOO_CREATOR_ALL_ACL;
      return zoo_acreate(handle_, first_names(creating_).c_str(), data.data(), static_cast<int>(data.size()), acl,
                         ZOO_PERSISTENT, &To::created, this);
    }
    case Operation::kJoinInitial:
      return zoo_aset(handle_, path, updated_initial_members_.data(), static_cast<int>(updated_initial_members_.size()),
                      version_, &To::done, this);
    case Operation::kSet:
      return zoo_aset(handle_, path, next_.data(), static_cast<int>(next_.size()), version_, &To::done, this);
    case Operation::kNone:
      break;
  }
  return ZBADARGUMENTS;
}

void ZookeeperMembership::on_answer(const Answer& answer) {
  switch (std::exchange(operation_, Operation::kNone)) {
    case Operation::kRead:
      return on_read(answer);
    case Operation::kExists:
      return on_exists(answer);
    case Operation::kCreate:
      return on_create(answer);
    case Operation::kJoinInitial:
      stale_ = true;  // whatever the answer, a read decides
      if (answer.code != ZOK && answer.code != ZBADVERSION) retry("writing " + options_.path, answer.code);
      return;
    case Operation::kSet:
      return on_set(answer);
    case Operation::kNone:
      break;
  }
}

void ZookeeperMembership::on_read(const Answer& answer) {
  if (answer.code == ZOK) {
    read_ns_ = clock_->now_ns() + kRecheckNs;
    if (latest_ == nullptr && is_initial_members(answer.text)) return join_initial_members(answer);
    accept(answer);
  } else if (answer.code != ZNONODE) {
    retry("reading " + options_.path, answer.code);
  } else if (first_.empty() && !(self_ && latest_ == nullptr)) {
    start(Operation::kExists);  // a read leaves no watch on a missing node; exists does
  } else {
    create_first();
  }
}

void ZookeeperMembership::create_first() {
  if (first_.empty()) {
    Result<std::string> first = add_initial_member({}, *self_, options_.bootstrap);
    if (!first) {  // it is the only initial member, and its roles do not suffice
      read_ns_ = clock_->now_ns() + kRecheckNs;
      return report(read_error_, options_.path + ": " + first.error().detail);
    }
    first_ = std::move(*first);
  }
  creating_ = names_;
  start(Operation::kCreate);
}

void ZookeeperMembership::join_initial_members(const Answer& answer) {
  version_ = answer.version;
  first_.clear();
  report(read_error_, options_.path + " waits for the rest of the initial members");
  if (!self_) return;
  Result<std::string> next = add_initial_member(answer.text, *self_, options_.bootstrap);
  if (!next) return report(read_error_, options_.path + ": " + next.error().detail);
  updated_initial_members_ = std::move(*next);
  if (!updated_initial_members_.empty()) start(Operation::kJoinInitial);
}

void ZookeeperMembership::on_exists(const Answer& answer) {
  if (answer.code == ZOK) {
    stale_ = true;
  } else if (answer.code == ZNONODE) {
    report(read_error_, options_.path + (latest_ == nullptr ? " has no view yet" : " was removed: put the view back"));
    read_ns_ = clock_->now_ns() + kRecheckNs;
  } else {
    retry("reading " + options_.path, answer.code);
  }
}

// Goes from the last name up until there is a node to create it in, and down again: one may have the right to create
// below a node and not beside it.
void ZookeeperMembership::on_create(const Answer& answer) {
  const bool there = answer.code == ZOK || answer.code == ZNODEEXISTS;
  if (there && creating_ == names_) {
    stale_ = true;
  } else if (there) {
    ++creating_;
    start(Operation::kCreate);
  } else if (answer.code == ZNONODE && creating_ > 1) {
    --creating_;
    start(Operation::kCreate);
  } else {
    retry("creating " + first_names(creating_), answer.code);
  }
}

void ZookeeperMembership::on_set(const Answer& answer) {
  stale_ = true;
  if (answer.code == ZOK) {
    count(&ZookeeperStatus::accepted);
  } else if (answer.code == ZBADVERSION) {
    count(&ZookeeperStatus::superseded);
  } else if (!of_connection(answer.code)) {
    report(write_error_, "writing " + options_.path + ": " + zerror(answer.code));
  }
}

void ZookeeperMembership::retry(const std::string& what, int code) {
  read_ns_ = clock_->now_ns() + kRetryNs;
  if (!of_connection(code)) report(read_error_, what + ": " + zerror(code));
  // The C client does not always send the password to a server that comes up while it connects: a new session does.
  if ((code == ZNOAUTH || code == ZINVALIDACL) && !options_.auth.empty()) disconnect(kReconnectNs);
}

void ZookeeperMembership::accept(const Answer& answer) {
  const std::string where = options_.path + " version " + std::to_string(answer.version) + ": ";
  Result<View> view = view_from_json(answer.text);
  if (!view) return report(read_error_, where + view.error().detail);
  const bool known = latest_ != nullptr && view->epoch == latest_->epoch;
  if (latest_ != nullptr && view->epoch < latest_->epoch) {
    return report(read_error_, where + "epoch " + std::to_string(view->epoch.value) + " after epoch " +
                                   std::to_string(latest_->epoch.value));
  }
  if (known && *view != *latest_) {
    return report(read_error_, where + "another view of epoch " + std::to_string(view->epoch.value) + " than before");
  }
  version_ = answer.version;
  first_.clear();
  report(read_error_, "");
  if (known) return;
  report(write_error_, "");
  const std::scoped_lock lock(mutex_);
  latest_ = std::make_shared<const View>(std::move(*view));
}

std::string ZookeeperMembership::first_names(size_t count) const {
  size_t end = 0;
  for (size_t n = 0; n < count; ++n) end = options_.path.find('/', end + 1);
  return options_.path.substr(0, end);
}

void ZookeeperMembership::set_connected(bool connected) {
  if (connected == status_.connected) return;
  const std::scoped_lock lock(mutex_);
  status_.connected = connected;
  status_.since_ns = clock_->now_ns();
}

void ZookeeperMembership::count(uint64_t ZookeeperStatus::*counter) {
  const std::scoped_lock lock(mutex_);
  ++(status_.*counter);
}

void ZookeeperMembership::report(std::string& error, const std::string& text) {
  error = text;
  const std::scoped_lock lock(mutex_);
  status_.error = read_error_ + (read_error_.empty() || write_error_.empty() ? "" : "; ") + write_error_;
}

}  // namespace weft

#if defined(__SANITIZE_ADDRESS__)
// zookeeper_close() of the C client (3.8) leaves behind a watch's event that came in while it joined its threads: a few
// hundred bytes that nobody can reach.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libzookeeper_mt"; }
#endif
