// tests/hostile: input of hostile clients, replayed. Bounds are in units of estimated work and in turns, never in
// time: the clock advances only when it is read.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "weft/base/marks.h"
#include "weft/base/source_testing.h"
#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

struct Script {
  std::vector<std::pair<std::string, size_t>> values;
  std::vector<std::string> commands;
  std::vector<std::string> answers;
  bool unread = false;
  size_t held_bytes_max = 8 << 20;  // output_held_bytes, one reply, and spare buffer capacity
};

size_t number_in(std::string_view text) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// {WORD*N} and {TEXT^N}.
std::string expanded(std::string text, size_t repetition) {
  for (size_t at = 0; (at = text.find('%', at)) != std::string::npos;) text.replace(at, 1, std::to_string(repetition));
  for (size_t open = 0; (open = text.find('{')) != std::string::npos;) {
    const size_t close = text.find('}', open);
    std::string what = text.substr(open + 1, close - open - 1);
    const size_t sign = what.find_last_of("*^");
    const size_t times = number_in(std::string_view(what).substr(sign + 1));
    const bool words = what[sign] == '*';
    what.resize(sign);
    if (words) std::replace(what.begin(), what.end(), '#', ' ');
    std::string all;
    for (size_t i = 0; i < times; ++i) all += (words && i > 0 ? " " : "") + what;
    text.replace(open, close - open + 1, all);
  }
  return text;
}

Script read_script(const std::filesystem::path& path) {
  Script out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.find(' ');
    const std::string verb = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    const size_t gap = rest.find(' ');
    if (verb == "value")
      out.values.emplace_back(rest.substr(0, gap), number_in(std::string_view(rest).substr(gap + 1)));
    if (verb == "send") out.commands.push_back(expanded(rest, 0));
    if (verb == "answers") out.answers.push_back(rest);
    if (verb == "unread") out.unread = true;
    if (verb == "holds") out.held_bytes_max = number_in(rest);
    for (size_t i = 0; verb == "repeat" && i < number_in(rest); ++i) {
      out.commands.push_back(expanded(rest.substr(gap + 1), i));
    }
  }
  return out;
}

class HostileTest : public FrontendTest {
 protected:
  static constexpr size_t kValueBytes = 60'000;
  // A turn's budget, the ceiling for cheap clients, and one command on top.
  static constexpr uint64_t kTurnNs = 500'000 * FairScheduler::kCeiling + 2'000'000;

