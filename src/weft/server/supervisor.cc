#include "weft/server/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/member/node_agent.h"
#include "weft/member/view_json.h"
#include "weft/redis/node_stats.h"
#include "weft/wires/shm/socket.h"

namespace weft {

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kYoungNs = 1'000 * kMs;
constexpr uint32_t kRestartMsMax = 5'000;
constexpr uint64_t kSampleOldNs = 3'000 * kMs;

std::string os_text(const std::string& what) { return what + ": " + strerrordesc_np(errno); }

// The configuration is a file without a name: nothing is left on the disk, whatever happens.
Result<Fd> config_file(const std::string& text) {
  Fd file(memfd_create("weft node.toml", 0));
  if (!file) return Error{Code::kOs, os_text("memfd_create")};
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error{Code::kOs, os_text("writing a node's configuration")};
  }
  return file;
}

// In the child, between fork and exec: only what is allowed there.
[[noreturn]] void become(const char* executable, const char* config, pid_t supervisor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);
  setpgid(0, 0);  // Ctrl-C is for the supervisor
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  std::array<const char*, 5> argv = {executable, "server", "--config", config, nullptr};
  execv(executable, const_cast<char* const*>(argv.data()));
  _exit(127);
}

std::string how_it_ended(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return "exited with status " + std::to_string(info.si_status);
  return std::string("was ended by SIG") + sigabbrev_np(info.si_status);
}

}  // namespace

Supervisor::Supervisor(const SupervisorOptions& options, Clock* clock, EventLog* events)
    : options_(options),
      clock_(clock),
      events_(events),
      view_store_({options.initial_members > 0 ? options.initial_members : static_cast<int>(options.configs.size()),
                   options.replicas, options.partitions, options.protocol}),
      children_(options.configs.size()),
      join_backoffs_(options.configs.size(), JoinBackoff(NodeAgentOptions::kPaceNs)) {}

Result<std::unique_ptr<Supervisor>> Supervisor::create(const SupervisorOptions& options, Clock* clock,
                                                       EventLog* events) {
  std::unique_ptr<Supervisor> supervisor(new Supervisor(options, clock, events));
  Result<Fd> listener = shm_listen(options.socket, ShmSocket::kStream);
  if (!listener) return listener.error();
  supervisor->listener_ = std::move(*listener);
  for (size_t n = 0; n < options.configs.size(); ++n) {
    if (auto started = supervisor->start(n); !started) return started.error();
  }
  return supervisor;
}

Supervisor::~Supervisor() { stop(); }

Result<void> Supervisor::start(size_t node) {
  Child& child = children_[node];
  Result<Fd> config = config_file(options_.configs[node]);
  if (!config) return config.error();
  const std::string path = "/proc/self/fd/" + std::to_string(config->get());
  const pid_t self = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Error{Code::kOs, os_text("fork")};
  if (pid == 0) become(options_.executable.c_str(), path.c_str(), self);
  child = Child();
  child.pid = pid;
  child.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!child.pidfd) return Error{Code::kOs, os_text("pidfd_open")};
  child.started_ns = clock_->now_ns();
  ++starts_;
  log(node, Level::kInfo, "process_started", {{"pid", pid}});
  return {};
}

bool Supervisor::step(int stop_fd, int timeout_ms) {
  std::vector<pollfd> fds;
  std::vector<size_t> nodes;
  const auto add = [&](int fd, short events, size_t node) {
    fds.push_back({fd, events, 0});
    nodes.push_back(node);
  };
  const size_t nobody = children_.size();
  if (stop_fd >= 0) add(stop_fd, POLLIN, nobody);
  add(listener_.get(), POLLIN, nobody);
  uint64_t due_ns = UINT64_MAX;
  for (size_t n = 0; n < children_.size(); ++n) {
    const Child& child = children_[n];
    if (child.pid != 0) add(child.pidfd.get(), POLLIN, n);
    if (child.talk.open()) {
      add(child.talk.fd(), static_cast<short>(POLLIN | (child.talk.wants_to_write() ? POLLOUT : 0)), n);
    }
    if (child.due_ns != 0) due_ns = std::min(due_ns, child.due_ns);
  }
  const uint64_t now_ns = clock_->now_ns();
  if (due_ns != UINT64_MAX) {
    timeout_ms = std::min(timeout_ms, static_cast<int>((std::max(due_ns, now_ns) - now_ns) / kMs) + 1);
  }
  poll(fds.data(), fds.size(), timeout_ms);
  accept_nodes();
  for (size_t n = 0; n < children_.size(); ++n) {
    read_messages(n);
    reap(n);
  }
  fence();
  broadcast_changes();
  start_due();
  if (why_.empty()) why_ = view_store_.lost_partition();
  return why_.empty();
}

