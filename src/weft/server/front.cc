#include "weft/server/front.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "weft/server/digest.h"

namespace weft {

namespace {

constexpr uint64_t kAcceptAgainNs = 100'000'000;  // after the process had no file descriptor left
constexpr uint64_t kDigestWaitNs = 1'000'000;
constexpr uint64_t kIdleNs = 1'000'000'000;  // then a connection gives its buffers back
constexpr size_t kKeptBytes = 1 << 20;       // of a buffer that is not used at the moment, until then

std::string id_text(const TxnId& id) {
  return std::to_string(id.incarnation) + "." + std::to_string(id.worker.value) + "." + std::to_string(id.sequence);
}

// incarnation.worker.sequence
std::optional<TxnId> parse_id(std::string_view text) {
  TxnId id;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto* to, bool last) {
    const auto [rest, failed] = std::from_chars(at, end, *to);
    at = last || rest == end ? rest : rest + 1;
    return failed == std::errc() && (last ? rest == end : rest != end && *rest == '.');
  };
  if (!number(&id.incarnation, false) || !number(&id.worker.value, false) || !number(&id.sequence, true)) return {};
  return id;
}

std::string limit_text(std::string_view name, uint64_t limit, uint64_t asked) {
  return std::string(name) + " is " + std::to_string(limit) + ", asked for " + std::to_string(asked);
}

void clear(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptBytes) buffer.shrink_to_fit();
}

bool is(std::string_view word, std::string_view name) {
  return word.size() == name.size() && std::equal(word.begin(), word.end(), name.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
         });
}

}  // namespace

Front::Front(const FrontOptions& options, Fd listener, Engine* engine, NodeHooks hooks)
    : options_(options),
      engine_(engine),
      session_(engine),
      hooks_(std::move(hooks)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      listener_(std::move(listener)),
      events_(64) {}

Front::~Front() = default;

void Front::accept_when_active() {
  if (accepting_ || !engine_->active() || session_.now_ns() < accepts_again_ns_) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLEXCLUSIVE;
  event.data.ptr = nullptr;
  accepting_ = true;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) stop_accepting(strerrordesc_np(errno));
}

// The listener stays readable: it is not looked at for a while.
void Front::stop_accepting(const char* why) {
  if (accepts_again_ns_ == 0) {
    std::fprintf(stderr, "weft: clients cannot be accepted, tried again every %d ms and not said again: %s\n",
                 static_cast<int>(kAcceptAgainNs / 1'000'000), why);
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  accepting_ = false;
  accepts_again_ns_ = session_.now_ns() + kAcceptAgainNs;
}

void Front::accept_some() {
  for (;;) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const bool out = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (out) stop_accepting(strerrordesc_np(errno));
      return;
    }
    if (connections_.size() >= options_.clients_max) {
      const std::string text =
          "-ERR max number of clients reached: clients_max is " + std::to_string(options_.clients_max) + "\r\n";
      if (send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) continue;
      continue;
    }
    const int one = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Connection& connection = connections_.emplace_back(std::move(socket), options_.resp);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &connection;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.socket.get(), &event) != 0) connection.dead = true;
    connection.readable = true;
  }
}

bool Front::poll() {
  accept_when_active();
  const int count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events_[static_cast<size_t>(i)];
    if (event.data.ptr == nullptr) {
      accept_some();
      continue;
    }
    auto& connection = *static_cast<Connection*>(event.data.ptr);
    if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) connection.readable = true;
  }
  bool busy = count > 0;
  for (Connection& connection : connections_) {
    if (connection.work.running() || connection.closing || connection.dead) continue;
    if (connection.held) drop_held(connection);
    shrink_if_idle(connection);
    if (too_much_unread(connection)) continue;
    busy |= connection.readable || connection.fed;
    if (connection.readable && !connection.fed) read_some(connection);
    go_on(connection);
  }
  return busy;
}

void Front::read_some(Connection& connection) {
  const std::span<char> room = connection.reader.room();
  connection.shrinks_ns = session_.now_ns() + kIdleNs;
  const ssize_t n = recv(connection.socket.get(), room.data(), room.size(), MSG_DONTWAIT);
  if (n > 0) {
    connection.reader.filled(static_cast<size_t>(n));
    connection.fed = true;
    return;
  }
  if (n < 0 && errno == EINTR) return;
  connection.readable = false;
  if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) connection.dead = true;
}

void Front::go_on(Connection& connection) {
  if (!connection.fed) return;
  connection.fed = false;
  connection.work = Root::of(serve(connection));
  connection.work.start();
}

