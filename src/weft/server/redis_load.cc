// A load generator for the Redis protocol, the same for Redis and for Weft (scripts/redis_compare.py):
//
//   redis_load set|get|incr|mset|share|transfer --port 7379[,7380,...] [--clients 50] [--pipeline 1] [--keys 100000]
//              [--seconds 5] [--wait]
//
// One thread, one connection per client, the connections spread over the ports. set, get, incr and mset (of ten) send
// `pipeline` commands at a time. share sends MULTI, GET of one key that all share, SET of a key, EXEC. transfer moves
// money between two accounts the way a client of Redis does it:
//
//   WATCH a b, MGET a b        -> the balances
//   MULTI, SET a, SET b, EXEC  -> nil if somebody else was faster: try again
//
// and ends with a check of all accounts: the total must not have changed. --wait asks Redis for one replica's
// acknowledgement after every batch or EXEC; Weft has those of all replicas before it answers. Latency is that of a
// batch, or of a transfer with its retries. Prints one JSON object.
//
// A fast server should not have to wait for its client: commands of a pipeline are written without copies, and their
// replies are counted, not kept.
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/histogram.h"
#include "weft/base/random.h"

namespace {

constexpr int64_t kBalance = 1'000;
constexpr int kKeysOfMset = 10;

struct Flags {
  std::string load;
  std::vector<int> ports;
  int clients = 50;
  int pipeline = 1;
  uint64_t keys = 100'000;
  double seconds = 5;
  bool wait = false;
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "redis_load: %s\n", why.c_str());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): one thread
}

struct Freed {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, Freed>;

std::string name_of(uint64_t account) { return "key:" + std::to_string(account); }

// Counts complete replies in the input.
class Answers {
 public:
  void feed(std::string_view bytes) { bytes_.append(bytes); }
  // How many more are complete.
  int take() {
    int whole = 0;
    while (one()) ++whole;
    bytes_.erase(0, at_);
    at_ = 0;
    return whole;
  }

 private:
  bool one() {
    size_t at = at_;
    // An array is complete with its elements.
    for (uint64_t expected = 1; expected > 0; --expected) {
      const std::string_view left = std::string_view(bytes_).substr(at);
      const size_t line = left.find('\r');
      if (line == std::string_view::npos || line + 2 > left.size()) return false;
      size_t bytes = line + 2;
      if (left[0] == '-') die("an error: " + std::string(left.substr(0, line)));
      const bool counts = (left[0] == '$' || left[0] == '*') && left[1] != '-';
      const uint64_t count = counts ? std::strtoull(left.data() + 1, nullptr, 10) : 0;
      if (counts && left[0] == '$') bytes += count + 2;
      if (counts && left[0] == '*') expected += count;
      if (bytes > left.size()) return false;
      at += bytes;
    }
    at_ = at;
    return true;
  }

  std::string bytes_;
  size_t at_ = 0;
};

class Client {
 public:
  Client(int port, uint64_t seed) : random_(seed), reader_(redisReaderCreate()) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
      die("nobody answers on port " + std::to_string(port));
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Client() {
    close(fd_);
    redisReaderFree(reader_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int fd() const { return fd_; }

  void add(const std::vector<std::string>& words) {
    out_ += "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words) out_ += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  void send() {
    for (size_t at = 0; at < out_.size();) {
      const ssize_t n = write(fd_, out_.data() + at, out_.size() - at);
      if (n <= 0) die("the connection was lost");
      at += static_cast<size_t>(n);
    }
    out_.clear();
  }
  void receive() {
    char bytes[16384];
    redisReaderFeed(reader_, bytes, receive(bytes, sizeof bytes));
  }
  Reply next() {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_, &reply) != REDIS_OK) die("an answer that is not of the protocol");
    Reply out(static_cast<redisReply*>(reply));
    if (out != nullptr && out->type == REDIS_REPLY_ERROR) die(std::string("an error: ") + out->str);
    return out;
  }
  Reply ask() {
    send();
    for (;;) {
      if (Reply reply = next()) return reply;
      receive();
    }
  }

