// A server that answers +OK to every command of the Redis protocol and does nothing else: what redis_load can get out
// of one thread, its sockets and the kernel, whatever the server (scripts/redis_compare.py):
//
//   redis_ok --port 7379
//
// It counts commands by the lengths they name, and looks at nothing else.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "redis_ok: %s\n", why);
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): one thread
}

// The bytes of the first command, an array of bulk strings or a line; 0 if it is not complete.
size_t command_bytes(std::string_view input) {
  const auto line_end = [&](size_t from) {
    const size_t at = input.find('\n', from);
    return at == std::string_view::npos ? 0 : at + 1;
  };
  size_t at = line_end(0);
  if (at == 0 || input[0] != '*') return at;
  for (long words = std::strtol(input.data() + 1, nullptr, 10); words > 0; --words) {
    const size_t word = line_end(at);
    if (word == 0) return 0;
    at = word + std::strtoul(input.data() + at + 1, nullptr, 10) + 2;
    if (at > input.size()) return 0;
  }
  return at;
}

// Answers what has arrived; false: the client has gone.
bool serve(int fd, std::string& input, std::string& output) {
  char bytes[65536];
  const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  input.append(bytes, static_cast<size_t>(got));
  output.clear();
  size_t at = 0;
  while (const size_t command = command_bytes(std::string_view(input).substr(at))) {
    const bool ping = input.compare(at, 4, "PING") == 0;  // how the script asks whether it is up
    output += ping ? "+PONG\r\n" : "+OK\r\n";
    at += command;
  }
  input.erase(0, at);
  return send(fd, output.data(), output.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(output.size());
}

int run(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(listener, 1024) != 0) die("the port");
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [&](int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  };
  watch(listener);
  std::vector<std::string> inputs;  // by descriptor
  std::string output;
  for (;;) {
    epoll_event events[64];
    const int count = epoll_wait(poll, events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd != listener) {
        std::string& input = inputs[static_cast<size_t>(fd)];
        if (serve(fd, input, output)) continue;
        input.clear();
        close(fd);
        continue;
      }
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      if (inputs.size() <= static_cast<size_t>(client)) inputs.resize(static_cast<size_t>(client) + 1);
      watch(client);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--port") != 0) die("it needs --port");
  return run(std::atoi(argv[2]));
}
