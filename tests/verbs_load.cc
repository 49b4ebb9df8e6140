// The append workload against a cluster over RDMA, for the virtual machine of verbs_vm_test.sh, which has no Python:
// for every row of the protocol table three nodes are started, clients append and read, one node is killed and later
// another one stopped, each time the cluster is whole again, and what the clients saw is judged by `weft check`.
//
//   weft_verbs_load WEFT FOLDER [PROTOCOL...]
//
// The devices' atomics do not go with the processor's there. Rows that lock by verbs do so through the loop of each
// node to itself, and the first of them by messages, too. That they really do is counted: exactly, on a cluster in this
// process where nothing conflicts, and at least so many under load. Other rows have no CAS.
//
// An outcome that nobody knows ends the process of the history that asked, as in workloads.py.
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/random.h"
#include "weft/cluster.h"
#include "weft/txn/protocol.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr int kNodes = 3;
constexpr int kPort = 21000;
constexpr int kClientsANode = 2;
constexpr size_t kCommits = 200;  // before the first loss, and each time the cluster is whole again
constexpr size_t kActiveKeys = 8;
constexpr size_t kKeysATxn = 4;
constexpr size_t kKeyAppends = 64;  // then the key is retired
constexpr uint64_t kPatienceNs = 60'000'000'000;
constexpr useconds_t kFiguresUs = 100'000;  // by then a worker's figures are out
constexpr int kTriesMax = 5;
constexpr TableId kTable(0);
constexpr uint64_t kCounted = 40;  // locks, where each CAS is counted

[[noreturn]] void fail(const std::string& why) {
  std::printf("FAILED: %s\n", why.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

struct Ends {
  void operator()(redisContext* c) const { redisFree(c); }
  void operator()(redisReply* r) const { freeReplyObject(r); }
};
using Reply = std::unique_ptr<redisReply, Ends>;

class Connection {
 public:
  explicit Connection(int node, int seconds = 30) {
    context_.reset(redisConnectWithTimeout("127.0.0.1", kPort + node, {5, 0}));
    if (open()) redisSetTimeout(context_.get(), {seconds, 0});
  }
  bool open() const { return context_ != nullptr && context_->err == 0; }
  void ask(const std::vector<std::string>& words) {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const std::string& word : words) texts.push_back(word.data()), sizes.push_back(word.size());
    redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(), sizes.data());
  }
  // nullptr if the connection is over.
  Reply answer() {
    void* reply = nullptr;
    if (!open() || redisGetReply(context_.get(), &reply) != REDIS_OK) return nullptr;
    return Reply(static_cast<redisReply*>(reply));
  }

 private:
  std::unique_ptr<redisContext, Ends> context_;
};

std::string text_of(const redisReply& reply) { return reply.str == nullptr ? "" : std::string(reply.str, reply.len); }

// "1,2,3," as an array; an absent key is an empty list.
json elements(const redisReply& reply) {
  json list = json::array();
  std::string number;
  for (const char c : text_of(reply)) {
    if (c != ',') {
      number += c;
      continue;
    }
    list.push_back(std::stoull(number));
    number.clear();
  }
  if (!number.empty()) fail("a list that no append wrote: " + text_of(reply));
  return list;
}

// What all clients of one row share.
class Load {
 public:
  Load(Clock* clock, uint64_t seed) : clock_(clock), random_(seed) {
    for (size_t i = 0; i < kActiveKeys; ++i) active_.push_back(new_key());
  }