bool Front::too_much_unread(const Connection& connection) const {
  return connection.output.size() - connection.sent >= options_.output_held_bytes;
}

Task<void> Front::serve(Connection& connection) {
  while (!connection.closing && !connection.dead) {
    if (too_much_unread(connection)) {
      connection.fed = true;
      co_return;
    }
    switch (connection.reader.next()) {
      case RespRead::kMore:
        co_return;
      case RespRead::kError:
        RespWriter(&connection.output).error("ERR " + std::string(connection.reader.error()));
        connection.closing = true;
        co_return;
      case RespRead::kCommand:
        break;
    }
    const Arguments arguments = connection.reader.command();
    if (execute_at_once(connection, arguments)) continue;
    Task<void> work = execute(connection, arguments);
    co_await work;
  }
}

// What needs no transaction; false: it does.
bool Front::execute_at_once(Connection& connection, Arguments arguments) {
  RespWriter out(&connection.output);
  const std::string_view name = arguments[0];
  if (is(name, "quit")) {
    out.simple("OK");
    connection.closing = true;
  } else if (is(name, "multi")) {
    if (connection.in_multi) {
      out.error("ERR MULTI calls can not be nested");
    } else {
      connection.in_multi = true;
      out.simple("OK");
    }
  } else if (is(name, "discard")) {
    connection.in_multi ? out.simple("OK") : out.error("ERR DISCARD without MULTI");
    end_multi(connection);
  } else if (is(name, "exec")) {
    if (connection.in_multi && !connection.multi_is_bad && !connection.held_too_long) return false;
    if (connection.held_too_long) {
      out.error("ABORTED the transaction was dropped: multi_held_ms is " + std::to_string(options_.multi_held_ms));
    } else {
      connection.in_multi ? out.error("EXECABORT Transaction discarded because of previous errors.")
                          : out.error("ERR EXEC without MULTI");
    }
    end_multi(connection);
  } else if (connection.in_multi) {
    queue(connection, arguments);
  } else if (is(name, "ping")) {
    ping(arguments, out);
  } else if (is(name, "echo") && arguments.size() == 2) {
    out.bulk(arguments[1]);
  } else if (is(name, "weft")) {
    return weft_command(connection, arguments);
  } else {
    const std::string why = refusal(arguments);
    if (why.empty()) return false;
    out.error(why);
  }
  return true;
}

// Why a command is not run, whatever is in the tables; empty: it is. It bounds the work that one command makes.
std::string Front::refusal(Arguments arguments) const {
  const Command* command = find_command(arguments[0]);
  if (command == nullptr) return unknown_command(arguments);
  if (!fits(*command, arguments.size())) return wrong_arity(arguments[0]);
  const size_t keys = keys_named(*command, arguments.size());
  const size_t keys_max = engine_->limits().txn_keys_max;
  if (keys > keys_max)
    return "ERR the command names too many keys: " + limit_text("limits.txn_keys_max", keys_max, keys);
  // Nothing takes more than two arguments a key, but for options that were repeated.
  if (arguments.size() > 2 * keys_max + 4) return "ERR syntax error";
  return {};
}

void Front::end_multi(Connection& connection) {
  connection.in_multi = connection.multi_is_bad = connection.held_too_long = false;
  connection.queued.clear();
  connection.queued_bytes = 0;
  connection.held.reset();
}

// False: it takes a while.
bool Front::weft_command(Connection& connection, Arguments arguments) {
  RespWriter out(&connection.output);
  const std::string_view what = arguments.size() == 2 ? arguments[1] : std::string_view();
  if (is(what, "multi") || is(what, "digest")) return false;
  if (arguments.size() == 3 && is(arguments[1], "outcome")) return false;
  if (is(what, "status")) {
    out.bulk(hooks_.status());
    return true;
  }
  int peer = -1;
  if (arguments.size() == 3 && is(arguments[1], "cut") && options_.debug) {
    const std::string_view text = arguments[2];
    if (std::from_chars(text.data(), text.data() + text.size(), peer).ec == std::errc() && peer >= 0 &&
        peer < kNodesMax) {
      hooks_.cut(NodeId(static_cast<uint8_t>(peer)));
      out.simple("OK");
      return true;
    }
  }
  out.error(options_.debug ? "ERR WEFT takes STATUS, DIGEST, MULTI, OUTCOME id or CUT node"
                           : "ERR WEFT takes STATUS, DIGEST, MULTI or OUTCOME id");
  return true;
}

