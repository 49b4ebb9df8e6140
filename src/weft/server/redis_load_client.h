// The clients of redis_load: what each sends, and what it makes of the answers.
#pragma once

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/random.h"
#include "weft/store/table.h"

namespace weft::redis_load {

inline constexpr int kKeysOfMset = 10;

struct Flags {
  std::string load;
  std::vector<int> ports;
  int clients = 50;
  int pipeline = 1;
  uint64_t keys = 100'000;
  double seconds = 5;
  bool wait = false;
  bool away = false;
};

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "redis_load: %s\n", why.c_str());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): one thread
}

struct Freed {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, Freed>;

inline std::string name_of(uint64_t account) { return "key:" + std::to_string(account); }

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

  // From now on it names only keys that the node at this port has no replica of.
  void stay_away_from(int port) {
    held_.assign(kRedisSlots, false);
    add({"CLUSTER", "SLOTS"});
    const Reply slots = ask();
    for (size_t i = 0; i < slots->elements; ++i) {
      const redisReply& range = *slots->element[i];
      for (size_t n = 2; n < range.elements; ++n) {
        if (range.element[n]->element[1]->integer != port) continue;
        for (auto s = range.element[0]->integer; s <= range.element[1]->integer; ++s)
          held_[static_cast<size_t>(s)] = true;
      }
    }
    if (std::find(held_.begin(), held_.end(), false) == held_.end()) die("the node has a replica of every key");
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
    size_t bytes = 0;
    do {
      const char* const end = std::to_chars(name + 4, std::end(name), random_.below(flags.keys)).ptr;
      bytes = static_cast<size_t>(end - name);
    } while (!held_.empty() && held_[redis_slot(as_bytes({name, bytes}))]);
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
    } else if (flags.load == "hot") {
      out_ += "*2\r\n$4\r\nINCR\r\n$3\r\nhot\r\n";
    } else if (flags.load == "mget") {
      out_ += "*11\r\n$4\r\nMGET\r\n";
      for (int i = 0; i < kKeysOfMset; ++i) add_key(flags);
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

  Random random_;
  redisReader* reader_;
  Answers answers_;
  int fd_ = -1;
  std::string out_;
  std::vector<bool> held_;  // by slot: not to be named; empty: all may be
  uint64_t from_ = 0, to_ = 0, began_ns_ = 0;
  int seen_ = 0, wanted_ = 0;  // replies of this step
  bool changing_ = false, moved_ = false;
};

}  // namespace weft::redis_load