  void shape(ClusterSpec& spec) override {
    spec.options.limits.transactions_in_flight_max = 16;
    spec.tables.back().value_bytes_max = kValueBytes + kValueHeaderBytesMax;
    spec.tables.back().capacity = 3000;
  }
  void step_and_look() {
    steps(1);
    longest_ns_ = std::max(longest_ns_, fronts_[0]->scheduler().spent_ns());
    held_ = std::max(held_, fronts_[0]->buffer_bytes());
  }
  // Reads whatever has arrived.
  static void hear(const Fd& client, std::string* heard) {
    char bytes[65536];
    for (ssize_t n = 0; (n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) {
      heard->append(bytes, static_cast<size_t>(n));
    }
  }
  // Searches what has arrived for the next expected texts, and keeps the rest. Returns whether something has arrived.
  static bool look_for(std::vector<std::string>* wanted, std::string* heard) {
    constexpr size_t kKept = 256;
    const bool more = heard->size() > kKept;
    std::erase_if(*wanted, [&](const std::string& text) { return heard->find(text) != std::string::npos; });
    if (more) heard->erase(0, heard->size() - kKept);
    return more;
  }
  void set(const Fd& client, const std::string& key, size_t bytes) {
    std::string value(bytes, ' ');
    for (size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>('a' + (i * 7919 >> 3) % 5);
    ASSERT_EQ(ask(client, "SET " + key + " " + value), "+OK\r\n");
  }
  // How many turns it takes until the client has its reply.
  int turns_until(const Fd& client, std::string_view command, std::string_view answer) {
    say(client, command);
    std::string heard;
    for (int turn = 1; turn < 20'000; ++turn) {
      step_and_look();
      hear(client, &heard);
      if (heard == answer) return turn;
      if (turn > 1000) usleep(50);  // the kernel may be slow
    }
    ADD_FAILURE() << command << " is not answered: " << heard;
    return 20'000;
  }

  uint64_t longest_ns_ = 0;
  size_t held_ = 0;
};

TEST_F(HostileTest, NobodyElseNotices) {
  size_t scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/hostile"))) {
    if (entry.path().extension() != ".txt") continue;
    SCOPED_TRACE(entry.path().filename());
    ++scripts;
    ASSERT_NO_FATAL_FAILURE(SetUp());
    longest_ns_ = held_ = 0;
    const Script script = read_script(entry.path());
    const Fd hostile = connect_to(0);
    const Fd other = connect_to(0);
    for (const auto& [key, bytes] : script.values) ASSERT_NO_FATAL_FAILURE(set(hostile, key, bytes));
    ASSERT_EQ(ask(other, "SET mine 1"), "+OK\r\n");
    std::string suppressed;
    for (const std::string& command : script.commands) suppressed += command + "\r\n";
    suppressed += "ECHO all-is-answered\r\n";
    std::vector<std::string> wanted = script.answers;
    wanted.emplace_back("all-is-answered");
    std::string heard;
    int asked = 0;
    for (int idle = 0; !wanted.empty() && idle < 20'000; ++idle) {
      const ssize_t n = send(hostile.get(), suppressed.data(), suppressed.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) suppressed.erase(0, static_cast<size_t>(n));
      step_and_look();
      if (asked < 20) {
        EXPECT_LE(turns_until(other, "PING", "+PONG\r\n"), 3);
        EXPECT_LE(turns_until(other, "GET mine", "$1\r\n1\r\n"), 8);
        EXPECT_LE(turns_until(other, "SET mine 1", "+OK\r\n"), 20);
        ++asked;
      }
      if (!script.unread || asked == 20) hear(hostile, &heard);
      if (look_for(&wanted, &heard)) idle = 0;
      if (idle > 1000) usleep(50);
    }
    for (const std::string& text : wanted) ADD_FAILURE() << "not answered: " << text;
    EXPECT_LE(longest_ns_, kTurnNs);
    EXPECT_LE(held_, script.held_bytes_max);
  }
  EXPECT_GE(scripts, 10U);
}

uint64_t hits_of(std::string_view mark) {
  uint64_t hits = 0;
  for (const Mark& each : all_marks()) hits += each.name == mark ? each.hits.load() : 0;
  return hits;
}

// More expensive transactions than the worker has slots: they do not take those of others, and all end.
TEST_F(HostileTest, DearTransactionsLeaveRoom) {
  constexpr size_t kClients = 24;
  constexpr int kCommands = 12;
  const Fd other = connect_to(0);
  ASSERT_EQ(ask(other, "SET mine 1"), "+OK\r\n");
  ASSERT_NO_FATAL_FAILURE(set(other, "a", 4095));
  ASSERT_NO_FATAL_FAILURE(set(other, "b", 4096));
  const uint64_t before = hits_of("a transaction that costs much waits for others");
  std::vector<Fd> hostile;
  std::string commands = "MULTI";
  for (int i = 0; i < kCommands; ++i) commands += "\r\nLCS a b LEN";
  for (size_t i = 0; i < kClients; ++i) {
    hostile.push_back(connect_to(0));
    say(hostile.back(), commands + "\r\nEXEC");
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(turns_until(other, "SET mine 1", "+OK\r\n"), 30);
    EXPECT_LE(turns_until(other, "GET mine", "$1\r\n1\r\n"), 10);
  }
  EXPECT_GT(hits_of("a transaction that costs much waits for others"), before);
  std::vector<std::string> heard(kClients);
  const std::string end = "*12\r\n" + expanded("{:4095\r\n^12}", 0);
  for (int step = 0; step < 20'000; ++step) {
    step_and_look();
    for (size_t i = 0; i < kClients; ++i) hear(hostile[i], &heard[i]);
    if (std::all_of(heard.begin(), heard.end(), [&](const std::string& text) { return text.ends_with(end); })) break;
    if (step > 2000) usleep(50);
  }
  for (const std::string& text : heard) EXPECT_TRUE(text.ends_with(end)) << text;
  EXPECT_LE(longest_ns_, kTurnNs);
}

}  // namespace
}  // namespace weft
