// A load generator for the Redis protocol, the same for Redis and for Weft (scripts/redis_compare.py):
//
//   redis_load set|get|incr|mget|mset|hot|share|transfer --port 7379[,7380,...] [--clients 50] [--pipeline 1]
//              [--keys 100000] [--seconds 5] [--wait] [--away]
//
// One thread, one connection per client, the connections spread over the ports. set, get, incr, mget and mset (of ten)
// send `pipeline` commands at a time; --away: only of keys that the client's node has no replica of (CLUSTER SLOTS).
// hot sends INCR of one key that all share, and ends with a check of its value. share sends MULTI, GET of one key that
// all share, SET of a key, EXEC. transfer moves money between two accounts the way a client of Redis does it:
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
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/histogram.h"
#include "weft/server/redis_load_client.h"

namespace weft::redis_load {
namespace {

constexpr int64_t kBalance = 1'000;
constexpr std::string_view kLoads[] = {"set", "get", "incr", "mget", "mset", "hot", "share", "transfer"};

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
    if (flag == "--wait" || flag == "--away") {
      (flag == "--wait" ? flags.wait : flags.away) = true;
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
  if (std::find(std::begin(kLoads), std::end(kLoads), flags.load) == std::end(kLoads)) {
    std::string all;
    for (const std::string_view load : kLoads) all.append(all.empty() ? "" : ", ").append(load);
    die("the load is one of " + all + ", not '" + flags.load + "'");
  }
  if (flags.ports.empty() || flags.clients < 1 || flags.pipeline < 1 || flags.keys < 2) {
    die("it needs --port, a client, a command and two keys");
  }
  return flags;
}

void load(Client& client, uint64_t keys) {
  client.add({"SET", "shared", "abc"});
  client.ask();
  client.add({"DEL", "hot"});
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
  RealClock clock;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < flags.clients; ++i) {
    clients.push_back(std::make_unique<Client>(flags.ports[static_cast<size_t>(i) % flags.ports.size()], i + 1));
  }
  load(*clients[0], flags.keys);
  for (size_t i = 0; flags.away && i < clients.size(); ++i) {
    clients[i]->stay_away_from(flags.ports[i % flags.ports.size()]);
  }
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
  Histogram latency;
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
  if (flags.load == "hot") {
    clients[0]->add({"GET", "hot"});
    const uint64_t sent = batches * static_cast<uint64_t>(flags.pipeline);
    const std::string is = clients[0]->ask()->str;
    if (is != std::to_string(sent)) die("the counter is " + is + " after " + std::to_string(sent) + " times INCR");
  }
  const double operations = static_cast<double>(batches) * (flags.load == "transfer" ? 1 : flags.pipeline);
  std::printf(
      "{\"operations\":%.0f,\"conflicts\":%llu,\"seconds\":%.3f,\"tps\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
      operations, static_cast<unsigned long long>(conflicts), seconds, operations / seconds,
      static_cast<double>(latency.quantile(0.5)) / 1e3, static_cast<double>(latency.quantile(0.99)) / 1e3);
  return 0;
}

}  // namespace
}  // namespace weft::redis_load

int main(int argc, char** argv) { return weft::redis_load::run(weft::redis_load::parse(argc, argv)); }
