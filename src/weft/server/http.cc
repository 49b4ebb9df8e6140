#include "weft/server/http.h"

#include <httplib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "weft/base/check.h"
#include "weft/redis/address.h"
#include "weft/server/http_password.h"

namespace weft {

namespace {

constexpr int kBacklog = 64;
constexpr uint64_t kAcceptAgainNs = 100'000'000;  // after there was no descriptor for a connection
constexpr size_t kReadBytes = 4096;
constexpr int kGreetingsPerStep = 4;  // of TLS: each costs a signature

// A complete request, and the answer to it.
class MemoryStream final : public httplib::Stream {
 public:
  MemoryStream(std::string_view input, std::string* output) : input_(input), output_(output) {}
  bool is_readable() const override { return !input_.empty(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t bytes) override {
    const size_t n = std::min(bytes, input_.size());
    std::copy_n(input_.data(), n, to);
    input_.remove_prefix(n);
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t bytes) override {
    output_->append(from, bytes);
    return static_cast<ssize_t>(bytes);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  std::string_view input_;
  std::string* const output_;
};

}  // namespace

// cpp-httplib without its sockets and threads.
class Http::Pages final : public httplib::Server {
 public:
  struct Page {
    std::string type;
    Text text;
  };

  explicit Pages(std::string wanted) : password(std::move(wanted)) {
    set_default_headers({{"Cache-Control", "no-store"},
                         {"X-Content-Type-Options", "nosniff"},
                         {"X-Frame-Options", "DENY"},
                         {"Referrer-Policy", "no-referrer"},
                         {"Content-Security-Policy",
                          "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                          "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"}});
    set_payload_max_length(0);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      route(request, response);
      return HandlerResponse::Handled;
    });
  }

  // Always writes an answer.
  void answer(std::string_view request, std::string* output) {
    MemoryStream stream(request, output);
    bool closed = false;
    process_request(stream, true, closed, nullptr);
    if (output->empty()) *output = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  }

  const std::string password;
  std::map<std::string, Page> pages;
  uint64_t wrong_passwords = 0;

 private:
  bool may_look(const httplib::Request& request) {
    if (password.empty()) return true;
    const PasswordGiven given = password_given(request.get_header_value("Authorization"), password);
    wrong_passwords += given == PasswordGiven::kWrong ? 1 : 0;
    return given == PasswordGiven::kRight;
  }

  void route(const httplib::Request& request, httplib::Response& response) {
    if (!may_look(request)) {
      response.status = 401;
      response.set_header("WWW-Authenticate", "Basic realm=\"weft\", charset=\"UTF-8\"");
      response.set_content("a password is needed: HTTP Basic with any name, or Bearer\n", "text/plain");
      return;
    }
    if (request.method != "GET" && request.method != "HEAD") {
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
      response.set_content("only GET and HEAD are answered\n", "text/plain");
      return;
    }
    const auto page = pages.find(request.path);
    if (page == pages.end()) {
      response.status = 404;
      std::string text = "there is no such page; there are:\n";
      for (const auto& [path, unused] : pages) text += path + "\n";
      response.set_content(text, "text/plain");
      return;
    }
    response.status = 200;
    response.set_content(page->second.text(), page->second.type);
  }
};

Result<std::unique_ptr<Http>> Http::create(const HttpOptions& options, Clock* clock) {
  Result<Fd> listener = listen_on(options.listen, kBacklog);
  if (!listener) return Error{listener.error().code, "http on " + listener.error().detail};
  std::unique_ptr<TcpTls> tls;
  if (!options.tls.certificate.empty()) {
    auto made = TcpTls::create_for_clients(options.tls);
    if (!made) return Error{made.error().code, "http: " + made.error().detail};
    tls = std::move(*made);
  }
  return std::unique_ptr<Http>(new Http(options, std::move(*listener), std::move(tls), clock));
}

Http::Http(const HttpOptions& options, Fd listener, std::unique_ptr<TcpTls> tls, Clock* clock)
    : options_(options),
      clock_(clock),
      tls_(std::move(tls)),
      listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      pages_(std::make_unique<Pages>(options.password)) {
  epoll_event event{};
  event.events = EPOLLIN;
  WEFT_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) == 0, "epoll_ctl");
}

Http::~Http() = default;

uint64_t Http::wrong_passwords() const { return pages_->wrong_passwords; }

uint16_t Http::port() const { return port_of(listener_.get()); }

void Http::route(const std::string& path, std::string_view type, Text text) {
  if (text) {
    pages_->pages[path] = {std::string(type), std::move(text)};
  } else {
    pages_->pages.erase(path);
  }
}

void Http::step() {
  const uint64_t now_ns = clock_->now_ns();
  std::array<epoll_event, 16> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (count == 0 && connections_.empty() && accepting_) return;
  int greetings = kGreetingsPerStep;
  for (Connection& connection : connections_) {
    const bool greeted = connection.stream.greeted();
    if (greeted || greetings > 0) read_some(connection);
    if (!greeted && connection.stream.greeted()) --greetings;
    if (now_ns >= connection.until_ns && !connection.answered) {
      refuse(connection, "408 Request Timeout",
             "the request was not complete in time: deadline_ms is " + std::to_string(options_.deadline_ms));
    }
    write_some(connection);
    if (now_ns >= connection.until_ns) connection.dead = true;
  }
  connections_.remove_if([](const Connection& connection) { return connection.dead; });
  accept_some(now_ns);
}

// Closes the oldest connection that has not sent anything yet: silent connections keep nobody out.
bool Http::make_room() {
  const auto silent = std::find_if(connections_.begin(), connections_.end(),
                                   [](const Connection& connection) { return !connection.answered; });
  if (silent == connections_.end()) return false;
  connections_.erase(silent);
  return true;
}

void Http::accept_some(uint64_t now_ns) {
  if (!accepting_) {
    if (now_ns < accepts_again_ns_) return;
    epoll_event event{};
    event.events = EPOLLIN;
    accepting_ = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) == 0;
  }
  // At most this many per step: the thread has more to do.
  for (uint32_t i = 0; i < options_.connections_max; ++i) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
      // The listener stays readable: it is ignored for a while.
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
      accepting_ = false;
      accepts_again_ns_ = now_ns + kAcceptAgainNs;
      return;
    }
    const bool full = connections_.size() >= options_.connections_max && !make_room();
    Connection connection(ClientStream(std::move(socket), tls_.get()));
    connection.until_ns = now_ns + uint64_t{options_.deadline_ms} * 1'000'000;
    if (full) {
      refuse(connection, "503 Service Unavailable",
             "too many connections: connections_max is " + std::to_string(options_.connections_max));
      write_some(connection);
      continue;
    }
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.stream.fd(), &event) != 0) continue;
    connections_.push_back(std::move(connection));
  }
}