  json draw() {
    const std::scoped_lock lock(mutex_);
    json ops = json::array();
    for (uint64_t n = random_.between(1, kKeysATxn); n != 0; --n) {
      const size_t place = random_.below(active_.size());
      const size_t key = active_[place];
      if (random_.chance(50)) {
        ops.push_back({"r", name(key), nullptr});
        continue;
      }
      ops.push_back({"append", name(key), ++element_});
      if (++appends_[key] == kKeyAppends) active_[place] = new_key();
    }
    return ops;
  }
  // Of what was committed so far, the writes of keys that were there already; at least.
  size_t overwrites() {
    const std::scoped_lock lock(mutex_);
    return writes_ - std::min(writes_, appends_.size());
  }
  uint64_t new_process() { return ++processes_; }
  uint64_t now_ns() const { return clock_->now_ns(); }
  void record(uint64_t process, uint64_t invoke_ns, const char* type, const json& ops) {
    const bool known = std::string_view(type) != "info";
    json line = {{"process", process}, {"invoke", invoke_ns}, {"type", type}, {"ops", ops}};
    line["complete"] = known ? json(now_ns()) : json(nullptr);
    const std::scoped_lock lock(mutex_);
    lines_.push_back(line.dump());
    if (std::string_view(type) == "ok") {
      ++committed;
      std::set<std::string> written;
      for (const json& op : ops) {
        if (op[0] == "append") written.insert(op[1].get<std::string>());
      }
      writes_ += written.size();
    }
    if (!known) ++unknown;
  }
  std::vector<std::string> keys() {
    std::vector<std::string> all;
    for (size_t key = 0; key < appends_.size(); ++key) all.push_back(name(key));
    return all;
  }
  void write(const std::string& file) {
    std::ofstream out(file);
    for (const std::string& line : lines_) out << line << "\n";
  }

  std::atomic<size_t> committed{0};
  std::atomic<size_t> unknown{0};
  std::atomic<bool> stop{false};

 private:
  static std::string name(size_t key) { return "k" + std::to_string(key); }
  size_t new_key() {
    appends_.push_back(0);
    return appends_.size() - 1;
  }

  Clock* const clock_;
  std::mutex mutex_;
  Random random_;
  std::vector<size_t> active_;
  std::vector<size_t> appends_;  // tried, by key
  uint64_t element_ = 0;
  size_t writes_ = 0;  // keys that committed transactions have appended to
  std::atomic<uint64_t> processes_{0};
  std::vector<std::string> lines_;
};

// One transaction. False if the connection is of no use any more.
bool run_one(Load& load, Connection& connection, uint64_t& process) {
  json ops = load.draw();
  const uint64_t invoke_ns = load.now_ns();
  connection.ask({"MULTI"});
  for (const json& op : ops) {
    const auto key = op[1].get<std::string>();
    if (op[0] == "r") {
      connection.ask({"GET", key});
    } else {
      connection.ask({"APPEND", key, std::to_string(op[2].get<uint64_t>()) + ","});
    }
  }
  connection.ask({"EXEC"});
  Reply reply;
  for (size_t i = 0; i < ops.size() + 2; ++i) {
    reply = connection.answer();
    if (reply == nullptr) break;
    if (i <= ops.size() && reply->type == REDIS_REPLY_ERROR) fail("not queued: " + text_of(*reply));
  }
  const bool error = reply != nullptr && reply->type == REDIS_REPLY_ERROR;
  const std::string said = error ? text_of(*reply) : "";
  if (reply == nullptr || said.starts_with("UNKNOWN")) {
    load.record(process, invoke_ns, "info", ops);
    process = load.new_process();
    return reply != nullptr;
  }
  if (error) {
    const bool known = said.starts_with("ABORTED") || said.starts_with("ERR") || said.starts_with("EXECABORT") ||
                       said.starts_with("TRYAGAIN");
    if (!known) fail(said);
    load.record(process, invoke_ns, "fail", ops);
    return true;
  }
  if (reply->elements != ops.size()) fail("EXEC answered " + std::to_string(reply->elements) + " times");
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i][0] == "r") ops[i][2] = elements(*reply->element[i]);
  }
  load.record(process, invoke_ns, "ok", ops);
  return true;
}

