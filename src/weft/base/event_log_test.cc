#include "weft/base/event_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace weft {
namespace {

class FixedClock final : public Clock {
 public:
  uint64_t now_ns() override { return 1'700'000'000'123'000'000U; }
};

// What was written to a pipe.
class LogLines {
 public:
  LogLines() { EXPECT_EQ(pipe2(ends_, O_NONBLOCK | O_CLOEXEC), 0); }
  ~LogLines() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int fd() const { return ends_[1]; }
  std::string take() const {
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = read(ends_[0], buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
    return out;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(EventLog, JsonLines) {
  FixedClock clock;
  LogLines lines;
  EventLog events(lines.fd(), EventLog::form_for(lines.fd()), &clock, 2);
  events.emit(Level::kWarn, "peer_disconnected", {{"peer", 1}, {"why", "a \"broken\"\npipe"}, {"fatal", false}});
  events.emit_of(-1, Level::kInfo, "started", {});
  EXPECT_EQ(
      lines.take(),
      "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warn\",\"node\":2,\"event\":\"peer_disconnected\",\"peer\":1,"
      "\"why\":\"a \\\"broken\\\"\\u000apipe\",\"fatal\":false}\n"
      "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"info\",\"event\":\"started\"}\n");
}

TEST(EventLog, ForPeople) {
  FixedClock clock;
  LogLines lines;
  EventLog events(lines.fd(), EventLog::Form::kPeople, &clock, 0);
  events.emit(Level::kInfo, "view", {{"epoch", 7}, {"members", "0,1,2"}, {"note", "two words"}, {"empty", ""}});
  const std::string line = lines.take();
  EXPECT_NE(line.find(".123 info  node 0: view epoch=7 members=0,1,2 note=\"two words\" empty=\"\"\n"),
            std::string::npos)
      << line;
}

TEST(EventLog, WhateverTheTextItIsJson) {
  FixedClock clock;
  LogLines lines;
  EventLog events(lines.fd(), EventLog::Form::kJson, &clock);
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& text : {all, std::string("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), std::string("\xed\xa0\x80"),
                                  std::string("\xc0\x80"), std::string("\xf4\x90\x80\x80"), std::string("\xe2\x82")}) {
    events.emit(Level::kInfo, "text", {{"text", text}});
    const std::string line = lines.take();
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
  EXPECT_EQ(json_string("\xc3\xa4"), "\"\xc3\xa4\"");
  EXPECT_EQ(json_string("\xe4"), "\"\\u00e4\"");
}

TEST(EventLog, NobodyWaitsForWhoReads) {
  FixedClock clock;
  LogLines lines;
  EventLog events(lines.fd(), EventLog::Form::kJson, &clock);
  const std::string long_text(1000, 'x');
  while (events.dropped() < 3) events.emit(Level::kInfo, "much", {{"text", long_text}});
  EXPECT_TRUE(lines.take().ends_with("\"}\n"));
  events.emit(Level::kInfo, "again");
  EXPECT_NE(lines.take().find("\"event\":\"again\",\"dropped\":3}"), std::string::npos);
  events.emit(Level::kInfo, "again");
  EXPECT_EQ(lines.take().find("dropped"), std::string::npos);
}

TEST(EventLog, ALineHasALimit) {
  FixedClock clock;
  LogLines lines;
  EventLog events(lines.fd(), EventLog::Form::kJson, &clock);
  events.emit(Level::kError, "long", {{"text", std::string(5000, 'x')}});
  const nlohmann::json line = nlohmann::json::parse(lines.take());
  EXPECT_EQ(line["event"], "long");
  EXPECT_EQ(line["too_long"], true);
  EXPECT_GT(line["bytes"], 5000);
}

TEST(EventLog, TheLastAreKept) {
  FixedClock clock;
  EventLog events(-1, EventLog::Form::kJson, &clock);
  for (int i = 0; i < 1000; ++i) events.emit(i % 2 == 0 ? Level::kInfo : Level::kWarn, "n", {{"i", i}});
  const std::vector<LoggedEvent> kept = events.since(0);
  ASSERT_EQ(kept.size(), EventLog::kKept);
  EXPECT_EQ(kept.back().number, 1000U);
  EXPECT_EQ(kept.back().fields[0].json(), "999");
  EXPECT_EQ(events.since(998).size(), 2U);
  EXPECT_TRUE(events.since(1000).empty());
  EXPECT_EQ(events.counts(), (std::array<uint64_t, kLevels>{500, 500, 0}));
}

TEST(EventLog, FromAnyThread) {
  FixedClock clock;
  EventLog events(-1, EventLog::Form::kJson, &clock);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) events.emit(Level::kInfo, "n", {{"i", i}});
      EXPECT_LE(events.since(0).size(), EventLog::kKept);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(events.counts()[0], 4000U);
}

}  // namespace
}  // namespace weft