  // Starts one batch, or one transfer.
  void begin(const Flags& flags, uint64_t now_ns) {
    began_ns_ = now_ns;
    seen_ = 0;
    if (flags.load == "transfer") {
      from_ = random_.below(flags.keys);
      do {
        to_ = random_.below(flags.keys);
      } while (to_ == from_);
      return look();
    }
    for (int i = 0; i < flags.pipeline; ++i) add_one(flags);
    wanted_ = flags.load == "share" ? 4 * flags.pipeline : flags.pipeline;
    wait_for_replica(flags);
    send();
  }
  // For a batch that is not a transfer: handles input; true if all replies have arrived.
  bool count_answers() {
    char bytes[16384];
    answers_.feed({bytes, receive(bytes, sizeof bytes)});
    seen_ += answers_.take();
    return seen_ == wanted_;
  }
  // For a transfer: handles a reply; true if it was the last one.
  bool take(const Flags& flags, const redisReply& reply, uint64_t* conflicts) {
    ++seen_;
    if (!changing_) {
      if (seen_ == 2) change(flags, reply);
      return false;
    }
    if (seen_ == 4) moved_ = reply.type == REDIS_REPLY_ARRAY;
    if (seen_ < wanted_) return false;
    if (moved_) return true;
    ++*conflicts;
    look();
    return false;
  }
  uint64_t began_ns() const { return began_ns_; }

 private:
  size_t receive(char* to, size_t bytes) const {
    const ssize_t n = read(fd_, to, bytes);
    if (n <= 0) die("the connection was lost");
    return static_cast<size_t>(n);
  }
  void add_key(const Flags& flags) {
    char name[32] = "key:";
    const char* const end = std::to_chars(name + 4, std::end(name), random_.below(flags.keys)).ptr;
    const auto bytes = static_cast<size_t>(end - name);
    char head[8] = "$";
    char* const digits = std::to_chars(head + 1, std::end(head) - 2, bytes).ptr;
    digits[0] = '\r';
    digits[1] = '\n';
    out_.append(head, static_cast<size_t>(digits + 2 - head)).append(name, bytes).append("\r\n");
  }
  void add_one(const Flags& flags) {
    constexpr std::string_view kValueWord = "$3\r\nabc\r\n";  // as redis-benchmark sends it
    if (flags.load == "set") {
      out_ += "*3\r\n$3\r\nSET\r\n";
      add_key(flags);
      out_ += kValueWord;
    } else if (flags.load == "get") {
      out_ += "*2\r\n$3\r\nGET\r\n";
      add_key(flags);
    } else if (flags.load == "incr") {
      out_ += "*2\r\n$4\r\nINCR\r\n";
      add_key(flags);
    } else if (flags.load == "share") {
      out_ += "*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET\r\n$6\r\nshared\r\n*3\r\n$3\r\nSET\r\n";
      add_key(flags);
      out_ += kValueWord;
      out_ += "*1\r\n$4\r\nEXEC\r\n";
    } else {
      static_assert(kKeysOfMset == 10);
      out_ += "*21\r\n$4\r\nMSET\r\n";
      for (int i = 0; i < kKeysOfMset; ++i) {
        add_key(flags);
        out_ += kValueWord;
      }
    }
  }
  void wait_for_replica(const Flags& flags) {
    if (!flags.wait) return;
    add({"WAIT", "1", "1000"});
    ++wanted_;
  }
  void look() {
    seen_ = 0;
    changing_ = false;
    add({"WATCH", name_of(from_), name_of(to_)});
    add({"MGET", name_of(from_), name_of(to_)});
    send();
  }
  void change(const Flags& flags, const redisReply& balances) {
    if (balances.type != REDIS_REPLY_ARRAY || balances.elements != 2) die("MGET answered something else");
    const long long from = std::atoll(balances.element[0]->str), to = std::atoll(balances.element[1]->str);
    seen_ = 0;
    changing_ = true;
    add({"MULTI"});
    add({"SET", name_of(from_), std::to_string(from - 1)});
    add({"SET", name_of(to_), std::to_string(to + 1)});
    add({"EXEC"});
    wanted_ = 4;
    wait_for_replica(flags);
    send();
  }