void run_client(Load& load, int node) {
  uint64_t process = load.new_process();
  while (!load.stop) {
    Connection connection(node);
    while (!load.stop && connection.open() && run_one(load, connection, process)) {
    }
    node = (node + 1) % kNodes;
    if (!load.stop) usleep(10'000);
  }
}

json status_of(int node) {
  Connection connection(node);
  if (!connection.open()) return nullptr;
  connection.ask({"WEFT", "STATUS"});
  const Reply reply = connection.answer();
  return reply == nullptr ? json(nullptr) : json::parse(text_of(*reply), nullptr, false);
}

class Processes {
 public:
  Processes(const std::string& weft, const std::string& protocol, const char* locks, const std::string& log) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) fail("fork");
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || freopen(log.c_str(), "w", stdout) == nullptr || dup2(1, 2) < 0) std::_Exit(126);
    execl(weft.c_str(), "weft", "up", "--nodes", "3", "--replicas", "3", "--fabric", "verbs", "--protocol",
          protocol.c_str(), "--remote-lock-mode", locks, "--port", std::to_string(kPort).c_str(), "--memory-bytes",
          "16MiB", "--capacity", "2000", nullptr);
    std::_Exit(127);
  }
  // Every node says that nothing is missing, and none of them is the process `gone`.
  bool whole(int64_t gone) {
    for (int node = 0; node < kNodes; ++node) {
      const json status = status_of(node);
      if (!status.is_object() || !status["whole"] || status["pid"] == gone) return false;
      if (status["fabric"] != "verbs") fail("the fabric is " + status["fabric"].dump());
    }
    return true;
  }
  void end() {
    kill(pid_, SIGTERM);
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_ || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      fail("weft up ended with status " + std::to_string(status));
    }
  }
  void check_alive() {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != 0) fail("weft up ended by itself");
  }

 private:
  pid_t pid_ = 0;
};

// What the cluster says of itself when something took too long: each node's status, and for the first keys what a
// transaction at each node that is tried once says of an append to it.
void print_state() {
  constexpr int kKeys = 12;
  constexpr int kSeconds = 2;
  for (int node = 0; node < kNodes; ++node) {
    std::printf("\nnode %d: %s\n", node, status_of(node).dump().c_str());
    for (int key = 0; key < kKeys; ++key) {
      Connection connection(node, kSeconds);
      if (!connection.open()) break;
      const std::string name = "k" + std::to_string(key);
      connection.ask({"WEFT", "MULTI"});
      connection.ask({"GET", name});
      connection.ask({"APPEND", name, ""});
      connection.ask({"EXEC"});
      Reply reply;
      for (int i = 0; i < 4; ++i) reply = connection.answer();
      const bool done = reply != nullptr && reply->type == REDIS_REPLY_ARRAY;
      std::printf("%s: %s; ", name.c_str(), reply == nullptr ? "no answer" : done ? "ok" : text_of(*reply).c_str());
    }
  }
  std::printf("\n");
}