Task<void> Front::weft_outcome(Connection& connection, Arguments arguments) {
  const std::optional<TxnId> id = parse_id(arguments[2]);
  if (!id) {
    RespWriter(&connection.output).error("ERR an id is incarnation.worker.sequence, as WEFT MULTI answers it");
    co_return;
  }
  Task<Fate> asking = session_.outcome(*id);
  const Fate fate = co_await asking;
  if (fate == Fate::kNotKnownYet) {
    RespWriter(&connection.output)
        .error("TRYAGAIN the outcome is not known after " + std::to_string(engine_->limits().outcome_wait_ms) +
               " ms (limits.outcome_wait_ms): " +
               (engine_->active() ? "somebody still has the transaction open" : "the view is not active"));
    co_return;
  }
  RespWriter(&connection.output)
      .simple(fate == Fate::kCommitted ? "committed"
              : fate == Fate::kAborted ? "aborted"
                                       : "forgotten");
}

// One at a time: each step of the worker does one step of one walk.
Task<void> Front::weft_digest(Connection& connection) {
  while (digest_runs_) co_await session_.sleep_ns(kDigestWaitNs);
  digest_runs_ = true;
  DigestWalk walk(*engine_->node(), engine_->view());
  while (!walk.step()) co_await session_.sleep_ns(1);
  digest_runs_ = false;
  RespWriter(&connection.output).bulk(walk.text());
}

Task<void> Front::weft_multi(Connection& connection) {
  const auto held = std::count_if(connections_.begin(), connections_.end(),
                                  [](const Connection& other) { return other.held.has_value(); });
  const uint32_t held_max = std::min(options_.multi_held_max, engine_->limits().inflight / 2);
  if (held >= static_cast<ptrdiff_t>(held_max)) {
    RespWriter(&connection.output).error("ERR too many WEFT MULTI: multi_held_max is " + std::to_string(held_max));
    co_return;
  }
  connection.held.emplace(co_await session_.begin());
  connection.held_until_ns = session_.now_ns() + uint64_t{options_.multi_held_ms} * 1'000'000;
  connection.in_multi = true;
  RespWriter(&connection.output).bulk(id_text(connection.held->id()));
}

void Front::drop_held(Connection& connection) const {
  if (session_.now_ns() < connection.held_until_ns) return;
  connection.held.reset();
  connection.held_too_long = true;
}

void Front::shrink_if_idle(Connection& connection) const {
  if (session_.now_ns() < connection.shrinks_ns) return;
  connection.shrinks_ns = connection.output.empty() ? UINT64_MAX : session_.now_ns() + kIdleNs;
  connection.reader.shrink();
  if (connection.output.empty()) connection.output.shrink_to_fit();
  connection.reply.clear();
  connection.reply.shrink_to_fit();
}

size_t Front::buffer_bytes() const {
  size_t bytes = 0;
  for (const Connection& connection : connections_) {
    bytes += connection.reader.memory_bytes() + connection.output.capacity() + connection.reply.capacity();
  }
  return bytes;
}

uint64_t Front::deadline_ns() const {
  const bool accepts_later = !accepting_ && accepts_again_ns_ != 0 && engine_->active();
  uint64_t deadline_ns = accepts_later ? accepts_again_ns_ : UINT64_MAX;
  for (const Connection& connection : connections_) {
    if (connection.held) deadline_ns = std::min(deadline_ns, connection.held_until_ns);
    if (connection.work.running() || connection.closing || connection.dead) continue;
    deadline_ns = std::min(deadline_ns, connection.shrinks_ns);
  }
  return deadline_ns;
}

void Front::queue(Connection& connection, Arguments arguments) {
  RespWriter out(&connection.output);
  size_t bytes = connection.queued_bytes;
  for (const std::string_view argument : arguments.subspan(1)) bytes += argument.size();
  const size_t bytes_max = engine_->limits().txn_bytes_max;
  std::string why = refusal(arguments);
  if (why.empty() && connection.queued.size() >= options_.multi_max) {
    why = "ERR too many commands in MULTI: multi_max is " + std::to_string(options_.multi_max);
  } else if (why.empty() && bytes > bytes_max) {
    why = "ERR too many bytes in MULTI: " + limit_text("limits.txn_bytes_max", bytes_max, bytes);
  }
  if (!why.empty()) {
    connection.multi_is_bad = true;
    connection.queued.clear();
    connection.queued_bytes = 0;
    return out.error(why);
  }
  // Nothing of a transaction that EXEC will refuse is kept; its commands are answered as Redis does.
  if (!connection.multi_is_bad) {
    connection.queued.emplace_back(arguments.begin(), arguments.end());
    connection.queued_bytes = bytes;
  }
  out.simple("QUEUED");
}