void Supervisor::accept_nodes() {
  while (Fd socket = shm_accept(listener_.get())) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) continue;
    const auto child =
        std::find_if(children_.begin(), children_.end(), [&](const Child& c) { return c.pid == peer.pid; });
    if (child == children_.end() || child->pid == 0) continue;  // not one of ours
    child->talk = FramedSocket(std::move(socket));
    if (broadcast_view_ != nullptr) child->talk.send("{\"view\":" + to_json(*broadcast_view_) + "}");
    nlohmann::json ended = {{"ended", view_store_.ended_incarnations()}};
    child->talk.send(ended.dump());
  }
}

void Supervisor::read_messages(size_t node) {
  Child& child = children_[node];
  if (!child.talk.open()) return;
  child.talk.flush();
  for (std::string text; child.talk.receive(&text);) take(node, text);
  // A node that no longer talks to its supervisor is killed. Before there is a view it ends by itself, and its exit
  // status says why.
  if (!child.talk.open() && child.pid != 0 && view_store_.view() != nullptr) kill(child.pid, SIGKILL);
}

void Supervisor::take(size_t node, std::string_view text) {
  Child& child = children_[node];
  const auto message = nlohmann::json::parse(text, nullptr, false);
  if (message.is_object() && message.contains("propose")) {
    const Result<View> next = view_from_json(message["propose"].dump());
    if (next) {
      view_store_.propose(*next);
      return;
    }
    log(node, Level::kError, "view_refused", {{"why", next.error().detail}});
    return child.talk.close();
  }
  if (message.is_object() && message.contains("sample")) {
    child.sample = message["sample"];
    child.sample_ns = clock_->now_ns();
    return;
  }
  const auto announce = message.is_object() ? message.find("announce") : message.end();
  const auto has = [&](const char* name, bool (nlohmann::json::*is)() const noexcept) {
    return announce->contains(name) && ((*announce)[name].*is)();
  };
  const auto roles = [&]() -> std::optional<NodeRoles> {
    if (!has("roles", &nlohmann::json::is_string)) return std::nullopt;
    return roles_by_name((*announce)["roles"].get_ref<const std::string&>());
  };
  if (announce == message.end() || !announce->is_object() || !has("token", &nlohmann::json::is_number_unsigned) ||
      !has("address", &nlohmann::json::is_string) || !roles()) {
    log(node, Level::kError, "message_refused", {{"why", "its kind is not known"}});
    return child.talk.close();
  }
  // A process that was removed and starts over counts as a new one for the view; the old one has ended.
  if (child.token != 0) view_store_.process_ended(child.token);
  Member self;
  self.node = NodeId(static_cast<uint8_t>(node));
  self.token = child.token = (*announce)["token"].get<uint64_t>();
  self.address = (*announce)["address"].get<std::string>();
  if (has("clients", &nlohmann::json::is_string)) self.clients = (*announce)["clients"].get<std::string>();
  self.roles = *roles();
  if (auto announced = view_store_.announce(self); !announced) why_ = announced.error().detail;
}