  weft::Random random_;
  redisReader* reader_;
  Answers answers_;
  int fd_ = -1;
  std::string out_;
  uint64_t from_ = 0, to_ = 0, began_ns_ = 0;
  int seen_ = 0, wanted_ = 0;  // replies of this step
  bool changing_ = false, moved_ = false;
};

std::vector<int> ports_of(const std::string& text) {
  std::vector<int> ports;
  size_t at = 0;
  do {
    ports.push_back(std::atoi(text.c_str() + at));
    at = text.find(',', at);
  } while (at++ != std::string::npos);
  return ports;
}

Flags parse(int argc, char** argv) {
  Flags flags;
  if (argc > 1) flags.load = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--wait") {
      flags.wait = true;
      continue;
    }
    if (i + 1 == argc) die("what is " + flag + "?");
    const std::string value = argv[++i];
    if (flag == "--port") {
      flags.ports = ports_of(value);
    } else if (flag == "--clients") {
      flags.clients = std::atoi(value.c_str());
    } else if (flag == "--pipeline") {
      flags.pipeline = std::atoi(value.c_str());
    } else if (flag == "--keys") {
      flags.keys = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--seconds") {
      flags.seconds = std::atof(value.c_str());
    } else {
      die("what is " + flag + "?");
    }
  }
  constexpr std::string_view kLoads[] = {"set", "get", "incr", "mset", "share", "transfer"};
  if (std::find(std::begin(kLoads), std::end(kLoads), flags.load) == std::end(kLoads)) {
    die("the load is set, get, incr, mset, share or transfer, not '" + flags.load + "'");
  }
  if (flags.ports.empty() || flags.clients < 1 || flags.pipeline < 1 || flags.keys < 2) {
    die("it needs --port, a client, a command and two keys");
  }
  return flags;
}

void load(Client& client, uint64_t keys) {
  client.add({"SET", "shared", "abc"});
  client.ask();
  for (uint64_t a = 0; a < keys;) {
    int n = 0;
    for (; n < 100 && a < keys; ++n, ++a) client.add({"SET", name_of(a), std::to_string(kBalance)});
    client.ask();
    while (--n > 0) client.ask();
  }
}

int64_t total(Client& client, uint64_t keys) {
  int64_t sum = 0;
  for (uint64_t a = 0; a < keys;) {
    int n = 0;
    for (; n < 100 && a < keys; ++n, ++a) client.add({"GET", name_of(a)});
    for (; n > 0; --n) {
      const Reply reply = client.ask();
      if (reply->type != REDIS_REPLY_STRING) die("an account is missing");
      sum += std::atoll(reply->str);
    }
  }
  return sum;
}

int run(const Flags& flags) {
  weft::RealClock clock;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < flags.clients; ++i) {
    clients.push_back(std::make_unique<Client>(flags.ports[static_cast<size_t>(i) % flags.ports.size()], i + 1));
  }
  load(*clients[0], flags.keys);
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  for (auto& client : clients) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = client.get();
    epoll_ctl(poll, EPOLL_CTL_ADD, client->fd(), &event);
    client->begin(flags, clock.now_ns());
  }
  const uint64_t start = clock.now_ns();
  const uint64_t end = start + static_cast<uint64_t>(flags.seconds * 1e9);
  weft::Histogram latency;
  uint64_t batches = 0, conflicts = 0;
  const bool transfers = flags.load == "transfer";
  size_t running = clients.size();
  const auto ended = [&](Client& client) {
    const uint64_t now = clock.now_ns();
    ++batches;
    latency.record(now - client.began_ns());
    if (now < end) {
      client.begin(flags, now);
    } else {
      --running;
    }
  };
  while (running > 0) {
    epoll_event events[64];
    const int n = epoll_wait(poll, events, 64, 5000);
    if (n <= 0) die("no answer for five seconds");
    for (int i = 0; i < n; ++i) {
      auto& client = *static_cast<Client*>(events[i].data.ptr);
      if (!transfers) {
        if (client.count_answers()) ended(client);
        continue;
      }
      client.receive();
      while (const Reply reply = client.next()) {
        if (client.take(flags, *reply, &conflicts)) ended(client);
      }
    }
  }
  const double seconds = static_cast<double>(clock.now_ns() - start) / 1e9;
  close(poll);
  if (flags.load == "transfer") {
    const int64_t there = total(*clients[0], flags.keys);
    const int64_t loaded = kBalance * static_cast<int64_t>(flags.keys);
    if (there != loaded) die(std::to_string(there) + " in all accounts, " + std::to_string(loaded) + " were loaded");
  }
  const double operations = static_cast<double>(batches) * (flags.load == "transfer" ? 1 : flags.pipeline);
  std::printf(
      "{\"operations\":%.0f,\"conflicts\":%llu,\"seconds\":%.3f,\"tps\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
      operations, static_cast<unsigned long long>(conflicts), seconds, operations / seconds,
      static_cast<double>(latency.quantile(0.5)) / 1e3, static_cast<double>(latency.quantile(0.99)) / 1e3);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run(parse(argc, argv)); }