void Http::read_some(Connection& connection) {
  std::array<char, kReadBytes> buffer;
  for (int i = 0; i < 8; ++i) {
    const std::optional<size_t> got = connection.stream.receive(buffer.data(), buffer.size());
    if (!got) {
      // End of input: fine after a request, otherwise nobody waits for an answer.
      if (!connection.answered || connection.sent == connection.output.size()) connection.dead = true;
      return;
    }
    if (*got == 0) return;
    if (connection.answered) continue;
    connection.input.append(buffer.data(), *got);
    const size_t head = std::min(connection.input.find("\r\n\r\n"), connection.input.size());
    if (head > options_.request_bytes_max) {
      refuse(connection, "431 Request Header Fields Too Large",
             "the request's head is too long: request_bytes_max is " + std::to_string(options_.request_bytes_max));
    } else if (head < connection.input.size()) {
      answer(connection);
    }
  }
}

void Http::answer(Connection& connection) {
  pages_->answer(connection.input, &connection.output);
  connection.answered = true;
  connection.input = {};
  ++requests_;
}

void Http::refuse(Connection& connection, std::string_view status, std::string_view why) {
  connection.answered = true;
  connection.output =
      "HTTP/1.1 " + std::string(status) +
      "\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(why.size() + 1) +
      "\r\n\r\n";
  connection.output += why;
  connection.output += '\n';
}

// When all is written, the sending side is shut down; the connection ends when the peer closes it, or at its deadline.
// Closing it with unread input would discard the answer of a client that is still sending.
void Http::write_some(Connection& connection) {
  if (!connection.answered || connection.sent == connection.output.size()) return;
  while (connection.sent < connection.output.size()) {
    const std::optional<size_t> sent =
        connection.stream.send(connection.output.data() + connection.sent, connection.output.size() - connection.sent);
    if (!sent) connection.dead = true;
    if (!sent || *sent == 0) return;
    connection.sent += *sent;
  }
  connection.stream.end();
}

}  // namespace weft