template <class Holds>
void wait_for(Clock& clock, Processes& cluster, const char* what, const Holds& holds) {
  const uint64_t end_ns = clock.now_ns() + kPatienceNs;
  while (!holds()) {
    cluster.check_alive();
    if (clock.now_ns() > end_ns) {
      print_state();
      fail(std::string("too long: ") + what);
    }
    usleep(20'000);
  }
}

// All keys in one transaction each, as the last process of the history. If a node is removed now the next one is asked.
void final_read(Clock& clock, Processes& cluster, Load& load) {
  const uint64_t process = load.new_process();
  int node = 0;
  Connection connection(node);
  for (const std::string& key : load.keys()) {
    wait_for(clock, cluster, "the final read", [&] {
      const uint64_t invoke_ns = load.now_ns();
      connection.ask({"GET", key});
      const Reply reply = connection.answer();
      const bool read = reply != nullptr && reply->type != REDIS_REPLY_ERROR;
      if (read) load.record(process, invoke_ns, "ok", {{"r", key, elements(*reply)}});
      if (!read) connection = Connection(node = (node + 1) % kNodes);
      return read;
    });
  }
}

// A node's process gets a signal that it does not survive as a member; the cluster gets over it.
void lose(Clock& clock, Processes& cluster, const Load& load, int node, int signal) {
  int64_t pid = 0;
  wait_for(clock, cluster, "a node's saying who it is", [&] {
    const json victim = status_of(node);
    pid = victim.is_object() ? victim["pid"].get<int64_t>() : 0;
    return pid > 1;
  });
  kill(static_cast<pid_t>(pid), signal);
  wait_for(clock, cluster, "being whole again", [&] { return cluster.whole(pid); });
  const size_t before = load.committed;
  wait_for(clock, cluster, "commits after a loss", [&] { return load.committed >= before + kCommits; });
}

bool locks_by_verb(const Protocol& row) { return row.by.lock == Primitive::kOneSided; }

// What the three processes have counted; nothing if one of them does not answer.
struct Swaps {
  std::vector<int64_t> pids;
  size_t swaps = 0;
};
std::optional<Swaps> swaps_now() {
  Swaps all;
  for (int node = 0; node < kNodes; ++node) {
    const json status = status_of(node);
    if (!status.is_object()) return std::nullopt;
    all.pids.push_back(status["pid"].get<int64_t>());
    all.swaps += status["figures"]["swaps"].get<size_t>();
  }
  return all;
}

// Of some commits, while all processes live: on a busy machine one may be removed at any time, with what it counted.
void check_swaps(Clock& clock, Processes& cluster, Load& load, bool by_verbs) {
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const auto before = swaps_now();
    const size_t from = load.overwrites();
    const size_t commits = load.committed;
    wait_for(clock, cluster, "commits", [&] { return load.committed >= commits + kCommits / 4; });
    const size_t overwrites = load.overwrites() - from;
    usleep(kFiguresUs);
    const auto after = swaps_now();
    if (!before || !after || before->pids != after->pids) continue;
    const size_t swaps = after->swaps - before->swaps;
    std::printf("%zu CAS for at least %zu locks, ", swaps, by_verbs ? overwrites : 0);
    // A client's last transaction before may have been counted after its locks.
    constexpr size_t kBetween = size_t{kNodes} * kClientsANode * kKeysATxn;
    if (by_verbs ? swaps + kBetween < overwrites || swaps == 0 : after->swaps != 0)
      fail("that is not what the row says");
    return;
  }
  std::printf("CAS not counted: processes were removed all the time, ");
}

void run_row(const std::string& weft, const std::string& folder, const Protocol& row, RemoteLockMode by) {
  RealClock clock;
  const char* const locks = by == RemoteLockMode::kNicLoopback ? "loopback" : "messages";
  const std::string name = std::string(row.name) + "-" + locks;
  const std::string log = folder + "/" + name + ".log";
  std::printf("%s: ", name.c_str());
  std::fflush(stdout);
  Processes cluster(weft, std::string(row.name), locks, log);
  wait_for(clock, cluster, "the start", [&] { return cluster.whole(0); });
  Load load(&clock, 1);
  std::vector<std::thread> clients;
  for (int i = 0; i < kNodes * kClientsANode; ++i) clients.emplace_back([&load, i] { run_client(load, i % kNodes); });
  wait_for(clock, cluster, "commits", [&] { return load.committed >= kCommits / 2; });
  check_swaps(clock, cluster, load, locks_by_verb(row) && by == RemoteLockMode::kNicLoopback);
  lose(clock, cluster, load, 1, SIGKILL);
  lose(clock, cluster, load, 2, SIGSTOP);  // silent for too long: it is removed, and the supervisor ends it
  load.stop = true;
  for (std::thread& client : clients) client.join();
  final_read(clock, cluster, load);
  cluster.end();
  const std::string history = folder + "/" + name + ".history";
  load.write(history);
  std::printf("%zu committed, %zu unknown, ", load.committed.load(), load.unknown.load());
  std::fflush(stdout);
  if (std::system((weft + " check " + history).c_str()) != 0) fail("the history of " + name);
  if (std::system(("! grep -E 'check failed|Sanitizer|runtime error' " + log).c_str()) != 0) fail("the log of " + name);
}

