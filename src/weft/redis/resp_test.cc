#include "weft/redis/resp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/redis/resp_testing.h"

namespace weft {
namespace {

using Heard = RespHeard;
using Conversation = RespConversation;

Heard heard(std::string_view bytes, const RespLimits& limits = {}) {
  Conversation conversation(limits);
  conversation.hear(bytes);
  return conversation.heard();
}

Heard error(const std::string& text) { return {{}, "Protocol error: " + text}; }

TEST(RespReader, Arrays) {
  EXPECT_EQ(heard("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"), commands({{"GET", "key"}}));
  EXPECT_EQ(heard("*1\r\n$0\r\n\r\n"), commands({{""}}));
  EXPECT_EQ(heard("*1\r\n$5\r\na\r\n\0b\r\n" + std::string()), commands({}));  // the literal ends at its zero
  EXPECT_EQ(heard(std::string_view("*1\r\n$5\r\na\r\n\0b\r\n", 15)), commands({{std::string("a\r\n\0b", 5)}}));
  EXPECT_EQ(heard("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n"), commands({{"PING"}, {"QUIT"}}));
  EXPECT_EQ(heard("*0\r\n*-1\r\n*-5\r\n*1\r\n$4\r\nPING\r\n"), commands({{"PING"}}));
  EXPECT_EQ(heard(""), commands({}));
  EXPECT_EQ(heard("*1\r\n$4\r\nPIN"), commands({}));
}

TEST(RespReader, HotKeyQueues) {
  EXPECT_EQ(heard("PING\r\n"), commands({{"PING"}}));
  EXPECT_EQ(heard("PING\n"), commands({{"PING"}}));
  EXPECT_EQ(heard("\r\n\n  \t\r\nPING\r\n"), commands({{"PING"}}));
  EXPECT_EQ(heard("  set \t key  value \v\f\r\n"), commands({{"set", "key", "value"}}));
  EXPECT_EQ(heard("a\rb\r\n"), commands({{"a", "b"}}));
  EXPECT_EQ(heard("a\vb\r\n"), commands({{"a\vb"}}));
  EXPECT_EQ(heard("PING\r\n*1\r\n$4\r\nECHO\r\nQUIT\r\n"), commands({{"PING"}, {"ECHO"}, {"QUIT"}}));
  EXPECT_EQ(heard("PING"), commands({}));
}

TEST(RespReader, Quotes) {
  EXPECT_EQ(heard(R"(set "a b" 'c d')"
                  "\n"),
            commands({{"set", "a b", "c d"}}));
  EXPECT_EQ(heard(R"("" '')"
                  "\n"),
            commands({{"", ""}}));
  EXPECT_EQ(heard(R"("\n\r\t\b\a\\\"\q\x41\xfF\x4g")"
                  "\n"),
            commands({{"\n\r\t\b\a\\\"qA\xffx4g"}}));
  EXPECT_EQ(heard(R"('\n\'\x41"')"
                  "\n"),
            commands({{R"(\n'\x41")"}}));
  EXPECT_EQ(heard(R"(foo"bar baz" x)"
                  "\n"),
            commands({{"foobar baz", "x"}}));
  EXPECT_EQ(heard("\"a\"\tb\n"), commands({{"a", "b"}}));
  EXPECT_EQ(heard("\"\\x00\"\n"), commands({{std::string("\0", 1)}}));
  for (const char* bad :
       {"\"a", "'a", "\"a\"b", "'a'b", "\"a\"\"b\"", "\"a\\", "\"a\\\"", "'a\\'", "x\"", "\"\\x4\\"}) {
    EXPECT_EQ(heard(std::string(bad) + "\r\n"), error("unbalanced quotes in request")) << bad;
  }
}

TEST(RespReader, ErrorsHaveTheTextsOfRedis) {
  for (const char* count : {"", "x", "1x", "01", "+1", " 1", "1 ", "-", "-0", "9223372036854775808"}) {
    EXPECT_EQ(heard("*" + std::string(count) + "\r\n"), error("invalid multibulk length")) << count;
  }
  for (const char* count : {"", "x", "-1", "03", "18446744073709551616"}) {
    EXPECT_EQ(heard("*1\r\n$" + std::string(count) + "\r\n"), error("invalid bulk length")) << count;
  }
  EXPECT_EQ(heard("*1\r\nx"), error("expected '$', got 'x'"));
  EXPECT_EQ(heard("*1\r\n*1\r\n"), error("expected '$', got '*'"));
  EXPECT_EQ(heard("*1\r\n\r"), error("expected '$', got '?'"));
  EXPECT_EQ(heard("*1\r\n\xff"), error("expected '$', got '?'"));
  EXPECT_EQ(heard(std::string((64 << 10) + 1, 'x')), error("too big inline request: the limit is 65536 bytes"));
  EXPECT_EQ(heard("*" + std::string(64 << 10, '1')), error("too big mbulk count string: the limit is 65536 bytes"));
  EXPECT_EQ(heard("*1\r\n$" + std::string(64 << 10, '1')),
            error("too big bulk count string: the limit is 65536 bytes"));
  EXPECT_EQ(heard(std::string(64 << 10, 'x') + "\n").commands.size(), 1U);
}

TEST(RespReader, ErrorsOfItsOwn) {
  EXPECT_EQ(heard("*1\rx"), error("invalid multibulk length"));
  EXPECT_EQ(heard("*1\r\n$1\rx"), error("invalid bulk length"));
  EXPECT_EQ(heard("*1\r\n$1\r\nabc"), error("a bulk string does not end with \\r\\n"));
  EXPECT_EQ(heard("*1\r\n$1\r\na\rc"), error("a bulk string does not end with \\r\\n"));
}

TEST(RespReader, WhatCameBeforeAnErrorIsGivenOut) {
  const Heard both = heard("PING\r\n*1\r\n$4\r\nECHO\r\n*x\r\nPING\r\n");
  EXPECT_EQ(both, (Heard{{{"PING"}, {"ECHO"}}, "Protocol error: invalid multibulk length"}));
}

TEST(RespReader, Limits) {
  RespLimits limits;
  limits.arguments_max = 3;
  limits.bulk_bytes_max = 10;
  limits.line_bytes_max = 8;
  limits.buffer_bytes_max = 40;
  EXPECT_EQ(heard(array_of({"1", "2", "3"}), limits), commands({{"1", "2", "3"}}));
  EXPECT_EQ(heard("*4\r\n", limits), error("invalid multibulk length: the limit is 3, this is 4"));
  EXPECT_EQ(heard(array_of({"0123456789"}), limits), commands({{"0123456789"}}));
  EXPECT_EQ(heard("*1\r\n$11\r\n", limits), error("invalid bulk length: the limit is 10, this is 11"));
  EXPECT_EQ(heard("12345678\n", limits), commands({{"12345678"}}));
  EXPECT_EQ(heard("123456789\n", limits), error("too big inline request: the limit is 8 bytes"));
  EXPECT_EQ(heard("1 2 3 4\n", limits), error("too big inline request: the limit is 3 arguments, these are 4"));
  const std::string whole = array_of({"0123456789", "012345678"});
  ASSERT_EQ(whole.size(), 36U);
  EXPECT_EQ(heard(whole + whole + whole, limits).commands.size(), 3U);
  const std::string most = array_of({"01234567", "0", "012345678"});
  ASSERT_EQ(most.size(), 40U);
  EXPECT_EQ(heard(most + most, limits).commands.size(), 2U);
  EXPECT_EQ(heard(array_of({"01234567", "01", "012345678"}), limits),
            error("the command is too long: client.query_bytes_max is 40"));
  // A length alone is enough to refuse it, and so is a count that cannot end within the limit.
  EXPECT_EQ(heard("*3\r\n$8\r\n01234567\r\n$2\r\n01\r\n$9\r\n", limits),
            error("the command is too long: client.query_bytes_max is 40"));
  EXPECT_EQ(heard("*3\r\n$10\r\n0123456789\r\n$10\r\n0123456789\r\n$1", limits),
            error("the command is too long: client.query_bytes_max is 40"));
}

// Slow if bytes are scanned or moved repeatedly.
TEST(RespReader, SlowArrivalIsLinear) {
  Conversation conversation;
  const RespCommand large{"SET", std::string(kSanitized ? 1 << 20 : 4 << 20, 'v')};
  const RespCommand many(200'000, "x");
  const std::string line = std::string(60'000, 'l');
  for (const char c : array_of(large) + array_of(many) + line + "\n") conversation.hear({&c, 1});
  EXPECT_EQ(conversation.heard(), commands({large, many, {line}}));
}

TEST(RespReader, AnnouncedLengthsTakeNoMemory) {
  Conversation conversation;
  conversation.hear("*1048576\r\n$536870912\r\nabc");
  EXPECT_LE(conversation.reader().memory_bytes(), 64U << 10);
  EXPECT_EQ(conversation.heard(), commands({}));
}

TEST(RespReader, MemoryStaysWithinItsLimits) {
  RespLimits limits;
  limits.buffer_bytes_max = 100'000;
  limits.arguments_max = 100;
  Conversation conversation(limits);
  const std::string small = array_of({"GET", "key"});
  Random random(4);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = array_of({"SET", std::string(random.below(99'000), 'v')});
    for (uint64_t n = random.below(100); n != 0; --n) bytes += small;
    conversation.hear(bytes, random.between(1, 50'000));
    ASSERT_LE(conversation.reader().memory_bytes(), limits.buffer_bytes_max + 2 * 100 * sizeof(std::string_view));
  }
  EXPECT_EQ(conversation.heard().error, "");
}

TEST(RespReader, NothingIsAllocatedAfterWarmUp) {
  Conversation conversation;
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += array_of({"SET", "key", std::string(100, 'v')}) + "GET key\r\n";
  conversation.hear(bytes);
  const size_t memory = conversation.reader().memory_bytes();
  Random random(5);
  for (int i = 0; i < 100; ++i) {
    for (size_t at = 0; at < bytes.size();) {
      const size_t part = std::min<size_t>(random.between(1, 5000), bytes.size() - at);
      conversation.hear(std::string_view(bytes).substr(at, part));
      ASSERT_EQ(conversation.reader().memory_bytes(), memory);
      at += part;
    }
  }
  EXPECT_EQ(conversation.heard().commands.size(), 101U * 200);
  conversation.reader().shrink();
  EXPECT_EQ(conversation.reader().memory_bytes(), 0U);
  conversation.hear("PING\r\n");
  EXPECT_EQ(conversation.heard().commands.back(), RespCommand{"PING"});
}

TEST(RespReader, ShrinkKeepsWhatIsHalfRead) {
  Conversation conversation;
  conversation.hear(array_of({std::string(1 << 20, 'x')}) + "*2\r\n$3\r\nGET\r\n$3\r\nk");
  conversation.reader().shrink();
  EXPECT_LE(conversation.reader().memory_bytes(), RespReader::kRoomBytes + 1024);
  conversation.hear("ey\r\n");
  EXPECT_EQ(conversation.heard().commands.back(), (RespCommand{"GET", "key"}));
}

std::string written(int version, void (*write)(RespWriter&)) {
  std::string out = "before";
  RespWriter writer(&out);
  EXPECT_EQ(writer.version(), 2);
  writer.set_version(version);
  write(writer);
  EXPECT_TRUE(out.starts_with("before"));
  return out.substr(6);
}

TEST(RespWriter, BothVersions) {
  for (const int version : {2, 3}) {
    EXPECT_EQ(written(version, [](RespWriter& w) { w.simple("OK"); }), "+OK\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.simple(""); }), "+\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.error("ERR a\r\nb"); }), "-ERR a  b\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.integer(0); }), ":0\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.integer(INT64_MIN); }), ":-9223372036854775808\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.integer(INT64_MAX); }), ":9223372036854775807\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.bulk("a\r\nb"); }), "$4\r\na\r\nb\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.bulk(""); }), "$0\r\n\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.array(3); }), "*3\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.array(0); }), "*0\r\n");
  }
}

TEST(RespWriter, WhereTheVersionsDiffer) {
  const auto differs = [](void (*write)(RespWriter&), const std::string& two, const std::string& three) {
    EXPECT_EQ(written(2, write), two);
    EXPECT_EQ(written(3, write), three);
  };
  differs([](RespWriter& w) { w.null(); }, "$-1\r\n", "_\r\n");
  differs([](RespWriter& w) { w.null_array(); }, "*-1\r\n", "_\r\n");
  differs([](RespWriter& w) { w.map(2); }, "*4\r\n", "%2\r\n");
  differs([](RespWriter& w) { w.set(2); }, "*2\r\n", "~2\r\n");
  differs([](RespWriter& w) { w.push(2); }, "*2\r\n", ">2\r\n");
  differs([](RespWriter& w) { w.boolean(true); }, ":1\r\n", "#t\r\n");
  differs([](RespWriter& w) { w.boolean(false); }, ":0\r\n", "#f\r\n");
  differs([](RespWriter& w) { w.real(1.5); }, "$3\r\n1.5\r\n", ",1.5\r\n");
  differs([](RespWriter& w) { w.real(-3); }, "$2\r\n-3\r\n", ",-3\r\n");
  differs([](RespWriter& w) { w.real(0.1); }, "$3\r\n0.1\r\n", ",0.1\r\n");
  differs([](RespWriter& w) { w.real(-INFINITY); }, "$4\r\n-inf\r\n", ",-inf\r\n");
  differs([](RespWriter& w) { w.real(-std::numeric_limits<double>::quiet_NaN()); }, "$3\r\nnan\r\n", ",nan\r\n");
  differs([](RespWriter& w) { w.real(-std::numeric_limits<double>::denorm_min()); }, "$7\r\n-5e-324\r\n",
          ",-5e-324\r\n");
  differs([](RespWriter& w) { w.verbatim("hello"); }, "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n");
}

}  // namespace
}  // namespace weft