void Supervisor::reap(size_t node) {
  Child& child = children_[node];
  if (child.pid == 0) return;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return;
  if (view_store_.view() == nullptr && info.si_code == CLD_EXITED) {
    // It would not start the next time either: a port in use, not enough memory.
    why_ = "node " + std::to_string(node) + " could not start: it " + how_it_ended(info) + " before the cluster was up";
  }
  const uint64_t now_ns = clock_->now_ns();
  const bool young = !child.fenced && now_ns - child.started_ns < kYoungNs;
  const uint32_t died_young = young ? child.died_young + 1 : 0;
  uint32_t wait_ms = std::min(options_.restart_ms << std::min(died_young, 10U), kRestartMsMax);
  if (child.fenced) {
    join_backoffs_[node].joined(child.started_ns);
    join_backoffs_[node].removed(now_ns);
    wait_ms = std::max(wait_ms, static_cast<uint32_t>(join_backoffs_[node].wait_ns() / kMs));
  }
  log(node, Level::kWarn, "process_ended",
      {{"pid", child.pid}, {"how", how_it_ended(info)}, {"starts_again_ms", wait_ms}});
  if (child.token != 0) view_store_.process_ended(child.token);
  if (info.si_code == CLD_EXITED && info.si_status == kCannotStart)
    why_ = "node " + std::to_string(node) + " cannot start";
  child = Child();
  child.died_young = died_young;
  child.due_ns = now_ns + wait_ms * kMs;
}

void Supervisor::fence() {
  for (const uint64_t token : view_store_.processes_to_kill()) {
    for (size_t n = 0; n < children_.size(); ++n) {
      Child& child = children_[n];
      if (child.token != token || child.pid == 0 || std::exchange(child.fenced, true)) continue;
      log(n, Level::kWarn, "process_fenced",
          {{"pid", child.pid}, {"why", "the view is without it: " + view_store_.next()->change.text()}});
      kill(child.pid, SIGKILL);
    }
  }
}

void Supervisor::broadcast_changes() {
  const auto broadcast = [&](const std::string& text) {
    for (Child& child : children_) child.talk.send(text);
  };
  if (view_store_.ended_incarnations().size() != broadcast_ended_) {
    broadcast_ended_ = view_store_.ended_incarnations().size();
    const nlohmann::json ended = {{"ended", view_store_.ended_incarnations()}};
    broadcast(ended.dump());
  }
  if (view_store_.view() != broadcast_view_) {
    broadcast_view_ = view_store_.view();
    broadcast("{\"view\":" + to_json(*broadcast_view_) + "}");
  }
}

void Supervisor::log(size_t node, Level level, std::string_view event, std::initializer_list<EventField> fields) {
  events_->emit_of(static_cast<int>(node), level, event, fields);
}

nlohmann::json Supervisor::sample(NodeId node) const {
  const Child& child = children_[node.value];
  const bool fresh = child.pid != 0 && clock_->now_ns() - child.sample_ns < kSampleOldNs;
  return fresh ? checked_sample(child.sample) : nlohmann::json();
}

void Supervisor::start_due() {
  const uint64_t now_ns = clock_->now_ns();
  for (size_t n = 0; n < children_.size(); ++n) {
    Child& child = children_[n];
    if (child.pid != 0 || child.due_ns == 0 || child.due_ns > now_ns) continue;
    const uint32_t died_young = child.died_young;
    if (auto started = start(n); !started) why_ = started.error().text();
    child.died_young = died_young;
  }
}

void Supervisor::stop() {
  for (Child& child : children_) {
    child.due_ns = 0;
    if (child.pid != 0) kill(child.pid, SIGTERM), kill(child.pid, SIGCONT);
  }
  const uint64_t patience_ns = clock_->now_ns() + options_.stop_ms * kMs;
  for (Child& child : children_) {
    if (child.pid == 0) continue;
    const uint64_t now_ns = clock_->now_ns();
    pollfd end{child.pidfd.get(), POLLIN, 0};
    const int left_ms = now_ns >= patience_ns ? 0 : static_cast<int>((patience_ns - now_ns) / kMs);
    if (poll(&end, 1, left_ms) == 0) kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    child = Child();
  }
}

}  // namespace weft