// Transactions that never conflict: each reads and writes two keys that no other one touches, and then the same number
// of keys is written without a look. A lock is one CAS, of the transaction's node if another has the key and it was
// read, else of the node that has it; and so is each backup's install.
void count_swaps(const Protocol& row) {
  constexpr NodeId kClient(0);
  Options options;
  options.nodes = options.replicas = kNodes;
  options.fabric = "verbs";
  options.protocol = row.name;
  options.remote_lock_mode = RemoteLockMode::kNicLoopback;
  auto opened = Cluster::open(options);
  if (!opened) fail(opened.error().text());
  Cluster& cluster = **opened;
  TableSpec spec;
  spec.name = "t";
  spec.capacity = 2 * kCounted;
  if (const auto table = cluster.create_table(spec); !table) fail(table.error().text());
  for (uint64_t key = 0; key < 2 * kCounted; ++key) {
    if (const auto loaded = cluster.load(kTable, key, "old"); !loaded) fail(loaded.error().text());
  }
  uint64_t remote = 0;  // of the keys that are read
  cluster.visit(kTable, [&](NodeId node, bool primary, std::string_view key, std::string_view, uint64_t) {
    uint64_t number = 0;
    std::memcpy(&number, key.data(), sizeof number);
    if (primary && node != kClient && number < kCounted) ++remote;
  });
  if (const auto started = cluster.start(); !started) fail(started.error().text());
  for (uint64_t key = 0; key < kCounted; key += 2) {
    auto body = [key](Txn& txn) -> Task<Code> {
      for (uint64_t k = key; k < key + 2; ++k) {
        const Value value = co_await txn.get(kTable, k, Intent::kUpdate);
        if (!value.found) co_return Code::kNotFound;
        txn.put(kTable, k, "new");
      }
      co_return Code::kOk;
    };
    const Outcome outcome = cluster.run(kClient, {}, body);
    if (outcome.kind != OutcomeKind::kCommitted) fail(outcome.text());
  }
  for (uint64_t key = kCounted; key < 2 * kCounted; ++key) {
    const Outcome outcome = cluster.put_one(kClient, kTable, key, "new");
    if (outcome.kind != OutcomeKind::kCommitted) fail(outcome.text());
  }
  cluster.stop();
  if (const std::string wrong = cluster.audit(); !wrong.empty()) fail(wrong);
  const Counters counters = cluster.counters();
  uint64_t posted = 0;
  for (const uint64_t of_phase : counters.phase_swaps) posted += of_phase;
  std::printf("%s: %llu CAS to others and %llu to themselves for %llu locks, %llu of them remote\n", row.name.data(),
              static_cast<unsigned long long>(posted), static_cast<unsigned long long>(counters.own_swaps),
              static_cast<unsigned long long>(2 * kCounted), static_cast<unsigned long long>(remote));
  const uint64_t all = locks_by_verb(row) ? 2 * kCounted * kNodes : 0;
  const uint64_t to_others = locks_by_verb(row) ? remote : 0;
  if (counters.aborted != 0) fail("nothing conflicts");
  if (posted != to_others || posted + counters.own_swaps != all) fail("that is not what the row says");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "weft_verbs_load WEFT FOLDER [PROTOCOL...]\n");
    return 2;
  }
  const std::vector<std::string> rows(argv + 3, argv + argc);
  bool by_messages = false;
  for (const weft::Protocol& row : weft::kProtocols) {
    if (!rows.empty() && std::find(rows.begin(), rows.end(), row.name) == rows.end()) continue;
    if (row.verbs() || row.name == "fasst") weft::count_swaps(row);
    weft::run_row(argv[1], argv[2], row, weft::RemoteLockMode::kNicLoopback);
    if (!weft::locks_by_verb(row) || by_messages) continue;
    weft::run_row(argv[1], argv[2], row, weft::RemoteLockMode::kMessages);
    by_messages = true;
  }
  return 0;
}