Task<void> Front::execute(Connection& connection, Arguments arguments) {
  if (is(arguments[0], "weft")) {
    Task<void> work = is(arguments[1], "multi")    ? weft_multi(connection)
                      : is(arguments[1], "digest") ? weft_digest(connection)
                                                   : weft_outcome(connection, arguments);
    co_await work;
    co_return;
  }
  std::vector<Arguments> commands;
  std::vector<std::vector<std::string>> queued;
  std::vector<std::vector<std::string_view>> views;
  const bool exec = connection.in_multi;
  if (exec) {
    queued.swap(connection.queued);
    connection.queued_bytes = 0;
    connection.in_multi = false;
    for (const auto& command : queued) views.emplace_back(command.begin(), command.end());
    for (const auto& command : views) commands.emplace_back(command);
  } else {
    commands.push_back(arguments);
  }
  Task<void> work = transact(connection, std::move(commands), exec);
  co_await work;
}

Task<Code> Front::apply(Connection& connection, Txn& txn, std::span<const Arguments> commands) {
  connection.reply.clear();
  connection.reply_too_long = false;
  RespWriter reply(&connection.reply, options_.reply_bytes_max);
  for (const Arguments& arguments : commands) {
    Task<Code> work = find_command(arguments[0])->apply(txn, options_.table, arguments, reply);
    const Code code = co_await work;
    if (code != Code::kOk) co_return code;
    connection.reply_too_long = reply.over();
    if (reply.over()) co_return Code::kApplication;
  }
  co_return Code::kOk;
}

Task<void> Front::transact(Connection& connection, std::vector<Arguments> commands, bool exec) {
  if (connection.held) {
    Txn txn = std::move(*connection.held);
    connection.held.reset();
    Task<Code> work = apply(connection, txn, commands);
    const Code code = co_await work;
    Outcome outcome;
    if (code == Code::kOk) {
      outcome = co_await txn.commit();
    } else {
      outcome = txn.abort(code);
    }
    answer(connection, outcome, commands.size(), exec);
    co_return;
  }
  const auto body = [&](Txn& txn) { return apply(connection, txn, commands); };
  Policy policy;
  policy.attempts = UINT32_MAX;
  Task<Outcome> running = session_.run(policy, body);
  const Outcome outcome = co_await running;
  answer(connection, outcome, commands.size(), exec);
}

void Front::answer(Connection& connection, const Outcome& outcome, size_t commands, bool exec) const {
  RespWriter out(&connection.output);
  if (connection.reply_too_long && outcome.code == Code::kApplication) {
    clear(connection.reply);
    return out.error("ERR the reply is too long, and nothing was done: reply_bytes_max is " +
                     std::to_string(options_.reply_bytes_max));
  }
  switch (outcome.kind) {
    case OutcomeKind::kCommitted:
      if (exec) out.array(commands);
      connection.output.append(connection.reply);
      clear(connection.reply);
      return;
    case OutcomeKind::kUnknown:
      return out.error("UNKNOWN " + id_text(outcome.id) + " " + outcome.text());
    case OutcomeKind::kAborted:
      return out.error("ABORTED " + outcome.text());
    case OutcomeKind::kRejected:
      if (outcome.code == Code::kClosed && engine_->retired()) {
        return out.error("ERR rejected: this node was removed from the view and starts over: ask another node");
      }
      if (outcome.code == Code::kTableFull || outcome.code == Code::kBinFull) {
        return out.error("ERR " + outcome.text() + ": " +
                         engine_->node()->table(outcome.table)->limit_text(outcome.code));
      }
      return out.error("ERR " + outcome.text());
  }
}

bool Front::flush() {
  bool busy = false;
  for (auto connection = connections_.begin(); connection != connections_.end();) {
    if (!connection->output.empty() && !connection->dead) busy |= write_some(*connection);
    const bool done = connection->dead || (connection->closing && connection->output.empty());
    // A transaction that runs for a client that went away runs to its end.
    if (done && !connection->work.running()) {
      connection = connections_.erase(connection);
    } else {
      ++connection;
    }
  }
  return busy;
}

// False: the client does not take any more now; the socket says when it does.
bool Front::write_some(Connection& connection) {
  std::string& output = connection.output;
  size_t& sent = connection.sent;
  const ssize_t n =
      send(connection.socket.get(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) {
    sent += static_cast<size_t>(n);
    if (sent == output.size()) {
      clear(output);
      sent = 0;
    } else if (sent >= kKeptBytes && sent >= output.size() - sent) {  // as much is moved as was sent, or less
      output.erase(0, sent);
      sent = 0;
    }
  } else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    connection.dead = true;
  }
  return n > 0 || connection.dead;
}

}  // namespace weft
